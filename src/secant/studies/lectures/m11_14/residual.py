"""Lecture of 11/14: what is left of gradient flow besides the logarithm of time."""

import math

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from secant.dynamics import late_flow
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared import separable
from secant.theory.bias.margins import max_margin


class Config(Seeded):
    dim: int = options.dim(5, at_least=2, at_most=20)
    support: int = option(3, at_least=1, at_most=20, help="samples that carry the margin, at most one a feature")
    others: int = option(10, at_least=1, at_most=100, help="samples that do not carry the margin")
    far: float = option(1.8, at_least=1.3, at_most=4, help="their margin, over the least")
    until: float = option(60.0, at_least=50, at_most=1e4, help="last logarithm of time")

    def check(self) -> None:
        """Multipliers are unique."""
        if self.support > self.dim:
            raise ValueError(f"support: must be at most {self.dim}, one a feature, got {self.support}.")


def linear(
    Z: np.ndarray, a: np.ndarray, w: np.ndarray, end: np.ndarray, s: np.ndarray, start: np.ndarray
) -> np.ndarray:
    r"""The residual where it is small, at the times `s` from its value at the first.

    $r' = -\sum_Sa_iz_iz_i^\top r + \sum_{i\notin S}z_ie^{-z_i\cdot\tilde w}e^{(1 - z_i\cdot\hat w)s}$
    """
    off = Z[a <= 0]
    inner, size = (Z.T * a) @ Z, np.exp(-off @ end)

    def field(at: float, r: np.ndarray) -> np.ndarray:
        return -inner @ r + (size * np.exp((1 - off @ w) * at)) @ off

    return solve_ivp(field, (s[0], s[-1]), start, t_eval=s, rtol=1e-10, atol=1e-15).y.T


@study("lectures/11-14-residual", section="11-14", title="What is left besides the logarithm")
def run(config: Config) -> xr.Dataset:
    r"""Let $S = \{i : a_i \ne 0\}$ be the support of $\hat w = \sum_ia_iz_i$, let $e^{-z_i\cdot\tilde w} = a_i$ on it,
    and let all other samples have $\theta = \min_{i\notin S}z_i\cdot\hat w > 1$. Then
    $r(t) = w(t) - \hat w\log t - \tilde w$ stays bounded. It goes to zero as $t^{-\lambda}$, with $\lambda$ the least
    of $\theta - 1$ and of the eigenvalues of $\sum_ia_iz_iz_i^\top$ on the span of the support.
    """
    random = np.random.default_rng(config.seed)
    Z, support = separable.far_apart(random, config.support, config.others, config.dim, config.far)
    best = max_margin(Z)
    times = np.unique(np.concatenate([np.linspace(2, 16, 43), np.geomspace(18, config.until, 16)]))
    start, labels = np.zeros(config.dim), np.ones(len(Z))
    flow = late_flow(lambda w, x: x @ w, start, Z, labels, config.until, samples=times, rtol=1e-11)
    left = flow.dataset.theta.values - times[:, None] * best.w
    return xr.Dataset(
        {
            "z": (("sample", "feature"), Z),
            "a": ("sample", best.multipliers),
            "w": ("feature", best.w),
            "left": (("log_time", "feature"), left),
            "reached": (("log_time", "sample"), flow.dataset.margins.values),
            "theta": float((Z[support:] @ best.w).min()),
            "on": int(support),
            "margin": best.margin,
        },
        coords={"log_time": times},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    a, Z, n, k = data.a.values, data.z.values, data.sizes["sample"], config.support
    theta, end, solver = float(data.theta), data.left.values[-1], "the solver's tolerance"
    yield claim("support", "samples with a positive multiplier").count(k, int((a > 0).sum()))
    name = r"$-\log a_i$ less $z_i\cdot(w - \hat w\log t)$ on the support, at the end"
    yield claim("limit", name).zero(np.abs(Z[:k] @ end + np.log(a[:k])).max(), 1e-6, solver)
    moved, s = np.linalg.norm(data.left.values - end, axis=1), data.log_time.values
    early, first = (s >= 12) & (s <= 16), int(np.argmax(s >= 12))
    known = linear(Z, a, data.w.values, end, s[early], data.left.values[first] - end)
    off = np.linalg.norm(data.left.values[early] - end - known, axis=1) / moved[early]
    room = 2 * moved[first] * (Z[:k] ** 2).sum(1).max() + 1e-3
    name = r"residual less that of the equation with all its powers, from $\log t = 12$ to 16, relative"
    yield claim("equation", name).zero(off.max(), room, "what the equation leaves out, a square")
    yield claim("fall", r"largest residual from $\log t = 20$ on over its size at 4").at_most(
        0.05, moved[s >= 20].max() / moved[np.argmin(np.abs(s - 4))], "it goes to zero"
    )
    # Samples that still weigh something at the end, by t e^{-m}.
    weighs = int((s[-1] - data.reached.values[-1] > -10).sum())
    printed, corrected = r"|\{i : a_i = 0\}|", r"|\{i : a_i \ne 0\}|"
    note = "the support has the multipliers that do not vanish"
    yield claim("carriers", "samples that carry the gradient in the end").erratum(
        (printed, n - k), (corrected, k), weighs, 0.0, "a count", where="lecture of 11/14, definition of S", note=note
    )
    grows = np.diff(data.reached.values[[-8, -1]], axis=0)[0] / (s[-1] - s[-8])
    printed, corrected = r"\theta = \min_{i\in S}x_i\cdot\hat w > 0", r"\theta = \min_{i\notin S}x_i\cdot\hat w > 1"
    note = "on the support it is always 1; what matters is how fast all other samples are left behind"
    where = "lecture of 11/14, condition on the residual"
    yield claim("others", r"least growth of a margin off the support, a unit of $\log t$").erratum(
        (printed, 1.0), (corrected, theta), grows[k:].min(), 1e-4, solver, where=where, note=note
    )
    z, where = np.linspace(-3, 3, 601), "lecture of 11/14, growth of the residual"
    wrong, found = float((z * np.expm1(z)).max()), float((z * np.expm1(-z)).max())
    note = "the sign in the exponent is lost"
    printed, corrected = r"z(e^z - 1) \le 0", r"z(e^{-z} - 1) \le 0"
    yield claim("sign", "largest of $z(e^{-z} - 1)$ for $z$ from -3 to 3").erratum(
        (printed, wrong), (corrected, 0.0), found, 1e-15, "rounding", where=where, note=note, by="derivation"
    )
    r = (data.left.values - end) @ Z[:k].T
    yield claim("terms", r"sum over the support of $az(e^{-z} - 1)$, $z = x\cdot r$, all times").at_most(
        0.0, (a[:k] * r * np.expm1(-r)).sum(1).max(), "each term is negative", slack=1e-15
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    s, end, k = data.log_time.values, data.left.values[-1], config.support
    for i, reached in enumerate(data.reached.values.T):
        color, width = ("C0", 1.6) if i < k else ("C1", 0.9)
        left.plot(s, reached - s, color=color, lw=width, label={0: "support", k: "others"}.get(i))
    sheet.mark(left, y=-np.log(data.a.values[:k]), label=r"$-\log a_i$")
    left.set(xlim=(2, 14), ylim=(-4, 14))
    sheet.label(left, "Margins less the logarithm of time", r"$\log t$", r"$z_i\cdot w - \log t$", "lower right")
    moved = np.linalg.norm(data.left.values - end, axis=1)
    shown, late = moved > 1e-9, (s >= 4) & (s <= 16)
    right.semilogy(s[shown], moved[shown], "o-", ms=3, color="C0", label="$|r(t)|$")
    power = min(float(data.theta) - 1, separable.rates(data.z.values[:k], data.a.values[:k])[0])
    sheet.guide(right, s[late], moved[late][-1] * np.exp(-power * (s[late] - s[late][-1])), f"$t^{{-{power:.2f}}}$")
    sheet.label(right, "The residual", r"$\log t$", None, "best", xlim=(2, min(40, math.ceil(s[shown][-1]))))
