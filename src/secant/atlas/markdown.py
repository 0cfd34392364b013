"""Markdown with formulas between dollars, as HTML: the dialect of the documentation."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup

from secant.atlas.formulas.typeset import formula
from secant.atlas.listing import highlighted
from secant.lab.plain import MATH, plain

Link = Callable[[str], str | None]
"""Turns an address on a page, or the id of a study, into the target of a link; `None` if these pages have no target."""

_FENCE = re.compile(r"(^```.*?^```[ \t]*$)", re.DOTALL | re.MULTILINE)
_CODE_OR_MATH = re.compile(rf"`[^`\n]+`|{MATH.pattern}", re.DOTALL)
_REFERENCE = re.compile(r"\[(`[^`]+`|[^\]\n]+)\]\[(?:secant[\w.]*)?\]")
_FIGURE = re.compile(
    r"^<figure markdown>\n(?P<images>.*?)<figcaption[^>]*>(?P<caption>.*?)</figcaption>\n</figure>",
    re.DOTALL | re.MULTILINE,
)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def title(text: str) -> str:
    """The heading of a page, in plain text."""
    match = _TITLE.search(text)
    return plain(match[1]) if match else ""


def html(text: str, link: Link = lambda target: target, narrow: Link = lambda source: None) -> Markup:
    """A page of Markdown as HTML.

    Args:
        text: the page. Links to the API reference, in double brackets, are left out; figures have two images, for light
            and for dark pages, and a caption.
        link: gives the target of each link, and of code that is the id of a study or a command with such an id.
        narrow: gives the form of a figure for a narrow window, if there is one.
    """
    env = {"link": link, "narrow": narrow}
    parts, end = [], 0
    for match in _FIGURE.finditer(text):
        caption = Markup(_parser().renderInline(_lines_joined(match["caption"]), env))
        images = Markup(_parser().renderInline(match["images"].strip(), env))
        parts += [_rendered(text[end : match.start()], env)]
        parts += [Markup("<figure>{}<figcaption>{}</figcaption></figure>\n").format(images, caption)]
        end = match.end()
    return Markup("").join([*parts, _rendered(text[end:], env)])


def _rendered(text: str, env: dict[str, Link]) -> Markup:
    pieces = _FENCE.split(_REFERENCE.sub(r"\1", text))
    joined = "".join(piece if k % 2 else _lines_joined(piece) for k, piece in enumerate(pieces))
    return Markup(_parser().render(joined, env))  # the parser has escaped everything but its own tags


def _lines_joined(text: str) -> str:
    """Puts every formula on one line, because Markdown reads a line that begins with a minus sign as a list."""
    return _CODE_OR_MATH.sub(lambda match: match[0] if match[0][0] == "`" else " ".join(match[0].split()), text)


@functools.cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "highlight": _fence}).enable("table")
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.core.ruler.push("links", _links)
    parser.add_render_rule("formula", _render_formula)
    parser.add_render_rule("code_inline", _render_code)
    parser.add_render_rule("image", _render_image)
    parser.add_render_rule("table_open", lambda *_: '<div class="wide" tabindex="0"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def _formula(state: StateInline, silent: bool) -> bool:
    """Reads a formula between dollars."""
    match = MATH.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        token = state.push("formula", "math", 0)
        token.content = match["display"] or match["inline"]
        token.block = match["display"] is not None
    state.pos = match.end()
    return True


def _render_formula(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return str(formula(tokens[index].content, display=tokens[index].block))


def _render_code(self: Any, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
    code = Markup("<code>{}</code>").format(tokens[index].content)
    name = re.match(r"(?:secant \w+ )?([a-z]+/[\w.-]+)", tokens[index].content)
    target = env["link"](name[1]) if name else None
    return str(Markup('<a href="{}">{}</a>').format(target, code) if target else code)


def _render_image(self: Any, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
    source, alt = str(tokens[index].attrs["src"]).removesuffix("#light"), tokens[index].content
    look = "on-dark" if "-dark." in source else "on-light"
    image = Markup('<img src="{}" alt="{}" loading="lazy">').format(source, alt)
    narrow = env["narrow"](source)
    if narrow is None:
        return str(Markup('<span class="{} scrolls">{}</span>').format(look, image))
    other = Markup('<source media="screen and (max-width: 46rem)" srcset="{}">').format(narrow)
    return str(Markup('<picture class="{}">{}{}</picture>').format(look, other, image))


def _fence(code: str, language: str, _: str) -> str:
    return f'<pre class="code"><code>{highlighted(code, language)}</code></pre>'


def _links(state: Any) -> None:
    """Sets the targets of links, and gives headings the names that links use."""
    for position, token in enumerate(state.tokens):
        if token.type == "heading_open":
            token.attrSet("id", _slug(state.tokens[position + 1].content))
        opened: list[bool] = []
        for child in token.children or []:
            if child.type == "link_open":
                target = state.env["link"](str(child.attrs["href"]))
                opened.append(target is None)
                child.attrSet("href", target or "")
                child.hidden = target is None
            elif child.type == "link_close":
                child.hidden = opened.pop()


def _slug(heading: str) -> str:
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
