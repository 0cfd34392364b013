"""The function that makes a monitor, for loops in JAX and in PyTorch."""

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
    r"""A monitor of your own training loop: it measures the curvature, and where the optimiser becomes unstable.

    In JAX, call the monitor once a step, *before* the step: `watch(step, params, opt_state, batch)`. Anything else that
    the loss takes comes behind the batch. Hand over `loss=` and `grads=` if the loop has them. The monitor records
    those [columns][secant.monitors.COLUMNS] that it can measure, within the time that `budget` allows. It changes
    nothing in the run and raises no error in the loop: what it cannot do, it says once, in a warning.

    Args:
        loss: `loss(params, batch, ...) -> number`, a mean over the samples of a batch; it may return more behind the
            number. Or the name of a loss of outputs and targets, with `f` and batches `(x, y)`. In PyTorch
            `loss(model, batch)`.
        model: a module of PyTorch, for a loop in PyTorch.
        optimiser: a transformation of optax, one of [`secant.optimisers`][secant.optim.optimisers], or facts such as
            `{"name": "adam", "lr": 1e-3}`; in PyTorch one of `torch.optim`. Without it there is no threshold.
        f: `f(params, x) -> outputs`, a row a sample: for the tangent kernel and the use of inputs.
        record: path or name of the record. By default a new record in Secant's home; False keeps it in memory alone.
        budget: the share of the run's time that looks may take.
        every: steps between two looks, for all looks or by column, such as `{"batch_sharpness": 20}`. Nothing depends
            on the clock then.
        sinks: objects with `write(step, row)` and `close()`, or names of sinks, to which rows go as well.
        samples: how many samples of each batch the looks use, the first ones, such as 24; "all" always uses all. By
            default looks use all samples, but with a budget a look that would come less often than every 200 steps
            uses a half or a quarter of them, if the loss is a mean over samples. A warning then names the look, and
            `plan` tells how many samples each look uses.
        name: the name of the run, for people.
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
