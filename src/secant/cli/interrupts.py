"""Ctrl-C: one line and exit status 130, from the first import to the last flush."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

STATUS = 130
MESSAGE = "secant: interrupted; the same command goes on where it was."
PATIENCE = 3.0
"""Seconds that compiled code may take to come back to Python, which alone can raise an interrupt."""

_noticed = threading.Event()


@contextlib.contextmanager
def leaving_at_once() -> Iterator[None]:
    """A block in which there is nothing to put in order: an interrupt ends the process, and raises no exception.

    One that is raised in the middle of an import can get lost there, come out as another, or be told as a traceback
    of somebody else's code. Where interrupts are ignored or somebody else's business, they stay so.
    """
    before = signal.getsignal(signal.SIGINT)
    mine = threading.current_thread() is threading.main_thread()
    if not mine or before not in (signal.default_int_handler, _raise):
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def whole_process() -> Iterator[None]:
    """A block that is all the process does: an interrupt that cannot be raised in it, or comes after it, ends it."""
    before = sys.unraisablehook

    def unraisable(what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            _leave()
        before(what)

    sys.unraisablehook = unraisable
    atexit.register(_ignore)  # what is registered first is called last
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _raise)
        _watch()
    try:
        yield
    finally:
        flush()
        if signal.getsignal(signal.SIGINT) is _raise:
            signal.signal(signal.SIGINT, _leave)


def flush() -> None:
    """Everything that was printed, out."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _raise(number: int, frame: FrameType | None) -> None:
    _noticed.set()
    signal.default_int_handler(number, frame)


def _watch() -> None:
    """A thread that ends the process if compiled code is still in the way of an interrupt after `PATIENCE`."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def wait() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # where the main thread puts it off, so does this one
        while number := os.read(reader, 1):
            if number[0] == signal.SIGINT and not _noticed.wait(PATIENCE):
                _leave()

    threading.Thread(target=wait, daemon=True).start()


def _ignore() -> None:
    """From here on the interpreter takes itself apart, and its handlers with it: an interrupt would kill it."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(*_: object) -> NoReturn:
    # What runs are made of is on the disk, whole or not at all: there is nothing to lose.
    os.write(2, f"{MESSAGE}\n".encode())
    os._exit(STATUS)
