"""Claim 6.2.2: rates of gradient descent under three conditions weaker than convexity; one condition is too weak."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Options, claim, option, options, scaled, sheet, study
from secant.studies.shared.numerics.orbits import orbit


class Config(Options):
    curvatures: tuple[float, ...] = option(
        (10.0, 3.0, 1.0), at_least=1e-3, at_most=1e3, shortest=2, longest=50, help="curvatures of the parabola"
    )
    ripple: float = option(3.0, at_least=0, at_most=3.5, help="a of w^2 + a sin(w)^2, not convex for a > 1")
    steps: int = options.steps(200, at_least=5, at_most=5_000)
    long: int = scaled(smoke=20_000, laptop=100_000, at_least=2_000, at_most=10**6, help="steps on w^4/4")


def wavy(w: np.ndarray, a: float) -> tuple[np.ndarray, np.ndarray]:
    """The function and its derivative."""
    return w**2 + a * np.sin(w) ** 2, 2 * w + a * np.sin(2 * w)


@study("book/claim-6.2.2", section="6.2", title="Rates without convexity")
def run(config: Config) -> xr.Dataset:
    r"""Let $f$ have one minimum $w^*$ and an $L$-Lipschitz gradient. If $|\nabla f|^2 \ge \mu(f - f^*)$ (Polyak and
    Łojasiewicz), steps $1/L$ have $f_{t+1} - f^* \le (1 - \frac\mu{2L})(f_t - f^*)$. If
    $\nabla f\cdot(w - w^*) \ge \tau|w - w^*|^2$ (restricted secant), steps $\tau/L^2$ have
    $|w_{t+1} - w^*|^2 \le (1 - \frac{\tau^2}{L^2})|w_t - w^*|^2$. If $\nabla f\cdot(w - w^*) \ge \tau(f - f^*)$ (weak
    quasi-convexity) and $|\nabla f|^2 \le \Gamma(f - f^*)$, steps $\tau/\Gamma$ have
    $\min_{t<T}f_t - f^* \le \Gamma|w_0 - w^*|^2/(\tau^2T)$. This last rate is not geometric.
    """
    curvature = np.array(config.curvatures)
    low, high = curvature.min(), curvature.max()
    smooth, ones = 2 + 2 * config.ripple, np.ones(len(curvature))
    descend = lambda rate: orbit(lambda w: w - rate * curvature * w, ones, config.steps)  # noqa: E731
    paths = {"pl": descend(1 / high), "secant": descend(low / high**2)}
    wave = orbit(lambda w: w - wavy(w, config.ripple)[1] / smooth, np.array(3.0), config.steps)
    return xr.Dataset(
        {f"{name}_path": (("step", "feature"), np.stack(path)) for name, path in paths.items()}
        | {"wave": ("step", np.array(wave)), "quartic": ("late", orbit(lambda w: w - 1 / 3 * w**3, 1.0, config.long))}
    )


def fastest(values: np.ndarray) -> float:
    """The largest ratio of successive values, as long as they are above the smallest floats."""
    return float((values[1:] / np.maximum(values[:-1], 1e-300))[values[1:] > 1e-290].max(initial=0.0))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    curvature, tiny = np.array(config.curvatures), 1e-12  # of rounding
    low, high = curvature.min(), curvature.max()
    values = (curvature * data.pl_path.values**2).sum(1) / 2
    kept, slope = values[1:] > 1e-290, ((curvature * data.pl_path.values) ** 2).sum(1)
    least = (slope[:-1][kept] / values[:-1][kept]).min(initial=np.inf)
    yield claim("pl-constant", r"parabola: least $|\nabla f|^2$ over $f - f^*$, along the run").at_least(
        2 * low, least, r"$\mu$ is twice the smallest curvature", slack=tiny * low
    )
    ratio, sharp = fastest(values), (1 - low / high) ** 2
    note = rf"on a parabola it cannot exceed $(1 - \mu/2L)^2 = {sharp:.6g}$"
    yield claim("pl-rate", "parabola: largest ratio of successive $f - f^*$ at step $1/L$").at_most(
        1 - low / high, ratio, r"$1 - \mu/2L$", slack=tiny, note=note
    )
    otherwise = "all curvatures are the same: one step is enough"
    sentence = r"parabola: this ratio over $(1 - \mu/2L)^2$"
    yield claim("pl-sharp", sentence, given=low < high and ratio > 0, otherwise=otherwise).at_most(
        1.0, ratio / max(sharp, 1e-300), "its slowest direction", slack=1e-9
    )
    sentence = r"parabola: largest ratio of successive squared distances at step $\tau/L^2$"
    yield claim("secant-rate", sentence).at_most(
        1 - (low / high) ** 2, fastest((data.secant_path.values**2).sum(1)), r"$1 - \tau^2/L^2$", slack=tiny
    )
    value, derivative = wavy(np.linspace(1e-3, 30, 60_001), config.ripple)
    mu, least_bend = float((derivative**2 / value).min()), 2 - 2 * config.ripple
    sentence = r"$w^2 + a\sin(w)^2$: smallest second derivative"
    yield claim("ripple-bend", sentence, given=config.ripple > 1, otherwise="convex up to $a = 1$").at_most(
        0.0, least_bend, "not convex"
    )
    yield claim("ripple-rate", r"$w^2 + a\sin(w)^2$: largest ratio of successive $f$ at step $1/L$").at_most(
        1 - mu / (2 * (2 + 2 * config.ripple)),
        fastest(wavy(data.wave.values, config.ripple)[0]),
        r"$1 - \mu/2L$, with $\mu$ its least ratio on a grid",
        slack=1e-6,
    )
    yield from quartic(data, config)


def quartic(data: xr.Dataset, config: Config) -> Findings:
    r"""$w^4/4$ has $\tau = 4$, but $|\nabla f|^2 = 4w^2f$: $\Gamma = 4$ on $|w| \le 1$."""
    w, steps = data.quartic.values, np.arange(config.long + 1)
    f = w**4 / 4
    yield claim("quartic-tau", r"$w^4/4$: least $\nabla f\cdot(w - w^*)$ over $f - f^*$").equal(
        4.0, (w * w**3 / f).min(), 1e-12, r"$\tau$, an identity"
    )
    bound = (np.minimum.accumulate(f)[:-1] * 4 * steps[1:]).max()
    why = "the bound of weak quasi-convexity, for every $T$"
    yield claim("quartic-bound", r"$w^4/4$: least $f$ so far over $\Gamma|w_0|^2/(\tau^2T)$, largest").at_most(
        1.0, bound, why, slack=1e-12, note=r"$\Gamma = \tau = 4$"
    )
    late = steps[-1]
    yield claim("quartic-rate", r"$w^4/4$, weakly quasi-convex: $ft^2$ in the end, at step $\frac{1}{3}$").erratum(
        (r"\text{geometric: }f_tt^2 \to 0", 0.0),
        (r"f_tt^2 \to \frac1{16\eta^2} = \frac9{16}", 9 / 16),
        f[-1] * late**2,
        9 / 16 * (1.5 * np.log(late) + 5) / late,
        r"the next order, $3\log t/2t$",
        where="claim 6.2.2",
        note="weak quasi-convexity bounds the distance to the minimum, not its decrease: only $1/T$ follows, and here "
        "the rate is $1/t^2$. Its potential is the squared distance; footnote 4 has $f$",
    )
    half = late // 2
    yield claim("quartic-exponent", "$w^4/4$: exponent of $f$ over the second half").equal(
        -2.0, np.log(f[-1] / f[half]) / np.log(late / half), 5 * np.log(late) / late, "the next order"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    curvature, steps = np.array(config.curvatures), np.arange(config.steps + 1)
    low, high = curvature.min(), curvature.max()
    few = steps[: min(len(steps), 101)]
    for name, path, bound, square, label in (
        ("Polyak-Łojasiewicz, $f$", data.pl_path, 1 - low / high, curvature / 2, None),
        (r"restricted secant, $|w - w^*|^2$", data.secant_path, 1 - (low / high) ** 2, 1 + 0 * curvature, "bounds"),
    ):
        value = (square * path.values**2).sum(1)[: len(few)]
        left.plot(few, np.maximum(value / value[0], 1e-300), label=name)
        sheet.guide(left, few, bound**few, label)
    sheet.label(left, "A parabola", "step", "over the first", "best", yscale="log", ylim=(1e-12, 2))
    w = np.linspace(-4, 4, 400)
    middle.plot(w, wavy(w, config.ripple)[0])
    path = data.wave.values[:12]
    middle.plot(path, wavy(path, config.ripple)[0], "o", ms=5, label="gradient descent")
    sheet.label(middle, f"$w^2 + {config.ripple:g}\\sin^2w$: not convex, one minimum", "$w$", "$f$", "best")
    late = np.unique(np.geomspace(1, config.long, 60).astype(int))
    f = data.quartic.values**4 / 4
    right.plot(late, f[late], "o", ms=4, label="$f = w^4/4$")
    sheet.guide(right, late, 9 / 16 / late.astype(float) ** 2, r"$\frac{9}{16}\,t^{-2}$")
    sheet.guide(right, late, 1 / (4.0 * late), r"bound $\Gamma|w_0|^2/(\tau^2t)$", ls=":")
    sheet.label(right, "Weakly quasi-convex: no geometric rate", "step", None, "best", xscale="log", yscale="log")
