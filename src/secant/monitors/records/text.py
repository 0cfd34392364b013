"""Text from a record, made harmless for a terminal and a page: on one line, and without commands."""

from __future__ import annotations

import re
from typing import Any

_BLANKS = re.compile(r"\s+")
_COMMANDS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"  # control characters, among them the escape that begins a terminal's commands
    "\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f"  # invisible, or turning the direction
    "\ud800-\udfff]"  # halves of characters, which cannot be written
)


def clean(text: str) -> str:
    r"""The text on one line, with a sign in the place of every character that is a command.

    Example:
        ```python
        from secant.monitors.records.text import clean

        print(clean("all \x1b[2Jis\nwell"))
        ```
        ```text
        all �[2Jis well
        ```
    """
    return _COMMANDS.sub("\ufffd", _BLANKS.sub(" ", text))


DEEPEST = 20
"""Facts about a run that lie deeper are left out."""


def cleaned(value: Any, depth: int = DEEPEST) -> Any:
    """Plain facts with every text and every key made clean."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict | list) and not depth:
        return "\u2026"
    if isinstance(value, dict):
        return {clean(key): cleaned(one, depth - 1) for key, one in value.items()}
    if isinstance(value, list):
        return [cleaned(one, depth - 1) for one in value]
    return value
