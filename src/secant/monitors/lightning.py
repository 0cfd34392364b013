"""The monitor as a callback of Lightning."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from lightning.pytorch import Callback

from secant.monitors.in_torch.monitor import TorchMonitor


class SecantMonitor(Callback):
    """A callback that watches a run of Lightning's `Trainer`: now and then a look, before the optimiser's step.

    Batches whose gradients are accumulated count as one batch. The loss scale of a scaler is recorded. With several
    processes the first one writes. During a look, the module's `log` and `log_dict` do nothing.

    Args:
        loss: `loss(module, batch) -> scalar tensor`; by default the module's own `training_step`. A module that calls
            its optimisers by itself needs this argument.
        options: those of [`monitor`][secant.monitors.monitor]: `record`, `budget`, `every`, `samples`, `sinks`, `name`.

    Attributes:
        watch: the monitor, once training has begun.

    Example:
        ```python
        import lightning.pytorch as pl
        import torch
        from secant.monitors.lightning import SecantMonitor

        class Net(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(3, 1)

            def training_step(self, batch):
                return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        data = torch.utils.data.TensorDataset(torch.randn(32, 3), torch.randn(32, 1))
        watching = SecantMonitor(every=2, record=False)
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = pl.Trainer(max_epochs=1, accelerator="cpu", callbacks=[watching], enable_model_summary=False, **quiet)
        trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=8))
        print(watching.watch.watched.column("threshold"))
        ```
        ```text
        (array([0, 2]), array([20., 20.]))
        ```
    """

    def __init__(self, loss: Callable[[Any, Any], Any] | None = None, **options: Any) -> None:
        super().__init__()
        self._loss, self._options = loss, options
        self.watch: TorchMonitor | None = None
        self._given: Any = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Makes the monitor of the module and its optimiser."""
        if self._loss is None and not pl_module.automatic_optimization:
            raise ValueError(
                "SecantMonitor: the module calls its optimisers by itself, so its `training_step` cannot serve as the "
                "loss. Give `loss=`, a function (module, batch) -> scalar tensor."
            )
        self.watch = TorchMonitor(
            _own_loss if self._loss is None else lambda module, pair: self._loss(module, pair[0]),  # type: ignore[misc]
            pl_module,
            trainer.optimizers[0] if trainer.optimizers else None,
            scaler=getattr(trainer.precision_plugin, "scaler", None),
            **self._options,
        )

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Keeps the batch until its step."""
        if self.watch is not None:
            self.watch.part((batch, batch_idx))

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Keeps the loss, which Lightning has divided by the number of batches in a step."""
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        value = loss.detach() if scaler is None else loss.detach() / scaler.get_scale()
        self._given = value if self._given is None else self._given + value

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Watches the step."""
        given, self._given = self._given, None
        if self.watch is not None and optimizer is trainer.optimizers[0]:
            self.watch(trainer.global_step, loss=given)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Writes the last rows and closes the monitor."""
        if self.watch is not None:
            self.watch.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Closes the monitor of a run that was stopped by an error."""
        self.on_train_end(trainer, pl_module)


def _own_loss(module: Any, pair: Any) -> Any:
    """The loss of a module's own training step; `pair` is `(batch, number)`."""
    names = list(inspect.signature(module.training_step).parameters)
    with _silent(module):
        found = module.training_step(*pair[: len(names)])
    return found["loss"] if isinstance(found, dict) else found


@contextlib.contextmanager
def _silent(module: Any) -> Iterator[None]:
    """Silences the module's logging inside, so that the user's logs have no entry of a look."""
    silenced = ("log", "log_dict")
    before = {name: module.__dict__[name] for name in silenced if name in module.__dict__}
    for name in silenced:
        module.__dict__[name] = lambda *args, **kwargs: None
    try:
        yield
    finally:
        for name in silenced:
            del module.__dict__[name]
        module.__dict__.update(before)
