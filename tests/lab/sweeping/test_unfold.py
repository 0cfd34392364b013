"""Axes of combinations, unfolded by name."""

import numpy as np
import pytest
import xarray as xr

from secant.lab import unfold


def test_every_combination_finds_its_place_and_the_rest_stays():
    widths, seeds = (100, 10), range(3)
    table = xr.Dataset(
        {
            "loss": (("step", "network"), np.arange(12.0).reshape(2, 6), {"long_name": "loss"}),
            "time": ("step", [0.5, 1.5]),
            "name": ("network", [f"{m}-{s}" for m in widths for s in seeds]),
        },
        {"step": [0, 1], "network": range(6), "own": ("network", np.arange(6))},
    )
    found = unfold(table, "network", width=widths, seed=seeds)
    assert dict(found.sizes) == {"step": 2, "width": 2, "seed": 3}
    assert found.loss.dims == ("step", "width", "seed")
    assert found.loss.attrs == {"long_name": "loss"}
    assert "network" not in found.coords
    for m in widths:
        for s in seeds:
            assert found.name.sel(width=m, seed=s).item() == f"{m}-{s}"
            assert found.loss.sel(step=1, width=m, seed=s) == 6 + found.own.sel(width=m, seed=s)
    xr.testing.assert_identical(found.time, table.time)


def test_an_axis_of_another_length_is_named():
    with pytest.raises(ValueError, match="`network` has 5 places, the combinations are 2 x 3 = 6"):
        unfold(xr.Dataset({"loss": ("network", np.zeros(5))}), "network", width=(1, 2), seed=range(3))
    with pytest.raises(ValueError, match="`network` has None places"):
        unfold(xr.Dataset(), "network", width=(1, 2))
