"""The findings of some studies at smoke scale, as JSON: what a planted error is held against."""

from __future__ import annotations

import json
import sys

from secant import lab


def findings(id: str) -> list[list[object]]:
    """Key, verdict and numbers of every finding; a study that breaks down has one that fails."""
    study = lab.get(id)
    config = study.config("smoke")
    try:
        found = study.judge(study(config), config)
    except Exception as error:
        return [["the study runs to its end", "fails", type(error).__name__]]
    return [[one.key, one.verdict.value, repr((one.predicted, tuple(one.measured)))] for one in found]


if __name__ == "__main__":
    print(json.dumps({id: findings(id) for id in sys.argv[1:]}))
