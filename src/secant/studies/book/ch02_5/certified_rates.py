"""Section 2.5, beyond the book: the exact worst case of a method, with the function that attains it."""

from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Options, claim, option, options, sheet, study
from secant.studies.shared.numerics.differences import largest
from secant.theory.descent import rates, step_matrices
from secant.theory.descent.certificates import Certificate, worst_case
from secant.theory.edge import stability

SOLVER = 1e-6
"""Relative accuracy of the solver: it stops at a gap of 1e-10, and some optima are flat."""

SEEN: dict[str, Any] = {"measure": "seen_gradient", "start": "drop", "convex": False}


class Config(Options):
    steps: tuple[int, ...] = options.steps(
        (1, 2, 3, 5, 7, 10), (1, 2, 3, 4, 5, 6, 7, 8, 10, 12), at_most=12, longest=12, ascending=True
    )
    sizes: tuple[float, ...] = option(
        (0.5, 1.0, 1.5, 1.7, 1.85, 1.95), above=0, at_most=2, longest=12, ascending=True, help="step sizes times L"
    )
    lr: float = options.lr(0.5, at_most=1)
    beta: float = option(0.5, at_least=0, at_most=0.9, help="share of a step that momentum keeps")
    condition: float = option(30.0, at_least=10, at_most=300, help="largest over smallest curvature, heavy ball")


METHODS = {
    "gradient descent": lambda n: np.eye(n),
    "long steps": step_matrices.silver,
    "Nesterov": step_matrices.accelerated,
    "optimised": step_matrices.optimised,
}


@study("book/certified-rates", section="2.5", title="The exact worst case of a method", new=True)
def run(config: Config) -> xr.Dataset:
    r"""A semidefinite program finds the worst case of a method with fixed steps over all functions of a class of
    curvatures, and a function that attains it. After $N$ steps from $|x_0 - x_*| = R$ on convex $L$-smooth functions
    the worst case of gradient descent is $LR^2/(4N + 2)$. With steps $h/L$ it is $\frac{LR^2}2\max(\frac1{2Nh + 1}, (1
    - h)^{2N})$. The worst case of the optimised method is $LR^2/2\theta_N^2$. Without convexity the least of $T$
    squared gradients is at most $4\beta M/(3T - 1)$; the book prints $4M\beta/T$ and proves $2M\beta/T$. Their mean is
    at most $2\beta M/T$. No bound is smaller.
    """
    found: dict[str, list[Certificate]] = {name: [] for name in (*METHODS, "momentum", "least", "mean")}
    for n in config.steps:
        for name, method in METHODS.items():
            found[name].append(worst_case(method(n)))
        found["momentum"].append(worst_case(stability.heavy_ball(config.lr, config.beta), n))
        found["least"].append(worst_case(np.eye(n), **SEEN))
        found["mean"].append(worst_case(np.eye(n), **SEEN | {"measure": "mean_gradient"}))
    middle = config.steps[len(config.steps) // 2]
    steps = [worst_case(size * np.eye(middle)) for size in config.sizes]
    low = 1 / config.condition
    tuned = stability.heavy_ball(*rates.heavy_ball(low, 1.0)[:2])
    ball = [worst_case(tuned, n, convex=low, measure="distance") for n in config.steps]
    table = lambda what: np.array([[what(one) for one in many] for many in found.values()])  # noqa: E731
    return xr.Dataset(
        {
            "value": (("method", "steps"), table(lambda one: one.value)),
            "replay": (("method", "steps"), table(lambda one: one.replay().measure)),
            "slack": (("method", "steps"), table(lambda one: one.slack)),
            "multiplier": (("method", "steps"), table(lambda one: one.multipliers.min())),
            "by_size": ("size", [one.value for one in steps]),
            "ball": ("steps", [one.value for one in ball]),
            "middle": middle,
        },
        coords={"method": list(found), "steps": list(config.steps), "size": list(config.sizes)},
    )


def _by_size(n: int, size: np.ndarray) -> np.ndarray:
    return np.maximum(1 / (2 * n * size + 1), (1 - size) ** (2 * n)) / 2


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    n, middle, solver = data.steps.values, int(data.middle), "the solver's accuracy"
    known = {
        "gradient descent": ("$LR^2/(4N + 2)$", rates.convex_descent(1.0, 1.0, n)),
        "optimised": (r"$LR^2/2\theta^2$", np.array([rates.optimised(1.0, 1.0, int(one)) for one in n])),
        "least": (r"$4\beta M/(3T - 1)$", rates.least_gradient(1.0, 1.0, n)),
        "mean": (r"$2\beta M/T$", rates.gradient_descent(1.0, 1.0, n)),
    }
    for name, (formula, exact) in known.items():
        off = largest(data.value.sel({"method": name}) / exact, 1)
        yield claim(f"worst-{name}", f"{name}: worst case over {formula}, less 1, all $N$").zero(off, SOLVER, solver)
    off = largest(data.by_size / _by_size(middle, data["size"].values), 1)
    sentence = r"worst case over $\max(1/(4Nh + 2), (1 - h)^{2N}/2)$, less 1, all $h$"
    yield claim("worst-by-size", f"gradient descent, $N = {middle}$: {sentence}").zero(off, SOLVER, solver)
    for name in data.method.values:
        kept = np.isfinite(data.value.sel({"method": name}))
        value, replay = (data[what].sel({"method": name})[kept] for what in ("value", "replay"))
        sentence = f"{name}: run on its worst function, over the worst case, less 1"
        yield claim(f"replay-{name}", sentence, given=kept.any(), otherwise="there is no guarantee").zero(
            lambda v=value, r=replay: largest(r / v, 1), 3 * SOLVER, f"{solver}, carried through the run"
        )
    least = min(float(data.slack.min()), float(data.multiplier.min()))
    yield claim("proofs", "proofs: smallest multiplier or eigenvalue that must not be negative").at_least(
        0, least, solver, slack=1e-7
    )
    worst = {name: data.value.sel({"method": name}).values for name in METHODS}
    yield claim("nesterov", "Nesterov: worst case over $2LR^2/(N + 1)^2$, all $N$").at_most(
        1, (worst["Nesterov"] * (n + 1) ** 2 / 2).max(), "his bound"
    )
    best = max((worst["optimised"] / worst[name]).max() for name in METHODS)
    yield claim("optimal", "the optimised method over any other: the largest ratio, all $N$").at_most(
        1 + SOLVER, best, "no method surpasses it"
    )
    longest = [i for i, one in enumerate(n) if one & (one + 1) == 0 and one > 1]
    sentence, ratio = "long steps over gradient descent, $N = 2^k - 1$: the largest", worst["long steps"]
    yield claim("long-steps", sentence, given=longest, otherwise="no length is $2^k - 1$").at_most(
        1, lambda: (ratio / worst["gradient descent"])[longest].max(), "long steps at the right time pay"
    )
    factor = rates.heavy_ball(1 / config.condition, 1.0).factor
    sentence = f"condition {config.condition:g}: worst $|x_N - x_*|^2$, $N = {n[-1]}$"
    yield claim("heavy-ball", f"heavy ball tuned for parabolas, {sentence}").at_least(
        factor ** (2 * n[-1]),
        float(data.ball[-1]),
        "parabolas are among the functions",
        note=f"a factor of {factor:.3f} a step on parabolas; on other functions of the class it may end farther off",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    n, log = data.steps.values, {"xscale": "log", "yscale": "log"}
    for i, name in enumerate((*METHODS, "momentum")):
        left.plot(n, data.value.sel({"method": name}), "o-", ms=4, lw=1, color=f"C{i}", label=name)
    fine = np.geomspace(n[0], n[-1], 50)
    sheet.guide(left, fine, rates.convex_descent(1.0, 1.0, fine), "$1/(4N + 2)$")
    exact = [rates.optimised(1.0, 1.0, int(one)) for one in n]
    sheet.guide(left, n, exact, r"$1/2\theta_N^2$", ls=":")
    sheet.label(left, "Worst case, convex", "steps $N$", r"$(f(x_N) - f_*)/LR^2$", "lower left", **log)
    size = np.linspace(0.05, max(2.0, config.sizes[-1]), 300)
    count = int(data.middle)
    middle.plot(data["size"], data.by_size, "o", ms=5, label="worst case")
    sheet.guide(middle, size, _by_size(count, size), r"$\frac{1}{2}\max(\frac{1}{2Nh + 1}, (1 - h)^{2N})$")
    sheet.label(middle, f"Gradient descent, {count} steps of $h/L$", "$h$", None, "upper center", yscale="log")
    right.plot(n, data.value.sel({"method": "least"}), "o", ms=5, label="least gradient")
    right.plot(n, data.value.sel({"method": "mean"}), "s", ms=4, label="mean gradient")
    sheet.guide(right, fine, 4 / fine, "$4/T$, printed")
    sheet.guide(right, fine, 2 / fine, "$2/T$", ls="-.")
    sheet.guide(right, fine, 4 / (3 * fine - 1), "$4/(3T - 1)$", ls=":")
    sheet.label(right, "Worst case, not convex", "steps $T$", r"$|\nabla|^2/\beta M$", "lower left", **log)
