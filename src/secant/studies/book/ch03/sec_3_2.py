"""Section 3.2: kernel least squares, and features of kernels on the sphere."""

import functools
import math

import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.polynomial import polynomial

from secant.kernels import training
from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.studies.shared.numerics.differences import largest, relative
from secant.studies.shared.numerics.orbits import orbit

KERNELS = {
    "polynomial": lambda s: (1 + s) ** 2,
    "Gaussian": lambda s: np.exp(2 * s - 2),
    "Laplace": lambda s: np.exp(-np.sqrt(np.maximum(2 - 2 * s, 0))),
}
"""Kernels of two unit vectors, by the product of the vectors."""


class Config(Seeded):
    samples: int = options.samples(12, at_least=2, at_most=200)
    features: int = options.features(5, at_least=2, at_most=50)
    degree: int = option(4, at_least=1, at_most=8, help="degree of the polynomial kernel on the sphere")
    steps: int = options.steps(300, at_least=10, at_most=10**5)
    terms: int = scaled(smoke=400, laptop=2_000, at_least=20, at_most=5_000, help="terms of the series of kernels")

    def check(self) -> None:
        """Fewer samples than features, so that there is an interpolant to choose."""
        dimension = 1 + 2 * self.features + self.features * (self.features - 1) // 2
        if self.samples > dimension - 2:
            raise ValueError(
                f"samples: with {self.features} features the kernel has rank {dimension}; give at most "
                f"{dimension - 2} samples, got {self.samples}."
            )


def square_features(x: np.ndarray) -> np.ndarray:
    r"""$(1, \sqrt2 x_i, \sqrt2 x_ix_j, x_i^2)$, example 3.2.1."""
    i, j = np.triu_indices(x.shape[1], 1)
    return np.concatenate([np.ones((len(x), 1)), 2**0.5 * x, 2**0.5 * x[:, i] * x[:, j], x**2], 1)


def polynomial_series(degree: int, terms: int) -> np.ndarray:
    r"""Coefficients $\binom pk$ of $(1 + s)^p$."""
    return np.array([float(math.comb(degree, k)) for k in range(terms)])


def gaussian_series(terms: int) -> np.ndarray:
    r"""Coefficients $e^{-2}2^k/k!$ of $e^{-|x-y|^2} = e^{2s-2}$ in $s = x\cdot y$."""
    return np.exp(-2 + np.arange(terms) * math.log(2) - np.array([math.lgamma(k + 1) for k in range(terms)]))


def laplace_series(terms: int) -> np.ndarray:
    r"""Coefficients of $e^{-\sqrt{2 - 2s}}$: those $g_k$ of the root by a ratio, then $kf_k = \sum_j jg_jf_{k-j}$."""
    k = np.arange(1, terms)
    root = -math.sqrt(2) * np.concatenate([[1.0], np.cumprod((k - 1.5) / k)])
    found = np.zeros(terms)
    found[0] = math.exp(root[0])
    for order in range(1, terms):
        found[order] = (k[:order] * root[1 : order + 1]) @ found[order - 1 :: -1] / order
    return found


def powers(x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    r"""Features $\sqrt{c_k}\,x^{\otimes k}$ of all orders, one after the other."""
    tensors = [np.ones((len(x), 1))]
    for _ in coefficients[1:]:
        tensors.append((tensors[-1][:, :, None] * x[:, None, :]).reshape(len(x), -1))
    return np.concatenate([math.sqrt(c) * t for c, t in zip(coefficients, tensors, strict=True)], 1)


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    found = rng.normal(size=shape)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


@study("book/sec-3.2", section="3.2", title="Kernel least squares")
def run(config: Config) -> xr.Dataset:
    r"""With features $\phi$ and $K(x, y) = \phi(x)\cdot\phi(y)$, gradient descent from zero on
    $\frac12\sum_i(\phi(x_i)\cdot w - y_i)^2$ has outputs $u_t = (1 - (1 - \eta G)^t)\,y$ on the data, with their kernel
    $G$. Descent ends in $h(x) = \sum_i \alpha_iK(x, x_i)$ with $\alpha = G^{-1}y$. This function is the limit of ridge
    regression, and has the least norm of all that fit the data: $\|h\|^2 = y\cdot G^{-1}y$. The kernel
    $(1 + x\cdot y)^2$ has $1 + 2d + d(d-1)/2$ features. On the sphere $(1 + x\cdot y)^p$, $e^{-|x-y|^2}$ and
    $e^{-|x-y|}$ are power series of $x\cdot y$ with coefficients $c_k \ge 0$. A coefficient $c_k$ gives the features
    $\sqrt{c_k}\,x^{\otimes k}$.
    """
    rng = np.random.default_rng(config.seed)
    x, new = (rng.normal(size=(n, config.features)) / math.sqrt(config.features) for n in (config.samples, 6))
    y = rng.normal(size=config.samples)
    phi, phi_new = square_features(x), square_features(new)
    rate = 1 / np.linalg.eigvalsh(phi @ phi.T)[-1]
    ws = orbit(lambda w: w - rate * phi.T @ (phi @ w - y), np.zeros(phi.shape[1]), config.steps)
    flow = training((1 + x @ x.T) ** 2, y, step=float(rate))
    one, other = unit(rng, 40, 3), unit(rng, 40, 3)
    all_terms = lambda n: [polynomial_series(config.degree, n), gaussian_series(n), laplace_series(n)]  # noqa: E731
    tensors = [(powers(one, c) * powers(other, c)).sum(1) for c in all_terms(7)]
    return xr.Dataset(
        {
            "x": (("sample", "feature"), x),
            "new": (("test", "feature"), new),
            "y": ("sample", y),
            "rate": rate,
            "path": (("step", "sample"), np.stack([phi @ w for w in ws])),
            "elsewhere": (("step", "test"), np.stack([phi_new @ w for w in ws])),
            "flow": ("test", np.asarray(flow.test(config.steps, jnp.asarray((1 + new @ x.T) ** 2)))),
            "product": ("pair", (one * other).sum(1)),
            "distance": ("pair", np.linalg.norm(one - other, axis=1)),
            "series": (("kernel", "order"), np.stack(all_terms(config.terms))),
            "tensors": (("kernel", "pair"), np.stack(tensors)),
        },
        coords={"kernel": list(KERNELS)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    x, new, y, d = data.x.values, data.new.values, data.y.values, config.features
    phi, phi_new, gram, cross = square_features(x), square_features(new), (1 + x @ x.T) ** 2, (1 + new @ x.T) ** 2
    kernel, many = r"$(1 + x\cdot y)^2$", 1 + 2 * d + d * (d - 1) // 2
    yield claim("features", f"{kernel}: features").count(many, phi.shape[1], "example 3.2.1")
    yield claim("products", f"{kernel}: products of features less the kernel, over its largest").zero(
        relative(phi_new @ phi.T, cross), 1e-14, "rounding"
    )
    values, vectors = np.linalg.eigh(gram)
    rounding = 1e-14 * config.samples * values[-1] / values[0]
    least, alpha = np.linalg.pinv(phi) @ y, np.linalg.solve(gram, y)
    size, why = largest(phi_new @ least), "rounding, by the condition number"
    yield claim("regression", "kernel regression less the interpolant of least norm, on new inputs").zero(
        largest(phi_new @ least, cross @ alpha) / size, rounding, why
    )
    yield claim("norm", r"squared norm of the interpolant over $y\cdot G^{-1}y$").equal(
        1.0, least @ least / (y @ alpha), rounding, why
    )
    other, note = least + np.linalg.svd(phi)[2][-1], "a unit vector of weights is added that no sample sees"
    yield claim("least-norm", "another interpolant: its squared norm over the least plus one").equal(
        1.0, (other @ other) / (least @ least + 1), rounding, why, note=note
    )
    ridge = 1e-3 * values[0]
    off = np.linalg.solve(gram + ridge * np.eye(len(y)), y) - alpha
    sentence = r"ridge regression: distance from the interpolant over the ridge times $|G^{-1}\alpha|$"
    yield claim("ridge", sentence).equal(
        1.0,
        np.linalg.norm(off) / np.linalg.norm(ridge * np.linalg.solve(gram, alpha)),
        ridge / values[0] + rounding * 1e3,
        "the next order, at a ridge of a thousandth of the smallest eigenvalue",
    )
    rate, steps, why = float(data.rate), np.arange(config.steps + 1), "rounding of the steps"
    exact = ((1 - (1 - rate * values) ** steps[:, None]) * (vectors.T @ y)) @ vectors.T
    yield claim("descent", "gradient descent on the weights less $u_t$, all steps").zero(
        largest(data.path, exact) / largest(y), 1e-13 * config.steps, why
    )
    yield claim("descent-elsewhere", "gradient descent on new inputs less its closed form, last step").zero(
        largest(data.elsewhere[-1], data.flow) / size, 1e-13 * config.steps, why
    )
    rest = np.linalg.norm(data.path[-1] - y) / np.linalg.norm(y)
    yield claim("distance", "gradient descent: distance from the data after the last step, over the first").at_most(
        (1 - rate * values[0]) ** config.steps, rest, "the slowest eigenvector's, up to rounding", slack=1e-12
    )
    yield from on_the_sphere(data, config)


def on_the_sphere(data: xr.Dataset, config: Config) -> Findings:
    """Problem 3.2.2."""
    s = data["product"].values
    exact = {"Gaussian": np.exp(-(data.distance**2)), "Laplace": np.exp(-data.distance)}
    exact["polynomial"] = (1 + s) ** config.degree
    for name in data.kernel.values:
        series = data.series.sel(kernel=name).values
        # No coefficient is negative, and they sum to the kernel at 1: this bounds what can be missing.
        whole = 2.0**config.degree if name == "polynomial" else 1.0
        bound = lambda kept, c=series, k=whole: np.abs(s) ** kept * (k - c[:kept].sum())  # noqa: E731
        yield claim(f"signs-{name}", f"{name}: negative coefficients").count(
            0, int((series < 0).sum()), "problem 3.2.2"
        )
        beyond = ", largest distance from the kernel beyond the terms left out"
        for key, what, found, left in (
            ("series", f"series of {config.terms} terms", polynomial.polyval(s, series), np.abs(bound(config.terms))),
            ("features", "features of tensor powers up to the sixth", data.tensors.sel(kernel=name), bound(7)),
        ):
            miss = np.maximum(np.abs(found - exact[name]) - left, 0).max()
            yield claim(f"{key}-{name}", f"{name}: {what}{beyond}").zero(miss, 1e-13 * whole, "rounding")
    tail = (1 - data.series.sel(kernel="Laplace").sum()) * math.sqrt(config.terms)
    yield claim("laplace-tail", "Laplace: sum of the coefficients left out times the root of their place").equal(
        math.sqrt(2 / math.pi), tail, 1 / config.terms, "the next order: the kernel has a root at 1"
    )
    half = np.array([[1.0, 0.0], [0.5, math.sqrt(0.75)]])
    yield claim("laplace-kernel", "Laplace kernel of two unit vectors at 60 degrees").erratum(
        (r"\exp(\sqrt{1 - 2x_1\cdot x_2})", math.exp(math.sqrt(1 - 2 * 0.5))),
        (r"\exp(-\sqrt{2 - 2x_1\cdot x_2})", math.exp(-math.sqrt(2 - 2 * 0.5))),
        math.exp(-np.linalg.norm(half[0] - half[1])),
        1e-12,
        "rounding",
        where="problem 3.2.2",
        note=r"a sign is lost, and $|x - y|^2 = 2 - 2x\cdot y$ on the sphere",
        by="derivation",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    s = np.linspace(-1, 1, 201)
    for i, (name, terms) in enumerate((("Gaussian", (3, 7)), ("Laplace", (3, 30)))):
        left.plot(s, KERNELS[name](s), color=f"C{i}", label=name)
        for style, kept in zip((":", "--"), terms, strict=True):
            series = data.series.sel(kernel=name).values[:kept]
            left.plot(s, polynomial.polyval(s, series), style, color=f"C{i}", label=f"{kept} terms")
    sheet.label(left, "Kernels on the sphere", r"$x\cdot y$", None, "upper left", ylim=(-0.02, 1.02))
    gram, y = (1 + data.x.values @ data.x.values.T) ** 2, data.y.values
    values, vectors = np.linalg.eigh(gram)
    steps = np.unique(np.geomspace(1, config.steps, 40).astype(int))
    exact = (1 - float(data.rate) * values) ** steps[:, None] * (vectors.T @ y)
    error = np.linalg.norm(data.path - data.y, axis=1) / np.linalg.norm(y)
    middle.plot(steps, error[steps], "o", ms=4, label="in the weights")
    sheet.guide(middle, steps, np.linalg.norm(exact, axis=1) / np.linalg.norm(y), r"$|(1 - \eta G)^ty|$")
    sheet.label(middle, "Gradient descent", "step", "distance from the data", "best", xscale="log", yscale="log")
    # One fit on the circle, of each kernel.
    at, angle = 2 * np.pi * np.arange(7) / 7, np.linspace(0, 2 * np.pi, 301)
    target = np.array([1.0, -0.5, 0.3, 0.8, -1.0, -0.2, 0.4])
    for i, (name, function) in enumerate(list(KERNELS.items())[1:]):
        kernel = functools.partial(lambda f, a, b: f(np.cos(a[:, None] - b)), function)
        right.plot(angle, kernel(angle, at) @ np.linalg.solve(kernel(at, at), target), color=f"C{i}", label=name)
    right.plot(at, target, "o", color=sheet.ink(), label="data")
    sheet.label(right, "Least norm on the circle", "angle", None, "best")
