"""The slow manifold's series, derived from nothing but its invariance, in exact arithmetic.

Polynomials in epsilon and z are dictionaries (power of epsilon, power of z) -> coefficient, cut off by weight: one for
z, two for epsilon.
"""

from fractions import Fraction

import pytest
import sympy as sp

from secant.theory.edge import edge_limit

WEIGHT = 12
ONE, Z, E = {(0, 0): Fraction(1)}, {(0, 1): Fraction(1)}, {(1, 0): Fraction(1)}


def add(*terms):
    total = {}
    for factor, polynomial in terms:
        for power, c in polynomial.items():
            total[power] = total.get(power, 0) + factor * c
    return total


def multiply(a, b):
    product = {}
    for (k, j), x in a.items():
        for (n, i), y in b.items():
            if 2 * (k + n) + j + i <= WEIGHT:
                product[k + n, j + i] = product.get((k + n, j + i), 0) + x * y
    return product


def invariance(g):
    """g(z') - T' after one step from T = g(z), for eigenvalues {1, -epsilon}."""
    T1 = add((1, g), (-1, multiply(E, g)), (2, multiply(E, Z)))
    T2 = add((1, g), (1, multiply(add((1, multiply(E, E)), (-1, E)), add((1, g), (-2, Z)))))
    after = add((1, Z), (-1, multiply(Z, g)), (Fraction(1, 2), multiply(multiply(Z, Z), T1)))
    T = add((1, g), (-2, multiply(Z, T1)), (1, multiply(multiply(Z, Z), T2)))
    powers = [ONE]
    for _ in range(WEIGHT):
        powers.append(multiply(powers[-1], after))
    image = add(*((1, multiply({(k, 0): c}, powers[j])) for (k, j), c in g.items()))
    return add((1, image), (-1, T))


def with_odd(g, weight):
    """The odd terms of a weight: z goes to -z, so that each changes the condition by minus twice itself."""
    rest = invariance(g)
    odd = {(k, weight - 2 * k): Fraction(rest.get((k, weight - 2 * k), 0)) / 2 for k in range(1, weight // 2 + 1)}
    return add((1, g), (1, odd))


@pytest.fixture(scope="module")
def manifold():
    """All terms up to weight ten: the even ones of a weight are fixed by the condition two weights on."""
    g = with_odd({(0, j): Fraction(2) for j in range(WEIGHT + 1)}, 1)
    for weight in range(2, WEIGHT - 1, 2):
        unknown = [(k, weight - 2 * k) for k in range(1, weight // 2 + 1)]
        conditions = [(k, weight + 2 - 2 * k) for k in range(1, weight // 2 + 2)]

        def condition(values, g=g, unknown=unknown, conditions=conditions, weight=weight):
            full = with_odd(add((1, g), (1, dict(zip(unknown, map(Fraction, values), strict=True)))), weight + 1)
            rest = invariance(full)
            return full, [sp.Rational(str(Fraction(rest.get(power, 0)))) for power in conditions]

        _, at_zero = condition([0] * len(unknown))
        columns = [condition([int(i == n) for i in range(len(unknown))])[1] for n in range(len(unknown))]
        matrix = sp.Matrix([[c[row] - at_zero[row] for c in columns] for row in range(len(conditions))])
        names = sp.symbols(f"c:{len(unknown)}")
        (solution,) = sp.linsolve((matrix, -sp.Matrix(at_zero)), names)
        g, rest = condition([str(value) for value in solution])
        assert not any(rest)
    return g


def test_every_coefficient_of_the_slow_manifold_follows_from_its_invariance(manifold):
    for k, row in enumerate(edge_limit.MANIFOLD_COEFFICIENTS):
        for j, coefficient in enumerate(row):
            assert Fraction(coefficient) == manifold[k + 1, j], (k + 1, j)


def test_the_limit_is_the_manifold_at_zero_and_leaves_out_less_than_ten_times_the_fifth_power(manifold):
    assert [Fraction(c) for c in edge_limit.LIMIT_COEFFICIENTS] == [manifold[k, 0] for k in range(1, 5)]
    assert manifold[5, 0] == Fraction(-40051, 8192)
