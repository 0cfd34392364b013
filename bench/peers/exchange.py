"""How a peer script gets its problem and gives its results; needs NumPy only, and runs in every environment."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


class Exchange:
    """One run of a peer script.

    `script.py FOLDER` reads `inputs.npz` and `options.json` from the folder and writes `result.json` there;
    `script.py name=value ...` takes options alone and prints the result.
    """

    def __init__(self, packages: tuple[str, ...]) -> None:
        words = sys.argv[1:]
        self.folder = Path(words[0]) if len(words) == 1 and Path(words[0]).is_dir() else None
        self.arrays: dict[str, np.ndarray] = {}
        if self.folder is not None:
            with np.load(self.folder / "inputs.npz", allow_pickle=False) as file:
                self.arrays = dict(file)
            self.options: dict[str, Any] = json.loads((self.folder / "options.json").read_text())
        else:
            self.options = dict(word.split("=", 1) for word in words)
        self.versions = {"python": platform.python_version()}
        self.versions |= {package: importlib.metadata.version(package) for package in packages}
        self.methods: dict[str, dict[str, Any]] = {}
        self.failed: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        self.results: dict[str, np.ndarray] = {}

    def method(self, name: str, seconds: list[float], **values: Any) -> None:
        """Records one way of doing the work that worked."""
        self.methods[name] = {"seconds": seconds, **values}
        say(
            f"{name}: {sorted(seconds)[len(seconds) // 2]:.4f} s "
            + ", ".join(f"{k}={short(values[k])}" for k in values)
        )

    def fail(self, name: str, why: object) -> None:
        """Records one that did not."""
        self.failed[name] = str(why).strip().splitlines()[0][:300] if str(why).strip() else type(why).__name__
        say(f"{name}: failed: {self.failed[name]}")

    def close(self) -> None:
        """Hands everything back."""
        names = ("methods", "failed", "values", "versions")
        text = json.dumps({name: getattr(self, name) for name in names}, indent=1)
        if self.folder is None:
            print(text)
            return
        if self.results:
            np.savez(self.folder / "arrays.npz", **self.results)
        (self.folder / "result.json").write_text(text)


def timed(
    function: Callable[[int], Any],
    repetitions: int,
    warm: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[float], list[Any]]:
    """Seconds and results of `function(0)`, `function(1)`, ...; one untimed call comes first if `warm`."""
    if warm:
        function(0)
    seconds, results = [], []
    for repetition in range(repetitions):
        gc.collect()
        began = clock()
        results.append(function(repetition))
        seconds.append(clock() - began)
    return seconds, results


def say(text: str) -> None:
    """Progress, to standard error."""
    print(f"  {Path(sys.argv[0]).stem}: {text}", file=sys.stderr, flush=True)


def short(value: Any) -> str:
    """A value in a few characters."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return "[" + " ".join(short(entry) for entry in value[:4]) + (" ...]" if len(value) > 4 else "]")
    return str(value)
