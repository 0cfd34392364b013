r"""Recursive feature machines: kernel machines that learn which directions matter.

A round has two steps (Radhakrishnan, Beaglehole, Pandit and Belkin, 2022). Ridge regression fits a Laplace kernel in a
metric $M$,
$$k_M(x, z) = \exp(-\|x - z\|_M/L), \qquad \|v\|_M^2 = v^\top Mv.$$
Then $M$ becomes the average gradient outer product of the fitted function. After a few rounds the kernel looks along
the directions in which the target changes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from secant.core.arguments import whole
from secant.core.device import available_bytes

MATRICES = 4
"""How many matrices of shape samples by samples are held at once."""

ROWS = 128
"""How many rows of these matrices are worked on at a time: this many fit into the cache."""


class Fit(NamedTuple):
    """A kernel machine in one metric: coefficients, kernel over distance in the lower triangle, leave-one-out error."""

    coefficients: np.ndarray
    pull: np.ndarray
    error: float


class _Machine(BaseEstimator):
    """The common part of regressor and classifier."""

    def __init__(
        self,
        *,
        bandwidth: float = 10.0,
        regularization: float = 1e-3,
        iterations: int = 5,
        diagonal: bool = False,
        keep: Literal["best", "last"] = "best",
    ) -> None:
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.iterations = iterations
        self.diagonal = diagonal
        self.keep = keep

    def _check(self, samples: int) -> None:
        for name, above in (("bandwidth", True), ("regularization", False)):
            value = getattr(self, name)
            number = float(value) if isinstance(value, Real) else np.nan
            if not np.isfinite(number) or number < 0 or (above and number == 0):
                least = "above" if above else "of at least"
                raise ValueError(f"{type(self).__name__}: `{name}` must be a number {least} 0, got {value!r}.")
        whole(type(self).__name__, "iterations", self.iterations, 0)
        if self.keep not in ("best", "last"):
            raise ValueError(f"{type(self).__name__}: `keep` must be 'best' or 'last', got {self.keep!r}.")
        needed, free = MATRICES * 8 * samples**2, available_bytes()
        if free is not None and needed > free:
            raise ValueError(
                f"{type(self).__name__}: {samples} samples need {needed / 2**30:.1f} GiB of kernels, and "
                f"{free / 2**30:.1f} are free. Fit on at most {int((free / MATRICES / 8) ** 0.5)} samples."
            )

    def _learn(self, x: np.ndarray, y: np.ndarray) -> None:
        """Alternates between coefficients and metric. `y` has one column for each output."""
        self._check(len(x))
        metric = np.eye(x.shape[1], dtype=x.dtype)
        self.intercept_ = y.mean(axis=0)
        centred = y - self.intercept_
        self.errors_: list[float] = []
        kernel, pull = np.empty((2, len(x), len(x)), x.dtype)  # memory for all rounds
        for round_ in range(self.iterations + 1):
            fit = self._fitted(x, centred, metric, kernel, pull)
            self.errors_.append(fit.error)
            if self.keep == "last" or fit.error <= min(self.errors_):
                self.metric_, self.coefficients_, self.best_iteration_ = metric, fit.coefficients, round_
            if round_ < self.iterations:
                found = self._outer_product(x, metric, fit)
                largest = np.diagonal(found).max()
                if not largest > 0:  # a constant function prefers no direction
                    break
                metric = found / largest
        self.x_ = x
        self.n_iter_ = len(self.errors_)

    def _fitted(self, x: np.ndarray, y: np.ndarray, metric: np.ndarray, kernel: np.ndarray, pull: np.ndarray) -> Fit:
        _kernel_and_pull(x, metric, self.bandwidth, kernel, pull)
        # The lower triangle by rows is the upper triangle by columns, the order in which LAPACK works in place.
        kernel.flat[:: len(x) + 1] += self.regularization
        factorise, invert = linalg.get_lapack_funcs(("potrf", "trtri"), (kernel,))
        upper, failed = factorise(kernel.T, lower=False, clean=True, overwrite_a=True)
        if failed:
            raise ValueError(
                f"{type(self).__name__}: the kernel of the samples is singular to rounding. Raise `regularization`, "
                f"here {self.regularization:g}."
            )
        coefficients = linalg.cho_solve((upper, False), y, check_finite=False)
        error = np.nan
        if self.keep == "best":
            # Without sample i its residual is a_i / (A^-1)_ii, so that no second fit is needed.
            inverse = invert(upper, lower=False, overwrite_c=True)[0]
            error = float(np.mean((coefficients / np.einsum("ij,ij->i", inverse, inverse)[:, None]) ** 2))
        return Fit(coefficients, pull, error)

    def _outer_product(self, x: np.ndarray, metric: np.ndarray, fit: Fit) -> np.ndarray:
        r"""$\frac1n\sum_{ic}g_{ic}g_{ic}^\top$, $g_{ic} = -\frac1LM\sum_ja_{jc}k_{ij}(x_i - x_j)/\|x_i - x_j\|_M$."""
        multiply = linalg.get_blas_funcs("symm", (fit.pull,))
        with_one = np.append(x, np.ones((len(x), 1), x.dtype), axis=1)
        total = np.zeros_like(metric)
        for column in fit.coefficients.T:
            pulled = multiply(1.0, fit.pull.T, column[:, None] * with_one, lower=False)
            gradient = _product(pulled[:, -1:] * x - pulled[:, :-1], metric)
            total += _product(gradient.T, gradient)
        total /= len(x) * self.bandwidth**2
        return np.diag(np.diag(total)) if self.diagonal else total

    def _evaluate(self, x: np.ndarray) -> np.ndarray:
        kernel = np.exp(-distances(x, self.x_, self.metric_) / self.bandwidth)
        return kernel @ self.coefficients_ + self.intercept_

    @property
    def feature_importances_(self) -> np.ndarray:
        """The diagonal of the metric, which sums to one: how much each input feature matters."""
        check_is_fitted(self)
        importances = np.diag(self.metric_)
        return importances / importances.sum()


class RFMRegressor(RegressorMixin, MultiOutputMixin, _Machine):
    r"""A recursive feature machine for regression, as a scikit-learn estimator.

    Args:
        bandwidth: $L$, the length over which the kernel falls; the largest entry of the metric is 1.
        regularization: the ridge, added to the kernel's diagonal of ones.
        iterations: how often the metric is learned anew; 0 is plain kernel ridge regression.
        diagonal: whether to learn only one scale for each feature.
        keep: `best`, the round with the smallest leave-one-out error, known in closed form; or `last`.

    Attributes:
        metric_: $M$, shape `(d, d)`: proportional to the average gradient outer product of the round before.
        errors_: leave-one-out error of every round; NaN with `keep="last"`, which does not need them.
        best_iteration_: the round that was kept.
        feature_importances_: the diagonal of the metric, which sums to one.

    Example:
        ```python
        import numpy as np
        from secant.features import RFMRegressor

        x = np.random.default_rng(0).normal(size=(500, 20))
        y = x[:, 0] * x[:, 1]
        machine = RFMRegressor().fit(x[:400], y[:400])
        print(machine.score(x[400:], y[400:]) > 0.9, sorted(np.argsort(machine.feature_importances_)[-2:].tolist()))
        ```
        ```text
        True [0, 1]
        ```
    """

    def fit(self, X: Any, y: Any) -> RFMRegressor:
        """Learns from inputs of shape `(n, d)` and targets of shape `(n,)` or `(n, outputs)`."""
        x, y = validate_data(
            self, X, y, dtype=(np.float64, np.float32), multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        self._flat = y.ndim == 1
        self._learn(x, y.reshape(len(y), -1).astype(x.dtype))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Values at inputs of shape `(n, d)`."""
        check_is_fitted(self)
        found = self._evaluate(validate_data(self, X, dtype=self.x_.dtype, reset=False))
        return found[:, 0] if self._flat else found


class RFMClassifier(ClassifierMixin, _Machine):
    """A recursive feature machine for classification: regression on a column of 0 and 1 for each class.

    It takes the options of [`RFMRegressor`][secant.features.RFMRegressor], and has its attributes and `classes_`.

    Example:
        ```python
        import secant as sc
        from secant.features import RFMClassifier

        task = sc.data.load("digits", samples=500, labels="index")
        machine = RFMClassifier().fit(*task.train)
        print(machine.score(*task.test) > 0.85)
        ```
        ```text
        True
        ```
    """

    def fit(self, X: Any, y: Any) -> RFMClassifier:
        """Learns from inputs of shape `(n, d)` and labels of shape `(n,)`."""
        x, y = validate_data(self, X, y, dtype=(np.float64, np.float32), ensure_min_samples=2)
        check_classification_targets(y)
        encoder = LabelBinarizer().fit(y)
        self.classes_ = encoder.classes_
        if len(self.classes_) < 2:
            raise ValueError("RFMClassifier: the labels have one class only. Give at least two.")
        self._learn(x, np.asarray(encoder.transform(y), x.dtype))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """One value for each class; for two classes a single value, positive for the second class."""
        check_is_fitted(self)
        found = self._evaluate(validate_data(self, X, dtype=self.x_.dtype, reset=False))
        return found[:, 0] - 0.5 if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> np.ndarray:
        """Labels for inputs of shape `(n, d)`."""
        found = self.decision_function(X)
        return self.classes_[(found > 0).astype(int) if found.ndim == 1 else found.argmax(axis=1)]


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """`a @ b` by SciPy's BLAS, which also factorises: the threads of NumPy's own BLAS would wait beside its threads."""
    multiply = linalg.get_blas_funcs("gemm", (a, b))
    if out is None:
        out = np.empty((len(a), b.shape[1]), a.dtype)
    return multiply(1.0, b.T, a.T, c=out.T, overwrite_c=True).T


def _kernel_and_pull(x: np.ndarray, metric: np.ndarray, bandwidth: float, kernel: np.ndarray, pull: np.ndarray) -> None:
    """Fills in the kernel, and kernel over distance with 0 on the diagonal; only the lower triangles are valid."""
    moved = _product(x, metric)
    norms, one = np.einsum("id,id->i", moved, x)[:, None], np.ones((len(x), 1), x.dtype)
    # One product gives the squares of distances, norms included.
    _product(np.hstack([-2 * moved, norms, one]), np.hstack([x, one, norms]).T, out=kernel)

    def fill(begin: int) -> None:
        end = min(begin + ROWS, len(x))
        rows, distance = kernel[begin:end, :end], pull[begin:end, :end]
        own = np.arange(end - begin), np.arange(begin, end)
        np.sqrt(np.maximum(rows, 0, out=rows), out=distance)
        # At distance zero the kernel has a kink. The sum of gradients leaves this pair out, as if it were far apart.
        distance[own] = np.inf
        together = None if distance.all() else distance == 0
        np.multiply(distance, -1 / bandwidth, out=rows)
        np.exp(rows, out=rows)
        if together is not None:
            distance[together] = np.inf
        np.divide(rows, distance, out=distance)
        rows[own] = 1

    with ThreadPoolExecutor() as pool:  # NumPy releases the interpreter's lock while it works
        list(pool.map(fill, range(0, len(x), ROWS)))


def distances(x: np.ndarray, z: np.ndarray, metric: np.ndarray) -> np.ndarray:
    r"""The distances $\|x_i - z_j\|_M$, shape `(n, m)`."""
    moved = x @ metric
    squares = np.einsum("id,id->i", moved, x)[:, None] + np.einsum("id,id->i", z @ metric, z)
    squares -= 2 * (moved @ z.T)
    return np.sqrt(np.maximum(squares, 0, out=squares), out=squares)
