"""Monitors of somebody's own training run, in JAX or PyTorch: what they record, where, and how to read it."""

from secant.monitors.base import Monitor
from secant.monitors.doctor.advice import SafeStep, safe_step
from secant.monitors.doctor.diagnosis import Diagnosis, Sentence, diagnose
from secant.monitors.doctor.regimes import REGIMES
from secant.monitors.doctor.spikes import Spike, spikes
from secant.monitors.doctor.trial import Trial
from secant.monitors.entrance import monitor
from secant.monitors.plan import Plan
from secant.monitors.records.columns import COLUMNS, Column
from secant.monitors.records.keeper import MonitorWarning
from secant.monitors.records.record import RecordError, Watched, Writer, read
from secant.monitors.step_trial import largest_step

__all__ = [
    "COLUMNS",
    "REGIMES",
    "Column",
    "Diagnosis",
    "Monitor",
    "MonitorWarning",
    "Plan",
    "RecordError",
    "SafeStep",
    "Sentence",
    "Spike",
    "Trial",
    "Watched",
    "Writer",
    "diagnose",
    "largest_step",
    "monitor",
    "read",
    "safe_step",
    "spikes",
]
