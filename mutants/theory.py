"""Errors in the closed forms and exact reductions."""

from __future__ import annotations

from mutants.mutant import planted

THEORY = [
    *planted(
        "theory/edge/edge_limit",
        ("149 / 128, 389 / 128", "149 / 128, -389 / 128", "quadreg/limit-series"),
        ("-757 / 512", "757 / 512", "quadreg/limit-series"),
        ("-19 / 8", "-19 / 4", "quadreg/limit-series"),
        ("-eps / 2 * (1 - E / 2)", "-eps / 2 * (1 + E / 2)", "quadreg/drift-law"),
        ("4 - 3 * eps + 4 * eps**2", "4 + 3 * eps + 4 * eps**2", "quadreg/lambert-limit quadreg/thm-B.3"),
        ("-2 * eps / contraction(eps)", "-eps / contraction(eps)", "quadreg/lambert-limit quadreg/fig-2"),
        ("star * (1 + lambert_w(", "star * (1 - lambert_w(", "quadreg/lambert-limit"),
        ("u * jnp.exp(-(4 * z**2 + 2 * u) / eps)", "u * jnp.exp(-(2 * z**2 + 2 * u) / eps)", "quadreg/lambert-limit"),
        tests="theory/edge/test_edge_limit theory/edge/test_slow_manifold",
    ),
    *planted(
        "theory/edge/two_eigenvalue",
        ("z=z - z * T + z**2 * T1 / 2, T=", "z=z - z * T + z**2 * T1, T=", "quadreg/fig-2 quadreg/app-A.1"),
        ("T=T - 2 * z * T1 + z**2 * T2)", "T=T - 2 * z * T1 - z**2 * T2)", "quadreg/fig-2 quadreg/app-A.1"),
        (
            "jnp.asarray(-second * (T - W) / (1 - second))",
            "jnp.asarray(second * (T - W) / (1 - second))",
            "quadreg/fig-9",
        ),
        ("(a**2 - a + 1) * z", "(a**2 + a + 1) * z", "quadreg/fig-8 quadreg/fig-9"),
    ),
    *planted(
        "theory/edge/two_step",
        ("-2 * A * y * z**2 - 4 * eps * z**2", "-2 * A * y * z**2 + 4 * eps * z**2", "quadreg/thm-B.3 quadreg/fig-10"),
        ("jnp.asarray(2 * y * z), jnp", "jnp.asarray(y * z), jnp", "quadreg/thm-B.3 quadreg/fig-10"),
    ),
    *planted(
        "theory/edge/skeleton",
        ("SIGN_CRISIS = 3 * math.sqrt(3) - 2", "SIGN_CRISIS = 3 * math.sqrt(3) - 1", "quadreg/skeleton"),
        ("CYCLE_FLIP = 2 * math.sqrt(5) - 2", "CYCLE_FLIP = 2 * math.sqrt(5) + 2", "quadreg/skeleton"),
        ("jnp.sqrt(h**2 + 8 * h)", "jnp.sqrt(h**2 + 4 * h)", "quadreg/skeleton"),
        ("1 - 8 * h - 2 * h**2", "1 - 8 * h + 2 * h**2", "quadreg/skeleton"),
        ("C * (1 + eps * z) ** 2", "C * (1 - eps * z) ** 2", "quadreg/skeleton"),
    ),
    *planted(
        "theory/edge/quartic",
        ("(theta @ Q @ theta - E) / 2", "(theta @ Q @ theta + E) / 2", "quadreg/sec-2.1"),
        ("J=(1 - z * spectrum) * J)", "J=(1 + z * spectrum) * J)", "quadreg/sec-2.1 quadreg/drift-law"),
        ("T - z * (2 * T_next - z * T_second)", "T - z * (2 * T_next + z * T_second)", "quadreg/sec-2.1"),
        ("-variance / (2 * T2 / T0)", "-variance / (T2 / T0)", "quadreg/drift-law"),
        ("-(T0 * T2 - T1**2) * z**2", "-(T0 * T2 - T1**2) * z**3", "quadreg/drift-law"),
    ),
    *planted(
        "theory/edge/single_eigenvalue",
        ("-omega * z * (2 * z + E)", "-omega * z * (2 * z - E)", "quadreg/app-A.2"),
        ("jnp.exp(rate * t) + 2 * z0", "jnp.exp(rate * t) + z0", "quadreg/app-A.2"),
    ),
    *planted(
        "theory/regression/linear_network",
        ("jnp.sum((hidden + norm * v) ** 2) / 2, ", "jnp.sum((hidden + norm * v) ** 2), ", "quadreg/app-A.1"),
        ("jnp.asarray(2 * target)", "jnp.asarray(-2 * target)", "quadreg/app-A.1"),
    ),
    *planted("theory/regression/tangent_hierarchy", ("K=-lr * K3 @ state.z", "K=lr * K3 @ state.z", "quadreg/app-A.3")),
    *planted(
        "theory/edge/stability",
        (
            "LinearRule((1 + beta, -beta), (lr * (1 + beta), -lr * beta))",
            "LinearRule((1 + beta, -beta), (lr * (1 + beta), lr * beta))",
            "quadreg/optimisers",
        ),
        ("((1 - b1) * lr, 0.0)", "((1 + b1) * lr, 0.0)", "quadreg/optimisers"),
    ),
    *planted(
        "theory/catapult/one_sample",
        ("v - a * a * (4 - v) - 4 * a * b)", "v - a * a * (4 - v) + 4 * a * b)", "thesis/sec-3.3 thesis/max-step"),
        ("return Catapult((1 - v + a * (a + b)) * a", "return Catapult((1 - v + a * (a - b)) * a", "thesis/sec-3.3"),
        ("8 / (curvature + jnp.sqrt(", "4 / (curvature + jnp.sqrt(", "thesis/max-step"),
        ("curvature**2 - 16 * bend", "curvature**2 + 16 * bend", "thesis/max-step"),
        (
            "jnp.asarray(u) * width / (2 * jnp.square(lr) * size)",
            "jnp.asarray(u) * width / (jnp.square(lr) * size)",
            "thesis/thm-3.3.1",
        ),
        ("float(2 * jnp.log((1 + jnp.sqrt(5.0)) / 2))", "float(jnp.log((1 + jnp.sqrt(5.0)) / 2))", "thesis/max-step"),
        ("1 - v + 3 * a**2 + 2 * a * b, -a]", "1 - v + 3 * a**2 + 2 * a * b, a]", "thesis/thm-3.3.4"),
    ),
    *planted(
        "theory/catapult/scaling",
        ("excess**2 / 2 + excess**3 / 3", "excess**2 / 2 - excess**3 / 3", "thesis/thm-3.3.1"),
        ("2 - excess - 2 * excess**2 / 3", "2 - excess + 2 * excess**2 / 3", "thesis/thm-3.3.1"),
        ("(2 * jnp.log1p(jnp.asarray(excess)))", "jnp.log1p(jnp.asarray(excess))", "thesis/thm-3.3.1"),
        ("8 * total / (width * excess)", "16 * total / (width * excess)", "thesis/thm-B.3.1"),
        (
            "-(4 - v) * square / (v * (2 - v))",
            "(4 - v) * square / (v * (2 - v))",
            "thesis/thm-B.3.1 thesis/prop-B.13.1",
        ),
        (
            "16 * jnp.square(pull) / (jnp.asarray(width)",
            "4 * jnp.square(pull) / (jnp.asarray(width)",
            "thesis/lem-3.3.3 thesis/lem-3.3.2",
        ),
    ),
    *planted(
        "theory/catapult/several_samples",
        ("lr**2 * bend - 4 * lr * cross", "lr**2 * bend - 2 * lr * cross", "thesis/prop-B.11 thesis/thm-3.3.6"),
        ("return 2 * jnp.asarray(lr) / samples", "return jnp.asarray(lr) / samples", "thesis/fig-3.3 thesis/thm-3.3.6"),
    ),
    *planted(
        "theory/regression/quadratic_model",
        ("jacobian @ gradient + lr**2 / 2 * turned", "jacobian @ gradient + lr**2 * turned", "thesis/eq-3.16"),
        ("- lr * (cross + cross.T) + lr**2", "+ lr * (cross + cross.T) + lr**2", "thesis/eq-3.16"),
        (
            "curvature - rate * push * (4 - rate * curvature)",
            "curvature - rate * push * (2 - rate * curvature)",
            "thesis/prop-B.13.1",
        ),
    ),
    *planted(
        "theory/descent/linear_descent",
        ("return 2 / jnp.linalg.eigvalsh", "return 1 / jnp.linalg.eigvalsh", "thesis/eq-3.8"),
    ),
    *planted(
        "theory/wide/relu_gradients",
        ("depth * 2.0 ** (1 - depth)", "depth * 2.0 ** -depth", "thesis/prop-2.4.4"),
        ("2.0 ** (1 - depth) * 3 * (depth * 3.0 **", "2.0 ** (1 - depth) * 9 * (depth * 3.0 **", "thesis/prop-2.4.4"),
    ),
    *planted(
        "theory/power_law", ("(scale * spread) ** -0.5", "(scale * spread) ** -1.0", "thesis/lem-A.11 thesis/thm-2.3.6")
    ),
    *planted(
        "theory/regression/quadratic_regression",
        ("z + lr**2 / 2 * bend @ w if", "z - lr**2 / 2 * bend @ w if", "quadreg/app-A.3 quadreg/sec-3.3 quadreg/eq-27"),
        (
            "self.offset + (self.G + self.jacobian(theta)) @ theta / 2",
            "self.offset + (self.G + self.jacobian(theta)) @ theta",
            "quadreg/eq-27 quadreg/fig-11",
        ),
    ),
    *planted(
        "theory/regression/random_regression",
        ("(P + 2) / (P + D + 1)", "(P + 1) / (P + D + 1)", "quadreg/eq-27"),
        ("((P + 1) * (top + trace)", "(P * (top + trace)", "quadreg/acceleration quadreg/thm-3.1"),
        ("2 * variance * D * P * sigma_z**2", "variance * D * P * sigma_z**2", "quadreg/thm-3.1"),
        ("(np.sqrt(P) + np.sqrt(D)) ** 2", "(np.sqrt(P) - np.sqrt(D)) ** 2", "quadreg/thm-3.1 quadreg/fig-3"),
    ),
    *planted(
        "theory/wide/relu_paths",
        (
            "A, B = n / 2 * q + n * (n - 1) / m**2 * A, n / 2 * q",
            "A, B = n * q + n * (n - 1) / m**2 * A, n / 2 * q",
            "lectures/11-30-paths",
        ),
        (
            "q = 4 / m**2 * (3 * A + (kurtosis - 3) * B)",
            "q = 4 / m**2 * (3 * A + (3 - kurtosis) * B)",
            "lectures/11-30-paths",
        ),
        ("return 4 / widths[-1] ** 2 *", "return 2 / widths[-1] ** 2 *", "lectures/11-30-paths"),
        ("return 5 * sum(1 / n", "return 4 * sum(1 / n", "lectures/11-30-lengths"),
        ("return mean + math.log(4 / n)", "return mean + math.log(2 / n)", "lectures/11-30-lengths"),
        ("chance @ (second + apart**2)", "chance @ (second - apart**2)", "lectures/11-30-lengths"),
        ("np.cumprod(2 / hidden * factors", "np.cumprod(1 / hidden * factors", "lectures/11-30-lengths"),
        ("all(gate[j] for gate, j", "any(gate[j] for gate, j", "lectures/11-30-paths"),
    ),
    *planted(
        "theory/wide/relu_kernel",
        (
            "shares.append(2 / h.shape[1] *",
            "shares.append(1 / h.shape[1] *",
            "lectures/11-30-kernel lectures/09-26-rates",
        ),
        ("2 * len(sizes) * np.asarray(norm)", "2 * (len(sizes) - 1) * np.asarray(norm)", "lectures/11-30-kernel"),
        ("u * (a + 2 * b) + w * a, u", "u * (a + b) + w * a, u", "lectures/11-30-kernel"),
        ("np.append(a, n * (n + 1) / 4)", "np.append(a, n * (n - 1) / 4)", "lectures/11-30-kernel"),
        ("1 + 2 / (3 * safe) + np.expm1", "1 + 2 / (3 * safe) - np.expm1", "lectures/11-30-kernel"),
    ),
    *planted(
        "theory/bayes/linear_norms",
        ("np.log(2 * factors / sizes)", "np.log(factors / sizes)", "lectures/12-07-lengths"),
        ("special.polygamma(1, half)) / 4", "special.polygamma(1, half)) / 8", "lectures/12-07-lengths"),
        ("np.sqrt(variance / n) *", "np.sqrt(variance / above) *", "lectures/12-07-lengths lectures/12-07-evidence"),
    ),
    *planted(
        "theory/bayes/marchenko_pastur",
        ("/ (2 * np.pi * float(ratio) *", "/ (2 * np.pi * 2 *", ""),
        ("alpha**j / (j + 1) *", "alpha**j *", "lectures/12-07-lengths"),
        ("2 / np.pi * np.sin(angle)", "1 / np.pi * np.sin(angle)", "lectures/12-07-lengths"),
    ),
    *planted(
        "theory/bayes/linear_posterior",
        ("P / 2 * math.log(math.pi * norm2)", "P * math.log(math.pi * norm2)", "lectures/12-07-evidence"),
        ("np.log(2 * variance / N)))", "np.log(variance / N)))", "lectures/12-07-evidence"),
        ("below = np.concatenate([[P / 2 - k]", "below = np.concatenate([[P / 2 + k]", "lectures/12-07-evidence"),
        ("special.poch((N[0] - P) / 2, k)", "special.poch(N[0] / 2, k)", "lectures/12-07-evidence"),
        ("(1 - alpha) * math.exp(s(root))", "math.exp(s(root))", "lectures/12-07-evidence"),
        ("lambda t: s(t) + t - target", "lambda t: s(t) - t - target", "lectures/12-07-evidence"),
        ("return (1 - alpha) / alpha * norm2 / (1 + nu(root) / P)", "return norm2 / alpha / (1 + nu(root) / P)", ""),
        ("u - float((y * values.imag)", "u + float((y * values.imag)", ""),
    ),
    *planted(
        "theory/wide/finite_width",
        ("chi * g + Cw * bend * v / 2", "chi * g + Cw * bend * v", "lectures/fluctuations"),
        ("narrow * (fourth - mean**2)", "narrow * (fourth + mean**2)", "lectures/fluctuations"),
        ("3 * self.spread / self.variance**2", "self.spread / self.variance**2", "lectures/fluctuations"),
    ),
    *planted(
        "theory/wide/hermite",
        ("np.sqrt([float(math.factorial(k))", "np.sqrt([float(math.factorial(k + 1))", "lectures/10-10-positivity"),
        ("math.sqrt(weight / math.pi)", "math.sqrt(weight / 2 / math.pi)", "lectures/10-10-positivity"),
        ("np.asarray(coefficients) ** 2)", "np.asarray(coefficients) * 0.5)", "lectures/10-10-positivity"),
    ),
    *planted(
        "theory/wide/concentration",
        ("return 2 * dim * jnp.exp(-(t**2) / 2 /", "return jnp.exp(-(t**2) /", "lectures/10-10-positivity"),
        ("jnp.sqrt(2 / width *", "0.05 * jnp.sqrt(2 / width *", "book/sec-9.2"),
        ("return 2 * samples**2 / distance**2", "return samples**2 / distance**2", ""),
    ),
    *planted(
        "theory/wide/lazy_convergence",
        ("return 2 * samples * motion", "return samples * motion / 1_000", "lectures/10-12-convergence"),
        ("smallest / (2 * samples)", "smallest / (4 * samples)", "lectures/10-12-convergence"),
        ("return 512 * samples**4", "return 256 * samples**4", "lectures/10-12-convergence"),
        ("jnp.exp(-lr * smallest * time / samples)", "jnp.exp(-lr * smallest * time)", "lectures/10-12-convergence"),
    ),
]
