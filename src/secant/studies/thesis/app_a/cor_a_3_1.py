"""Corollary A.3.1: a wide network with several outputs turns linear in all of them at once."""

from functools import partial

import jax
import numpy as np
import xarray as xr

from secant.curvature.norms import joint_norm
from secant.lab import Figure, Findings, claim, estimate, option, options, sheet, study
from secant.nets import Network, dag, graphs
from secant.studies.shared import width as wide
from secant.studies.shared.numerics.exponents import exponent


class Config(wide.WidthConfig):
    draws: int = options.draws(24, 12, at_least=2, at_most=10_000)
    outputs: int = option(3, at_least=2, at_most=1_000, help="outputs")
    rounds: int = option(6, at_least=1, at_most=1_000, help="alternations between directions of outputs and weights")


@study("thesis/cor-A.3.1", section="A.3", title="Several outputs turn linear together")
def run(config: Config) -> xr.Dataset:
    r"""The second derivative of $d_L$ outputs is a tensor of three indices, with the norm
    $\|H_f\| = \sup \sum_{ijk} H_{ijk}\,v_iu_js_k$ over unit vectors. It is at most $d_L \max_k \|H_{f_k}\|$, so for a
    fixed number of outputs it is $\tilde O(1/\sqrt m)$ too.

    The supremum over $v$ and $u$ is the norm of $\sum_k s_k H_{f_k}$. By the inequality of Cauchy and Schwarz this norm
    is at most $\sqrt{d_L}$ times the largest norm of one output, so the corollary could have $\sqrt{d_L}$. The study
    finds the supremum by turns, from the output with the largest norm: the leading eigenvector $u$ for a given $s$,
    then $s_k \propto u^\top H_{f_k} u$. No turn lowers the value.
    """

    def make(m: int) -> Network:
        return dag(graphs.fully_connected(config.dim, [m, m], config.outputs), "tanh")

    copies = 2 * wide.COPIES + config.draws
    wide.refuse_oversized("thesis/cor-A.3.1", make, config.dim, config.widths, copies=copies, itemsize=8)
    x = wide.one_input(jax.random.key(config.seed), config.dim, config.size)
    found = []
    for j, width in enumerate(config.widths):
        net = make(width)
        networks = wide.drawn(net, x, (config.seed, j), config.draws)
        norms = partial(joint_norm, net.apply, rounds=config.rounds, steps=wide.LANCZOS)
        look = jax.jit(lambda all, x, start, norms=norms: jax.lax.map(lambda one: norms(one, x, start), all))
        found.append(look(wide.stacked(networks), x, wide.direction(networks[0])))
    own, joint = (np.stack(norms) for norms in zip(*found, strict=True))
    return xr.Dataset(
        {"own": (("width", "network", "output"), own), "joint": (("width", "network"), joint)},
        coords={"width": list(config.widths)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    ratio, name = data.joint / data.own.max("output"), "norm of the tensor over the largest norm of an output"
    why = "the corollary's bound, which holds for every matrix"
    yield claim("bound", f"largest {name}").at_most(config.outputs, ratio.max(), why)
    yield claim("root-bound", f"largest {name}, against the root of the number of outputs").at_most(
        np.sqrt(config.outputs), ratio.max(), "Cauchy and Schwarz"
    )
    why = "all outputs together bend more than one alone"
    yield claim("mean-ratio", f"mean {name}").at_least(1.0, estimate(ratio), why)
    slack = wide.logarithm(config.widths)
    found = exponent(data.joint)
    yield claim("exponent", "exponent of the tensor's norm in the width").at_most(-0.5, found, slack=slack)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (7.6, 4.4))
    own = data.own.max("output")
    for label, values, mark in (("largest of the outputs", own, "o"), ("all outputs together", data.joint, "s")):
        law, mean = wide.law(values), np.exp(np.log(values).mean("network"))
        (points,) = axes.plot(data.width, mean, mark, ms=6, label=f"{label}: {law.exponent:.2f}")
        axes.plot(data.width, law(data.width), color=points.get_color(), lw=1)
    mean = np.exp(np.log(own).mean("network"))
    bound = r"$\sqrt{d_L}\,\max_k \|H_k\|$"
    sheet.guide(axes, data.width, np.sqrt(config.outputs) * mean, bound, ls=":", lw=1.4)
    sheet.guide(axes, data.width, config.outputs * mean, r"$d_L \max_k \|H_k\|$")
    wide.mark_widths(axes, data.width)
    beside = {"fontsize": 8, "loc": "center left", "bbox_to_anchor": (1.0, 0.5), "title_fontsize": 8}
    sheet.label(axes, f"Hessian of {config.outputs} outputs", y="norm", legend={"title": "exponent", **beside})
