"""The two largest Hessian eigenvalues in PyTorch: SciPy, PyHessian, curvlinops and hessian-eigenthings.

Each runs with the setting that needs the fewest products while both eigenvalues stay within the accuracy (relative)
from every random start tried. The settings are known from an earlier search; where one is not accurate in the timed
runs, or with the option `scan`, the search is made again. Building the gradient's graph is part of the time.
Options: `accuracy`, `repetitions`, `scan`, `only` (names of methods).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from curvlinops import HessianLinearOperator
from exchange import Exchange, say, timed
from hessian_eigenthings import HessianOperator, deflated_power_iteration, lanczos
from pyhessian import hessian as pyhessian
from scipy.sparse.linalg import LinearOperator, eigsh
from torch_network import Hessian, converged_top, network, squared_error, start_vector

SEEDS = range(5)
BASES = (8, 10, 12, 15, 20)
TOLERANCES = (0.3, 0.1, 0.03, 0.01, 1e-3)
Answer = tuple[np.ndarray, int]
"""Eigenvalues in falling order, and the products used."""


class Peers:
    """Every way of getting the two eigenvalues, as a function of its setting and the seed of its start."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.model = network(arrays)
        self.x, self.y = (torch.from_numpy(arrays[name]) for name in "xy")
        self.params = list(self.model.parameters())
        self.size = sum(p.numel() for p in self.params)

    def scipy(self, seed: int, tolerance: float, basis: int) -> Answer:
        operator = Hessian(self.model, self.x, self.y)
        return operator.top_values(start_vector(self.size, seed), tolerance, basis), operator.products

    def curvlinops(self, seed: int, tolerance: float, basis: int) -> Answer:
        count = Counter()
        # Its sum over samples, divided by their number afterwards, is the loss of the others.
        criterion = torch.nn.MSELoss(reduction="sum")
        data = [(self.x, self.y)]
        operator = HessianLinearOperator(self.model, criterion, self.params, data, check_deterministic=False).to_scipy()
        counted = LinearOperator(operator.shape, matvec=count.around(operator.matvec), dtype=operator.dtype)
        start = start_vector(self.size, seed)
        values = eigsh(counted, k=2, which="LA", v0=start, tol=tolerance, ncv=basis, return_eigenvectors=False)
        return np.sort(values)[::-1] / len(self.x), count.calls

    def pyhessian(self, seed: int, tolerance: float) -> Answer:
        torch.manual_seed(seed)
        self.model.zero_grad(set_to_none=True)
        module, count = sys.modules["pyhessian.hessian"], Counter()
        plain = module.hessian_vector_product
        module.hessian_vector_product = count.around(plain)
        try:
            operator = pyhessian(self.model, squared_error, data=(self.x, self.y), cuda=False)
            values = operator.eigenvalues(maxIter=300, tol=tolerance, top_n=2)[0]
        finally:
            module.hessian_vector_product = plain
            self.model.zero_grad(set_to_none=True)
        return np.sort(values)[::-1], count.calls

    def eigenthings_lanczos(self, seed: int, steps: int, product: str) -> Answer:
        result = lanczos(self._eigenthings(product), k=2, max_iter=steps, which="LA", seed=seed)
        return np.sort(result.eigenvalues.numpy())[::-1], result.iterations

    def eigenthings_power(self, seed: int, tolerance: float) -> Answer:
        result = deflated_power_iteration(self._eigenthings("autograd"), k=2, max_iter=300, tol=tolerance, seed=seed)
        return np.sort(result.eigenvalues.numpy())[::-1], result.iterations

    def _eigenthings(self, product: str) -> HessianOperator:
        def loss(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
            return squared_error(model(batch[0]), batch[1])

        return HessianOperator(self.model, [(self.x, self.y)], loss, method=product)


class Counter:
    """Counts the calls of a function."""

    def __init__(self) -> None:
        self.calls = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.calls += 1
            return function(*args)

        return counted


def plans(peers: Peers) -> dict[str, tuple[Callable[..., Answer], list[dict[str, Any]], dict[str, Any]]]:
    """By name: the solver, the settings to look through, and the cheapest accurate one, as an earlier search found."""
    arpack = [{"tolerance": tolerance, "basis": basis} for tolerance in TOLERANCES for basis in BASES]
    power = [{"tolerance": tolerance} for tolerance in (3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)]
    deflated = [{"tolerance": tolerance} for tolerance in (0.05, 0.03, 0.02, 0.01, 0.005)]
    steps = (10, 12, 13, 14, 15, 16, 18, 20, 25)
    krylov = {p: [{"steps": count, "product": p} for count in steps] for p in ("autograd", "finite_difference")}
    return {
        "eigsh over double backward": (peers.scipy, arpack, {"tolerance": 0.1, "basis": 12}),
        "eigsh over curvlinops": (peers.curvlinops, arpack[:10], {"tolerance": 0.1, "basis": 12}),
        "PyHessian": (peers.pyhessian, power, {"tolerance": 1e-4}),
        "hessian-eigenthings Lanczos": (peers.eigenthings_lanczos, krylov["autograd"], krylov["autograd"][2]),
        "hessian-eigenthings Lanczos, finite differences": (
            peers.eigenthings_lanczos,
            krylov["finite_difference"],
            krylov["finite_difference"][2],
        ),
        "hessian-eigenthings power iteration": (peers.eigenthings_power, deflated, deflated[4]),
    }


def accurate_settings(
    solve: Callable[..., Answer], settings: Iterable[dict[str, Any]], exact: np.ndarray, accuracy: float
) -> list[dict[str, Any]]:
    """The settings that are accurate from every seed, those with the fewest products first."""
    kept: list[tuple[float, dict[str, Any]]] = []
    for setting in settings:
        products = 0.0
        for seed in SEEDS:
            try:
                values, used = solve(seed, **setting)
            except Exception as error:  # such as ARPACK's, when it does not converge
                say(f"{setting}: {str(error).splitlines()[0]}")
                break
            products += used / len(SEEDS)
            if relative(values, exact).max() > accuracy:
                break
        else:
            kept.append((products, setting))
    return [setting for _, setting in sorted(kept, key=lambda entry: entry[0])]


def relative(values: np.ndarray, exact: np.ndarray) -> np.ndarray:
    return np.abs(np.asarray(values) / exact - 1)


def main() -> None:
    exchange = Exchange(("torch", "scipy", "PyHessian", "curvlinops-for-pytorch", "hessian-eigenthings"))
    accuracy = float(exchange.options.get("accuracy", 1e-3))
    repetitions = int(exchange.options.get("repetitions", 5))
    peers = Peers(exchange.arrays)
    say(f"{len(peers.x)} samples, {peers.size} parameters, {torch.get_num_threads()} threads; converging in float64")
    exact = converged_top(exchange.arrays)
    exchange.values = {"converged": exact.tolist(), "accuracy": accuracy}
    for name, (solve, settings, known) in plans(peers).items():
        if name not in exchange.options.get("only", [name]):
            continue
        try:
            candidates: list[dict[str, Any]] = [] if exchange.options.get("scan") else [known]
            while True:
                if not candidates:
                    say(f"{name}: looking for its cheapest accurate setting")
                    candidates = [*accurate_settings(solve, settings, exact, accuracy), None]
                setting = candidates.pop(0)
                if setting is None:
                    raise RuntimeError(f"none of its settings is within {accuracy:g}")
                say(f"{name}: timing {setting}")
                seconds, answers = timed(partial(from_start, solve, setting), repetitions)
                errors = np.array([relative(values, exact) for values, _ in answers])
                if errors.max() <= accuracy:
                    break
        except Exception as error:
            exchange.fail(name, error)
            continue
        exchange.method(
            name,
            seconds,
            setting=setting,
            products=float(np.median([used for _, used in answers])),
            eigenvalues=answers[0][0].tolist(),
            relative_errors=errors.max(axis=0).tolist(),
            accurate=True,
        )
    exchange.close()


def from_start(solve: Callable[..., Answer], setting: dict[str, Any], repetition: int) -> Answer:
    return solve(100 + repetition, **setting)


if __name__ == "__main__":
    main()
