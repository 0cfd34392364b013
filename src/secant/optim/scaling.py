"""The scaling test: whether step and batch may grow together, and whether a differential equation describes SGD."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.arguments import positive, whole
from secant.core.types import Params
from secant.curvature.critical_steps.mean_square import stochastic_critical_lr
from secant.dynamics.map import Map
from secant.dynamics.probes import Probe
from secant.dynamics.runner import simulate
from secant.look import COLOURS, panels
from secant.optim.batches import Batches, on_batches
from secant.optim.problem import Problem
from secant.optim.rules.descent import gradient_descent
from secant.optim.rules.noisy import svag

if TYPE_CHECKING:
    import xarray as xr

CONFIDENCE = 0.99
"""Confidence of the intervals that decide a verdict, for all looks together."""

Verdict = Literal["same", "differs", "unclear", "diverged"]


class Comparison(NamedTuple):
    """The mean loss of one kind of run divided by the mean loss of the given SGD, look by look.

    Attributes:
        ratio: the quotient of the two means over draws.
        low: lower end of the 99 % interval of the ratio, for all looks together.
        high: upper end of the interval.
        verdict: `same` if the interval lies within the tolerance at every look, `differs` if it lies outside at one
            look, `diverged` if a run of this kind has no finite loss, `unclear` otherwise: more draws would tell.
    """

    ratio: np.ndarray
    low: np.ndarray
    high: np.ndarray
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class ScalingTest:
    """How larger steps on larger batches, and amplified noise, change a run; `print` it, or draw it with `plot`.

    Attributes:
        dataset: `loss` on all samples, over `(run, draw, time)`; `time` counts steps of the given SGD. `run` is
            `"sgd"`, `"scaled K"` for step and batch times K, or `"svag L"` for noise amplified by L.
        lr: the step size.
        batch: samples a batch.
        tolerance: the share of the loss within which two losses count as the same.
        critical: factor K -> the mean-square critical step at batches of K times as many samples; empty unless you
            asked for it.
    """

    dataset: xr.Dataset
    lr: float
    batch: int
    tolerance: float
    critical: dict[int, float]

    @functools.cached_property
    def runs(self) -> dict[str, Comparison]:
        """The comparison of every other run with the given SGD, by the name of the run."""
        loss = self.dataset.loss.transpose("run", "draw", "time")
        first = loss.sel(run="sgd").values
        names = [str(name) for name in self.dataset.run.values if name != "sgd"]
        return {name: compared(first, loss.sel(run=name).values, self.tolerance) for name in names}

    @property
    def holds_to(self) -> int:
        """The largest factor up to which the linear scaling rule holds for every factor tried; 1 if for none."""
        kept = 1
        for factor in self._of("scaled"):
            if self.runs[f"scaled {factor}"].verdict != "same":
                break
            kept = factor
        return kept

    @property
    def sde(self) -> Literal["tracks", "differs", "unclear"]:
        """Whether the differential equation tracks SGD.

        It `tracks` if no amplification of the noise changes the run, and `differs` if the largest one does.
        """
        verdicts = [self.runs[f"svag {factor}"].verdict for factor in self._of("svag")]
        if verdicts and all(verdict == "same" for verdict in verdicts):
            return "tracks"
        return "differs" if verdicts and verdicts[-1] in ("differs", "diverged") else "unclear"

    def _of(self, kind: str) -> list[int]:
        names = map(str, self.dataset.run.values)
        return [int(name.split()[1]) for name in names if name.startswith(kind)]

    def __str__(self) -> str:
        """A table of losses over the loss of SGD at the last look, and both verdicts."""
        sizes = self.dataset.sizes
        lines = [
            f"lr {self.lr:g}, batches of {self.batch}, {int(self.dataset.time[-1])} steps, {sizes['draw']} draws; "
            f"the same is within {self.tolerance:.0%}",
            "",
            f"{'run':<12} {'loss at the end over that of SGD':<34} verdict",
        ]
        for name, found in self.runs.items():
            interval = f"{found.ratio[-1]:.3f} ({found.low[-1]:.3f} to {found.high[-1]:.3f})"
            near = ""
            if name.startswith("scaled") and (factor := int(name.split()[1])) in self.critical:
                near = f"; step {factor * self.lr / self.critical[factor]:.2f} of the critical"
            lines.append(f"{name:<12} {interval:<34} {found.verdict}{near}")
        rule = f"holds to a factor of {self.holds_to}" if self.holds_to > 1 else "is not shown to hold for any factor"
        equation = {
            "tracks": "tracks this run",
            "differs": "does not describe this run",
            "unclear": "is neither confirmed nor refuted by so many draws",
        }
        return "\n".join([*lines, "", f"Linear scaling {rule}; the differential equation {equation[self.sde]}."])

    def plot(self, ax: Any = None, *, look: str = "light") -> Any:
        """Draws mean losses over time with two standard errors, and returns the axes.

        Args:
            ax: the matplotlib axes to draw in; by default those of a new figure.
            look: `light` or `dark`.
        """
        with panels(ax, look) as (axes,):
            for k, name in enumerate(map(str, self.dataset.run.values)):
                loss = self.dataset.loss.sel(run=name).transpose("draw", "time").values
                mean, error = loss.mean(0), loss.std(0, ddof=1) / math.sqrt(len(loss))
                style = "--" if name.startswith("svag") else "-"
                (line,) = axes.plot(self.dataset.time, mean, style, color=COLOURS[look][k % 8], label=name)
                axes.fill_between(
                    self.dataset.time, mean - 2 * error, mean + 2 * error, color=line.get_color(), alpha=0.2, lw=0
                )
            axes.set_title("Larger steps on larger batches, and amplified noise", loc="left")
            axes.set(yscale="log", xlabel="steps of SGD", ylabel="loss on all samples")
            axes.legend()
        return axes


def scaling_test(
    problem: Problem,
    params: Params | None = None,
    *,
    lr: float,
    batches: Batches,
    steps: int = 100,
    factors: Sequence[int] = (2, 4, 8),
    amplify: Sequence[int] = (2, 4),
    draws: int = 16,
    looks: int = 5,
    tolerance: float = 0.2,
    critical: bool = False,
) -> ScalingTest:
    r"""Tests if the linear scaling rule holds for a run, and if a stochastic differential equation describes the run.

    The equation $dX = -\nabla L\,dt + \sqrt{\eta/B}\,\Sigma^{1/2}dW$ knows step size and batch by their quotient alone.
    If the equation describes a run, two changes leave the run the same: $\kappa\eta$ with $\kappa B$ samples, in
    $\kappa$ times fewer steps, and [amplified noise][secant.optim.svag], which tends to the equation. The test tries
    both, with seeds of their own, and compares the losses on all samples at equal times $\eta t$.

    Args:
        problem: what to train.
        params: where to start; by default at the parameters that the problem brings.
        lr: the step size $\eta$.
        batches: the batches, of $B$ samples.
        steps: how many steps of SGD, rounded up so that all runs have whole steps between two looks.
        factors: the $\kappa$ to try, with batches of at most all samples.
        amplify: the $\ell$ to try, at $\ell$ times the cost each.
        draws: runs of each kind, with batches of their own.
        looks: how many times the losses are compared.
        tolerance: the share of the loss within which two losses count as the same.
        critical: whether to find also the [mean-square critical step][secant.curvature.stochastic_critical_lr] of every
            factor's batch at the start; for squared losses.

    Example:
        ```python
        import jax
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=64)
        net = sc.nets.mlp([16], activation="tanh")
        problem = sc.Problem(net.apply, *task.train, "half_mean")
        start = net.init(jax.random.key(0), task.train.x.shape)
        found = sc.scaling_test(problem, start, lr=0.02, batches=sc.Batches(4), factors=(2,), amplify=(2,), steps=50)
        print(found.holds_to, found.sde)
        ```
        ```text
        2 tracks
        ```
    """
    lr = positive("scaling_test", "lr", lr)
    tolerance = positive("scaling_test", "tolerance", tolerance)
    for name, value, least in (("steps", steps, 1), ("draws", draws, 2), ("looks", looks, 1)):
        whole("scaling_test", name, value, least)
    factors, amplify = _factors("factors", factors), _factors("amplify", amplify)
    if not isinstance(batches, Batches) or batches.sampling != "fixed":
        raise TypeError(f"scaling_test: `batches` must be secant.Batches of a fixed size, got {batches!r}.")
    params = problem.start("scaling_test", params)
    problem.check("scaling_test", params)
    samples = len(jax.tree.leaves(problem.x)[0])
    for factor in (1, *factors):
        if factor * batches.size > samples:
            raise ValueError(
                f"scaling_test: {factor} times a batch of {batches.size} is more than all {samples} samples. Take "
                f"`factors` of at most {samples // batches.size}."
            )
    unit = math.lcm(*factors)
    between = -(-steps // (looks * unit)) * unit  # steps of SGD from look to look

    kinds: dict[str, tuple[int, int, int | None]] = {
        "sgd": (1, between, None),
        **{f"scaled {k}": (k, between // k, None) for k in factors},
        **{f"svag {k}": (1, between * k, k) for k in amplify},
    }
    losses = []
    number = jnp.finfo(jnp.result_type(float, *jax.tree.leaves(params))).dtype
    for place, (factor, every, louder) in enumerate(kinds.values()):
        run = simulate(
            _system(problem, factor * batches.size, batches.replace, louder),
            params,
            every * looks,
            probes={"loss": Probe(problem.objective, every=every)},
            over={
                "draw": {
                    "seed": int(batches.seed) + place * draws + np.arange(draws),
                    "lr": np.full(draws, factor * lr, number),
                }
            },
        )
        losses.append(run.dataset.loss.transpose("draw", ...).values)
    import xarray as xr

    dataset = xr.Dataset(
        {"loss": (("run", "draw", "time"), np.stack(losses))},
        coords={"run": list(kinds), "time": between * np.arange(looks + 1)},
    )
    steps_at: dict[int, float] = {}
    if critical:
        loss: Any = problem.loss  # `stochastic_critical_lr` raises an error if it is not squared
        sampling = "iid" if batches.replace else "fixed"
        for factor in (1, *factors):
            size = factor * batches.size
            steps_at[factor] = stochastic_critical_lr(
                problem.f, params, problem.x, batch=size, loss=loss, sampling=sampling
            ).step
    return ScalingTest(dataset, lr, batches.size, tolerance, steps_at)


@functools.lru_cache(maxsize=32)
def _system(problem: Problem, size: int, replace: bool, amplify: int | None) -> Callable[..., Map]:
    """SGD, or SGD with amplified noise, as a function of seed and step size: a new step size compiles nothing."""

    def system(draw: dict[str, Any]) -> Map:
        drawn, lr = Batches(size, seed=draw["seed"], replace=replace), draw["lr"]
        if amplify is None:
            made = on_batches(
                problem.objective_on, problem.x, problem.y, drawn, lambda loss: gradient_descent(loss, lr)
            )
        else:
            made = svag(problem, drawn, lr, float(amplify))

        def step(state: Any) -> Any:
            """A step that keeps the precision of every parameter, whatever the precision of the step size."""
            return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), made.step(state), state)

        return made._replace(step=step)

    return system


def compared(first: np.ndarray, other: np.ndarray, tolerance: float) -> Comparison:
    """The mean losses of one kind of run over the mean losses of another, with intervals.

    Args:
        first: `(draw, time)`, the losses to compare with; at the first time all losses are one number.
        other: `(draw, time)`, the losses to compare.
        tolerance: the share of the loss within which two losses count as the same.
    """
    from scipy import stats

    with np.errstate(all="ignore"):
        means = [part.mean(0) for part in (first, other)]
        shares = [
            (part.std(0, ddof=1) / mean) ** 2 / len(part) for part, mean in zip((first, other), means, strict=True)
        ]
        ratio, variance = means[1] / means[0], shares[0] + shares[1]
        # Welch's degrees of freedom, for the logarithm of the quotient.
        freedom = variance**2 / (shares[0] ** 2 / (len(first) - 1) + shares[1] ** 2 / (len(other) - 1))
        level = (1 - CONFIDENCE) / max(1, len(ratio) - 1)
        quantile = stats.t.ppf(1 - level / 2, np.where(variance > 0, freedom, 1))
        reach = np.exp(np.where(variance > 0, quantile * np.sqrt(variance), 0.0))
        low, high = ratio / reach, ratio * reach
    bound = 1 + tolerance
    verdict: Verdict = "unclear"
    if not np.isfinite(first).all():
        raise ValueError("scaling_test: SGD itself diverges. Take a smaller `lr`.")
    if not np.isfinite(other).all():
        verdict = "diverged"
    elif ((low > bound) | (high < 1 / bound)).any():
        verdict = "differs"
    elif ((low > 1 / bound) & (high < bound)).all():
        verdict = "same"
    return Comparison(ratio, low, high, verdict)


def _factors(name: str, given: Iterable[int]) -> tuple[int, ...]:
    for factor in (values := tuple(given)):
        whole("scaling_test", name, factor, 2)
    return tuple(sorted(set(values)))
