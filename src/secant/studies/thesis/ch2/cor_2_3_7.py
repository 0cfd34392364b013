"""Corollary 2.3.7: around its start a wide network is close to its linearisation, and gradient descent stays there."""

import jax
import numpy as np
import xarray as xr
from scipy.special import roots_jacobi

from secant import nets
from secant.core.types import Params
from secant.curvature import output_hessian
from secant.dynamics import Probe
from secant.expansion import remainders
from secant.lab import Figure, Findings, claim, option, options, sheet, study
from secant.linalg.norm import Norm, leading_pair
from secant.linalg.spaces import unravel_like
from secant.nets import Network
from secant.studies.shared import width as wide
from secant.studies.shared.numerics.exponents import exponent, rate

NODES = 5  # points between the start and the sphere where the Hessian is measured
LOOKS = 4  # measurements of the Hessian along a run, beside the one at its start
CLOSE = 1e-2  # a distance at which a network is its quadratic model up to CLOSE^2; large inputs need a smaller one
WAYS = ("top", "random")  # along the leading eigenvector of the Hessian at the start, and along a random direction


class Config(wide.WidthConfig):
    draws: int = options.draws(16, 12, at_least=2, at_most=10_000)
    radius: float = option(1.0, at_least=1e-3, at_most=100, help="distance from the start")
    directions: int = option(16, at_least=2, at_most=10**4, help="random directions in which the remainder is measured")
    samples: int = options.samples(4, at_most=1_000)
    steps: int = options.steps(120, at_least=10, at_most=100_000)

    def check(self) -> None:
        """Refuses more orthogonal points than there are dimensions."""
        wide.refuse_dependent(self.samples, self.dim)


@study("thesis/cor-2.3.7", section="2.3", title="A wide network and its linearisation, in a ball and on the way down")
def run(config: Config) -> xr.Dataset:
    r"""In the ball of radius $R$ around the start, $|f(w) - f_{\mathrm{lin}}(w)| \le \frac12 R^2 \sup \|H_f\| =
    \tilde O(1/\sqrt m)$ with $f_{\mathrm{lin}}(w) = f(w_0) + (w - w_0)^\top \nabla f(w_0)$. The remainder is exactly
    $\int_0^1 (1 - s)\,\delta^\top H_f(w_0 + s\delta)\,\delta\,ds$ with $\delta = w - w_0$, so every point of the way
    contributes at most its $\|H_f\|$.

    Along the leading eigenvector of the Hessian the remainder falls as $1/\sqrt m$: the rate is attained. Along a
    random direction the remainder is the mean curvature over all $p$ weights, of order $\|H_f\|_F/p$. It falls as
    $1/p$, nearly $1/m^2$. The norm of the Hessian falls at the rate of the start everywhere: on the sphere, and along
    gradient descent to a global minimum.

    The network has two hidden layers of $m$ tanh neurons. Gradient descent fits orthogonal points, so that the
    condition number of their tangent kernel is a few units for every draw. The rate $(1 - \eta\lambda_{\min})^t$ of
    section 2.4 then reaches a global minimum, a millionth of the first loss, within the steps of the run.
    """
    key_input, key_labels = jax.random.split(jax.random.key(config.seed))
    make = wide.KINDS["fcn"].by_width(config.dim, key_input)
    copies = 2 * wide.COPIES + config.draws  # a norm, one on the way of a run, and all starts
    wide.refuse_oversized("thesis/cor-2.3.7", make, config.dim, config.widths, copies=copies, itemsize=8)
    x = wide.orthogonal_inputs(jax.random.split(key_input, config.samples), config.dim, config.size)
    y = jax.random.rademacher(key_labels, (config.samples,)).astype(float)
    found = []
    for j, width in enumerate(config.widths):
        net = make(width)
        starts = wide.drawn(net, x, (config.seed, j), config.draws)
        around, along = _ball(net, x[:1], starts, config), _descent(net, x, y, starts, config)
        found.append(xr.merge([around, along]).assign(weights=nets.count_parameters(starts[0])))
    return xr.concat(found, "width").assign_coords(width=list(config.widths))


def _ball(net: Network, x: jax.Array, starts: list[Params], config: Config) -> xr.Dataset:
    """Norms of the Hessian on the way to the sphere, and the remainder of the linearisation there."""
    # A Gauss rule for the weight 1 - s on [0, 1]: the remainder is a sum of curvatures at these points.
    places = np.array([0.0, *(roots_jacobi(NODES, 1.0, 0.0)[0] + 1) / 2, 1.0])
    lanczos, unravel = wide.direction(starts[0]), unravel_like(starts[0])
    close = CLOSE / max(1.0, config.size)

    @jax.jit
    def leading(params: Params, x: jax.Array, lanczos: jax.Array) -> jax.Array:
        return leading_pair(output_hessian(net.apply, params, x).flat_product(), lanczos, wide.LANCZOS).vector

    @jax.jit
    def norms(params: Params, way: jax.Array, x: jax.Array, lanczos: jax.Array) -> Norm:
        def at(place: jax.Array) -> Norm:
            there = jax.tree.map(lambda p, d: p + place * d, params, unravel(way))
            return wide.hessian_norm(net.apply, there, x, lanczos)

        return jax.lax.map(at, places)

    @jax.jit
    def remainder(params: Params, way: jax.Array, x: jax.Array) -> jax.Array:
        return remainders(lambda p: net.apply(p, x)[0], params, unravel(way))[0]

    found = []
    for number, params in enumerate(starts):
        random = np.random.default_rng([config.seed, lanczos.size, number])
        drawn = (random.normal(size=lanczos.size) for _ in range(config.directions + 1))
        away = (config.radius * step / np.linalg.norm(step) for step in drawn)
        ways = [config.radius * leading(params, x, lanczos), next(away)]
        values = np.array([norms(params, way, x, lanczos) for way in ways])
        # Close to the start, the sum over both sides leaves the curvature alone, with an error of CLOSE^2.
        bends = [float(remainder(params, way * close / config.radius, x)) for way in (ways[0], -ways[0])]
        others = [remainder(params, way, x) for way in away]
        one = {
            "norm": (("way", "place"), values[:, 0]),
            "residual": (("way", "place"), values[:, 1]),
            "remainder": ("way", [float(remainder(params, way, x)) for way in ways]),
            "drawn": np.sqrt(np.mean(np.square(others))),
            "bend": sum(bends) / close**2,
        }
        found.append(xr.Dataset(one, coords={"way": list(WAYS), "place": places}))
    return xr.concat(found, "network")


def _descent(net: Network, x: jax.Array, y: jax.Array, starts: list[Params], config: Config) -> xr.Dataset:
    """The Hessian of the first output along gradient descent to a global minimum."""
    lanczos, every = wide.direction(starts[0]), config.steps // LOOKS
    look = Probe(lambda params: wide.hessian_norm(net.apply, params, x, lanczos).value, every=every)
    data = wide.descend(net.apply, x, y, starts, config.steps, {"path_norm": look})
    end = data.loss.isel(step=-1, drop=True) / data.loss.isel(step=0, drop=True)
    return data[["path_norm", "slowest"]].rename({f"step_{every}": "look"}).assign(end=end)


def _norms(data: xr.Dataset) -> dict[str, xr.DataArray]:
    """Norms of the Hessian away from the start."""
    random, leading = (data.norm.isel(place=-1).sel(way=way) for way in ("random", "top"))
    names = "sphere, random point", "sphere, along the leading eigenvector", "gradient descent, largest"
    return dict(zip(names, (random, leading, data.path_norm.max("look")), strict=True))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    logs, top = wide.logarithm(config.widths), data.sel(way="top")
    for key, (place, values) in zip(("random", "leading", "descent"), _norms(data).items(), strict=True):
        name = f"norm of the Hessian ({place}): exponent in the width"
        yield claim(f"norm-{key}", name).at_most(-0.5, exponent(values), slack=logs)
    name, found = "remainder along the leading eigenvector: exponent in the width", exponent(np.abs(top.remainder))
    yield claim("remainder-leading", name).equal(-0.5, found, logs)
    name = "root-mean-square remainder along random directions: exponent in the width"
    near, note = wide.next_order(config.widths, 0.5), "predicted is minus the exponent of the number of weights"
    yield claim("remainder-random", name).equal(-rate(data.width, data.weights), exponent(data.drawn), near, note=note)
    share = (np.abs(data.remainder) / (config.radius**2 / 2 * data.norm.max("place"))).max()
    name = r"largest remainder over $\frac12 R^2$ times the largest norm on the way"
    why = "a Gauss rule of degree nine with positive weights at the measured points"
    yield claim("remainder-bound", name).at_most(1.0, share, why, slack=1e-6)
    ratios = (np.abs(data.bend) / top.norm.isel(place=0)).values.ravel()
    furthest, why = ratios[np.argmax(np.abs(ratios - 1))], "ten times the next even order at a distance of 0.01"
    name = "second difference of the network along the leading eigenvector over the norm at the start: furthest from 1"
    yield claim("second-difference", name).equal(1.0, furthest, 10 * CLOSE**2, why)
    name = "largest ratio of the last loss of gradient descent to the first"
    yield wide.global_minimum("loss", name, data.end, (1 - data.slowest) ** config.steps, 1e-6)
    yield wide.resolved(data)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 5.4), 2)
    top = data.sel(way="top")
    start = top.norm.isel(place=0)
    norms = {"at the start": start, **_norms(data)}
    remainders = {
        r"bound, $\frac{1}{2}R^2 \max\,\|H_f\|$": config.radius**2 / 2 * top.norm.max("place"),
        "along the leading eigenvector": np.abs(top.remainder),
        "along random directions": data.drawn,
    }
    for axes, curves, marks in ((left, norms, "osD^"), (right, remainders, "^sD")):
        for (name, values), mark in zip(curves.items(), marks, strict=True):
            wide.plot_law(axes, values, mark, name)
        wide.mark_widths(axes, data.width)
        axes.legend(title="exponent in the width", **wide.BELOW)
    line = 0.75 * start.isel(width=0).mean() * (data.width / data.width[0]) ** -0.5
    sheet.guide(left, data.width, line)
    middle = line[data.width.size // 2]
    place = {"xytext": (-8, -8), "textcoords": "offset points", "ha": "right", "va": "top"}
    left.annotate(r"$1/\sqrt{m}$", (float(middle.width), float(middle)), color=sheet.ink(), **place)
    sheet.label(left, "Norm of the Hessian", y=r"$\|H_f\|$")
    title = f"Remainder of the linearisation at distance {config.radius:g}"
    sheet.label(right, title, y=r"$|f - f_{\mathrm{lin}}|$")
