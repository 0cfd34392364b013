"""Findings of two states of the code: which is which by its key, and words told apart from numbers."""

import ast
import json
import re
import sys
import types
from pathlib import Path

import pytest
from bench import findings
from bench.findings import Difference, differences, partners

from secant import atlas, lab
from secant.lab.verdicts.finding import as_dict

ID = "book/def-8.1.8"


class Reworded(ast.NodeTransformer):
    """Every sentence of a claim that is put together while the study runs begins with a word more."""

    changed = 0

    def visit_Call(self, node):
        self.generic_visit(node)
        if ast.unparse(node.func) == "claim" and isinstance(node.args[1], ast.JoinedStr):
            node.args[1].values.insert(0, ast.Constant("Reworded: "))
            self.changed += 1
        return node


def reworded(study):
    """A copy of a study with other sentences, and how many of them are other."""
    rewording, path = Reworded(), Path(study.module)
    tree = ast.fix_missing_locations(rewording.visit(ast.parse(path.read_text())))
    module = types.ModuleType(study.compute.__module__)
    sys.modules[module.__name__], usual = module, sys.modules[module.__name__]
    try:
        exec(compile(tree, path, "exec"), vars(module))
    finally:
        sys.modules[module.__name__] = usual
    return module.run, rewording.changed


def test_another_sentence_changes_no_key_no_anchor_and_no_number(tmp_path):
    found, anchors = [], []
    study = lab.get(ID)
    copy, changed = reworded(study)
    assert changed > 0
    for place, one in enumerate((study, copy)):
        one = lab.Study(**vars(one) | {"_figure": None})
        config, store = one.config("smoke"), lab.Store(tmp_path / f"store-{place}")
        record = lab.run(one, scale="smoke", store=store, figure=False)
        found.append({ID: [as_dict(finding) for finding in one.judge(record.data(), config)]})
        page = atlas.build(tmp_path / f"pages-{place}", store, studies=[one]).parent / "studies" / ID / "index.html"
        anchors.append(re.findall(r'id="(finding-[^"]*)"', page.read_text()))
    (before, after), (old, new) = found, anchors
    assert sum(a["finding"] != b["finding"] for a, b in zip(before[ID], after[ID], strict=True)) >= changed
    assert [finding["key"] for finding in before[ID]] == [finding["key"] for finding in after[ID]]
    assert old == new == [f"finding-{finding['key']}" for finding in before[ID]]
    assert all(difference.word for difference in differences(before, after))
    assert {difference.text.split(": ")[2] for difference in differences(before, after)} == {"finding"}


def finding(key, measured=1.0, /, **more):
    return {"key": key, "finding": f"the {key}", "measured": measured, "verdict": "holds"} | more


def keyless(one):
    return {name: value for name, value in one.items() if name != "key"}


def test_partners_are_found_by_key_in_any_order_then_by_place():
    a, b, c, d = (finding(name) for name in "abcd")
    assert partners([a, b, c], [c, a, b]) == [(a, a), (b, b), (c, c)]
    assert partners([a, b, c], [c, d, a]) == [(a, a), (c, c), (b, d)]
    assert partners([a], [a, b]) == [(a, a), (None, b)]
    assert partners([a, b], [b]) == [(b, b), (a, None)]
    old = [keyless(a), keyless(b)]
    assert partners(old, [a, b]) == list(zip(old, [a, b], strict=True))
    assert partners([a, b], old) == list(zip([a, b], old, strict=True))


def test_an_inserted_finding_hides_no_change_of_another():
    before, after = [finding("a"), finding("b", 2.0)], [finding("new"), finding("a"), finding("b", 2.5)]
    texts = [difference.text for difference in differences({"x/y": before}, {"x/y": after})]
    assert texts == ["x/y: b: measured: 2.0 -> 2.5", "x/y: the new: only in one of the two"]


@pytest.mark.parametrize("field", findings.WORDS)
def test_words_are_told_apart_from_numbers(field):
    before, after = finding("a", **{field: "old"}), finding("a", **{field: "new"})
    (found,) = differences({"x/y": [before]}, {"x/y": [after]})
    assert found.word
    assert found.text.endswith(f"{field}: 'old' -> 'new'")


@pytest.mark.parametrize(
    ("field", "old", "new"),
    [("measured", 1.0, 1.0 + 2**-52), ("measured", 0.0, -0.0), ("verdict", "holds", "fails"), ("by", "run", None)],
)
def test_a_number_or_a_verdict_counts_to_the_bit(field, old, new):
    before, after = (finding("a", **{field: value}) for value in (old, new))
    assert differences({"x/y": [before]}, {"x/y": [after]}) == [
        Difference(f"x/y: a: {field}: {old!r} -> {new!r}", False)
    ]


def test_a_study_that_is_gone_or_stops_counts():
    whole = {"x/y": [finding("a")]}
    assert differences(whole, {}) == [Difference("x/y: only in one of the two", False)]
    assert differences(whole, {"x/y": "ValueError: no"}) == [Difference("x/y: stopped: ValueError: no", False)]
    assert differences(whole, whole) == []


@pytest.mark.parametrize(
    ("after", "flags", "status", "said"),
    [
        (finding("a"), [], 0, "0 numbers and 0 words"),
        (finding("a", finding="reworded"), [], 0, "0 numbers and 1 words"),
        (finding("a", finding="reworded"), ["--words"], 1, "x/y: a: finding: 'the a' -> 'reworded'"),
        (finding("a", 2.0), [], 1, "x/y: a: measured: 1.0 -> 2.0"),
    ],
)
def test_the_exit_status_tells_whether_a_number_differs_or_a_word_if_asked(
    tmp_path, monkeypatch, capsys, after, flags, status, said
):
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    for path, one in zip(paths, (finding("a"), after), strict=True):
        path.write_text(json.dumps({"x/y": [one]}))
    monkeypatch.setattr(sys, "argv", ["findings", "compare", *map(str, paths), *flags])
    assert findings.main() == status
    assert said in capsys.readouterr().out


@pytest.mark.slow
def test_what_a_state_finds_is_written_and_is_the_same_as_itself(tmp_path):
    source = Path(lab.__file__).parents[2]
    findings.write(tmp_path / "now.json", source, [ID])
    now = json.loads((tmp_path / "now.json").read_text())
    study = lab.get(ID)
    config = study.config("smoke")
    assert {ID: [finding["key"] for finding in now[ID]]} == {ID: [f.key for f in study.judge(study(config), config)]}
    assert differences(now, now) == []
