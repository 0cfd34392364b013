"""Theorem 7.2.1: perturbed gradient descent finds second-order points where gradient descent stays at a saddle."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Map, simulate
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.optim import gradient_descent, perturbed
from secant.theory.landscape import rank_one


class Config(Seeded):
    eigenvalues: tuple[float, ...] = option(
        (3.0, 2.0, 1.5, 1.0, 0.5, 0.1), at_least=0.05, at_most=10, shortest=2, longest=12, help="of the matrix"
    )
    share: float = option(
        0.05, at_least=0.005, at_most=0.2, help="epsilon over its largest value at which the start counts as a saddle"
    )
    draws: int = options.draws(20, 200, at_least=3, at_most=2_000)
    steps: int = options.steps(700, 4_000, at_least=100, at_most=50_000)

    def check(self) -> None:
        """A clear way out."""
        top, second = sorted(self.eigenvalues)[:-3:-1]
        if top - second < 0.1 * top:
            raise ValueError(f"eigenvalues: the largest a tenth of itself above the next, got {self.eigenvalues}.")
        if self.draws * self.steps > 2 * 10**6:
            raise ValueError(f"steps: times draws at most 2,000,000, got {self.steps * self.draws:,}.")


def setting(config: Config) -> tuple[np.ndarray, rank_one.Saddle, float, int]:
    """The matrix, the saddle, epsilon, and the steps between two pushes."""
    M = np.diag(np.sort(config.eigenvalues)[::-1])
    saddle = rank_one.second_best(M)
    eps = config.share * saddle.curvature**2 / saddle.turn
    kappa = saddle.smooth / np.sqrt(saddle.turn * eps)
    return M, saddle, eps, int(np.ceil(kappa * np.log(len(M) * kappa)))


@study("book/thm-7.2.1", section="7.2", title="Perturbed gradient descent")
def run(config: Config) -> xr.Dataset:
    r"""Let $f$ have an $\ell$-Lipschitz gradient and a $\rho$-Lipschitz Hessian. With steps $\eta = 1/\ell$ and pushes
    of radius $r = \tilde\Theta(\epsilon)$, $T = \tilde\Theta(\ell/\sqrt{\rho\epsilon})$ steps apart, perturbed gradient
    descent reaches within $\tilde O(\ell(f(x_0) - f^*)/\epsilon^2)$ steps a point with $|\nabla f| \le \epsilon$ and
    $\nabla^2f \succeq -\sqrt{\rho\epsilon}$, with high probability. Where the gradient is above $\epsilon$, each step
    lowers $f$ by at least $\epsilon^2/2\ell$. Gradient descent from a saddle stays there.
    """
    M, saddle, eps, wait = setting(config)
    f, lr = lambda x: rank_one.objective(jnp.asarray(M), x), 1 / saddle.smooth

    def together(draw: Any) -> Map:
        """Both variants and plain descent as one system, compiled once."""
        rare, noisy = perturbed(f, lr, eps, below=eps, wait=wait, seed=draw), perturbed(f, lr, eps, seed=draw)
        parts = rare, noisy, gradient_descent(f, lr)
        return Map(
            lambda x: tuple(part.init(x) for part in parts),
            lambda states: tuple(part.step(state) for part, state in zip(parts, states, strict=True)),
            lambda states: jnp.stack([part.shown(state) for part, state in zip(parts, states, strict=True)]),
        )

    draws = np.arange(config.seed, config.seed + config.draws) % 2**31
    ran = simulate(together, saddle.point, config.steps, probes={"x": lambda x: x}, over={"draw": draws}).dataset
    x = ran.x.values  # (draw, step, variant, d)
    return xr.Dataset(
        {
            "value": (("draw", "step", "variant"), rank_one.objective(M, x)),
            "slope": (("draw", "step", "variant"), np.linalg.norm(rank_one.gradient(M, x), axis=-1)),
            "low": (("draw", "step", "variant"), lowest(M, x, eps)),
            "moved": (("variant",), np.abs(x - saddle.point).max((0, 1, 3))),
        },
        coords={"variant": ["rare", "noisy", "plain"]},
    )


def lowest(M: np.ndarray, x: np.ndarray, eps: float) -> np.ndarray:
    """The smallest eigenvalue of the Hessian where the gradient is at most `eps`, minus infinity elsewhere."""
    found = np.full(x.shape[:-1], -np.inf)
    small = np.linalg.norm(rank_one.gradient(M, x), axis=-1) <= eps
    small[..., 2] = False  # plain descent does not move
    found[small] = np.linalg.eigvalsh(rank_one.hessian(M, x[small]))[:, 0]
    return found


def first_found(data: xr.Dataset, eps: float, gamma: float) -> xr.DataArray:
    """The first step of every run at an (eps, gamma) second-order stationary point, or one beyond the last step."""
    there = (data.slope <= eps) & (data.low >= -gamma)
    return xr.where(there.any("step"), there.argmax("step"), data.sizes["step"])


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    _, saddle, eps, _ = setting(config)
    gamma, budget = np.sqrt(saddle.turn * eps), saddle.smooth * saddle.height / eps**2
    found = first_found(data, eps, gamma)
    sentence = r"start: $\sqrt{\rho\epsilon}$ over minus the smallest eigenvalue of its Hessian"
    yield claim("start", sentence).at_most(1.0, gamma / saddle.curvature, "it is a saddle, and no more")
    enough = 4 * np.log(saddle.smooth / eps) * saddle.smooth / saddle.curvature
    what = r"runs that find an $\epsilon$-second-order point within $\ell(f_0 - f^*)/\epsilon^2$"
    for name in ("rare", "noisy"):
        row = found.sel(variant=name)
        yield claim(f"found-{name}", f"{name} pushes: {what} = {budget:,.0f} steps").share(
            1.0,
            row <= min(config.steps, int(budget)),
            (row >= 0) & (config.steps >= enough),
            "theorem 7.2.1 with the constant 1",
            within=0.05,
            otherwise="so few steps do not show it",
            note=f"the slowest after {int(row.max()):,} steps",
        )
    yield claim("plain", "gradient descent: distance moved from the saddle").zero(
        data.moved.sel(variant="plain"), 1e-6, "rounding, which grows"
    )
    rare = data.sel(variant="rare")
    steep = (rare.slope > eps).isel(step=slice(None, -1)).values
    fall, slope = -np.diff(rare.value.values, axis=1), rare.slope.values[:, :-1]
    otherwise = "the gradient is never that large"
    sentence = r"rare pushes: least decrease of $f$ where $|\nabla f| > \epsilon$, over $\epsilon^2/2\ell$"
    yield claim("fall", sentence, given=steep, otherwise=otherwise).at_least(
        1.0, lambda: fall[steep].min() / (eps**2 / (2 * saddle.smooth)), "the descent lemma"
    )
    sentence, why = r"rare pushes: least decrease there over $|\nabla f|^2/2\ell$", "the descent lemma, at every step"
    yield claim("fall-each", sentence, given=steep, otherwise=otherwise).at_least(
        1.0, lambda: (fall[steep] / slope[steep] ** 2).min() * 2 * saddle.smooth, why, slack=1e-6
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11.5, 4.2), 2)
    M, saddle, eps, _ = setting(config)
    least = rank_one.critical_points(M).values[0]
    names = {"plain": "gradient descent", "noisy": "noise at every step", "rare": "rare pushes"}
    for i, (name, label) in enumerate(names.items()):
        for k, value in enumerate(data.value.sel(variant=name).values[:8] - least):
            left.plot(value, color=f"C{i}", lw=1.2, alpha=0.7, label=None if k else label)
    sheet.label(left, "From the saddle", "step", "$f - f^*$", "best")
    found = first_found(data, eps, np.sqrt(saddle.turn * eps))
    for i, name in ((1, "noisy"), (2, "rare")):
        steps = np.sort(found.sel(variant=name).values)
        share = np.append(np.arange(1, len(steps) + 1) / len(steps), 1)
        right.step(np.append(steps, config.steps), share, where="post", color=f"C{i}", label=names[name])
    sheet.mark(right, x=saddle.smooth * saddle.height / eps**2, label=r"$\ell\,(f_0 - f^*)/\epsilon^2$")
    title, log = "Second-order stationary points", {"xscale": "log", "ylim": (0, 1.03)}
    sheet.label(right, title, "step", "share of the runs that found one", "best", **log)
