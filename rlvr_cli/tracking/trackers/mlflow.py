"""MLflow: a tracking server, or a database file on this machine."""

import re
import time
from typing import Any

from rlvr_cli.protocols import Tracked, TrackedRun
from rlvr_cli.tracking import markdown, packages, pictures

_MOST_PARAMS = 100  # in one request


def build(*, experiment: str = "rlvr", uri: str = "") -> "MLflow":
    """The run of an experiment; the server is that of MLFLOW_TRACKING_URI by default."""
    packages.require("mlflow")
    return MLflow(experiment, uri)


class MLflow:
    """Names of figures have `_at_` for `@`, which MLflow does not take."""

    def __init__(self, experiment: str, uri: str) -> None:
        self._experiment, self._uri = experiment, uri
        self._client: Any = None
        self._run_id = ""

    def start(self, run: TrackedRun) -> Tracked:
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=self._uri or None)
        if run.key:
            self._run_id = run.key
            self._client.update_run(run.key, status="RUNNING")
            metrics = self._client.get_run(run.key).data.metrics
            return Tracked(run.key, int(metrics.get("step", -1)))
        known = self._client.get_experiment_by_name(self._experiment)
        experiment = known.experiment_id if known else self._new_experiment()
        self._run_id = self._client.create_run(experiment, run_name=run.name).info.run_id
        self._log_config(run.config)
        return Tracked(self._run_id, -1)

    def log(self, step: int, figures: dict[str, float], samples: list[dict[str, Any]]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        if samples:
            self._client.log_text(
                self._run_id, markdown.table(samples), f"samples/step-{step:06d}.md"
            )
        named = {_name(name): value for name, value in figures.items()} | {"step": float(step)}
        metrics = [Metric(name, value, now, step) for name, value in named.items()]
        self._client.log_batch(self._run_id, metrics=metrics)

    def log_images(self, step: int, images: dict[str, list[Any]]) -> None:
        for name, own in images.items():
            for number, image in enumerate(own):
                place = f"samples/images/{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}-{number}.png"
                self._client.log_image(self._run_id, pictures.opened(image), place)

    def finish(self) -> None:
        self._client.set_terminated(self._run_id)

    def _new_experiment(self) -> str:
        return str(self._client.create_experiment(self._experiment))

    def _log_config(self, config: dict[str, dict[str, Any]]) -> None:
        from mlflow.entities import Param

        params = [
            Param(f"{table}/{name}", str(value))
            for table, options in config.items()
            for name, value in options.items()
        ]
        for start in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(self._run_id, params=params[start : start + _MOST_PARAMS])


def _name(figure: str) -> str:
    """A figure's name in the characters that MLflow takes."""
    return re.sub(r"[^\w\-. /:]", "_", figure.replace("@", "_at_"), flags=re.ASCII)
