r"""LaTeX to MathML that today's browsers set well.

`latex2mathml` translates the formula. Then this module repairs what MathML Core leaves to the author: unary signs, bars
that open and close, operator names and their spacing, limits below sums, accents, brackets of a chosen size, and
letters of other alphabets.
"""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from latex2mathml.converter import convert

from secant.atlas.formulas.alphabets import NAMES, in_alphabet
from secant.atlas.formulas.delimiters import hidden, reveal

_ACCENTS = {
    "^": "\u02c6",
    "~": "\u02dc",
    "\u02d9": "\u02d9",
    "\u00a8": "\u00a8",
    "\u00af": "\u00af",
    "\u2015": "\u00af",
}
_WIDE = {"^": "\u0302", "~": "\u0303"}
_SIGNS = frozenset("+\u2212-\u00b1\u2213")
_CLOSING = frozenset(")]}\u27e9\u230b\u2309!")
_OPENING = frozenset("([{\u27e8\u230a\u2308")
_BARS = frozenset("|\u2016")
_LARGE = frozenset("\u2211\u220f\u2210\u22c3\u22c2")
_LIMIT_NAMES = frozenset(("max", "min", "lim", "sup", "inf", "limsup", "liminf", "argmax", "argmin", "Pr", "det"))
_LETTERLIKE = frozenset("\u221e\u2207\u2202\u22a4\u22a5\u2205\u2200\u2203\u2032\u2033\u2026\u22ef\u22ee\u22f1")
_RELATIONS = frozenset(
    "=<>\u2264\u2265\u2248\u223c\u2243\u2261\u2260\u221d\u2208\u2192\u21a6\u21d2\u27f9\u27fa\u226a\u226b\u2272\u2273,;"
)
_PARTS = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2, "munderover": 3}
_FUNCTION_SPACE = "0.167em"

# What takes an argument, which may be a single letter or command without braces.
_FONTS = "mathbb|mathcal|mathscr|mathfrak|mathrm|mathbf|mathsf|mathtt|mathit|boldsymbol|bm"
_REWRITES = (
    (re.compile(rf"\\({_FONTS})(?:\s+([A-Za-z0-9])|\s*([0-9]|\\[A-Za-z]+))"), lambda m: rf"\{m[1]}{{{m[2] or m[3]}}}"),
    (re.compile(r"\\mathrm\s*\{([A-Za-z ]+)\}"), lambda m: rf"\text{{{m[1].replace(' ', '')}}}"),
    (re.compile(r"\\operatorname\*?\s*\{([^{}]*)\}"), lambda m: rf"\operatorname{{{m[1].replace(chr(92) + ',', '')}}}"),
    (re.compile(r"\\begin\{(?:aligned|align\*?|split)\}"), lambda m: r"\begin{array}{rl}"),
    (re.compile(r"\\end\{(?:aligned|align\*?|split)\}"), lambda m: r"\end{array}"),
)


class UntranslatableError(ValueError):
    """This LaTeX cannot be translated into MathML."""


def mathml(latex: str, *, display: bool = False) -> list[ET.Element]:
    r"""The formula as `math` elements. In a line of text a long formula has several, with possible breaks between.

    Args:
        latex: the formula, without its dollars.
        display: the formula stands on a line of its own.

    Raises:
        UntranslatableError: if the formula is empty, malformed or uses an unknown command.
    """
    source = hidden(latex.strip())
    for pattern, replacement in _REWRITES:
        source = pattern.sub(replacement, source)
    try:
        # The default namespace would turn every tag into {...}tag; in HTML it goes without saying.
        text = convert(source, display="block" if display else "inline").replace(
            ' xmlns="http://www.w3.org/1998/Math/MathML"', "", 1
        )
        root = ET.fromstring(text)
    except Exception as error:  # the translator has no common error class, and malformed input raises many
        raise UntranslatableError(f"cannot typeset {latex!r}: {type(error).__name__}") from error
    content = "".join(root.itertext())
    if not content.strip() or any(sign in content for sign in "\\&\u29f8"):
        raise UntranslatableError(f"cannot typeset {latex!r}: it has a command that is not known")
    if any(len(part) != _PARTS.get(part.tag, len(part)) for part in root.iter()):
        raise UntranslatableError(f"cannot typeset {latex!r}: a command lacks an argument")
    for element in list(root.iter()):
        reveal(element)
    for element in reversed(list(root.iter())):  # children before their parents
        _repair(element)
    root.set("alttext", latex.strip())
    return [root] if display else _pieces(root)


def _repair(element: ET.Element) -> None:
    _repair_leaf(element)
    children = list(element)
    limits = element.tag in ("munder", "mover", "munderover") and (children[0].text or "") in _LARGE | _LIMIT_NAMES
    if element.tag in ("msub", "msup", "msubsup") or limits:
        for script in children[1:]:
            _as_letter(script)
            _tighten(script)
        _limits(element)
    elif element.tag == "mover" and len(children) == 2 and (children[1].text or "") in _ACCENTS:
        _accent(element, children)
    elif element.tag == "mrow" and len(children) == 1:
        _as_letter(children[0])
    elif element.tag == "mtr":
        _align(children)
    if element.tag in ("mrow", "math", "mtd", "msqrt", "mstyle"):
        _row(children)


def _repair_leaf(element: ET.Element) -> None:
    text = element.text or ""
    variant = element.get("mathvariant")
    if variant in NAMES:
        del element.attrib["mathvariant"]
        if element.tag == "mtext":
            element.set("style", "font-weight: bold" if variant.startswith("bold") else "font-family: sans-serif")
        else:
            element.text = in_alphabet(text, variant)
    elif variant == "italic":
        del element.attrib["mathvariant"]  # single letters are italic by themselves
    if element.tag == "mi" and text == "~":  # the translator's "is distributed like"; a tilde over a letter is no `mi`
        element.text = text = "\u223c"
    if element.tag == "mspace" and "negative" in element.get("width", ""):
        element.set("width", "0")  # MathML Core has no negative spaces
    if element.tag == "mtd" and (align := element.attrib.pop("columnalign", None)):
        element.set("style", f"text-align: {align}")
    if element.tag == "mo" and text in _LETTERLIKE:
        element.tag = "mi"
        element.set("mathvariant", "normal")
    elif element.tag == "mi" and len(text) == 1 and not text.isalnum() and text not in _LETTERLIKE:
        element.tag = "mo"
        element.set("stretchy", "false")
    elif element.tag == "mi" and len(text) == 1 and "\u0391" <= text <= "\u03a9":
        element.set("mathvariant", "normal")  # capital Greek stands upright
    elif element.tag == "mi" and len(text) > 1 and text.isalpha() and text.isascii():
        element.tag = "mo"


def _as_letter(element: ET.Element) -> None:
    """An operator alone in a script or in braces takes no space around it."""
    if element.tag == "mo" and "stretchy" not in element.attrib and not (element.text or "").isalpha():
        element.tag = "mi"
        element.set("mathvariant", "normal")


def _tighten(script: ET.Element) -> None:
    """In scripts there is no space around signs and relations."""
    for part in script.iter("mo"):
        if not (part.text or "").isalpha():
            _space(part, "0", "0")


def _space(operator: ET.Element, before: str, after: str) -> None:
    operator.set("lspace", before)
    operator.set("rspace", after)


def _accent(element: ET.Element, children: list[ET.Element]) -> None:
    base, mark = children
    letters = len("".join(base.itertext()))
    if letters > 1 and mark.text == "\u2015":  # a line over several letters: no font has one of every length
        element.tag = "mrow"
        element.set("style", "border-top: 0.06em solid; padding-top: 0.12em")
        element.remove(mark)
        return
    element.set("accent", "true")
    if letters > 1 and mark.text in _WIDE and "stretchy" not in mark.attrib:
        mark.set("stretchy", "true")
        mark.text = _WIDE[mark.text]
    else:
        mark.set("stretchy", "false")
        mark.text = _ACCENTS[mark.text or ""]


def _align(cells: list[ET.Element]) -> None:
    """Aligned equations have no room between their two sides but that of the sign."""
    for left, right in itertools.pairwise(cells):
        if "right" in left.get("style", "") and "left" in right.get("style", ""):
            left.set("style", "text-align: right; padding-right: 0")
            right.set("style", "text-align: left; padding-left: 0")


def _limits(element: ET.Element) -> None:
    """Limits of sums and maxima stand below and above them in displays; the browser moves them beside in text."""
    base = element[0]
    if base.tag == "mo" and (base.text in _LARGE or base.text in _LIMIT_NAMES):
        element.tag = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}.get(element.tag, element.tag)
        base.set("movablelimits", "true")


def _row(children: list[ET.Element]) -> None:
    """Spacing that depends on the neighbours in a row."""
    open_bars: list[str] = []
    previous: ET.Element | None = None
    for position, child in enumerate(children):
        core = _core(child)
        text = core.text or "" if core is not None else ""
        following = children[position + 1] if position + 1 < len(children) else None
        if core is None or core.get("form") == "infix":
            pass
        elif text in _BARS:
            closing = bool(open_bars) and open_bars[-1] == text and not _expects_operand(previous)
            if "form" in core.attrib:  # a bar of a chosen size says itself which it is
                closing = core.get("form") == "postfix"
            elif core.get("stretchy") != "true":
                core.set("stretchy", "false")
            open_bars = open_bars[:-1] if closing else [*open_bars, text]
            core.set("form", "postfix" if closing else "prefix")
            _space(core, "0", "0")
        elif text == "/":
            _space(core, "0", "0")
        elif text in _SIGNS and _expects_operand(previous):
            core.set("form", "prefix")
            _space(core, "0", "0")
        elif text.isalpha() and text.isascii():
            before = "0" if _expects_operand(previous) else _FUNCTION_SPACE
            after = "0" if following is None or _opens(following) else _FUNCTION_SPACE
            _space(core, before, after)
        if child.tag != "mspace":
            previous = child


def _core(element: ET.Element) -> ET.Element | None:
    """The operator that decides the spacing of an element."""
    if element.tag == "mo":
        return element
    if element.tag == "mrow" and len(element) == 1 and "minsize" in element[0].attrib:  # a bracket of a chosen size
        return element[0]
    if element.tag in ("msub", "msup", "msubsup", "munder", "mover", "munderover") and len(element):
        return _core(element[0])
    return None


def _expects_operand(previous: ET.Element | None) -> bool:
    if previous is None:
        return True
    core = _core(previous)
    if core is None or core.text in _CLOSING or core.get("form") == "postfix":
        return False
    return not (core.text or "").isalpha()


def _opens(element: ET.Element) -> bool:
    first = next((part for part in element.iter() if part.text), None)
    return element.tag != "mfrac" and first is not None and first.tag == "mo" and first.text in _OPENING


def _pieces(root: ET.Element, longest: int = 14) -> list[ET.Element]:
    """Breaks a long formula after its outermost relations and commas."""
    row = root[0] if len(root) == 1 and root[0].tag == "mrow" else root
    if sum(1 for _ in _leaves(row)) <= longest:
        return [root]
    groups: list[list[ET.Element]] = [[]]
    depth = 0
    for child in row:
        core = _core(child)
        text = core.text or "" if core is not None else ""
        depth += (text in _OPENING) - (text in _CLOSING)
        depth += {"prefix": 1, "postfix": -1}.get(core.get("form", ""), 0) if core is not None and text in _BARS else 0
        groups[-1].append(child)
        if text in _RELATIONS and depth == 0:
            child.set("form", "infix")
            groups.append([])
    pieces = []
    for group in filter(None, groups):
        piece = ET.Element("math", display="inline")
        piece.extend(group)
        pieces.append(piece)
    pieces[0].set("alttext", root.get("alttext", ""))
    return pieces


def _leaves(element: ET.Element) -> Iterator[ET.Element]:
    return (part for part in element.iter() if part.tag in ("mi", "mn", "mo", "mtext"))
