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
from secant.curvature.tangent.tangent_kernel import pair_kernel


def loss(outputs, targets):
    """Bends differently at every output, and couples all of them."""
    return jnp.sum(jnp.cosh((outputs - targets) / 2)) + 0.1 * jnp.sum(outputs) ** 2


def loss_derivatives(outputs, targets):
    half = (outputs - targets) / 2
    return np.sinh(half) / 2 + 0.2 * outputs.sum(), np.diag(np.cosh(half) / 4) + 0.2


def written_out(net, params, x, x2, v, w):
    return {
        "jacobian": sc.jacobian(net.apply, params, x).dense(),
        "ntk": sc.ntk(net.apply, params, x).dense(),
        "hessian": sc.hessian(net.apply, params, x, v, loss).dense(),
    }


def others_written_out(net, params, x, x2, v, w):
    return {
        "cross": sc.ntk(net.apply, params, x, x2).dense(),
        "per parameter": sc.curvature.ntk_per_parameter(net.apply, params, x),
        "ntk of any function": pair_kernel(lambda p, a: net.apply(p, a), "contraction")(params, x, None),
    }


def times_a_vector(net, params, x, x2, v, w):
    """Products with a vector that nobody chose stand for the matrices: they are compiled in half the time."""
    return {
        "gauss_newton times w": sc.gauss_newton(net.apply, params, x, v, loss).flat_product()(w),
        "second_derivative times w": sc.second_derivative(net.apply, params, x, v).flat_product()(w),
    }


def rounded(net, params, x, x2, v, w):
    """The same in single precision."""
    return {
        "jacobian times w": sc.jacobian(net.apply, params, x).flat_product()(w),
        "ntk": sc.ntk(net.apply, params, x).dense(),
        "hessian times w": sc.hessian(net.apply, params, x, v, loss).flat_product()(w),
    }


def by_other_ways(net, params, x, x2, v, w):
    """What knows nothing about layers: a few networks speak for all."""

    def anybodys(p, a):
        return net.apply(p, a)

    columns = jax.vmap(sc.ntk(net.apply, params, x).flat_product())
    last = tuple(size - 1 for size in v.shape)
    return {
        "gauss_newton": sc.gauss_newton(net.apply, params, x, v, loss).dense(),
        "second_derivative": sc.second_derivative(net.apply, params, x, v).dense(),
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


def expected(params, v, w, d):
    """The same from the derivatives written out."""
    slope, bend = loss_derivatives(d.outputs, np.asarray(v, float).ravel())
    kernel, cross = d.jacobian @ d.jacobian.T, d.jacobian @ d.jacobian2.T
    ends = np.cumsum([0] + [leaf.size for leaf in jax.tree.leaves(params)])
    cuts = [slice(a, b) for a, b in itertools.pairwise(ends)]
    shares = [d.jacobian[:, cut] @ d.jacobian[:, cut].T for cut in cuts]
    cross_shares = [d.jacobian[:, cut] @ d.jacobian2[:, cut].T for cut in cuts]
    like = jax.tree.structure(params)
    flat_gn = d.jacobian.T @ bend @ d.jacobian
    hessian = flat_gn + np.tensordot(slope, d.second, 1)
    weighed = np.tensordot(np.asarray(v, float).ravel(), d.second, 1)
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
        "hessian": hessian,
        "gauss_newton": flat_gn,
        "second_derivative": weighed,
        "jacobian times w": d.jacobian @ w,
        "hessian times w": hessian @ w,
        "gauss_newton times w": flat_gn @ w,
        "second_derivative times w": weighed @ w,
        "output_hessian": d.second[-1],
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_operator_is_its_dense_matrix(name, case, dense, compile_quickly, dtype):
    precise = dtype == np.float64
    ways = [written_out, others_written_out] if precise else [rounded]
    if precise:
        ways += [by_other_ways if name in ("dense", "two layers", "signals") else times_a_vector]

    @given(st.integers(0, 2**16))
    @settings(max_examples=3, deadline=None)
    def check(seed):
        c = case(name, seed, dtype)
        d = dense(name, c)
        w = np.random.default_rng(seed).normal(size=d.jacobian.shape[1]).astype(dtype)
        found = compiled(c.net, compile_quickly, tuple(ways))(c.params, c.x, c.x2, c.v, w)
        wanted = expected(c.params, c.v, w, d)
        for key, matrices in found.items():
            for got, want in zip(jax.tree.leaves(matrices), jax.tree.leaves(wanted[key]), strict=True):
                assert got.dtype == dtype, key
                slack = (1e-11 if precise else 2e-4) * (1 + np.abs(want).max())
                np.testing.assert_allclose(got, want, atol=slack, rtol=0, err_msg=key)

    check()


DATA = np.random.default_rng(0)
X, Y = DATA.normal(size=(5, 3)), DATA.normal(size=5)
NET = sc.nets.mlp([4], activation="tanh")


@pytest.fixture
def params(drawn):
    return drawn(NET, X.shape, np.random.default_rng(1))


def like(tree, seed=0):
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: generator.normal(size=leaf.shape), tree)


def test_hessian_products_are_differences_of_gradients(params):
    direction = like(params)
    gradient = jax.jit(jax.grad(lambda p: sc.losses.half_sum(NET.apply(p, X), Y)))
    product = sc.hessian(NET.apply, params, X, Y, sc.losses.half_sum).mv(direction)
    ahead, behind = (
        gradient(jax.tree.map(lambda p, d: p + step * d, params, direction))  # noqa: B023
        for step in (1e-5, -1e-5)
    )
    for got, a, b in zip(*map(jax.tree.leaves, (product, ahead, behind)), strict=True):
        np.testing.assert_allclose(got, (np.asarray(a) - np.asarray(b)) / 2e-5, atol=1e-8)


def test_hessian_products_are_those_of_backpropagation_written_by_hand(params):
    r"""Pearlmutter's operator $R\{\cdot\}$ on $f = \tanh(x U / \sqrt d)\, w / \sqrt m$ and half the sum of squares."""
    direction = like(params)
    u, w = (np.asarray(params[i]["weight"]) for i in (0, 2))
    du, dw = (np.asarray(direction[i]["weight"]) for i in (0, 2))
    x, y = X / np.sqrt(3), Y[:, None]
    w, dw = w / 2, dw / 2
    a = np.tanh(x @ u)
    slope, bend = 1 - a**2, -2 * a * (1 - a**2)
    residual = a @ w - y
    # Forward: how everything moves along the direction.
    rz = x @ du
    ra = slope * rz
    r_residual = ra @ w + a @ dw
    # Backward: the same for the signals that come back.
    rw = ra.T @ residual + a.T @ r_residual
    signal = (r_residual @ w.T + residual @ dw.T) * slope + residual @ w.T * bend * rz
    product = sc.hessian(NET.apply, params, X, Y, sc.losses.half_sum).mv(direction)
    np.testing.assert_allclose(product[0]["weight"], x.T @ signal, rtol=1e-12)
    np.testing.assert_allclose(product[2]["weight"], rw / 2, rtol=1e-12)


def test_a_loss_may_be_given_by_name_and_hold_class_numbers(params, drawn):
    by_name = sc.hessian(NET.apply, params, X, Y, "mean_mse").dense()
    np.testing.assert_array_equal(by_name, sc.hessian(NET.apply, params, X, Y, sc.losses.mean_mse).dense())
    net = sc.nets.mlp([4], 3, activation="tanh")
    own = drawn(net, X.shape, np.random.default_rng(2))
    classes = np.array([0, 2, 1, 1, 0])
    H = sc.hessian(net.apply, own, X, classes, "cross_entropy")
    np.testing.assert_allclose(
        H.dense(), sc.hessian(net.apply, own, X, np.eye(3)[classes], "cross_entropy").dense(), atol=1e-14
    )
    # The Gauss-Newton matrix of a convex loss has no negative eigenvalue; the Hessian has.
    lowest = np.asarray(sc.gauss_newton(net.apply, own, X, classes, "cross_entropy").top(which="smallest").values)
    assert lowest[0] > -1e-12 > np.asarray(H.top(which="smallest").values)[0]


def test_other_parameters_and_data_are_not_compiled_again():
    seen = []

    def f(p, x):
        seen.append(x)
        return jnp.tanh(x @ p["u"]) @ p["w"]

    def measure(seed):
        p = like({"u": np.zeros((3, 2)), "w": np.zeros(2)}, seed)
        x, y = like(np.zeros((4, 3)), seed + 1), like(np.zeros(4), seed + 2)
        H, K = sc.hessian(f, p, x, y, sc.losses.half_sum), sc.ntk(f, p, x)
        H.mv(p), H.top(), K.mv(y), K.top(), sc.jacobian(f, p, x).mv(p), sc.gauss_newton(f, p, x, y, "half_sum").mv(p)

    measure(0)
    before = len(seen)
    measure(3)
    # Shapes are found by tracing; each operator does that once, and nothing else.
    assert len(seen) - before <= 4


def test_a_function_without_a_hash_is_taken_all_the_same(params):
    class Unhashable:
        __hash__ = None

        def __call__(self, p, x):
            return NET.apply(p, x)

    np.testing.assert_allclose(
        sc.jacobian(Unhashable(), params, X).dense(), sc.jacobian(NET.apply, params, X).dense(), rtol=1e-12
    )
    np.testing.assert_allclose(
        sc.ntk(Unhashable(), params, X).dense(), sc.ntk(NET.apply, params, X).dense(), rtol=1e-12
    )


def test_duplicated_samples_make_zeros_in_the_kernel(params):
    twice = np.concatenate([X, X])
    K = sc.ntk(NET.apply, params, twice)
    values = np.linalg.eigvalsh(K.dense())
    np.testing.assert_allclose(values[:5], 0, atol=1e-12)
    np.testing.assert_allclose(values[5:], 2 * np.linalg.eigvalsh(sc.ntk(NET.apply, params, X).dense()), rtol=1e-10)
    np.testing.assert_allclose(K.top(3, which="smallest").values, 0, atol=1e-12)


def test_the_smallest_cases_work():
    assert sc.ntk(lambda w, x: x * w, jnp.array(2.0), jnp.array([3.0])).dense().tolist() == [[9.0]]
    assert sc.hessian(lambda w, x: x * w, 2.0, jnp.array([3.0]), jnp.array([1.0]), "half_sum").dense().tolist() == [
        [9.0]
    ]
    assert sc.output_hessian(lambda w, x: x * w**2, jnp.array(2.0), jnp.array([3.0]), np.int64(-1)).dense() == 6.0


@pytest.mark.parametrize(
    ("output", "shape"),
    [(3, (3,)), (-4, (3,)), ((0, 0), (3,)), (0, (3, 2)), ((0, 2), (3, 2)), (1.0, (3,)), (True, (3,)), ("a", (3,))],
)
def test_an_output_that_does_not_exist_is_refused(output, shape):
    with pytest.raises(ValueError, match=r"output_hessian: `output` .* is no index into outputs of shape .* Pass"):
        sc.output_hessian(lambda w, x: jnp.ones(shape) * w, jnp.ones(()), X[:3], output)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda p: sc.hessian(NET.apply, p, X, Y[:4], "half_sum"),
            ValueError,
            "hessian: `y` has 4 samples and `x` has 5",
        ),
        (lambda p: sc.hessian(NET.apply, p, X, Y[:, None], "half_sum"), ValueError, r"`targets` has shape \(5, 1\)"),
        (lambda p: sc.hessian(NET.apply, p, X, Y, "half_sums"), ValueError, "unknown loss 'half_sums'. Did you mean"),
        (lambda p: sc.hessian(NET.apply, p, X, Y, 3), TypeError, "`loss` must be a name, a Loss or a function"),
        (
            lambda p: sc.hessian(NET.apply, p, X, Y, lambda o, y: o - y),
            TypeError,
            r"hessian: `loss\(outputs, targets\)` must be one number, it has shape \(5,\)|its shape is \(5,\)",
        ),
        (
            lambda p: sc.gauss_newton(NET.apply, p, X, Y, lambda o, y: jnp.sum(o > y)),
            TypeError,
            r"gauss_newton: `loss\(outputs, targets\)` must be a real number, it is of type int",
        ),
        (
            lambda p: sc.second_derivative(NET.apply, p, X, np.ones(4)),
            ValueError,
            r"second_derivative: `v` has shape \(4,\) and the outputs have \(5,\)",
        ),
        (lambda p: sc.second_derivative(NET.apply, p, X, 1j * Y), TypeError, "`v` must hold real numbers, got complex"),
        (
            lambda p: sc.jacobian(NET.apply, p, X).mv(np.ones(3)),
            ValueError,
            "jacobian.mv: `v` has 3 entries, .* takes 16",
        ),
        (lambda p: sc.jacobian(NET.apply, p, X).T.mv(np.ones(3)), ValueError, r"jacobian transposed.mv: `v` has shape"),
        (lambda p: sc.jacobian(NET.apply, p, X).top(), ValueError, "jacobian.top: only a symmetric operator"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(params, call, error, message):
    with pytest.raises(error, match=message):
        call(params)


@pytest.mark.parametrize("method", ["top", "trace", "density"])
def test_a_loss_that_is_not_finite_is_an_error(params, method):
    broken = jax.tree.map(lambda leaf: leaf * np.nan, params)
    with pytest.raises(FloatingPointError, match=f"hessian.{method}: a product is not finite"):
        getattr(sc.hessian(NET.apply, broken, X, Y, "half_sum"), method)()
    with pytest.raises(FloatingPointError, match="is not finite"):
        sc.hessian(NET.apply, params, X, Y * np.inf, "half_sum").top()
