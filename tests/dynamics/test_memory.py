"""A run holds its records and a few states, not more."""

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent("""
    import resource
    import numpy as np
    from secant.dynamics import Map, Probe, simulate

    for steps in (200, 4_000):
        run = simulate(
            Map(init=lambda x: x, step=lambda x: 3.7 * x * (1 - x)),
            lambda x: x,
            steps,
            probes={"x_t": Probe(lambda x: x, every=2)},
            over={"x": np.linspace(0.1, 0.9, 20_000, dtype=np.float32)},
        )
        print(run["x_t"].nbytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        del run
""")


def test_memory_is_the_records_and_a_chunk():
    output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    few_recorded, few_peak, many_recorded, many_peak = map(int, output.stdout.split())
    assert many_recorded > 150e6
    # Two chunks of records (16 MiB each) may be alive at once, one being copied while the next is made.
    assert many_peak - few_peak <= (many_recorded - few_recorded) + 48 * 2**20
