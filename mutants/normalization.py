"""Errors in scale invariance, weight decay and norms."""

from __future__ import annotations

from mutants.mutant import planted

NORMALIZATION = [
    *planted(
        "theory/normalization/factors",
        ("** (2 / k - 1)", "** (1 / k - 1)", "book/prob-13.1.1"),
        ("* w ** (k - 1)) ** k", "* w**k) ** k", "book/prob-13.1.1"),
        ("return 2 / positive", "return 1 / positive", "book/prob-13.1.1"),
    ),
    *planted(
        "theory/normalization/scale_invariance",
        ("grown @ logs / (logs @ logs)", "grown @ logs / abs(logs).sum()", "book/prob-13.1.3 book/lem-13.2.2"),
        ("- logs[:-1] - logs[1:]", "- 2 * logs[:-1]", "book/thm-13.3.1"),
        ("np.log(eta) - logs", "-logs", "book/thm-13.3.1"),
        ("return -sign * jnp.vdot", "return -jnp.vdot", ""),
        ("kept = float(growth) ** -0.5", "kept = float(growth) ** -1.0", ""),
        ("(1 - kept) / (first * kept)", "(1 - kept) / first", ""),
    ),
    *planted(
        "theory/normalization/weight_decay",
        ('return math.pi**2 * positive("turning_norm"', 'return math.pi * positive("turning_norm"', "book/lem-13.4.8"),
        ("return 8 * math.pi**4", "return 8 * math.pi**2", "book/lem-13.4.8"),
        ("(abs(math.log(ratio)) + 3) / (2", "(math.log(ratio) + 3) / (2", "book/thm-13.4.2"),
        ("math.ceil(1 / (6 * _half", "math.ceil(1 / (3 * _half", "book/lem-13.4.8"),
        ("math.log(2 * ratio) / (2", "math.log(ratio) / (2", "book/lem-13.4.9"),
        ("(eta * size**2 / (2 * decays)) ** 0.25", "(eta * size**2 / decays) ** 0.25", "book/equilibrium"),
        ("math.sqrt(2 * product) / size", "math.sqrt(product) / size", "book/equilibrium"),
        ("kept ** (4 * np.asarray(steps))", "kept ** (2 * np.asarray(steps))", "book/equilibrium"),
        ("2 * math.sin(turn / 2) ** 2 / eta", "math.sin(turn / 2) ** 2 / eta", ""),
        ("/ (2 * kept**2 * size**2)", "/ (4 * kept**2 * size**2)", "book/thm-13.4.6"),
        ("(1 / kept - curved)", "(1 - curved)", "book/thm-13.4.6"),
    ),
    *planted(
        "studies/shared/scale_invariant",
        (
            "return float(2 * np.ptp(self.spectrum))",
            "return float(np.ptp(self.spectrum))",
            "book/lem-13.4.3 book/lem-13.4.5",
        ),
        (" / math.sqrt(3)", " / 2", "book/lem-13.4.3 book/lem-13.4.5"),
        ("return 2 * (self.spectrum - self", "return (self.spectrum - self", "book/thm-13.4.6"),
        tests="studies/sources/test_normalization",
    ),
    *planted(
        "nets/layers/norm",
        ('axes = (-1,) if over == "features" else (*range(1, x.ndim - 1), -1)', "axes = (-1,)", ""),
        ("x, tuple(range(x.ndim - 1)), epsilon", "x, (0,), epsilon", ""),
        (
            "jax.lax.rsqrt(variance + epsilon)",
            "jax.lax.rsqrt(variance + epsilon + 1e-3)",
            "book/lem-13.2.2 book/lem-13.2.3",
        ),
        ("if len(x) < 2:", "if len(x) < 1:", ""),
    ),
    *planted("nets/invariant", ("gain and index < len(sizes) - 1", "gain", "")),
    *planted("nets/layers/frozen", ("jax.random.key(seed), shape", "jax.random.key(0), shape", "")),
    *planted(
        "measure/effective_lr",
        ('"value": lr / length**2', '"value": lr / length', ""),
        ('"gradient": length * slope', '"gradient": slope', ""),
        ("2 * jnp.arcsin(", "jnp.arcsin(", ""),
    ),
]
