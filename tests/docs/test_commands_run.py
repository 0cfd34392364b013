"""Every command that the pages show is run, and ends with the status that they say.

What takes minutes on a laptop, or hours on a large machine, is run at smoke scale: with its own options, but none of
its sizes larger than the smoke scale's, or than a quarter of them where the study allows it. Of several such commands
of one study, which differ in their values alone, one is run at a time and the others are read: another one after every
change. What takes all studies takes two.
"""

from __future__ import annotations

import re
import shlex
import typing
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fuzzing import NOW, smallest
from made_up import falling, record

from secant import lab
from secant.cli import entry
from secant.cli.options import parse_run
from secant.data.errors import MissingDataError
from secant.monitors.records.record import Writer, place

pytestmark = pytest.mark.usefixtures("optimised")

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)

AS_SHOWN = {"quadreg/fig-1", "quadreg/fig-2", "quadreg/fig2", "quadreg/fig-8", "quadreg/limit-series", "thesis/sec-3.3"}
"""Studies that take a second or two at any scale."""

STATUS: dict[str, int] = {
    "secant run quadreg/fig2": 2,  # shows how an unknown study is answered
    "secant run quadreg/fig-2 --epsilon 3": 2,  # and an option out of its range
    "secant sweep quadreg/fig-8 --over steps=0:99999999999": 2,  # and too many values
    "secant run thesis/cor-2.3.7 --widths 64 10000000": 1,  # and a size that no machine holds
    "secant doctor catapult": 1,  # a run that is not healthy
    "secant doctor catapult --json": 1,
    "secant doctor catapult --page catapult.html": 1,
}
"""Commands that end with another status than 0."""


MINUTES = {
    "secant run thesis/fig-4.4 --panels cnn",
    "secant run thesis/fig-4.8 --panels usps --draws 4",
    "secant run thesis/fig-4.8 --panels fashion-mnist",
    "secant run thesis/fig-4.11 --panel rank-3 --draws 3",
    "secant run thesis/fig-4.11 --panel rank-4 --draws 3",
    "secant run thesis/fig-4.9 --panel usps --samples 1000 --batches 5 10 50 --draws 3 --halvings 0",
    "secant run thesis/fig-4.9 --panel fashion-mnist --samples 1000 --batches 5 10 50 --draws 3 --halvings 0",
    "secant run thesis/fig-4.3 --panels cnn wide-resnet fcn-10",
    "secant run thesis/fig-4.7 --panels vit",
    "secant run thesis/fig-4.7 --panels wide-resnet --samples 32 --batch 8",
    "secant run thesis/fig-4.7 --scale paper --panels wide-resnet --schedule cyclical --steps 300",
}
"""Commands that take half a minute or more at any size, for their runs are long: only read, and not run."""

QUICK_STUDIES = ["quadreg/fig-1", "thesis/sec-3.3"]
"""In the place of all."""


def commands() -> list[str]:
    """Every command `secant` on the pages but the tour, which `make demo` is; a command may go on in the next line."""
    found = set()
    for page in PAGES:
        for body in CONSOLE.findall(page.read_text()):
            joined = re.sub(r"\\\n\s*", " ", body)
            found |= {" ".join(line[2:].split()) for line in joined.splitlines() if line.startswith("$ secant ")}
    return sorted(found - {"secant tour"})


def waiting(number: int) -> set[str]:
    """Commands whose turn it is not: of those that run one study with options of their own, all but one."""
    groups: dict[str, list[str]] = {}
    for command in commands():
        _, name, *rest = command.split()
        if name == "run" and own(rest) and rest[0] not in AS_SHOWN and command not in MINUTES | STATUS.keys():
            groups.setdefault(rest[0], []).append(command)
    return {command for group in groups.values() for k, command in enumerate(group) if k != number % len(group)}


def own(arguments: list[str]) -> list[str]:
    """The options that a command gives, but for its scale."""
    return [word for word in arguments if word.startswith("--") and word != "--scale"]


def quickly(arguments: list[str], *, scale: str, choices: bool) -> list[str]:
    """The same command at smoke scale, with no size above the smoke scale's; or also with the choices of its scale.

    At the scale `smallest` sizes are a quarter of that, and what is not asked for has one entry.
    """
    study = lab.get(arguments[0])
    given = arguments[arguments.index("--scale") + 1] if "--scale" in arguments else "laptop"
    asked, usual, types = study.config(given), study.config("smoke"), typing.get_type_hints(study.config_type)
    sizes = vars(usual if scale == "smoke" else smallest(study.id))
    kept, words = [], iter(arguments)
    for word in words:
        if word == "--scale":
            next(words)
            continue
        kept.append(word)
        name = word[2:].replace("-", "_")
        if word.startswith("--") and type(sizes.get(name)) is int and name != "seed":
            kept.append(str(min(int(next(words)), sizes[name])))
    for name, size in sizes.items():
        option, choice = f"--{name.replace('_', '-')}", getattr(asked, name)
        if option in kept:
            continue
        if choices and typing.get_origin(types[name]) is typing.Literal and choice != size:
            kept += [option, str(choice)]
        elif size != getattr(usual, name):
            kept += [option, *map(str, size if isinstance(size, tuple) else [size])]
    return [*kept, "--scale", "smoke"]


def shortened(name: str, arguments: list[str], *, scale: str = "smoke", choices: bool = False) -> list[str]:
    """Arguments of a command that take seconds."""
    if name == "run":
        fast = arguments[0] in AS_SHOWN
        return [*(arguments if fast else quickly(arguments, scale=scale, choices=choices)), "--no-figure"]
    if name == "verify" and not any("/" in word for word in arguments):
        if "--source" in arguments:
            place = arguments.index("--source")
            return [*arguments[:place], *(id for id in QUICK_STUDIES if id.startswith(arguments[place + 1]))]
        return [*arguments, *QUICK_STUDIES]
    return arguments


def attempts(name: str, arguments: list[str]) -> Iterator[list[str]]:
    """The command as small as it can be, then larger, for a study may refuse what it is asked for at a size.

    Without options it is the study's smoke run, which other tests compute too.
    """
    for scale in ("smallest", "smoke") if own(arguments) else ("smoke",):
        for choices in (False, True):
            yield shortened(name, arguments, scale=scale, choices=choices)


def called(name: str, arguments: list[str]) -> int:
    """The exit status of a command."""
    try:
        return entry.main([name, *arguments])
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize("command", commands())
def test_a_command_on_the_pages_ends_as_they_say(command, tmp_path, runs_of_studies, monkeypatch, capfd):
    monkeypatch.setenv("SECANT_HOME", str(runs_of_studies))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(entry, "keep_compiled_code", lambda: None)
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    _, name, *arguments = shlex.split(command)
    if "ray" in arguments or "--address" in arguments:
        pytest.skip("needs a cluster; sweeps on one have tests of their own")
    if name == "atlas":  # of what was run before: one study will do, and one whose figure is that of every scale
        monkeypatch.setenv("SECANT_HOME", str(runs_of_studies.with_name("runs-of-the-atlas")))
        shown = [lab.get(id) for id in QUICK_STUDIES]
        monkeypatch.setattr("secant.atlas.pages.catalog", lambda: shown)
        scale = arguments[arguments.index("--scale") + 1] if "--scale" in arguments else "smoke"
        entry.main(["run", QUICK_STUDIES[-1], "--scale", scale])
    if name == "watch":  # the record that the page makes
        monkeypatch.setenv("SECANT_HOME", str(tmp_path / "home"))
        page = (ROOT / "docs" / "guide" / "runs" / "watching.md").read_text()
        exec(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0], {"__name__": "__example__"})
    if name == "doctor":  # of the run that the page makes with a few lines of its own
        monkeypatch.setenv("SECANT_HOME", str(tmp_path))
        loss = falling()
        loss[100:112] = loss[99] * 1.5 ** np.r_[1:8, 6:1:-1]
        run = record(loss, load=lambda t: 1.1 if 80 <= t <= 110 else 0.6)
        with Writer(place("catapult"), run.about) as writer:
            writer.append(*run.rows)
    if command == "secant show quadreg/fig-2":
        entry.main(["run", "quadreg/fig-2", "--scale", "smoke", "--no-figure"])
    expected = STATUS.get(command, 0)
    if command in MINUTES | waiting(NOW):
        assert parse_run(lab.get(arguments[0]), arguments[1:])
        return
    for words in attempts(name, arguments):
        status, said = called(name, words), capfd.readouterr()
        if status != 2 or expected == 2:
            break
    if status == 2 != expected:  # what it asks for goes with no sizes of the smoke scale
        assert parse_run(lab.get(arguments[0]), arguments[1:])
        return
    if MissingDataError.__name__ in said.err or "SECANT_DATA" in said.err:
        pytest.skip("needs data that is not here")
    if name == "run" and arguments[0] not in AS_SHOWN and " fails " in said.out:
        expected = 1  # a claim may fail at a size for which it was not meant
    assert status == expected, said.out + said.err


def test_every_command_has_its_turn():
    assert waiting(NOW)
    assert not waiting(0) & waiting(1) & waiting(2)
