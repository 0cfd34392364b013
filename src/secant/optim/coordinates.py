"""The coordinate check: how far a few steps move the signals of every layer, and whether one step suits all widths."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant.core.arguments import positive, whole
from secant.core.device import jit
from secant.core.types import Params
from secant.look import COLOURS, panels
from secant.nets.network import Network
from secant.nets.taps import observe
from secant.optim.optimizers.optimizer import as_rule
from secant.optim.problem import Problem
from secant.optim.rules.descent import gradient_descent
from secant.theory.power_law import PowerLaw

if TYPE_CHECKING:
    import optax
    import xarray as xr

    from secant.optim.training import Rule

HALFWAY = 0.25
"""Half the distance from 0 to the next possible exponent: exponents of the width are multiples of one half."""

CONFIDENCE = 0.99
"""Confidence of the interval of an exponent that decides a verdict."""

Verdict = Literal["alike", "grows", "fades", "unclear", "still", "diverged"]

MEANINGS: dict[Verdict, str] = {
    "alike": "moves by as much at every width",
    "grows": "moves more the wider the network: a step size that suits one is too large for the next",
    "fades": "moves less the wider the network: in the limit it learns nothing",
    "unclear": "more draws or wider networks would tell",
    "still": "does not move",
    "diverged": "is no finite number any more",
}
"""What a verdict means for a layer."""


class Coordinate(NamedTuple):
    """How the signals of a layer depend on the width.

    Attributes:
        size: power law of their mean absolute value at the start, as the width grows; None if there is none.
        change: power law of the mean absolute value of their change after the last step.
        verdict: follows from the 99 % interval of the exponent of the change: `alike` if the interval lies within a
            quarter of zero, `grows` or `fades` if it lies beyond, `unclear` if it crosses this border.
    """

    size: PowerLaw | None
    change: PowerLaw | None
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class CoordinateCheck:
    """How far a few steps move the signals of every layer at each width; `print` it, or draw it with `plot`.

    Attributes:
        dataset: `size`, the mean absolute value of the signals, and `change`, the mean absolute value of their
            difference from the start, over `(width, draw, step, layer)`.
        name: the name of the networks.
    """

    dataset: xr.Dataset
    name: str = "network"

    @functools.cached_property
    def layers(self) -> dict[str, Coordinate]:
        """The power laws and the verdict of every layer, by the layer's name."""
        return {str(layer): self._coordinate(str(layer)) for layer in self.dataset.layer.values}

    @property
    def alike(self) -> bool:
        """Whether every layer moves equally far at all widths, so that one step size suits all widths."""
        return all(found.verdict == "alike" for found in self.layers.values())

    def exponent(self, layer: str, step: int = -1, of: Literal["change", "size"] = "change") -> PowerLaw | None:
        """The power of the width by which a layer's signals or their changes grow; None if some are 0 or not finite.

        Args:
            layer: the name of the layer.
            step: the step after which to look.
            of: `"change"` or `"size"` of the signals.
        """
        if layer not in self.dataset.layer:
            known = ", ".join(repr(str(one)) for one in self.dataset.layer.values)
            raise ValueError(f"CoordinateCheck: there is no layer {layer!r}. There are {known}.")
        values = self.dataset[of].sel(layer=layer).isel(step=step).transpose("width", "draw").values
        if not (np.isfinite(values).all() and (values > 0).all()):
            return None
        return paired_power_law(self.dataset.width.values, values)

    def _coordinate(self, layer: str) -> Coordinate:
        size, change = self.exponent(layer, 0, "size"), self.exponent(layer)
        if change is None:
            last = self.dataset.change.sel(layer=layer).isel(step=-1).values
            return Coordinate(size, None, "still" if np.isfinite(last).all() else "diverged")
        from scipy import stats

        reach = change.error * float(stats.t.ppf((1 + CONFIDENCE) / 2, change.freedom))
        low, high = change.exponent - reach, change.exponent + reach
        verdict: Verdict = "unclear"
        if max(-low, high) < HALFWAY:
            verdict = "alike"
        elif low > HALFWAY or high < -HALFWAY:
            verdict = "grows" if low > 0 else "fades"
        return Coordinate(size, change, verdict)

    def __str__(self) -> str:
        """A table of exponents with standard errors, and the verdicts."""
        widths, steps = self.dataset.width.values, self.dataset.sizes["step"] - 1
        lines = [
            f"{self.name}: widths {', '.join(map(str, widths))}; {self.dataset.sizes['draw']} draws; "
            f"{steps} step{'s' if steps > 1 else ''}",
            "",
        ]
        names = [*self.layers, "layer"]
        column = max(map(len, names))
        lines.append(f"{'layer':{column}}  {'size at the start':20}  {'change by training':20}  verdict")
        for layer, found in self.layers.items():
            laws = [
                "none" if law is None else f"width^({law.exponent:+.2f} ± {law.error:.2f})"
                for law in (found.size, found.change)
            ]
            lines.append(f"{layer:{column}}  {laws[0]:20}  {laws[1]:20}  {found.verdict}")
        met = dict.fromkeys(found.verdict for found in self.layers.values())
        return "\n".join([*lines, "", *(f"{verdict}: {MEANINGS[verdict]}." for verdict in met)])

    def plot(self, ax: Any = None, *, look: str = "light") -> Any:
        """Draws the change of every layer after the last step against the width, with its fitted law.

        The figure shows means over the draws and their standard deviation. A layer that moves equally far at all widths
        is a level line.

        Args:
            ax: the matplotlib axes to draw in; by default those of a new figure.
            look: `light` or `dark`.

        Returns:
            The axes.
        """
        widths = self.dataset.width.values
        with panels(ax, look) as (axes,):
            for index, (layer, found) in enumerate(self.layers.items()):
                values = self.dataset.change.sel(layer=layer).isel(step=-1)
                colour, note = COLOURS[look][index % 8], ""
                if found.change is not None:
                    axes.plot(widths, found.change(widths), color=colour, lw=1.2)
                    note = f": {found.change.exponent:+.2f} ± {found.change.error:.2f}"
                style = {"fmt": "osD^v<>"[index // 8 % 7], "ms": 5, "color": colour, "label": f"{layer}{note}"}
                axes.errorbar(widths, values.mean("draw"), values.std("draw"), **style)
            axes.set(xscale="log", yscale="log", xlabel="width", title=f"Change of signals, {self.name}")
            axes.set(ylabel="mean absolute change")
            axes.set_xticks(widths, [str(width) for width in widths])
            axes.minorticks_off()
            axes.legend(title="layer: exponent", loc="center left", bbox_to_anchor=(1.0, 0.5))
            return axes


def paired_power_law(sizes: Any, values: Any) -> PowerLaw:
    r"""The mean exponent of several repeats and its standard error, each repeat fitted by least squares.

    Unlike [`fit_power_law`][secant.theory.power_law.fit_power_law], this fit uses what the values of one repeat share:
    draws of one seed begin with the same numbers at every width.

    Args:
        sizes: at least two different sizes.
        values: positive, shape `(sizes, repeats)`.
    """
    x, logs = np.log(np.asarray(sizes, float)), np.log(np.asarray(values, float))
    apart = x - x.mean()
    exponents = apart @ logs / (apart @ apart)
    error = exponents.std(ddof=1) / np.sqrt(len(exponents))
    factor = np.exp(logs.mean() - exponents.mean() * x.mean())
    return PowerLaw(float(exponents.mean()), float(error), float(factor), len(exponents) - 1.0)


def coordinate_check(
    net: Callable[[int], Network],
    widths: Sequence[int],
    x: Float[Array, "n ..."],
    y: Any,
    *,
    lr: float | None = None,
    rule: Rule | optax.GradientTransformation | None = None,
    loss: Any = "mse",
    steps: int = 3,
    draws: int = 8,
    seed: int = 0,
) -> CoordinateCheck:
    r"""Trains networks of several widths for a few steps, and reports how far the signals of every layer move.

    If every layer moves equally far at all widths, the best step size at a small width is also the best at a large one,
    and features are learnt at every width. The parametrisation `mup` achieves this. In `standard` with SGD outputs move
    by $m^{1}$, in `ntk` hidden layers by $m^{-1/2}$.

    A layer's signals are its results before the activation. They are named by the place of the layer in the network, as
    the layer's parameters are. The signals of the whole network are named `outputs`.

    Args:
        net: a function `width -> network`.
        widths: the widths; at least two.
        x: inputs, one row a sample.
        y: targets.
        lr: step size of gradient descent.
        rule: another rule than gradient descent, as for [`train`][secant.optim.train], with a step size of its own.
        loss: as for [`Problem`][secant.optim.Problem].
        steps: how many steps, each on all samples.
        draws: random networks of every width.
        seed: the seed of the first draw.

    Example:
        ```python
        import jax
        import secant as sc

        x = jax.random.normal(jax.random.key(0), (8, 5))
        y = x[:, 0] * x[:, 1]
        rule = sc.nets.Parametrization("mup", optimizer="adam")
        net = lambda width: sc.nets.mlp([width, width], activation="tanh", parametrization=rule)
        found = sc.coordinate_check(net, (32, 128), x, y, rule=sc.optimisers.adam(0.02))
        print(found.alike, list(found.layers))
        ```
        ```text
        True ['0 dense', '2 dense', 'outputs']
        ```
    """
    import xarray as xr

    caller = "coordinate_check"
    sizes = sorted(whole(caller, "widths", width) for width in widths)
    if len(set(sizes)) < max(2, len(sizes)):
        raise ValueError(f"{caller}: `widths` must hold at least two different widths, got {tuple(widths)}.")
    steps, draws = whole(caller, "steps", steps), whole(caller, "draws", draws, 2)
    rule = as_rule(rule)
    if (rule is None) == (lr is None):
        raise ValueError(f"{caller}: pass either `lr`, a step size of gradient descent, or a `rule` with its own.")
    step = None if lr is None else positive(caller, "lr", lr)
    made = []
    for width in sizes:
        one = net(width)
        if not isinstance(one, Network):
            raise TypeError(f"{caller}: `net` must turn a width into a secant.nets.Network, got {type(one).__name__}.")
        starts = [one.init(jax.random.key(seed + draw), jnp.shape(x)) for draw in range(draws)]
        problem = Problem(one.apply, x, y, loss)
        problem.check(caller, starts[0])
        together = jax.tree.map(lambda *leaves: np.stack(leaves), *starts)
        made.append((one, problem, together, (one.name, *layer_names(one, starts[0], x))))
    names = [found for *_, found in made]
    if len(set(names)) > 1:
        raise ValueError(f"{caller}: networks of different widths must have the same layers, got {names}.")
    records = [_measured(problem, one, rule, step, steps)(together) for one, problem, together, _ in made]
    title, *layers = names[0]
    found = np.stack([np.stack(jax.device_get(record), axis=-1) for record in records])  # width, draw, step, layer, 2
    dims = ("width", "draw", "step", "layer")
    table = xr.Dataset(
        {name: (dims, found[..., which]) for which, name in enumerate(("size", "change"))},
        coords={"width": sizes, "step": np.arange(steps + 1), "layer": layers},
    )
    return CoordinateCheck(table, title)


def _measured(problem: Problem, net: Network, rule: Any, lr: float | None, steps: int) -> Callable[..., Any]:
    """A compiled function: starts -> sizes and changes, each of shape `(draws, steps + 1, layers)`."""

    def trained(start: Params) -> tuple[Array, Array]:
        system = gradient_descent(problem.objective, lr) if rule is None else rule(problem.objective)
        first = _signals(net, start, problem.x)

        def look(params: Params) -> tuple[Array, Array]:
            now = _signals(net, params, problem.x)
            mean = [jnp.mean(jnp.abs(z)) for z in now]
            return jnp.stack(mean), jnp.stack([jnp.mean(jnp.abs(z - a)) for z, a in zip(now, first, strict=True)])

        def step(state: Any, _: None) -> tuple[Any, tuple[Array, Array]]:
            state = system.step(state)
            return state, look(system.shown(state))

        _, after = jax.lax.scan(step, system.init(start), None, length=steps)
        before = jnp.stack([jnp.mean(jnp.abs(z)) for z in first])
        join = lambda a, b: jnp.concatenate([a[None], b])  # noqa: E731
        return join(before, after[0]), join(jnp.zeros_like(before), after[1])

    return jit(jax.vmap(trained), quick=True)


def _signals(net: Network, params: Params, x: Any) -> list[Array]:
    """The signals of every layer with parameters, and last the outputs."""
    return [array for _, array in _named_signals(net, params, x)]


def _named_signals(net: Network, params: Params, x: Any) -> list[tuple[str, Array]]:
    outputs, sites, arrays = observe(lambda: net.apply(params, x))
    places = jax.tree_util.tree_leaves_with_path(params)
    found: dict[str, Array] = {}
    for number, (site, array) in enumerate(zip(sites, arrays, strict=True)):
        path = next((path for path, leaf in places if leaf is site.weight), None)
        found[f"site {number}" if path is None else _written(net, path)] = array  # a bias comes after its weight
    if found and list(found.values())[-1].size == outputs.size:
        found.popitem()
    return [*found.items(), ("outputs", outputs)]


def _written(net: Network, path: tuple[Any, ...]) -> str:
    """The name of a layer by its place: `2 dense`, or `3.0.1 attention query`."""
    steps = [str(getattr(key, "idx", getattr(key, "key", key))) for key in path[:-1]]
    part = net
    for key in path[:-1]:
        index = getattr(key, "idx", None)
        if index is None or index >= len(part.parts):
            break
        part = part.parts[index]
    numbers = ".".join(step for step in steps if step.isdigit())
    return " ".join(word for word in (numbers, part.name, *(step for step in steps if not step.isdigit())) if word)


def layer_names(net: Network, params: Params, x: Any) -> list[str]:
    """The names of all signals, found without computing anything."""
    names: list[str] = []

    def trace(params: Params) -> None:
        names.extend(name for name, _ in _named_signals(net, params, x))

    jax.eval_shape(trace, params)
    return names


__all__ = ["Coordinate", "CoordinateCheck", "coordinate_check"]
