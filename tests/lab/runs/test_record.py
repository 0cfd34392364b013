"""A run that is not what a run should be is named and skipped, whatever is wrong with it, and no other suffers."""

import copy
import datetime
import io
import json
import os
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from secant.atlas.entries import Row
from secant.atlas.numbers import number
from secant.cli import present
from secant.lab import CorruptRunError, Store, claim
from secant.lab.runs.files import digest_of
from secant.lab.runs.record import digest_of_facts, load, sealed
from secant.lab.verdicts.finding import as_dict

KEYS = ("0123456789abcdef", "fedcba9876543210")
DATA = b"some data"


def good(key=KEYS[0]):
    finding = claim("halving", "it halves").equal(1.0, float("nan"), 0.1, "rounding", note="a note")
    erratum = {"printed": "r^{2t}", "corrected": "r^t", "printed_value": "inf", "where": "equation (3)", "by": "run"}
    return {
        "format": 2,
        "study": "demo/halving",
        "scale": "smoke",
        "config": {"rate": 0.5, "steps": 10, "starts": [1.0, 2.0], "mode": None, "nested": [[1], [2, 3]]},
        "key": key,
        "code": "0123456789abcdef",
        "precision": "float64",
        "findings": [as_dict(finding), as_dict(finding) | erratum | {"key": "power", "verdict": "erratum"}],
        "seconds": 1.5,
        "finished": "2026-01-02T03:04:05+00:00",
        "versions": {"jax": "0.10"},
        "files": {"data.nc": digest_of(DATA)},
    }


def put(store, facts, key=KEYS[0], *, written=None):
    """A run with a digest that matches, whatever its facts say."""
    directory = store.runs / "demo" / "halving" / key
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "data.nc").write_bytes(DATA)
    (directory / "run.json").write_bytes(sealed(facts) if written is None else written)
    return directory


def used(record):
    """Everything that readers of a record do with it."""
    console = Console(file=io.StringIO(), width=150)
    before, present.output = present.output, console
    try:
        present.runs([record])
        console.print(present.findings_table(record.findings))
        present.cells([{"a": "1"}], [record])
        present.verdict(record.verdict)
    finally:
        present.output = before
    for finding in record.findings:
        row = Row(finding)
        assert row.relation
        assert row.gauge is None or row.gauge.band
        assert row.is_erratum in (True, False)
        for name in ("predicted", "measured", "tolerance", "uncertainty"):
            assert number(finding[name])
    datetime.datetime.fromisoformat(record.facts["finished"]).strftime("%B %Y, %H:%M %Z")
    json.dumps(record.facts, allow_nan=False).encode()
    assert set(record.files()) == {"run.json", *record.facts["files"]}
    return console.file.getvalue()


@pytest.fixture
def beside(store):
    """A sound run, which must not suffer."""
    return put(store, good(KEYS[1]), KEYS[1])


def passed_over(store, beside, bad, what):
    with pytest.warns(RuntimeWarning, match=rf"the run in .*{KEYS[0]} is corrupt \(.*{what}.*it is skipped"):
        assert [record.directory for record in store.records()] == [beside]
    with pytest.raises(CorruptRunError):
        store.read(bad)


def test_a_sound_record_is_read_and_used(store):
    record = load(put(store, good()))
    assert record.facts["findings"][0]["measured"] == "nan"
    assert "it halves" in used(record)
    assert [found.facts for found in store.records()] == [record.facts]


def test_what_is_not_known_may_stand_beside_what_is(store):
    facts = good()
    facts["findings"][0] |= {"risk": 0.05, "colour": "red", "by": ["someone", {"deep": None}]}
    assert load(put(store, facts | {"another": [1, 2]})).findings[0]["risk"] == 0.05


@pytest.mark.parametrize("name", [name for name in good() if name != "digest"])
def test_a_missing_fact_is_named(store, beside, name):
    facts = good()
    del facts[name]
    passed_over(store, beside, put(store, facts), name)


def test_a_run_from_before_keys_is_read_and_its_findings_are_known_by_place(store):
    facts = good()
    for finding in facts["findings"]:
        del finding["key"]
    facts["findings"][1]["key"] = "power"  # a run may have been written in between
    record = load(put(store, facts))
    assert [finding["key"] for finding in record.findings] == ["finding-0", "power"]
    assert "it halves" in used(record)
    assert [found.facts for found in store.records()] == [facts | {"digest": digest_of_facts(facts)}]


@pytest.mark.parametrize("name", [name for name in good()["findings"][0] if name != "key"])
def test_a_missing_part_of_a_finding_is_named(store, beside, name):
    facts = good()
    del facts["findings"][0][name]
    passed_over(store, beside, put(store, facts), rf"findings\[0\]\.{name} is missing")


@pytest.mark.parametrize("name", ["printed", "corrected", "printed_value", "where", "by"])
def test_an_erratum_is_whole(store, beside, name):
    facts = good()
    del facts["findings"][1][name]
    passed_over(store, beside, put(store, facts), rf"findings\[1\]\.{name} is missing")


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (("format",), 1, "its format is 1, and this version reads 2"),
        (("study",), 7, "study: expected an id such as quadreg/fig-2, got 7"),
        (("study",), "demo/other", f"it is the run demo/other/{KEYS[0]}"),
        (("study",), "../../../etc", "it is the run"),
        (("key",), KEYS[1], f"it is the run demo/halving/{KEYS[1]}"),
        (("key",), "../../escaped000", "key: expected 16 hexadecimal digits"),
        (("scale",), None, "scale: expected text, got None"),
        (("scale",), "\x1b[2Jsmoke", "scale: expected text without control characters"),
        (("config",), [1], r"config: expected a mapping, got \[1\]"),
        (("config", "steps"), 10**400, "config.steps: expected a number of at most 300 digits"),
        (("precision",), "float16", "precision: expected one of float32, float64"),
        (("findings",), {"finding": 1}, "findings: expected a list"),
        (("findings",), "none", "findings: expected a list, got 'none'"),
        (("findings", 0), "holds", r"findings\[0\]: expected a mapping, got 'holds'"),
        (("findings", 0, "key"), 7, r"findings\[0\].key: expected text, got 7"),
        (("findings", 0, "verdict"), "maybe", r"findings\[0\].verdict: expected one of holds, .*got 'maybe'"),
        (("findings", 0, "verdict"), ["holds"], r"findings\[0\].verdict: expected one of"),
        (("findings", 0, "relation"), "about", r"findings\[0\].relation: expected one of equal"),
        (("findings", 0, "predicted"), "two", r"findings\[0\].predicted: expected a number"),
        (("findings", 0, "predicted"), True, r"findings\[0\].predicted: expected a number"),
        (("findings", 0, "measured"), None, r"findings\[0\].measured: expected a number"),
        (("findings", 0, "tolerance"), [1.0], r"findings\[0\].tolerance: expected a number"),
        (("findings", 0, "uncertainty"), "NaN", r"findings\[0\].uncertainty: expected a number, nan, inf or -inf"),
        (("findings", 0, "finding"), {"a": 1}, r"findings\[0\].finding: expected text"),
        (("findings", 0, "note"), None, r"findings\[0\].note: expected text"),
        (("findings", 0, "note"), "half \ud800", r"findings\[0\].note: expected text without control characters"),
        (("findings", 1, "printed_value"), "x", r"findings\[1\].printed_value: expected a number"),
        (("seconds",), "1", "seconds: expected a number of at least 0, got '1'"),
        (("seconds",), -1, "seconds: expected a number of at least 0, got -1"),
        (("finished",), "yesterday", "finished: expected a date and time with its zone"),
        (("finished",), "2026-01-02T03:04:05", "finished: expected a date and time with its zone"),
        (("finished",), 5, "finished: expected a date and time with its zone"),
        (("versions",), [], "versions: expected a mapping"),
        (("versions", "jax"), 1, "versions.jax: expected text"),
        (("files",), [], "files: expected a mapping that has data.nc"),
        (("files",), {}, "files: expected a mapping that has data.nc"),
        (("files", "data.nc"), "short", "files.data.nc: expected a SHA-256"),
    ],
)
def test_what_a_fact_should_be_is_said(store, beside, path, value, what):
    facts = good()
    inner = facts
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    passed_over(store, beside, put(store, facts), what)


def deep(levels):
    return b"[" * levels + b"]" * levels


@pytest.mark.parametrize(
    ("written", "what"),
    [
        pytest.param(b"", "Expecting value", id="nothing"),
        pytest.param(b"[]", "expected a mapping", id="a list"),
        pytest.param(deep(100_000), "nested more than 16 deep", id="deep"),
        pytest.param(b'{"a": ' + deep(100_000) + b"}", "more than 16 deep", id="deep inside"),
        pytest.param(b'{"a": ' + deep(300) + b"}", "more than 16 deep", id="less deep"),
        pytest.param(b"\xff\xfe{}", "UnicodeDecodeError", id="not utf-8"),
        pytest.param(b'{"seconds": 1e999}', "1e999 is not a number", id="too large a number"),
        pytest.param(b'{"seconds": -1e999}', "-1e999 is not a number", id="too small a number"),
        pytest.param(b'{"seconds": NaN}', "NaN is not a number", id="nan"),
        pytest.param(b'{"seconds": -Infinity}', "-Infinity is not a number", id="infinity"),
        pytest.param(b'{"seconds": ' + b"1" * 5000 + b"}", "Exceeds the limit", id="too many digits"),
    ],
)
def test_what_is_no_json_of_ours_is_said(store, beside, written, what):
    passed_over(store, beside, put(store, None, written=written), what)


def test_a_digest_that_does_not_match_is_said(store, beside):
    facts = good()
    edited = json.dumps(facts | {"digest": digest_of_facts(facts), "seconds": 2.5}).encode()
    passed_over(store, beside, put(store, None, written=edited), "its facts do not match their digests")


def test_a_huge_record_is_not_read(store, beside):
    directory = put(store, good())
    with (directory / "run.json").open("ab") as file:
        file.truncate(2**40)  # a hole, which takes no room on the disk
    passed_over(store, beside, directory, "OSError: .*larger than 32 MiB")


@pytest.mark.parametrize("name", ["run.json", "data.nc"])
@pytest.mark.parametrize(
    ("replace", "what"),
    [
        pytest.param(lambda path: path.mkdir(), "not a regular file|IsADirectory", id="directory"),
        pytest.param(lambda path: os.mkfifo(path), "not a regular file", id="pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "a symbolic link", id="link to a device"),
        pytest.param(lambda path: path.symlink_to("elsewhere"), "a symbolic link", id="link to the very same"),
        pytest.param(lambda path: path.symlink_to("nowhere"), "a symbolic link", id="link to nothing"),
    ],
)
def test_only_regular_files_are_read(store, beside, name, replace, what):
    directory = put(store, good())
    (directory / name).rename(directory / "elsewhere")
    replace(directory / name)
    passed_over(store, beside, directory, what)


@pytest.mark.parametrize(
    "name", ["../../../../outside", "/etc/hostname", "..", ".", "", "a/b", ".hidden", "run.json", "a\\b", "a\nb", "é"]
)
def test_files_lie_in_the_directory_itself(store, beside, name):
    outside = store.root / "outside"
    outside.write_bytes(DATA)
    facts = good()
    facts["files"][name] = digest_of(DATA)
    passed_over(store, beside, put(store, facts), "files: expected the names of other files of the run's directory")


def test_a_file_that_turned_into_a_link_is_not_handed_on(store):
    record = load(put(store, good()))
    (store.root / "secret").write_text("secret")
    (record.directory / "data.nc").unlink()
    (record.directory / "data.nc").symlink_to(store.root / "secret")
    with pytest.raises(CorruptRunError, match="a symbolic link"):
        record.files()


TEXT = st.text(max_size=8) | st.sampled_from(["nan", "inf", "[/x]", "[bold", "$\\frac{", "<b>", "\x1b[0m", "\ud800"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def places(value):
    """Every place in a record, from the whole to its last part."""
    yield ()
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in entries:
        yield from ((name, *rest) for rest in places(entry))


@st.composite
def mutants(draw):
    facts = copy.deepcopy(good())
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(facts))[1:]))
        inner = facts
        for step in path[:-1]:
            inner = inner[step]
        action = draw(st.sampled_from(["remove", "replace", "add"]))
        if action == "remove":
            del inner[path[-1]]
        elif action == "replace" or isinstance(inner, list):
            inner[path[-1]] = draw(VALUES)
        else:
            inner[draw(TEXT)] = draw(VALUES)
    return facts


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(mutants())
def test_whatever_is_believed_can_be_used(store, facts):
    directory = put(store, facts)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = Store(store.root).records()
    if found:
        used(found[0])
    else:
        assert str(directory) in str(said[0].message)
