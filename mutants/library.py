"""Errors in networks, curvature, features, expansions and training."""

from __future__ import annotations

from mutants.mutant import Mutant


def _in(module: str, test: str, *errors: tuple[str, str, str]) -> list[Mutant]:
    """Errors of one file, each with the studies that compute with it, separated by spaces."""
    return [Mutant(module, old, new, (test,), tuple(studies.split())) for old, new, studies in errors]


LIBRARY = [
    *_in(
        "linalg/stochastic.py",
        "linalg/test_stochastic.py",
        ("math.sqrt(probes / (probes - 1))", "math.sqrt(probes * (probes - 1))", ""),
        ("nodes, vectors[0] ** 2", "nodes, vectors[0]", ""),
    ),
    *_in(
        "linalg/norm.py",
        "linalg/test_norm.py",
        ("image = product(now) - beta * before", "image = product(now) + beta * before", "thesis/thm-2.3.8"),
    ),
    *_in(
        "linalg/tridiagonal.py",
        "linalg/test_tridiagonal.py",
        ("- betas[row - 1] ** 2 / pivot", "+ betas[row - 1] ** 2 / pivot", ""),
        ("beyond &= pivot < 0", "beyond = pivot < 0", ""),
        ("+ 2 * by[1] @", "+ by[1] @", ""),
    ),
    *_in(
        "curvature/critical.py",
        "curvature/test_critical.py",
        ("2 * (1 + momentum) / (1 + 2 * momentum", "2 * (1 - momentum) / (1 + 2 * momentum", ""),
        ("return 2 / (c * largest_eigenvalue(found))", "return 1 / (c * largest_eigenvalue(found))", "thesis/fig-4.4"),
    ),
    *_in(
        "curvature/loss_split.py",
        "curvature/test_loss_split.py",
        ("c / 2 * (vectors.T @ residual) ** 2", "c * (vectors.T @ residual) ** 2", "thesis/eq-4.2"),
        ("(1 - smallest / largest) ** 2", "(1 - smallest / largest)", "thesis/eq-2.16"),
        ("jnp.max(jnp.abs(difference)) /", "jnp.max(difference) /", "thesis/fig-2.2"),
    ),
    *_in(
        "curvature/operators.py",
        "curvature/test_operators.py",
        (".set(1.0)", ".set(2.0)", "thesis/cor-2.3.7"),
    ),
    *_in(
        "features/agop.py",
        "features/test_agop.py",
        ("return total / n", "return total", ""),
        ("sofar + gradient.T @ gradient", "sofar - gradient.T @ gradient", "thesis/fig-C.17"),
    ),
    *_in(
        "features/alignment.py",
        "features/test_agop.py",
        ("jnp.sum(a * b) / (", "jnp.sum(a * b) / 2 / (", "thesis/fig-C.17 thesis/table-4.1"),
    ),
    *_in(
        "features/rfm.py",
        "features/test_rfm.py",
        ("np.hstack([-2 * moved, norms, one])", "np.hstack([-moved, norms, one])", ""),
    ),
    *_in(
        "expansion.py",
        "test_expansion.py",
        ("term / math.factorial(j)", "term / math.factorial(j + 1)", "thesis/eq-3.10"),
        (
            "jax.tree.map(jnp.subtract, params, params0), (x, captured)",
            "jax.tree.map(jnp.add, params, params0), (x, captured)",
            "thesis/eq-2.16 thesis/eq-3.8",
        ),
    ),
    *_in(
        "losses.py",
        "test_losses.py",
        (
            "weight(*sizes) * jnp.sum((outputs - targets) ** 2)",
            "weight(*sizes) * jnp.sum((outputs + targets) ** 2)",
            "thesis/eq-4.2",
        ),
    ),
    *_in(
        "nets/parametrization.py",
        "nets/test_parametrization.py",
        (
            '"ntk": Draw("normal", 1.0, self.gain / root)',
            '"ntk": Draw("normal", 1.0, self.gain * root)',
            "thesis/thm-2.3.6",
        ),
        ('"pytorch": Draw("uniform", 1 / root)', '"pytorch": Draw("uniform", 3 / root)', ""),
    ),
    *_in(
        "nets/graphs/network.py",
        "nets/graphs/test_network.py",
        ("block.fans**-0.5", "block.fans**-1.0", "thesis/thm-2.3.6 thesis/eq-2.13"),
    ),
    *_in(
        "nets/graphs/recursion.py",
        "nets/graphs/test_network.py",
        ("bend = first * ddz[i] + second * np.outer", "bend = first * ddz[i] - second * np.outer", "thesis/eq-2.13"),
    ),
    *_in(
        "nets/layers/attention.py",
        "nets/layers/test_attention.py",
        ("(math.sqrt(size) if scaling", "(size if scaling", ""),
    ),
    *_in(
        "kernels/dual.py",
        "kernels/test_dual.py",
        ("k**2 * (shares - 1)", "k**2 * (shares + 1)", ""),
        ("densities * k * (shares + 1 / rest)", "densities * k * (shares - 1 / rest)", ""),
        ("odd * k + even * value", "odd * k - even * value", "lectures/09-19-criticality"),
    ),
    *_in(
        "kernels/criticality.py",
        "kernels/test_criticality.py",
        ("weights * (slopes + bends), weights", "weights * (slopes - bends), weights", "lectures/09-19-criticality"),
        ("0.75 * (s2 / s1) ** 2", "0.75 * (s2 / s1)", ""),
    ),
    *_in(
        "kernels/arc_cosine.py",
        "kernels/layers/test_activation.py",
        ("jnp.where(acute, gap, 1.0) - (s - angle", "jnp.where(acute, gap, 1.0) + (s - angle", "book/sec-9.4"),
        (
            "return bent, jnp.where(acute, 1 - angle, angle)",
            "return bent, jnp.where(acute, 1 + angle, angle)",
            "book/sec-9.4",
        ),
        ("return sine * evaluated(", "return 2 * sine * evaluated(", ""),
    ),
    *_in(
        "kernels/pairs/angle_series.py",
        "kernels/pairs/test_angle_series.py",
        ("2 * place * last - before", "2 * place * last + before", ""),
        ("keep([2 * angle_of(gap) - 1])", "keep([angle_of(gap)])", ""),
    ),
    *_in(
        "kernels/layers/gpu.py",
        "kernels/layers/test_gpu.py",
        ("bend.even * (sine + cosine * on_both)", "bend.even * (sine - cosine * on_both)", ""),
        ("link = _as_number(below != 0)", "link = _as_number(below >= 0)", ""),
        ("(other > 0))]", "(other >= 0))]", ""),
    ),
    *_in(
        "kernels/layers/weights.py",
        "kernels/layers/test_activation.py",
        (
            "ntk = made.trained * signal.covariance + made.shifts",
            "ntk = made.trained * signal.covariance - made.shifts",
            "",
        ),
    ),
    *_in(
        "kernels/layers/activation.py",
        "kernels/layers/test_activation.py",
        ("(odd - even + 2 * even * on_both)", "(odd - even + even * on_both)", "book/sec-9.4"),
    ),
    *_in(
        "kernels/predict.py",
        "kernels/test_predict.py",
        ("return -_fit(factor, y) / 2 - y", "return -_fit(factor, y) - y", ""),
        ("math.sqrt(2 * weight * float", "math.sqrt(weight * float", ""),
        ("test - between @ solved[:, outputs:]", "test + between @ solved[:, outputs:]", ""),
    ),
    *_in(
        "kernels/any_loss.py",
        "kernels/test_any_loss.py",
        ("pull = -jax.grad(found)", "pull = -2 * jax.grad(found)", ""),
    ),
    *_in(
        "kernels/phases.py",
        "kernels/test_phases.py",
        ("1 / np.abs(np.log(self.perpendicular))", "2 / np.abs(np.log(self.perpendicular))", ""),
        ("np.where(ends, np.where(rises, np.inf, 0.0), K)", "np.where(ends, np.where(rises, 0.0, np.inf), K)", ""),
    ),
    *_in(
        "nets/layers/pool.py",
        "nets/layers/test_pool.py",
        ("return sums / math.prod(window)", "return sums", ""),
    ),
    *_in(
        "optim/descent.py",
        "dynamics/test_runner.py",
        ("lambda p, g: p - lr * g, params", "lambda p, g: p - 2 * lr * g, params", "thesis/fig-3.3 thesis/eq-3.16"),
    ),
    *_in(
        "measure/events.py",
        "measure/test_events.py",
        ("return values[1:] > values[:-1]", "return values[1:] < values[:-1]", "thesis/table-4.2"),
        (
            "np.flatnonzero(values[step:] <= (1 + tolerance)",
            "np.flatnonzero(values[step:] <= (2 + tolerance)",
            "thesis/fig-4.7 thesis/fig-4.5",
        ),
    ),
    *_in(
        "optim/control.py",
        "optim/test_control.py",
        ("jnp.arctan2(2 * b, a - c) / 2", "jnp.arctan2(b, a - c) / 2", "thesis/controller"),
        ("_over(2 * falls, bends)", "_over(falls, bends)", "thesis/controller"),
        ("jnp.minimum(lr, share * found.critical)", "jnp.maximum(lr, share * found.critical)", "thesis/controller"),
    ),
    *_in(
        "optim/catalogue.py",
        "optim/test_catalogue.py",
        ("(1 - size * shrink / 2) * stability_factor(b1)", "(1 + size * shrink / 2) * stability_factor(b1)", ""),
        (
            "mean, square = 1 - b1**average.count, 1 - b2**average.count",
            "mean, square = 1 - b2**average.count, 1 - b2**average.count",
            "quadreg/optimisers",
        ),
    ),
    *_in(
        "optim/schedules.py",
        "optim/test_schedules.py",
        ("(1 - jnp.abs(2 * phase - 1))", "jnp.abs(2 * phase - 1)", ""),
    ),
    *_in(
        "optim/batches.py",
        "optim/test_batches.py",
        ("words[1], words[0])", "words[0], words[0])", ""),
    ),
    *_in(
        "measure/one_mode.py",
        "measure/test_one_mode.py",
        (
            "jnp.where(overlaps[chosen] < 0, -1.0, 1.0)",
            "jnp.where(overlaps[chosen] > 0, -1.0, 1.0)",
            "quadreg/fig-5 quadreg/fig-7",
        ),
        ("along = jnp.sqrt(scale) * jnp.vdot(", "along = scale * jnp.vdot(", "quadreg/fig-5 quadreg/fig-6"),
    ),
    *_in(
        "measure/kernel.py",
        "optim/test_training.py",
        ("problem.loss.curvature(outputs) / 2 * (", "problem.loss.curvature(outputs) * (", ""),
    ),
    *_in(
        "measure/spectrum.py",
        "optim/test_catalogue.py",
        (
            "roots = jax.tree.map(lambda p: 1 / jnp.sqrt(p), divisor)",
            "roots = jax.tree.map(lambda p: 1 / p, divisor)",
            "quadreg/optimisers",
        ),
    ),
]
