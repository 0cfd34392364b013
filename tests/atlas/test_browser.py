"""The pages in a real browser, opened as files."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

PAGES = ("index.html", "errata.html", "studies/series/sum/index.html", "studies/limits/thm-1/index.html")
PAGES += ("studies/series/sum/code.html", "docs/theory/edge/limit-series.html", "docs/theory/index.html")


def address(pages: Path, name: str) -> str:
    return (pages / name).as_uri()


def visible(page):
    return [item.inner_text() for item in page.locator("li.study:visible .where code").all()]


def test_every_page_loads_quietly_and_every_link_resolves(pages, window):
    page = window()
    todo, seen = [address(pages, "index.html")], set()
    while todo:
        url = todo.pop()
        if url in seen:
            continue
        seen.add(url)
        page.goto(url)
        assert page.locator("main h1").count() == 1
        assert page.evaluate("[...document.images].every(i => i.loading === 'lazy' || i.naturalWidth > 0)")
        links = page.evaluate("[...document.querySelectorAll('a[href]')].map(link => link.href.split('#')[0])")
        for target in dict.fromkeys(links):
            assert Path(target.removeprefix("file://")).is_file(), f"{url} -> {target}"
            if target.endswith(".html"):
                todo.append(target)
    assert len(seen) == len(list(pages.rglob("*.html")))


def test_searching_narrows_the_list(pages, window):
    page = window()
    page.goto(address(pages, "index.html"))
    assert visible(page) == ["series/sum", "series/thm-1.3", "limits/thm-1"]
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    for typed, left in [
        ("CATAPULT", ["series/thm-1.3"]),
        ("thm", ["series/thm-1.3", "limits/thm-1"]),
        ("geometric series", ["series/sum"]),
        ("never", ["limits/thm-1"]),
        ("1.3", ["series/thm-1.3"]),
        ("nothing of the kind", []),
    ]:
        page.fill("#search", typed)
        assert visible(page) == left
        assert page.locator("section.source:visible").count() == len({id.split("/")[0] for id in left})
    assert "No study matches" in page.locator("#found").inner_text()
    page.keyboard.press("Escape")
    assert len(visible(page)) == 3
    page.click("button[data-verdict='not run']")
    assert visible(page) == ["limits/thm-1"]


def test_formulas_are_set_and_not_just_present(pages, window):
    page = window()
    page.goto(address(pages, "studies/series/sum/index.html"))
    boxes = page.evaluate(
        "[...document.querySelectorAll('.statement math')].map(m => [m.getBoundingClientRect().width,"
        " m.getBoundingClientRect().height])"
    )
    assert len(boxes) > 3
    assert all(width > 4 and height > 4 for width, height in boxes)
    fraction, line = page.locator(".statement mfrac").first, page.locator(".statement mi").first
    assert fraction.bounding_box()["height"] > 1.5 * line.bounding_box()["height"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_look_follows_the_system_until_the_reader_chooses(pages, window, scheme):
    other = {"light": "dark", "dark": "light"}[scheme]
    page = window(scheme=scheme)
    page.goto(address(pages, "studies/series/sum/index.html"))

    def look():
        shown = page.evaluate("getComputedStyle(document.body).backgroundColor")
        figures = [image.get_attribute("src") for image in page.locator("figure picture img:visible").all()]
        assert figures == [{"light": "figure.svg", "dark": "figure-dark.svg"}[dark_or_light(shown)]]
        assert page.locator("#theme").get_attribute("aria-pressed") == str(dark_or_light(shown) == "dark").lower()
        return dark_or_light(shown)

    assert look() == scheme
    page.click("#theme")
    assert look() == other
    page.reload()
    assert look() == other
    page.goto(address(pages, "index.html"))
    assert dark_or_light(page.evaluate("getComputedStyle(document.body).backgroundColor")) == other


def dark_or_light(colour: str) -> str:
    channels = [float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    return "dark" if sum(channels) < 300 else "light"


@pytest.mark.parametrize("width", [380, 768, 1280])
def test_no_page_is_wider_than_the_window(pages, window, width):
    page = window(width=width)
    for name in PAGES:
        page.goto(address(pages, name))
        page.evaluate("for (const image of document.images) image.loading = 'eager'")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        # Nothing sticks out either, but for what scrolls in its own box.
        out = page.evaluate(
            """width => [...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > width + 1
                && !e.closest(".display, .wide, .statement p, .reading p, .code, .command, .formulas > div, .excerpt")
                && !e.closest(".unseen, .skip"))
                .map(e => e.outerHTML.slice(0, 80))""",
            width,
        )
        assert out == [], name


def test_the_figure_grows_and_the_command_is_copied(pages, window):
    page = window()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(address(pages, "studies/series/sum/index.html"))
    page.click("a.enlarge")
    assert page.locator("dialog.lightbox img:visible").count() == 1
    page.keyboard.press("Escape")
    assert page.locator("dialog.lightbox").is_hidden()
    page.click("button.copy")
    assert page.evaluate("navigator.clipboard.readText()") == "secant run series/sum --scale smoke"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(pages, window, poor_contrasts, scheme):
    page = window(scheme=scheme)
    for name in PAGES:
        page.goto(address(pages, name))
        assert poor_contrasts(page) == [], name
