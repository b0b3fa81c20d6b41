"""DLC: samples of the policy minus a memory model (When Sharpening Becomes Collapse, 3.2).

Elsewhere: none found.
Use: Samples repeat each other; costs a second model in the rollout.
"""

from dataclasses import replace

from rlvr_cli.algorithms.objective import Modifier


def build() -> Modifier:
    """Trains on samples of softmax(policy - mu memory); the loss is unchanged.

    The rollout has the options: `--memory-model`, `--mu`, `--dlc-min-prob`. The importance ratio is
    pi_theta / pi_theta,old (Algorithm 1); `+is-correction` weighs it by pi_theta,old / pi_sample.
    """
    return lambda objective: replace(objective, decoupled=True)
