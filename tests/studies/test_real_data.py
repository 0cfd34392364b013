"""Studies of margins and of implicit bias on real data: as they are drawn, and as they are refused."""

import numpy as np
import pytest

from secant import lab
from secant.studies.shared import diagonal_descent, real, separable
from secant.theory.bias.margins import max_margin


@pytest.fixture(autouse=True)
def no_files(monkeypatch):
    """What comes with scikit-learn is enough."""
    monkeypatch.delenv("SECANT_DATA", raising=False)


def test_all_principal_directions_keep_the_margin():
    full = real.two_classes("digits", (3, 5), 30, 1)
    x = np.hstack([full.x, np.ones((30, 1))])
    found = separable.load("digits", (3, 5), 30, None, 1)
    assert found.x.shape == (30, 30)
    scale = np.linalg.norm(x, axis=1).mean()
    np.testing.assert_allclose(max_margin(found.z).margin, max_margin(x * full.y[:, None]).margin / scale, rtol=1e-10)


def test_what_carries_the_margin_comes_first():
    z, on = separable.in_order(separable.load("breast-cancer", (0, 1), 40, None, 0).z)
    best = max_margin(z)
    np.testing.assert_array_equal(best.support, np.arange(on))
    assert 0 < separable.slowest(z, on) <= (z[on:] @ best.w).min() - 1 + 1e-9


def test_few_samples_have_a_mean_length_of_one_and_the_features_that_vary_most():
    x, y = real.few("digits", (0, 1), 6, np.random.default_rng(0), features=20)
    assert x.shape == (6, 20)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1).mean(), 1)
    assert set(y) <= {-1.0, 1.0}
    assert x.std(0).min() > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: separable.load("digits", (0, 1), 10, 11, 0), "dim: at most 10"),
        (lambda: real.few("breast-cancer", (0, 1), 5, np.random.default_rng(0), 31), "features: breast-cancer has 30"),
        (lambda: real.few("breast-cancer", (0, 1), 30, np.random.default_rng(0)), "samples: at most 29"),
        (lambda: lab.get("book/thm-8.3.1").config("smoke", data="minst"), "data: must be random, or one of digits"),
        (lambda: lab.get("book/fig-2.4").config("smoke", data="random"), "data: must be one of digits"),
        (lambda: lab.get("lectures/11-14-late-time").config("smoke", data="random"), "data: must be one of digits"),
    ],
)
def test_what_there_is_not_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("id", ["book/prop-8.3.4", "book/thm-8.1.7"])
def test_a_study_on_tumours_holds(id):
    study = lab.get(id)
    sizes = {"dim": 8} if "8.3" in id else {"dimension": 20}
    config = study.config("smoke", data="breast-cancer", samples=8, seed=1, **sizes)
    assert {finding.verdict for finding in study.judge(study(config), config)} == {"holds"}


@pytest.mark.parametrize("batch", [2, 3])
def test_compiled_steps_are_those_of_the_host(monkeypatch, batch):
    random = np.random.default_rng(0)
    X = random.normal(size=(2, 3, 5))
    y, lr = X.sum(-1), np.full((2, 2, 1), 0.01)
    host = diagonal_descent.descend(X, y, lr, 0.1, 20, batch, np.random.default_rng(1))
    monkeypatch.setattr(diagonal_descent, "LARGE", 1)
    other = diagonal_descent.descend(X, y, lr, 0.1, 20, batch, np.random.default_rng(1))
    for one, two in zip(host, other, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-13)
