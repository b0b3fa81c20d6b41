"""Prompts as the policy sees them, with a tokenizer that begins each text with <s>.

The templates are small ones that do what those of public models do.
"""

import json

import pytest
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from rlvr_cli import templates
from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.models import chat, policy, prompt_options

SPECIAL = ["<s>", "</s>", "<|u|>", "<|a|>", "<|sys|>", "<|end|>"]
PLAIN = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ {'user': '<|u|>', 'assistant': '<|a|>', 'system': '<|sys|>', 'tool': '<|u|>'}[m.role] "
    "+ m.content + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|a|>{% endif %}"
)
LIKE_QWEN3 = PLAIN.replace(
    "<|a|>{% endif %}",
    "<|a|>{% if enable_thinking is defined and enable_thinking is false %}"
    "{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}",
)
LIKE_LLAMA = (
    "{% if not date_string is defined %}{% if strftime_now is defined %}"
    "{% set date_string = strftime_now('%d %b %Y') %}{% else %}"
    "{% set date_string = '26 Jul 2024' %}{% endif %}{% endif %}"
    "{% if messages[0].role == 'system' %}{% set said = messages[0].content | trim %}"
    "{% set messages = messages[1:] %}{% else %}{% set said = '' %}{% endif %}"
    "{{ bos_token }}<|sys|>Date: {{ date_string }}. {{ said }}<|end|>"
    "{% for m in messages %}<|u|>{{ m.content | trim }}<|end|>{% endfor %}<|a|>"
)
LIKE_GEMMA = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}" + PLAIN
)
LIKE_MISTRAL = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}"
    "{% endif %}{% endfor %}" + PLAIN
)
LIKE_R1 = PLAIN.replace("<|a|>{% endif %}", "<|a|>{{ '<think>\\n' }}{% endif %}")
GENERATION = PLAIN.replace("{% if add", "{% generation %}{% endgeneration %}{% if add")


def made(template):
    """A tokenizer of characters that puts <s> before every text, as Llama's and Gemma's do."""
    core = Tokenizer.from_file(str(policy.resolve("builtin").path / "tokenizer.json"))
    core.add_special_tokens(SPECIAL)
    core.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", core.token_to_id("<s>"))]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=SPECIAL[2:],
    )  # fmt: skip
    tokenizer.chat_template = template
    return tokenizer


def seen(chat_template, prompt, /, *, raw=False, **options):
    """The text that the policy sees, special tokens included."""
    tokenizer = made(chat_template)
    encoder = chat.Encoder(tokenizer, RolloutOptions(**options))
    token_ids = encoder.encode("a", json.dumps(prompt), raw=raw)
    return tokenizer.decode(token_ids, skip_special_tokens=False)


def user(text):
    return {"role": "user", "content": text}


@pytest.mark.parametrize("prompt", ["1+1?", [user("1+1?")]])
def test_a_question_is_a_users_turn_and_begins_with_one_bos(prompt):
    assert seen(PLAIN, prompt) == "<s><|u|>1+1?<|end|><|a|>"


@pytest.mark.parametrize(
    "options", [{"chat": False}, {"raw": True}, {"template": '"{{ question }}"', "raw": True}]
)
def test_raw_text_stays_as_it_is_with_the_tokenizers_bos(options):
    assert seen(PLAIN, "1+1=", **options) == "<s>1+1="


def test_text_that_has_a_bos_of_its_own_gets_no_second_one_unless_a_directory_was_begun_so():
    assert seen(PLAIN, "<s>1+1=", chat=False) == "<s>1+1="
    tokenizer = made(PLAIN)
    before = chat.Encoder(tokenizer, as_before=True).encode("a", '"<s>1+1="')
    assert before == tokenizer("<s>1+1=")["input_ids"] and before[:2] == [before[0]] * 2


def test_a_policy_without_a_chat_template_continues_text():
    assert seen(None, "1+1=") == "<s>1+1="
    with pytest.raises(DataError, match="prompt `a` is a list of messages"):
        seen(None, [user("1+1?")])


def test_a_rendered_chat_is_not_put_into_the_template_again():
    with pytest.raises(DataError, match="`a` begins with `<\\|u\\|>`") as refused:
        seen(PLAIN, "<|u|>1+1?<|end|><|a|>")
    assert "--no-chat" in refused.value.hint
    assert seen(PLAIN, "<|u|>1+1?<|a|>", chat=False) == "<s><|u|>1+1?<|a|>"


def test_system_prefix_template_and_suffix_stand_where_they_belong():
    options = {
        "system": "s", "prefix": '"q0 a0\\n"', "template": '"Q: {{ question }}"', "suffix": " !",
    }  # fmt: skip
    wanted = "<s><|sys|>s<|end|><|u|>q0 a0\nQ: 1+1? !<|end|><|a|>"
    assert seen(PLAIN, "1+1?", **options) == wanted
    assert seen(PLAIN, [user("1+1?")], **options) == wanted
    del options["system"]
    assert seen(PLAIN, "1+1?", raw=True, **options) == "<s>q0 a0\nQ: 1+1? !"


def test_of_a_longer_chat_the_last_question_alone_is_worded():
    turns = [user("1+1?"), {"role": "assistant", "content": "2"}, user("2+2?")]
    assert seen(PLAIN, turns, suffix="!") == (
        "<s><|u|>1+1?<|end|><|a|>2<|end|><|u|>2+2?!<|end|><|a|>"
    )


def test_enable_thinking_reaches_the_template():
    options = {"chat_template_kwargs": "enable_thinking=false"}
    assert seen(LIKE_QWEN3, "1+1?", **options).endswith("<|a|><think>\n\n</think>\n\n")
    options["chat_template_kwargs"] = "enable_thinking=true"
    assert seen(LIKE_QWEN3, "1+1?", **options).endswith("<|a|>")
    assert seen(LIKE_R1, "1+1?").endswith("<|a|><think>\n")


def test_a_date_in_a_template_is_the_same_on_every_day():
    assert "Date: 26 Jul 2024. <|end|>" in seen(LIKE_LLAMA, "1+1?")
    kwargs = {"chat_template_kwargs": "strftime_now=2025-03-01"}
    assert "Date: 01 Mar 2025. s<|end|>" in seen(LIKE_LLAMA, "1+1?", system="s", **kwargs)
    kwargs = {"chat_template_kwargs": "date_string=today"}
    assert "Date: today." in seen(LIKE_LLAMA, "1+1?", **kwargs)
    with pytest.raises(UsageError, match="sets strftime_now to `monday`"):
        seen(LIKE_LLAMA, "1+1?", chat_template_kwargs="strftime_now=monday")


def test_a_date_is_written_in_any_form_and_nothing_else_of_the_template_changes():
    template = (
        "\n  {% set form = '%A %-d %B, %Y' %}\n{{ strftime_now(form) }}|{{ messages[0].content }}"
    )
    kwargs = {"chat_template_kwargs": "strftime_now=2025-03-01"}
    assert seen(template, "1+1?", **kwargs) == "\nSaturday 1 March, 2025|1+1?"


def test_what_a_template_refuses_is_said_in_its_words_with_the_turns():
    assert seen(LIKE_GEMMA, "1+1?") == seen(PLAIN, "1+1?")
    with pytest.raises(DataError, match="turns are system, user: System role not supp") as refused:
        seen(LIKE_GEMMA, "1+1?", system="s")
    assert "--prefix" in refused.value.hint
    with pytest.raises(DataError, match="turns are user, user: Conversation roles must alternate"):
        seen(LIKE_MISTRAL, [user("1+1?"), user("2+2?")])


def test_a_chat_template_file_takes_the_place_of_the_policys(tmp_path):
    (tmp_path / "mine.jinja").write_text("<|u|>{{ messages[0].content }}<|a|>\n")
    options = {"template": str(tmp_path / "mine.jinja")}
    assert seen(PLAIN, "1+1?", **options) == "<|u|>1+1?<|a|>"
    assert seen(None, "1+1?", **options) == "<|u|>1+1?<|a|>"


def test_a_template_with_the_tag_of_transformers_is_read_too():
    assert seen(GENERATION, "1+1?", system="s").endswith("<|u|>1+1?<|end|><|a|>")


def test_messages_that_end_with_the_answer_are_refused():
    turns = [user("1+1?"), {"role": "assistant", "content": "2"}]
    for options in ({}, {"chat": False}):
        with pytest.raises(DataError, match="would see the answer") as refused:
            seen(PLAIN, turns, **options)
        assert "--drop-answer-turn" in refused.value.hint


@pytest.mark.parametrize(
    ("template", "options", "what"),
    [
        (None, {"system": "s"}, "the policy has no chat template"),
        (PLAIN, {"system": "s", "chat": False}, "--no-chat: there is no system turn"),
        (None, {"chat_template_kwargs": "a=1"}, "the policy has no chat template"),
        (PLAIN, {"chat_template_kwargs": "enable_thinking=false"}, "not read `enable_thinking`"),
        (PLAIN, {"chat_template_kwargs": "add_generation_prompt=false"}, "which rlvr sets"),
        (PLAIN, {"chat_template_kwargs": "a"}, "--chat-template-kwargs is `a`"),
        (PLAIN, {"template": "boxed"}, "`boxed` is neither a built-in template nor a file"),
        (PLAIN, {"template": '"Answer:"'}, "the template of --template reads nothing"),
        (PLAIN, {"template": '"{{ question"'}, "a template is not Jinja"),
        (PLAIN, {"template": '"{{ question.a.b }}"'}, "the template of --template fails"),
        (PLAIN, {"prefix": "nowhere.txt"}, "cannot read `nowhere.txt` of --prefix"),
        (PLAIN, {"suffix": "\\n\\nThink."}, "a backslash and an n"),
        (PLAIN, {"stop": "\\n\\n"}, "a backslash and an n"),
        (PLAIN, {"suffix": '"a" b'}, "follows the end of a value"),
    ],
)
def test_options_that_make_no_sense_are_refused(template, options, what):
    with pytest.raises(UserError, match=what) as refused:
        seen(template, "1+1?", **options)
    assert refused.value.hint


def test_the_hint_on_a_line_feed_spelled_out_works_when_pasted():
    with pytest.raises(UsageError) as refused:
        seen(PLAIN, "1+1?", suffix="\\n\\nThink.")
    pasted = refused.value.hint.partition("--suffix ")[2].strip("'")
    assert seen(PLAIN, "1+1?", suffix=pasted) == "<s><|u|>1+1?\n\nThink.<|end|><|a|>"
    assert "\\neq" in seen(PLAIN, "1+1?", suffix=" \\neq 3")


def test_a_system_turn_is_not_put_before_another():
    with pytest.raises(DataError, match="prompt `a` has a system turn of its own"):
        seen(PLAIN, [{"role": "system", "content": "t"}, user("1+1?")], system="s")


def test_of_a_long_chat_the_question_is_cut_and_the_template_stays():
    encoder = chat.Encoder(made(PLAIN), RolloutOptions(system="sys", suffix=" why?"))
    decode = made(PLAIN).decode
    long = json.dumps("".join(map(str, range(300))))
    token_ids = encoder.fitted("a", long, 40)
    assert len(token_ids) == 40
    text = decode(token_ids, skip_special_tokens=False)
    assert text.startswith("<s><|sys|>sys<|end|><|u|>") and text.endswith("299 why?<|end|><|a|>")
    with pytest.raises(DataError, match="no room for its question"):
        encoder.fitted("a", long, 10)
    raw = encoder.fitted("a", long, 40, raw=True)
    assert decode(raw, skip_special_tokens=False).endswith("299 why?") and len(raw) == 40


def test_a_preview_shows_special_tokens_and_control_characters():
    encoder = chat.Encoder(made(PLAIN), RolloutOptions())
    row = {"prompt_id": "a", "messages": json.dumps("1\x1b[2J"), "raw": False}
    head, text = encoder.preview(row).split("\n", 1)
    assert head.startswith("prompt `a` as the policy sees it, ") and "\x1b" not in text
    assert text.startswith("<s><|u|>1")


def test_what_the_options_do_to_the_prompts_is_said():
    def said(template, texts, raws, **options):
        encoder = chat.Encoder(made(template), RolloutOptions(**options))
        return " / ".join(encoder.remarks(list(map(json.dumps, texts)), raws))

    assert "2 questions in plain text: each becomes a user turn" in said(
        PLAIN, ["a", "b", "c"], [False, False, True]
    )
    assert said(PLAIN, ["a"], [True]) == said(None, ["a"], [False]) == ""
    assert said(PLAIN, [[user("a")]], [False]) == ""
    assert said(PLAIN, ["a"], [False], chat=False) == ""
    assert "strftime_now=YYYY-MM-DD" in said(LIKE_LLAMA, ["a"], [True])
    assert 'a completion also ends at "\\n" or "Q:"' in said(None, ["a"], [0], stop='["\\n","Q:"]')
    assert said(PLAIN, ["a", [user("b")]], [True, False], system="s") == ""
    with pytest.raises(UsageError, match="the prompts are raw text"):
        said(PLAIN, ["a"], [True], system="s")


def test_the_options_are_written_in_one_way_with_the_content_of_their_files(tmp_path):
    (tmp_path / "few.txt").write_text("q0 a0\n\n")
    given = RolloutOptions(
        prefix=str(tmp_path / "few.txt"), template="boxed-answer", system='"s"', stop='["\\n"]',
        chat_template_kwargs="b=1, a=x",
    )  # fmt: skip
    options = prompt_options.resolved(given)
    assert (options.prefix, options.system, options.stop) == ('"q0 a0\\n\\n"', "s", "\n")
    assert options.chat_template_kwargs == "a=x,b=1"
    assert "\\\\boxed" in options.template and options.template.startswith('"')
    assert prompt_options.resolved(options) == options


@pytest.mark.parametrize("name", templates.names())
def test_a_built_in_template_holds_the_question_and_says_what_it_is(name):
    source = templates.path(name).read_text()
    assert source.startswith("{#- ") and "1+1?" in seen(PLAIN, "1+1?", template=name)


def test_many_prompts_are_encoded_as_each_of_them_is():
    turns = json.dumps([{"role": "user", "content": "2 + 2?"}])
    prompts = [
        ("a", '"1 + 1?"', False),
        ("b", '"<s> 1 + 1 ="', True),
        ("c", turns, False),
        ("d", '"3 + 3?"', False),
    ]
    encoder = chat.Encoder(made(PLAIN), RolloutOptions())
    expected = [encoder.encode(name, text, raw=raw) for name, text, raw in prompts]
    assert encoder.encode_all(prompts) == expected
    assert encoder.encode_all([]) == []
