"""How far the maximal step size of one direction reaches: several samples, other activations, real networks."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import data as tasks
from secant import lab, losses, nets
from secant.core.device import to_device
from secant.expansion import expand
from secant.lab import Figure, Findings, Seeded, claim, fits_memory, option, options, scaled, sheet, study, unfold
from secant.optim import Problem
from secant.optim.largest_step import estimate_max_lr, find_max_lr

MODELS = ("quadratic", "network")


class Config(Seeded):
    data: str = option("digits", help="a data set that secant.data knows")
    classes: tuple[int, ...] = option(
        (0, 1), at_least=0, shortest=2, longest=2, distinct=True, help="two classes, +1 and -1"
    )
    samples: tuple[int, ...] = options.samples(
        (1, 8), (1, 4, 16, 64), (1, 4, 16, 64, 256), at_most=10_000, ascending=True
    )
    activations: tuple[str, ...] = scaled(
        smoke=("tanh",), laptop=("relu", "tanh"), paper=("relu", "tanh", "swish"), help="of the hidden layer"
    )
    width: int = options.width(128, 512, 2_000, at_least=4)
    draws: int = options.draws(1, 4, 10)
    degree: int = option(12, at_least=2, at_most=100, help="nodes of the estimate's quadrature")
    points: int = option(12, at_least=4, at_most=1_000, help="step sizes a round of the search")
    rounds: int = scaled(smoke=2, laptop=3, at_least=2, at_most=20, help="rounds of the search")
    steps: int = options.steps(200, 400, 1_000, at_least=100, at_most=10**6)

    def check(self) -> None:
        """Refuses what no memory holds."""
        fits_memory(64.0 * self.points * max(self.samples) * self.width, "width, samples or points")


@study("thesis/max-step-samples", section="3.3", title="The maximal step size beyond one sample", new=True)
def run(config: Config) -> xr.Dataset:
    r"""For one sample and frozen gates the maximal step size is known exactly. For several samples, other activations
    and real networks the estimate keeps the top direction of the tangent kernel, and the part of the second derivative
    that the gradient along it feels. The rest is a quadratic model of a few numbers. A dozen Hessian-vector products
    determine this model, and its border of divergence is cheap to find.

    The estimate is exact for one sample and any quadratic model. For several samples it neglects how the directions
    act on each other, and for a network it neglects all higher derivatives. The study claims that the estimate is
    useful: good to a tenth for several samples, and to a quarter for networks.
    """
    found = []
    seeds = range(config.seed, config.seed + config.draws)
    for activation, samples, seed in itertools.product(config.activations, config.samples, seeds):
        # A task needs both classes; one sample is the first of two.
        task = tasks.load(
            config.data, classes=config.classes, samples=max(samples, 2), test_samples=1, labels="signs", seed=seed
        )
        x, y = (to_device(np.asarray(part, jnp.result_type(float))[:samples]) for part in task.train)
        net = nets.mlp([config.width], activation=activation)
        params = net.init(jax.random.key(seed), x.shape)
        problem = Problem(net.apply, x, y.reshape(-1), losses.half_sum)
        # A network and its quadratic model have the same derivatives at the start, and so the same estimate.
        guess = estimate_max_lr(problem, params, degree=config.degree)
        for f in (expand(net.apply, params, 2), net.apply):
            model = Problem(f, x, problem.y, problem.loss)
            border = find_max_lr(model, params, steps=config.steps, points=config.points, rounds=config.rounds)
            half = (border.divergent - border.stable) / 2 * border.curvature
            found.append((guess.lr * guess.curvature, border.rescaled, half))
    # Step sizes times the curvature: estimated, found by trial, and half the last bracket of the search.
    columns = zip(("estimate", "found", "bracket"), np.array(found).T, strict=True)
    table = xr.Dataset({name: ("case", column) for name, column in columns})
    return unfold(table, "case", activation=config.activations, samples=config.samples, seed=seeds, model=MODELS)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    off, four = np.abs(data.estimate / data.found - 1), np.abs(4 / data.found - 1)

    def median(errors: xr.DataArray, over: xr.DataArray | None = None) -> lab.Estimate:
        """A median over all cases, or a ratio of two medians, with its error from resampled seeds."""

        def resampled(kept: np.ndarray) -> xr.DataArray:
            middle = errors.isel(seed=kept).median()
            return middle if over is None else middle / over.isel(seed=kept).median()

        return lab.bootstrap(resampled, config.draws)[0]

    quadratic, bracket = off.sel(model="quadratic"), (data.bracket / data.found).sel(model="quadratic")
    one = quadratic.samples == 1
    name, none = (
        "one sample, quadratic model: largest relative error of the estimate",
        "one sample is not among `samples`",
    )
    why = "half the last bracket; half a percent for the quadrature and for runs that take longer to leave"
    yield claim("one-sample", name, given=one, otherwise=none).zero(
        quadratic.where(one).max(), 0.005 + bracket.where(one).max(), why
    )
    many, single = quadratic.sel(samples=~one), "there is only one sample"
    name, note = "several samples, quadratic models: median relative error", f"largest {many.values.max(initial=0):.2f}"
    yield claim("several-samples", name, given=many.size, otherwise=single).at_most(
        0.1, lambda: median(many), "the claim: good to a tenth", note=note
    )
    smooth = {"model": "quadratic", "activation": data.activation != "relu"}
    yield claim(
        "smooth",
        r"quadratic models without gates: median relative error of the estimate, over the error of $4/\lambda$",
        given=smooth["activation"],
        otherwise="all activations are gates",
    ).at_most(1.0, lambda: median(off.sel(smooth), four.sel(smooth)), "the claim: the spread of the spectrum matters")
    found = data.found.sel(model="network")
    networks, naive = (error.sel(model="network").where(np.isfinite(found)) for error in (off, four))
    dead = "no network diverged: their neurons died"
    yield claim("networks", "networks: median relative error", given=np.isfinite(found), otherwise=dead).at_most(
        0.25,
        lambda: median(networks),
        "the claim: good to a quarter; higher derivatives are left out",
        note=rf"largest {float(networks.max()):.2f}; $4/\lambda$ is off by {float(naive.median()):.2f}; "
        f"{int(np.isinf(found).sum())} networks did not diverge: their neurons died",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels, ends = sheet.panels(figure, (9, 4.4), 2, sharex=True, sharey=True), (2.4, 4.9)
    for axes, model, title in zip(panels, MODELS, ("Quadratic models", "Networks"), strict=True):
        sheet.guide(axes, ends, ends, lw=1.0)
        for i, activation in enumerate(config.activations):
            for j, samples in enumerate(config.samples):
                one = data.sel(model=model, activation=activation, samples=samples)
                look = {"color": f"C{i}", "ms": 6, "alpha": 0.8, "label": f"{activation}, {samples}"}
                axes.plot(one.found, one.estimate, "osD^v"[j % 5], **look)
        axes.set(title=title, xlabel="found by trial", xlim=ends, ylim=ends)
    panels[0].set_ylabel(r"estimated $\eta_{\max}\lambda$")
    panels[1].legend(title="samples", loc="center left", bbox_to_anchor=(1.0, 0.5))
