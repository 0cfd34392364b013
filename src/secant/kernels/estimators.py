"""Wide networks as estimators of scikit-learn: fitted by a solve, with nothing to tune but the network."""

from __future__ import annotations

import functools
from numbers import Real
from typing import Any, ClassVar

import jax
import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from secant.kernels.infinite_width import Only, kernel
from secant.kernels.predict import cholesky
from secant.nets import Network, Parametrization, mlp


@functools.cache
def _default() -> Network:
    rule = Parametrization("ntk", gain=2**0.5, bias_gain=0.1)
    return mlp([1024] * 3, activation="relu", bias=True, parametrization=rule)


def _filled(x: np.ndarray) -> jax.Array:
    """Samples, repeated from the first on up to a rounder number, so that not every number is compiled anew.

    Each is repeated as rarely as possible, because pairs that coincide are computed one by one.
    """
    coarse = 2 ** max(5, (len(x) - 1).bit_length() - 2)
    return jax.device_put(x[np.arange(-(-len(x) // coarse) * coarse) % len(x)])


class _Wide(BaseEstimator):
    """What regressors and the classifier share."""

    _kind: ClassVar[Only] = "ntk"
    _x: np.ndarray
    _factor: tuple[np.ndarray, bool]
    _coefficients: np.ndarray
    intercept_: np.ndarray
    center_: np.ndarray
    scale_: float

    def __init__(self, net: Network | None = None, *, ridge: float = 1e-3) -> None:
        self.net = net
        self.ridge = ridge

    def _kernel(self, x1: np.ndarray, x2: np.ndarray | None = None) -> np.ndarray:
        net = _default() if self.net is None else self.net
        found = kernel(net, _filled(x1), None if x2 is None else _filled(x2), only=self._kind)
        whole = np.asarray(found.ntk if self._kind == "ntk" else found.nngp)
        return whole[: len(x1), : len(x1 if x2 is None else x2)]

    def _learn(self, x: np.ndarray, y: np.ndarray) -> None:
        name = type(self).__name__
        if not isinstance(self.ridge, Real) or not np.isfinite(float(self.ridge)) or self.ridge < 0:
            raise ValueError(f"{name}: `ridge` must be a number of at least 0, got {self.ridge!r}.")
        self.center_, spread = x.mean(axis=0), x.std()
        self.scale_ = spread if spread > 0 else 1.0
        self._x = self._scaled(x)
        self.intercept_ = y.mean(axis=0)
        train = self._kernel(self._x)
        # A share of the kernel's own size, so that it means the same for all networks.
        self._factor = cholesky(name, train, float(self.ridge) * float(np.mean(np.diagonal(train))))
        self._coefficients = linalg.cho_solve(self._factor, y - self.intercept_)

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return (x - self.center_) / self.scale_

    def _outputs(self, x: np.ndarray, spread: bool = False) -> Any:
        x = self._scaled(x)
        between = self._kernel(x, self._x)
        mean = between @ self._coefficients + self.intercept_
        if not spread:
            return mean
        known = np.sum(linalg.solve_triangular(self._factor[0], between.T, trans="T") ** 2, axis=0)
        return mean, np.sqrt(np.maximum(np.diagonal(self._kernel(x)) - known, 0))


class NTKRegressor(MultiOutputMixin, RegressorMixin, _Wide):
    """Regression by an infinitely wide network, trained by gradient descent to the end.

    Inputs are centred and scaled by one number; targets are centred.

    Args:
        net: any network with a kernel; by default three hidden layers of ReLU.
        ridge: share of the kernel's mean diagonal that is added to it: the larger, the earlier training stops.

    Example:
        ```python
        import numpy as np
        from secant.kernels import NTKRegressor

        x = np.random.default_rng(0).normal(size=(80, 3))
        y = x[:, 0] * np.tanh(x[:, 1])
        print(NTKRegressor().fit(x[:60], y[:60]).score(x[60:], y[60:]) > 0.5)
        ```
        ```text
        True
        ```
    """

    def fit(self, X: Any, y: Any) -> Any:
        """Solves for the coefficients."""
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=(np.float64, np.float32))
        self._learn(X, np.asarray(y, X.dtype))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Outputs, of the shape of the targets."""
        check_is_fitted(self)
        return self._outputs(validate_data(self, X, reset=False, dtype=(np.float64, np.float32)))


class NNGPRegressor(NTKRegressor):
    """Regression by infinitely wide random networks given the targets: a Gaussian process.

    Args:
        net: any network with a kernel; by default three hidden layers of ReLU.
        ridge: variance of the noise, as a share of the kernel's mean diagonal.
    """

    _kind: ClassVar[Only] = "nngp"

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Means, and with `return_std` standard deviations of the outputs without noise, as a second array."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32))
        return self._outputs(X, spread=return_std)


class NTKClassifier(ClassifierMixin, _Wide):
    """Classification by an infinitely wide network: regression on the classes, and the largest output wins.

    Args:
        net: any network with a kernel; by default three hidden layers of ReLU.
        ridge: share of the kernel's mean diagonal that is added to it.
    """

    def fit(self, X: Any, y: Any) -> NTKClassifier:
        """Solves for the coefficients."""
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32))
        check_classification_targets(y)
        self._labels = LabelBinarizer(neg_label=-1).fit(y)
        self.classes_ = self._labels.classes_
        if len(self.classes_) < 2:
            raise ValueError(f"NTKClassifier: `y` must hold at least two classes, got one class: {self.classes_[0]!r}.")
        self._learn(X, self._labels.transform(y).astype(X.dtype))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs, one a class; for two classes one, which is positive for the second."""
        check_is_fitted(self)
        found = self._outputs(validate_data(self, X, reset=False, dtype=(np.float64, np.float32)))
        return found[:, 0] if found.shape[1] == 1 else found

    def predict(self, X: Any) -> np.ndarray:
        """Classes."""
        found = self.decision_function(X)
        return self.classes_[(found > 0).astype(int) if found.ndim == 1 else found.argmax(axis=1)]


__all__ = ["NNGPRegressor", "NTKClassifier", "NTKRegressor"]
