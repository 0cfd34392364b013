"""LaTeX in pages and docstrings becomes MathML when the site is built: a reader needs no script and no network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority

from secant.atlas.mathml import UntranslatableError, mathml
from secant.atlas.typeset import formula

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

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


@event_priority(100)
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Before any plugin copies the list of extensions."""
    config.markdown_extensions.append(Mathematics())  # type: ignore[arg-type]
    return config
