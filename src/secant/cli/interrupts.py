"""Ctrl-C prints one line and ends with exit status 130, from the first import to the last flush."""

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
"""Seconds that compiled code may take to return to Python, because only Python can raise an interrupt."""

_noticed = threading.Event()


@contextlib.contextmanager
def leaving_at_once() -> Iterator[None]:
    """A block that needs no cleaning up: an interrupt ends the process and raises no exception.

    An exception in the middle of an import can get lost, turn into another one, or appear as a traceback of foreign
    code. If interrupts are ignored, or other code handles them, that does not change.
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
    """A block that is the whole work of the process: an interrupt that it cannot raise, or a later one, ends it."""
    before = sys.unraisablehook

    def unraisable(what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            _leave()
        before(what)

    sys.unraisablehook = unraisable
    atexit.register(_ignore)  # the first function registered is the last one called
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
    """Flushes everything that was printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _raise(number: int, frame: FrameType | None) -> None:
    _noticed.set()
    signal.default_int_handler(number, frame)


def _watch() -> None:
    """Starts a thread that ends the process if compiled code still delays an interrupt after `PATIENCE` seconds."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def wait() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # if the main thread blocks it, this one must too
        while number := os.read(reader, 1):
            if number[0] == signal.SIGINT and not _noticed.wait(PATIENCE):
                _leave()

    threading.Thread(target=wait, daemon=True).start()


def _ignore() -> None:
    """Ignores interrupts from here on: the interpreter removes its handlers, and an interrupt would kill it."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(*_: object) -> NoReturn:
    # The files of a run are on the disk, whole or not at all, so nothing is lost.
    os.write(2, f"{MESSAGE}\n".encode())
    os._exit(STATUS)
