"""Text with LaTeX in it, as HTML."""

from __future__ import annotations

import functools
import re
import xml.etree.ElementTree as ET

from markupsafe import Markup, escape

from secant.atlas.formulas import spelled
from secant.atlas.formulas.mathml import UntranslatableError, mathml
from secant.lab import plain as unicode
from secant.lab.plain import MATH

_CODE = re.compile(r"`([^`\n]+)`")
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
_COMMANDS = re.compile(r"\\(?:text|mathrm|operatorname\*?|begin|end)\s*\{[^{}]*\}|\\[A-Za-z]+")
_WORDS = re.compile(r"(?<![A-Za-z\\_^{])[A-Za-z]{2,}[,;:]?\s+[A-Za-z]{2,}(?![A-Za-z}])")

_SYMBOL = re.compile(
    "alpha|beta|gamma|delta|eps|epsilon|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|phi|chi|psi|omega"
    "|log|ln|exp|sin|cos|tan|tr"
)


@functools.lru_cache(maxsize=4096)
def formula(latex: str, *, display: bool = False) -> Markup:
    r"""A formula as MathML, or its LaTeX source as code where it cannot be translated.

    Example:
        ```python
        from secant.atlas.formulas.typeset import formula

        formula(r"\eta = 2/\lambda_1")
        ```
    """
    try:
        pieces = [ET.tostring(piece, encoding="unicode") for piece in mathml(latex, display=display)]
    except UntranslatableError:
        code = Markup('<code class="latex">{}</code>').format(latex.strip())
        return Markup('<span class="display">{}</span>').format(code) if display else code
    # ElementTree has escaped every text and attribute of its output.
    html = Markup("<wbr>").join(Markup(piece) for piece in pieces)
    return (
        Markup('<span class="display" tabindex="0" role="group" aria-label="formula">{}</span>').format(html)
        if display
        else html
    )


def inline(text: str) -> Markup:
    """One line of text: formulas between dollars, code between backticks, everything else escaped."""
    parts, end = [], 0
    for match in MATH.finditer(text):
        parts += [_words(text[end : match.start()]), formula(match["display"] or match["inline"])]
        end = match.end()
    return Markup("").join([*parts, _words(text[end:])])


def prose(text: str) -> Markup:
    """Paragraphs of text. Blank lines separate them; formulas between double dollars stand on lines of their own."""
    paragraphs = []
    for paragraph in filter(None, _BLANK_LINES.split(text.strip())):
        parts, end = [], 0
        for match in MATH.finditer(paragraph):
            parts.append(_words(paragraph[end : match.start()]))
            display = match["display"] is not None
            parts.append(formula(match["display"] or match["inline"], display=display))
            end = match.end()
        parts.append(_words(paragraph[end:]))
        paragraphs.append(Markup("<p>{}</p>").format(Markup("").join(parts)))
    return Markup("\n").join(paragraphs)


def statement_of(text: str) -> Markup:
    """A text that is either a formula without dollars or a sentence with formulas between dollars."""
    return inline(text) if has_words(text) else formula(text, display=True)


def has_words(text: str) -> bool:
    """Whether a text is a sentence, possibly with formulas between dollars, and not a formula without dollars."""
    return "$" in text or bool(_WORDS.search(_COMMANDS.sub(" ", text)))


def sentence(text: str) -> Markup:
    """One line of text that begins with a capital, unless it begins with a symbol."""
    word = re.match(r"[a-z]+(?=[\s,:;-]|$)", text)
    if word and not _SYMBOL.fullmatch(word[0]) and (len(word[0]) > 1 or word[0] == "a"):
        text = text[0].upper() + text[1:]
    return inline(text)


def of_finding(text: str, capital: bool = True) -> Markup:
    """The name, the note or the reason of a finding: formulas between dollars, or spelled in letters, are typeset."""
    latex = spelled.latex(text)
    return sentence(latex) if capital else inline(latex)


def excerpt(text: str) -> Markup:
    """The beginning of a text, up to its first display or blank line, on one line."""
    first = _BLANK_LINES.split(text.strip())[0]
    head = first.split("$$")[0].strip()
    return inline(head or first) + ("" if head == text.strip() else " \u2026")


def first_sentence(text: str) -> Markup:
    """The first sentence of a text, on one line. A formula on a line of its own ends the sentence."""
    head = _BLANK_LINES.split(text.strip())[0].split("$$")[0].strip()
    hidden = MATH.sub(lambda match: "x" * len(match[0]), head)  # the points inside formulas end nothing
    end = re.search(r"(?<!\be\.g)(?<!\bi\.e)[.!?](?=\s|$)", hidden)
    return inline(head[: end.end()]) if end else inline(head.rstrip(":,")) + " \u2026"


def plain(text: str) -> str:
    """The text on one line without markup, with formulas in Unicode: for titles and for searching."""
    return re.sub(r"\s+", " ", unicode.plain(text)).strip()


def _words(text: str) -> Markup:
    parts = _CODE.split(text.replace(r"\$", "$"))
    html = [escape(part) if i % 2 == 0 else Markup("<code>{}</code>").format(part) for i, part in enumerate(parts)]
    return Markup("").join(html)
