"""Checks that an SVG is only a picture, because an SVG can also contain programs and fetch from other places."""

from __future__ import annotations

import re
import xml.parsers.expat
from typing import Any

_SVG = "http://www.w3.org/2000/svg"
_NAMESPACES = {
    _SVG,
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://creativecommons.org/ns#",
    "http://purl.org/dc/elements/1.1/",
}
"""Namespaces of pictures and of their metadata."""
_ACTIVE = re.compile(r"script|foreignobject|iframe|embed|object|audio|video|handler|listener|animate\w*|set", re.I)
_FETCHED = re.compile(r"url\((?!\s*['\"]?#)", re.I)
_ELSEWHERE = re.compile(_FETCHED.pattern + r"|image-set|expression\(|@|\\", re.I)
"""What a style must not contain: anything fetched or computed, and escapes that could hide it."""
_DOCTYPE = "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd"


def check_svg(content: bytes) -> None:
    """Raises a `ValueError` for an SVG with anything but shapes. The error names what was found.

    Refused are scripts, event handlers, animations, `javascript:`, references to anything outside, foreign elements and
    entities. The figures of matplotlib have none of these. The file is parsed as XML, as browsers do, because another
    encoding could deceive a search of its text.
    """
    parser = xml.parsers.expat.ParserCreate(namespace_separator=" ")
    within: list[str] = []

    def start(element: str, attributes: dict[str, str]) -> None:
        namespace, _, name = element.rpartition(" ")
        within.append(name)
        if namespace not in _NAMESPACES or _ACTIVE.fullmatch(name):
            raise ValueError(f"it has the element <{name}>")
        for attribute, value in attributes.items():
            _check_attribute(attribute.rpartition(" ")[2], value)

    def end(_: str) -> None:
        within.pop()

    def text(data: str) -> None:
        if within and within[-1] == "style" and _ELSEWHERE.search(data):
            raise ValueError("its style refers to something outside")

    def instruct(target: str, _: str) -> None:
        raise ValueError(f"it has the instruction <?{target}?>")

    def declare(_: str, system: str | None, __: str | None, subset: Any) -> None:
        if subset or system not in (None, _DOCTYPE):
            raise ValueError("it declares entities or a document type of its own")

    parser.buffer_text = True  # a style arrives in one piece
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.ProcessingInstructionHandler = text, instruct
    parser.StartDoctypeDeclHandler = declare
    try:
        parser.Parse(content, True)
    except xml.parsers.expat.ExpatError as error:
        raise ValueError(f"it is not XML: {error}") from None


def _check_attribute(name: str, value: str) -> None:
    squeezed = re.sub(r"\s", "", value).lower()
    refers = name in ("href", "src", "base") and not squeezed.startswith(("#", "data:image/png;base64,"))
    fetches = (_ELSEWHERE if name == "style" else _FETCHED).search(squeezed)
    if name.lower().startswith("on") or "javascript:" in squeezed or refers or fetches:
        raise ValueError(f"it has the attribute {name}={value[:40]!r}")
