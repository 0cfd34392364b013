"""Beyond gradient descent: momentum, Nesterov's, RMSprop and Adam each have an edge of stability of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from jax.flatten_util import ravel_pytree

from secant import data, losses, measure, nets
from secant.core.device import to_device
from secant.dynamics import Map, Probe, Stop, simulate
from secant.lab import Figure, Findings, Options, claim, estimate, fits_memory, option, options, scaled, sheet, study
from secant.lab.registry.options import Shared
from secant.optim import Problem, optimisers
from secant.studies.shared.regression.draws import draw_tensors
from secant.theory.regression import quadratic_regression as qr

PLAIN = {"gd": "gradient descent", "momentum": "momentum", "nesterov": "Nesterov"}
LABELS = PLAIN | {"rmsprop": "RMSprop", "adam": "Adam"}
BETAS = (0.0, 0.5, 0.9)
"""Values of beta for momentum in quadratic regression."""
MODEL = (20, 40)
"""Residuals and parameters of a quadratic regression model."""
SETTLED = 1e-4
"""A run on a model has ended when its loss over the loss at the start is below this."""


own_lr = Shared("step size of this optimiser", at_least=1e-6, at_most=10)


class Config(Options):
    data: str = option("digits", help="a data set that secant.data knows")
    samples: int = options.samples(200, 500, 1_500, at_least=10, at_most=100_000)
    width: int = options.width(32, 64, 128, at_most=10_000)
    gd: float = own_lr(0.7, 0.4, 0.25)
    momentum: float = own_lr(0.7, 0.4, 0.25)
    nesterov: float = own_lr(0.25, 0.15, 0.1)
    rmsprop: float = own_lr(3e-4, 3e-4, 1e-4, at_least=1e-9, at_most=1)
    adam: float = own_lr(1e-2, 1e-2, 3e-3, at_least=1e-9, at_most=1)
    decay: float = option(0.99, at_least=0, below=1, help="decay of the mean square of RMSprop")
    beta: float = option(0.9, at_least=0, below=1, help="beta of both kinds of momentum")
    steps: int = options.steps(600, 4_000, 5_000, at_least=100, at_most=10_000_000)
    every: int = option(20, at_least=1, help="steps between two measurements of the curvature")
    draws: int = options.draws(12, 32, 100, at_least=3, at_most=100_000)
    residual: float = option(0.5, at_least=1e-3, at_most=10, help="rescaled scale of the models' residuals")
    variance: float = option(0.5, at_least=1e-3, at_most=100, help="variance of their Jacobian, over that scale")
    model_steps: int = scaled(
        smoke=500, laptop=4_000, paper=10_000, at_least=100, at_most=10_000_000, help="steps on the models"
    )
    seed: int = options.seed(0)

    def check(self) -> None:
        """Measurements enough for the last quarter, averages that are full by then, and models that fit into memory."""
        if self.every > self.steps // 8:
            raise ValueError(f"every: must be at most steps / 8, {self.steps // 8}, got {self.every}.")
        if begun("rmsprop", self) > self.steps / 2:
            least = f"must leave 1 / (1 - decay) at most half of the steps, {self.steps}"
            raise ValueError(f"decay: {least}, got {self.decay}.")
        fits_memory(3 * 8 * self.draws * MODEL[0] * MODEL[1] ** 2, "draws")


@study("quadreg/optimisers", section="5", title="The edge of stability of other optimisers", new=True)
def run(config: Config) -> xr.Dataset:
    r"""An optimiser that divides its step by the diagonal $P$ is, on a quadratic and at fixed $P$, a linear recursion
    for every eigenvector of $P^{-1/2}HP^{-1/2}$, and it is stable while the eigenvalue is below $$\frac2\eta \text{
    (gradient descent, RMSprop)}, \quad \frac{2 + 2\beta}\eta \text{ (momentum)}, \quad \frac{2 + 2\beta}{(1 +
    2\beta)\,\eta} \text{ (Nesterov)}, \quad \frac{2 + 2\beta_1}{(1 - \beta_1)\,\eta} \text{ (Adam)}.$$ Training a
    network on all its data raises the largest eigenvalue to the optimiser's threshold and keeps it there. Momentum on
    a random quadratic regression model takes the curvature past the edge of gradient descent. Where momentum
    converges, the curvature ends below momentum's own threshold.
    """
    return xr.merge([_networks(config), _models(config)], combine_attrs="override")


def _networks(config: Config) -> xr.Dataset:
    """One network trained by each of the optimisers: the curvature that it meets, and the loss."""
    task = data.load(config.data, samples=config.samples, test_samples=1, labels="one-hot", seed=config.seed)
    x, y = (to_device(np.asarray(part, jnp.result_type(float))) for part in task.train)
    net = nets.mlp([config.width] * 2, outputs=y.shape[1], activation="tanh", parametrization="pytorch", bias=True)
    # All parameters in one vector: an optimiser treats each alike, and one array compiles faster than six.
    params, unravel = ravel_pytree(net.init(jax.random.key(config.seed), x.shape))
    problem = Problem(lambda p, x: net.apply(unravel(p), x), x, y, losses.half_mean)
    several = (
        optimisers.gd(config.gd),
        optimisers.momentum(config.momentum, config.beta),
        optimisers.nesterov(config.nesterov, config.beta),
        optimisers.rmsprop(config.rmsprop, config.decay),
        optimisers.adam(config.adam),
    )
    # A loop that can take any of them is compiled once: which of them it takes is part of the state it starts in.
    chosen = optimisers.one_of(several)
    system = chosen(problem.objective)
    probes = {
        "curvature": measure.preconditioned_sharpness(chosen, every=config.every).on(problem),
        "loss": measure.loss(every=config.every).on(problem),
    }
    ran = []
    for number, one in enumerate(several):
        start = optimisers.one_of(several, number)(problem.objective).init(params)
        ran.append(simulate(system, start, config.steps, probes=probes, label=LABELS[one.name]).dataset)
    # A run that blew up has recorded less than the others: NaN fills it up.
    found = xr.concat([one[["curvature", "loss"]] for one in ran], "optimiser", join="outer")
    found = found.reindex(step=np.arange(0, config.steps + 1, config.every)).isel(mode=0)
    return found.assign(
        threshold=("optimiser", [one.threshold for one in several]), optimiser=[one.name for one in several]
    ).assign_attrs(task.attributes())


def _models(config: Config) -> xr.Dataset:
    """Momentum on random quadratic regression models of 20 residuals and 40 parameters, with step size one."""
    D, P = MODEL
    random = np.random.default_rng([config.seed, D, P])
    sigma = qr.scales(config.residual, np.sqrt(config.residual * config.variance), D, P)
    models = qr.Model(
        sigma.z * random.normal(size=(config.draws, D)),
        sigma.J * random.normal(size=(config.draws, D, P)),
        to_device(draw_tensors(random, config.draws, D, P, "averaged")),
    )

    def system(beta: Array, draw: qr.Model) -> Map:
        def with_its_gradient(theta: Array) -> Array:
            """A form whose gradient is that of the loss, J(θ)ᵀz(θ): Q is contracted once and not three times."""
            J = draw.jacobian(theta)
            z = draw.offset + (draw.G + J) @ theta / 2
            return jax.lax.stop_gradient(z @ J) @ theta

        return optimisers.momentum(1.0, beta)(with_its_gradient)  # type: ignore[arg-type]

    # Only the begin and the end of each run are recorded.
    ends = {
        "model_curvature": Probe(lambda theta, draw: qr.top_pair(draw.jacobian(theta))[0], config.model_steps),
        "model_loss": Probe(lambda theta, draw: jnp.sum(draw.residuals(theta) ** 2) / 2, config.model_steps),
    }
    found = simulate(
        system,
        jnp.zeros(P),
        config.model_steps,
        probes=ends,
        over={"beta": jnp.array(BETAS), "draw": models},
        stop=Stop(every=max(1, config.model_steps // 100)),
        label="quadratic regression",
    ).dataset
    return found[list(ends)].rename(step="model_step")


def ends(data: xr.Dataset) -> xr.DataArray:
    """The final curvature of every quadratic model on which momentum has converged."""
    settled = data.model_loss.isel(model_step=-1) < SETTLED * data.model_loss.isel(model_step=0)
    return data.model_curvature.isel(model_step=-1).where(settled)


def begun(name: str, config: Config) -> int:
    r"""The first measured step at which the averages in the preconditioner are filled.

    The factor $1 - \beta_1^t$ of Adam takes $1/(1 - \beta_1) = 10$ steps. The mean square of RMSprop begins at zero
    without correction and takes $1/(1 - \alpha)$ steps, 100 by default. The others have no preconditioner.
    """
    memory = {"rmsprop": 1 / (1 - config.decay), "adam": 10.0}.get(name, 0.0)
    return int(np.ceil(np.round(memory / config.every, 9))) * config.every


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    over = data.curvature / data.threshold
    last = over.isel(step=slice(-(over.sizes["step"] // 4), None))
    why = "at the edge curvature swings about it; the preconditioner moves with it"
    for name in data.optimiser.values:
        start, label = over.sel(optimiser=name, step=begun(name, config)), LABELS[name]
        yield claim(f"start-{name}", f"curvature over the threshold at the start, {label}").at_most(
            1.0, start, "an inequality: it comes from below"
        )
        yield claim(f"end-{name}", f"curvature over the threshold, mean of the last quarter, {label}").equal(
            1.0, last.sel(optimiser=name).mean(), 0.1, why
        )
    sharpness = (last.mean("step") * data.threshold).sel(optimiser="momentum") * config.momentum / 2
    sentence = r"sharpness under momentum at the end, over the edge $2/\eta$ of gradient descent"
    yield claim("past-descent", sentence).equal(
        1 + config.beta, sharpness, 0, "as for the ratio: the swing about the edge", relative=0.1
    )
    model = "quadratic regression"
    for beta in BETAS:
        final = ends(data).sel(beta=beta)
        settled, highest = int(final.count()), final.max() / (2 + 2 * beta)
        left = f"{settled} of {final.size} draws have converged; the others swing on or have blown up"
        why = "the curvature still moves with what is left of the residuals"
        sentence = rf"{model}, largest final curvature over its threshold, $\beta = {beta:g}$"
        yield claim(f"model-{beta:g}", sentence, settled, left).at_most(1.0, highest, why, slack=0.01, note=left)
        if beta:
            why = "an inequality: momentum goes on where gradient descent would stop"
            sentence = rf"{model}, mean final curvature over the edge of gradient descent, $\beta = {beta:g}$"
            yield claim(f"model-past-descent-{beta:g}", sentence, settled, left).at_least(
                1.0, estimate(final / 2), why, note=left
            )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2, width_ratios=(3, 2))
    sheet.mark(left, y=1)
    for number, one in enumerate(data.curvature / data.threshold):
        name = one.optimiser.item()
        one = one.where(one.step >= begun(name, config))
        left.plot(one.step, one, color=f"C{number}", lw=1.3, label=LABELS[name])
    title, legend = "A network under five optimisers", {"loc": "upper right", "ncols": 2}
    sheet.label(left, title, "step", "curvature over threshold", legend, ylim=(0, 1.75))
    draws = data.sizes["draw"]
    for beta in BETAS:
        settled = ends(data).sel(beta=beta)
        right.plot(beta + np.linspace(-0.03, 0.03, draws), settled, "o", ms=4, color="C1" if beta else "C0")
        right.annotate(f"{int(settled.isnull().sum())} unsettled", (beta, 0.12), ha="center", fontsize="small")
    line = np.linspace(-0.1, 1.0, 2)
    sheet.guide(right, line, 2 + 2 * line, r"threshold, $2 + 2\beta$")
    sheet.mark(right, y=2, ls=":", label="edge of gradient descent")
    title, look = f"{draws} quadratic regression models", {"xlim": (-0.12, 1.02), "ylim": (0, 4.4), "xticks": BETAS}
    sheet.label(right, title, r"momentum $\beta$", r"final $\eta\lambda$", "upper left", **look)
