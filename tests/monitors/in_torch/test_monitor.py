"""The monitor of a PyTorch loop: what it finds, what it leaves alone, and what it survives."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from secant import monitors  # noqa: E402
from secant.monitors.in_torch.monitor import TorchMonitor  # noqa: E402
from secant.monitors.records.keeper import MonitorWarning  # noqa: E402


def cost(model: nn.Module, batch: Any) -> Any:
    return functional.mse_loss(model(batch[0]), batch[1])


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 1))


def smooth(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))


def batches(count: int, size: int = 16) -> list[Any]:
    numbers = torch.Generator().manual_seed(7)
    inputs = [torch.randn(size, 3, generator=numbers) for _ in range(count)]
    return [(x, x.sum(1, keepdim=True) + 2 + 0.3 * torch.randn(size, 1, generator=numbers)) for x in inputs]


def train(model: nn.Module, optimiser: Any, data: list[Any], watch: Any = None, begin: int = 0) -> list[Any]:
    points = []
    for step, batch in enumerate(data, begin):
        optimiser.zero_grad()
        loss = cost(model, batch)
        loss.backward()
        if watch is not None:
            watch(step, batch, loss=loss)
        optimiser.step()
        points.append(torch.cat([p.detach().reshape(-1) for p in model.parameters()]))
    return points


def dense(model: nn.Module, batch: Any) -> tuple[Any, Any]:
    """Gradient and Hessian of a model in double precision, by backward passes for one entry after the other."""
    params = list(model.parameters())
    slopes = torch.autograd.grad(cost(model, batch), params, create_graph=True)
    flat = torch.cat([slope.reshape(-1) for slope in slopes])
    lines = [torch.autograd.grad(entry, params, retain_graph=True) for entry in flat]
    return flat.detach(), torch.stack([torch.cat([part.reshape(-1) for part in line]) for line in lines])


def test_numbers_are_those_of_the_dense_hessian() -> None:
    model, data = smooth().double(), [(x.double(), y.double()) for x, y in batches(2)]
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.5)
    with TorchMonitor(cost, model, optimiser, every=1, record=False) as watch:
        gradient, hessian = dense(model, data[0])
        before = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        after = train(model, optimiser, data, watch)[0]
        row, update = (
            next(row for row in watch.watched.rows if name in row and row["step"] == 0)
            for name in ("batch_sharpness", "update_curvature")
        )
    u = after - before
    values, vectors = torch.linalg.eigh(hessian)
    halves = [dense(smooth().double(), tuple(part[rows] for part in data[0]))[0] for rows in (slice(8), slice(8, 16))]
    apart = (halves[0] - halves[1]).square().sum() / 4
    expected = {
        "loss": cost(smooth().double(), data[0]).item(),
        "gradient_norm": float(gradient.norm()),
        "parameter_norm": float(before.norm()),
        "batch_sharpness": float(gradient @ hessian @ gradient / gradient.square().sum()),
        "dead_units": 0.0,
        "lr": 0.3,
        "batch": 16.0,
        "threshold": 2 * 1.5 / 0.3,
        "noise_scale": float(16 * apart / (((halves[0] + halves[1]) / 2).square().sum() - apart)),
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-9)
    assert abs(row["sharpness"] - float(values[-1])) <= row["sharpness_error"] < 0.03 * row["sharpness"]
    assert row["critical_lr"] == pytest.approx(3 / row["sharpness"])
    angle = row["sharpness_error"] / float(values[-1] - values[-2])
    share = float((gradient @ vectors[:, -1]) ** 2 / gradient.square().sum())
    assert row["sharpest_share"] == pytest.approx(share, abs=2 * angle + angle**2)
    assert update["update_norm"] == pytest.approx(float(u.norm()), rel=1e-6)
    assert update["update_curvature"] == pytest.approx(float(u @ hessian @ u / u.square().sum()), rel=1e-6)
    assert update["stable_multiple"] == pytest.approx(float(-2 * gradient @ u / (u @ hessian @ u)), rel=1e-6)


def relu(dead: int, bias: bool = True, norm: bool = False) -> nn.Module:
    """Eight hidden units of which some are off by construction, and two outputs."""
    torch.manual_seed(0)
    middle = nn.BatchNorm1d(8) if norm else nn.Identity()
    model = nn.Sequential(nn.Linear(3, 8, bias=bias), middle, nn.ReLU(), nn.Linear(8, 2, bias=bias))
    with torch.no_grad():
        if norm or bias:
            (model[1] if norm else model[0]).bias.copy_(torch.where(torch.arange(8) < dead, -100.0, 100.0))
        else:
            model[0].weight.copy_(model[0].weight.abs() * torch.where(torch.arange(8) < dead, -1.0, 1.0)[:, None])
    return model


def dead_of(model: nn.Module) -> float | None:
    inputs = torch.rand(16, 3, generator=torch.Generator().manual_seed(3))
    with TorchMonitor(cost, model, every={"dead_units": 1}, record=False) as watch:
        watch(0, (inputs, torch.ones(16, 2)))
    return watch.last.get("dead_units")


@pytest.mark.parametrize("dead", [0, 3, 8])
def test_dead_units_are_those_over_all_units(dead: int) -> None:
    assert dead_of(relu(dead)) == pytest.approx(dead / 10)  # outputs are units as well


def test_dead_units_of_a_norm_are_counted_once_and_layers_without_a_vector_not_at_all() -> None:
    assert dead_of(relu(2, bias=False, norm=True)) == pytest.approx(2 / 8)
    assert dead_of(relu(2, bias=False)) is None


@pytest.mark.parametrize(
    ("orders", "same"),
    [
        ([[0, 1, 2, 3]] * 3, True),
        ([[0, 1, 2, 3], [3, 1, 0, 2]], True),
        ([[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 4]], False),
        ([[0, 1, 2, 3]], None),
    ],
)
def test_a_run_on_the_same_samples_is_known(orders: list[list[int]], same: bool | None) -> None:
    x, y = batches(1)[0]
    with TorchMonitor(cost, smooth(), every={"noise_scale": 1}, record=False) as watch:
        for step, rows in enumerate(orders):
            watch(step, (x[rows], y[rows]))
    assert watch.watched.about.get("same_batch") is same


def test_the_loss_of_the_loop_is_recorded_at_looks_too() -> None:
    """In half precision it may have overflown where a look, in single precision, has not."""
    watch = TorchMonitor(cost, smooth(), every={"batch_sharpness": 1}, record=False)
    with pytest.warns(MonitorWarning, match="the loss is inf"):
        watch(0, batches(1)[0], loss=torch.tensor(math.inf))
    watch.close()
    (row,) = [row for row in watch.watched.rows if "batch_sharpness" in row]
    assert row["loss"] == math.inf
    assert math.isfinite(row["batch_sharpness"])


def test_sharpness_is_in_the_measure_of_adam_and_is_followed() -> None:
    model, data = smooth().double(), [(x.double(), y.double()) for x, y in batches(1)] * 12
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    with TorchMonitor(cost, model, optimiser, every={"sharpness": 1}, record=False) as watch:
        train(model, optimiser, data[:11], watch)
        gradient, hessian = dense(model, data[0])
        square = torch.cat([optimiser.state[p]["exp_avg_sq"].reshape(-1) for p in model.parameters()])
        mean = (0.999 * square + 0.001 * gradient**2) / (1 - 0.999**12)
        divisor = (1 - 0.9**12) * (mean.sqrt() + 1e-8)
        expected = float(torch.linalg.eigvalsh(hessian / divisor.sqrt() / divisor.sqrt()[:, None])[-1])
        train(model, optimiser, data[11:], watch, begin=11)
    assert watch.last["sharpness"] == pytest.approx(expected, rel=1e-3)
    assert watch.last["threshold"] == pytest.approx(38_000)


@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_a_run_is_the_same_to_the_bit_with_and_without_the_monitor(rule: str) -> None:
    def run(watched: bool) -> list[Any]:
        model = network()
        make = {
            "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
            "adam": lambda p: torch.optim.AdamW(p, lr=0.01),
        }[rule]
        optimiser = make(model.parameters())
        torch.manual_seed(3)
        if not watched:
            return [*train(model, optimiser, batches(6)), *model.buffers()]
        with TorchMonitor(cost, model, optimiser, every=1, record=False) as watch:
            found = train(model, optimiser, batches(6), watch)
        assert {"batch_sharpness", "sharpness", "update_curvature", "noise_scale"} <= set(watch.last)
        assert not watch.watched.notes
        return [*found, *model.buffers()]

    assert all(torch.equal(a, b) for a, b in zip(run(True), run(False), strict=True))


def test_parts_of_a_batch_have_the_curvature_of_the_whole() -> None:
    (x, y), *_ = batches(1)
    found = []
    for cut in (1, 4):
        model = smooth()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        with TorchMonitor(cost, model, optimiser, every=1, record=False) as watch:
            for part in zip(x.chunk(cut), y.chunk(cut), strict=True):
                (cost(model, part) / cut).backward()
                watch.part(part)
            watch(0)
            optimiser.step()
            watch(1, (x, y))
            found.append(dict(watch.watched.rows[0], **watch.last))
    for name in ("gradient_norm", "batch_sharpness", "sharpness", "update_curvature", "batch", "loss"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-4), name


def test_the_record_says_what_is_watched(tmp_path: Path) -> None:
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with TorchMonitor(cost, model, optimiser, every=2, record=tmp_path / "run", name="tiny") as watch:
        train(model, optimiser, batches(5), watch)
    run = monitors.read(tmp_path / "run")
    assert run.about["framework"] == "torch"
    assert run.about["name"] == "tiny"
    assert run.about["parameters"] == sum(p.numel() for p in model.parameters())
    assert run.about["optimiser"]["name"] == "SGD"
    assert run.about["ladder"]["taken"] == {"along": "forward over forward", "product": "double backward"}
    assert list(run.column("batch_sharpness")[0]) == [0, 2, 4]
    assert list(run.column("update_curvature")[0]) == [0, 2]
    assert len(run.column("loss")[0]) == 5
    assert set(run.column("lr")[1]) == {0.1}
    assert run.about["plan"]["looks"]["batch_sharpness"]["every"] == 2


def test_a_gradient_scaler_is_read_and_curvature_is_not_scaled() -> None:
    model, data = smooth(), batches(3)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    plain = TorchMonitor(cost, model, optimiser, every=1, record=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    own = torch.autocast("cpu", torch.bfloat16)

    def mixed(model: nn.Module, batch: Any) -> Any:
        with own:
            return cost(model, batch)

    with TorchMonitor(mixed, model, optimiser, scaler=scaler, every=1, record=False) as watch:
        for step, batch in enumerate(data):
            optimiser.zero_grad()
            loss = mixed(model, batch)
            scaler.scale(loss).backward()
            watch(step, batch, loss=loss)
            plain(step, batch)
            scaler.step(optimiser)
            scaler.update()
    assert watch.watched.column("scaler")[1].tolist() == [256.0] * 3
    for name in ("gradient_norm", "batch_sharpness", "sharpness"):
        assert watch.watched.column(name)[1] == pytest.approx(plain.watched.column(name)[1], rel=1e-6)


def test_what_goes_wrong_is_said_once_and_never_reaches_the_loop() -> None:
    model, data = smooth(), batches(4)
    optimiser = torch.optim.Rprop(model.parameters(), lr=0.01)
    vector = lambda model, batch: (model(batch[0]) - batch[1]) ** 2  # noqa: E731
    watch = TorchMonitor(vector, model, optimiser, every=1, record=False)
    with pytest.warns(MonitorWarning) as said:
        train(model, optimiser, data, watch)
    texts = [str(one.message) for one in said]
    assert len(texts) == len(set(texts))
    assert any("must return a scalar tensor, got a tensor of shape (16, 1)" in text for text in texts)
    assert watch.watched.column("loss")[1].size == 4
    watch = TorchMonitor(cost, model, optimiser, every=1, record=False)
    with pytest.warns(MonitorWarning, match="Rprop is not known"):
        train(model, optimiser, data, watch)
    assert watch.last["sharpness"] > 0
    assert "threshold" not in watch.last


def test_nan_and_a_batch_of_one_are_survived() -> None:
    model, data = smooth(), batches(4)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    data[1] = (data[1][0] * math.nan, data[1][1])
    data[2] = (data[2][0][:1], data[2][1][:1])
    watch = TorchMonitor(cost, model, optimiser, every=1, record=False)
    with pytest.warns(MonitorWarning):
        _ = [watch(step, batch) for step, batch in enumerate(data)]
    sharpness = dict(zip(*watch.watched.column("sharpness"), strict=True))
    assert math.isnan(sharpness[1])
    assert sharpness[3] > 0
    assert math.isfinite(watch.watched.column("batch_sharpness")[1][3])


def test_wrong_arguments_are_refused() -> None:
    model = smooth()
    with pytest.raises(TypeError, match="`loss` must be a function"):
        TorchMonitor("mse", model, record=False)
    with pytest.raises(TypeError, match="`model` must be a module of PyTorch, got int"):
        TorchMonitor(cost, 3, record=False)
    with pytest.raises(TypeError, match=r"one of torch.optim, got float"):
        TorchMonitor(cost, model, 0.1, record=False)
    with pytest.raises(ValueError, match="`samples` must be a whole number"):
        TorchMonitor(cost, model, samples=1, record=False)
    other = torch.optim.SGD(smooth().parameters(), lr=0.1)
    with pytest.raises(ValueError, match="no parameters that train"):
        TorchMonitor(cost, model, other, record=False)


def test_samples_are_the_first_of_a_batch_and_the_plan_says_so() -> None:
    model, ((x, y), *_) = smooth(), batches(1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    some, part = (TorchMonitor(cost, model, optimiser, samples=n, every=1, record=False) for n in (4, None))
    some(0, (x, y))
    part(0, (x[:4], y[:4]))
    for name in ("batch_sharpness", "sharpness", "noise_scale"):
        assert some.last[name] == part.last[name]
    assert some.last["batch"] == len(x)  # the loop's
    assert all(entry.look.samples == 4 for entry in some.plan.entries)


def test_a_budget_is_kept_by_a_clock_of_steps() -> None:
    class Clock:
        """Time passes in evaluations of the loss, one a second, and three a step."""

        now = 0.0

        def __call__(self) -> float:
            return self.now

    clock = Clock()

    def timed(model: nn.Module, batch: Any) -> Any:
        clock.now += 1.0
        return cost(model, batch)

    model, data = smooth(), batches(4)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    with TorchMonitor(timed, model, optimiser, budget=0.1, record=False, clock=clock) as watch:
        for step in range(1500):
            clock.now += 3.0
            watch(step, data[step % 4])
            if step % 100 == 0:
                train(model, optimiser, data[:1])
    assert watch._account.share == pytest.approx(0.1, rel=0.1)
    assert "sharpness" in str(watch.plan)


def test_outputs_are_looked_at_where_they_are_given() -> None:
    model, data = smooth().double(), [(x.double(), y.double()) for x, y in batches(3, 5)]
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)

    def jacobian(model: nn.Module, x: Any) -> Any:
        lines = [
            torch.autograd.grad(one, list(model.parameters())) for row in x for one in model(row[None]).reshape(-1)
        ]
        return torch.stack([torch.cat([part.reshape(-1) for part in line]) for line in lines])

    def uses(model: nn.Module, x: Any) -> Any:
        lines = torch.autograd.functional.jacobian(lambda x: model(x).sum(0), x)[0]
        return lines.T @ lines

    def taken() -> tuple[Any, Any]:
        found = jacobian(model, data[0][0])
        return found @ found.T, uses(model, data[0][0])

    with TorchMonitor(cost, model, optimiser, f=lambda model, x: model(x), every=1, record=False) as watch:
        first = taken()
        train(model, optimiser, data[:2], watch)
        last = taken()
        train(model, optimiser, data[2:], watch, begin=2)
    assert watch.watched.column("kernel_drift")[1][0] == 0
    assert watch.last["kernel_critical_lr"] == pytest.approx(10 / float(torch.linalg.eigvalsh(last[0])[-1]), rel=1e-9)
    for name, one, two in zip(("kernel_drift", "agop_change"), first, last, strict=True):
        assert watch.last[name] == pytest.approx(float((two - one).norm() / one.norm()), rel=1e-6), name


def test_a_model_that_mixes_samples_has_no_kernel() -> None:
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    watch = TorchMonitor(cost, model, optimiser, f=lambda model, x: model(x), every=1, record=False)
    with pytest.warns(MonitorWarning, match="mixes samples"):
        train(model, optimiser, batches(2), watch)
    assert "kernel_drift" not in watch.last
    assert watch.last["sharpness"] > 0


def test_a_gradient_at_hand_is_taken() -> None:
    model, (batch, *_) = smooth(), batches(1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    calls = []

    def counted(model: nn.Module, batch: Any) -> Any:
        calls.append(1)
        return cost(model, batch)

    value = cost(model, batch)
    value.backward()
    with TorchMonitor(counted, model, optimiser, every={"batch_sharpness": 1}, record=False) as watch:
        watch(0, batch, loss=value)
        first, begun = dict(watch.last), len(calls)
        watch(1, batch, loss=value, grads=True)
        assert len(calls) - begun == 1  # forward over forward, and no gradient
    for name in ("gradient_norm", "batch_sharpness", "dead_units"):
        assert watch.last[name] == pytest.approx(first[name], rel=1e-5)
    assert watch.watched.column("loss")[1] == pytest.approx([value.item()] * 2)
