"""Steps that are not small: where gradient descent on a diagonal network ends, from the gains of its run."""

from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claims, estimate, fits_memory, option, scaled, sheet, study
from secant.theory import diagonal


class Config(Seeded):
    samples: int = option(20, at_least=2, at_most=1_000, help="data")
    dimension: int = option(30, at_least=3, at_most=2_000, help="weights, more than samples")
    sparsity: int = option(3, at_least=1, at_most=100, help="weights of the target that are not zero")
    alpha: float = option(0.2, at_least=0.01, at_most=2, help="size of the start")
    ratios: tuple[float, ...] = option((0.3, 0.6, 0.9), above=0, below=1,
        help="step sizes of gradient descent over the critical one at the flow's end")
    noisy_ratios: tuple[float, ...] = option((0.03, 0.06, 0.1), above=0, below=1,
        help="those of stochastic gradient descent, of one sample a step")
    steps: int = scaled(smoke=1_200, laptop=10_000, at_least=10, at_most=10**6, help="steps")
    draws: int = scaled(smoke=24, laptop=100, at_least=2, at_most=1_000, help="draws of data and target")

    def check(self) -> None:
        """Interpolation of a target that exists."""
        if self.samples >= self.dimension or self.sparsity > self.dimension:
            least = max(self.samples + 1, self.sparsity)
            raise ValueError(f"dimension must be at least {least} for these samples and sparsity, got {self.dimension}")
        fits_memory(80.0 * self.draws * max(len(self.ratios), len(self.noisy_ratios)) * self.samples * self.dimension,
            "draws, samples or dimension")


def descend(X: np.ndarray, y: np.ndarray, lr: np.ndarray, config: Config,
    rng: np.random.Generator | None) -> diagonal.Descent:
    """Runs over draws and step sizes; with a generator, of one random sample a step."""
    run = diagonal.begin(config.alpha, (*lr.shape[:2], config.dimension))
    rows = np.arange(len(X))[:, None]
    for _ in range(config.steps):
        if rng is None:
            run = diagonal.step(run, X[:, None], y[:, None], lr)
        else:
            one = rng.integers(config.samples, size=lr.shape[:2])
            # One sample stands for all: the gradient is right on average.
            run = diagonal.step(run, np.sqrt(config.samples) * X[rows, one][:, :, None],
                np.sqrt(config.samples) * y[rows, one][..., None], lr)
    return run


def judged(run: diagonal.Descent, X: np.ndarray, y: np.ndarray, config: Config) -> dict[str, np.ndarray]:
    """How far runs are from their law, where they end by it, and their gains."""
    kept = [diagonal.Descent(*(part[draw] for part in run)) for draw in range(len(X))]
    fine = [np.isfinite(one.w).all() and np.abs(X[draw] @ one.w.T).max() < 1e6 for draw, one in enumerate(kept)]
    off, ends = np.full(run.w.shape[:2], np.nan), np.full(run.w.shape, np.nan)
    for draw in np.flatnonzero(fine):
        # At every time the law holds for the outputs of that time; with the targets it tells the end.
        now = diagonal.law(kept[draw], X[draw], kept[draw].w @ X[draw].T, config.alpha)
        off[draw] = np.abs(now - kept[draw].w).max(-1) / np.abs(kept[draw].w).max(-1)
        ends[draw] = diagonal.law(kept[draw], X[draw], y[draw], config.alpha)
    return {"off": off, "end": ends, "gain": run.log_gain, "negative": (run.u < 0).any(-1) | (run.v < 0).any(-1)}


@study(
    "book/large-steps", section="8.1", title="What steps of finite size do to the bias", new=True,
    statement=r"""
    Gradient descent on $\frac12\|Xw - y\|^2$ with $w = u^2 - v^2$ from $u = v = \alpha$ multiplies $u$ by $1 - a_t$ and
    $v$ by $1 + a_t$, $a_t = 2\eta X^\top r_t$. So at any step size it ends in the least hypentropy with $\alpha^2$
    replaced, weight by weight, by $\alpha^2\prod_t|1 - a_t^2|$, shifted by $\sum_t[\log|\frac{1 - a_t}{1 + a_t}| +
    2a_t]$: exactly, and with stochastic gradients alike. For sparse targets the gains of full batches are uneven and
    raise the test error as the step grows. Those of single samples are nearly even, a smaller start for all weights,
    and lower it.""",
)
def run(config: Config) -> xr.Dataset:
    rng = np.random.default_rng(config.seed)
    X = rng.normal(size=(config.draws, config.samples, config.dimension)) / np.sqrt(config.samples)
    target = np.zeros(config.dimension)
    target[: config.sparsity] = 1.0
    y = X @ target
    flow = np.stack([diagonal.limit(one, values, config.alpha) for one, values in zip(X, y, strict=True)])
    speed = 4 * np.sqrt(flow**2 + 4 * config.alpha**4)
    edge = 2 / np.linalg.eigvalsh((X * speed[:, None]) @ X.transpose(0, 2, 1))[:, -1]
    variables: dict[str, Any] = {"flow_error": ("draw", ((flow - target) ** 2).sum(-1))}
    for name, ratios, noise in (("full", config.ratios, None), ("single", config.noisy_ratios, rng)):
        with np.errstate(all="ignore"):  # a run may diverge
            found = judged(descend(X, y, (edge[:, None] * np.array(ratios))[..., None], config, noise), X, y, config)
        dims = ("draw", f"{name}_ratio")
        variables |= {
            f"{name}_off": (dims, found["off"]), f"{name}_error": (dims, ((found["end"] - target) ** 2).sum(-1)),
            f"{name}_gain": ((*dims, "i"), found["gain"]), f"{name}_negative": (dims, found["negative"]),
        }
    return xr.Dataset(variables, coords={"full_ratio": list(config.ratios), "single_ratio": list(config.noisy_ratios)})


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    names = {"full": "gradient descent", "single": "one sample a step"}
    for kind, words in names.items():
        off = data[f"{kind}_off"]
        yield claims.zero(
            f"{words}: weights less those of the law, over the largest weight, largest over runs", off.max(), 1e-8,
            # A sum of logarithms over all steps, each with a rounding of 1e-16, and the solver's own.
            f"rounding of sums of {config.steps} terms", given=off.notnull().any(), otherwise="every run diverges",
            note=f"in {int(data[f'{kind}_negative'].sum())} of {off.size} runs a parameter has changed its sign",
        )
    for kind, words in names.items():
        # Against the flow, at the largest step, draw by draw.
        change = data[f"{kind}_error"].isel({f"{kind}_ratio": -1}) - data.flow_error
        relation = claims.at_least if kind == "full" else claims.at_most
        yield relation(
            f"{words}: squared test error at the end less that of the flow, at the largest step", 0.0, estimate(change),
            "a larger step makes it worse" if kind == "full" else "a larger step makes it better",
        )
    gains = {kind: data[f"{kind}_gain"].isel({f"{kind}_ratio": -1}) for kind in names}
    uneven = {kind: gain.std("i") / np.abs(gain.mean("i")) for kind, gain in gains.items()}
    yield claims.at_least(
        "how uneven gains are over weights, deviation over mean: full batches less single samples", 0.0,
        estimate(uneven["full"] - uneven["single"]), "at the largest step of each",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    words = {"full": "gradient descent", "single": "one sample a step"}
    for i, kind in enumerate(words):
        change = data[f"{kind}_error"] - data.flow_error
        mean, error = change.mean("draw"), change.std("draw") / np.sqrt(data.sizes["draw"])
        left.errorbar(data[f"{kind}_ratio"], mean, error, fmt="o-", ms=4, color=f"C{i}", label=words[kind])
        gain = data[f"{kind}_gain"].isel({f"{kind}_ratio": -1}).mean("draw")
        right.plot(np.arange(config.dimension), gain, "o-", ms=3, lw=0.8, color=f"C{i}", label=words[kind])
    sheet.mark(left, y=0, label="gradient flow")
    sheet.label(left, "Squared test error less that of the flow", "step size over the critical one", None, "best",
        xscale="log")
    sheet.label(right, r"Gain $\sum_t\log|1 - a_t^2|$, largest step",
        f"weight (the target has the first {config.sparsity})", None, "best")
