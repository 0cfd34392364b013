"""The same weights and the same batches have the same numbers in PyTorch and in JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import secant as sc  # noqa: E402
from secant.monitors.in_torch.monitor import TorchMonitor  # noqa: E402

DIGITS = 1e-4


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(36, 3),
    )  # fmt: skip


def cost(model: nn.Module, batch: Any) -> Any:
    return ((model(batch[0]) - batch[1]) ** 2).sum(1).mean()


@pytest.mark.parametrize(("make", "shape"), [(perceptron, (12,)), (convolutions, (2, 6, 6))])
def test_the_same_weights_and_batches_have_the_same_numbers(make: Any, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model = make()
    random = np.random.default_rng(0)
    x = random.normal(size=(16, *shape)).astype(np.float32)
    y = (x.reshape(16, -1)[:, :3] + 1).astype(np.float32)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    # At one point, where the search for the sharpness goes on from call to call; the rest is the same at all of them.
    looks = {"sharpness": 1, "batch_sharpness": 30, "noise_scale": 30}
    with TorchMonitor(cost, model, optimiser, every=looks, record=False) as watch:
        for step in range(30):
            watch(step, (torch.as_tensor(x), torch.as_tensor(y)))
    net, params, inputs = sc.lift(model, torch.as_tensor(x))
    theirs, targets = np.asarray(inputs(torch.as_tensor(x))), y
    expected = in_jax(net.apply, params, theirs, targets) | {"threshold": sc.optimisers.momentum(0.2, 0.9).threshold}
    for name, value in expected.items():
        assert watch.last[name] == pytest.approx(value, rel=DIGITS), name


def test_both_monitors_say_the_same_of_a_run() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 3))
    random = np.random.default_rng(1)
    data = [random.normal(size=(16, 12)).astype(np.float32) for _ in range(3)]
    batches = [(x, x[:, :3] + 1) for x in data]
    net, params, _ = sc.lift(model, torch.as_tensor(data[0]))
    rule = optax.sgd(0.02, momentum=0.9)
    state = rule.init(params)

    def loss(params: Any, batch: Any) -> Any:
        return sc.losses.mean_mse(net.apply(params, batch[0]), batch[1])

    @jax.jit
    def move(params: Any, state: Any, batch: Any) -> Any:
        updates, state = rule.update(jax.grad(loss)(params, batch), state)
        return optax.apply_updates(params, updates), state

    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    with (
        sc.monitor(cost, model=model, optimiser=optimiser, every=1, record=False) as ours,
        sc.monitor(loss, optimiser=rule, every=1, record=False) as theirs,
    ):
        for step, (x, y) in enumerate(batches * 4):
            given = torch.as_tensor(x), torch.as_tensor(y)
            ours(step, given)
            theirs(step, params, state, (x, y))
            optimiser.zero_grad()
            cost(model, given).backward()
            optimiser.step()
            params, state = move(params, state, (x, y))
        one, two = ours.watched, theirs.watched
        for step in range(12, 40):  # at the last point, where both searches for the sharpness go on
            ours(step, given)
            theirs(step, params, state, (x, y))
    assert set(one.names) == set(two.names)
    for name in set(one.names) - {
        "look_seconds",
        "share",
        "sharpness",
        "sharpness_error",
        "sharpest_share",
        "critical_lr",
    }:
        steps, values = one.column(name)
        assert list(steps) == list(two.column(name)[0]), name
        assert values == pytest.approx(two.column(name)[1], rel=DIGITS), name
    for name in ("sharpness", "critical_lr", "threshold"):
        assert ours.last[name] == pytest.approx(theirs.last[name], rel=DIGITS), name


def in_jax(f: Any, params: Any, x: Any, y: Any) -> dict[str, float]:
    """The numbers of a monitor, from Secant's own measurements of curvature."""
    loss = sc.losses.mean_mse
    every = np.arange(len(x))[None]

    @jax.jit
    def look(params: Any, x: Any, y: Any) -> Any:
        slopes = []
        for rows in (slice(16), slice(8), slice(8, 16)):
            value, slope = jax.value_and_grad(lambda p, rows=rows: loss(f(p, x[rows]), y[rows]))(params)
            slopes.append((value, ravel_pytree(slope)[0]))
        return slopes

    (value, slope), (_, one), (_, two) = (
        jax.tree.map(lambda v: np.asarray(v, float), pair) for pair in look(params, x, y)
    )
    apart = ((one - two) ** 2).sum() / 4
    return {
        "loss": float(value),
        "gradient_norm": float(np.linalg.norm(slope)),
        "parameter_norm": float(np.linalg.norm(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)]))),
        "batch_sharpness": float(sc.batch_sharpness(f, params, x, y, loss, every)[0]),
        "sharpness": float(sc.hessian(f, params, x, y, loss).top(1, tol=1e-6).values[0]),
        "noise_scale": float(16 * apart / ((((one + two) / 2) ** 2).sum() - apart)),
    }
