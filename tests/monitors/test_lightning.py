"""The monitor as a callback of Lightning: the numbers of a plain loop, and the run of a run without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pl = pytest.importorskip("lightning.pytorch")

import torchmetrics  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from secant import monitors  # noqa: E402
from secant.monitors.in_torch.monitor import TorchMonitor  # noqa: E402
from secant.monitors.lightning import SecantMonitor  # noqa: E402


class Net(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 1))
        self.error = torchmetrics.MeanSquaredError()
        self.steps = 0

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        found = self.layers(batch[0])
        loss = functional.mse_loss(found, batch[1])
        self.error(found.detach(), batch[1])
        self.log("loss", loss)
        return {"loss": loss}

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def data(size: int = 8) -> Any:
    numbers = torch.Generator().manual_seed(1)
    x = torch.randn(48, 3, generator=numbers)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True) + 1), batch_size=size)


def fit(callbacks: list[Any], module: Any = None, **options: Any) -> Any:
    module = Net() if module is None else module
    torch.manual_seed(5)
    pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    ).fit(module, data())
    return module


def test_a_run_is_the_same_to_the_bit_and_has_the_numbers_of_a_plain_loop(tmp_path: Path) -> None:
    watching = SecantMonitor(every=2, record=tmp_path / "run")
    with_, without = fit([watching]), fit([])
    assert all(
        torch.equal(a, b) for a, b in zip(with_.state_dict().values(), without.state_dict().values(), strict=True)
    )
    assert torch.equal(with_.error.compute(), without.error.compute())

    def loss(module: Any, batch: Any) -> Any:
        return functional.mse_loss(module.layers(batch[0]), batch[1])

    plain = Net()
    optimiser = plain.configure_optimizers()
    torch.manual_seed(5)
    with TorchMonitor(loss, plain, optimiser, every=2, record=False) as watch:
        for step, batch in enumerate(data()):
            optimiser.zero_grad()
            found = loss(plain, batch)
            found.backward()
            watch(step, batch, loss=found)
            optimiser.step()
    run = monitors.read(tmp_path / "run")
    for name in ("batch_sharpness", "sharpness", "threshold", "noise_scale", "update_curvature", "loss"):
        assert list(run.column(name)[0]) == list(watch.watched.column(name)[0]), name
        assert run.column(name)[1] == pytest.approx(watch.watched.column(name)[1], rel=1e-5), name


def test_accumulated_batches_are_one() -> None:
    watching = SecantMonitor(every=1, record=False)
    fit([watching], accumulate_grad_batches=3)
    assert watching.watch is not None
    run = watching.watch.watched
    assert list(run.column("batch_sharpness")[0]) == [0, 1]
    assert run.column("batch")[1].tolist() == [24.0, 24.0]


def test_a_module_that_steps_by_itself_needs_a_loss() -> None:
    class Manual(Net):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> None:
            optimiser = self.optimizers()
            optimiser.zero_grad()
            self.manual_backward(super().training_step(batch, batch_idx)["loss"])
            optimiser.step()

    with pytest.raises(ValueError, match="Give `loss=`"):
        fit([SecantMonitor(record=False)], Manual())
    watching = SecantMonitor(
        lambda module, batch: functional.mse_loss(module.layers(batch[0]), batch[1]), every=1, record=False
    )
    fit([watching], Manual())
    assert watching.watch is not None
    assert watching.watch.watched.column("batch_sharpness")[1].size == 6
