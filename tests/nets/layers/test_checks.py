"""Layers refuse what they cannot take."""

import pytest

from secant import nets


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (lambda: nets.scalar(), (4, 2), r"scalar: takes one output a sample"),
        (lambda: nets.conv(3), (4, 5), r"conv.output_shape: inputs must have shape \(samples, height, width"),
        (lambda: nets.conv(3, (3,)), (4, 5, 5, 1), r"inputs must have shape \(samples, length, channels\)"),
        (lambda: nets.conv(3, 4, padding="VALID"), (4, 3, 3, 1), r"window \(4, 4\) does not fit"),
        (lambda: nets.conv(3, padding="same"), None, "`padding` must be 'SAME', 'VALID' or 'CIRCULAR', got 'same'"),
        (lambda: nets.serial(nets.flatten(), nets.conv(3)), (4, 3, 3, 1), r"conv: with window \(3, 3\) one sample"),
        (lambda: nets.average_pool(4), (4, 3, 3, 1), r"window \(4, 4\) does not fit"),
        (lambda: nets.attention(2), (4, 3), r"must have shape \(samples, length, channels\)"),
        (lambda: nets.serial(nets.flatten(), nets.attention(2)), (4, 3), r"\(tokens, features\), got \(3,\)"),
        (lambda: nets.average_pool(padding="same"), None, "average_pool: `padding` must be 'SAME', 'VALID' or"),
        (lambda: nets.attention(scores="relu"), None, "`scores` must be 'softmax' or 'identity', got 'relu'"),
        (lambda: nets.attention(scaling=2), None, "`scaling` must be 'root' or 'linear', got 2"),
        (lambda: nets.layer_norm(over="batch"), None, "`over` must be 'features' or 'sample', got 'batch'"),
        (lambda: nets.dense(2.0), None, "`features` must be a whole number of at least 1, got 2.0"),
    ],
)
def test_layers_refuse_what_they_cannot_take(layer, shape, message):
    with pytest.raises(ValueError, match=message):
        layer().output_shape(shape)
