"""Definitions of every figure of a report: a name, a line, and its source."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Entry:
    """A quantity's name, what it is in one line, and the rest."""

    title: str
    line: str
    more: str = ""


ENTRIES = {
    "pass": Entry(
        "Pass@k",
        "The probability that k of a prompt's completions, drawn at once, include a right one.",
        "1 - C(n-c, k) / C(n, k) with c of n right, exact, then the mean over prompts "
        "(arXiv:2107.03374, eq. 1). Pass@1 is the share of right completions.",
    ),
    "ucc": Entry(
        "UCC@k",
        "The expected number of different right solutions among k of a prompt's completions.",
        "Sum over clusters of 1 - C(n-s, k) / C(n, k), s the size of a cluster (QUATRO, eq. 20). "
        "Right completions are one solution if their TF-IDF cosine reaches {threshold:g}, directly "
        "or through others (single linkage). The paper gives no threshold: the figure depends on "
        "it.",
    ),
    "ucr": Entry(
        "UCR",
        "Different right solutions (clusters) per completion.",
        "Clusters / n of a prompt, then the mean over prompts.",
    ),
    "truncated": Entry(
        "Truncated",
        "The share of completions that the token limit cut off.",
        "Their finish_reason is length. Mean over prompts.",
    ),
    "length": Entry(
        "Length",
        "The mean length of a completion.",
        "In tokens, including the end token; in characters if completions came as text. Mean "
        "over prompts.",
    ),
    "entropy": Entry(
        "Entropy",
        "How uncertain the policy is about a completion's next token, in nats.",
        "From the policy's distribution at the sampling temperature: the mean over a prompt's "
        "tokens, then over prompts.",
    ),
    "interval": Entry(
        "Interval",
        "[low, high] contains the mean over all such prompts in about 95 of 100 cases.",
        "Over prompts, because completions of one prompt are not independent. For Pass@k and "
        "truncated by "
        "Gaffke's bounds, which for values of 0 and 1 are Clopper and Pearson's and of pairs "
        "McNemar's exact test. For other metrics by the expanded percentile bootstrap "
        "(arXiv:1411.5279), if 10 prompts or more differ from the commonest value. Differences are "
        "paired: the same prompts on both sides; those of other metrics by Student's t. A "
        "difference is better, worse or changed if its interval excludes 0; with several "
        "comparisons, if it passes Holm's correction. Each interval is 95% on its own.",
    ),
    "flips": Entry(
        "Flips",
        "Prompts never right before but right at least once after (gained), or the reverse (lost).",
        "Buckets by the share of right completions before: up to 1/32 very hard, 1/8 hard, 1/2 "
        "medium, above easy (QUATRO, appendix C: 8, 32, 128 of 256). A bucket is chosen by the "
        "completions before, which includes luck: without any training the hardest bucket would "
        "rise a "
        "little and the easiest fall.",
    ),
    "signal": Entry(
        "Groups that carry signal",
        "Groups with both right and wrong completions; the others have no advantage to learn from.",
        "A group is the completions of one prompt in one step. For graded rewards: groups whose "
        "rewards differ.",
    ),
    "spread": Entry(
        "Prompts by share right",
        "The number of prompts by their share of right completions.",
        "At both ends a group gives no signal.",
    ),
    "clusters": Entry(
        "Solutions",
        "Right completions that count as one; a cluster is shown by its first completion.",
        "See UCC@k for how they are joined.",
    ),
    "reward": Entry("Training reward", "The mean reward of a step's completions."),
    "correct": Entry(
        "Correct in training",
        "The share of right completions among a step's completions with a verdict.",
    ),
    "train_entropy": Entry(
        "Entropy in training",
        "The mean entropy of the tokens of a step's first mini-batch, in nats.",
    ),
    "kl_start": Entry(
        "Divergence from the start",
        "The mean of log-prob now minus log-prob at step 0, over held-out completions, in nats per "
        "token.",
        "The k1 estimate of KL(now || start).",
    ),
    "kl_step": Entry(
        "Divergence of one step",
        "KL(old || new) of a step's last update by the k3 estimate, in nats per token.",
    ),
    "grad_norm": Entry("Gradient norm", "Before clipping, the mean over a step's updates."),
    "clip": Entry(
        "Clipped tokens",
        "The share of trained tokens whose importance ratio is beyond the clip bounds.",
        "Objectives without a clip have none.",
    ),
    "clamp": Entry(
        "Clamped tokens",
        "The number of trained tokens whose log importance ratio is beyond 20 nats and is "
        "clamped to stay finite.",
        "With a ratio over whole completions, as in quatro, all tokens of those completions.",
    ),
    "status": Entry(
        "Status",
        "The verifier's outcome for each completion.",
        "ok and no_answer have a reward; a fault of the verifier (timeout, oom, error, bad_gold) "
        "has none and is excluded, never counted as wrong.",
    ),
}


def entries(threshold: float) -> dict[str, Entry]:
    """All entries, with the threshold of UCC@k written out."""
    shown = f"{threshold:g}"
    return {
        key: replace(entry, more=entry.more.replace("{threshold:g}", shown))
        for key, entry in ENTRIES.items()
    }


def of_metric(name: str) -> str:
    """The entry of a metric's name, as in `pass@8`."""
    return {"avg@k": "pass", "clusters": "ucc"}.get(name, name.partition("@")[0])
