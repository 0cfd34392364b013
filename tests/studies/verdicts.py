"""The findings that do not simply hold at smoke scale, each with its reason in its note.

A claim of a source that our run does not confirm fails; one that this scale cannot decide is inconclusive.
"""

Verdicts = dict[tuple[str, str], str]
"""(id of the study, name of the finding) -> verdict."""

# The paper, section 2 and its appendix, and the lecture on catapults

QUADREG_2: Verdicts = {}

# The paper, section 3: random regression and networks at the edge of stability

QUADREG_3: Verdicts = {}

# The thesis, chapter 2 and appendix A: transition to linearity

THESIS_2: Verdicts = {
    # Of two or three widths and a few networks: exponents whose errors are as large as what they should tell apart.
    (
        "thesis/fig-2.2",
        "largest change of the kernel, edges left under the root: exponent in the width is at least that of the "
        "tangent hierarchy",
    ): "inconclusive",
    ("thesis/eq-3.4", "relu, on training inputs: exponent of network - quadratic in the width"): "inconclusive",
    ("thesis/eq-3.4", "tanh: exponent of the distance from the start in the width"): "inconclusive",
    ("thesis/eq-3.4", "relu: exponent of the distance from the start in the width"): "inconclusive",
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

UNSETTLED = {
    "quadreg/fig-7": "steps too few to reach the edge",
    "quadreg/fig-8": "single values on an axis",
    "quadreg/fig-13": "steps too few to reach the edge",
    "quadreg/fig-14": "steps too few to reach the edge",
    "quadreg/app-A.1": "options at the rim of their ranges",
    "quadreg/sec-2.1": "options at the rim of their ranges",
    "quadreg/optimisers": "options at the rim of their ranges",
    "quadreg/settling": "options at the rim of their ranges",
    "thesis/fig-2.2": "options at the rim of their ranges",
    "thesis/fig-3.2a": "options at the rim of their ranges",
    "thesis/fig-B.4b": "options at the rim of their ranges",
    "thesis/fig-B.5": "options at the rim of their ranges",
    "thesis/fig-B.10": "options at the rim of their ranges",
    "thesis/thm-B.3.1": "options at the rim of their ranges",
}
"""Studies that still break down with some options, and which; the list is to become empty."""

WAVERING = {
    "thesis/cor-2.3.7": "gradient descent ends too early for some of the networks",
    "thesis/fig-2.2": "two widths give no exponent that could be told from its half",
    "thesis/fig-B.10": "ten draws of 25 samples are too few for swish",
}
"""Studies of which more is inconclusive at smoke scale than is listed, and why; the list is to become empty."""

OTHERWISE = QUADREG_2 | QUADREG_3 | THESIS_2 | THESIS_3 | THESIS_4
