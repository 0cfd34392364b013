"""What a terminal shows while a run goes on."""

import io

import pytest
from rich.console import Console

import secant as sc


@pytest.mark.parametrize("unit", ["steps", "runs"])
def test_a_bar_counts_in_its_unit_and_goes_away(unit):
    shown = io.StringIO()
    bar = sc.dynamics.Bar(Console(file=shown, force_terminal=True, width=100), unit)
    bar.start("halving", 10)
    bar.update(4, "loss 0.1")
    bar.close()
    assert f" {unit} " in shown.getvalue()
    assert "halving" in shown.getvalue()
    assert shown.getvalue().endswith("\x1b[2K")


def test_a_file_sees_nothing_of_a_bar():
    written = io.StringIO()
    halving = sc.Map(init=lambda x: x, step=lambda x: x / 2)
    sc.simulate(halving, 1.0, steps=3, progress=sc.dynamics.Bar(Console(file=written)))
    assert written.getvalue() == ""
