"""What keeps a refusal of Azure short: its libraries would repeat it for minutes."""

import contextlib
from typing import Any

_SCOPE = "https://storage.azure.com/.default"
_FIRST_WAIT_S, _BASE = 1, 2  # of three tries more: 1, 3 and 5 s


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
