"""What each column of each shard kind means; types and units are in `schema`.

The meanings are kept out of the Arrow schema: what that holds is written into every part.
"""

from dataclasses import dataclass

_KEY = {
    "prompt_id": "the prompt's id, unique in its prompts directory",
    "sample_index": "the completion's number among those of its prompt, from 0",
}
_INPUT = {
    "input": "which rollouts directory the row comes from, counted from 0 in the order of the "
    "manifest's `parents`; present only with several"
}
_OF_A_POLICY = "one value per token of `token_ids`, at the sampling temperature"

WRITERS = {  # the commands that write a kind
    "prompts": ("prompts", "import", "train"),
    "images": ("prompts", "import", "train"),
    "rollouts": ("rollout", "import", "train"),
    "scores": ("score", "import", "train"),
    "logprobs": ("logprob", "train"),
    "advantages": ("advantage", "train"),
    "steps": ("train-step", "memory-step", "train"),
    "metrics": ("eval-passk", "ucc", "diversity", "coverage"),
    "trajectories": ("lab figures", "lab sharpening", "lab squeeze", "lab two-stage"),
    "checks": ("lab squeeze",),
}
ROWS = {  # what one row of a kind is, and in which order the rows come
    "prompts": "One row per prompt.",
    "images": "One row per image, each image once, in the order in which prompts first use them. "
    "The directory is `images` inside that of the prompts, and exists only if a prompt has "
    "images.",
    "rollouts": "One row per completion; those of one prompt are consecutive. The kinds computed "
    "from them have the same rows in the same order. Output computed from several directories "
    "has their parts one after the other.",
    "scores": "One row per completion, as in the rollouts.",
    "logprobs": "One row per completion, as in the rollouts. A directory has the columns that were "
    "requested (`--columns`).",
    "advantages": "One row per completion, as in the scores.",
    "steps": "One row per optimizer update. The updated policy is in the folder `_checkpoint`.",
    "metrics": "One row per prompt; the means over prompts are in the manifest's `summary`.",
    "trajectories": "One row for each run, seed and recorded step.",
    "checks": "One row per check of an identity.",
}
MEANING: dict[str, dict[str, str]] = {
    "prompts": {
        "prompt_id": _KEY["prompt_id"],
        "messages": "the prompt unchanged: messages, or text, which becomes a user turn for a "
        "policy with a chat template and is otherwise continued. The content of a turn with "
        "images is a list "
        'of parts, `{"type": "text", "text": ...}` and `{"type": "image", "image": SHA256}`',
        "answer": "the gold answer that the verifier compares with; null if the prompt has none",
        "verifier": "the verifier of this prompt, as in `math:percent=strict`; if null, name one "
        "with "
        "`rlvr score --verifier`",
        "source": "the data set, file or task that the prompt comes from",
        "extra": "the source's other columns, for verifiers that read them",
        "raw": "whether the text is continued as it is even by a policy with a chat template, as "
        "for built-in tasks; null in directories of earlier versions, where it is true for "
        "prompts of a task",
        "images": "the images of the messages, in order; null if there are none; present only if a "
        "prompt has images",
    },
    "images": {
        "sha256": "the digest by which the messages of prompts refer to the image",
        "bytes": "the image file: unchanged if it is one plain frame in RGB or grey, else "
        "converted to PNG",
        "format": "its format",
        "width": "its width",
        "height": "its height",
    },
    "rollouts": {
        **_KEY,
        "prompt_token_ids": "the prompt as the policy saw it; empty if completions were imported "
        "as text",
        "completion": "the completion's text, without special tokens, and without what its last "
        "token adds after a stop string",
        "token_ids": "the completion's tokens, with the end-of-sequence token if it ended by "
        "itself; null if completions were imported as text",
        "behaviour_logp": "log-prob of each token in the distribution that it was sampled from: "
        "after temperature, top-k, top-p and DLC; null for imported completions unless their "
        "file has log-probs",
        "policy_logp": "with DLC: log-prob of each token under the policy without the memory "
        "model; present only with DLC",
        "finish_reason": "`stop`: it ended by itself or at a stop string, `length`: it was cut off "
        "at the limit, `abort`: it was not sampled; null for imported completions if unknown",
        "status": "`ok`, or what happened to the prompt: `prompt_truncated` and `prompt_too_long` "
        "come from `--overlong`",
        "seed": "seed of the row: a hash of the run's seed, the step, the prompt's id and the "
        "sample's index; null for imported completions",
        "policy": "identity of the weights it was sampled from; null for imported completions",
    },
    "scores": {
        **_KEY,
        **_INPUT,
        "reward": "the reward; null if there is none: see `status`",
        "correct": "whether the answer is right; null if unknown",
        "extracted": "the answer that the verifier read in the completion; null if there is none",
        "reason": "why there is no answer, why the gold cannot be read, what failed, or what a "
        "judge wrote; null if there is nothing to say, and in scores of earlier versions",
        "status": "`ok` and `no_answer` have a reward. The others have none: `timeout`, `oom`, "
        "`error` and `bad_gold` are faults of the verifier, `skipped`: the function does not judge "
        "this completion, `aborted`: it was not sampled",
    },
    "logprobs": {
        **_KEY,
        **_INPUT,
        "old_logp": f"log-prob under the policy, {_OF_A_POLICY}",
        "ref_logp": f"log-prob under the reference policy, {_OF_A_POLICY}",
        "entropy": f"entropy of the policy's distribution over the next token, {_OF_A_POLICY}",
        "max_prob": f"the policy's largest probability, {_OF_A_POLICY}",
        "collision": "the sum of the policy's squared next-token probabilities, "
        f"{_OF_A_POLICY}; present only if `--columns` names it or the objective reads it, as `otb` "
        "does",
        "ref_topk_ids": "ids of the reference policy's likeliest tokens at each position",
        "ref_topk_logp": "their log-probs under the reference policy",
    },
    "advantages": {
        **_KEY,
        **_INPUT,
        "advantage": "the advantage by the objective's estimator; null without a reward, 0 if all "
        "rewards of the group are equal and the estimator is relative to the group "
        "(`reinforce-pp` subtracts the batch mean from that 0)",
        "keep": "whether the row is trained on; false without a reward",
        "group_size": "completions of the prompt that have a reward",
        "group_mean": "mean of their rewards; null if none has one",
        "group_std": "standard deviation of their rewards; exactly 0 if all are equal: such a "
        "group is not `informative`; null if none has a reward",
    },
    "steps": {
        "epoch": "pass over the rollout batch, from 0",
        "mini_batch": "number of the mini-batch in its epoch, from 0",
        "loss": "the objective's loss of the mini-batch, before the update",
        "grad_norm": "norm of its gradient, before clipping",
        "learning_rate": "learning rate of the update, by the schedule",
        "entropy": "mean entropy of the policy over the trained tokens, before the update",
        "clip_fraction": "share of tokens whose importance ratio is beyond the clip, on the side "
        "that is clipped, or whose gradient a trust region removes; 0 for an objective with "
        "neither",
        "clamp_count": "tokens whose log importance ratio is clamped to stay finite; with `quatro` "
        "all tokens of a completion whose ratio is clamped",
        "ratio_mean": "mean importance ratio over the trained tokens; 1 without drift",
        "ratio_min": "the smallest importance ratio",
        "ratio_max": "the largest importance ratio",
        "kl": "divergence of the policy from the old policy: mean of r - 1 - log r with r the "
        "ratio of the new policy's probability to the old one's, before the update",
        "sequences": "completions in the mini-batch",
        "tokens": "trained tokens in the mini-batch",
        "sampler_gap": "largest difference between the log-prob of the rollout engine and that of "
        "the trainer; null if they are not compared",
    },
    "trajectories": {
        "run": "the run's name: its algorithm and settings",
        "seed": "number of the policy, from 0",
        "step": "when the probabilities were recorded",
    },
    "checks": {
        "about": "the lemma or equation being checked",
        "check": "what is claimed about the number",
        "state": "`holds` if the whole interval is within the bounds, `fails` if all of it is "
        "outside on one side, else `open`",
        "n": "how many values the number is computed from",
        "mean": "the number",
        "low": "lower end of its 99% interval",
        "high": "upper end of its 99% interval",
        "above": "the number must be above this; minus infinity means no bound",
        "below": "the number must be below this; infinity means no bound",
    },
    "metrics": {
        "prompt_id": _KEY["prompt_id"],
        "source": "the data set that the prompt comes from; null if unknown",
        "n": "completions with a verdict; for `coverage`: tokens of the solution; for `diversity`: "
        "completions",
        "correct": "correct ones among them; for `coverage`: tokens among the largest top k",
        "excluded": "completions without a verdict, which are left out",
    },
}


@dataclass(frozen=True)
class Extra:
    """A nullable float64 column that a directory has in addition to those of its kind."""

    meaning: str
    writer: str  # what makes it: an objective or modifier, a verifier or a command
    unit: str = ""


EXTRA: dict[str, dict[str, Extra]] = {
    "scores": {
        "reward_NAME": Extra(
            "the reward of one part of a sum, before its weight, as in `reward_math`; a second "
            "part by the same verifier is `reward_math_2`",
            "`--verifier 0.9*math+0.1*format`",
        ),
    },
    "advantages": {
        "lam": Extra("the prompt's multiplier of the trust region", "`quatro`"),
        "mu": Extra("the prompt's multiplier of the normalisation", "`quatro`"),
        "achieved_kl": Extra(
            "divergence of the trust region's optimum from the old policy", "`quatro`", "nats"
        ),
        "floored": Extra("1 if `lam` is at its floor and `delta` cannot be reached", "`quatro`"),
        "power": Extra("exponent p of the power mean", "`apmpo`"),
        "clip_low": Extra("clip below 1, a distance", "`apmpo`"),
        "clip_high": Extra("clip above 1, a distance", "`apmpo`"),
        "kl_in_reward": Extra(
            "what the divergence from the reference policy subtracts from the reward",
            "`+kl-in-reward`, where it charges completions",
        ),
        "overlong": Extra("what the length penalty adds to the reward, at most 0", "`+overlong`"),
    },
    "steps": {
        "anchor_flat": Extra(
            "share of the tokens with a negative advantage whose gain is flat because of the "
            "anchor alone",
            "`apo`, `+anchor`",
        ),
        "cov_clipped": Extra(
            "share of trained tokens that give no gain, because the covariance of their log-prob "
            "and advantage is large",
            "`+clip-cov`",
        ),
        "cov_penalised": Extra(
            "share of trained tokens that are penalised, because the covariance of their log-prob "
            "and advantage is among the largest",
            "`+kl-cov`",
        ),
        "top_entropy": Extra(
            "share of trained tokens that give a gain, because their entropy before the update is "
            "among the highest",
            "`+top-entropy`",
        ),
        "correction_cut": Extra(
            "share of trained tokens whose correction weight is capped", "`+is-correction`"
        ),
        "correction_lost": Extra(
            "share of trained tokens whose correction weight is below 0.01, or 0",
            "`+is-correction`",
        ),
        "rejected": Extra(
            "share of trained tokens that are dropped because of the gap to the sampler",
            "`+reject`",
        ),
        "off_policy_masked": Extra(
            "share of the tokens with a negative advantage that are dropped, because the policy "
            "has moved away from their completions",
            "`+off-policy-mask`",
        ),
    },
    "metrics": {
        "pass@K": Extra("Pass@k of the prompt", "`eval-passk`"),
        "avg@k": Extra("share of correct completions of the prompt", "`eval-passk`"),
        "maj@K": Extra("chance that the commonest answer of k is correct", "`eval-passk`"),
        "ucc@K": Extra("expected number of clusters of correct completions among k", "`ucc`"),
        "clusters": Extra("clusters of correct completions", "`ucc`"),
        "ucr": Extra("clusters per completion", "`ucc`"),
        "NAME at T": Extra("the same at each of several thresholds", "`ucc --threshold`"),
        "1 - self-bleu": Extra("1 minus the mean BLEU-4 against the others", "`diversity`"),
        "distinct-N": Extra("share of n-grams that are different", "`diversity`"),
        "answer entropy": Extra("entropy of the extracted answers", "`diversity`", "nats"),
        "NAME similarity": Extra("mean similarity of pairs", "`diversity --similarity`"),
        "length": Extra(
            "mean length of a completion", "`diversity`", "tokens, or words and symbols"
        ),
        "length std": Extra(
            "its standard deviation, ddof 1", "`diversity`", "tokens, or words and symbols"
        ),
        "truncated": Extra("share of completions cut off at the length limit", "`diversity`"),
        "token entropy": Extra("mean entropy of the tokens", "`diversity --logprobs`", "nats"),
        "max-prob": Extra("mean largest probability", "`diversity --logprobs`", "probability"),
        "top-K": Extra("share of the solution's tokens among the k likeliest", "`coverage`"),
    },
    "trajectories": {
        "QUERY_ACTION": Extra(
            "the policy's probability of an action for a query, as in `persian_cat`",
            "`lab sharpening`",
            "probability",
        ),
        "ACTION": Extra(
            "the same if the system has one query, as in `a1`", "`lab two-stage`", "probability"
        ),
    },
}

MANIFEST = {  # the keys of `_manifest.json`
    "kind": "shard kind, as in `rollouts`",
    "schema_version": "version of the kinds' columns",
    "stage": "the command that wrote it",
    "params": "all options that affect the content, with the values used",
    "parents": "the input directories: for each kind its `path`, relative to this directory, and "
    "its `digest`; for several of one kind a list, in the given order",
    "extra": "names of columns beyond those of the kind",
    "only": "names of the value columns if a directory does not have all columns of its kind; else "
    "null",
    "fingerprint": "sha256 of kind, stage, params, the parents' digests, number of parts and "
    "columns; a directory with a different one is not resumed",
    "digest": "sha256 of the fingerprint and of all parts' sha256: identifies the content",
    "paths": "where the policies were, relative to this directory",
    "versions": "versions of Python and of the libraries that wrote it",
    "planned_parts": "number of parts of the complete directory",
    "parts": "for each part its `name`, number of `rows` and `sha256`",
    "summary": "counts and means over the directory: [metrics](metrics.md)",
    "sha256": "checksum of the manifest without this key, its keys sorted",
}
METADATA = {  # the keys of a part's own metadata, JSON under the key `rlvr`
    "part": "number of the part, from 0",
    "parts": "number of parts of the directory",
    "parents": "the digest of each parent; for several of one kind a list",
}
