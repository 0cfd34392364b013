"""Numbers as HTML: compact, with a true minus sign and powers of ten."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

MINUS = "\u2212"


def number(value: float | str | None, digits: int = 6) -> Markup:
    """A number to `digits` significant digits. Infinities and NaN may be given as text, as in `run.json`.

    Example:
        ```python
        from secant.atlas.numbers import number

        assert number(2.0000004) == "2" and number("inf") == "\u221e" and number(1e-12) == "10<sup>\u221212</sup>"
        ```
    """
    if value is None:
        return Markup("")
    number = float(value)
    if math.isnan(number):
        return Markup("not a number")
    if math.isinf(number):
        return Markup("\u221e" if number > 0 else MINUS + "\u221e")
    if number == 0:
        return Markup("0")
    mantissa, exponent = f"{number:.{digits - 1}e}".split("e")
    power = int(exponent)
    if -4 <= power < digits:
        return _signed(f"{number:.{max(digits - 1 - power, 0)}f}")
    return _times(mantissa, power)


def exact(value: Any) -> Markup:
    """A value of a configuration with all its digits. A long tuple shows its first values and its last one."""
    if isinstance(value, (list, tuple)):
        if len(value) > 8:
            head = Markup(", ").join([*map(exact, value[:4]), Markup("\u2026"), exact(value[-1])])
            return Markup("{} <small>({} values)</small>").format(head, len(value))
        return Markup(", ").join(map(exact, value))
    if isinstance(value, bool) or value is None:
        return Markup({True: "yes", False: "no", None: "none"}[value])
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1e15):
        value = int(value)
        return _signed(f"{value:_}".replace("_", "\u202f") if abs(value) >= 10_000 else str(value))
    if isinstance(value, float) and math.isfinite(value):
        mantissa, _, exponent = repr(value).partition("e")
        return _times(mantissa, int(exponent)) if exponent else _signed(mantissa)
    return Markup("{}").format(value)


def odds(risk: float | str) -> str:
    """An upper bound on how often something happens by chance, in words.

    Example:
        ```python
        from secant.atlas.numbers import odds

        assert odds(0.001) == "at most 1 in 1,000" and odds(0.0) == "never"
        ```
    """
    chance = float(risk)
    if chance <= 0:
        return "never"
    if chance > 0.5:
        return f"at most {chance:.0%}"
    one_in = math.floor(float(f"{1 / chance:.9g}"))  # 1/1e-9 is a hair below its round number
    return f"at most 1 in {one_in:,}"


def duration(seconds: float) -> str:
    """A duration in words, with two or three digits."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.5:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _times(mantissa: str, power: int) -> Markup:
    """Mantissa and power of ten."""
    exponent = str(power).replace("-", MINUS)
    trimmed = _trim(mantissa)
    if trimmed in ("1", "-1"):
        sign = MINUS if trimmed == "-1" else ""
        return Markup("{}10<sup>{}</sup>").format(sign, exponent)
    return Markup("{}\u00a0\u00d7\u00a010<sup>{}</sup>").format(_signed(trimmed), exponent)


def _signed(text: str) -> Markup:
    return Markup("{}").format(_trim(text).replace("-", MINUS))


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
