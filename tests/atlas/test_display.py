"""Figures and lists as a reader sees them, on a phone and on a desk, in a real browser."""

import pytest

from secant import atlas
from secant.lab import Store

pytestmark = pytest.mark.browser

PHONE, DESK = 390, 1280
STUDY = "studies/series/sum/"

# Where the panels of a figure are on the screen, by the ground each is drawn on.
PANELS = """() => [...document.querySelectorAll("svg g[id^='axes_']")].map((axes) => {
  const box = axes.querySelector("g[id^='patch_'] path").getBoundingClientRect();
  return [box.left, box.top, box.right, box.bottom];
})"""


@pytest.fixture(scope="module")
def unrun(tmp_path_factory):
    """The pages of all studies, none of which has been run."""
    return atlas.build(tmp_path_factory.mktemp("unrun") / "atlas", Store(tmp_path_factory.mktemp("nothing"))).parent


def shown_figure(page, pages):
    page.goto((pages / STUDY / "index.html").as_uri())
    image = page.locator("figure picture img:visible")
    assert image.count() == 1
    return image.evaluate("image => [image.currentSrc.split('/').pop(), image.width, image.naturalWidth]")


def panels(page, pages, name):
    page.goto((pages / STUDY / name).as_uri())
    return page.evaluate(PANELS)


def abreast(boxes):
    """The largest number of panels that one height meets."""
    return max(sum(top <= (t + b) / 2 <= bottom for _, top, _, bottom in boxes) for _, t, _, b in boxes)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_a_figure_has_at_most_two_panels_a_row_each_legible(pages, window, scheme):
    page = window(width=PHONE, scheme=scheme)
    name, width, points = shown_figure(page, pages)
    assert name == {"light": "figure-narrow.svg", "dark": "figure-narrow-dark.svg"}[scheme]
    assert width > 0.9 * PHONE
    assert width / (points * 72 / 96) > 1.0, "a point of type is at least a pixel: labels of 10 points are legible"
    boxes = panels(page, pages, name)
    assert len(boxes) == 3
    assert abreast(boxes) <= 2


def test_on_a_desk_a_figure_is_as_it_was_drawn(pages, window):
    page = window(width=DESK)
    name, width, _ = shown_figure(page, pages)
    assert name == "figure.svg"
    assert width > 1000
    assert abreast(panels(page, pages, name)) == 3


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_thumbnail_is_one_panel_without_words(pages, window, width, scheme):
    page = window(width=width, scheme=scheme)
    page.goto((pages / "index.html").as_uri())
    image = page.locator("li.study .thumb img:visible").first
    image.scroll_into_view_if_needed()
    name, wide = image.evaluate("image => [image.currentSrc, image.width]")
    assert name.endswith(f"studies/series/sum/thumbnail{'-dark' if scheme == 'dark' else ''}.svg")
    assert wide > 150
    page.goto(name)
    assert len(page.evaluate(PANELS)) == 1
    assert page.locator("g[id^='text_']").count() == 0
    assert page.locator("g[id^='legend_']").count() == 0


@pytest.mark.parametrize(("width", "a_study"), [(DESK, 75), (PHONE, 125)])
def test_an_index_of_nothing_run_is_a_short_list(unrun, window, width, a_study):
    page = window(width=width)
    page.goto((unrun / "index.html").as_uri())
    studies = page.locator("li.study").count()
    assert studies > 80
    # What stands around the list is in it too: a row is a line or two, with no place for a figure that is not there.
    assert page.evaluate("document.documentElement.scrollHeight") < studies * a_study
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    row = page.locator("li.study", has_text="quadreg/fig-2").first
    for part in (".where code", "h4 a", ".first"):
        assert row.locator(part).inner_text().strip()
    assert page.locator(".how-to .command code").first.inner_text().startswith("secant run ")
    page.fill("#search", "quadreg/fig-2")
    assert page.locator("li.study:visible").count() == 1
