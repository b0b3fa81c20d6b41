"""The folder for data that rlvr can compute again, shared by all projects of a user."""

import os
from pathlib import Path


def folder() -> Path:
    """`$XDG_CACHE_HOME/rlvr`, or `~/.cache/rlvr`; it may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "rlvr"
