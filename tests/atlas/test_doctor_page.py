"""The page of a diagnosis, in a real browser and as text."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest
from made_up import falling, record

from secant.atlas.doctor import page, traces
from secant.atlas.traces import Curve, Trace
from secant.monitors import diagnose

NASTY = "<script>document.title = 'run'</script>\"'&"


@pytest.fixture
def ill():
    loss = falling()
    loss[95:120] *= 40
    batch = {"batch": np.full(200, 64.0), "noise_scale": np.full(200, 300.0)}
    run = record(loss, gradient_norm=loss, update_norm=loss / 10, **batch)
    run.about.update(name=NASTY, loss=NASTY, optimiser={"name": "sgd", NASTY: NASTY})
    run.notes.append((3, NASTY))
    return run


def test_what_a_record_says_is_text(ill):
    shown = page(ill, diagnose(ill))
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert "http" not in shown.replace("http-equiv", "")


def test_a_sentence_without_a_study_leads_to_the_guide(tmp_path, monkeypatch):
    monkeypatch.setenv("SECANT_HOME", str(tmp_path))
    loss = falling()
    loss[150:] = math.nan
    run = record(loss)
    shown = page(run, diagnose(run))
    assert "No study stands behind it" in shown
    assert "docs/guide/runs/doctor.md#sentences-without-a-study" in shown
    carried = tmp_path / "atlas" / "docs" / "guide" / "runs" / "doctor.html"
    carried.parent.mkdir(parents=True)
    carried.touch()
    assert f'href="{carried.resolve().as_uri()}#sentences-without-a-study"' in page(run, diagnose(run))


def test_curves_are_drawn_where_they_are_and_odd_numbers_are_left_out(ill):
    for trace in traces(ill, diagnose(ill)):
        assert ElementTree.fromstring(str(trace.svg)).tag == "svg"
    odd = Curve("odd", np.arange(5), np.array([1.0, math.nan, math.inf, -1.0, 100.0]))
    drawn = ElementTree.fromstring(str(Trace("odd", [odd]).svg))
    places = drawn.find("polyline").get("points").split()
    assert len(places) == 2
    assert float(places[0].split(",")[1]) > float(places[1].split(",")[1])  # what is larger stands higher
    assert Trace("nothing", [Curve("none", np.array([]), np.array([]))]).svg == ""


def test_of_many_points_the_smallest_and_the_largest_stay():
    y = np.ones(50_000)
    y[31_234], y[44_444] = 1e6, 1e-6
    drawn = str(Trace("many", [Curve("many", np.arange(50_000), y)]).svg)
    places = ElementTree.fromstring(drawn).find("polyline").get("points").split()
    heights = [float(place.split(",")[1]) for place in places]
    assert len(heights) < 1300
    assert len(set(heights)) == 3


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_without_a_network_and_is_seen(ill, window, tmp_path, scheme):
    file = tmp_path / "page.html"
    file.write_text(page(ill, diagnose(ill)), encoding="utf-8")
    shown = window(scheme=scheme)
    shown.goto(file.as_uri())
    assert shown.title() == f"{NASTY}: bad batch"
    assert shown.locator("#verdict").inner_text() == "bad batch"
    assert shown.locator("h1").inner_text() == NASTY
    assert shown.locator("svg.trace").count() == 5
    for box in shown.locator("svg.trace").all():
        assert box.bounding_box()["width"] > 300
    colour = shown.evaluate("getComputedStyle(document.querySelector('svg.trace polyline')).stroke")
    assert colour == {"light": "rgb(37, 99, 235)", "dark": "rgb(96, 165, 250)"}[scheme]
    paper = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 23, 42)"}[scheme]
    assert not shown.locator("dl").is_visible()
    shown.click("summary")
    assert shown.locator("dl").is_visible()
    shown.set_viewport_size({"width": 390, "height": 800})
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
