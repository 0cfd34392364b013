"""Ctrl-C: one line and exit status 130, from the first import to the last flush."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

STATUS = 130
MESSAGE = "secant: interrupted; the same command goes on where it was."


@contextlib.contextmanager
def leaving_at_once() -> Iterator[None]:
    """A block in which there is nothing to put in order: an interrupt ends the process, and raises no exception.

    One that is raised in the middle of an import can get lost there, come out as another, or be told as a traceback
    of somebody else's code. Where interrupts are ignored or somebody else's business, they stay so.
    """
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def whole_process() -> Iterator[None]:
    """A block that is all the process does: what is left of it afterwards, or cannot be raised, ends it at once."""
    before = sys.unraisablehook

    def unraisable(what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            _leave()
        before(what)

    sys.unraisablehook = unraisable
    atexit.register(_ignore)  # what is registered first is called last
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _leave)


def _ignore() -> None:
    """From here on the interpreter takes itself apart, and its handlers with it: an interrupt would kill it."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(*_: object) -> NoReturn:
    # What runs are made of is on the disk, whole or not at all: there is nothing to lose.
    os.write(2, f"{MESSAGE}\n".encode())
    os._exit(STATUS)
