"""Where independent tasks are done: in this process, in several, or on a Ray cluster.

An engine takes one function and many tasks, and gives each result with the number of its task, as they end. Outside
this process, function, tasks and results must be picklable. A worker that dies takes nothing with it but its own
task, which is done again.
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
"""So often a task is begun before the death of its worker is taken to be its own fault."""

Results = Generator[tuple[int, Any], None, None]


class EngineError(RuntimeError):
    """An engine that cannot do its work."""


class WorkerDiedError(EngineError):
    """Tasks whose worker died every time.

    Attributes:
        numbers: their numbers.
    """

    def __init__(self, numbers: Sequence[int], tasks: Sequence[Any]) -> None:
        named = ", ".join(f"{number} ({reprlib.repr(tasks[number])})" for number in numbers[:3])
        more = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
        super().__init__(
            f"the worker died in each of {ATTEMPTS} attempts at task {named}{more}: killed, or out of memory."
        )
        self.numbers = tuple(numbers)


class Engine(Protocol):
    """Does tasks somewhere."""

    def each(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Results:
        """`(number, work(tasks[number]))` for every task, as they end.

        An exception of the work ends it all and is raised as itself; so does closing the generator. A task whose
        worker dies every time is a `WorkerDiedError`, raised once all the others are done.
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
    """Several new processes of this machine; none outlives the work, or the process that began it.

    Attributes:
        jobs: how many at once.
        prepare: called first in every one of them.
        cores: threads that each may compute with; by default as many as the machine has cores.
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
        # A pool of one process each: where a process dies, it is known with which task, and no other is lost.
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

    A cluster that this process is connected to already is used as it is. Needs `pip install "secant[sweep]"`.

    Attributes:
        address: of a running cluster, such as `auto` or `host:6379`; by default one is started on this machine, for
            as long as the work takes.
        jobs: workers of a cluster that is started here; by default as many as the cores are enough for.
        cores: of each worker, which computes with as many threads.
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
                        # What Ray raises is of a class of its own, made of its error and the work's.
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
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # what runs here is nobody else's business
            jobs = self.jobs or max(1, cores() // self.cores)
            options |= {"num_cpus": jobs * self.cores, "include_dashboard": False}
        try:
            with warnings.catch_warnings():
                # JAX warns of forks, and those of Ray become other programs at once.
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
    """The environment of a process in which XLA and BLAS compute with so many threads; read when they start.

    More threads than cores cost far more than they bring: those of BLAS wait for each other in a loop.
    """
    names = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {} if cores is None else dict.fromkeys(names, str(cores))


def memory() -> dict[str, str]:
    """The environment of a process that takes of a GPU's memory what it needs, unless it is said already.

    By default the first process takes most of it, and leaves nothing to the next.
    """
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    return {} if name in os.environ else {name: "false"}


def in_order(results: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """The results in the order of their tasks, each as soon as those before it are there."""
    early: dict[int, Any] = {}
    following = 0
    for number, result in results:
        early[number] = result
        while following in early:
            yield early.pop(following)
            following += 1


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """The block in which a process begun inherits these variables."""
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
    """The block in which a process begun will not hear Ctrl-C, which goes to all: this process ends the others."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # else the first process begun would start it, and that sets the mask back
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_process(prepare: Callable[[], None] | None, leash: Connection) -> None:
    def follow() -> None:
        leash.poll(None)  # until its other end is closed, or its holder is no more
        os._exit(1)

    # Traces are trees of small objects that reference counts free: to look for circles after every 700 of them, as is
    # usual, takes a twentieth of the time.
    gc.set_threshold(200_000, 50, 1_000)
    # A process whose parent was killed would wait for work forever, and one in a task cannot be called off.
    threading.Thread(target=follow, daemon=True).start()
    if prepare is not None:
        prepare()
    atexit.register(_leave)


def _leave() -> None:
    """Ends the process at once: all that it holds would be freed piece by piece, which takes a second."""
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
