"""The folders that are next to the package in a checkout and are linked into it."""

import shlex
from pathlib import Path

from rlvr_cli.errors import UserError

LINKED = ("commands", "kernels", "fixtures")
_PACKAGE = Path(__file__).parents[1]


def check(package: Path = _PACKAGE) -> None:
    """An error if they are missing because git created the checkout without symbolic links."""
    missing = [f"`{package.name}/{name}`" for name in LINKED if not (package / name).is_dir()]
    if not missing:
        return
    root = package.parent
    steps = "`git config core.symlinks true`, `git checkout -- rlvr_cli`"
    hint = f"in the checkout that it was installed from, run {steps} and install it again"
    if (root / ".git").exists():
        hint = f"run `cd {shlex.quote(str(root))}`, {steps}"
    raise UserError(
        f"this installation lacks {', '.join(missing)}: the checkout has no symbolic links", hint
    )


def root(package: Path = _PACKAGE) -> Path | None:
    """The checkout that contains the package; None of an installed wheel."""
    return package.parent if (package.parent / "pyproject.toml").exists() else None
