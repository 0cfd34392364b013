import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secant.atlas.numbers import duration, exact, number, odds


def value(html):
    """Reads a number back."""
    text = str(html).replace("\N{MINUS SIGN}", "-").replace("\N{NO-BREAK SPACE}", "").replace("</sup>", "")
    mantissa, _, exponent = text.partition("10<sup>")
    if not exponent:
        return float(text.replace("\N{NARROW NO-BREAK SPACE}", ""))
    mantissa = mantissa.replace("\N{MULTIPLICATION SIGN}", "")
    return float(f"{ {'': '1', '-': '-1'}.get(mantissa, mantissa) }e{exponent}")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_six_digits(x):
    assert math.isclose(value(number(x)), x, rel_tol=5.1e-6, abs_tol=1e-320)


@given(st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_setting_keeps_every_digit(x):
    assert value(exact(x)) == x


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (2.0, "2"),
        (1.9974812, "1.99748"),
        (-0.25, "−0.25"),
        (123456.7, "123457"),
        (1e-12, "10<sup>−12</sup>"),
        (-3.2e-9, "−3.2\u00a0×\u00a010<sup>−9</sup>"),
        ("inf", "∞"),
        ("-inf", "−∞"),
        ("nan", "not a number"),
        (None, ""),
    ],
)
def test_numbers_are_short(given, shown):
    assert number(given) == shown


def test_settings_of_every_kind():
    assert exact(True) == "yes"
    assert exact((0.5, 1, 2.0)) == "0.5, 1, 2"
    assert exact(tuple(range(40))) == "0, 1, 2, 3, …, 39 <small>(40 values)</small>"
    assert exact("<b>") == "&lt;b&gt;"
    assert exact(20_000) == "20\u202f000"


def test_times_in_words():
    assert [duration(t) for t in (0.0123, 1.234, 45.4, 99.7, 4000)] == [
        "12 ms",
        "1.2 s",
        "45 s",
        "1 min 40 s",
        "1 h 6 min",
    ]


@pytest.mark.parametrize(
    ("risk", "text"),
    [
        (0.001, "at most 1 in 1,000"),
        (0.0027, "at most 1 in 370"),
        (1e-9, "at most 1 in 1,000,000,000"),
        (0.0, "never"),
        (0.5, "at most 1 in 2"),
        (0.75, "at most 75%"),
    ],
)
def test_odds_are_told_as_one_in_so_many(risk, text):
    assert odds(risk) == text
