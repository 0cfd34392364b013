"""Optimisers of PyTorch as monitors read them: thresholds that are met, divisors that were used."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import secant as sc  # noqa: E402
from secant.monitors.in_torch.optimizers import kind_of, read  # noqa: E402

OURS: dict[str, tuple[Any, Any]] = {
    "gd": (sc.optimisers.gd(0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "decay": (sc.optimisers.gd(0.1, 0.3), lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.3)),
    "momentum": (sc.optimisers.momentum(0.1, 0.8), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8)),
    "nesterov": (sc.optimisers.nesterov(0.1, 0.8), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True)),
    "rmsprop": (sc.optimisers.rmsprop(1e-2), lambda p: torch.optim.RMSprop(p, lr=1e-2)),
    "adagrad": (sc.optimisers.adagrad(1e-2), lambda p: torch.optim.Adagrad(p, lr=1e-2)),
    "adam": (sc.optimisers.adam(1e-3, 0.8), lambda p: torch.optim.Adam(p, lr=1e-3, betas=(0.8, 0.99))),
    "adamw": (sc.optimisers.adamw(1e-2, weight_decay=3.0), lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=3.0)),
}


@pytest.mark.parametrize("name", OURS)
def test_thresholds_are_those_of_our_own_optimisers(name: str) -> None:
    ours, make = OURS[name]
    p = torch.nn.Parameter(torch.ones(3))
    assert read(make([p]), [p]).threshold == pytest.approx(ours.threshold, rel=1e-12)


RULES: dict[str, tuple[Any, dict[str, Any]]] = {
    "damped": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5), {}),
    "nesterov": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), {}),
    "decayed momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5, weight_decay=2.0), {}),
    "rmsprop": (lambda p: torch.optim.RMSprop(p, lr=0.1, alpha=1 - 1e-12), {"square_avg": 4.0}),
    "heavy rmsprop": (
        lambda p: torch.optim.RMSprop(p, lr=0.1, alpha=1 - 1e-12, momentum=0.7),
        {"square_avg": 4.0, "momentum_buffer": 0.0},
    ),
    "adagrad": (lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=1e-6), {"sum": 4.0}),
    "adam": (
        lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 1 - 1e-9)),
        {"exp_avg": 0.0, "exp_avg_sq": 4.0},
    ),
    "adamw": (
        lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.8, 1 - 1e-9), weight_decay=2.0),
        {"exp_avg": 0.0, "exp_avg_sq": 4.0},
    ),
    "amsgrad": (
        lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 1 - 1e-9), amsgrad=True),
        {"exp_avg": 0.0, "exp_avg_sq": 4.0, "max_exp_avg_sq": 9.0},
    ),
    "nadam": (
        lambda p: torch.optim.NAdam(p, lr=0.1, betas=(0.8, 1 - 1e-9), momentum_decay=1e-5),
        {"exp_avg": 0.0, "exp_avg_sq": 4.0, "mu_product": 0.0},
    ),
    "radam": (
        lambda p: torch.optim.RAdam(p, lr=0.1, betas=(0.8, 0.999_999)),
        {"exp_avg": 0.0, "exp_avg_sq": 4.0},
    ),
    "adamax": (lambda p: torch.optim.Adamax(p, lr=0.1, betas=(0.8, 1.0 - 1e-9)), {"exp_avg": 0.0, "exp_inf": 2.0}),
}
"""Rules with memories that a few hundred tiny gradients do not change, a long way into a run."""

BEGUN = 10_000.0


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("ratio", [0.98, 1.02])
def test_a_rule_is_stable_below_its_threshold_and_not_above(name: str, ratio: float) -> None:
    make, memory = RULES[name]
    p = torch.nn.Parameter(torch.full((1,), 1e-30, dtype=torch.float64))
    optimiser = make([p])
    scalars = ("mu_product",)
    if memory:
        optimiser.state[p].clear()
        optimiser.state[p]["step"] = torch.tensor(1e7 if name == "radam" else BEGUN)
        for key, value in memory.items():
            number = torch.tensor(value) if key in scalars else torch.full((1,), value, dtype=torch.float64)
            optimiser.state[p][key] = number
    reading = read(optimiser, [p], [torch.zeros_like(p)])
    assert reading.divisor is not None
    by = reading.divisor[0]
    curvature = ratio * reading.threshold * float(by)
    sizes = []
    for _ in range(400):
        p.grad = curvature * p.detach().clone()
        optimiser.step()
        sizes.append(abs(p.item()))
    assert (max(sizes[-20:]) < max(sizes[100:120])) == (ratio < 1)
    critical = reading.critical_lr(reading.threshold * ratio)
    if not _decayed(optimiser):
        assert critical == pytest.approx(0.1 / ratio)
    else:
        optimiser.param_groups[0]["lr"] = critical
        again = read(optimiser, [p], [torch.zeros_like(p)]).threshold
        assert again == pytest.approx(reading.threshold * ratio, rel=1e-9)


def _decayed(optimiser: Any) -> bool:
    return optimiser.param_groups[0]["weight_decay"] > 0


STEPS: dict[str, Any] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
    "centred": lambda p: torch.optim.RMSprop(p, lr=0.1, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.5),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.0, 0.9)),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.0, 0.9), weight_decay=0.0),
    "AMSGrad": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.0, 0.5), amsgrad=True),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.1, betas=(0.0, 0.9)),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.1, betas=(0.0, 0.9)),
}
"""Rules without a memory of gradients, so that a step is the gradient over the divisor."""


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_the_gradient_over_the_divisor(name: str) -> None:
    torch.manual_seed(0)
    p = torch.nn.Parameter(torch.randn(4, dtype=torch.float64))
    optimiser = STEPS[name]([p])
    for step in range(12):
        p.grad = torch.randn(4, dtype=torch.float64) * (1 + step % 3)
        divisor = read(optimiser, [p], [p.grad]).divisor
        assert divisor is not None
        before = p.detach().clone()
        optimiser.step()
        assert torch.allclose(before - p.detach(), 0.1 * p.grad / divisor[0], rtol=1e-9, atol=1e-12)
    last = read(optimiser, [p]).divisor  # that of the step that was
    assert last is not None
    assert torch.allclose(torch.as_tensor(last[0], dtype=torch.float64), torch.as_tensor(divisor[0]).double())


def test_groups_with_other_step_sizes_enter_the_divisor() -> None:
    fast, slow, still, alien = (torch.nn.Parameter(torch.ones(1)) for _ in range(4))
    groups = [{"params": [fast]}, {"params": [slow], "lr": 0.01}, {"params": [still], "lr": 0.0}]
    reading = read(torch.optim.SGD(groups, lr=0.1), [fast, slow, still, alien])
    assert reading.lr == 0.1
    assert reading.threshold == pytest.approx(20.0)
    assert reading.divisor == [1.0, pytest.approx(10.0), math.inf, math.inf]


def test_what_is_not_known_is_said() -> None:
    class Own(torch.optim.Adam):
        def step(self, closure: Any = None) -> Any:
            return None

    p = torch.nn.Parameter(torch.ones(2, 2))
    for optimiser in (torch.optim.Muon([p], lr=0.1), Own([p]), torch.optim.Rprop([p])):
        reading = read(optimiser, [p])
        assert reading.threshold is None
        assert type(optimiser).__name__ in reading.missing
        assert reading.critical_lr(3.0) is None
    assert "maximises the loss" in read(torch.optim.SGD([p], lr=0.1, maximize=True), [p]).missing
    assert "leaves out the weight decay" in read(torch.optim.Adam([p], weight_decay=0.1), [p]).missing
    assert "not above 0" in read(torch.optim.SGD([p], lr=0.0), [p]).missing

    class Wrapped:
        optimizer = torch.optim.AdamW([p])

    assert kind_of(Wrapped()) == "AdamW"
