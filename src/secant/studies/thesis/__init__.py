"""The catapult chapter of L. Zhu's thesis: quadratic models of wide networks at large step sizes."""

from secant.lab import Source

SOURCE = Source(
    key="thesis",
    title="Toward Understanding the Dynamics of Over-parameterized Neural Networks",
    authors="Libin Zhu",
    year=2024,
    chapters={
        "3": "Catapult dynamics of neural networks",
        "B": "Appendix to chapter 3: proofs and experiments",
    },
)
