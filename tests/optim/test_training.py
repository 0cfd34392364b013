"""Training a problem: the same run with and without the reduction of inputs, measured rightly on the way."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import secant as sc
from secant.nets.reduction import first_dense, is_reducible, reduce_inputs

STEPS = 12
NET = sc.nets.mlp([6], activation="tanh", bias=True)
X = np.random.default_rng(0).normal(size=(5, 9))


@pytest.fixture(scope="module")
def fitted():
    with jax.enable_x64(True):
        params = NET.init(jax.random.key(1), X.shape)
        yield sc.Problem(NET.apply, X, np.sin(3 * X[:, 0]), sc.losses.mean_mse), params


def every_measurement():
    return {
        "loss": sc.measure.loss(),
        "gradient": sc.measure.gradient_norm(),
        "distance": sc.measure.distance(),
        "sharp": sc.measure.sharpness(2, every=4, tol=1e-9),
        "kernel": sc.measure.kernel_top(3, every=3, tol=1e-9),
        "within": sc.measure.loss_within(2),
        "drift": sc.measure.kernel_drift(every=2),
        "weights": lambda p: ravel_pytree(p)[0],
    }


@pytest.fixture(scope="module")
def runs(fitted):
    with jax.enable_x64(True):
        problem, params = fitted
        given = {"lr": 0.4, "steps": STEPS, "probes": every_measurement(), "attributes": {"data": "sines"}}
        return [sc.train(problem, params, reduce=reduce, **given) for reduce in (None, False)]


def test_the_reduced_run_is_the_same_run(runs):
    reduced, plain = runs
    assert reduced.dataset.attrs["input_reduction"] == "9 -> 5 features"
    assert plain.dataset.attrs["input_reduction"] == "none"
    for name in ("loss", "gradient", "distance", "sharp", "kernel", "within", "drift", "weights"):
        np.testing.assert_allclose(reduced[name], plain[name], rtol=1e-8, atol=1e-10, err_msg=name)
    for a, b in zip(jax.tree.leaves(reduced.state), jax.tree.leaves(plain.state), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_measurements_are_what_they_say(runs, fitted):
    problem, _ = fitted
    run = runs[0]
    params = run.state
    flat, unravel = ravel_pytree(params)
    objective = lambda v: problem.objective(unravel(v))  # noqa: E731
    value, gradient, hessian = jax.jit(lambda v: (objective(v), jax.grad(objective)(v), jax.hessian(objective)(v)))(
        flat
    )
    np.testing.assert_allclose(run["sharp"][-1], np.linalg.eigvalsh(hessian)[::-1][:2], rtol=1e-7)
    kernel = sc.ntk(problem.f, params, problem.x).dense()
    np.testing.assert_allclose(run["kernel"][-1], np.linalg.eigvalsh(kernel)[::-1][:3], rtol=1e-7)
    assert float(run["loss"][-1]) == pytest.approx(float(value), rel=1e-12)
    assert float(run["gradient"][-1]) == pytest.approx(np.linalg.norm(gradient), rel=1e-10)
    np.testing.assert_allclose(run["within"] + run["within_others"], run["loss"], rtol=1e-10)
    moved = np.linalg.norm(run["weights"].values[-1] - run["weights"].values[0])
    assert float(run["distance"][-1]) == pytest.approx(moved, rel=1e-10)


def test_eigenvalues_keep_the_error_they_promise(fitted):
    problem, params = fitted
    wide = sc.nets.mlp([12], activation="tanh")
    params = wide.init(jax.random.key(3), problem.x.shape)
    problem = sc.Problem(wide.apply, problem.x, problem.y, sc.losses.half_sum)
    probes = {"sharp": sc.measure.sharpness(2, every=5, tol=1e-3), "w": sc.Probe(lambda p: ravel_pytree(p)[0], every=5)}
    run = sc.train(problem, params, lr=0.05, steps=20, probes=probes)
    _, unravel = ravel_pytree(params)
    hessian = jax.jit(jax.hessian(lambda v: problem.objective(unravel(v))))
    for index in range(5):
        spectrum = np.linalg.eigvalsh(hessian(run["w"].values[index]))
        values, bounds = run["sharp"].values[index], run["sharp_residual"].values[index]
        np.testing.assert_allclose(values, spectrum[::-1][:2], atol=1e-3 * spectrum[-1])
        assert all(np.abs(spectrum - value).min() <= bound + 1e-12 for value, bound in zip(values, bounds, strict=True))
    cost = run["sharp_products"].values
    assert cost[1:].max() < cost[0]


def test_step_sizes_run_side_by_side(fitted, runs):
    problem, params = fitted
    rates, alone = np.array([0.1, 0.4]), runs[0]
    both = sc.train(problem, params, steps=STEPS, over={"lr": rates}, probes={"loss": sc.measure.loss()})
    np.testing.assert_allclose(both["loss"].sel(lr=0.4), alone["loss"], rtol=1e-12)
    np.testing.assert_allclose(both.state[0]["weight"][1], alone.state[0]["weight"], atol=1e-12)


def test_a_second_run_of_a_problem_compiles_nothing(fitted):
    problem, params = fitted
    traces = []

    class Counting(sc.losses.Loss):
        def __call__(self, outputs, targets):
            traces.append(1)
            return super().__call__(outputs, targets)

    counting = Counting("counting", sc.losses.mean_mse.function, sc.losses.mean_mse.weight)
    problem = sc.Problem(problem.f, problem.x, problem.y, counting)
    arguments = {"lr": 0.1, "steps": 3, "probes": {"loss": sc.measure.loss()}}
    sc.train(problem, params, **arguments)
    count = len(traces)
    sc.train(problem, params, **arguments)
    assert len(traces) <= count + 1  # only the check of shapes looks again


def test_a_rule_of_ones_own_runs_unreduced_unless_asked(fitted):
    problem, params = fitted

    def rule(loss):
        return sc.gradient_descent(loss, 0.4)

    own = sc.train(problem, params, rule=rule, steps=STEPS, probes={"loss": sc.measure.loss()})
    asked = sc.train(problem, params, rule=rule, steps=STEPS, probes={"loss": sc.measure.loss()}, reduce=True)
    assert own.dataset.attrs["input_reduction"] == "none"
    assert asked.dataset.attrs["input_reduction"] == "9 -> 5 features"
    np.testing.assert_allclose(own["loss"], asked["loss"], rtol=1e-10)


def test_attributes_are_kept(runs):
    assert [run.dataset.attrs["data"] for run in runs] == ["sines", "sines"]


def test_divergence_is_recorded_and_what_came_before_is_kept(fitted):
    problem, params = fitted
    probes = {"loss": sc.measure.loss(), "sharp": sc.measure.sharpness(every=2)}
    run = sc.train(problem, params, lr=1e30, steps=40, probes=probes)
    assert int(run.dataset.outcome) == sc.Outcome.DIVERGED
    assert np.isfinite(run["loss"][0])
    assert np.isfinite(run["sharp"][0]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": None}, "`lr` is missing"),
        ({"rule": lambda loss: sc.gradient_descent(loss, 1.0)}, "a `rule` brings its own"),
    ],
)
def test_bad_arguments_are_named(fitted, change, message):
    problem, params = fitted
    with pytest.raises(ValueError, match=message):
        sc.train(problem, params, **({"lr": 0.1, "steps": 1} | change))


@pytest.mark.parametrize("bad", [-1, -1.0, 0, 0.0, np.nan, np.inf, -np.inf, jnp.array(-0.5), np.float32("nan"), True])
def test_a_step_size_that_is_none_is_refused(fitted, bad):
    problem, params = fitted
    with pytest.raises(ValueError, match=r"train: `lr` must be a finite number above 0, got "):
        sc.train(problem, params, lr=bad, steps=1)
    with pytest.raises(ValueError, match=r"train: `lr` in `over` must be finite numbers above 0, got .* among them"):
        sc.train(problem, params, over={"lr": [0.1, 0.0 if bad is True else float(bad)]}, steps=1)


@pytest.mark.parametrize("bad", ["fast", [0.1], None, lambda step: 0.1])
def test_a_step_size_that_is_no_number_is_refused(fitted, bad):
    problem, params = fitted
    if bad is not None:
        with pytest.raises((TypeError, ValueError), match="train: `lr` must be a number above 0"):
            sc.train(problem, params, lr=bad, steps=1)
    with pytest.raises(TypeError, match=r"train: `lr` in `over` must be numbers above 0"):
        sc.train(problem, params, over={"lr": [0.1, bad if bad is not None else "x"]}, steps=1)


def test_a_step_size_may_be_any_number_or_not_known_yet(fitted):
    problem, params = fitted
    expected = sc.train(problem, params, lr=0.5, steps=2).state[0]["weight"]
    for lr in (np.float32(0.5), np.float64(0.5), jnp.array(0.5)):
        np.testing.assert_array_equal(sc.train(problem, params, lr=lr, steps=2).state[0]["weight"], expected)
    over = {"lr": jnp.array([0.5, 0.25])}
    np.testing.assert_allclose(sc.train(problem, params, over=over, steps=2).state[0]["weight"][0], expected)


def test_a_reduction_that_does_not_exist_is_refused(fitted):
    problem, params = fitted
    many = sc.Problem(problem.f, jnp.concatenate([problem.x] * 2), jnp.concatenate([problem.y] * 2), problem.loss)
    with pytest.raises(ValueError, match="fewer samples than features"):
        sc.train(many, params, lr=0.1, steps=1, reduce=True)


def test_misfitting_data_is_refused_before_anything_runs(fitted):
    problem, params = fitted
    with pytest.raises(ValueError, match="`y` has 4 samples and `x` has 5"):
        sc.train(sc.Problem(problem.f, problem.x, problem.y[:4], problem.loss), params, lr=0.1, steps=1)
    with pytest.raises(ValueError, match="must return one number"):
        sc.train(sc.Problem(problem.f, problem.x, problem.y, lambda f, y: (f - y) ** 2), params, lr=0.1, steps=1)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True])
def test_measurements_refuse_nonsense(bad):
    for make in (sc.measure.sharpness, sc.measure.kernel_top, sc.measure.loss_within):
        with pytest.raises(ValueError, match="whole number of at least 1"):
            make(bad)


def test_only_a_dense_first_layer_is_reduced():
    assert is_reducible(sc.nets.mlp([4]), (3, 8))
    assert not is_reducible(sc.nets.mlp([4]), (8, 8))
    assert not is_reducible(sc.nets.cnn([4]), (3, 8, 8, 1))
    assert first_dense(sc.nets.densenet([4, 4])) is None
    assert reduce_inputs(sc.nets.densenet([4, 4]), X) is None


@pytest.mark.parametrize("parametrization", ["ntk", "standard", "pytorch", "mean-field", "mup", "near-zero"])
def test_reduced_coordinates_give_the_same_outputs(parametrization):
    net = sc.nets.mlp([6], outputs=2, parametrization=parametrization, bias=True)
    x = np.random.default_rng(0).normal(size=(4, 11))
    x[3] = x[0]  # a duplicated sample: the data has rank 3
    params = net.init(jax.random.key(1), x.shape)
    change = reduce_inputs(net, x)
    small = change.shrink(params)
    np.testing.assert_allclose(net.apply(small, change.x), net.apply(params, x), atol=1e-12)
    np.testing.assert_allclose(change.lift(small, params)[0]["weight"], params[0]["weight"], atol=1e-12)


def test_conditions_of_stopping_see_the_parameters_whether_inputs_are_reduced_or_not(fitted, runs):
    problem, params = fitted
    goal = 0.2 * float(runs[0]["loss"][0])
    stop = sc.Stop(converged=lambda p, lr: (problem.objective(p) < goal) & (lr > 0))
    ends = [
        sc.train(
            problem, params, over={"lr": jnp.array([0.05, 0.1])}, steps=200, stop=stop, reduce=reduce
        ).dataset.stopped_at
        for reduce in (True, False)
    ]
    np.testing.assert_array_equal(*ends)
    assert 0 < int(ends[0][1]) < int(ends[0][0])


class Drawn(NamedTuple):
    """What differs from run to run."""

    x: Any
    y: Any
    params: Any
    seed: Any


@pytest.fixture(scope="module")
def draws():
    """Two draws of data and weights of one small network."""
    with jax.enable_x64(True):
        net, random = sc.nets.mlp([6], activation="tanh"), np.random.default_rng(0)
        each = [
            Drawn(x, random.normal(size=8), net.init(jax.random.key(seed), x.shape), np.uint32(seed))
            for seed, x in enumerate(random.normal(size=(2, 8, 5)))
        ]
        return net, each, jax.tree.map(lambda *leaves: np.stack(leaves), *each)


@pytest.mark.parametrize("batched", [False, True])
def test_runs_over_draws_are_those_of_each_draw(draws, batched):
    net, each, stacked = draws
    batches = (lambda draw: sc.Batches(4, seed=draw.seed)) if batched else None
    measured = {"loss": sc.measure.loss(), "distance": sc.measure.distance()}
    measured |= {"own": sc.measure.batch_loss()} if batched else {"sharpness": sc.measure.sharpness(every=2, tol=1e-9)}
    together = sc.train(
        lambda draw: sc.Problem(net.apply, draw.x, draw.y, sc.losses.half_mean),
        lambda draw: draw.params,
        lr=0.3,
        steps=6,
        over={"draw": stacked},
        batches=batches,
        probes=measured,
    )
    _, unravel = ravel_pytree(each[0].params)

    def loss(v, x, y):
        return sc.losses.half_mean(net.apply(unravel(v), x), y)

    look = jax.jit(lambda v, draw, rows: (loss(v, *draw), *jax.value_and_grad(loss)(v, *(p[rows] for p in draw))))
    hessian = jax.jit(lambda v, draw: jax.hessian(loss)(v, *draw))
    for number, draw in enumerate(each):
        start = weights = np.asarray(ravel_pytree(draw.params)[0])
        alone = {name: [] for name in measured}
        for step in range(7):
            rows = sc.Batches(4, seed=int(draw.seed)).indices(8, step) if batched else np.arange(8)
            total, own, gradient = look(weights, (draw.x, draw.y), np.asarray(rows))
            alone["loss"].append(total)
            alone["distance"].append(np.linalg.norm(weights - start))
            if batched:
                alone["own"].append(own)
            elif step % 2 == 0:
                alone["sharpness"].append(np.linalg.eigvalsh(hessian(weights, (draw.x, draw.y)))[-1])
            weights = weights - 0.3 * np.asarray(gradient)
        for name, values in alone.items():
            np.testing.assert_allclose(together.dataset[name].isel(draw=number).values.ravel(), values, rtol=1e-7)


def test_a_problem_made_of_a_model_starts_where_its_own_model_stands(draws):
    net, each, stacked = draws
    made = sc.train(
        lambda draw: sc.Problem(net.apply, draw.x, draw.y, sc.losses.half_mean, draw.params),
        lr=0.3,
        steps=1,
        over={"draw": stacked},
        probes={"loss": sc.measure.loss()},
    )
    loss = jax.jit(lambda draw: sc.losses.half_mean(net.apply(draw.params, draw.x), draw.y))
    first = [loss(draw) for draw in each]
    np.testing.assert_allclose(made.dataset.loss.values[:, 0], first, rtol=1e-12)


def test_what_makes_no_problem_is_named(draws):
    net, _, stacked = draws
    with pytest.raises(TypeError, match="`problem` must make a secant\\.Problem, got "):
        sc.train(lambda draw: draw.x, lr=0.1, steps=1, over={"draw": stacked})
    with pytest.raises(TypeError, match="takes 'draw', which no axis provides"):
        sc.train(lambda draw: sc.Problem(net.apply, draw.x, draw.y, "mse"), lr=0.1, steps=1)
    with pytest.raises(ValueError, match="`reduce=True` needs one problem and one start"):
        sc.train(
            lambda draw: sc.Problem(net.apply, draw.x, draw.y, "mse", draw.params),
            lr=0.1,
            steps=1,
            over={"draw": stacked},
            reduce=True,
        )


def test_a_second_run_over_draws_compiles_nothing(draws):
    net, _, stacked = draws
    traced = []

    def problem(draw):
        traced.append(1)
        return sc.Problem(net.apply, draw.x, draw.y, sc.losses.half_mean, draw.params)

    counts = []
    for _ in range(2):
        traced.clear()
        sc.train(problem, lr=0.3, steps=2, over={"draw": stacked}, probes={"distance": sc.measure.distance()})
        counts.append(len(traced))
    assert counts[1] <= 3 < counts[0], "shapes are looked at again, nothing is traced for the compiler"


def test_an_empty_axis_of_draws_is_named(draws):
    net, _, stacked = draws
    none = jax.tree.map(lambda leaf: leaf[:0], stacked)
    with pytest.raises(ValueError, match="axis 'draw' is empty"):
        sc.train(lambda draw: sc.Problem(net.apply, draw.x, draw.y, "mse"), lr=0.1, steps=1, over={"draw": none})
