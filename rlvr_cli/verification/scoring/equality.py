"""Which answers a verifier holds equal, by verifying one with another as its gold."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rlvr_cli.protocols import Verdict

ANSWERS_AT_ONCE = 8192  # of several prompts, so that no worker waits
FAULTS_AT_MOST = 2  # of the comparisons of an answer, after which it is compared no more


@dataclass(frozen=True)
class Pair:
    """An answer to verify against another one of the same prompt, by its place."""

    prompt: int
    gold: str
    answer: str


@dataclass
class Classes:
    """The votes of each class of answers, under its first one's name, and what finding them took.

    An answer is `unreadable` if the verifier can read it as no gold or as no answer; a comparison
    has `failed` if the verifier took too long, too much memory or broke. Both leave an answer
    apart from those that it was compared with.
    """

    votes: list[dict[str, int]]
    comparisons: int = 0
    unreadable: int = 0
    failed: Counter[str] = field(default_factory=Counter)


def classes(
    votes: Sequence[Mapping[str, int]],
    ask: Callable[[list[Pair]], list[Verdict]],
    on_done: Callable[[int], None] = lambda count: None,
) -> Classes:
    """The answers of each prompt with those equal to an earlier one counted as that one.

    Answers are taken by their votes, most first, then by their text, so that the order of
    completions does not count. Each is compared with the first of each class before it, as its
    gold, until one is equal: where a verifier's equality is not transitive, the more frequent
    answer decides. That is at most answers times classes comparisons a prompt, and each pair once.
    `on_done` is called with the number of answers that got their class.
    """
    result = Classes([dict(counts) if len(counts) < 2 else {} for counts in votes])
    on_done(sum(map(len, result.votes)))
    for batch in _batches(votes):
        waiting = {p: sorted(votes[p], key=lambda a: (-votes[p][a], a)) for p in batch}
        faults: Counter[tuple[int, str]] = Counter()
        while waiting := {p: answers for p, answers in waiting.items() if answers}:
            before = sum(map(len, waiting.values()))
            firsts = {p: answers.pop(0) for p, answers in waiting.items()}
            for p, first in firsts.items():
                result.votes[p][first] = votes[p][first]
            pairs = [Pair(p, firsts[p], a) for p, answers in waiting.items() for a in answers]
            verdicts = zip(pairs, ask(pairs) if pairs else [], strict=True)
            placed = _placed(verdicts, result, votes, faults)
            for p, answers in waiting.items():
                waiting[p] = [a for a in answers if (p, a) not in placed]
            on_done(before - sum(map(len, waiting.values())))
    return result


def _placed(
    verdicts: Iterator[tuple[Pair, Verdict]],
    result: Classes,
    votes: Sequence[Mapping[str, int]],
    faults: Counter[tuple[int, str]],
) -> set[tuple[int, str]]:
    """The answers that have their class now: equal to the first of one, or compared no more."""
    placed, bad_golds = set(), set()
    for pair, verdict in verdicts:
        key, classes = (pair.prompt, pair.answer), result.votes[pair.prompt]
        result.comparisons += 1
        if verdict.status == "ok":
            if verdict.correct:
                classes[pair.gold] += votes[pair.prompt][pair.answer]
                placed.add(key)
            continue
        if verdict.status == "bad_gold":
            bad_golds.add((pair.prompt, pair.gold))
            continue
        if verdict.status == "no_answer":
            result.unreadable += 1
        else:
            result.failed[verdict.status] += 1
            faults[key] += 1
        if verdict.status == "no_answer" or faults[key] == FAULTS_AT_MOST:
            classes[pair.answer] = votes[pair.prompt][pair.answer]
            placed.add(key)
    result.unreadable += len(bad_golds)
    return placed


def _batches(votes: Sequence[Mapping[str, int]]) -> Iterator[list[int]]:
    """The prompts with several answers, as many at once as have ANSWERS_AT_ONCE of them."""
    batch: list[int] = []
    answers = 0
    for p, counts in enumerate(votes):
        if len(counts) < 2:
            continue
        batch.append(p)
        answers += len(counts)
        if answers >= ANSWERS_AT_ONCE:
            yield batch
            batch, answers = [], 0
    if batch:
        yield batch
