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
    folders={
        "2": "sec2",
        "3": "sec3",
        "4": "sec4",
        "5": "sec5",
        "A": "app_a",
        "B": "app_b",
        "C": "app_c",
        "D": "app_d",
    },
)
