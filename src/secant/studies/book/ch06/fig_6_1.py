"""Figure 6.1: a local minimum, a saddle point and a flat region, and what the Hessian tells of them."""

from typing import Any

import numpy as np
import xarray as xr

from secant.curvature import critical_point, is_sosp
from secant.lab import Figure, Findings, Options, claim, option, sheet, study
from secant.studies.shared.numerics.differences import largest

CASES = {  # coefficients of u, u^2, u^3, u^4, v^2, v^4; the kind by claim 6.1.4
    "u^2 + 2 v^2": ((0, 1, 0, 0, 2, 0), "minimum"),
    "-u^2 - 2 v^2": ((0, -1, 0, 0, -2, 0), "maximum"),
    "u^2 - v^2": ((0, 1, 0, 0, -1, 0), "saddle"),
    "-2 u^2 + v^2 + u^4": ((0, -2, 0, 1, 1, 0), "saddle"),
    "u^4 + v^4": ((0, 0, 0, 1, 0, 1), "degenerate"),
    "-u^4 - v^4": ((0, 0, 0, -1, 0, -1), "degenerate"),
    "u^3": ((0, 0, 1, 0, 0, 0), "degenerate"),
    "u^4 + v^2": ((0, 0, 0, 1, 1, 0), "degenerate"),
    "-u^4 - v^2": ((0, 0, 0, -1, -1, 0), "degenerate"),
    "u + u^2 + v^2": ((1, 1, 0, 0, 1, 0), "not critical"),
}


class Config(Options):
    radius: float = option(1e-3, at_least=1e-5, at_most=0.3, help="radius of the circle on which values are compared")
    points: int = option(64, at_least=8, at_most=10_000, help="points on this circle")
    far: float = option(10.0, at_least=5, at_most=1e4, help="place in the flat region of w^2/(1 + w^2)")
    tilt: float = option(0.1, at_least=0.01, at_most=0.35, help="tilt of the double well w^4/4 - w^2/2 + tilt w")


def polynomial(w: Any, coefficients: Any) -> Any:
    """A function for each row of `coefficients`. These are data, so that all functions share what is compiled."""
    u, v = w[0], w[1]
    terms = (u, u**2, u**3, u**4, v**2, v**4)
    return sum(coefficients[:, k] * term for k, term in enumerate(terms))


def total(values: Any, _: Any) -> Any:
    return values.sum()


def well(w: np.ndarray, tilt: float) -> np.ndarray:
    return w**4 / 4 - w**2 / 2 + tilt * w


@study("book/fig-6.1", section="6.1", title="Obstacles of nonconvex optimisation")
def run(config: Config) -> xr.Dataset:
    r"""Claim 6.1.4: a point with $\nabla f = 0$ is a local minimum if $\nabla^2f \succ 0$, a local maximum if
    $\nabla^2f \prec 0$, and a saddle if the Hessian has a positive and a negative eigenvalue. Otherwise the point is
    degenerate, and can be any of the three: $w^4$, $-w^4$ and $w^3$ at 0. Figure 6.1 shows three obstacles: a local
    minimum that is not the global one, a saddle, and a flat region, where the gradient is small and $f$ is far from
    its minimum.
    """
    angle = 2 * np.pi * (np.arange(config.points) + 0.5) / config.points
    around = config.radius * np.stack([np.cos(angle), np.sin(angle)])
    found, low, high, values = [], [], [], []
    for coefficients, _ in CASES.values():
        row = np.array([coefficients], float)
        point = critical_point(polynomial, np.zeros(2), row, np.zeros(1), total)
        found.append(point.kind)
        low.append(point.smallest)
        high.append(point.largest)
        values.append(polynomial(around, row[:, :, None])[0])
    # In the flat region the function is replaced by its Taylor polynomial at w = far.
    w = config.far
    slope, bend = 2 * w / (1 + w**2) ** 2, (2 - 6 * w**2) / (1 + w**2) ** 3
    flat = np.array([[slope, bend / 2, 0, 0, 0, 0]])
    wells = np.sort(np.roots([1, 0, -1, config.tilt]).real)
    return xr.Dataset(
        {
            "kind": ("case", found),
            "smallest": ("case", low),
            "largest": ("case", high),
            "around": (("case", "point"), np.stack(values)),
            "slope": slope,
            "bend": bend,
            "stationary": is_sosp(polynomial, np.zeros(2), flat, np.zeros(1), total, eps=slope, gamma=2 * abs(bend)),
            "wells": ("root", wells),
        },
        coords={"case": list(CASES)},
    )


def true_kind(values: np.ndarray) -> str:
    """By definitions 6.1.1 and 6.1.3, on a circle."""
    if (values >= 0).all():
        return "minimum"
    return "maximum" if (values <= 0).all() else "saddle"


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    kinds = dict(zip(data.case.values, data.kind.values, strict=True))
    for case, (_, expected) in CASES.items():
        key = "kind-" + "".join({"+": "p", "-": "m"}.get(sign, sign) for sign in case if sign not in " ^")
        yield claim(key, f"${case}$ counts as {expected}").count(1, int(kinds[case] == expected), "claim 6.1.4")
    exact = np.array([sorted((2 * c[1], 2 * c[4])) for c, _ in CASES.values()])
    yield claim("eigenvalues", "smallest and largest eigenvalues, largest miss").zero(
        largest(np.stack([data.smallest, data.largest], 1), exact), 1e-13, "rounding"
    )
    clear = [case for case, (_, kind) in CASES.items() if kind in ("minimum", "maximum", "saddle")]
    agree = sum(true_kind(data.around.sel(case=case).values) == kinds[case] for case in clear)
    yield claim("clear-cases", "clear cases that a small circle around them confirms").count(
        len(clear), agree, "claim 6.1.4"
    )
    doubtful = {true_kind(data.around.sel(case=c).values) for c in ("u^4 + v^4", "-u^4 - v^4", "u^3")}
    yield claim("degenerate", "kinds among the degenerate points of footnote 2").count(
        3, len(doubtful), "minimum, maximum and saddle"
    )
    w, slope = config.far, float(data.slope)
    ratio = w**2 / (1 + w**2) / (slope * w)
    sentence = "flat region: excess over the bound of a convex function with this gradient, $|f'||w|$"
    yield claim("flat-excess", sentence).at_least(2.0, ratio, "$(1 + w^2)/2$, and for a convex function at most 1")
    yield claim("flat-law", "flat region: this ratio over $(1 + w^2)/2$").equal(
        1.0, ratio / ((1 + w**2) / 2), 1e-12, "an identity"
    )
    yield claim("flat-stationary", "flat region: an approximate second-order stationary point").count(
        1, int(data.stationary), "at the size of its own slope and curvature"
    )
    wells = data.wells.values
    values, bends = well(wells, config.tilt), 3 * wells**2 - 1
    yield claim("wells", "double well: local minima").count(
        2, int((bends > 0).sum()), "the second derivative at the three roots"
    )
    yield claim(
        "spurious", "double well: excess of the spurious minimum over the global one, over twice the tilt"
    ).at_least(0.8, (values[2] - values[0]) / (2 * config.tilt), "2 tilt at first order: the wells are at -1 and 1")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    w, wells = np.linspace(-1.7, 1.6, 300), data.wells.values
    left.plot(w, well(w, config.tilt))
    for name, at, mark in (("global minimum", 0, "*"), ("maximum", 1, "^"), ("local minimum", 2, "o")):
        left.plot(wells[at], well(wells[at], config.tilt), mark, ms=9, color=f"C{at + 1}", label=name)
    sheet.label(left, "A local minimum", "$w$", "$f$", "best")
    u, v = np.meshgrid(np.linspace(-1, 1, 120), np.linspace(-1, 1, 120))
    drawn = middle.contourf(u, v, u**2 - v**2, 16, cmap="RdBu_r")
    figure.colorbar(drawn, ax=middle)
    middle.annotate("", (0, 0.75), (0, 0), arrowprops={"arrowstyle": "->", "color": "black", "lw": 1.5})
    middle.plot(0, 0, "o", color="black")
    sheet.label(middle, r"A saddle point, $w_1^2 - w_2^2$", "$w_1$", "$w_2$")
    middle.grid(False)
    w = np.linspace(-config.far, config.far, 400)
    right.plot(w, w**2 / (1 + w**2), label="$f = w^2/(1 + w^2)$")
    right.plot(w, np.abs(2 * w / (1 + w**2) ** 2), label=r"$|f'|$")
    sheet.label(right, "A flat region", "$w$", None, "center right")
