"""The command line."""

from __future__ import annotations

import contextlib
import os
import sys

from secant.cli import interrupts

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs one command, by default that of this process; returns its exit status."""
    whole = interrupts.whole_process() if arguments is None else contextlib.nullcontext()
    try:
        with whole:
            with interrupts.leaving_at_once():  # the rest is not light: it takes a second to import
                from secant.cli.entry import main as run
            status = run(arguments)
    except KeyboardInterrupt:
        print(interrupts.MESSAGE, file=sys.stderr)
        status = interrupts.STATUS
    if arguments is None and status == interrupts.STATUS:
        interrupts.flush()
        os._exit(status)  # a compiler may still be at work in its threads, and would crash in an orderly exit
    return status
