"""Docstrings for the site: examples as code blocks, and none of modules.

Without this, Markdown takes `>>>` for quotations, and each list of names on the page starts with
the docstring of the module that they are imported from.
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
        if obj.is_module:
            obj.docstring = None
        elif obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The docstring with its examples in code blocks."""

    def block(match: re.Match[str]) -> str:
        lines = match.group(0).rstrip("\n").split("\n")
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        return "\n".join([f"{indent}```pycon", *lines, f"{indent}```", ""])

    return _EXAMPLE.sub(block, text)
