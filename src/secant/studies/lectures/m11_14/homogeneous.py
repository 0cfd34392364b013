"""Lecture of 11/14: homogeneous models go to stationary points of their margin, too."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import late_flow
from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real, separable

DEGREES = (1, 2, 3)


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="mnist", help="random, or a data set that secant.data knows")
    samples: int = options.samples(4, 20, at_least=2, at_most=50)
    dim: int = options.dim(2, 4, at_least=2, at_most=6)
    gap: float = option(1.0, at_least=0.2, at_most=5, help="distance of random samples from a plane between them")
    until: float = option(1e5, at_least=1e4, at_most=1e6, help="last logarithm of time")


@study("lectures/11-14-homogeneous", section="11-14", title="Homogeneous models")
def run(config: Config) -> xr.Dataset:
    r"""In models with $f(c\,\theta, x) = c^\alpha f(\theta, x)$ gradient flow on the exponential loss goes to a
    stationary direction of $\min\|\theta\|^2$ with $y_if(\theta, x_i) \ge 1$: $\theta$ is a sum of the gradients of
    the samples of least margin. Here $f = x\cdot(\theta_1\odot\dots\odot\theta_\alpha)$. The smoothed margin
    $\log(1/L)/\|\theta\|^\alpha$ grows to the margin $\gamma$, and
    $tL(\log t)^{2 - 2/\alpha} \to \alpha^{-2}\gamma^{-2/\alpha}$.
    """
    random = np.random.default_rng(config.seed)
    x, y = separable.chosen(config, random)
    times = np.geomspace(10, config.until, 30)
    flows = []
    for degree in DEGREES:
        # The last factor begins at zero. So no feature has a sign yet, and none has to change its sign.
        theta = random.uniform(0.5, 1.5, size=(degree, config.dim))
        theta[-1] = 0.0
        flows.append(
            late_flow(lambda p, x: x @ jnp.prod(p, axis=0), theta, x, y, config.until, samples=times, rtol=1e-6)
        )
    names = ("margin", "kkt", "log_loss", "norm")
    return xr.Dataset(
        {name: (("degree", "log_time"), np.stack([flow.dataset[name].values for flow in flows])) for name in names}
        | {
            "euler": ("degree", [flow.degree for flow in flows]),
            "slack": ("degree", [slack(flow.dataset.margins.values[-1]) for flow in flows]),
        },
        coords={"degree": list(DEGREES), "log_time": times},
    )


def slack(margins: np.ndarray) -> float:
    """How far samples are above the least margin, as a mean with the weights of their losses."""
    return float(separable.weights(margins) @ margins / margins.min() - 1)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    s = float(data.log_time[-1])
    for degree in DEGREES:
        one, name = data.sel(degree=degree), f"degree {degree}"
        yield claim(f"euler-{degree}", f"{name}: by Euler's identity").equal(degree, one.euler, 1e-9, "rounding")
        # One factor: (|w~|/log t)^2. With several factors an unused feature may fade as a small power of log t.
        yield claim(
            f"cosine-{degree}", f"{name}: 1 - cosine of the weights with the force on them, at the end"
        ).at_most(1e-6 if degree == 1 else 0.03, one.kkt[-1], r"it goes to zero, as powers of $1/\log t$")
        yield claim(f"support-{degree}", f"{name}: margins above the least, by the weights of the losses").at_most(
            0.01, one.slack, r"of order $1/\log t$"
        )
        smooth = -one.log_loss.values / one.norm.values**degree
        yield claim(
            f"growth-{degree}", rf"{name}: least growth of $\log(1/L)/|\theta|^\alpha$ between two times, relative"
        ).at_least(0.0, np.diff(smooth).min() / smooth[-1], "it grows once $L < 1$; the solver's tolerance", slack=1e-5)
        gamma = float(one.margin[-1])
        constant = float(np.exp(one.log_loss[-1] + s)) * s ** (2 - 2 / degree)
        yield claim(
            f"loss-{degree}", rf"{name}: $tL(\log t)^{{2 - 2/\alpha}}$ over $\alpha^{{-2}}\gamma^{{-2/\alpha}}$"
        ).equal(1.0, constant * degree**2 * gamma ** (2 / degree), 0.05, r"corrections in powers of $1/\log t$")
        yield claim(f"margin-{degree}", rf"{name}: least margin $\gamma|\theta|^\alpha$ over $\log t$").equal(
            1.0, gamma * float(one.norm[-1]) ** degree / s, 0.01, r"corrections of $\log\log t$ over $\log t$"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    for i, degree in enumerate(DEGREES):
        one = data.sel(degree=degree)
        left.loglog(data.log_time, one.kkt, "o-", ms=3, color=f"C{i}", label=rf"$\alpha = {degree}$")
        middle.semilogx(data.log_time, one.margin / float(one.margin[-1]), color=f"C{i}")
        scaled = np.exp(one.log_loss + data.log_time) * data.log_time ** (2 - 2 / degree)
        right.semilogx(data.log_time, scaled * degree**2 * float(one.margin[-1]) ** (2 / degree), color=f"C{i}")
    sheet.label(left, "To a stationary point", r"$\log t$", r"$1 - \cos(\theta, -\nabla L)$", "lower left")
    sheet.label(middle, "The margin grows", r"$\log t$", "over its last value")
    sheet.mark(right, y=1.0)
    limit = r"$\alpha^2\gamma^{2/\alpha}\,tL\,(\log t)^{2 - 2/\alpha}$"
    sheet.label(right, "Time times loss", r"$\log t$", limit)
