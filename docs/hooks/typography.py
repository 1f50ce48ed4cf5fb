"""Where lines may break: not inside of "95.3 %" or `--option`. Code keeps its text as it is."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

_CODE = re.compile(r"(<(pre|code)\b.*?</\2>)", re.DOTALL)
_INLINE = re.compile(r"<code>([^<\n]+)</code>")
_OPTION = re.compile(r"(?<!\S)--\S+")
_SHORT, _LONG = 28, 60  # characters: what fits a phone, and what is too much for a table
_UNIT = re.compile(r"(?<=\d) (?=%|(?:ms|MB|kB|GB|s)\b)")


def on_page_content(html: str, **_: Any) -> str:
    """Called with the content of every page."""
    return "".join(map(_changed, _parts(html)))


def _changed(part: str) -> str:
    """A text, a block of code, or a piece of code in a text."""
    if part.startswith("<pre"):
        return part
    if part.startswith("<code"):
        return _INLINE.sub(_sized, part)
    return _UNIT.sub("\u00a0", part)


def _sized(code: re.Match[str]) -> str:
    """Code with a class by its length, for the style sheet."""
    length = len(unescape(code[1]))
    size = "short" if length <= _SHORT else "long" if length > _LONG else ""
    text = _OPTION.sub(r"<span>\g<0></span>", code[1]) if size == "long" else code[1]
    return f'<code class="{size}">{text}</code>' if size else code[0]


def _parts(html: str) -> list[str]:
    """Text and code, alternately."""
    parts, end = [], 0
    for code in _CODE.finditer(html):
        parts += [html[end : code.start()], code[1]]
        end = code.end()
    return [*parts, html[end:]]
