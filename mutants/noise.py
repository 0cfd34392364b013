"""Errors in gradient noise, its relations, and the step size that second moments bear."""

from __future__ import annotations

from mutants.mutant import planted

NOISE = [
    *planted(
        "theory/noise/mean_square",
        ("batch * (batch - 1) / (n * (n - 1))", "batch * (batch - 1) / (n * n)", "lectures/11-16-critical-step"),
        ("rest = law.twice - law.together", "rest = law.twice", "lectures/11-16-critical-step"),
        ("scale = values[-1] * n / batch**2", "scale = values[-1] * n / batch", "lectures/11-16-critical-step"),
        ("float(2 * n / values[-1])", "float(n / values[-1])", "lectures/11-16-critical-step"),
        ("return Pairs(single, both, single + both)", "return Pairs(single, both, single)", ""),
        (
            "return Pairs(single, single**2, single)",
            "return Pairs(single, single**2, single**2)",
            "lectures/11-16-fluctuation",
        ),
        ("r = r - lr / batch * np.einsum", "r = r + lr / batch * np.einsum", "lectures/11-16-critical-step"),
    ),
    *planted(
        "theory/noise/fluctuation",
        ("(1 - law.single) / batch * square", "1 / batch * square", "lectures/11-16-noise lectures/11-16-fluctuation"),
        ("((m - batch) / (m - 1) if", "((m - batch) / m if", "lectures/11-16-noise lectures/11-16-fluctuation"),
        ("(square - np.outer(mean, mean))", "square", "lectures/11-16-noise lectures/11-16-fluctuation"),
        ("alpha * lr / (2 * (1 - lr * curvature))", "alpha * lr / (2 * (1 + lr * curvature))", "lectures/11-16-valley"),
        ("-alpha * lr**2 / 2 * (slopes", "alpha * lr**2 / 2 * (slopes", "lectures/11-16-valley"),
        ("lr * at_minimum).reshape(d, d)", "at_minimum).reshape(d, d)", ""),
        ("(sites + sign * s) % n, sites), 0.5)", "(sites + sign * s) % n, sites), 0.5 * s)", "lectures/11-16-ring"),
    ),
    *planted(
        "curvature/per_sample",
        ("return len(outputs) * jax.grad", "return jax.grad", ""),
        ("jnp.sum(a**2, (1, 2)) * jnp.sum(g**2, (1, 2))", "jnp.sum(a**2, (1, 2)) + jnp.sum(g**2, (1, 2))", ""),
        tests="curvature/test_noise",
    ),
    *planted(
        "curvature/noise",
        ("return (1 - batch / n) / batch, False", "return (1 - batch / n) / batch, True", ""),
        ("(n - batch) / (n - 1) if n > 1", "(n - batch) / n if n > 1", ""),
        ("normal * jnp.sqrt(scale / n)", "normal * scale / n", ""),
    ),
    *planted(
        "curvature/critical_steps/mean_square",
        ("found.step / (c * batch)", "found.step / c", ""),
        tests="curvature/test_noise",
    ),
    *planted(
        "measure/noise",
        ('"top": _over(values[0] / n, trace)', '"top": _over(values[0], trace)', ""),
        ("jnp.maximum(there - 1, 1)", "jnp.maximum(there, 1)", ""),
    ),
]
