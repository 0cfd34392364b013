"""The authors' recursive feature machine, one kernel and no tree, with each of its solvers."""

from __future__ import annotations

import contextlib
import io

import torch
from exchange import Exchange, timed
from xrfm import RFM


def main() -> None:
    exchange = Exchange(("torch", "xrfm"))
    parts = {name: torch.from_numpy(array) for name, array in exchange.arrays.items()}
    parts |= {name: parts[name].reshape(-1, 1) for name in parts if name.startswith("y")}

    def fitted(solver: str) -> RFM:
        machine = RFM("l2", iters=5, bandwidth=10.0, device="cpu", verbose=False, tuning_metric="mse", solver=solver)
        with contextlib.redirect_stdout(io.StringIO()):
            machine.fit(
                (parts["x"], parts["y"]),
                (parts["x_valid"], parts["y_valid"]),
                iters=5,
                reg=1e-3,
                solver=solver,
                early_stop_rfm=False,
                verbose=False,
            )
        return machine

    for solver in ("solve", "cholesky"):
        try:
            seconds, machines = timed(lambda _, solver=solver: fitted(solver), 5)
            found = machines[-1].predict(parts["x_test"])
            error = float(torch.mean((found.reshape(-1, 1) - parts["y_test"]) ** 2))
            exchange.method(solver, seconds, error=error)
        except Exception as why:
            exchange.fail(solver, why)
    exchange.close()


if __name__ == "__main__":
    main()
