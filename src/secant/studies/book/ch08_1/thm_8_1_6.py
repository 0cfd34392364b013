"""Book, theorem 8.1.6: gradient flow on a difference of squares is mirror flow with the hypentropy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study

Gradient = Callable[[np.ndarray], np.ndarray]
"""The gradient of a loss in the weights."""

TIGHT: dict[str, Any] = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-15}


class Config(Seeded):
    samples: int = options.samples(3, at_most=20)
    dimension: int = option(5, at_least=1, at_most=50, help="weights")
    alpha: float = option(0.5, at_least=0.05, at_most=3, help="size of the start")
    until: float = option(1.0, at_least=0.1, at_most=3, help="time of the flows")


def gradients(X: np.ndarray, y: np.ndarray) -> dict[str, Gradient]:
    """Two losses with different gradients: the theorem holds for every loss."""
    return {"squared": lambda w: X.T @ (X @ w - y), "log cosh": lambda w: X.T @ np.tanh(X @ w - y)}


def parameters(gradient: Gradient, start: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Gradient flow on (theta+, theta-); shape (2d, times)."""
    half = len(start) // 2

    def field(_: float, theta: np.ndarray) -> np.ndarray:
        g = gradient(theta[:half] ** 2 - theta[half:] ** 2)
        return np.concatenate([-2 * theta[:half] * g, 2 * theta[half:] * g])

    return solve_ivp(field, (0, times[-1]), start, t_eval=times, **TIGHT).y


def mirror(gradient: Gradient, d: int, alpha: float, times: np.ndarray) -> np.ndarray:
    r"""Mirror flow with $R_\alpha$ from 0, in its dual $z = \nabla R_\alpha(w)$, $w = 2\alpha^2\sinh 4z$."""
    weights = lambda z: 2 * alpha**2 * np.sinh(4 * z)  # noqa: E731
    dual = solve_ivp(lambda _, z: -gradient(weights(z)), (0, times[-1]), np.zeros(d), t_eval=times, **TIGHT).y
    return weights(dual)


@study("book/thm-8.1.6", section="8.1", title="Squares and the hypentropy")
def run(config: Config) -> xr.Dataset:
    r"""Gradient flow on $\theta_\pm$ with $w = \theta_+^{\odot2} - \theta_-^{\odot2}$ from $\theta_0 = (\alpha 1,
    -\alpha 1)$ is, for every loss, the mirror flow $\frac{d}{dt}\nabla R_\alpha(w) = -\nabla L(w)$ with $R_\alpha(w) =
    \frac{\alpha^2}4\sum_iq(w_i/\alpha^2)$, $q(z) = 2 - \sqrt{4 + z^2} + z\operatorname{arcsinh}(z/2)$. On the way
    $\theta_+\odot\theta_- = -\alpha^2 1$ and $\partial G\,\partial G^\top = 8\alpha^2\sqrt{(w/2\alpha^2)^2 + 1}$.
    """
    rng, d = np.random.default_rng(config.seed), config.dimension
    X = rng.normal(size=(config.samples, d)) / np.sqrt(d)
    y = X @ rng.normal(size=d)
    times = np.linspace(0, config.until, 21)
    losses = gradients(X, y)
    # The start times c: we look for the c that gives the weights of the mirror flow, beginning at the printed one.
    target = mirror(losses["squared"], d, config.alpha, times[[0, -1]])[:, -1]
    start = config.alpha * np.concatenate([np.ones(d), -np.ones(d)])

    def missed(c: np.ndarray) -> np.ndarray:
        end = parameters(losses["squared"], c[0] * start, times[[0, -1]])[:, -1]
        return end[:d] ** 2 - end[d:] ** 2 - target

    scale = least_squares(missed, [0.25], bounds=(0.05, 4), xtol=1e-14, ftol=1e-14, gtol=1e-14).x[0]
    theta = {name: parameters(loss, start, times) for name, loss in losses.items()}
    quarter = parameters(losses["squared"], start / 4, times)
    return xr.Dataset(
        {
            "theta": (("loss", "part", "i", "time"), np.stack([t.reshape(2, d, -1) for t in theta.values()])),
            "mirror": (("loss", "i", "time"), np.stack([mirror(f, d, config.alpha, times) for f in losses.values()])),
            "quarter": (("i", "time"), quarter[:d] ** 2 - quarter[d:] ** 2),
            "scale": scale,
        },
        coords={"loss": list(losses), "time": times},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    one, two = data.theta.isel(part=0), data.theta.isel(part=1)
    w, a2 = one**2 - two**2, config.alpha**2
    solver = "tolerance of the integrations"
    for loss in data.loss.values:
        gap = np.abs(w - data.mirror).sel(loss=loss).max() / np.abs(data.mirror).sel(loss=loss).max()
        name = f"{loss} loss: weights of the two flows apart, over the largest weight"
        yield claim(f"flows-{loss}", name).zero(gap, 1e-8, solver)
    printed, corrected = "\\theta_0 = (\\alpha 1, -\\alpha 1)/4", "\\theta_0 = (\\alpha 1, -\\alpha 1)"
    note = "theorem 8.1.7 has it right"
    yield claim("start", r"size of the start, over $\alpha$, from which the flow is that of the potential").erratum(
        (printed, 0.25), (corrected, 1.0), float(data.scale), 1e-7, solver, note=note, where="theorem 8.1.6"
    )
    printed, corrected = "\\theta_+\\odot\\theta_- = \\alpha^2 1", "\\theta_+\\odot\\theta_- = -\\alpha^2 1"
    note, where = "the halves begin with opposite signs", "proof of theorem 8.1.6"
    yield claim("product", r"product of the two halves over $\alpha^2$, along the flow").erratum(
        (printed, 1.0), (corrected, -1.0), (one * two / a2).mean(), 1e-8, solver, note=note, where=where
    )
    name = r"how far the product of the halves moves along the flow, over $\alpha^2$"
    yield claim("product-moves", name).zero(np.abs(one * two / a2 + 1).max(), 1e-8, solver)
    end, G = data.theta.isel(loss=0, time=-1), w.isel(loss=0, time=-1)
    i = int(np.abs(G.values).argmax())
    speed, g, note = 4 * float((end**2).sum("part")[i]), float(G[i]), "a root and a factor are lost"
    wrong, right = 8 * (g**2 / config.alpha + 1) * a2**2, 8 * a2 * np.sqrt((g / (2 * a2)) ** 2 + 1)
    printed, corrected = r"8\left((G/\alpha^{1/2})^2 + 1\right)\alpha^4", r"8\alpha^2\sqrt{(G/2\alpha^2)^2 + 1}"
    name, where = r"speed of the largest weight, $\partial G\,\partial G^\top$, at the end", "equation (8.16)"
    yield claim("speed", name).erratum(
        (printed, wrong), (corrected, right), speed, 0.0, solver, relative=1e-7, note=note, where=where
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4), 2, sharey=True)
    for axes, loss in zip((left, right), data.loss.values, strict=True):
        w = (data.theta.isel(part=0) ** 2 - data.theta.isel(part=1) ** 2).sel(loss=loss)
        for i in range(data.sizes["i"]):
            color, first = f"C{i % 10}", i == 0
            axes.plot(data.time, w[i], color=color, label="gradient flow on squares" if first else None)
            mirrored = data.mirror.sel(loss=loss)[i]
            sheet.guide(axes, data.time, mirrored, r"mirror flow with $R_\alpha$" if first else None)
            if loss == "squared":
                label = "from the start as printed" if first else None
                axes.plot(data.time, data.quarter[i], ":", color=color, label=label)
        sheet.label(axes, f"Weights, {loss} loss", "time", None, "best")
