"""Findings on the pages: risks where there are any, reasons that stand once, and mathematics as formulas."""

import html
import json
import re

import pytest

from secant import atlas, lab
from secant.atlas.formulas import typeset
from secant.atlas.formulas.spelled import latex
from secant.atlas.runs import rebuild
from secant.cli import present
from secant.lab import Estimate, Store, claim
from secant.lab.verdicts.finding import as_dict

SHARED = r"the next term, of the order eta lambda, or $\epsilon^2$"


def judge(data, config):
    for k in range(3):
        term = claim(f"term-{k}", rf"term {k} at $\eta\lambda_0 = {k}$")
        yield term.equal(2.0, 2.0, 0.1, SHARED, note="m lambda_0")
    yield claim("noisy", "a noisy sum").equal(2.0, Estimate(2.0, 0.01), 0.1, "sampling")
    yield claim("rate", "a rate of sqrt(m)").equal(2.0, 2.0, 0.2, "once only", note="settles at 2/eta")
    yield claim("run", "no run").undecided(1.0, "nothing came of it")


@pytest.fixture(scope="module")
def directory(tmp_path_factory, demo):
    """The folder of the page of a study with such findings, its run beside it."""
    one = lab.Study(**{**vars(demo[1]), "_findings": judge, "_figure": None})
    store = Store(tmp_path_factory.mktemp("findings"))
    lab.run(one, scale="smoke", store=store, figure=False)
    index = atlas.build(tmp_path_factory.mktemp("pages") / "atlas", store, studies=[one])
    return index.parent / "studies" / "series" / "thm-1.3"


@pytest.fixture(scope="module")
def page(directory):
    return re.sub(r"\s+", " ", (directory / "index.html").read_text(encoding="utf-8"))


def rows(page):
    return re.findall(r'<tr role="row" id="finding-.*?</tr>', page)


def words(markup):
    return html.unescape(re.sub("<[^>]*>", "", str(markup)))


def test_a_risk_is_shown_only_where_there_is_one(page):
    assert "never" not in words(page)
    told = [row for row in rows(page) if "Risk that a true claim fails" in row]
    assert len(told) == page.count("Risk that a true claim fails") == 1
    assert "A noisy sum" in words(told[0])
    assert "at most 1 in 1,000" in told[0]


def test_a_reason_that_several_findings_share_stands_once_as_a_footnote(page):
    assert words(page).count("The next term, of the order") == 1
    assert words(page).count("Once only") == 1, "a reason of one finding stands beside it"
    (note,) = re.findall(r'<li id="note-a">.*?</li>', page)
    assert "The next term" in words(note)
    marked = [row for row in rows(page) if 'href="#note-a"' in row]
    assert len(marked) == 3
    back = re.findall(r'href="#(reference-[^"]*)" role="doc-backlink" aria-label="([^"]*)"', note)
    assert [label for _, label in back] == [f"Back to the finding: term {k} at ηλ₀ = {k}" for k in range(3)]
    for row, (target, _) in zip(marked, back, strict=True):
        assert f'id="{target}"' in row
        assert re.search(
            r'<sup[^>]*><a href="#note-a"[^>]* role="doc-noteref" aria-label="Note a: [^"]+">a</a></sup>', row
        )
        assert "The next term" not in row
    assert re.search(r'<section class="footnotes" role="doc-endnotes" aria-label="[^"]+">', page)


def test_a_reason_that_is_the_note_stands_once(page):
    assert words(page).count("Nothing came of it") == 1


@pytest.mark.browser
def test_a_footnote_leads_there_and_back(directory, window):
    page = window()
    page.goto((directory / "index.html").as_uri())
    mark = page.locator("[role='doc-noteref']").nth(1)
    assert mark.inner_text() == "a"
    mark.click()
    assert page.locator("#note-a").evaluate("note => note.matches(':target')")
    page.locator("[role='doc-backlink']").nth(1).click()
    assert mark.evaluate("mark => mark.matches(':target')")
    top, plain = (page.locator(one).first.bounding_box() for one in (".reference a", ".tolerance .size"))
    assert top["height"] < plain["height"], "the mark is raised and small"


def test_names_notes_and_reasons_are_typeset(page):
    first = rows(page)[0]
    assert first.count("<math") == 2, "in its name and in its note"
    for spelled in ("eta lambda", "lambda_0", "sqrt(m)", "2/eta", "$"):
        assert spelled not in words(page).replace("aria", "")
    assert 'alttext="\\sqrt{m}"' in page
    assert 'alttext="2/\\eta"' in page
    assert 'alttext="\\eta \\lambda"' in page


def test_a_terminal_shows_the_same_as_a_line_of_text(capsys):
    found = [as_dict(one) for one in judge(None, None)]
    found[0] |= {"verdict": "fails", "note": r"it is $\sqrt m$, below $\epsilon^2$"}
    present.output.print(present.findings_table(found))
    present.summary([{"study": "a/b", **found[0]}], 1.0)
    said = capsys.readouterr().out
    assert "term 0 at ηλ₀ = 0" in said
    assert "a/b: term 0 at ηλ₀ = 0" in said
    assert "it is √m, below ε²" in said
    assert "$" not in said
    assert "\\" not in said


def test_what_a_program_reads_keeps_the_source(directory):
    facts = json.loads((directory / "run.json").read_text())
    assert facts["findings"][0]["finding"] == r"term 0 at $\eta\lambda_0 = 0$"
    assert facts["findings"][0]["why"] == SHARED


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("m lambda_0", r"$m \lambda_{0}$"),
        ("the order eta lambda", r"the order $\eta \lambda$"),
        ("over sqrt(m), at last", r"over $\sqrt{m}$, at last"),
        ("below 2/eta", r"below $2/\eta$"),
        ("epsilon^2", r"$\epsilon^{2}$"),
        ("exactly -1/2, from (-1, 2)", "exactly \u22121/2, from (\u22121, 2)"),
        ("log m / sqrt m from the edge", r"$\log m/\sqrt{m}$ from the edge"),
        ("(1 - eta lambda_max)^t steps", r"$(1 - \eta \lambda_{\max})^t$ steps"),
        ("order O(eps), eta = 0.5", r"order O($\epsilon$), $\eta = 0.5$"),
    ],
)
def test_mathematics_spelled_in_letters_is_read(text, read):
    assert latex(text) == read
    assert 'class="latex"' not in typeset.of_finding(text)


@pytest.mark.parametrize(
    "text",
    [
        "the option eta_lambda, or --eta",
        "`eta` in code",
        r"$\eta$ between dollars, $eta$ too",
        "a share of 1/2 of runs, width 100",
        "A I a, f - y, d = 5",
        "an eps-second-order point",
        "(M beta/T)^1/2".replace("beta", "b"),
        "f_t+1",
        "the theta-function, beta's",
        "sqrt(margin/largest)",
        "alphabet, metal, spine, chip, phishing",
    ],
)
def test_what_may_be_something_else_stays(text):
    assert latex(text) == text


def test_every_spelled_formula_of_the_studies_can_be_typeset():
    from formula_corpus import corpus_of_claims

    read = [latex(text) for text in corpus_of_claims()]
    assert sum("$" in text for text in read) > 100
    assert [text for text in read if 'class="latex"' in typeset.of_finding(text)] == []


def test_the_index_has_the_commands_that_run_a_study_and_build_the_pages(tmp_path, demo, monkeypatch):
    monkeypatch.setenv("SECANT_HOME", str(tmp_path / "home"))
    store = Store(tmp_path / "home")
    lab.run(demo[1], scale="smoke", store=store, figure=False)
    index = atlas.build(tmp_path / "home" / "atlas", store, studies=demo)
    page = index.read_text(encoding="utf-8")
    assert re.findall(r'data-copy="([^"]*)"', page) == ["secant run series/sum", "secant atlas --open"]
    waiting = (index.parent / "studies" / "limits" / "thm-1" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'data-copy="([^"]*)"', waiting) == [
        "secant run limits/thm-1 --scale laptop",
        "secant atlas --open",
    ]


def test_the_command_that_builds_pages_elsewhere_says_where(tmp_path, monkeypatch):
    monkeypatch.setenv("SECANT_HOME", str(tmp_path))
    assert rebuild("my pages", "smoke") == "secant atlas --output 'my pages' --scale smoke --open"
    assert rebuild(tmp_path / "atlas", None) == "secant atlas --open"
