"""A study that stands on another's run computes it once, and keeps it where its own run is kept."""

from dataclasses import dataclass

import pytest
import xarray as xr

from secant import lab
from secant.lab import Store, claim, option, reuse, study
from secant.lab.runs.reuse import using


@dataclass(frozen=True)
class Base:
    size: int = option(3, at_least=1)


@dataclass(frozen=True)
class More(Base):
    power: int = option(2, at_least=1)


@pytest.fixture
def pair():
    @study("demo/base", section="1", title="Base")
    def base(config: Base) -> xr.Dataset:
        """It counts."""
        base.calls = getattr(base, "calls", 0) + 1
        return xr.Dataset({"x": ("i", list(range(config.size)))})

    @study("demo/more", section="1", title="More")
    def more(config: More) -> xr.Dataset:
        """It stands on the other."""
        return reuse(base, config) ** config.power

    for one in (base, more):

        @one.findings
        def check(data, config):
            yield claim("size", "size").count(config.size, data.sizes["i"])

    return base, more


def test_the_other_run_is_computed_once_and_kept(pair, tmp_path):
    base, more = pair
    store = Store(tmp_path)
    first = lab.run(more, scale="smoke", store=store, size=4, figure=False)
    again = lab.run(more, scale="smoke", store=store, size=4, power=3, figure=False)
    assert first.data().x.values.tolist() == [0, 1, 4, 9]
    assert again.data().x.values.tolist() == [0, 1, 8, 27]
    assert base.calls == 1
    kept = store.find(base, Base(size=4))
    assert kept is not None
    assert kept.scale == "smoke"


def test_outside_a_run_it_is_computed_or_comes_from_what_a_block_says(pair):
    base, more = pair
    assert more(More(size=2)).x.values.tolist() == [0, 1]
    assert base.calls == 1
    with using(lambda study, config: xr.Dataset({"x": ("i", [3])})):
        assert more(More(size=2)).x.values.tolist() == [9]
    assert base.calls == 1
