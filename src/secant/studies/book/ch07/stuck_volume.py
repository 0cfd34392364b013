"""Section 7.3.2: the stuck region is thin, so that a random push rarely ends in it."""

import numpy as np
import xarray as xr

from secant.lab import Estimate, Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.theory.landscape import escape, rank_one


class Config(Seeded):
    dims: tuple[int, ...] = option(
        (1, 2, 10, 100), at_least=1, at_most=2_000, longest=8, distinct=True, help="dimensions"
    )
    width: float = option(0.2, at_least=0.02, at_most=1, help="of the slab, over the radius of the ball")
    draws: int = options.draws(4_000, 40_000, at_least=500, at_most=10**6)
    steps: int = options.steps(90, at_least=20, at_most=2_000)

    def check(self) -> None:
        """Not more numbers than a table takes."""
        if self.draws * max(self.dims) > 4 * 10**7:
            raise ValueError(f"draws: times the largest of dims at most 4e7, got {self.draws * max(self.dims):,}.")


def in_ball(rng: np.random.Generator, draws: int, d: int) -> np.ndarray:
    x = rng.normal(size=(draws, d))
    return x * (rng.uniform(size=(draws, 1)) ** (1 / d) / np.linalg.norm(x, axis=1, keepdims=True))


@study("book/stuck-volume", section="7.3", title="The stuck region is thin")
def run(config: Config) -> xr.Dataset:
    r"""If the stuck region of a ball of radius $\eta r$ has the width $\eta\omega$ along $e_1$, a uniform push ends in
    it with probability at most $\frac\omega{r\sqrt\pi}\,\Gamma(\frac d2 + 1)/\Gamma(\frac d2 + \frac12) \le \frac\omega
    r\sqrt{d/\pi}$. The ratio of Gamma functions over $\sqrt\pi$ is 0.5, 0.63662, 1.29345, 3.99941 for $d$ = 1, 2, 10,
    100, and at most $\sqrt{(d + 1)/2\pi}$.
    """
    rng = np.random.default_rng(config.seed)
    share, edge = [], []
    for d in config.dims:
        first = np.abs(in_ball(rng, config.draws, d)[:, 0])
        share.append((first <= config.width / 2).mean())
        edge.append(escape.slab_share(config.width, d, 0.5))
    # The stuck region of a saddle: pushes after which f has hardly fallen.
    values = np.array([3.0, 2.0, 1.5, 1.0, 0.5, 0.1])
    M = np.diag(values)
    saddle = rank_one.second_best(M)
    lr, radius, inner = 0.05, 1e-4, 1e-3
    push = radius * in_ball(rng, config.draws, len(values))
    x = saddle.point + push
    for _ in range(config.steps):
        x = x - lr * rank_one.gradient(M, x)
    gone = np.abs((x - saddle.point) @ saddle.way) > inner
    return xr.Dataset(
        {
            "ratio": ("dim", [escape.stuck_volume(d) for d in config.dims]),
            "share": ("dim", share),
            "off": ("dim", edge),
            "exact": ("dim", [float(escape.slab_share(config.width, d)) for d in config.dims]),
            "push": ("draw", push[:, 0] / radius),
            "gone": ("draw", gone),
            "thickness": inner / radius / escape.growth(lr, saddle.curvature) ** config.steps,
        },
        coords={"dim": list(config.dims)},
    )


GOLDEN = {1: 0.5, 2: 0.63662, 10: 1.29345, 100: 3.99941}


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for d in config.dims:
        row = data.sel(dim=d)
        if d in GOLDEN:
            yield claim(f"d-{d}-ratio-gamma", f"d = {d}: ratio of Gamma functions over root pi").equal(
                GOLDEN[d], row.ratio, 5e-6, "its five decimals"
            )
        yield claim(f"d-{d}-same-sqrt", f"d = {d}: the same over sqrt((d + 1)/2pi)").at_most(
            1.0, row.ratio / np.sqrt((d + 1) / (2 * np.pi)), "log-convexity of Gamma"
        )
        yield claim(f"d-{d}-same-sqrt-d", f"d = {d}: the same over sqrt(d/pi)").at_most(
            1.0, row.ratio / np.sqrt(d / np.pi), "as printed"
        )
        chance = float(row.exact)
        error = np.sqrt(max(chance * (1 - chance), 1 / config.draws) / config.draws)
        yield claim(
            f"d-{d}-share-random-{config.width:g}",
            f"d = {d}: share of random points in a slab of {config.width:g} radii, over its exact share",
        ).equal(1.0, Estimate(float(row.share) / chance, error / chance), 0.0, "the sampling error of a share")
        yield claim(f"d-{d}-exact-share", f"d = {d}: exact share of the slab over its bound").at_most(
            1.0, chance / (config.width * float(row.ratio)), "sections are largest at the centre", slack=1e-12
        )
    wide = np.abs(data.push.values)
    stuck = ~data.gone.values
    thickness = float(data.thickness)
    few = int(stuck.sum())
    chance = float(escape.slab_share(2 * min(thickness, 1.0), 6))
    yield claim(
        f"saddle-{config.steps}-steps-half",
        f"saddle, {config.steps} steps: half the width of the stuck region over its law (1 + eta gamma)^-t",
        given=few >= 50 and thickness < 1,
        otherwise="hardly any push is stuck, or all are",
    ).equal(
        1.0,
        lambda: (wide[stuck].max() + wide[~stuck].min()) / 2 / thickness,
        0.02 + 20 / max(few, 1),
        "the next order in the distance from the saddle, and gaps between random points",
    )
    yield claim(
        "saddle-share-stuck",
        "saddle: share of stuck pushes over the share of a slab of that width",
        given=few >= 50 and thickness < 1,
        otherwise="the same",
    ).equal(
        1.0,
        lambda: Estimate(few / config.draws / chance, np.sqrt(chance * (1 - chance) / config.draws) / chance),
        0.02,
        "the sampling error of a share, and the next order",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    dims = np.unique(np.geomspace(1, 1000, 60).astype(int))
    left.loglog(
        dims,
        [escape.stuck_volume(int(d)) for d in dims],
        label=r"$\Gamma(\frac{d}{2} + 1)/\sqrt{\pi}\,\Gamma(\frac{d}{2} + \frac{1}{2})$",
    )
    left.plot(data.dim, data.share / config.width, "o", ms=6, label=f"random points, slab of {config.width:g} radii")
    sheet.guide(left, dims, np.sqrt(dims / np.pi), r"$\sqrt{d/\pi}$")
    sheet.guide(left, dims, np.sqrt((dims + 1) / (2 * np.pi)), r"$\sqrt{(d + 1)/2\pi}$", ls=":")
    sheet.label(left, "Chance over width", "dimension", None, "upper left")
    edges = np.linspace(-1, 1, 61)
    for name, chosen, colour in (("escaped", data.gone.values, "C0"), ("stuck", ~data.gone.values, "C3")):
        right.hist(data.push.values[chosen], edges, color=colour, alpha=0.8, label=name)
    thickness = float(data.thickness)
    sheet.mark(right, x=[-thickness, thickness], label=r"$\pm(1 + \eta\gamma)^{-t}$, scaled")
    sheet.label(
        right,
        f"Pushes from a saddle, after {config.steps} steps",
        "push along the way out, over the radius",
        "pushes",
        "best",
        xlim=(-1.02, 1.02),
    )
