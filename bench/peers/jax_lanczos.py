"""The two largest Hessian eigenvalues by a plain Lanczos iteration in JAX, in the project's own environment.

Products are the derivative of the gradient along a vector; the basis is made orthogonal again, twice, at every step;
all of it is one compiled function. Options: `products` (a list of counts), `repetitions`, `converged`, `accuracy`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from exchange import Exchange, say, timed
from jax.flatten_util import ravel_pytree

Params = list[tuple[jax.Array, jax.Array]]


def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    for weight, bias in params[:-1]:
        x = jnp.tanh(x @ weight + bias)
    outputs = x @ params[-1][0] + params[-1][1]
    return jnp.square(outputs - y).sum() / len(y)


def top_two(params: Params, x: jax.Array, y: jax.Array, start: jax.Array, products: int) -> jax.Array:
    flat, unravel = ravel_pytree(params)
    gradient = jax.grad(lambda vector: loss(unravel(vector), x, y))

    def body(index: int, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        basis, diagonal, beside, vector = carry
        basis = basis.at[index].set(vector)
        image = jax.jvp(gradient, (flat,), (vector,))[1]
        diagonal = diagonal.at[index].set(vector @ image)
        for _ in range(2):
            image = image - basis.T @ (basis @ image)
        length = jnp.linalg.norm(image)
        return basis, diagonal, beside.at[index].set(length), image / length

    carry = (jnp.zeros((products, flat.size)), jnp.zeros(products), jnp.zeros(products), start / jnp.linalg.norm(start))
    _, diagonal, beside, _ = jax.lax.fori_loop(0, products, body, carry)
    matrix = jnp.diag(diagonal) + jnp.diag(beside[:-1], 1) + jnp.diag(beside[:-1], -1)
    return jnp.linalg.eigvalsh(matrix)[-2:][::-1]


def main() -> None:
    exchange = Exchange(("jax", "jaxlib", "numpy"))
    arrays = {name: jnp.asarray(array) for name, array in exchange.arrays.items()}
    count = sum(name.startswith("w") for name in arrays)
    params = [(arrays[f"w{index}"], arrays[f"b{index}"]) for index in range(count)]
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    solve = jax.jit(top_two, static_argnames="products")
    repetitions = int(exchange.options.get("repetitions", 5))
    starts = [jax.random.normal(jax.random.key(seed), (size,)) for seed in range(repetitions)]
    say(f"{len(arrays['x'])} samples, {size} parameters")
    converged = exchange.options.get("converged")
    if converged is None:
        converged = np.asarray(solve(params, arrays["x"], arrays["y"], starts[0], products=60)).tolist()
    exchange.values = {"converged": converged}
    for products in exchange.options.get("products", [15]):

        def work(repetition: int, products: int = products) -> np.ndarray:
            return np.asarray(solve(params, arrays["x"], arrays["y"], starts[repetition], products=products))

        seconds, answers = timed(work, repetitions)
        errors = np.abs(np.array(answers) / np.array(converged) - 1)
        exchange.method(
            f"plain JAX Lanczos, {products} products",
            seconds,
            products=products,
            eigenvalues=answers[0].tolist(),
            relative_errors=errors.max(axis=0).tolist(),
            accurate=bool(errors.max() <= float(exchange.options.get("accuracy", 1e-3))),
        )
    exchange.close()


if __name__ == "__main__":
    main()
