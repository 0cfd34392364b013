"""Errors in margins, late times and steepest descent."""

from __future__ import annotations

from mutants.mutant import planted

MARGINS = [
    *planted(
        "theory/bias/margins",
        ("margin = 1 / norm_of(w, p)", "margin = 1 / norm_of(w, 2.0)", "book/thm-8.3.2 book/prop-8.3.3"),
        ("weights / margin**2,", "weights / margin,", "lectures/11-14-residual lectures/11-14-late-time"),
        ("0.5 * math.log((1 + edge) / (1 - edge))", "math.log((1 + edge) / (1 - edge))", "book/adaboost"),
        ("j = int(np.argmax(np.abs(edges)", "j = int(np.argmax(edges", "book/adaboost"),
        ("(log_time - np.log(a.max()))", "(log_time + np.log(a.max()))", "lectures/11-14-late-time"),
        (
            "(log_time - self.margin**2 * float(a @ np.log(a)))",
            "(log_time - self.margin * float(a @ np.log(a)))",
            "lectures/11-14-late-time",
        ),
        ("norm / (norm - 1)", "norm / (norm + 1)", "book/prop-8.3.3"),
    ),
    *planted(
        "theory/bias/_euclidean_margin",
        (
            "tilt = np.zeros(len(rows)) if labels is None else heavy",
            "tilt = np.zeros(len(rows)) if True else heavy",
            "",
        ),
        ("yield basis @ inner, b,", "yield basis @ up[:, 1], b,", ""),
        ("up[:, 0] - b * up[:, 1]", "up[:, 0] + b * up[:, 1]", ""),
        ("margins < 1 - ROUNDING", "margins < 0.5 - ROUNDING", "lectures/11-14-max-margin"),
        tests="theory/bias/test_margins",
    ),
    *planted(
        "theory/bias/_lp_margin",
        ("w * unit, b, a", "w / unit, b, a", "book/prop-8.3.3"),
        tests="theory/bias/test_margins",
    ),
    *planted(
        "dynamics/late_time",
        (
            "return pull(jnp.exp(tau - slope(m)))[0]",
            "return pull(jnp.exp(tau - 2 * slope(m)))[0]",
            "lectures/11-14-max-margin",
        ),
        ('"logistic": (jax.nn.softplus,', '"logistic": (jax.nn.relu,', "lectures/11-14-max-margin"),
        ("norm**degree", "norm", "lectures/11-14-homogeneous book/thm-8.4.5"),
        ("                (0.0, end),", "                (1.0, end),", ""),
        ("power * s ** (power - 1)", "s ** (power - 1)", "lectures/11-14-homogeneous book/thm-8.4.5"),
    ),
    *planted(
        "theory/bias/potentials",
        ("-abs(g).sum(-1, keepdims=True)", "-abs(g).max(-1, keepdims=True)", "book/thm-8.3.2"),
        ("size.argmax(-1)[..., None], -g, 0.0)", "size.argmax(-1)[..., None], g, 0.0)", "book/thm-8.3.2"),
        ("-_of_norm(g, p / (p - 1))", "-_of_norm(g, p)", ""),
        tests="optim/rules/test_steepest",
    ),
    *planted(
        "optim/rules/steepest",
        ("-jnp.linalg.solve(D.astype(g.dtype), g)", "-D.astype(g.dtype) @ g", "book/thm-8.3.2"),
        ("-total * (u * there) @ v", "-(u * there) @ v", ""),
    ),
    *planted("measure/margin", ("** degree", "", ""), ("p = jax.nn.softmax(-m)", "p = jax.nn.softmax(m)", "")),
    *planted("nets/homogeneity", ("along - degree * outputs", "along - outputs", "")),
    *planted("losses", ("(n if mean else 1)", "(1 if mean else n)", "")),
]
