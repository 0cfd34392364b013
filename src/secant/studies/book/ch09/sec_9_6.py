"""Section 9.6: exercises on the tangent kernel of a first layer of ReLU, and which labels it learns easily."""

import math
from itertools import accumulate

import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.polynomial import polynomial

from secant.kernels import dual, label_complexity
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, scaled, sheet, study

TEACHERS = ("linear", "square", "fourth power", "cosine", "random labels")


class Config(Seeded):
    samples: int = options.samples(100, 400, at_least=20, at_most=10**4)
    features: int = options.features(10, at_least=2, at_most=10**4)
    terms: int = option(150, at_least=10, at_most=1_000, help="terms of the series of the arc cosine")
    neurons: int = scaled(smoke=50_000, laptop=1_000_000, at_least=1_000, at_most=10**8, help="random neurons")

    def check(self) -> None:
        """Kernels that a machine holds."""
        fits_memory(80.0 * self.samples**2 + 32.0 * self.neurons, "samples or neurons")


def first_layer(x: np.ndarray) -> np.ndarray:
    r"""$H^*_{ij} = x_i^\top x_j\,\mathbb E\,\sigma'(w^\top x_i)\sigma'(w^\top x_j)$ for unit rows."""
    rho = np.clip(x @ x.T, -1, 1)
    np.fill_diagonal(rho, 1.0)
    return rho * np.asarray(dual("relu", 1.0, 1.0, jnp.asarray(rho)).slope)


def ratios(terms: int) -> list[float]:
    r"""Double factorials over double factorials, $(2\ell-3)!!/(2\ell-2)!!$, from the first term."""
    return list(accumulate(range(2, terms + 1), lambda ratio, n: ratio * ((2 * n - 3) / (2 * n - 2)), initial=1.0))


def series(z: np.ndarray, terms: int) -> np.ndarray:
    r"""$\sum_\ell \frac{(2\ell-3)!!}{(2\ell-2)!!} \frac{z^{2\ell-1}}{2\ell-1}$, which is $\pi/2 - \arccos z$."""
    coefficients = np.zeros(2 * terms)
    coefficients[1::2] = ratios(terms) / np.arange(1, 2 * terms, 2)
    return polynomial.polyval(z, coefficients)


@study("book/sec-9.6", section="9.6", title="What the kernel of a first layer learns easily")
def run(config: Config) -> xr.Dataset:
    r"""For a layer of ReLU in front of fixed signs the kernel of two unit inputs at an angle $\alpha$ is
    $H^* = \cos\alpha\,(\pi - \alpha)/(2\pi)$. By the series of the arc cosine this is $K/4$ plus positive terms, with
    $K$ the Gram matrix. So $(H^*)^{-1} \preceq 4K^{-1}$, and labels $y_i = \beta^\top x_i$ have the complexity
    $\sqrt{2\,y^\top (H^*)^{-1} y\,\operatorname{tr} H^*}/n \le 2\sqrt2\,\|\beta\|/\sqrt n$. Powers and cosines are as
    easy, and random labels are not.
    """
    rng = np.random.default_rng(config.seed)
    unit = lambda a: a / np.linalg.norm(a, axis=-1, keepdims=True)  # noqa: E731
    x, beta = unit(rng.normal(size=(config.samples, config.features))), unit(rng.normal(size=config.features))
    few = unit(rng.normal(size=(config.features, config.features)))
    along = x @ beta
    labels = [along, along**2, along**4, np.cos(along) - 1, rng.choice([-1.0, 1.0], config.samples)]
    sizes = [config.samples // 4, config.samples // 2, config.samples]
    complexity = [[label_complexity(first_layer(x[:n]), y[:n]) for n in sizes] for y in labels]
    pair = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    on = rng.normal(size=(config.neurons, 2)) @ pair.T > 0
    return xr.Dataset(
        {
            "x": (("sample", "feature"), x),
            "few": (("one", "feature"), few),
            "beta": ("feature", beta),
            "complexity": (("teacher", "size"), np.array(complexity)),
            "rho": pair[0] @ pair[1],
            "both": ("neuron", on.all(1)),
        },
        coords={"teacher": list(TEACHERS), "size": sizes},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rho, terms, exact = float(data.rho), config.terms, "exact"
    gate = (np.pi - np.arccos(rho)) / (2 * np.pi)
    yield claim("1", "exercise 1: how often a neuron is on for both of two inputs").equal(
        gate, estimate(data.both.astype(float)), 0, "exact: the angle between them"
    )
    z, cut = np.linspace(-0.9, 0.9, 37), "its first term left out, and rounding"
    left = np.abs(np.pi / 2 - np.arccos(z) - series(z, terms)).max()
    yield claim("3a-series", "exercise 3(a): series of the arc cosine").zero(left, 1e-12 + 0.9 ** (2 * terms) * 10, cut)
    printed = r"\frac\pi2 - z - \sum_{\ell\ge1}\frac{(2\ell-3)!!}{(2\ell-2)!!}z"
    corrected = r"\frac\pi2 - \sum_{\ell\ge1}\frac{(2\ell-3)!!}{(2\ell-2)!!}\frac{z^{2\ell-1}}{2\ell-1}"
    wrong, right = np.pi / 2 - 0.5 - 0.5 * sum(ratios(terms)), np.pi / 2 - series(np.array(0.5), terms)
    found, room = float(np.arccos(0.5)), 1e-12 + 0.25**terms
    note = "the power and the divisor are lost, and the first term stands twice"
    yield claim("3a-half", "exercise 3(a): arc cosine of 1/2 by its series").erratum(
        (printed, wrong), (corrected, right), found, room, cut, note=note, where="exercise 3(a)"
    )
    kernel, gram = first_layer(data.x.values), data.x.values @ data.x.values.T
    off = ~np.eye(len(gram), dtype=bool)
    expanded = gram / 4 + gram * series(gram, terms) / (2 * np.pi)
    left, close = np.abs(kernel - expanded)[off].max(), np.abs(gram[off]).max()
    yield claim("3a-kernel", "exercise 3(a): the kernel off its diagonal by the series").zero(
        left, 1e-13 + close ** (2 * terms) / (1 - close**2), cut
    )
    printed = r"H^*_{ij} = \frac{\pi - \arccos x_i^\top x_j}{2\pi}"
    corrected = r"H^*_{ij} = x_i^\top x_j\,\frac{\pi - \arccos x_i^\top x_j}{2\pi}"
    both, why = estimate(rho * data.both.astype(float)), "exact: the sampling error alone"
    note = "the gradient in a neuron's weights is the input, so two gradients have the inputs' product as a factor"
    where = "equation (9.8) and exercise 3"
    yield claim("3-entry", "exercise 3: an entry of the kernel").erratum(
        (printed, gate), (corrected, rho * gate), both, 0, why, note=note, where=where
    )
    yield claim("3c", "exercise 3(c): trace over the samples").equal(0.5, np.trace(kernel) / len(kernel), 1e-12, exact)
    few = data.few.values
    least = np.linalg.eigvalsh(first_layer(few) - few @ few.T / 4).min()
    yield claim("3b", "exercise 3(b): least eigenvalue of the kernel minus a quarter of the Gram matrix").at_least(
        0.0, least, "the other terms are positive"
    )
    for size in data["size"].values:
        found = data.complexity.sel(teacher="linear", size=size) * np.sqrt(size)
        yield claim(
            f"3d-{size}", rf"exercise 3(d): complexity of linear labels on {size} inputs, times $\sqrt{{{size}}}$"
        ).at_most(2 * np.sqrt(2), found, r"the length of $\beta$ is 1")
    largest = data["size"].values[-1]
    # A power of even degree p is a term of the kernel's series, and the kernel is no less than its term.
    each = [1 / np.sqrt(ratio / (2 * order - 1) / (2 * np.pi)) for order, ratio in enumerate(ratios(10), start=1)]
    bounds = {"square": each[0], "fourth power": each[1]}
    bounds["cosine"] = sum(term / math.factorial(2 * order) for order, term in enumerate(each, start=1))
    for teacher, bound in bounds.items():
        found = data.complexity.sel(teacher=teacher, size=largest) * np.sqrt(largest)
        yield claim(f"9.3-{teacher}", rf"section 9.3: complexity of the {teacher}, times $\sqrt n$").at_most(
            bound, found, "the kernel's own term of that degree"
        )
    found, why = data.complexity.sel(teacher="random labels", size=largest), "a bound of 1 on an error is empty"
    yield claim("9.3-random", "section 9.3: complexity of random labels").at_least(
        1.0, found, f"{why}; its mean square is at least 2"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    rho = np.linspace(-1, 1, 201)
    exact = rho * (np.pi - np.arccos(rho)) / (2 * np.pi)
    left.plot(rho, exact, color="C0", label=r"$H^*$")
    left.plot(rho, rho / 4 + rho * series(rho, 3) / (2 * np.pi), "--", color="C1", label="three terms of its series")
    left.plot(rho, (np.pi - np.arccos(rho)) / (2 * np.pi), ":", color="C3", label="as printed")
    sheet.label(left, "The kernel of a first layer", r"$x_i^\top x_j$", "entry", "best")
    for teacher in TEACHERS:
        right.loglog(data["size"], data.complexity.sel(teacher=teacher), "o-", label=teacher)
    sheet.guide(right, data["size"].values, 2 * np.sqrt(2 / data["size"].values), r"$2\sqrt{2/n}$")
    legend = {"fontsize": "small", "ncols": 2, "loc": "upper left"}
    sheet.label(right, "How hard labels are", "samples", "complexity", legend, ylim=(None, 20))
