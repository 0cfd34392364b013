"""Section 9.3: teachers that a wide layer of ReLU learns from few samples."""

import math

import numpy as np
import xarray as xr
from numpy.polynomial import polynomial

from secant.kernels import label_complexity
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, scaled, sheet, study
from secant.studies.shared.first_layer import limit_kernel
from secant.studies.shared.numerics.exponents import exponent

TEACHERS = {"linear": "linear", "power 2": "squares", "power 4": "fourth powers", "cosine": "cosines"}
LENGTHS = (0.02, 0.04, 0.08)
"""Lengths of a short beta."""


class Config(Seeded):
    sizes: tuple[int, ...] = scaled(
        smoke=(100, 200, 400),
        laptop=(100, 200, 400, 800, 1_600),
        at_least=20,
        at_most=5_000,
        shortest=2,
        longest=8,
        ascending=True,
        help="samples",
    )
    features: int = options.features(3, at_least=2, at_most=20)
    terms: int = option(3, at_least=1, at_most=20, help="terms of each teacher")
    draws: int = options.draws(6, 20, at_least=3, at_most=100)

    def check(self) -> None:
        """Kernels that a machine holds."""
        fits_memory(40.0 * max(self.sizes) ** 2, "sizes")


def weight(order: int) -> float:
    r"""The weight of the power $\rho^{2\ell}$ in $H^*$: $\frac1{2\pi}\frac{(2\ell-3)!!}{(2\ell-2)!!(2\ell-1)}$."""
    ratio = math.prod((2 * j - 3) / (2 * j - 2) for j in range(2, order + 1))
    return ratio / (2 * order - 1) / (2 * math.pi)


def even_power(p: int) -> float:
    r"""The measure of $(\beta\cdot x)^p$ with $|\beta| = 1$, times $\sqrt n$, is at most this number."""
    return 1 / math.sqrt(weight(p // 2))


def bounds(lengths: np.ndarray, alpha: np.ndarray) -> dict[str, float]:
    """For every teacher: the bounds on its complexity, times the root of the number of samples."""
    size = np.abs(alpha)
    cosines = sum(even_power(p) / math.factorial(p) * lengths**p for p in range(2, 41, 2))
    return {
        "linear": 2 * float(np.linalg.norm(alpha * lengths, 1)),
        "power 2": float(size @ lengths**2) * even_power(2),
        "power 4": float(size @ lengths**4) * even_power(4),
        "cosine": float(size @ cosines),
    }


def teach(x: np.ndarray, beta: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    along = x @ beta.T
    return np.stack([along @ alpha, along**2 @ alpha, along**4 @ alpha, (np.cos(along) - 1) @ alpha], 1)


def measure(kernel: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Equation (9.11) for every column of labels."""
    return np.sqrt(2 * (labels * np.linalg.solve(kernel, labels)).sum(0) * np.trace(kernel)) / len(kernel)


@study("book/sec-9.3", section="9.3", title="Teachers that need few samples")
def run(config: Config) -> xr.Dataset:
    r"""The measure $\sqrt{2\,y\cdot(H^*)^{-1}y\ \mathrm{tr}\,H^*}/n$ of a wide layer of ReLU falls as $1/\sqrt n$ for
    teachers $\sum_j\alpha_j\,\beta_j\cdot x$, $\sum_j\alpha_j(\beta_j\cdot x)^p$ with even $p$ and
    $\sum_j\alpha_j(\cos(\beta_j\cdot x) - 1)$. Times $\sqrt n$, the measure is at most $2\sum_j|\alpha_j||\beta_j|$, a
    constant times $p\sum_j|\alpha_j||\beta_j|^p$, and the same constant times
    $\sum_j|\alpha_j||\beta_j|\sinh|\beta_j|$.
    """
    found = np.empty((len(TEACHERS), config.draws, len(config.sizes)))
    room, short = np.empty_like(found), np.empty((config.draws, len(LENGTHS)))
    for draw in range(config.draws):
        rng = np.random.default_rng((config.seed, draw))
        x = rng.normal(size=(config.sizes[-1], config.features))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        beta, alpha = rng.normal(size=(config.terms, config.features)), rng.normal(size=config.terms)
        labels, kernel = teach(x, beta, alpha), limit_kernel(x)
        most = np.array(list(bounds(np.linalg.norm(beta, axis=1), alpha).values()))
        for i, n in enumerate(config.sizes):
            found[:, draw, i] = measure(kernel[:n, :n], labels[:n])
            room[:, draw, i] = found[:, draw, i] * math.sqrt(n) / most
        n, one = config.sizes[0], beta[:1] / np.linalg.norm(beta[0])
        short[draw] = [measure(kernel[:n, :n], teach(x[:n], r * one, np.ones(1)))[-1] for r in LENGTHS]
    return xr.Dataset(
        {
            "measure": (("teacher", "draw", "samples"), found),
            "room": (("teacher", "draw", "samples"), room),
            "short": (("draw", "length"), short),
            "library": label_complexity(kernel[:n, :n], labels[:n, 0]),
            "here": measure(kernel[:n, :n], labels[:n, :1])[0],
        },
        coords={"teacher": list(TEACHERS), "samples": list(config.sizes), "length": list(LENGTHS)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    found = data.here / data.library
    yield claim("library", "the measure against the library's, over it").equal(1.0, found, 1e-8, "rounding")
    for name, words in TEACHERS.items():
        room = data.room.sel(teacher=name).max()
        yield claim(f"bound-{name}", f"{words}: measure over its bound, largest").at_most(1.0, room, "an inequality")
    z, series = np.linspace(-0.9, 0.9, 19), np.zeros(402)
    series[1], series[2::2] = 0.25, [weight(order) for order in range(1, 201)]
    exact = z * (np.pi - np.arccos(z)) / (2 * np.pi)
    yield claim("weights", "weights of the powers, against the kernel itself").zero(
        np.abs(polynomial.polyval(z, series) - exact).max(), 1e-12, "rounding"
    )
    most, why = max(even_power(p) / p for p in range(2, 401, 2)), "that of the fourth power: a constant times $p$"
    yield claim("even-powers", "bound of an even power over $p$, largest of 200 powers").at_most(
        math.sqrt(12 * math.pi) / 4, most, why, slack=1e-12
    )
    size = np.log(data.samples)
    along = (size - size.mean()) / ((size - size.mean()) ** 2).sum()
    slopes = (np.log(data["measure"]) * along).sum("samples")
    for (name, words), degree in zip(TEACHERS.items(), (1, 2, 4, 4), strict=True):
        room = math.comb(config.features + degree - 1, degree) / config.sizes[0]
        yield claim(f"exponent-{name}", f"{words}: exponent of the number of samples").equal(
            -0.5, estimate(slopes.sel(teacher=name)), room, "polynomials of that degree over the fewest samples"
        )
    r, where, why = 2.0, "section 9.3, learnable functions", "the next order"
    printed, corrected = (r"|\beta|\sinh|\beta|^2", r * math.sinh(r**2)), (r"|\beta|\sinh|\beta|", r * math.sinh(r))
    found, note = (
        sum(p * r**p / math.factorial(p) for p in range(2, 60, 2)),
        "a power too many, and a $p$ that the cosine",
    )
    name = r"cosine of a long $\beta$: sum of the bounds of its powers, over their constant, at length 2"
    yield claim("cosine-long", name).erratum(
        printed, corrected, found, 1e-12, "rounding", by="derivation", where=where, note=f"{note} does not have"
    )
    printed, corrected = (r"|\beta|\sinh|\beta|^2:\ 3", 3.0), (r"|\beta|\sinh|\beta|:\ 2", 2.0)
    found, note = exponent(data.short, "length").value, "the printed bound falls faster than what it should bound"
    yield claim("cosine-short", r"cosine of a short $\beta$: exponent of its length in the measure").erratum(
        printed, corrected, found, LENGTHS[-1], why, where=where, note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    sizes = data.samples.values.astype(float)
    for i, (name, words) in enumerate(TEACHERS.items()):
        sheet.spread(left, data.room.sel(teacher=name) / np.sqrt(data.samples), "draw", words, color=f"C{i}")
    left.set(xscale="log", yscale="log")
    sheet.guide(left, sizes, sizes**-0.5, "bound")
    sheet.label(left, "Measure over the bound's factor", "samples", None, {"loc": "lower left", "ncols": 2})
    left.set_xticks(config.sizes, [str(size) for size in config.sizes])
    left.set_xticks([], minor=True)
    length, constant = np.geomspace(0.01, 3, 60), even_power(4) / 4
    right.loglog(length, [bounds(np.array([r]), np.ones(1))["cosine"] for r in length], color="C3", label="own bound")
    right.loglog(length, constant * length * np.sinh(length), color="C2", label=r"$|\beta|\sinh|\beta|$")
    right.loglog(length, constant * length * np.sinh(length**2), ":", color="C1", label="as printed")
    measured = data.short.mean("draw") * math.sqrt(config.sizes[0])
    right.loglog(data.length, measured, "o", color=sheet.ink(), label="measured")
    sheet.label(right, r"A cosine: measure times $\sqrt{n}$", r"$|\beta|$", None, "upper left")
