"""Attention is its formula."""

import itertools

import jax
import numpy as np
from by_loops import draw

from secant import nets


def test_attention_is_a_weighted_mean_of_values():
    net = nets.attention(heads=2, features=6, bias=True)
    x, params, z = draw(net, (2, 5, 4))

    def project(role, a):
        return a @ params[role]["weight"] / np.sqrt(a.shape[-1]) + params[role]["bias"]

    query, key, value = (project(role, x) for role in ("query", "key", "value"))
    mixed = np.zeros((2, 5, 6))
    for n, head, t in itertools.product(range(2), range(2), range(5)):
        own = slice(3 * head, 3 * head + 3)
        weights = np.exp([query[n, t, own] @ key[n, s, own] / np.sqrt(3) for s in range(5)])
        mixed[n, t, own] = weights / weights.sum() @ value[n, :, own]
    np.testing.assert_allclose(z, project("output", mixed), rtol=1e-11, atol=1e-13)


def test_attention_without_softmax_is_linear_in_its_scores():
    net = nets.attention(heads=2, features=6, scores="identity", scaling="linear")
    x, params, z = draw(net, (2, 5, 4))
    query, key, value = (x @ params[role]["weight"] / 2 for role in ("query", "key", "value"))
    heads = [slice(0, 3), slice(3, 6)]
    mixed = [np.einsum("ntd,nsd->nts", query[..., h], key[..., h]) / 3 @ value[..., h] for h in heads]
    np.testing.assert_allclose(z, np.concatenate(mixed, -1) @ params["output"]["weight"] / np.sqrt(6), rtol=1e-11)


def test_attention_does_not_mind_the_order_of_tokens():
    net = nets.attention(heads=1)
    x, params, z = draw(net, (2, 5, 4))
    np.testing.assert_allclose(jax.jit(net.apply)(params, x[:, ::-1]), z[:, ::-1], rtol=1e-11, atol=1e-13)
