"""Runs that are sick on purpose: what is recorded of them is right, and so is the diagnosis."""

import jax
import numpy as np
import pytest
from bench.doctor import sick_runs as runs
from bench.doctor import sick_tables

import secant as sc
from secant.monitors import diagnose

SEEDS = (1000, 1001)


@pytest.fixture(autouse=True)
def float64():
    """In single precision, as the table is, whatever other tests compute in."""
    with jax.enable_x64(False):
        yield


@pytest.fixture(scope="module")
def watched():
    """Plans and records; as many at a time as seeds, so that one compiled loop serves all tests."""
    kinds = [[runs.plan(kind, seed) for seed in SEEDS] for kind in runs.KINDS]
    return [pair for plans in kinds for pair in zip(plans, runs.watch(plans), strict=True)]


def test_kinds_are_diagnosed_and_no_healthy_run_is_called_sick(watched):
    found = [(plan.kind, plan.seed, diagnose(run).verdict) for plan, run in watched]
    wrong = [one for one in found if one[0] != one[2]]
    assert all(kind != "healthy" for kind, *_ in wrong)
    assert len(wrong) <= 1, wrong  # of twelve: with one in twenty wrong, two come one time in nine


def test_what_is_recorded_of_the_start_is_the_curvature_there(watched):
    plan, run = next((plan, run) for plan, run in watched if plan.kind == "catapult")
    net, x, y = runs.digits()
    rows = plan.rows[0]
    step = sc.critical_lr(net.apply, runs.start(plan.seed), x[rows], y[rows], lambda f, y: ((f - y) ** 2).sum() / 128)
    first = run.rows[0]
    assert abs(first["sharpness"] - step.sharpness) <= first["sharpness_error"] + 1e-3 * step.sharpness
    # A Rayleigh quotient is never above the largest eigenvalue; sick runs are drawn 45 percent beyond the edge or more,
    # so that a percent does not make one healthy.
    assert 1 - 1e-3 <= runs.edge("gd", plan.seed, plan.rows, False) / step.exact <= 1.01
    assert first["critical_lr"] == pytest.approx(2 / first["sharpness"], rel=1e-5)


def test_the_loss_without_looks_is_the_same(watched):
    plans, records = zip(*watched, strict=True)
    few = len(SEEDS)
    alone = np.concatenate([runs.losses(plans[at : at + few]) for at in range(0, len(plans), few)])
    for loss, run in zip(alone, records, strict=True):
        seen = run.column("loss")[1]
        begins = min(len(seen), 100)  # of a catapult or a spike the rounding grows
        np.testing.assert_allclose(loss[:begins], seen[:begins], rtol=1e-2)


def test_the_safe_step_is_safe_and_not_timid():
    found = sick_tables.safe_steps("gd", False, True, SEEDS)
    assert not found.diverges.any()
    assert not found.switched.any()
    assert (found.share >= 0.5).all()
