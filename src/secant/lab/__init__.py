"""The lab: studies, their findings, and the store of their runs."""

from secant.lab.drawing import sheet
from secant.lab.drawing.figures import drawn, save_figures, theme
from secant.lab.registry import options
from secant.lab.registry.config import SCALES, configure, fits_memory, option, scaled
from secant.lab.registry.lookup import UnknownStudyError, catalog, get, select, sources
from secant.lab.registry.options import Options, Seeded
from secant.lab.registry.study import Figure, Findings, Source, Study, study
from secant.lab.runs.reuse import reuse
from secant.lab.runs.store import CorruptRunError, Record, Store, StoreError
from secant.lab.sweeping.engines import Engine, EngineError, Here, Processes, Ray, WorkerDiedError
from secant.lab.sweeping.execute import run, verify
from secant.lab.sweeping.grid import Grid
from secant.lab.sweeping.sweeps import Sweep, SweepError, sweep
from secant.lab.sweeping.unfold import unfold
from secant.lab.verdicts.claims import Claim, claim
from secant.lab.verdicts.estimate import LEVEL, RISK, Estimate, bootstrap, estimate, ratio_of_means
from secant.lab.verdicts.finding import Erratum, Finding, Tolerance, Verdict
from secant.lab.verdicts.seeds import Wavering, wavering

__all__ = [
    "LEVEL",
    "RISK",
    "SCALES",
    "Claim",
    "CorruptRunError",
    "Engine",
    "EngineError",
    "Erratum",
    "Estimate",
    "Figure",
    "Finding",
    "Findings",
    "Grid",
    "Here",
    "Options",
    "Processes",
    "Ray",
    "Record",
    "Seeded",
    "Source",
    "Store",
    "StoreError",
    "Study",
    "Sweep",
    "SweepError",
    "Tolerance",
    "UnknownStudyError",
    "Verdict",
    "Wavering",
    "WorkerDiedError",
    "bootstrap",
    "catalog",
    "claim",
    "configure",
    "drawn",
    "estimate",
    "fits_memory",
    "get",
    "option",
    "options",
    "ratio_of_means",
    "reuse",
    "run",
    "save_figures",
    "scaled",
    "select",
    "sheet",
    "sources",
    "study",
    "sweep",
    "theme",
    "unfold",
    "verify",
    "wavering",
]
