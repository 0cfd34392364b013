"""Claim 6.4.1: all critical points of the eigenvector objective, and the way down from every one but the best."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared.numerics.differences import largest
from secant.theory.landscape import rank_one


class Config(Seeded):
    eigenvalues: tuple[float, ...] = option(
        (3.0, 2.0, 1.5, 1.0, 0.5, 0.1), at_least=0.01, at_most=100, shortest=2, longest=12, distinct=True, help="of M"
    )
    starts: int = option(200, at_least=5, at_most=5_000, help="random starts of descent and of Newton's method")
    steps: int = options.steps(3_000, at_least=100, at_most=100_000)

    def check(self) -> None:
        """Eigenvalues that are far enough apart."""
        values = sorted(self.eigenvalues)
        if min(b - a for a, b in itertools.pairwise(values)) < 0.01 * values[-1]:
            raise ValueError(f"eigenvalues: each a hundredth of the largest from the next, got {self.eigenvalues}.")


@study("book/claim-6.4.1", section="6.4", title="The landscape of the top eigenvector")
def run(config: Config) -> xr.Dataset:
    r"""For a matrix with eigenvalues $\lambda_1 > \lambda_2 > \dots > 0$ and $f(x) = \frac14\|M - xx^\top\|_F^2$:
    $\nabla f = (|x|^2 - M)x$ and $\nabla^2f = |x|^2 + 2xx^\top - M$. The only critical points are 0 and
    $\pm\sqrt{\lambda_i}\,v_i$, where the Hessian has the eigenvalues $2\lambda_i$ along $v_i$ and
    $\lambda_i - \lambda_j$ along $v_j$. All points but $\pm\sqrt{\lambda_1}\,v_1$ have a negative eigenvalue,
    $\lambda_i - \lambda_1$ along $v_1$. So the second-order stationary points are the global minima.
    """
    rng = np.random.default_rng(config.seed)
    values = np.sort(config.eigenvalues)[::-1]
    d, top = len(values), values[0]
    q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    M = (q * values) @ q.T
    known = rank_one.critical_points(M)
    bend = jax.jit(jax.vmap(jax.hessian(lambda x: rank_one.objective(jnp.asarray(M), x))))(known.points)
    start = rng.normal(size=(config.starts, d)) * np.sqrt(top)
    x, shown = start, [start[:3]]
    for _ in range(config.steps):
        # The step size is one over a bound of the curvature at x.
        x = x - rank_one.gradient(M, x) / (3 * (x**2).sum(1, keepdims=True) + top)
        shown.append(x[:3])
    newton = rng.normal(size=(config.starts, d)) * np.sqrt(top)
    for _ in range(200):
        H = rank_one.hessian(M, newton)
        step = np.linalg.solve(H, rank_one.gradient(M, newton)[..., None])[..., 0]
        size = np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-300)
        newton = newton - step * np.minimum(1, 0.5 * np.sqrt(top) / size)
    solved = np.linalg.norm(rank_one.gradient(M, newton), axis=1) < 1e-10 * top**1.5
    signed = np.concatenate([known.points, -known.points])
    away = np.linalg.norm(newton[:, None] - signed, axis=2)
    return xr.Dataset(
        {
            "M": (("i", "j"), M),
            "points": (("point", "i"), known.points),
            "spectra": (("point", "mode"), known.spectra),
            "directions": (("mode", "i"), known.directions),
            "hessian": (("point", "i", "j"), np.asarray(bend)),
            "value": ("point", known.values),
            "end": (("start", "i"), x),
            "path": (("step", "shown", "i"), np.stack(shown)),
            "solved": ("start", solved),
            "away": ("start", away.min(1)),
            "which": ("start", away.argmin(1) % len(known.points)),
        }
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    values = np.sort(config.eigenvalues)[::-1]
    M, points, top, d = data.M.values, data.points.values, values[0], len(values)
    rounding = 1e-13 * d * top
    expected = np.where(np.eye(d, dtype=bool), 2 * values[:, None], values[:, None] - values)
    found, v = np.linalg.eigvalsh(data.hessian.values), data.directions.values[0]
    along = np.einsum("i,pij,j->p", v, data.hessian.values, v)
    yield claim("gradient", r"gradient at 0 and at $\sqrt{\lambda_i}v_i$, largest").zero(
        largest(rank_one.gradient(M, points)), rounding * np.sqrt(top), "rounding"
    )
    spectra, at_zero = largest(found[:-1], np.sort(expected, 1)), largest(found[-1], np.sort(-values))
    down = largest(along[1:], np.append(values[1:], 0) - top)
    for key, sentence, miss in (
        ("spectra", r"Hessian by autodiff: eigenvalues less $2\lambda_i$, $\lambda_i - \lambda_j$", spectra),
        ("spectrum-zero", r"Hessian by autodiff: eigenvalues at 0 less $-\lambda_j$", at_zero),
        ("way-down", r"Hessian by autodiff: curvature along $v_1$ less $\lambda_i - \lambda_1$", down),
    ):
        yield claim(key, f"{sentence}, largest").zero(miss, rounding, "rounding")
    yield claim("minima", "critical points without a negative eigenvalue, up to sign").count(
        1, int((found.min(1) > 0).sum()), "the global minimum alone"
    )
    floor = rank_one.objective(M, points[0]) / ((values[1:] ** 2).sum() / 4)
    yield claim("floor", r"$f$ at the minimum over $\frac{1}{4}\sum_{j>1}\lambda_j^2$").equal(
        1.0, floor, 1e-12 * (1 + top**2 / values[1] ** 2), "rounding"
    )
    kept = data.solved.values
    sentence = "Newton's method on the gradient: largest distance of its ends from the list"
    yield claim("newton", sentence, given=kept, otherwise="no start was solved").zero(
        lambda: data.away.values[kept].max() / np.sqrt(top),
        1e-5,
        "its gradients are below 1e-10 and the least curvature a hundredth",
        note=f"{kept.sum()} of {config.starts} starts, at {len(set(data.which.values[kept]))} points up to sign",
    )
    excess = rank_one.objective(M, data.end.values) - data.value.values[0]
    slow, otherwise = (values[0] - values[1]) / (4 * top), "so few steps do not tell two near eigenvalues apart"
    sentence = r"gradient descent from random starts: largest $f - f^*$ in the end, over $\lambda_1^2$"
    yield claim("descent", sentence, given=slow * config.steps > 60, otherwise=otherwise).zero(
        excess.max() / top**2, 1e-6, "all second-order stationary points are global minima"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11.5, 4.4), 2, width_ratios=(1.3, 1))
    values = np.sort(config.eigenvalues)[::-1]
    for k in range(len(values) + 1):
        spectrum = data.spectra.values[k]
        left.plot(np.full(len(spectrum), k), spectrum, "o", ms=6, color="C0" if (spectrum > 0).all() else "C1")
        left.plot(k, spectrum.min(), "o", ms=6, color="C0" if (spectrum > 0).all() else "C3")
    sheet.mark(left, y=0)
    names = [f"$\\sqrt{{\\lambda_{k + 1}}}v_{k + 1}$" for k in range(len(values))] + ["0"]
    title, ticks = "Spectra of the Hessian at all critical points", range(len(names))
    sheet.label(left, title, None, "eigenvalues", xticks=ticks, xticklabels=names)
    path = data.path.values
    excess = rank_one.objective(data.M.values, path) - data.value.values[0]
    for k in range(path.shape[1]):
        right.loglog(np.arange(1, len(path) + 1), np.maximum(excess[:, k], 1e-16), label=f"start {k + 1}")
    for value in data.value.values[1:]:
        right.axhline(value - data.value.values[0], color=sheet.faint(), lw=1)
    sheet.label(right, "Gradient descent passes the saddles", "step", "$f - f^*$", "lower left", ylim=(1e-16, None))
