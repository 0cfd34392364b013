"""The monitor of a training loop in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from secant.core.arguments import whole
from secant.monitors.base import Monitor, PassedError, described
from secant.monitors.critical_batch import Noise
from secant.monitors.in_torch.looks import DIFFERENCE, Looks
from secant.monitors.in_torch.measures import View, along_update, batch_sharpness, largest, noise, why_whole
from secant.monitors.in_torch.optimizers import Reading, kind_of, read, unwrapped
from secant.monitors.in_torch.outputs import SAMPLES, Outputs, inputs_of
from secant.monitors.in_torch.ranks import AGREED, Several, ranks_of
from secant.monitors.in_torch.sharded import ShardedLooks, is_sharded
from secant.monitors.in_torch.snapshot import bare, leaves, mapped, mark, rows, samples_of
from secant.monitors.optimizers import BLIND
from secant.monitors.plan import Account, Look
from secant.monitors.records.keeper import Sink

LOOKS = (
    Look("batch_sharpness", ("gradient_norm", "parameter_norm", "batch_sharpness", "dead_units", "batch"), 2.6, 4),
    Look("sharpness", ("sharpness", "sharpness_error", "sharpest_share", "threshold", "critical_lr"), 18, 4),
    Look("update_curvature", ("update_norm", "update_curvature", "stable_multiple"), 2.6, 1.5, after=True),
    Look("noise_scale", ("noise_scale",), 1, 1),
)
"""Looks that need only the loss; prices in steps, as measured on a residual network."""

OF_OUTPUTS = (
    Look("kernel_drift", ("kernel_critical_lr", "kernel_drift"), 8, 1, samples=SAMPLES),
    Look("agop_change", ("agop_change",), 1, 0.5, samples=SAMPLES),
)
"""Looks that also need the model's outputs."""

FIRST, LATER = 15, 6
"""Products in the search for the largest curvature: at the first look, and from where the last look ended."""


class TorchMonitor(Monitor):
    """A monitor of a loop in PyTorch; see [`monitor`][secant.monitors.monitor].

    Args:
        loss: `loss(model, batch) -> scalar tensor`; it must call the model that it is given.
        model: the module that trains.
        optimiser: an optimiser of `torch.optim`, or one that a library has wrapped.
        f: `f(model, x) -> outputs`, a row a sample: for the tangent kernel and the use of inputs.
        inputs: finds $x$ in a batch; by default its first part.
        scaler: a `GradScaler`, whose scale is recorded.
        samples: how many samples of a batch the looks use, the first ones, or "all". By default all, and fewer for
            looks that would come too seldom.
        group: the processes of `torch.distributed` that train together; by default all.
        name: the name of the run, for the record.
        record: path or name of the record, None for a new one in Secant's home, False for none.
        budget: share of the time that looks may take.
        every: steps between two looks, for all looks or column -> steps; nothing depends on the clock then.
        sinks: objects with `write(step, row)` and `close()`.

    Example:
        ```python
        import torch
        from secant.monitors.in_torch.monitor import TorchMonitor

        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = lambda model, batch: ((model(batch[0]) - batch[1]) ** 2).mean()
        with TorchMonitor(loss, model, optimiser, every=1, record=False) as watch:
            for step in range(3):
                batch = torch.randn(8, 3), torch.randn(8, 1)
                optimiser.zero_grad()
                found = loss(model, batch)
                found.backward()
                watch(step, batch, loss=found)
                optimiser.step()
        print(watch.last["threshold"], watch.last["batch_sharpness"] < watch.last["sharpness"])
        ```
        ```text
        20.0 True
        ```
    """

    def __init__(
        self,
        loss: Callable[[Any, Any], Any],
        model: nn.Module,
        optimiser: Any = None,
        *,
        f: Callable[[Any, Any], Any] | None = None,
        inputs: Callable[[Any], Any] = inputs_of,
        scaler: Any = None,
        samples: int | Literal["all"] | None = None,
        group: Any = None,
        name: str | None = None,
        record: Any = None,
        budget: float = 0.05,
        every: int | Mapping[str, int] | None = None,
        sinks: Sequence[Sink] = (),
        **options: Any,
    ) -> None:
        if not callable(loss):
            raise TypeError(f"monitor: `loss` must be a function (model, batch) -> scalar, got {type(loss).__name__}.")
        if not isinstance(model, nn.Module):
            raise TypeError(f"monitor: `model` must be a module of PyTorch, got {type(model).__name__}.")
        optimiser = None if optimiser is None else unwrapped(optimiser)
        if optimiser is not None and not isinstance(optimiser, torch.optim.Optimizer):
            raise TypeError(
                f"monitor: `optimiser` must be one of torch.optim, got {type(optimiser).__name__}. Without `optimiser` "
                "the monitor measures everything that needs no optimiser."
            )
        if f is not None and not callable(f):
            raise TypeError(f"monitor: `f` must be a function (model, x) -> outputs, got {type(f).__name__}.")
        by_hand = None if samples in (None, "all") else whole("monitor", "samples", samples, least=2)
        moved = None if optimiser is None else [p for group in optimiser.param_groups for p in group["params"]]
        self._ranks = ranks_of(group)
        sharded = is_sharded(model)
        self._looks_at = ShardedLooks(loss, model, moved, self._ranks) if sharded else Looks(loss, model, moved)
        self._optimiser, self._scaler = optimiser, scaler
        self._f, self._inputs = f, inputs
        self._outputs: Outputs | None = None
        self._parts: list[Any] = []
        self._direction: Tensor | None = None
        self._noise = Noise()
        self._searched: set[int] = set()
        self._refused: str | None = None
        self._point: tuple[int, Tensor, list[Any]] | None = None
        own = self._looks_at.parameters
        super().__init__(
            [
                *(look._replace(samples=by_hand) for look in LOOKS),
                *(OF_OUTPUTS if f is not None and not sharded else ()),
            ],
            record=record if self._ranks.leader else False,
            budget=budget,
            every=every,
            sinks=sinks if self._ranks.leader else (),
            about={
                "framework": "torch",
                "torch": torch.__version__,
                "device": own[0].device.type,
                "parameters": self._looks_at.size,
                "optimiser": {"name": "none" if optimiser is None else type(optimiser).__name__},
                "model": type(bare(model)).__name__,
            }
            | ({"processes": self._ranks.size} if self._ranks.size > 1 else {})
            | ({"name": str(name)} if name is not None else {}),
            ready=_has_come,
            number=_number,
            fewer=samples is None and self._ranks.size == 1,
            **options,
        )
        if isinstance(self._ranks, Several) and self._account.every is None:
            self._account = cast(Account, _Together(self._account, self._ranks))
            if samples is None:
                self._keeper.note(0, "several processes train together: looks use all samples of a batch.")
        if self._looks_at.missing:
            self.say("sharded", self._looks_at.missing)
        if optimiser is None:
            self.say("optimiser", f"no `optimiser` was given: {BLIND}.")
        self._lr_at_hand = optimiser is not None and not any(
            isinstance(group["lr"], Tensor) for group in optimiser.param_groups if "lr" in group
        )

    def part(self, batch: Any) -> None:
        """Adds one of several batches whose gradients are accumulated for the next step; then call the monitor.

        Args:
            batch: a batch as the loss takes it. The loss of the step counts as the mean over these batches.
        """
        self._parts.append(batch)

    def __call__(self, step: int, batch: Any = None, *, loss: Any = None, grads: bool = False) -> None:
        """Watches a step, before the optimiser takes it; never raises.

        Args:
            step: the number of the step, from 0.
            batch: the batch of the step; None for the batches that `part` was given.
            loss: the loss of the step, if the loop has it; the monitor does not wait for it.
            grads: whether `.grad` is the gradient of this batch, neither scaled nor clipped: a look then costs less.
        """
        if self._keeper.closed:
            return
        try:
            parts, self._parts = (self._parts if batch is None else [batch]), []
            number, at_hand = int(step), self._at_hand(loss)
            self.observe(
                number,
                at_hand,
                lambda name: self._take(name, number, parts, grads),
                hold=lambda: self._hold(number, parts),
                wait=self._wait,
                size=lambda: self._cuttable(number, parts),
            )
        except Exception as error:
            self.say("call", f"this step could not be watched: {described(error)}")

    def _at_hand(self, loss: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if isinstance(loss, Tensor):
            found["loss"] = _coming(loss.detach())
        elif loss is not None:
            found["loss"] = loss
        if self._scaler is not None:
            scale = getattr(self._scaler, "_get_scale_async", lambda: None)()  # to read the number would mean to wait
            found["scaler"] = self._scaler.get_scale() if scale is None else _coming(scale.detach().clone())
        if self._lr_at_hand and found and self._optimiser is not None:
            found["lr"] = max(group["lr"] for group in self._optimiser.param_groups)
        return found

    def _wait(self) -> None:
        for kind in {p.device for p in self._looks_at.parameters}:
            if kind.type == "cuda":
                torch.cuda.synchronize(kind)

    def _take(self, name: str, step: int, parts: list[Any], grads: bool = False) -> dict[str, float]:
        if name == "update_curvature":
            return self._update()
        if name in ("kernel_drift", "agop_change"):
            if self._outputs is None:
                assert self._f is not None
                self._outputs = Outputs(self._f, self._looks_at, parts[0], self._inputs)
            return self._outputs.kernel() if name == "kernel_drift" else self._outputs.uses()
        view = self._look_at(step, parts, name)
        if name == "batch_sharpness":
            samples = View(self._looks_at, parts, self._ranks).samples
            own = [p.grad for p in self._looks_at.parameters] if grads and view.samples == samples else [None]
            there = all(slope is not None for slope in own)
            found = batch_sharpness(view, self._looks_at.flat(own) if there else None)
            reading = self._reading(None)
            more = {"batch": float(samples or math.nan)}
            if reading is not None and reading.lr is not None:
                more["lr"] = reading.lr
            self._ladder(step)
            return found | more
        if name == "sharpness":
            return self._sharpness(view, step)
        self.compare(step, view.samples or 0, mark(view.parts))
        return {"noise_scale": self._noise.add(*noise(view), view.samples or math.nan)}

    def _look_at(self, step: int, parts: list[Any], name: str = "") -> View:
        if not parts:
            raise PassedError("the call gave no batch.")
        self._looks_at.number = step
        cut = [self._some(part, step, name) for part in parts] if name else parts
        near = {p.device for p in self._looks_at.parameters}
        if len(near) == 1:
            place = near.pop()
            if any(leaf.device != place for part in cut for leaf in leaves(part)):
                self.say("device", f"the batch is on another device than the model: looks copy it to {place}.", step)
                cut = [mapped(lambda leaf: leaf.to(place), part) for part in cut]
        return View(self._looks_at, cut, self._ranks)

    def _some(self, part: Any, step: int, name: str) -> Any:
        if self._account.looks[name].samples is None:
            return part
        count = samples_of(part)
        if count is None:
            text = "the batch cannot be cut, because its tensors have different first axes: looks use all of it."
            self.say("samples", text, step)
            return part
        return rows(part, 0, self._sampling.wanted(name, count))

    def _cuttable(self, step: int, parts: list[Any]) -> int:
        """How many samples the parts of a batch have; an error that says why, if looks need whole batches."""
        counts = [samples_of(part) or 0 for part in parts]
        if self._refused is None:
            self._refused = why_whole(self._look_at(step, parts[:1]))
        if self._refused:
            raise PassedError(self._refused)
        return min(counts)

    def _hold(self, step: int, parts: list[Any]) -> None:
        copied = [mapped(lambda leaf: leaf.detach().clone(), part) for part in parts]
        self._point = step, self._looks_at.flat(), copied

    def _update(self) -> dict[str, float]:
        if self._point is None:
            raise PassedError("the point before the step was not kept.")
        step, before, parts = self._point
        update = self._looks_at.flat() - before
        view = self._look_at(step, parts, "update_curvature")
        view.at = before
        return along_update(view, update)

    def _reading(self, slope: Callable[[], Tensor] | None) -> Reading | None:
        if self._optimiser is None:
            return None
        divides = slope is not None and kind_of(self._optimiser) != "SGD"
        split = self._looks_at.pieces(slope()) if slope is not None and divides else None
        found = read(self._optimiser, self._looks_at.parameters, split)
        if found.missing:
            self.say("optimiser", found.missing)
        return found

    def _sharpness(self, view: View, step: int) -> dict[str, float]:
        reading = self._reading(lambda: view.slope[1])
        scale = None
        if reading is not None and reading.divisor is not None:
            scale = self._looks_at.spread(reading.divisor).rsqrt()
        fresh = (view.samples or 0) not in self._searched  # the first look at such batches
        self._searched.add(view.samples or 0)
        if self._direction is None:
            numbers = torch.Generator().manual_seed(0)
            like = self._looks_at.flat()
            self._direction = torch.randn(like.numel(), generator=numbers).to(like)
        start = self._direction if scale is None else torch.where(scale > 0, self._direction, 0.0)
        top = largest(view, start, scale, FIRST if fresh else LATER)
        if math.isfinite(top.value):
            self._direction = top.vector
        slope = view.slope[1] if scale is None else scale * view.slope[1]
        square, along = view.dot(slope, slope), view.dot(slope, top.vector)
        share = along**2 / square / view.dot(top.vector, top.vector) if square > 0 else math.nan
        found = {"sharpness": top.value, "sharpness_error": top.error, "sharpest_share": share}
        if reading is not None and reading.threshold is not None:
            found["threshold"] = reading.threshold
            critical = reading.critical_lr(top.value)
            found["critical_lr"] = math.nan if critical is None else critical
        self._ladder(step)
        return found

    def _ladder(self, step: int) -> None:
        """Writes once into the record which rungs were taken."""
        taken = dict(self._looks_at.taken)
        if not taken or self._keeper.about.get("ladder", {}).get("taken") == taken:
            return
        self.tell(ladder={"taken": taken, "refused": dict(self._looks_at.refused)})
        if DIFFERENCE in taken.values():
            why = "; ".join(f"{rung}: {text}" for rung, text in self._looks_at.refused.items())
            self.say("ladder", f"curvature is a difference of gradients, right to three digits ({why}).", step)


class _Together:
    """An account in which the first process decides for all processes which looks are due."""

    def __init__(self, account: Any, ranks: Several) -> None:
        self._own, self._ranks = account, ranks
        self._all = tuple(account.looks)

    def due(self, step: int) -> list[str]:
        if self._own.calls % AGREED:  # calls are the same everywhere, steps may not be
            return []
        there = self._ranks.agreed(self._own.due(step), self._all)
        return [name for name in there if name in self._own.looks]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


class _Coming:
    """A number that is still under way on a device."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.event = tensor, torch.cuda.Event()
        self.event.record(torch.cuda.current_stream(tensor.device))


def _coming(tensor: Tensor) -> Any:
    return _Coming(tensor) if tensor.is_cuda else tensor


def _has_come(value: Any) -> bool:
    return value.event.query() if isinstance(value, _Coming) else True


def _number(value: Any) -> float:
    return float(value.tensor if isinstance(value, _Coming) else value)
