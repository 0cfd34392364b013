import pytest

from secant import lab
from secant.lab.plain import MATH, formula, plain


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\eta\lambda_1 \le 2 - \tfrac12\epsilon^2", "ηλ₁ ≤ 2 − 1/2 ε²"),
        (r"\log m / \sqrt m", "log m/√m"),
        (r"\delta^2", "δ²"),
        (r"\eta\lambda", "ηλ"),
        (r"2^{-19}", "2⁻¹⁹"),
        (r"\frac{1}{1-r}", "1/(1 − r)"),
        (r"f(x) = \left(\frac{a+b}{c}\right)^2", "f(x) = ((a + b)/c)²"),
        (r"\sum_{k=0}^\infty r^k", "∑ₖ₌₀^∞ r^k"),
        (r"\lambda_{\max}(K)", "λ_max(K)"),
        (r"\eta_{\mathrm{crit}}", "η_crit"),
        (r"\theta^\top Q\theta - E", "θᵀQθ − E"),
        (r"e^{-4\tilde z_0^2/\epsilon}", "e^(−4z̃₀²/ε)"),
        (r"m^{-1/2}", "m^(−1/2)"),
        (r"\|H\| \le \sum_k \|H_k\|", "‖H‖ ≤ ∑ₖ‖Hₖ‖"),
        (r"p_1^\top R_K\,p_1", "p₁ᵀ R_K p₁"),
        (r"\mathbb{R}^n \to \mathbb{R}", "ℝⁿ → ℝ"),
        (r"-1 < x,\, y", "−1 < x, y"),
    ],
)
def test_a_formula_reads_as_one_would_type_it(latex, text):
    assert formula(latex) == text


def test_the_text_around_formulas_stays_as_it_is():
    assert plain("a  line with $x^2$,\nand `code` for \\$5") == "a  line with x²,\nand `code` for $5"
    assert plain("no formula at all: 3 < 4, 50 %") == "no formula at all: 3 < 4, 50 %"


@pytest.mark.parametrize("latex", [r"x_{", r"\frac{1}", r"}", r"\nosuchcommand"])
def test_what_cannot_be_read_stays_as_it_is_written(latex):
    assert formula(latex) == latex


def test_the_formulas_of_every_statement_can_be_read_in_a_terminal():
    formulas = [m["display"] or m["inline"] for study in lab.catalog() for m in MATH.finditer(study.statement)]
    assert len(formulas) > 200
    assert [latex for latex in formulas if "\\" in formula(latex)] == []
