"""A measurement in a loop of one's own: the same numbers as along a run, compiled once for all batches."""

import jax
import numpy as np
import pytest

import secant as sc

NET = sc.nets.mlp([5], activation="tanh")
RANDOM = np.random.default_rng(0)
BATCHES = [(RANDOM.normal(size=(8, 3)), RANDOM.normal(size=8)) for _ in range(2)]


@pytest.mark.parametrize("name", ["loss", "gradient_norm", "distance", "sharpness", "kernel_top", "kernel_drift"])
def test_a_pair_measures_on_every_batch_what_a_run_measures_on_it(name):
    params = NET.init(jax.random.key(0), (8, 3))
    measurement = getattr(sc.measure, name)()
    traced = []
    init, look = measurement.pair(NET.apply, "mse")

    def counted(*given):
        traced.append(1)
        return look(*given)

    once, memory = jax.jit(counted), init(params, BATCHES[0])
    for batch in BATCHES:
        first = init(params, batch)
        run = sc.train(sc.Problem(NET.apply, *batch, "mse"), params, lr=0.1, steps=0, probes={"seen": measurement})
        record, _ = once(params, batch, first)
        value = record["value"] if isinstance(record, dict) else record
        np.testing.assert_allclose(run["seen"][0], value, rtol=1e-6)
        _, memory = once(params, batch, memory)
    assert traced == [1]


def test_what_looks_at_the_next_batch_of_a_run_has_no_pair():
    init, _ = sc.measure.batch_loss().pair(NET.apply, "mse")
    with pytest.raises(ValueError, match=r"Measurement.pair: what looks at the next batch of a run has none"):
        init(None, BATCHES[0])
