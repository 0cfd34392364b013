"""Every layer of a normalised network reaches its own equilibrium between its gradients and weight decay."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import data as datasets
from secant import nets
from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.theory.normalization.weight_decay import equilibrium

STARTS = (0.3, 3.0)
"""Lengths of all layers at the start."""

NEXT = 0.05
r"""The next order of the laws: $\eta\lambda = 0.002$ times the kurtosis of the gradients' length, up to 25."""


class Config(Seeded):
    data: str = scaled(smoke="digits", laptop="cifar10", help="images: digits, cifar10, mnist or fashion-mnist")
    samples: int = options.samples(1_000, 5_000, at_least=100, at_most=50_000)
    width: int = options.width(64, 128, at_least=4, at_most=1_024)
    batch: int = options.batch(16, at_least=2, at_most=1_000)
    lr: float = options.lr(0.1, at_least=1e-3, at_most=10)
    product: float = option(2e-3, at_least=2e-4, at_most=0.05, help="step size times decay")
    steps: int = options.steps(1_500, 6_000, at_least=200, at_most=10**6)

    def check(self) -> None:
        """The data exists, and is enough for a batch."""
        known = ("digits", "cifar10", "mnist", "fashion-mnist")
        if self.data not in known:
            raise ValueError(f"data: must be one of {', '.join(known)}, got {self.data!r}.")
        if self.batch > self.samples:
            raise ValueError(f"batch: must be at most the samples, {self.samples}, got {self.batch}.")


def trained(config: Config, x: np.ndarray, y: np.ndarray) -> Any:
    """Loss, lengths, gradients on the sphere and angles of both layers at every step, over (start, step, layer)."""
    random = np.random.default_rng(config.seed)
    net = nets.scale_invariant([config.width] * 2, outputs=y.shape[1], seed=config.seed)
    shapes = (x.shape[1], config.width), (config.width, config.width)
    weights = [random.normal(size=shape) for shape in shapes]
    per = len(x) // config.batch
    epochs = -(-config.steps // per)
    rows = np.concatenate([random.permutation(len(x))[: per * config.batch].reshape(per, -1) for _ in range(epochs)])
    inputs, targets = jnp.asarray(x), jnp.asarray(y)

    def loss(pair: Any, index: Any) -> Any:
        outputs = net.apply(({"weight": pair[0]}, (), (), {"weight": pair[1]}, (), (), ()), inputs[index])
        return -jnp.mean(jnp.sum(targets[index] * jax.nn.log_softmax(outputs), 1))

    def step(pair: Any, index: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(pair, index)
        new = [(1 - config.product) * w - config.lr * g for w, g in zip(pair, slopes, strict=True)]
        size, after, slope = (jnp.stack([jnp.linalg.norm(w) for w in many]) for many in (pair, new, slopes))
        inner = jnp.stack([jnp.vdot(w, v) for w, v in zip(pair, new, strict=True)])
        return new, (value, size, size * slope, inner / (size * after))

    def whole(scale: Any) -> Any:
        start = [scale * w / np.linalg.norm(w) for w in weights]
        return jax.lax.scan(step, start, jnp.asarray(rows[: config.steps]))[1]

    return jax.jit(jax.vmap(whole))(np.array(STARTS))


@study("book/equilibrium-layers", section="13.4", title="Every layer has an equilibrium of its own", new=True)
def run(config: Config) -> xr.Dataset:
    r"""Take a network where a layer norm follows every weight matrix. Stochastic descent with weight decay brings each
    layer to $\langle|w|^4\rangle = \eta\langle|g(\bar w)|^2\rangle/(2\lambda)$ with its own gradients. It turns all
    layers by the same angle $\sqrt{2\eta\lambda}$ a step, from any length at the start. The study trains two hidden
    layers on batches of images with cross entropy.
    """
    task = datasets.load(config.data, samples=config.samples, labels="one-hot", seed=config.seed, dtype=np.float64)
    found = trained(config, np.asarray(task.train.x), np.asarray(task.train.y))
    loss, size, slope, cosine = (np.asarray(one) for one in found)
    axes = ("start", "step", "layer")
    return xr.Dataset(
        {
            "loss": (axes[:2], loss),
            "length": (axes, size),
            "slope": (axes, slope),
            "angle": (axes, np.arccos(np.minimum(cosine, 1.0))),
            "log_cosine": (axes, np.log(cosine)),
        },
        coords={"start": list(STARTS), "layer": [1, 2]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    turned = data.log_cosine[:, :-1].sum("step") - (config.steps - 1) * np.log(1 - config.product)
    left = turned + np.log(data.length[:, -1] / data.length[:, 0])
    identity = r"sum of $\ln\cos\theta - \ln(1 - \eta\lambda)$, plus $\ln(|w_T|/|w_0|)$, a step, largest"
    yield claim("angle-identity", identity).zero(
        np.abs(left).max() / config.steps, 1e-12, "an identity of every layer, to rounding"
    )
    late = data.isel(step=slice(config.steps // 2, None))
    times = 4 * config.product * config.steps / 2
    enough: dict[str, Any] = {"given": times >= 4, "otherwise": "half of the run is less than four relaxation times"}
    why = "the next order in an angle that comes in bursts, and what the ends of the window leave, by Pythagoras"
    for layer in data.layer.values:
        for start in STARTS:
            one = late.sel(layer=layer, start=start)
            square, moved = one.length**2, config.product * (one.sizes["step"] - 1)
            theory = equilibrium(config.lr, config.product / config.lr, np.sqrt(float((one.slope**2).mean())))
            key, name = f"{layer}-from-{start:g}", f"layer {layer} from $|w| = {start:g}$"
            ends = abs(float(square[-1] ** 2 - square[0] ** 2)) / (4 * moved * float((square**2).mean()))
            length = r"$\langle|w|^4\rangle$ over $\eta\langle|g|^2\rangle/(2\lambda)$"
            yield claim(f"{key}-length", f"{name}: {length}", **enough).equal(
                1.0, (square**2).mean() / theory.norm**4, NEXT + ends, why
            )
            ends = abs(float(np.log(square[-1] / square[0]))) / (2 * moved)
            turn = (one.angle**2).mean() / (2 * config.product)
            yield claim(f"{key}-angle", rf"{name}: mean square angle of a step over $2\eta\lambda$", **enough).equal(
                1.0, turn, NEXT + ends, why
            )
            pace = (config.lr / square).mean() * np.sqrt((square**2).mean()) / config.lr
            yield claim(
                f"{key}-step", rf"{name}: mean step size on the sphere over $\eta/\langle|w|^4\rangle^{{1/2}}$"
            ).at_least(1.0, pace, "Jensen: changing lengths make it larger", slack=1e-12)
    both = late.length.mean("step")
    yield claim("both-starts", "lengths from both starts, relative difference, largest over layers", **enough).zero(
        np.abs(both[1] / both[0] - 1).max(), 0.2, "they began a factor 10 apart"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    steps, every = np.arange(config.steps), max(1, config.steps // 400)
    for layer in (1, 2):
        for start, style in zip(STARTS, ("-", ":"), strict=True):
            one = data.sel(layer=layer, start=start)
            look = {"color": f"C{layer - 1}", "label": f"layer {layer}" if style == "-" else None}
            left.plot(steps[::every], one.length[::every], ls=style, **look)
            if style == "-":
                window = max(1, int(1 / (4 * config.product)))
                smooth = np.convolve(one.angle**2, np.ones(window) / window, "valid")
                right.plot(steps[: len(smooth)][::every] + window / 2, np.sqrt(smooth)[::every], **look)
    late = data.isel(step=slice(config.steps // 2, None), start=0)
    slopes = [np.sqrt(float((late.slope.sel(layer=layer) ** 2).mean())) for layer in (1, 2)]
    lengths = [equilibrium(config.lr, config.product / config.lr, slope).norm for slope in slopes]
    sheet.mark(left, y=lengths, label=r"$(\eta\langle|g|^2\rangle/2\lambda)^{1/4}$")
    sheet.label(left, f"Lengths, {config.data}", "step", "$|w|$", "best", yscale="log")
    sheet.mark(right, y=np.sqrt(2 * config.product), label=r"$\sqrt{2\eta\lambda}$")
    right.set_ylim(0, 2.5 * np.sqrt(2 * config.product))
    sheet.label(right, "Angle of a step", "step", "radians, root of the mean square", "best")
