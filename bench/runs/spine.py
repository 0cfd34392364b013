"""Rows of the spine: the runner, the import, the verification of everything."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from bench.row import Row, alternate, row


@row
def runner() -> Row:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from secant.dynamics import Probe, simulate
    from secant.theory.edge.two_eigenvalue import Point, two_eigenvalue

    count, steps, every = 10_000, 10_000, 100
    with jax.enable_x64(True):
        system = two_eigenvalue(second=-0.005)
        residual = jnp.linspace(0.05, 0.3, count)
        start = Point(z=residual, T=2 / (1 - residual))
        probes = {"z": Probe(lambda s: s.z, every=every), "T": Probe(lambda s: s.T, every=every)}

        def begin(point: Point) -> Point:
            return point

        @jax.jit
        def by_hand(point: Point) -> tuple[Point, Point]:
            step = jax.vmap(system.step)

            def block(state: Point, _: None) -> tuple[Point, Point]:
                state = jax.lax.scan(lambda s, _: (step(s), None), state, length=every)[0]
                return state, state

            return jax.lax.scan(block, point, length=steps // every)

        def peer() -> list[np.ndarray]:
            return [np.asarray(record) for record in by_hand(start)[1]]

        def ours() -> object:
            return simulate(system, begin, steps, probes=probes, over={"point": start}).dataset

        theirs, mine = peer(), ours()
        assert np.array_equal(theirs[0], mine.z.values[:, 1:].T), "the two runs must give the same bits"
        seconds, peer_seconds = alternate(ours, peer)
    return Row(
        "runner",
        f"{count:,} starts x {steps:,} steps of the two-eigenvalue map, recorded every {every}, float64",
        "hand-written jit(vmap(scan))",
        peer_seconds,
        seconds,
        target=1.1,
    )


@row
def import_secant() -> Row:
    def seconds(statement: str) -> float:
        times = []
        for _ in range(7):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    seconds("import jax")  # warms the disk
    return Row(
        "import_secant",
        "import secant and its runner",
        "import jax",
        seconds("import jax"),
        seconds("import secant; secant.simulate"),
        target=1.5,
    )


@row
def verify_smoke() -> Row:
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"SECANT_HOME": home}
        command = [sys.executable, "-m", "secant.cli", "verify", "--scale", "smoke", "--force", "--json"]
        for _ in range(2):  # the first fills the compilation cache
            began = time.perf_counter()
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
            seconds = time.perf_counter() - began
    return Row(
        "verify_smoke",
        "secant verify --scale smoke, everything computed again, compiled code cached",
        "limit of 60 s",
        60.0,
        seconds,
        target=1.0,
    )
