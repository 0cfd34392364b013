"""The command as a process: how it starts, where it keeps things, what it says of errors, how it ends when asked to."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import types

import pytest

from secant import lab
from secant.cli import entry, present

ID = "quadreg/fig-1"
INTERRUPTED = "secant: interrupted; the same command goes on where it was.\n"


def process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "secant", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_package_is_the_command():
    assert process("--version").stdout.startswith("secant ")
    assert process("--help").stdout == process("help").stdout
    unknown = process("lst")
    assert unknown.returncode == 2
    assert "Did you mean 'list'" in unknown.stderr


PLACES = {
    "no such user": ("~nobody-at-all/x", "SECANT_HOME is '~nobody-at-all/x', and there is no home directory ~nobody"),
    "a file": ("{file}", "SECANT_HOME is '{file}', and {file} is not a directory"),
    "below a file": ("{file}/a/b", "SECANT_HOME is '{file}/a/b', and {file} is not a directory"),
    "too long a name": ("/" + "x" * 5000, "SECANT_HOME is '/xxx"),
}


@pytest.mark.parametrize(("place", "message"), PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("command", [("list",), ("runs",), ("run", ID, "--scale", "smoke"), ("tour",), ("show", ID)])
def test_a_home_that_cannot_be_one_is_said_in_a_line(secant, monkeypatch, tmp_path, place, message, command):
    monkeypatch.undo()  # with all that the command does first
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("SECANT_HOME", place.format(file=file))
    status, output, errors = secant(*command)
    assert status == 2
    assert not output
    assert errors.count("\n") == 1
    assert errors.startswith("secant: " + message.format(file=file))
    assert "Set SECANT_HOME to a directory that you can write to" in errors


def test_without_any_home_the_variable_is_named(secant, monkeypatch):
    monkeypatch.delenv("SECANT_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", "~nobody-at-all")
    assert secant("runs")[2].startswith("secant: XDG_DATA_HOME is '~nobody-at-all', and there is no home directory")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr("pathlib.Path.expanduser", lambda self: (_ for _ in ()).throw(RuntimeError))
    status, _, errors = secant("runs")
    assert status == 2
    assert errors.startswith("secant: SECANT_HOME is not set, and there is no home directory ~. Set SECANT_HOME to")


def test_a_home_that_cannot_be_written_is_said_in_a_line_and_can_be_read(secant, monkeypatch):
    monkeypatch.setenv("SECANT_HOME", "/proc/secant")  # where not even the superuser can make a directory
    status, _, errors = secant("run", ID, "--scale", "smoke", "--json")
    assert status == 2
    assert errors.count("\n") == 1
    assert re.match(r"secant: cannot lock the run in /proc/secant: .* set SECANT_HOME to another directory", errors)
    assert secant("list")[0] == 0


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (ValueError("too small"), 2, f"secant: {ID}: ValueError: too small\n"),
        (TypeError("no number"), 2, f"secant: {ID}: TypeError: no number\n"),
        (RuntimeError("out of\n\n  order"), 1, f"secant: {ID}: RuntimeError: out of order\n"),
        (KeyError("gone"), 1, f"secant: {ID}: KeyError: 'gone'\n"),
        (MemoryError(), 1, f"secant: {ID}: MemoryError\n"),
        (
            OSError(2, "nothing there", "a.csv"),
            1,
            f"secant: {ID}: FileNotFoundError: [Errno 2] nothing there: 'a.csv'\n",
        ),
        (lab.CorruptRunError("bad"), 1, f"secant: {ID}: CorruptRunError: bad\n"),
        (ValueError(f"{ID}: rank: too small"), 2, f"secant: {ID}: ValueError: rank: too small\n"),
        (RecursionError("deep"), 1, f"secant: {ID}: RecursionError: deep\n"),
    ],
)
def test_what_a_study_raises_is_one_line(secant, monkeypatch, error, status, line):
    def broken(config):
        raise error

    monkeypatch.setattr(lab.get(ID), "compute", broken)
    found = secant("run", ID, "--scale", "smoke", "--json")
    assert found == (status, "", line)
    monkeypatch.setenv("SECANT_TRACEBACK", "1")
    status_too, _, errors = secant("run", ID, "--scale", "smoke", "--json")
    assert status_too == status
    assert errors.startswith("Traceback (most recent call last):")
    assert "in broken" in errors
    assert errors.endswith(line)


def test_a_long_error_is_cut(secant, monkeypatch):
    def broken(config):
        raise RuntimeError("much " * 10_000)

    monkeypatch.setattr(lab.get(ID), "compute", broken)
    _, _, errors = secant("run", ID, "--scale", "smoke", "--json")
    assert len(errors) < 1200
    assert errors.endswith(" ...\n")


@pytest.mark.parametrize("command", [("verify", ID, "--jobs", "1"), ("sweep", ID, "--over", "epsilon=0.05")])
def test_where_other_studies_go_on_an_error_is_one_line_too(secant, monkeypatch, command):
    def broken(config):
        raise ValueError("out of\norder")

    monkeypatch.setattr(lab.get(ID), "compute", broken)
    status, output, errors = secant(*command, "--scale", "smoke")
    assert status == 1
    assert "ValueError: out of order" in output + errors
    assert "Traceback" not in errors
    monkeypatch.setenv("SECANT_TRACEBACK", "1")
    errors = secant(*command, "--scale", "smoke")[2]
    assert "Traceback (most recent call last):" in errors
    assert "in broken" in errors


def test_a_command_that_breaks_down_says_which(secant, monkeypatch):
    def broken(self):
        raise LookupError("nothing\nthere")

    monkeypatch.setattr(lab.Store, "records", broken)
    for name in ("runs", "list"):
        assert secant(name) == (1, "", f"secant: {name}: LookupError: nothing there\n")


def test_the_device_is_named_where_something_is_computed(secant, monkeypatch):
    monkeypatch.setenv("NPROC", "3")
    run = ("run", ID, "--scale", "smoke", "--no-figure")
    sweep = ("sweep", ID, "--scale", "smoke", "--over", "epsilon=0.05")
    for command in (run, sweep, ("verify", ID, "--jobs", "1")):
        assert re.match(r"secant: computing on (cpu \(3 cores\)|gpu \(.+\))\n", secant(*command)[2]), command
        assert secant(*command, "--json")[2] == ""
    for command in (("list",), ("show", ID), ("runs",)):
        assert secant(*command)[2] == ""


def test_a_gpu_is_named_by_its_kind(monkeypatch, capfd):
    card = types.SimpleNamespace(platform="gpu", device_kind="NVIDIA H200")
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    for count, said in ((1, "gpu (NVIDIA H200)"), (8, "gpu (NVIDIA H200, one of 8)")):
        monkeypatch.setattr("jax.devices", lambda count=count: [card] * count)
        present.device(quiet=False)
        assert capfd.readouterr().err == f"secant: computing on {said}\n"


LIGHT = textwrap.dedent("""
    import os, sys
    from secant.cli import main

    def call(*arguments):
        try:
            main(list(arguments))
        except SystemExit:
            pass

    for arguments in (["--help"], ["list"]):
        call(*arguments)
        heavy = {"jax", "scipy"} & set(sys.modules)
        assert not heavy, (arguments, heavy)
    for arguments in (["verify", "--help"], ["run", sys.argv[1], "--help"], ["show", sys.argv[1]]):
        call(*arguments)
        bridge = sys.modules.get("jax._src.xla_bridge")
        assert bridge is None or not bridge._backends, arguments
    assert bridge is not None
    from secant.cli.commands import VerifyOptions
    from secant.core.cores import cores
    assert VerifyOptions.jobs == min(cores(), 4) and os.environ["NPROC"] == "1"  # processes of one thread each
""")


def test_help_and_the_list_import_nothing_heavy_and_what_computes_nothing_starts_no_device(tmp_path):
    environment = os.environ | {"SECANT_HOME": str(tmp_path)}
    environment.pop("NPROC", None)
    subprocess.run([sys.executable, "-c", LIGHT, ID], env=environment, check=True, stdout=subprocess.DEVNULL)


def test_the_memory_of_a_device_is_not_taken_at_once(secant, monkeypatch):
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    monkeypatch.setenv(name, "true")
    secant("runs")
    assert os.environ[name] == "true"
    monkeypatch.delenv(name)
    secant("runs")
    assert os.environ[name] == "false"


READY = textwrap.dedent("""
    import contextlib, sys
    from secant.cli import interrupts, main

    @contextlib.contextmanager
    def announced(begin=interrupts.leaving_at_once):
        with begin():
            print("ready", flush=True)
            yield

    interrupts.leaving_at_once = announced
    sys.exit(main())
""")


DELAYS = [0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]


@pytest.mark.parametrize(
    ("command", "delay"),
    [(("list",), delay) for delay in DELAYS[:-2]] + [(("run", "thesis/fig-4.8"), delay) for delay in DELAYS],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
def test_an_interrupt_while_it_starts_is_one_line(command, delay, tmp_path):
    environment = os.environ | {"SECANT_HOME": str(tmp_path)}
    script = [sys.executable, "-c", READY, *command]
    child = subprocess.Popen(script, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(delay)
    child.send_signal(signal.SIGINT)
    try:
        _, said = child.communicate(timeout=120)
    finally:
        child.kill()
    lines = [line for line in said.splitlines(keepends=True) if not line.startswith("secant: computing on")]
    if command == ("list",) and child.returncode == 0:
        assert not lines  # it was done before
    else:
        assert (child.returncode, lines) == (130, [INTERRUPTED])


def test_an_interrupt_of_compiled_code_that_does_not_come_back_ends_the_process():
    code = textwrap.dedent("""
        import sys
        import jax
        from secant.cli import entry, main

        def work(arguments):
            loop = jax.jit(lambda x: jax.lax.fori_loop(0, 10**12, lambda i, x: 1 - x * x / 3, x))
            endless = loop.lower(0.5).compile()
            print("ready", flush=True)
            endless(0.5).block_until_ready()

        entry.main = work
        sys.argv = ["secant", "run"]
        sys.exit(main())
    """)
    environment = os.environ | {"JAX_ENABLE_X64": "1"}  # or so large a number is none
    child = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    try:
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (child.returncode, said) == (130, INTERRUPTED)


def test_an_interrupt_that_nothing_can_raise_ends_the_process():
    code = textwrap.dedent("""
        import signal, sys
        from secant.cli import entry, main

        class Late:
            def __del__(self):
                signal.raise_signal(signal.SIGINT)

        def work(arguments):
            late = Late()
            del late
            return 0

        entry.main = work
        sys.argv = ["secant", "list"]
        sys.exit(main())
    """)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (130, INTERRUPTED)


def test_interrupts_that_are_ignored_stay_so():
    code = textwrap.dedent("""
        import signal
        from secant.cli import main
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        main(["runs"])
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    """)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_every_command_can_be_imported():
    for name in entry.COMMANDS:
        assert callable(entry._command(name))
