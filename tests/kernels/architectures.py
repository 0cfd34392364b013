"""Networks that nobody chose: layers, rules and sizes are drawn, all of them with a kernel."""

import random

import jax
import jax.numpy as jnp

from secant import nets
from secant.core.device import jit
from secant.nets import activations

OUTPUTS = 16
ACTIVATIONS = [
    *("relu", "tanh", "erf", "gelu", "abs", "sin", "cos", "sigmoid", "swish", "softplus"),
    *(activations.leaky(0.3), activations.rbf(0.5), activations.sigmoid_like(), activations.hermite([0.3, 0.5, 0.4])),
]


class Draw:
    """Parts of a network of a given width, drawn one after the other from a seed."""

    def __init__(self, seed, width):
        self.choose, self.width = random.Random(seed), width
        self.rules = {
            "parametrization": self.choose.choice(
                [
                    nets.Parametrization(
                        "ntk", gain=self.choose.uniform(0.8, 1.6), bias_gain=self.choose.uniform(0, 1)
                    ),
                    nets.Parametrization("standard", gain=self.choose.uniform(0.8, 1.6)),
                ]
            ),
            "bias": self.choose.random() < 0.4,
        }

    def activation(self):
        return nets.activation(self.choose.choice(ACTIVATIONS))

    def dense(self):
        return nets.dense(self.width, **self.rules)

    def norm(self, over="features"):
        trained = {"gain": self.choose.random() < 0.5, "shift": self.choose.random() < 0.5}
        return nets.layer_norm(over=over, **trained)

    def vector_part(self):
        """From Gaussian features to Gaussian features."""
        plain = nets.serial(self.activation(), self.dense())
        beside = nets.concat(nets.identity(), nets.serial(self.dense(), self.activation()))
        return self.choose.choice(
            [
                plain,
                nets.residual(plain),
                nets.add(nets.identity(), plain, nets.serial(self.activation(), self.dense())),
                nets.serial(beside, self.dense()),
                nets.serial(nets.concat(nets.identity(), self.dense()), self.activation(), self.dense()),
                nets.serial(self.norm(), self.activation(), self.dense()),
                nets.serial(nets.multiply(self.dense(), nets.serial(self.dense(), self.activation())), self.dense()),
            ]
        )

    def conv(self, axes, strides=1):
        window = tuple(self.choose.choice([1, 2, 3]) for _ in range(axes))
        padding = self.choose.choice(["SAME", "CIRCULAR"])
        return nets.conv(self.width // 4, window, strides=strides, padding=padding, **self.rules)

    def image_part(self, axes):
        plain = nets.serial(self.activation(), self.conv(axes))
        window = (2,) * axes
        return self.choose.choice(
            [
                plain,
                nets.residual(plain),
                nets.serial(nets.average_pool(window, strides=1, padding="SAME"), plain),
                nets.serial(self.activation(), nets.average_pool(window), self.conv(axes)),
                nets.serial(self.activation(), self.conv(axes, 2)),
                nets.serial(self.norm("sample"), plain),
                nets.serial(self.norm(), self.activation(), self.dense()),
            ]
        )

    def token_part(self):
        plain = nets.serial(self.activation(), self.dense())
        mixing = nets.attention(self.width // 4, scores="identity", parametrization=self.rules["parametrization"])
        return self.choose.choice([plain, nets.residual(nets.serial(self.norm(), mixing)), nets.residual(plain)])


def random_network(seed, width):
    """A network and the shape of one sample."""
    draw = Draw(seed, width)
    kind = draw.choose.choice(["vector", "image", "signal", "token"])
    count = draw.choose.randint(1, 2)
    end = draw.choose.choice([nets.flatten, nets.global_average_pool])
    if kind == "vector":
        shape, parts = (6,), [draw.dense(), *(draw.vector_part() for _ in range(count))]
    elif kind == "token":
        shape, parts = (4, 4, 2), [nets.patches(2), draw.dense(), nets.positions()]
        parts += [*(draw.token_part() for _ in range(count)), end()]
    else:
        axes = 2 if kind == "image" else 1
        shape = (*(4,) * axes, 2)
        parts = [draw.conv(axes), *(draw.image_part(axes) for _ in range(count)), end()]
    readout = nets.dense(OUTPUTS, last=True, **draw.rules)
    return nets.serial(*parts, draw.activation() if kind == "vector" else nets.identity(), readout), shape


def sampled(net, x, draws, seed=0):
    """Outer products of outputs, averaged over outputs, and tangent kernels of the first output, of random networks."""

    def first(params, sample):
        outputs = net.apply(params, sample[None])[0]
        return outputs[0], outputs

    def one(key):
        params = net.init(key, x.shape, x.dtype)
        gradients, f = jax.vmap(jax.grad(first, has_aux=True), (None, 0))(params, x)
        rows = jnp.concatenate([leaf.reshape(len(x), -1) for leaf in jax.tree.leaves(gradients)], 1)
        return f @ f.T / f.shape[1], rows @ rows.T

    return jit(lambda key: jax.lax.map(one, jax.random.split(key, draws)), quick=True)(jax.random.key(seed))
