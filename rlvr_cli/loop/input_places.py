"""Where the policy and the prompts of a run are that it was begun with, and that may move."""

import shlex
from pathlib import Path

from rlvr_cli.config import RunConfig, toml
from rlvr_cli.errors import DataError
from rlvr_cli.models import hub, policy as policies
from rlvr_cli.stages import task_prompts
from rlvr_cli.storage import fetched, moved, run_folders


def require(run: Path, config: RunConfig, *, follows: bool = False) -> None:
    """An error that says how to name what a run that was begun reads and that is not there.

    A process that `follows` the run has no flags for it: the run's configuration names it.
    """
    if not run_folders.is_run(run):
        return
    train = config.train
    named = hub.is_name(train.model) or train.model in policies.BUILTINS
    model = "" if named else train.model
    own = {"prompts": train.prompts, "heldout": train.heldout}
    own = {name: given for name, given in own.items() if task_prompts.directory(given)}
    for name, given in ({"model": model} | own).items():
        if given and not Path(given).exists():
            places = (place for place in moved.nearby(run, given) if place.exists())
            where = given if fetched.is_url(given) else str(next(places, "DIR"))
            flag = f"say where: `--{name} {shlex.quote(where)}`"
            line = f"say where: `{name} = {toml(where)}` in `{run / run_folders.CONFIG}`"
            raise DataError(
                f"`{given}` is not there, the {name} of the run", line if follows else flag
            )
