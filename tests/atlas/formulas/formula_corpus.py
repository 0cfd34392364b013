"""Every formula that the pages show: those of the studies, of their sources and of the pages they carry."""

import ast
import functools
import re
from pathlib import Path

from secant.atlas import reading
from secant.atlas.formulas import typeset
from secant.lab import catalog
from secant.lab.plain import MATH

FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@functools.cache
def corpus():
    """Formula -> where it stands."""
    found = {}
    for study in catalog():
        for text in texts_of(study):
            found |= dict.fromkeys(formulas_in(text), study.id)
        found |= dict.fromkeys(misprints_in(study.module), study.id)
    for page in reading.shelf():
        found |= dict.fromkeys(formulas_in(FENCE.sub("", page.text)), page.name)
    return found


def formulas_in(text):
    return [match["display"] or match["inline"] for match in MATH.finditer(text)]


def texts_of(study):
    yield from (study.title, study.statement, study.section, study.source.title, *study.source.chapters.values())
    for name, field in study.config_type.__dataclass_fields__.items():
        yield field.metadata.get("help", name)
    yield from claims_of(study)


def corpus_of_claims():
    """The literal names, notes and reasons of all findings."""
    return list(dict.fromkeys(text for study in catalog() for text in claims_of(study)))


def claims_of(study):
    tree = ast.parse(Path(study.module).read_text())
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if getattr(call.func, "id", "") == "claim":
            yield from list(words(call))[1:]  # the first is its key
        elif isinstance(call.func, ast.Attribute) and is_claim(call.func.value):
            yield from words(call)


def is_claim(node):
    """Whether this is `claim(...)`, whose methods make findings."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "claim"


def words(call):
    """The literal texts among the arguments of a claim: its name, why its tolerance, its note."""
    for value in [*call.args, *(keyword.value for keyword in call.keywords)]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def misprints_in(file):
    """The formulas of errata, printed and corrected, which stand without dollars before their values."""
    for node in ast.walk(ast.parse(Path(file).read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "erratum":
            for pair in (value for value in node.args if isinstance(value, ast.Tuple)):
                text = pair.elts[0].value if isinstance(pair.elts[0], ast.Constant) else ""
                yield from formulas_in(text) if typeset.has_words(text) else filter(None, [text])
