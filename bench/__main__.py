"""`python -m bench`: one table, or one row of it."""

from __future__ import annotations

import argparse
import difflib
import json
import sys

from bench.row import Row
from bench.rows import ROWS


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", help="name of one row")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.only is not None and options.only not in ROWS:
        near = difflib.get_close_matches(options.only, ROWS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        print(f"bench: no row called {options.only!r}.{hint} Rows: {', '.join(ROWS)}.", file=sys.stderr)
        return 2
    names = [options.only] if options.only else list(ROWS)
    rows = []
    for name in names:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows.append(ROWS[name]())
    if options.json:
        print(json.dumps([row.as_dict() for row in rows], indent=1))
    else:
        show(rows)
    return int(not all(row.met for row in rows))


def _short(value: float, places: int) -> str:
    """A number with so many places, or in powers of ten where they would all be zero."""
    return f"{value:.{places}f}" if value >= 10**-places else f"{value:.1e}"


def show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for column in ("row", "work", "peer", "the peer's", "ours", "ratio", "target", ""):
        table.add_column(column, justify="right" if column in ("the peer's", "ours", "ratio") else "left")
    for row in rows:
        table.add_row(
            row.name,
            row.work,
            row.peer,
            f"{_short(row.peer_seconds, 3)} {row.unit}",
            f"{_short(row.seconds, 3)} {row.unit}",
            _short(row.ratio, 2),
            f"{row.sense} {row.target:g}",
            "[green]met[/]" if row.met else "[bold red]missed[/]",
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)


if __name__ == "__main__":
    sys.exit(main())
