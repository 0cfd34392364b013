"""Pages of the documentation as the atlas carries them."""

import re
from pathlib import Path

import pytest

from secant.atlas import markdown, reading
from secant.lab import catalog
from secant.lab.plain import MATH

PAGES = {page.name: page for page in reading.shelf()}
STUDIES = {study.id: f"studies/{study.id}/index.html" for study in catalog()}


def test_formulas_code_and_tables_come_through():
    page = markdown.html(
        "# Head $x_1$\n\nText with $a_*b_*$, `$HOME` and <b>tags</b>.\n\n| a | b |\n|---|---|\n| $y$ | 2 |\n"
    )
    assert page.count("<math") == 3
    assert "<code>$HOME</code>" in page
    assert "&lt;b&gt;tags&lt;/b&gt;" in page
    assert '<div class="wide" tabindex="0"><table>' in page
    assert '<h1 id="head-x_1">' in page


def test_a_formula_of_several_lines_is_no_list():
    page = markdown.html("Then\n\n$$x = 1\n- 2\n+ 3$$\n\nfollows.")
    assert "<li>" not in page
    assert page.count("<math") == 1


def test_links_lead_where_they_lead_here_or_are_left_out():
    known = {"other.md": "other.html", "quadreg/fig-2": "studies/fig-2.html"}
    page = markdown.html(
        "[a](other.md) [b](../api/x.md) `quadreg/fig-2` `secant run quadreg/fig-2 --scale laptop` [`f`][secant.f]",
        known.get,
    )
    assert re.findall(r'<a href="([^"]*)">', page) == ["other.html", "studies/fig-2.html", "studies/fig-2.html"]
    assert " b " in page
    assert "<code>f</code>" in page


def test_a_figure_has_both_looks_and_its_caption():
    page = markdown.html(
        "<figure markdown>\n![x](../figures/a.svg#light)\n![x](../figures/a-dark.svg)\n"
        '<figcaption markdown="span">After `secant`, $x$.</figcaption>\n</figure>\n',
        narrow=lambda source: None if "dark" in source else source.replace("a.", "a-narrow."),
    )
    assert re.findall(r'class="(on-\w+)[^"]*">(?:<source [^>]*srcset="([^"]*)">)?<img src="([^"]*)"', page) == [
        ("on-light", "../figures/a-narrow.svg", "../figures/a.svg"),
        ("on-dark", "", "../figures/a-dark.svg"),
    ]
    assert "<figcaption>After <code>secant</code>, <math" in page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_documentation_loses_nothing(name):
    page = PAGES[name]
    html = str(page.html(reading.shelf(), STUDIES))
    assert page.title
    assert html.count("<h1") == 1
    assert 'class="latex"' not in html
    prose = re.sub(r"<pre.*?</pre>|<code.*?</code>|<math.*?</math>", "", html, flags=re.DOTALL)
    assert not re.search(r"\$|\]\(|\*\*|\]\[|^#|\|---", prose, re.MULTILINE), "Markdown is left over"
    text = re.sub(r"^```.*?^```|`[^`\n]+`", "", page.text, flags=re.DOTALL | re.MULTILINE)
    assert html.count("<math") >= len(MATH.findall(text))
    assert html.count("<pre") == len(re.findall(r"^```\w+", page.text, re.MULTILINE))
    assert all((Path(reading.folder()) / figure).is_file() for figure in page.figures)
