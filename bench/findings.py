"""Are the findings of two states of the code the same? For changes that should change none, or words alone.

`python -m bench.findings write FILE [--source src] [--only ID ...]` runs studies at smoke scale with the package of
that folder, each in a process and on a core of its own, and writes what they found.
`python -m bench.findings compare A B` prints what differs, to the bit: numbers and verdicts first, then words. Findings
are matched by study and key. Findings without a partner are matched by their place among the rest, so a new key counts
as a changed word. The exit status is 1 if a number differs, or with `--words` a word.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

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


WORDS = ("key", "finding", "why", "note", "reason", "where", "printed", "corrected")
"""Fields of a finding that are text: they may be reworded and change no number."""


class Difference(NamedTuple):
    """What is not the same in two states: where, and whether it is only a word."""

    text: str
    word: bool


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """Everything that is not the same, study by study."""
    found = [Difference(f"{id}: only in one of the two", False) for id in sorted(before.keys() ^ after.keys())]
    for id in sorted(before.keys() & after.keys()):
        stopped = [side[id] for side in (before, after) if isinstance(side[id], str)]
        if stopped:
            found += [Difference(f"{id}: stopped: {text}", False) for text in stopped]
            continue
        for old, new in partners(before[id], after[id]):
            if old is None or new is None:
                alone = old or new or {}
                found.append(Difference(f"{id}: {alone['finding']}: only in one of the two", False))
                continue
            for field in sorted(old.keys() | new.keys()):
                a, b = old.get(field), new.get(field)
                if repr(a) != repr(b):
                    text = f"{id}: {new.get('key', new['finding'])}: {field}: {a!r} -> {b!r}"
                    found.append(Difference(text, field in WORDS))
    return found


def partners(before: list[Any], after: list[Any]) -> list[tuple[Any, Any]]:
    """Findings of one study in two states, in pairs: by their key, the others by their place among the rest."""
    places = {finding["key"]: place for place, finding in enumerate(after) if "key" in finding}
    pairs = [(old, after[places.pop(old["key"])]) for old in before if old.get("key") in places]
    known = {id(side) for pair in pairs for side in pair}
    rest = ([one for one in side if id(one) not in known] for side in (before, after))
    return pairs + list(itertools.zip_longest(*rest))


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
    comparing.add_argument("--words", action="store_true", help="words that differ are printed, and count")
    options = parser.parse_args()
    if options.what == "write":
        write(options.file, options.source, options.only)
        return 0
    before, after = (json.loads(path.read_text()) for path in (options.before, options.after))
    found = differences(before, after)
    count = sum(len(findings) for findings in before.values() if not isinstance(findings, str))
    numbers = [one.text for one in found if not one.word]
    words = [one.text for one in found if one.word]
    print(*numbers, *(words if options.words else ()), sep="\n")
    print(f"{len(numbers)} numbers and {len(words)} words differ in {count} findings of {len(before)} studies")
    return int(bool(numbers or (options.words and words)))


if __name__ == "__main__":
    sys.exit(main())
