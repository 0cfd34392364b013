"""The largest step by trial: where it is known it is found, and nothing that is given is changed."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import secant as sc
from secant.monitors import diagnose, largest_step
from secant.monitors.doctor.trial import HALVINGS, WIDEST, bracketed, survives
from secant.monitors.records.record import Watched

CURVATURE = jnp.array([4.0, 1.0])


def bowl(params, batch):
    return 0.5 * jnp.sum(batch * params**2)


@pytest.mark.parametrize(
    ("rule", "edge"),
    [
        (optax.sgd(0.1), 2 / 4),
        (optax.sgd(3.0), 2 / 4),  # its own step is lost
        (optax.sgd(0.1, momentum=0.5), 2 * 1.5 / 4),
        (sc.optimisers.gd(0.1), 2 / 4),
    ],
)
def test_on_a_quadratic_it_is_the_edge(rule, edge):
    found = largest_step(bowl, jnp.ones(2), CURVATURE, rule, steps=200)
    assert found.largest <= edge * (1 + 1e-5) <= found.lost * found.lr * (1 + 2e-5)
    assert found.lost / found.multiple == pytest.approx(2**0.5**HALVINGS)
    assert found.safe == pytest.approx(found.largest / np.sqrt(2))


def test_batches_are_a_function_of_the_step():
    seen = []

    def batch(step):
        seen.append(step)
        return CURVATURE * (1 + step % 2)

    found = largest_step(bowl, jnp.ones(2), batch, optax.sgd(0.1), steps=50)
    assert set(seen) == set(range(50))
    # Two steps multiply the sharpest direction by (1 - 4 lr)(1 - 8 lr): -1 at 3/8 is not reached before 1 is.
    assert found.largest == pytest.approx(3 / 8, rel=2**0.5**HALVINGS - 1)


@pytest.mark.parametrize("border", [0.013, 0.9, 1.0, 37.0])
def test_the_bracket_closes_on_the_border(border):
    def runs(multiple):
        return np.linspace(1.0, 0.5 if multiple < border else 2.0, 20)

    found = bracketed(runs, np.ones(1), steps=20)
    assert found.multiple < border <= found.lost
    assert found.lost / found.multiple == pytest.approx(2**0.5**HALVINGS)


def test_nothing_lost_and_all_lost():
    most = bracketed(lambda multiple: np.linspace(1, 0.5, 20), np.ones(1), steps=20)
    assert (most.multiple, most.lost) == (WIDEST, np.inf)
    none = bracketed(lambda multiple: np.full(20, np.nan), np.ones(1), steps=20)
    assert (none.multiple, none.lost, none.safe_multiple) == (0.0, 1 / WIDEST, 0.0)
    assert most.safe_multiple == pytest.approx(WIDEST / np.sqrt(2))


@pytest.mark.parametrize(
    ("lost", "safe"),
    [
        (lambda m: m > 10 or 6.5 < m < 7.5, 2**-0.625),  # the first choice is lost, the next is kept
        (lambda m: m > 10 or 4.5 < m < 7.9, None),  # all of them are
    ],
)
def test_a_safe_step_is_itself_tried(lost, safe):
    found = bracketed(lambda m: np.linspace(1, 2.0 if lost(m) else 0.5, 20), np.ones(1), steps=20)
    assert not lost(found.safe_multiple)
    assert found.safe_multiple in found.tried
    assert 0.5 <= found.safe_multiple / found.multiple <= 0.5**0.5 + 1e-9
    if safe is None:
        assert found.multiple <= 4.5 <= found.lost * (1 + 1e-9)
    else:
        assert found.safe_multiple == pytest.approx(safe * found.multiple)


def test_a_run_is_lost_by_its_end_beyond_the_scatter_of_batches():
    level = np.array([0.9, 1.0, 1.1, 0.8, 1.2])
    flat = np.ones(50)
    assert survives(flat, level, 50)
    assert not survives(2 * flat, level, 50)
    assert not survives(flat[:30], level, 50)
    assert not survives(np.r_[flat[:-1], np.inf], level, 50)
    assert not survives(flat, np.ones(1), 50)  # of one batch alone it must fall


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="`optimiser`"):
        largest_step(bowl, jnp.ones(2), CURVATURE, {"name": "sgd", "lr": 0.1})
    with pytest.raises(ValueError, match="steps"):
        largest_step(bowl, jnp.ones(2), CURVATURE, optax.sgd(0.1), steps=3)
    with pytest.raises(ValueError, match="`loss` is not finite"):
        largest_step(bowl, jnp.ones(2), jnp.full(2, jnp.nan), optax.sgd(0.1))


def test_a_diagnosis_says_what_was_tried(tmp_path):
    rows = [{"step": 0, "lr": 0.1, "loss": 1.0}]
    tried = largest_step(bowl, jnp.ones(2), CURVATURE, optax.sgd(0.1), steps=50)
    about = {"optimiser": "sgd", "trial": tried.facts()}
    said = [one for one in diagnose(Watched(tmp_path, about, rows, [])).sentences if "In trial runs" in one.text]
    assert len(said) == 1
    assert said[0].value == pytest.approx(tried.safe)
    assert f"{tried.multiple:.3g} times" in said[0].text
    # After 50 steps the bowl's slower direction is left at small steps, and its sharper one near the edge.
    assert tried.best in tried.tried
    assert 1 < tried.best < tried.multiple
    assert f"{tried.best:.3g} times the step size ended lowest" in said[0].text
    never = about | {"trial": {**tried.facts(), "multiple": 4096.0, "lost": math.inf}}
    found = diagnose(Watched(tmp_path, never, rows, []))
    assert any("diverges at no multiple of its step size up to 4,100" in one.text for one in found.sentences)
    assert diagnose(Watched(tmp_path, about | {"trial": {"multiple": "x"}}, rows, []))


def test_in_torch_it_is_the_same_and_changes_nothing():
    torch = pytest.importorskip("torch")

    class Bowl(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.point = torch.nn.Parameter(torch.ones(2))

    model = Bowl()
    rule = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    state = torch.random.get_rng_state()
    found = largest_step(
        lambda model, batch: 0.5 * torch.sum(batch * model.point**2), model, torch.tensor([4.0, 1.0]), rule, steps=200
    )
    same = largest_step(bowl, jnp.ones(2), CURVATURE, optax.sgd(0.1, momentum=0.5), steps=200)
    assert found.multiple == same.multiple
    assert torch.equal(model.point.detach(), torch.ones(2))
    assert rule.param_groups[0]["lr"] == 0.1
    assert not rule.state
    assert torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(TypeError, match=r"torch\.optim"):
        largest_step(lambda model, batch: batch, model, 1, optax.sgd(0.1))


def test_parameters_given_are_kept():
    params = {"w": jnp.ones(3)}
    largest_step(lambda p, b: jnp.sum(p["w"] ** 2), params, None, optax.adam(0.1), steps=20)
    assert jax.tree.leaves(params)[0].tolist() == [1, 1, 1]
