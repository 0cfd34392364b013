"""The ladder of second derivatives, for every layer of PyTorch that trains, against differences in double precision."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from secant.monitors.in_torch.looks import BACKWARD, DIFFERENCE, FORWARD, LookError, Looks  # noqa: E402
from secant.monitors.in_torch.snapshot import rows, samples_of  # noqa: E402

NUMBERS = torch.Generator().manual_seed(0)


def normal(*shape: int) -> Any:
    return torch.randn(*shape, generator=NUMBERS)


def tokens(*shape: int) -> Any:
    return torch.randint(7, shape, generator=NUMBERS)


class Last(nn.Module):
    """A layer behind a dense one, and the first of its results."""

    def __init__(self, layer: nn.Module, width: int = 3, twice: int = 1) -> None:
        super().__init__()
        self.first, self.layer, self.twice = nn.Linear(3, width), layer, twice

    def forward(self, x: Any) -> Any:
        found = self.layer(*(torch.tanh(self.first(x)),) * self.twice)
        return found[0] if isinstance(found, tuple) else found


class Classes(nn.Module):
    """A loss with weights of its own, of four samples in seven classes."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        found = self.layer(x, torch.tensor([0, 3, 5, 6]))
        return found if isinstance(found, torch.Tensor) else found.loss


LAYERS: dict[str, tuple[Callable[[], nn.Module], Any, str]] = {
    "Linear": (lambda: nn.Linear(3, 2), normal(4, 3), FORWARD),
    "Bilinear": (lambda: Last(nn.Bilinear(3, 3, 2), twice=2), normal(4, 3), FORWARD),
    "Conv1d": (lambda: nn.Conv1d(2, 3, 2), normal(4, 2, 5), FORWARD),
    "Conv2d": (lambda: nn.Conv2d(2, 3, 2), normal(4, 2, 4, 4), FORWARD),
    "Conv3d": (lambda: nn.Conv3d(1, 2, 2), normal(4, 1, 3, 3, 3), FORWARD),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 3, 2), normal(4, 2, 5), FORWARD),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 2), normal(4, 2, 4, 4), FORWARD),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(1, 2, 2), normal(4, 1, 3, 3, 3), FORWARD),
    "BatchNorm1d": (lambda: Last(nn.BatchNorm1d(3)), normal(4, 3), FORWARD),
    "BatchNorm2d": (lambda: nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3)), normal(4, 2, 4, 4), FORWARD),
    "BatchNorm3d": (lambda: nn.Sequential(nn.Conv3d(1, 2, 2), nn.BatchNorm3d(2)), normal(4, 1, 3, 3, 3), FORWARD),
    "GroupNorm": (lambda: nn.Sequential(nn.Conv2d(2, 4, 2), nn.GroupNorm(2, 4)), normal(4, 2, 4, 4), FORWARD),
    "LayerNorm": (lambda: Last(nn.LayerNorm(3)), normal(4, 3), FORWARD),
    "RMSNorm": (lambda: Last(nn.RMSNorm(3)), normal(4, 3), FORWARD),
    "InstanceNorm1d": (
        lambda: nn.Sequential(nn.Conv1d(2, 3, 2), nn.InstanceNorm1d(3, affine=True, track_running_stats=True)),
        normal(4, 2, 5),
        FORWARD,
    ),
    "InstanceNorm2d": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 2), nn.InstanceNorm2d(3, affine=True)),
        normal(4, 2, 4, 4),
        FORWARD,
    ),
    "InstanceNorm3d": (
        lambda: nn.Sequential(nn.Conv3d(1, 2, 2), nn.InstanceNorm3d(2, affine=True)),
        normal(4, 1, 3, 3, 3),
        FORWARD,
    ),
    "RNN": (lambda: Last(nn.RNN(3, 2, batch_first=True)), normal(4, 3, 3), FORWARD),
    "LSTM": (lambda: Last(nn.LSTM(3, 2, batch_first=True)), normal(4, 3, 3), BACKWARD),
    "GRU": (lambda: Last(nn.GRU(3, 2, batch_first=True)), normal(4, 3, 3), FORWARD),
    "RNNCell": (lambda: Last(nn.RNNCell(3, 2)), normal(4, 3), FORWARD),
    "LSTMCell": (lambda: Last(nn.LSTMCell(3, 2)), normal(4, 3), FORWARD),
    "GRUCell": (lambda: Last(nn.GRUCell(3, 2)), normal(4, 3), FORWARD),
    "Embedding": (lambda: nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 2)), tokens(4, 3), FORWARD),
    "EmbeddingBag": (lambda: nn.Sequential(nn.EmbeddingBag(7, 3), nn.Linear(3, 2)), tokens(4, 3), DIFFERENCE),
    "PReLU": (lambda: nn.Sequential(nn.Linear(3, 4), nn.PReLU()), normal(4, 3), FORWARD),
    "AdaptiveLogSoftmaxWithLoss": (
        lambda: Classes(nn.AdaptiveLogSoftmaxWithLoss(4, 7, [3])),
        normal(4, 4),
        FORWARD,
    ),
    "MultiheadAttention": (
        lambda: Last(nn.MultiheadAttention(4, 2, batch_first=True), 4, twice=3),
        normal(4, 3, 3),
        FORWARD,
    ),
    "TransformerEncoderLayer": (
        lambda: Last(nn.TransformerEncoderLayer(4, 2, 5, 0.0, "gelu", batch_first=True), 4),
        normal(4, 3, 3),
        FORWARD,
    ),
    "TransformerDecoderLayer": (
        lambda: Last(nn.TransformerDecoderLayer(4, 2, 5, 0.0, "gelu", batch_first=True), 4, twice=2),
        normal(4, 3, 3),
        FORWARD,
    ),
    "Transformer": (
        lambda: Last(nn.Transformer(4, 2, 1, 1, 5, 0.0, "gelu", batch_first=True), 4, twice=2),
        normal(4, 3, 3),
        FORWARD,
    ),
}
if hasattr(nn, "LinearCrossEntropyLoss"):  # new in 2.13
    LAYERS["LinearCrossEntropyLoss"] = (lambda: Classes(nn.LinearCrossEntropyLoss(4, 7)), normal(4, 4), FORWARD)
"""Layer -> a small model with it, a batch, and the rung that gives the curvature along a direction."""

OTHERS = {
    "SyncBatchNorm",  # of several graphics cards only
    "TransformerEncoder",  # stacks of layers that are there
    "TransformerDecoder",
    "NLLLoss2d",
}


def cubes(model: nn.Module, batch: Any) -> Any:
    return (model(batch) ** 3).mean()


def differences(looks: Looks, v: Any, batch: Any) -> Any:
    """A Hessian product of a model in double precision, by gradients that are far enough apart for six digits."""
    here, step = looks.flat(), 1e-5
    ends = [looks.gradient(batch, here + sign * step * v)[1] for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step)


def direction(size: int, seed: int = 1) -> Any:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("layer", LAYERS)
def test_curvature_of_every_layer_is_that_of_differences_in_double_precision(layer: str) -> None:
    make, batch, rung = LAYERS[layer]
    torch.manual_seed(0)
    model = make()
    looks = Looks(cubes, model)
    v = direction(looks.size)
    along, product = looks.along(v, batch), looks.product(v, batch)
    assert looks.taken["along"] == rung, looks.refused
    exact = Looks(cubes, model.double())
    expected = differences(exact, v.double(), batch.double() if batch.is_floating_point() else batch)
    # Single precision, of sums over a few hundred products; differences of gradients have half the digits.
    tolerance = (3e-3 if rung == DIFFERENCE else 2e-5) * float(v.norm() * expected.norm())
    assert abs(along - float(v.double() @ expected)) < tolerance
    assert float((product.double() - expected).norm()) < tolerance / float(v.norm()) * 3


def test_no_layer_that_trains_is_left_out() -> None:
    kinds = {name for name, kind in vars(nn).items() if isinstance(kind, type) and issubclass(kind, nn.Module)}
    trains = {name for name in kinds - OTHERS if not name.startswith("Lazy") and _has_parameters(getattr(nn, name))}
    assert trains <= LAYERS.keys(), trains - LAYERS.keys()


def _has_parameters(kind: Any) -> bool:
    tries: list[tuple[Any, ...]] = [(), (4,), (4, 2), (4, 2, 2), (4, 5, [2]), (2, 4)]
    for given in tries:
        try:
            made = kind(*given, affine=True) if "InstanceNorm" in kind.__name__ else kind(*given)
        except Exception:  # not its arguments
            continue
        if list(made.parameters()):
            return True
    return False


def test_wrong_second_derivatives_of_a_kernel_are_noticed() -> None:
    class Doubled(torch.autograd.Function):
        """A square whose backward forgets that it depends on its input."""

        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            context.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(context: Any, slope: Any) -> Any:
            return 2 * context.saved_tensors[0].detach() * slope

    model = nn.Linear(3, 1)
    x = normal(4, 3)
    looks = Looks(lambda model, x: Doubled.apply(model(x)).mean(), model)
    plain = Looks(lambda model, x: (model(x) ** 2).mean(), model)
    v = direction(looks.size)
    assert looks.along(v, x) == pytest.approx(plain.along(v, x), rel=1e-3)
    assert looks.taken == {"along": DIFFERENCE, "product": DIFFERENCE}
    assert "where the difference of gradients is" in looks.refused[BACKWARD]


def test_weight_and_spectral_norm() -> None:
    for norm in (nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm):
        torch.manual_seed(0)
        model = nn.Sequential(norm(nn.Linear(3, 4)), nn.Tanh())
        x = normal(4, 3)
        looks = Looks(cubes, model)
        v = direction(looks.size)
        found = looks.along(v, x)
        exact = Looks(cubes, model.double())
        expected = float(v.double() @ differences(exact, v.double(), x.double()))
        assert found == pytest.approx(expected, rel=2e-3)


class Everything(nn.Module):
    """Random numbers of three kinds, statistics, a frozen part, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.frozen, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.frozen.requires_grad_(False)

    def forward(self, x: Any) -> Any:
        noise = 0.1 * random.random() + 0.1 * float(np.random.normal())  # noqa: NPY002
        hidden = functional.dropout(torch.tanh(self.norm(self.first(x))), 0.5)
        return self.second(self.frozen(hidden)) + noise


def states() -> tuple[Any, ...]:
    numpy = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().tolist(), random.getstate(), [part.tolist() for part in numpy[1:2]], numpy[2]


def test_a_look_leaves_nothing_behind() -> None:
    torch.manual_seed(0)
    model = Everything()
    x = normal(8, 3)
    cubes(model, x).backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    random_states = states()
    looks = Looks(cubes, model)
    assert looks.size == 3 * 3 + 3 + 3 + 3 + 3  # one weight for two layers, nothing frozen
    v = direction(looks.size)
    with torch.no_grad():  # as some loops have it
        looks.value(x), looks.gradient(x), looks.along(v, x), looks.product(v, x)
    assert states() == random_states
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    for p, grad in zip(model.parameters(), grads, strict=True):
        assert p.grad is None if grad is None else torch.equal(p.grad, grad)
    assert [p.requires_grad for p in model.frozen.parameters()] == [False, False]
    assert model.norm.track_running_stats
    assert model.training


def test_masks_are_the_same_in_every_evaluation_of_a_look_and_others_in_the_next() -> None:
    torch.manual_seed(0)
    model, x = Everything(), normal(8, 3)
    looks = Looks(cubes, model)
    first = looks.value(x)
    assert looks.value(x) == first == pytest.approx(looks.gradient(x)[0], rel=1e-5)
    looks.number = 1
    assert looks.value(x) != first
    v = direction(looks.size)
    exact = Looks(cubes, model.double())
    exact.number = 1
    expected = float(v.double() @ differences(exact, v.double(), x.double()))
    assert exact.along(v.double(), x.double()) == pytest.approx(expected, rel=1e-5)


def test_evaluation_mode_takes_the_statistics_that_were_tracked() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Tanh())
    x = normal(8, 3)
    model(x)
    model.eval()
    looks = Looks(cubes, model.double())
    v = direction(looks.size).double()
    expected = float(v @ differences(looks, v, x.double()))
    assert looks.along(v, x.double()) == pytest.approx(expected, rel=1e-6)
    assert looks.taken["along"] == FORWARD


def test_attention_dropout_draws_the_masks_of_the_gradient() -> None:
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(4, 2, 5, 0.5, "gelu", batch_first=True).double()
    x = normal(4, 3, 4).double()
    looks = Looks(cubes, model)
    v = direction(looks.size).double()
    assert looks.along(v, x) == pytest.approx(float(v @ differences(looks, v, x)), rel=1e-5)


def test_compiled_parallel_and_autocast_models_are_the_plain_one() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), normal(8, 3)
    plain = Looks(cubes, model)
    v = direction(plain.size)
    expected = plain.along(v, x)
    assert Looks(cubes, torch.compile(model, backend="eager")).along(v, x) == expected
    assert Looks(cubes, nn.DataParallel(model)).along(v, x) == expected
    own = torch.autocast("cpu", torch.bfloat16)

    def mixed(model: nn.Module, batch: Any) -> Any:
        with own:
            assert model(batch).dtype == (torch.float32 if looking else torch.bfloat16)
            return (model(batch).float() ** 3).mean()

    looking = True
    with torch.autocast("cpu", torch.bfloat16):
        assert Looks(mixed, model).along(v, x.bfloat16().float()) == plain.along(v, x.bfloat16().float())
        assert torch.is_autocast_enabled("cpu")
    looking = False
    mixed(model, x)  # the user's own object is as it was


def test_low_precision_is_looked_at_in_single() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).bfloat16(), normal(8, 3).bfloat16()
    low = Looks(cubes, model)
    v = direction(low.size)
    found, gradient = low.along(v, x), low.gradient(x)[1]
    assert gradient.dtype == torch.float32
    single = Looks(cubes, model.float())
    assert found == single.along(v, x.float())


def test_what_cannot_be_looked_at_is_said() -> None:
    model, x = nn.Linear(3, 2), normal(4, 3)
    with pytest.raises(LookError, match=r"scalar tensor, got a tensor of shape \(4, 2\)"):
        Looks(lambda model, x: model(x), model).value(x)
    with pytest.raises(LookError, match="must call the model that it is given"):
        Looks(lambda _, x: (x**2).mean(), model).gradient(x)
    with pytest.raises(ValueError, match="no parameters that train"):
        Looks(cubes, nn.Linear(3, 2).requires_grad_(False))
    with pytest.raises(ValueError, match="Run one batch through it first"):
        Looks(cubes, nn.LazyLinear(2))


def test_batches_of_any_form_are_cut_by_samples() -> None:
    batch = {"x": normal(4, 3), "more": [tokens(4), (normal(4, 2, 2), "text")], "weight": torch.tensor(2.0)}
    assert samples_of(batch) == 4
    half = rows(batch, 1, 3)
    assert torch.equal(half["more"][0], batch["more"][0][1:3])
    assert half["more"][1][1] == "text"
    assert samples_of((normal(4, 3), normal(3))) is None
