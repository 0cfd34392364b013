"""Lemma 13.2.3: gradients and Hessians of scale-invariant functions."""

import itertools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from secant import nets
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study

NORMS: tuple[Literal["layer", "group", "batch"], ...] = ("layer", "group", "batch")


class Config(Seeded):
    layers: int = options.layers(1, 2, at_most=3)
    width: int = options.width(6, 16, at_least=6, at_most=40)
    features: int = options.features(3, at_least=2, at_most=20)
    samples: int = options.samples(8, at_least=4, at_most=100)
    factors: tuple[float, ...] = option(
        (0.1, 3.0), at_least=0.01, at_most=100, longest=4, help="factors c of the weights"
    )

    def check(self) -> None:
        """Group norms have two groups of neurons."""
        if self.width % 2:
            raise ValueError(f"width: must be even, for two groups of neurons, got {self.width}.")


def derivatives(net: nets.Network, params: Any, x: np.ndarray, y: np.ndarray) -> Any:
    """`w -> (loss, gradient, Hessian)`, with all weights as one vector."""
    unravel = ravel_pytree(params)[1]

    def loss(w: jax.Array) -> jax.Array:
        return jnp.mean((net.apply(unravel(w), jnp.asarray(x)) - y) ** 2)

    def at(w: jax.Array) -> Any:
        value, gradient = jax.value_and_grad(loss)(w)
        return value, gradient, jax.vmap(lambda v: jax.jvp(jax.grad(loss), (w,), (v,))[1])(jnp.eye(len(w)))

    return jax.vmap(at)


@study("book/lem-13.2.3", section="13.2", title="Derivatives of scale-invariant functions")
def run(config: Config) -> xr.Dataset:
    r"""If $L$ is scale-invariant then $\langle w, \nabla L(w)\rangle = 0$, $\nabla L(c\,w) = \nabla L(w)/c$ and
    $\nabla^2L(c\,w) = \nabla^2L(w)/c^2$. Therefore also $\nabla^2L(w)\,w = -\nabla L(w)$. Here $L$ is the squared error
    of networks with layer, group and batch normalisation and a fixed top block.
    """
    random = np.random.default_rng(config.seed)
    x, y = random.normal(size=(config.samples, config.features)), random.normal(size=config.samples)
    widths = [config.width] * config.layers
    networks = {norm: nets.scale_invariant(widths, norm=norm, activation="tanh") for norm in NORMS}
    sizes = itertools.pairwise([config.features, *widths])
    params = (*(part for size in sizes for part in ({"weight": random.normal(size=size)}, (), ())), (), ())
    w = ravel_pytree(params)[0]
    points = np.stack([c * np.asarray(w) for c in (1.0, *config.factors)])
    found = jax.jit(lambda p: [derivatives(net, params, x, y)(p) for net in networks.values()])(points)
    values, gradients, hessians = (np.stack([np.asarray(one[i]) for one in found]) for i in range(3))
    return xr.Dataset(
        {
            "loss": (("norm", "c"), values),
            "gradient": (("norm", "c", "i"), gradients),
            "hessian": (("norm", "c", "i", "j"), hessians),
            "w": ("i", np.asarray(w)),
        },
        coords={"norm": list(NORMS), "c": [1.0, *config.factors]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    w, c = data.w.values, data.c.values
    why = "rounding of second derivatives behind norms"
    for norm in NORMS:
        one = data.sel(norm=norm)
        L, g, H = one.loss.values, one.gradient.values, one.hessian.values
        size, bent = np.linalg.norm(g[0]), np.linalg.norm(H[0], 2)
        slopes = np.linalg.norm(c[:, None] * g - g[0], axis=1).max() / size
        curvature = max(np.linalg.norm(k**2 * one - H[0], 2) for k, one in zip(c, H, strict=True)) / bent
        radial = w @ g[0] / np.linalg.norm(w) / size
        for key, name, value, within, reason in (
            ("loss", "$L(cw)/L(w) - 1$, largest", np.abs(L / L[0] - 1).max(), 1e-10, "rounding"),
            ("radial", r"$\langle w, \nabla L\rangle/(|w||\nabla L|)$", radial, 1e-8, why),
            ("gradient", r"$|c\nabla L(cw) - \nabla L(w)|/|\nabla L|$", slopes, 1e-8, why),
            ("hessian", "$|c^2H(cw) - H(w)|/|H|$", curvature, 1e-8, why),
            ("hessian-radial", r"$|Hw + \nabla L|/|\nabla L|$", np.linalg.norm(H[0] @ w + g[0]) / size, 1e-8, why),
        ):
            yield claim(f"{norm}-{key}", f"{norm} norm: {name}").zero(value, within, reason)
        yield claim(f"{norm}-size", rf"{norm} norm: $|\nabla L|$, the unit of these shares").at_least(
            1e-6, size, "something to see"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    c = np.sort(data.c)
    for i, norm in enumerate(NORMS):
        one = data.sel(norm=norm)
        sizes = np.linalg.norm(one.gradient, axis=1), np.linalg.norm(one.hessian, 2, axis=(1, 2))
        for axes, values, power in ((left, sizes[0], -1), (right, sizes[1], -2)):
            axes.plot(data.c, values, "o", color=f"C{i}", label=f"{norm} norm")
            sheet.guide(axes, c, values[0] * c**power, f"$c^{{{power}}}$" if i == 2 else None, color=f"C{i}")
    for axes, title, y in ((left, "Gradients", r"$|\nabla L(cw)|$"), (right, "Curvature", r"$\|\nabla^2L(cw)\|_2$")):
        sheet.label(axes, f"{title} of longer weights", "$c$", y, "upper right", xscale="log", yscale="log")
