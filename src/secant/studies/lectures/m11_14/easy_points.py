"""Lecture of 11/14: samples that are easier than the support change nothing in the end."""

import numpy as np
import xarray as xr

from secant.dynamics import late_flow
from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real, separable
from secant.theory.bias.margins import max_margin


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="usps", help="random, or a data set that secant.data knows")
    classes: tuple[int, int] = option((3, 5), at_least=0, distinct=True, help="two classes of it, +1 and -1")
    images: int = option(60, at_least=10, at_most=200, help="of real data, easy or not")
    dim: int = options.dim(3, at_least=2, at_most=20)
    support: int = option(2, at_least=1, at_most=20, help="samples that carry their margin, at most one a feature")
    easy: int = option(20, at_least=1, at_most=500, help="samples that are added")
    far: float = option(2.0, at_least=1.3, at_most=20, help="their margin, over the least")
    until: float = scaled(smoke=200.0, laptop=1e5, at_least=200, at_most=1e6, help="last logarithm of time")

    def check(self) -> None:
        """Multipliers are unique."""
        super().check()
        if self.support > self.dim:
            raise ValueError(f"support: must be at most {self.dim}, one a feature, got {self.support}.")


@study("lectures/11-14-easy-points", section="11-14", title="Easy points change nothing")
def run(config: Config) -> xr.Dataset:
    r"""Adding samples with $z\cdot\hat w > 1$ leaves the weights $\hat w$ of largest margin as they are. So it also
    leaves the direction in which gradient flow ends and the limit $1/\gamma^2$ of $tL$. A sample with $z\cdot\hat w <
    1$ changes $\hat w$. The classifier does not depend on the length of $w$.
    """
    random = np.random.default_rng(config.seed)
    if config.data == real.RANDOM:
        Z, k = separable.far_apart(random, config.support, config.easy, config.dim, config.far)
    else:
        Z, k = separable.in_order(separable.load(config.data, config.classes, config.images, None, config.seed).z)
    before, after = max_margin(Z[:k]), max_margin(Z)
    hard = Z.mean(0) * 0.5 / float(Z.mean(0) @ before.w)  # with margin one half
    worse = max_margin(np.vstack([Z, hard]))
    times = np.geomspace(1, config.until, 30)
    flows = [
        late_flow(lambda w, x: x @ w, np.zeros(Z.shape[1]), rows, np.ones(len(rows)), config.until, samples=times)
        for rows in (Z[:k], Z)
    ]
    return xr.Dataset(
        {
            "best": (("data", "feature"), np.stack([before.w, after.w, worse.w])),
            "margin": ("data", [before.margin, after.margin, worse.margin]),
            "w": (("flow", "log_time", "feature"), np.stack([flow.dataset.theta.values for flow in flows])),
            "log_loss": (("flow", "log_time"), np.stack([flow.dataset.log_loss.values for flow in flows])),
            "z": (("sample", "feature"), np.vstack([Z, hard])),
            "on": k,
            "power": separable.slowest(Z, k),
        },
        coords={"data": ["support", "with easy", "with hard"], "flow": ["support", "with easy"], "log_time": times},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    base, easy, hard = (data.best.sel(data=name).values for name in data["data"].values)
    size = np.linalg.norm(base)
    yield claim("easy", "weights of largest margin: change by easy samples, relative").zero(
        np.linalg.norm(easy - base) / size, 1e-9, "rounding of a linear system"
    )
    moved, why = np.linalg.norm(hard - base) * np.linalg.norm(data.z[-1]), "its margin has to grow by a half, and grows"
    yield claim("hard", "a sample of half the margin: change of the best weights times its length").at_least(
        0.5, moved, f"{why} by at most $|z|$ times the change"
    )
    gammas, until, k = data.margin.values, config.until, int(data.on)
    # What has not settled yet falls with the least power of 1/t. It is of size one where the time has not come.
    left = float(np.exp(-float(data.power) * until))
    unsettled = "the solver's tolerance, and what has not settled"
    for name in data.flow.values:
        one = data.sel(flow=name)
        unit = one.w[-1].values / np.linalg.norm(one.w[-1])
        apart = np.linalg.norm(unit - base / size) * until / (10 * data.sizes["feature"])
        yield claim(
            f"direction-{name}", rf"flow, {name}: distance of the direction at $\log t = {until:g}$ times $\log t$"
        ).zero(apart, 1.0, "it is bounded")
        yield claim(f"loss-{name}", rf"flow, {name}: $tL\gamma^2$").equal(
            1.0, np.exp(one.log_loss[-1] + until) * gammas[0] ** 2, 1e-5 + left, unsettled
        )
    # On the span of the support both flows keep the same w~.
    ends = data.w.isel(log_time=-1).values @ data.z.values[:k].T
    yield claim("margins", "flows: margins of the support with and without easy samples, at the end").zero(
        np.abs(ends[0] - ends[1]).max(), 1e-5 + 10 * left, rf"both are $\log t - \log a$; {unsettled}"
    )
    w, z = data.w.isel(flow=1, log_time=-1).values, data.z.values
    changed = int((np.sign(z @ w) != np.sign(z @ (1e-3 * w))).sum())
    yield claim("length", "samples whose class changes with the length of $w$").count(0, changed)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    base = data.best.sel(data="support").values
    along = data.z.values @ base
    side = np.sqrt(np.maximum((data.z.values**2).sum(1) - along**2 / (base @ base), 0))
    k = int(data.on)
    left.plot(side[:k], along[:k], "o", ms=8, color="C0", label="support")
    left.plot(side[k:-1], along[k:-1], "o", ms=4, color="C1", label="easy")
    left.plot(side[-1:], along[-1:], "X", ms=9, color="C3", label="hard")
    sheet.mark(left, y=1.0, label="margin")
    sheet.label(left, "What is added", r"distance from the line of $\hat w$", r"$z\cdot\hat w$", "best")
    for i, name in enumerate(data.flow.values):
        right.plot(data.log_time, np.exp(data.log_loss.sel(flow=name) + data.log_time), color=f"C{i}", label=name)
    sheet.mark(right, y=float(data.margin[0]) ** -2, label=r"$1/\gamma^2$")
    sheet.label(right, "Time times loss", r"$\log t$", "$t\\,L$", "best", xscale="log")
