"""Second-order regression models exhibit progressive sharpening to the edge of stability."""

from secant.lab import Source

SOURCE = Source(
    key="quadreg",
    title="Second-order regression models exhibit progressive sharpening to the edge of stability",
    authors="Atish Agarwala, Fabian Pedregosa, Jeffrey Pennington",
    year=2022,
    chapters={
        "2": "Quartic loss function",
        "3": "Quadratic regression model",
        "4": "Connection to real world models",
        "5": "Discussion",
        "A": "Connection to other models",
        "B": "Two-parameter model",
        "C": "Quadratic regression model dynamics",
        "D": "Analysis of real models",
    },
)
