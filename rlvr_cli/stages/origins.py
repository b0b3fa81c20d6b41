"""Which policies sampled what an update trains on, and whether its policy may be another one."""

from collections import Counter
from collections.abc import Iterator

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import policy as policies, tokenizers
from rlvr_cli.models.policy import Policy
from rlvr_cli.storage.shards import Shards

_ROWS_READ = 8  # of each input, to see whether its tokens are the policy's


def check(rollouts: Shards, policy: Policy, *, off_policy: bool) -> None:
    """Refuses completions of another policy than the one to train, unless that is allowed.

    Of imported ones nothing says which policy sampled them: alone they are taken for the policy's
    own, together with others they are not.
    """
    for one in rollouts.inputs:
        policies.refuse_served(one)
    for one in () if off_policy else rollouts.inputs:
        sampled = one.params.get("policy")
        if sampled is None and len(rollouts.inputs) > 1:
            raise UsageError(
                f"`{one.path}` does not say which policy it was sampled from",
                "train on it together with others with --off-policy",
            )
        if sampled not in (None, policy.digest):
            raise UsageError(
                f"`{one.path}` was sampled from another policy than `{policy.name}`",
                "name that policy with --model, or allow it with --off-policy",
            )


def require_tokenizer(rollouts: Shards, policy: Policy) -> None:
    """An error if the token ids of another policy's completions are not their text for this one."""
    others = [one for one in rollouts.inputs if _tokenized_by(one) not in (None, policy.digest)]
    if not others:
        return
    tokenizer = tokenizers.load(policy)
    for one in others:
        has_texts_tokens = one.params.get("policy") is None and "logprobs" not in one.params
        table = one.part(0, ["token_ids", "completion"]).slice(0, _ROWS_READ)
        for token_ids, text in zip(*(c.to_pylist() for c in table.columns), strict=True):
            if token_ids is None:
                continue
            if has_texts_tokens:
                own = tokenizer(text, add_special_tokens=False)["input_ids"]
                is_same = token_ids[: len(own)] == own and len(token_ids) <= len(own) + 1
            else:  # a sampler's; text of the last token after a stop string is left out
                is_same = tokenizer.decode(token_ids, skip_special_tokens=True).startswith(text)
            if not is_same:
                raise DataError(
                    f"`{one.path}` has other tokens than `{policy.name}`: its ids do not stand for "
                    "their texts there",
                    "train a policy with that tokenizer, or write the texts with `rlvr export` and "
                    "import them with `rlvr import --model`, which gives them this policy's tokens",
                )


def _tokenized_by(rollouts: Shards) -> str | None:
    """The digest of the policy whose tokenizer gave the ids; None where that is not known."""
    digest: str | None = rollouts.params.get("policy") or rollouts.params.get("tokenizer")
    return digest


def remarks(
    rollouts: Shards, policy: Policy, objective: Objective, options: UpdateOptions
) -> Iterator[str]:
    """Remarks on completions that are trained on twice, or whose sampler is not corrected for.

    That is completions of other policies, which count as the policy's own.
    """
    times = Counter(one.digest for one in rollouts.inputs)
    for one in {one.digest: one for one in rollouts.inputs if times[one.digest] > 1}.values():
        yield (
            f"the completions of `{one.path}` are trained on {times[one.digest]} times, by the "
            "advantages of each input"
        )
    if "behaviour_logp" in objective.needs or options.old_logprobs == "rollout":
        return
    sampled = [(one.params.get("policy"), one) for one in rollouts.inputs]
    if others := [one for digest, one in sampled if digest not in (None, policy.digest)]:
        yield (
            f"{_named(others)} sampled from another policy than `{policy.name}`, and this "
            "objective does not correct for that: importance ratios begin at 1; with "
            "`+is-correction` after the algorithm of `rlvr advantage`, tokens are weighted by "
            "pi_old / pi_behaviour"
        )
    imported = [one for one in rollouts.inputs if one.manifest["stage"] == "import"]
    if known := [one for one in imported if "logprobs" in one.params]:
        yield (
            f"{_named(known)} imported with the sampler's log-probs, which this "
            f"objective does not read: tokens count as if `{policy.name}` had sampled them; with "
            "`+is-correction` after the algorithm of `rlvr advantage`, they are weighted by "
            "pi_old / pi_behaviour"
        )
    if unknown := [one for one in imported if "logprobs" not in one.params]:
        yield (
            f"{_named(unknown)} imported without the sampler's log-probs: tokens "
            f"count as if `{policy.name}` had sampled them"
        )


def _named(directories: list[Shards]) -> str:
    names = dict.fromkeys(f"`{one.path}`" for one in directories)
    return f"{', '.join(names)} {'was' if len(names) == 1 else 'were'}"
