import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secant.atlas.formulas import typeset
from secant.lab import catalog

WRITTEN = re.compile(
    "p|span|code|wbr|math|mrow|mi|mn|mo|mtext|mspace|mfrac|msqrt|mroot|msub|msup|msubsup|munder|mover|munderover"
    "|mtable|mtr|mtd|mstyle|mpadded|mphantom"
)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attributes)

    def handle_data(self, data):
        self.text += data


def read(markup):
    reader = Tags()
    reader.feed(str(markup))
    reader.close()
    return reader


texts = st.text(st.sampled_from("abc <>&\"'$\\{}_^`/=-+ \n") | st.characters(codec="utf-8"), max_size=60)


@given(texts)
def test_any_text_is_escaped(text):
    for typesetter in (typeset.inline, typeset.prose, typeset.formula, typeset.statement_of, typeset.excerpt):
        assert all(WRITTEN.fullmatch(tag) for tag in read(typesetter(text)).tags)


@given(st.text(st.sampled_from("abc <>&\"'"), max_size=40))
def test_text_without_formulas_reads_as_it_was_written(text):
    assert read(typeset.inline(text)).text == text


def _prose_of(study):
    yield study.title
    yield study.statement
    yield study.section
    for name, field in study.config_type.__dataclass_fields__.items():
        yield field.metadata.get("help", name)


@pytest.mark.parametrize("study", catalog(), ids=lambda study: study.id)
def test_every_study_is_typeset_whole(study):
    for text in _prose_of(study):
        html = str(typeset.prose(text))
        assert 'class="latex"' not in html, f"cannot typeset {re.findall('latex.>(.*?)<', html)}"
        assert "$" not in read(html).text


@pytest.mark.parametrize(
    "latex",
    [
        r"\dot\theta = -\eta z Q\theta",
        r"\begin{aligned} a &= b \\ c &= d \end{aligned}",
        r"\operatorname*{arg\,max}_x \|x\|_2",
        r"\boldsymbol\theta \in \mathbb{R}^{p}",
        r"\begin{cases} 1 & x < 0 \\ 0 & \text{otherwise} \end{cases}",
        r"\lim_{t\to\infty} \mathbb{E}\!\left[\frac{1}{2}\right] \lesssim 10^{-3}",
    ],
)
def test_usual_formulas_are_translated(latex):
    assert "<code" not in typeset.formula(latex)
    assert read(typeset.formula(latex)).tags[0] == "math"


@pytest.mark.parametrize("latex", ["", "a_{", r"\nosuchcommand x", r"\frac{1}", r"a \not= b", "}{", "\\"])
def test_a_formula_that_cannot_be_translated_shows_its_source(latex):
    html = typeset.formula(latex)
    assert read(html).tags == ["code"]
    assert read(html).text == latex


def test_signs_bars_and_names_are_spaced_as_a_printer_would():
    assert 'form="prefix"' in typeset.formula("x = -1").split("=</mo>")[1]
    assert "prefix" not in typeset.formula("x - 1")
    assert typeset.formula("1 + |x|").count("postfix") == 1
    assert 'rspace="0">log' in typeset.formula(r"\log(x)")
    assert 'rspace="0.167em">log' in typeset.formula(r"\log x")
    assert "munderover" in typeset.formula(r"\sum_{k=0}^n k", display=True)


def test_a_long_formula_in_a_line_may_break_after_its_relations():
    long = typeset.formula("a+b+c+d+e+f = g+h+i+j+k+l, m")
    assert long.count("<math") == 3
    assert long.count("<wbr>") == 2
    assert typeset.formula("a = b").count("<math") == 1
    assert typeset.formula("f(a, b, c, d, e, g, h, i, j, k)").count("<math") == 1


def test_displays_paragraphs_code_and_dollars():
    html = typeset.prose("One $x$.\n\nTwo\n$$y = 1$$\nand `code`, for 5\\$.")
    assert html.count("<p>") == 2
    assert html.count('display="block"') == 1
    assert "<code>code</code>, for 5$." in html


def test_a_correction_may_be_a_formula_or_a_sentence():
    assert 'display="block"' in typeset.statement_of(r"\eta \le 2/\lambda, \quad \text{for all small steps}")
    assert "<math" not in typeset.statement_of("no condition on the step size")
    assert 'display="inline"' in typeset.statement_of("it holds for $x > 0$")


def test_sentences_begin_with_a_capital_and_symbols_do_not():
    assert typeset.sentence("next term of the series") == "Next term of the series"
    assert typeset.sentence("a count") == "A count"
    assert typeset.sentence("eta is small") == "eta is small"
    assert typeset.sentence("z is small") == "z is small"


def test_plain_text_has_formulas_in_unicode():
    assert typeset.plain(r"The edge, $2/\eta$, and $\nosuchcommand$") == r"The edge, 2/η, and \nosuchcommand"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("It adds up. And more.", "It adds up."),
        ("The sum of $0.5^k. x$ is two. It is.", "is two."),
        ("One line,\nof two. More", "of two."),
        ("The border is\n$$x = 1.$$\nand so on.", "The border is \u2026"),
        ("No end", "No end \u2026"),
    ],
)
def test_the_first_sentence_ends_at_its_point_or_at_a_formula_of_its_own(text, first):
    found = str(typeset.first_sentence(text))
    assert found.endswith(first)
    assert "more" not in found.lower()
