"""A killed run loses nothing: whatever the moment, the next run ends with the same bits."""

import random
import shutil
import signal
import textwrap
import time

import numpy as np
from forks import Forks

from secant.lab import Store
from secant.lab.store import load

KILLS = 30

SERVER = textwrap.dedent("""
    import os, sys
    import jax, numpy as np, xarray, h5netcdf, h5py
    from secant.dynamics import Map, Probe, Stop, simulate
    from secant.dynamics import runner
    from secant.lab.code import code_version
    from secant.lab import Finding, Options, Store, Tolerance, option, run, study

    runner.SAVE_SECONDS = 0.01
    runner.CHUNK_SECONDS = 0.005

    class Config(Options):
        steps: int = option(60_000)

    @study("demo/chaos", section="1", title="Chaos", statement="Sensitive to every bit.")
    def chaos(config: Config) -> xarray.Dataset:
        rates = np.linspace(3.6, 4.0, 64)
        parts = []
        for start in (0.2, 0.3):
            parts.append(
                simulate(
                    lambda rate: Map(init=lambda x: x, step=lambda x: rate * x * (1 - x)),
                    start,
                    config.steps,
                    probes={f"x{start}": Probe(lambda x: x, every=100)},
                    over={"rate": rates},
                ).dataset[f"x{start}"]
            )
        return xarray.merge(parts)

    @chaos.findings
    def check(data, config):
        yield Finding("bounded", 1.0, float(abs(data["x0.2"]).max()), Tolerance(0, why="exact"), relation="at most")

    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    code_version(chaos)  # the library is read once, and not by every child
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            record = run(chaos, scale="smoke", store=Store(line.strip()), figure=False)
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
""")


def only_record(home):
    (record,) = Store(home).records()
    return load(record.directory)


def test_killing_a_run_at_random_moments_changes_nothing(tmp_path):
    forks = Forks(SERVER, tmp_path / "compiled")
    try:
        assert forks.run(tmp_path / "calm") == 0
        began = time.perf_counter()
        assert forks.run(tmp_path / "timed") == 0
        usual = time.perf_counter() - began
        expected = only_record(tmp_path / "calm").data()

        moments, killed, finished, resumed = random.Random(0), 0, 0, 0
        home = tmp_path / "stormy"
        for _ in range(KILLS):
            status = forks.run(home, kill_after=moments.uniform(0.0, 1.1 * usual))
            killed += status == -signal.SIGKILL
            resumed += any(home.glob("runs/demo/chaos/.*.work/*/state.npz"))
            if status == 0:
                finished += 1
                for name in expected:
                    np.testing.assert_array_equal(only_record(home).data()[name], expected[name])
                shutil.rmtree(home)
        assert forks.run(home) == 0
        for name in expected:
            np.testing.assert_array_equal(only_record(home).data()[name], expected[name])
    finally:
        forks.close()
    assert killed >= KILLS // 3, "the kills came too late to test anything"
    assert resumed > 0, "no kill left a checkpoint to go on from"
    assert finished > 0
