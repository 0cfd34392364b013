"""The errors that `make mutants` plants can be planted: their lines, tests and studies are there."""

import pytest
from mutants.__main__ import MUTANTS
from mutants.mutant import ROOT

from secant import lab


@pytest.mark.parametrize("module", sorted({mutant.module for mutant in MUTANTS}))
def test_every_planted_error_finds_its_line_once(module):
    text = (ROOT / "src" / "secant" / module).read_text()
    for mutant in MUTANTS:
        if mutant.module == module:
            assert text.count(mutant.old) == 1, mutant.name
            assert mutant.old != mutant.new


def test_the_tests_and_the_studies_that_should_notice_are_there():
    known = {study.id for study in lab.registry.lookup.entries()}
    for mutant in MUTANTS:
        assert mutant.tests, mutant.name
        assert all((ROOT / "tests" / name).is_file() for name in mutant.tests), mutant.name
        assert set(mutant.studies) <= known, mutant.name


def test_no_error_is_planted_twice():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
