"""Services that keep the numbers of runs, and how a watched run writes to them: MLflow, Weights & Biases, trackio.

If the loop has opened a run of the service, the monitor uses this run and leaves it open. Otherwise it makes a run of
its own. Each service begins at the first row.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PREFIX = "secant/"
"""Prefix of the names of quantities in a shared run."""

ON_THE_WAY = 16
"""Calls to a server that may be under way before the loop waits for the first one."""

TOGETHER, SECONDS = 500, 5.0
"""How many numbers one call sends, and how long the first number waits for others."""

WAITING = 256
"""Rows that may wait until the user's run has rows of its own."""


class MLflow:
    """Metrics of the active MLflow run, or of a new one in the experiment `secant`.

    They are sent in the background and many together, so that a slow server does not delay the loop.

    Args:
        name: the name of a new run.
        facts: facts about the run, kept as tags.
    """

    def __init__(self, name: str, facts: Mapping[str, Any] | None = None) -> None:
        self.name, self.facts = name, dict(facts or {})
        self._client: Any = None
        self._metrics: list[Any] = []
        self._sent: list[Any] = []
        self._last = time.monotonic()

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Sends the metrics of a few steps together; raises the errors of earlier calls."""
        from mlflow.entities import Metric

        if self._client is None:
            self._begin()
        now = int(1000 * time.time())
        for name, value in row.items():
            self._metrics.append(Metric(_mlflow_name(PREFIX + name), float(value), now, int(step)))
        if len(self._metrics) >= TOGETHER or time.monotonic() - self._last > SECONDS:
            self._send()
            self._settle(leave=ON_THE_WAY)

    def close(self) -> None:
        """Waits until all metrics have arrived, and ends the run if the monitor made it."""
        if self._client is None:
            return
        try:
            self._send()
            self._settle(leave=0)
        finally:
            client, self._client = self._client, None
            if self._ours:
                client.set_terminated(self._run)

    def _begin(self) -> None:
        import mlflow

        client = mlflow.MlflowClient()
        active = mlflow.active_run()
        self._ours = active is None
        if active is None:
            found = client.get_experiment_by_name("secant")
            experiment = found.experiment_id if found else client.create_experiment("secant")
            tags = {f"secant.{name}": str(value)[:500] for name, value in self.facts.items()}
            active = client.create_run(experiment, run_name=self.name, tags=tags)
        self._run = active.info.run_id
        self._client = client

    def _send(self) -> None:
        for start in range(0, len(self._metrics), TOGETHER):  # MLflow takes no more in one call
            batch = self._metrics[start : start + TOGETHER]
            self._sent.append(self._client.log_batch(self._run, metrics=batch, synchronous=False))
        self._metrics, self._last = [], time.monotonic()

    def _settle(self, *, leave: int) -> None:
        """Waits until all calls but the last `leave` have arrived."""
        while len(self._sent) > leave:
            self._sent.pop(0).wait()


class WandB:
    """The active run of Weights & Biases, or a new one in the project `secant`, offline with `WANDB_MODE=offline`.

    In a run of the user's, the numbers join the user's rows, because they must not move the step of that run. A row
    takes one look, so that no look overwrites another. The axis is `secant/step`.

    Args:
        name: the name of a new run.
        facts: facts about the run, kept as its configuration.
        folder: the folder in which W&B keeps the files of a new run.
    """

    def __init__(self, name: str, facts: Mapping[str, Any] | None = None, folder: Path | None = None) -> None:
        self.name, self.facts, self.folder = name, dict(facts or {}), folder
        self._run: Any = None
        self._waiting: list[dict[str, float]] = []
        self._row: int | None = None

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Logs a row."""
        if self._run is None:
            self._begin()
        values = {PREFIX + name: float(value) for name, value in row.items()} | {PREFIX + "step": int(step)}
        if self._ours:
            self._run.log(values)
            return
        self._waiting.append(values)
        if (
            len(self._waiting) > WAITING
        ):  # the user logs far more rarely: two rows share one, where the later one counts
            pairs = zip(self._waiting[::2], self._waiting[1::2], strict=False)
            self._waiting = [first | second for first, second in pairs] + [values] * (len(self._waiting) % 2)
        if self._run.step != self._row:
            self._row = self._run.step
            self._run.log(self._waiting.pop(0), commit=False)

    def close(self) -> None:
        """Logs the numbers that wait for a row, and ends the run if the monitor made it."""
        if self._run is None:
            return
        run, self._run = self._run, None
        if self._ours:
            run.finish()
        elif self._waiting:
            run.log({})  # ends the row that has numbers of ours in it
            for values in self._waiting:
                run.log(values)

    def _begin(self) -> None:
        import wandb

        self._ours = wandb.run is None
        if self._ours:
            self._run = wandb.init(
                project="secant", name=self.name, config=self.facts, dir=self.folder, reinit="create_new"
            )
        else:
            self._run = wandb.run
        self._run.define_metric(PREFIX + "*", step_metric=PREFIX + "step")


class Trackio:
    """The active run of trackio, or a new one in the local project `secant`.

    Args:
        name: the name of a new run.
        facts: facts about the run, kept as its configuration.
    """

    def __init__(self, name: str, facts: Mapping[str, Any] | None = None) -> None:
        self.name, self.facts = name, dict(facts or {})
        self._run: Any = None

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Logs a row."""
        if self._run is None:
            import trackio
            from trackio import context_vars

            self._run = context_vars.current_run.get()
            self._ours = self._run is None
            if self._ours:  # no dashboard is started, because nothing may listen on a port unasked
                self._run = trackio.init(
                    "secant", name=self.name, config=self.facts, embed=False, auto_log_gpu=False, auto_log_cpu=False
                )
        self._run.log({PREFIX + name: float(value) for name, value in row.items()}, step=int(step))

    def close(self) -> None:
        """Ends the run if the monitor made it."""
        if self._run is not None and self._ours:
            import trackio

            trackio.finish()
        self._run = None


def _mlflow_name(name: str) -> str:
    """A name with only the signs that MLflow allows: letters, digits, `_`, `-`, `.`, `/`, `:` and blanks."""
    return re.sub(r"[^\w\-./: ]", "_", name)[:250]
