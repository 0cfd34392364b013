"""Theorem 8.4.5: homogeneous models end in a stationary point of the margin."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.optimize import nnls

from secant.dynamics import late_flow
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared import separable
from secant.theory.bias.margins import Margin, max_margin

DRAWS = 60
"""How often random data are drawn."""


class Config(Seeded):
    samples: int = options.samples(6, at_least=4, at_most=30)
    dim: int = options.dim(4, at_least=2, at_most=10)
    gap: float = option(0.5, at_least=0.2, at_most=5, help="distance of all samples from a plane that separates them")
    hidden: int = option(4, at_least=2, at_most=8, help="hidden neurons of the ReLU network, half of either sign")
    until: float = option(1e6, at_least=1e5, at_most=1e7, help="last logarithm of time")


def diagonal(params: dict[str, np.ndarray], x: np.ndarray) -> jnp.ndarray:
    """A product of weights a feature."""
    return x @ (params["u"] * params["v"])


def relu(params: dict[str, np.ndarray], x: np.ndarray) -> jnp.ndarray:
    """One hidden layer without biases."""
    return jnp.maximum(x @ params["w"], 0) @ params["a"]


def clear(random: np.random.Generator, config: Config) -> tuple[np.ndarray, Margin]:
    """The random data whose l1 margin shows most clearly which features and samples it uses.

    On other data the end would come too late to be seen: the weights of a feature at a share r of the largest pull
    vanish as (log t)^(r - 1), and a sample with a small multiplier joins late.
    """
    found: list[Any] = []
    for _ in range(DRAWS):
        z = separable.draw(random, config.samples, config.dim, config.gap).z
        best = max_margin(z, 1)
        pull = np.abs(best.multipliers @ z)
        unused = pull[np.abs(best.w) < 1e-9 * np.abs(best.w).max()] / pull.max()
        carried = best.multipliers[best.support] / best.multipliers.mean() * len(best.support) / len(z)
        found.append((max(unused.max(initial=0.0), 1 - carried.min()), len(found), z, best))
    return min(found)[2:]


def no_kinks(random: np.random.Generator, config: Config, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Samples z = y x at acute angles, and neurons that each see the samples of one sign, for ever.

    A neuron moves in the cone of the samples that it sees. So it never meets a kink, where the theorem, which is about
    smooth functions, makes no claim.
    """
    u = random.normal(size=config.dim)
    u /= np.linalg.norm(u)
    z = random.normal(size=(config.samples, config.dim))
    z = z / np.linalg.norm(z, axis=1)[:, None] + 1.5 * u
    mix = random.dirichlet(np.ones(config.samples), size=config.hidden)
    return z, (signs[:, None] * (mix @ z)).T


def gradients(u: np.ndarray, v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Gradients of the outputs of the diagonal network, one row a sample."""
    return np.concatenate([x * v, x * u], axis=1)


@study("book/thm-8.4.5", section="8.4", title="Homogeneous models end in a stationary point of the margin")
def run(config: Config) -> xr.Dataset:
    r"""Let $f_i$ be homogeneous of degree $\alpha$ and $L = \sum_ie^{-y_if_i(w)}$. Suppose that gradient flow brings
    the loss to zero, that the directions of $w_t$ and of the losses have limits, and that the gradients of the support
    are independent there. Then the limit of $w_t/\|w_t\|$ is a first-order stationary point of $\min\|w\|^2$ with
    $y_if_i(w) \ge \gamma$: $w = \sum_n\lambda_ny_n\nabla f_n(w)$ with $\lambda_n \ge 0$, zero off the support. For
    $f = \langle u\odot v, x\rangle$ the margin is half of the largest $\ell_1$ margin of $u\odot v$.
    """
    random = np.random.default_rng(config.seed)
    z, best = clear(random, config)
    # Labels are free, x = y z; the sample that carries most of the margin has -1.
    y = random.choice([-1.0, 1.0], size=config.samples)
    y[np.argmax(best.multipliers)] = -1.0
    x = z * y[:, None]
    # No feature has a sign yet, and none has to change it.
    start = {"u": random.uniform(0.5, 1.5, size=config.dim), "v": np.zeros(config.dim)}
    signs = np.where(np.arange(config.hidden) % 2, -1.0, 1.0)
    acute, w = no_kinks(random, config, signs)
    times = np.geomspace(10, config.until, 40)
    first = late_flow(diagonal, start, x, y, config.until, samples=times, rtol=1e-5)
    second = late_flow(relu, {"a": signs, "w": w}, acute * y[:, None], y, config.until, samples=times, rtol=1e-5)
    runs = first.dataset, second.dataset
    u, v = first.params["u"], first.params["v"]
    gradient = gradients(u, v, x)
    pull = np.exp(first.dataset.margins.values[-1].min() - first.dataset.margins.values[-1])
    unit = np.concatenate([u, v]) / np.linalg.norm(np.concatenate([u, v]))
    cosines = []
    on = gradient[best.support]  # the nearest sum of their gradients with multipliers that are not negative
    for rows in (on, on * y[best.support, None]):
        near = rows.T @ nnls(rows.T, unit)[0]
        cosines.append(near @ unit / max(np.linalg.norm(near), 1e-300))
    return xr.Dataset(
        {
            "margin": (("model", "log_time"), np.stack([run.margin.values for run in runs])),
            "smooth": (("model", "log_time"), np.stack([-run.log_loss / run.norm**2 for run in runs])),
            "kkt": (("model", "log_time"), np.stack([run.kkt.values for run in runs])),
            "degree": ("model", [first.degree, second.degree]),
            "largest": best.margin,
            "beta": ("feature", u * v / np.abs(u * v).sum()),
            "best": ("feature", best.w / np.abs(best.w).sum()),
            "reached": (z @ (u * v)).min() / np.abs(u * v).sum(),
            "cosine": ("signs", cosines),
            "pull": ("sample", pull / pull.sum()),
            "force": ((pull / pull.sum() * y) @ gradient @ unit),
            "plain": np.linalg.norm((pull / pull.sum() * y) @ gradient),
            "bare": np.linalg.norm((y * (pull > 1e-6 * pull.max())) @ gradient),
        },
        coords={"model": ["diagonal", "ReLU"], "log_time": times},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in data.model.values:
        degree, words = data.degree.sel(model=name), f"{name} network: degree by Euler's identity"
        yield claim(f"degree-{name}", words).equal(2.0, degree, 1e-10, "rounding")
    for name, least in (("diagonal", 0.9999), ("ReLU", 0.999)):
        yield claim(f"cosine-{name}", f"{name} network: cosine of the weights with the force on them").at_least(
            least, 1 - data.kkt.sel(model=name)[-1], r"it goes to 1 as $1/\log t$"
        )
    margin = data.margin.sel(model="diagonal")[-1] / (float(data.largest) / 2)
    yield claim("margin", r"diagonal network: margin over half of the largest in $\ell_1$").equal(
        1.0, margin, 0.005, r"what is left at the last time, as powers of $1/\log t$"
    )
    name = "diagonal network: margin over half of the largest, as a bound"
    yield claim("margin-bound", name).at_most(1.0, margin, "no margin is larger", slack=1e-9)
    yield claim("margin-uv", r"margin of $u\odot v$ in $\ell_1$ over the largest").equal(
        1.0, data.reached / data.largest, 0.005, "what is left at the last time"
    )
    for name in data.model.values:
        later = data.smooth.sel(model=name).values
        yield claim(
            f"growth-{name}", rf"{name} network: least growth of $\log(1/L)/|w|^2$ between two times, relative"
        ).at_least(0.0, np.diff(later).min() / later[-1], "it grows once the loss is small", slack=1e-5)
    without, with_labels = data.cosine.values
    printed, corrected = r"w = \sum_n\lambda_n\nabla f_n(w)", r"w = \sum_n\lambda_ny_n\nabla f_n(w)"
    note, where = "the label of each sample is missing", "definition 8.4.1"
    yield claim("labels", "largest cosine of the weights with a sum of gradients with positive multipliers").erratum(
        (printed, without), (corrected, 1.0), with_labels, 1e-3, "what is left at the last time", where=where, note=note
    )
    found, why = float(data.force / data.plain), "the cosine of both directions"
    printed = r"\|\sum_{i\in S}a_i\nabla f_i(g_t\bar w)\|"
    note = "a unit vector is set equal to a sum that grows with the weights: the two are only proportional"
    yield claim("velocity", "length of the normalised velocity").erratum(
        (printed, float(data.plain)), (r"1", 1.0), found, 1e-3, why, where="(8.39)", note=note
    )
    printed = r"\|\sum_{i\in S}\nabla f_i(g_t\bar w)\|"
    note = "again the two are only proportional, and the weights $a_i$ of the losses are missing"
    yield claim("direction", "length of the limit direction").erratum(
        (printed, float(data.bare)), (r"1", 1.0), found, 1e-3, why, where="(8.40)", note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    missing = 1 - data.margin.sel(model="diagonal") / (float(data.largest) / 2)
    left.loglog(data.log_time, missing, "o-", ms=3, color="C0", label="diagonal")
    sheet.guide(left, data.log_time, float(missing[-1]) * config.until / data.log_time, r"$1/\log t$")
    share = r"$1 - 2\,$margin$/\gamma_1$"
    sheet.label(left, r"What is missing of half the $\ell_1$ margin", r"$\log t$", share, "lower left")
    for i, name in enumerate(data.model.values):
        middle.loglog(data.log_time, data.kkt.sel(model=name), "o-", ms=3, color=f"C{i}", label=name)
    sheet.label(middle, "To a stationary point", r"$\log t$", r"$1 - \cos(w, -\nabla L)$", "lower left")
    places = np.arange(1, config.dim + 1)
    right.bar(places, data.beta, 0.6, color="C0", label=r"$u\odot v$, flow")
    right.plot(places, data.best, "_", ms=22, mew=2, color=sheet.ink(), label=r"largest $\ell_1$ margin")
    right.axhline(0, color=sheet.ink(), lw=0.8)
    sheet.label(right, "The weights of the features", "feature", "share of the sum", "best", xticks=places)
