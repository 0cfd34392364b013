"""L. Zhu's thesis: wide networks turn linear, quadratic models of them catapult, and catapults learn features."""

from secant.lab import Source

SOURCE = Source(
    key="thesis",
    title="Toward Understanding the Dynamics of Over-parameterized Neural Networks",
    authors="Libin Zhu",
    year=2024,
    chapters={
        "2": "Transition to linearity of general feedforward neural networks",
        "3": "Catapult dynamics of neural networks",
        "4": "Feature learning of catapult dynamics",
        "5": "Summary and discussion",
        "A": "Appendix to chapter 2: proofs",
        "B": "Appendix to chapter 3: proofs and experiments",
        "C": "Appendix to chapter 4: experiments",
    },
    folders={"2": "ch2", "3": "ch3", "3.3": "ch3_3", "4": "ch4", "5": "ch5", "A": "app_a", "B": "app_b", "C": "app_c"},
)
