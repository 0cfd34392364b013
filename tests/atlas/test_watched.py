"""Pages of watched runs: what they tell, and how they work in a real browser with the network off."""

import html
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from secant import atlas
from secant.atlas import curves
from secant.atlas.watched import runs_below
from secant.lab import Store
from secant.monitors import RecordError, Writer
from secant.monitors.display import Panel, Series

ABOUT = {
    "framework": "jax",
    "optimiser": "sgd",
    "parameters": 77_850,
    "plan": {"budget": 0.05, "looks": {"batch_sharpness": {"every": 20, "seconds": 0.42}}},
}
NASTY = "<img src=x onerror=alert(1)>\"'`$\\x$</script><script>alert(2)</script>{{ 7 * 7 }}"


def healthy(folder, steps=600):
    with Writer(folder, ABOUT) as writer:
        writer.note(0, "looks take a quarter of the batch")
        for step in range(steps):
            row = {"step": step, "loss": 2.3 * math.exp(-step / 200) + 0.02, "lr": 0.05, "batch": 64.0}
            row |= {"gradient_norm": 1.0 + step, "update_norm": 0.05}
            if step % 20 == 0:
                row |= {"sharpness": 45.0 * step / steps, "threshold": 40.0, "batch_sharpness": 30.0 + step / 50}
                row |= {"noise_scale": 20.0 + step, "share": 0.048, "stable_multiple": 1.5, "kernel_drift": step / 1e3}
            writer.append(row)


def sick(folder):
    """A run that breaks down, of a stranger who would like to run a script."""
    with Writer(folder, {"framework": NASTY, "optimiser": NASTY, NASTY: NASTY, "plan": {"looks": {NASTY: NASTY}}}) as w:
        w.append({"step": 0, "loss": 1.0, NASTY: 1.0, "lr": 1e-320}, {"step": 1, "loss": 1e308, "lr": 5.0})
        w.append({"step": 2, "loss": math.inf, "sharpness": -1e308}, {"step": 3, "loss": math.nan, "threshold": 1e-300})
        w.note(1, NASTY)


@pytest.fixture(scope="module")
def pages(tmp_path_factory, demo):
    store = Store(tmp_path_factory.mktemp("store"))
    healthy(store.root / "watched" / "digits")
    sick(store.root / "watched" / "stranger")
    Writer(store.root / "watched" / "early", {}).close()
    return atlas.build(tmp_path_factory.mktemp("pages") / "atlas", store, studies=demo[:1]).parent


def text_of(page: Path) -> str:
    return re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))


def test_the_index_leads_to_every_run(pages):
    index = text_of(pages / "index.html")
    for name in ("digits", "stranger", "early"):
        assert f'<h3><a href="watched/{name}/index.html">{name}</a></h3>' in index
    assert "jax, sgd · ended at step 599 · loss 0.135" in index
    assert 'index.html#watched">Runs</a>' in index


def test_the_page_of_a_run_has_its_facts_its_numbers_and_the_commands(pages):
    page = text_of(pages / "watched/digits/index.html")
    for shown in (
        "<dt>Parameters</dt><dd>77,850</dd>",
        "secant doctor digits",
        "secant watch digits",
        "looks take a quarter of the batch",
        "Above it at 3 of 30 looks.",
        'batch_sharpness</code></th><td class="n">20</td>',
        "Curvature of a batch along its own gradient",
    ):
        assert shown in page, shown
    charts = [json.loads(html.unescape(found)) for found in re.findall(r'data-chart="([^"]*)"', page)]
    loss = charts[0]["curves"][0]["points"]
    assert loss[-1] == [599, pytest.approx(2.3 * math.exp(-599 / 200) + 0.02, rel=1e-5)]
    assert [curve["name"] for curve in charts[1]["curves"]] == ["sharpness", "edge"]
    assert "Nothing has been measured yet" in text_of(pages / "watched/early/index.html")


def test_nothing_of_a_record_is_markup(pages):
    page = (pages / "watched/stranger/index.html").read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert "<script>alert" not in page
    assert page.count("{{ 7 * 7 }}") >= 4  # as it was written, wherever it is shown
    for attribute in re.findall(r'data-chart="([^"]*)"', page):
        json.loads(html.unescape(attribute))
    assert "NaN" not in page


def test_what_cannot_be_read_is_passed_over_and_said(tmp_path):
    healthy(tmp_path / "good", 3)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "about.json").write_text('{"format": 99, "secant": "\\u001b[2J"}')
    (tmp_path / "link").symlink_to(tmp_path / "good")
    with pytest.warns(RuntimeWarning, match="format 99.*passed over") as said:
        assert [run.name for run in runs_below(tmp_path)] == ["good"]
    assert "\x1b" not in str(said[0].message)
    assert runs_below(tmp_path / "nothing") == []


def test_one_page_alone_has_all_it_needs(tmp_path):
    healthy(tmp_path / "run", 30)
    page = atlas.watched_page(tmp_path / "run", tmp_path / "page")
    text = text_of(page)
    assert f"secant doctor {tmp_path / 'run'}" in text
    for address in re.findall(r'(?:href|src)="([^"#]*)[^"]*"', text):
        assert not address or (page.parent / address).is_file(), address
    atlas.watched_page(tmp_path / "run", tmp_path / "page")  # takes the place of the first
    with pytest.raises(RecordError, match="no record"):
        atlas.watched_page(tmp_path / "nothing" / "here", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    with pytest.raises(FileExistsError):
        atlas.watched_page(tmp_path / "run", tmp_path)


def test_a_path_goes_through_its_points_and_lifts_its_pen_at_gaps():
    steps = np.array([0, 10, 20, 30, 40])
    series = Series("x", steps, np.array([0.0, 1.0, np.nan, 0.5, np.inf]))
    drawn = curves.chart(Panel("x", "", (series,)), (0, 40))
    assert drawn.curves[0].path == "M0 1000h0L250 0M750 500h0"
    assert drawn.curves[0].points == [[0, 0.0], [10, 1.0], [20, None], [30, 0.5], [40, None]]
    assert [float(tick.place) for tick in drawn.ticks_x] == [0, 0.25, 0.5, 0.75, 1.0]
    assert drawn.across(10) == 250.0


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, ["0", "0.5", "1"]),
        (1.0, 1000.0, ["1", "10", "100", "10<sup>3</sup>"]),
        (-3.0, 7.0, ["0", "5"]),
        (5.0, 5.0, ["4", "6"]),
        (0.02, 0.031, ["0.02", "0.025", "0.03"]),
        (-1e308, 1e308, None),
        (-1.7e308, -1.7e308, None),
        (1e-320, 1e308, None),
        (0.0, 5e-324, None),
    ],
)
def test_ticks_are_round_numbers_between_the_limits(low, high, ticks):
    drawn = curves.chart(Panel("x", "", (Series("x", np.arange(2), np.array([low, high])),)), (0, 1))
    assert all(0 <= tick.place <= 1 for tick in drawn.ticks_y)
    assert len(drawn.ticks_y) >= 2
    assert ticks is None or [str(tick.text) for tick in drawn.ticks_y] == ticks


@pytest.mark.parametrize("span", [(0, 0), (0, 1), (3, 1199), (99, 100), (0, 2**63 - 1)])
def test_steps_begin_and_end_the_axis(span):
    drawn = curves.chart(Panel("x", "", (Series("x", np.array(span), np.ones(2)),)), span)
    ends = [drawn.ticks_x[0], drawn.ticks_x[-1]]
    assert [str(tick.text) for tick in ends] == [f"{step:,}" for step in span]
    places = [tick.place for tick in drawn.ticks_x]
    assert places == sorted(set(places))


browser = pytest.mark.browser
PAGES = ("index.html", "watched/digits/index.html", "watched/stranger/index.html")


def address(pages: Path, name: str) -> str:
    return (pages / name).as_uri()


@browser
def test_a_reader_clicks_through_with_the_network_off(pages, window):
    page = window()
    page.context.set_offline(True)
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.goto(address(pages, "index.html"))
    page.click("header.top nav >> text=Runs")
    page.click(".runs >> text=stranger")
    assert page.locator("h1").inner_text() == "stranger"
    assert page.locator("img").count() == 0
    page.click(".crumbs >> text=Your own runs")
    page.click(".runs >> text=digits")
    assert page.locator(".chart").count() == 9
    boxes = page.evaluate("[...document.querySelectorAll('.chart .curve')].map(c => c.getBBox().width)")
    assert min(boxes) > 500
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("button.copy >> nth=0")
    assert page.evaluate("navigator.clipboard.readText()") == "secant doctor digits"


@browser
def test_pointing_at_a_curve_tells_its_numbers(pages, window):
    page = window()
    page.goto(address(pages, "watched/digits/index.html"))
    chart = page.locator(".chart").nth(1)
    field, value = chart.locator(".field"), chart.locator(".key b").first
    usual = value.inner_text()
    box = field.locator("svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 200.5 / 599, box["y"] + 20)
    assert chart.locator(".at").inner_text() == "step 200"
    assert value.inner_text() == "15"
    page.mouse.move(0, 0)
    assert (chart.locator(".at").inner_text(), value.inner_text()) == ("", usual)
    field.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert (chart.locator(".at").inner_text(), value.inner_text()) == ("step 20", "1.5")
    edge = chart.locator("path.c-edge")
    chart.locator("button.c-edge").click()
    assert not edge.is_visible()
    assert chart.locator("button.c-edge").get_attribute("aria-pressed") == "false"
    chart.locator("button.c-edge").click()
    assert edge.get_attribute("style") == ""


@browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1280])
def test_the_pages_fit_the_window_and_can_be_read(pages, window, poor_contrasts, width, scheme):
    page = window(width=width, scheme=scheme)
    for name in PAGES:
        page.goto(address(pages, name))
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert poor_contrasts(page) == [], name
    page.goto(address(pages, "watched/digits/index.html"))
    stroke = page.evaluate("getComputedStyle(document.querySelector('.curve.c-0')).stroke")
    assert stroke == {"light": "rgb(29, 78, 216)", "dark": "rgb(124, 180, 251)"}[scheme]
    overlaps = page.evaluate(
        """[...document.querySelectorAll(".plot .x, .plot .y")].some(axis => {
            const boxes = [...axis.children].map(e => e.getBoundingClientRect());
            return boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right && b.left < a.right
                && a.top < b.bottom && b.top < a.bottom));
        })"""
    )
    assert not overlaps
