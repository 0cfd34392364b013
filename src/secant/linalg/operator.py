"""The Operator: a linear map known by its product with a vector."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from secant.core.arguments import whole
from secant.core.device import jit, to_device
from secant.linalg.lanczos import block_lanczos, is_solved_whole
from secant.linalg.ritz import Ritz, Which
from secant.linalg.spaces import Space, Vector, images, is_flat, size_of, unravel_like, wide
from secant.linalg.stochastic import Density, Estimate, gaussian_density, hutchinson, quadrature

if TYPE_CHECKING:
    import scipy.sparse.linalg

DENSE_ENTRIES = 2**27
"""The largest matrix that `dense` makes: 0.5 GiB of float32."""

FEW_NUMBERS = 2**16
"""Up to this many numbers in an operator and a vector together, compiling takes longer than everything else."""


class Eigenpairs(NamedTuple):
    r"""Eigenvalues and eigenvectors, best first, with bounds and estimates of their errors.

    Attributes:
        values: $\theta_1, \dots, \theta_k$.
        vectors: orthonormal eigenvectors: a vector of the operator's space with a leading axis of length $k$; None if
            you did not ask for vectors.
        residuals: $\|A u_i - \theta_i u_i\|$. An eigenvalue is guaranteed to lie within this distance of $\theta_i$.
        errors: the estimated error, $\min(r_i, r_i^2/\text{gap}_i)$.
        products: products spent.
        converged: whether the tolerance was reached.
    """

    values: Float[Array, " k"]
    vectors: Vector
    residuals: Float[Array, " k"]
    errors: Float[Array, " k"]
    products: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Operator:
    r"""A linear map $A$, never written out.

    `bind(data)` returns the product $v \mapsto Av$. Work that all products share, such as a forward pass or a
    linearisation, is done there once. Compiled code belongs to `bind`: an operator at other parameters with the same
    `bind` compiles nothing.

    Attributes:
        bind: `data -> product`.
        data: the arrays the product depends on.
        domain: shapes and types of $v$.
        codomain: shapes and types of $Av$.
        symmetric: whether $A = A^\top$; only then are there eigenvalues.
        adjoint: `data -> transposed product`, for an operator that is not symmetric.
        matrix: `data -> dense matrix`, if there is a faster way than multiplying every basis vector.
        search: `(data, k, tol, key) -> (pairs, lift)`, if there is a shorter way to the largest eigenpairs. `pairs` are
            in coordinates of their own, and `lift` turns vectors there, as rows, into vectors of the operator's space.
        name: the operator's name in errors.
    """

    bind: Callable[[Any], Callable[[Vector], Vector]]
    data: Any
    domain: Any
    codomain: Any
    symmetric: bool = True
    adjoint: Callable[[Any], Callable[[Vector], Vector]] | None = None
    matrix: Callable[[Any], Array] | None = None
    search: Callable[[Any, int, float, PRNGKeyArray], tuple[Ritz, Callable[[Array], Vector]]] | None = None
    name: str = "operator"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return size_of(self.codomain), size_of(self.domain)

    @property
    def dtype(self) -> Any:
        """Type of the matrix entries."""
        return jnp.result_type(*(leaf.dtype for leaf in jax.tree.leaves(self.domain)))

    @property
    def T(self) -> Operator:
        """The transposed operator."""
        if self.symmetric:
            return self
        if self.adjoint is None:
            raise NotImplementedError(f"{self.name}: no transposed product is known.")
        matrix = self.matrix
        return Operator(
            self.adjoint,
            self.data,
            self.codomain,
            self.domain,
            False,
            self.bind,
            None if matrix is None else lambda data: matrix(data).T,
            name=f"{self.name} transposed",
        )

    def mv(self, v: Vector) -> Vector:
        """The product $Av$. Takes a vector like `domain`, or a flat vector, which gives a flat product."""
        flat = isinstance(v, (jax.Array, np.ndarray)) and v.ndim == 1 and not is_flat(self.domain)
        v = self._as_domain(v, flat, "mv: `v`")
        if flat:
            return _compiled(self.bind, "flat", domain=Space(self.domain))(self.data, v)
        return _compiled(self.bind, "apply")(self.data, v)

    def flat_product(self) -> Callable[[Array], Array]:
        """The product on flat vectors, for use inside a traced function."""
        return _flattened(self.bind(self.data), self.domain)

    def __matmul__(self, v: Vector) -> Vector:
        return self.mv(v)

    def dense(self) -> Float[Array, "rows columns"]:
        """The whole matrix, for small operators, and for operators with a fast way to the matrix."""
        rows, columns = self.shape
        if self.matrix is not None:
            return self.matrix(self.data)
        if rows * columns > DENSE_ENTRIES:
            raise ValueError(
                f"{self.name}.dense: a matrix of {rows:,} x {columns:,} has more than {DENSE_ENTRIES:,} entries. "
                "Use mv, top, density, trace or to_scipy, which never build it."
            )
        return _compiled(self.bind, "dense", domain=Space(self.domain), quick=self._is_small)(self.data)

    def top(
        self,
        k: int = 1,
        *,
        which: Which = "largest",
        tol: float = 1e-5,
        max_products: int = 1000,
        start: Vector | None = None,
        multiplicity: int = 1,
        vectors: bool = True,
        key: PRNGKeyArray | None = None,
    ) -> Eigenpairs:
        r"""The `k` leading eigenpairs.

        Args:
            k: how many pairs; a smaller operator gives as many as it has.
            which: `largest` (algebraically), `magnitude`, or `smallest` (algebraically).
            tol: estimated error of each value, relative to the largest magnitude among them.
            max_products: the most products. If they do not suffice, `converged` is false.
            start: vectors near the wanted eigenvectors, with a leading axis: a warm start.
            multiplicity: how often one eigenvalue can occur. A cold start takes this many random vectors; from fewer,
                Lanczos' method does not see all copies.
            vectors: whether to return eigenvectors, too; some operators find the values alone sooner.
            key: randomness of a cold start.
        """
        self._needs_symmetry("top")
        self._at_least_one("top", k=k, multiplicity=multiplicity, max_products=max_products)
        if not tol >= 0:
            raise ValueError(f"{self.name}.top: `tol` must be a number of at least 0, got {tol!r}.")
        if which not in ("largest", "magnitude", "smallest"):
            raise ValueError(f"{self.name}.top: `which` must be 'largest', 'magnitude' or 'smallest', got {which!r}.")
        key = jax.random.key(0) if key is None else key
        p = self.shape[0]
        warm = start is not None
        if self.search is not None and not warm and which == "largest" and multiplicity == 1:
            ritz, lift = self.search(self.data, int(k), float(tol), key)
            if bool(ritz.converged):
                return _eigenpairs(ritz, lift(ritz.vectors) if vectors else None)
        count = min(int(multiplicity), p)
        # For short vectors a longer basis costs little memory, and saves products.
        capacity = 0 if warm else min(128, 2**22 // p)
        rows: Any
        if warm:
            rows = self._rows(start)
        elif is_solved_whole(count, p, int(k), capacity):
            rows = np.zeros((count, p), wide(self.dtype))  # nobody looks at these
        else:
            rows = jax.random.normal(key, (count, p), wide(self.dtype))
        solve = _compiled(
            self.bind,
            "top",
            k=min(int(k), p),
            which=which,
            capacity=capacity,
            domain=Space(self.domain),
            quick=self._is_small,
        )
        limits = {"tol": tol, "min_products": 0 if warm else min(p, int(k) + 4), "max_products": max_products}
        ritz = solve(self.data, rows, key, limits)
        self._finite("top", ritz.values)
        return _eigenpairs(ritz, ritz.vectors if vectors else None)

    def density(
        self, *, degree: int = 64, probes: int = 8, points: int = 512, width: float | None = None, key: Any = None
    ) -> Density:
        r"""Spectral density by stochastic Lanczos quadrature.

        $\rho(t) \approx \frac1{n_v} \sum_{l,i} w_i^{(l)}\, g_\sigma(t - \theta_i^{(l)})$ with the Gauss nodes
        $\theta_i$ and weights $w_i$ of Lanczos runs from random vectors. Costs `degree * probes` products.

        Args:
            degree: Lanczos steps from each random vector.
            probes: how many random vectors.
            points: number of grid points.
            width: $\sigma$ of the smoothing; by default a hundredth of the spectrum's extent.
            key: randomness.
        """
        self._needs_symmetry("density")
        self._at_least_one("density", degree=degree, probes=probes, points=points)
        key = jax.random.key(0) if key is None else key
        run = _compiled(
            self.bind,
            "quadrature",
            degree=min(int(degree), self.shape[0]),
            probes=int(probes),
            domain=Space(self.domain),
            quick=self._is_small,
        )
        nodes, weights = run(self.data, key)
        self._finite("density", nodes)
        return gaussian_density(nodes, weights, points, width)

    def trace(self, *, probes: int = 32, key: PRNGKeyArray | None = None) -> Estimate:
        """The trace, by Hutchinson's estimator with its standard error; exact when `probes` covers the dimension."""
        return self._stochastic("trace", probes, key)

    def frobenius(self, *, probes: int = 32, key: PRNGKeyArray | None = None) -> Estimate:
        """The Frobenius norm, by Hutchinson's estimator with its standard error; exact as for `trace`."""
        return self._stochastic("frobenius", probes, key)

    def to_scipy(self) -> scipy.sparse.linalg.LinearOperator:
        """The operator for SciPy: flat vectors in, flat vectors out."""
        from scipy.sparse.linalg import LinearOperator

        def multiply(operator: Operator) -> Callable[[np.ndarray], np.ndarray]:
            product = _compiled(operator.bind, "flat", domain=Space(operator.domain))
            return lambda v: np.asarray(product(operator.data, np.asarray(v, operator.dtype).ravel()))

        transposed = multiply(self.T) if self.symmetric or self.adjoint is not None else None
        return LinearOperator(self.shape, matvec=multiply(self), rmatvec=transposed, dtype=np.dtype(self.dtype))

    def _stochastic(self, what: str, probes: int, key: PRNGKeyArray | None) -> Estimate:
        if what == "trace" and self.shape[0] != self.shape[1]:
            raise ValueError(f"{self.name}.trace: only a square operator has one, this is {self.shape}.")
        self._at_least_one(what, probes=probes)
        key = jax.random.key(0) if key is None else key
        exact = probes >= self.shape[1]
        run = _compiled(
            self.bind, what, probes=int(probes), exact=exact, domain=Space(self.domain), quick=self._is_small
        )
        value, error = run(self.data, key)
        self._finite(what, value)
        return Estimate(float(value), float(error))

    def _at_least_one(self, method: str, **options: Any) -> None:
        for name, value in options.items():
            whole(f"{self.name}.{method}", name, value, 1)

    def _finite(self, method: str, result: Array) -> None:
        if not np.isfinite(np.asarray(result)).all():  # few numbers, and no program
            raise FloatingPointError(
                f"{self.name}.{method}: a product is not finite. Check that the parameters, the data and the loss are "
                "finite."
            )

    def _rows(self, start: Vector) -> Float[Array, "b p"]:
        """Starting vectors as rows: given like `domain` with a leading axis, or already flat."""
        if is_flat(self.domain) or not isinstance(start, (jax.Array, np.ndarray)) or start.ndim != 2:
            leading = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(start)}
            if len(leading) != 1 or leading in ({()}, {(0,)}):
                raise ValueError(
                    f"{self.name}.top: `start` must hold vectors with a leading axis that counts them, "
                    f"got shapes {[jnp.shape(leaf) for leaf in jax.tree.leaves(start)]}."
                )
            # Only the first vector is checked: all share one array.
            self._as_domain(jax.tree.map(lambda leaf: leaf[0], start), False, "top: a vector of `start`")
            start = jax.vmap(lambda v: ravel_pytree(v)[0])(start)
        if start.shape[1] != self.shape[1] or len(start) == 0:
            raise ValueError(
                f"{self.name}.top: `start` must hold vectors of {self.shape[1]:,} entries, got shape {start.shape}."
            )
        return jnp.asarray(start, wide(self.dtype))

    @property
    def _is_small(self) -> bool:
        """Whether compiling the products well would take longer than computing them."""
        numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(self.data))
        return numbers + size_of(self.domain) <= FEW_NUMBERS

    def _needs_symmetry(self, method: str) -> None:
        if not self.symmetric:
            raise ValueError(f"{self.name}.{method}: only a symmetric operator has a real spectrum; use A.T @ A.")

    def _as_domain(self, v: Vector, flat: bool, what: str) -> Vector:
        """The vector in the form that the product takes. A misfit is an error that names the right form."""
        for leaf in jax.tree.leaves(v):
            if not jnp.issubdtype(jnp.result_type(leaf), jnp.number) or jnp.iscomplexobj(leaf):
                raise TypeError(f"{self.name}.{what} must hold real numbers, got {jnp.result_type(leaf)}.")
        if flat:
            if v.size != self.shape[1]:
                raise ValueError(f"{self.name}.{what} has {v.size:,} entries, the operator takes {self.shape[1]:,}.")
            return v
        given: Any = jax.tree.structure(v)
        taken: Any = jax.tree.structure(self.domain)
        if given != taken:
            raise ValueError(
                f"{self.name}.{what} has the structure {given}, the operator takes {taken} or a flat vector of "
                f"{self.shape[1]:,}."
            )
        for (path, got), want in zip(jax.tree.leaves_with_path(v), jax.tree.leaves(self.domain), strict=True):
            if jnp.shape(got) != want.shape:
                raise ValueError(
                    f"{self.name}.{what}{jax.tree_util.keystr(path)} has shape {jnp.shape(got)}, "
                    f"the operator takes {want.shape}."
                )
        return jax.tree.map(_typed, v, self.domain)


def _typed(got: Any, want: jax.ShapeDtypeStruct) -> Array:
    return to_device(got.astype(want.dtype)) if isinstance(got, np.ndarray) else jnp.asarray(got, want.dtype)


def _flattened(product: Callable[[Vector], Vector], domain: Any) -> Callable[[Array], Array]:
    unravel = unravel_like(domain)
    return lambda v: ravel_pytree(product(unravel(v)))[0].astype(v.dtype)


def _eigenpairs(ritz: Ritz, vectors: Vector | None) -> Eigenpairs:
    return Eigenpairs(ritz.values, vectors, ritz.residuals, ritz.errors, int(ritz.products), bool(ritz.converged))


@functools.lru_cache(maxsize=64)
def _compiled(bind: Callable[[Any], Callable[[Vector], Vector]], what: str, **options: Any) -> Callable[..., Any]:
    """The compiled function of an operator for one purpose; operators with the same `bind` share it."""
    domain, quick = options.pop("domain", None), options.pop("quick", False)

    def flat_product(data: Any) -> Callable[[Array], Array]:
        return _flattened(bind(data), domain.tree())

    def zero() -> Array:
        space = domain.tree()
        return jnp.zeros(size_of(space), wide(jnp.result_type(*(leaf.dtype for leaf in jax.tree.leaves(space)))))

    def apply(data: Any, v: Vector) -> Vector:
        return bind(data)(v)

    def flat(data: Any, v: Array) -> Array:
        return ravel_pytree(bind(data)(unravel_like(domain.tree())(v)))[0]

    def dense(data: Any) -> Array:
        product = flat_product(data)
        return images(product, zero().size, zero().dtype).T

    def top(data: Any, rows: Array, key: PRNGKeyArray, limits: dict[str, Any]) -> Any:
        ritz = block_lanczos(flat_product(data), rows, key=key, **limits, **options)
        return ritz._replace(vectors=jax.vmap(unravel_like(domain.tree()))(ritz.vectors))

    def run_quadrature(data: Any, key: PRNGKeyArray) -> Any:
        return quadrature(flat_product(data), zero(), key, **options)

    def trace(data: Any, key: PRNGKeyArray) -> Any:
        return hutchinson("trace", flat_product(data), zero(), key, **options)

    def frobenius(data: Any, key: PRNGKeyArray) -> Any:
        return hutchinson("frobenius", flat_product(data), zero(), key, **options)

    purposes: dict[str, Callable[..., Any]] = {
        "apply": apply,
        "flat": flat,
        "dense": dense,
        "top": top,
        "quadrature": run_quadrature,
        "trace": trace,
        "frobenius": frobenius,
    }
    return jit(purposes[what], quick=quick)
