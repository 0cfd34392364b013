"""Lecture of 11/16: the fluctuation relations of a stationary state, exactly and along simulated runs."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study
from secant.theory.noise.fluctuation import noise_matrices
from secant.theory.noise.mean_square import batches_of, critical_step

LAWS = {"bernoulli": "Bernoulli batches", "fixed": "batches of fixed size"}


class Config(Seeded):
    samples: int = options.samples(6, at_least=3, at_most=10)
    batch: int = options.batch(2, at_most=9)
    parameters: int = option(2, at_least=1, at_most=4, help="parameters of the linear model")
    ratios: tuple[float, ...] = options.ratios((0.05, 0.4, 0.8), at_least=0.01, at_most=0.9)
    chains: int = option(400, at_least=50, at_most=5_000, help="simulated runs, at the first of the ratios")
    steps: int = options.steps(1_500, 10_000, at_least=200, at_most=100_000)

    def check(self) -> None:
        """Refuses minima without noise in some direction."""
        if self.parameters + 1 >= self.samples:
            raise ValueError(f"samples: must be above parameters + 1, {self.parameters + 1}, got {self.samples}.")
        if self.batch >= self.samples:
            raise ValueError(f"batch: must be below samples, {self.samples}, got {self.batch}.")


def of_batches(x: np.ndarray, rho: np.ndarray, batch: int, law: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hessian, gradient at the minimum and probability of every batch."""
    counts, chances = batches_of(len(x), batch, law)
    return np.einsum("sk,ki,kj->sij", counts, x, x) / batch, (counts * rho) @ x / batch, chances


def kept(H: np.ndarray, v: np.ndarray, chances: np.ndarray, lr: float) -> np.ndarray:
    """The covariance that a step keeps, in the mean over all batches."""
    d = H.shape[1]
    step = np.eye(d) - lr * H
    both = np.einsum("s,sij,skl->ikjl", chances, step, step).reshape(d * d, d * d)
    return np.linalg.solve(np.eye(d * d) - both, lr**2 * ((v.T * chances) @ v).ravel()).reshape(d, d)


def average_noise(x: np.ndarray, rho: np.ndarray, S: np.ndarray, batch: int, law: str) -> np.ndarray:
    """The second moment of the batch gradient by its formula, over points that have the covariance S."""
    d = len(S)
    points = np.sqrt(d) * np.linalg.cholesky(S + 1e-300 * np.eye(d)).T
    both = (sign * point for point in points for sign in (-1, 1))
    return np.mean([noise_matrices(x * (x @ point + rho)[:, None], batch, law).second for point in both], axis=0)


@study("lectures/11-16-fluctuation", section="11-16", title="Fluctuation relations of a stationary state")
def run(config: Config) -> xr.Dataset:
    r"""In a stationary state of SGD $\langle O(\theta)\rangle = \langle[O(\theta - \eta\nabla L^B)]\rangle$ for every
    observable. Three relations follow:

    - $\langle\nabla L\rangle = 0$.
    - $\langle\theta\cdot\nabla L\rangle = \frac\eta2\langle\mathrm{tr}\,\tilde C\rangle$, component by component and
      exactly at any step size. Because $\langle\nabla L\rangle = 0$, $\theta$ may be centred at the minimum.
    - $\langle|\nabla L|^2\rangle = \frac\eta2\langle\mathrm{tr}\,H\tilde C\rangle$, from $O = L$, if $L$ is quadratic.
    """
    random = np.random.default_rng(config.seed)
    m, d = config.samples, config.parameters
    x = random.normal(size=(m, d))
    noise = random.normal(size=m)
    rho = noise - x @ np.linalg.lstsq(x, noise, rcond=None)[0]  # residuals at the minimum
    hessian = x.T @ x / m
    size = (len(LAWS), len(config.ratios))
    sides, parts, loss, lrs = (np.zeros((*size, *more)) for more in ((2,), (d, 2), (2,), ()))
    slope, left, right = (np.zeros((len(LAWS), config.chains, *more)) for more in ((d,), (), ()))
    for i, law in enumerate(LAWS):
        H, v, chances = of_batches(x, rho, config.batch, law)
        top = critical_step(x @ x.T, config.batch, sampling=law).step
        for j, ratio in enumerate(config.ratios):
            lrs[i, j] = lr = ratio * top
            S = kept(H, v, chances, lr)
            second = average_noise(x, rho, S, config.batch, law)
            parts[i, j] = np.stack([np.diag(hessian @ S), lr / 2 * np.diag(second)], 1)
            sides[i, j] = parts[i, j].sum(0)
            loss[i, j] = np.trace(hessian @ S @ hessian), lr / 2 * np.trace(hessian @ second)
        # Runs at the first step size, from the minimum. The first fifth of the steps does not count.
        lr, theta = lrs[i, 0], np.zeros((config.chains, d))
        for t in range(config.steps):
            drawn = random.choice(len(chances), size=config.chains, p=chances)
            gradient = np.einsum("cij,cj->ci", H[drawn], theta) + v[drawn]
            if t >= config.steps // 5:
                slope[i] += theta @ hessian
                left[i] += np.einsum("ci,ij,cj->c", theta, hessian, theta)
                right[i] += lr / 2 * (gradient**2).sum(1)
            theta -= lr * gradient
    counted = config.steps - config.steps // 5
    return xr.Dataset(
        {
            "sides": (("law", "ratio", "side"), sides),
            "parts": (("law", "ratio", "component", "side"), parts),
            "loss": (("law", "ratio", "side"), loss),
            "lr": (("law", "ratio"), lrs),
            "slope": (("law", "chain", "component"), slope / counted),
            "left": (("law", "chain"), left / counted),
            "right": (("law", "chain"), right / counted),
        },
        coords={"law": list(LAWS), "ratio": list(config.ratios), "side": ["theta . grad L", "noise"]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rounding = "an identity: rounding of a linear solve"
    for i, (law, name) in enumerate(LAWS.items()):
        for j, ratio in enumerate(config.ratios):
            within, at, key = 1e-8 / (1 - ratio), f"{name}, {ratio:g} of the largest step", f"{law}-{ratio:g}"
            left, right = data.sides[i, j]
            theta = r"$\langle\theta\cdot\nabla L\rangle$ over $\frac{\eta}{2}\langle\mathrm{tr}\,\tilde C\rangle$"
            yield claim(f"{key}-theta", f"{at}: {theta}").equal(1.0, left / right, within, rounding)
            off = np.abs(data.parts[i, j, :, 0] - data.parts[i, j, :, 1]).max() / right
            yield claim(f"{key}-components", f"{at}: largest difference of a component").zero(off, within, rounding)
            slope = r"$\langle|\nabla L|^2\rangle$ over $\frac{\eta}{2}\langle\mathrm{tr}\,H\tilde C\rangle$"
            left, right = data.loss[i, j]
            yield claim(f"{key}-slope", f"{at}: {slope}").equal(1.0, left / right, within, rounding)
        # A run starts at the minimum. What it has not reached yet is missing on both sides.
        apart = estimate((data.left[i] - data.right[i]) / float(data.sides[i, 0, 1]))
        theta = r"$\langle\theta\cdot\nabla L\rangle$ less $\frac{\eta}{2}\langle\mathrm{tr}\,\tilde C\rangle$, over it"
        why = r"sampling error, and the change of $\theta^2$ over the counted steps"
        yield claim(f"{law}-simulated-theta", f"{name}, simulated: {theta}").zero(apart, 5 / config.steps, why)
        size = np.sqrt(float((data.slope[i] ** 2).sum("component").mean()))
        slope = r"$\langle\nabla L\rangle$ of a run, first component over its spread"
        yield claim(f"{law}-simulated-slope", f"{name}, simulated: {slope}").zero(
            estimate(data.slope[i, :, 0] / size), 0.0, "sampling error"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    for i, law in enumerate(LAWS.values()):
        across, noise = data.parts[i].values.reshape(-1, 2).T
        left.loglog(noise, across, "os"[i], color=f"C{i}", ms=7, alpha=0.8, label=law)
        each = (data.left[i] / data.right[i]).values
        right.hist(each, bins=30, histtype="stepfilled", alpha=0.45, color=f"C{i}", label=law)
    ends = np.array([data.parts.values[data.parts.values > 0].min(), data.parts.values.max()]) * [0.7, 1.4]
    sheet.guide(left, ends, ends, "equal")
    noise, across = r"$\frac{\eta}{2}\langle\tilde C_{ii}\rangle$", r"$\langle\theta_i\,\partial_iL\rangle$"
    sheet.label(left, "Exactly, component by component", noise, across, "best")
    sheet.mark(right, x=1.0, label="stationary state")
    ratio = r"$\theta\cdot\nabla L$ over $\frac{\eta}{2}|\nabla L^B|^2$, means of a run"
    sheet.label(right, f"Along {config.chains} runs", ratio, "runs", "best")
