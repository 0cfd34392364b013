"""Figure 4.5: with one sample a step, the loss spikes where the step is too large for that sample."""

from typing import Any

import jax
import numpy as np
import xarray as xr
from scipy import special, stats

from secant import lab
from secant.data import sphere
from secant.dynamics import Probe
from secant.lab import RISK, Figure, Finding, Findings, Options, claim, estimate, option, options, scaled, sheet, study
from secant.lab.verdicts.significance import proportion
from secant.losses import mean_mse
from secant.optim import Batches, Problem, train
from secant.optim.batches import BatchState

MOST = 0.9
"""What happens at most visits happens in at least this share of them."""

GATES_TURN = "gates turn at the first visit"


class Config(Options):
    width: int = options.width(1_000, 10_000, at_least=8)
    samples: int = options.samples(40, 100, at_least=3)
    dim: int = options.dim(40, 100, at_least=2)
    length: float = option(2.0, at_least=1.1, at_most=100, help="how many times longer one sample is, input and target")
    lr: float = options.lr(0.9, below=2)
    epochs: int = scaled(smoke=3, laptop=6, at_least=1, at_most=10_000, help="passes over the data")
    draws: int = options.draws(16, 16, 100, at_least=2)
    seed: int = options.seed(0, at_most=2**31)

    def check(self) -> None:
        """Refuses a step size below the critical one of the longer sample, and what no memory holds."""
        if self.lr * self.length**2 <= 2:
            least = 2 / self.length**2
            raise ValueError(f"lr: must be above the critical step of the longer sample, {least:.4g}, got {self.lr}.")
        each = 8 * self.width * (self.dim + self.samples) + 3 * self.epochs * self.samples**2
        lab.fits_memory(4.0 * self.draws * each, "width, samples, dim, epochs or draws")


@study("thesis/fig-4.5", section="4.3.2", title="The loss spikes at one sample", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""A wide two-layer ReLU network $f(x) = m^{-1/2}\sum_i v_i\,\mathrm{relu}(u_i^\top x)$ with fixed signs $v$ learns
    $y = 1$ on 100 points of the unit sphere. One sample, $(x^*, y^*)$, is doubled. Stochastic gradient descent sees
    one sample a step, whose critical step size is
    $$\eta_{\mathrm{crit}}(x) = \frac1{K(x, x)} \approx \frac2{\|x\|^2}:$$
    $\frac12$ for $x^*$ and 2 for all others. With a constant step between the two, the training loss has a spike
    exactly where the gradient is taken on $x^*$ (figure 4.5).

    The loss of the sample itself rises at a step if and only if the step is above the sample's critical size. The loss
    of all samples also rises a little at many other steps, because fitting one sample moves the outputs on all others;
    the claim about that loss concerns its largest rises.

    Each visit multiplies the residual $r$ of $x^*$ by $1 - 2\eta/\eta_{\mathrm{crit}}(x^*) \approx -2.6$ until it is of
    order $\sqrt m$; then gates turn, $K(x^*, x^*)$ falls below $1/\eta$ and the catapult is over. The claims are judged
    up to there. A few gates turn before: a step moves pre-activations, Gaussian of deviation $\|x^*\|$, by
    $\mu = 2\eta|r|\|x^*\|/\sqrt m$ of that deviation, and half of those that the step would carry past zero stop
    there. The factor is therefore $1 - (2\eta/\eta_{\mathrm{crit}})\big(1 - \mu/\sqrt{8\pi}\big)$ to first order.
    """
    samples, root = config.samples, np.sqrt(config.width)
    # Weights are drawn on the host: nothing is compiled for them. The longer sample is the first.
    seeds = range(config.seed, config.seed + config.draws)
    random = [np.random.default_rng(seed) for seed in seeds]
    spheres = [sphere(jax.random.key(s), samples=samples, dim=config.dim, scale=config.length) for s in seeds]
    x, y = (np.stack(part) for part in zip(*spheres, strict=True))
    draws = {
        "seed": np.array(seeds, np.uint32),
        "x": x,
        "y": y,
        "u": np.stack([one.normal(size=(config.dim, config.width)).astype(np.float32) for one in random]),
        "v": np.stack([one.choice([-1, 1], config.width).astype(np.float32) for one in random]),
    }

    def problem(draw: Any) -> Problem:
        return Problem(lambda u, x: jax.nn.relu(x @ u) @ draw["v"] / root, draw["x"], draw["y"], mean_mse)

    def look(state: BatchState, draw: Any) -> dict[str, Any]:
        inner = draw["x"] @ state.inner
        return {
            "value": jax.nn.relu(inner) @ draw["v"] / root - draw["y"],
            "kernel": (draw["x"] ** 2).sum(axis=1) * (inner > 0).mean(axis=1),
            "visited": state.rows[0],
        }

    found = train(
        problem,
        lambda draw: draw["u"],
        lr=config.lr,
        steps=config.epochs * samples,
        over={"draw": draws},
        batches=lambda draw: Batches(1, seed=draw["seed"]),
        label="one sample a step",
        probes={"residual": Probe(look, dims=("sample",), whole=True)},
    ).dataset.drop_vars(("draw", "step"), errors="ignore")
    before, after = (found.isel(step=part).rename(step="made") for part in (slice(None, -1), slice(1, None)))
    visited = before.residual_visited  # the sample of each step
    with np.errstate(divide="ignore"):  # a sample that activates no neuron has no critical step
        critical = 1 / before.residual_kernel
    return xr.Dataset(
        {
            "loss": (found.residual**2).mean("sample", skipna=False),
            "visited": visited,
            "critical": critical.isel(sample=visited),
            "before": before.residual.isel(sample=visited) ** 2,
            "after": after.residual.isel(sample=visited) ** 2,
            "start": critical.isel(made=0),
            "first": found.residual.isel(step=0, sample=0),
        },
        coords={"step": np.arange(found.sizes["step"]), "made": np.arange(visited.sizes["made"])},
    )


def until_gates_turn(data: xr.Dataset, config: Config) -> np.ndarray:
    r"""Steps before the first visit that finds a residual of $\sqrt m/(2\eta\|x^*\|)$ or more, `(draw, made)`.

    From there on a visit moves the longer sample's pre-activations, Gaussian of standard deviation $\|x^*\|$, by
    $2\eta|r|\|x^*\|^2/\sqrt m$, their deviation or more: gates turn within the step, and the catapult ends.
    """
    limit = np.sqrt(config.width) / (2 * config.lr * config.length)
    late = (data.visited == 0) & (data.before >= limit**2)
    return np.cumsum(late.transpose("draw", "made").values, axis=1) == 0


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    lengths = np.array([config.length] + [1.0] * (config.samples - 1))
    count = config.samples * config.draws
    # Twice the share of active neurons, a mean of m coin flips: the largest deviation from 1 of so many.
    most_of_all = float(special.ndtri(1 - RISK / (2 * count)) / np.sqrt(config.width))
    yield claim(
        "critical",
        r"$2/|x|^2$ over critical steps of single samples: largest difference from 1",
        given=most_of_all < 0.5,
        otherwise=f"{config.width} coin flips do not tell a critical step from its half",
    ).zero(np.abs(2 / (data.start * lengths**2) - 1).max(), most_of_all, f"a mean of m coin flips, the most of {count}")
    data = data.transpose("draw", ...)
    early, visits = until_gates_turn(data, config), data.visited.values == 0
    # Whether a step is above the critical one of its sample, and whether that sample's own loss rises.
    over, own = data.critical.values < config.lr, (data.after > data.before).values
    apart = most_of_all < _margin(config)
    close = "the step size is so close to a critical one that random numbers of active neurons decide"
    yield claim(
        "visits",
        "steps above the critical one of their sample that are not visits to the longer one, and the reverse",
        given=apart,
        otherwise=close,
    ).zero((early & (over != visits)).sum(), 0, "the step size lies between the two critical ones")
    why = r"$|1 - 2\eta/\eta_{\mathrm{crit}}|$ exceeds 1 above the critical step only"
    for key, name, cases, then in (
        ("own-rise", "share of steps above the critical one at which the sample's own loss rises", early & over, own),
        ("own-above", "share of rises of a sample's own loss at steps above its critical one", early & own, over),
    ):
        none = GATES_TURN if apart else close
        yield claim(key, name, given=apart and cases.any(), otherwise=none).equal(
            1.0, (cases & then).sum() / max(cases.sum(), 1), 0, why
        )
    yield _first_visit(data, early & visits, config)
    yield from _all_samples(np.diff(data.loss.values, axis=1), early, visits)


def _margin(config: Config) -> float:
    r"""How far, relatively, numbers of active neurons may be from half of all before a critical step is passed.

    A visit moves pre-activations by their deviation. The visits before it moved them by $1/g$, $1/g^2$, ... of that,
    with $g = \eta\|x^*\|^2 - 1$ the growth of a residual, and each turned the share $\mu/\sqrt{2\pi}$ of gates.
    """
    pull = config.lr * config.length**2
    return min(1 - 2 / pull - 1 / ((pull - 2) * np.sqrt(2 * np.pi)), 2 / config.lr - 1)


def _first_visit(data: xr.Dataset, visits: np.ndarray, config: Config) -> Finding:
    """The factor by which the first visit of each draw multiplies the residual of the longer sample."""
    drawn = visits.any(axis=1)
    judged = claim(
        "first-visit",
        "factor of the residual at the first visit over the predicted one, mean over draws",
        given=drawn.sum() > 1,
        otherwise=GATES_TURN,
    )
    at = np.arange(len(visits))[drawn], visits[drawn].argmax(axis=1)
    before, after, critical = (data[key].values[at] for key in ("before", "after", "critical"))
    moved = 2 * config.lr * np.sqrt(before) * config.length / np.sqrt(config.width)
    factor = np.abs(1 - 2 * config.lr / critical * (1 - moved / np.sqrt(8 * np.pi)))
    return judged.equal(
        1.0,
        lambda: estimate(np.sqrt(after / before) / factor),
        np.mean(moved**2) if judged.given else 0.0,
        "the next order in how far pre-activations move",
        note=f"they move by {np.sum(moved) / max(moved.size, 1):.2g} of their deviation on average",
    )


def _all_samples(rise: np.ndarray, early: np.ndarray, visits: np.ndarray) -> Findings:
    """The loss of all samples, which also rises elsewhere."""
    here, elsewhere = rise[early & visits], rise[early & ~visits]
    some, total = len(here) and len(elsewhere), np.clip(rise[early], 0, None).sum()
    larger = claim("larger", "larger changes of the loss at visits than at other steps", some, GATES_TURN)
    most = claim("most-rise", "share of visits at which the loss rises", some, GATES_TURN)
    yield larger.significant(
        float(stats.mannwhitneyu(here, elsewhere, alternative="greater").pvalue) if some else 1.0,
        "of ranks",
        f"{len(here)} visits and {int((rise[early] > 0).sum()):,} rises of any size in {int(early.sum()):,} steps;"
        f" visits make up {np.clip(here, 0, None).sum() / (total or 1):.0%} of the sum of all rises",
    )
    why = "a spike at every visit, but for starts that fit the longer sample by chance"
    yield most.at_least(MOST, lambda: proportion(here > 0), why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4), 2, width_ratios=(1.5, 1))
    one = data.isel(draw=0)
    visits = one.made.values[one.visited.values == 0]
    left.semilogy(one.step, one.loss, color="C0", lw=1.3, label="all samples")
    left.semilogy(visits + 1, one.loss.values[visits + 1], "o", color="C1", ms=6, label=r"after a step on $x^*$")
    left.margins(y=0.12)
    sheet.label(left, "One draw", "step", r"loss $\mathcal{L}$", "lower right")
    rise = np.diff(data.loss.transpose("draw", "step").values, axis=1)
    at = data.visited.transpose("draw", "made").values == 0
    bins = np.geomspace(1e-7, max(float(rise.max()) * 1.5, 1e-6), 40)
    right.hist(rise[~at & (rise > 0)], bins, color="C0", alpha=0.85, label="at another sample")
    right.hist(rise[at], bins, color="C1", alpha=0.9, label=r"at $x^*$")
    title, across = f"All {config.draws} draws", r"rise of the loss, $\mathcal{L}_{t+1} - \mathcal{L}_t > 0$"
    sheet.label(right, title, across, "steps", "upper right", xscale="log", yscale="log")
    right.set_ylim(0.7, 20 * right.get_ylim()[1])  # room for the legend
