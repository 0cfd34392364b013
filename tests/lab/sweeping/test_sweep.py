"""A sweep is its cells: each computed once, and all of them in one labelled dataset."""

import itertools
import resource
import signal
import time

import numpy as np
import pytest
import xarray as xr

from secant.lab import Processes, StoreError, SweepError, run, sweep
from secant.lab.runs import netcdf
from secant.lab.sweeping.grid import grid


class Heard:
    """Progress that remembers what it was told."""

    def __init__(self):
        self.said = []

    def start(self, label, total):
        self.said.append((label, total))

    def update(self, done, note):
        self.said.append((done, note))

    def close(self):
        self.said.append("closed")


def test_the_cells_are_the_product_and_each_is_an_ordinary_run(demo, store):
    found = sweep(demo, {"rate": [0.25, 0.5], "steps": (3, 4, 5)}, store=store, starts=(1.0,))
    assert demo.calls == 6
    data = found.data()
    assert data.x.dims == ("rate", "steps", "start", "step")
    assert data.rate.values.tolist() == [0.25, 0.5]
    assert data.steps.dtype == int
    for rate in (0.25, 0.5):
        for steps in (3, 4, 5):
            alone = run(demo, store=store, figure=False, rate=rate, steps=steps, starts=(1.0,)).data().x
            cell = data.x.sel(rate=rate, steps=steps)
            np.testing.assert_array_equal(cell.isel(step=slice(steps + 1)), alone)
            assert cell.isel(step=slice(steps + 1, None)).isnull().all()  # an outer join: other cells have more steps
    assert demo.calls == 6
    assert not any(store.root.rglob("figure*"))
    assert [(f["rate"], f["steps"]) for f in found.findings[::2]] == [(r, s) for r in (0.25, 0.5) for s in (3, 4, 5)]
    assert {f["verdict"] for f in found.findings} == {"holds", "erratum"}


def test_finished_cells_are_read_back_and_shared(demo, store):
    sweep(demo, {"rate": [0.25, 0.5]}, scale="smoke", store=store)
    heard = Heard()
    sweep(demo, {"rate": np.array([0.5, 0.75])}, scale="smoke", store=store, progress=heard)
    assert demo.calls == 3
    assert heard.said == [("demo/halving", 2), (1, "1 read back"), (2, "1 read back"), "closed"]
    again = sweep(demo, {"steps": [10]}, scale="paper", store=store)
    assert demo.calls == 3
    assert again.cells[0].scale == "paper"
    sweep(demo, {"rate": [0.5]}, scale="smoke", store=store, force=True)
    assert demo.calls == 4


def test_tuples_label_as_text_and_other_labels_are_joined(demo, store):
    data = sweep(demo, {"starts": [(1.0,), [1.0, 3.0]]}, scale="smoke", store=store).data()
    assert data.starts.values.tolist() == ["1.0", "1.0,3.0"]
    assert data.start.values.tolist() == [1.0, 3.0]
    assert data.x.isnull().any("step").values.tolist() == [[False, True], [False, False]]


def test_names_and_sizes_of_the_data_may_clash(demo):
    cells = grid(demo, {"rate": [0.25, 0.5]}, "smoke", {})
    parts = [xr.Dataset({"y": (("rate", "k"), np.ones((2, size)))}, {"rate": [1, 2]}) for size in (1, 3)]
    data = cells.combine(parts)
    assert dict(data.sizes) == {"swept_rate": 2, "rate": 2, "k": 3}
    assert data.y.count() == 2 * 1 + 2 * 3


@pytest.mark.parametrize(
    ("over", "options", "error", "message"),
    [
        ({}, {}, ValueError, "over: name an option of demo/halving and its values. Options: rate, steps, starts"),
        ([1], {}, TypeError, r"over: expected a mapping from options to their values, got \[1\]"),
        ({"rat": [0.5]}, {}, TypeError, "unknown option 'rat'. Did you mean 'rate'"),
        ({"rate": []}, {}, ValueError, "over: rate: no values given"),
        ({"rate": 0.5}, {}, TypeError, "over: rate: expected the values to take, such as .*, got 0.5"),
        ({"rate": "0.5"}, {}, TypeError, "over: rate: expected the values to take, such as .*, got '0.5'"),
        ({"rate": [0.5, 0.25, 0.5]}, {}, ValueError, "over: rate: 0.5 is given twice"),
        ({"rate": [0.5]}, {"rate": 0.25}, ValueError, "rate: swept over, and given as 0.25 as well"),
        ({"rate": [0.5, 2]}, {}, ValueError, "demo/halving: rate: must be above 0 and below 1, got 2"),
        ({"rate": [0.5]}, {"steps": "many"}, TypeError, "demo/halving: steps: expected int, got 'many'"),
        ({"rate": [{}]}, {}, TypeError, "over: rate: expected plain values, such as numbers .*, got {}"),
        ({"rate": np.array(0.5)}, {}, TypeError, "over: rate: expected the values to take"),
        ({"steps": range(10**12)}, {}, ValueError, "1,000,000,000,000 of steps, make 1,000,000,000,000 cells"),
        ({"steps": range(10**30)}, {}, ValueError, "a sweep has at most 100,000. Give fewer values"),
        ({"steps": range(10**30, 0, -(10**20))}, {}, ValueError, "10,000,000,000 of steps"),
        ({"steps": itertools.count()}, {}, ValueError, "a sweep has at most 100,000"),
        ({"rate": np.broadcast_to(0.5, 10**12)}, {}, ValueError, "1,000,000,000,000 of rate"),
        ({"rate": [], "steps": range(10**12)}, {}, ValueError, "a sweep has at most 100,000"),
        ({"rate": np.linspace(0, 1, 400), "steps": range(1, 400)}, {}, ValueError, "make 159,600 cells"),
    ],
)
def test_mistakes_are_named_before_any_work(demo, store, over, options, error, message):
    began = time.perf_counter()
    with pytest.raises(error, match=message):
        sweep(demo, over, store=store, **options)
    assert demo.calls == 0
    assert time.perf_counter() - began < 5


def test_many_values_are_told_apart_quickly(demo):
    began = time.perf_counter()
    with pytest.raises(ValueError, match="over: steps: 5 is given twice"):
        grid(demo, {"steps": [*range(90_000), 5]}, "smoke", {})
    assert time.perf_counter() - began < 5


def test_a_failing_cell_does_not_lose_the_others(demo, store, monkeypatch):
    sound = demo.compute

    def fragile(config):
        if config.rate == 0.5:
            raise ArithmeticError("too much")
        return sound(config)

    fragile.__code__ = fragile.__code__.replace(co_filename=sound.__code__.co_filename)  # the same study all along
    monkeypatch.setattr(demo, "compute", fragile)
    with pytest.raises(SweepError, match=r"1 of 3 cells failed[^\n]*\n  rate=0.5: ArithmeticError: too much") as raised:
        sweep(demo, {"rate": [0.25, 0.5, 0.75]}, scale="smoke", store=store)
    assert raised.value.failed == (({"rate": 0.5}, "ArithmeticError: too much"),)
    assert demo.calls == 2
    monkeypatch.setattr(demo, "compute", sound)
    assert len(sweep(demo, {"rate": [0.25, 0.5, 0.75]}, scale="smoke", store=store).cells) == 3
    assert demo.calls == 3


def test_a_study_that_workers_cannot_find_is_refused(demo, store):
    with pytest.raises(ValueError, match=r"study: demo/halving is not one of Secant's own .* of Processes"):
        sweep(demo, {"rate": [0.5]}, store=store, engine=Processes(2))


def test_the_file_says_which_sweep_it_is_and_is_kept_from_others(demo, store, tmp_path):
    path = tmp_path / "results" / "sweep.nc"
    first = sweep(demo, {"rate": [0.25, 0.5]}, scale="smoke", store=store)
    assert first.save(path) == path
    assert netcdf.read(path).identical(first.data())
    assert first.data().attrs["secant_study"] == "demo/halving"
    first.save(path)

    other = sweep(demo, {"rate": [0.25]}, scale="smoke", store=store, steps=5)
    different = r"options steps 10 there, 5 here; over rate \[0.25, 0.5\] there, \[0.25\] here.*force=True"
    with pytest.raises(FileExistsError, match=f"another sweep: {different}"):
        other.save(path)
    assert netcdf.read(path).identical(first.data())
    other.save(path, force=True)
    assert netcdf.read(path).identical(other.data())

    path.write_text("a shopping list")
    with pytest.raises(FileExistsError, match="is not the file of a sweep"):
        other.save(path)
    assert path.read_text() == "a shopping list"


def test_a_full_disk_leaves_the_old_file(demo, store, tmp_path):
    path = tmp_path / "sweep.nc"
    found = sweep(demo, {"rate": [0.25, 0.5]}, scale="smoke", store=store)
    found.save(path)
    before = path.read_bytes()
    old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"cannot write .*sweep\.nc.*Free some space.*untouched"):
            found.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old_handler)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.glob("*sweep*")] == ["sweep.nc"]
    assert not list(tmp_path.glob(".partial*"))
