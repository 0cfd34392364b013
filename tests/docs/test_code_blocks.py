"""Every example in the pages, the README and the docstrings runs, and prints what it says it prints."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import pytest

from secant.rooms import ENTERED

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = [importlib.import_module(f"secant.{name}") for name in ENTERED]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One fenced block: its language, its text, the line it starts at, and whether it follows another at once."""

    language: str
    text: str
    line: int
    adjacent: bool


def blocks_of(text: str) -> list[Block]:
    found, end = [], 0
    for m in FENCE.finditer(text):
        line = text[: m.start()].count("\n") + 1
        found.append(Block(m["language"], textwrap.dedent(m["body"]), line, not text[end : m.start()].strip()))
        end = m.end()
    return found


def run(blocks: list[Block], file: str) -> None:
    """Runs the Python blocks in one namespace; a `text` block right after one shows its output."""
    names: dict[str, object] = {"__name__": "__example__"}
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language != "python":
            continue
        printed = io.StringIO()
        code = compile("\n" * block.line + block.text, file, "exec", dont_inherit=True)
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if following is not None and following.adjacent and following.language == "text":
            assert printed.getvalue().split() == following.text.split(), f"{file}:{following.line}"


def docstrings() -> Iterator[tuple[str, str]]:
    """Every docstring of the public modules that has an example, by the name of its owner."""
    modules = [
        importlib.import_module(info.name)
        for room in ROOMS
        for info in pkgutil.walk_packages(getattr(room, "__path__", ()), room.__name__ + ".")
    ]
    for module in (*ROOMS, *modules):
        yield module.__name__, module.__doc__ or ""
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) == module.__name__ and (
                inspect.isroutine(value) or isinstance(value, type)
            ):
                yield f"{module.__name__}.{name}", inspect.getdoc(value) or ""
                members = vars(value).items() if isinstance(value, type) else ()
                for part, member in members:
                    if inspect.isroutine(member) and not part.startswith("_"):
                        yield f"{module.__name__}.{name}.{part}", inspect.getdoc(member) or ""


@pytest.fixture(autouse=True)
def empty_home(tmp_path, monkeypatch):
    monkeypatch.setenv("SECANT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    yield
    jax.config.update("jax_enable_x64", False)  # a page tells its readers to switch it on


WITH_CODE = [page for page in PAGES if any(b.language == "python" for b in blocks_of(page.read_text()))]
EXAMPLES = {owner: blocks for owner, text in docstrings() if (blocks := blocks_of(text))}


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_on_a_page_run_and_print_what_they_show(page):
    run(blocks_of(page.read_text()), str(page))


@pytest.mark.parametrize("owner", EXAMPLES)
def test_the_example_in_a_docstring_runs(owner):
    run(EXAMPLES[owner], owner)


def test_the_collector_sees_the_examples():
    assert "secant.dynamics.runner.simulate" in EXAMPLES
    assert ROOT / "README.md" in WITH_CODE
