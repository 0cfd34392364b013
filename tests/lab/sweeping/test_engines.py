"""Every task is done once and its result comes, whatever happens to the workers; so do the cells of a sweep."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import chores
import errands
import pytest

from secant.lab import EngineError, Here, Processes, Ray, Store, WorkerDiedError, sweep
from secant.lab.registry import lookup
from secant.lab.sweeping import engines
from secant.lab.sweeping.engines import in_order

ELSEWHERE = [pytest.param(Processes(2), id="processes"), pytest.param(Ray(), id="ray")]
ALL = [pytest.param(Here(), id="here"), *ELSEWHERE]


@pytest.fixture(autouse=True)
def connected(request):
    """The cluster, for the tests that need it."""
    if "ray" in request.node.name:
        request.getfixturevalue("cluster")


@pytest.mark.parametrize("engine", ALL)
def test_every_task_is_done(engine):
    assert dict(engine.each(errands.square, range(5))) == {n: n**2 for n in range(5)}
    assert list(engine.each(errands.square, [])) == []


@pytest.mark.parametrize("engine", ALL)
def test_an_exception_of_the_work_is_raised_as_itself(engine):
    with pytest.raises(ValueError, match="two") as raised:
        list(engine.each(errands.fail_at_two, range(4)))
    assert type(raised.value) is ValueError
    assert raised.value.args == ("two", 2)


@pytest.mark.parametrize("engine", ELSEWHERE)
def test_the_task_of_a_killed_worker_is_done_again(engine, tmp_path):
    tasks = [(tmp_path / "mark", number) for number in range(4)]
    assert dict(engine.each(errands.die_once, tasks)) == {n: n for n in range(4)}
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("engine", ELSEWHERE)
def test_a_task_that_always_kills_its_worker_is_named_after_the_others(engine, monkeypatch):
    monkeypatch.setattr(engines, "ATTEMPTS", 2)
    done = {}
    with pytest.raises(WorkerDiedError, match=r"each of 2 attempts at task 1 \(1\)") as raised:
        done.update(engine.each(errands.die_at_one, range(4)))
    assert raised.value.numbers == (1,)
    assert sorted(done) == [0, 2, 3]


@pytest.mark.parametrize("engine", [Processes(1, cores=1), Ray(cores=1)], ids=["processes", "ray"])
def test_a_worker_of_one_core_computes_with_one_thread(engine, monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    assert list(engine.each(errands.threads, [None])) == [(0, ["1", "1"])]
    assert "NPROC" not in os.environ


@pytest.mark.parametrize("engine", ELSEWHERE)
@pytest.mark.parametrize(("given", "expected"), [(None, "false"), ("true", "true")])
def test_a_worker_leaves_memory_of_the_device_to_the_others_unless_told_otherwise(engine, given, expected, monkeypatch):
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    monkeypatch.delenv(name, raising=False)
    if given is not None:
        monkeypatch.setenv(name, given)
    if given is not None and isinstance(engine, Ray):
        pytest.skip("the cluster was started before, with an environment of its own")
    assert list(engine.each(errands.preallocates, [None])) == [(0, expected)]
    assert os.environ.get(name) == given


@pytest.mark.parametrize("engine", ALL)
def test_closing_ends_the_work(engine, tmp_path):
    tasks = [tmp_path / str(number) for number in range(40)]
    results = engine.each(errands.leave_mark, tasks)
    next(results)
    results.close()
    time.sleep(0.5)
    done = len(list(tmp_path.iterdir()))
    assert done < len(tasks)
    time.sleep(0.5)
    assert len(list(tmp_path.iterdir())) == done


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


DRIVER = textwrap.dedent("""
    import sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    import errands
    from secant.lab import Processes

    if __name__ == "__main__":
        list(Processes(2).each(errands.write_pid_and_wait, [Path(p) for p in sys.argv[2:]]))
""")


def test_no_process_outlives_a_killed_parent(tmp_path, request):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    marks = [tmp_path / "a", tmp_path / "b"]
    parent = subprocess.Popen([sys.executable, script, request.path.parents[1], *marks])
    wait_until(lambda: all(mark.exists() and mark.read_text() for mark in marks))
    pids = [int(mark.read_text()) for mark in marks]
    assert not any(map(gone, pids))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_until(lambda: all(map(gone, pids)))


def test_an_interrupt_of_all_processes_ends_them_without_a_word_of_the_workers(tmp_path, request):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    for waits in (0.5, None):  # while they are still being started, and at work
        marks = [tmp_path / f"{waits} a", tmp_path / f"{waits} b"]
        command = [sys.executable, script, request.path.parents[1], *marks]
        parent = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        if waits is None:
            wait_until(lambda marks=marks: all(mark.exists() and mark.read_text() for mark in marks))
        else:
            wait_until(lambda parent=parent: len(children(parent.pid)) >= 3)  # two, and one that cleans up after them
            time.sleep(waits)
        begun = children(parent.pid)
        os.killpg(parent.pid, signal.SIGINT)
        said = parent.communicate(timeout=60)[1]
        assert said.count("Traceback") == 1, said  # the driver's own
        assert said.rstrip().endswith("KeyboardInterrupt")
        assert "SpawnProcess" not in said
        wait_until(lambda begun=begun: all(map(gone, begun)))


def children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        pytest.skip("this system does not say which processes a process has begun")


GUEST = textwrap.dedent("""
    import sys
    from secant.lab import Ray

    print(sorted(Ray(sys.argv[1]).each(abs, [1, -2])))
""")


def test_a_running_ray_cluster_is_joined_and_left_running(cluster):
    address = cluster.get_runtime_context().gcs_address
    guest = [sys.executable, "-c", GUEST, address]
    said = subprocess.run(guest, capture_output=True, text=True, timeout=120)
    assert said.stdout == "[(0, 1), (1, 2)]\n", said.stderr
    assert dict(Ray().each(errands.square, [3])) == {0: 9}


OVER = {"rate": (3.7, 3.9), "start": (0.2, 0.3)}


@pytest.fixture
def enlisted(monkeypatch):
    """The study of the workers, known to this process too."""
    monkeypatch.setattr(lookup, "_all", lambda: {chores.chaos.id: chores.chaos})
    return chores.chaos


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What one process finds."""
    return sweep(chores.chaos, OVER, store=Store(tmp_path_factory.mktemp("calm"))).data()


@pytest.mark.parametrize("kind", [functools.partial(Processes, 2), Ray], ids=["processes", "ray"])
def test_a_killed_worker_loses_nothing_and_changes_no_bit(enlisted, store, expected, tmp_path, kind):
    trap = tmp_path / "trap"
    trap.touch()
    found = sweep(enlisted, OVER, store=store, engine=kind(prepare=functools.partial(chores.enlist, trap)))
    assert not trap.exists(), "no worker died"
    assert found.data().identical(expected)


def test_what_ray_workers_compute_on_another_disk_comes_home(enlisted, store, expected, tmp_path):
    away = tmp_path / "away"
    engine = Ray(prepare=functools.partial(chores.enlist, None, away))
    found = sweep("demo/chaos", OVER, store=store, engine=engine)
    assert found.data().identical(expected)
    assert len(store.records()) == len(Store(away).records()) == 4
    shutil.rmtree(away)
    assert sweep("demo/chaos", OVER, store=store, engine=engine).data().identical(expected)
    assert not away.exists()


def test_workers_of_another_version_are_refused(enlisted, store, monkeypatch):
    monkeypatch.setattr("secant.lab.sweeping.sweeps.key", lambda *_: "0123456789abcdef")
    with pytest.raises(ValueError, match="this worker has another version of Secant"):
        sweep(enlisted, OVER, store=store, engine=Processes(1, prepare=chores.enlist))


@pytest.mark.parametrize("work", [abs, len])
def test_a_worker_forgets_its_programs_after_a_task_that_ends_or_breaks_down(work, monkeypatch):
    forgotten = []
    monkeypatch.setattr(engines, "forget_programs", lambda: forgotten.append(True))
    with contextlib.suppress(TypeError):
        engines._in_worker(None, work, -1)
    assert forgotten == [True]


def test_processes_forget_programs_from_their_first_task_on():
    assert list(Processes(1).each(errands.counts_programs, [None, None])) == [(0, False), (1, True)]


def test_results_are_put_in_order():
    assert list(in_order([(1, "b"), (2, "c"), (0, "a"), (3, "d")])) == ["a", "b", "c", "d"]


def test_ray_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'pip install "secant\[sweep\]"'):
        list(Ray().each(errands.square, [1]))


def test_a_cluster_that_is_not_there_is_said(monkeypatch):
    ray = pytest.importorskip("ray")

    def refuse(**_):
        raise ConnectionError("nobody answers.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(EngineError, match=r"cannot reach a cluster at 'far:6379': nobody answers\. `ray start --head`"):
        list(Ray("far:6379").each(errands.square, [1]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Processes(0), "jobs: must be at least 1, got 0"),
        (lambda: Processes(1, cores=0), "cores: must be at least 1, got 0"),
        (lambda: Ray(jobs=-1), "jobs: must be at least 1, got -1"),
        (lambda: Ray("auto", jobs=2), "jobs: a running cluster"),
    ],
)
def test_bad_counts_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_counts_are_whole_numbers():
    with pytest.raises(TypeError, match=r"jobs: must be a whole number, got 1\.5"):
        Processes(1.5)
    with pytest.raises(TypeError, match="cores: must be a whole number, got True"):
        Ray(cores=True)
