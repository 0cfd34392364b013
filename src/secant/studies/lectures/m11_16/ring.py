"""Lecture of 11/16, challenge problem: a walk on a ring whose strides depend on the place."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Options, claim, option, scaled, sheet, study
from secant.studies.shared.numerics.exponents import rate
from secant.theory.noise.fluctuation import ring_walk

PRINTED = np.sqrt(2) / (1 + np.sqrt(2))
"""The mass of the half with short strides in the notes."""


class Config(Options):
    sites: tuple[int, ...] = scaled(
        smoke=(50, 100, 200),
        laptop=(50, 100, 200, 400, 800),
        at_least=10,
        at_most=1_000,
        shortest=2,
        longest=8,
        help="sites of half a ring; made even",
    )
    thirds: int = option(100, at_least=20, at_most=500, help="sites of a third of a ring with strides 1, 2 and 3")


def halves(config: Config) -> list[int]:
    """Even numbers of sites, rising, each once."""
    return sorted({2 * (n // 2) for n in config.sites})


@study("lectures/11-16-ring", section="11-16", title="Where a walk with changing strides stays")
def run(config: Config) -> xr.Dataset:
    r"""A walk on a ring steps $\pm s(\theta)$, each with probability $\frac12$, $s = 1$ on one half and 2 on the other.
    With equal strides its stationary law is uniform. Here the law is not uniform: the flow of probability vanishes if
    $s^2p$ is constant, so that the density is proportional to $1/s^2$, and the half with short strides holds $\frac45$.
    On a lattice of $N$ sites a half, $N$ even, this half holds $4N/(5N + 2)$. Without any force, noise drives a walk
    away from places where the noise is larger.
    """
    sizes = halves(config)
    laws = [ring_walk(np.repeat([1, 2], n)) for n in sizes]
    three = ring_walk(np.repeat([1, 2, 3], config.thirds)).reshape(3, -1)
    last = laws[-1]
    return xr.Dataset(
        {
            "mass": ("n", [law[: len(law) // 2].sum() for law in laws]),
            "law": ("site", last),
            "three": (("stride", "place"), three),
            "uniform": ("law_site", ring_walk(np.ones(sizes[0], int))),
        },
        coords={"n": sizes, "stride": [1, 2, 3]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    last, solve = data.n.values[-1], "an identity: rounding of a linear solve"
    for n, mass in zip(data.n.values, data["mass"].values, strict=True):
        name = f"{n} sites a half: mass where strides are short"
        yield claim(f"mass-{n}", name).equal(4 * n / (5 * n + 2), mass, 1e-9, solve)
    yield claim("mass", f"mass where strides are short, {last} sites a half").erratum(
        (r"$\sqrt2/(1 + \sqrt2)$", PRINTED),
        (r"$4/5$", 0.8),
        data["mass"][-1],
        1 / last,
        "two sites of a half, at the borders",
        where="lecture of 11/16, challenge problem",
        note="$1/s^2$ with strides 1 and 2 is 4 to 1. The printed masses belong to a density of $1/s$ with $s^2 = 1$ "
        "and 2.",
    )
    uneven = np.abs(data.uniform * data.uniform.size - 1).max()
    yield claim("equal-strides", "equal strides: largest difference from a uniform law, over it").zero(
        uneven, 1e-9, solve
    )
    yield claim("exponent", "exponent of the density in the stride, strides 1, 2 and 3").equal(
        -2.0, rate(data.stride, data.three.sum("place")), 4 / config.thirds, "sites at the borders, over a third"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11.5, 4.4), 2)
    law, n = data.law.values, len(data.law) // 2
    angle = 2 * np.pi * (np.arange(2 * n) + 0.5) / (2 * n)
    # Strides of two keep even and odd sites apart for long. From far one sees the mean over pairs of sites.
    smooth = (law + (np.roll(law, 1) + np.roll(law, -1)) / 2) / 2 * n / np.pi
    left.plot(angle, smooth, color="C0", lw=2, label=f"walk, {n} sites a half")
    ends = [0, np.pi, np.pi, 2 * np.pi]
    for short, name, style in ((0.8, "$1/s^2$", (0, (5, 2))), (PRINTED, "printed", ":")):
        sheet.guide(left, ends, np.repeat([short, 1 - short], 2) / np.pi, name, ls=style, lw=1.4)
    left.set_xticks([0, np.pi, 2 * np.pi], ["0", r"$\pi$", r"$2\pi$"])
    sheet.label(left, "Where the walk stays", r"$\theta$", "density", "best", ylim=(0, 0.32))
    fine = np.geomspace(data.n.values[0], data.n.values[-1], 100)
    right.plot(fine, 4 * fine / (5 * fine + 2), color="C0", lw=1.2, label="$4N/(5N + 2)$")
    right.plot(data.n, data["mass"], "o", color="C0", ms=7, label="walk")
    sheet.mark(right, y=0.8, label="4/5")
    sheet.mark(right, y=PRINTED, label="printed", ls=":", lw=1.4)
    sheet.label(right, "Mass where strides are short", "sites of half a ring", "mass", "center right", xscale="log")
