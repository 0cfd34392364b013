r"""How the curvature of random quadratic regression begins to grow: along flows, for one Jacobian, and for random ones.

Residuals and Jacobians have the standard deviations $\sigma_z$ and $\sigma_J$. The mean over $z$ and $-z$ is taken
where terms odd in the residuals would only add noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from secant.studies.shared.regression import draws
from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression import random_regression as rr


def along_flows(seed: int, runs: int, D: int, P: int, sigma_z: float, sigma_J: float) -> xr.Dataset:
    """Gradient flows from small random starts: their mean curvature, and their derivatives at one time."""
    unit = 1 / (np.sqrt(D * P) * sigma_z)
    h = 0.025 * min(unit, 1 / (sigma_J**2 * rr.edge(D, P)))

    def one(Q: Array, start: qr.Regression) -> dict[str, Array]:
        field, states = qr.flow_field(Q), draws.mirrored(start, sigma_z, sigma_J)
        close = draws.path(field, jax.tree.map(lambda leaf: leaf[0], states), h / 4, 4, 4)
        formulas = rr.eigenvalue_derivatives(jax.tree.map(lambda leaf: leaf[2], close), Q)
        far = jax.vmap(lambda state: draws.path(field, state, unit / 120, 4, 30).J)(states)
        return {"far": draws.kernel(far), "close": draws.kernel(close.J), "formula": jnp.stack(formulas)}

    def differences(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivative in the middle of five equidistant values."""
        first, second = np.array([1.0, -8, 0, 8, -1]), np.array([-1.0, 16, -30, 16, -1])
        return values @ first / (12 * h), values @ second / (12 * h**2)

    found = draws.each_draw(one, seed, runs, D, P)
    tops, close, formula = draws.largest(found["far"]), draws.largest(found["close"]), found["formula"]
    gap = np.abs(formula - np.stack(differences(close), axis=1)) / np.sqrt(np.mean(formula**2, axis=0))
    sigma = np.sqrt(close)
    first, second = differences(sigma)
    # The flows of z and -z are averaged, so that terms odd in z drop out exactly.
    growth = tops.mean(axis=1) / tops[..., 0].mean()
    squares = "square of the velocity of the largest singular value, and its acceleration times it"
    return xr.Dataset(
        {
            "growth": ("time", growth.mean(axis=0), {"long_name": "mean curvature over its mean at the start"}),
            "growth_error": ("time", draws.standard_error(growth)),
            "gap": (("run", "order"), gap),
            "by_singular_values": ("run", first**2 + sigma[:, 2] * second, {"long_name": squares}),
            "by_eigenvalues": ("run", formula[:, 1]),
        },
        {"time": ("time", np.linspace(0, 1, growth.shape[1]), {"long_name": "time", "units": "1/(sigma_z sqrt(D P))"})},
    )


def of_one_jacobian(
    seed: int, count: int, D: int, P: int, sigma_z: float, sigma_J: float, conventions: Sequence[qr.Convention]
) -> xr.Dataset:
    """Many residuals and tensors for one Jacobian: mean acceleration and squared velocity, drawn and by formula."""
    J = sigma_J * np.random.default_rng([seed, 1]).normal(size=(D, P))
    values = np.linalg.eigvalsh(J @ J.T)

    def both_signs(Q: Array, start: qr.Regression) -> tuple[Array, Array]:
        states = draws.mirrored(qr.Regression(start.z, jnp.asarray(J)), sigma_z)
        both = jax.vmap(rr.eigenvalue_derivatives, (0, None))(states, Q)
        return both.second.mean(), both.first[0] ** 2 / (4 * values[-1])

    found = [
        draws.each_draw(both_signs, seed + i, count, D, P, convention, 250)
        for i, convention in enumerate(conventions, 1)
    ]
    variances = [rr.VARIANCE[convention] for convention in conventions]
    formulas = {
        "given_J": [rr.acceleration_given(values, P, sigma_z, s) for s in variances],
        "speed": [rr.mean_square_velocity(values, sigma_z, s) for s in variances],
    }
    table = xr.Dataset(coords={"convention": list(conventions)})
    for (name, exact), parts in zip(formulas.items(), zip(*found, strict=True), strict=True):
        drawn = np.stack(parts)
        mean = {"long_name": "mean over residuals and tensors for one Jacobian"}
        table[name] = ("convention", drawn.mean(axis=1), mean)
        table[f"{name}_error"] = ("convention", draws.standard_error(drawn, axis=1))
        table[f"{name}_formula"] = ("convention", exact)
    return table


def all_at_random(seed: int, count: int, D: int, P: int, sigma_z: float, sigma_J: float) -> xr.Dataset:
    """Accelerations with residuals, tensors and Jacobians all drawn, with unit variance off the diagonal."""

    def one(Q: Array, start: qr.Regression) -> dict[str, Array]:
        state = qr.Regression(sigma_z * start.z, sigma_J * start.J)
        both = jax.vmap(rr.eigenvalue_derivatives, (0, None))(draws.mirrored(state), Q)
        return {
            "velocity": both.first[0],
            "parity": jnp.abs(both.first.sum() / both.first[0]),
            "acceleration": both.second.mean(),
            "one_sign": both.second[0],
        }

    found = draws.each_draw(one, seed, count, D, P, "goe")
    return xr.Dataset({name: ("draw", values) for name, values in found.items()})
