"""Runs that are sick on purpose: what is recorded of them is right, and so is the diagnosis."""

import numpy as np
import pytest

import secant as sc
from secant.monitors import diagnose
from secant.setups import sick_runs as runs
from secant.setups import sick_tables

SEEDS = (1000, 1001)


@pytest.fixture(scope="module")
def watched():
    plans = [runs.plan(kind, seed) for kind in runs.KINDS for seed in SEEDS]
    return list(zip(plans, runs.watch(plans), strict=True))


def test_every_kind_is_diagnosed(watched):
    wrong = [(plan.kind, plan.seed, diagnose(run).verdict) for plan, run in watched]
    assert [one for one in wrong if one[0] != one[2]] == []


def test_what_is_recorded_of_the_start_is_the_curvature_there(watched):
    plan, run = next((plan, run) for plan, run in watched if plan.kind == "catapult")
    net, x, y = runs._task()
    rows = plan.rows[0]
    step = sc.critical_lr(net.apply, runs.start(plan.seed), x[rows], y[rows], lambda f, y: ((f - y) ** 2).sum() / 128)
    first = run.rows[0]
    assert abs(first["sharpness"] - step.sharpness) <= first["sharpness_error"] + 1e-3 * step.sharpness
    assert runs.edge("gd", plan.seed, plan.rows, False) == pytest.approx(step.exact, rel=1e-3)
    assert first["critical_lr"] == pytest.approx(2 / first["sharpness"], rel=1e-5)


def test_the_loss_without_looks_is_the_same(watched):
    plans, records = zip(*watched, strict=True)
    alone = runs.losses(plans)
    for loss, run in zip(alone, records, strict=True):
        seen = run.column("loss")[1]
        begins = min(len(seen), 100)  # of a catapult or a spike the rounding grows
        np.testing.assert_allclose(loss[:begins], seen[:begins], rtol=1e-2)


def test_the_safe_step_is_safe_and_not_timid():
    found = sick_tables.safe_steps("gd", False, True, SEEDS)
    assert not found.diverges.any()
    assert not found.switched.any()
    assert (found.share >= 0.5).all()
