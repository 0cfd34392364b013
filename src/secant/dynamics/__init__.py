"""Discrete and continuous dynamics: Maps, the runner, probes, flows."""

from secant.dynamics import catapults, control, measure, optimisers, schedules
from secant.dynamics.batches import Batches
from secant.dynamics.checkpoint import CheckpointMismatchError, CheckpointWriteError, resumable
from secant.dynamics.flows import flow
from secant.dynamics.map import Map, State
from secant.dynamics.measure import Measurement
from secant.dynamics.probes import Probe
from secant.dynamics.problem import Problem
from secant.dynamics.progress import Bar, Progress, Silent, reporting
from secant.dynamics.rules import gradient_descent, gradient_field
from secant.dynamics.runner import simulate
from secant.dynamics.stop import Outcome, Stop
from secant.dynamics.training import train
from secant.dynamics.trajectory import Trajectory

__all__ = [
    "Bar",
    "Batches",
    "CheckpointMismatchError",
    "CheckpointWriteError",
    "Map",
    "Measurement",
    "Outcome",
    "Probe",
    "Problem",
    "Progress",
    "Silent",
    "State",
    "Stop",
    "Trajectory",
    "catapults",
    "control",
    "flow",
    "gradient_descent",
    "gradient_field",
    "measure",
    "optimisers",
    "reporting",
    "resumable",
    "schedules",
    "simulate",
    "train",
]
