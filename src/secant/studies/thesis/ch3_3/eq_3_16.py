"""Equations (3.15)-(3.16): the exact update of residual and kernel for any quadratic model."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Probe, simulate
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, options, sheet, study
from secant.studies.shared.two_layer.models import descent, model, tangent_kernel
from secant.theory.regression import quadratic_model as qm


class Config(Seeded):
    width: int = options.width(512, 1_024, 2_048, at_least=8)
    samples: int = options.samples(8, 16, 128, at_least=2)
    dim: int = options.dim(6)
    eta_lambda: float = options.eta_lambda(2.6, at_least=0.1, at_most=3)
    steps: int = options.steps(40, at_least=2, at_most=1_000)

    def check(self) -> None:
        """Refuses what no memory holds."""
        jacobian = float(self.samples) * self.width * (self.dim + 1)
        fits_memory(32 * self.steps * (jacobian + self.samples**2), "width, samples, dim or steps")


@study("thesis/eq-3.16", section="3.3", title="The kernel update of every quadratic model")
def run(config: Config) -> xr.Dataset:
    r"""For a model quadratic in its parameters, with Jacobian $J$, residual $r$, Hessians $H_i$ and
    $G_i = H_i J^\top r$, one step of gradient descent on $\frac12\|r\|^2$ gives exactly
    $$r' = \big(I - \eta K + \tfrac{\eta^2}{2}\,GJ^\top\big)\,r,
    \qquad K' = K - \eta\,(GJ^\top + JG^\top) + \eta^2\,GG^\top .$$
    The study checks quadratic models of two-layer networks along a catapult, and one step of a model with random
    features and Hessians. The study `thesis/fig-B.2` examines another claim, for networks on images: while the loss is
    large, the remainders along the top eigenvector of $K$ are positive.
    """
    key_x, key_y, key = jax.random.split(jax.random.key(config.seed), 3)
    x = jax.random.normal(key_x, (config.samples, config.dim))
    y = jnp.sign(jax.random.normal(key_y, (config.samples,)))
    params = qm.two_layer_init(key, config.width, config.dim)
    outputs = model("quadratic", params, x)
    lr = config.eta_lambda / jnp.linalg.eigvalsh(tangent_kernel("quadratic", params, x, params))[-1]
    path = simulate(
        descent("quadratic", params, x, y, lr),
        params,
        config.steps,
        probes={"u": Probe(lambda p: p.u, dims=("neuron", "dim")), "v": Probe(lambda p: p.v, dims=("neuron",))},
    ).dataset

    def jacobian(p: qm.TwoLayer) -> jax.Array:
        leaves = jax.tree.leaves(jax.jacobian(outputs)(p))
        return jnp.concatenate([leaf.reshape(config.samples, -1) for leaf in leaves], axis=1)

    @jax.jit
    @jax.vmap
    def examine(p: qm.TwoLayer) -> dict[str, jax.Array]:
        r, J = outputs(p) - y, jacobian(p)
        gradient = jax.vjp(outputs, p)[1](r)[0]
        G = jax.jvp(jacobian, (p,), (gradient,))[1]  # G_i = H_i J^T r
        K = J @ J.T
        values, vectors = jnp.linalg.eigh(K)
        top = vectors[:, -1]
        cross, bend = top @ G @ J.T @ top, jnp.sum((G.T @ top) ** 2)
        return {
            "residual": r,
            "kernel": K,
            "residual_next": qm.residual_update(r, J, G, lr),
            "kernel_next": qm.kernel_update(J, G, lr),
            "top": values[-1],
            "vector": top,
            "along": r @ top,
            "remainder_f": lr**2 / 2 * cross,
            "remainder_k": 2 * lr * cross - lr**2 * bend,
            "printed": lr / 4 * (4 * cross - lr * bend),
        }

    found = jax.tree.map(np.asarray, examine(qm.TwoLayer(path.u.values, path.v.values)))
    columns = {name: (("step", "sample", "other")[: value.ndim], value) for name, value in found.items()}
    data = xr.Dataset(columns, coords={"step": path.step.values})
    return data.assign(lr=float(lr), random_gap=_random_gap(jax.random.fold_in(key, 1), config))


def _random_gap(key: jax.Array, config: Config) -> float:
    """Largest relative error of the two updates in a step of a quadratic model with random features and Hessians."""
    n, p = config.samples, 2 * config.samples
    shapes = ((p,), (n,), (n, p), (n, p, p))

    @jax.jit
    def gap(key: jax.Array) -> jax.Array:
        w, y, features, drawn = map(jax.random.normal, jax.random.split(key, 4), shapes)
        second = drawn / jnp.sqrt(p)
        second = (second + jnp.swapaxes(second, 1, 2)) / 2

        def at(w: jax.Array) -> tuple[jax.Array, jax.Array]:
            return qm.quadratic_output(w, features, second) - y, qm.quadratic_jacobian(w, features, second)

        r, J = at(w)
        lr, G = config.eta_lambda / jnp.linalg.eigvalsh(J @ J.T)[-1], qm.pull(r, J, second)
        r_next, J_next = at(w - lr * r @ J)
        updates = (qm.residual_update(r, J, G, lr), r_next), (qm.kernel_update(J, G, lr), J_next @ J_next.T)
        return jnp.maximum(*(jnp.max(jnp.abs(said - true)) / jnp.max(jnp.abs(true)) for said, true in updates))

    return float(gap(key))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    r, K = data.residual.values, data.kernel.values
    rounding = Tolerance(1e-11, why="rounding, relative to the size of the quantity")
    for key, name, seen, predicted in (
        ("residual", "residual: (3.15)", r, data.residual_next.values),
        ("kernel", "kernel: corrected (3.16)", K, data.kernel_next.values),
    ):
        error = np.abs(seen[1:] - predicted[:-1]).max() / np.abs(seen).max()
        yield claim(key, f"{name} against gradient descent").zero(error, rounding)
    yield claim("random", "(3.15) and corrected (3.16) against one step of a random quadratic model").zero(
        data.random_gap, rounding
    )
    peak = int(np.argmax((r**2).sum(1)[:-1]))
    p = data.vector.values[peak]
    printed = r"R_K = \tfrac14\,\eta\,(4\,GJ^\top - \eta\,GG^\top)", data.printed[peak]
    right = r"R_K = \eta\,(GJ^\top + JG^\top) - \eta^2\,GG^\top", data.remainder_k[peak]
    found, near = p @ (K[peak] - K[peak + 1]) @ p, Tolerance(0.0, 1e-9, why="rounding")
    note = r"The Jacobian moves to $J - \eta G$, and $K'$ is its Gram matrix; $G$ has as many columns as parameters."
    fall = claim("fall", "fall of the top eigenvalue at the peak of the loss")
    yield fall.erratum(printed, right, found, near, note=note, where="equation (3.16)")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    loss, scale = (data.residual**2).sum("sample") / 2, float(data.top[0])
    left.semilogy(data.step, loss, "o-", ms=3.5, color="C0", label="loss")
    left.semilogy(data.step, data.along**2 / 2, "s--", ms=3, lw=1, color="C1", label=r"along $p_1$")
    left.set_ylim(bottom=1e-4 * float(loss.max()))
    sheet.label(left, "The spike is in the top eigendirection", "step", r"$\mathcal{L}$", "best")
    look = {"marker": "s", "ms": 3.5, "color": "C3", "label": r"$p_1^{\top} R_K\, p_1/\lambda_1(0)$"}
    right.plot(data.step, data.remainder_f, "o-", ms=3.5, color="C2", label=r"$p_1^{\top} R_f\, p_1$")
    right.plot(data.step, data.remainder_k / scale, **look)
    p, K = data.vector.values, data.kernel.values
    fall = np.einsum("ti,tij,tj->t", p[:-1], K[:-1] - K[1:], p[:-1]) / scale
    sheet.guide(right, data.step[:-1], fall, r"$p_1^{\top}(K - K')\,p_1/\lambda_1(0)$, measured", lw=1)
    sheet.mark(right, y=0, ls="-", lw=0.8)
    sheet.label(right, "What drives it down", "step", "remainder", "best")
