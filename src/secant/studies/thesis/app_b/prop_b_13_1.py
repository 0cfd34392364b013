"""Proposition B.13.1: quadratic models without linear part, and the two-layer linear network."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, options, sheet, study
from secant.optim import gradient_descent
from secant.theory.catapult.scaling import classify_run, regime
from secant.theory.regression import quadratic_model as qm


class Config(Seeded):
    width: int = options.width(200, 1_000, at_least=10)
    dim: int = options.dim(3, at_least=2, at_most=1_000)
    eta_lambdas: tuple[float, ...] = options.eta_lambdas(
        (0.5, 1.5, 1.9, 2.2, 2.6, 3.0, 3.4, 3.8, 4.2), at_least=0.05, at_most=8, ascending=True
    )
    steps: int = options.steps(400, at_least=10, at_most=10**6)

    def check(self) -> None:
        """Refuses what no memory holds."""
        needed = 64.0 * len(self.eta_lambdas) * (self.width * self.dim + self.steps) + 200.0 * self.dim**2
        fits_memory(needed, "width, dim or steps")


@study("thesis/prop-B.13.1", section="B.13", title="Linear networks catapult too")
def run(config: Config) -> xr.Dataset:
    r"""Let $g = \frac{\gamma}{2} w^\top\Sigma w$ with $\Sigma^3 = \|x\|^2\Sigma$, and $y = 0$. Then
    $$g' = (1 - \eta\lambda + \gamma^2\eta^2\|x\|^2 g^2)\,g,
    \qquad \lambda' = \lambda - \eta\gamma^2\|x\|^2 g^2 (4 - \eta\lambda),$$
    and gradient descent catapults for $2/\lambda(0) < \eta < 4/\lambda(0)$. At finite width the first step decides:
    the run catapults where $\eta\lambda(0) - \gamma^2\eta^2\|x\|^2g(0)^2 > 2$. The two-layer linear network
    $f = \frac{1}{\sqrt m} v^\top U x$ is such a model with $\gamma = 1/\sqrt m$.
    """
    m, d = config.width, config.dim

    def drawn(key: jax.Array) -> list[jax.Array]:
        keys = jax.random.split(key, 3)
        return [jax.random.normal(k, shape) for k, shape in zip(keys, ((m, d), (m,), (d,)), strict=True)]

    u, v, x = jit(drawn, quick=True)(jax.random.key(config.seed))

    def output(p: tuple[jax.Array, jax.Array]) -> jax.Array:
        return qm.linear_network(p[0], p[1], x)

    def curvature(p: tuple[jax.Array, jax.Array]) -> jax.Array:
        return jnp.sum(jnp.stack([jnp.sum(g**2) for g in jax.grad(output)(p)]))

    def ends(output: Callable[[Any], jax.Array]) -> Stop:
        return Stop(converged=lambda s: jnp.abs(output(s)) < 1e-9, diverged=lambda s: jnp.abs(output(s)) > 1e8)

    start = jit(lambda p: (output(p), curvature(p)), quick=True)((u, v))
    lrs, size = np.asarray(config.eta_lambdas) / float(start[1]), float(np.asarray(x) @ np.asarray(x))
    weights = simulate(
        lambda lr: gradient_descent(lambda p: output(p) ** 2 / 2, lr),
        (u, v),
        config.steps,
        over={"lr": lrs},
        probes={"output": output, "curvature": curvature},
        stop=ends(output),
    ).dataset
    reduced = simulate(
        lambda lr: qm.homogeneous_catapult(lr, m**-0.5, size),
        start,
        config.steps,
        over={"lr": lrs},
        probes={"output_map": lambda s: s.output, "curvature_map": lambda s: s.curvature},
        stop=ends(lambda s: s.output),
    ).dataset
    sigma = np.asarray(jit(lambda x: qm.linear_network_matrix(x, 4), quick=True)(x))
    square = sigma @ sigma
    data = xr.merge([weights, reduced[["output_map", "curvature_map"]]], join="inner", compat="override")
    return data.assign(
        size=size,
        square_defect=np.linalg.norm(square - size * np.eye(len(square)), 2),
        cube_defect=np.linalg.norm(square @ sigma - size * sigma, 2),
    ).assign_coords(ratio=("lr", np.asarray(config.eta_lambdas)))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    fine = (np.abs(data.output) < 1e5) & (data.step <= data.stopped_at).transpose("lr", "step")
    for name in ("output", "curvature"):
        error = np.abs(data[name] - data[f"{name}_map"]) / (1 + np.abs(data[name]))
        yield claim(f"{name}-map", f"{name}: corrected map against gradient descent on the linear network").zero(
            error.where(fine).max(), 1e-8, "rounding, amplified by the growth of the loss"
        )
    seen = np.asarray(jit(classify_run, quick=True)(np.nan_to_num(data.output.values, nan=np.inf) ** 2))
    start = np.sqrt(float(data.size) / config.width) * data.lr.values * data.output.values[:, 0]
    expected, ended = np.asarray(jit(regime, quick=True)(start, data.ratio.values)), data.outcome != Outcome.UNFINISHED
    none, note = f"no run ends within {config.steps} steps", f"of {int(ended.sum())} runs that have ended"
    yield claim("regimes", "step sizes with another regime than predicted", ended, none).zero(
        (ended.values & (seen != expected)).sum(), 0, "the claim", note=note
    )
    # One step from a state with a large output, read off gradient descent.
    one = data.isel(lr=int(np.abs(data.ratio - 3.0).argmin("lr")))
    t = int(np.abs(one.output[: int(min(one.stopped_at, one.sizes["step"] - 1))]).argmax("step"))
    (g, g2), (lam, lam2) = one.output.values[t : t + 2], one.curvature.values[t : t + 2]
    lr, size, gamma = float(one.lr), float(data.size), config.width**-0.5
    rounding = Tolerance(relative=1e-8, why="rounding")
    yield claim("output-coefficient", r"output: coefficient of $\eta^2 |x|^2 g^2$").erratum(
        (r"g' = (1 - \eta\lambda + \gamma\,\eta^2\|x\|^2 g^2)\,g", gamma),
        (r"g' = (1 - \eta\lambda + \gamma^2\eta^2\|x\|^2 g^2)\,g", gamma**2),
        (g2 / g - 1 + lr * lam) / (lr**2 * size * g**2),
        rounding,
        note=r"Two factors $\gamma$ come from the two derivatives; $\gamma^2 = 1/m$ matches equation (3.11).",
        where="appendix B.13",
    )
    yield claim("curvature-coefficient", r"curvature: coefficient of $|x|^2 g^2 (4 - \eta\lambda)$").erratum(
        (r"\lambda' = \lambda - \gamma\|x\|^2 g^2 (4 - \eta\lambda)", gamma),
        (r"\lambda' = \lambda - \eta\,\gamma^2\|x\|^2 g^2 (4 - \eta\lambda)", lr * gamma**2),
        (lam - lam2) / (size * g**2 * (4 - lr * lam)),
        rounding,
        note=r"The step size and one factor $\gamma$ are lost.",
        where="appendix B.13",
    )
    condition = r"condition on $\Sigma$, for the linear network: norm of $\Sigma^2 - |x|^2 I$"
    yield claim("condition", condition).erratum(
        (r"\Sigma^2 = \|x\|^2 I", 0.0),
        (r"\Sigma^3 = \|x\|^2\,\Sigma", size),
        data.square_defect,
        1e-10,
        "rounding",
        note=r"Directions of $U$ orthogonal to $x$ are in the kernel of $\Sigma$ when $d > 1$; the weaker condition is"
        " enough.",
        where="Proposition B.13.1",
    )
    yield claim("cube", r"norm of $\Sigma^3 - |x|^2 \Sigma$").zero(data.cube_defect, 1e-10, "rounding")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    shown = [r for r in (1.5, 2.2, 3.0, 3.8, 4.2) if np.any(np.abs(data.ratio - r) < 1e-6)]
    for i, r in enumerate(shown):
        one = data.isel(lr=int(np.abs(data.ratio - r).argmin("lr")))
        one = one.sel(step=one.step <= min(float(one.stopped_at), 50))
        look = {"ms": 3.5, "color": f"C{i}"}
        left.semilogy(one.step, one.output**2 / 2 + 1e-18, "o", label=rf"$\eta\lambda_0 = {r:g}$", **look)
        sheet.guide(left, one.step, one.output_map**2 / 2 + 1e-18, lw=0.9)
        right.plot(one.step, one.lr * one.curvature, "o", **look)
        sheet.guide(right, one.step, one.lr * one.curvature_map, lw=0.9)
    sheet.guide(left, [], [], "map of two numbers", lw=0.9)
    legend = {"fontsize": 8, "loc": "upper right"}
    sheet.label(left, "Two-layer linear network: loss", "step", r"$\frac{1}{2} g^2$", legend, ylim=(1e-10, 1e7))
    sheet.mark(right, y=(2, 4), lw=0.8, ls=":")
    sheet.label(right, "Curvature", "step", r"$\eta\lambda$", ylim=(0, 6))
