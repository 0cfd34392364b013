r"""Theorem 12.3.5: the linear scaling rule holds up to $C(1 + \kappa)\eta$."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared.parabolas import agree, chains, three
from secant.theory.noise.weak_error import order

START = 3.0


class Config(Seeded):
    lr: float = options.lr(0.0125, at_least=1e-3, at_most=0.02)
    factors: tuple[int, ...] = option(
        (1, 2, 4, 8),
        at_least=1,
        at_most=16,
        shortest=3,
        longest=6,
        ascending=True,
        help="factors of batch and step size, the first is 1",
    )
    draws: int = options.draws(20_000, 100_000, at_least=1_000, at_most=10**5)

    def check(self) -> None:
        """Whole numbers of steps up to the time 1, and small step sizes."""
        steps = round(1 / self.lr)
        if abs(steps * self.lr - 1) > 1e-9 or any(steps % k for k in self.factors):
            raise ValueError(f"lr: 1/lr must be a multiple of all factors, got {self.lr} with {self.factors}.")
        if self.factors[0] != 1 or max(self.factors) * self.lr > 0.2:
            raise ValueError(f"factors: must run from 1 to at most 0.2/lr, got {self.factors}.")


@study("book/thm-12.3.5", section="12.3", title="The linear scaling rule, and its end")
def run(config: Config) -> xr.Dataset:
    r"""Batch and step size times $\kappa$ leave $\sqrt\eta\sigma$, and so the equation, unchanged. Both runs are near
    the equation, hence near each other: $|\mathbb Eg(x_k^{(B)}) - \mathbb Eg(x_{\lfloor k/\kappa\rfloor}^{(\kappa B)})|
    \le C(1 + \kappa)\eta$. On three parabolas the difference is $C_g(\kappa - 1)\eta$ to first order, with $C_x =
    2te^{-2t}x_0$. It is linear in $\kappa$, and as large as the mean itself once $\kappa\eta$ is of order 1.
    """
    model, random, times = three(), np.random.default_rng(config.seed), round(1 / (config.lr * max(config.factors)))
    rows, real = [], []
    for k in config.factors:
        walk = model.sgd(config.lr * k, k**-0.5)
        each = max(config.factors) // k if max(config.factors) % k == 0 else None
        course = [walk.moments([START], t * each) for t in range(times + 1)] if each else []
        last = walk.moments([START], round(1 / (config.lr * k)))
        way = [m.mean.item() for m in course] or [np.nan] * (times + 1)
        rows.append((last.mean.item(), last.covariance.item(), way))
        if k in (config.factors[0], config.factors[-1]):
            real.append(chains(random, (config.draws,), model, config.lr * k, round(1 / (config.lr * k)), START, k))
    equation = model.diffusion(config.lr).moments([START], 1.0)
    return xr.Dataset(
        {
            "mean": ("factor", [row[0] for row in rows]),
            "variance": ("factor", [row[1] for row in rows]),
            "course": (("factor", "time"), [row[2] for row in rows]),
            "batches": (("end", "draw"), np.array(real)),
            "equation_mean": equation.mean.item(),
            "equation_variance": equation.covariance.item(),
        },
        coords={"factor": list(config.factors), "time": np.linspace(0, 1, times + 1), "end": ["first", "last"]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    kappa, lr = data.factor.values, config.lr
    size, next_order = 2 * lr * float(kappa.max()), "the next order: curvature times the largest step size"
    for end, i in (("first", 0), ("last", -1)):
        name, x = f"batches of {kappa[i]} independent samples", data.batches.sel(end=end)
        yield from agree(f"batch-{kappa[i]}", name, x, float(data["mean"][i]), float(data.variance[i]))
    gaps = {name: np.abs((data[name] - data[name][0]).values) for name in ("mean", "variance")}
    for name, gap in gaps.items():
        yield claim(f"order-{name}", rf"order of the deviation of the {name} in $\kappa - 1$").equal(
            1, order(kappa[1:] - 1, gap[1:]).value, size, next_order
        )
    gap = gaps["mean"]
    leading = 2 * math.exp(-2) * START * (kappa[1] - 1) * lr
    name = r"deviation of the mean at the second $\kappa$, over $2e^{-2}x_0(\kappa - 1)\eta$"
    yield claim("leading", name).equal(1, gap[1] / leading, 2 * lr * kappa[1], r"the next order in $2\kappa\eta$")
    course = np.abs(data.course - data.course[0]).max("time").values
    known = np.isfinite(course)
    most = (course[known] / (START / math.e * (1 + kappa[known]) * lr)).max()
    yield claim("bound", r"largest deviation along the way, over $C(1 + \kappa)\eta$, $C = x_0/e$").at_most(
        1, most, "the largest value of $2te^{-2t}x_0$, which is of first order", relative=size
    )
    yield claim("printed-equation", r"deviation of the mean at the largest $\kappa$, over the second").erratum(
        (r"M_g = C(1 + \kappa)\eta", (1 + kappa[-1]) / (1 + kappa[1])),
        (r"D_g \le C(1 + \kappa)\eta;\ \text{here } C(\kappa - 1)\eta", (kappa[-1] - 1) / (kappa[1] - 1)),
        gap[-1] / gap[1],
        0,
        next_order,
        relative=size,
        note=r"A bound is printed as an equation. It would not vanish at $\kappa = 1$, where both runs are the same.",
        where="theorem 12.3.5",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    for i, k in enumerate(config.factors):
        left.plot(data.time, data.course.sel(factor=k), "o-", ms=3, color=f"C{i}", label=rf"$\kappa = {k}$")
    t = np.linspace(0, 1, 100)
    sheet.guide(left, t, START * np.exp(-2 * t), "the equation")
    sheet.label(left, "Mean along the way", r"$t = k\eta$", r"$\mathbb{E}\,x$", "best")
    kappa = data.factor.values
    right.plot(kappa, np.abs(data["mean"] - data["mean"][0]), "o-", label="mean")
    right.plot(kappa, np.abs(data.variance - data.variance[0]), "s-", label="variance")
    sheet.guide(right, kappa, 2 * math.exp(-2) * START * (kappa - 1) * config.lr, r"$2e^{-2}x_0(\kappa - 1)\eta$")
    sheet.label(right, "Deviation at the time 1", r"$\kappa$", "from the smallest batch", "upper left")
