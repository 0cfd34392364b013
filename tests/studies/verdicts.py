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

THESIS_2: Verdicts = {}

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

THESIS_4: Verdicts = {}

OTHERWISE = QUADREG_2 | QUADREG_3 | THESIS_2 | THESIS_3 | THESIS_4
