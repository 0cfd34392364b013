"""What is done to the pages when the site is built, so that a reader needs no script and no network.

- LaTeX in pages and docstrings becomes MathML.
- A figure that has a narrow form, with its panels below one another, shows that form on a phone.
- The number of studies is counted, wherever a page tells it.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority

from secant.atlas.formulas.mathml import UntranslatableError, mathml
from secant.atlas.formulas.typeset import formula

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DISPLAY = r"(?<!\\)\$\$(.+?)(?<!\\)\$\$"
INLINE = r"(?<![\\$])\$(?!\$)((?:\\.|[^\\$])+?)\$([.,;:!?)\u2019-]*)"
BEFORE_EMPHASIS, AFTER_CODE = 187, 186


class Formula(InlineProcessor):
    """Formulas between dollars, before Markdown reads their underscores and stars as its own."""

    def __init__(self, pattern: str, md: Markdown, display: bool) -> None:
        super().__init__(pattern, md)
        self.compiled_re = re.compile(pattern, re.DOTALL)
        self.display = display

    def handleMatch(self, match: re.Match[str], data: str) -> tuple[str | Element, int, int]:
        """The formula as MathML; one that cannot be translated breaks the build."""
        latex = " ".join(match[1].split())
        try:
            mathml(latex, display=self.display)
        except UntranslatableError as error:
            raise PluginError(str(error)) from None
        html = str(formula(latex, display=self.display))
        if not self.display and match[2]:  # no line begins with a full stop
            head, wbr, tail = html.rpartition("<wbr>")
            html = f'{head}{wbr}<span class="together">{tail}{match[2]}</span>'
        return self.md.htmlStash.store(html), match.start(), match.end()


class Mathematics(Extension):
    """Adds both kinds of formula to a Markdown parser."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Registers the formulas."""
        md.inlinePatterns.register(Formula(DISPLAY, md, display=True), "display", BEFORE_EMPHASIS)
        md.inlinePatterns.register(Formula(INLINE, md, display=False), "inline", AFTER_CODE)


@functools.cache
def counts() -> ModuleType:
    """The file beside this one, which no path of imports leads to."""
    spec = importlib.util.spec_from_file_location("counts", Path(__file__).with_name("counts.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def studies() -> int:
    """How many studies there are."""
    return len(counts().heads())


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Writes the number of studies where the page tells it."""
    return counts().shown(markdown, studies())


IMAGE = re.compile(
    r'<img [^>]*?src="(?P<folder>[^"#]*figures/)(?P<name>[^"#/]+?)(?P<look>-dark)?\.(?:svg|png)(?:#light)?"[^>]*>'
)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adds the narrow form of figures that have one."""

    def narrow(match: re.Match[str]) -> str:
        names = (f"{match['name']}-narrow{match['look'] or ''}.{ending}" for ending in ("svg", "png"))
        name = next((name for name in names if files.get_file_from_path(f"figures/{name}")), None)
        if name is None:
            return match[0]
        source = f'<source media="screen and (max-width: 45em)" srcset="{match["folder"]}{name}">'
        return f"<picture>{source}{match[0]}</picture>"

    return IMAGE.sub(narrow, html)


@event_priority(100)
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Before any plugin copies the list of extensions."""
    config.markdown_extensions.append(Mathematics())  # type: ignore[arg-type]
    return config
