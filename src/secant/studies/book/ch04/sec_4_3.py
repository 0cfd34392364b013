"""Section 4.3: messages that are matrices, and the shapes of a product."""

import itertools

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared.numerics.derivatives import STEP, derivative
from secant.studies.shared.numerics.differences import largest, relative


class Config(Seeded):
    d1: int = option(3, at_least=1, at_most=12, help="rows of W")
    d2: int = option(4, at_least=1, at_most=12, help="columns of W, rows of Z")
    d3: int = option(5, at_least=1, at_most=12, help="columns of Z")
    square: int = option(4, at_least=2, at_most=12, help="size of square matrices, for which the print has a meaning")
    layers: int = options.layers(4, 10, at_most=20)

    def check(self) -> None:
        """Three sizes that differ, so that shapes can be told apart."""
        if len({self.d1, self.d2, self.d3}) < 3:
            raise ValueError(f"d1: d1, d2 and d3 must be three different numbers, got {self.d1, self.d2, self.d3}.")


def network(matrices: list[np.ndarray], x: np.ndarray) -> complex:
    r"""$\frac12|W_L\tanh(\cdots\tanh(W_1X))|^2$, without conjugates: as smooth as its parts."""
    for matrix in matrices[:-1]:
        x = np.tanh(matrix @ x)
    return ((matrices[-1] @ x) ** 2).sum() / 2


def backward(matrices: list[np.ndarray], x: np.ndarray) -> list[np.ndarray]:
    """The gradients of the network by matrix messages: a node knows its map and its product with a message."""
    inputs, states = [], x
    for matrix in matrices[:-1]:
        inputs.append(states)
        states = np.tanh(matrix @ states)
    inputs.append(states)
    message, found = matrices[-1] @ states, []
    for matrix, before in zip(matrices[::-1], inputs[::-1], strict=True):
        found.append(message @ before.T)
        message = (matrix.T @ message) * (1 - before**2)
    return found[::-1]


@study("book/sec-4.3", section="4.3", title="Messages that are matrices")
def run(config: Config) -> xr.Dataset:
    r"""Where a node $u$ holds a vector or a matrix, its message to $z$ is $\frac{\partial u}{\partial z}[S]$: the
    transposed Jacobian applied to $S$. Here $S$ has the shape of $u$, and the result has the shape of $z$. A node needs
    its map and this product. Let $U = WZ$ with $W \in \mathbb R^{d_1\times d_2}$ and $Z \in \mathbb
    R^{d_2\times d_3}$. The matrix of $\partial U/\partial Z$ has $d_2d_3 \times d_1d_3$ entries. The products need no
    such matrix: $\frac{\partial U}{\partial Z}[S] = W^\top S$ and $\frac{\partial U}{\partial W}[S] = SZ^\top$.
    """
    rng = np.random.default_rng(config.seed)
    d1, d2, d3 = config.d1, config.d2, config.d3
    W, Z, S = (rng.normal(size=shape) for shape in ((d1, d2), (d2, d3), (d1, d3)))
    by_z, by_w = derivative(lambda z: W @ z, Z), derivative(lambda w: w @ Z, W)
    n = config.square
    w, z, s, along = rng.normal(size=(4, n, n))
    x = rng.normal(size=(config.d2, config.d3))
    sizes = [config.d2, *[config.d1] * config.layers]
    matrices = [rng.normal(size=(b, a)) / a**0.5 for a, b in itertools.pairwise(sizes)]
    found, exact = backward(matrices, x), []
    for i, matrix in enumerate(matrices):
        rest = lambda m, i=i: network([*matrices[:i], m, *matrices[i + 1 :]], x)  # noqa: E731
        exact.append(derivative(rest, matrix))
    return xr.Dataset(
        {
            "W": (("row", "middle"), W),
            "Z": (("middle", "column"), Z),
            "S": (("row", "column"), S),
            "by_z": (("z_entry", "u_entry"), by_z),
            "by_w": (("w_entry", "u_entry"), by_w),
            "message": ("weight", np.concatenate([part.ravel() for part in found])),
            "exact": ("weight", np.concatenate(exact)),
            "layer": ("weight", np.repeat(np.arange(config.layers), [part.size for part in found])),
            # With the printed shapes the product is ZW: the change of S.ZW along a direction, measured and by messages.
            "measured": float((s * ((z + STEP * 1j * along) @ w)).sum().imag / STEP),
            "printed": float(((w.T @ s) * along).sum()),
            "corrected": float(((s @ w.T) * along).sum()),
            "scale": float(np.linalg.norm(s) * np.linalg.norm(along)),
        }
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    W, Z, S, by_z, by_w = (data[name].values for name in ("W", "Z", "S", "by_z", "by_w"))
    for key, message, name, found, dense in (
        ("z", r"W^\top S", "Z", W.T @ S, by_z),
        ("w", r"SZ^\top", "W", S @ Z.T, by_w),
    ):
        yield claim(key, f"$U = WZ$: ${message}$ less the dense derivative in ${name}$ applied to $S$").zero(
            largest(found.ravel(), dense @ S.ravel()), 1e-13, "rounding"
        )
    yield claim("kronecker", r"dense derivative in $Z$ less the Kronecker product $W^\top\otimes 1$").zero(
        largest(by_z, np.kron(W.T, np.eye(config.d3))), 1e-14, "rounding"
    )
    yield claim("entries", r"entries of the dense derivative over the products that $W^\top S$ takes").count(
        config.d3, by_z.size / (W.size * config.d3), "$d_1d_2d_3^2$ over $d_1d_2d_3$"
    )
    sentence = f"network of {config.layers} layers: gradients by matrix messages, largest difference over the largest"
    yield claim("network", sentence).zero(relative(data.message, data.exact), 1e-12, "rounding")
    yield claim("shape", "numbers that the derivative of $U$ in $Z$ takes").erratum(
        (r"\mathbb R^{d_2\times d_3} \to \mathbb R^{d_1\times d_3}", config.d2 * config.d3),
        (r"\mathbb R^{d_1\times d_3} \to \mathbb R^{d_2\times d_3}", config.d1 * config.d3),
        by_z.shape[1],
        1e-12,
        "a count",
        where="section 4.3",
        note="in the book's convention a derivative takes a message to what lies below",
    )
    scale = float(data.scale)
    sentence = r"square $W$ of $d_2\times d_3$ and $Z$ of $d_1\times d_2$: change of $S\cdot U$ with $Z$, over sizes"
    yield claim("order", sentence).erratum(
        (r"W^\top S", data.printed / scale),
        (r"SW^\top", data.corrected / scale),
        data.measured / scale,
        1e-12,
        "rounding",
        where="section 4.3",
        note=r"with the printed shapes $U = ZW$, whose message is $SW^\top$; $W^\top S$ is the message of $U = WZ$, "
        r"$W$ of $d_1\times d_2$, $Z$ of $d_2\times d_3$",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    top = float(np.abs(data.by_z).max())
    shown = left.imshow(data.by_z, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto")
    figure.colorbar(shown, ax=left)
    left.grid(False)
    sheet.label(left, r"$\partial U/\partial Z = W^\top\otimes 1$ of a product", "entries of $U$", "entries of $Z$")
    for i in range(config.layers):
        own = data.isel(weight=data.layer.values == i)
        right.plot(own.exact, own.message, ".", color=f"C{i % 8}", label=f"layer {i + 1}")
    ends = np.array([data.exact.min(), data.exact.max()])
    sheet.guide(right, ends, ends)
    sheet.label(right, "Gradients of a network", "derivative", "matrix messages", {"ncols": 1 + config.layers // 8})
