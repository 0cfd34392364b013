"""The findings that do not simply hold at smoke scale, each with its reason in its note.

A claim of a source that our run does not confirm fails; one that this scale cannot decide is inconclusive.
"""

Verdicts = dict[tuple[str, str], str]
"""(id of the study, key of the finding) -> verdict."""

# The paper, section 3: random regression and networks at the edge of stability

QUADREG_3: Verdicts = {
    # Four draws, and two values of D/P: without one of them there is no exponent.
    ("quadreg/settling", "how-much-log"): "inconclusive",
    ("quadreg/settling", "error-law-held-out-cells-sampling"): "inconclusive",
    ("quadreg/settling", "error-law-held-out-cells-power"): "inconclusive",
    ("quadreg/settling", "error-law-both"): "inconclusive",
    ("quadreg/settling", "size-left-out"): "inconclusive",
    # Claims about the source's own network of 5,000 samples.
    ("quadreg/fig-5", "second-eigenvalue-window"): "inconclusive",
    ("quadreg/fig-6", "peak-eta-2"): "inconclusive",
    # 300 steps show one peak of the residual.
    ("quadreg/fig-14", "mean-steps-peak"): "inconclusive",
    ("quadreg/fig-14", "error-cubic-model-these"): "inconclusive",
    ("quadreg/fig-14", "error-cubic-model-second"): "inconclusive",
    ("quadreg/fig-14", "second-peak-first"): "inconclusive",
}

# The thesis, chapter 2 and appendix A: transition to linearity

THESIS_2: Verdicts = {
    # Of two or three widths and a few networks: exponents whose errors are as large as what they should tell apart.
    ("thesis/fig-2.2", "largest-change-kernel-edges-left-under-root-exponent-width-figure"): "inconclusive",
    ("thesis/fig-2.2", "largest-change-kernel-edges-before-under-root-exponent-width-figure"): "inconclusive",
    ("thesis/sec-2.4", "change-lambda-min-exponent"): "inconclusive",
}

# The thesis, chapter 3 and appendix B: quadratic models and catapults

THESIS_3: Verdicts = {
    # Ten draws of 32 or 25 training samples and 300 test samples: the differences are smaller than their errors.
    ("thesis/fig-B.5", "digits-8-8-pixels-network"): "inconclusive",
    ("thesis/fig-B.5", "digits-8-8-pixels-quadratic"): "inconclusive",
    ("thesis/fig-B.8", "digits-8-8-pixels-network"): "inconclusive",
    ("thesis/fig-B.8", "digits-8-8-pixels-quadratic"): "inconclusive",
    ("thesis/fig-B.10", "swish-network-smaller"): "inconclusive",
    ("thesis/fig-B.10", "swish-network-best"): "inconclusive",
    ("thesis/fig-B.10", "swish-quadratic-smaller"): "inconclusive",
    # One network has no spread.
    ("thesis/max-step-samples", "several-samples-quadratic"): "inconclusive",
    ("thesis/max-step-samples", "quadratic-models-not"): "inconclusive",
    ("thesis/max-step-samples", "networks-median-relative"): "inconclusive",
}

# The thesis, chapter 4 and appendix C: catapults in SGD and feature learning

THESIS_4: Verdicts = {
    # No rise, or too few draws to tell.
    ("thesis/table-4.2", "shallow-step-0.8-rises"): "inconclusive",
    ("thesis/table-4.2", "shallow-1.5-critical-rises"): "inconclusive",
    ("thesis/fig-C.14", "rank-2-alignment-weights-near-zero-all-raises"): "inconclusive",
}

# The lecture of 11/16: claims about networks, which are judged at laptop scale

LECTURES_11_16: Verdicts = {
    ("lectures/11-16-alignment", "r-2-c"): "inconclusive",
    ("lectures/11-16-alignment", "r-2-c-alpha"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-4-batch-sharpness"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-4-step-size"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-16-batch-sharpness"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-16-step-size"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-48-batch-sharpness"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "batch-48-step-size"): "inconclusive",
    ("lectures/11-16-stochastic-edge", "sharpness-2-eta"): "inconclusive",
}

# The textbook, chapter 12: stochastic gradients

BOOK_12: Verdicts = {
    # Twenty steps from three starts: claims about networks, judged at laptop scale.
    ("book/noise-shape", "test-error-noise-batches-less"): "inconclusive",
    ("book/noise-shape", "sharpness-noise-batches-less"): "inconclusive",
    ("book/scaling-network", "factor-4-loss-small-batches"): "inconclusive",
    ("book/scaling-network", "factor-4-test-error-less"): "inconclusive",
    ("book/scaling-network", "all-samples-loss-small-batches-mean"): "inconclusive",
}

OTHERWISE = QUADREG_3 | THESIS_2 | THESIS_3 | THESIS_4 | LECTURES_11_16 | BOOK_12
