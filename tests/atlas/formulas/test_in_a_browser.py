"""Formulas as a browser shows them, glyph by glyph, and all formulas of the pages as MathML."""

import io
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from formula_corpus import corpus
from PIL import Image

from secant.atlas.formulas import typeset
from secant.atlas.formulas.mathml import mathml

PAGE = Path(typeset.__file__).parents[1] / "static" / "atlas.css"
CORE = {"math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup"}
CORE |= {"munder", "mover", "munderover", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom"}
PAIRS = [("(", ")"), ("[", "]"), (r"\{", r"\}"), ("|", "|"), (r"\|", r"\|"), (r"\langle", r"\rangle")]
PAIRS += [(r"\lfloor", r"\rfloor"), (r"\lceil", r"\rceil"), (r"\lvert", r"\rvert"), (r"\lVert", r"\rVert")]
SIZES = ("big", "Big", "bigg", "Bigg")
LETTERS = {
    r"\mathbb E": "\U0001d53c",
    r"\mathbb{E}": "\U0001d53c",
    r"\mathbb R": "\u211d",
    r"\mathbb P": "\u2119",
    r"\mathbb 1": "\U0001d7d9",
    r"\mathcal L": "\u2112",
    r"\mathcal{N}": "\U0001d4a9",
    r"\mathcal O": "\U0001d4aa",
    r"\mathscr{H}": "\u210b",
    r"\mathfrak g": "\U0001d524",
    r"\mathbf x": "\U0001d431",
    r"\boldsymbol\theta": "\U0001d73d",
    r"\mathsf T": "\U0001d5b3",
    r"\mathtt a": "\U0001d68a",
}
UPRIGHT = [r"\mathrm d", r"\mathrm{tr}", r"\operatorname{sign}", r"\log", r"\Gamma", r"\text{x}", r"\infty"]
RELATIONS = [r"\sim", "=", r"\le", r"\approx", r"\in", r"\to", r"\propto", r"\succeq", r"\ll", r"\lesssim", r"\ne"]
BINARY = ["+", "-", r"\pm", r"\cdot", r"\odot", r"\times", r"\otimes"]
ACCENTS = {r"\hat": "\u02c6", r"\tilde": "\u02dc", r"\bar": "\u00af", r"\dot": "\u02d9", r"\ddot": "\u00a8"}

# What a browser made of each formula: its box, and the box and picture of every glyph.
MEASURE = """() => {
  const canvas = Object.assign(document.createElement("canvas"), {width: 90, height: 90});
  const context = canvas.getContext("2d", {willReadFrequently: true});
  const picture = (text, font) => {
    context.clearRect(0, 0, 90, 90);
    context.font = font;
    context.fillText(text, 20, 60);
    return Array.from(context.getImageData(0, 0, 90, 90).data.filter((_, i) => i % 4 === 3)).join("");
  };
  const box = (element) => {
    const b = element.getBoundingClientRect();
    return {left: b.left, right: b.right, top: b.top, bottom: b.bottom, height: b.height, width: b.width};
  };
  const known = {};
  return [...document.querySelectorAll("p")].map((p) => ({
    ...box(p.querySelector("math")),
    latex: p.dataset.latex,
    leaves: [...p.querySelectorAll("mi, mn, mo, mtext")].map((e) => {
      const style = getComputedStyle(e), text = e.textContent;
      const font = `40px ${style.fontFamily}`, key = text + style.textTransform;
      // What transforms a single letter into an italic one is the style of `mi`.
      const italic = e.localName === "mi" && style.textTransform === "math-auto" && [...text].length === 1;
      known[text] ??= picture(text, font) !== picture("\\u{10ffff}".repeat([...text].length), font);
      return {...box(e), tag: e.localName, text, italic, drawn: known[text] || !text.trim()};
    }),
  }));
}"""


def display(latex):
    return "D" + latex


def constructs():
    yield from LETTERS
    yield from UPRIGHT
    yield from (
        "x",
        "f'",
        "f''",
        "x_k'",
        r"\sigma'^2",
        r"\sqrt{\frac12}",
        r"\frac{a}{b}",
        "-x",
        "a-b",
        "|1-|x||",
        "|x|",
    )
    yield from (rf"z{sign}N" if sign.isascii() and sign[0] != "\\" else rf"z{sign} N" for sign in RELATIONS)
    yield from (f"a{sign} b" for sign in BINARY)
    yield from (f"{accent} x" for accent in ACCENTS)
    yield from (r"x_1 + \cdots + x_n", r"\mathbb E\|x\|^2", r"\mathbb Eg(x)")
    for left, right in PAIRS:
        yield f"{left} x{right}"
        yield rf"\left{left}\frac12\right{right}^2"
        for size in SIZES:
            yield rf"\{size}l{left} x\{size}r{right}^2"
            yield rf"\{size}{left} x\{size}{right}_2"
    yield from map(
        display, (r"\sum_{k=0}^n x", r"\prod_{i\ne j} x", r"\lim_{t\to\infty} x", r"\int_0^1 x", r"\max_i x")
    )
    yield r"\sum_{k=0}^n x"
    yield display(r"\begin{cases} 1 & x < 0 \\ 0 & \text{otherwise} \end{cases}")
    yield display(r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}")
    yield display(r"\begin{aligned} a &= b \\ c &= d \end{aligned}")


@pytest.fixture(scope="module")
def shown(browser, tmp_path_factory):
    """Every construct, and every glyph of the corpus, on one page, measured once."""
    page = tmp_path_factory.mktemp("formulas") / "page.html"
    glyphs = sorted({letter for latex in corpus() for letter in "".join(mathml(latex)[0].itertext())})
    every = "".join(f"<p data-latex='glyph'><math><mtext>{glyph}</mtext></math></p>" for glyph in glyphs if glyph > "~")
    written = []
    for latex in dict.fromkeys(constructs()):
        html = typeset.formula(latex.removeprefix("D"), display=latex.startswith("D"))
        written.append(f'<p data-latex="{typeset.escape(latex)}">{html}</p>')
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="{PAGE.as_uri()}">'
        f'<body style="font-size: 40px">{"".join(written)}{every}',
        encoding="utf-8",
    )
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    window = context.new_page()
    window.goto(page.as_uri())
    measured = window.evaluate(MEASURE)
    context.close()
    return measured


@pytest.fixture(scope="module")
def seen(shown):
    """The measured boxes of one construct, by its LaTeX."""
    return {one["latex"]: one for one in shown}.__getitem__


def texts(one):
    return [leaf["text"] for leaf in one["leaves"]]


def leaf(one, text, place=0):
    return [found for found in one["leaves"] if found["text"] == text][place]


@pytest.mark.browser
def test_every_glyph_of_every_formula_is_in_the_fonts(shown):
    missing = {leaf["text"] for one in shown for leaf in one["leaves"] if not leaf["drawn"]}
    assert missing == set()
    assert sum(one["latex"] == "glyph" for one in shown) > 60


@pytest.mark.browser
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("left", "right"), PAIRS, ids=[left for left, _ in PAIRS])
def test_brackets_of_a_chosen_size_are_a_pair_taller_than_plain_ones(seen, left, right, size):
    plain = seen(f"{left} x{right}")["leaves"][0]
    for latex in (rf"\{size}l{left} x\{size}r{right}^2", rf"\{size}{left} x\{size}{right}_2"):
        opening, x, closing, script = seen(latex)["leaves"]
        assert opening["height"] == pytest.approx(closing["height"], abs=0.5)
        assert opening["top"] == pytest.approx(closing["top"], abs=0.5)
        assert opening["height"] > 1.04 * plain["height"]
        assert opening["top"] < x["top"]
        assert opening["bottom"] > x["bottom"]
        assert script["height"] < x["height"] or script["left"] >= closing["right"] - 1
        assert opening["right"] <= x["left"] + 1
        assert x["right"] <= closing["left"] + 1


@pytest.mark.browser
@pytest.mark.parametrize(("left", "right"), PAIRS, ids=[left for left, _ in PAIRS])
def test_each_size_of_bracket_is_taller_than_the_one_before(seen, left, right):
    heights = [seen(rf"\{size}l{left} x\{size}r{right}^2")["leaves"][0]["height"] for size in SIZES]
    assert all(high > 1.1 * low for low, high in itertools.pairwise(heights))


@pytest.mark.browser
@pytest.mark.parametrize(("left", "right"), PAIRS, ids=[left for left, _ in PAIRS])
def test_left_and_right_brackets_hold_what_is_between_them(seen, left, right):
    one = seen(rf"\left{left}\frac12\right{right}^2")
    opening, above, below, closing, _ = one["leaves"]
    assert opening["height"] == pytest.approx(closing["height"], abs=0.5)
    assert opening["top"] <= above["top"] + 4
    assert opening["bottom"] >= below["bottom"] - 4


@pytest.mark.browser
@pytest.mark.parametrize("latex", LETTERS)
def test_a_letter_of_another_alphabet_is_that_letter(seen, latex):
    (letter,) = seen(latex)["leaves"]
    assert letter["text"] == LETTERS[latex]


@pytest.mark.browser
@pytest.mark.parametrize("latex", UPRIGHT)
def test_names_and_capital_greek_stand_upright(seen, latex):
    assert not any(leaf["italic"] for leaf in seen(latex)["leaves"])
    assert seen("x")["leaves"][0]["italic"]


@pytest.mark.browser
@pytest.mark.parametrize("sign", [*RELATIONS, *BINARY])
def test_signs_between_two_terms_have_room_on_both_sides(seen, sign):
    relation = sign in RELATIONS
    name = (rf"z{sign}N" if sign == "=" else rf"z{sign} N") if relation else f"a{sign} b"
    before, operator, after = seen(name)["leaves"]
    gap = (after["left"] - before["right"] - (operator["width"] if operator["width"] < 40 else 0)) / 40
    assert after["left"] - before["right"] > 0.6 * 40 or gap > 0.1


@pytest.mark.browser
def test_a_minus_sign_is_close_to_the_only_term_that_it_has(seen):
    minus, x = seen("-x")["leaves"]
    assert x["left"] - minus["right"] < 2
    a, minus, b = seen("a-b")["leaves"]
    assert b["left"] - a["right"] > minus["width"]
    assert texts(seen("|1-|x||")) == ["|", "1", "\u2212", "|", "x", "|", "|"]
    dots = leaf(seen(r"x_1 + \cdots + x_n"), "\u22ef")
    first, second = (leaf(seen(r"x_1 + \cdots + x_n"), "+", k) for k in (0, 1))
    left, right = dots["left"] - first["right"], second["left"] - dots["right"]
    assert left == pytest.approx(right, abs=2)


@pytest.mark.browser
@pytest.mark.parametrize(("latex", "prime"), [("f'", "\u2032"), ("f''", "\u2033"), ("x_k'", "\u2032")])
def test_primes_stand_at_the_upper_right(seen, latex, prime):
    letter, mark = leaf(seen(latex), latex[0]), leaf(seen(latex), prime)
    assert mark["left"] >= letter["right"] - 4
    assert mark["top"] < letter["top"] + letter["height"] / 2
    assert mark["left"] - letter["right"] < 0.25 * 40


@pytest.mark.browser
@pytest.mark.parametrize("accent", ACCENTS)
def test_accents_stand_above_the_middle_of_their_letter(seen, accent):
    letter, mark = seen(f"{accent} x")["leaves"]
    assert mark["text"] == ACCENTS[accent]
    assert abs((mark["left"] + mark["right"]) / 2 - (letter["left"] + letter["right"]) / 2) < 0.2 * 40
    assert mark["top"] < letter["top"] + letter["height"] / 3


@pytest.fixture(scope="module")
def ink(browser):
    """Where the picture of a formula is dark: rows and columns without their margins."""
    context = browser.new_context(viewport={"width": 500, "height": 200})
    page = context.new_page()

    def ink(latex):
        css = PAGE.read_text(encoding="utf-8")
        page.set_content(f"<style>{css}</style><p style='font-size: 60px'>{typeset.formula(latex, display=True)}</p>")
        dark = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L")) < 128
        return dark[np.ix_(dark.any(1), dark.any(0))]

    yield ink
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("latex", "share"), [(r"\widehat{xyz}", 0.5), (r"\overline{xyz}", 0.95), (r"\widetilde{xy}", 0.3)]
)
def test_wide_accents_reach_over_several_letters(ink, latex, share):
    picture = ink(latex)
    mark = picture[: len(picture) // 4].any(0)
    assert mark.mean() > share
    assert (ink(r"\bar x").shape[1] - ink("x").shape[1]) < 4, "a line over one letter is no wider than the letter"


@pytest.mark.browser
def test_a_brace_below_reaches_over_all_that_it_joins(ink):
    picture = ink(r"\underbrace{x + y}_{z}")
    assert picture[len(picture) // 3 :].any(0).mean() > 0.9


@pytest.mark.browser
def test_a_double_struck_letter_looks_unlike_a_plain_one(ink):
    pictures = [ink(latex) for latex in ("E", r"\mathbb E", r"\mathcal E", r"\mathbf E", r"\mathrm E", r"\mathsf E")]
    assert len({picture.tobytes() for picture in pictures}) == 6
    assert np.array_equal(ink(r"\mathbb E"), ink(r"\mathbb{E}"))


@pytest.mark.browser
@pytest.mark.parametrize(
    ("latex", "sign", "below"),
    [
        (r"\sum_{k=0}^n x", "\u2211", "0"),
        (r"\prod_{i\ne j} x", "\u220f", "j"),
        (r"\lim_{t\to\infty} x", "lim", "\u221e"),
        (r"\max_i x", "max", "i"),
    ],
)
def test_limits_stand_below_in_displays_and_close_together(seen, latex, sign, below):
    one = seen(display(latex))
    operator, limit = leaf(one, sign), leaf(one, below)
    assert limit["top"] > operator["bottom"] - 4
    under = [part for part in one["leaves"] if part["top"] > operator["bottom"] - 4]
    gaps = [b["left"] - a["right"] for a, b in itertools.pairwise(under)]
    assert all(gap < 3 for gap in gaps), "no room around signs in limits"


@pytest.mark.browser
def test_limits_stand_beside_the_sum_in_a_line(seen):
    one = seen(r"\sum_{k=0}^n x")
    assert leaf(one, "0")["left"] >= leaf(one, "\u2211")["right"] - 2


@pytest.mark.browser
def test_cases_and_matrices_have_brackets_as_tall_as_their_rows(seen):
    brace, one, *_, otherwise = seen(display(r"\begin{cases} 1 & x < 0 \\ 0 & \text{otherwise} \end{cases}"))["leaves"]
    assert brace["top"] <= one["top"] + 2
    assert brace["bottom"] >= otherwise["bottom"] - 2
    opening, a, b, c, d, closing = seen(display(r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}"))["leaves"]
    assert opening["height"] == closing["height"]
    assert opening["top"] <= a["top"] + 4
    assert closing["bottom"] >= d["bottom"] - 4
    assert b["left"] > a["right"]
    assert c["top"] > a["bottom"] - 8
    rows = seen(display(r"\begin{aligned} a &= b \\ c &= d \end{aligned}"))
    first, second = (leaf(rows, "=", k) for k in (0, 1))
    assert first["left"] == pytest.approx(second["left"], abs=1)
    assert first["left"] - leaf(rows, "a")["right"] < 0.5 * 40


@pytest.mark.browser
def test_fractions_and_roots_have_their_parts_in_place(seen):
    a, b = seen(r"\frac{a}{b}")["leaves"]
    assert a["bottom"] <= b["top"] + 8
    assert seen(r"\sqrt{\frac12}")["height"] > 1.3 * seen("x")["height"]


def test_no_formula_of_the_pages_has_a_command_that_is_not_known():
    wrong = []
    for latex, where in corpus().items():
        html = typeset.formula(latex)
        if "<math" not in html or "merror" in html:
            wrong.append(f"{where}: {latex}")
            continue
        for piece in mathml(latex):
            shown = "".join(piece.itertext())
            letters = [
                part.get("mathvariant") for part in piece.iter() if part.get("mathvariant") not in (None, "normal")
            ]
            tags = {part.tag for part in piece.iter()} - CORE
            if "\\" in shown or tags or letters or any("\ue000" <= letter <= "\uf8ff" for letter in shown):
                wrong.append(f"{where}: {latex}: {shown} {letters} {tags}")
    assert wrong == []
    assert len(corpus()) > 1500


@pytest.mark.parametrize("latex", [r"\nosuchcommand x", r"\Bigl\nosuch x", r"\bigl", r"\mathbb", r"\left( x"])
def test_a_command_that_is_not_known_is_refused(latex):
    assert typeset.formula(latex) == typeset.Markup('<code class="latex">{}</code>').format(latex)


def test_brackets_remember_their_size_in_the_alternative_text():
    (formula,) = mathml(r"\Bigl(x\Bigr)^2")
    assert formula.get("alttext") == r"\Bigl(x\Bigr)^2"
    heights = [float(part.get("minsize").removesuffix("em")) for part in formula.iter("mo")]
    assert len(heights) == 2
    assert math.isclose(*heights)
