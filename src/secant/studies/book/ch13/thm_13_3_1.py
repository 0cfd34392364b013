"""Theorem 13.3.1: step sizes that grow exponentially replace weight decay."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.studies.shared.scale_invariant import Quotient
from secant.theory.normalization.scale_invariance import schedule_without_decay

SPECTRUM = np.array([1.0, 0.5, 0.2, 0.1, 0.0])
PAIRS = ((0.05, 0.05), (0.1, 0.05), (0.5, 0.02))
"""Constant step sizes and decays."""
CASES = {f"{eta:g}-{decay:g}": rf"$\eta = {eta:g}$, $\lambda = {decay:g}$" for eta, decay in PAIRS}
CASES |= {"pieces": r"$\eta$ in three pieces, $\lambda = 0.05$"}
"""Short name -> name of each run."""


class Config(Seeded):
    steps: int = options.steps(200, at_least=20, at_most=2_000)
    spread: float = option(
        0.02, at_least=0, at_most=0.1, help="standard deviation of each loss's noise in its eigenvalues"
    )
    width: int = options.width(16, 64, at_least=4, at_most=256)
    epochs: int = scaled(smoke=25, laptop=100, at_least=3, at_most=200, help="passes over the network's 32 samples")


def of_weights(random: np.random.Generator, etas: np.ndarray, decay: float, config: Config) -> dict[str, Any]:
    """Both runs on quotients that change from step to step, and the first step size that keeps them together."""
    schedule = schedule_without_decay(etas, decay)
    # Weights so long that the step size on the sphere stays below half of the edge, 2 over the curvature, all the way.
    long = etas.max() * Quotient(SPECTRUM).smoothness / schedule.scale[-1] ** 2
    w = random.normal(size=5)
    w = twin = w * np.sqrt(long) / np.linalg.norm(w)
    apart, first = [0.0], np.nan
    for t, lr in enumerate(etas):
        loss = Quotient(SPECTRUM + config.spread * random.normal(size=5))
        g = loss.gradient(w)
        new = (1 - lr * decay) * w - lr * g
        if t == 0:
            first = float(np.linalg.norm(w - new / (1 - lr * decay)) / np.linalg.norm(g))
        w, twin = new, twin - schedule.lr[t] * loss.gradient(twin)
        apart.append(float(np.linalg.norm(w / np.linalg.norm(w) - twin / np.linalg.norm(twin))))
    end = np.linalg.norm(schedule.scale[-1] * twin - w) / np.linalg.norm(w)
    return {"apart": max(apart), "end": end, "first": first, "schedule": schedule.lr}


def of_network(random: np.random.Generator, config: Config) -> dict[str, np.ndarray]:
    """Losses of a layer-norm network with decay, and of its twin without decay on the same batches."""
    lr, decay, n, batch = 0.1, 0.04, 32, 8
    x = random.normal(size=(n, 4))
    y = np.sign(x @ random.normal(size=4))
    net = nets.scale_invariant([config.width], activation="tanh")
    start = random.normal(size=(4, config.width)) / np.sqrt(4 * config.width)
    rows = np.concatenate([random.permutation(n).reshape(-1, batch) for _ in range(config.epochs)])
    growing = schedule_without_decay(lr, decay, len(rows)).lr

    def loss(w: Any, index: Any) -> Any:
        outputs = net.apply(({"weight": w}, (), (), (), ()), jnp.asarray(x)[index])
        return jnp.mean(jnp.logaddexp(0.0, -jnp.asarray(y)[index] * outputs))

    def both(pair: Any, given: Any) -> Any:
        index, size = given
        values, slopes = jax.vmap(jax.value_and_grad(loss), (0, None))(pair, index)
        kept, steps = jnp.array([1 - lr * decay, 1.0]), jnp.stack([jnp.asarray(lr), size])
        return kept[:, None, None] * pair - steps[:, None, None] * slopes, values

    _, losses = jax.jit(lambda pair: jax.lax.scan(both, pair, (rows, growing)))(np.stack([start, start]))
    return {"network": np.asarray(losses), "growing": growing}


def of_linear(random: np.random.Generator, config: Config) -> np.ndarray:
    """Losses of least squares with decay and with the schedule. Least squares is not scale-invariant."""
    x = random.normal(size=(40, 5))
    y = x @ random.normal(size=5) + random.normal(size=40)
    lr = 1 / np.linalg.eigvalsh(x.T @ x / 40)[-1]  # half of the critical step size
    decay = 0.01 / lr
    growing = schedule_without_decay(lr, decay, 200).lr
    w = twin = random.normal(size=5)
    losses = []
    for size in growing:
        residuals = x @ w - y, x @ twin - y
        losses.append([np.mean(r**2) / 2 for r in residuals])
        w = (1 - lr * decay) * w - lr * x.T @ residuals[0] / 40
        twin = twin - size * x.T @ residuals[1] / 40
        if losses[-1][1] > 1e30:
            break
    return np.array(losses + [losses[-1]] * (200 - len(losses)))


@study("book/thm-13.3.1", section="13.3", title="Growing step sizes instead of weight decay")
def run(config: Config) -> xr.Dataset:
    r"""For scale-invariant losses $w_{t+1} = (1 - \eta\lambda)w_t - \eta\nabla L_t(w_t)$ computes the same functions as
    $\hat w_{t+1} = \hat w_t - \eta_t\nabla L_t(\hat w_t)$ with $\eta_t = \eta(1 - \eta\lambda)^{-(2t+1)}$, because
    $\hat w_t = w_t/(1 - \eta\lambda)^t$. For step sizes that change, $\hat\eta_t = \eta_t/(P_tP_{t+1})$ with $P_t =
    \prod_{s<t}(1 - \eta_s\lambda)$. The text leaves the factor $\eta$ out.
    """
    random = np.random.default_rng(config.seed)
    third = config.steps // 3
    pieces = np.repeat([0.2, 0.1, 0.02], [third, third, config.steps - 2 * third])
    cases = [*((np.full(config.steps, eta), decay) for eta, decay in PAIRS), (pieces, 0.05)]
    found = [of_weights(random, etas, decay, config) for etas, decay in cases]
    network, linear = of_network(random, config), of_linear(random, config)
    names = ("apart", "end", "first")
    return xr.Dataset(
        {name: ("case", [one[name] for one in found]) for name in names}
        | {
            "schedule": (("case", "step"), [one["schedule"] for one in found]),
            "network": (("batch", "run"), network["network"]),
            "growing": ("batch", network["growing"]),
            "linear": (("move", "run"), linear),
        },
        coords={"case": list(CASES), "run": ["decay", "growing steps"]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rounding = "rounding, which descent below the edge does not amplify"
    for case, name in CASES.items():
        one = data.sel(case=case)
        yield claim(f"directions-{case}", f"{name}: distance of both directions, largest").zero(
            one.apart, 1e-12, rounding
        )
        yield claim(f"end-{case}", rf"{name}: $|P\hat w - w|/|w|$ at the end").zero(one.end, 1e-12, rounding)
    eta, decay = PAIRS[0]
    yield claim("first-step", f"first step size without decay, {next(iter(CASES.values()))}").erratum(
        (r"(1 - \eta\lambda)^{-1}", 1 / (1 - eta * decay)),
        (r"\eta(1 - \eta\lambda)^{-1}", eta / (1 - eta * decay)),
        data["first"][0],
        1e-12,
        "rounding",
        where="Theorem 13.3.1",
        note=r"The proof has the factor $\eta$. The run measures the step along the gradient that takes $w_0$ to "
        r"$w_1/(1 - \eta\lambda)$.",
    )
    growth = data.schedule[0, 1:].values / data.schedule[0, :-1].values
    yield claim("growth", r"growth of the step size a step less $(1 - \eta\lambda)^{-2}$, largest").zero(
        np.abs(growth - (1 - eta * decay) ** -2).max(), 1e-12, "an identity"
    )
    L, why = data.network.values, "rounding of more weights, amplified by some hundred steps"
    apart, note = np.abs(L[:, 0] - L[:, 1]).max() / L.max(), f"{len(L)} steps of batches of 8"
    yield claim("network", "layer-norm network: difference of both losses over their size, largest").zero(
        apart, 1e-9, why, note=note
    )
    yield claim("network-growth", "layer-norm network: last step size over the first").at_least(
        1.1, data.growing[-1] / data.growing[0], "the twin's steps differ from the steps of the run"
    )
    with_decay, growing = data.linear[:, 0], data.linear[:, 1]
    yield claim("control", "least squares, not invariant: last loss of growing steps over the first").at_least(
        10.0, growing[-1] / growing[0], "past twice the step size it diverges"
    )
    yield claim("control-decay", "least squares: last loss with decay over the first").at_most(
        1.0, with_decay[-1] / with_decay[0], "half of the critical step size"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    for case, name in CASES.items():
        left.semilogy(data.schedule.sel(case=case), label=name)
    left.set_ylim(None, 30 * float(data.schedule.max()))
    sheet.label(left, "Step sizes in place of decay", "step", r"$\hat\eta_t$", "upper left")
    for axes, values, title in ((middle, data.network, "Layer-norm network"), (right, data.linear, "Least squares")):
        axes.plot(values[:, 0], color="C0", lw=2.5, label="weight decay")
        axes.plot(values[:, 1], color="C1", lw=1.2, ls="--", label="growing steps")
        sheet.label(axes, title, "step", "loss", "upper right" if axes is middle else "upper left")
    right.set(yscale="log", ylim=(1e-6, 1e6))
