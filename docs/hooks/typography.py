"""No line break inside of a number and its unit: "95.3 %" stays together, in tables, too."""

from __future__ import annotations

import re
from typing import Any

_CODE = re.compile(r"(<(pre|code)\b.*?</\2>)", re.DOTALL)
_UNIT = re.compile(r"(?<=\d) (?=%|(?:ms|MB|kB|GB|s)\b)")


def on_page_content(html: str, **_: Any) -> str:
    """Called with the content of every page."""
    return "".join(
        part if part.startswith(("<pre", "<code")) else _UNIT.sub("\u00a0", part)
        for part in _parts(html)
    )


def _parts(html: str) -> list[str]:
    """Text and code, alternately."""
    parts, end = [], 0
    for code in _CODE.finditer(html):
        parts += [html[end : code.start()], code[1]]
        end = code.end()
    return [*parts, html[end:]]
