r"""Brackets of a chosen size: `\big(`, `\Bigl[`, `\bigg\|`, `\Biggr\rangle` and the like.

The translator knows only some of them, and forgets which is the left one. So each is one private character while the
formula is translated, and becomes a bracket of its size afterwards.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

_FIRST = 0xE000
_SIZES = {"big": 1.2, "Big": 1.8, "bigg": 2.4, "Bigg": 3.0}
_SIDES = ("", "l", "m", "r")
_SIGNS = {
    "(": "(",
    ")": ")",
    "[": "[",
    "]": "]",
    r"\{": "{",
    r"\}": "}",
    r"\lbrace": "{",
    r"\rbrace": "}",
    "|": "|",
    r"\|": "\u2016",
    r"\vert": "|",
    r"\Vert": "\u2016",
    r"\lvert": "|",
    r"\rvert": "|",
    r"\lVert": "\u2016",
    r"\rVert": "\u2016",
    r"\langle": "\u27e8",
    r"\rangle": "\u27e9",
    "<": "\u27e8",
    ">": "\u27e9",
    r"\lfloor": "\u230a",
    r"\rfloor": "\u230b",
    r"\lceil": "\u2308",
    r"\rceil": "\u2309",
    "/": "/",
    ".": "",
}
_CHARACTERS = sorted(set(_SIGNS.values()))
_SIZED = re.compile(r"\\(?P<size>[bB]igg?)(?P<side>[lmr]?)(?![A-Za-z])\s*(?P<sign>\\[A-Za-z]+|\\[{}|]|[()\[\]|/<>.])")
_PRIVATE = re.compile("[\ue000-\uf8ff]")


def hidden(latex: str) -> str:
    """The formula with each bracket of a chosen size as one private character."""
    latex = _PRIVATE.sub("\ufffd", latex)  # of a reader's own private characters none may become a bracket
    return _SIZED.sub(lambda match: _private(match) if match["sign"] in _SIGNS else match[0], latex)


def _private(match: re.Match[str]) -> str:
    sign = _CHARACTERS.index(_SIGNS[match["sign"]])
    place = (list(_SIZES).index(match["size"]) * len(_SIDES) + _SIDES.index(match["side"])) * len(_CHARACTERS) + sign
    return chr(_FIRST + place)


def reveal(element: ET.Element) -> None:
    """Makes a private character the bracket that it stands for, alone in a row, or browsers would not stretch it."""
    if element.tag not in ("mi", "mo", "mtext") or not _PRIVATE.fullmatch(element.text or ""):
        return
    place, sign = divmod(ord(element.text or "") - _FIRST, len(_CHARACTERS))
    size, side = divmod(place, len(_SIDES))
    height = f"{list(_SIZES.values())[size]:g}em"
    bracket = ET.Element("mo", stretchy="true", symmetric="true", minsize=height, maxsize=height)
    bracket.text = _CHARACTERS[sign]
    form = {"l": "prefix", "m": "infix", "r": "postfix"}.get(_SIDES[side])
    if form:
        bracket.set("form", form)
    if form != "infix":
        bracket.set("lspace", "0")
        bracket.set("rspace", "0")
    element.clear()
    element.tag = "mrow"
    element.append(bracket)
