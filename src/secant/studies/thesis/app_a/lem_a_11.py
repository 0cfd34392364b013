"""Appendix A.11: the concentration lemmas behind the transition to linearity, by sampling."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, fits_memory, option, options, scaled, sheet, study
from secant.lab.verdicts.estimate import Estimate, estimate
from secant.studies.shared.numerics.exponents import exponent
from secant.theory.wide import gaussian_matrices as gm

LEVELS = np.array([0.5, 0.2, 0.1, 0.05, 0.02])
"""Probabilities that the lemmas allow. Each lemma gives the distance for a probability."""

LEMMAS = {
    "A.11.4": "product with a vector",
    "A.11.6": "matrix of Gaussian columns",
    "A.11.7": "image of a Gaussian vector",
    "A.11.8": "Gaussian sum of matrices",
}

RADII = np.array([0.0, 0.5, 1.0, 2.0, 4.0])
BATCHES = 20
"""Batches of samples. Each batch gives a quantile, and the scatter of quantiles is the sampling error."""

DEPTH = 3
"""Hidden layers of the sampled networks."""


class Config(Seeded):
    draws: int = options.draws(4_000, 40_000, 200_000, at_least=1_000, at_most=10**8)
    radius: float = option(1.0, above=0, at_most=100, help="length of the Gaussians' move, in the worst direction")
    rows: int = option(12, at_least=2, at_most=1_000, help="rows of the matrices")
    columns: int = option(8, at_least=2, at_most=1_000, help="columns of the matrices")
    terms: int = option(20, at_least=2, at_most=1_000, help="matrices in a sum, and columns in a matrix of columns")
    width: int = options.width(100, at_least=2, at_most=10**6)
    widths: tuple[int, ...] = options.widths(
        (64, 256, 1_024),
        (64, 256, 1_024, 2_048),
        (64, 256, 1_024, 4_096),
        at_least=8,
        at_most=10**6,
        shortest=2,
        ascending=True,
    )
    networks: int = scaled(smoke=400, laptop=1_000, paper=4_000, at_least=10, at_most=10**6, help="networks of a width")

    def check(self) -> None:
        """Refuses samples that do not fit the memory."""
        entries = self.terms * self.columns + self.rows * max(self.terms, self.columns)
        fits_memory(4 * 8 * self.draws * entries, "draws")
        fits_memory(4 * 8 * self.networks * max(self.widths), "networks or widths")


@study("thesis/lem-A.11", section="A.11", title="The concentration lemmas, sampled")
def run(config: Config) -> xr.Dataset:
    r"""The proof of Theorem 2.3.6 rests on tails of Gaussians that are moved by at most $R$ in the worst direction.

    - A.11.1: $\|H\|$ is at most the sum of the norms of its blocks.
    - A.11.2 and A.11.3: the neurons of layer $\ell$ are $O((\log m + R)^\ell)$, and a layer as a vector has a length of
      order $\sqrt m$.
    - A.11.4: $|a^\top b| \le t + |b|R$ but for a probability of $2e^{-t^2/2|b|^2}$.
    - A.11.5 and A.11.6: $W = [B_1a_1, \dots, B_na_n]$ has
      $\|W\| \le C(\max\|B_i\|(\sqrt n + R + t) + \max\|B_i\|_F)$ but for $2e^{-t^2}$. Here $C = \sqrt2$, which fits
      the Gaussian tail of a function with Lipschitz constant $\max\|B_i\|$.
    - A.11.7: $\|Ba\| \le t + \|B\|_F + \|B\|R$ but for $2e^{-ct^2/\|B\|^2}$, with $c = \frac12$ for the same reason.
    - A.11.8: $\|\sum_k \gamma_kB_k\| \le t + R\sqrt\nu$ but for $(d_1 + d_2)e^{-t^2/2\nu}$ with the matrix variance
      $\nu = \max(\|\sum B_kB_k^\top\|, \|\sum B_k^\top B_k\|)$. Here $\nu = 1/m$, with $m$ the option `width`.
    """
    random = np.random.default_rng(config.seed)
    sampled = list(_sampled(random, config))
    largest, length = _neurons(random, config)
    dims = ("width", "layer", "network")
    return xr.Dataset(
        {
            "violated": (("lemma", "level"), [(norms[:, None] > bounds).mean(axis=0) for norms, bounds in sampled]),
            "blocks": _blocks(random),
            "moved": (("radius", "batch"), _diagonal(random, config)),
            "largest": (dims, largest),
            "length": (dims, length),
        },
        coords={"lemma": list(LEMMAS), "level": LEVELS, "radius": RADII, "width": list(config.widths)}
        | {"layer": list(range(1, DEPTH + 1))},
    )


def _sampled(random: np.random.Generator, config: Config) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Norms after a move by the radius, in many draws, and their bounds at every level, in the order of `LEMMAS`."""
    R, matrices = config.radius, (config.terms, config.rows, config.columns)
    b = random.normal(size=config.columns)
    products = np.abs(random.normal(size=(config.draws, config.columns)) @ b)
    yield products + R * np.linalg.norm(b), gm.product_bound(b, LEVELS, R)
    maps = random.normal(size=matrices) / np.sqrt(config.columns)
    columns = gm.moved_norms(
        lambda gaussians: np.einsum("nij,snj->sin", maps, gaussians),
        lambda left, right: np.einsum("si,nij,sn->snj", left, maps, right),
        random.normal(size=(config.draws, config.terms, config.columns)),
        R,
    )
    yield columns, gm.columns_bound(maps, LEVELS, R)
    matrix = random.normal(size=(config.rows, config.columns))
    images = gm.moved_images(matrix, random.normal(size=(config.draws, config.columns)), R)
    yield images, gm.image_bound(matrix, LEVELS, R)
    terms = random.normal(size=matrices)
    series = gm.moved_norms(
        lambda gaussians: np.tensordot(gaussians, terms, 1),
        lambda left, right: np.einsum("si,kij,sj->sk", left, terms, right),
        random.normal(size=(config.draws, config.terms)),
        R,
    )
    yield series, gm.series_bound(terms, LEVELS, R)


def _blocks(random: np.random.Generator) -> float:
    """Largest norm of a random symmetric matrix over the sum of the norms of its blocks."""
    cuts = [slice(0, 3), slice(3, 8), slice(8, 20)]

    def ratio() -> float:
        matrix = random.normal(size=(20, 20)) * np.exp(random.normal(size=20))
        matrix = matrix + matrix.T
        return float(np.linalg.norm(matrix, 2) / sum(np.linalg.norm(matrix[a, b], 2) for a in cuts for b in cuts))

    return max(ratio() for _ in range(200))


def _diagonal(random: np.random.Generator, config: Config) -> np.ndarray:
    r"""Upper 5 % quantile of $\|\sum_k (\gamma_k + \Delta_k) B_k\|$ at each radius, for $B_k = e_ke_k^\top/\sqrt m$."""
    largest = np.abs(random.normal(size=(config.draws, config.terms))).max(axis=1)
    quantiles = [np.quantile(batch, 0.95) for batch in np.array_split(largest, BATCHES)]
    return (np.array(quantiles) + RADII[:, None]) / np.sqrt(config.width)


def _threshold(config: Config) -> float:
    """The norm that the lemma allows this sum at a probability of 5 %, without a move."""
    return float(np.sqrt(2 / config.width * np.log(2 * config.terms / 0.05)))


def _neurons(random: np.random.Generator, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Largest neuron of every layer, moved by the radius, and the length of the layer.

    Sums over Gaussian weights are Gaussian. A layer therefore needs no matrix, only the length of the layer before.
    """
    largest, length = np.empty((2, len(config.widths), DEPTH, config.networks))
    for i, width in enumerate(config.widths):
        inputs = random.normal(size=(config.networks, config.columns))
        scale = np.linalg.norm(inputs, axis=1) / np.sqrt(config.columns)
        for layer in range(DEPTH):
            z = random.normal(size=(config.networks, width)) * scale[:, None]
            top = z.max(axis=1) + config.radius * scale  # a neuron's own weights, moved along what it reads
            largest[i, layer] = top / (1 + np.exp(-top))
            length[i, layer] = np.linalg.norm(z / (1 + np.exp(-z)), axis=1)  # swish, which is not bounded
            scale = length[i, layer] / np.sqrt(width)
    return largest, length


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    bound = "an upper bound"
    yield claim("blocks", "A.11.1: largest norm over the sum of the norms of its blocks").at_most(
        1.0, data.blocks, "the triangle inequality; rounding", slack=1e-13
    )
    for lemma, name in LEMMAS.items():
        excess = (data.violated.sel(lemma=lemma) / data.level).values
        level = LEVELS[excess.argmax()]
        # The error is that of an event as frequent as allowed, because an event that never occurs has no error.
        found = Estimate(excess.max(), np.sqrt((1 - level) / (level * config.draws)))
        sentence = f"{lemma}, {name}: frequency of an excess over the allowed frequency, largest of five levels"
        note = f"largest where a probability of {level:g} is allowed"
        yield claim(f"tail-{lemma}", sentence).at_most(1.0, found, bound, note=note)
    radius, start = float(RADII[-1]), _threshold(config)
    sentence = rf"A.11.8, move $R = {radius:g}$ at matrix variance 1/{config.width}: norm at a probability of 5 %"
    yield claim("matrix-variance", sentence).erratum(
        (r"\|Z\| \le t + R\,\nu", start + radius / config.width),
        (r"\|Z\| \le t + R\sqrt{\nu}", start + radius / np.sqrt(config.width)),
        estimate(data.moved.sel(radius=radius)),
        0,
        bound,
        note=r"The proof ends at $R\sqrt{\nu}$. The statement lost the root, which matters because $\nu$ is of order "
        "1/m.",
        relation="at most",
        where="Lemma A.11.8, equation (A.30)",
    )
    for layer in range(1, DEPTH + 1):
        found = exponent(data.largest.sel(layer=layer) / (np.log(data.width) + config.radius) ** layer)
        sentence = rf"A.11.2, layer {layer}: largest neuron over $(\log m + R)^{layer}$: exponent in the width"
        yield claim(f"neuron-{layer}", sentence).at_most(0.0, found, bound)
    first, last = data.width.values[[0, -1]]
    yield claim("length", f"A.11.3, layer {DEPTH}: length: exponent in the width").equal(
        0.5,
        exponent(data.length.sel(layer=DEPTH)),
        10 * (1 / first - 1 / last) / np.log(last / first),
        "a sum of m squares has a relative variance of some units over m, and three layers pass it on: 10/m",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    ink, floor = sheet.ink(), 0.3 / config.draws
    sheet.guide(left, data.level, data.level, "allowed")
    for (lemma, name), mark in zip(LEMMAS.items(), "os^D", strict=True):
        shown = np.maximum(data.violated.sel(lemma=lemma), floor)
        left.loglog(data.level, shown, marker=mark, ms=5, lw=1, label=f"{lemma}, {name}")
    left.annotate("never", (LEVELS.max(), floor), xytext=(-4, 4), textcoords="offset points", ha="right", color=ink)
    sheet.ticks(left, LEVELS)
    below = {"fontsize": 8, "loc": "upper center", "bbox_to_anchor": (0.5, -0.17), "ncols": 2}
    sheet.label(left, "How often a bound is exceeded", "probability that the lemma allows", "measured", below)
    left.minorticks_off()
    t, root = _threshold(config), np.sqrt(config.width)
    right.plot(RADII, t + RADII / root, color="C0", lw=1.4, label=r"$t + R\sqrt{\nu}$, proved")
    right.plot(RADII, t + RADII / config.width, "--", color="C1", lw=1.4, label=r"$t + R\,\nu$, printed")
    right.plot(RADII, data.moved.mean("batch"), "o", color=ink, ms=6, label="sampled, exceeded by 5 %")
    title, legend = rf"Gaussian sum of matrices, $\nu = 1/{config.width}$", {"fontsize": 9, "loc": "upper left"}
    sheet.label(right, title, "move of the Gaussians $R$", r"$\|Z\|$", legend)
