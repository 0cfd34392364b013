"""The findings that do not simply hold at smoke scale, each with its reason in its note.

A claim of a source that our run does not confirm fails; one that this scale cannot decide is inconclusive.
"""

Verdicts = dict[tuple[str, str], str]
"""(id of the study, name of the finding) -> verdict."""

# The paper, section 2 and its appendix, and the lecture on catapults

QUADREG_2: Verdicts = {}

# The paper, section 3: random regression and networks at the edge of stability

QUADREG_3: Verdicts = {
    # Two values of D/P: without one of them there is no exponent.
    (
        "quadreg/settling",
        "a size left out of the fit: error of the law, over the sampling error of the medians",
    ): "inconclusive",
    # Claims about the source's own network of 5,000 samples.
    ("quadreg/fig-5", "second eigenvalue, largest over the window"): "inconclusive",
    (
        "quadreg/fig-6",
        "peak of eta^2 Q1(w, w)/(lambda1 z1), as printed, with the residuals f - y: decimal logarithm",
    ): "inconclusive",
    # 300 steps show one peak of the residual.
    ("quadreg/fig-14", "mean steps from peak to peak, network over quadratic model"): "inconclusive",
    ("quadreg/fig-14", "error of the cubic model in these steps, over that of the quadratic one"): "inconclusive",
    (
        "quadreg/fig-14",
        "error of the cubic model in the second peak over the first, over that of the quadratic one",
    ): "inconclusive",
    ("quadreg/fig-14", "second peak over the first, network over quadratic model"): "inconclusive",
}

# The thesis, chapter 2 and appendix A: transition to linearity

_CHANGE, _SHOWN = "largest change of the kernel", "exponent in the width, as the figure has it"

THESIS_2: Verdicts = {
    # Of two or three widths and a few networks: exponents whose errors are as large as what they should tell apart.
    ("thesis/fig-2.2", f"{_CHANGE}, edges left under the root: {_SHOWN}"): "inconclusive",
    ("thesis/fig-2.2", f"{_CHANGE}, edges before under the root: {_SHOWN}"): "inconclusive",
    ("thesis/sec-2.4", "change of lambda_min: exponent in the width"): "inconclusive",
}

# The thesis, chapter 3 and appendix B: quadratic models and catapults

_HIGHER = "a higher best test accuracy beyond the critical step than at all steps below: evidence in standard errors"
_SMALLER = "a smaller best test loss beyond the critical step than at all steps below: evidence in standard errors"
_FALLS = "a best test loss that falls with the step over a range beyond the critical one: evidence in standard errors"

THESIS_3: Verdicts = {
    # Ten draws of 32 or 25 training samples and 300 test samples: the differences are smaller than their errors.
    ("thesis/fig-B.5", f"Digits of 8 by 8 pixels: network: {_HIGHER}"): "inconclusive",
    ("thesis/fig-B.5", f"Digits of 8 by 8 pixels: quadratic: {_HIGHER}"): "inconclusive",
    ("thesis/fig-B.8", f"Digits of 8 by 8 pixels: network: {_HIGHER}"): "inconclusive",
    ("thesis/fig-B.8", f"Digits of 8 by 8 pixels: quadratic: {_HIGHER}"): "inconclusive",
    ("thesis/fig-B.10", f"swish: network: {_SMALLER}"): "inconclusive",
    ("thesis/fig-B.10", f"swish: network: {_FALLS}"): "inconclusive",
    ("thesis/fig-B.10", f"swish: quadratic: {_SMALLER}"): "inconclusive",
}

# The thesis, chapter 4 and appendix C: catapults in SGD and feature learning

THESIS_4: Verdicts = {
    # No rise, or too few draws to tell.
    (
        "thesis/table-4.2",
        "shallow, step 0.8: rises of the loss at steps above the critical one, percent",
    ): "inconclusive",
    (
        "thesis/table-4.2",
        "shallow, 1.5 critical: rises of the loss at steps above the critical one, percent",
    ): "inconclusive",
    ("thesis/fig-C.14", "rank 2: alignment of weights near zero against all raises, mean gain"): "inconclusive",
}

OTHERWISE = QUADREG_2 | QUADREG_3 | THESIS_2 | THESIS_3 | THESIS_4
