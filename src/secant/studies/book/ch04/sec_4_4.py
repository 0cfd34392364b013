"""Section 4.4: weights that are tied, and backpropagation through time."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, scaled, sheet, study
from secant.nets import graphs
from secant.studies.shared.numerics.derivatives import derivative
from secant.studies.shared.numerics.differences import largest, relative
from secant.theory.descent import backprop


class Config(Seeded):
    length: int = option(8, at_least=3, at_most=40, help="places of the convolution")
    channels: int = option(3, at_least=1, at_most=6, help="filters of the convolution")
    neurons: int = option(12, at_least=2, at_most=40, help="neurons of the recurrent network")
    inputs: int = option(2, at_least=1, at_most=10, help="inputs that the recurrent network reads at each step")
    short: int = option(6, at_least=2, at_most=20, help="steps of the recurrent network whose weights are compared")
    gains: tuple[float, ...] = option(
        (0.9, 1.0, 1.1), at_least=0.5, at_most=1.5, ascending=True, longest=6, help="spectral radii"
    )
    times: int = scaled(smoke=150, laptop=600, at_least=60, at_most=1_000, help="steps that gradients go back")


def convolution(weights: np.ndarray, x: np.ndarray, config: Config) -> complex:
    """The network of the graph by slices: filters of three places, then a dense layer."""
    padded = np.concatenate([np.zeros(1), x, np.zeros(1)])
    windows = np.stack([padded[i : i + config.length] for i in range(3)], 1)
    filters = weights[: 3 * config.channels].reshape(config.channels, 3)
    hidden = np.tanh(windows @ filters.T / 3**0.5).ravel()
    return weights[3 * config.channels :] @ hidden / len(hidden) ** 0.5


def recurrence(weights: np.ndarray, x: np.ndarray, out: np.ndarray, config: Config) -> complex:
    """The recurrent network as a loop."""
    n, m, steps = config.neurons, config.inputs, config.short
    matrix, h = weights.reshape(n, m + n), x[steps * m :]
    for step in range(steps):
        z = matrix @ np.concatenate([x[step * m : (step + 1) * m], h]) / (n + m) ** 0.5
        h = np.tanh(z) if step < steps - 1 else z
    return out @ h


def through_time(matrix: np.ndarray, steps: int, activation: str, start: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Messages at every step of a recurrent network that is left alone, last step first."""
    n = len(matrix)
    graph, tie = backprop.unroll(n, 0, steps)
    found = backprop.gradient(graph, matrix.ravel() * n**0.5, start, activation, output=out, tie=tie)
    return found.nodes.reshape(steps + 1, n)[::-1]


@study("book/sec-4.4", section="4.4", title="Tied weights, and time")
def run(config: Config) -> xr.Dataset:
    r"""Where edges share a parameter, its derivative is the sum of the derivatives in its copies. A convolution sums
    over all places, and a recurrent network, unrolled in time, sums over all steps. In recurrent networks gradients may
    explode or vanish: the gradients of a linear network, $h_t = Wh_{t-1}$, grow like the power of the spectral radius
    of $W$. Careful initialisation keeps their size, for example with an orthogonal $W$.
    """
    rng = np.random.default_rng(config.seed)
    graph = graphs.convolutional(config.length, [config.channels])
    w, x = rng.normal(size=graph.parameters), rng.normal(size=config.length)
    shared = backprop.gradient(graph, w, x)
    by_slices = derivative(lambda w: convolution(w, x, config), w)
    unrolled, tie = backprop.unroll(config.neurons, config.inputs, config.short)
    size = config.neurons * (config.neurons + config.inputs)
    v, at, out = rng.normal(size=size), rng.normal(size=unrolled.inputs), rng.normal(size=config.neurons)
    own = backprop.gradient(unrolled, v, at, output=out, tie=tie)
    by_loop = derivative(lambda v: recurrence(v, at, out, config), v)
    n = config.neurons
    random = rng.normal(size=(n, n))
    random /= np.abs(np.linalg.eigvals(random)).max()
    turned, _ = np.linalg.qr(rng.normal(size=(n, n)))
    start = rng.normal(size=n) / n**0.5
    messages, bent, exact = [], [], []
    values, basis = np.linalg.eig(random)
    parts = basis.T @ out  # of the message along left eigenvectors
    for gain in config.gains:
        messages.append(through_time(gain * random, config.times, "identity", start, out))
        bent.append(through_time(gain * random, config.times, "tanh", start, out))
        powers = (gain * values) ** np.arange(config.times + 1)[:, None]
        exact.append(((powers * parts) @ np.linalg.inv(basis)).real)
    kept = through_time(turned, config.times, "identity", start, out)
    norm = lambda rows: np.linalg.norm(rows, axis=-1) / np.linalg.norm(out)  # noqa: E731
    apart = np.abs(np.array(messages) - np.array(exact)).max(-1) / np.abs(exact).max(-1)
    return xr.Dataset(
        {
            "filters": ("weight", shared.weights),
            "copies": float(len(shared.edges) / len(shared.weights)),
            "by_slices": ("weight", by_slices),
            "recurrent": ("entry", own.weights),
            "by_loop": ("entry", by_loop),
            "copied": (("time", "entry"), own.edges.reshape(config.short, -1)),
            "kept": ("step", norm(kept)),
            "size": (("gain", "step"), norm(np.array(messages))),
            "bent": (("gain", "step"), norm(np.array(bent))),
            "apart": (("gain", "step"), apart),
            "condition": float(np.linalg.cond(basis)),
        },
        coords={"gain": list(config.gains)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for key, name, found, other in (
        ("places", "convolution: messages summed over places", data.filters, data.by_slices),
        ("steps", "recurrent network: messages summed over steps", data.recurrent, data.by_loop),
    ):
        yield claim(key, f"{name}, less the derivative in the shared weight, over the largest").zero(
            relative(found, other), 1e-12, "rounding"
        )
    sentence = "recurrent network: sum of the derivatives in the copies of a weight, less its own, over the largest"
    yield claim("copies", sentence).zero(relative(data.copied.sum("time"), data.recurrent), 1e-13, "rounding")
    yield claim("last-copy", "recurrent network: the same for the last copy alone").at_least(
        0.01, relative(data.copied[-1], data.recurrent), "one copy is not the sum"
    )
    condition = float(data.condition)
    sentence = "linear network: messages back to each step less sums over eigenvectors, over the largest"
    yield claim("eigenvectors", sentence).zero(
        data.apart.max(), 1e-14 * condition * config.times, "rounding, by the condition of the eigenvectors"
    )
    last = config.times - config.times // 2
    later = np.log(data["size"])[:, -1] - np.log(data["size"])[:, config.times // 2]
    for i, gain in enumerate(config.gains):
        at = f"spectral radius {gain:g}"
        yield claim(
            f"growth-{gain:g}", f"{at}: growth of gradients a step, over the last half of {config.times}"
        ).equal(
            gain,
            np.exp(later[i] / last),
            0,
            "the eigenvectors' condition, once at each end",
            relative=np.expm1(2 * np.log(condition) / last),
        )
        top = (data["size"][i] / gain ** np.arange(config.times + 1)).max() / condition
        sentence = f"{at}: largest gradient over its power, over the condition of the eigenvectors"
        yield claim(f"size-{gain:g}", sentence).at_most(1.0, top, "an inequality", slack=1e-10)
    yield claim("orthogonal", "orthogonal weights: largest change of the gradient's size").zero(
        largest(data.kept, 1), 1e-14 * config.times, "rounding of the steps"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    steps = np.arange(config.times + 1)
    for i, gain in enumerate(config.gains):
        left.semilogy(steps, data["size"][i], color=f"C{i}", label=rf"$\rho = {gain:g}$")
        right.semilogy(steps, np.maximum(data.bent[i], 1e-12), color=f"C{i}", label=rf"$\rho = {gain:g}$")
        power = gain ** (steps - config.times) * float(data["size"][i, -1])
        sheet.guide(left, steps, power, r"$\rho^t$" if i == 0 else None)
    sheet.label(left, "Linear", "steps back", "size of the gradient", "best")
    sheet.label(right, "With tanh", "steps back", None, "best")
