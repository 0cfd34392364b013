"""Checkpoints: a killed run continues where it was, and ends with the same bits."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.files import replacing


class Checkpoint:
    """The saved part of one run, in one directory.

    Each save appends its records as one numbered file. It replaces `state.npz` last, which states how many record files
    count. A kill at any moment therefore leaves either the old or the new checkpoint. Every file carries its own
    checksum (zip). If a file cannot be read back, a warning names the directory and the run begins again.
    """

    def __init__(self, directory: Path, identify: Callable[[], str]) -> None:
        self.directory = Path(directory)
        self._identify = identify
        self.parts = 0

    @functools.cached_property
    def fingerprint(self) -> str:
        """The digest of the run that this checkpoint belongs to, computed when it is first needed."""
        return self._identify()

    def load(self, like: Any) -> tuple[int, Any, dict[str, list[np.ndarray]]] | None:
        """The block reached, the carry and the records so far; None if there is no checkpoint to continue from."""
        path = self.directory / "state.npz"
        if not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
                header = json.loads(str(saved["header"]))
                if header["fingerprint"] != self.fingerprint:
                    raise CheckpointMismatchError(
                        f"checkpoint: {self.directory} belongs to another run (other system, start, steps or "
                        "probes). Use another directory, or delete this one to begin again."
                    )
                leaves = [saved[f"leaf{k}"] for k in range(header["leaves"])]
            records: dict[str, list[np.ndarray]] = {}
            for part in range(header["parts"]):
                with self._part(part).open("rb") as file, np.load(file, allow_pickle=False) as saved:
                    for name in saved.files:
                        records.setdefault(name, []).append(saved[name])
            restored = [_restore(*pair) for pair in zip(leaves, jax.tree.leaves(like), strict=True)]
            carry = jax.tree.unflatten(jax.tree.structure(like), restored)
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
            if isinstance(error, CheckpointMismatchError):
                raise
            warnings.warn(
                f"checkpoint: {self.directory} is damaged ({error}); the run begins again.",
                RuntimeWarning,
                stacklevel=3,
            )
            return None
        self.parts = header["parts"]
        return header["block"], carry, records

    def save(self, block: int, carry: Any, records: dict[str, np.ndarray]) -> None:
        """Adds `records` and moves the checkpoint on to `block`."""
        try:
            self._save(block, carry, records)
        except OSError as error:
            raise CheckpointWriteError(
                error.errno,
                f"checkpoint: cannot save in {self.directory}: {error.strerror}. What was saved before is untouched",
            ) from error

    def _save(self, block: int, carry: Any, records: dict[str, np.ndarray]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        _write_npz(self._part(self.parts), records)
        leaves = {f"leaf{k}": _plain(leaf) for k, leaf in enumerate(jax.tree.leaves(carry))}
        header = {
            "fingerprint": self.fingerprint,
            "block": block,
            "parts": self.parts + 1,
            "leaves": len(leaves),
        }
        _write_npz(self.directory / "state.npz", {"header": np.array(json.dumps(header)), **leaves})
        self.parts += 1

    def _part(self, number: int) -> Path:
        return self.directory / f"records-{number:06d}.npz"


class CheckpointMismatchError(ValueError):
    """A checkpoint directory that belongs to a different run."""


class CheckpointWriteError(OSError):
    """A checkpoint that cannot be written: no permission, or a full disk."""


def fingerprint(*parts: Any) -> str:
    """A digest of everything that determines a run: text, numbers, arrays, and pytrees of these."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(parts):
        if isinstance(leaf, str):
            digest.update(re.sub(r"0x[0-9a-f]+", "", leaf).encode())
        else:
            array = _plain(leaf)
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


_ambient: ContextVar[Iterator[Path] | None] = ContextVar("secant_checkpoints", default=None)


@contextlib.contextmanager
def resumable(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Every run inside this block saves itself below `directory`, in folders numbered in the order the runs start.

    Enter the block again with the same directory to continue: finished runs are read back, and the unfinished run goes
    on where it was.
    """
    token = _ambient.set(Path(directory) / f"{number:03d}" for number in itertools.count())
    try:
        yield
    finally:
        _ambient.reset(token)


def resolve(directory: str | os.PathLike[str] | None) -> Path | None:
    """The given directory, or else the next directory of the surrounding `resumable` block, or None."""
    folders = _ambient.get()
    if directory is not None:
        return Path(directory)
    return next(folders) if folders is not None else None


def _plain(leaf: Any) -> np.ndarray:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def _restore(array: np.ndarray, like: Any) -> Any:
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(like))
    return jnp.asarray(array, dtype=like.dtype)


def _write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
