"""APO's anchor on another objective (Anchored Policy Optimization, sec. 4, eq. 9).

Elsewhere: none found.
Use: To use `apo`'s anchor with another objective.
"""

from rlvr_cli.algorithms.objective import Modifier
from rlvr_cli.algorithms.terms import anchor


def build(*, k: int = 8, lam: float = 1.05, beta: float = 0.1, z_floor: float = 1e-6) -> Modifier:
    """Where A < 0 the ratio r becomes lam r - beta r_anchor, between the objective's own bounds.

        r_anchor = sum_S pi_theta / max(sum_S pi_ref, z_floor)

    S holds the reference policy's k likeliest tokens without the sampled one.
    """
    chosen = anchor.Anchor(k, lam, beta, z_floor)
    return lambda objective: anchor.anchored(objective, chosen)
