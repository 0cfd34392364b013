"""Section 2.4: gradient descent on a wide network converges, and does not need linearity to converge."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import losses
from secant.core.types import Params
from secant.curvature import kernel_matrix
from secant.dynamics import Probe
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study, unfold
from secant.studies.shared import width as wide
from secant.studies.shared.numerics.exponents import exponent

OUTPUTS = {"fcn": "linear output", "output": "nonlinear output"}

# Step size times the largest eigenvalue of the first kernel. The slope of a swish output is 1/2 at the start and at
# most 1.1, and the kernel grows with the square of this slope.
SHARES = {"fcn": 1.0, "output": (0.5 / 1.1) ** 2}


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (32, 128), (64, 128, 256, 512), (64, 128, 256, 512, 1_024, 2_048, 4_096), **wide.SWEPT
    )
    draws: int = options.draws(12, 12, at_least=2, at_most=10_000)
    samples: int = options.samples(4, at_least=2, at_most=1_000)
    dim: int = options.dim(8, at_least=2, at_most=10_000)
    size: float = option(0.5, at_least=1e-3, at_most=100, help="root mean square of the inputs")
    steps: int = options.steps(300, 400, at_least=20, at_most=100_000)


@study("thesis/sec-2.4", section="2.4", title="From a steady kernel to a global minimum")
def run(config: Config) -> xr.Dataset:
    r"""On $\mathcal L = \frac12\sum_i r_i^2$ the tangent kernel gives $\|\nabla\mathcal L\|^2 \ge 2\lambda_{\min}(K)\,
    \mathcal L$ (2.16). Where $\lambda_{\min}(K(w)) \ge \mu$ along the way, gradient descent with
    $\eta \le 1/\lambda_{\max}(H_{\mathcal L})$ converges exponentially to a global minimum. Its way is at most
    $2\sqrt{2\mathcal L(0)/\mu}$ long. Late in the run the loss falls by a factor $(1 - \eta\lambda_{\min}(K))^2$ a
    step, or faster.

    In a wide network such a $\mu$ exists, because the kernel hardly moves. The kernel consists of gradients, and the
    Hessian moves them, so
    $$|\lambda_{\min}(K(w)) - \lambda_{\min}(K(w_0))| \le \sqrt n\,\sup\|H_f\|\,\ell\,
    \big(\|K(w)\|^{1/2} + \|K(w_0)\|^{1/2}\big)$$
    for a way of length $\ell$. This bound falls as $1/\sqrt m$.

    Linearity is sufficient for this and not necessary: with a nonlinear activation of the output the Hessian does not
    fall with the width, and gradient descent still finds a global minimum.
    """
    keys = jax.random.split(jax.random.key(config.seed), config.samples)
    x = jnp.concatenate([wide.one_input(key, config.dim, config.size) for key in keys])
    # Within the range of both outputs.
    y = jnp.asarray(np.random.default_rng(config.seed).uniform(0.1, 0.6, config.samples))
    for kind in OUTPUTS:
        make, copies = wide.KINDS[kind].by_width(config.dim, keys[0]), 2 * wide.COPIES + config.draws
        wide.refuse_oversized("thesis/sec-2.4", make, config.dim, config.widths, copies=copies, itemsize=8)
    found = [_runs(kind, width, x, y, config) for kind in OUTPUTS for width in config.widths]
    return unfold(xr.concat(found, "run"), "run", kind=OUTPUTS, width=config.widths)


def _runs(kind: str, width: int, x: jax.Array, y: jax.Array, config: Config) -> xr.Dataset:
    net = wide.KINDS[kind].make(width, config.dim, jax.random.key(config.seed))
    starts = wide.drawn(net, x, (config.seed, width), config.draws)
    lanczos = wide.direction(starts[0])

    def square(params: Params) -> dict[str, jax.Array]:
        """The square of the gradient, and the smallest and the largest eigenvalue of the kernel."""
        gradient = jax.grad(lambda p: losses.half_sum(net.apply(p, x), y))(params)
        values = jnp.linalg.eigvalsh(kernel_matrix(net.apply, params, x))
        total = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient))
        return {"value": jnp.asarray(total), "smallest": values[0], "largest": values[-1]}

    ends = Probe(lambda params: wide.hessian_norm(net.apply, params, x, lanczos).value, every=config.steps)
    probes = {"square": Probe(square), "norm": ends}
    data = wide.descend(net.apply, x, y, starts, config.steps, probes, SHARES[kind])
    names = {"square_smallest": "smallest", "square_largest": "largest", f"step_{config.steps}": "end"}
    # A step is as long as the gradient, times the step size.
    length = (data.lr * np.sqrt(data.square)).shift(step=1, fill_value=0).cumsum("step")
    return data.drop_vars(("outcome", "stopped_at", "slowest")).rename(names).assign(length=length)


def _change(data: xr.Dataset) -> xr.DataArray:
    """How far the smallest eigenvalue of the kernel moves."""
    return np.abs(data.smallest - data.smallest.isel(step=0)).max("step")


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    alive = data.loss > 1e-20  # above the rounding of outputs of order one
    ratio = (data.square / (2 * data.smallest * data.loss)).where(alive).min()
    name = r"smallest squared gradient over $2\lambda_{\min}(K)\,\mathcal L$, all runs and steps"
    yield claim("condition", name).at_least(1.0, ratio, "rounding, relative to residuals that shrink", slack=1e-9)
    plain = data.sel(kind="fcn")
    length, first = plain.length.isel(step=-1), plain.loss.isel(step=0)
    ratio = length / (2 * np.sqrt(2 * first / plain.smallest.min("step")))
    why = "proved for step sizes of at most one over the curvature"
    note = "linear outputs; with nonlinear ones the kernel grows, and the step is too long for the proof"
    name = r"largest length of the way over $2\sqrt{2\mathcal L(0)/\mu}$"
    yield claim("length", name).at_most(1.0, ratio.max(), why, note=note)
    late = (_late(plain.loss) / (1 - plain.lr * plain.smallest.isel(step=-1)) ** 2).max()
    name = r"largest factor of the loss late in the run over $(1 - \eta\lambda_{\min}(K))^2$"
    why = "the slowest run attains the rate, up to a kernel that still moves by a thousandth"
    yield claim("late-factor", name).equal(1.0, late, 0.01, why)
    roots = np.sqrt(plain.largest)
    guard = np.sqrt(config.samples) * plain.norm.max("end") * length * (roots.max("step") + roots.isel(step=0))
    change, why = _change(plain), "the bound; the norm is measured for one output at both ends of the way"
    name = r"largest change of $\lambda_{\min}(K)$ over its bound by the norm of the Hessian"
    yield claim("change-bound", name).at_most(1.0, (change / guard).max(), why)
    found, logs = exponent(change), wide.logarithm(config.widths)
    name = r"change of $\lambda_{\min}(K)$: exponent in the width"
    yield claim("change-exponent", name).at_most(-0.5, found, slack=logs)
    name = "nonlinear output: exponent of the norm of the Hessian in the width"
    found, near = exponent(data.norm.sel(kind="output").max("end")), wide.next_order(config.widths, 0.5, 2.0)
    yield claim("nonlinear-output", name).zero(found, near)
    ends = data.loss.isel(step=-1) / data.loss.isel(step=0)
    promised = ((1 - data.lr * data.smallest.isel(step=slice(0, -1))) ** 2).prod("step")
    for kind, output in OUTPUTS.items():
        name = f"{output}: largest ratio of the last loss to the first"
        yield wide.global_minimum(f"loss-{kind}", name, ends.sel(kind=kind), promised.sel(kind=kind), 1e-4)


def _late(loss: xr.DataArray) -> xr.DataArray:
    """Factor of the loss in a step while the loss is small but far above rounding."""
    ready = (loss < 1e-6 * loss.isel(step=0)) & (loss > 1e-20)

    def mean(factors: np.ndarray) -> float:
        # In the last few of these steps the slowest direction is alone.
        last = factors[np.isfinite(factors)][-5:]
        return last.mean() if last.size else np.nan

    factors = (loss / loss.shift(step=1)).where(ready)
    return xr.apply_ufunc(mean, factors, input_core_dims=[["step"]], vectorize=True)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (12, 4.8), 3)
    widest, plain = data.isel(width=-1), data.sel(kind="fcn")
    for i, (kind, name) in enumerate(OUTPUTS.items()):
        loss = widest.loss.sel(kind=kind)
        lines = left.plot(data.step, (loss / loss.isel(step=0)).transpose("step", "network"), color=f"C{i}", lw=1)
        lines[0].set_label(name)
    one = widest.sel(kind="fcn").isel(network=0)
    rate = (1 - one.lr * one.smallest.min()) ** data.step
    sheet.guide(left, data.step, rate, r"guaranteed, $(1 - \eta\mu)^t$")
    title, y = f"Loss, width {int(data.width[-1])}", r"$\mathcal{L}/\mathcal{L}(0)$"
    sheet.label(left, title, "step", y, wide.BELOW, yscale="log", ylim=(1e-20, 3))
    for width in data.width.values:
        drift = plain.smallest.sel(width=width).isel(network=0)
        middle.plot(data.step, drift / drift.isel(step=0), lw=1.4, label=f"{width}")
    sheet.mark(middle, y=1, ls=":", lw=1)
    title, legend = r"$\lambda_{\min}(K)$ over its first value", {"title": "width", "ncols": 3, **wide.BELOW}
    sheet.label(middle, title, "step", legend=legend, xlim=(0, 0.4 * config.steps))
    norms = data.norm.max("end")
    for values, color, mark, label in (
        (_change(plain), "C0", "o", r"change of $\lambda_{\min}$, linear output"),
        (norms.sel(kind="fcn"), "C0", "s", r"$\|H_f\|$, linear output"),
        (norms.sel(kind="output"), "C1", "s", r"$\|H_f\|$, nonlinear output"),
    ):
        wide.plot_law(right, values, mark, label, color=color)
    wide.mark_widths(right, data.width)
    sheet.label(right, "Against the width", legend={"title": "exponent", **wide.BELOW})
