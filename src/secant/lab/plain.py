r"""LaTeX as a line of plain text: `$\eta\lambda_1 \le 2 - \epsilon^2/2$` reads `ηλ₁ ≤ 2 − ε²/2` in a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from latex2mathml.symbols_parser import convert_symbol

MATH = re.compile(r"(?<!\\)\$\$(?P<display>.+?)(?<!\\)\$\$|(?<!\\)\$(?P<inline>[^$]+?)(?<!\\)\$", re.DOTALL)
"""A formula in a text: between double dollars, or between single ones."""

_TOKENS = re.compile(r"\\[A-Za-z]+\*?|\\.|[{}^_&]|\s+|\d+(?:\.\d+)?|.", re.DOTALL)
_RAISED = str.maketrans("0123456789+-−=()niTt′*", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱᵀᵗ′*")
_LOWERED = str.maketrans("0123456789+-−=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")
_MARKS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304", "dot": "\u0307", "ddot": "\u0308", "vec": "\u20d7"}
_MARKS |= {"widehat": "\u0302", "widetilde": "\u0303", "overline": "\u0304"}
_FUNCTIONS = frozenset(("log", "ln", "exp", "sin", "cos", "tan", "tanh", "cosh", "sinh", "det", "tr", "rank", "sign"))
_FUNCTIONS |= frozenset(("max", "min", "sup", "inf", "lim", "argmax", "argmin", "limsup", "liminf", "Var", "Pr"))
_FONTS = frozenset(
    ("text", "textrm", "textbf", "textit", "mathrm", "mathbf", "mathit", "mathsf", "mathcal", "mathbb", "boldsymbol")
)
_SILENT = frozenset(
    ("left", "right", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "displaystyle", "textstyle")
)
_SPACES = {"\\,": "", "\\!": "", "\\:": " ", "\\;": " ", "\\ ": " ", "\\quad": "  ", "\\qquad": "  ", "~": " "}
_PLAIN = {"\\|": "‖", "\\{": "{", "\\}": "}", "\\%": "%", "\\$": "$", "\\&": "&", "\\_": "_", "\\#": "#"}
_PLAIN |= {"\\top": "ᵀ", "\\prime": "′", "\\epsilon": "ε", "\\varepsilon": "ε", "\\phi": "φ", "\\varphi": "φ"}
_PLAIN |= {"\\mid": "|", "\\lvert": "|", "\\rvert": "|", "\\lVert": "‖", "\\rVert": "‖", "\\dots": "…", "\\ldots": "…"}
_PLAIN |= {"\\mathbb{R}": "ℝ", "\\mathbb{N}": "ℕ", "\\cdots": "⋯", "\\to": "→", "-": "−", "'": "′"}
_BINARY = frozenset("+−±∓×·∘⊙⊗⊕∪∩")
_RELATION = frozenset("=<>≤≥≈∼≃≡≠∝∈∉⊂⊆→↦⇒⟹⟺≪≫≲≳⩽⩾←↔≔:")
_OPENING, _CLOSING = frozenset("([{⟨⌊⌈"), frozenset(")]}⟩⌋⌉!")


def plain(text: str) -> str:
    r"""The text with its formulas in Unicode, and everything else unchanged.

    A formula that has no such form stays LaTeX, without its dollars.

    Example:
        ```python
        from secant.lab.plain import plain

        assert plain(r"falls like $\log m/\sqrt{m}$") == "falls like log m/√m"
        ```
    """
    return MATH.sub(lambda match: formula(match["display"] or match["inline"]), text).replace(r"\$", "$")


def formula(latex: str) -> str:
    """A formula, given without its dollars, on one line."""
    try:
        reader = _Reader(latex.strip())
        line = _line(reader.group())
        return re.sub(r" +", " ", line).strip() if reader.done else latex.strip()
    except _MalformedError:
        return latex.strip()


class _MalformedError(ValueError):
    """A brace or an argument is missing."""


@dataclass(frozen=True)
class _Atom:
    """A piece of a formula: its text, and its kind, which sets the spaces around it."""

    text: str
    kind: str = "letter"


class _Reader:
    """Reads the tokens of a formula from left to right."""

    def __init__(self, latex: str) -> None:
        self._tokens = _TOKENS.findall(latex)
        self._next = 0

    @property
    def done(self) -> bool:
        return self._next == len(self._tokens)

    def group(self) -> list[_Atom]:
        """All atoms up to the closing brace of the group, or to the end."""
        atoms: list[_Atom] = []
        while not self.done and self._tokens[self._next] != "}":
            token = self._take()
            if token in "^_":
                base, script = atoms.pop() if atoms else _Atom(""), self._script(token)
                kind = "name" if script[0] in "^_" and base.kind != "close" else base.kind
                atoms.append(_Atom(base.text + script, kind))
            elif token == "&":
                atoms.append(_Atom(" ", "space"))
            elif not token.isspace():
                atoms.extend(self._atoms(token))
        return atoms

    def _take(self) -> str:
        if self.done:
            raise _MalformedError
        self._next += 1
        return self._tokens[self._next - 1]

    def _argument(self) -> list[_Atom]:
        token = self._take()
        while token.isspace():
            token = self._take()
        if token != "{":
            if token[0].isdigit() and len(token) > 1:  # of \frac12 the first digit only
                self._next -= 1
                self._tokens[self._next] = token[1:]
                token = token[0]
            return self._atoms(token)
        inside = self.group()
        if self._take() != "}":
            raise _MalformedError
        return inside

    def _script(self, sign: str) -> str:
        inside = _line(self._argument(), tight=True)
        table = _RAISED if sign == "^" else _LOWERED
        word = len(inside) > 1 and inside.isalpha()
        if inside and not word and all(ord(letter) in table or letter in "ᵀ′*" for letter in inside):
            return inside.translate(table)
        return sign + (inside if inside.isalnum() or len(inside) == 1 else f"({inside})")

    def _atoms(self, token: str) -> list[_Atom]:
        if token == "{":
            self._next -= 1
            return self._argument()
        if not token.startswith("\\") or token in _SPACES or token in _PLAIN:
            return [_atom(_SPACES.get(token, _PLAIN.get(token, token)))]
        return self._command(token[1:].rstrip("*"))

    def _command(self, name: str) -> list[_Atom]:
        if name in _SILENT:
            if not self.done and self._tokens[self._next] == ".":
                self._next += 1
            return []
        if name in ("frac", "tfrac", "dfrac"):
            above, below = (_line(self._argument()) for _ in range(2))
            return [_Atom(f"{_bracketed(above)}/{_bracketed(below)}", "fraction")]
        if name == "sqrt":
            return [_Atom("√" + _bracketed(_line(self._argument())))]
        if name in _MARKS:
            inside = _line(self._argument())
            return [_Atom(inside + _MARKS[name] if len(inside) == 1 else f"{name}({inside})")]
        if name in _FONTS:
            inside = _line(self._argument())
            return [_Atom(_PLAIN.get(f"\\{name}{{{inside}}}", inside), "name" if len(inside) > 1 else "letter")]
        if name == "operatorname":
            return [_Atom(_line(self._argument()), "name")]
        if name in ("begin", "end"):
            self._argument()
            return []
        if name == "\\":
            return [_Atom(";", "comma")]
        return [_Atom(name, "name")] if name in _FUNCTIONS else [_atom(_symbol(name))]


def _symbol(name: str) -> str:
    code = convert_symbol("\\" + name)
    return chr(int(code, 16)) if code else "\\" + name


def _atom(text: str) -> _Atom:
    kinds: dict[str, Callable[[str], bool]] = {
        "binary": _BINARY.__contains__,
        "relation": _RELATION.__contains__,
        "open": _OPENING.__contains__,
        "close": _CLOSING.__contains__,
        "comma": ",;".__contains__,
        "space": str.isspace,
        "name": "∑∏∫".__contains__,
    }
    return _Atom(text, next((kind for kind, fits in kinds.items() if text and fits(text)), "letter"))


def _line(atoms: list[_Atom], tight: bool = False) -> str:
    """The atoms in a row, with spaces around relations and signs, after commas, and beside names and fractions."""
    parts: list[str] = []
    before = "open"
    operands = ("letter", "close", "name", "fraction")
    for atom in filter(lambda atom: atom.text, atoms):
        if tight:
            parts.append(atom.text)
        elif atom.kind == "relation" or (
            atom.kind == "binary" and before not in ("open", "relation", "comma", "binary")
        ):
            parts.append(f" {atom.text} ")
        elif atom.kind == "comma":
            parts.append(atom.text + " ")
        else:
            apart = {before, atom.kind} & {"name", "fraction"} and before in operands
            joined = atom.kind in ("close", "binary", "space") or (before == "name" and atom.kind == "open")
            parts.append((" " if apart and not joined and atom.text not in "/|‖" else "") + atom.text)
        before = atom.kind if atom.text not in ("/", "|", "‖") else "open"
    return "".join(parts)


def _bracketed(text: str) -> str:
    """In brackets, unless the text is a single term."""
    return text if re.fullmatch(r"[^\s/+−·×]+", text) else f"({text})"
