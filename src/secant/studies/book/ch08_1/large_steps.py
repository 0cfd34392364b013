"""Steps that are not small: where gradient descent on a diagonal network ends, from the gains of its run."""

from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, scaled, sheet, study
from secant.studies.shared.diagonal_descent import LARGE, descend, judged, reference


class Config(Seeded):
    samples: int = options.samples(20, 20, 100, at_least=2, at_most=1_000)
    dimension: int = scaled(
        smoke=30, laptop=30, paper=10**5, at_least=3, at_most=10**6, help="weights, more than samples"
    )
    sparsity: int = option(3, at_least=1, at_most=100, help="weights of the target that are not zero")
    alpha: float = scaled(smoke=0.2, laptop=0.2, paper=0.001, at_least=1e-4, at_most=2, help="size of the start")
    ratios: tuple[float, ...] = options.ratios((0.3, 0.6, 0.9), below=1)
    noisy_ratios: tuple[float, ...] = scaled(
        smoke=(0.03, 0.06, 0.1),
        laptop=(0.03, 0.06, 0.1),
        paper=(0.006, 0.012, 0.02),  # smaller in proportion to the number of samples
        above=0,
        below=1,
        help="step sizes over the critical one, of stochastic gradient descent with one sample a step",
    )
    steps: int = options.steps(1_200, 10_000, 2_000, at_least=10, at_most=10**6)
    draws: int = options.draws(24, 100, 8, at_least=2, at_most=1_000)
    alphas: tuple[float, ...] = scaled(
        smoke=(),
        laptop=(0.05, 0.1, 0.2, 0.4),
        paper=(),
        at_least=1e-4,
        at_most=2,
        ascending=True,
        shortest=0,
        longest=10,
        help="sizes of the start on the map; without any there is no map",
    )
    batches: tuple[int, ...] = options.batches((1, 4, 20), at_most=1_000, ascending=True, longest=4)
    shares: tuple[float, ...] = option(
        (0.03, 0.06, 0.12, 0.25, 0.5, 0.9),
        above=0,
        below=1,
        ascending=True,
        longest=20,
        help="step sizes on the map, over the critical one",
    )

    def check(self) -> None:
        """Interpolation of a target that exists."""
        if self.samples >= self.dimension or self.sparsity > self.dimension:
            least = max(self.samples + 1, self.sparsity)
            raise ValueError(f"dimension must be at least {least} for these samples and sparsity, got {self.dimension}")
        many = max(len(self.ratios), len(self.noisy_ratios), len(self.shares) if self.alphas else 0)
        one = self.samples * self.dimension
        numbers = 80.0 * self.draws * many * one if one < LARGE else 8.0 * one * (3 * self.draws + 10 * many)
        fits_memory(numbers, "draws, samples or dimension")


@study("book/large-steps", section="8.1", title="What steps of finite size do to the bias", new=True)
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent on $\frac12\|Xw - y\|^2$ with $w = u^2 - v^2$ from $u = v = \alpha$ multiplies $u$ by $1 - a_t$
    and $v$ by $1 + a_t$, $a_t = 2\eta X^\top r_t$. So at any step size it ends in the least hypentropy with $\alpha^2$
    replaced, weight by weight, by $\alpha^2\prod_t|1 - a_t^2|$, shifted by $\sum_t[\log|\frac{1 - a_t}{1 + a_t}| +
    2a_t]$. This is exact, also with stochastic gradients. For sparse targets the gains of full batches are uneven, and
    raise the test error as the step grows. The gains of single samples are nearly even: they act as a smaller start of
    all weights, and lower the test error.
    """
    rng = np.random.default_rng(config.seed)
    X = rng.normal(size=(config.draws, config.samples, config.dimension)) / np.sqrt(config.samples)
    target = np.zeros(config.dimension)
    target[: config.sparsity] = 1.0
    y = X @ target
    flow, edge = reference(X, y, config.alpha)
    variables: dict[str, Any] = {"flow_error": ("draw", ((flow - target) ** 2).sum(-1))}
    for name, ratios, batch in (("full", config.ratios, config.samples), ("single", config.noisy_ratios, 1)):
        lr = (edge[:, None] * np.array(ratios))[..., None]
        with np.errstate(all="ignore"):  # a run may diverge
            found = judged(descend(X, y, lr, config.alpha, config.steps, batch, rng), X, y, config.alpha)
        dims = ("draw", f"{name}_ratio")
        variables |= {
            f"{name}_off": (dims, found["off"]),
            f"{name}_error": (dims, ((found["end"] - target) ** 2).sum(-1)),
            f"{name}_gain": ((*dims, "i"), found["gain"]),
            f"{name}_negative": (dims, found["negative"]),
        }
    coords: dict[str, Any] = {"full_ratio": list(config.ratios), "single_ratio": list(config.noisy_ratios)}
    if config.alphas:
        variables |= atlas(X, y, target, config, rng)
        coords |= {"start": list(config.alphas), "batch": list(config.batches), "share": list(config.shares)}
    return xr.Dataset(variables, coords=coords)


def atlas(X: np.ndarray, y: np.ndarray, target: np.ndarray, config: Config, rng: np.random.Generator) -> dict[str, Any]:
    """The map over start, batch and step size: test error at the end over the flow's, and how far runs leave their law.

    Because there are many runs, each has a quarter of the steps, and only a fifth of the draws is used.
    """
    error, off = [], []
    X, y, steps = X[: max(2, len(X) // 5)], y[: max(2, len(y) // 5)], max(10, config.steps // 4)
    for alpha in config.alphas:
        flow, edge = reference(X, y, alpha)
        lr = (edge[:, None] * np.array(config.shares))[..., None]
        for batch in config.batches:
            with np.errstate(all="ignore"):
                found = judged(descend(X, y, lr, alpha, steps, min(batch, config.samples), rng), X, y, alpha)
            error.append(((found["end"] - target) ** 2).sum(-1) / ((flow - target) ** 2).sum(-1)[:, None])
            off.append(found["off"])
    shape = (len(config.alphas), len(config.batches), len(X), len(config.shares))
    dims = ("start", "batch", "one", "share")
    return {"map_error": (dims, np.reshape(error, shape)), "map_off": (dims, np.reshape(off, shape))}


WORDS = {"full": "gradient descent", "single": "one sample a step"}


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why, laws = f"rounding of sums of {config.steps} terms", []
    for kind, words in WORDS.items():
        off, turned = data[f"{kind}_off"], int(data[f"{kind}_negative"].sum())
        laws.append((kind, words, off, f"{turned} of {off.size} runs change the sign of a parameter"))
    if config.alphas:
        note = f"{int(data.map_off.isnull().sum())} of {data.map_off.size} runs diverge"
        laws.append(("map", "map over start, batch and step", data.map_off, note))
    for key, words, off, note in laws:
        name, runs = f"{words}: weights less the law's, over the largest weight, largest over runs", off.notnull().any()
        law = claim(f"law-{key}", name, given=runs, otherwise="every run diverges")
        yield law.zero(off.max(), 1e-8, why, note=note)
    # Against the flow, at the largest step, draw by draw.
    full, single = (data[f"{kind}_error"].isel({f"{kind}_ratio": -1}) - data.flow_error for kind in WORDS)
    name = "squared test error at the end less the flow's, at the largest step"
    yield claim("error-full", f"{WORDS['full']}: {name}").at_least(0.0, estimate(full), "a larger step makes it worse")
    yield claim("error-single", f"{WORDS['single']}: {name}").at_most(
        0.0, estimate(single), "a larger step makes it better"
    )
    gains = (data[f"{kind}_gain"].isel({f"{kind}_ratio": -1}) for kind in WORDS)
    full, single = (gain.std("i") / np.abs(gain.mean("i")) for gain in gains)
    yield claim(
        "uneven", "how uneven gains are over weights, deviation over mean: full batches less single samples"
    ).at_least(0.0, estimate(full - single), "at the largest step of each")


def coloured(data: xr.Dataset, figure: Figure, panels: Any, config: Config) -> None:
    """The map: a panel a batch."""
    columns, rows = np.arange(len(config.shares)), np.arange(len(config.alphas))
    for axes, batch in zip(panels, config.batches, strict=True):
        values = np.log2(data.map_error.sel(batch=batch).median("one"))
        shown = axes.pcolormesh(columns, rows, values, cmap="RdBu_r", vmin=-1.5, vmax=1.5)
        axes.set_xticks(columns, [f"{share:g}" for share in config.shares])
        axes.set_yticks(rows, [f"{alpha:g}" for alpha in config.alphas])
        words = "All samples" if batch >= config.samples else f"Batches of {batch}" if batch > 1 else "One sample"
        sheet.label(axes, f"{words} a step", "step size over the critical one", r"start $\alpha$")
    figure.colorbar(shown, ax=panels, label="test error over the flow's, powers of 2")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    if config.alphas:
        many = len(config.batches)
        figure.set_size_inches(4 * max(2, many), 8)
        places = [[side for side in ("left", "right") for _ in range(many)], [i for i in range(many) for _ in range(2)]]
        axes = figure.subplot_mosaic(places)
        left, right, below = axes["left"], axes["right"], [axes[i] for i in range(many)]
        coloured(data, figure, below, config)
    else:
        left, right = sheet.panels(figure, (11, 4.2), 2)
    for i, (kind, words) in enumerate(WORDS.items()):
        change = data[f"{kind}_error"] - data.flow_error
        mean, error = change.mean("draw"), change.std("draw") / np.sqrt(data.sizes["draw"])
        left.errorbar(data[f"{kind}_ratio"], mean, error, fmt="o-", ms=4, color=f"C{i}", label=words)
        gain = data[f"{kind}_gain"].isel({f"{kind}_ratio": -1}).mean("draw")
        right.plot(np.arange(config.dimension), gain, "o-", ms=3, lw=0.8, color=f"C{i}", label=words)
    left.set_xscale("log")
    sheet.mark(left, y=0, label="gradient flow")
    sheet.label(left, "Squared test error less the flow's", "step size over the critical one", None, "best")
    weights = f"weight (the target has the first {config.sparsity})"
    sheet.label(right, r"Gain $\sum_t\log|1 - a_t^2|$, largest step", weights, None, "best")
