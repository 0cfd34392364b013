"""Code as HTML with its words in colours, named as Pygments names them: one pass of one pattern where it is Python."""

from __future__ import annotations

import functools
import keyword
import re
from collections.abc import Iterator

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

# The groups have the names of classes in the style sheet: what has no colour is not matched. In the order in which they
# are tried: docstrings, other strings with their prefix, comments, decorators, names that are defined, words, numbers.
_PYTHON = re.compile(
    r"""
    ^[ \t]*(?P<raw>[rRuUbB]{0,2})(?P<sd>\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3})
  | (?<!\w)(?P<prefix>[rRbBuUfF]{0,2})(?P<s>\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}
      |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<c>\#[^\n]*)
  | ^[ \t]*(?P<nd>@\w+)
  | (?<![\w.])(?P<define>def|class)(?P<space>[ \t]+)(?P<nf>\w+)
  | (?<![\w.])(?P<k>(?:KEYWORDS)\b)
  | ^[ \t]*(?P<soft>(?:match|case)\b(?![ \t]*[:,;=.)\]}])(?=[^\n]*:[ \t]*$))
  | (?<![\w.])(?P<m>0[xXoObB][\da-fA-F_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?[jJ]?)
    """.replace("KEYWORDS", "|".join(keyword.kwlist)),
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_CLASS = {"raw": "s", "prefix": "s", "define": "k", "soft": "k"}
_FIELD = re.compile(r"\{\{|\{((?:[^{}]|\{[^{}]*\})+)\}")
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


@functools.lru_cache(maxsize=1024)
def highlighted(code: str, language: str) -> Markup:
    """Code as HTML, coloured if the language is known; no tag reaches beyond its line."""
    if language in ("python", "py"):
        return Markup("".join(_coloured(code if code.endswith("\n") else code + "\n")))
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        lexer = get_lexer_by_name("text", stripnl=False)
    return Markup(highlight(code, lexer, HtmlFormatter(nowrap=True)))  # which escapes what it colours


def _coloured(code: str) -> Iterator[str]:
    """The pieces of some Python: all text is escaped."""
    end = 0
    for match in _PYTHON.finditer(code):
        formatted = "f" in (match["prefix"] or "").lower()
        for name, text in match.groupdict().items():
            if not text:
                continue
            start = match.start(name)
            yield str(escape(code[end:start]))
            yield from _fields(text) if formatted and name == "s" else _span(_CLASS.get(name, name), text)
            end = match.end(name)
    yield str(escape(code[end:]))


def _span(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n")):
        yield "\n" if number else ""
        yield f'<span class="{name}">{escape(line)}</span>' if line else ""


def _fields(text: str) -> Iterator[str]:
    """A string with fields, whose expressions are code, or the format in one, which may have fields too."""
    end = 0
    for match in _FIELD.finditer(text):
        if match[1] is None:
            continue
        split = match.start(1) + _expression(match[1])
        yield from _span("s", text[end : match.start(1)])
        yield from _coloured(text[match.start(1) : split])
        yield from _fields(text[split : match.end(1)])
        end = match.end(1)
    yield from _span("s", text[end:])


def _expression(field: str) -> int:
    """Where the expression of a field ends: at a conversion or a format that is in no brackets."""
    depth = 0
    for place, letter in enumerate(field):
        depth += _BRACKETS.get(letter, 0)
        if depth == 0 and (letter == ":" or (letter == "!" and field[place : place + 2] != "!=")):
            return place
    return len(field)
