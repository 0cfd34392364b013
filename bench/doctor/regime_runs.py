"""Training runs in known regimes, watched by the monitor: the test bench of the monitor's regimes.

All runs train small PyTorch networks on handwritten digits, mostly even digits against odd ones. The regime of a run is
known from its construction, and from curvature and noise on all samples, which a monitor does not see.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from secant import data
from secant.monitors.entrance import monitor
from secant.monitors.records.record import Watched

LARGEST = 65504.0
"""Of float16."""


class Kind(NamedTuple):
    """The right answer of the doctor for a run.

    Attributes:
        verdict: the right verdict, for kinds that test the verdict.
        regime: the right regime, for kinds that test the regime.
        never: regimes that would be wrong.
    """

    verdict: str = ""
    regime: str = ""
    never: tuple[str, ...] = ()


EDGES = ("edge", "stochastic edge")
KINDS = {
    "overflow of activations": Kind("overflow"),
    "overflow of an unchecked scale": Kind("overflow"),
    "float16, a scaler at work": Kind("healthy"),
    "float16, divergence": Kind("divergence"),
    "lazy": Kind(regime="lazy"),
    "learning features": Kind(never=("lazy",)),
    "stochastic edge": Kind(regime="stochastic edge"),
    "edge, all samples": Kind(regime="edge"),
    "below both edges": Kind(never=EDGES),
    "batch far below critical": Kind(regime="noise-dominated"),
    "batch far above critical": Kind(never=("noise-dominated", "stochastic edge")),
}
"""By name."""


def is_right(kind: str, verdict: str, regime: str) -> bool:
    """Whether verdict and regime are right for a run of this kind."""
    known = KINDS[kind]
    return verdict == (known.verdict or verdict) and regime == (known.regime or regime) and regime not in known.never


@dataclass(frozen=True)
class Plan:
    """The plan of a run.

    Attributes:
        samples: the number of samples.
        batch: samples of a step; a full batch has the same order every time.
        width: hidden units, in one layer.
        steps: the number of steps.
        every: steps between two looks.
        ratio: step size over the tangent-kernel critical step of all samples at the start.
        flipped: share of labels that are drawn by a coin.
        easy: whether the task is noughts against ones with the logistic loss, where all samples push the same way for
            long.
        rule: the network's parametrisation, `standard`, `ntk` or `mean-field`.
        outputs: whether the monitor is given the model's outputs.
        half: whether the run computes in float16.
        fill: in float16, the largest activation at the start over the largest number of float16; 0 for inputs as they
            are.
        growth: steps after which the loss scale doubles.
        scale: the loss scale at the start.
        checked: whether a step with gradients that are not finite is left out, and the loss scale halves.
    """

    samples: int = 128
    batch: int = 8
    width: int = 64
    steps: int = 800
    every: int = 20
    ratio: float = 0.6
    flipped: float = 0.5
    easy: bool = False
    rule: str = "standard"
    outputs: bool = False
    half: bool = False
    fill: float = 0.0
    growth: int = 40
    scale: float = 2.0**16
    checked: bool = True


@dataclass(frozen=True)
class Made:
    """A finished run.

    Attributes:
        watched: its record.
        sharpness: the sharpness on all samples at the end, divided by 2 over the step size.
        critical_batch: the smallest and the largest critical batch, on all samples, in the last third.
        batch: samples of a step.
        lost: share of the steps of the last third with numbers that are not finite.
    """

    watched: Watched
    sharpness: float
    critical_batch: tuple[float, float]
    batch: int
    lost: float


class Net(nn.Module):
    """One hidden layer without biases, of ReLU or tanh, and one output.

    Args:
        features: features of an input.
        width: width of the layer.
        rule: `standard`, `ntk` or `mean-field`.
        smooth: whether the activation is tanh.
        generator: random generator of the weights.
    """

    def __init__(self, features: int, width: int, rule: str, smooth: bool, generator: torch.Generator) -> None:
        super().__init__()
        shapes, sizes = ((width, features), (1, width)), (features**-0.5, width**-0.5)
        drawn = sizes if rule == "standard" else (1.0, 1.0)
        weights = [size * torch.randn(shape, generator=generator) for shape, size in zip(shapes, drawn, strict=True)]
        self.layers = nn.ParameterList([nn.Parameter(weight) for weight in weights])
        self.factors = [size / scale for size, scale in zip(sizes, drawn, strict=True)]
        if rule == "mean-field":
            self.factors[1] = 1 / width
        self.act = torch.tanh if smooth else torch.relu
        self.stretch = 1.0

    def hidden(self, x: Tensor) -> Tensor:
        """The pre-activations of the hidden units."""
        return _times(self.factors[0], nn.functional.linear(_times(self.stretch, x), self.layers[0]))

    def summed(self, x: Tensor) -> Tensor:
        """The sum over hidden units, before the factor of the parametrisation."""
        return nn.functional.linear(self.act(self.hidden(x)), self.layers[1])

    def forward(self, x: Tensor) -> Tensor:
        """Outputs, `(samples,)`."""
        out = _times(self.factors[1], self.summed(x))[:, 0].float()
        return out if self.stretch == 1 else out / self.stretch


def _times(factor: float, values: Tensor) -> Tensor:
    """The product. A factor of one is skipped, because PyTorch takes milliseconds to differentiate it forward."""
    return values if factor == 1 else factor * values


def squared(model: Any, batch: Any) -> Tensor:
    """Half the mean squared error."""
    return ((model(batch[0]) - batch[1]) ** 2).mean() / 2


def logistic(model: Any, batch: Any) -> Tensor:
    """The mean of $\\log(1 + e^{-yf})$."""
    return nn.functional.softplus(-batch[1] * model(batch[0])).mean()


class Unchecked:
    """A loss scale that grows without checking that gradients are finite."""

    def __init__(self, scale: float, growth: int) -> None:
        self._scale, self._growth, self._steps = scale, growth, 0

    def get_scale(self) -> float:
        """The factor of the loss."""
        return self._scale

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the scale."""
        return loss * self._scale

    def step(self, optimiser: Any) -> None:
        """A step with gradients divided by the scale."""
        for group in optimiser.param_groups:
            for p in group["params"]:
                p.grad.div_(self._scale)
        optimiser.step()

    def update(self) -> None:
        """Doubles the scale after every `growth` steps."""
        self._steps += 1
        if self._steps % self._growth == 0:
            self._scale *= 2


def make(plan: Plan, seed: int) -> Made:
    """Makes a run, watched by [`monitor`][secant.monitors.monitor].

    Args:
        plan: the plan of the run.
        seed: seed of samples, labels, weights and batches.
    """
    random, loss = np.random.default_rng([19, seed]), logistic if plan.easy else squared
    x, y = _task(plan, random, seed)
    smooth = not (plan.outputs or plan.half)
    model = Net(x.shape[1], plan.width, plan.rule, smooth, torch.Generator().manual_seed(seed))
    lr = plan.ratio * 2 * len(x) / float(torch.linalg.eigvalsh(_kernel(model, x))[-1])
    lr *= 4 if plan.easy else 1  # the curvature of the logistic loss is a quarter at most
    if plan.fill:
        with torch.no_grad():
            model.stretch = plan.fill * LARGEST / float(max(model.hidden(x).abs().max(), model.summed(x).abs().max()))
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    scaler: Any = None
    if plan.half and plan.checked:
        scaler = torch.amp.GradScaler("cpu", init_scale=plan.scale, growth_interval=plan.growth)
    elif plan.half:
        scaler = Unchecked(plan.scale, plan.growth)
    watch = monitor(
        loss,
        model=model,
        optimiser=optimiser,
        f=(lambda model, x: model(x)) if plan.outputs else None,
        record=False,
        every=plan.every,
        **({} if scaler is None else {"scaler": scaler}),
    )
    noise, lost = [], []
    with warnings.catch_warnings(), watch:
        warnings.simplefilter("ignore")  # warnings of a loss that is not finite, as intended here
        for step in range(plan.steps):
            rows = np.arange(len(x)) if plan.batch >= len(x) else random.choice(len(x), plan.batch, replace=False)
            batch = x[rows], y[rows]
            optimiser.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16, enabled=plan.half):
                found = loss(model, batch)
            (found if scaler is None else scaler.scale(found)).backward()
            watch(step, batch, loss=found)
            if 3 * step >= 2 * plan.steps:
                slopes = [p.grad for p in model.parameters() if p.grad is not None]
                lost.append(not all(bool(torch.isfinite(one).all()) for one in [found.detach(), *slopes]))
                noise += [_critical_batch(model, x, y, plan.easy)] if step % plan.every == 0 else []
            if scaler is None:
                optimiser.step()
            else:
                scaler.step(optimiser)
                scaler.update()
    sharpness = _sharpness(loss, model, x, y) * lr / 2
    return Made(watch.watched, sharpness, (min(noise), max(noise)), min(plan.batch, len(x)), float(np.mean(lost)))


def _task(plan: Plan, random: np.random.Generator, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs, and labels of 1 and -1."""
    classes = (0, 1) if plan.easy else None
    options: dict[str, Any] = {"samples": plan.samples, "test_samples": 1, "seed": seed, "dtype": np.float32}
    task = data.load("digits", classes=classes, labels="one-hot", **options)
    x, label = np.array(task.train.x, np.float32), np.asarray(task.train.y).argmax(1)
    signs = np.where(label % 2 == 0, 1.0, -1.0)
    coins = random.choice([-1.0, 1.0], len(x))
    y = np.where(random.random(len(x)) < 2 * plan.flipped, coins, signs).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


def _jacobian(model: Net, x: Tensor) -> Tensor:
    """Gradients of the outputs by the parameters, a row a sample, written out."""
    first, last = (p.detach().double() for p in model.layers)
    inside = model.factors[0] * x.double() @ first.T
    if model.act is torch.tanh:
        act, slope = torch.tanh(inside), 1 - torch.tanh(inside) ** 2
    else:
        act, slope = inside.clamp(min=0), (inside > 0).double()
    outer = torch.einsum("nw,nf->nwf", model.factors[0] * model.factors[1] * last * slope, x.double())
    return torch.cat([outer.flatten(1), model.factors[1] * act], 1)


def _kernel(model: Net, x: Tensor) -> Tensor:
    found = _jacobian(model, x)
    return found @ found.T


def _critical_batch(model: Net, x: Tensor, y: Tensor, easy: bool) -> float:
    r"""$\mathrm{tr}\,\Sigma/|g|^2$ over all samples."""
    with torch.no_grad():
        out = model(x)
    each = _jacobian(model, x) * (-y * torch.sigmoid(-y * out) if easy else out - y).double()[:, None]
    mean = each.mean(0)
    return float(((each - mean) ** 2).sum() / (len(x) - 1) / (mean @ mean))


def _sharpness(loss: Any, model: Net, x: Tensor, y: Tensor, products: int = 60) -> float:
    """The largest eigenvalue of the Hessian of all samples, by power iteration."""
    own = list(model.parameters())
    slopes = torch.autograd.grad(loss(model, (x, y)), own, create_graph=True)
    v: list[Tensor] = [torch.ones_like(p) for p in own]
    for _ in range(products):
        size = _length(v)
        v = list(torch.autograd.grad(slopes, own, [part / size for part in v], retain_graph=True))
    return float(_length(v))


def _length(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts]).norm()


def plan(kind: str, seed: int) -> Plan:
    """The plan of a run of a kind. The seed draws all settings that the kind leaves open.

    Args:
        kind: one of `KINDS`.
        seed: seed of the run.
    """
    between = np.random.default_rng([20, seed]).uniform
    short: dict[str, Any] = {"steps": 200, "every": 10}
    half: dict[str, Any] = short | {"half": True, "flipped": 0.0}
    return {
        "overflow of activations": Plan(
            **half, rule="mean-field", ratio=0.1, batch=(128, 32)[seed % 2], fill=between(0.25, 0.35)
        ),
        "overflow of an unchecked scale": Plan(
            **half, batch=16, ratio=between(0.2, 0.5), checked=False, scale=1024.0, growth=10
        ),
        "float16, a scaler at work": Plan(
            **half, batch=16, ratio=between(0.2, 0.5), scale=2.0 ** (16, 24)[seed % 2], growth=int(between(10, 40))
        ),
        "float16, divergence": Plan(**half, batch=(128, 16)[seed % 2], ratio=between(4, 8)),
        "lazy": Plan(
            **short, samples=64, batch=64, width=1024, rule="ntk", flipped=0.0, ratio=between(0.3, 0.6), outputs=True
        ),
        "learning features": Plan(
            **short, samples=64, batch=64, width=16, rule="ntk", flipped=0.0, ratio=between(0.2, 0.4), outputs=True
        ),
        "stochastic edge": Plan(ratio=between(0.5, 0.7), steps=1200),
        "edge, all samples": Plan(batch=128, ratio=between(0.85, 1.0), steps=300, every=10),
        "below both edges": Plan(ratio=between(0.08, 0.15), steps=300, every=10),
        "batch far below critical": Plan(samples=512, batch=4, ratio=between(0.1, 0.2), steps=300, every=10),
        "batch far above critical": Plan(
            samples=300, batch=256, easy=True, flipped=0.0, ratio=between(0.2, 0.3), steps=40, every=2
        ),
    }[kind]
