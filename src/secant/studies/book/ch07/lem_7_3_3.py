"""Lemma 7.3.3: of two runs that start apart along the way out of a saddle, one leaves."""

from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, sheet, study
from secant.studies.shared.numerics.differences import largest
from secant.theory.landscape import escape, rank_one


class Config(Seeded):
    eigenvalues: tuple[float, ...] = option(
        (3.0, 2.0, 1.5, 1.0, 0.5, 0.1), at_least=0.05, at_most=20, shortest=2, longest=12, help="of the matrix"
    )
    omegas: tuple[float, ...] = option(
        (1e-2, 1e-4, 1e-6), at_least=1e-7, at_most=1e-2, longest=6, distinct=True, help="distances of starts in epsilon"
    )
    pairs: int = option(100, at_least=4, at_most=2_000, help="random pairs of runs")

    def check(self) -> None:
        """A clear way out."""
        top, second = sorted(self.eigenvalues)[:-3:-1]
        if top - second < 0.1 * top:
            raise ValueError(f"eigenvalues: the largest a tenth of itself above the next, got {self.eigenvalues}.")


def horizon(lr: float, gamma: float, turn: float, start: float, width: float) -> tuple[int, float]:
    r"""Steps $T$ and radius $S$ of the proof, with constants.

    While both runs are within $S + \eta r$ of the saddle, and $\eta T\rho(S + \eta r) \le \frac14$, the error $q$ is
    at most half of $p$. So both cannot stay within $S$ once $\frac12(1 + \eta\gamma)^T\eta\omega > 2S + \eta\omega$.
    """
    steps = 1
    for _ in range(200):
        radius = 1 / (4 * lr * steps * turn) - start
        needed = int(np.ceil(np.log(2 * (2 * max(radius, 0) + lr * width) / (lr * width)) / np.log(1 + lr * gamma))) + 1
        if needed <= steps:
            break
        steps += max((needed - steps) // 4, 1)
    return steps, radius


@study("book/lem-7.3.3", section="7.3", title="Coupled runs part")
def run(config: Config) -> xr.Dataset:
    r"""Start two runs of gradient descent near a saddle $\tilde x$ of curvature $-\gamma$ along $e_1$, with
    $x_0 - x_0' = \eta\omega e_1$. Their difference is $\hat x_t = p_t - q_t$ with
    $p_t = (1 - \eta\mathcal H)^t\hat x_0$ and $q_{t+1} = \eta\sum_{s\le t}(1 - \eta\mathcal H)^{t-s}\Delta_s\hat x_s$.
    Here $\Delta_s$ is the mean of the Hessian between the runs less $\mathcal H = \nabla^2f(\tilde x)$. Then
    $|p_t| = (1 + \eta\gamma)^t\eta\omega$, and $|q_t| \le \frac12|p_t|$ as long as both runs are near. So one of them
    leaves a ball of radius $\tilde\Omega(\epsilon T/\ell)$ within $T$ steps.
    """
    rng = np.random.default_rng(config.seed)
    values = np.sort(config.eigenvalues)[::-1]
    M, d = np.diag(values), len(values)
    saddle = rank_one.second_best(M)
    lr, gamma = 1 / saddle.smooth, saddle.curvature
    eps = gamma**2 / saddle.turn / 100  # a saddle by a wide margin
    H = rank_one.hessian(M, saddle.point)
    step = np.eye(d) - lr * H
    rows: dict[str, list[Any]] = {name: [] for name in ("left", "radius", "steps", "p", "q", "miss", "apart", "far")}
    half = config.pairs // 2
    for width in np.array(config.omegas) * eps:
        T, S = horizon(lr, gamma, saddle.turn, lr * eps, width)
        push = rng.normal(size=(config.pairs, d))
        length = np.linalg.norm(push, axis=1, keepdims=True)
        push *= 0.5 * lr * eps * rng.uniform(size=(config.pairs, 1)) ** (1 / d) / length
        push[:half] -= (push[:half] @ saddle.way)[:, None] * saddle.way  # starts on both sides of the stuck region
        start = saddle.point + push + 0.5 * lr * width * saddle.way, saddle.point + push - 0.5 * lr * width * saddle.way
        x, y, p, q = *start, start[0] - start[1], np.zeros_like(push)
        left, miss = np.full(config.pairs, T + 1), 0.0
        series: list[list[np.ndarray]] = []
        for t in range(T + 1):
            gone = np.maximum(np.linalg.norm(x - start[0], axis=1), np.linalg.norm(y - start[1], axis=1))
            left = np.where((left > T) & (gone >= S), t, left)
            series.append([np.linalg.norm(v, axis=1) for v in (p, q, x - y)] + [gone])
            miss = max(miss, (np.abs(p - q - (x - y)).max(1) / np.linalg.norm(p, axis=1)).max())
            # The Hessian is quadratic in x: two points of Gauss integrate it exactly.
            mean = sum(rank_one.hessian(M, y + s * (x - y)) for s in (0.5 - 12**-0.5, 0.5 + 12**-0.5)) / 2 - H
            p, q = p @ step, q @ step + lr * np.einsum("nij,nj->ni", mean, x - y)
            x, y = x - lr * rank_one.gradient(M, x), y - lr * rank_one.gradient(M, y)
        course = np.array(series)  # (T + 1, 4, pairs)
        kept = np.cumprod(course[:, 3] < S, 0).astype(bool)
        exact = escape.separation(np.arange(T + 1), lr, gamma, width)[:, None]
        shown, medians = min(T + 1, 2_000), np.full((2, 2_000), np.nan)
        medians[:, :shown] = np.median(course[:shown, 2:], 2).T
        growth, error = largest(course[:, 0] / exact, 1), np.where(kept, course[:, 1] / course[:, 0], 0).max()
        for name, value in zip(rows, (left, S, T, growth, error, miss, *medians), strict=True):
            rows[name].append(value)
    dims = {"left": ("width", "pair"), "apart": ("width", "step"), "far": ("width", "step")}
    return xr.Dataset(
        {name: (dims.get(name, "width"), np.array(row)) for name, row in rows.items()}
        | {"lr": lr, "gamma": gamma, "eps": eps, "smooth": saddle.smooth},
        coords={"width": list(config.omegas)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    small, large = min(config.omegas), max(config.omegas)
    nearest = float(data.lr * data.eps) * small
    rounding = 5 * np.finfo(float).eps * np.sqrt(max(config.eigenvalues) / float(data.lr * data.gamma)) / nearest
    why, note = "rounding of x at every step, over the nearest start", f"starts are as near as {nearest:.1g}"
    yield claim("split", "difference of the runs less $p - q$, over $p$, all steps").zero(
        data["miss"].max(), rounding, why, note=note
    )
    yield claim("growth", r"$|p|$ over $(1 + \eta\gamma)^t\eta\omega$ less 1, largest").zero(
        data["p"].max(), rounding, why
    )
    yield claim("error", "largest $|q|$ over $|p|$ while both are within the radius").at_most(
        0.5, data["q"].max(), "the induction of the proof"
    )
    for width in config.omegas:
        row = data.sel(width=width)
        sentence = rf"$\omega$ = {width:g} $\epsilon$: pairs in which a run leaves within $T = {int(row.steps)}$ steps"
        yield claim(f"leave-{width:g}", sentence).share(
            1.0,
            row.left <= row.steps,
            row.left >= 0,
            "lemma 7.3.3, with the constants of the proof",
            otherwise="no pairs",
            note=f"radius {float(row.radius):.2g}",
        )
    decade = escape.steps_per_decade(float(data.lr), float(data.gamma))
    slow = data.left.isel(pair=slice(None, config.pairs // 2)).mean("pair")
    scale = np.log10(data.radius.sel(width=large) / data.radius.sel(width=small)).item() * decade
    apart = np.log10(large / small)
    sentence = r"steps to leave a decade of $\omega$, of pairs on both sides of the stuck region"
    yield claim("decade", sentence, given=apart >= 1, otherwise="one width, or two of them too near").equal(
        decade,
        lambda: (slow.sel(width=small) - slow.sel(width=large) + scale) / apart,
        3 / max(apart, 1),
        "whole steps, and the push's own motion",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    for i, width in enumerate(config.omegas):
        row = data.sel(width=width)
        steps = np.arange(min(int(row.steps) + 1, data.sizes["step"]))
        left.semilogy(steps, row["apart"][: len(steps)], color=f"C{i}", label=rf"$\omega = {width:g}\,\epsilon$")
        exact = escape.separation(steps, float(data.lr), float(data.gamma), width * float(data.eps))
        sheet.guide(left, steps, exact, r"$(1 + \eta\gamma)^t\eta\omega$" if i == 0 else None)
        right.semilogy(steps[1:], row["far"][1 : len(steps)], color=f"C{i}", label=rf"$\omega = {width:g}\,\epsilon$")
        name = "radius and time of the proof" if i == 0 else None
        right.plot(int(row.steps), float(row.radius), "s", ms=7, color=f"C{i}", label=name)
    sheet.label(left, "Two runs part", "step", "median distance of the two", "best")
    sheet.label(right, "One of them leaves", "step", "median distance from the start", "best")
