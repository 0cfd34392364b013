"""A Taylor model has its function's derivatives up to its order and none beyond, and trains as a network does."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secant as sc
from secant import nets
from secant.curvature.tangent.tangent_kernel import pair_kernel
from secant.expansion import Expansion, expand, remainders

VECTORS, IMAGES = (4, 3), (3, 4, 4, 2)

# Networks of which some polynomial is the network with frozen gates, the order from which it is, and their inputs.
GATED = {
    "two layers": (lambda: nets.two_layer(7), 2, VECTORS),
    "with biases": (lambda: nets.mlp([6], 2, parametrization="standard", bias=True), 2, VECTORS),
    "leaky": (lambda: nets.mlp([6], activation="leaky", output_activation="leaky"), 2, VECTORS),
    "linear": (lambda: nets.deep_linear([5]), 2, VECTORS),
    "convolution": (lambda: nets.cnn([3], 2, pool="average", bias=True), 2, IMAGES),
    "three layers": (lambda: nets.mlp([5, 4], bias=True), 3, VECTORS),
}
SMOOTH = {
    "tanh": lambda: nets.mlp([5], 2, activation="tanh", bias=True),
    "swish": lambda: nets.mlp([5, 4], activation="swish", parametrization="standard"),
}
seeds = st.integers(0, 2**31 - 1)
few = functools.partial(settings, deadline=None, derandomize=True)


@functools.cache
def built(make):
    return make()


def inputs(shape, seed=0):
    x = np.random.default_rng(seed).normal(size=shape)
    x[-1] = 0.0  # a sample at which every neuron without a bias is at its kink
    return jnp.asarray(x)


def point(net, shape, seed):
    """Parameters; drawn by NumPy in the shapes of the network's own."""
    shapes = jax.eval_shape(lambda: net.init(jax.random.key(0), shape))
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), shapes)


def shifted(params, direction, size=1.0):
    return jax.tree.map(lambda p, d: p + size * d, params, direction)


def close(a, b, tolerance=1e-12):
    for got, want in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * (1 + np.max(np.abs(want))))


def derivative(f, directions):
    """Of a function of the parameters, along several directions at once."""
    for direction in directions:
        f = (lambda g, d: lambda params: jax.jvp(g, (params,), (d,))[1])(f, direction)
    return f


@pytest.mark.parametrize(("name", "order"), [("swish", 0), ("swish", 1), ("swish", 2), ("tanh", 3)])
def test_its_derivatives_are_the_functions_up_to_the_order_and_zero_beyond(name, order):
    net, x = built(SMOOTH[name]), inputs(VECTORS)

    @jax.jit
    def towers(params0, far, directions):
        model = expand(net.apply, params0, order)
        here = [
            (derivative(lambda p: model(p, x), directions[:j]), derivative(lambda p: net.apply(p, x), directions[:j]))
            for j in range(order + 1)
        ]
        beyond = derivative(lambda p: model(p, x), directions[: order + 1])
        return [(a(params0), b(params0)) for a, b in here], beyond(far)

    @given(seeds)
    @few(max_examples=5)
    def check(seed):
        params0, far, *directions = (point(net, VECTORS, (seed, i)) for i in range(6))
        here, beyond = towers(params0, far, directions)
        for ours, theirs in here:
            close(ours, theirs)
        np.testing.assert_array_equal(beyond, 0.0)

    check()


@pytest.mark.parametrize(("name", "orders"), [("tanh", (1, 2, 3)), ("swish", (0, 2))])
def test_what_is_left_out_is_one_order_smaller(name, orders):
    net, x = built(SMOOTH[name]), inputs(VECTORS)
    params0, direction = point(net, VECTORS, 1), point(net, VECTORS, 2)
    models = [expand(net.apply, params0, order) for order in orders]

    @jax.jit
    @jax.vmap
    def errors(size):
        params = shifted(params0, direction, size)
        return jnp.stack([jnp.linalg.norm(model(params, x) - net.apply(params, x)) for model in models])

    sizes = jnp.geomspace(0.002, 0.01, 5)
    slopes = np.polyfit(np.log(sizes), np.log(errors(sizes)), 1)[0]
    # The next order changes the slope by about the largest size.
    np.testing.assert_allclose(slopes, np.array(orders) + 1, atol=0.05)


@given(st.integers(0, 4), seeds)
@few(max_examples=12)
def test_a_polynomial_is_its_own_expansion(degree, seed):
    coefficients, params0, params, x = (
        jnp.asarray(np.random.default_rng((seed, i)).normal(size=s)) for i, s in enumerate([5, 3, 3, (4, 3)])
    )
    model = expand(powers(degree), params0, degree + seed % 2)
    close(model(params, (x, coefficients)), powers(degree)(params, (x, coefficients)), 1e-11)


@functools.cache
def powers(degree):
    def f(params, given):
        x, coefficients = given
        return sum(coefficients[j] * (x @ params) ** j for j in range(degree + 1))

    return f


@pytest.mark.parametrize("name", GATED)
def test_the_network_with_frozen_gates_is_its_polynomial(name):
    make, order, shape = GATED[name]
    net, x, kernel = built(make), inputs(shape), name in ("two layers", "with biases")

    def look(model, params):
        seen = (
            model(params, x),
            jax.grad(lambda p: jnp.sum(jnp.sin(model(p, x))))(params),
            jax.grad(lambda x: jnp.sum(jnp.sin(model(params, x))))(x),
        )
        return (*seen, pair_kernel(model)(params, x, None)) if kernel else seen

    @jax.jit
    def both(params0, params):
        gated, general = (expand(net.apply, params0, order, method=method) for method in ("gated", "general"))
        return look(gated, params), look(general, params), gated.on(x)(params)

    @given(seeds)
    @few(max_examples=5)
    def check(seed):
        gated, general, on_batch = both(point(net, shape, seed), point(net, shape, (seed, 1)))
        close(gated, general)
        close(on_batch, general[0])

    check()


def test_orders_beyond_add_nothing_to_a_gated_network():
    net, x = nets.two_layer(7), inputs(VECTORS)
    params0, params = point(net, VECTORS, 0), point(net, VECTORS, 1)
    close(expand(net.apply, params0, 3, method="general")(params, x), expand(net.apply, params0, 2)(params, x))


def test_the_quadratic_model_of_two_relu_layers_is_bilinear_behind_gates():
    net, x = nets.two_layer(7), inputs(VECTORS)
    params0, params = point(net, VECTORS, 0), point(net, VECTORS, 1)
    u0, (u, v) = params0[0]["weight"], (params[0]["weight"], params[2]["weight"][:, 0])
    gates = np.asarray(x @ u0) > 0
    close(expand(net.apply, params0)(params, x), (gates * (x @ u)) @ v / math.sqrt(7 * 3))


@pytest.mark.parametrize(
    ("make", "order", "method"),
    [
        (lambda: nets.two_layer(5), 2, "gated"),
        (lambda: nets.two_layer(5), 1, "general"),
        (lambda: nets.mlp([5, 5]), 2, "general"),
        (lambda: nets.mlp([5, 5]), 3, "gated"),
        (lambda: nets.mlp([5], activation="tanh"), 2, "general"),
        (lambda: nets.mlp([5], activation=lambda z: jnp.maximum(z, 1.0)), 2, "general"),
        (lambda: nets.mlp([5], output_activation="tanh"), 2, "general"),
        (lambda: nets.densenet([5]), 2, "general"),
        (lambda: nets.serial(nets.dense(5), nets.layer_norm(), nets.activation("relu"), nets.dense(1)), 3, "general"),
        (lambda: nets.serial(nets.serial(nets.dense(5), nets.activation("relu")), nets.dense(1)), 2, "gated"),
    ],
)
def test_gates_are_frozen_only_where_that_is_exact(make, order, method):
    net, x = make(), inputs(VECTORS)
    params0, params = point(net, VECTORS, 0), point(net, VECTORS, 1)
    model = expand(net.apply, params0, order)
    assert model.method == method
    if method == "general":
        with pytest.raises(ValueError, match="Use method='general'"):
            expand(net.apply, params0, order, method="gated")
    else:
        close(model(params, x), expand(net.apply, params0, order, method="general")(params, x))


@pytest.mark.parametrize(("order", "activation"), [(0, "tanh"), (1, "tanh"), (1, "relu"), (2, "tanh"), (2, "relu")])
def test_on_a_batch_it_is_the_same_function(order, activation):
    net, x = nets.mlp([6], 2, activation=activation, bias=True), inputs(VECTORS)
    params0, params = point(net, VECTORS, 0), point(net, VECTORS, 1)
    model = expand(net.apply, params0, order)
    ours, theirs = model.on(x), lambda p: model(p, x)

    @jax.jit
    def both(params):
        return [(f(params), jax.grad(lambda p, f=f: jnp.sum(f(p) ** 3))(params)) for f in (ours, theirs)]

    close(*both(params))


def test_training_the_linear_model_multiplies_the_error_by_one_minus_the_kernel():
    net, x, lr, steps = nets.mlp([20], activation="tanh"), inputs((6, 3)), 0.3, 8
    params0, y = point(net, x.shape, 0), jnp.arange(6.0)
    model = expand(net.apply, params0, 1)
    outputs = model.on(x)
    rule = sc.gradient_descent(lambda params: sc.losses.half_sum(outputs(params), y), lr)
    run = sc.simulate(rule, params0, steps, probes={"error": lambda params: model(params, x) - y})

    kernel = np.asarray(jax.jit(pair_kernel(net.apply))(params0, x, None))
    errors = [run.dataset.error.values[0]]
    for _ in range(steps):
        errors.append(errors[-1] - lr * kernel @ errors[-1])
    np.testing.assert_allclose(run.dataset.error, errors, rtol=1e-11, atol=1e-12)
    close(sc.ntk(model, run.state, x).dense(), kernel)  # and the kernel stays where it was


def test_the_kernel_of_the_quadratic_model_is_that_of_its_turning_jacobian():
    net, x = nets.mlp([4], activation="tanh"), inputs(VECTORS)
    params0, params = point(net, VECTORS, 0), point(net, VECTORS, 1)

    @jax.jit
    def both(params0, params):
        delta = jax.tree.map(jnp.subtract, params, params0)
        jacobian, turned = jax.jvp(jax.jacrev(lambda p: net.apply(p, x)), (params0,), (delta,))
        rows = [(a + b).reshape(len(x), -1) for a, b in zip(*map(jax.tree.leaves, (jacobian, turned)), strict=True)]
        return pair_kernel(expand(net.apply, params0))(params, x, None), sum(row @ row.T for row in rows)

    close(*both(params0, params))


def test_curvature_functions_take_it_as_they_take_a_network():
    net, x, y = nets.mlp([5], activation="tanh"), inputs(VECTORS), jnp.ones(4)
    params0 = point(net, VECTORS, 0)
    ours, theirs = (
        sc.hessian(f, params0, x, y, sc.losses.mean_mse).dense() for f in (expand(net.apply, params0), net.apply)
    )
    close(ours, theirs)  # at the point of expansion the quadratic model bends as the network does


def test_it_batches_over_parameters_and_over_points_of_expansion():
    net, x = nets.mlp([5], activation="tanh"), inputs(VECTORS)
    params0, params = ([point(net, VECTORS, (kind, i)) for i in range(3)] for kind in range(2))
    stacked0, stacked = (jax.tree.map(lambda *leaves: jnp.stack(leaves), *of) for of in (params0, params))
    together = jax.jit(jax.vmap(lambda p0, p: expand(net.apply, p0)(p, x)))(stacked0, stacked)
    close(together, jnp.stack([expand(net.apply, p0)(p, x) for p0, p in zip(params0, params, strict=True)]))
    model = expand(net.apply, params0[0])
    close(jax.vmap(model, (0, None))(stacked, x), jnp.stack([model(p, x) for p in params]))


def test_everything_a_model_depends_on_can_be_differentiated():
    x = inputs(VECTORS)

    def value(scale, params0, params, x):
        # `scale` is not an argument of the function that is expanded.
        return jnp.sum(expand(lambda p, x: jnp.tanh(scale * x @ p), params0, 2)(params, x) ** 2)

    arguments = (0.7, jnp.ones(3), jnp.array([0.5, 2.0, 1.0]), x)
    value, gradients = jax.jit(value), jax.jit(jax.grad(value, (0, 1, 2, 3)))(*arguments)
    for i, gradient in enumerate(gradients):
        direction = jnp.asarray(np.random.default_rng(i).normal(size=jnp.shape(arguments[i])))
        up, down = (value(*arguments[:i], arguments[i] + s * direction, *arguments[i + 1 :]) for s in (1e-5, -1e-5))
        assert jnp.vdot(gradient, direction) == pytest.approx(float(up - down) / 2e-5, rel=1e-7)


def test_inputs_may_be_whole_numbers_and_outputs_a_tree():
    model = expand(lambda p, x: {"exp": jnp.exp(p["table"][x]), "sum": p["table"].sum()}, {"table": jnp.zeros(3)}, 2)
    outputs = model({"table": jnp.array([0.0, 1.0, 2.0])}, jnp.array([2, 1]))
    close(outputs, {"exp": jnp.array([1 + 2 + 2, 1 + 1 + 0.5]), "sum": 3.0})


def test_models_of_flax_are_expanded():
    pytest.importorskip("flax")
    from flax import linen, nnx

    model, x = linen.Dense(2), inputs(VECTORS)
    params = jax.jit(model.init)(jax.random.key(0), x)
    check_second_order(lambda p, x: jnp.tanh(model.apply(p, x)), params, x)

    graph, state, _ = nnx.split(nnx.Linear(3, 2, rngs=nnx.Rngs(0)), nnx.Param, ...)
    check_second_order(lambda p, x: jnp.tanh(nnx.merge(graph, p)(x)), state, x)


def test_models_of_equinox_are_expanded():
    equinox = pytest.importorskip("equinox")
    module = equinox.nn.Linear(3, 2, key=jax.random.key(0))
    arrays, rest = equinox.partition(module, equinox.is_inexact_array)
    check_second_order(lambda p, x: jnp.tanh(jax.vmap(equinox.combine(p, rest))(x)), arrays, inputs(VECTORS))


def check_second_order(f, params0, x):
    model = expand(f, params0)

    @jax.jit
    def both(delta):
        terms = [derivative(lambda p: f(p, x), [delta] * j)(params0) for j in range(3)]
        params = shifted(params0, delta)
        return model(params, x), terms[0] + terms[1] + terms[2] / 2, jax.grad(lambda p: jnp.sum(model(p, x)))(params)

    delta = jax.tree.map(lambda leaf: np.random.default_rng(1).normal(size=leaf.shape).astype(leaf.dtype), params0)
    ours, theirs, gradient = both(delta)
    close(ours, theirs, 1e-5)  # some of these models are in single precision
    assert jax.tree.structure(gradient) == jax.tree.structure(params0)


def test_the_compiler_does_not_evaluate_the_network_itself():
    net, x = nets.mlp([8], activation="tanh"), inputs((5, 4))
    model = expand(net.apply, point(net, x.shape, 0), 0)
    compiled = jax.jit(lambda params: model(params, x)).lower(model.params0).compile()
    assert "dot(" in compiled.as_text() or "custom-call" in compiled.as_text()


def test_points_of_expansion_share_compiled_code():
    traced = []

    def f(params, x):
        traced.append(1)
        return jnp.tanh(x @ params)

    x = inputs(VECTORS)
    expand(f, jnp.ones(3))(jnp.zeros(3), x)
    count = len(traced)
    expand(f, jnp.zeros(3))(jnp.ones(3), x)
    assert len(traced) == count


def test_it_costs_what_it_says():
    """In multiplications and additions of the compiled gradient, for a batch and sizes where products dominate."""
    x, y = inputs((32, 100)), jnp.ones(32)

    def cost(function, *arguments):
        return jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"]

    def training(f):
        return jax.grad(lambda params: sc.losses.mean_mse(f(params), y))

    net = nets.two_layer(200)
    params0 = point(net, x.shape, 0)
    alone = cost(training(lambda params: net.apply(params, x)), params0)
    assert cost(training(expand(net.apply, params0).on(x)), params0) < 1.1 * alone
    assert cost(training(expand(net.apply, params0, method="general").on(x)), params0) < 1.7 * alone

    net = nets.mlp([100, 100], activation="tanh")
    params0 = point(net, x.shape, 0)
    gradient = training(lambda params: net.apply(params, x))
    product = cost(lambda params, v: jax.jvp(gradient, (params,), (v,))[1], params0, params0)
    assert cost(training(expand(net.apply, params0).on(x)), params0) < 1.6 * product


def test_it_is_a_function_with_an_identity():
    first, second = (expand(jnp.dot, jnp.ones(3)) for _ in range(2))
    assert first == first
    assert first != second
    assert len({first, second, first}) == 2
    assert repr(first).startswith("Expansion(")
    assert isinstance(first, Expansion)
    assert (first.f, first.order, first.method) == (jnp.dot, 2, "general")


def test_it_keeps_the_types_of_the_point_of_expansion():
    model = expand(lambda p, x: jnp.tanh(x @ p), jnp.ones(3, jnp.float32))
    x = inputs(VECTORS).astype(jnp.float32)
    assert model(np.zeros(3), x).dtype == jnp.float32
    assert model.on(x)(np.zeros(3)).dtype == jnp.float32


@pytest.mark.parametrize("order", [-1, 1.5, "2", None, True])
def test_an_order_that_is_none_is_refused(order):
    with pytest.raises(ValueError, match=r"`order` must be a whole number of at least 0"):
        expand(jnp.dot, jnp.ones(3), order)


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({"a": jnp.ones(3)}, r"`params`\['b'\] is missing"),
        ({"a": jnp.ones(3), "b": 1.0, "c": 1.0}, r"there is no `params0`\['c'\]"),
        ({"a": jnp.ones(4), "b": 1.0}, r"`params`\['a'\] has shape \(4,\) and `params0`\['a'\] has \(3,\)"),
        ([("a", 1.0)], "structure of `params0`"),
    ],
)
def test_parameters_of_another_form_are_refused_by_name(params, complaint):
    model = expand(lambda p, x: x @ p["a"] + p["b"], {"a": jnp.ones(3), "b": 0.0}, 1)
    for evaluate in (lambda p: model(p, jnp.eye(3)), model.on(jnp.eye(3))):
        with pytest.raises((ValueError, TypeError), match=complaint):
            evaluate(params)


def test_parameters_without_a_derivative_are_refused_by_name():
    with pytest.raises(TypeError, match=r"`params0`\['steps'\] is of type int"):
        expand(jnp.dot, {"steps": jnp.arange(3)})
    with pytest.raises(TypeError, match=r"`params`\['w'\] is of type complex"):
        expand(lambda p, x: x @ p["w"], {"w": jnp.ones(3)})({"w": jnp.ones(3, complex)}, jnp.eye(3))
    with pytest.raises(ValueError, match="holds no array"):
        expand(jnp.dot, {})


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="got int"):
        expand(3, jnp.ones(3))
    with pytest.raises(ValueError, match="`method` must be"):
        expand(jnp.dot, jnp.ones(3), method="fast")

    class Unhashable:
        __hash__ = None

        def __call__(self, params, x):
            return x @ params

    with pytest.raises(TypeError, match="must be hashable"):
        expand(Unhashable(), jnp.ones(3))


@pytest.mark.parametrize("size", [0.5, 1e-2])
def test_remainders_are_the_distances_of_the_taylor_models(size):
    net, x = nets.mlp([4], activation="tanh"), jnp.array([[0.3, -0.7], [1.0, 0.2]])
    start = net.init(jax.random.key(0), x.shape)
    change = jax.tree.map(lambda leaf: size * jnp.cos(jnp.arange(leaf.size, dtype=float)).reshape(leaf.shape), start)
    there = jax.tree.map(jnp.add, start, change)
    linear, quadratic = (expand(net.apply, start, order)(there, x) for order in (1, 2))
    found = remainders(lambda p: net.apply(p, x), start, change)
    truth = net.apply(there, x)
    for seen, expected in zip(found, (truth - linear, quadratic - linear, truth - quadratic), strict=True):
        np.testing.assert_allclose(seen, expected, atol=1e-14)
