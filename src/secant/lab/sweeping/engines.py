"""Where independent tasks run: in this process, in several processes, or on a Ray cluster.

An engine takes one function and many tasks. It yields each result with the number of its task, as the tasks end.
Outside this process, function, tasks and results must be picklable. If a worker dies, only its task is lost, and the
task starts again.
"""

from __future__ import annotations

import atexit
import collections
import concurrent.futures
import contextlib
import gc
import multiprocessing
import numbers
import os
import reprlib
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Protocol

from secant.core.cores import cores
from secant.core.programs import forget_programs

ATTEMPTS = 5
"""How often a task is started before the death of its worker is blamed on the task."""

Results = Generator[tuple[int, Any], None, None]


class EngineError(RuntimeError):
    """The engine cannot work."""


class WorkerDiedError(EngineError):
    """The workers of some tasks died in every attempt.

    Attributes:
        numbers: the numbers of these tasks.
    """

    def __init__(self, numbers: Sequence[int], tasks: Sequence[Any]) -> None:
        named = ", ".join(f"{number} ({reprlib.repr(tasks[number])})" for number in numbers[:3])
        more = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
        super().__init__(
            f"the worker died in each of {ATTEMPTS} attempts at task {named}{more}: killed, or out of memory."
        )
        self.numbers = tuple(numbers)


class Engine(Protocol):
    """Runs tasks somewhere."""

    def each(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Results:
        """`(number, work(tasks[number]))` for every task, as they end.

        An exception in `work` ends everything and is raised unchanged. Closing the generator ends everything too. If
        the worker of a task dies every time, `WorkerDiedError` is raised after all other tasks are done.
        """


@dataclass(frozen=True)
class Here:
    """One task after the other, in this process.

    Example:
        ```python
        from secant.lab import Here

        list(Here().each(abs, [-1, 2]))
        ```
    """

    def each(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Results:
        """`(number, work(tasks[number]))`, in order."""
        for number, task in enumerate(tasks):
            yield number, work(task)


@dataclass(frozen=True)
class Processes:
    """Several new processes on this machine. They end with the work, and with the process that started them.

    Attributes:
        jobs: how many processes at once.
        prepare: called first in every process.
        cores: threads that each process may compute with; by default as many as the machine has cores.
    """

    jobs: int
    prepare: Callable[[], None] | None = None
    cores: int | None = None

    def __post_init__(self) -> None:
        _check_counts(jobs=self.jobs, cores=self.cores)

    def each(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Results:
        """`(number, work(tasks[number]))`, as they end."""
        waiting, died = collections.deque(range(len(tasks))), collections.Counter[int]()
        leash, hold = multiprocessing.get_context("spawn").Pipe(duplex=False)
        # Each pool has one process. If the process dies, its task is known, and no other task is lost.
        idle = [self._pool(leash) for _ in range(min(self.jobs, len(tasks)))]
        pools = list(idle)
        busy: dict[concurrent.futures.Future[Any], tuple[int, concurrent.futures.ProcessPoolExecutor]] = {}
        try:
            while waiting or busy:
                with _environment(threads(self.cores) | memory()), _deaf():
                    while waiting and idle:
                        number, pool = waiting.popleft(), idle.pop()
                        busy[pool.submit(_in_worker, None, work, tasks[number])] = number, pool
                for future in concurrent.futures.wait(busy, return_when=concurrent.futures.FIRST_COMPLETED).done:
                    number, pool = busy.pop(future)
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        idle.append(self._pool(leash))
                        pools.append(idle[-1])
                        died[number] += 1
                        if died[number] < ATTEMPTS:
                            waiting.append(number)
                    else:
                        idle.append(pool)
                        yield number, result
        finally:
            if busy:
                hold.close()
            for pool in pools:
                pool.shutdown(wait=True, cancel_futures=True)
            hold.close()
            leash.close()
        _raise_for([number for number, times in sorted(died.items()) if times == ATTEMPTS], tasks)

    def _pool(self, leash: Connection) -> concurrent.futures.ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")  # a forked JAX would hang
        return concurrent.futures.ProcessPoolExecutor(
            1, mp_context=spawn, initializer=_begin_process, initargs=(self.prepare, leash)
        )


@dataclass(frozen=True)
class Ray:
    """The workers of a [Ray](https://docs.ray.io) cluster, on this machine or on many.

    If this process is connected to a cluster, that cluster is used. Needs `pip install "secant[sweep]"`.

    Attributes:
        address: address of a running cluster, such as `auto` or `host:6379`. By default a cluster starts on this
            machine and ends with the work.
        jobs: workers of a cluster that starts here; by default as many as the cores allow.
        cores: cores of each worker, which computes with as many threads.
        prepare: called in a worker before each task.
    """

    address: str | None = None
    jobs: int | None = None
    cores: int = 1
    prepare: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        _check_counts(jobs=self.jobs, cores=self.cores)
        if self.address is not None and self.jobs is not None:
            raise ValueError(
                f"jobs: a running cluster ({self.address!r}) has as many workers as its cores are enough for, "
                f"got {self.jobs}. Leave out jobs, or the address."
            )

    def each(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Results:
        """`(number, work(tasks[number]))`, as they end."""
        ray = _import_ray()
        died = []
        with self._connected(ray):
            remote = ray.remote(
                num_cpus=self.cores, max_retries=ATTEMPTS - 1, runtime_env={"env_vars": threads(self.cores) | memory()}
            )(_in_worker)
            waiting = {remote.remote(self.prepare, work, task): number for number, task in enumerate(tasks)}
            try:
                while waiting:
                    (ready,), _ = ray.wait(list(waiting), num_returns=1)
                    number = waiting.pop(ready)
                    try:
                        result = ray.get(ready)
                    except ray.exceptions.RayTaskError as error:
                        # Ray raises a class of its own, derived from its error and that of the work.
                        raise error.cause if isinstance(error.cause, Exception) else error from None
                    except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError):
                        died.append(number)
                    else:
                        yield number, result
            finally:
                for unfinished in waiting:
                    ray.cancel(unfinished, force=True)
        _raise_for(sorted(died), tasks)

    @contextlib.contextmanager
    def _connected(self, ray: Any) -> Iterator[None]:
        if ray.is_initialized():
            yield
            return
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics leave this machine
            jobs = self.jobs or max(1, cores() // self.cores)
            options |= {"num_cpus": jobs * self.cores, "include_dashboard": False}
        try:
            with warnings.catch_warnings():
                # JAX warns of forks, but the forks of Ray become other programs at once.
                warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
                ray.init(address=self.address or "local", **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = "start a cluster here" if self.address is None else f"reach a cluster at {self.address!r}"
            raise EngineError(
                f"ray: cannot {where}: {error} `ray start --head` starts one to connect to; without an address one "
                "is started on this machine."
            ) from error
        try:
            yield
        finally:
            ray.shutdown()


def threads(cores: int | None) -> dict[str, str]:
    """Environment variables with which XLA and BLAS compute with `cores` threads. A process reads them when it starts.

    More threads than cores are far slower, because the threads of BLAS wait for each other in a loop.
    """
    names = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {} if cores is None else dict.fromkeys(names, str(cores))


def memory() -> dict[str, str]:
    """Environment variables with which a process takes only the GPU memory that it needs, unless they are set already.

    By default the first process takes most of the memory and leaves nothing for the next.
    """
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    return {} if name in os.environ else {name: "false"}


def in_order(results: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """The results in the order of the tasks, each as soon as all earlier results are there."""
    early: dict[int, Any] = {}
    following = 0
    for number, result in results:
        early[number] = result
        while following in early:
            yield early.pop(following)
            following += 1


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """A block in which new processes inherit these variables."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """A block in which new processes ignore Ctrl-C. It goes to all processes, and this process ends the others."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # otherwise the first new process would start the tracker, which resets the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_process(prepare: Callable[[], None] | None, leash: Connection) -> None:
    def follow() -> None:
        leash.poll(None)  # until the other end is closed, or its process has ended
        os._exit(1)

    # Traces are trees of small objects, which reference counts free. Python's usual search for cycles, after every 700
    # objects, would take a twentieth of the time.
    gc.set_threshold(200_000, 50, 1_000)
    # A process whose parent was killed would wait forever, and a process inside a task cannot be interrupted.
    threading.Thread(target=follow, daemon=True).start()
    if prepare is not None:
        prepare()
    atexit.register(_leave)


def _leave() -> None:
    """Ends the process at once. Freeing its objects one by one would take a second."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _in_worker(prepare: Callable[[], None] | None, work: Callable[[Any], Any], task: Any) -> Any:
    if prepare is not None:
        prepare()
    try:
        return work(task)
    finally:
        forget_programs()


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError('the engine Ray needs the package ray: pip install "secant[sweep]".') from error
    return ray


def _raise_for(died: Sequence[int], tasks: Sequence[Any]) -> None:
    if died:
        raise WorkerDiedError(died, tasks)


def _check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and (isinstance(count, bool) or not isinstance(count, numbers.Integral)):
            raise TypeError(f"{name}: must be a whole number, got {count!r}.")
        if count is not None and count < 1:
            raise ValueError(f"{name}: must be at least 1, got {count!r}.")
