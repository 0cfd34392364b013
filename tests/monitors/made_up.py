"""Records that are made up: a loss, and looks of a known load."""

from pathlib import Path

import numpy as np

from secant.monitors import Watched


def record(loss, optimiser="sgd", every=10, lr=0.1, load=0.5, **columns):
    rows = [{"step": t, "loss": float(value), "lr": lr} for t, value in enumerate(loss)]
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = float(value)
    for row in rows[::every]:
        now = load(row["step"]) if callable(load) else load
        if now is not None:
            row |= {"sharpness": 20 * now, "sharpness_error": 0.02, "threshold": 20.0}
    return Watched(Path("run"), {"optimiser": optimiser}, rows, [])


def falling(steps=200, rate=0.98):
    return rate ** np.arange(steps)
