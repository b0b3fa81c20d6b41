import shutil

import pytest

from rlvr_cli.viewer.pieces import LOGP

TEXTS = {
    "a": [("one", True), ("two", False), ("three", False)],
    "b": [("four", False), ("five", None), ("six", True)],
    "c": [("seven", False), ("eight", False), ("nine", False)],
}


def test_it_opens_at_the_first_completion(view, imported):
    async def act(screen):
        assert screen.key == ("a", 0)
        assert screen.text("#list").split() == ["a", "1/3", "b", "1/2", "c", "0/3"]
        assert "a?" in screen.text("#text") and screen.text("#text").endswith("one")
        facts = screen.text("#facts")
        assert "sample 0 of 3  ✓ right  reward 1" in facts and "gold gold" in facts
        assert facts.splitlines()[-1] == "✓✗✗"

    view(imported(TEXTS), act)


# Keys, and the completion they lead to from the first with no filter.
PATHS = [
    ("down", ("b", 0)),
    ("down down down down", ("c", 0)),
    ("up", ("a", 0)),
    ("right", ("a", 1)),
    ("right right right right", ("a", 2)),
    ("right left", ("a", 0)),
    ("right down", ("b", 0)),
    ("n n n", ("b", 0)),
    ("n n n n N", ("b", 0)),
    ("end", ("c", 0)),
    ("end home", ("a", 0)),
    ("j l h k", ("a", 0)),
    ("v down", ("b", 2)),
    ("v v right", ("a", 2)),
    ("v v v", ("b", 1)),
    ("v v v v", ("b", 1)),
    ("v v v x up", ("a", 0)),
    ("s n", ("b", 1)),
    ("t", ("a", 0)),
]


@pytest.mark.slow
def test_keys_move_among_what_the_filters_pass(view, imported):
    async def act(screen):
        for keys, key in PATHS:
            await screen.press("x", "home", *keys.split())
            assert screen.key == key, keys

    view(imported(TEXTS), act)


@pytest.mark.slow
def test_a_search_finds_completions_prompts_and_golds_in_either_case(view, imported):
    async def act(screen):
        found = (("EIGHT", "1 completion"), ("c?", "3 completions"), ("gold", "9 completions"))
        for text, rows in (*found, ("i", "4 completions")):
            await screen.press("x")
            await screen.type(text)
            assert f"{rows}: “{text}”" in screen.text("#top"), text
        await screen.press("v", "v")
        assert "2 completions: wrong, “i”" in screen.text("#top")

    view(imported(TEXTS), act)


@pytest.mark.slow
def test_what_was_found_is_turned_over(view, imported):
    async def act(screen):
        await screen.type("ight")
        assert [text for text, style in screen.styles("#text") if style.reverse] == ["ight"]

    view(imported(TEXTS), act)


def test_a_search_without_a_match_changes_nothing_and_says_so(view, imported):
    async def act(screen):
        await screen.press("down")
        await screen.type("zzz")
        assert screen.key == ("b", 0) and "9 completions  " in screen.text("#top")
        assert screen.said == ["no completion is “zzz”"]

    view(imported(TEXTS), act)


def test_letters_typed_into_a_search_are_no_commands(view, imported):
    async def act(screen):
        await screen.press("slash", "q", "v", "n", "escape", "down")
        assert screen.key == ("b", 0) and "9 completions  " in screen.text("#top")

    view(imported(TEXTS), act)


def test_truncated_completions_can_be_kept_alone(view, imported):
    async def act(screen):
        await screen.press("t")
        assert "9 completions: truncated" in screen.text("#top")

    view(imported(TEXTS, finish_reason="length"), act)


def test_tokens_are_coloured_and_make_up_the_completion(view, chain, rlvr, tmp_path):
    copy = shutil.copytree(chain, tmp_path / "copy")
    assert rlvr("logprob", copy / "rollouts", "--model=builtin").code == 0

    async def act(screen):
        plain = screen.text("#text")
        await screen.press("c")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        coloured = screen.text("#text")
        assert coloured.startswith(plain)  # and then the end-of-sequence token
        grounds = {s.bgcolor.name for _, s in screen.styles("#text") if s and s.bgcolor}
        assert grounds & set(LOGP) and "log-prob:" in screen.text("#legend")
        await screen.press("c")
        assert "entropy:" in screen.text("#legend")
        await screen.press("c")
        assert not screen.app.query_one("#legend").display and screen.text("#text") == plain

    view(copy, act)


def test_text_without_tokens_cannot_be_coloured_and_says_why(view, imported):
    async def act(screen):
        await screen.press("c")
        assert screen.said == ["no log-probs of these tokens: `rlvr logprob` computes them"]

    view(imported(TEXTS), act)


def test_the_advantage_is_shown(view, chain):
    async def act(screen):
        assert "advantage " in screen.text("#facts")

    view(chain / "advantages", act)


def test_rollouts_alone_can_be_read(view, copy):
    shutil.rmtree(copy / "scores"), shutil.rmtree(copy / "advantages")

    async def act(screen):
        assert "? no verdict" in screen.text("#facts") and screen.text("#list").split()[1] == "4"
        await screen.press("v", "v")
        assert "24 completions" in screen.text("#top")

    view(copy, act)


@pytest.mark.slow
def test_brackets_walk_through_the_evaluations_of_a_run(view, trained, tmp_path):
    out = shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(out / "steps" / "000001" / "update")

    async def act(screen):
        assert screen.text("#top").endswith("eval/000002")
        await screen.press("down", "right", "c")
        await screen.app.workers.wait_for_complete()
        key = screen.key
        await screen.press("left_square_bracket")  # its policy is no longer there
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert screen.text("#top").endswith("eval/000001") and screen.key == key
        assert "log-prob:" in screen.text("#legend")
        await screen.press("left_square_bracket", "left_square_bracket")
        assert screen.text("#top").endswith("eval/000000")
        assert screen.app._notifications and screen.key == key

    view(out, act)


def test_hostile_text_reaches_no_terminal(view, imported):
    hostile = "\x1b[2J\x1b]0;title\x07[bold]no markup[/bold] \u202e\x00 \x9b31m"
    texts = {hostile: [(hostile, True), (hostile + "2", False)]}

    async def act(screen):
        shown = [screen.text(name) for name in ("#top", "#list", "#facts", "#text")]
        seen = shown[3].replace("\n", "")
        assert "␛[2J␛]0;title␇[bold]no markup[/bold] ⟨U+202E⟩␀" in seen and "⟨U+009B⟩31m" in seen
        await screen.type("[2J")
        assert not {c for text in shown for c in text} & set("\x1b\x07\x00\x9b\u202e")

    view(imported(texts), act)


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (20, 6), (200, 60)])
def test_long_and_wide_texts_fit_any_terminal(view, imported, size):
    texts = {"漢" * 40: [("漢字 " * 500, True), ("x" * 100_000, False), ("a\tb\n" * 2000, False)]}

    async def act(screen):
        for _ in range(3):
            pane = screen.app.query_one("#text-0")
            lines = [pane.render_line(y) for y in range(pane.size.height)]
            assert {line.cell_length for line in lines} == {pane.size.width}
            await screen.press("space", "space", "b", "right")
        assert screen.key[1] == 2

    view(imported(texts), act, size=size)


def test_the_help_opens_and_closes(view, imported):
    async def act(screen):
        await screen.press("question_mark")
        assert type(screen.app.screen).__name__ == "Help"
        await screen.press("escape", "down")
        assert screen.key == ("b", 0)

    view(imported(TEXTS), act)


def test_a_click_chooses_a_prompt(view, imported):
    async def act(screen):
        await screen.pilot.click("#list", offset=(3, 2))
        await screen.pilot.pause()
        assert screen.key == ("c", 0)

    view(imported(TEXTS), act)


ROWS = [
    {"id": name, "prompt": f"{name}?", "answer": "gold", "completion": text, "correct": correct}
    for name, texts in TEXTS.items() for text, correct in texts
]  # fmt: skip
OTHER = [dict(row, correct=row["id"] == "b", completion=row["completion"] + "!") for row in ROWS]


def test_a_file_of_another_tool_is_read_as_it_lies_there(view, jsonl):
    async def act(screen):
        assert screen.text("#list").split() == ["a", "1/3", "b", "1/2", "c", "0/3"]
        assert screen.text("#text") == "── prompt ──\na?\n\n── completion ──\none"
        assert "gold gold" in screen.text("#facts") and "3 characters" in screen.text("#facts")
        assert "so far" not in screen.text("#top")

    view(jsonl(*ROWS), act)


def test_o_sorts_and_capital_o_turns_the_order_round(view, jsonl):
    async def act(screen):
        await screen.press("o")
        assert "by pass rate ↑" in screen.text("#top") and screen.key == ("c", 0)
        await screen.press("O")
        assert "by pass rate ↓" in screen.text("#top") and screen.key == ("b", 0)

    view(jsonl(*ROWS), act)


@pytest.mark.slow
def test_a_colon_goes_to_a_prompt_and_says_if_there_is_none(view, jsonl):
    async def act(screen):
        await screen.ask("colon", "#3")
        assert screen.key == ("c", 0)
        await screen.ask("colon", "B")
        assert screen.key == ("b", 0)
        await screen.ask("colon", "nope")
        assert screen.key == ("b", 0) and screen.said == ["no prompt has the id or number nope"]

    view(jsonl(*ROWS), act)


def test_two_runs_stand_side_by_side(view, jsonl):
    async def act(screen):
        assert screen.text("#list").split() == [
            "a",
            "1/3",
            "0/3",
            "b",
            "1/2",
            "3/3",
            "c",
            "0/3",
            "0/3",
        ]
        assert screen.text("#heading-0").split()[:2] == ["A", "1/3"]
        assert screen.text("#heading-1").split()[:4] == ["B", "0/3", "-33", "points"]
        assert screen.text("#text-0").endswith("one") and screen.text("#text-1").endswith("one!")
        await screen.press("tab", "right")
        assert screen.text("#text-0").endswith("one") and screen.text("#text-1").endswith("two!")
        await screen.press("o", "O")
        assert "by difference ↓" in screen.text("#top") and screen.key[0] == "b"

    view([jsonl(*ROWS), jsonl(*OTHER, name="other.jsonl")], act, size=(120, 24))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "first", "after_p"),
    [(120, [True, True, True], [False, True, True]),
     (80, [False, True, True], [True, False, False]),
     (40, [False, True, False], [True, False, False])],
)  # fmt: skip
def test_two_runs_fit_any_width_and_p_shows_the_list(view, jsonl, width, first, after_p):
    async def act(screen):
        def seen():
            return [screen.is_shown(name) for name in ("#list", "#text-0", "#text-1")]

        assert seen() == first
        await screen.press("p")
        assert seen() == after_p
        await screen.press("p", "tab")
        assert seen() == (first if width > 60 else [False, False, True])

    view([jsonl(*ROWS), jsonl(*OTHER, name="other.jsonl")], act, size=(width, 24))


@pytest.mark.slow
def test_the_same_id_with_another_prompt_is_called_so(view, jsonl):
    other = [row | {"prompt": "something else"} for row in OTHER]

    async def act(screen):
        assert screen.said == ["3 prompts have the same id and another text or gold"]
        assert "another text or gold!" in screen.text("#heading-1")
        assert "points" not in screen.text("#heading-1")

    view([jsonl(*ROWS), jsonl(*other, name="other.jsonl")], act, size=(120, 24))


def test_a_directory_and_a_file_of_the_same_rows_are_the_same_prompts(view, imported, jsonl):
    folder = imported(TEXTS)

    async def act(screen):
        assert screen.said == [] and screen.text("#heading-1").split()[2:4] == ["+0", "points"]
        assert screen.text("#text-0") == screen.text("#text-1")

    view([folder, jsonl(*ROWS, name="same.jsonl")], act, size=(120, 24))


@pytest.mark.slow
def test_what_cannot_be_read_later_is_said_and_the_rows_before_stay(view, jsonl):
    path = jsonl(*ROWS * 40)
    with path.open("a") as file:
        file.write("{broken\n")

    async def act(screen):
        assert "completions before an error" in screen.text("#top")
        assert "line 361 is not JSON" in screen.said[0]
        (side,) = screen.app._sides
        assert side.failure is not None and len(side.index) == 256

    view(path, act)


@pytest.mark.parametrize("key", ["c", "o", "m", "s", "t", "v", "p", "tab", "left_square_bracket"])
@pytest.mark.slow
def test_every_key_is_safe_where_nothing_is_known(view, jsonl, key):
    async def act(screen):
        await screen.press(*[key] * 9)
        assert screen.key == ("a", 0)

    view(jsonl({"id": "a"}, {"id": "b", "completion": None}), act)


@pytest.mark.slow
def test_content_parts_are_shown_as_text(view, jsonl):
    parts = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "u"}}]
    row = {**ROWS[0], "prompt": [{"role": "user", "content": parts}]}

    async def act(screen):
        assert screen.text("#text").splitlines()[:3] == ["── user ──", "one", "[image_url u]"]

    view(jsonl(row), act)


@pytest.mark.slow
def test_prompts_with_letters_of_any_alphabet_are_found(view, imported):
    async def act(screen):
        await screen.type("é?")
        assert "prompt 1 of 1" in screen.text("#top") and screen.key == ("É", 0)

    view(imported({"a": [("x", True)], "É": [("y", True)]}), act)


def test_no_color_leaves_letters_in_the_terminals_own_colour(view, jsonl, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    async def act(screen):
        styles = {(s.color, s.bgcolor) for _, s in screen.styles("#text")}
        drawn = [s.style for strip in screen.app.screen._compositor.render_strips() for s in strip]
        colours = {c.name for s in drawn if s for c in (s.color, s.bgcolor) if c}
        assert colours <= {"default"} and len(styles) >= 1
        await screen.press("c")
        assert screen.said == ["NO_COLOR is set, so tokens have no colours"]

    view(jsonl(*ROWS), act)


@pytest.mark.slow
def test_a_filter_that_can_be_no_other_is_said_once(view, jsonl):
    async def act(screen):
        await screen.press("v")
        assert screen.said == [] and "1 completion: no verdict" in screen.text("#top")
        await screen.press("t", "s")
        assert screen.said == ["no other status is among these completions"]

    view(jsonl({"id": "a", "completion": "x"}), act)


@pytest.mark.slow
def test_a_long_gold_shows_its_end_above_and_itself_below(view, jsonl):
    gold = "First they sell\nthen they buy\n#### 57,500"

    async def act(screen):
        assert screen.text("#facts").splitlines()[1].endswith("#### 57,500")
        assert screen.text("#text").endswith("── gold ──\n" + gold)

    view(jsonl({"id": "a", "completion": "x", "answer": gold}), act)


@pytest.mark.slow
def test_the_title_counts_the_completions_of_the_prompts_that_are_shown(view, jsonl):
    async def act(screen):
        await screen.press("m")
        assert "prompt 1 of 2, 6 completions: partly right" in screen.text("#top")

    view(jsonl(*ROWS), act)


@pytest.mark.slow
def test_the_list_shows_mean_rewards_where_there_are_no_verdicts(view, jsonl):
    rewards = {"a": [0.25, 0.5], "b": [1, 1]}
    rows = [
        {"id": i, "completion": "x", "reward": r} for i, found in rewards.items() for r in found
    ]

    async def act(screen):
        assert screen.text("#list").split() == ["a", "0.38", "b", "1.00"]

    view(jsonl(*rows), act)


@pytest.mark.parametrize("keys", [["q"], ["ctrl+c"], ["slash", "ctrl+c"]])
@pytest.mark.slow
def test_it_is_left_by_q_or_control_c(view, jsonl, keys):
    async def act(screen):
        await screen.pilot.press(*keys)
        assert screen.app._exit

    view(jsonl(*ROWS), act)
