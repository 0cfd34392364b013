"""Are the findings of two states of the code the same? For changes that should change none.

`python -m bench.findings write FILE [--source src] [--only ID ...]` runs studies at smoke scale with the package of
that folder, each in a process and on a core of its own, and writes what they found.
`python -m bench.findings compare A B` says what differs: to the bit, numbers included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.studies import QUICK, on_cores

WORKER = """
import json, sys
from secant import lab
from secant.lab.verdicts.finding import as_dict
study = lab.get(sys.argv[1])
config = study.config("smoke")
data = study(config)
print(json.dumps([as_dict(finding) for finding in study.judge(data, config)]))
"""


def write(file: Path, source: Path, ids: list[str]) -> None:
    """Runs the studies of a state of the code, and keeps their findings."""
    environment = {**os.environ, **QUICK, "PYTHONPATH": str(source.resolve())}
    if not ids:
        listing = "from secant import lab; print(*(study.id for study in lab.catalog()))"
        ids = subprocess.check_output([sys.executable, "-c", listing], env=environment, text=True).split()

    def one(id: str) -> Any:
        done = subprocess.run([sys.executable, "-c", WORKER, id], env=environment, capture_output=True, text=True)
        return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr[-500:]

    file.write_text(json.dumps(dict(zip(ids, on_cores(one, ids), strict=True)), indent=1))


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """A line for everything that is not the same."""
    found = [f"{id}: only in one of the two" for id in sorted(before.keys() ^ after.keys())]
    for id in sorted(before.keys() & after.keys()):
        if isinstance(before[id], str) or isinstance(after[id], str):
            found += [f"{id}: stopped: {text}" for text in (before[id], after[id]) if isinstance(text, str)]
            continue
        old, new = ({finding["finding"]: finding for finding in side[id]} for side in (before, after))
        found += [f"{id}: {name}: only in one of the two" for name in sorted(old.keys() ^ new.keys())]
        for name in sorted(old.keys() & new.keys()):
            fields = sorted(old[name].keys() | new[name].keys())
            pairs = [(field, old[name].get(field), new[name].get(field)) for field in fields]
            found += [f"{id}: {name}: {field}: {a!r} -> {b!r}" for field, a, b in pairs if repr(a) != repr(b)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.findings", description=__doc__)
    parts = parser.add_subparsers(dest="what", required=True)
    writing = parts.add_parser("write")
    writing.add_argument("file", type=Path)
    writing.add_argument("--only", nargs="*", default=[], metavar="ID")
    writing.add_argument("--source", type=Path, default=Path("src"))
    comparing = parts.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.what == "write":
        write(options.file, options.source, options.only)
        return 0
    before, after = (json.loads(path.read_text()) for path in (options.before, options.after))
    found = differences(before, after)
    count = sum(len(findings) for findings in before.values() if not isinstance(findings, str))
    print(*found, f"{len(found)} differences in {count} findings of {len(before)} studies", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
