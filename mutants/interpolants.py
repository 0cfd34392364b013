"""Errors in potentials, in solutions of least divergence and in mirror descent."""

from __future__ import annotations

from mutants.mutant import planted

INTERPOLANTS = [
    *planted(
        "theory/bias/potentials",
        ("exp(z) * v,", "exp(-z) * v,", "book/thm-8.1.2"),
        ("value=lambda w: ((w @ host) * w).sum(-1) / 2", "value=lambda w: ((w @ host) * w).sum(-1)", "book/thm-8.1.2"),
        ("arcsinh(w / (2 * square)) / 4", "arcsinh(w / square) / 4", "book/thm-8.1.2"),
        ("sinh(4 * z)", "sinh(2 * z)", "book/thm-8.1.2"),
        ("norm, 1.0)) ** (p - 1)", "norm, 1.0)) ** p", "book/thm-8.1.2 book/fig-8.1"),
        ("(2 - q) * s * (s * v)", "(q - 2) * s * (s * v)", ""),
        ("- z * (z / (2 + xp.hypot(2.0, z)))", "+ z * (z / (2 + xp.hypot(2.0, z)))", "book/thm-8.1.2"),
        ("- self.value(start) - (self.gradient", "- self.value(start) + (self.gradient", "book/thm-8.1.2"),
        ("(values[..., :, None] + sign * values", "(values[..., :, None] - sign * values", ""),
    ),
    *planted(
        "theory/bias/interpolants",
        ("left.T / values[:, None]", "left.T * values[:, None]", ""),
        ("inner / values,", "inner * values,", ""),
        ("return back @ X, y @ back.T, back", "return back @ X, y @ back, back", "book/thm-8.1.2 book/fig-8.1"),
        ("(height - s * change)", "(height + s * change)", "book/stagewise"),
        ("= sign * scipy.optimize", "= scipy.optimize", "book/stagewise"),
        ("~tied | (correlation * s < 0)", "~tied", ""),
    ),
    *planted(
        "theory/bias/_least_norms",
        ("np.hstack([X, -X])", "np.hstack([X, X])", "book/stagewise"),
        ("least / size, 1 / (p - 1))", "least / size, 1 / p)", ""),
        ("** (2 - p) * size ** (p - 1)", "** (2 - p)", ""),
        tests="theory/bias/test_interpolants",
    ),
    *planted(
        "theory/bias/_power_equation",
        ("_log(v, exponent) * (1 - exponent)", "-_log(v, exponent)", ""),
        ("(v - v.max()) / (1 + top)", "(v - v.max())", ""),
        ("np.log(np.abs(1 + x))) / exponent", "np.log(np.abs(1 + x)))", "book/fig-8.1"),
        tests="theory/bias/test_interpolants",
    ),
    *planted(
        "theory/bias/_dual_newton",
        ("np.maximum(values, least)", "np.maximum(values, 0 * least)", ""),
        tests="theory/bias/test_interpolants",
    ),
    *planted("optim/rules/mirror", ("potential.gradient(w) - lr * g", "potential.gradient(w) + lr * g", "")),
]
