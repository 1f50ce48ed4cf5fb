"""Docstrings for the site: examples as code blocks.

Without this, Markdown takes `>>>` for quotations.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n?(?:^[ ]*\S.*\n?)*)", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The docstring with its examples in code blocks."""

    def block(match: re.Match[str]) -> str:
        lines = match.group(0).rstrip("\n").split("\n")
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        return "\n".join([f"{indent}```pycon", *lines, f"{indent}```", ""])

    return _EXAMPLE.sub(block, text)
