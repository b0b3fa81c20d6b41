"""What servers of `rlvr serve` and those who ask them agree on."""

PATH = "/rlvr/policy"  # after `/v1`: POST {"path": DIR, "digest": SHA256} loads a policy
COMPLETIONS = "/rlvr/completions"  # after `/v1`: completions of token ids with images
_PREFIX = "rlvr-"


def of(digest: str) -> str:
    """What a server calls the policy of a digest."""
    return _PREFIX + digest


def is_of_serve(name: str) -> bool:
    """Whether a server's name for its model is one of these."""
    return name.startswith(_PREFIX) and len(name) == len(_PREFIX) + 64
