"""Compiled code kept between commands."""

from __future__ import annotations

import os


def keep_compiled_code() -> None:
    """Keeps compiled loops between commands; without a writable home they are simply compiled again."""
    # Code that calls back to the host to raise cannot be kept: a flow that goes wrong turns into NaN instead, which
    # is recorded as divergence.
    os.environ.setdefault("EQX_ON_ERROR", "nan")
    import jax

    from secant.lab.runs.store import home

    compiled = home() / "compiled"
    try:
        compiled.mkdir(parents=True, exist_ok=True)
    except OSError:  # whoever has to write there will say so
        return
    jax.config.update("jax_compilation_cache_dir", str(compiled))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
