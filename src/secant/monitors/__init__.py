"""Watch your own training run, in JAX or PyTorch: what a monitor records, where, and how to read the record.

The words of these pages:

* A **look** is one measurement that a monitor makes at a step, such as the curvature of the batch or its noise.
* A **record** is the folder to which a monitor writes. Each of its rows belongs to one step.
* The **edge** is the curvature at which the optimiser becomes unstable: two over the step size for plain gradient
  descent, and the column `threshold` for the others.
* The **load** of a look is its curvature divided by the curvature of the edge. A load of 1 is the edge.
* The **critical batch** is the batch size at which gradient and noise are equally large, the column `noise_scale`.
* A **spike** is a loss far above the losses before it: at least twice as large, and beyond the noise of the record.
* The **regime** says where a run is: stable, at the edge, dominated by noise, and so on.
"""

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
