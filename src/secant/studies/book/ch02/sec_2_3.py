"""Section 2.3: momentum in its two forms, its best rate on a quadratic, its friction, and what is misprinted."""

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy import optimize

from secant.dynamics import simulate
from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.optim import optimisers
from secant.studies.shared.numerics.differences import largest
from secant.studies.shared.numerics.orbits import orbit
from secant.theory.edge import stability


class Config(Seeded):
    dim: int = options.dim(6, at_least=2, at_most=100)
    lr: float = options.lr(0.05, at_least=1e-3, at_most=0.2)
    beta: float = option(0.9, at_least=0.5, at_most=0.95, help="momentum")
    steps: int = options.steps(50, at_least=5, at_most=200)
    conditions: tuple[float, ...] = option(
        (10.0, 100.0, 1_000.0), at_least=4, at_most=1e4, ascending=True, longest=6, help="condition numbers"
    )
    error: float = option(1e-5, at_least=1e-12, at_most=1e-3, help="share of the first distance to reach")
    friction: float = option(0.5, at_least=0.1, at_most=1.5, help="friction a of the equation")
    halvings: int = scaled(smoke=5, laptop=10, at_least=3, at_most=12, help="halvings of the time step")


def slope_of(A: np.ndarray, w: np.ndarray) -> np.ndarray:
    r"""The gradient of $\frac12w\cdot Aw + \sum_i\cos w_i$."""
    return A @ w - np.sin(w)


def forms(A: np.ndarray, start: np.ndarray, lr: float, beta: float, steps: int) -> dict[str, np.ndarray]:
    """Heavy ball and Nesterov's method as recursions of positions, and of a velocity; and the sums of gradients."""
    grad = lambda w: slope_of(A, w)  # noqa: E731
    heavy, moving, classic, nesterov, sums = [start, start], [start], [start, start], [start], []
    u, v = np.zeros_like(start), np.zeros_like(start)
    for t in range(steps):
        before, w = heavy[-2:]
        heavy.append(w - lr * grad(w) + beta * (w - before))
        u = -grad(moving[-1]) + beta * u
        moving.append(moving[-1] + lr * u)
        sums.append(np.abs(u + sum(beta ** (t - s) * grad(moving[s]) for s in range(t + 1))).max())
        before, w = classic[-2:]
        ahead = w + beta * (w - before)
        classic.append(ahead - lr * grad(ahead))
        # The text with w_t - w_{t-1} = lr u_{t-1} in place of u_t - u_{t-1}, which is printed.
        v = -grad(nesterov[-1] + beta * lr * v) + beta * v
        nesterov.append(nesterov[-1] + lr * v)
    kinds = {"heavy": heavy[1:], "moving": moving, "classic": classic[1:], "nesterov": nesterov}
    return {name: np.stack(path) for name, path in kinds.items()} | {"sums": np.array(sums)}


def best_heavy_ball(condition: float) -> tuple[float, float, float]:
    r"""Step size $4/(\sqrt\kappa + 1)^2$, momentum $\rho^2$ and rate $\rho$ for curvatures from 1 to $\kappa$."""
    root = math.sqrt(condition)
    rate = (root - 1) / (root + 1)
    return 4 / (root + 1) ** 2, rate**2, rate


def steps_to(error: float, lr: float, beta: float, condition: float) -> tuple[int, np.ndarray]:
    """Steps after which all coordinates of a quadratic stay below an error, and the path of the largest."""
    scales = np.geomspace(1, condition, 9)
    w = before = np.ones(9)
    path = [1.0]
    for _ in range(200 + int(4 * condition * -math.log(error))):  # more than either takes
        w, before = w - lr * scales * w + beta * (w - before), w
        path.append(np.abs(w).max())
        if path[-1] < error**2:
            break
    found = np.array(path)
    return int(np.flatnonzero(found > error)[-1]) + 1, found


def damped(friction: float, time: np.ndarray) -> np.ndarray:
    r"""The solution of $\ddot w + a\dot w + w = 0$ from rest at 1."""
    pace = math.sqrt(1 - friction**2 / 4)
    return np.exp(-friction * time / 2) * (np.cos(pace * time) + friction / (2 * pace) * np.sin(pace * time))


def discrete(friction: float, step: float, steps: int) -> np.ndarray:
    r"""Heavy ball with $\beta = 1 - ah$ and $\eta = h^2$ on the same."""
    move = lambda w, before: (w - step**2 * w + (1 - friction * step) * (w - before), w)  # noqa: E731
    return np.array(orbit(lambda pair: move(*pair), (1.0, 1.0), steps))[:, 0]


@study("book/sec-2.3", section="2.3", title="Momentum")
def run(config: Config) -> xr.Dataset:
    r"""The heavy ball $w_{t+1} = w_t - \eta\nabla f(w_t) + \beta(w_t - w_{t-1})$ is $u_t = -\nabla f(w_t) + \beta
    u_{t-1}$, $w_{t+1} = w_t + \eta u_t$: the velocity is a weighted sum of all gradients so far. The method discretises
    $\ddot w + a\dot w + b\nabla f(w) = 0$, with $\beta = 1 - ah$ and $\eta = bh^2$ for a time step $h$. On a quadratic
    of condition $\kappa$ its best rate is $(\sqrt\kappa - 1)/(\sqrt\kappa + 1)$. The best rate of gradient descent is
    $(\kappa - 1)/(\kappa + 1)$. Nesterov's variant takes the gradient at $w_t + \beta(w_t - w_{t-1})$.
    """
    rng = np.random.default_rng(config.seed)
    basis, _ = np.linalg.qr(rng.normal(size=(config.dim, config.dim)))
    A = (basis * np.linspace(1, 3, config.dim)) @ basis.T
    start = rng.normal(size=config.dim)
    kinds = forms(A, start, config.lr, config.beta, config.steps)
    rules = (optimisers.momentum(config.lr, config.beta), optimisers.nesterov(config.lr, config.beta))
    loss = lambda w: w @ jnp.asarray(A) @ w / 2 + jnp.cos(w).sum()  # noqa: E731
    ours = simulate(
        lambda rule: optimisers.one_of(rules, rule)(loss),
        start,
        config.steps,
        over={"rule": np.arange(2)},
        probes={"w": lambda w: w},
    ).dataset["w"]
    counts, least, paths = [], [], {}
    for condition in config.conditions:
        lr, beta, _ = best_heavy_ball(condition)
        heavy, paths["ball"] = steps_to(config.error, lr, beta, condition)
        plain, paths["gd"] = steps_to(config.error, 2 / (1 + condition), 0.0, condition)
        counts.append((heavy, plain))
        least.append(optimise(condition))
    friction, until = config.friction, 8.0
    fine = [(until / count, count) for count in (16 * 2**k for k in range(config.halvings))]
    miss = [largest(discrete(friction, h, n), damped(friction, h * np.arange(n + 1))) for h, n in fine]
    return xr.Dataset(
        {name: (("step", "weight"), kinds[name]) for name in ("heavy", "moving", "classic", "nesterov")}
        | {
            "A": (("weight", "other"), A),
            "ours": (("rule", "step", "weight"), ours.values),
            "sums": ("late", kinds["sums"]),
            "counts": (("condition", "kind"), np.array(counts)),
            "least": ("condition", least),
            "miss": ("halving", miss),
            "ball": ("ball_step", paths["ball"]),
            "gd": ("gd_step", paths["gd"]),
            "curve": ("tick", damped(friction, np.linspace(0, until, 201))),
            "dots": ("dot", discrete(friction, until / 16, 16)),
        },
        coords={"condition": list(config.conditions), "kind": ["heavy ball", "gradient descent"]},
    )


def optimise(condition: float) -> float:
    """The least rate of a heavy ball over all step sizes and momenta, by search; its slower end sets the rate."""

    def rate(beta: float, lr: float) -> float:
        radii = []
        for curvature in (1.0, condition):
            half = (1 + beta - lr * curvature) / 2
            under = half**2 - beta
            radii.append(abs(half) + math.sqrt(under) if under >= 0 else math.sqrt(beta))
        return max(radii)

    def least(of: Callable[[float], float], top: float) -> float:
        return float(optimize.minimize_scalar(of, bounds=(0, top), method="bounded", options={"xatol": 1e-12}).fun)

    return least(lambda beta: least(lambda lr: rate(beta, lr), 2 * (1 + beta) / condition), 1)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    size, rounding = largest(data.heavy), 1e-15 * config.steps
    ahead = data.classic + config.beta * data.classic.diff("step").pad(step=(1, 0), constant_values=0).values
    for key, sentence, one, other in (
        ("heavy-ball-forms", "heavy ball: positions against velocities", data.heavy, data.moving),
        ("heavy-ball-rule", "heavy ball: positions against secant's momentum", data.heavy, data.ours[0]),
        ("nesterov-forms", "Nesterov: velocities against the two-sequence method", data.nesterov, data.classic),
        ("nesterov-rule", "Nesterov: look-ahead points against secant's parameters", ahead, data.ours[1]),
    ):
        yield claim(key, f"{sentence}, largest difference over all steps").zero(
            largest(one, other) / size, rounding, "rounding of the steps"
        )
    yield claim("velocity", "velocity less the weighted sum of all gradients so far, largest difference").zero(
        data.sums.max() / size, 10 * rounding, "rounding of sums of so many gradients"
    )
    why = "the root of the search's tolerance: at the best momentum two roots meet"
    for condition, least in zip(data.condition.values, data.least, strict=True):
        yield claim(f"rate-{condition:g}", f"condition {condition:g}: least rate of a heavy ball, by search").equal(
            best_heavy_ball(condition)[2], least, 0, why, relative=2e-6 * condition**0.5
        )
    yield from orders(data, config)
    yield from misprints(data, config)


def orders(data: xr.Dataset, config: Config) -> Findings:
    """How the numbers of steps grow with the condition, and the error with the time step."""
    # The slowest coordinate of the best heavy ball is (1 + ct) rate^t, at the top end of the spectrum. The slowest
    # coordinate of gradient descent is a power.
    for condition, (ball, plain) in zip(data.condition.values, data.counts, strict=True):
        lr, _, best = best_heavy_ball(condition)
        c = (lr * condition - 1) / best - 1
        tail = np.arange(1, 10**5)
        exact = int(tail[np.log1p(c * tail) + tail * math.log(best) > math.log(config.error)][-1]) + 1
        at = f"condition {condition:g}: steps of the best"
        yield claim(f"steps-ball-{condition:g}", f"{at} heavy ball to {config.error:g}").equal(
            exact, ball, 1, r"a whole number; a double root at the largest curvature, $(1 + ct)\rho^t$"
        )
        slow = math.log(config.error) / math.log((condition - 1) / (condition + 1))
        yield claim(f"steps-descent-{condition:g}", f"{at} gradient descent").equal(slow, plain, 1, "a whole number")
    miss, next_order = data.miss.values, 2.0 ** -(config.halvings - 2)
    yield claim("friction", "distance from the equation with friction: order in the time step").equal(
        1.0, math.log2(miss[-2] / miss[-1]), next_order, "the next order: halved with the time step"
    )


def misprints(data: xr.Dataset, config: Config) -> Findings:
    """The momentum term, and Nesterov's method."""
    w0, w1, w2 = data.heavy.values[:3]
    left = w2 - w1 + config.lr * slope_of(data.A.values, w1)
    yield claim("momentum-term", "size of the momentum term in the second step of the heavy ball").erratum(
        (r"\beta(w_{t+1} - w_t)", config.beta * np.linalg.norm(w2 - w1)),
        (r"\beta(w_t - w_{t-1})", config.beta * np.linalg.norm(w1 - w0)),
        np.linalg.norm(left),
        1e-12,
        "rounding",
        where="section 2.3",
        note="the update above it has the right term; the words name the step that the method is taking",
    )
    # On a parabola of curvature 1, by the printed formula solved for u_t.
    lr, beta = config.lr, config.beta
    rule = stability.nesterov(lr, beta)
    printed = np.array([[1 - lr / (1 + beta), lr * 2 * beta / (1 + beta)], [-1 / (1 + beta), 2 * beta / (1 + beta)]])
    ahead = lambda w, before: w + beta * (w - before)  # noqa: E731
    x = np.array(orbit(lambda s: (ahead(*s) - lr * ahead(*s), s[0]), (1.0, 1.0), config.steps))[:, 0]
    turn = x[2:] * x[:-2] - x[1:-1] ** 2  # falls by the product of the two roots
    yield claim("nesterov-roots", "Nesterov on a parabola of curvature 1: product of the two roots").erratum(
        (r"u_t = -\nabla f(w_t + \beta(u_t - u_{t-1})) + \beta u_{t-1}", float(np.linalg.det(printed))),
        (r"u_t = -\nabla f(w_t + \beta(w_t - w_{t-1})) + \beta u_{t-1}", -(rule.position[1] - rule.gradient[1])),
        turn[1] / turn[0],
        1e-10,
        "rounding of a difference of squares",
        where="section 2.3",
        note="$u$ for $w$: the printed line has $u_t$ on both sides, and adds velocities to positions",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    kappa = data.condition.values
    shown = 2 * int(data.counts[-1, 0])
    left.semilogy(data.gd.values[: 3 * shown], label="gradient descent")
    left.semilogy(data.ball.values[:shown], label="heavy ball")
    steps, (lr, _, rate) = np.arange(shown), best_heavy_ball(kappa[-1])
    exact = (1 + ((lr * kappa[-1] - 1) / rate - 1) * steps) * rate**steps
    sheet.guide(left, steps, exact, r"$(1 + ct)\rho^t$")
    limits = (config.error / 10, 3 * float(data.ball.max()))
    sheet.label(left, rf"Quadratic of condition {kappa[-1]:g}", "step", "largest coordinate", "best", ylim=limits)
    for i, name in enumerate(data.kind.values):
        middle.loglog(kappa, data.counts.sel(kind=name), "o", color=f"C{1 - i}", label=name)
    for i, power in enumerate((0.5, 1.0)):
        guide = float(data.counts[0, i]) * (kappa / kappa[0]) ** power
        sheet.guide(middle, kappa, guide, r"$\sqrt{\kappa}$" if i == 0 else r"$\kappa$", ls=("--", ":")[i])
    sheet.label(middle, f"Steps to {config.error:g}", r"condition $\kappa$", None, "best")
    sheet.guide(right, np.linspace(0, 8, 201), data.curve, r"$\ddot w + a\dot w + w = 0$")
    right.plot(np.linspace(0, 8, 17), data.dots, "o", ms=4, label="heavy ball, $h = 1/2$")
    sheet.label(right, rf"Friction, $a = {config.friction:g}$", "time", "$w$", "best")
