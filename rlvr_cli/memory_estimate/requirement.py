"""The device memory that a phase of a run needs, and the error if it is not free."""

import os
import warnings
from dataclasses import dataclass

from rlvr_cli.errors import Advice, UserError
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime.device import Device

NOTHING_FITS = "take more GPUs, a smaller model, or train only adapters with --lora-rank 16"


@dataclass(frozen=True)
class Requirement:
    """The bytes that a phase needs at its peak, by purpose."""

    phase: str
    parts: dict[str, int]
    remedy: str = ""  # flags that make it fit; empty if none do

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def require(policy: Policy, requirement: Requirement, device: Device) -> None:
    """An error if a GPU has too little free memory; only a warning for the host's memory.

    With RLVR_ANY_MEMORY set it is always a warning: an estimate can be wrong.
    """
    if requirement.total <= device.free:
        return
    listed = ", ".join(f"{name} {gib(value)}" for name, value in requirement.parts.items())
    over = requirement.total - device.free
    message = (
        f"{requirement.phase} with `{policy.name}` needs {gib(requirement.total)}, {gib(over)} "
        f"more than is free of {device.name}: {listed}"
    )
    if device.kind == "cpu" or os.environ.get("RLVR_ANY_MEMORY"):
        tip = f"; try {requirement.remedy}" if requirement.remedy else ""
        warnings.warn(message + tip, Advice, stacklevel=2)
        return
    hint = f"set {requirement.remedy}" if requirement.remedy else NOTHING_FITS
    raise UserError(message, f"{hint}; `export RLVR_ANY_MEMORY=1` tries anyway")


def gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB" if size >= 1 << 28 else f"{size / 2**20:.3g} MiB"
