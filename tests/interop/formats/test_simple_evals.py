"""`*_allresults.json` of openai/simple-evals, whose HTML is that of `HTML_JINJA` of common.py."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally


def page(score, gold="4", extracted="4"):
    return (f'<h3>Sampled message</h3>\n<pre>Score: 7</pre>\n<h3>Results</h3>\n'
            f"<p>Correct Answer: {gold}</p>\n<p>Extracted Answer: {extracted}</p>\n"
            f"<p>Score: {score}</p>")  # fmt: skip


def talk(question, *said):
    turns = [{"role": "assistant", "content": text} for text in said]
    return [{"role": "user", "content": question}, *turns]


def results(htmls, convos):
    return {"score": 0.5, "metrics": {"chars": 9.0}, "htmls": htmls, "convos": convos,
            "metadata": {"example_level_metadata": [None] * len(htmls)}}  # fmt: skip


def test_the_score_is_in_the_html_and_equal_questions_are_one(store, counts):
    htmls = [page("1.0"), page("0.0", extracted="&lt;5&gt;"), page("True")]
    convos = [talk("2+2?", "it is 4"), talk("2+2?", "it is <5>"), talk("1+3?", "it is 4")]
    path = store("math_gpt-4o_allresults.json", results(htmls, convos))
    assert list(counts(path).values()) == [(2, 1), (1, 1)]
    tallied, _ = tally(path, texts=True)
    assert tallied.texts == [["it is 4"], ["it is 4"]]


def test_several_completions_have_their_verdicts_among_the_answers(store, counts):
    htmls = [page("0.5", gold="[1, 1]", extracted="[True, False]")]
    path = store("humaneval_m_allresults.json", results(htmls, [talk("def f", "a", "b")]))
    assert list(counts(path).values()) == [(2, 1)]


def test_graded_scores_are_no_verdicts_and_a_missing_one_is_none(store, verdicts):
    convos = [talk("q", "a"), talk("r", "a")]
    with pytest.raises(DataError, match=r"`0\.83`"):
        tally(store("drop_m_allresults.json", results([page("1.0"), page("0.83")], convos)))
    path = store("x_allresults.json", results([page("1.0"), page("None")], convos))
    assert verdicts(path) == [1, -1]


def test_results_and_conversations_are_as_many(store):
    with pytest.raises(DataError, match="1 results and 2 conversations"):
        tally(store("x_allresults.json", results([page("1.0")], [talk("q", "a")] * 2)))
