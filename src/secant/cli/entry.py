"""`secant`: the commands, their error messages, and their exit status.

* 0: the work is done.
* 1: a finding failed, or the work could not be done.
* 2: the command line is wrong, or a study refuses its configuration.
* 130: the command was interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable

from secant._version import __version__
from secant.cli import interrupts
from secant.cli.compiled import keep_compiled_code

COMMANDS = {
    "list": ("commands.list_studies", "every study: id, section, title, last verdict"),
    "show": ("commands.show", "one study: its statement, its options, its last run"),
    "run": ("commands.run", "run a study: findings, figure, saved run"),
    "sweep": ("sweep.sweep", "run a study at every combination of some values of its options"),
    "verify": ("commands.verify", "all findings, predicted against measured"),
    "watch": ("watch.watch", "a watched training run of your own, in the terminal"),
    "atlas": ("commands.atlas", "the web pages of all runs"),
    "runs": ("commands.runs", "every run in the store"),
    "doctor": ("doctor.doctor", "what is wrong with a watched training run, and its largest safe step"),
    "tour": ("tour.tour", "a first look: a few studies, their findings, the pages"),
}
"""Command -> where its code is, imported only when it is needed, and what it does."""

COMPUTING = ("run", "sweep", "verify")
"""Commands in which the user configures a study: a configuration that it refuses is a wrong command line."""

COMPILING = (*COMPUTING, "tour")
"""Commands that always need JAX."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        _usage()
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"secant {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        from secant.core.names import closest

        return _complain(f"unknown command {name!r}.{closest(name, COMMANDS)} Commands: {', '.join(COMMANDS)}.", 2)
    warnings.showwarning = lambda message, *_, **__: print(f"secant: warning: {message}", file=sys.stderr)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # takes only as much of a GPU's memory as needed
    # A sum is cut into as many parts as there are threads: with one thread, its bits do not depend on the cores.
    for variable in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    with interrupts.leaving_at_once():
        command = _command(name)
        if name in COMPILING:  # an exception in the middle of this import can crash its compiled parts
            importlib.import_module("jax")
    return _guarded(command, name, rest)


def _command(name: str) -> Callable[[list[str]], int]:
    module, _, function = COMMANDS[name][0].partition(".")
    return getattr(importlib.import_module(f"secant.cli.{module}"), function)


def _guarded(command: Callable[[list[str]], int], name: str, rest: list[str]) -> int:
    """The command's exit status; every error is printed in one line."""
    from secant.cli.options import UsageError
    from secant.lab import CorruptRunError, EngineError, StoreError, SweepError, UnknownStudyError
    from secant.lab.runs.store import HomeError
    from secant.lab.trouble import in_a_line, trace

    try:
        if name not in ("list", "show", "runs", "watch"):  # these four compile nothing
            keep_compiled_code()
        return command(rest)
    except UsageError as error:
        return _complain(str(error), 2)
    except UnknownStudyError as error:
        return _complain(str(error.args[0]), 2)
    except KeyboardInterrupt:
        print(interrupts.MESSAGE, file=sys.stderr)
        return interrupts.STATUS
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (StoreError, SweepError, EngineError) as error:
        trace(error)
        return _complain(str(error), 2 if isinstance(error, HomeError) else 1)
    except Exception as error:
        trace(error)
        what = rest[0] if name in ("run", "sweep") and rest else name  # these two name their study first
        refused = isinstance(error, (ValueError, TypeError)) and not isinstance(error, CorruptRunError)
        return _complain(f"{what}: {in_a_line(error, of=what)}", 2 if refused and name in COMPUTING else 1)


def _usage() -> None:
    print("usage: secant COMMAND ...\n\nDeep-learning theory you can run.\n")
    for name, (_, help) in COMMANDS.items():
        print(f"  {name:8} {help}")
    print("\n`secant COMMAND --help` tells more, and `secant run ID --help` shows the options of a study.")


def _complain(message: str, status: int) -> int:
    print(f"secant: {message}", file=sys.stderr)
    return status
