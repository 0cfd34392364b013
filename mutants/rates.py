"""Errors in rates of convergence, in exact worst cases, and in the two optimisers that have bounds of their own."""

from __future__ import annotations

from mutants.mutant import planted

RATES = [
    *planted(
        "theory/descent/rates",
        ("np.asarray(smooth, float) * lr**2 / 2", "np.asarray(smooth, float) * lr**2", ""),
        ("return 2 * np.asarray(smooth, float) * drop", "return np.asarray(smooth, float) * drop", "book/thm-2.5.1"),
        (
            "return 4 * np.asarray(smooth, float) * drop / (3 *",
            "return 4 * np.asarray(smooth, float) * drop / (4 *",
            "book/thm-2.5.1 book/certified-rates",
        ),
        ("np.where(u < 0.5, 1 - u, u)", "np.where(u < 0.5, 1 - u, 0.5 + u / 2)", ""),
        ("+ lr * smooth * second_moment / 2", "+ lr * smooth * second_moment", "book/thm-2.5.2"),
        (
            "np.sqrt(2 * np.asarray(drop, float) / (np.asarray(smooth",
            "np.sqrt(np.asarray(drop, float) / (np.asarray(smooth",
            "book/thm-2.5.2",
        ),
        ("batch * squared / (2 * np.asarray", "batch * squared / (20 * np.asarray", "book/prob-2.5.3"),
        ("return Plan(lr, 4 * drop / (lr * squared))", "return Plan(lr, drop / (9 * lr * squared))", "book/prob-2.5.3"),
        ("1 + math.log(totals[-1] / totals[0])", "math.log(totals[-1] / totals[0])", ""),
        ("smooth * lr / 2 * (1 + np.log(total", "smooth * lr / 2 * (np.log(total", "book/thm-2.5.4"),
        ("np.log2(1 + totals[-1] / floor)", "np.log(1 + totals[-1] / floor)", "book/thm-2.5.5"),
        ("(a / (totals - a + floor)).sum(0)", "(a / (totals + floor)).sum(0)", ""),
        (
            "np.sqrt(squares[:-1].sum(0).max() + sigma**2) / len(squares)",
            "np.sqrt(squares[:-1].sum(0).max()) / len(squares)",
            "book/thm-2.5.5",
        ),
        ("(2 * np.asarray(smooth, float))", "np.asarray(smooth, float)", ""),
        ("1 - 2 * lr * tau + lr**2 * smooth**2", "1 - lr * tau + lr**2 * smooth**2", ""),
        ("(2 * tau - lr * weak_smooth)", "(tau - lr * weak_smooth / 2)", ""),
        ("Momentum(4 / total**2,", "Momentum(2 / total**2,", ""),
        ("(4 * np.asarray(steps, float) + 2)", "(4 * np.asarray(steps, float) + 1)", "book/certified-rates"),
        ("(8 if step == steps else 4)", "(4 if step == steps else 4)", "book/certified-rates"),
    ),
    *planted(
        "theory/descent/step_matrices",
        ("(i & -i).bit_length() - 2", "(i & -i).bit_length() - 1", "book/certified-rates"),
        ("y[i + 1, i] += 1 / smooth", "y[i + 1, i] += 2 / smooth", "book/certified-rates"),
        ("(now - 1) / then * (y[i + 1] - y[i])", "now / then * (y[i + 1] - y[i])", "book/certified-rates"),
        ("best * now / then * (y[i + 1] - x[i])", "best * (y[i + 1] - x[i])", "book/certified-rates"),
        ("found[i] = -p2 * found[i - 1]", "found[i] = p2 * found[i - 1]", ""),
        ("found[i, i - 1] += q2", "found[i, i - 1] -= q2", ""),
    ),
    *planted(
        "theory/descent/certificates",
        ("/ (2 * (1 - mu))", "/ (2 * (1 + mu))", "book/certified-rates"),
        ("- 2 * mu * outer(e, d)", "- mu * outer(e, d)", "book/certified-rates"),
        ("self.g[:, :, None] * self.g[:, None, :] / 2", "self.g[:, :, None] * self.g[:, None, :]", ""),
        ("linear = unit[0] - unit[-2 if start", "linear = 2 * unit[0] - unit[-2 if start", "book/certified-rates"),
        ('squares if measure == "least_gradient" else squares[:-1]', "squares", "book/certified-rates"),
        ("np.where(row == column, 1.0, math.sqrt(2))", "np.where(row == column, 1.0, 2.0)", "book/certified-rates"),
        (
            "points.append(points[-1] - steps[: row + 1]",
            "points.append(points[-1] + steps[: row + 1]",
            "book/certified-rates",
        ),
    ),
    *planted(
        "theory/descent/worst_functions",
        ("(g**2).sum(1) / (2 * curvature)", "(g**2).sum(1) / curvature", "book/certified-rates"),
        (
            "return float(value), mu * x + curvature * off",
            "return float(value), curvature * off",
            "book/certified-rates",
        ),
        ("- mu / 2 * (self.points**2).sum(1)", "+ mu / 2 * (self.points**2).sum(1)", "book/certified-rates"),
    ),
    *planted(
        "optim/optimizers/catalog",
        ("factor = jnp.where(total > 0, 1 / jnp.sqrt(", "factor = jnp.where(total > 0, 1 / (", "book/thm-2.5.4"),
        (
            "by = jax.tree.map(lambda nu: jnp.sqrt(nu + sigma**2), total)",
            "by = jax.tree.map(lambda nu, g: jnp.sqrt(nu + g**2 + sigma**2), total, gradient)",
            "book/thm-2.5.5",
        ),
    ),
]
