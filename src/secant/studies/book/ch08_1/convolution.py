"""Section 8.1.2: linear convolutional networks of depth 2 find the largest margin in the 1-norm of the spectrum."""

import numpy as np
import scipy  # its parts are loaded when they are used
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study
from secant.theory.bias.margins import max_margin


class Config(Seeded):
    samples: int = options.samples(6, at_least=2, at_most=12)
    features: int = options.features(8, at_least=3, at_most=32)
    draws: int = options.draws(20, 40, at_least=10, at_most=200)
    steps: int = options.steps(1_500, 50_000, at_least=1_000, at_most=10**6)
    spread: float = option(1.0, at_least=0.1, at_most=1.0, help="standard deviation of the weights at the start")

    def check(self) -> None:
        """Any labels separate."""
        if self.samples >= self.features:
            raise ValueError(f"samples: fewer than the {self.features} features, got {self.samples}.")


def spectral(w: np.ndarray) -> np.ndarray:
    """The 1-norm of the unitary Fourier transform."""
    return np.abs(np.fft.fft(w, norm="ortho")).sum(-1)


def largest(Z: np.ndarray) -> tuple[float, float]:
    r"""Bounds on the largest margin $\max_w\min_iz_i\cdot w/\|\hat w\|_1$.

    The largest margin is the least of $\|\sum_i\lambda_i\hat z_i\|_\infty$ over $\lambda \ge 0$ that sum to 1. Every
    modulus is the largest of its parts $\Re e^{i\phi}\hat z$. A linear program with the phases seen so far gives a
    bound from below, and its $\lambda$ give one from above.
    """
    n = len(Z)
    F = np.fft.rfft(Z, norm="ortho")
    weights, rows = np.full(n, 1 / n), []
    for _ in range(60):
        phases = np.exp(-1j * np.angle(weights @ F))
        rows.append(np.column_stack([(F * phases).real.T, -np.ones(F.shape[1])]))
        found = scipy.optimize.linprog(
            np.append(np.zeros(n), 1.0),
            np.vstack(rows),
            np.zeros(len(rows) * F.shape[1]),
            np.append(np.ones(n), 0.0)[None],
            [1.0],
            method="highs",
        )
        weights, below, above = found.x[:n], found.x[-1], np.abs(found.x[:n] @ F).max()
        if above < below * (1 + 1e-5):
            break
    return below, above


def train(Z: np.ndarray, u: np.ndarray, v: np.ndarray, steps: int, seen: set[int]) -> np.ndarray:
    r"""Gradient descent on $\sum_ie^{-z_i\cdot(u * v)}$ with steps $\eta_t \propto 1/L$.

    A step changes no margin by more than about 1: $\eta_tL \le 1/\|\sum_ip_i\nabla f_i\|^2$, where $p_i$ are shares
    of the loss. Returns the weights $u * v$ at some steps, shape `(draw, step, feature)`.
    """
    kept, d = [], u.shape[-1]
    for t in range(steps + 1):
        U, V = np.fft.rfft(u), np.fft.rfft(v)
        w = np.fft.irfft(U * V, d)
        margins = (Z @ w[..., None])[..., 0]
        share = np.exp(margins.min(-1, keepdims=True) - margins)
        share /= share.sum(-1, keepdims=True)
        G = np.fft.rfft((share[:, None, :] @ Z)[:, 0])
        du, dv = np.fft.irfft(G * V.conj(), d), np.fft.irfft(G * U.conj(), d)
        rate = np.minimum(1 / ((du**2).sum(-1) + (dv**2).sum(-1)), 0.1 / np.abs(G).max(-1))[:, None]
        if t in seen:
            kept.append(w)
        u, v = u + rate * du, v + rate * dv
    return np.stack(kept, 1)


@study("book/convolution", section="8.1", title="Linear convolutional networks and the spectrum")
def run(config: Config) -> xr.Dataset:
    r"""A linear convolutional network of depth 2, $f(x) = \langle u * v, x\rangle$ with circular convolution, writes
    the same linear functions in a way that gives gradient descent another geometry. On separable data with exponential
    loss its direction tends to that of largest margin for the $\ell_{2/\text{depth}}$ norm of the Fourier transform,
    here $\ell_1$: $\max_w\min_iy_i\langle w, x_i\rangle/\|\hat w\|_1$. Gradient descent on $w$ itself would tend to the
    largest margin in $\ell_2$. The source quotes this without a run.
    """
    rng = np.random.default_rng(config.seed)
    # Labels only turn inputs around, and the law of the inputs is symmetric.
    Z = rng.normal(size=(config.draws, config.samples, config.features))
    start = config.spread * rng.normal(size=(2, config.draws, config.features))
    seen = np.unique(np.geomspace(10, config.steps, 40).astype(int))
    path = train(Z, start[0], start[1], config.steps, set(seen.tolist()))
    return xr.Dataset(
        {
            "Z": (("draw", "sample", "feature"), Z),
            "path": (("draw", "step", "feature"), path),
            "bounds": (("draw", "side"), np.array([largest(z) for z in Z])),
            "euclidean": (("draw", "feature"), np.stack([max_margin(z).w for z in Z])),
        },
        coords={"step": seen},
    )


def reached(data: xr.Dataset, w: np.ndarray) -> np.ndarray:
    """Margins in the 1-norm of the spectrum over the largest, of weights `(draw, ..., feature)`."""
    margins = np.einsum("bnd,b...d->b...n", data.Z.values, w).min(-1) / spectral(w)
    return margins / data.bounds.values[:, 1].reshape(-1, *(1,) * (margins.ndim - 1))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    path, support = reached(data, data.path.values), reached(data, data.euclidean.values)
    early = np.abs(data.step.values - config.steps / 10).argmin()
    below, above = data.bounds.values.T
    name = "largest margin: the bound from above over the bound from below"
    yield claim("bounds", name).at_most(1 + 1e-4, (above / below).max(), "linear programs enough")
    name = "share of the largest margin, the most of all runs and steps"
    yield claim("largest", name).at_most(1.0, path.max(), "no weights have more", slack=1e-9)
    end, note = path[:, -1], f"from {path[:, -1].min():.4f} to {path[:, -1].max():.4f}"
    yield claim("end", "share of the largest margin at the end, mean").at_least(
        0.9, estimate(end), "it tends to 1, slowly", note=note
    )
    yield claim("rise", "part of the margin missing at the end over that at a tenth of the steps, mean").at_most(
        1.0, estimate((1 - end) / (1 - path[:, early])), "it still falls"
    )
    why, note = "the network's geometry is not Euclidean", f"the latter has {support.mean():.3f} on average"
    yield claim(
        "geometry", "share of the largest margin at the end, less that of the largest 2-norm margin, mean"
    ).at_least(0.0, estimate(end - support), why, note=note)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    path, support = reached(data, data.path.values), reached(data, data.euclidean.values)
    names = "network", "largest 2-norm margin"
    for k in range(min(config.draws, 10)):
        first, second = names if k == 0 else (None, None)
        left.loglog(data.step, 1 - path[k], color="C0", lw=1, alpha=0.8, label=first)
        left.plot(config.steps, 1 - support[k], "D", color="C1", ms=5, label=second)
    sheet.label(left, "Missing to the largest margin in the spectrum", "step", None, "lower left")
    worst = int(support.argmin())
    mode = np.arange(config.features // 2 + 1)
    both = data.path.values[worst, -1], data.euclidean.values[worst]
    for shift, name, w in zip((-0.2, 0.2), names, both, strict=True):
        right.bar(mode + shift, np.abs(np.fft.rfft(w, norm="ortho")) / spectral(w), 0.38, label=name)
    sheet.label(
        right, "Two directions that separate one problem", "frequency", r"$|\hat w|/\|\hat w\|_1$", "best", xticks=mode
    )
