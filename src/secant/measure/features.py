"""The features that a run learns: the alignment of its average gradient outer product with a target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secant.dynamics.probes import Probe
from secant.features.agop import agop_of
from secant.features.alignment import alignment as matrix_alignment
from secant.optim.measurement import Measurement
from secant.optim.problem import Problem


def alignment(target: Any, *, every: int = 1) -> Measurement:
    r"""The cosine between the average gradient outer product over the training inputs and a target matrix.

    Args:
        target: shape `(d, d)`, such as `secant.data.TARGETS["rank-2"].egop(d)`, or the outer product of a better model.
        every: steps between two measurements.
    """
    given = np.asarray(target, float)
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(f"measure.alignment: `target` must be a matrix of shape (d, d), got shape {given.shape}.")
    if not np.isfinite(given).all() or not given.any():
        raise ValueError("measure.alignment: `target` must be finite and not zero; a zero matrix has no direction.")
    options = ("target", _Matrix(given.tobytes(), len(given))), ("every", every)
    return Measurement(_alignment, options, inputs=True)


class _Matrix(NamedTuple):
    """A matrix that can be compared and looked up."""

    content: bytes
    size: int


def _alignment(problem: Problem, target: _Matrix, every: int) -> Probe:
    matrix, found = np.frombuffer(target.content).reshape(target.size, target.size), agop_of(problem.f)
    if problem.x.ndim < 2 or problem.x[0].size != target.size:
        raise ValueError(
            f"measure.alignment: `target` has {target.size} features and the inputs have {problem.x[0].size}."
        )
    return Probe(lambda params: matrix_alignment(found(params, problem.x), matrix), every, label="alignment")
