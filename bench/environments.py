"""Peers in environments of their own: each is installed on first use, runs in its own process, and sends back JSON."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
HOME = HERE.parent / "build" / "bench"
OURS = "ours"
"""The environment this process runs in, for peers that are plain JAX."""

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "neural-tangents": (
        "neural-tangents==0.6.5",
        "jax==0.4.30",
        "jaxlib==0.4.30",
        "numpy==2.4.6",
        "scipy==1.17.1",
        "frozendict==2.4.7",
        "tf2jax==0.3.6",  # neural-tangents imports it, and it imports TensorFlow
        "tensorflow==2.21.0",
    ),
    # The newest JAX on which every implementation of neural-tangents works: on later ones its structured derivatives,
    # and its automatic choice among all, stop at names that JAX has removed.
    "neural-tangents-structured": (
        "neural-tangents==0.6.5",
        "jax==0.4.25",
        "jaxlib==0.4.25",
        "numpy==1.26.4",
        "scipy==1.12.0",
        "frozendict==2.4.7",
        "tf2jax==0.3.6",
        "tensorflow==2.21.0",
    ),
    "torch": (
        "torch==2.13.0",
        "torchvision==0.28.0",  # curvlinops asks for any; a later one would replace torch
        "numpy==2.4.6",
        "scipy==1.17.1",
        "PyHessian==0.1",
        "curvlinops-for-pytorch==3.0.1",
        "hessian-eigenthings==1.0.0a5",
    ),
    "convex": (
        "cvxpy==1.9.3",
        "clarabel==0.11.1",
        "scikit-learn==1.9.1",
        "PEPit==0.5.1",
        "numpy==2.4.6",
        "scipy==1.17.1",
    ),
    "backpack": ("torch==2.13.0", "backpack-for-pytorch==1.7.1", "numpy==2.4.6", "scipy==1.17.1"),
    "sde": ("jax==0.10.2", "jaxlib==0.10.2", "diffrax==0.7.2", "torch==2.13.0", "torchsde==0.2.6", "numpy==2.4.6"),
    "xrfm": ("torch==2.13.0", "xrfm==0.4.5", "numpy==2.4.6", "scikit-learn==1.9.1"),
    # What Secant itself needs to watch a loop in PyTorch, and no more.
    "monitor-torch": (
        "torch==2.13.0",
        "jax==0.10.2",
        "jaxlib==0.10.2",
        "jaxtyping==0.3.11",
        "matfree==0.6.3",
        "xarray==2026.9.0",
        "numpy==2.4.6",
        "scipy==1.17.1",
    ),
}


class PeerError(RuntimeError):
    """A peer that could not be installed, or that failed."""


@dataclass(frozen=True)
class Method:
    """One way in which a peer does the work.

    Attributes:
        seconds: one entry a repetition, warm-up excluded.
        values: what else it said: settings, eigenvalues, errors, products used.
    """

    seconds: list[float]
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def accurate(self) -> bool:
        """Whether it reached the accuracy that the row asks for; true where the row asks for none."""
        return bool(self.values.get("accurate", True))


@dataclass(frozen=True)
class Report:
    """What a peer script sent back.

    Attributes:
        methods: by name, those that worked.
        failed: by name, why the others did not.
        values: what belongs to the whole script, such as converged eigenvalues.
        versions: of Python and the packages that matter.
        arrays: large results.
    """

    methods: dict[str, Method]
    failed: dict[str, str]
    values: dict[str, Any]
    versions: dict[str, str]
    arrays: dict[str, np.ndarray]

    def best(self) -> tuple[str, Method]:
        """The fastest method that is accurate, by its median."""
        fit = {name: method for name, method in self.methods.items() if method.accurate}
        if not fit:
            raise PeerError(f"no method was accurate: {self.methods or self.failed}")
        name = min(fit, key=lambda name: fit[name].median)
        return name, fit[name]


def run(environment: str, script: str, arrays: Mapping[str, np.ndarray] | None = None, **options: Any) -> Report:
    """Runs `bench/peers/<script>.py` in `environment` (a key of `REQUIREMENTS`, or `OURS`).

    The script gets a folder with `inputs.npz` and `options.json`, and leaves `result.json` (and `arrays.npz`) there.
    Its progress goes to our standard error.
    """
    interpreter = python(environment)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "inputs.npz", **dict(arrays or {}))  # type: ignore[arg-type]
        (folder / "options.json").write_text(json.dumps(options))
        settings = {key: value for key, value in os.environ.items() if key != "PYTHONHOME"}
        settings |= {"PYTHONPATH": str(HERE / "peers"), "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
        command = [str(interpreter), str(HERE / "peers" / f"{script}.py"), name]
        code = subprocess.run(command, env=settings, stdout=sys.stderr).returncode
        if code != 0 or not (folder / "result.json").exists():
            raise PeerError(f"the peer {script} failed (exit status {code}); its own message is above")
        result = json.loads((folder / "result.json").read_text())
        results: dict[str, np.ndarray] = {}
        if (folder / "arrays.npz").exists():
            with np.load(folder / "arrays.npz", allow_pickle=False) as file:
                results = dict(file)
    methods = {name: Method(entry.pop("seconds"), entry) for name, entry in result["methods"].items()}
    return Report(methods, result["failed"], result["values"], result["versions"], results)


def python(environment: str) -> Path:
    """The interpreter of an environment, which is made and filled first where it is not there yet."""
    if environment == OURS:
        return Path(sys.executable)
    if environment not in REQUIREMENTS:
        raise ValueError(f"environment must be {OURS!r} or one of {list(REQUIREMENTS)}, got {environment!r}")
    folder = HOME / environment
    interpreter = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = "".join(f"{requirement}\n" for requirement in REQUIREMENTS[environment])
    stamp = folder / "requirements.stamp"  # written last: a folder without it is not whole
    if not (stamp.exists() and stamp.read_text() == wanted):
        _install(folder, interpreter, REQUIREMENTS[environment])
        stamp.write_text(wanted)
    return interpreter


def _install(folder: Path, interpreter: Path, requirements: tuple[str, ...]) -> None:
    print(f"installing {', '.join(requirements[:2])}, ... for the benchmark, once (a few minutes)", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.create(folder, with_pip=True)
        command = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line and not line.startswith("WARNING")]
            raise PeerError(
                f"the environment {folder.name!r} could not be installed under Python "
                f"{sys.version_info.major}.{sys.version_info.minor}:\n" + "\n".join(line[:300] for line in lines[-8:])
            )
    except BaseException:  # an interrupted one is removed too
        shutil.rmtree(folder, ignore_errors=True)
        raise
