"""Numbers are shown short, and looks exist in pairs."""

import matplotlib
import pytest

from secant.look import COLOURS, number, theme


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (3.14159, "3.14"), (1e-5, "$10^{-5}$"), (2.34567e-7, r"$2.35\times10^{-7}$"), (-1e9, "$-10^{9}$")],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_both_looks_are_settings_of_matplotlib():
    assert set(COLOURS) == {"light", "dark"}
    for look in COLOURS:
        with matplotlib.rc_context(theme(look)):
            pass
