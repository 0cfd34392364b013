"""Discrete and continuous dynamics: Maps and their runner, probes, stopping rules, flows and random paths."""

from secant.core.progress import Bar, Progress, Silent, reporting
from secant.dynamics.checkpoint import CheckpointMismatchError, CheckpointWriteError, resumable
from secant.dynamics.flows import flow
from secant.dynamics.late_time import LateFlow, late_flow
from secant.dynamics.map import Map, State
from secant.dynamics.probes import Probe
from secant.dynamics.runner import simulate
from secant.dynamics.sde import sde
from secant.dynamics.stop import Outcome, Stop
from secant.dynamics.trajectory import Trajectory

__all__ = [
    "Bar",
    "CheckpointMismatchError",
    "CheckpointWriteError",
    "LateFlow",
    "Map",
    "Outcome",
    "Probe",
    "Progress",
    "Silent",
    "State",
    "Stop",
    "Trajectory",
    "flow",
    "late_flow",
    "reporting",
    "resumable",
    "sde",
    "simulate",
]
