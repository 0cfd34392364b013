"""The 3072-200-200-10 tanh network in PyTorch, its loss, and Hessian products by double backward."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import nn


def network(arrays: dict[str, np.ndarray], device: str = "cpu", dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """Dense layers with tanh between them, from weights stored (in, out)."""
    layers: list[nn.Module] = []
    count = sum(name.startswith("w") for name in arrays)
    for index in range(count):
        weight, bias = (torch.tensor(arrays[f"{name}{index}"], dtype=dtype) for name in "wb")
        layer = nn.Linear(*weight.shape, dtype=dtype)
        with torch.no_grad():
            layer.weight.copy_(weight.T)
            layer.bias.copy_(bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1]).to(device)


def squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Sum over outputs, mean over samples."""
    return (outputs - targets).square().sum() / len(outputs)


class Hessian:
    """Products with the Hessian of the loss; the graph of the gradient is built once and kept."""

    def __init__(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
        self.params = list(model.parameters())
        loss = squared_error(model(x), y)
        self.gradient = torch.autograd.grad(loss, self.params, create_graph=True)
        self.loss = loss.item()
        self.size = sum(p.numel() for p in self.params)
        self.products = 0

    def product(self, vector: np.ndarray) -> np.ndarray:
        """The Hessian times a flat vector."""
        self.products += 1
        flat = torch.from_numpy(np.ascontiguousarray(vector)).reshape(-1)
        pieces = torch.split(flat, [p.numel() for p in self.params])
        shaped = [piece.view_as(p) for piece, p in zip(pieces, self.params, strict=True)]
        result = torch.autograd.grad(self.gradient, self.params, grad_outputs=shaped, retain_graph=True)
        return torch.cat([piece.reshape(-1) for piece in result]).numpy()

    def top(self, start: np.ndarray, tolerance: float, basis: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The two largest eigenvalues, in falling order, and their eigenvectors, by SciPy's `eigsh`."""
        values, vectors = eigsh(self.operator(start), k=2, which="LA", v0=start, tol=tolerance, ncv=basis)
        order = np.argsort(values)[::-1]
        return values[order], vectors[:, order]

    def top_values(self, start: np.ndarray, tolerance: float, basis: int | None = None) -> np.ndarray:
        """The same without the eigenvectors, which saves their assembly."""
        options = {"k": 2, "which": "LA", "v0": start, "tol": tolerance, "ncv": basis, "return_eigenvectors": False}
        return np.sort(eigsh(self.operator(start), **options))[::-1]

    def operator(self, start: np.ndarray) -> LinearOperator:
        """The products as SciPy wants them."""
        return LinearOperator((self.size, self.size), matvec=self.product, dtype=start.dtype)


def start_vector(size: int, seed: int, dtype: type = np.float32) -> np.ndarray:
    """A random start."""
    return np.random.default_rng(seed).standard_normal(size).astype(dtype)


def converged_top(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The two largest eigenvalues in float64, converged."""
    model = network(arrays, dtype=torch.float64)
    x, y = (torch.tensor(arrays[name], dtype=torch.float64) for name in "xy")
    hessian = Hessian(model, x, y)
    return hessian.top_values(start_vector(hessian.size, 0, np.float64), 1e-10)
