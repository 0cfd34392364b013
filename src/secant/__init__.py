"""Deep-learning theory you can run.

Secant predicts how a neural network will train, measures how it really trains, and lays the two side by side: at
finite step size, finite width and finite depth.

Names are imported when they are first used, so that `import secant` costs no more than the part of it in use.
"""

from __future__ import annotations

import importlib
from typing import Any

from secant import rooms
from secant._version import __version__ as __version__

__all__ = sorted({*rooms.ENTERED, *rooms.HOME_OF})


def __getattr__(name: str) -> Any:
    if name in rooms.ENTERED:
        return importlib.import_module(f"secant.{name}")
    if name in rooms.HOME_OF:
        return getattr(importlib.import_module(rooms.HOME_OF[name]), name)
    raise AttributeError(f"module 'secant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
