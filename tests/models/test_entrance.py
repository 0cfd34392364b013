"""Everything that takes a function and its parameters takes a model in their place, and mistakes are named."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import secant as sc

X, Y = np.random.default_rng(0).normal(size=(4, 3)), np.random.default_rng(1).normal(size=(4, 2))

OPERATORS = {
    "jacobian": lambda *given: sc.jacobian(*given, X),
    "ntk": lambda *given: sc.ntk(*given, X),
    "ntk between two sets": lambda *given: sc.ntk(*given, X, X[:2]),
    "hessian": lambda *given: sc.hessian(*given, X, Y, "mse"),
    "gauss_newton": lambda *given: sc.gauss_newton(*given, X, y=Y, loss="mse"),
    "second_derivative": lambda *given: sc.second_derivative(*given, X, Y),
    "output_hessian": lambda *given: sc.output_hessian(*given, X, (0, 1)),
}
NUMBERS = {
    "ntk_per_parameter": lambda *given: sc.curvature.ntk_per_parameter(*given, X),
    "loss_split": lambda *given: sc.loss_split(*given, X, Y, "mse"),
    "convergence": lambda *given: sc.curvature.convergence(*given, X, Y, "mse"),
    "batch_critical_lr": lambda *given: sc.batch_critical_lr(*given, X, Y, "mse", [[0, 1], [2, 3]]),
    "agop": lambda *given: sc.agop(*given, X),
    "expand": lambda *given: sc.expand(*given, 1)(jax.tree.map(jnp.ones_like, sc.model(*given).params), X),
}


def linear():
    return eqx.nn.Linear(3, 2, key=jax.random.key(0))


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_of_a_model_is_that_of_its_function(name):
    module = linear()
    model = sc.model(module)
    direct, given, apart = (OPERATORS[name](*g) for g in ((module,), (model,), (model.apply, model.params)))
    # The same product of the same numbers, and so the same compiled code.
    assert direct.bind is given.bind is apart.bind
    assert jax.tree.structure(direct.data) == jax.tree.structure(apart.data)
    jax.tree.map(np.testing.assert_array_equal, direct.data, apart.data)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_measurement_of_a_model_is_that_of_its_function(name):
    module = linear()
    model = sc.model(module)
    direct, apart = NUMBERS[name](module), NUMBERS[name](model.apply, model.params)
    jax.tree.map(np.testing.assert_array_equal, direct, apart)


def test_a_network_goes_without_its_method():
    net = sc.nets.mlp([4], 2, activation="tanh")
    params = net.init(jax.random.key(0), X.shape)
    assert sc.hessian(net, params, X, Y, "mse").bind is sc.hessian(net.apply, params, X, Y, "mse").bind
    assert sc.expand(net, params, 2).f == net.apply


def test_arguments_may_be_named():
    module = linear()
    model = sc.model(module)
    by_name = sc.ntk(f=model.apply, params=model.params, x=X)
    assert by_name.bind is sc.ntk(f=module, x=X).bind is sc.ntk(module, x=X).bind
    head = linen.Dense(2, param_dtype=float)
    variables = head.init(jax.random.key(0), X)
    assert sc.ntk(f=head, params=variables, x=X).bind is sc.ntk(head, variables, X).bind


def test_a_problem_is_made_of_a_model_and_trained_from_where_it_stands():
    module = linear()
    problem = sc.Problem(module, X, Y, "mse")
    assert problem.loss is sc.losses.entry_mean
    run = sc.train(problem, lr=0.1, steps=2, probes={"loss": sc.measure.loss()})
    weight, bias, losses = np.asarray(module.weight), np.asarray(module.bias), []
    for _ in range(3):
        residual = X @ weight.T + bias - Y
        losses.append(np.mean(residual**2))
        weight, bias = weight - 0.1 * residual.T @ X / 4, bias - 0.1 * residual.sum(0) / 4
    np.testing.assert_allclose(run["loss"], losses, rtol=1e-12)
    # It may start elsewhere, and a function has to.
    other = jax.tree.map(jnp.zeros_like, problem.params)
    again = sc.train(problem, other, lr=0.1, steps=1, probes={"loss": sc.measure.loss()})
    assert float(again["loss"][0]) == pytest.approx(np.mean(Y**2))
    with pytest.raises(TypeError, match=r"train: `params` is missing\. Say where to start"):
        sc.train(sc.Problem(lambda w, x: x @ w, X, Y, "mse"), lr=0.1, steps=1)
    with pytest.raises(TypeError, match=r"`problem` must be a secant.Problem, got Linear. Pass `secant.Problem\(model"):
        sc.train(module, lr=0.1, steps=1)


def test_the_maximal_step_of_a_model_is_estimated_where_it_stands():
    problem = sc.Problem(linear(), X, Y, "mse")
    assert sc.estimate_max_lr(problem).lr == sc.estimate_max_lr(problem, problem.params).lr
    with pytest.raises(TypeError, match="find_max_lr: `params` is missing"):
        sc.find_max_lr(sc.Problem(lambda w, x: x @ w, X, Y, "mse"))


def test_the_critical_step_for_loops_takes_a_model():
    module = linear()
    model = sc.model(module)
    critical = sc.curvature.kernel_critical_lr(module, "mse")
    # The curvature of the mean over eight entries is a quarter of the largest eigenvalue of the kernel.
    largest = np.linalg.svd(np.hstack([X, np.ones((4, 1))]))[1][0] ** 2
    assert float(critical(model.params, X)) == pytest.approx(8 / largest, rel=1e-6)


def test_functions_that_equinox_wraps_stay_functions():
    weight = np.ones((3, 2))
    wrapped = eqx.filter_jit(lambda w, x: x @ w)
    assert sc.jacobian(wrapped, weight, X).shape == (8, 6)


class Noisy(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(2, param_dtype=float)(x) + jax.random.normal(self.make_rng("noise"), (len(x), 2))


class Normalised(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.BatchNorm(use_running_average=False, param_dtype=float)(x)


class Drawing(eqx.Module):
    weight: jax.Array

    def __call__(self, x, key):
        return self.weight @ x + jax.random.normal(key, (2,))


class Empty(nnx.Module):
    def __call__(self, x):
        return x


def with_state():
    return eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, "batch", mode="ema")


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda: (linen.Dense(2),), "Flax linen Dense has its variables outside. Pass them with it, .*; got ndarray"),
        (lambda: (linen.Dense(2), {"kernel": X}), "a dict as `module.init` returns it: .*; got 'kernel'"),
        (lambda: (with_state()[0],), r"has a state, as batch normalisation has. .*`secant.model\(model, state\)`"),
        (lambda: (Drawing(jnp.ones((2, 3))),), r"`Drawing.__call__` also takes 'key'. Pass it by name: .* key=...\)"),
        (lambda: (linear(), sc.model(linear()).params), r"Equinox Linear brings its parameters; leave `params` out"),
        (lambda: (sc.model(linear()), linear()), r"For other parameters pass `secant.model\(...\).at\(params\)`"),
        (lambda: (3, X), r"`f` must be a function of \(params, x\), a module of Flax or Equinox, or .*, got int"),
    ],
)
def test_what_is_missing_or_too_much_is_named(give, message):
    with pytest.raises(TypeError, match=message):
        sc.ntk(*give(), X)


def test_parameters_by_name_are_too_much_as_well():
    with pytest.raises(TypeError, match="ntk: Equinox Linear brings its parameters; leave `params` out"):
        sc.ntk(linear(), params=sc.model(linear()).params, x=X)
    with pytest.raises(TypeError, match="expand: Equinox Linear brings its parameters; leave `params0` out"):
        sc.expand(linear(), params0=sc.model(linear()).params)


def test_statistics_are_never_taken_for_parameters():
    module = linen.BatchNorm(use_running_average=True)
    variables = module.init(jax.random.key(0), X)
    with pytest.raises(
        TypeError, match="ntk: 'batch_stats' in the variables of BatchNorm would be taken for parameters"
    ):
        sc.ntk(module.apply, variables, X)
    assert sc.jacobian(module, variables, X).shape == (12, 6)


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        (Noisy(), "It asks for random numbers. Switch that off, or fix them: `secant.model(..., rngs={name: key})`."),
        (Normalised(), "It wants to update its own state, as in training. Build or call it for evaluation: "),
    ],
)
def test_a_module_that_cannot_just_be_evaluated_says_why(module, hint):
    variables = module.init({"params": jax.random.key(0), "noise": jax.random.key(1)}, X)
    with pytest.raises(Exception, match=r"PRNG|collection") as raised:
        sc.jacobian(module, variables, X)
    assert any(note.startswith(hint) for note in raised.value.__notes__)


def test_randomness_can_be_fixed():
    key = jax.random.key(1)
    variables = Noisy().init({"params": key, "noise": key}, X)
    model = sc.model(Noisy(), variables, rngs={"noise": key})
    np.testing.assert_array_equal(model.apply(model.params, X), Noisy().apply(variables, X, rngs={"noise": key}))
    drawing = sc.model(Drawing(jnp.ones((2, 3))), key=key)
    want = jax.vmap(lambda one: jnp.ones((2, 3)) @ one + jax.random.normal(key, (2,)))(X)
    np.testing.assert_allclose(drawing.apply(drawing.params, X), want, rtol=1e-12)


def test_inputs_of_another_shape_are_named():
    with pytest.raises(TypeError, match="dot_general") as raised:
        sc.critical_lr(linear(), X[:, :2], Y, "mse")
    assert any(
        note.startswith(
            "Equinox Linear takes `x` of shape [(4, 2)] neither one sample at a time, which raised this, nor"
        )
        for note in raised.value.__notes__
    )
    module = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    with pytest.raises(TypeError, match="dot_general") as raised:
        sc.critical_lr(module, X[:, :2], Y, "mse")
    assert "Flax nnx Linear was called as a batch, for `x` of shape [(4, 2)]." in raised.value.__notes__
    with pytest.raises(ValueError, match=r"Pass targets with shape \(4, 2\)"):
        sc.critical_lr(module, X, Y[:, 0], "mse")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: sc.model(Empty()), ValueError, "Flax nnx Empty has no nnx.Param: there is nothing to train"),
        (lambda: sc.model(linen.Dropout(0.5, deterministic=True), {"params": {}}), ValueError, "has no parameter"),
        (
            lambda: sc.model(nnx.Linear(3, 2, rngs=nnx.Rngs(0)), {}),
            TypeError,
            "has its variables inside. Pass it alone",
        ),
        (lambda: sc.model(linear(), X), TypeError, "takes an `equinox.nn.State` beside it or nothing, got ndarray"),
        (lambda: sc.model(np.dot), TypeError, r"Pass them, too: `secant.model\(f, params\)`"),
        (lambda: sc.model(np.dot, X, train=True), TypeError, "'train' is for modules of Flax and Equinox"),
        (lambda: sc.model(np.dot, X, per_sample=True), TypeError, "'per_sample' is for modules of Flax and Equinox"),
        (lambda: sc.model(linear(), per_sample="yes"), ValueError, "`per_sample` must be True, False or None"),
        (lambda: sc.model(3), TypeError, "`module` must be a module of Flax or Equinox, .* got int"),
        (lambda: sc.Problem(linen.Dense(2), X, Y, "mse"), TypeError, r"Pass `secant.model\(module, variables\)`"),
        (lambda: sc.Problem(3, X, Y, "mse"), TypeError, "Problem: `f` must be a function .* got int"),
    ],
)
def test_models_refuse_what_they_cannot_be_made_of(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_bound_module_of_linen_brings_its_variables():
    module = linen.Dense(2, param_dtype=float)
    variables = module.init(jax.random.key(0), X)
    assert sc.jacobian(module.bind(variables), X).bind is sc.jacobian(module, variables, X).bind
