"""The one function that makes a monitor, whatever the loop is written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from secant.monitors.base import Monitor
from secant.monitors.records.keeper import Sink


def monitor(
    loss: Any,
    *,
    model: Any = None,
    optimiser: Any = None,
    f: Callable[..., Any] | None = None,
    record: Any = None,
    budget: float = 0.05,
    every: int | Mapping[str, int] | None = None,
    sinks: str | Sink | Sequence[str | Sink] = (),
    samples: int | Literal["all"] | None = None,
    name: str | None = None,
    **options: Any,
) -> Any:
    r"""Watches a training loop of your own: what its curvature is, and where its optimiser turns unstable.

    In JAX, call what it returns once a step, *before* the step: `watch(step, params, opt_state, batch)`, with anything
    else that the loss takes behind the batch, and `loss=` and `grads=` where the loop has them. It records the
    [columns][secant.monitors.COLUMNS] that can be had, in so little time as `budget` says, changes nothing in the run
    and never raises: what it could not do it says once.

    Args:
        loss: `loss(params, batch, ...) -> number`, a mean over the samples of a batch, or a number and more; or the
            name of a loss of outputs and targets, with `f` and batches `(x, y)`. In PyTorch `loss(model, batch)`.
        model: a module of PyTorch, for a loop in PyTorch.
        optimiser: a transformation of optax, one of [`secant.optimisers`][secant.optim.optimisers], or facts such as
            `{"name": "adam", "lr": 1e-3}`; in PyTorch one of `torch.optim`. Without it there is no threshold.
        f: `f(params, x) -> outputs`, a row a sample: for the tangent kernel and the use of inputs.
        record: path or name of the record. By default a new one in Secant's home; False keeps it in memory alone.
        budget: the share of the run's time that looks may take.
        every: cadences by hand, one for all looks or by column, such as `{"batch_sharpness": 20}`; nothing depends on
            the clock then.
        sinks: objects with `write(step, row)` and `close()`, to which rows go as well.
        samples: of each batch, how many are looked at, the first ones: 24, or "all" for always all of them. By default
            all, but with a budget a look that would come more seldom than every 200 steps is taken on a half or a
            quarter of them, where the loss is a mean over samples; the monitor says so, and `plan` on how many.
        name: of the run, for people.
        options: in JAX `inputs`, which finds $x$ in a batch, and `stacked`, for loops under `pmap`: True, or the
            name of the axis of devices.

    Example:
        ```python
        import jax
        import jax.numpy as jnp
        import optax
        import secant as sc

        def loss(params, batch):
            x, y = batch
            return jnp.mean((x @ params - y) ** 2) / 2

        x = jnp.diag(jnp.array([2.0, 1.0]))
        params, rule = jnp.ones(2), optax.sgd(0.1)
        state = rule.init(params)
        watch = sc.monitor(loss, optimiser=rule, record=False, every=1)
        for step in range(3):
            watch(step, params, state, (x, jnp.zeros(2)))
            updates, state = rule.update(jax.grad(loss)(params, (x, jnp.zeros(2))), state)
            params = optax.apply_updates(params, updates)
        run = watch.watched
        print(run.column("sharpness")[1].round(4), run.column("threshold")[1].round(4))
        ```
        ```text
        [2. 2. 2.] [20. 20. 20.]
        ```
    """
    given = {
        "optimiser": optimiser,
        "f": f,
        "record": record,
        "budget": budget,
        "every": every,
        "sinks": sinks,
        "samples": samples,
        "name": name,
        **options,
    }
    if model is not None:
        from secant.monitors.in_torch.monitor import TorchMonitor

        if f is None:
            del given["f"]
        return TorchMonitor(loss, model, **given)
    from secant.monitors.in_jax.monitor import JaxMonitor

    return JaxMonitor(loss, **given)


__all__ = ["Monitor", "monitor"]
