"""The commands that the pages show exist and say what is shown; the API reference has every public name."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
import shlex
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

import secant
from secant.cli import entry
from secant.lab.plain import plain
from secant.rooms import ENTERED

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
QUICK = ("--help", "--version", "list", "show", "runs", "sweep", "watch")
THEORY = [importlib.import_module(f"secant.theory.{i.name}") for i in pkgutil.iter_modules(secant.theory.__path__)]
REFERENCE = set(
    re.findall(r"^::: (\S+)", "\n".join(p.read_text() for p in (ROOT / "docs/api").rglob("*.md")), re.MULTILINE)
)


def sessions() -> list[tuple[str, str]]:
    """Every command on the pages, with the output shown below it."""
    found = []
    for page in PAGES:
        for body in CONSOLE.findall(page.read_text()):
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                found.append((command.strip(), shown))
    return sorted(set(found))


def words(line: str) -> str:
    """A line without its spacing, and without the seconds that end it."""
    return re.sub(r" \d+\.\d\d$", "", " ".join(line.split()))


@pytest.fixture
def call(tmp_path, monkeypatch, capfd):
    """Runs `secant` in this process; gives what it says."""
    monkeypatch.setenv("SECANT_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(entry, "keep_compiled_code", lambda: None)

    def run(*arguments: str) -> str:
        with contextlib.suppress(SystemExit):
            entry.main(list(arguments))
        output, errors = capfd.readouterr()
        return output + errors

    return run


@functools.cache
def verdicts(*ids: str) -> dict[str, str]:
    """The verdict of every finding of some studies."""
    with tempfile.TemporaryDirectory() as home:
        rows = secant.verify(ids, scale="smoke", store=secant.lab.Store(Path(home)))
    return {row["finding"]: row["verdict"] for row in rows}


@pytest.mark.parametrize("command", sorted({command for command, _ in sessions() if command.startswith("make")}))
def test_the_make_targets_on_the_pages_exist(command):
    assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", sorted({command for command, _ in sessions() if command.startswith("secant")}))
def test_the_commands_and_options_on_the_pages_exist(command, call):
    name, *arguments = shlex.split(command)[1:]
    if name in ("--help", "--version"):
        return
    assert name in entry.COMMANDS
    ids = [word for word in arguments if "/" in word and word != "quadreg/fig2"]
    for id in ids:
        secant.lab.get(id)
    options = [word for word in arguments if word.startswith("--")]
    help = call(name, *(ids[:1] if name in ("run", "sweep") else []), "--help")
    missing = [option for option in options if option not in help and name != "show"]
    assert not missing, f"{command}: {missing} not in\n{help}"


@pytest.mark.parametrize(("command", "shown"), [pair for pair in sessions() if pair[1].strip()])
def test_the_output_on_the_pages_is_what_the_command_says(command, shown, call, monkeypatch):
    """Quick commands run and every line shown must come; of a run its findings and verdicts must."""
    name, *arguments = shlex.split(command)[1:]
    if name == "watch":  # the record that the page makes, on the narrowest terminal
        page = (ROOT / "docs" / "guide" / "runs" / "watching.md").read_text()
        exec(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0], {"__name__": "__example__"})
        monkeypatch.setenv("COLUMNS", "80")
    mistaken = shown.startswith("secant: ")
    if name in QUICK or mistaken:
        said = [words(line) for line in call(name, *arguments).splitlines()]
        for line in filter(None, map(words, shown.splitlines())):
            assert line == "..." or any(line in candidate for candidate in said), f"{command}: no line {line!r}"
        return
    shown = " ".join(shown.split())
    claimed = len(re.findall(r"[✓!?✗] (?:holds|erratum|inconclusive|fails)", shown))
    if not claimed:
        return
    found = {plain(name): verdict for name, verdict in verdicts(*(word for word in arguments if "/" in word)).items()}
    for finding, verdict in found.items():
        if finding in shown:
            assert re.match(rf"[^✓!?✗]*[✓!?✗] {verdict}", shown.split(finding, 1)[1]), finding
    judged = sum(finding in shown for finding in found)
    assert judged == claimed, f"{command}: {claimed} findings on the page, {judged} of them are the study's"


def test_the_studies_named_on_the_pages_exist():
    sources = "|".join(secant.lab.sources())
    for page in PAGES:
        for id in re.findall(rf"`(?:secant \w+ )?((?:{sources})/[\w.-]+)[^`/]*`", page.read_text()):
            secant.lab.get(id)


def public(module: ModuleType) -> list[str]:
    """The names a user may use: those a module exports, or else those it defines without an underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


MODULES = [
    *(importlib.import_module(f"secant.{name}") for name in ENTERED if name != "theory"),
    secant.measure,
    *(m for m in THEORY if not m.__name__.rpartition(".")[2].startswith("_")),
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_is_documented_and_in_the_reference(module):
    assert module.__doc__
    for name in public(module):
        value = getattr(module, name)
        if inspect.isroutine(value) or isinstance(value, type):
            assert (inspect.getdoc(value) or "").strip(), f"{module.__name__}.{name} has no docstring"
        assert {f"{module.__name__}.{name}", module.__name__} & REFERENCE, (
            f"{module.__name__}.{name} is not in docs/api"
        )


def test_the_reference_names_nothing_that_does_not_exist():
    for path in REFERENCE:
        owner, _, name = path.rpartition(".")
        if path not in {module.__name__ for module in MODULES}:
            assert hasattr(importlib.import_module(owner), name) or importlib.util.find_spec(path), path


def test_figures_on_the_pages_are_small_and_come_light_and_dark():
    figures = {figure.name: figure for figure in (ROOT / "docs/figures").iterdir()}
    for name, figure in figures.items():
        assert figure.stat().st_size < (300_000 if figure.suffix == ".svg" else 150_000), name
        if "-dark" not in name:
            assert {f"{figure.stem}-dark.svg", f"{figure.stem}-dark.png"} & set(figures), name
    shown = {path for page in PAGES for path in re.findall(r"figures/([\w.-]+)", page.read_text())}
    assert shown - set(figures) == set()
    wide = {name for name in figures if "-narrow" not in name}
    assert {re.sub(r"-narrow|\.\w+$", "", name) for name in set(figures) - wide} <= {Path(name).stem for name in wide}
    assert wide - shown == set(), "figures that no page shows"
