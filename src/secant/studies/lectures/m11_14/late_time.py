"""Beyond the lecture of 11/14: where a run is at any late time, from the multipliers of the largest margin."""

import math
from typing import Any

import numpy as np
import xarray as xr

from secant import data as datasets
from secant.dynamics import late_flow
from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real, separable
from secant.theory.bias.margins import max_margin

LATE = 3e4
"""The last logarithm of time."""

CASES = ("random", "real")


class Config(real.Chosen):
    data: str = scaled(smoke="digits", laptop="mnist", help="real data beside the random data")
    classes: tuple[int, int] = scaled(
        smoke=(0, 1), laptop=(3, 5), at_least=0, distinct=True, help="two classes of them, +1 and -1"
    )
    images: int = scaled(smoke=40, laptop=100, at_least=10, at_most=300, help="real samples")
    samples: int = options.samples(20, at_least=4, at_most=100)
    dim: int = options.dim(5, at_least=2, at_most=20)
    gap: float = option(0.5, at_least=0.2, at_most=5, help="distance of random samples from a plane between them")
    steps: int = options.steps(3_000, 10**5, at_least=1_000, at_most=10**6)

    def check(self) -> None:
        """Real data."""
        super().check()
        if self.data == real.RANDOM:
            raise ValueError(f"data: must be one of {', '.join(datasets.NAMES)}, got {self.data!r}.")


def product(params: dict[str, Any], x: Any) -> Any:
    """A diagonal network."""
    return x @ (params["u"] * params["v"])


@study("lectures/11-14-late-time", section="11-14", title="Late times without a run", new=True)
def run(config: Config) -> xr.Dataset:
    r"""Gradient flow on $\sum_ie^{-z_i\cdot w}$ is $w = \hat w\log t + \tilde w + O(t^{-\lambda})$ with
    $z_i\cdot\tilde w = -\log a_i$ on the support. Here $\lambda$ is the least of $\min_{i\notin S}z_i\cdot\hat w - 1$
    and the eigenvalues of $\sum_ia_iz_iz_i^\top$ on the span of the support. So $tL \to \sum_ia_i = 1/\gamma^2$, and at
    time $t$ the flow has reached the share $(\log t - \max\log a)/(\log t - \gamma^2\sum_ia_i\log a_i)$ of the margin,
    up to $1/\log^2t$. The multipliers give all this without a run. Homogeneous models of degree $\alpha$ have
    $tL(\log t)^{2 - 2/\alpha} \to \alpha^{-2}\gamma^{-2/\alpha}$.
    """
    random = np.random.default_rng(config.seed)
    rows = {
        "random": separable.draw(random, config.samples, config.dim, config.gap).z,
        "real": separable.load(config.data, config.classes, config.images, None, config.seed).z,
    }
    times = np.geomspace(10, LATE, 40)
    cases: list[dict[str, Any]] = []
    for name in CASES:
        Z = rows[name]
        best = max_margin(Z)
        flow = late_flow(lambda w, x: x @ w, np.zeros(Z.shape[1]), Z, np.ones(len(Z)), LATE, samples=times, rtol=1e-7)
        left = flow.dataset.theta.values[-1] - LATE * best.w
        support = np.abs(Z[best.support] @ left + np.log(best.multipliers[best.support])).max()
        cases.append(
            {
                "share": flow.dataset.margin.values / best.margin,
                "exact": best.late_share(times),
                "loss": flow.dataset.log_loss.values + times + 2 * math.log(best.margin),
                "support": support,
                "evaluations": flow.evaluations,
                "across": np.linalg.norm(left - best.w * (best.w @ left) * best.margin**2) * best.margin,
                "margin": best.margin,
            }
        )
    # A plain run, on data that settle soon.
    Z, _ = separable.far_apart(random, 2, 10, config.dim, 3.0)
    best, lr, w = max_margin(Z), 1.0 / float((Z**2).sum(1).max()), np.zeros(config.dim)
    descent = []
    for _ in range(config.steps):
        w = w + lr * np.exp(-Z @ w) @ Z
        descent.append((Z @ w).min() / np.linalg.norm(w) / best.margin)
    reached = np.log(lr * np.arange(1, config.steps + 1))
    start = {"u": 1 + random.random(config.dim), "v": np.where(random.random(config.dim) < 0.5, -1.0, 1.0)}
    net = late_flow(product, start, rows["random"], np.ones(config.samples), LATE, samples=times, rtol=1e-6)
    return xr.Dataset(
        {
            name: (("case", "log_time")[: 1 + np.ndim(one)], [case[name] for case in cases])
            for name, one in cases[0].items()
        }
        | {
            "descent": ("step", descent),
            "promised": ("step", best.late_share(np.maximum(reached, 0.1))),
            "net_loss": ("log_time", net.dataset.log_loss.values),
            "net_margin": ("log_time", net.dataset.margin.values),
            "net_evaluations": net.evaluations,
            "net_kkt": ("log_time", net.dataset.kkt.values),
        },
        coords={"case": list(CASES), "log_time": times, "step": reached},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for case in CASES:
        one, name = data.sel(case=case), config.data if case == "real" else case
        sentence = rf"{name}: $z\cdot(w - \hat w\log t) + \log a$ on the support, at $\log t = {LATE:g}$"
        yield claim(f"support-{case}", sentence).zero(one.support, 1e-3, r"the solver's tolerance times $\log t$")
        why, limit = r"the solver's tolerance times $\log t$", np.exp(one.loss[-1])
        yield claim(f"loss-{case}", rf"{name}: $tL\gamma^2$ at the end").equal(1.0, limit, 1e-3, why)
        for s in (1_000, LATE):
            at = one.sel(log_time=s, method="nearest")
            when, promised = float(at.log_time), 1 - float(at.exact)
            # Across w^ the weights add |P w~|^2/2 to the norm, over log t twice.
            room = 2 * float(at.across) ** 2 / max(when * promised * when, 1e-12) + 0.02
            yield claim(
                f"margin-{case}-{s:g}",
                rf"{name}: what is missing of the margin at $\log t$ near {s:g}, over what is promised",
                given=promised > 1e-9,
                otherwise="one sample carries the margin: nothing is missing to this order",
            ).equal(
                1.0, lambda at=at, promised=promised: (1 - at.share) / promised, room, r"the next order in $1/\log t$"
            )
        yield claim(f"cost-{case}", rf"{name}: evaluations of the field to $\log t = {LATE:g}$").at_most(
            5_000, one.evaluations, "a stiff solver"
        )
    name = f"gradient descent, {config.steps:,} steps: what is missing over what is promised"
    missing, note = (1 - data.descent[-1]) / (1 - data.promised[-1]), "ten easy samples, two that carry the margin"
    yield claim("descent", name).equal(1.0, missing, 0.25, r"the next order, $1/\log t$ of it", note=note)
    yield claim("loss-diagonal", r"diagonal network: $tL\log t$ over $1/(4\gamma)$ at the end").equal(
        1.0, diagonal_limit(data)[-1], 0.05, r"corrections in powers of $1/\log t$"
    )
    yield claim("cost-diagonal", rf"diagonal network: evaluations of the field to $\log t = {LATE:g}$").at_most(
        5_000, data.net_evaluations, "a stiff solver"
    )


def diagonal_limit(data: xr.Dataset) -> xr.DataArray:
    r"""$4\gamma\,tL\log t$ of the diagonal network, which goes to 1."""
    return np.exp(data.net_loss + data.log_time) * data.log_time * 4 * data.net_margin


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    for i, case in enumerate(CASES):
        one, name = data.sel(case=case), config.data if case == "real" else case
        left.loglog(data.log_time, 1 - one.share, "o", ms=4, color=f"C{i}", label=f"{name}, flow")
        sheet.guide(left, data.log_time, 1 - one.exact, "without a run" if i == 0 else None)
        middle.semilogx(data.log_time, np.exp(one.loss), color=f"C{i}", label=name)
    missing, limit = r"$1 - $margin$/\gamma$", r"$\alpha^2\gamma^{2/\alpha}\,tL\,(\log t)^{2 - 2/\alpha}$"
    sheet.label(left, "What is missing of the margin", r"$\log t$", missing, "lower left")
    middle.plot(data.log_time, diagonal_limit(data), color="C2", label="diagonal network")
    sheet.mark(middle, y=1.0)
    sheet.label(middle, "Time times loss, over its limit", r"$\log t$", limit, "best")
    late = data.sel(step=data.step > 1.0)
    right.semilogy(late.step, 1 - late.descent, color="C0", label="gradient descent")
    sheet.guide(right, late.step, 1 - late.promised, "without a run")
    sheet.label(right, f"{config.steps:,} steps of descent", r"$\log\eta T$", missing, "best")
