"""The findings that do not simply hold at smoke scale, each with its reason in its note.

A claim of a source that our run does not confirm fails; one that this scale cannot decide is inconclusive.
"""

Verdicts = dict[tuple[str, str], str]
"""(id of the study, key of the finding) -> verdict."""

# The paper, section 3: random regression and networks at the edge of stability

QUADREG_3: Verdicts = {
    # Four draws, and two values of D/P: without one of them there is no exponent.
    ("quadreg/settling", "slope"): "inconclusive",
    ("quadreg/settling", "error-sampling"): "inconclusive",
    ("quadreg/settling", "error-power"): "inconclusive",
    ("quadreg/settling", "error-both"): "inconclusive",
    ("quadreg/settling", "left-out"): "inconclusive",
    # Claims about the source's own network of 5,000 samples.
    ("quadreg/fig-5", "second-eigenvalue"): "inconclusive",
    ("quadreg/fig-6", "nonlinear-peak"): "inconclusive",
    # 300 steps show one peak of the residual.
    ("quadreg/fig-14", "period"): "inconclusive",
    ("quadreg/fig-14", "period-cubic"): "inconclusive",
    ("quadreg/fig-14", "damping-cubic"): "inconclusive",
    ("quadreg/fig-14", "damping"): "inconclusive",
}

# The thesis, chapter 2 and appendix A: transition to linearity

THESIS_2: Verdicts = {
    # Of two or three widths and a few networks: exponents whose errors are as large as what they should tell apart.
    ("thesis/fig-2.2", "new-figure"): "inconclusive",
    ("thesis/fig-2.2", "original-figure"): "inconclusive",
    ("thesis/sec-2.4", "change-exponent"): "inconclusive",
}

# The thesis, chapter 3 and appendix B: quadratic models and catapults

THESIS_3: Verdicts = {
    # Ten draws of 32 or 25 training samples and 300 test samples: the differences are smaller than their errors.
    ("thesis/fig-B.5", "digits-gain-network"): "inconclusive",
    ("thesis/fig-B.5", "digits-gain-quadratic"): "inconclusive",
    ("thesis/fig-B.8", "digits-gain-network"): "inconclusive",
    ("thesis/fig-B.8", "digits-gain-quadratic"): "inconclusive",
    ("thesis/fig-B.10", "swish-gain-network"): "inconclusive",
    ("thesis/fig-B.10", "swish-falls-network"): "inconclusive",
    ("thesis/fig-B.10", "swish-gain-quadratic"): "inconclusive",
    # One network has no spread.
    ("thesis/max-step-samples", "several-samples"): "inconclusive",
    ("thesis/max-step-samples", "smooth"): "inconclusive",
    ("thesis/max-step-samples", "networks"): "inconclusive",
}

# The thesis, chapter 4 and appendix C: catapults in SGD and feature learning

THESIS_4: Verdicts = {
    # No rise, or too few draws to tell.
    ("thesis/table-4.2", "shallow-step-0.8-rate"): "inconclusive",
    ("thesis/table-4.2", "shallow-1.5-critical-rate"): "inconclusive",
    ("thesis/fig-C.14", "rank-2-alignment-all"): "inconclusive",
}

# The lecture of 11/16: claims about networks, which are judged at laptop scale

LECTURES_11_16: Verdicts = {
    ("lectures/11-16-alignment", "hessian"): "inconclusive",
    ("lectures/11-16-alignment", "shape"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-4-sharpness"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-4-bearable"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-16-sharpness"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-16-bearable"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-48-sharpness"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-48-bearable"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "flatter"): "inconclusive",
}

# The textbook, chapter 12: stochastic gradients

BOOK_12: Verdicts = {
    # Twenty steps from three starts: claims about networks, judged at laptop scale.
    ("book/noise-shape", "test-error-isotropic"): "inconclusive",
    ("book/noise-shape", "sharpness-isotropic"): "inconclusive",
    ("book/scaling-network", "factor-4-loss"): "inconclusive",
    ("book/scaling-network", "factor-4-test-error"): "inconclusive",
    ("book/scaling-network", "all-loss"): "inconclusive",
}

OTHERWISE = QUADREG_3 | THESIS_2 | THESIS_3 | THESIS_4 | LECTURES_11_16 | BOOK_12
