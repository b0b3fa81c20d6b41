"""The verdicts, the page, and that every claim can be tried."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.lab import check, ledger, markdown
from rlvr_cli.lab.ledger import Claim, ClaimResult, Lab

YES, NO = check.exact("yes", 1.0, above=0.0), check.exact("no", -1.0, above=0.0)
OPEN = check.mean("open", [-1.0, 1.0], above=0.0)
ROOT = Path(__file__).parents[2]
CLAIM = Claim("X1", "sec. 1", "It does", "a test", lambda lab: [YES])
OURS = Claim("X2", "ours, of sec. 1", "It does so twice", "a test", lambda lab: [YES])


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ((YES, YES), "holds"),
        ((YES, OPEN), "holds in part"),
        ((YES, NO), "holds in part"),
        ((NO, OPEN), "does not hold"),
        ((OPEN, OPEN), "cannot be tested here"),
        ((), "cannot be tested here"),
    ],
)
def test_a_claim_holds_only_if_every_check_does(checks, verdict):
    assert ClaimResult(CLAIM, checks).verdict == verdict


def test_a_claim_that_names_no_learning_rate_says_at_which_it_holds():
    def checks(rate):
        yes = check.exact("large", rate, above=0.5)
        return [yes, check.exact("larger", rate, above=2.0)]

    made = ClaimResult(CLAIM, tuple(check.at_each((0.1, 1.0, 3.0), checks)))
    assert made.rates == ([0.1, 1.0, 3.0], [3.0], [1.0]) and made.verdict == "holds in part"
    assert [c.statement for c in made.checks][:2] == ["large, rate 0.1", "larger, rate 0.1"]
    assert "Learning rates 0.1, 1, 3; it holds at: 3; in part 1." in markdown.entry(made)
    assert ClaimResult(CLAIM, (YES, NO)).rates == ([], [], [])
    assert "rates" not in markdown.entry(ClaimResult(CLAIM, (YES, NO)))


def test_runs_of_the_swept_learning_rates_are_made_together_and_once():
    lab = Lab(2)
    _, first = lab.classes("grpo", 2, 0.1)
    _, other = lab.classes("grpo", 2, 10.0)
    assert lab.classes("grpo", 2, 0.1)[1] is first and lab.classes("grpo", 2, 10.0)[1] is other
    assert len(lab._runs) == len(ledger.RATES)


def test_there_are_claims_of_five_papers_each_with_a_key_and_a_test_or_a_reason():
    papers = ledger.papers()
    claims = [claim for _, group in papers.values() for claim in group]
    assert len(papers) == 5 and len(claims) >= 40
    assert max(Counter(claim.key for claim in claims).values()) == 1
    for claim in claims:
        assert claim.source and claim.statement and claim.test
        assert claim.checks is not None or claim.why
    assert [claim.key for claim in claims if claim.ours] == ["S10", "S11", "T15", "T16"]


def test_claims_without_chance_are_tried():
    made = ledger.tested("apmpo", 2, only=["P1", "P2", "P3", "P5", "P12"])
    assert [[c.state for c in found[ledger.BUILT_IN]] for found in made.values()] == [
        ["holds"], ["holds"], ["fails"], ["holds"] * 3, [],
    ]  # fmt: skip
    (found,) = ledger.tested("quatro", 2, only=["Q1"]).values()
    assert [c.state for c in found[ledger.BUILT_IN]] == ["holds"] * 3


def test_a_claim_of_a_small_system_is_tried_with_few_seeds():
    checks = ledger.tested("iac-dlc", 6, only=["S18"])["S18"][ledger.BUILT_IN]
    assert [c.state for c in checks if c.rate == 1] == ["holds"] * 3 and checks[0].n == 6
    assert {c.rate for c in checks} == set(ledger.RATES)


def rows(tmp_path, *values):
    lines = [
        {"spec": spec, "options": [], "seed": seed, "metrics": {"pass@1": [0.3, value]}}
        for spec, given in values for seed, value in enumerate(given)
    ]  # fmt: skip
    path = tmp_path / "figures.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_language_models_are_compared_seed_by_seed(tmp_path):
    path = rows(tmp_path, ("grpo", (0.5, 0.6, 0.7)), ("apo", (0.52, 0.62, 0.721)))
    lab = Lab(2, ledger.figures_of([path])[ledger.BUILT_IN])
    (made,) = lab.better("points", "apo", "grpo", "pass@1")
    assert made.mean == pytest.approx(2.0333, abs=1e-3) and made.state == "holds" and made.n == 3
    assert lab.better("points", "apo", "dapo", "pass@1") == []
    (some,) = ledger.paired("x", [{0: 5.0, 2: 7.0, 3: 1.0}, {2: 4.0, 1: 0.0, 0: 3.0}], [1, -1])
    assert some.mean == 2.5 and some.n == 2  # seeds 0 and 2 are in both
    assert set(lab.language("grpo", "pass@1", at_start=True).values()) == {30.0}
    assert lab.language("grpo", "pass@1", "--epochs", "5") == {}


def test_figures_that_cannot_be_read_are_an_error(tmp_path):
    (tmp_path / "bad").write_text("{")
    for name in ("bad", "absent"):
        with pytest.raises(DataError, match=name):
            ledger.figures_of([tmp_path / name])


def test_other_models_are_judged_on_the_claims_about_language_models(tmp_path):
    path = rows(tmp_path, ("grpo", (0.5, 0.6)), ("apo", (0.52, 0.62)))
    other = [json.loads(line) | {"model": "other"} for line in path.read_text().splitlines()]
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(row) + "\n" for row in other[:3]))
    figures = ledger.figures_of([path, tmp_path / "o.jsonl"])
    assert {name: len(found) for name, found in figures.items()} == {"": 4, "other": 3}
    found = ledger.tested("apo", 2, figures, ["A10", "A5"])
    assert [len(checks) for checks in found["A10"].values()] == [1, 0]  # one seed is no interval
    assert list(found["A5"]) == [ledger.BUILT_IN]


def test_the_page_counts_and_shows_every_check():
    beside = ClaimResult(CLAIM, (YES, OPEN), {"a model": (OPEN,), "another": ()})
    group = [beside, ClaimResult(CLAIM, ()), ClaimResult(OURS, (YES,))]
    found = {"x": ("A paper", group)}
    page = markdown.page(found, seeds=7, command="rlvr lab claims")
    assert "2 claims: 0 hold, 1 holds in part, 0 do not hold, 1 cannot be tested here" in page
    assert "Not counted: questions of ours, which no paper claims (X2)." in page
    assert "| | claim | here | at rates | a model | another |\n|---|---|---|---|---|---|" in page
    assert "| [X1](#x1) | It does | holds in part |  | cannot be tested here |  |" in page
    assert "| [X2](#x2) | It does so twice | holds |  |  |  |" in page
    assert "| yes | 1 | above 0 |  | yes |" in page and "| undecided |" in page
    assert "- a model and another: the same checks" in page
    assert "a model: **cannot be tested here**.\n\n| check |" in page and "another: **" not in page


def test_the_page_in_docs_is_of_these_claims_and_figures():
    page = (ROOT / "docs/claims.md").read_text()
    files = [ROOT / "docs/head-to-head.jsonl", ROOT / "docs/head-to-head-lm.jsonl"]
    figures = ledger.figures_of(files)
    claims = [claim for _, group in ledger.papers().values() for claim in group]
    assert re.findall(r"^### (\w+)$", page, re.M) == [claim.key for claim in claims]
    labs = {model: Lab(2, rows) for model, rows in figures.items()}
    for claim in claims:
        if claim.checks is None or claim.of_language:
            checked = {m: tuple(claim.checks(lab)) for m, lab in labs.items() if claim.checks}
            here = checked.pop(ledger.BUILT_IN, ())
            assert markdown.entry(ClaimResult(claim, here, checked)) in page
        else:  # trained anew by `rlvr lab claims` alone
            assert f"### {claim.key}\n\n**{claim.statement}** ({claim.source}): " in page
            assert f"\nTest: {claim.test}.\n" in page and claim.why in page


def test_the_docs_count_the_verdicts_of_the_page():
    page = (ROOT / "docs/claims.md").read_text()
    found = r"(\d+) claims: (\d+) hold, (\d+) hold in part, (\d+) do not hold, (\d+)"
    counts = re.search(found, page)
    words = "of {} claims {} hold at this scale, {} in part, {} do not, and {} cannot be tested"
    assert words.format(*counts.groups()) in (ROOT / "docs/lab.md").read_text()
