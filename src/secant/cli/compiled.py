"""Keeps compiled code between commands."""

from __future__ import annotations

import os


def keep_compiled_code() -> None:
    """Keeps compiled loops between commands; without a writable home every command compiles them again."""
    # Code that calls back to the host to raise an error cannot be kept. A flow that goes wrong therefore turns into
    # NaN, which is recorded as divergence.
    os.environ.setdefault("EQX_ON_ERROR", "nan")
    import jax

    from secant.lab.runs.store import home

    compiled = home() / "compiled"
    try:
        compiled.mkdir(parents=True, exist_ok=True)
    except OSError:  # a command that has to write there reports the error
        return
    jax.config.update("jax_compilation_cache_dir", str(compiled))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
