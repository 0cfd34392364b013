"""Claim 6.2.2: how fast gradient descent is under three conditions weaker than convexity, one of which is too weak."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Options, claim, option, options, scaled, sheet, study


class Config(Options):
    curvatures: tuple[float, ...] = option(
        (10.0, 3.0, 1.0), at_least=1e-3, at_most=1e3, shortest=2, longest=50, help="of the parabola"
    )
    ripple: float = option(
        3.0, at_least=0, at_most=3.5, help="a of w^2 + a sin(w)^2, which is not convex from a = 1 on"
    )
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
    $\min_{t<T}f_t - f^* \le \Gamma|w_0 - w^*|^2/(\tau^2T)$, which is not geometric.
    """
    curvature = np.array(config.curvatures)
    low, high = curvature.min(), curvature.max()
    paths = {}
    for name, rate in (("pl", 1 / high), ("secant", low / high**2)):
        w, rows = np.ones(len(curvature)), []
        for _ in range(config.steps + 1):
            rows.append(w)
            w = w - rate * curvature * w
        paths[name] = np.stack(rows)
    smooth, at, wave = 2 + 2 * config.ripple, np.array(3.0), []
    for _ in range(config.steps + 1):
        wave.append(float(at))
        at = at - wavy(at, config.ripple)[1] / smooth
    rate, place, quartic = 1 / 3, 1.0, np.empty(config.long + 1)
    for step in range(config.long + 1):
        quartic[step] = place
        place = place - rate * place**3
    return xr.Dataset(
        {f"{name}_path": (("step", "feature"), path) for name, path in paths.items()}
        | {"wave": ("step", np.array(wave)), "quartic": ("late", quartic)}
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    curvature = np.array(config.curvatures)
    low, high = curvature.min(), curvature.max()
    tiny = 1e-12  # of rounding
    values = (curvature * data.pl_path.values**2).sum(1) / 2
    kept = values[1:] > 1e-290
    slope = ((curvature * data.pl_path.values) ** 2).sum(1)
    yield claim("parabola-least-grad", "parabola: least |grad f|^2 over f - f*, along the run").at_least(
        2 * low,
        (slope[:-1][kept] / values[:-1][kept]).min(initial=np.inf),
        "mu is twice the smallest curvature",
        slack=tiny * low,
    )
    ratio = (values[1:] / np.maximum(values[:-1], 1e-300))[kept].max(initial=0.0)
    yield claim("parabola-ratio-successive", "parabola: largest ratio of successive f - f* at step 1/L").at_most(
        1 - low / high,
        ratio,
        "1 - mu/2L",
        slack=tiny,
        note=f"on a parabola it cannot exceed (1 - mu/2L)^2 = {(1 - low / high) ** 2:.6g}",
    )
    yield claim(
        "parabola-same-1",
        "parabola: the same over (1 - mu/2L)^2",
        given=low < high and ratio > 0,
        otherwise="all curvatures are the same: one step is enough",
    ).at_most(1.0, ratio / max((1 - low / high) ** 2, 1e-300), "its slowest direction", slack=1e-9)
    away = (data.secant_path.values**2).sum(1)
    yield claim(
        "parabola-ratio-successive-squared", "parabola: largest ratio of successive squared distances at step tau/L^2"
    ).at_most(
        1 - (low / high) ** 2,
        (away[1:] / np.maximum(away[:-1], 1e-300))[away[1:] > 1e-290].max(initial=0.0),
        "1 - tau^2/L^2",
        slack=tiny,
    )
    grid = np.linspace(1e-3, 30, 60_001)
    value, derivative = wavy(grid, config.ripple)
    mu, least_bend = float((derivative**2 / value).min()), 2 - 2 * config.ripple
    yield claim(
        "w-2-sin",
        "w^2 + a sin(w)^2: smallest second derivative",
        given=config.ripple > 1,
        otherwise="convex up to a = 1",
    ).at_most(0.0, least_bend, "not convex")
    w = data.wave.values
    value = wavy(w, config.ripple)[0]
    kept = value[1:] > 1e-290
    yield claim("same-ratio-successive", "the same: largest ratio of successive f at step 1/L").at_most(
        1 - mu / (2 * (2 + 2 * config.ripple)),
        (value[1:] / np.maximum(value[:-1], 1e-300))[kept].max(initial=0.0),
        "1 - mu/2L, with mu its least ratio on a grid",
        slack=1e-6,
    )
    yield from quartic(data, config)


def quartic(data: xr.Dataset, config: Config) -> Findings:
    r"""$w^4/4$ has $\tau = 4$, but $|\nabla f|^2 = 4w^2f$: $\Gamma = 4$ on $|w| \le 1$."""
    w, steps = data.quartic.values, np.arange(config.long + 1)
    f = w**4 / 4
    yield claim("w-4-4", "w^4/4: least grad f.(w - w*) over f - f*").equal(
        4.0, (w * w**3 / f).min(), 1e-12, "tau, an identity"
    )
    yield claim("w-4-4-least", "w^4/4: least f so far over Gamma |w_0|^2/(tau^2 T), largest").at_most(
        1.0,
        (np.minimum.accumulate(f)[:-1] * 4 * steps[1:]).max(),
        "the bound of weak quasi-convexity: holds for every T",
        slack=1e-12,
        note="Gamma = tau = 4",
    )
    late = steps[-1]
    yield claim("w-4-4-weakly", "w^4/4, weakly quasi-convex: f t^2 in the end, at step 1/3").erratum(
        (r"\text{geometric: }f_tt^2 \to 0", 0.0),
        (r"f_tt^2 \to \frac1{16\eta^2} = \frac9{16}", 9 / 16),
        f[-1] * late**2,
        9 / 16 * (1.5 * np.log(late) + 5) / late,
        "the next order, 3 log t/2t",
        where="claim 6.2.2",
        note="weak quasi-convexity bounds the distance to the minimum, not its decrease: 1/T is all that follows, and "
        "here the rate is 1/t^2. Its potential is the squared distance, not f as footnote 4 says",
    )
    half = late // 2
    yield claim("w-4-4-exponent", "w^4/4: exponent of f over the second half").equal(
        -2.0, np.log(f[-1] / f[half]) / np.log(late / half), 5 * np.log(late) / late, "the next order"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    curvature, steps = np.array(config.curvatures), np.arange(config.steps + 1)
    low, high = curvature.min(), curvature.max()
    few = steps[: min(len(steps), 101)]
    for i, (name, path, bound, square) in enumerate(
        (
            ("Polyak-Łojasiewicz, $f$", data.pl_path, 1 - low / high, curvature / 2),
            (r"restricted secant, $|w - w^*|^2$", data.secant_path, 1 - (low / high) ** 2, np.ones(len(curvature))),
        )
    ):
        value = (square * path.values**2).sum(1)[: len(few)]
        left.plot(few, np.maximum(value / value[0], 1e-300), color=f"C{i}", label=name)
        sheet.guide(left, few, bound**few, "bounds" if i == 1 else None)
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
