"""`secant tour`: a first look at what Secant does, in about a minute."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from secant import atlas, lab
from secant.cli import present
from secant.cli.options import parse
from secant.core.progress import Bar, reporting
from secant.lab.plain import plain
from secant.lab.runs.store import Store, home

STOPS = {
    "quadreg/fig-2": "Why does sharpness stop just below 2 / step size?",
    "quadreg/limit-series": "How far below, to four orders?",
    "thesis/fig-3.3": "Which directions catapult, and at which step sizes?",
    "thesis/max-step": "Which step size is the last safe one?",
    "thesis/thm-3.3.4": "Where can training come to rest?",
    "lectures/11-07-catapult": "What does a lecture's phase diagram look like at finite width?",
}


@dataclass(frozen=True)
class TourOptions:
    """A few studies at laptop scale, their findings, and the pages."""


def tour(arguments: list[str]) -> int:
    """`secant tour`."""
    parse(TourOptions, arguments, "tour")
    began, failed, store = time.perf_counter(), False, Store()
    present.output.print(Text("Secant: deep-learning theory you can run.\n", style="bold"))
    for number, (id, question) in enumerate(STOPS.items(), start=1):
        study = lab.get(id)
        present.output.print(f"[bold]{number}/{len(STOPS)}  {escape(question)}[/]")
        present.output.print(
            Padding(Text(f"{study.id}: {plain(study.title)} ({study.source.title})", style="dim"), (0, 5))
        )
        with reporting(Bar(present.errors)):
            record = lab.run(study, scale="laptop", store=store)
        present.output.print(present.findings_table(record.findings))
        present.output.print(
            Text(f"     {record.seconds:.1f} s, figure: {record.directory / 'figure.png'}\n", style="dim")
        )
        failed = failed or record.verdict == "fails"
    index = atlas.build(home() / "atlas", store)
    present.output.print(
        f"The tour took {time.perf_counter() - began:.0f} s. Open the pages: [bold]{index.resolve().as_uri()}[/]"
    )
    present.output.print(f"Everything else: secant list ({len(lab.catalog())} studies), secant verify, secant run ID.")
    return int(failed)
