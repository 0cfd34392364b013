"""Equations (3.11)-(3.14): gradient descent on the quadratic model closes on two numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, option, options, sheet, study
from secant.studies.shared.numerics.tables import on_tables
from secant.studies.shared.two_layer.models import descent, one_sample
from secant.theory.catapult import one_sample as ct
from secant.theory.regression.quadratic_model import gated_bilinear, gated_curvature, imbalance


class Config(Seeded):
    width: int = options.width(2_000, at_least=10)
    dim: int = options.dim(5)
    target: float = option(0.5, at_least=-10, at_most=10, help="label of the sample")
    eta_lambdas: tuple[float, ...] = options.eta_lambdas(
        (1.5, 2.2, 3.0, 4.2), at_least=0.01, at_most=10, ascending=True
    )
    steps: int = options.steps(120, at_least=2, at_most=10**6)

    def check(self) -> None:
        """Refuses what no memory holds."""
        fits_memory(64.0 * len(self.eta_lambdas) * (self.width * self.dim + self.steps), "width, dim or steps")


@study("thesis/sec-3.3", section="3.3", title="One sample, two numbers")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent on the quadratic model of a two-layer ReLU network, with one sample $(x, y)$ and the loss
    $\frac12 (g - y)^2$, obeys exactly
    $$g' - y = \Big(1 - \eta\lambda + \tfrac{\|x\|^2}{md}\,\eta^2 (g - y)\,g\Big)(g - y), \qquad
    \lambda' = \lambda - \eta\,\tfrac{\|x\|^2}{md}\,(g - y)^2 \Big(4\,\tfrac{g}{g - y} - \eta\lambda\Big).$$
    In the variables $u \propto (g - y)^2$, $v = \eta\lambda$, $w \propto (g - y)\,y$ this is
    $u' = (1 - v + u + w)^2 u$ and $v' = v - u(4 - v) - 4w$.
    """
    sample = one_sample(jax.random.key(config.seed), config.width, config.dim)
    y, lrs = config.target, jnp.asarray(config.eta_lambdas) / sample.curvature
    looks = {"output": gated_bilinear, "curvature": gated_curvature, "imbalance": imbalance}
    weights = simulate(
        lambda lr: descent("quadratic", sample.params, sample.x, y, lr),
        sample.params,
        config.steps,
        over={"lr": lrs},
        probes={name: lambda s, look=look: look(s, sample.on, sample.x) for name, look in looks.items()},
        stop=Stop(diverged=lambda s: jnp.abs(gated_bilinear(s, sample.on, sample.x)) > 1e6),
    ).dataset
    reduced = simulate(
        lambda lr: ct.catapult(lr, config.width, y),
        (sample.output, sample.curvature),
        config.steps,
        over={"lr": lrs},
        probes={
            "output_map": lambda s, lr: ct.unscale(s, lr, config.width, y)[0],
            "curvature_map": lambda s, lr: ct.unscale(s, lr, config.width, y)[1],
        },
    ).dataset
    kept = weights[[*looks, "stopped_at"]], reduced[["output_map", "curvature_map"]]
    return xr.merge(kept, join="inner").assign_coords(ratio=("lr", np.asarray(config.eta_lambdas)))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    alive = (np.abs(data.output) < 1e4) & (data.step <= data.stopped_at).transpose("lr", "step")
    for key, name in (("output", "output $g$"), ("curvature", "curvature")):
        error = (np.abs(data[key] - data[f"{key}_map"]) / (1 + np.abs(data[key]))).where(alive).max()
        yield claim(key, f"{name}: reduced map against gradient descent on the weights").zero(
            error, 1e-9, "rounding, amplified by the growth of the loss during the catapult"
        )
    a, v = on_tables(ct.rescale, data.output, data.curvature, data.lr, config.width, config.target)
    b = on_tables(ct.rescaled_target, data.lr, config.width, config.target)
    both = alive & alive.shift(step=-1, fill_value=False)
    q, q_factor = on_tables(ct.separatrix, a, v, b), on_tables(ct.separatrix_factor, a, b)
    balance, balance_factor = data.imbalance, on_tables(ct.imbalance_factor, a)
    for key, name, now, factor in (
        ("separatrix", "separatrix coordinate $q = v - 4 - w$ is multiplied by $1 + u + w$", q, q_factor),
        ("imbalance", "imbalance of the two layers is multiplied by $1 - u$", balance, balance_factor),
    ):
        after = now.shift(step=-1)
        error = np.abs((after - factor * now) / (1 + np.abs(after))).where(both)
        yield claim(key, name).zero(error.max(), 1e-10, "rounding of the recorded weights")
    # The theorem's range of catapults begins log m / sqrt m beyond the edge and ends as far below the border.
    margin, ratios = np.log(config.width) / np.sqrt(config.width), np.asarray(config.eta_lambdas)
    inside = np.flatnonzero((ratios >= 2 + margin) & (ratios <= 4 - margin))
    rise = claim("rise", "loss past the critical step size: largest over first")
    if not inside.size or config.steps < 20:
        yield rise.undecided(1.0, "no step size is in the range of catapults, or the steps are too few to see one")
        return
    loss, loss_map = ((g.isel(lr=inside[0]) - config.target) ** 2 for g in (data.output, data.output_map))
    printed = r"\max_t \mathcal L(t) = \mathcal L(0)", 1.0
    right = r"\max_t \mathcal L(t) > \mathcal L(0)", loss_map.max() / loss_map[0]
    near = Tolerance(0.0, 1e-6, why="the reduced map is exact; rounding only")
    note = "The text says that kernel and loss both fall monotonically there; the loss first grows exponentially."
    where = "section 3.3, after equation (3.12)"
    yield rise.erratum(printed, right, loss.max() / loss[0], near, note=note, where=where)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    for i, ratio in enumerate(data.ratio.values):
        one = data.isel(lr=i)
        one = one.sel(step=one.step <= min(float(one.stopped_at), 60))
        look = {"ls": "none", "marker": "o", "ms": 3.5, "color": f"C{i}"}
        loss, loss_map = ((g - config.target) ** 2 / 2 + 1e-16 for g in (one.output, one.output_map))
        left.semilogy(one.step, loss, label=rf"$\eta\lambda_0 = {ratio:g}$", **look)
        right.plot(one.step, one.lr * one.curvature, **look)
        sheet.guide(left, one.step, loss_map, lw=0.9)
        sheet.guide(right, one.step, one.lr * one.curvature_map, lw=0.9)
    sheet.mark(right, y=(2, 4), lw=0.8, ls=":")
    for height, name in ((2, "edge"), (4, "separatrix")):
        right.text(59, height + 0.06, f"{name}, {height}", ha="right", color=sheet.ink())
    sheet.guide(left, [], [], "map of two numbers", lw=0.9)
    limits, legend = {"xlim": (-1, 60), "ylim": (1e-12, 1e8)}, {"loc": "upper right", "fontsize": 8}
    sheet.label(left, "Loss", "step", r"$\frac{1}{2}(g - y)^2$", legend, **limits)
    sheet.label(right, "Curvature", "step", r"$\eta\lambda$", xlim=(-1, 60), ylim=(0, 6))
