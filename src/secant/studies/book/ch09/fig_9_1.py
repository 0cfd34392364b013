"""Figure 9.1: which labels gradient descent fits first, by the eigenvectors of the kernel."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, scaled, sheet, study
from secant.studies.shared.first_layer import descend, limit_kernel, pairs, unit_task

KINDS = ("original", "random", "worst case")
SMALL = 1e-4
"""Size of labels so small that no gate flips on the way: the kernel stays as it is at the start."""


class Config(Seeded):
    data: str = scaled(smoke="digits", laptop="mnist", help="a data set that secant.data knows")
    classes: tuple[int, int] = option((0, 1), at_least=0, distinct=True, help="two classes, +1 and -1")
    samples: int = options.samples(24, 100, 200, at_least=8, at_most=2_000)
    width: int = options.width(512, 2_048, 8_192, at_least=64, at_most=10**6)
    steps: int = options.steps(100, 300, 1_000, at_least=20, at_most=10**5)
    draws: int = options.draws(20, 15, at_least=3, at_most=100)

    def check(self) -> None:
        """Networks that a machine holds."""
        fits_memory(
            50.0 * (self.width * self.samples + self.samples**2 * 10) + 100.0 * self.steps * self.samples * self.draws,
            "width, samples or steps",
        )


@study("book/fig-9.1", section="9.3", title="Labels along the top eigenvectors are fitted first")
def run(config: Config) -> xr.Dataset:
    r"""A wide layer of ReLU in front of fixed signs fits two classes of images by gradient descent. Along an
    eigenvector $v_i$ of the kernel $H^*$ the residual falls by $1 - \eta\lambda_i$ a step (equation 9.10). True labels
    lie along the first eigenvectors and are fitted fastest. Random labels lie along all eigenvectors alike. Labels
    along the last eigenvector are the worst case. The network follows the theory as long as its gates stay. Where
    labels of full size make many gates flip, it is slower.
    """
    n = config.samples
    rows: dict[str, list[np.ndarray]] = {"left": [], "theory": [], "values": [], "shares": []}
    for draw in range(config.draws):
        rng = np.random.default_rng((config.seed, draw))
        task = unit_task(config.data, config.classes, n, 1, config.seed + draw)
        values, vectors = np.linalg.eigh(limit_kernel(task.train.x))
        labels = np.stack([task.train.y, rng.choice([-1.0, 1.0], n), math.sqrt(n) * vectors[:, 0]])
        x, rate = task.train.x, 1 / values[-1]
        w, a = pairs(rng, config.width, x.shape[1])
        residuals, _ = descend(w, a, x, np.concatenate([labels, SMALL * labels]), rate, config.steps, x[:1])
        lengths = np.linalg.norm(residuals, axis=2)
        parts = (labels @ vectors)[:, ::-1] / math.sqrt(n)
        decay = (1 - rate * values[::-1]) ** np.arange(config.steps + 1)[:, None, None]
        rows["left"].append((lengths / lengths[0]).reshape(-1, 2, len(KINDS)))
        rows["theory"].append(np.linalg.norm(decay * parts, axis=2))
        rows["values"].append(values[::-1])
        rows["shares"].append(parts**2)
    dims = {"left": ("step", "size", "labels"), "theory": ("step", "labels"), "values": ("mode",)}
    dims["shares"] = ("labels", "mode")
    return xr.Dataset(
        {name: (("draw", *dims[name]), np.stack(found)) for name, found in rows.items()},
        coords={"labels": list(KINDS), "size": ["full", "small"]},
        attrs=task.attributes(),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    n, top = config.samples, max(1, config.samples // 10)
    end = np.log(data.left.sel(size="full").isel(step=-1))
    for faster, slower in (("original", "random"), ("random", "worst case")):
        name = f"{slower} labels: logarithm of what is left of them over what is left of {faster} ones"
        yield claim(f"later-{slower}", name).at_least(
            0.0, estimate(end.sel(labels=slower) - end.sel(labels=faster)), "they are fitted later"
        )
    share = data.shares.isel(mode=slice(top)).sum("mode")
    yield claim("share-original", f"original labels: share along the first {top} of {n} eigenvectors").at_least(
        top / n, estimate(share.sel(labels="original")), "more than random labels have"
    )
    yield claim("share-random", f"random labels: share along the first {top} of {n} eigenvectors").equal(
        top / n, estimate(share.sel(labels="random")), 0, "exact in the mean", qualitative=True
    )
    yield claim("least-eigenvalue", "least eigenvalue of the kernel over its rounding").at_least(
        1.0, float((data["values"].isel(mode=-1) / data["values"].isel(mode=0)).min()) / (1e-15 * n), "it is positive"
    )
    apart = np.abs(data.left - data.theory).max("step")
    # Eigenvalues of so many random neurons are off by some sqrt(2/m), and a decay by at most 1/e of that.
    near, why = 2 / math.sqrt(config.width), "the kernel's scatter over so many neurons"
    for kind in KINDS:
        yield claim(f"small-{kind}", f"{kind} labels, small: largest distance from the theory").at_most(
            near, estimate(apart.sel(labels=kind, size="small")), why
        )
    yield claim("full-original", "original labels of full size: largest distance from the theory").at_most(
        near, estimate(apart.sel(labels="original", size="full")), f"{why}: few gates flip"
    )
    for kind in KINDS[1:]:
        slower = (data.left.sel(size="full") - data.theory).sel(labels=kind).isel(step=-1)
        yield claim(f"full-{kind}", f"{kind} labels of full size: what is left of them less the theory").at_least(
            0.0, estimate(slower), "gates that flip slow the network down"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    for i, kind in enumerate(KINDS):
        one = data.isel(draw=0).sel(labels=kind)
        left.semilogy(data.step, one.left.sel(size="full"), color=f"C{i}", label=f"{kind} labels")
        small = {"ls": ":", "lw": 2.5, "color": f"C{i}", "label": None if i else "small labels"}
        left.semilogy(data.step, one.left.sel(size="small"), **small)
        sheet.guide(left, data.step, one.theory, None if i else "theory")
    sheet.label(left, f"What is left, {config.width} neurons", "step", "residual over its start", "lower left")
    order = np.arange(1, config.samples + 1)
    values = data["values"].mean("draw")
    right.semilogy(order, values / values[0], color=sheet.ink(), label=r"$\lambda_i/\lambda_1$")
    for i, kind in enumerate(KINDS):
        size = np.sqrt(data.shares.sel(labels=kind).mean("draw"))
        kept = size.values > 1e-3
        right.semilogy(order[kept], size[kept], "os^"[i], ms=4, color=f"C{i}", label=f"{kind} labels")
    sheet.label(right, "Eigenvalues, and labels along eigenvectors", "order", None, "lower left")
