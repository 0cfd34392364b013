"""A run on two processes has the numbers of one process with the whole batch."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("PyTorch without processes", allow_module_level=True)


from secant.monitors.in_torch.monitor import TorchMonitor  # noqa: E402

sys.path.append(str(Path(__file__).parent))

from two_processes import batches, cost, network, train  # noqa: E402

SECONDS = 240


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    script = Path(__file__).with_name("two_processes.py")
    settings = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    both = subprocess.Popen(
        [sys.executable, str(script), str(folder)], env=settings, stderr=subprocess.PIPE, text=True, process_group=0
    )
    try:
        said = both.communicate(timeout=SECONDS)[1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(both.pid, signal.SIGKILL)
    assert both.returncode == 0, said[-3000:]
    return folder


@pytest.fixture(scope="module")
def alone() -> list[dict[str, Any]]:
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    with TorchMonitor(cost, model, optimiser, every=1, record=False) as watch:
        train(model, optimiser, batches(3), watch)
    return merged(watch.watched.rows)


def merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(int(row["step"]), {}).update(row)
    return [found[step] for step in sorted(found)]


@pytest.mark.parametrize(("kind", "digits"), [("parallel", 2e-4), ("sharded", 2e-2)])
def test_two_processes_have_the_numbers_of_one(
    runs: Path, alone: list[dict[str, Any]], kind: str, digits: float
) -> None:
    found = merged(json.loads((runs / f"{kind}.json").read_text()))
    assert len(found) == len(alone)
    for here, there in zip(found, alone, strict=True):
        for name in ("loss", "gradient_norm", "parameter_norm", "batch", "threshold", "lr"):
            assert here[name] == pytest.approx(there[name], rel=1e-4), name
        for name in ("batch_sharpness", "update_curvature", "update_norm"):
            if name in there:
                assert here[name] == pytest.approx(there[name], rel=digits), name
        # Within its own error the search may end elsewhere.
        assert abs(here["sharpness"] - there["sharpness"]) <= here["sharpness_error"] + there["sharpness_error"]


def test_the_first_process_decides_when_all_look(runs: Path) -> None:
    rows = json.loads((runs / "budget.json").read_text())
    looks = [int(row["step"]) for row in rows if "batch_sharpness" in row]
    assert len(looks) >= 2
    assert {(step + 1) % 8 for step in looks} == {0}
