import html
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from secant import atlas, lab
from secant.atlas import reading
from secant.atlas.entries import Entry, Row
from secant.atlas.listing import with_shared
from secant.lab import Store
from secant.lab.drawing.figures import FIGURE_FILES
from secant.lab.verdicts.finding import as_dict


def text_of(page: Path) -> str:
    return re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))


def test_the_index_tells_every_study_and_its_verdicts(pages):
    index = text_of(pages / "index.html")
    for id in ("series/sum", "series/thm-1.3", "limits/thm-1"):
        assert f"<code>{id}</code>" in index
    assert "2 of 3 studies have been run" in index
    assert "secant run limits/thm-1" in index
    assert (
        index.index("<code>series/thm-1.3</code>")
        < index.index("Not run yet")
        < index.index("<code>limits/thm-1</code>")
    )
    assert index.count(">new</span>") == 1
    assert "First steps to" in index
    assert re.search(r"holds <b>4</b>", index)
    assert "not run <b>1</b>" in index


def test_the_page_of_a_study_has_its_numbers_and_its_files(pages, demo, store):
    directory = pages / "studies" / "series" / "sum"
    page = text_of(directory / "index.html")
    assert "secant run series/sum --scale smoke" in page
    for shown in (
        "2.5 × 10<sup>−7</sup>",
        "±&nbsp;10<sup>−7</sup>",
        "≤",
        "∞",
        "Above 0 and at most 1",
        "It is meant to fail",
    ):
        assert shown in page
    for verdict in ("holds", "fails", "erratum", "inconclusive"):
        assert f'class="chip v-{verdict}"' in page
    record = lab.run(demo[0], scale="smoke", store=store)
    assert json.loads((directory / "run.json").read_text()) == record.facts
    xr.testing.assert_identical(xr.load_dataset(directory / "data.nc"), record.data())
    for name in FIGURE_FILES:
        assert (directory / name).read_bytes() == (record.directory / name).read_bytes()


def test_the_page_of_a_study_leads_to_its_code_and_its_neighbours(pages, demo):
    page = text_of(pages / "studies" / "series" / "sum" / "index.html")
    line = demo[0].compute.__code__.co_firstlineno
    assert f'href="../../../studies/series/sum/code.html#L{line}"' in page
    same = page.split("In the same section")
    assert len(same) == 1, "section 1.2 has one study"
    assert 'rel="next" href="../../../studies/series/thm-1.3/index.html"' in page
    code = (pages / "studies" / "series" / "sum" / "code.html").read_text(encoding="utf-8")
    lines = Path(demo[0].module).read_text(encoding="utf-8").splitlines()
    assert code.count('<span class="line"') == len(lines)
    shown = re.search(rf'id="L{line}">.*?</a>(.*)', code)[1]
    assert html.unescape(re.sub("<[^>]*>", "", shown)) == lines[line - 1]


@pytest.mark.parametrize("id", [study.id for study in lab.catalog()])
def test_every_study_has_its_theory_and_its_code(id):
    entry = Entry(study=lab.get(id), shown=None, scale="laptop")
    assert entry.reading, f"{id} is on no page of docs/theory: name it where its result is explained"
    assert entry.listing.name.startswith("src/secant/studies/")
    assert all(one.name.startswith("src/secant/studies/shared/") for one in entry.listing.shared)


def test_the_code_of_a_study_leads_to_what_it_shares_with_others():
    entry = Entry(study=lab.get("quadreg/fig-5"), shown=None, scale="laptop")
    (shared,) = entry.listing.shared
    assert (shared.name, shared.page) == (
        "src/secant/studies/shared/edge/approach.py",
        "code/studies/shared/edge/approach.html",
    )
    assert shared in with_shared([entry.listing])


def test_studies_of_one_section_know_each_other():
    entries = [Entry(study=study, shown=None, scale="laptop") for study in lab.catalog()]
    by_id = {entry.study.id: entry for entry in entries}
    beside = {entry.study.id for entry in by_id["thesis/thm-3.3.1"].beside(entries)}
    assert {"thesis/max-step", "thesis/lem-3.3.2", "thesis/sec-3.3"} <= beside
    assert not beside & {"thesis/thm-3.3.1", "thesis/fig-3.1", "quadreg/sec-3.3"}


def test_findings_of_a_run_from_before_keys_are_linked_by_their_place(tmp_path, demo, monkeypatch):
    def told(finding):
        return {name: value for name, value in as_dict(finding).items() if name != "key"}

    monkeypatch.setattr("secant.lab.sweeping.execute.as_dict", told)
    store = Store(tmp_path / "store")
    undrawn = lab.Study(**{**vars(demo[1]), "_figure": None})
    record = lab.run(undrawn, scale="smoke", store=store, figure=False)
    assert all("key" not in finding for finding in json.loads((record.directory / "run.json").read_text())["findings"])
    assert [found.directory for found in store.records()] == [record.directory]
    index = atlas.build(tmp_path / "pages", store, studies=[undrawn])
    page = text_of(index.parent / "studies" / "series" / "thm-1.3" / "index.html")
    anchors = [f"finding-{place}" for place in range(5)]
    assert re.findall(r'<tr role="row" id="([^"]*)"', page) == [f"finding-{anchor}" for anchor in anchors]
    assert all(f'href="#finding-{anchor}"' in page for anchor in anchors)


def test_a_finding_is_linked_by_its_key(pages):
    keys = ["sum", "bound", "noisy", "blows-up", "closed-form"]
    page = text_of(pages / "studies" / "series" / "sum" / "index.html")
    assert re.findall(r'<tr role="row" id="([^"]*)"', page) == [f"finding-{key}" for key in keys]


def test_who_decided_and_how_often_by_mistake_is_told_where_it_is_known(tmp_path, demo, monkeypatch):
    def told(finding):
        extra = {"the closed form": {"by": "derivation"}, "a bound": {"by": "run", "risk": 0.001}}
        return as_dict(finding) | extra.get(finding.name, {})

    monkeypatch.setattr("secant.lab.sweeping.execute.as_dict", told)
    store = Store(tmp_path / "store")
    undrawn = lab.Study(**{**vars(demo[1]), "_figure": None})
    lab.run(undrawn, scale="smoke", store=store, figure=False)
    monkeypatch.setattr(
        "secant.atlas.reading.shelf", lambda: (reading.Page(reading.VERDICTS, "# What a verdict means"),)
    )
    index = atlas.build(tmp_path / "pages", store, studies=[undrawn])
    page = text_of(index.parent / "studies" / "series" / "thm-1.3" / "index.html")
    rows = {
        name: row
        for row in page.split("<tr role")[2:]
        for name in ("A bound", "The closed form", "A noisy number")
        if name in row
    }
    assert "at most 1 in 1,000" in rows["A bound"]
    assert "by derivation alone" in rows["The closed form"]
    assert "by derivation alone" not in rows["A bound"]
    assert "at most 1 in 1,000" in rows["A noisy number"]
    for one in (page, text_of(index.parent / "errata.html")):
        assert re.search(r'href="[./]*docs/guide/studies/verdicts.html">What a verdict means', one)
    assert "by derivation alone" in text_of(index.parent / "errata.html")


def test_nothing_of_a_study_reaches_the_page_as_markup(pages):
    for page in pages.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<script>alert" not in text
        assert "<b>tags</b>" not in text
        assert "<i>odd</i>" not in text
        assert 'class="latex"' not in text


def test_the_errata_have_both_formulas_and_the_numbers_that_decide(pages):
    page = text_of(pages / "errata.html")
    assert page.count(">Printed</h4>") == 2
    assert "Equation (3)" in page
    assert "0.666667" in page
    assert "The sign of" in page


def test_a_study_without_a_run_says_how_to_run_it(pages):
    page = text_of(pages / "studies" / "limits" / "thm-1" / "index.html")
    assert "Not run yet" in page
    assert "secant run limits/thm-1 --scale laptop" in page
    assert "how many steps".capitalize() in page


def test_every_address_on_the_pages_is_a_file_beside_them(pages):
    for page in pages.rglob("*.html"):
        for address in re.findall(r'(?:href|src)="([^"]*)"', page.read_text(encoding="utf-8")):
            path, _, anchor = address.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), f"{page}: {address}"
            assert target.is_relative_to(pages.resolve())
            if anchor:
                assert f'id="{anchor}"' in target.read_text(encoding="utf-8")


def test_figures_that_cannot_be_drawn_cost_only_themselves(tmp_path, demo):
    broken = lab.Study(**{**vars(demo[0]), "_figure": lambda *_: 1 / 0})
    store = Store(tmp_path / "store")
    lab.run(broken, scale="smoke", store=store, figure=False)
    with pytest.warns(RuntimeWarning, match="figure cannot be drawn"):
        index = atlas.build(tmp_path / "pages", store, studies=[broken])
    assert "could not be drawn" in (index.parent / "studies/series/sum/index.html").read_text(encoding="utf-8")


def test_a_store_that_cannot_be_written_still_gives_pages(tmp_path, demo, monkeypatch):
    store = Store(tmp_path / "store")
    lab.run(demo[0], scale="smoke", store=store, figure=False)

    def refuse(*_, **__):
        raise lab.StoreError("read only")

    monkeypatch.setattr("secant.atlas.pages.draw", refuse)
    index = atlas.build(tmp_path / "pages", store, studies=demo[:1])
    assert (index.parent / "studies/series/sum/figure.svg").stat().st_size > 1000


def test_building_again_forgets_what_is_gone(tmp_path, demo, store):
    target = tmp_path / "pages"
    atlas.build(target, store, studies=demo)
    index = atlas.build(target, store, studies=demo[:1])
    assert index == target / "index.html"
    assert not (target / "studies" / "limits").exists()


def test_an_interrupted_build_leaves_the_old_pages(tmp_path, demo, store, monkeypatch):
    target = tmp_path / "pages"
    before = atlas.build(target, store, studies=demo).read_bytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("secant.atlas.pages._write_pages", interrupt)
    with pytest.raises(KeyboardInterrupt):
        atlas.build(target, store, studies=demo[:1])
    assert (target / "index.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]


def test_a_foreign_directory_is_refused(tmp_path, demo, store):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FileExistsError, match="not an atlas"):
        atlas.build(tmp_path, store, studies=demo)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_unknown_scale_is_refused(tmp_path, store):
    with pytest.raises(ValueError, match="smoke, laptop, paper"):
        atlas.build(tmp_path / "pages", store, scale="huge")


def test_no_studies_make_pages_too(tmp_path, store):
    assert "no studies yet" in text_of(atlas.build(tmp_path / "pages", store, studies=[]))


def test_the_pages_of_all_studies_build_without_any_run(tmp_path):
    index = atlas.build(tmp_path / "pages", Store(tmp_path / "nothing"))
    assert len(list((index.parent / "studies").rglob("index.html"))) == len(lab.catalog())
    shutil.rmtree(index.parent)


@pytest.mark.parametrize(
    ("measured", "tolerance", "dot"),
    [(1.0, 0.0, 0.5), (1.25, 0.25, 0.75), (0.75, 0.25, 0.25), (5.0, 0.1, 1.0), (0.5, 0.0, 0.0)],
)
def test_the_gauge_shows_the_difference_in_units_of_the_tolerance(measured, tolerance, dot):
    row = Row(as_dict(lab.claim("x", "x").equal(1.0, measured, tolerance, "test")))
    assert np.isclose(row.gauge.dot, dot)
    assert (row.facts["verdict"] == "holds") == (row.gauge.band[0] <= row.gauge.dot <= row.gauge.band[1])
