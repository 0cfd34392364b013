"""Section 2.4: gradient descent on a quadratic, its condition number, and preconditioners."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.optim import newton, optimisers
from secant.studies.shared.numerics.differences import largest
from secant.studies.shared.numerics.orbits import orbit

STEEP = 4.0
"""Slope at which AdaGrad takes its first step."""


class Config(Seeded):
    dim: int = options.dim(6, at_least=2, at_most=60)
    conditions: tuple[float, ...] = option(
        (3.0, 10.0, 100.0, 1e3), at_least=1.5, at_most=1e4, ascending=True, shortest=2, longest=8, help="of quadratics"
    )
    error: float = option(1e-6, at_least=1e-12, at_most=0.1, help="share of the first distance to reach")
    off: float = option(0.01, at_least=1e-3, at_most=0.5, help="distance of a step size from the edge, over the edge")
    newton_steps: int = scaled(smoke=7, laptop=10, at_least=4, at_most=50, help="Newton steps on e^w - w")


def quadratic(rng: np.random.Generator, size: int, condition: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix with eigenvalues from 1 down to one over the condition; its eigenvalues and eigenvectors."""
    basis, _ = np.linalg.qr(rng.normal(size=(size, size)))
    values = np.geomspace(1, 1 / condition, size)
    A = (basis * values) @ basis.T
    return (A + A.T) / 2, values, basis


def descend(A: np.ndarray, start: np.ndarray, rate: float, steps: int) -> np.ndarray:
    """The path of gradient descent on a quadratic."""
    return np.stack(orbit(lambda w: w - rate * (A @ w), start, steps))


def exact_steps(error: float, condition: float) -> float:
    return math.log(error) / math.log1p(-1 / (2 * condition))


@functools.partial(jit, quick=True, static_argnames="steps")
def second_order(
    matrices: np.ndarray, start: np.ndarray, bend: np.ndarray, tilt: np.ndarray, scale: float, steps: int
) -> dict:
    r"""Newton's method on quadratics and on $\sum_i b_i(e^{(Tw)_i} - (Tw)_i)$, $T$ a tilt or not; a step of AdaGrad."""
    one = jax.vmap(lambda A: newton(lambda w: w @ A @ w / 2).step(start))(matrices)

    def path(T: jax.Array) -> jax.Array:
        step = newton(lambda w: bend @ (jnp.exp(T @ w) - T @ w)).step
        return jax.lax.scan(lambda w, _: (step(w), T @ w), jnp.linalg.solve(T, at), None, length=steps)[1]

    at = jnp.full(bend.shape, 0.5)
    rule = optimisers.adagrad(0.1, eps=0.0)(lambda w: scale * w @ matrices[0] @ w / 2)
    plain, tilted = jax.vmap(path)(jnp.stack([jnp.eye(len(bend)), tilt]))
    return {"one": one, "plain": plain, "tilted": tilted, "adagrad": rule.step(rule.init(start)).params - start}


@study("book/sec-2.4", section="2.4", title="The condition number")
def run(config: Config) -> xr.Dataset:
    r"""On $f = \frac12w\cdot Aw$ with eigenvalues $\lambda_1 \ge \dots \ge \lambda_d > 0$ gradient descent multiplies
    the coordinate of $\lambda_i$ by $1 - \eta\lambda_i$. The coordinate explodes for $\eta > 2/\lambda_i$. At $\eta =
    1/(2\lambda_1)$ each step halves the first coordinate, and the last coordinate loses a share $1/(2\kappa)$, with
    $\kappa = \lambda_1/\lambda_d$. So an error $\epsilon$ takes $O(\kappa\log(1/\epsilon))$ steps. A step size
    $1/\lambda_i$ for each coordinate takes one step. Newton's method $w \leftarrow w - (\nabla^2f)^{-1}\nabla f$ takes
    one step, too, and needs no coordinates.
    """
    rng = np.random.default_rng(config.seed)
    start = rng.normal(size=config.dim)
    made = [quadratic(rng, config.dim, condition) for condition in config.conditions]
    rows = []
    for condition, (A, values, basis) in zip(config.conditions, made, strict=True):
        count = math.ceil(exact_steps(config.error, condition)) + 2
        # All coordinates start at 1, so that each of them shows its own factor.
        own = descend(A, basis.sum(1), 0.5, count) @ basis
        miss = largest(own, (1 - 0.5 * values) ** np.arange(count + 1)[:, None])
        reached = int(np.argmax(np.abs(own[:, -1]) <= config.error))
        rows.append((miss, reached, (own[1, 0] / own[0, 0], own[1, -1] / own[0, -1])))
    closed, steps, left = map(list, zip(*rows, strict=True))
    A, values, basis = made[0]
    sides = []
    for i, share in itertools.product((0, -1), (1 - config.off, 1 + config.off)):
        path = descend(np.diag(values), np.ones(config.dim), 2 * share / values[i], 40)[:, i]
        sides.append(abs(path[-1] / path[0]) ** (1 / 40))
    tilt = rng.normal(size=(config.dim, config.dim)) + 3 * np.eye(config.dim)
    bend = np.geomspace(1, 100, config.dim)
    slope = A @ start
    scale = STEEP / np.abs(slope).max()
    found = second_order(np.stack([m[0] for m in made]), start, bend, tilt, scale, config.newton_steps)
    found = {name: np.asarray(value) for name, value in found.items()}
    one, newton_dims = found["one"], ("newton_step", "weight")
    flat = np.array([[1.0, 0.0], [0.0, 0.1]])
    return xr.Dataset(
        {
            "steps": ("condition", steps),
            "left": (("condition", "end"), left),
            "closed": ("condition", closed),
            "sides": (("edge", "side"), np.reshape(sides, (2, 2))),
            "newton": (("condition", "weight"), one),
            "plain": (newton_dims, found["plain"]),
            "tilted": (newton_dims, found["tilted"]),
            "adagrad": ("weight", found["adagrad"]),
            "slope": ("weight", scale * slope),
            "start": ("weight", start),
            "first": ("weight", (start - one[0]) @ basis / (slope @ basis)),
            "values": ("weight", values),
            "own": ("weight", start - 1 / values @ (basis * (slope @ basis)).T),
            "halved": float((start - 0.5 * A @ start) @ basis[:, 0] / (start @ basis[:, 0])),
            "path": (("tick", "axis"), descend(flat, np.array([1.0, 1.0]), 1.8, 40)),
        },
        coords={"condition": list(config.conditions), "end": ["first", "last"]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    kappa, size = data.condition.values, largest(data.start)
    sentence = r"coordinates of gradient descent less $(1 - \eta\lambda_i)^t$, all steps and conditions"
    yield claim("powers", sentence).zero(data.closed.max(), 1e-12, "rounding: errors shrink as the coordinates do")
    for end, sides in zip(("largest", "smallest"), data.sides, strict=True):
        for side, sign, what, growth in zip(("below", "above"), (-1, 1), ("shrinks", "explodes"), sides, strict=True):
            at = rf"the {end} eigenvalue's coordinate, {config.off:g} {side} its edge $2/\lambda$"
            yield claim(f"edge-{end}-{side}", f"growth a step of {at}").equal(
                1 + 2 * sign * config.off, growth, 1e-12, "rounding", note=f"it {what}"
            )
    first = data.left.sel(end="first").mean()
    yield claim(
        "first-factor", r"step size $1/(2\lambda_1)$: factor of the first coordinate, mean of conditions"
    ).equal(0.5, first, 1e-13, "rounding")
    for condition, factor, steps in zip(kappa, data.left.sel(end="last"), data.steps, strict=True):
        yield claim(f"last-factor-{condition:g}", f"condition {condition:g}: factor of the last coordinate").equal(
            1 - 1 / (2 * condition), factor, 1e-13, "rounding"
        )
        yield claim(f"steps-{condition:g}", f"condition {condition:g}: steps to {config.error:g}").equal(
            exact_steps(config.error, condition), steps, 1, "a whole number"
        )
    why, sentence = "rounding, by the condition number", "largest weight after one step, over the first"
    for key, name, one in (("newton", "Newton's method", data.newton), ("own", r"step sizes $1/\lambda_i$", data.own)):
        yield claim(f"one-step-{key}", f"{name}: {sentence}").zero(
            largest(one) / size, 1e-14 * kappa.max() * config.dim, why
        )
    yield from beyond_quadratics(data)
    yield from misprints(data, config)


def beyond_quadratics(data: xr.Dataset) -> Findings:
    """Newton's method where the Hessian changes: errors are squared, and coordinates do not matter."""
    path = data.plain.values
    wanted = path[:-1] - 1 + np.exp(-path[:-1])  # of e^w - w, one weight at a time
    yield claim("newton-step", r"Newton on sums of $e^w - w$: each step less $w - 1 + e^{-w}$").zero(
        largest(path[1:], wanted), 1e-13, "rounding"
    )
    early = np.abs(path[:, 0])
    yield claim("newton-error", "Newton: error over half the square of the error before, third step").equal(
        1.0, early[3] / (early[2] ** 2 / 2), early[2] / 2, "the next order: a third of the error"
    )
    yield claim("newton-tilted", "Newton: largest difference of its path from that with tilted weights").zero(
        largest(data.tilted, data.plain), 1e-10, "rounding, by the condition of the tilt and of the function"
    )


def misprints(data: xr.Dataset, config: Config) -> Findings:
    """The update, the preconditioner, and AdaGrad's."""
    sentence = r"first coordinate of $w$ after an update at $1/(2\lambda_1)$, over its value before"
    yield claim("update", sentence).erratum(
        (r"x \leftarrow w - \eta\nabla f(w)", 1.0),
        (r"w \leftarrow w - \eta\nabla f(w)", 0.5),
        data.halved,
        1e-12,
        "rounding",
        where="section 2.4",
        note="$x$ for $w$: the printed line leaves $w$ as it is",
    )
    least = float(data["values"][-1])
    yield claim("preconditioner", "preconditioner of Newton's method along the last eigenvector").erratum(
        (r"Q(w) \approx \nabla^2f(w)", least),
        (r"Q(w) \approx (\nabla^2f(w))^{-1}", 1 / least),
        data["first"][-1],
        0,
        "rounding, by the condition number",
        relative=1e-11 * config.dim * data.condition.values[0],
        where="section 2.4.1",
        note=r"in $w \leftarrow w - \eta Q\nabla f$ the matrix $Q$ takes the place of the inverse",
    )
    steep = int(np.argmax(np.abs(data.slope).values))
    yield claim("adagrad", f"first step of AdaGrad at a slope of {STEEP:g}, over the step size").erratum(
        (r"\mathrm{diag}(gg^\top)^{-1}g", 1 / STEEP),
        (r"\mathrm{diag}(gg^\top)^{-1/2}g", 1.0),
        abs(float(data.adagrad[steep])) / 0.1,
        1e-12,
        "rounding",
        where="section 2.4.1",
        note="sections 2.5.4 and 2.5.5 take the root",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    x, y = np.meshgrid(np.linspace(-1.2, 1.2, 81), np.linspace(-1.2, 1.2, 81))
    left.contour(x, y, x**2 / 2 + 0.05 * y**2, levels=np.linspace(0.002, 0.7, 12), colors=sheet.faint(), linewidths=0.8)
    left.plot(data.path[:, 0], data.path[:, 1], ".-", ms=4, lw=1, label=r"gradient descent, $\eta = 1.8/\lambda_1$")
    left.plot([1, 0], [1, 0], "o-", color="C1", ms=5, label="Newton")
    sheet.label(left, "A quadratic of condition 10", "$w_1$", "$w_2$", "lower left", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
    kappa = data.condition.values
    middle.loglog(kappa, data.steps, "o", label="gradient descent")
    fine = np.geomspace(kappa[0], kappa[-1], 60)
    exact = [exact_steps(config.error, k) for k in fine]
    sheet.guide(middle, fine, exact, r"$\log\epsilon/\log(1 - 1/2\kappa)$")
    middle.loglog(kappa, np.ones(len(kappa)), "o", color="C1", label="Newton")
    sheet.label(middle, f"Steps to {config.error:g}", r"condition $\kappa$", None, "best")
    error = np.abs(data.plain[:, 0].values)
    error = error[error > 1e-15]
    right.semilogy(error, "o-", color="C1", label="Newton")
    squares = orbit(lambda e: e**2 / 2, error[0], len(error) - 1)
    sheet.guide(right, np.arange(len(error)), squares, r"$e \mapsto e^2/2$")
    sheet.label(right, "$e^w - w$: errors are squared", "step", "distance from the minimum", "best")
    right.set_xticks(np.arange(len(error)))
