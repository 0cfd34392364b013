"""Lecture of 10/10: a positive kernel makes the loss fall exponentially, and random features have positive kernels."""

import math

import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy import stats

from secant.kernels import dual
from secant.lab import Figure, Findings, Seeded, claim, fits_memory, options, sheet, study
from secant.studies.shared.numerics.exponents import exponent
from secant.studies.shared.numerics.orbits import orbit
from secant.theory.wide.concentration import bernstein_tail
from secant.theory.wide.hermite import dual_series, hermite_coefficients

WHERE = "lecture of 10/10"

TERMS = 60
"""Terms of Hermite series."""

RHO = np.array([-0.9, -0.5, 0.0, 0.5, 0.9])


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (100, 400, 1600),
        (100, 400, 1600, 6400, 25_600),
        at_least=50,
        at_most=10**6,
        shortest=2,
        longest=8,
        ascending=True,
    )
    samples: int = options.samples(8, at_least=2, at_most=12)
    features: int = options.features(4, at_least=3, at_most=10)
    steps: int = options.steps(400, at_least=10, at_most=10**5)
    draws: int = options.draws(20, 100, at_least=3, at_most=10**4)

    def check(self) -> None:
        """Refuses networks that do not fit the memory."""
        fits_memory(40.0 * max(self.widths) * (self.samples + self.features), "widths")


def relu(z: np.ndarray) -> np.ndarray:
    return np.maximum(z, 0)


def least(kernel: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(kernel)[0])


def of(activation: str, x: np.ndarray) -> np.ndarray:
    """The mean kernel of the readout for unit rows."""
    return np.asarray(dual(activation, 1.0, 1.0, jnp.asarray(np.clip(x @ x.T, -1, 1))).value)


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    found = rng.normal(size=shape)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def gradients(w: np.ndarray, a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """All derivatives of the outputs by readout and hidden weights, from steps along the imaginary axis."""
    theta, n = np.concatenate([a, w.ravel()]), len(a)
    shifted = theta + 1e-30j * np.eye(len(theta))
    hidden = np.tanh(shifted[:, n:].reshape(-1, *w.shape) @ x.T)
    return np.einsum("pk,pka->ap", shifted[:, :n], hidden).imag / 1e-30 / math.sqrt(n)


@study("lectures/10-10-positivity", section="10-10", title="Positive kernels, and why the loss falls")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent moves outputs by $z(t+1) - y = (1 - \eta K)(z(t) - y)$. With $\lambda_{\min}(K) \ge \lambda_0$
    and $\eta < 1/\lambda_{\max}$ the loss is therefore at most $e^{-2\eta\lambda_0t}$ of its start. The kernel of a
    two-layer network $z = n^{-1/2}\sum_k a_k\sigma(w_k\cdot x)$ is at least the kernel of its readout, which is within
    order $n^{-1/2}$ of its mean.

    Let $c_k$ be the Hermite coefficients of $\sigma$ and $\rho$ the product of two inputs of length 1. The mean is
    $\sum_k c_k^2\rho^k$. It is positive if no two inputs are equal or opposite and infinitely many even and infinitely
    many odd $c_k$ are not zero. It is singular for polynomials and many inputs.
    """
    rng, d = np.random.default_rng(config.seed), config.features
    x, y = unit(rng, config.samples, d), rng.choice([-1.0, 1.0], config.samples)
    more = of("tanh", np.concatenate([x, x[:1], -x[:1]]))  # an input twice, and opposite to itself
    mean, opposite = more[:-2, :-2], np.delete(more, -2, 0)[:, [*range(config.samples), -1]]
    duals = [np.asarray(dual(name, 1.0, 1.0, np.append(RHO, 1.0)).value) for name in ("tanh", "relu")]
    error = np.empty((len(config.widths), config.draws))
    for i, n in enumerate(config.widths):
        for j in range(config.draws):
            h = np.tanh(rng.normal(size=(n, d)) @ x.T)
            error[i, j] = np.abs(np.linalg.eigvalsh(h.T @ h / n - mean)).max()
    w, a = rng.normal(size=(50, d)), rng.normal(size=50)
    jacobian = gradients(w, a, x)
    kernel = jacobian @ jacobian.T
    values, vectors = np.linalg.eigh(kernel)
    rate = 0.9 / values[-1]
    # The linearised network, in its weights, from outputs of zero: for the labels, and for the slowest direction.
    targets = np.stack([y, vectors[:, 0]], 1)
    descent = lambda theta: theta - rate * jacobian.T @ (jacobian @ theta - targets)  # noqa: E731
    path = orbit(descent, np.zeros((jacobian.shape[1], 2)), config.steps)
    t, s = np.tanh(w @ x.T), x @ x.T
    slopes = [(weight[:, None] * (1 - t**2)).T @ (1 - t**2) * s / len(a) for weight in (a**2, (w**2).sum(1))]
    series = [hermite_coefficients(*of_terms) for of_terms in ((np.tanh, TERMS), (relu, TERMS), (np.tanh, TERMS, 1.0))]
    poly, square = unit(rng, math.comb(d + 2, 2) + 1, d), hermite_coefficients(lambda z: 1 + z + z**2, 3)
    angles = np.pi * np.arange(3) / 3 + rng.uniform(0, np.pi)
    star = np.stack([np.cos(angles), np.sin(angles)], 1)
    return xr.Dataset(
        {
            "series": (("name", "order"), np.stack(series)),
            "dual": (("activation", "rho"), np.stack(duals)[:, :-1]),
            "power": ("activation", np.stack(duals)[:, -1]),
            "loss": (("step", "target"), np.stack([((jacobian @ one - targets) ** 2).sum(0) / 2 for one in path])),
            "error": (("width", "draw"), error),
            "rate": rate,
            "smallest": values[0],
            "trace": np.trace(kernel),
            "parts": ("formula", [np.trace(t.T @ t) / len(a) + np.trace(part) for part in slopes]),
            "mean": (("a", "b"), mean),
            "twice": least(more[:-1, :-1]),
            "opposite": least(opposite),
            "rank": int(np.linalg.matrix_rank(of("relu", np.concatenate([star, -star])), tol=1e-10)),
            "polynomial": (("p", "q"), sum((poly @ poly.T) ** k * c**2 for k, c in enumerate(square))),
        },
        coords={"name": ["tanh", "relu", "printed"], "rho": RHO, "width": list(config.widths), "target": ["y", "slow"]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield from hermite(data)
    yield from descent(data)
    note = "The readout's weight multiplies the derivative by a hidden weight."
    kernel = r"\frac1n\sum_k \sigma\sigma + (w_k^{(%d)})^2\,\sigma'\sigma'\,x_a\cdot x_b"
    printed, right = (kernel % 1, data.parts[1]), (kernel % 2, data.parts[0])
    yield claim("kernel-trace", "trace of a random network's kernel").erratum(
        printed, right, data.trace, 0, "rounding", relative=1e-10, where=f"{WHERE}, the kernel of two layers", note=note
    )
    yield claim("readout-kernel", "readout kernel less its mean: exponent of the width").equal(
        -0.5, exponent(data.error), 1 / config.widths[0], "the next order, at the least width"
    )
    yield from positivity(data, config)
    yield from bernstein()


def hermite(data: xr.Dataset) -> Findings:
    """Hermite coefficients, and the kernels that they make."""
    series = {str(name): data.series.sel(name=name).values for name in data.name.values}
    summed = {name: dual_series(c, RHO) for name, c in series.items()}
    for i, name in enumerate(("tanh", "relu")):
        rest = np.abs(RHO).max() ** TERMS * abs(float(data.power[i]) - (series[name] ** 2).sum())
        what = "mean kernel by its Hermite coefficients against the mean over two Gaussians"
        yield claim(f"{name}-series", f"{name}: {what}").zero(
            np.abs(summed[name] - data.dual[i]).max(), 1e-10 + rest, "quadrature, and coefficients left out"
        )
    half, ramp = float(data.dual[0].sel(rho=0.5)), series["relu"]
    name = "tanh: mean kernel of inputs at 60 degrees, by coefficients under a weight"
    printed, right = (r"e^{-z^2}", summed["printed"][3]), (r"e^{-z^2/2}", summed["tanh"][3])
    note = "Under the printed weight the polynomials that follow are not orthogonal."
    yield claim("weight", name).erratum(printed, right, half, 1e-9, "quadrature", note=note, where=WHERE)
    for k, exact in enumerate((1 / math.sqrt(2 * math.pi), 0.5, 1 / math.sqrt(4 * math.pi))):
        yield claim(f"relu-coefficient-{k}", f"ReLU: Hermite coefficient {k}").equal(exact, ramp[k], 1e-12, "rounding")
    found = int((np.abs(ramp[:13]) < 1e-12).sum())
    note = "A function that is no polynomial has infinitely many coefficients that are not zero, but may lack some."
    yield claim("relu-vanishing", "ReLU: Hermite coefficients of order 0 to 12 that vanish").erratum(
        ("0", 0.0), ("5: 3, 5, 7, 9, 11", 5.0), found, 0, "a count", where=f"{WHERE}, positivity", note=note
    )


def descent(data: xr.Dataset) -> Findings:
    """The loss of the linearised network."""
    least_, rate = float(data.smallest), float(data.rate)
    bound = np.exp(-2 * rate * least_ * data.step)
    for name, words in (("y", "random signs"), ("slow", "the kernel's last eigenvector")):
        share = data.loss.sel(target=name) / data.loss.sel(target=name)[0]
        ratio = (share / bound).where(share > 1e-20)[1:]  # below are the squares of roundings
        yield claim(f"loss-bound-{name}", f"linearised network, targets {words}: largest loss over its bound").at_most(
            1.0, ratio.max(), "an inequality, up to rounding", slack=1e-12
        )
    slow = data.loss.sel(target="slow")
    name = "linearised network, targets the kernel's last eigenvector: decay of the loss over the bound's"
    yield claim("slow-decay", name).equal(
        1.0,
        -np.log(slow[10] / slow[0]) / (20 * rate * least_),
        rate * least_ + 1e-14 / (rate * least_),
        "the next order in a step, and rounding",
    )


def positivity(data: xr.Dataset, config: Config) -> Findings:
    """Which inputs and activations make the mean kernel singular."""
    ratio = least(data["mean"].values) / float(np.trace(data["mean"]))
    yield claim("general-position", "tanh, inputs in general position: least eigenvalue over the trace").at_least(
        1e-13 * config.samples, ratio, "more than rounding"
    )
    yield claim("input-twice", "tanh, an input twice: least eigenvalue").zero(data.twice, 1e-12, "rounding")
    name = "tanh, an input and its opposite: least eigenvalue"
    yield claim("input-opposite", name).zero(data.opposite, 1e-12, "rounding")
    note = "Only one odd coefficient is not zero. It gives two features for three pairs."
    yield claim("relu-rank", "ReLU: rank on six inputs, three and their opposites, in the plane").erratum(
        ("6", 6), ("5", 5), data["rank"], 0, "a count", where=f"{WHERE}, positivity", note=note
    )
    d, found = config.features, int(np.linalg.matrix_rank(data.polynomial.values, tol=1e-10))
    name = f"$1 + z + z^2$ on {len(data.p)} inputs: rank of the kernel, which is singular"
    yield claim("polynomial-rank", name).count(d + d * (d + 1) // 2, found, "polynomials of degree 2 on the sphere")


def bernstein(n: int = 100, t: float = 3.0) -> Findings:
    """Diagonal matrices of independent signs over sqrt n: variance 1, each at most 1/sqrt n, tails by coins."""
    one, size = 2 * stats.binom.sf(math.floor((n + t * math.sqrt(n)) / 2), n, 0.5), 64
    rest, seen = 1 + t / math.sqrt(n) / 3, -math.expm1(size * math.log1p(-one))
    name = f"chance that a sum of matrices of {size} rows exceeds {t:g} standard deviations"
    printed = r"e^{-t^2/(U + Lt/3)}", math.exp(-(t**2) / rest)
    right = r"2m\,e^{-\frac12t^2/(U + Lt/3)}", float(bernstein_tail(t, 1.0, 1 / math.sqrt(n), size))
    note = "The print lacks a half in the exponent, and the number of eigenvalues as a factor."
    where = f"{WHERE}, Bernstein's inequality"
    yield claim("bernstein", name).erratum(
        printed, right, seen, 0, "exact", note=note, where=where, relation="at most", by="derivation"
    )
    for key, rows, print_, lacks, ratio in (
        ("one-row", "a single row", "2e^{-t^2/(U + Lt/3)}", "the half", one / (2 * math.exp(-(t**2) / rest))),
        ("rows", f"{size} rows", r"e^{-\frac12t^2/(U + Lt/3)}", "$2m$", seen / math.exp(-(t**2) / 2 / rest)),
    ):
        name = f"the same chance for {rows}, over ${print_}$: no bound without {lacks}"
        yield claim(f"bernstein-{key}", name).at_least(1.0, ratio, "exact")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    for i, name in enumerate(("tanh", "relu")):
        size = data.series.sel(name=name).values[:16] ** 2
        kept = size > 1e-20
        left.semilogy(np.arange(16)[kept], size[kept], "os"[i], color=f"C{i}", label=("tanh", "ReLU")[i])
    sheet.label(left, "Squared Hermite coefficients", "order", "$c_k^2$, if not zero", "best")
    for i, (name, words) in enumerate((("y", "random signs"), ("slow", "last eigenvector"))):
        one = data.loss.sel(target=name)
        middle.semilogy(data.step, one / one[0], color=f"C{i}", label=words)
    bound = np.exp(-2 * float(data.rate * data.smallest) * data.step)
    sheet.guide(middle, data.step, bound, r"$e^{-2\eta\lambda_0t}$")
    sheet.label(middle, "Loss of a linearised network", "step", "over its start", "best")
    sheet.spread(right, data.error, "draw", "tanh", fmt="o")
    widths, norm = data.width.values.astype(float), "operator norm"
    sheet.guide(right, widths, float(data.error.mean("draw")[0]) * (widths / widths[0]) ** -0.5, "$n^{-1/2}$")
    sheet.label(right, "Readout kernel less its mean", "width", norm, "best", xscale="log", yscale="log")
    sheet.ticks(right, config.widths)
