"""The lab: studies, their findings, and the store of their runs."""

from secant.lab.config import SCALES, Options, Seeded, configure, fits_memory, option, scaled
from secant.lab.engines import Engine, EngineError, Here, Processes, Ray, WorkerDiedError
from secant.lab.estimate import LEVEL, RISK, Estimate, bootstrap, estimate, ratio_of_means
from secant.lab.execute import run, verify
from secant.lab.figures import drawn, save_figures, theme
from secant.lab.finding import Erratum, Finding, Tolerance, Verdict, significant, undecided
from secant.lab.grid import Grid
from secant.lab.registry import UnknownStudyError, catalog, get, select, sources
from secant.lab.reuse import reuse
from secant.lab.seeds import Wavering, wavering
from secant.lab.store import CorruptRunError, Record, Store, StoreError
from secant.lab.study import Figure, Findings, Source, Study, study
from secant.lab.sweeps import Sweep, SweepError, sweep
from secant.lab.unfold import unfold

__all__ = [
    "LEVEL",
    "RISK",
    "SCALES",
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
    "configure",
    "drawn",
    "estimate",
    "fits_memory",
    "get",
    "option",
    "ratio_of_means",
    "reuse",
    "run",
    "save_figures",
    "scaled",
    "select",
    "significant",
    "sources",
    "study",
    "sweep",
    "theme",
    "undecided",
    "unfold",
    "verify",
    "wavering",
]
