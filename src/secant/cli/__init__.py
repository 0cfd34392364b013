"""The command line `secant`."""

from __future__ import annotations

import contextlib
import os
import sys

from secant.cli import interrupts

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs one command, by default the one in this process's arguments; returns its exit status."""
    whole = interrupts.whole_process() if arguments is None else contextlib.nullcontext()
    try:
        with whole:
            with interrupts.leaving_at_once():  # importing the rest takes a second
                from secant.cli.entry import main as run
            status = run(arguments)
    except KeyboardInterrupt:
        print(interrupts.MESSAGE, file=sys.stderr)
        status = interrupts.STATUS
    if arguments is None and status == interrupts.STATUS:
        interrupts.flush()
        os._exit(status)  # a compiler may still work in its threads, and would crash in an orderly exit
    return status
