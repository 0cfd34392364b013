"""What workers do in the tests of engines: a plain module of the standard library, imported in no time."""

import os
import signal
import time
from pathlib import Path


def square(number: int) -> int:
    return number**2


def fail_at_two(number: int) -> int:
    if number == 2:
        raise ValueError("two", number)
    return number


def die_once(task: tuple[Path, int]) -> int:
    """Kills its process at the first attempt at number 1."""
    mark, number = task
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_at_one(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def threads(_: object) -> list[str | None]:
    return [os.environ.get(name) for name in ("NPROC", "OMP_NUM_THREADS")]


def preallocates(_: object) -> str | None:
    return os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE")


def write_pid_and_wait(path: Path) -> None:
    path.write_text(str(os.getpid()))
    time.sleep(600)


def leave_mark(path: Path) -> None:
    time.sleep(0.2)
    path.touch()


def counts_programs(_):
    """Whether this process counts the programs that it makes."""
    import jax  # noqa: F401

    from secant.core import programs

    return programs._made.counting
