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
    sys.path.insert(0, sys.argv[1])
    import chores, h5netcdf, h5py, jax, scipy.special
    from secant.dynamics import runner
    from secant.lab import Store, run
    from secant.lab.code import code_version

    runner.SAVE_SECONDS = 0.01
    runner.CHUNK_SECONDS = 0.005
    jax.config.update("jax_compilation_cache_dir", sys.argv[2])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    code_version(chores.chaos)  # what every child needs is read and imported once
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            record = run(chores.chaos, scale="smoke", store=Store(line.strip()), figure=False)
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
""")


def only_record(home):
    (record,) = Store(home).records()
    return load(record.directory)


def test_killing_a_run_at_random_moments_changes_nothing(tmp_path, request):
    forks = Forks(SERVER, request.path.parent, tmp_path / "compiled")
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
