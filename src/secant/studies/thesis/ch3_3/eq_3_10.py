"""Equation (3.10): the quadratic model of a two-layer ReLU network is a bilinear model behind frozen gates."""

from itertools import product

import jax
import numpy as np
import xarray as xr

from secant import nets
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, option, options, scaled, sheet, study
from secant.studies.shared.two_layer.taylor import distances_by_size, forms_of_relu
from secant.theory.power_law import fit_power_law

ACTIVATIONS = ("tanh", "swish")


class Config(Seeded):
    width: int = options.width(200, 2_000, at_least=2, at_most=10**6)
    smooth_width: int = scaled(
        smoke=48, laptop=256, paper=1_024, at_least=2, at_most=10**5, help="neurons a layer, smooth networks"
    )
    dim: int = options.dim(10, at_most=10_000)
    samples: int = options.samples(8, at_most=10_000)
    directions: int = option(6, at_least=2, at_most=10_000, help="random directions, each taken both ways")
    shortest: float = option(1e-3, at_least=1e-4, below=1, help="smallest change of a weight, root mean square")
    longest: float = option(0.03, above=1e-4, below=1, help="largest change of a weight, root mean square")
    points: int = option(7, at_least=2, at_most=1_000, help="distances")

    def check(self) -> None:
        """Refuses an empty range of distances, and what does not fit the memory."""
        if self.shortest >= self.longest:
            raise ValueError(f"shortest: must be below longest, which is {self.longest:g}, got {self.shortest:g}.")
        weights = self.smooth_width * (self.smooth_width + self.dim + 1)
        fits_memory(8 * 8 * self.points * self.directions * weights, "smooth_width, points or directions")
        fits_memory(8 * 80 * self.width * (self.dim + self.samples), "width, samples or dim")


@study("thesis/eq-3.10", section="3.3", title="Behind frozen gates")
def run(config: Config) -> xr.Dataset:
    r"""For the two-layer ReLU network the second-order Taylor polynomial in the weights is
    $$g = f(u_0, v_0) + \tfrac{1}{\sqrt{md}} \sum_i G_i \big( v_{0,i} (u_i - u_{0,i})^\top x
    + (v_i - v_{0,i})\, u_{0,i}^\top x + (v_i - v_{0,i}) (u_i - u_{0,i})^\top x \big),
    \qquad G_i = 1\{u_{0,i}^\top x \ge 0\}.$$
    The four terms add up to one: $g(u, v; x) = \frac{1}{\sqrt{md}} \sum_i G_i(x)\, v_i\, u_i^\top x$, a bilinear
    model with the gates of the start. This form is exact at every distance, and equals the network until a gate flips.
    For smooth activations the quadratic model misses the network by a term of order $\|w - w_0\|^3$, the linear
    one by a term of order $\|w - w_0\|^2$.
    """
    keys = jax.random.split(jax.random.key(config.seed), 4)
    x = jax.random.normal(keys[0], (config.samples, config.dim))
    sizes = np.geomspace(config.shortest, config.longest, config.points)
    smooth = [nets.mlp([config.smooth_width] * 2, activation=name) for name in ACTIVATIONS]
    pairs = zip(keys[2:], smooth, strict=True)
    found = [distances_by_size(net, key, x, sizes, config.directions) for key, net in pairs]
    return forms_of_relu(keys[1], x, config.width).assign(
        remainder=(("activation", "order", "size", "direction"), np.stack(found)),
        activation=list(ACTIVATIONS),
        order=[1, 2],
        size=sizes,
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rounding = Tolerance(
        8 * np.finfo(float).eps * np.sqrt(config.width * config.dim),
        why="8 units in the last place, times the root of the number of terms in the sum",
    )
    value = data.value.sel(form="autodiff")
    for form, name in (("bilinear", "gated bilinear model"), ("printed", "equation (3.10) term by term")):
        values = np.abs(data.value.sel(form=form) - value).max() / np.abs(value).max()
        for what, gap in (("values", values), ("gradients", data.slope_gap.sel(form=form) / data.slope_size)):
            relative = f"{name} against autodiff: largest relative difference of the {what}"
            yield claim(f"{form}-{what}", relative).zero(gap, rounding)
    same = data.flips == 0
    gap, note = np.abs(data.network - data.quadratic).where(same).max(), f"{int(same.sum())} of {same.size} points"
    yield claim("no-flip", "largest difference of network and quadratic model on a walk, until a gate flips").zero(
        gap, rounding, note=f"{note} of the walk"
    )
    bend, lever = 10 * config.longest**2, np.log(config.longest / config.shortest)
    why = "ten times the next term, $s^2$ over both signs of a direction; rounding of outputs at the smallest distance"
    for activation, (order, name) in product(ACTIVATIONS, ((1, "linear"), (2, "quadratic"))):
        law = fit_power_law(data.size, data.remainder.sel(activation=activation, order=order))
        rough = 8 * np.finfo(float).eps * config.smooth_width / config.shortest ** (order + 1)
        exponent = f"{activation}: exponent of the {name} model's remainder in the distance"
        yield claim(f"{activation}-{name}", exponent).equal(order + 1.0, law.exponent, bend + rough / lever, why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    walk = data.isel(sample=int(np.abs(data.network - data.linear).isel(distance=-1).argmax("sample")))
    for values, color, name in (
        (walk.network, "C0", "ReLU network"),
        (walk.quadratic, "C1", "quadratic model: gates frozen"),
        (walk.linear, "C7", "linear model"),
    ):
        left.plot(walk.distance, values, color=color, label=name)
    autodiff = {"marker": "o", "ms": 7, "mfc": "none", "color": sheet.ink(), "label": "quadratic, by autodiff"}
    left.plot(1.0, walk.value.sel(form="autodiff"), ls="none", **autodiff)
    change = "root-mean-square change of a weight"
    sheet.label(left, "A walk away from the start", change, "output", {"fontsize": 8})
    means = np.exp(np.log(data.remainder).mean("direction"))
    for i, activation in enumerate(ACTIVATIONS):
        for order, name, marker in ((1, "linear", "s"), (2, "quadratic", "o")):
            mean = means.sel(activation=activation, order=order)
            right.loglog(data.size, mean, marker, ms=5, color=f"C{i}", label=f"{activation}, {name}")
            if i == 0:
                power = mean[-1].item() * (data.size / data.size[-1]) ** (order + 1)
                sheet.guide(right, data.size, power, lw=1)
                place = (float(data.size[1]), 2.2 * float(power[1]))
                right.annotate(rf"$|\delta|^{order + 1}$", place, color=sheet.ink(), ha="right")
    legend = {"fontsize": 8, "loc": "lower right"}
    sheet.label(right, "What a smooth network's models miss", change, "distance to the network", legend)
