"""Children to kill, at no cost of imports."""

import contextlib
import os
import signal
import subprocess
import sys
import time


class Forks:
    """Runs a script that imports everything once and forks a child for every line it reads."""

    def __init__(self, script, *arguments):
        environment = os.environ | {"PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, line, kill_after=None):
        """The exit status of the child of a line, killed after a while if asked to."""
        print(line, file=self.process.stdin, flush=True)
        child = int(self.process.stdout.readline())
        if kill_after is not None:
            time.sleep(kill_after)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()
