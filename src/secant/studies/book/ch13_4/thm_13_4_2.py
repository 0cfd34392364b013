"""Theorem 13.4.2: with weight decay gradients become small after a time that hardly depends on the start."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared.numerics.exponents import slope
from secant.studies.shared.scale_invariant import steep
from secant.theory.normalization.weight_decay import gradient_floor, hitting_time

RECORDS = 400
"""Recorded steps of a run."""


class Config(Seeded):
    smoothness: float = option(15.934578, at_least=0.1, at_most=1e3, help="largest curvature on the sphere, rho")
    dim: int = options.dim(5, at_least=3, at_most=50)
    lr: float = options.lr(0.01, at_least=1e-3, at_most=1.0)
    product: float = option(1e-4, at_least=3e-5, at_most=3e-4, help="step size times decay")
    starts: tuple[float, ...] = option(
        (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3),
        at_least=1e-4,
        at_most=1e4,
        ascending=True,
        longest=9,
        help="lengths of the weights at the start",
    )


def descend(spectrum: np.ndarray, start: np.ndarray, lr: float, decay: float, steps: int) -> dict[str, np.ndarray]:
    """Lengths and gradients on the sphere at recorded steps, and each start's first step below the floor."""
    rho = 2 * np.ptp(spectrum)
    floor = gradient_floor(lr, decay, rho)
    every = -(-steps // RECORDS)

    def look(w: Any) -> tuple[Any, Any]:
        square = jnp.sum(w**2, -1, keepdims=True)
        pull = 2 * (spectrum - jnp.sum(spectrum * w**2, -1, keepdims=True) / square) * w  # |w|^2 times the gradient
        return pull / square, jnp.sum(pull**2, -1) / square[:, 0]

    def step(t: Any, carry: Any) -> Any:
        w, hit = carry
        gradient, size = look(w)
        return (1 - lr * decay) * w - lr * gradient, jnp.where((hit < 0) & (size <= floor), t, hit)

    def record(carry: Any, number: Any) -> Any:
        w, _ = carry
        seen = jnp.sqrt(jnp.sum(w**2, -1)), jnp.sqrt(look(w)[1])
        return jax.lax.fori_loop(number * every, (number + 1) * every, step, carry), seen

    begin = (jnp.asarray(start), jnp.full(len(start), -1))
    (_, hit), (length, steepness) = jax.jit(lambda c: jax.lax.scan(record, c, jnp.arange(RECORDS)))(begin)
    found = {"hit": hit, "length": length, "slope": steepness, "step": every * np.arange(RECORDS)}
    return {name: np.asarray(values) for name, values in found.items()}


@study("book/thm-13.4.2", section="13.4", title="Weight decay finds small gradients from any scale")
def run(config: Config) -> xr.Dataset:
    r"""Let gradient descent with weight decay run on a scale-invariant loss, with $\eta\lambda < \frac12$ and $\rho =
    \max_{|w|=1}\|\nabla^2L(w)\|_2$. Then some $t \le
    \frac1{2\lambda\eta}\bigl(\bigl|\ln\frac{|w_0|^2}{\rho\pi^2\eta}\bigr| + 3\bigr)$ has $|\nabla L(\bar w_t)|^2 \le
    8\pi^4\rho^2\lambda\eta$. This time grows as the logarithm of the length at the start. Here $L = w\cdot Aw/|w|^2$,
    and runs start in the direction of its largest gradient.
    """
    random, decay = np.random.default_rng(config.seed), config.product / config.lr
    loss, direction = steep(random, config.smoothness, config.dim)
    starts = np.array(config.starts)
    bounds = [hitting_time(start, config.lr, decay, config.smoothness) for start in starts]
    found = descend(loss.spectrum, starts[:, None] * direction, config.lr, decay, max(bounds))
    return xr.Dataset(
        {
            "hit": ("start", found["hit"]),
            "bound": ("start", bounds),
            "length": (("step", "start"), found["length"]),
            "slope": (("step", "start"), found["slope"]),
            "floor": gradient_floor(config.lr, decay, config.smoothness),
            "spectrum": ("i", loss.spectrum),
        },
        coords={"start": starts, "step": found["step"]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield claim("start", r"$|\nabla L|^2$ on the sphere at the start over $\rho^2$").equal(
        0.25,
        (data.slope[0] ** 2).max() / config.smoothness**2,
        1e-10,
        r"the range of the eigenvalues is $\rho/2$, and no gradient is larger",
    )
    share = float(data.floor) / (config.smoothness**2 / 4)
    yield claim("floor", r"the floor over the largest $|\nabla L|^2$ on the sphere").at_most(
        1.0, share, "or the theorem would be empty"
    )
    for start in config.starts:
        one = data.sel(start=start)
        hit = float(one.hit) if one.hit >= 0 else np.inf
        yield claim(f"hit-{start:g}", f"$|w_0| = {start:g}$: first step with a gradient below the floor").at_most(
            float(one.bound), hit, "the theorem"
        )
    far = [start for start in config.starts if start**2 >= 100 * np.pi**2 * config.smoothness * config.lr]
    why = r"long weights only shrink, by $\eta\lambda$ a step, and turn by some percent meanwhile"
    yield claim(
        "growth",
        r"growth of this time with $\ln|w_0|$ times $\eta\lambda$, from lengths of $10\pi\sqrt{\rho\eta}$ on",
        given=len(far) > 1,
        otherwise="fewer than two starts are that long",
    ).equal(1.0, lambda: slope(np.log(far), data.hit.sel(start=far)) * config.product, 0.05, why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    for i, start in enumerate(data.start.values):
        one = data.sel(start=start)
        middle.plot(data.step, one.length, color=f"C{i}")
        right.plot(data.step, config.lr / one.length**2, color=f"C{i}", label=f"{start:g}")
    left.plot(data.start, data.hit.where(data.hit >= 0) + 1, "o-", color="C0", label="first step below the floor")
    sheet.guide(left, data.start, data.bound, "bound")
    left.set(xscale="log", yscale="log", ylim=(None, 10 * float(data.bound.max())))
    right.set(yscale="log", ylim=(float(config.lr / data.length.max() ** 2) / 1e4, None))
    legend = {"title": "$|w_0|$", "loc": "lower right", "ncols": 3}
    sheet.label(left, r"$|\nabla L|^2 \leq 8\pi^4\rho^2\lambda\eta$", "$|w_0|$", "step", "upper right")
    sheet.label(middle, "Length of the weights", "step", "$|w|$", yscale="log")
    sheet.label(right, "Step size on the sphere", "step", r"$\eta/|w|^2$", legend)
