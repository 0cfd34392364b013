"""Functions of arrays on tables whose axes go by name."""

import numpy as np
import xarray as xr

from secant.studies.shared.numerics.tables import on_tables
from secant.theory.catapult import one_sample as ct


def test_axes_of_the_same_name_are_the_same_axis():
    a = xr.DataArray([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], {"width": [10, 20]}, ("width", "start"))
    b = xr.DataArray([1.0, 2.0], {"width": [10, 20]}, ("width",))
    found = on_tables(ct.separatrix_factor, a, b)
    assert found.dims == ("width", "start")
    np.testing.assert_allclose(found, 1 + a * (a + b))


def test_other_axes_are_crossed_and_numbers_stay_numbers():
    a, v = xr.DataArray([0.1, 0.2], dims="start"), xr.DataArray([2.5, 3.0, 3.5], {"v": [0, 1, 2]}, ("v",))
    found = on_tables(ct.step, a, v, 0.3)
    assert isinstance(found, ct.Catapult)
    assert found.a.dims == found.v.dims == ("start", "v")
    for i, j in np.ndindex(2, 3):
        one = ct.step(float(a[i]), float(v[j]), 0.3)
        np.testing.assert_allclose([found.a[i, j], found.v[i, j]], [one.a, one.v])


def test_what_does_not_depend_on_an_axis_has_it_all_the_same():
    a = xr.DataArray([0.1, 0.2], dims="start")
    found = on_tables(lambda a, width: width, a, xr.DataArray([1.0, 2.0, 3.0], dims="width"))
    np.testing.assert_array_equal(found, [[1, 2, 3], [1, 2, 3]])
