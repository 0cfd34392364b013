"""What is known of an optimiser: by its own words, by asking it, and against Secant's own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest

import secant as sc
from secant.monitors.in_jax.optimizer import Rule, is_optimiser
from secant.monitors.optimizers import Facts, from_facts

PARAMS = {"b": jnp.ones(2), "w": jnp.ones((3, 2))}

PAIRS = {
    "sgd": (optax.sgd(0.1), sc.optimisers.gd(0.1)),
    "decayed": (optax.chain(optax.add_decayed_weights(0.3), optax.sgd(0.1)), sc.optimisers.gd(0.1, 0.3)),
    "clipped": (optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1)), sc.optimisers.gd(0.1)),
    "momentum": (optax.sgd(0.1, momentum=0.8), sc.optimisers.momentum(0.1, 0.8)),
    "nesterov": (optax.sgd(0.1, momentum=0.8, nesterov=True), sc.optimisers.nesterov(0.1, 0.8)),
    "rmsprop": (
        optax.rmsprop(1e-2, decay=0.9, eps=1e-4, eps_in_sqrt=False),
        sc.optimisers.rmsprop(1e-2, 0.9, 1e-4),
    ),
    "adam": (optax.adam(1e-2, 0.8, 0.95, 1e-4), sc.optimisers.adam(1e-2, 0.8, 0.95, 1e-4)),
    "adamw": (
        optax.adamw(1e-2, 0.8, 0.95, 1e-4, weight_decay=0.1),
        sc.optimisers.adamw(1e-2, 0.8, 0.95, 1e-4, weight_decay=0.1),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_optax_is_recognised_and_agrees_with_our_own(name):
    theirs, ours = PAIRS[name]
    state, memory = theirs.init(PARAMS), ours.transformation.init(PARAMS)
    draw = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    gradients = [{"b": row[:2], "w": row[2:].reshape(3, 2)} for row in draw]

    @jax.jit
    def walked(state, memory, gradients):
        """Both memories before the third step and after it."""
        for gradient in gradients:
            before = state, memory
            _, state = theirs.update(gradient, state, PARAMS)
            _, memory = ours.transformation.update(gradient, memory, PARAMS)
        return before, (state, memory)

    before, (state, memory) = walked(state, memory, gradients)
    gradient = gradients[-1]
    by_asking, by_reading = Rule(theirs, PARAMS), Rule(ours, PARAMS)
    for rule, own in ((by_asking, state), (by_reading, memory)):
        assert rule.missing == ""
        lr = rule.lr(own, 3)
        assert rule.threshold(lr) == pytest.approx(ours.threshold, rel=2e-5)
        # At the threshold the critical step is the step.
        assert rule.critical_lr(rule.threshold(lr), lr) == pytest.approx(lr, rel=1e-6)
    # By what the third step, of which the gradient is known, was divided.
    expected = jax.jit(lambda memory: ours.preconditioner(sc.optimisers.OptimiserState(PARAMS, memory)))(memory)
    divisors = jax.jit(
        lambda one, two: (by_asking.divisor(one, PARAMS, gradient), by_reading.divisor(two, PARAMS, gradient))
    )
    for found in divisors(*before):
        if found is None:
            found = jax.tree.map(np.ones_like, PARAMS)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=3e-5)


def test_an_epsilon_inside_the_root_is_found():
    rule = Rule(optax.rmsprop(1e-2, decay=0.9, eps=1e-3), PARAMS)
    state = optax.rmsprop(1e-2, decay=0.9).init(PARAMS)
    gradient = jax.tree.map(lambda leaf: 0.01 * leaf, PARAMS)
    by = rule.divisor(state, PARAMS, gradient)
    np.testing.assert_allclose(by["b"], np.sqrt(0.1 * 1e-4 + 1e-3), rtol=1e-4)


@pytest.mark.parametrize(
    ("optimiser", "words"),
    [
        (optax.lion(1e-3), "lion"),
        (optax.sign_sgd(1e-3), "sign"),
        (optax.contrib.muon(1e-3), "muon"),
        (optax.lamb(1e-3), "something like adam"),
        (optax.radam(1e-3), "something like adam"),
        (optax.nadam(1e-3), "something like adam"),
        (optax.amsgrad(1e-3), "something like"),
        (optax.adagrad(1e-1), "something like"),
        (optax.lbfgs(), "could not be asked"),
        (optax.rmsprop(1e-3, momentum=0.9), "RMSProp has momentum"),
        (None, "no `optimiser` was given"),
    ],
)
def test_what_cannot_be_had_is_said(optimiser, words):
    rule = Rule(optimiser, PARAMS)
    assert words in rule.missing
    assert "stable_multiple" in rule.missing
    assert rule.threshold(0.1) is None
    assert rule.critical_lr(1.0, 0.1) is None


@pytest.mark.parametrize("optimiser", [optax.lion(2e-3), optax.sign_sgd(2e-3)])
def test_rules_without_a_threshold_still_have_a_step_size(optimiser):
    assert Rule(optimiser, PARAMS).lr(optimiser.init(PARAMS), 0) == pytest.approx(2e-3)


def test_schedules_are_followed_even_from_zero():
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 10, 100)
    for rule in (optax.adamw(schedule), optax.sgd(schedule, momentum=0.9)):
        found = Rule(rule, PARAMS)
        state, update = rule.init(PARAMS), jax.jit(rule.update)
        assert found.lr(state, 0) == 0.0
        assert found.threshold(0.0) is None
        for step in range(15):
            assert found.lr(state, step) == pytest.approx(float(schedule(step)), rel=1e-4, abs=1e-9)
            _, state = update(PARAMS, state, PARAMS)


def test_our_own_with_a_schedule():
    rule = sc.optimisers.adam(lambda step: 1e-2 / (1 + step))
    found, state = Rule(rule, PARAMS), rule.transformation.init(PARAMS)
    update = jax.jit(rule.transformation.update)
    for step in range(3):
        assert found.lr(state, step) == pytest.approx(1e-2 / (1 + step), rel=1e-5)
        assert found.threshold(1e-2) == pytest.approx(sc.optimisers.adam(1e-2).threshold)
        _, state = update(PARAMS, state, PARAMS)


def test_settings_in_the_state_are_read_there():
    rule = optax.inject_hyperparams(optax.adam)(1e-2)
    state = rule.init(PARAMS)
    found = Rule(rule, PARAMS)
    state.hyperparams["learning_rate"] = jnp.asarray(0.5)
    assert found.lr(state, 0) == 0.5


def test_gradients_that_are_accumulated_and_arrays_that_are_frozen():
    several = optax.MultiSteps(optax.adam(1e-2), 2)
    found = Rule(several, PARAMS)
    assert found.facts.name == "adam"
    assert found.divisor(several.init(PARAMS), PARAMS, PARAMS)["w"].shape == (3, 2)
    frozen = optax.multi_transform({"on": optax.adam(1e-2), "off": optax.set_to_zero()}, {"w": "on", "b": "off"})
    found = Rule(frozen, PARAMS)
    by = found.divisor(frozen.init(PARAMS), PARAMS, PARAMS)
    assert found.facts.name == "adam"
    assert np.isinf(by["b"]).all()
    np.testing.assert_allclose(by["w"], 0.1, rtol=1e-4)


def test_of_our_own_adagrad_the_divisor_is_its_own():
    rule = sc.optimisers.adagrad(0.1)
    found, state = Rule(rule, PARAMS), rule.transformation.init(PARAMS)
    np.testing.assert_allclose(found.divisor(state, PARAMS, PARAMS)["b"], 1.0)
    assert found.threshold(0.1) == pytest.approx(rule.threshold)
    assert found.critical_lr(40.0, 0.1) == pytest.approx(0.05)
    assert found.missing == ""


def test_facts_by_hand():
    adam = from_facts({"name": "AdamW", "lr": 1e-3, "beta1": 0.8})
    assert (adam.name, adam.b1, adam.b2, adam.weight_decay) == ("adamw", 0.8, 0.999, 0.01)
    assert adam.threshold(1e-3) == pytest.approx(sc.optimisers.adamw(1e-3, b1=0.8).threshold)
    assert from_facts({"name": "sgd", "momentum": 0.9, "nesterov": True, "lr": 1}).name == "nesterov"
    assert Rule({"name": "sgd", "lr": lambda step: 0.1 * step}, PARAMS).lr(None, 3) == pytest.approx(0.3)
    assert "step size is not known" in from_facts({"name": "sgd"}).missing


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"name": "adamant"}, "adamant"),
        ({"lr": 1.0}, "None"),
        ({"name": "sgd", "b1": 0.5}, "gives b1, but sgd takes only lr"),
        ({"name": "adam", "lr": -1.0}, "lr"),
        ({"name": "adam", "b2": 1.5}, "b2"),
    ],
)
def test_facts_that_cannot_be(facts, words):
    with pytest.raises(ValueError, match=words):
        from_facts(facts)


def test_the_critical_step_where_nothing_curves():
    assert Facts("sgd").critical_lr(-1.0) == np.inf
    assert np.isnan(Facts("sgd").critical_lr(float("nan")))


def test_the_state_of_another_optimiser_is_refused():
    with pytest.raises(ValueError, match="holds no mean square"):
        Rule(optax.adam(1e-3), PARAMS).divisor(optax.sgd(0.1).init(PARAMS), PARAMS, PARAMS)


def test_what_can_be_an_optimiser():
    assert is_optimiser(optax.sgd(0.1))
    assert is_optimiser({"name": "sgd"})
    assert not is_optimiser("sgd")
