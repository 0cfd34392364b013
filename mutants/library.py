"""Errors in networks, curvature, features, expansions and training."""

from __future__ import annotations

from mutants.mutant import planted

LIBRARY = [
    *planted(
        "linalg/stochastic",
        ("math.sqrt(probes / (probes - 1))", "math.sqrt(probes * (probes - 1))", ""),
        ("nodes, vectors[0] ** 2", "nodes, vectors[0]", ""),
    ),
    *planted(
        "linalg/norm",
        ("image = product(now) - beta * before", "image = product(now) + beta * before", "thesis/thm-2.3.8"),
    ),
    *planted(
        "linalg/tridiagonal",
        ("- betas[row - 1] ** 2 / pivot", "+ betas[row - 1] ** 2 / pivot", ""),
        ("beyond &= pivot < 0", "beyond = pivot < 0", ""),
        ("+ 2 * by[1] @", "+ by[1] @", ""),
    ),
    *planted(
        "curvature/critical_steps/full_batch",
        ("2 * (1 + momentum) / (1 + 2 * momentum", "2 * (1 - momentum) / (1 + 2 * momentum", ""),
        ("return 2 / (c * largest_eigenvalue(found))", "return 1 / (c * largest_eigenvalue(found))", "thesis/fig-4.4"),
    ),
    *planted(
        "curvature/loss_split",
        ("c / 2 * (vectors.T @ residual) ** 2", "c * (vectors.T @ residual) ** 2", "thesis/eq-4.2"),
        ("(1 - smallest / largest) ** 2", "(1 - smallest / largest)", "thesis/eq-2.16"),
        ("jnp.max(jnp.abs(difference)) /", "jnp.max(difference) /", "thesis/fig-2.2"),
    ),
    *planted("curvature/operators", (".set(1.0)", ".set(2.0)", "thesis/cor-2.3.7")),
    *planted(
        "features/agop",
        ("return total / n", "return total", ""),
        ("sofar + gradient.T @ gradient", "sofar - gradient.T @ gradient", "thesis/fig-C.17"),
    ),
    *planted(
        "features/alignment",
        ("jnp.sum(a * b) / (", "jnp.sum(a * b) / 2 / (", "thesis/fig-C.17 thesis/table-4.1"),
        tests="features/test_agop",
    ),
    *planted("features/rfm", ("np.hstack([-2 * moved, norms, one])", "np.hstack([-moved, norms, one])", "")),
    *planted(
        "expansion",
        ("term / math.factorial(j)", "term / math.factorial(j + 1)", "thesis/eq-3.10"),
        (
            "jax.tree.map(jnp.subtract, params, params0), (x, captured)",
            "jax.tree.map(jnp.add, params, params0), (x, captured)",
            "thesis/eq-2.16 thesis/eq-3.8",
        ),
    ),
    *planted(
        "losses",
        (
            "weight(*sizes) * jnp.sum((outputs - targets) ** 2)",
            "weight(*sizes) * jnp.sum((outputs + targets) ** 2)",
            "thesis/eq-4.2",
        ),
    ),
    *planted(
        "nets/parametrization",
        (
            '"ntk": Draw("normal", 1.0, self.gain / root)',
            '"ntk": Draw("normal", 1.0, self.gain * root)',
            "thesis/thm-2.3.6",
        ),
        ('"pytorch": Draw("uniform", 1 / root)', '"pytorch": Draw("uniform", 3 / root)', ""),
    ),
    *planted("nets/graphs/network", ("block.fans**-0.5", "block.fans**-1.0", "thesis/thm-2.3.6 thesis/eq-2.13")),
    *planted(
        "nets/graphs/recursion",
        ("bend = first * ddz[i] + second * np.outer", "bend = first * ddz[i] - second * np.outer", "thesis/eq-2.13"),
        tests="nets/graphs/test_network",
    ),
    *planted("nets/layers/attention", ("(math.sqrt(size) if scaling", "(size if scaling", "")),
    *planted(
        "kernels/dual",
        ("k**2 * (shares - 1)", "k**2 * (shares + 1)", ""),
        ("densities * k * (shares + 1 / rest)", "densities * k * (shares - 1 / rest)", ""),
        ("odd * k + even * value", "odd * k - even * value", "lectures/09-19-criticality"),
    ),
    *planted(
        "kernels/criticality",
        ("weights * (slopes + bends), weights", "weights * (slopes - bends), weights", "lectures/09-19-criticality"),
        ("0.75 * (s2 / s1) ** 2", "0.75 * (s2 / s1)", ""),
    ),
    *planted(
        "kernels/arc_cosine",
        ("jnp.where(acute, gap, 1.0) - (s - angle", "jnp.where(acute, gap, 1.0) + (s - angle", "book/sec-9.4"),
        (
            "return bent, jnp.where(acute, 1 - angle, angle)",
            "return bent, jnp.where(acute, 1 + angle, angle)",
            "book/sec-9.4",
        ),
        ("return sine * evaluated(", "return 2 * sine * evaluated(", ""),
        tests="kernels/layers/test_activation",
    ),
    *planted(
        "kernels/pairs/angle_series",
        ("2 * place * last - before", "2 * place * last + before", ""),
        ("keep([2 * angle_of(gap) - 1])", "keep([angle_of(gap)])", ""),
    ),
    *planted(
        "kernels/layers/gpu",
        ("bend.even * (sine + cosine * on_both)", "bend.even * (sine - cosine * on_both)", ""),
        ("link = _as_number(below != 0)", "link = _as_number(below >= 0)", ""),
        ("(other > 0))]", "(other >= 0))]", ""),
    ),
    *planted(
        "kernels/layers/weights",
        (
            "ntk = made.trained * signal.covariance + made.shifts",
            "ntk = made.trained * signal.covariance - made.shifts",
            "",
        ),
        tests="kernels/layers/test_activation",
    ),
    *planted(
        "kernels/layers/activation",
        ("(odd - even + 2 * even * on_both)", "(odd - even + even * on_both)", "book/sec-9.4"),
    ),
    *planted(
        "kernels/predict",
        ("return -_fit(factor, y) / 2 - y", "return -_fit(factor, y) - y", ""),
        ("math.sqrt(2 * weight * float", "math.sqrt(weight * float", ""),
        ("test - between @ solved[:, outputs:]", "test + between @ solved[:, outputs:]", ""),
    ),
    *planted("kernels/any_loss", ("pull = -jax.grad(found)", "pull = -2 * jax.grad(found)", "")),
    *planted(
        "kernels/phases",
        ("1 / np.abs(np.log(self.perpendicular))", "2 / np.abs(np.log(self.perpendicular))", ""),
        ("np.where(ends, np.where(rises, np.inf, 0.0), K)", "np.where(ends, np.where(rises, 0.0, np.inf), K)", ""),
    ),
    *planted("nets/layers/pool", ("return sums / math.prod(window)", "return sums", "")),
    *planted(
        "optim/rules/descent",
        ("lambda p, g: p - lr * g, params", "lambda p, g: p - 2 * lr * g, params", "thesis/fig-3.3 thesis/eq-3.16"),
        tests="dynamics/test_runner",
    ),
    *planted(
        "measure/events",
        ("return values[1:] > values[:-1]", "return values[1:] < values[:-1]", "thesis/table-4.2"),
        (
            "np.flatnonzero(values[step:] <= (1 + tolerance)",
            "np.flatnonzero(values[step:] <= (2 + tolerance)",
            "thesis/fig-4.7 thesis/fig-4.5",
        ),
    ),
    *planted(
        "optim/control",
        ("jnp.arctan2(2 * b, a - c) / 2", "jnp.arctan2(b, a - c) / 2", "thesis/controller"),
        ("_over(2 * falls, bends)", "_over(falls, bends)", "thesis/controller"),
        ("jnp.minimum(lr, share * found.critical)", "jnp.maximum(lr, share * found.critical)", "thesis/controller"),
    ),
    *planted(
        "optim/optimizers/catalog",
        ("(1 - size * shrink / 2) * stability_factor(b1)", "(1 + size * shrink / 2) * stability_factor(b1)", ""),
        (
            "mean, square = 1 - b1**average.count, 1 - b2**average.count",
            "mean, square = 1 - b2**average.count, 1 - b2**average.count",
            "quadreg/optimisers",
        ),
    ),
    *planted("optim/schedules", ("(1 - jnp.abs(2 * phase - 1))", "jnp.abs(2 * phase - 1)", "")),
    *planted("optim/batches", ("words[1], words[0])", "words[0], words[0])", "")),
    *planted(
        "measure/one_mode",
        (
            "jnp.where(overlaps[chosen] < 0, -1.0, 1.0)",
            "jnp.where(overlaps[chosen] > 0, -1.0, 1.0)",
            "quadreg/fig-5 quadreg/fig-7",
        ),
        ("along = jnp.sqrt(scale) * jnp.vdot(", "along = scale * jnp.vdot(", "quadreg/fig-5 quadreg/fig-6"),
    ),
    *planted(
        "measure/kernel",
        ("problem.loss.curvature(outputs) / 2 * (", "problem.loss.curvature(outputs) * (", ""),
        tests="optim/test_training",
    ),
    *planted(
        "measure/spectrum",
        (
            "roots = jax.tree.map(lambda p: 1 / jnp.sqrt(p), divisor)",
            "roots = jax.tree.map(lambda p: 1 / p, divisor)",
            "quadreg/optimisers",
        ),
        tests="optim/optimizers/test_catalog",
    ),
]
