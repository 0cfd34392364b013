"""A measurement in a loop of one's own: the same numbers as along a run, compiled once for all batches."""

import jax
import numpy as np
import pytest

import secant as sc

NET = sc.nets.mlp([5], activation="tanh")
RANDOM = np.random.default_rng(0)
BATCHES = [(RANDOM.normal(size=(8, 3)), RANDOM.normal(size=8)) for _ in range(2)]


MEASUREMENTS = {
    name: getattr(sc.measure, name)()
    for name in ("loss", "gradient_norm", "distance", "sharpness", "kernel_top", "kernel_drift")
}


@pytest.fixture(scope="module")
def params():
    with jax.enable_x64(True):
        return NET.init(jax.random.key(0), (8, 3))


@pytest.fixture(scope="module")
def run(params):
    """What runs of no steps on either batch measure."""
    x, y = (np.stack(parts) for parts in zip(*BATCHES, strict=True))
    with jax.enable_x64(True):
        return sc.train(
            lambda batch: sc.Problem(NET.apply, batch["x"], batch["y"], "mse"),
            params,
            lr=0.1,
            steps=0,
            probes=MEASUREMENTS,
            over={"batch": {"x": x, "y": y}},
        )


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_a_pair_measures_on_every_batch_what_a_run_measures_on_it(run, params, name):
    traced = []
    init, look = MEASUREMENTS[name].pair(NET.apply, "mse")
    init = jax.jit(init)

    def counted(*given):
        traced.append(1)
        return look(*given)

    once, memory = jax.jit(counted), init(params, BATCHES[0])
    for number, batch in enumerate(BATCHES):
        record, _ = once(params, batch, init(params, batch))
        value = record["value"] if isinstance(record, dict) else record
        np.testing.assert_allclose(run[name][number, 0], value, rtol=1e-6)
        _, memory = once(params, batch, memory)
    assert traced == [1]


def test_what_looks_at_the_next_batch_of_a_run_has_no_pair():
    init, _ = sc.measure.batch_loss().pair(NET.apply, "mse")
    with pytest.raises(ValueError, match=r"Measurement.pair: .* needs the whole state of a run, such as its next"):
        init(None, BATCHES[0])
