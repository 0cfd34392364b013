"""Random networks of several widths at their start: all that the map of one sample needs to know of them."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float

from secant.setups.two_layer.models import starting_points


def random_starts(seed: int, widths: Sequence[int], seeds: int) -> dict[str, Float[np.ndarray, "networks"]]:
    r"""Networks of several widths on an input of size one: `output`, `curvature` and `width` of each.

    Args:
        seed: of the random numbers.
        widths: hidden neurons.
        seeds: networks of every width, which follow one another.
    """
    keys = jax.random.split(jax.random.key(seed), len(widths))
    starts = [starting_points(key, width, seeds) for key, width in zip(keys, widths, strict=True)]
    output, curvature = (np.concatenate(part) for part in zip(*starts, strict=True))
    return {"output": output, "curvature": curvature, "width": np.repeat(np.asarray(widths, float), seeds)}
