"""Sinks: what is given is what is there to be read, and one that fails costs nothing but itself."""

import csv
import math
import sys
import types

import numpy as np
import pytest

from secant.monitors.records.sinks import MAKERS, Sinks, TensorBoard

ROWS = [
    (0, {"loss": 2.0}),
    (10, {"loss": 1.5, "batch_sharpness": 30.0}),
    (20, {"loss": math.nan, "sharpness": math.inf}),
    (30, {"loss": 1e308, "lr": 0.1}),
]


class Said(list):
    def __call__(self, *words):
        self.append(words)


def fill(sinks, rows=ROWS):
    for step, row in rows:
        sinks.write(step, {"step": step, **row})


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_has_every_number_and_empty_cells_for_what_was_not_measured(tmp_path):
    with Sinks("csv", tmp_path) as sinks:
        fill(sinks)
        assert len(table(tmp_path / "metrics.csv")) == len(ROWS)  # while it grows
    rows = table(tmp_path / "metrics.csv")
    assert list(rows[0]) == ["step", "loss", "batch_sharpness", "sharpness", "lr"]
    for (step, given), row in zip(ROWS, rows, strict=True):
        assert int(row.pop("step")) == step
        found = {name: float(value) for name, value in row.items() if value}
        assert found.keys() == given.keys()
        assert all(found[name] == given[name] or math.isnan(given[name]) for name in given)


@pytest.mark.parametrize("cut", [0, 1, 3, 9])
def test_a_table_goes_on_after_a_kill_without_the_line_it_hit(tmp_path, cut):
    path = tmp_path / "metrics.csv"
    with Sinks("csv", tmp_path) as sinks:
        fill(sinks, ROWS[:2])
    path.write_bytes(path.read_bytes()[: -cut or None])
    with Sinks("csv", tmp_path) as sinks:
        fill(sinks, ROWS[2:])
    rows = table(path)
    assert [row["step"] for row in rows] == (["0", "20", "30"] if cut else ["0", "10", "20", "30"])
    assert [row["batch_sharpness"] for row in rows if row["batch_sharpness"]] == ([] if cut else ["30.0"])


def test_a_strangers_file_and_a_link_are_left_alone(tmp_path):
    for name, content in (("file", "a,b\n1,2\n"), ("link", None)):
        path = tmp_path / name / "metrics.csv"
        path.parent.mkdir()
        if content is None:
            path.symlink_to(tmp_path / "elsewhere")
        else:
            path.write_text(content)
        said = Said()
        with Sinks("csv", path.parent, said) as sinks:
            fill(sinks)
        assert len(said) == 1
        assert not (tmp_path / "elsewhere").exists()
        assert content is None or path.read_text() == content


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_header_is_a_formula_to_a_spreadsheet(tmp_path, name):
    with Sinks("csv", tmp_path) as sinks:
        sinks.write(0, {name: 1.0, 'quote",\nline': 2.0})
    (row,) = table(tmp_path / "metrics.csv")
    assert list(row.values()) == ["0", "1.0", "2.0"]
    assert all(header[0] not in "=+-@\t\r" and "\n" not in header for header in row)


def scalars(folder):
    """What TensorBoard itself reads."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    make_ndarray = pytest.importorskip("tensorboard.util.tensor_util").make_ndarray
    events = accumulator.EventAccumulator(str(folder)).Reload()
    return {
        tag: [(event.step, make_ndarray(event.tensor_proto).item()) for event in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_the_scalars_while_the_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("secant.monitors.records.sinks.SECONDS", 0.0)
    sinks = Sinks(["tensorboard"], tmp_path)
    fill(sinks)
    found = scalars(tmp_path / "tensorboard")
    sinks.close()
    assert set(found) == {"secant/loss", "secant/batch_sharpness", "secant/sharpness", "secant/lr"}
    steps, losses = zip(*found["secant/loss"], strict=True)
    assert steps == (0, 10, 20, 30)
    np.testing.assert_array_equal(losses, [2.0, 1.5, math.nan, math.inf])  # single precision
    assert found["secant/batch_sharpness"] == [(10, 30.0)]
    assert "torch" not in type(TensorBoard(tmp_path)).__module__


class Service:
    """A stand-in with the signatures of MLflow 3.18, W&B 0.31 and trackio 0.43, as far as they are used."""

    def __init__(self):
        self.rows, self.runs, self.ended, self.step = [], [], [], 0
        self.name = "the user's"

    # MLflow
    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name, artifact_location=None, tags=None):
        return "7"

    def create_run(self, experiment_id, start_time=None, tags=None, run_name=None):
        self.runs.append((experiment_id, run_name, tags))
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="ours"))

    def log_batch(self, run_id, metrics=(), params=(), tags=(), synchronous=None):
        assert synchronous is False
        for step in dict.fromkeys(metric.step for metric in metrics):
            self.rows.append((run_id, step, {metric.key: metric.value for metric in metrics if metric.step == step}))
        return types.SimpleNamespace(wait=lambda: None)

    def set_terminated(self, run_id, status=None, end_time=None):
        self.ended.append(run_id)

    # W&B and trackio
    def define_metric(self, name, step_metric=None, step_sync=None, hidden=None, summary=None, overwrite=None):
        assert (name, step_metric) == ("secant/*", "secant/step")

    def log(self, data, step=None, commit=None):
        self.rows.append((self.name, step, data))
        self.step += commit is not False

    def finish(self, exit_code=None):
        self.ended.append(self.name)


@pytest.fixture
def service(monkeypatch):
    """Puts a stand-in in the place of a package."""

    def make(name, *, active):
        one = Service()
        package = types.ModuleType(name)

        def begin(project, name=None, config=None, **options):
            one.name = "ours"
            one.runs.append((project, name, config))
            return one

        if name == "mlflow":
            info = types.SimpleNamespace(run_id="the user's")
            package.active_run = lambda: types.SimpleNamespace(info=info) if active else None
            package.MlflowClient = lambda tracking_uri=None: one
            package.entities = types.ModuleType("mlflow.entities")
            package.entities.Metric = lambda key, value, timestamp, step: types.SimpleNamespace(
                key=key, value=value, step=step
            )
            monkeypatch.setitem(sys.modules, "mlflow.entities", package.entities)
        elif name == "wandb":
            package.run = one if active else None
            package.init = lambda *, project, name, config, dir, reinit: begin(project, name, config)
        else:
            package.context_vars = types.SimpleNamespace(
                current_run=types.SimpleNamespace(get=lambda: one if active else None)
            )
            package.init = begin
            package.finish = one.finish
        monkeypatch.setitem(sys.modules, name, package)
        return one

    return make


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("name", ["mlflow", "wandb", "trackio"])
def test_a_service_gets_every_row_in_the_users_run_or_one_of_its_own(tmp_path, service, name, active):
    one = service(name, active=active)
    said = Said()
    with Sinks((name,), tmp_path / "run", said, {"framework": "jax"}) as sinks:
        assert one.runs == []  # a run that the loop opens from here on is found
        for step, row in ROWS:
            sinks.write(step, row)
            if name == "wandb" and active:
                one.step += 1  # the loop logs a row of its own
    assert said == []
    owner = "the user's" if active else "ours"
    assert {run for run, *_ in one.rows} == {owner}
    assert one.ended == ([] if active else ["ours"])
    assert [run[1] for run in one.runs] == ([] if active else ["run"])
    for (step, given), (_, at, row) in zip(ROWS, one.rows, strict=True):
        assert step == (row.pop("secant/step") if name == "wandb" else at)
        assert row.keys() == {f"secant/{key}" for key in given}
        assert all(row[f"secant/{key}"] == value or math.isnan(value) for key, value in given.items())


def test_looks_between_two_rows_of_the_users_wandb_run_do_not_overwrite_each_other(tmp_path, service):
    one = service("wandb", active=True)
    sinks = Sinks("wandb", tmp_path)
    fill(sinks)
    assert [row["secant/step"] for *_, row in one.rows] == [0]  # the loop's row has these; the others wait
    one.step += 1
    sinks.write(40, {"loss": 0.1})
    sinks.close()
    assert [row["secant/step"] for *_, row in one.rows if row] == [0, 10, 20, 30, 40]


def test_rows_that_wait_for_a_users_row_are_few(tmp_path, service):
    one = service("wandb", active=True)
    with Sinks("wandb", tmp_path) as sinks:
        for step in range(5001):
            sinks.write(step, {"loss": float(step), **({"sharpness": 9.0} if step == 77 else {})})
    rows = [row for *_, row in one.rows if row]
    steps = [row["secant/step"] for row in rows]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, 5000)
    assert 128 <= len(steps) <= 260
    assert sum("secant/sharpness" in row for row in rows) == 1


def test_many_numbers_go_to_mlflow_at_once_and_none_is_lost(tmp_path, service):
    one = service("mlflow", active=True)
    calls = []
    keep = one.log_batch
    one.log_batch = lambda run, metrics, synchronous: (
        calls.append(len(metrics)) or keep(run, metrics, synchronous=False)
    )
    with Sinks("mlflow", tmp_path) as sinks:
        for step in range(400):
            sinks.write(step, {"loss": 1.0, "lr": 0.1, "gradient_norm": 2.0})
    assert sum(calls) == 1200
    assert max(calls) <= 500
    assert len(calls) < 10
    assert [step for _, step, _ in one.rows] == sorted(step for _, step, _ in one.rows)


class Broken:
    def __init__(self, at):
        self.at, self.calls = at, []

    def write(self, step, row):
        self.calls.append(step)
        if step >= self.at:
            raise ConnectionError("the server is gone")

    def close(self):
        self.calls.append("closed")
        raise RuntimeError("cannot end")


def test_a_sink_that_fails_is_said_once_and_the_others_go_on(tmp_path):
    said, broken, late = Said(), Broken(10), Broken(99)
    sinks = Sinks((broken, "csv", late), tmp_path, said)
    fill(sinks)
    sinks.close()
    sinks.close()
    assert broken.calls == [0, 10]
    assert late.calls == [0, 10, 20, 30, "closed"]
    assert [step for step, _ in said] == [10, 30]
    assert "Broken is dropped: ConnectionError: the server is gone" in said[0][1]
    assert len(table(tmp_path / "metrics.csv")) == 4


def test_wrong_sinks_are_refused_with_what_would_work(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"unknown sink 'tensorbord'.*tensorboard"):
        Sinks(("tensorbord",), tmp_path)
    with pytest.raises(TypeError, match=r"write\(step, row\)"):
        Sinks((3,), tmp_path)
    with pytest.raises(ValueError, match=r"there is no record. Give `record=`, or sinks.Csv\(path\)"):
        Sinks("csv", None)
    for name in set(MAKERS) - {"csv"}:
        monkeypatch.setitem(sys.modules, "tensorboard.summary" if name == "tensorboard" else name, None)
        with pytest.raises(ImportError, match=f"pip install {name}"):
            Sinks(name, tmp_path)
