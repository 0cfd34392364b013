"""Types that have one meaning everywhere."""

from __future__ import annotations

from typing import Any

Params = Any
"""Any pytree of real floating-point arrays."""
