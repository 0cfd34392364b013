"""Lecture of 11/14: gradient flow on separable data goes to the largest margin, as one over the logarithm of time."""

import numpy as np
import xarray as xr

from secant.dynamics import late_flow
from secant.lab import Figure, Findings, claim, option, scaled, sheet, study
from secant.studies.shared import real, separable
from secant.theory.bias.margins import max_margin

START, EARLY, LATE = 4.0, 10.0, 60.0
"""Logarithms of time: the motion is measured at the first. Between the others the error times the logarithm is flat."""

SLOW = 0.4
"""The least power of time with which random data settle. Slower real data are measured later by the same factor."""


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="mnist", help="random, or a data set that secant.data knows")
    images: int = option(30, at_least=4, at_most=300, help="of real data, by their two principal features")
    others: int = option(12, at_least=1, at_most=200, help="random samples that do not carry the margin")
    far: float = option(3.0, at_least=1.5, at_most=20, help="their margin, over the least")
    until: float = scaled(smoke=300.0, laptop=3_000.0, at_least=100, at_most=1e5, help="last logarithm of time")
    separators: int = option(50, at_least=1, at_most=1_000, help="random weights that separate")


@study("lectures/11-14-max-margin", section="11-14", title="Gradient flow on separable data")
def run(config: Config) -> xr.Dataset:
    r"""Gradient flow on $\sum_i\ell(y_iw\cdot x_i)$ with $\ell(u) = e^{-u}$ or $\log(1 + e^{-u})$, linear separable
    data and any start has $\|w\| \to \infty$, $L \to 0$ and $w/\|w\| = \hat w/\|\hat w\| + O(1/\log t)$, with $\hat w$
    of largest margin. More exactly, $w = \hat w\log t + \tilde w + o(1)$. So the error times $\log t$ goes to
    $\|P_\perp\tilde w\|/\|\hat w\|$, with $P_\perp$ orthogonal to $\hat w$, and $tL \to 1/\gamma^2$. Along any
    separator $w_*$ the flow always gains, $w_*\cdot\dot w > 0$.
    """
    random = np.random.default_rng(config.seed)
    if config.data == real.RANDOM:
        Z, on = separable.far_apart(random, 2, config.others, 2, config.far)
    else:
        Z, on = separable.in_order(separable.load(config.data, config.classes, config.images, 2, config.seed).z)
    best = max_margin(Z)
    power = separable.slowest(Z, on)
    early, late = looks(power)[1:]
    if late > config.until / 3:
        raise ValueError(
            f"until: these data settle as t^-{power:.2g} and need {3 * late:.0f} or more, got {config.until:g}."
        )
    start = random.normal(size=2)
    times = np.unique(np.concatenate([np.geomspace(1, config.until, 60), [early, late]]))
    y = random.choice([-1.0, 1.0], size=len(Z))
    runs = [
        late_flow(lambda w, x: x @ w, start, Z * y[:, None], y, config.until, loss=loss, samples=times)
        for loss in ("exponential", "logistic")
    ]
    w = np.stack([one.dataset.theta.values for one in runs])
    angle = random.uniform(-np.pi, np.pi, size=200 * config.separators)
    seen = np.stack([np.cos(angle), np.sin(angle)], 1)
    seen = seen[(seen @ Z.T).min(1) > 0][: config.separators]
    speed = separable.weights(w @ Z.T) @ Z
    gain = np.einsum("sf,ltf->slt", seen, speed) if len(seen) else np.einsum("f,ltf->lt", best.w, speed)[None]
    return xr.Dataset(
        {
            "z": (("sample", "feature"), Z),
            "y": ("sample", y),
            "w": (("loss", "log_time", "feature"), w),
            "log_loss": (("loss", "log_time"), np.stack([one.dataset.log_loss.values for one in runs])),
            "best": ("feature", best.w),
            "margin": best.margin,
            "power": power,
            "gain": (("separator", "loss", "log_time"), gain),
        },
        coords={"loss": ["exponential", "logistic"], "log_time": times},
    )


def error(data: xr.Dataset) -> xr.DataArray:
    """Distance of the direction from that of the largest margin."""
    unit = data.w / np.sqrt((data.w**2).sum("feature"))
    return np.sqrt(((unit - data.best * data.margin) ** 2).sum("feature"))


def looks(power: float) -> tuple[float, float, float]:
    """Logarithms of time when the motion is measured: at the start, early and late."""
    factor = max(1.0, SLOW / power)
    return factor * START, factor * EARLY, factor * LATE


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    gamma, off, last = float(data.margin), error(data), {"log_time": -1}
    power, s = float(data.power), float(data.log_time[-1])
    start, early, late = looks(power)
    for loss in data.loss.values:
        one = data.sel(loss=loss)
        left = one.w - one.best * one.log_time  # tends to w~
        end = left.isel(last)
        dot = float((end * one.best).sum())
        along, across = dot * gamma**2, end - one.best * dot * gamma**2
        limit = float(np.sqrt((across**2).sum())) * gamma
        found = off.sel(loss=loss) * one.log_time
        # The norm is |w^|(log t + along), to first order.
        room = 2 * abs(along) / s + 2 * (limit / s) ** 2 + 1e-3
        yield claim(
            f"error-{loss}", rf"{loss}: error times $\log t$ at the end over $|P_\perp\tilde w|/|\hat w|$"
        ).equal(1.0, found.isel(last) / limit, room, r"the next order in $1/\log t$")
        # What is left of the motion early, from its size at the start and the least power of t with which it falls.
        gone = left.sel(log_time=start, method="nearest")
        still = float(np.sqrt(((gone - end) ** 2).sum())) * np.exp(-power * (early - float(gone.log_time)))
        times = data.log_time.sel(log_time=[early, late])
        flat = found.sel(log_time=[early, late]) * (1 + along / times)
        yield claim(
            f"flat-{loss}", rf"{loss}: error times $|w|/|\hat w|$ at $\log t = {late:.3g}$ less at ${early:.3g}$"
        ).zero(
            flat[1] - flat[0],
            0.02 * limit + 3 * limit**3 / early**2 + 3 * gamma * still,
            "the next order, and the residual at a time before, as it has to fall",
        )
        yield claim(f"loss-{loss}", rf"{loss}: $tL\gamma^2$ at the end").equal(
            1.0, np.exp(one.log_loss[-1] + s) * gamma**2, 1e-5, "the solver's tolerance over the longest step"
        )
        size, name = float(np.linalg.norm(one.w[-1])) * gamma / s, rf"{loss}: $|w|\gamma$ over $\log t$ at the end"
        yield claim(f"norm-{loss}", name).equal(1.0, size, 2 * abs(along) / s + 1e-3, r"$\tilde w$ over $\log t$")
        moved = np.sqrt(((left - end) ** 2).sum("feature"))
        yield claim(f"motion-{loss}", rf"{loss}: motion of $w - \hat w\log t$ from $\log t = {late:.3g}$ on").at_most(
            1e-4, moved.sel(log_time=slice(late, None)).max(), "it has a limit; the solver's tolerance"
        )
        yield claim(f"gain-{loss}", f"{loss}: least gain along separators").at_least(
            0.0, one.gain.min(), "a sum of positive terms"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    Z, y, w = data.z.values, data.y.values, data.best.values
    x = Z * y[:, None]
    for i, sign in enumerate((1, -1)):
        left.plot(*x[y == sign].T, "o" if sign > 0 else "s", color=f"C{i}", ms=6, label=f"label {sign:+d}")
    span = 1.1 * np.abs(x).max() * np.array([-1, 1])
    side = np.array([-w[1], w[0]]) / np.linalg.norm(w)
    sheet.guide(left, side[0] * span, side[1] * span, "largest margin")
    for foot in (w / (w @ w), -w / (w @ w)):
        left.plot(*foot[:, None] + np.outer(side, span), ":", color=sheet.ink(), lw=1)
    first = data.w.sel(loss="exponential").values[0]
    turned = np.array([-first[1], first[0]]) / np.linalg.norm(first)
    left.plot(*np.outer(turned, span), color="C2", lw=1.4, label="$t = e$")
    sheet.label(left, "Few samples carry the margin", "$x_1$", "$x_2$", "best", aspect="equal", xlim=span, ylim=span)
    off = error(data)
    for i, loss in enumerate(data.loss.values):
        middle.loglog(data.log_time, off.sel(loss=loss), color=f"C{i}", label=loss)
        right.semilogx(data.log_time, np.exp(data.log_loss.sel(loss=loss) + data.log_time), color=f"C{i}", label=loss)
    end = float(off.sel(loss="exponential")[-1]) * config.until
    sheet.guide(middle, data.log_time, end / data.log_time, r"$\|P_\perp\tilde w\|/\|\hat w\|\log t$")
    distance = r"$|w/|w| - \hat w/|\hat w||$"
    sheet.label(middle, "Distance from its direction", r"$\log t$", distance, "lower left")
    sheet.mark(right, y=float(data.margin) ** -2, label=r"$1/\gamma^2$")
    sheet.label(right, "Time times loss", r"$\log t$", "$t\\,L$", "best")
