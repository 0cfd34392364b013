"""Section 7.3.2: the stuck region is thin, so that a random push rarely ends in it."""

import numpy as np
import xarray as xr

from secant.lab import Estimate, Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared.landscapes.balls import in_ball
from secant.theory.landscape import escape, rank_one


class Config(Seeded):
    dims: tuple[int, ...] = option(
        (1, 2, 10, 100), at_least=1, at_most=2_000, longest=8, distinct=True, help="dimensions"
    )
    slab: float = option(0.2, at_least=0.02, at_most=1, help="width of the slab over the radius of the ball")
    draws: int = options.draws(4_000, 40_000, at_least=500, at_most=10**6)
    steps: int = options.steps(90, at_least=20, at_most=2_000)

    def check(self) -> None:
        """Random points that fit into memory."""
        if self.draws * max(self.dims) > 4 * 10**7:
            raise ValueError(f"draws: times the largest of dims at most 4e7, got {self.draws * max(self.dims):,}.")


@study("book/stuck-volume", section="7.3", title="The stuck region is thin")
def run(config: Config) -> xr.Dataset:
    r"""Let the stuck region of a ball of radius $\eta r$ have the width $\eta\omega$ along $e_1$. A uniform push then
    ends in the region with probability at most $\frac\omega{r\sqrt\pi}\,\Gamma(\frac d2 + 1)/\Gamma(\frac d2 +
    \frac12) \le \frac\omega r\sqrt{d/\pi}$. The ratio of Gamma functions over $\sqrt\pi$ is 0.5, 0.63662, 1.29345,
    3.99941 for $d$ = 1, 2, 10, 100, and at most $\sqrt{(d + 1)/2\pi}$.
    """
    rng = np.random.default_rng(config.seed)
    share, edge = [], []
    for d in config.dims:
        first = np.abs(in_ball(rng, config.draws, d)[:, 0])
        share.append((first <= config.slab / 2).mean())
        edge.append(escape.slab_share(config.slab, d, 0.5))
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
            "exact": ("dim", [float(escape.slab_share(config.slab, d)) for d in config.dims]),
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
        row, chance = data.sel(dim=d), float(data.exact.sel(dim=d))
        if d in GOLDEN:
            yield claim(f"gamma-{d}", rf"$d = {d}$: ratio of Gamma functions over $\sqrt{{\pi}}$").equal(
                GOLDEN[d], row.ratio, 5e-6, "its five decimals"
            )
        for key, formula, value, why in (
            ("gamma-bound", r"\sqrt{(d + 1)/2\pi}", np.sqrt((d + 1) / (2 * np.pi)), "log-convexity of Gamma"),
            ("gamma-printed", r"\sqrt{d/\pi}", np.sqrt(d / np.pi), "as printed"),
        ):
            yield claim(f"{key}-{d}", f"$d = {d}$: this ratio over ${formula}$").at_most(1.0, row.ratio / value, why)
        error = np.sqrt(max(chance * (1 - chance), 1 / config.draws) / config.draws)
        sentence = f"$d = {d}$: share of random points in a slab of {config.slab:g} radii, over its exact share"
        yield claim(f"slab-{d}", sentence).equal(
            1.0, Estimate(float(row.share) / chance, error / chance), 0.0, "the sampling error of a share"
        )
        bound = config.slab * float(row.ratio)
        yield claim(f"slab-bound-{d}", f"$d = {d}$: exact share of the slab over its bound").at_most(
            1.0, chance / bound, "sections are largest at the centre", slack=1e-12
        )
    wide, stuck, thickness = np.abs(data.push.values), ~data.gone.values, float(data.thickness)
    few, chance = int(stuck.sum()), float(escape.slab_share(2 * min(thickness, 1.0), 6))
    some, otherwise = few >= 50 and thickness < 1, "hardly any push is stuck, or all are"
    sentence = rf"saddle, {config.steps} steps: half width of the stuck region over its law $(1 + \eta\gamma)^{{-t}}$"
    yield claim("saddle-width", sentence, given=some, otherwise=otherwise).equal(
        1.0,
        lambda: (wide[stuck].max() + wide[~stuck].min()) / 2 / thickness,
        0.02 + 20 / max(few, 1),
        "the next order in the distance from the saddle, and gaps between random points",
    )
    sentence = "saddle: share of stuck pushes over the share of a slab of that width"
    yield claim("saddle-share", sentence, given=some, otherwise=otherwise).equal(
        1.0,
        lambda: Estimate(few / config.draws / chance, np.sqrt(chance * (1 - chance) / config.draws) / chance),
        0.02,
        "the sampling error of a share, and the next order",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    dims = np.unique(np.geomspace(1, 1000, 60).astype(int))
    name = r"$\Gamma(\frac{d}{2} + 1)/\sqrt{\pi}\,\Gamma(\frac{d}{2} + \frac{1}{2})$"
    left.loglog(dims, [escape.stuck_volume(int(d)) for d in dims], label=name)
    left.plot(data.dim, data.share / config.slab, "o", ms=6, label=f"random points, slab of {config.slab:g} radii")
    sheet.guide(left, dims, np.sqrt(dims / np.pi), r"$\sqrt{d/\pi}$")
    sheet.guide(left, dims, np.sqrt((dims + 1) / (2 * np.pi)), r"$\sqrt{(d + 1)/2\pi}$", ls=":")
    sheet.label(left, "Chance over width", "dimension", None, "upper left")
    edges = np.linspace(-1, 1, 61)
    for name, chosen, colour in (("escaped", data.gone.values, "C0"), ("stuck", ~data.gone.values, "C3")):
        right.hist(data.push.values[chosen], edges, color=colour, alpha=0.8, label=name)
    thickness = float(data.thickness)
    sheet.mark(right, x=[-thickness, thickness], label=r"$\pm(1 + \eta\gamma)^{-t}$, scaled")
    title, x = f"Pushes from a saddle, after {config.steps} steps", "push along the way out, over the radius"
    sheet.label(right, title, x, "pushes", "best", xlim=(-1.02, 1.02))
