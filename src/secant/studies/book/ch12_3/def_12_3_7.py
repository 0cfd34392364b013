"""Definition 12.3.7: Ito's lemma, and the order of its two factors."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study
from secant.studies.shared.parabolas import three


class Config(Seeded):
    lr: float = options.lr(0.1, at_least=0.01, at_most=0.5)
    time: float = option(0.01, above=0, at_most=1, help="length of the paths with constant noise")
    draws: int = options.draws(40_000, 400_000, at_least=5_000, at_most=10**6)
    turn: float = option(0.7, at_least=0, at_most=1.5, help="angle of the noise's turn before its stretch")


def matrices(turn: float) -> tuple[np.ndarray, np.ndarray]:
    """A noise that is not a normal matrix, and the Hessian of a test function."""
    c, s = math.cos(turn), math.sin(turn)
    return np.diag([2.0, 0.5]) @ np.array([[c, -s], [s, c]]), np.array([[1.0, 0.3], [0.3, -0.5]])


@study("book/def-12.3.7", section="12.3", title="Ito's lemma")
def run(config: Config) -> xr.Dataset:
    r"""Along $dX = b\,dt + s\,dW$ a function changes by $dh = \langle\nabla h, b\rangle dt + \langle\nabla h,
    s\,dW\rangle + \frac12\operatorname{Tr}[s^\top\nabla^2h\,s]\,dt$. On the equation of three parabolas $\frac
    d{dt}\mathbb EX^2 = -4\,\mathbb EX^2 + 24\eta$. Without the last term the right side would be $-4\,\mathbb EX^2$.
    For noise that turns before it stretches, $\operatorname{Tr}[\nabla^2h\,s^\top s]$ is another number.
    """
    s, H = matrices(config.turn)
    random = np.random.default_rng(config.seed)
    dW = math.sqrt(config.time) * random.standard_normal((config.draws, 2))
    x = dW @ s.T
    grown = np.einsum("ni,ij,nj->n", x, H, x) / (2 * config.time)
    t, step, equation = np.linspace(0, 1, 41), 1e-3, three().diffusion(config.lr)

    def second(time: float) -> float:
        law = equation.moments([3.0], float(time))
        return law.covariance.item() + law.mean.item() ** 2

    # A rule of order 4 gives the slope of the squares.
    values = np.array([[second(time + k * step) for k in (-2, -1, 1, 2)] for time in t[2::8]])
    slope = values @ np.array([1, -8, 8, -1]) / (12 * step)
    quartic = (x**4).sum(1) / config.time**2
    return xr.Dataset(
        {
            "grown": ("draw", grown),
            "square": ("time", [second(time) for time in t]),
            "slope": ("inner", slope),
            "quartic": ("draw", quartic),
        },
        coords={"time": t, "inner": t[2::8]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    s, H = matrices(config.turn)
    right, printed = np.trace(s.T @ H @ s) / 2, np.trace(H @ s.T @ s) / 2
    lr, t = config.lr, data.time.values
    exact = 9 * np.exp(-4 * t) + 6 * lr * (1 - np.exp(-4 * t))
    yield claim("square", r"$\mathbb EX^2$ from the law of moments less its formula").zero(
        np.abs(data.square - exact).max(), 1e-11, "matrix exponentials"
    )
    rule = -4 * data.square.sel(time=data.inner.values).values + 24 * lr
    why = r"differences over $10^{-3}$: $4^4/30$ of their fourth power, and rounding"
    yield claim("slope", r"$d\,\mathbb EX^2/dt$ less $-4\,\mathbb EX^2 + 24\eta$, over 36").zero(
        np.abs(data.slope.values - rule).max() / 36, 1e-9, why
    )
    found = estimate(data.grown)
    yield claim("growth", r"growth of $\mathbb Eh$ without drift, over $\operatorname{Tr}[s^\top Hs]/2$").equal(
        1, estimate(data.grown / right), 0, "a quadratic $h$ grows linearly: sampling error alone"
    )
    spread = (s @ s.T).diagonal()
    fourth = r"$\mathbb E\sum_iX_i^4$ over $3t^2\sum_i(ss^\top)_{ii}^2$: Ito's lemma twice"
    yield claim("fourth-powers", fourth).equal(
        1, estimate(data.quartic / (3 * (spread**2).sum())), 0, "sampling error alone"
    )
    if abs(right - printed) > 20 * found.error:
        yield claim("trace", r"growth of $\mathbb Eh$ without drift").erratum(
            (r"\tfrac12\operatorname{Tr}[\nabla^2h\,\sigma^\top\sigma]", printed),
            (r"\tfrac12\operatorname{Tr}[\sigma^\top\nabla^2h\,\sigma]", right),
            found,
            0,
            "sampling error alone",
            note="Two factors are swapped. Their order does not matter if the noise is a symmetric matrix.",
            where="definition 12.3.7",
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    s, H = matrices(config.turn)
    t = data.time.values
    left.plot(t, data.square, color="C0", label=r"$\mathbb{E}X^2$")
    sheet.guide(left, t, 9 * np.exp(-4 * t), "without the last term")
    sheet.mark(left, y=6 * config.lr, label=r"$6\eta$", ls=":")
    sheet.label(left, "Three parabolas", "$t$", None, "best", yscale="log")
    n = np.unique(np.geomspace(10, data.sizes["draw"], 200).astype(int))
    mean = np.cumsum(data.grown.values)[n - 1] / n
    error = float(data.grown.std()) / np.sqrt(n)
    right.semilogx(n, mean, color="C0", label="mean over so many paths")
    right.fill_between(n, mean - 2 * error, mean + 2 * error, color="C0", alpha=0.2, lw=0)
    correct = r"$\mathrm{Tr}[\sigma^\top\nabla^2h\,\sigma]/2$"
    printed = r"$\mathrm{Tr}[\nabla^2h\,\sigma^\top\sigma]/2$, printed"
    sheet.mark(right, y=np.trace(s.T @ H @ s) / 2, label=correct)
    sheet.mark(right, y=np.trace(H @ s.T @ s) / 2, label=printed, ls=":")
    sheet.label(right, r"Growth of $\mathbb{E}h$", "paths", None, "best")
