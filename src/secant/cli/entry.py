"""`secant`: the commands, what they say when something is wrong, and their exit status.

0: done. 1: a finding failed, or the work could not be done. 2: the command line is wrong. 130: interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable

from secant._version import __version__
from secant.cli import commands, sweep, tour
from secant.cli.compiled import keep_compiled_code
from secant.lab.engines import EngineError
from secant.lab.names import closest
from secant.lab.registry import UnknownStudyError
from secant.lab.store import StoreError
from secant.lab.sweeps import SweepError

COMMANDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "list": (commands.list_studies, "every study: id, section, title, last verdict"),
    "show": (commands.show, "one study: its statement, its options, its last run"),
    "run": (commands.run, "run a study: findings, figure, saved run"),
    "sweep": (sweep.sweep, "run a study at every combination of some values of its options"),
    "verify": (commands.verify, "all findings, predicted against measured"),
    "atlas": (commands.atlas, "the web pages of all runs"),
    "runs": (commands.runs, "what the store holds"),
    "tour": (tour.tour, "a first look: a few studies, their findings, the pages"),
}


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
        return _complain(f"unknown command {name!r}.{closest(name, COMMANDS)} Commands: {', '.join(COMMANDS)}.", 2)
    warnings.showwarning = lambda message, *_, **__: print(f"secant: warning: {message}", file=sys.stderr)
    keep_compiled_code()
    try:
        return COMMANDS[name][0](rest)
    except commands.UsageError as error:
        return _complain(str(error), 2)
    except UnknownStudyError as error:
        return _complain(str(error.args[0]), 2)
    except (StoreError, SweepError, EngineError, MemoryError) as error:
        return _complain(str(error) or "out of memory.", 1)
    except KeyboardInterrupt:
        return _complain("interrupted; the same command goes on where it was.", 130)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _usage() -> None:
    print("usage: secant COMMAND ...\n\nDeep-learning theory you can run.\n")
    for name, (_, help) in COMMANDS.items():
        print(f"  {name:8} {help}")
    print("\n`secant COMMAND --help` tells more, and `secant run ID --help` shows the options of a study.")


def _complain(message: str, status: int) -> int:
    print(f"secant: {message}", file=sys.stderr)
    return status
