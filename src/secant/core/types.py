"""Types that have one meaning everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from jaxtyping import ArrayLike

Params = Any
"""Any pytree of real floating-point arrays."""

# A static checker multiplies unions out: arithmetic on the five kinds of ArrayLike would take it minutes. The
# tests check the real type when a formula is called.
if TYPE_CHECKING:
    Real: TypeAlias = Any
else:
    Real: TypeAlias = ArrayLike
"""A scalar or an array of any shape; formulas broadcast over it."""
