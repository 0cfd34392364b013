"""Optimisers: PyTorch's update equations, run like any other rule, and what they know about themselves."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import secant as sc
from secant.dynamics import runner
from secant.optim.optimizers.catalog import (
    OptimiserState,
    adadelta,
    adagrad,
    adagrad_delayed,
    adagrad_norm,
    adam,
    adamw,
    from_optax,
    gd,
    momentum,
    nesterov,
    one_of,
    rmsprop,
)
from secant.theory.edge import stability

STEPS = 8
NET = sc.nets.mlp([5], activation="tanh", bias=True)


@functools.cache
def fitted():
    x = np.random.default_rng(0).normal(size=(4, 7))
    problem = sc.Problem(NET.apply, x, np.sin(3 * x[:, 0]), sc.losses.mean_mse)
    return problem, NET.init(jax.random.key(1), x.shape)


@functools.cache
def run_of_adam():
    return sc.train(*fitted(), rule=adam(0.02), steps=STEPS, probes={"loss": sc.measure.loss()})


def by_hand(name, gradient, theta, steps, lr, beta=0.9, b2=0.999, alpha=0.99, eps=1e-8, decay=0.01):
    """The recursions of torch.optim, as its documentation writes them."""
    m, v, path = np.zeros_like(theta), np.zeros_like(theta), [theta]
    for t in range(1, steps + 1):
        g = np.asarray(gradient(theta))
        if name == "gd":
            theta = theta - lr * g
        elif name in ("momentum", "nesterov"):
            m = beta * m + g
            theta = theta - lr * (g + beta * m if name == "nesterov" else m)
        elif name == "rmsprop":
            v = alpha * v + (1 - alpha) * g**2
            theta = theta - lr * g / (np.sqrt(v) + eps)
        elif name == "adagrad":
            v = v + g**2
            theta = theta - lr * g / (np.sqrt(v) + 1e-10)
        elif name == "adagrad_norm":
            v = v + g @ g
            theta = theta - lr * g / np.sqrt(v)
        elif name == "adagrad_delayed":
            theta, v, past = theta - lr * g / np.sqrt(v + 1), v + g**2, v
        elif name == "adadelta":
            v = 0.9 * v + 0.1 * g**2
            step = np.sqrt(m + 1e-6) / np.sqrt(v + 1e-6) * g
            m, theta = 0.9 * m + 0.1 * step**2, theta - lr * step
        else:
            theta = theta - lr * decay * theta if name == "adamw" else theta
            m, v = beta * m + (1 - beta) * g, b2 * v + (1 - b2) * g**2
            theta = theta - lr * (m / (1 - beta**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
        path.append(theta)
    return np.stack(path), past if name == "adagrad_delayed" else v


MAKERS = {
    "gd": gd,
    "momentum": momentum,
    "nesterov": nesterov,
    "rmsprop": rmsprop,
    "adagrad": adagrad,
    "adagrad_norm": adagrad_norm,
    "adagrad_delayed": adagrad_delayed,
    "adadelta": adadelta,
    "adam": adam,
    "adamw": adamw,
}


def bumpy(theta):
    return jnp.sum(theta["a"] ** 4) / 4 + jnp.sum(jnp.cos(3 * theta["b"])) + theta["a"][0] * theta["b"][0, 1]


START = {"a": np.array([1.0, -0.3]), "b": np.array([[0.2, 0.5, -1.0]])}


@functools.cache
def slope_of_bumpy():
    _, unravel = ravel_pytree(START)
    return jax.jit(jax.grad(lambda v: bumpy(unravel(v))))


@pytest.mark.parametrize("name", MAKERS)
def test_the_steps_are_those_of_pytorch_or_of_the_recursion(name):
    optimiser = MAKERS[name](0.02)
    probes = {"theta": lambda p: ravel_pytree(p)[0]}
    if name != "adadelta":  # by what it divides is not kept
        divisor = lambda *given: ravel_pytree(optimiser.preconditioner(*given))[0]  # noqa: E731
        probes["last"] = sc.Probe(divisor, whole=True)
        probes["next"] = sc.Probe(lambda state: divisor(state, jax.grad(bumpy)(state.params)), whole=True)
    run = sc.simulate(optimiser(bumpy), START, 60, probes=probes)
    path, square = by_hand(name, slope_of_bumpy(), np.concatenate([START["a"], START["b"][0]]), 60, 0.02)
    np.testing.assert_allclose(run["theta"], path, rtol=1e-10, atol=1e-12)
    assert jax.tree.structure(run.state) == jax.tree.structure(START)  # the averages stay inside
    if name == "adadelta":
        return
    divisor = {
        "rmsprop": np.sqrt(square) + 1e-8,
        "adagrad": np.sqrt(square) + 1e-10,
        "adagrad_norm": np.sqrt(square),
        "adagrad_delayed": np.sqrt(square + 1),
        "adam": (1 - 0.9**60) * (np.sqrt(square / (1 - 0.999**60)) + 1e-8),
    }
    expected = divisor.get(name.removesuffix("w"), np.ones_like(square))
    np.testing.assert_allclose(run["last"][-1], expected, rtol=1e-9)
    np.testing.assert_array_equal(run["next"][:-1], run["last"][1:])


def test_adagrad_by_the_norm_does_not_know_the_scale_of_the_loss_and_rests_where_it_is_flat():
    systems = adagrad_norm(0.5)(lambda p: 7 * bumpy(p)), adagrad_norm(0.5)(bumpy)
    nine = jax.jit(lambda start: [jax.lax.fori_loop(0, 9, lambda _, s, m=m: m.step(s), m.init(start)) for m in systems])
    one, other = nine(START)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), one.params, other.params)
    flat = sc.simulate(adagrad_norm()(lambda p: 0.0 * p), 1.0, 3, probes={"w": lambda p: p})
    np.testing.assert_array_equal(flat["w"], 1.0)
    assert adagrad_norm().rotates
    assert adagrad_delayed(0.5).threshold == adagrad_norm(0.5).threshold == 4
    with pytest.raises(ValueError, match="`sigma`"):
        adagrad_delayed(sigma=0.0)


def test_the_defaults_are_those_of_pytorch():
    assert dict(adam().settings) == {"lr": 1e-3, "b1": 0.9, "b2": 0.999, "eps": 1e-8}
    assert dict(adamw().settings)["weight_decay"] == 1e-2
    assert dict(adagrad().settings) == {"lr": 1e-2, "eps": 1e-10}
    assert dict(adadelta().settings) == {"lr": 1.0, "decay": 0.9, "eps": 1e-6}
    assert dict(rmsprop().settings) == {"lr": 1e-2, "decay": 0.99, "eps": 1e-8}


def test_momentum_trains_in_the_span_of_the_data_and_adam_does_not():
    problem, params = fitted()
    probes = {"loss": sc.measure.loss(), "w": lambda p: ravel_pytree(p)[0]}
    train = functools.partial(sc.train, problem, params, rule=nesterov(0.1), steps=STEPS, probes=probes)
    small, whole = train(), train(reduce=False)
    assert small.dataset.attrs["input_reduction"] == "7 -> 4 features"
    assert whole.dataset.attrs["input_reduction"] == "none"
    np.testing.assert_allclose(small["loss"], whole["loss"], rtol=1e-10)
    np.testing.assert_allclose(small["w"], whole["w"], atol=1e-12)
    np.testing.assert_allclose(ravel_pytree(small.state)[0], small["w"][-1], atol=1e-12)
    assert momentum(0.1).rotates
    assert run_of_adam().dataset.attrs["input_reduction"] == "none"


def test_a_transformation_of_optax_is_a_rule():
    problem, params = fitted()
    plain = sc.train(problem, params, rule=optax.adam(0.02), steps=STEPS, probes={"loss": sc.measure.loss()})
    np.testing.assert_allclose(plain["loss"], run_of_adam()["loss"], rtol=1e-12)
    assert jax.tree.structure(plain.state) == jax.tree.structure(params)


def test_step_sizes_and_momenta_run_side_by_side():
    problem, params = fitted()
    probes = {"loss": sc.measure.loss()}
    both = sc.train(
        problem,
        params,
        rule=lambda loss, lr, beta: momentum(lr, beta)(loss),
        over={"lr": jnp.array([0.05, 0.1]), "beta": jnp.array([0.5, 0.9, 0.0])},
        steps=STEPS,
        probes=probes,
    )
    alone = sc.train(problem, params, rule=momentum(0.1, 0.9), steps=STEPS, probes=probes)
    np.testing.assert_allclose(both["loss"].sel(lr=0.1, beta=0.9), alone["loss"], rtol=1e-10)
    np.testing.assert_allclose(both.state[0]["weight"][1, 1], alone.state[0]["weight"], atol=1e-12)


def test_stopping_rules_see_the_parameters():
    run = sc.simulate(
        momentum(0.1, 0.5)(lambda p: jnp.sum(p["w"] ** 2) / 2),
        {"w": jnp.ones(2)},
        500,
        probes={"w": lambda p: p["w"]},
        stop=sc.Stop(converged=lambda p: jnp.all(jnp.abs(p["w"]) < 1e-3)),
    )
    assert int(run.dataset.outcome) == sc.Outcome.CONVERGED
    assert 0 < int(run.dataset.stopped_at) < 200


class PressesControlC(sc.dynamics.Silent):
    def update(self, done, note):
        if done > 50:
            raise KeyboardInterrupt


@pytest.mark.parametrize("axes", [None, {"which": np.arange(2)}])
def test_an_interrupted_run_resumes_with_the_averages_to_the_same_bits(tmp_path, monkeypatch, axes):
    monkeypatch.setattr(runner, "SAVE_SECONDS", 0.0)
    problem, params = fitted()
    rule = adam(0.02) if axes is None else lambda loss, which: one_of((adam(0.02), momentum(0.1)), which)(loss)
    arguments = {"rule": rule, "over": axes, "steps": 120, "probes": {"loss": sc.measure.loss()}}
    whole = sc.train(problem, params, **arguments)
    with pytest.raises(KeyboardInterrupt):
        sc.train(problem, params, **arguments, checkpoint=tmp_path, progress=PressesControlC())
    again = sc.train(problem, params, **arguments, checkpoint=tmp_path)
    np.testing.assert_array_equal(again["loss"], whole["loss"])
    jax.tree.map(np.testing.assert_array_equal, again.state, whole.state)


def test_equal_optimisers_share_compiled_code():
    assert adam(0.01) == adam(0.01, b1=0.9)
    assert hash(momentum(1)) == hash(momentum(1.0))
    assert adam(0.01) != adam(0.02)
    assert momentum(0.1) != nesterov(0.1)
    problem, params = fitted()
    traces = []

    def f(p, x):
        traces.append(1)
        return NET.apply(p, x)

    problem = sc.Problem(f, problem.x, problem.y, problem.loss)
    for _ in range(2):
        before = len(traces)
        sc.train(problem, params, rule=adam(0.01), steps=3, probes={"loss": sc.measure.loss()})
    assert len(traces) - before <= 1  # only the check of shapes looks again


@functools.cache
def hessian():
    problem, params = fitted()
    _, unravel = ravel_pytree(params)
    return jax.jit(jax.hessian(lambda v: problem.objective(unravel(v))))


def dense(params, divisor):
    flat, divisor = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]) for tree in (params, divisor))
    root = 1 / np.sqrt(divisor)
    return np.linalg.eigvalsh(root[:, None] * hessian()(flat) * root)[::-1]


@pytest.mark.parametrize("optimiser", [adam(0.02), rmsprop(0.005)], ids=["adam", "rmsprop"])
def test_preconditioned_sharpness_is_that_of_the_dense_matrix(optimiser):
    problem, params = fitted()
    probes = {"c": sc.measure.preconditioned_sharpness(optimiser, 2, every=4, tol=1e-9)}
    run = sc.train(problem, params, rule=optimiser, steps=4, probes=probes)
    system = optimiser(problem.objective)

    @jax.jit
    def ahead(state):
        divisor = optimiser.preconditioner(state, jax.grad(problem.objective)(state.params))
        return divisor, jax.lax.fori_loop(0, 4, lambda _, s: system.step(s), state)

    state = system.init(params)
    for index in (0, 1):
        divisor, later = ahead(state)
        np.testing.assert_allclose(run["c"][index], dense(state.params, divisor)[:2], rtol=1e-6)
        state = later
    assert run["c"].dims == ("step", "c_mode")
    assert set(run.dataset) >= {"c_residual", "c_error", "c_products"}


@pytest.mark.parametrize("decay", [1e-3, 0.5, 4.0])
@pytest.mark.parametrize("b1", [0.0, 0.5, 0.9])
def test_the_threshold_with_weight_decay_is_where_the_linear_rule_turns_unstable(b1, decay):
    rule = stability.adam(0.1, b1, decay)
    edge = adamw(0.1, b1=b1, weight_decay=decay).threshold
    assert edge == pytest.approx(rule.threshold, rel=1e-12)
    assert rule.spectral_radius(0.999 * edge) < 1 < rule.spectral_radius(1.001 * edge)


def test_without_a_preconditioner_it_is_the_sharpness():
    problem, params = fitted()
    rule = momentum(0.1)
    options = {"k": 2, "every": 4, "tol": 1e-9}
    probes = {"c": sc.measure.preconditioned_sharpness(rule, **options), "s": sc.measure.sharpness(**options)}
    run = sc.train(problem, params, rule=rule, steps=STEPS, probes=probes)
    assert run.dataset.attrs["input_reduction"] == "7 -> 4 features"
    np.testing.assert_allclose(run["c"].values, run["s"].values, rtol=1e-7)


def test_one_of_several_is_that_one():
    several = (gd(0.1), momentum(0.1), adam(0.02))
    x = np.array([1.0, -2.0])

    def loss(v):
        return jnp.sum(v**4) / 4

    together = sc.simulate(
        lambda which: one_of(several, which)(loss), x, STEPS, probes={"x": lambda v: v}, over={"which": np.arange(3)}
    )

    @jax.jit
    def alone(x):
        """Of each its path, and by what it divides as itself and as one of several."""
        found = []
        for number, one in enumerate(several):
            system, pair = one(loss), (one_of(several, number), one)
            path = jax.lax.scan(lambda s, _, m=system: (m.step(s), s.params), system.init(x), length=STEPS + 1)[1]
            found.append((path, [o.preconditioner(o(loss).init(x), jax.grad(loss)(x)) for o in pair]))
        return found

    for number, (one, (path, divisors)) in enumerate(zip(several, alone(x), strict=True)):
        np.testing.assert_allclose(together["x"][number].values, path, rtol=1e-12)
        assert one_of(several, number).threshold == one.threshold
        np.testing.assert_allclose(*divisors, rtol=1e-14)
    assert not one_of(several).rotates
    assert one_of(several[:2]).rotates


def test_a_run_goes_on_from_a_state():
    system = adam(0.1)(lambda x: jnp.sum(x**2) / 2)
    state, step = system.init(jnp.ones(2)), jax.jit(system.step)
    for _ in range(5):
        state = step(state)
    probes = {"x": lambda x: x}
    whole = sc.simulate(system, jnp.ones(2), 9, probes=probes)
    rest = sc.simulate(system, OptimiserState(*state), 4, probes=probes)
    np.testing.assert_allclose(rest["x"], whole["x"][5:], rtol=1e-14)


def test_what_is_known_can_be_said():
    known = from_optax(optax.sgd(0.5), threshold=4.0, scale=lambda inner, params: params, rotates=True)
    assert known.threshold == 4.0
    unknown = from_optax(optax.sgd(0.5))
    state = unknown(lambda x: x**2).init(1.0)
    with pytest.raises(
        ValueError, match=r"optax: its `threshold` is not known. Use a constructor of secant.optimisers"
    ):
        unknown.threshold
    with pytest.raises(ValueError, match="its preconditioner is not known"):
        unknown.preconditioner(state)
    for bad in (unknown, optax.adam(0.1), "adam"):
        with pytest.raises(ValueError, match=r"preconditioned_sharpness: .* a known preconditioner, which .* does not"):
            sc.measure.preconditioned_sharpness(bad)


@pytest.mark.parametrize("lr", [0.0, -1.0, float("nan"), float("inf"), True])
@pytest.mark.parametrize("name", MAKERS)
def test_a_bad_step_size_is_named(name, lr):
    with pytest.raises(ValueError, match=rf"{name}: `lr` must be a finite number above 0, got {lr!r}"):
        MAKERS[name](lr)


@pytest.mark.parametrize("bad", [1.0, -0.1, float("nan")])
@pytest.mark.parametrize(
    ("make", "argument"),
    [(momentum, "beta"), (nesterov, "beta"), (rmsprop, "decay"), (adam, "b1"), (adam, "b2"), (adamw, "b1")],
)
def test_a_bad_memory_is_named(make, argument, bad):
    with pytest.raises(ValueError, match=f"{make.__name__}: `{argument}` must be .* of at least 0 and below 1, got"):
        make(0.1, **{argument: bad})


def test_other_mistakes_are_named():
    problem, params = fitted()
    with pytest.raises(TypeError, match="adam: `lr` must be a number above 0, got 'fast'"):
        adam("fast")
    with pytest.raises(ValueError, match="adam: `eps` must be a finite number of at least 0, got -1"):
        adam(eps=-1)
    with pytest.raises(TypeError, match=r"from_optax: `transformation` must have .* got float"):
        from_optax(0.1)
    with pytest.raises(TypeError, match=r"train: `rule` must be an optimiser, .* got float"):
        sc.train(problem, params, rule=0.1, steps=1)
    with pytest.raises(TypeError, match="one_of: `optimisers` must be at least one"):
        one_of(())
    with pytest.raises(ValueError, match="train: `over` has an axis 'lr' that `rule` does not take"):
        sc.train(problem, params, rule=adam(0.1), over={"lr": jnp.ones(2)}, steps=1)
    probes = {"c": sc.measure.preconditioned_sharpness(adam(0.1))}
    for rule in (momentum(0.1), None):
        with pytest.raises(ValueError, match="preconditioned_sharpness: `optimiser` is adam, but the run does not use"):
            sc.train(problem, params, rule=rule, lr=None if rule else 0.1, steps=1, probes=probes)
