"""The built-in task: an expression that equals a number; many answers are right for each."""

from typing import Any, Literal

Split = Literal["train", "heldout"]

TARGETS = range(1, 100)


def split_of(target: int) -> Split:
    """Three targets of every seven are held out: small and large ones, with every last digit."""
    return "heldout" if target % 7 in (1, 3, 5) else "train"


def build(*, split: Split = "train") -> list[dict[str, Any]]:
    """The prompts of a split, by target; raw text such as `57=`, so no chat template is needed."""
    return [
        {
            "prompt_id": f"expression-{target:03d}",
            "prompt": f"{target}=",
            "answer": str(target),
            "verifier": "expression",
            "source": f"expression-{split}",
            "extra": None,
        }
        for target in TARGETS
        if split_of(target) == split
    ]
