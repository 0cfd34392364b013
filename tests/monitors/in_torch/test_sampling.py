"""Looks of a loop in PyTorch that would come too seldom, on a part of each batch."""

import math

import numpy as np
import pytest
from on_parts import assert_parts_are_told

torch = pytest.importorskip("torch")

from secant.monitors import MonitorWarning  # noqa: E402
from secant.monitors.in_torch.looks import Looks  # noqa: E402
from secant.monitors.in_torch.measures import View, why_whole  # noqa: E402
from secant.monitors.in_torch.monitor import TorchMonitor  # noqa: E402
from secant.monitors.in_torch.ranks import Ranks  # noqa: E402

PRICES = {"batch_sharpness": 1.0, "sharpness": 16.0, "update_curvature": 2.5, "noise_scale": 1.5}
numbers = torch.Generator().manual_seed(0)
BATCHES = [
    (torch.randn(32, 3, generator=numbers, dtype=torch.float64), torch.randn(32, 2, generator=numbers).double())
    for _ in range(40)
]


def net(*layers):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), *layers, torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()


def cost(model, batch):
    return ((model(batch[0]) - batch[1]) ** 2).mean() / 2


class Loop:
    """A loop with a step of a second, and looks that take in proportion to their samples."""

    def __init__(self, model=None, watched=True, accumulated=False, **options):
        self.now, self.model, self.accumulated = 0.0, net() if model is None else model, accumulated
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.02)
        self.points, self.taken = [], []
        self.watch = None
        if watched:
            given = {"record": False, "budget": 0.05, "clock": lambda: self.now}
            self.watch = TorchMonitor(cost, self.model, self.optimiser, **(given | options))
            self.watch._take, self._plain = self.take, self.watch._take

    def take(self, name, step, parts, grads=False):
        samples = self.watch._sampling.wanted(name, 32)
        self.taken.append((step, name, samples))
        self.now += PRICES[name] * samples / 32
        return self._plain(name, step, parts, grads)

    def run(self, steps):
        for step in range(steps):
            batch = BATCHES[step % 40]
            self.optimiser.zero_grad()
            found = cost(self.model, batch)
            found.backward()
            flat = torch.cat([p.detach().reshape(-1) for p in self.model.parameters()])
            self.points.append((flat, batch))
            if self.watch is not None and self.accumulated:
                for part in (BATCHES[0], batch):
                    self.watch.part(part)
                self.watch(step, loss=found)
            elif self.watch is not None:
                self.watch(step, batch, loss=found, grads=True)
            self.optimiser.step()
            self.now += 1.0
        return self


@pytest.fixture(scope="module")
def loop():
    with pytest.warns(MonitorWarning, match="from step"):
        return Loop().run(500)


def derivatives(loop, step, rows):
    """Gradient and Hessian of rows of a step's batch, written out."""
    flat, batch = loop.points[step]
    names = [name for name, _ in loop.model.named_parameters()]
    shapes = [p.shape for p in loop.model.parameters()]

    def at(v):
        pieces = v.split([math.prod(shape) for shape in shapes])
        values = {name: piece.reshape(shape) for name, piece, shape in zip(names, pieces, shapes, strict=True)}
        outputs = torch.func.functional_call(loop.model, values, (batch[0][rows],))
        return ((outputs - batch[1][rows]) ** 2).mean() / 2

    return torch.func.grad(at)(flat).numpy(), torch.func.hessian(at)(flat).numpy()


def test_a_loop_is_looked_at_on_parts_and_says_so(loop):
    watch = loop.watch
    assert {entry.look.name: (entry.look.samples, entry.look.of) for entry in watch.plan.entries} == {
        "batch_sharpness": (None, None),
        "sharpness": (8, 32),
        "update_curvature": (16, 32),
        "noise_scale": (16, 32),
    }
    assert str(watch.plan).count(" of 32") == 3
    assert_parts_are_told(watch)


def test_numbers_on_parts_are_those_of_their_rows(loop):
    run = loop.watch.watched
    steps, values = run.column("sharpness")
    assert steps[1] < 60 < steps[-1]
    for step, value, error in zip(steps[1:], values[1:], run.column("sharpness_error")[1][1:], strict=True):
        near = np.abs(np.linalg.eigvalsh(derivatives(loop, step, slice(8))[1]) - value).min()
        assert near <= error + 1e-10 * value
    steps, values = run.column("update_curvature")
    g, h = derivatives(loop, steps[-1], slice(16))
    u = (loop.points[steps[-1] + 1][0] - loop.points[steps[-1]][0]).numpy()
    assert values[-1] == pytest.approx(u @ h @ u / (u @ u), rel=1e-8)
    assert run.column("stable_multiple")[1][-1] == pytest.approx(-2 * g @ u / (u @ h @ u), rel=1e-8)
    # The noise of one sample, from two pieces of what was looked at.
    trace = square = unit = None
    for step, samples in [(step, samples) for step, name, samples in loop.taken if name == "noise_scale"]:
        half = samples // 2
        one, two = (derivatives(loop, step, rows)[0] for rows in (slice(half), slice(half, samples)))
        apart, both = np.sum((one - two) ** 2) / 4, np.sum((one + two) ** 2) / 4
        first = trace is None
        unit = both + apart if first else 0.5 * unit + 0.5 * (both + apart)  # squared gradients of late
        trace = samples * apart / unit if first else 0.9 * trace + 0.1 * samples * apart / unit
        square = (both - apart) / unit if first else 0.9 * square + 0.1 * (both - apart) / unit
    expected = max(trace, 0) / square if square > 0 else math.inf
    assert run.column("noise_scale")[1][-1] == pytest.approx(expected, rel=1e-8)


def test_the_run_is_the_same_to_the_bit(loop):
    plain = Loop(watched=False).run(500)
    for one, other in zip(plain.model.parameters(), loop.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("samples", ["all", 24])
def test_samples_by_hand(samples):
    loop = Loop(samples=samples).run(100)
    assert loop.watch.watched.notes == []
    assert {entry.look.samples for entry in loop.watch.plan.entries} == {None if samples == "all" else 24}


def test_batch_norms_are_looked_at_whole():
    loop = Loop(model=net(torch.nn.BatchNorm1d(4))).run(80)
    ((_, text),) = loop.watch.watched.notes
    assert text.endswith("steps and uses all samples: batch norms mix samples.")
    assert {samples for *_, samples in loop.taken} == {32}


def test_each_part_of_an_accumulated_batch_is_cut():
    with pytest.warns(MonitorWarning, match="from step"):
        loop = Loop(accumulated=True).run(60)
    step = int(loop.watch.watched.column("sharpness")[0][-1])
    (x, y), (z, w) = BATCHES[0], BATCHES[step % 40]
    loop.points[step] = loop.points[step][0], (torch.cat([x[:8], z[:8]]), torch.cat([y[:8], w[:8]]))
    values = np.linalg.eigvalsh(derivatives(loop, step, slice(None))[1])
    assert np.abs(values - loop.watch.last["sharpness"]).min() <= loop.watch.last["sharpness_error"] + 1e-10


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (cost, ""),
        (lambda model, batch: cost(model, batch) + sum(p.square().sum() for p in model.parameters()), ""),
        (lambda model, batch: len(batch[0]) * cost(model, batch), "not a mean"),
        (lambda model, batch: cost(lambda x: model(x) - model(x).mean(0), batch), "mixes samples"),
        (lambda model, batch: cost(model, batch) * (1 if len(batch[0]) == 32 else "a" + 1), "has no loss"),
    ],
)
def test_which_losses_have_parts_like_the_whole(own, why):
    view = View(Looks(own, net(torch.nn.Dropout(0.2)).eval()), [BATCHES[0]], Ranks())
    assert why in why_whole(view)
    assert bool(why) == bool(why_whole(view))


def test_dropout_is_cut_and_a_batch_without_samples_is_not():
    looks = Looks(cost, net(torch.nn.Dropout(0.5)))
    assert why_whole(View(looks, [BATCHES[0]], Ranks())) == ""
    assert "no axis of samples" in why_whole(View(looks, [(BATCHES[0][0], torch.ones(3))], Ranks()))
