"""Code in colours: Python beside what Pygments makes of it, and what has no language."""

import html
import re
from pathlib import Path

import pytest
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

from secant.atlas import colours, listing
from secant.atlas.colours import highlighted

# Classes of Pygments that have one colour here.
ALIKE = {"k": "k kn kc ow", "s": "s s1 s2 sa se si", "c": "c c1 ch", "sd": "sd", "m": "m mi mf mh mb", "nd": "nd"}
ALIKE |= {"nf": "nf nc fm"}
COLOUR = {name: colour for colour, names in ALIKE.items() for name in names.split()}

ODD = '''#!/usr/bin/env python
"""A docstring with 1 number and "quotes"."""
import numpy as np
from a.b import c as d

@np.vectorize
class A(B[int], metaclass=M):
    r"""Raw, $\\lambda$."""
    async def f(self, x: float = .5e-3, *, y=0x1F, z=1_000.5) -> None:
        match = {"a": 'it\\'s', "b": """two
lines"""}
        match x:
            case [1, 2]:
                return f"{x:.3f} and {{y}} and {match['a']!r:>{width}} {x[1:2]} {1 if a != b else 2}" + rb"\\x00"
        lambda: (yield) is not None and True or x1.real  # a <comment> & more
        define, classes, x.def_, is_it = 1., 0b11, 3., 10**-5
'''
FILES = [Path(colours.__file__), Path(listing.__file__), Path(__file__)]


def expected(code):
    """Every letter with its colour, by Pygments; what is blank has none."""
    for token, text in get_lexer_by_name("python", stripnl=False).get_tokens(code):
        yield from ((letter, "" if letter.isspace() else COLOUR.get(STANDARD_TYPES[token], "")) for letter in text)


def shown(code):
    colour = ""
    for part in re.split(r"(<[^>]*>)", highlighted(code, "python")):
        if part.startswith("<"):
            found = re.fullmatch(r'<span class="(\w+)">|</span>', part)
            colour = found[1] or ""
        else:
            yield from ((letter, "" if letter.isspace() else colour) for letter in html.unescape(part))


@pytest.mark.parametrize("code", [ODD, *(path.read_text() for path in FILES)], ids=["odd", *(p.stem for p in FILES)])
def test_python_has_the_colours_that_pygments_gives_it(code):
    pieces = list(zip(shown(code), expected(code), strict=True))
    wrong = [place for place, (mine, theirs) in enumerate(pieces) if mine != theirs]
    assert [(code[max(place - 20, 0) : place + 10], *pieces[place]) for place in wrong[:3]] == []


def test_no_tag_reaches_beyond_its_line():
    for line in highlighted(ODD, "python").splitlines():
        assert line.count("<span") == line.count("</span>")


@pytest.mark.parametrize("broken", ['x = "no end', "f'{'", "'''", 'f"{{{x"', "0x", "\\", "@", "def", '"\\'])
def test_broken_code_reads_as_it_was_written(broken):
    assert "".join(letter for letter, _ in shown(broken)) == broken + "\n"


def test_other_languages_are_left_to_pygments_and_unknown_ones_are_text():
    assert '<span class="' in highlighted('echo "a" # b', "bash")
    assert highlighted("a < b & c", "no such language") == "a &lt; b &amp; c\n"
