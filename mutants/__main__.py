"""`make mutants`: plants every error in a copy of the package and tells which tests and which findings notice.

A mutant counts as exercised by the studies if any number of any finding changes, and as noticed by them if a verdict
does. Exit status 1 if a test misses one, or the findings more than 15 percent of those they exercise.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mutants.bias import BIAS
from mutants.descent import DESCENT
from mutants.interpolants import INTERPOLANTS
from mutants.landscapes import LANDSCAPES
from mutants.library import LIBRARY
from mutants.margins import MARGINS
from mutants.mutant import ROOT, Mutant, copy_sources
from mutants.noise import NOISE
from mutants.normalization import NORMALIZATION
from mutants.rates import RATES
from mutants.scaling import SCALING
from mutants.sde import SDE
from mutants.theory import THEORY

MUTANTS = (
    THEORY
    + LIBRARY
    + BIAS
    + DESCENT
    + INTERPOLANTS
    + LANDSCAPES
    + MARGINS
    + NOISE
    + NORMALIZATION
    + RATES
    + SDE
    + SCALING
)
GOAL = 0.85
QUICK = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": " ".join((ROOT / "tests" / "xla.flags").read_text().split()),
}


@dataclass(frozen=True)
class Noticed:
    """Who noticed a mutant: tests (of those that ran), and findings, or None if no study computes with it."""

    mutant: Mutant
    tests: bool
    findings: bool | None
    by: str


def run(module: list[str], sources: Path) -> subprocess.CompletedProcess[str]:
    """A Python process that imports the package from `sources`."""
    environment = {**QUICK, **os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, "-m", *module], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def judged(studies: tuple[str, ...], sources: Path, *, strict: bool = False) -> dict[str, list[list[object]]]:
    """The findings of some studies; with `strict` they must run."""
    done = run(["mutants.judge", *studies], sources)
    if done.returncode and strict:
        raise RuntimeError(f"{', '.join(studies)}: cannot be judged:\n{done.stderr}")
    if done.returncode:  # the package does not even import
        return {id: [["the study runs to its end", "fails", ""]] for id in studies}
    return json.loads(done.stdout.splitlines()[-1])


def pass_alone(file: str) -> bool:
    """Whether a file of tests passes without any error planted: only then can it notice one."""
    return tested((file,), ROOT / "src").returncode == 0


def tested(files: tuple[str, ...], sources: Path) -> subprocess.CompletedProcess[str]:
    """Some files of tests, up to the first failure."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=unshrunk"]
    return run(["pytest", *options, *(f"tests/{name}" for name in files)], sources)


def examine(mutant: Mutant, usual: dict[str, list[list[object]]]) -> Noticed:
    """Plants one error, and runs its tests and studies."""
    with tempfile.TemporaryDirectory() as folder:
        copy_sources(Path(folder))
        mutant.apply(Path(folder))
        tests = tested(mutant.tests, Path(folder))
        if tests.returncode not in (0, 1):
            raise RuntimeError(f"{mutant.name}: the tests did not run:\n{tests.stdout}{tests.stderr}")
        if not mutant.studies:
            return Noticed(mutant, tests.returncode == 1, None, "")
        found = judged(mutant.studies, Path(folder))
    moved = [id for id in mutant.studies if found[id] != usual[id]]
    if not moved:
        return Noticed(mutant, tests.returncode == 1, None, "no study's numbers move")
    by = [
        f"{id}: {new[0]}" for id in moved for old, new in zip(usual[id], found[id], strict=False) if old[1] != new[1]
    ] + [f"{id}: other findings" for id in moved if len(found[id]) != len(usual[id])]
    return Noticed(mutant, tests.returncode == 1, bool(by), by[0] if by else "")


def main() -> int:
    """Runs all of them, or those whose description holds a word."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose description holds this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        ids = sorted({id for mutant in chosen for id in mutant.studies})
        usual: dict[str, list[list[object]]] = {}
        for part in pool.map(lambda id: judged((id,), ROOT / "src", strict=True), ids):
            usual |= part
        files = sorted({name for mutant in chosen for name in mutant.tests})
        broken = [name for name, passes in zip(files, pool.map(pass_alone, files), strict=True) if not passes]
        if broken:
            print(f"these tests fail as it is, and can notice nothing: {', '.join(broken)}", flush=True)
        rows = []
        for row in pool.map(lambda mutant: examine(mutant, usual), chosen):
            rows.append(row)
            marks = {True: "noticed", False: "MISSED", None: "-"}
            print(f"tests {marks[row.tests]:8} findings {marks[row.findings]:8} {row.mutant.name}", flush=True)
            if row.by:
                print(f"{'':34}{row.by}", flush=True)
    exercised = [row for row in rows if row.findings is not None]
    by_tests, by_findings = sum(row.tests for row in rows), sum(bool(row.findings) for row in exercised)
    print(f"{len(rows)} mutants: tests notice {by_tests}; findings {by_findings} of {len(exercised)} they exercise")
    return int(bool(broken) or by_tests < len(rows) or by_findings < GOAL * len(exercised))


if __name__ == "__main__":
    sys.exit(main())
