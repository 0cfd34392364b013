"""The site as a reader opens it from a disk: its search answers, and its figures fit a phone."""

import re
import shutil
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "index.md",
    "theory/edge/limit-series.md",
    "theory/edge/two-eigenvalues.md",
    "theory/edge/lambert.md",
    "theory/edge/settling.md",
)

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Some pages of the site, made by the site's own settings but for the reference, which takes long."""
    pytest.importorskip("material")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    home = tmp_path_factory.mktemp("site")
    for name in ("css", "js", "figures"):
        shutil.copytree(ROOT / "docs" / name, home / "docs" / name)
    for name in (*PAGES, "hooks.py", "counts.py"):
        (home / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "docs" / name, home / "docs" / name)
    settings = (ROOT / "mkdocs.yml").read_text()
    settings = re.sub(r"^  - mkdocstrings:\n(?:    .*\n)+", "", settings, flags=re.MULTILINE)
    settings = re.sub(r"^nav:\n(?:  .*\n)+", "", settings, flags=re.MULTILINE)
    (home / "mkdocs.yml").write_text(settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the builder's own packages
        build(load_config(str(home / "mkdocs.yml"), site_dir=str(home / "site")))
    return home / "site"


@pytest.mark.parametrize("word", ["Lambert", "memory", "curvature"])
def test_the_search_answers_from_a_disk_without_a_network(site, window, word):
    page = window()
    page.goto((site / "index.html").as_uri())
    page.click("input.md-search__input")
    page.keyboard.type(word)
    results = page.locator(".md-search-result__item a.md-search-result__link")
    results.first.wait_for(timeout=20_000)
    texts = results.all_inner_texts()
    assert any(word.lower() in text.lower() for text in texts)
    target = results.first.evaluate("link => link.href").split("#")[0].split("?")[0]
    assert Path(target.removeprefix("file://")).is_file()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "name"), [(390, "quadreg-limit-series-narrow"), (1280, "quadreg-limit-series")])
def test_a_figure_has_its_panels_below_one_another_on_a_phone(site, window, scheme, width, name):
    page = window(width=width, scheme=scheme)
    page.goto((site / "theory" / "edge" / "limit-series.html").as_uri())
    page.evaluate("for (const image of document.images) image.loading = 'eager'")
    shown = [image.evaluate("i => i.currentSrc") for image in page.locator("article figure img:visible").all()]
    assert [Path(source.split("#")[0]).name for source in shown] == [f"{name}{'-dark' if scheme == 'dark' else ''}.svg"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_figure_without_such_a_form_scrolls_on_a_phone(site, window):
    page = window(width=390)
    page.goto((site / "theory" / "edge" / "settling.html").as_uri())
    image = page.locator("article img:visible").first
    assert image.evaluate("image => image.width") > 600
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
