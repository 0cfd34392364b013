"""Book, definition 8.1.8: parametrisations whose gradient fields commute."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, sheet, study
from secant.theory.bias.reparametrization import commutes


class Config(Seeded):
    dimension: int = option(4, at_least=2, at_most=12, help="weights")
    size: int = option(3, at_least=2, at_most=5, help="rows of the factor of a matrix")


@study("book/def-8.1.8", section="8.1", title="Commuting parametrisations")
def run(config: Config) -> xr.Dataset:
    r"""$G: \mathbb R^D \to \mathbb R^d$ is commuting if $[\nabla G_i, \nabla G_j] = \nabla^2G_i\nabla G_j -
    \nabla^2G_j\nabla G_i = 0$ for all $i, j \in [d]$ and all $\theta$. Then there is a potential whose mirror flow is
    gradient flow on $\theta$. The parametrisations of examples 8.1.3 to 8.1.5 commute. $UU^\top$ does not: for $h_A
    = \langle A, UU^\top\rangle$ with symmetric $A$, $[\nabla h_A, \nabla h_B] = 4(AB - BA)U$. This bracket vanishes for
    measurements that commute as matrices.
    """
    rng, d, k = np.random.default_rng(config.seed), config.dimension, config.size
    root = rng.normal(size=(d, d))
    symmetric = rng.normal(size=(3, k, k))
    symmetric = symmetric + symmetric.swapaxes(1, 2)
    vectors = np.linalg.qr(rng.normal(size=(k, k)))[0]
    together = np.stack([vectors @ np.diag(values) @ vectors.T for values in rng.normal(size=(3, k))])
    kinds = {
        "root of Sigma times theta": (lambda t: jnp.asarray(root) @ t, d, None),
        "squares": (lambda t: t**2, d, None),
        "difference of squares": (lambda t: t[:d] ** 2 - t[d:] ** 2, 2 * d, None),
        "UU', every entry": (lambda t: t.reshape(k, k) @ t.reshape(k, k).T, k * k, None),
        "UU', three measurements": (lambda t: t.reshape(k, k) @ t.reshape(k, k).T, k * k, symmetric),
        "UU', three that commute": (lambda t: t.reshape(k, k) @ t.reshape(k, k).T, k * k, together),
    }
    # Brackets are polynomials of the parameters: a bracket that vanishes at a random point vanishes everywhere.
    points = {name: rng.normal(size=size) for name, (_, size, _) in kinds.items()}
    found = {name: commutes(G, points[name], X) for name, (G, _, X) in kinds.items()}
    U = points["UU', three measurements"].reshape(k, k)
    return xr.Dataset(
        {
            "relative": ("kind", [one.relative for one in found.values()]),
            "largest": ("kind", [one.largest for one in found.values()]),
            "known": max(np.abs(4 * (A @ B - B @ A) @ U).max() for A in symmetric for B in symmetric),
            # There are as many functions G_i as weights. The brackets run over them.
            "functions": len(kinds["difference of squares"][0](np.ones(2 * d))),
        },
        coords={"kind": list(kinds)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for key, kind in (
        ("linear", "root of Sigma times theta"),
        ("squares", "squares"),
        ("difference", "difference of squares"),
        ("commuting", "UU', three that commute"),
    ):
        yield claim(key, f"{kind}: largest relative bracket").zero(
            data.relative.sel(kind=kind), 1e-13 * config.size**2, "rounding of float64"
        )
    yield claim("matrix", "UU', every entry: largest relative bracket").at_least(
        0.05, data.relative.sel(kind="UU', every entry"), "a bracket as large as its two terms, in order of magnitude"
    )
    yield claim("measurements", "UU', three measurements: bracket less $4(AB - BA)U$, over it").zero(
        np.abs(data.largest.sel(kind="UU', three measurements") / data.known - 1), 1e-12, "rounding of float64"
    )
    printed, corrected = (r"i, j \in [D]", 2 * config.dimension), (r"i, j \in [d]", config.dimension)
    found, where = float(data.functions), "definition 8.1.8"
    note = "there are as many functions as weights, not as parameters"
    yield claim("functions", "a difference of squares: number of functions whose brackets must vanish").erratum(
        printed, corrected, found, 0.0, "a count", note=note, where=where, by="derivation"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (9, 4))
    names = list(data.kind.values)
    shown = np.maximum(data.relative.values, 1e-18)
    axes.hlines(range(len(names)), 1e-18, shown, color=sheet.faint())
    axes.scatter(shown, range(len(names)), color=["C0" if size < 1e-10 else "C3" for size in shown], zorder=3)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    sheet.label(axes, "Brackets of gradient fields at a random point, relative (0 is drawn at 1e-18)", xscale="log")
