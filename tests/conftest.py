"""Fixtures every room uses."""

import jax
import pytest


@pytest.fixture(autouse=True)
def float64():
    """Tests compare identities to rounding, so they run in float64 unless they say otherwise."""
    with jax.enable_x64(True):
        yield
