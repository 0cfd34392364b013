"""B. Hanin's lectures on deep-learning theory, as taken down by a student."""

from secant.lab import Source

SOURCE = Source(
    key="lectures",
    title="ORF 543, lecture notes of a graduate course",
    authors="Boris Hanin",
    chapters={"09-19": "Tuning to criticality", "11-07": "The catapult phase in quadratic models"},
    folders={"09-19": "m09_19", "11-07": "m11_07"},
)
