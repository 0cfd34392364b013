"""Kernels on disk: computed block by block, and taken up again where they were interrupted."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from secant.core.arguments import whole
from secant.core.files import replace
from secant.core.progress import Progress, resolve
from secant.kernels.infinite_width import Only, kernel
from secant.nets.activations import Nonlinearity
from secant.nets.network import Network


def stored_kernel(
    net: Network, x: Any, path: str | Path, *, only: Only = "ntk", block: int = 256, progress: Progress | None = None
) -> np.memmap:
    r"""The kernel among many samples, in a file, for matrices that are larger than memory or take long.

    A block that is done stays done: another call with the same network and samples computes only what is missing.

    Args:
        net: the network.
        x: samples, shape `(n, ...)`.
        path: a folder; made if there is none.
        only: which kernel.
        block: samples to a side of a block. One block at a time is computed and written.
        progress: what shows how far it is; by default what shows all long work.

    Returns:
        The matrix, shape `(n, n)`, mapped from its file and read-only.
    """
    block = whole("stored_kernel", "block", block)
    if only not in ("nngp", "ntk"):
        raise ValueError(f"stored_kernel: `only` must be 'nngp' or 'ntk', got {only!r}.")
    x = np.asarray(x)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    count = math.ceil(len(x) / block)
    header = {"of": _digest(net, x, only), "shape": [len(x)] * 2, "dtype": str(x.dtype), "block": block}
    matrix, done = _opened(folder, header, count)
    missing = [(i, j) for i in range(count) for j in range(i, count) if not done[i, j]]
    shown, total = resolve(progress), count * (count + 1) // 2
    shown.start("kernel", total)
    try:
        for number, (i, j) in enumerate(missing):
            rows, columns = (slice(k * block, (k + 1) * block) for k in (i, j))
            # The last block is filled up, so that all have one shape and are compiled once.
            sides = [jnp.asarray(_filled(x[part], block)) for part in (rows, columns)]
            found = kernel(net, sides[0], None if i == j else sides[1], only=only)
            values = np.asarray(getattr(found, only))[: len(x[rows]), : len(x[columns])]
            matrix[rows, columns] = values
            matrix[columns, rows] = values.T
            matrix.flush()
            done[i, j] = 1  # only when the numbers are on disk
            done.flush()
            shown.update(total - len(missing) + number + 1, "")
    finally:
        shown.close()
    return np.load(folder / "kernel.npy", mmap_mode="r")


def _opened(folder: Path, header: dict[str, Any], count: int) -> tuple[np.memmap, np.memmap]:
    """The matrix and which of its blocks are done, new or as they were left."""
    about = folder / "about.json"
    if about.exists():
        try:
            found = json.loads(about.read_text())
        except ValueError as error:
            raise ValueError(
                f"stored_kernel: {about} cannot be read ({error}). Remove {folder} to start again."
            ) from None
        if found != header:
            raise ValueError(
                f"stored_kernel: {folder} holds the kernel of another network or other samples: {found}, not {header}. "
                "Use another folder."
            )
        return np.load(folder / "kernel.npy", mmap_mode="r+"), np.load(folder / "done.npy", mmap_mode="r+")
    matrix = np.lib.format.open_memmap(
        folder / "kernel.npy", "w+", dtype=np.dtype(header["dtype"]), shape=tuple(header["shape"])
    )
    done = np.lib.format.open_memmap(folder / "done.npy", "w+", dtype=np.uint8, shape=(count, count))
    matrix.flush()
    done.flush()
    # Last of all: a folder with this file is whole.
    replace(about, json.dumps(header).encode())
    return matrix, done


def _digest(net: Network, x: np.ndarray, only: str) -> str:
    """A digest of the records of all layers and of every number of the samples; the same in all processes."""
    text = json.dumps([_described(net), only, x.shape, str(x.dtype)])
    return hashlib.sha256(text.encode() + np.ascontiguousarray(x).tobytes()).hexdigest()


def _described(thing: Any) -> Any:
    """A network, a record or a choice in one, in plain words."""
    if isinstance(thing, Network):
        return [_described(thing.layer), [_described(part) for part in thing.parts]]
    if isinstance(thing, Nonlinearity):
        return [thing.name, *thing.parameters]
    if dataclasses.is_dataclass(thing):
        fields = {field.name: _described(getattr(thing, field.name)) for field in dataclasses.fields(thing)}
        return [type(thing).__name__, fields]
    if callable(thing):
        code = getattr(thing, "__code__", None)
        return [getattr(thing, "__qualname__", ""), "" if code is None else code.co_code.hex() + repr(code.co_consts)]
    return thing if isinstance(thing, str | int | float | bool | None) else repr(thing)


def _filled(x: np.ndarray, block: int) -> np.ndarray:
    return np.concatenate([x, np.broadcast_to(x[:1], (block - len(x), *x.shape[1:]))])


__all__ = ["stored_kernel"]
