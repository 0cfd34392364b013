"""Section 9.6: exercises on the tangent kernel of a first layer of ReLU, and which labels it learns easily."""

import math

import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.polynomial import polynomial

from secant.kernels import dual, label_complexity
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, scaled, sheet, study

TEACHERS = ("linear", "square", "fourth power", "cosine", "random labels")


class Config(Seeded):
    samples: int = options.samples(100, 400, at_least=20, at_most=10**4)
    features: int = option(10, at_least=2, at_most=10**4, help="their dimension")
    terms: int = option(150, at_least=10, at_most=1_000, help="of the series of the arc cosine")
    neurons: int = scaled(smoke=50_000, laptop=1_000_000, at_least=1_000, at_most=10**8, help="random neurons")

    def check(self) -> None:
        """Kernels that a machine holds."""
        fits_memory(80.0 * self.samples**2 + 32.0 * self.neurons, "samples or neurons")


def first_layer(x: np.ndarray) -> np.ndarray:
    r"""$H^*_{ij} = x_i^\top x_j\,\mathbb E\,\sigma'(w^\top x_i)\sigma'(w^\top x_j)$ for unit rows."""
    rho = np.clip(x @ x.T, -1, 1)
    np.fill_diagonal(rho, 1.0)
    return rho * np.asarray(dual("relu", 1.0, 1.0, jnp.asarray(rho)).slope)


def series(z: np.ndarray, terms: int, first: int = 1) -> np.ndarray:
    r"""$\sum_\ell \frac{(2\ell-3)!!}{(2\ell-2)!!} \frac{z^{2\ell-1}}{2\ell-1}$, which is $\pi/2 - \arccos z$."""
    coefficients, ratio = np.zeros(2 * terms), 1.0
    for order in range(1, terms + 1):
        ratio *= 1 if order == 1 else (2 * order - 3) / (2 * order - 2)
        coefficients[2 * order - 1] = ratio / (2 * order - 1) if order >= first else 0.0
    return polynomial.polyval(z, coefficients)


@study("book/sec-9.6", section="9.6", title="What the kernel of a first layer learns easily")
def run(config: Config) -> xr.Dataset:
    r"""For a layer of ReLU in front of fixed signs the kernel of two unit inputs at an angle $\alpha$ is
    $H^* = \cos\alpha\,(\pi - \alpha)/(2\pi)$. It is $K/4$ plus positive terms, $K$ the Gram matrix, by the series of
    the arc cosine, so that
    $(H^*)^{-1} \preceq 4K^{-1}$, and labels $y_i = \beta^\top x_i$ have the complexity
    $\sqrt{2\,y^\top (H^*)^{-1} y\,\operatorname{tr} H^*}/n \le 2\sqrt2\,\|\beta\|/\sqrt n$; powers and cosines are as
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
    rho = float(data.rho)
    gate = (np.pi - np.arccos(rho)) / (2 * np.pi)
    yield claim("exercise-1-how", "exercise 1: how often a neuron is on for both of two inputs").equal(
        gate, estimate(data.both.astype(float)), 0, "exact: the angle between them"
    )
    z = np.linspace(-0.9, 0.9, 37)
    yield claim("exercise-3-series", "exercise 3(a): series of the arc cosine").zero(
        np.abs(np.pi / 2 - np.arccos(z) - series(z, config.terms)).max(),
        1e-12 + 0.9 ** (2 * config.terms) * 10,
        "its first term left out, and rounding",
    )
    yield claim("exercise-3-arc", "exercise 3(a): arc cosine of 1/2 by its series").erratum(
        (
            r"\frac\pi2 - z - \sum_{\ell\ge1}\frac{(2\ell-3)!!}{(2\ell-2)!!}z",
            np.pi / 2 - 0.5 - 0.5 * sum(ratios(config.terms)),
        ),
        (
            r"\frac\pi2 - \sum_{\ell\ge1}\frac{(2\ell-3)!!}{(2\ell-2)!!}\frac{z^{2\ell-1}}{2\ell-1}",
            np.pi / 2 - series(np.array(0.5), config.terms),
        ),
        float(np.arccos(0.5)),
        1e-12 + 0.25**config.terms,
        "its first term left out, and rounding",
        note="the power and the divisor are lost, and the first term stands twice",
        where="exercise 3(a)",
    )
    kernel, gram = first_layer(data.x.values), data.x.values @ data.x.values.T
    off = ~np.eye(len(gram), dtype=bool)
    expanded = gram / 4 + gram * series(gram, config.terms) / (2 * np.pi)
    close = np.abs(gram[off]).max()
    yield claim("exercise-3-kernel", "exercise 3(a): the kernel off its diagonal by the series").zero(
        np.abs(kernel - expanded)[off].max(),
        1e-13 + close ** (2 * config.terms) / (1 - close**2),
        "its first term left out, and rounding",
    )
    yield claim("exercise-3-entry", "exercise 3: an entry of the kernel").erratum(
        (r"H^*_{ij} = \frac{\pi - \arccos x_i^\top x_j}{2\pi}", gate),
        (r"H^*_{ij} = x_i^\top x_j\,\frac{\pi - \arccos x_i^\top x_j}{2\pi}", rho * gate),
        estimate(rho * data.both.astype(float)),
        0,
        "exact: the sampling error alone",
        note="the gradient in a neuron's weights is the input, so that two of them have its product as a factor",
        where="equation (9.8) and exercise 3",
    )
    yield claim("exercise-3-c", "exercise 3(c): trace over the samples").equal(
        0.5, np.trace(kernel) / len(kernel), 1e-12, "exact"
    )
    few = data.few.values
    inner = few @ few.T
    least = np.linalg.eigvalsh(first_layer(few) - inner / 4).min()
    yield claim(
        "exercise-3-b", "exercise 3(b): least eigenvalue of the kernel minus a quarter of the Gram matrix"
    ).at_least(0.0, least, "the other terms are positive")
    for size in data["size"].values:
        yield claim(
            f"exercise-3-d-{size}",
            f"exercise 3(d): complexity of linear labels on {size} inputs, times the root of their number",
        ).at_most(
            2 * np.sqrt(2), data.complexity.sel(teacher="linear", size=size) * np.sqrt(size), "the length of beta is 1"
        )
    largest = data["size"].values[-1]
    # A power of even degree p is a term of the kernel's series, and the kernel is no less than its term.
    each = [1 / np.sqrt(ratio / (2 * order - 1) / (2 * np.pi)) for order, ratio in enumerate(ratios(10), start=1)]
    bounds = {"square": each[0], "fourth power": each[1]}
    bounds["cosine"] = sum(term / math.factorial(2 * order) for order, term in enumerate(each, start=1))
    for teacher, bound in bounds.items():
        yield claim(
            f"section-9.3-complexity-{teacher}",
            f"section 9.3: complexity of the {teacher}, times the root of the number",
        ).at_most(
            bound,
            data.complexity.sel(teacher=teacher, size=largest) * np.sqrt(largest),
            "the kernel's own term of that degree",
        )
    yield claim("section-9.3-complexity", "section 9.3: complexity of random labels").at_least(
        1.0,
        data.complexity.sel(teacher="random labels", size=largest),
        "a bound of 1 on an error says nothing; its mean square is at least 2",
    )


def ratios(terms: int) -> list[float]:
    """Double factorials over double factorials, from the first term."""
    found = [1.0]
    for order in range(2, terms + 1):
        found.append(found[-1] * (2 * order - 3) / (2 * order - 2))
    return found


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    rho = np.linspace(-1, 1, 201)
    exact = rho * (np.pi - np.arccos(rho)) / (2 * np.pi)
    left.plot(rho, exact, color="C0", label=r"$H^*$")
    left.plot(rho, rho / 4 + rho * series(rho, 3) / (2 * np.pi), "--", color="C1", label="three terms of its series")
    left.plot(rho, (np.pi - np.arccos(rho)) / (2 * np.pi), ":", color="C3", label="as printed")
    left.set(title="The kernel of a first layer", xlabel=r"$x_i^\top x_j$", ylabel="entry")
    left.legend()
    for teacher in TEACHERS:
        right.loglog(data["size"], data.complexity.sel(teacher=teacher), "o-", label=teacher)
    sheet.guide(right, data["size"].values, 2 * np.sqrt(2 / data["size"].values), r"$2\sqrt{2/n}$")
    right.set(title="How hard labels are", xlabel="samples", ylabel="complexity", ylim=(None, 20))
    right.legend(fontsize="small", ncols=2, loc="upper left")
