"""B. Hanin's lectures on deep-learning theory, as taken down by a student."""

from secant.lab import Source

SOURCE = Source(
    key="lectures",
    title="ORF 543, lecture notes of a graduate course",
    authors="Boris Hanin",
    chapters={
        "09-14": "Networks at initialisation",
        "09-19": "Tuning to criticality",
        "09-26": "Learning rates in the kernel regime",
        "09-28": "Pathologies of the kernel regime",
        "10-10": "Dynamics in the space of functions, and positive kernels",
        "10-12": "Convergence by the tangent kernel",
        "10-31": "Kernels",
        "11-07": "The catapult phase in quadratic models",
        "11-09": "Implicit bias in regression",
        "11-14": "Implicit bias in classification",
        "11-16": "Implicit bias of stochastic gradient descent",
        "11-30": "Path counting in random ReLU networks",
        "12-07": "Bayesian interpolation with deep linear networks",
    },
    folders={
        "09-14": "m09_14",
        "09-19": "m09_19",
        "09-26": "m09_26",
        "09-28": "m09_28",
        "10-10": "m10_10",
        "10-12": "m10_12",
        "10-31": "m10_31",
        "11-07": "m11_07",
        "11-09": "m11_09",
        "11-14": "m11_14",
        "11-16": "m11_16",
        "11-30": "m11_30",
        "12-07": "m12_07",
    },
)
