"""Every operator is its dense matrix, on small networks of every kind, in both precisions."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secant as sc
from secant.curvature.tangent_kernel import pair_kernel


def loss(outputs, targets):
    """Bends differently at every output, and couples all of them."""
    return jnp.sum(jnp.cosh((outputs - targets) / 2)) + 0.1 * jnp.sum(outputs) ** 2


def loss_derivatives(outputs, targets):
    half = (outputs - targets) / 2
    return np.sinh(half) / 2 + 0.2 * outputs.sum(), np.diag(np.cosh(half) / 4) + 0.2


def written_out(net, params, x, x2, v):
    return {
        "jacobian": sc.jacobian(net.apply, params, x).dense(),
        "ntk": sc.ntk(net.apply, params, x).dense(),
        "hessian": sc.hessian(net.apply, params, x, v, loss).dense(),
    }


def others_written_out(net, params, x, x2, v):
    return {
        "cross": sc.ntk(net.apply, params, x, x2).dense(),
        "per parameter": sc.curvature.ntk_per_parameter(net.apply, params, x),
        "ntk of any function": pair_kernel(lambda p, a: net.apply(p, a), "contraction")(params, x, None),
        "gauss_newton": sc.gauss_newton(net.apply, params, x, v, loss).dense(),
        "second_derivative": sc.second_derivative(net.apply, params, x, v).dense(),
    }


def by_other_ways(net, params, x, x2, v):
    """What knows nothing about layers: a few networks speak for all."""

    def anybodys(p, a):
        return net.apply(p, a)

    columns = jax.vmap(sc.ntk(net.apply, params, x).flat_product())
    last = tuple(size - 1 for size in v.shape)
    return {
        "output_hessian": sc.output_hessian(net.apply, params, x, last).dense(),
        "transposed": sc.jacobian(net.apply, params, x).T.dense(),
        "ntk by products": columns(jnp.eye(v.size, dtype=v.dtype)),
        "ntk by pushing": pair_kernel(anybodys, "products")(params, x, None),
        "cross of any function": pair_kernel(anybodys, "contraction")(params, x, x2),
        "cross by pushing": pair_kernel(anybodys, "products")(params, x, x2),
        "cross per parameter": sc.curvature.ntk_per_parameter(net.apply, params, x, x2),
        "per parameter of any function": sc.curvature.ntk_per_parameter(anybodys, params, x),
    }


@functools.cache
def compiled(net, compile_quickly, ways):
    """All of them in one compiled function: most of the time goes into compiling."""

    def run(*arguments):
        return {key: matrix for way in ways for key, matrix in way(net, *arguments).items()}

    return compile_quickly(run)


def expected(params, v, d):
    """The same from the derivatives written out."""
    slope, bend = loss_derivatives(d.outputs, np.asarray(v, float).ravel())
    kernel, cross = d.jacobian @ d.jacobian.T, d.jacobian @ d.jacobian2.T
    ends = np.cumsum([0] + [leaf.size for leaf in jax.tree.leaves(params)])
    cuts = [slice(a, b) for a, b in itertools.pairwise(ends)]
    shares = [d.jacobian[:, cut] @ d.jacobian[:, cut].T for cut in cuts]
    cross_shares = [d.jacobian[:, cut] @ d.jacobian2[:, cut].T for cut in cuts]
    like = jax.tree.structure(params)
    flat_gn = d.jacobian.T @ bend @ d.jacobian
    return {
        "jacobian": d.jacobian,
        "transposed": d.jacobian.T,
        "ntk": kernel,
        "ntk by products": kernel,
        "ntk of any function": kernel,
        "ntk by pushing": kernel,
        "cross": cross,
        "cross of any function": cross,
        "cross by pushing": cross,
        "per parameter": jax.tree.unflatten(like, shares),
        "per parameter of any function": jax.tree.unflatten(like, shares),
        "cross per parameter": jax.tree.unflatten(like, cross_shares),
        "hessian": flat_gn + np.tensordot(slope, d.second, 1),
        "gauss_newton": flat_gn,
        "second_derivative": np.tensordot(np.asarray(v, float).ravel(), d.second, 1),
        "output_hessian": d.second[-1],
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_operator_is_its_dense_matrix(name, case, dense, compile_quickly, dtype):
    precise = dtype == np.float64
    ways = [written_out]
    ways += [others_written_out] if precise else []
    ways += [by_other_ways] if precise and name in ("dense", "two layers", "signals") else []

    @given(st.integers(0, 2**16))
    @settings(max_examples=3, deadline=None)
    def check(seed):
        c = case(name, seed, dtype)
        found = compiled(c.net, compile_quickly, tuple(ways))(c.params, c.x, c.x2, c.v)
        wanted = expected(c.params, c.v, dense(name, c))
        for key, matrices in found.items():
            for got, want in zip(jax.tree.leaves(matrices), jax.tree.leaves(wanted[key]), strict=True):
                assert got.dtype == dtype, key
                slack = (1e-11 if precise else 2e-4) * (1 + np.abs(want).max())
                np.testing.assert_allclose(got, want, atol=slack, rtol=0, err_msg=key)

    check()
