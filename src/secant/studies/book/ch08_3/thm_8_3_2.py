"""Theorem 8.3.2: steepest descent in a norm finds the largest margin of that norm."""

import math

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.nn import logsumexp

from secant.core.device import jit
from secant.dynamics import Map, Probe, simulate
from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.optim import steepest_descent
from secant.studies.shared import real, separable
from secant.theory.bias.margins import dual, max_margin, norm_of

NORMS = {"l1": 1.0, "l2": 2.0, "linf": math.inf}
AT_LEAST = {"l1": 0.99, "l2": 0.99, "linf": 0.995, "D": 0.99}
"""The share of the largest margin that a run should reach in the end."""


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="mnist", help="random, or a data set that secant.data knows")
    samples: int = options.samples(20, 200, at_least=4, at_most=1_000)
    dim: int = options.dim(5, 20, at_least=2, at_most=50)
    gap: float = option(1.0, at_least=0.2, at_most=5, help="distance of random samples from a plane between them")
    steps: int = options.steps(20_000, 100_000, at_least=10_000, at_most=10**6)


def metric(dim: int) -> np.ndarray:
    """The matrix of the norm D."""
    return np.diag(np.geomspace(1, 10, dim)) + 0.2


@study("book/thm-8.3.2", section="8.3", title="Steepest descent finds the largest margin of its norm")
def run(config: Config) -> xr.Dataset:
    r"""Steepest descent in a norm, $w_{t+1} = w_t + \eta_t\operatorname{argmin}_v\nabla L\cdot v + \frac12\|v\|^2$, on
    the exponential loss of separable data, with $\eta_t \le \min(\eta_+, 1/(B^2L(w_t)))$ and $B = \max_i\|x_i\|_*$, has
    $\min_iy_iw_t\cdot x_i/\|w_t\| \to \gamma = \max_{\|w\| \le 1}\min_iy_iw\cdot x_i$. Here $\eta_t = 1/(B^2L(w_t))$,
    and the norms are $\ell_1$, $\ell_2$, $\ell_\infty$ and $\sqrt{w\cdot Dw}$. Linear programs, an active set and a
    change of coordinates give their largest margins.
    """
    random = np.random.default_rng(config.seed)
    Z, D = separable.chosen(config, random).z, metric(config.dim)
    root = np.linalg.cholesky(D)
    turned = np.linalg.solve(root, Z.T).T  # coordinates in which the norm of D is Euclidean
    best = {name: max_margin(Z, p) for name, p in NORMS.items()} | {"D": max_margin(turned)}
    size = [max(norm_of(z, dual(p)) for z in Z) for p in NORMS.values()] + [np.linalg.norm(turned, axis=1).max()]

    def log_loss(w: jnp.ndarray) -> jnp.ndarray:
        return logsumexp(-jnp.asarray(Z) @ w)

    # A step of 1/B^2 on log L is one of 1/(B^2 L) on L.
    rules = [steepest_descent(log_loss, norm, 1 / B**2) for norm, B in zip([*NORMS.values(), D], size, strict=True)]

    def margins(state: tuple[jnp.ndarray, ...]) -> jnp.ndarray:
        l1, l2, linf, metric = state
        lengths = [jnp.abs(l1).sum(), jnp.linalg.norm(l2), jnp.abs(linf).max(), jnp.linalg.norm(root.T @ metric)]
        return jnp.stack([(Z @ w).min() / length for w, length in zip(state, lengths, strict=True)])

    start = random.normal(size=config.dim)
    found = simulate(
        Map(lambda w: (w,) * 4, lambda state: tuple(rule.step(w) for rule, w in zip(rules, state, strict=True))),
        start,
        config.steps,
        probes={"margin": Probe(margins, every=config.steps // 200, dims=("norm",))},
    )
    g = random.normal(size=config.dim)
    along = [steepest_descent(lambda w: w @ g, p, 1.0) for p in NORMS.values()]
    moves = jit(lambda w: jnp.stack([rule.step(w) for rule in along]), quick=True)(np.zeros(config.dim))
    return xr.Dataset(
        {
            "margin": (("step", "norm"), found["margin"].transpose("step", "norm").values),
            "w": (("norm", "feature"), np.stack([np.asarray(w) for w in found.state])),
            "best": (
                ("norm", "feature"),
                np.stack([*(best[p].w for p in NORMS), np.linalg.solve(root.T, best["D"].w)]),
            ),
            "largest": ("norm", [one.margin for one in best.values()]),
            "residual": ("norm", [one.residual for one in best.values()]),
            "gradient": ("feature", g),
            "move": (("plain", "feature"), np.asarray(moves)),
        },
        coords={"step": found.dataset.step.values, "norm": list(best), "plain": list(NORMS)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    left = data.residual.max()
    yield claim("solvers", "largest margins: distance from their bounds, relative").zero(left, 1e-8, "rounding")
    ratio = data.margin / data.largest
    for name, least in AT_LEAST.items():
        yield claim(f"margin-{name}", f"{name}: margin after {config.steps:,} steps over the largest").at_least(
            least, ratio.sel(norm=name).isel(step=-1), "named beforehand"
        )
        yield claim(f"largest-{name}", f"{name}: margin over the largest, all steps").at_most(
            1.0, ratio.sel(norm=name).max(), "no margin is larger", slack=1e-10
        )
    g = data.gradient.values
    for name, p in NORMS.items():
        v = data.move.sel(plain=name).values
        for key, words, found in (
            ("length", "square of its length", norm_of(v, p) ** 2),
            ("dual", "squared dual norm", norm_of(g, dual(p)) ** 2),
        ):
            yield claim(f"{key}-{name}", rf"{name}: descent $-g\cdot v$ of a step over the {words}").equal(
                1.0, -g @ v / found, 1e-12, "rounding"
            )
    unit = lambda w: w / np.linalg.norm(w, axis=1)[:, None]  # noqa: E731
    unique = data.sel(norm=["l2", "D"])
    apart = np.linalg.norm(unit(unique.w) - unit(unique.best), axis=1)
    # In both norms the best weights are unique, and a margin of (1 - e) of the largest is within sqrt(2 e) of them.
    lengths = np.array([1.0, math.sqrt(np.linalg.cond(metric(config.dim)))])
    near = 2 * lengths * np.sqrt(2 - 2 * np.minimum(ratio.sel(norm=["l2", "D"])[-1], 1 - 1e-12))
    note = "over twice the root of the condition number of D where directions are compared"
    yield claim(
        "direction", r"l2 and D: distance of the direction over $\sqrt{2 - 2m/\gamma}$, $m$ the margin"
    ).at_most(1.0, (apart / near).max(), "by the parallelogram law", note=note)
    v, size = data.move.sel(plain="l1").values, norm_of(g, math.inf)
    printed, corrected = (r"\min_{\|y\| \le 1}x\cdot y", -size), (r"\max_{\|y\| \le 1}x\cdot y", size)
    found, where = -g @ v / norm_of(v, 1.0), "section 8.3.1, below (8.27)"
    yield claim("dual-norm", r"dual norm of a gradient in $\ell_1$").erratum(
        printed, corrected, found, 1e-12, "rounding", where=where, note="min for max"
    )
    w, l2, room = data.w.sel(norm="l2").values, data.sel(norm="l2"), 1 - AT_LEAST["l2"]
    printed = r"\min_iy_i\langle w_t, y_i\rangle/\|w_t\|", w.sum() / np.linalg.norm(w)
    corrected = r"\min_iy_i\langle w_t, x_i\rangle/\|w_t\|", float(l2.largest)
    found, why, where = l2.margin.isel(step=-1), "after so many steps", "theorem 8.3.2"
    note = "the label stands in place of the sample; read with the label in every coordinate"
    yield claim("limit", r"limit of the margin in $\ell_2$").erratum(
        printed, corrected, found, 0.0, why, relative=room, where=where, note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    later = data.isel(step=slice(1, None))
    for i, name in enumerate(data.norm.values):
        left.loglog(later.step, (1 - later.margin / later.largest).sel(norm=name), color=f"C{i}", label=name)
        w, best = (weights / np.abs(weights).max() for weights in (data.w.sel(norm=name), data.best.sel(norm=name)))
        places = np.arange(1, config.dim + 1) + 0.18 * (i - 1.5)
        right.bar(places, w, 0.16, color=f"C{i}", label=name)
        right.plot(places, best, "_", ms=9, mew=1.6, color=sheet.ink(), label="largest margin" if i == 0 else None)
    sheet.guide(left, later.step, 0.5 * later.step[0] / later.step, "$1/t$")
    sheet.label(left, "What is missing of the largest margin", "step", r"$1 - $margin$/\gamma$", "best")
    right.axhline(0, color=sheet.ink(), lw=0.8)
    right.xaxis.get_major_locator().set_params(integer=True)
    sheet.label(right, "Each norm has weights of its own", "feature", "weight over the largest", "best")
