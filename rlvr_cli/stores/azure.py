"""What Azure needs of its libraries: refusals in seconds, and large files in larger pieces."""

import contextlib
from typing import Any

_SCOPE = "https://storage.azure.com/.default"
_FIRST_WAIT_S, _BASE = 1, 2  # of three tries more: 1, 3 and 5 s
MOST_PIECES = 45_000  # a blob may have 50,000


def prepare(fs: Any) -> None:
    """Has an opened file system refuse in seconds; an error at once where no login is found.

    Each look of adlfs would wait 15, 18 and 24 s between its tries, also of a login that fails.
    """
    with contextlib.suppress(AttributeError):  # of other versions, which then are slow
        for policy in fs.service_client._pipeline._impl_policies:
            if hasattr(policy, "initial_backoff"):
                policy.initial_backoff, policy.increment_base = _FIRST_WAIT_S, _BASE
    if login := getattr(fs, "sync_credential", None):
        login.get_token(_SCOPE)


def widen(fs: Any, size: int) -> None:
    """Has a file of so many bytes go in pieces that a blob has room for.

    Those of the library hold 4 MiB: a file above 210 GB would fail after as many were sent.
    """
    with contextlib.suppress(AttributeError):  # of other versions, which then refuse it
        config = fs.service_client._config
        config.max_block_size = max(config.max_block_size, -(-size // MOST_PIECES))
