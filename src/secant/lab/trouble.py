"""Errors as users meet them: in one line, and with a traceback if the user asks for one."""

from __future__ import annotations

import os
import sys
import traceback

LONGEST = 1000
"""Characters of the longest line. The messages of a compiler can be much longer."""


def in_a_line(error: BaseException, of: str = "") -> str:
    """The kind of an error and its message, such as `ValueError: lr: must be above 0`.

    A message that begins with the name `of` loses this name, because the line already stands beside it.
    """
    said = " ".join(str(error).split()).removeprefix(f"{of}: ")
    line = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def trace(error: BaseException) -> None:
    """Prints the traceback to the error output if the environment variable SECANT_TRACEBACK is 1."""
    if os.environ.get("SECANT_TRACEBACK") == "1":
        traceback.print_exception(error, file=sys.stderr)
