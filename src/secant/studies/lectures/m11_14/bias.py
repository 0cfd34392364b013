"""Lecture of 11/14, left open there: gradient flow with a bias, on both losses."""

import numpy as np
import xarray as xr

from secant.dynamics import late_flow
from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real, separable
from secant.theory.bias.margins import Margin, max_margin

SCALES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Sizes of the constant feature."""

TRIES = 100
"""How often data are drawn, at most."""

LENGTH = 5.0
"""Mean length of real samples, beside a constant feature of 1."""

APART = 0.02
"""Two directions nearer than this count as equal."""


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="mnist", help="random, or a data set that secant.data knows")
    classes: tuple[int, int] = option((3, 5), at_least=0, distinct=True, help="two classes of it, +1 and -1")
    samples: int = options.samples(12, 60, at_least=4, at_most=200)
    dim: int = options.dim(2, 60, at_most=100)
    gap: float = option(0.7, at_least=0.2, at_most=5, help="distance of random samples from a plane between them")
    shift: float = option(2.0, at_least=0.5, at_most=10, help="by how much random data are moved off the origin")
    until: float = scaled(smoke=2_000.0, laptop=1e4, at_least=1_000, at_most=1e5, help="last logarithm of time")


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """Distance of two directions."""
    return float(np.linalg.norm(one / np.linalg.norm(one) - other / np.linalg.norm(other)))


def told_apart(random: np.random.Generator, config: Config) -> tuple[np.ndarray, np.ndarray, Margin]:
    """Data and the machine. Random data are drawn until the two candidates differ, whatever the flow does."""
    for _ in range(TRIES):
        if config.data == real.RANDOM:
            x, y = separable.draw(random, config.samples, config.dim, config.gap)
            x = x + config.shift * np.ones(config.dim) / np.sqrt(config.dim)  # off the origin: a bias is needed
        else:
            x, y = separable.load(config.data, config.classes, config.samples, config.dim, config.seed, constant=False)
            x = LENGTH * x
        machine = max_margin(x * y[:, None], labels=y)
        both = max_margin(np.hstack([x, np.ones((config.samples, 1))]) * y[:, None]).w
        clear = apart(both, np.append(machine.w, machine.b)) > 2 * APART and abs(machine.b) > 0.2
        if clear or config.data != real.RANDOM:
            break
    return x, y, machine


@study("lectures/11-14-bias", section="11-14", title="With a bias")
def run(config: Config) -> xr.Dataset:
    r"""The machine $\min\frac12\|w\|^2$ with $y_i(w\cdot x_i + b) \ge 1$ has $w = \sum_ia_iy_ix_i$ and $\sum_ia_iy_i =
    0$. The lecture leaves open where gradient flow of $w\cdot x + b$ on the exponential or the logistic loss goes. It
    goes elsewhere: to the largest margin of $(x, 1)$, where $b$ counts in the norm. With $w\cdot x + c\,b$ it goes to
    the largest margin of $(x, c)$, and this is the machine's own weights up to $1/c^2$.
    """
    random = np.random.default_rng(config.seed)
    x, y, machine = told_apart(random, config)
    times = np.geomspace(2, config.until, 30)
    wide = [np.hstack([x, np.full((config.samples, 1), c)]) for c in SCALES]
    joint = [max_margin(rows * y[:, None]) for rows in wide]
    start = 0.1 * random.normal(size=config.dim + 1)
    flows = [
        late_flow(lambda w, x: x @ w, start, wide[1], y, config.until, loss=loss, samples=times, rtol=1e-7)
        for loss in ("exponential", "logistic")
    ]
    return xr.Dataset(
        {
            "x": (("sample", "feature"), x),
            "y": ("sample", y),
            "w": ("feature", machine.w),
            "b": machine.b,
            "a": ("sample", machine.multipliers),
            "residual": machine.residual,
            "margin": machine.margin,
            "joint": (("scale", "part"), np.stack([one.w for one in joint])),
            "norm": ("scale", [1 / o.margin for o in joint]),
            "flow": (("loss", "log_time", "part"), np.stack([one.dataset.theta.values for one in flows])),
            "log_loss": (("loss", "log_time"), np.stack([one.dataset.log_loss.values for one in flows])),
        },
        coords={"scale": list(SCALES), "loss": ["exponential", "logistic"], "log_time": times},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    x, y, a, w, b = data.x.values, data.y.values, data.a.values, data.w.values, float(data.b)
    gamma, slack = float(data.margin), y * (x @ w + b) - 1
    yield claim("machine", "machine: distance of its margin from the bound of its multipliers, relative").zero(
        data.residual, 1e-9, "rounding"
    )
    yield claim("machine-weights", r"machine: $|w - \sum_ia_iy_ix_i|$, relative").zero(
        np.linalg.norm(w - (a * y) @ x) * gamma, 1e-8, "rounding"
    )
    yield claim("machine-balance", r"machine: $\sum_ia_iy_i$ over $\sum_ia_i$").zero(a @ y / a.sum(), 1e-9, "rounding")
    name, product = r"machine: least slack of $y(w\cdot x + b) - 1$", (a * slack).max() / a.max()
    yield claim("machine-slack", name).at_least(0.0, slack.min(), "to rounding", slack=1e-9)
    name = "machine: largest $a$ times slack over the largest $a$"
    yield claim("machine-complementary", name).zero(product, 1e-8, "rounding")
    both, alone = data.joint.sel(scale=1.0).values, np.append(w, b)
    for loss in data.loss.values:
        end = data.flow.sel(loss=loss).isel(log_time=-1).values
        yield claim(
            f"direction-{loss}",
            f"{loss}: distance of the flow from the direction of $(x, 1)$, over its distance from the machine",
            given=apart(alone, both) > APART,
            otherwise="the two are the same on these data",
        ).at_most(0.5, apart(end, both) / apart(end, alone), r"it goes to zero as $1/\log t$")
        limit = np.exp(data.log_loss.sel(loss=loss)[-1] + config.until) / float(both @ both)
        yield claim(f"loss-{loss}", f"{loss}: $tL$ over the squared norm of its weights").equal(
            1.0, limit, 1e-4, "the solver's tolerance"
        )
    # The last weight of (x, c) is b/c: to this order the squared norm is the machine's plus b^2/c^2.
    c, given = SCALES[-1], abs(b) > 0.1
    name = f"squared norm for $(x, {c:g})$ less the machine's, over $b^2/c^2$"
    yield claim("wide", name, given=given, otherwise="the machine has hardly a bias").equal(
        1.0, (float(data.norm[-1]) ** 2 - gamma**-2) * c**2 / b**2, 0.01, "the next order in $1/c^2$"
    )
    yield claim("free-bias", "least norm with a bias that counts, less the norm of the machine's weights").at_least(
        0.0, float(data.norm.min()) - 1 / gamma, "the free bias is the least", slack=1e-9 / gamma
    )
    growth = np.diff(data.norm.values).max() * gamma
    yield claim("norm-growth", "growth of the norm with the size of the constant, largest").at_most(
        0.0, growth, "a larger constant costs less", slack=1e-9
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    both, alone = data.joint.sel(scale=1.0).values, np.append(data.w, data.b)
    for i, loss in enumerate(data.loss.values):
        for ls, end, words in (("-", both, "from that of $(x, 1)$"), ("--", alone, "from the machine")):
            distance = [apart(w, end) for w in data.flow.sel(loss=loss).values]
            left.loglog(data.log_time, distance, ls, color=f"C{i}", label=f"{loss}, {words}")
    sheet.label(left, r"Where the flow of $w\cdot x + b$ goes", r"$\log t$", "distance of directions", "best")
    beyond = data.norm**2 - float(data.margin) ** -2
    right.loglog(data.scale, beyond, "o-", color="C0", label="largest margin of $(x, c)$")
    sheet.guide(right, data.scale, float(data.b) ** 2 / data.scale**2, "$b^2/c^2$")
    norm = "squared norm beyond the machine's"
    sheet.label(right, "To the machine with a free bias", "constant feature $c$", norm, "lower left")
