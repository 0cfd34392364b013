"""Options that once ended in a traceback or in a finding without a number: refused in a line, or run to their end."""

import pytest
from fuzzing import accepted, outcome

from secant import lab

REFUSED = [
    ("quadreg/fig-2", {"lrs": ()}, "lrs: "),
    ("thesis/cor-2.3.7", {"widths": ()}, "widths: "),
    ("thesis/thm-B.3.1", {"target": -1e300}, "target: "),
]

MEAGRE = [
    ("thesis/lem-3.3.2", {"widths": (10.001,), "constant": 0.001}),
    ("thesis/fig-4.5", {"width": 8}),
    ("quadreg/fig-4", {"residuals": (0.1,)}),
    ("quadreg/flow-scaling", {"residuals": (0.1, 0.2)}),
    ("quadreg/fig-11", {"high": 0.1}),
    ("thesis/eq-3.4", {"steps": 10}),
]


@pytest.mark.parametrize(("id", "options", "named"), REFUSED)
def test_options_without_a_meaning_are_refused_by_name(id, options, named):
    with pytest.raises((ValueError, TypeError), match=f"^{id}: .*{named}"):
        lab.get(id).config("smoke", **options)


@pytest.mark.parametrize(("id", "options"), MEAGRE)
def test_options_that_leave_little_to_judge_are_refused_or_run_to_their_end(id, options):
    study = lab.get(id)
    config = accepted(study, options)
    assert config is None or outcome(study, config)
