"""What the studies of wide networks share, and golden numbers of theirs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets
from secant.cli import entry
from secant.studies.shared import width as by_width
from secant.studies.shared.width import KINDS, hessian_norm, refuse_oversized, stored_numbers

KEY = jax.random.key(0)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_weights_of_a_wide_network_are_counted_without_making_it(kind):
    def make(m):
        return KINDS[kind].make(m, 5, KEY)

    net = make(37)
    shapes = jax.eval_shape(lambda key: net.init(key, (1, 5)), KEY)
    assert stored_numbers(make, 5)(37) == sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


def test_a_sweep_that_cannot_fit_is_refused_before_anything_is_made(monkeypatch):
    made = []

    def make(m):
        made.append(m)
        return KINDS["fcn"].make(m, 8, KEY)

    monkeypatch.setattr(by_width, "available_bytes", lambda: 2**30)
    refuse_oversized("study", make, 8, (64, 4_096))
    with pytest.raises(MemoryError, match=r"up to 100,000, where.*1.0 GiB are free. Widths up to 4,096 fit"):
        refuse_oversized("study", make, 8, (64, 100_000))
    assert max(made) < 64
    monkeypatch.setattr(by_width, "available_bytes", lambda: None)  # a system that does not say
    refuse_oversized("study", make, 8, (100_000,))


def test_the_command_line_says_what_would_fit(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SECANT_HOME", str(tmp_path))
    monkeypatch.setattr(entry, "keep_compiled_code", lambda: None)
    status = entry.main(["run", "thesis/cor-2.3.7", "--scale", "smoke", "--widths", "64", "10000000"])
    assert status == 1
    assert "thesis/cor-2.3.7: MemoryError: `widths` goes up to 10,000,000" in capsys.readouterr().err


@pytest.mark.parametrize("width", [128, 512])
def test_the_norm_of_a_hessian_needs_few_copies_of_the_parameters(width):
    full = nets.graphs.densenet(16, [width, width], concat_input=False)
    net = nets.dag(nets.graphs.drop_edges(full, KEY), "tanh")
    x = jnp.ones((1, 16), jnp.float32)
    params = jax.eval_shape(lambda key: net.init(key, x.shape, jnp.float32), KEY)
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    start = jax.ShapeDtypeStruct((count,), jnp.float32)
    memory = jax.jit(lambda p, v: hessian_norm(net.apply, p, x, v)).lower(params, start).compile().memory_analysis()
    used = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
    assert used <= 10 * 4 * count


def test_a_narrow_layer_is_repaired_by_edges_from_a_wide_one(outcome):
    norm = outcome("thesis/thm-2.3.6")[0].norm.mean("network")
    fall = norm.isel(width=-1) / norm.isel(width=0)
    assert float(fall.sel(kind="repaired")) < 0.6
    assert float(fall.sel(kind="layer")) > 0.8


def test_the_remainder_along_the_leading_eigenvector_is_nearly_all_that_the_norm_allows(outcome):
    data, config, _ = outcome("thesis/cor-2.3.7")
    bound = config.radius**2 / 2 * data.norm.sel(way="top").max("place")
    assert float((np.abs(data.remainder.sel(way="top")) / bound).min()) > 0.8
    assert float((data.drawn / bound).max()) < 0.05


def test_a_block_with_the_last_layer_is_the_slope_of_what_the_output_reads(outcome):
    data, _, _ = outcome("thesis/thm-2.3.8")
    assert float(data.gap.max()) < 1e-12
    np.testing.assert_allclose(data.block.sel(pair="2,3"), data.slope.sel(lower=2), rtol=0.02)
    assert float(data.block.sel(pair="3,3").max()) == 0.0


def test_reading_the_input_makes_a_narrow_densenet_wide(outcome):
    data, _, _ = outcome("thesis/fig-2.2")
    assert int(data.dense_degree.min()) > 4 * int(data.hidden.min())
    assert int(data.degree.sel(scaling="new").isel(width=0).max()) <= int(data.width[0])


def test_a_bent_output_keeps_its_hessian_and_still_finds_a_minimum(outcome):
    data, _, _ = outcome("thesis/sec-2.4")
    norm = data.norm.sel(kind="output").mean(("network", "end"))
    assert float(norm.isel(width=-1) / norm.isel(width=0)) > 0.7
    assert float(data.loss.sel(kind="output").isel(step=-1).max()) < 1e-5


def test_moving_gaussians_breaks_the_printed_bound_and_keeps_the_proved_one(outcome):
    data, config, _ = outcome("thesis/lem-A.11")
    steps = np.diff(data.moved.mean("batch")) / np.diff(data.radius)
    np.testing.assert_allclose(steps, config.width**-0.5, rtol=1e-9)


def test_all_outputs_together_bend_more_than_one(outcome):
    data, config, _ = outcome("thesis/cor-A.3.1")
    ratio = data.joint / data.own.max("output")
    assert 1.0 < float(ratio.mean()) < np.sqrt(config.outputs)
