"""Figure 7.1: the stuck region of the perturbation ball is a pancake, and in two dimensions a band."""

import numpy as np
import xarray as xr

from secant.lab import Estimate, Figure, Findings, Seeded, claim, option, scaled, sheet, study
from secant.studies.shared.numerics.differences import largest
from secant.theory.landscape import escape, rank_one


class Config(Seeded):
    eigenvalues: tuple[float, float, float] = option((3.0, 2.0, 1.0), at_least=0.2, at_most=5, help="of the matrix")
    rate: float = option(0.05, at_least=0.005, at_most=0.06, help="step size")
    radius: float = option(1e-3, at_least=1e-8, at_most=1e-2, help="radius of the perturbation ball")
    pixels: int = scaled(smoke=121, laptop=401, at_least=31, at_most=2_001, help="points of the raster on each axis")
    points: int = scaled(smoke=4_000, laptop=40_000, at_least=500, at_most=10**6, help="random points of the 3D ball")
    share: float = option(
        0.15, at_least=0.03, at_most=0.8, help="half width of the band over the radius; sets the time"
    )

    def check(self) -> None:
        """A saddle with one way out."""
        a, b, c = self.eigenvalues
        if not (a - b >= 0.2 and b - c >= 0.2):
            raise ValueError(f"eigenvalues: descending, each 0.2 below the one before, got {self.eigenvalues}.")


def leaving(x: np.ndarray, M: np.ndarray, saddle: rank_one.Saddle, rate: float, limit: int, far: float) -> np.ndarray:
    """The step at which a run first is far along the way out, or the limit."""
    found = np.full(len(x), limit)
    for step in range(limit):
        gone = (np.abs((x - saddle.point) @ saddle.way) > far) & (found == limit)
        found[gone] = step
        x = x - rate * rank_one.gradient(M, x)
    return found


@study("book/fig-7.1", section="7.3", title="Pancake and band")
def run(config: Config) -> xr.Dataset:
    r"""Figure 7.1: a random push starts in a ball around a saddle. From the stuck region of this ball gradient descent
    makes little progress in $T$ steps. The region is a thin pancake in three dimensions and a narrow band in two. Its
    half width along the way out $e_1$ is $S(1 + \eta\gamma)^{-T}$, where $S$ is the distance to leave. The other
    coordinates do not matter, and the region fills as much of the ball as a slab of its width.
    """
    rng = np.random.default_rng(config.seed)
    M = np.diag(config.eigenvalues)
    saddle = rank_one.second_best(M)
    grow = escape.growth(config.rate, saddle.curvature)
    far = 20 * config.radius
    T = int(np.ceil(np.log(far / (config.share * config.radius)) / np.log(grow)))
    axis = np.linspace(-1, 1, config.pixels)
    u, v = np.meshgrid(axis, axis, indexing="ij")  # along e_1 and along e_3, through the saddle
    plane = saddle.point + config.radius * np.stack([u.ravel(), 0 * u.ravel(), v.ravel()], 1)
    time = leaving(plane, M, saddle, config.rate, 3 * T, far).reshape(u.shape)
    x = rng.normal(size=(config.points, 3))
    x *= rng.uniform(size=(config.points, 1)) ** (1 / 3) / np.linalg.norm(x, axis=1, keepdims=True)
    ball = leaving(saddle.point + config.radius * x, M, saddle, config.rate, T + 1, far)
    path = saddle.point + config.radius * np.array([[s * 0.25, 0, 0.95 * c] for s in (-1, 1, 0) for c in (-1, 0, 1)])
    track = []
    for _ in range(2 * T):
        track.append((path - saddle.point)[:, [0, 2]] / config.radius)
        path = path - config.rate * rank_one.gradient(M, path)
    return xr.Dataset(
        {
            "time": (("along", "across"), time),
            "ball": (("point", "axis"), x),
            "left": ("point", ball),
            "T": T,
            "half": far / config.radius / grow**T,
            "track": (("step", "run", "axis2"), np.stack(track)),
        },
        coords={"along": axis, "across": axis},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    T, half, axis = int(data["T"]), float(data.half), data.along.values
    pixel, order = axis[1] - axis[0], 100 * config.radius**0.5 * config.radius
    u, v = np.meshgrid(axis, axis, indexing="ij")
    inside, stuck = u**2 + v**2 <= 1, data.time.values > T
    width = np.where(stuck, np.abs(u), 0).max(0)  # of every row of the raster
    rows = np.abs(axis) < np.sqrt(1 - min(half + 2 * pixel, 0.99) ** 2)
    why = "a pixel, and the next order in the distance from the saddle"
    yield claim("band-width", r"band: half width less $S(1 + \eta\gamma)^{-T}$, largest of all rows, in radii").zero(
        largest(width[rows], half), pixel + half * 0.02 + order, why
    )
    area = (stuck & inside).sum() / inside.sum() / float(escape.slab_share(2 * half, 2))
    yield claim("band-share", "band: share of the disc over that of a slab").equal(
        1.0, area, 1.1 * pixel / half + 0.02, "a pixel on either side"
    )
    column = data.time.values[:, config.pixels // 2]
    right, away = axis > pixel, np.maximum(np.abs(axis), 1e-300)
    law = np.log(20 / away) / np.log(escape.growth(config.rate, config.eigenvalues[0] - config.eigenvalues[1]))
    sentence = r"time to leave less $\log(S/u)/\log(1 + \eta\gamma)$, largest, in steps"
    yield claim("time", sentence).at_most(
        1.0, largest(column[right], law[right]), "whole steps, and the next order", slack=0.5
    )
    x, gone = data.ball.values, data.left.values <= T
    few, chance = int((~gone).sum()), float(escape.slab_share(2 * half, 3))
    share = Estimate((~gone).mean() / chance, np.sqrt(chance * (1 - chance) / len(x)) / chance)
    yield claim("pancake-share", "pancake: share of the ball over that of a slab").equal(
        1.0, share, 0.03, "the sampling error, and the next order"
    )
    some, otherwise = few >= 100, "hardly any point is stuck"
    yield claim("pancake-shape", "pancake: thickness over width", given=some, otherwise=otherwise).equal(
        half,
        lambda: np.abs(x[~gone, 0]).max() / np.linalg.norm(x[~gone, 1:], axis=1).max(),
        0.1 * half + 10 * half / max(few, 1),
        "gaps between random points",
    )
    yield claim("pancake-bound", "pancake: share of the ball over its bound").at_most(
        1.0, chance / float(escape.stuck_chance(2 * half, 1.0, 3)), "sections are largest at the centre"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    figure.set_size_inches(11.5, 5)
    left = figure.add_subplot(1, 2, 1, projection="3d")
    x, gone = data.ball.values[:4_000], data.left.values[:4_000] <= int(data["T"])
    near = np.linalg.norm(x, axis=1) > 0.9  # only the outer points that escape: the others would hide the pancake
    left.plot(*x[gone & near][:, [1, 2, 0]].T, "o", ms=1.6, color="C0", alpha=0.35, label="escapes")
    left.plot(*x[~gone][:, [1, 2, 0]].T, "o", ms=2.4, color="C3", label="stuck")
    left.set_axis_off()
    left.view_init(12, 40)
    left.set_box_aspect((1, 1, 1), zoom=1.4)
    sheet.label(left, "A pancake", None, None, "upper right")
    right = figure.add_subplot(1, 2, 2)
    axis = data.along.values
    u, v = np.meshgrid(axis, axis, indexing="ij")
    time = np.where(u**2 + v**2 <= 1, data.time.values, np.nan).astype(float)
    drawn = right.pcolormesh(axis, axis, time, cmap="viridis", vmax=2 * int(data["T"]), rasterized=True)
    figure.colorbar(drawn, ax=right, label="steps to leave")
    right.contour(axis, axis, np.where(np.isnan(time), 0, time), [int(data["T"]) + 0.5], colors="white", linewidths=1.2)
    for run_ in range(data.sizes["run"]):
        track = data.track.values[:, run_]
        kept = np.abs(track).max(1) <= 1
        right.plot(track[kept, 1], track[kept, 0], color="white", lw=1, alpha=0.8)
    right.set_aspect("equal")
    right.grid(False)
    title = f"A band: white, what stays {int(data['T'])} steps; paths"
    sheet.label(right, title, "along a stable direction", "along the way out")
