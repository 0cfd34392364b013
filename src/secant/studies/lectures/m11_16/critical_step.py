"""Beyond the lecture of 11/16: the largest step that SGD bears, in the mean square and almost surely."""

import numpy as np
import xarray as xr

from secant.lab import Estimate, Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.theory.noise import mean_square as ms

GRID = (0.9, 1.0, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0)
"""Step sizes over the mean-square critical one, at which runs are simulated."""


class Config(Seeded):
    samples: int = options.samples(64, 256, at_least=8, at_most=512)
    dimension: int = option(10, at_least=2, at_most=500, help="features")
    batches: tuple[int, ...] = options.batches(
        (1, 2, 4, 8, 16, 32), at_most=512, longest=12, ascending=True, distinct=True
    )
    few: int = option(5, at_least=2, at_most=6, help="samples of the kernel whose map is written out")
    steps: int = options.steps(300, 2_000, at_least=50, at_most=20_000)
    runs: int = option(8, at_least=4, at_most=100, help="simulated runs")

    def check(self) -> None:
        """Refuses batches that are not smaller than the data."""
        if max(self.batches) >= self.samples:
            raise ValueError(f"batches: must be below samples, {self.samples}, got {max(self.batches)}.")


def relu_kernel(x: np.ndarray) -> np.ndarray:
    """The tangent kernel of an infinitely wide ReLU network with one hidden layer, on unit inputs."""
    cosine = np.clip(x @ x.T, -1, 1)
    np.fill_diagonal(cosine, 1.0)
    angle = np.arccos(cosine)
    return (np.sqrt(1 - cosine**2) + 2 * cosine * (np.pi - angle)) / (2 * np.pi)


def growth(K: np.ndarray, lr: float, batch: int, law: ms.Pairs, times: int = 60) -> float:
    """The factor by which second moments grow in a step, after some steps of their recursion."""
    M, n, size = np.eye(len(K)), len(K), 1.0
    for _ in range(times):
        drawn = law.together * M + (law.twice - law.together) * np.diag(np.diag(M))
        M = M - lr / n * (K @ M + M @ K) + (lr / batch) ** 2 * K @ drawn @ K
        size = float(np.linalg.norm(M))
        M = M / size
    return size


def crossing(ratios: np.ndarray, exponents: np.ndarray) -> float:
    """The ratio at which the exponent is zero, by interpolation; the last ratio if the exponent stays below."""
    above = np.flatnonzero(exponents > 0)
    if not len(above):
        return float(ratios[-1])
    pair = slice(max(above[0] - 1, 0), above[0] + 1)
    return float(np.interp(0.0, exponents[pair], ratios[pair]))


@study("lectures/11-16-critical-step", section="11-16", title="The largest step that SGD bears", new=True)
def run(config: Config) -> xr.Dataset:
    r"""Near interpolation, with squared loss $\frac1{2B}\sum$ and tangent kernel $K$, second moments of the residual
    obey $M' = M - \frac\eta n(KM + MK) + \frac{\eta^2}{B^2}KE[SMS]K$. They shrink if and only if
    $\eta < \eta_2(B) = 1/\lambda_{\max}(C^{-1}D)$.

    With full batches $\eta_2(n) = 2n/\lambda_1$. With one sample and a constant diagonal $k$, $\eta_2(1) = 2/k$.
    Between them, with $c = \frac{n - B}{B(n - 1)}$,
    $$\frac1{\eta_2(B)} \le \frac{1 - c}{\eta_2(n)} + \frac c{\eta_2(1)}.$$
    The step grows in proportion to the batch while the last term counts, and no more beyond. Almost every run shrinks
    up to a step at least as large, where its Lyapunov exponent changes sign.
    """
    random = np.random.default_rng(config.seed)
    x = random.normal(size=(config.samples, config.dimension))
    K = relu_kernel(x / np.linalg.norm(x, axis=1, keepdims=True))
    n = config.samples
    sizes = [*config.batches, n]
    found = {b: ms.critical_step(K, b, tol=1e-10) for b in sizes}
    one = found[1] if 1 in found else ms.critical_step(K, 1, tol=1e-10)
    grown = [[growth(K, share * found[b].step, b, ms.pairs(n, b)) for share in (0.8, 1.2)] for b in sizes]
    runs = {"steps": config.steps, "runs": config.runs, "seed": config.seed}
    exponents = [[ms.lyapunov_exponent(K, r * found[b].step, b, **runs) for r in GRID] for b in config.batches]
    small, few = K[: config.few, : config.few], range(1, config.few + 1)
    maps = [ms.dense_map(small, ms.critical_step(small, b, tol=1e-13).step, b) for b in few]
    radius = [np.abs(np.linalg.eigvals(one_step)).max() for one_step in maps]
    return xr.Dataset(
        {
            "step": ("batch", [found[b].step for b in sizes]),
            "full": found[n].full,
            "one": one.step,
            "products": ("batch", [found[b].products for b in sizes]),
            "largest": np.linalg.eigvalsh(K)[-1],
            "diagonal": K[0, 0],
            "grown": (("batch", "side"), grown),
            "radius": ("few", radius),
            "exponent": (("inner", "ratio"), [[e.value for e in row] for row in exponents]),
            "error": (("inner", "ratio"), [[e.error for e in row] for row in exponents]),
        },
        coords={"batch": sizes, "ratio": list(GRID), "side": ["below", "above"], "inner": sizes[:-1]},
    )


def sure(data: xr.Dataset) -> np.ndarray:
    """Steps at which almost every run stops shrinking, over the mean-square critical steps."""
    return np.array([crossing(data.ratio.values, row) for row in data.exponent.values])


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    n, full, one = config.samples, float(data.full), float(data.one)
    for key, name, ratio in (
        ("full-batches", r"full batches: critical step over $2n/\lambda$", data.step[-1] * data.largest / (2 * n)),
        ("one-sample", "one sample a step: critical step over $2/k$", one * data.diagonal / 2),
    ):
        yield claim(key, name).equal(1.0, ratio, 1e-7, "an identity: the tolerance of the search")
    name = f"{config.few} samples: spectral radius over all batches at the critical step, less 1"
    why = "an identity: rounding of eigenvalues of a matrix that is not symmetric"
    yield claim("spectral-radius", name).zero(np.abs(data.radius - 1).max(), 1e-9, why)
    name = "growth of second moments a step"
    yield claim("growth-below", f"largest {name} at 0.8 of the critical step").at_most(
        1.0, data.grown[:, 0].max(), "they shrink below the critical step"
    )
    yield claim("growth-above", f"least {name} at 1.2 of the critical step").at_least(
        1.0, data.grown[:, 1].min(), "they grow above it"
    )
    share = (n - data.batch) / (data.batch * (n - 1))
    bound, least = (1 - share) / full + share / one, np.maximum((1 - share) / full, share / one)
    sum_of = "the largest eigenvalue of a sum"
    yield claim("upper-bound", r"$1/\eta_2$ over its bound from one sample and from all, largest").at_most(
        1.0, (1 / data.step / bound).max(), sum_of, slack=1e-7
    )
    yield claim("lower-bound", r"$1/\eta_2$ over the larger of the two terms, least").at_least(
        1.0, (1 / data.step / least).min(), f"{sum_of} of positive operators", slack=1e-7
    )
    memory = "sampling error, and what a finite run remembers of its start"
    for i, batch in enumerate(data.inner.values):
        found = Estimate(float(data.exponent[i, 1]), float(data.error[i, 1]), config.runs - 1)
        typical = claim(f"lyapunov-{batch}", f"batch {batch}: Lyapunov exponent at the mean-square critical step")
        if batch == 1:
            # A step of 2/k reflects the parameters at the plane of a sample, so every run keeps its distance.
            yield typical.zero(found, 2 / config.steps, memory)
        else:
            yield typical.at_most(0.0, found, f"Jensen's inequality; {memory}", slack=2 / config.steps)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11.5, 4.6), 2)
    n, full, one = config.samples, float(data.full), float(data.one)
    b = np.geomspace(1, n, 200)
    left.plot(data.batch, data.step, "o-", color="C0", label="mean square")
    left.plot(data.inner, data.step[:-1] * sure(data), "s-", color="C1", label="almost surely")
    share, early = (n - b) / (b * (n - 1)), b[b * one < 1.5 * full]
    left.plot(b, 1 / ((1 - share) / full + share / one), color="C0", lw=1, alpha=0.5, label="bound from both ends")
    sheet.guide(left, early, early * one, "in proportion to the batch")
    sheet.mark(left, y=full, label=r"$2n/\lambda_1$")
    title, logs = "The linear scaling rule and its end", {"xscale": "log", "yscale": "log"}
    sheet.label(left, title, "samples a batch", r"critical step $\eta$", "lower right", **logs)
    for i, batch in enumerate(data.inner.values):
        right.plot(data.ratio, data.exponent[i], "o-", ms=4, color=f"C{i % 8}", label=f"{batch}")
    sheet.mark(right, y=0.0)
    ratio, legend = r"$\eta$ over the mean-square critical step", {"loc": "best", "title": "batch"}
    sheet.label(right, "A typical run beyond the mean-square step", ratio, "Lyapunov exponent", legend)
