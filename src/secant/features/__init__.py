"""Features: which input directions a function uses, and recursive feature machines that learn them."""

from typing import TYPE_CHECKING, Any

from secant.features.agop import agop, agop_of
from secant.features.alignment import alignment
from secant.features.surrogate import Surrogate, surrogate_agop

if TYPE_CHECKING:
    from secant.features.rfm import RFMClassifier, RFMRegressor

__all__ = ["RFMClassifier", "RFMRegressor", "Surrogate", "agop", "agop_of", "alignment", "surrogate_agop"]


def __getattr__(name: str) -> Any:
    if name in ("RFMClassifier", "RFMRegressor"):  # scikit-learn takes a second to import
        from secant.features import rfm

        return getattr(rfm, name)
    raise AttributeError(f"module 'secant.features' has no attribute {name!r}")
