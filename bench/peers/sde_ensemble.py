"""An ensemble of paths of a stochastic differential equation by diffrax or torchsde; processor seconds."""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1"}  # before torch is imported

import time

import numpy as np
from exchange import Exchange


def seconds(function, rounds: int = 3) -> tuple[list[float], np.ndarray]:
    """Processor seconds, after a run that compiles, and the last result."""
    function(0)
    found = []
    for k in range(rounds):
        began = time.process_time()
        last = function(k)
        found.append(time.process_time() - began)
    return found, last


def with_diffrax(exchange: Exchange, paths: int, dim: int, steps: int) -> None:
    import diffrax
    import jax
    import jax.numpy as jnp

    rates = jnp.arange(1.0, dim + 1) / dim

    def drift(t, x, _):
        return -rates * x

    def diffusion(t, x, _):
        bent = jnp.tanh(x)
        return 0.3 * (jnp.eye(dim) + 0.2 * jnp.outer(bent, bent))

    motions = {
        "unsafe path": lambda key: diffrax.UnsafeBrownianPath((dim,), key),
        "Brownian tree": lambda key: diffrax.VirtualBrownianTree(0.0, 1.0, 0.5 / steps, (dim,), key),
    }
    for name, motion in motions.items():

        def one(key, motion=motion):
            terms = diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(diffusion, motion(key)))
            told = {"dt0": 1 / steps, "y0": jnp.ones(dim), "max_steps": steps + 8, "adjoint": diffrax.ForwardMode()}
            return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, **told).ys[-1]

        solve = jax.jit(jax.vmap(one))
        found, last = seconds(lambda k, s=solve: np.asarray(s(jax.random.split(jax.random.key(k), paths))))
        exchange.method(f"diffrax, {name}", found, mean=last.mean(0).tolist(), variance=last.var(0).tolist())


def with_torchsde(exchange: Exchange, paths: int, dim: int, steps: int) -> None:
    import torch
    import torchsde

    torch.set_num_threads(1)

    class Equation(torch.nn.Module):
        noise_type, sde_type = "general", "ito"

        def f(self, t, x):
            return -torch.arange(1.0, dim + 1) / dim * x

        def g(self, t, x):
            bent = torch.tanh(x)
            return 0.3 * (torch.eye(dim) + 0.2 * bent[:, :, None] * bent[:, None])

    def solve(k: int) -> np.ndarray:
        torch.manual_seed(k)
        with torch.no_grad():
            times = torch.tensor([0.0, 1.0])
            return torchsde.sdeint(Equation(), torch.ones(paths, dim), times, dt=1 / steps, method="euler")[-1].numpy()

    found, last = seconds(solve)
    exchange.method("torchsde, Euler", found, mean=last.mean(0).tolist(), variance=last.var(0).tolist())


def main() -> None:
    exchange = Exchange(("numpy",))
    peer, size = exchange.options["peer"], (int(exchange.options[n]) for n in ("paths", "dim", "steps"))
    {"diffrax": with_diffrax, "torchsde": with_torchsde}[peer](exchange, *size)
    exchange.close()


if __name__ == "__main__":
    main()
