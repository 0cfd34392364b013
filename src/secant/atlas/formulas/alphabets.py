"""The mathematical alphabets of Unicode: bold, script, double-struck and the others.

Browsers ignore `mathvariant`, except on a single upright letter. So each letter is replaced by a character of its own.
"""

from __future__ import annotations

# The first code points: capital and small Latin letters, capital and small Greek letters, digits.
_STARTS = {
    "bold": {"A": 0x1D400, "a": 0x1D41A, "\u0391": 0x1D6A8, "\u03b1": 0x1D6C2, "0": 0x1D7CE},
    "bold-italic": {"A": 0x1D468, "a": 0x1D482, "\u0391": 0x1D71C, "\u03b1": 0x1D736, "0": 0x1D7CE},
    "sans-serif": {"A": 0x1D5A0, "a": 0x1D5BA, "0": 0x1D7E2},
    "monospace": {"A": 0x1D670, "a": 0x1D68A, "0": 0x1D7F6},
    "script": {"A": 0x1D49C, "a": 0x1D4B6},
    "fraktur": {"A": 0x1D504, "a": 0x1D51E},
    "double-struck": {"A": 0x1D538, "a": 0x1D552, "0": 0x1D7D8},
}
_LENGTHS = {"A": 26, "a": 26, "\u0391": 25, "\u03b1": 25, "0": 10}

# Letters that Unicode had before it had the alphabets.
_OLDER = {
    "script": dict(
        zip("BEFHILMRego", "\u212c\u2130\u2131\u210b\u2110\u2112\u2133\u211b\u212f\u210a\u2134", strict=True)
    ),
    "fraktur": dict(zip("CHIRZ", "\u212d\u210c\u2111\u211c\u2128", strict=True)),
    "double-struck": dict(zip("CHNPQRZ", "\u2102\u210d\u2115\u2119\u211a\u211d\u2124", strict=True)),
}

NAMES = frozenset(_STARTS)
"""The alphabets, by their names in MathML."""


def in_alphabet(text: str, name: str) -> str:
    r"""The text in an alphabet; what the alphabet lacks stays as it is.

    Example:
        ```python
        from secant.atlas.formulas.alphabets import in_alphabet

        assert in_alphabet("E", "double-struck") == "\U0001d53c" and in_alphabet("L", "script") == "\u2112"
        ```
    """
    return "".join(_OLDER.get(name, {}).get(letter) or _letter(letter, _STARTS[name]) for letter in text)


def _letter(letter: str, starts: dict[str, int]) -> str:
    for first, start in starts.items():
        offset = ord(letter) - ord(first)
        if 0 <= offset < _LENGTHS[first]:
            return chr(start + offset)
    return letter
