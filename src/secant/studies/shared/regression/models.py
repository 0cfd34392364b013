"""Options that studies of random quadratic regression share."""

from __future__ import annotations

from secant.lab.registry.options import Shared

outputs = Shared("residuals D, an entry for each model", at_least=2)
parameters = Shared("parameters P, as many entries", at_least=2)
residuals = Shared("rescaled scales of the residuals", at_least=1e-3)
jacobians = Shared("squares of the rescaled scales of the Jacobian", at_least=1e-3)
jacobian = Shared("rescaled variance of the Jacobian", at_least=1e-3)
residual_scale = Shared("standard deviation of the residuals", at_least=1e-3, at_most=1e3)
jacobian_scale = Shared("standard deviation of the Jacobian's entries", at_least=1e-3, at_most=1e3)
