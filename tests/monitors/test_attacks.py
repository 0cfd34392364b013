"""Records of strangers who mean harm, and what the package itself must never do."""

import ast
import contextlib
import io
import json
import os
import re
import shlex
import socket
import stat
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import secant.cli.entry as cli
from secant import atlas
from secant.atlas.doctor import page as doctor_page
from secant.atlas.watched import Run, of_record
from secant.cli.entry import COMMANDS
from secant.cli.watch import frame
from secant.monitors import COLUMNS, RecordError, Watched, Writer, diagnose, read
from secant.monitors.display import facts
from secant.monitors.doctor.diagnosis import VERDICTS
from secant.monitors.records.listing import kept, running
from secant.monitors.records.record import LARGEST, Reader
from secant.monitors.records.sinks import Sinks
from secant.monitors.records.text import clean

PACKAGE = Path(cli.__file__).parents[1]
ESCAPES = "\x1b[2J\x1b]52;c;cm0gLXJmIH4=\x07\x9b31m\x00\b\r\nfake: all is well\u202eevil\u2066\u200b\ud800\U000e0041"
"""Clears a screen, fills the clipboard, colours, goes back, begins a line, turns the direction, and is no text."""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def secant(tmp_path, monkeypatch, capfd):
    """Runs a command; gives its exit status and all that it said."""
    monkeypatch.setenv("SECANT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cli, "keep_compiled_code", lambda: None)

    def call(*arguments):
        try:
            status = cli.main(list(arguments))
        except SystemExit as stop:
            status = stop.code
        return status, "".join(capfd.readouterr())

    return call


def raw(folder, about=None, lines=b""):
    """A record as somebody else may have written it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "about.json").write_text(json.dumps({"format": 1, **(about or {})}))
    (folder / "rows.jsonl").write_bytes(lines)
    return folder


def examined(secant, folder, tmp_path):
    """The doctor says something of a record, healthy or not, and is not hurt by it."""
    if "doctor" in COMMANDS:
        page = tmp_path / "doctor.html"
        status, said = secant("doctor", str(folder), "--page", str(page))
        assert status in (0, 1), said
        assert "Traceback" not in said
        assert "Error:" not in said, said
        assert page.is_file()


# Links, pipes and devices in the folder of a record


@pytest.mark.parametrize("name", ["about.json", "rows.jsonl"])
@pytest.mark.parametrize("kind", ["link", "dangling", "device", "pipe", "folder"])
def test_only_plain_files_of_the_folder_are_read(folder, tmp_path, name, kind):
    raw(folder, lines=b'{"step": 0, "loss": 1.0}\n')
    secret = tmp_path / "secret.json"
    secret.write_text('{"format": 1, "step": 0, "password": "hunter2"}\n')
    (folder / name).unlink()
    if kind == "pipe":
        os.mkfifo(folder / name)  # would be waited for without end
    elif kind == "folder":
        (folder / name).mkdir()
    else:
        targets = {"link": secret, "dangling": tmp_path / "nothing", "device": Path("/dev/zero")}
        (folder / name).symlink_to(targets[kind])
    with pytest.raises(RecordError) as refused:
        read(folder)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(RecordError):
        Writer(folder, {})
    assert not (tmp_path / "nothing").exists()
    assert secret.read_text() == '{"format": 1, "step": 0, "password": "hunter2"}\n'


@pytest.mark.parametrize("name", ["rows.jsonl", ".lock"])
def test_a_writer_follows_no_link(folder, tmp_path, name):
    victim = tmp_path / ".bashrc"
    folder.mkdir()
    for content in (None, "mine\n"):
        if content is not None:
            victim.write_text(content)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(victim)
        with pytest.raises(RecordError, match="leads elsewhere"):
            Writer(folder, {})
        assert victim.exists() is (content is not None)
        assert content is None or victim.read_text() == content
    assert not running(folder)


def test_what_is_said_about_a_run_replaces_a_link_and_does_not_go_through_it(folder, tmp_path):
    victim = tmp_path / "victim"
    with Writer(folder, {}) as writer:
        (folder / "about.json").unlink()
        victim.write_text("mine")
        (folder / "about.json").symlink_to(victim)
        writer.rewrite_about(plan="new")
    assert victim.read_text() == "mine"
    assert read(folder).about["plan"] == "new"


# Sizes


def test_a_huge_file_costs_no_memory(folder):
    raw(folder)
    with (folder / "about.json").open("r+b") as file:
        file.truncate(4 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(RecordError, match="larger than 1 MiB"):
            read(folder)
        assert tracemalloc.get_traced_memory()[1] < 8 * LARGEST
    finally:
        tracemalloc.stop()


def test_a_huge_line_is_one_damaged_line_and_what_is_inside_it_is_no_row(folder):
    good = b'{"step": 7, "loss": 0.5}\n'
    hidden = b" " * (LARGEST - 1) + b'{"step": 666, "loss": 0.0}\n'
    raw(folder, lines=good + b"x" * (30 * LARGEST) + b"\n" + hidden + b"y" + hidden + good)
    tracemalloc.start()
    try:
        run = read(folder)
        assert tracemalloc.get_traced_memory()[1] < 8 * LARGEST
    finally:
        tracemalloc.stop()
    assert [row["step"] for row in run.rows] == [7, 7]
    assert run.damaged == 3


def test_a_huge_line_that_has_no_end_yet_is_not_read_twice(folder):
    raw(folder, lines=b"x" * (3 * LARGEST))
    reader = Reader(folder)
    assert (reader.read().rows, reader.read().damaged) == ([], 1)
    with (folder / "rows.jsonl").open("ab") as file:
        file.write(b'\n{"step": 1, "loss": 1.0}\n')
    assert [row["step"] for row in reader.read().rows] == [1]


@pytest.mark.parametrize("depth", [100, 400, 900, 5_000, 100_000])
def test_deep_json_breaks_nothing(folder, depth):
    raw(folder, lines=b'{"step": 0, "loss": ' + b"[" * depth + b"]" * depth + b"}\n")
    assert read(folder).damaged == 1
    (folder / "about.json").write_text('{"format": 1, "a": ' + '{"a":' * depth + "1" + "}" * depth + "}")
    with contextlib.suppress(RecordError):
        assert len(facts(read(folder).about)) == 1


def test_many_rows_make_a_small_page(folder, tmp_path):
    lines = b"".join(b'{"step": %d, "loss": %d.5, "lr": 0.1}\n' % (step, step % 977) for step in range(30_000))
    raw(folder, lines=lines)
    page = atlas.watched_page(folder, tmp_path / "page")
    assert len(read(folder).rows) == 30_000
    assert page.stat().st_size < 200_000


def test_many_quantities_make_a_small_page(folder, tmp_path, secant):
    lines = json.dumps({"step": 0} | {f"q{index}": 1.0 for index in range(20_000)}).encode() + b"\n"
    raw(folder, {f"fact {index}": "x" * 40 for index in range(5_000)}, lines)
    assert len(read(folder).names) == 20_000
    assert atlas.watched_page(folder, tmp_path / "page").stat().st_size < 200_000
    assert len(secant("watch", str(folder), "--once")[1]) < 20_000


# Numbers


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 1, "loss": 1' + "0" * 400 + "}",
        '{"step": 1, "loss": 1' + "0" * 5000 + "}",
        '{"step": 1.5, "loss": 1}',
        '{"step": 9223372036854775808, "loss": 1}',
        '{"step": "0", "loss": 1}',
        '{"step": null}',
        '{"step": 0, "loss": null}',
        '{"step": 0, "loss": {"__class__": "os.system"}}',
        '{"step": 0, "loss": "1e9"}',
        '{"step": 0, "loss": NaN}',
        "[0, 1]",
        '"step"',
        "\x00\x00\x00",
    ],
    ids=lambda line: clean(line)[:30],
)
def test_a_line_that_is_no_row_is_counted_and_the_next_is_read(folder, line):
    raw(folder, lines=line.encode() + b'\n{"step": 3, "loss": 2.0}\n')
    run = read(folder)
    assert ([row["step"] for row in run.rows], run.damaged) == ([3], 1)


EXTREME = [1e308, -1e308, 1.7e308, 5e-324, 0.0, -0.0, "nan", "inf", "-inf", 1]


def test_extreme_numbers_are_shown(folder, tmp_path, secant):
    names = ("loss", "sharpness", "threshold", "batch_sharpness", "lr", "noise_scale", "batch", "share", "time", "x")
    lines = [
        json.dumps(
            {"step": step * 922337203685477580}
            | {name: EXTREME[(step + shift) % 10] for shift, name in enumerate(names)}
        )
        for step in range(10)
    ]
    raw(
        folder,
        {"plan": {"budget": 1e308, "looks": {"a": {"every": 10**30, "seconds": -1e308}}}},
        "\n".join(lines).encode(),
    )
    assert len(read(folder).rows) == 10
    assert secant("watch", str(folder), "--once")[0] == 0
    assert atlas.watched_page(folder, tmp_path / "page").is_file()
    examined(secant, folder, tmp_path)


@pytest.mark.parametrize(
    "about",
    [
        {"plan": 3},
        {"plan": {"looks": []}},
        {"plan": {"looks": {"a": None}, "budget": "x"}},
        {"framework": ["a", {"b": None}], "optimiser": {"name": {"deep": [1]}}, "parameters": "many"},
        {"budget": True, "resumed": "often", "parameters": 10**300},
        {"": "", "format ": None},
    ],
    ids=range(6),
)
def test_facts_of_any_shape_are_shown(folder, tmp_path, secant, about):
    raw(folder, about, b'{"step": 0, "loss": 1.0}\n')
    assert secant("watch", str(folder), "--once")[0] == 0
    assert atlas.watched_page(folder, tmp_path / "page").is_file()
    examined(secant, folder, tmp_path)
    with Writer(folder, {}) as writer:
        assert isinstance(writer.about["resumed"], int)


# Text


def test_no_text_of_a_record_commands_a_terminal_or_a_reader(folder, tmp_path, secant):
    lines = [{"step": 0, "loss": 1.0, ESCAPES: 2.0}, {"step": 0, "said": ESCAPES}]
    about = {"framework": ESCAPES, ESCAPES: {ESCAPES: [ESCAPES]}, "plan": {"looks": {ESCAPES: {"every": ESCAPES}}}}
    about |= {"name": ESCAPES, "optimiser": {"name": ESCAPES}, "model": ESCAPES}
    raw(folder, about, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    examined(secant, folder, tmp_path)
    shown = [command for command in ("watch", "doctor") if command in COMMANDS]
    said = [secant(command, str(folder), *(["--once"] if command == "watch" else []))[1] for command in shown]
    said.append(atlas.watched_page(folder, tmp_path / "page").read_text(encoding="utf-8"))
    raw(folder, {"format": 99, "secant": ESCAPES})
    said += [secant(command, str(folder))[1] for command in shown]
    assert sum("fake" in text for text in said) >= 3  # it is there to be read
    for text in said:
        assert "\nfake" not in text
        assert {char for char in text if char != "\n" and clean(char) not in (char, " ")} == set()


def test_a_terminal_gets_colours_of_ours_and_nothing_else(folder):
    raw(folder, {"framework": ESCAPES}, json.dumps({"step": 0, "loss": 1.0, ESCAPES: 1.0}).encode() + b"\n")
    target = io.StringIO()
    console = Console(file=target, force_terminal=True, width=80, color_system="standard")
    console.print(frame(read(folder), 80, goes_on=True))
    rest = re.sub(r"\x1b\[[0-9;]*m", "", target.getvalue())
    assert "\x1b" not in rest
    assert "\x9b" not in rest
    assert "\x1b[2J" not in target.getvalue()


@pytest.mark.parametrize(
    "name", ["..", ".", "...", "-", "a b", "a/../b", "..\\..", "\n", "x" * 300, "é", "$(reboot)", ".ssh"]
)
def test_a_page_lies_below_the_others_whatever_the_run_is_called(tmp_path, name):
    run = Run(name, name, Watched(tmp_path, {}, [], []), goes_on=False)
    place = (tmp_path / run.page).resolve()
    assert place.is_relative_to(tmp_path / "watched")
    assert place.parent.parent == tmp_path / "watched"
    assert "\n" not in run.directory


def test_a_command_to_copy_is_one_command(tmp_path):
    folder = raw(tmp_path / "run; rm -rf ~ #$(reboot)`id`")
    words = of_record(folder).command("doctor")
    assert shlex.split(words) == ["secant", "doctor", str(folder)]


def test_records_are_looked_for_in_the_store_alone(tmp_path):
    root = tmp_path / "home" / "watched"
    outside = raw(tmp_path / "outside")
    raw(root / "good")
    raw(root / "ev\x1b[2Jil")
    raw(root / "a b")
    (root / "link").symlink_to(outside)
    (root / "file").write_text("")
    half = root / "half"
    half.mkdir()
    (half / "about.json").symlink_to(outside / "about.json")
    found = [path.name for path in kept(root)]
    assert "good" in found
    assert {"link", "a b", "file", "ev\x1b[2Jil"}.isdisjoint(found)
    with pytest.raises(RecordError, match="symbolic link"):
        read(half)


# What the package never does


@pytest.fixture(scope="module")
def code():
    """Of every file what it imports, and what it calls: the name with dots, and what it is given by name."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        imports, calls = set(), []
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imports |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imports.add(node.module)
            elif isinstance(node, ast.Call):
                owner = getattr(getattr(node.func, "value", None), "id", "")
                named = getattr(node.func, "id", None) or f"{owner}.{getattr(node.func, 'attr', '')}"
                calls.append((named, {word.arg: getattr(word.value, "value", None) for word in node.keywords}))
        found.append((path, imports, calls))
    assert len(found) > 100
    return found


def test_nothing_unpickles_and_nothing_listens(code):
    forbidden = {"pickle", "cPickle", "shelve", "dill", "cloudpickle", "joblib", "socketserver", "xmlrpc"}
    forbidden |= {"http.server", "wsgiref", "socket", "imp", "code", "codeop", "pty", "telnetlib", "ftplib"}
    for path, imports, _ in code:
        assert {name for name in imports if name in forbidden or name.split(".")[0] in forbidden} == set(), path


def test_no_text_is_run_as_code(code):
    forbidden = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.getoutput"}
    forbidden |= {"runpy.run_path", "marshal.load", "marshal.loads", "yaml.load"}
    for path, _, calls in code:
        for name, given in calls:
            assert name not in forbidden, f"{path}: {name}"
            assert given.get("shell") is not True, path
            assert given.get("allow_pickle") is not True, path
            assert name != "torch.load" or given.get("weights_only") is True, path


def test_the_templates_escape_everything():
    for path in (PACKAGE / "atlas" / "templates").iterdir():
        text = path.read_text()
        assert "| safe" not in text.replace("|safe", "| safe")
        assert "autoescape false" not in text
    assert "autoescape=True" in (PACKAGE / "atlas" / "pages.py").read_text()


def test_nothing_listens_and_nothing_is_fetched(folder, tmp_path, secant, monkeypatch):
    def refuse(self, *_):
        pytest.fail("a socket was used")

    for method in ("bind", "listen", "connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, method, refuse)
    with Writer(folder, {"framework": "jax"}) as writer, Sinks("csv", folder) as sinks:
        writer.append({"step": 0, "loss": 1.0})
        sinks.write(0, {"loss": 1.0})
    assert secant("watch", str(folder), "--once")[0] == 0
    page = atlas.watched_page(folder, tmp_path / "page")
    for file in page.parent.rglob("*"):
        if file.suffix in (".html", ".css", ".js"):
            text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert "http://" not in text
            assert "https://" not in text


def test_files_of_a_record_are_not_run_and_not_for_all_to_write(folder):
    with Writer(folder, {}) as writer:
        writer.append({"step": 0, "loss": 1.0})
    for file in folder.iterdir():
        mode = stat.S_IMODE(file.stat().st_mode)
        assert not mode & (stat.S_IWOTH | stat.S_IXUSR), file


@pytest.mark.parametrize("seed", range(3))
def test_a_diagnosis_of_any_numbers_ends(seed):
    """Rows of a usual size with numbers among them that no run has, and optimisers that are none."""
    random = np.random.default_rng(seed)
    names = [name for name in COLUMNS if name != "look_seconds"]
    odd = np.array([1e308, -1e308, 5e-324, 0.0, np.nan, np.inf, -np.inf, 1.0, 30.0])
    rules = [None, "sgd", 5, {"name": "adam", "b2": 1.0}, {"name": "momentum", "beta": 1.0}, {"name": 5, "beta": "x"}]
    for length in (0, 1, 3, 12, 60):
        for share in (0.02, 0.3, 1.0):
            usual = np.exp(random.normal(0, 3, len(names)))
            rows = [
                {"step": 7 * t}
                | {
                    name: float(random.choice(odd) if random.random() < share else size * random.lognormal(0, 0.3))
                    for name, size in zip(names, usual, strict=True)
                    if random.random() < 0.8
                }
                for t in range(length)
            ]
            run = Watched(Path("run"), {"format": 1, "optimiser": rules[random.integers(len(rules))]}, rows, [])
            found = diagnose(run)
            assert json.loads(found.as_json())["verdict"] in VERDICTS
            assert "<svg" in doctor_page(run, found) or length < 2 or share > 0.5
