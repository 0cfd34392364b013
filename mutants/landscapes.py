"""Errors in what is known of landscapes: kinds of points, conditions along a run, saddles and the escape from them."""

from __future__ import annotations

from mutants.mutant import planted

LANDSCAPES = [
    *planted(
        "curvature/points",
        ("low[0] < -flat and high[0] > flat", "low[0] < flat and high[0] > flat", "book/fig-6.1"),
        ("if low[0] - low[1] > flat:", "if low[0] - low[1] >= -flat:", "book/fig-6.1"),
        ("high[0] + high[1] < -flat", "high[0] + high[1] < flat", "book/fig-6.1"),
        ("for i in (0, -1)]", "for i in (-1, 0)]", "book/fig-6.1 book/sec-6.3"),
        ("float(found.values[0]) >= -gamma", "float(found.values[0]) >= gamma", "book/fig-6.1"),
        ("if steepness > eps:", "if steepness < eps:", "book/fig-6.1"),
    ),
    *planted(
        "measure/landscape",
        ('"value": _over(slope @ slope, excess)', '"value": _over(2 * slope @ slope, excess)', ""),
        ('"secant": _over(toward, away @ away)', '"secant": _over(toward, excess)', ""),
        ("jax.tree.map(jnp.subtract, params, goal))", "jax.tree.map(jnp.add, params, goal))", ""),
    ),
    *planted(
        "optim/rules/perturbed",
        ("radius / math.sqrt(flat.size) *", "radius *", ""),
        ("state.since > wait", "state.since >= wait", ""),
        ("still = jnp.linalg.norm(ravel_pytree(gradient(state.params))[0]) <= below", "still = True", ""),
        ("** (1 / like.size)", "** like.size", ""),
        ("p - lr * v, p.dtype", "p + lr * v, p.dtype", "book/thm-7.2.1"),
        ("jnp.where(now, radius, 0.0)", "jnp.where(now, 0.0, 0.0)", "book/thm-7.2.1"),
    ),
    *planted(
        "theory/landscape/rank_one",
        ("x[..., None, :]) ** 2).sum((-2, -1)) / 4", "x[..., None, :]) ** 2).sum((-2, -1)) / 2", "book/claim-6.4.1"),
        ("[..., None] * x - x @ M", "[..., None] * x + x @ M", "book/claim-6.4.1 book/lem-7.3.3"),
        ("+ 2 * x[..., :, None] * x[..., None, :] - M", "+ x[..., :, None] * x[..., None, :] - M", "book/lem-6.4.3"),
        ("= 2 * kept[:-1]", "= kept[:-1]", ""),
        ("spectra = kept[:, None] - eigenvalues", "spectra = kept[:, None] + eigenvalues", ""),
        ("max(3 * R**2 - eigenvalues[0]", "max(R**2 - eigenvalues[0]", "book/lem-7.3.2"),
        ("eigenvalues[-1])), 6 * R", "eigenvalues[-1])), 2 * R", ""),
        ("(top**2 - second**2) / 4", "(top**2 + second**2) / 4", ""),
        ("np.abs(s**2 - a**2) / np.sqrt(safe)", "np.abs(s**2 + a**2) / np.sqrt(safe)", "book/lem-6.4.3"),
        ("np.abs(a * (s - 1))", "np.abs(a * (s + 1))", "book/lem-6.4.3"),
        ("s + 2 * a**2 - 1,", "s + a**2 - 1,", "book/lem-6.4.3"),
        ("(1 - gamma - s) / 2", "(1 + gamma - s) / 2", "book/lem-6.4.3"),
    ),
    *planted(
        "theory/landscape/escape",
        ("math.lgamma(d / 2 + 0.5)", "math.lgamma(d / 2)", "book/stuck-volume"),
        ("(d + 1) / 2, (d + 1) / 2, (1 +", "d / 2, d / 2, (1 +", "book/stuck-volume book/fig-7.1"),
        ("below(c + w / 2) - below(c - w / 2)", "below(c + w) - below(c - w)", "book/stuck-volume book/fig-7.1"),
        ("return 1 + positive(", "return 1 + 2 * positive(", "book/lem-7.3.1 book/lem-7.3.3 book/fig-7.1"),
        ("math.log(10) /", "math.log(2) /", "book/lem-7.3.1 book/lem-7.3.3"),
        ("** np.asarray(steps) * lr *", "** np.asarray(steps) *", "book/lem-7.3.3"),
        ("np.sqrt(2 * positive(", "np.sqrt(positive(", "book/lem-7.3.2"),
    ),
    *planted(
        "theory/descent/linear_descent",
        ("steps) / sigma * (u.T", "steps) * sigma * (u.T", "book/sec-3.1"),
        ("return start + (_gain", "return (_gain", ""),
        ("rate, t = lr * sigma**2,", "rate, t = lr * sigma,", "book/sec-3.1"),
    ),
    *planted("linalg/lanczos", ("STEEP = 0.72", "STEEP = 0.1", "")),
]
