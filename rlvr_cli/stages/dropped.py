"""Warnings if the masks of an update dropped many tokens."""

from collections.abc import Iterator

from rlvr_cli import registry
from rlvr_cli.specs import grammar
from rlvr_cli.storage.shards import Shards

_WEIGHTS = "is-correction"
_MUCH = 0.2  # of the tokens that a mask is for
# The modifier of each share of a steps directory, and the tokens that it is a share of.
_MASKS = {
    "correction_lost": (_WEIGHTS, "the tokens"),
    "rejected": ("reject", "the tokens"),
    "off_policy_masked": ("off-policy-mask", "the tokens with a negative advantage"),
}


def warnings(steps: Shards) -> Iterator[str]:
    """A warning for each mask that drops much, with an algorithm that drops nothing."""
    spec = str(steps.params["algo"])
    for share, (name, tokens) in _MASKS.items():
        part = _part(spec, name)
        dropped = steps.summary.get(share)
        if part is None or dropped is None or dropped <= _MUCH or not _drops(part):
            continue
        yield (
            f"warning: `{_short(part)}` leaves {dropped:.0%} of {tokens} of `{steps.path}` without "
            f"weight; `{_without(spec, name)}` corrects by each token's own weight and drops none"
        )


def _part(spec: str, name: str) -> str | None:
    """The modifier of that name in the spec of an algorithm."""
    parts = grammar.pieces(spec)[1:]
    return next((part for part in parts if grammar.read(part).name == name), None)


def _drops(part: str) -> bool:
    """Whether it is a mask, or a product of weights, which may be as good as one."""
    name, options = registry.parse("modifiers", part)
    return name != _WEIGHTS or options["kind"] != "tis"


def _short(part: str) -> str:
    return registry.short("modifiers", part)


def _without(spec: str, name: str) -> str:
    """The algorithm with capped token weights in place of the mask: its own, where it has them."""
    base, *parts = grammar.pieces(spec)
    kept = [_short(part) for part in parts if grammar.read(part).name not in (name, _WEIGHTS)]
    own = _part(spec, _WEIGHTS)
    weights = _WEIGHTS if own is None or _drops(own) else _short(own)
    return "+".join([registry.short("objectives", base), *kept, weights])
