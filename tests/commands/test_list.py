import json

import pytest

from rlvr_cli import benchmarks, registry, run_config, templates
from rlvr_cli.algorithms import objective
from rlvr_cli.terminal import results

FOLDERS = (
    *("objectives", "modifiers", "recipes", "verifiers", "rollout", "training", "tasks"),
    *("layouts", "similarities", "formats", "trackers", "templates"),
    "benchmarks",
)


@pytest.fixture
def terminal(monkeypatch):
    """Makes the output that of a terminal of some width."""

    def make(width, **environment):
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("FORCE_COLOR", "1")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return make


def test_every_folder_is_listed(rlvr):
    ran = rlvr("list")
    assert ran.code == 0 and ran.err == ""
    assert [line for line in ran.out.splitlines() if line in FOLDERS] == [*FOLDERS]


@pytest.mark.parametrize("folder", ["objectives", "modifiers"])
def test_one_folder_shows_every_option_with_its_default(rlvr, folder):
    lines = rlvr("list", folder).out.splitlines()
    assert lines[0] == folder
    shown = {line.strip() for line in lines}
    for name in registry.names(folder):
        spec = registry.canonical(folder, name)
        assert spec in shown or spec == name


def test_the_values_that_an_option_may_take_are_shown(rlvr):
    out = rlvr("list", "objectives").out
    assert "choices: exponent=exponential|linear fss=full|mean|inverse-std bounds=upper|both" in out


def test_an_entry_that_is_named_shows_its_equation_and_what_its_options_do(rlvr):
    lines = rlvr("list", "objectives", "quatro").out.splitlines()
    assert lines[1].split()[0] == "quatro" and lines[2].strip().startswith("quatro:delta=0.1,")
    assert lines[3].strip() == "choices: ratio=sequence|length-normalized"
    assert "    L = -1/N sum_i rho_i (A_i - sg(log rho_i))" in "\n".join(lines)
    assert any("`max_gap` bounds (R_max - R_min) / lam" in line for line in lines)
    assert not any(line != line.rstrip() for line in lines)
    assert "sum_i rho_i" not in rlvr("list", "objectives").out
    listed = json.loads(rlvr("list", "objectives", "quatro", "--json").out)["lists"]
    assert "KL(softmax(R / lam) || uniform) = delta" in listed["objectives"]["quatro"]["text"]


@pytest.mark.parametrize("folder", [f for f in FOLDERS if f not in ("recipes", "benchmarks")])
def test_every_entry_can_be_named(rlvr, folder):
    names = templates.names() if folder == "templates" else registry.names(folder)
    for name in names:
        ran = rlvr("list", folder, name)
        assert ran.code == 0 and ran.out.splitlines()[1].split()[0] == name


def test_recipes_show_their_first_line_and_their_objective(rlvr):
    lines = [line.strip() for line in rlvr("list", "recipes").out.splitlines()]
    assert len(lines) == 1 + 2 * len(run_config.recipes())
    (summary, *_), recipe = run_config.recipe("apo")
    at = lines.index(recipe.train.algo)
    assert lines[at - 1].split(maxsplit=1) == ["apo", summary]


def test_json_is_one_object_of_all_there_is(rlvr):
    summary = json.loads(rlvr("list", "--json").out)["lists"]
    assert tuple(summary) == FOLDERS
    assert all(entry["summary"] for entries in summary.values() for entry in entries.values())
    assert tuple(summary["recipes"]) == tuple(run_config.recipes())


def test_json_has_defaults_and_choices_with_their_types(rlvr):
    lists = json.loads(rlvr("list", "objectives", "--json").out)["lists"]
    options = lists["objectives"]["quatro"]["options"]
    assert options["delta"] == {"default": 0.1}
    assert options["detach"] == {"default": True}
    assert options["ratio"]["choices"] == ["sequence", "length-normalized"]
    assert options["ratio"]["default"] == "sequence"


def test_json_has_a_recipe_whole(rlvr):
    summary = json.loads(rlvr("list", "recipes", "--json").out)["lists"]["recipes"]["apmpo"]
    assert summary["options"]["rollout"]["num_generations"] == 8
    assert summary["options"]["train_step"]["learning_rate"] == 1e-6
    assert objective.canonical(summary["spec"]).startswith("apmpo:gamma=0.8,clip_low=0.2,e_min=0.2")
    assert "Evaluation: `rlvr rollout -n 16 --temperature 0.6`" in summary["notes"]


def test_what_a_pipe_gets_is_not_folded(rlvr, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = rlvr("list").out.splitlines()
    recipes = len(run_config.recipes())
    others = [f for f in FOLDERS if f not in ("recipes", "templates", "benchmarks")]
    files = len(templates.names()) + len(benchmarks.names())
    entries = recipes + files + sum(len(registry.names(f)) for f in others)
    assert len(lines) == len(FOLDERS) + entries
    assert sum(line.startswith("  ") for line in lines) == entries


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("folder", ["objectives", "modifiers", "recipes"])
def test_a_terminal_gets_lines_of_its_width(rlvr, terminal, width, folder):
    terminal(width, NO_COLOR="1", TERM="dumb")
    lines = rlvr("list", folder).out.splitlines()
    assert max(map(len, lines)) <= width
    indent = lines[1].index(lines[1].split()[1])
    names = [line.split()[0] for line in lines[1:] if line[2] != " "]
    known = run_config.recipes() if folder == "recipes" else registry.names(folder)
    assert names == known
    assert all(line[2] != " " or line[:indent].isspace() for line in lines[1:])


@pytest.mark.parametrize("width", [1, 20, 60, 1000])
def test_folding_loses_nothing_and_breaks_where_it_may(width):
    text = "kl:beta=0.001,estimator=k1|k2|k3+entropy of REINFORCE++ and a_word_that_stays_whole"
    lines = results.folded(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(len(line) <= width or not set(" ,|") & set(line.rstrip(",|")) for line in lines)


def test_a_modifier_starts_its_line():
    assert results.folded("grpo:eps=1,ddof=1+kl+iac:alpha=1", 12) == [
        "grpo:eps=1,",
        "ddof=1+kl",
        "+iac:alpha=1",
    ]


@pytest.mark.parametrize("folder", ["recipe", "objective"])
def test_an_unknown_list_is_answered_with_those_there_are(refused, folder):
    err = refused(2, "list", folder)
    assert f"no list of `{folder}`" in err and "objectives, modifiers, recipes, verifiers" in err


def test_a_template_is_shown_with_its_text(rlvr, refused):
    listed = rlvr("list", "templates").out.splitlines()
    assert [line.split()[0] for line in listed[1:]] == templates.names()
    assert "\\boxed{}" in rlvr("list", "templates", "boxed-answer").out
    assert "did you mean" in refused(2, "list", "templates", "boxed-answers")
