"""Errors in stochastic gradients, their equations and weak errors."""

from __future__ import annotations

from mutants.mutant import planted

SDE = [
    *planted(
        "theory/noise/linear_noise",
        ("root = np.sqrt(lr * self._p)", "root = lr * np.sqrt(self._p)", "book/prob-12.2.4 book/thm-12.4.2"),
        (
            "-self.mean_hessian, self.mean_offset, -root",
            "-self.mean_hessian, -self.mean_offset, -root",
            "book/thm-12.3.4",
        ),
        (
            "a, b, step = (1 + root) / 2, (1 - root) / 2, lr / amplify",
            "a, b, step = (1 + root) / 2, (1 - root) / 2, lr",
            "book/thm-12.4.2",
        ),
        ("root = math.sqrt(2 * amplify - 1)", "root = math.sqrt(amplify)", "book/thm-12.4.2 book/prob-12.4.3"),
        (
            "itertools.combinations(range(order), 2)",
            "itertools.permutations(range(order), 2)",
            "book/prob-12.2.4 book/def-12.3.7",
        ),
        ("root = math.sqrt(a)\n", "root = a\n", "book/ex-12.2.3"),
        ("third - mixed - np.einsum", "third - mixed + np.einsum", "book/prob-12.3.6"),
        (
            "found *= self.chances @ np.exp(1j * self.shifts @ omega)",
            "found *= self.chances @ np.exp(2j * self.shifts @ omega)",
            "book/thm-12.3.4",
        ),
        ("omega = A.T @ omega", "omega = omega", "book/thm-12.3.4"),
    ),
    *planted(
        "theory/noise/weak_error",
        ("fine.sum(0) / np.sqrt(parts)", "fine.sum(0) / parts", "book/thm-12.3.4"),
        (
            "ahead[steps - 1 - j] @ ((step - reference) @ z)",
            "ahead[steps - 1 - j] @ ((reference - step) @ z)",
            "book/prob-12.3.6",
        ),
        ("z = step @ z", "z = reference @ z", "book/prob-12.3.6"),
        (
            "weight * place @ np.log(e[kept]) / spread",
            "2 * weight * place @ np.log(e[kept]) / spread",
            "book/skewed-noise",
        ),
        ("apart.std(ddof=1) / np.sqrt(len(apart))", "apart.std(ddof=1) / len(apart)", ""),
    ),
    *planted(
        "optim/rules/noisy",
        ("gradient_descent(of_batch, lr / amplify)", "gradient_descent(of_batch, lr)", "book/def-12.4.1"),
        (
            "root = (jnp if is_traced(amplify) else np).sqrt(2 * amplify - 1)",
            "root = (jnp if is_traced(amplify) else np).sqrt(amplify)",
            "book/def-12.4.1",
        ),
        ("(self.seed, self.seed ^ SECOND)", "(self.seed, self.seed)", "book/def-12.4.1"),
        ("p - lr * (g + z)", "p - lr * g + z", ""),
    ),
    *planted(
        "optim/rules/noises",
        ("(xi - xi.mean()) / math.sqrt(samples * batch)", "xi / math.sqrt(samples * batch)", ""),
        ("math.sqrt(freedom / (freedom - 2))", "math.sqrt(freedom)", ""),
        ("jnp.sqrt(trace / (batch * mean.size))", "jnp.sqrt(trace / batch)", ""),
        tests="optim/rules/test_noisy",
    ),
    *planted(
        "dynamics/sde",
        ("root = jnp.sqrt(length)", "root = length", "book/ex-12.2.3"),
        ("normals(jax.random.fold_in(key, k), shape, dtype)", "jax.random.normal(key, shape, dtype)", "book/ex-12.2.3"),
        ("times[np.argmin(good, axis=0)]", "times[np.argmax(good, axis=0)]", ""),
    ),
    *planted(
        "dynamics/normals",
        ("np.float32(-2) * _log(u)", "np.float32(-1) * _log(u)", ""),
        ("* np.float32(2.0**-33)", "* np.float32(2.0**-34)", ""),
        ("^ (angle << 31)", "^ (angle << 32)", ""),
        ("_at(_COSINE, v * v)", "_at(_COSINE, v)", ""),
        ("exponent.astype(jnp.float32) * np.float32(np.log(2))", "exponent.astype(jnp.float32)", ""),
    ),
]
