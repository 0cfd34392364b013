"""The lab: studies, their findings, and the store of their runs."""

from secant.lab.config import SCALES, configure, option, scaled
from secant.lab.execute import run, verify
from secant.lab.figures import drawn, save_figures, theme
from secant.lab.finding import Erratum, Finding, Tolerance, Verdict
from secant.lab.registry import UnknownStudyError, catalog, get, select, sources
from secant.lab.store import CorruptRunError, Record, Store, StoreError
from secant.lab.study import Source, Study, study

__all__ = [
    "SCALES",
    "CorruptRunError",
    "Erratum",
    "Finding",
    "Record",
    "Source",
    "Store",
    "StoreError",
    "Study",
    "Tolerance",
    "UnknownStudyError",
    "Verdict",
    "catalog",
    "configure",
    "drawn",
    "get",
    "option",
    "run",
    "save_figures",
    "scaled",
    "select",
    "sources",
    "study",
    "theme",
    "verify",
]
