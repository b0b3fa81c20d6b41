"""Whether the package of a tracker is installed; it is imported when a run is sent."""

from importlib.util import find_spec

from rlvr_cli.errors import UsageError


def require(name: str) -> None:
    """Refuses a tracker whose package is not installed."""
    if find_spec(name) is None:
        raise UsageError(
            f"tracker `{name}` needs a package that is not installed", f"pip install 'rlvr[{name}]'"
        )
