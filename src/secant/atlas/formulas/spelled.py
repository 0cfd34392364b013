r"""Mathematics spelled in letters: in "m lambda_0 over sqrt(m)" the pages show formulas.

Only what can be nothing else is read so: names of Greek letters, roots, letters and numbers with an index or a power,
and what is joined to them by a sign or a space. A word beside them, or a bracket that is not closed, stays as it is.
"""

from __future__ import annotations

import re

_SMALL = "alpha|beta|gamma|delta|epsilon|eps|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|phi|chi|psi|omega"
_GREEK = f"(?:{_SMALL}|Gamma|Delta|Theta|Lambda|Sigma|Phi|Psi|Omega)"
_INDEX = r"_(?:\d+|max|min|crit|[a-z]|\{[^{}]*\})"
_POWER = r"\^(?!1/)(?:-?\d+|\*|[a-zTN](?![a-z])|\([\w\s/+-]*\)|\{[^{}]*\})"
_ROOT = r"sqrt(?:\([\w\s/^+-]*\)| (?:\d+|[A-Za-z])(?![\w(]))"
_STRONG = rf"(?:{_GREEK}(?:{_INDEX})?(?:{_POWER})?|[A-Za-z]{_INDEX}(?:{_POWER})?|(?:[A-Za-z]|\d+){_POWER}|{_ROOT})"
_WEAK = r"(?:(?:log|ln) [A-Za-z]|\d+(?:\.\d+)?|[B-HJ-Zb-z])"  # without "a", "A" and "I", which are words
_BEFORE, _AFTER = r"(?<![\w\\^|'<>)\]}/*.\-])", r"(?![\w^('|/*{~]|[-+.]\w)"
_JOINED = r"(?: (?!\d)|/| / | - | \+ | = )"
_ATOM = rf"(?:{_STRONG}|{_WEAK})(?![\w^(])"
_FLAT = rf"{_ATOM}(?:{_JOINED}{_ATOM})*"
_ANY = rf"(?:\({_FLAT}\)(?:{_POWER})?|{_ATOM})"
_FORMULA = re.compile(rf"{_BEFORE}{_ANY}(?:{_JOINED}{_ANY})*{_AFTER}")
_IS_FORMULA = re.compile(rf"(?<![A-Za-z]){_STRONG}")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}")
_MINUS = re.compile(r"(?:(?<=[ (,])|^)-(?=\d+(?:[./]\d+)?(?:[\s,;:)]|$))")
_KEPT = re.compile(r"`[^`\n]+`|(?<!\\)\$[^$]+\$|--[\w-]+")


def latex(text: str) -> str:
    r"""The text with mathematics that is spelled in letters as LaTeX between dollars; code and formulas stay.

    Example:
        ```python
        from secant.atlas.formulas.spelled import latex

        print(latex("distance over m lambda_0 at 2/eta, with eta_lambda = 1"))
        ```
        ```text
        distance over $m \lambda_{0}$ at $2/\eta$, with eta_lambda = 1
        ```
    """
    parts, end = [], 0
    for kept in _KEPT.finditer(text):
        parts += [_written(text[end : kept.start()]), kept[0]]
        end = kept.end()
    return "".join([*parts, _written(text[end:])])


def _written(text: str) -> str:
    text = _FORMULA.sub(lambda match: _between_dollars(match[0]), text)
    return _MINUS.sub("\u2212", text)


def _between_dollars(text: str) -> str:
    """The formula, if it has more to it than a letter or a number, and no word."""
    if not _IS_FORMULA.search(text):
        return text
    formula = re.sub(r"sqrt(?:\(([^()]*)\)| (\w+))", lambda match: rf"\sqrt{{{match[1] or match[2]}}}", text)
    formula = re.sub(r"\^\(([^()]*)\)", r"^{\1}", formula)
    formula = re.sub(r"([_^])(-?\d+|max|min|crit)", r"\1{\2}", formula)
    formula = re.sub(rf"(?<![A-Za-z\\])({_GREEK}|log|ln|max|min)(?![A-Za-z])", lambda match: "\\" + match[0], formula)
    formula = re.sub(r"\\eps(?![a-z])", r"\\epsilon", formula)
    formula = re.sub(r"(?<![A-Za-z\\])crit(?![A-Za-z])", r"\\mathrm{crit}", formula).replace(" / ", "/")
    return text if _WORD.search(formula.replace("{crit}", "")) else f"${formula}$"
