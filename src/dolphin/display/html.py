"""HTML for notebooks: bars, tables, trees. Plain strings, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_BAR = (
    "display:inline-block;height:0.7em;background:#5c6bc0;border-radius:2px;vertical-align:middle"
)
_CELL = "text-align:left;padding:1px 8px;border:none;background:none;white-space:nowrap"
_NUMBER = _CELL.replace("left", "right") + ";font-variant-numeric:tabular-nums"
_WIDTH = 8  # of a bar of probability 1, in em


def heading(text: str) -> str:
    """A line of text above or below the content."""
    return f'<div style="opacity:0.7;margin:2px 0">{escape(text)}</div>'


def bar(probability: float) -> str:
    """A bar whose length is a probability.

    >>> "width:4.00em" in bar(0.5)
    True
    """
    width = _WIDTH * min(max(probability, 0.0), 1.0)
    return f'<span style="{_BAR};width:{width:.2f}em;min-width:1px"></span>'


def bars(rows: Iterable[Sequence[tuple[str, float | None]]], title: str, more: str = "") -> str:
    """For each row its symbols, with a bar and a number where it is known; rows side by side."""
    tables = []
    for number, pairs in enumerate(rows):
        lines = [
            f'<tr style="background:none"><td style="{_CELL}">{escape(symbol)}</td>'
            f'<td style="{_CELL};min-width:{_WIDTH}em">{"" if p is None else bar(p)}</td>'
            f'<td style="{_NUMBER}">{"" if p is None else f"{p:.3g}"}</td></tr>'
            for symbol, p in pairs
        ]
        body = "".join(lines) or f'<tr><td style="{_CELL};opacity:0.7">no symbols</td></tr>'
        tables.append(
            f'<div style="margin-right:1.5em">{heading(f"row {number}")}'
            f'<table style="border:none;border-collapse:collapse">{body}</table></div>'
        )
    shown = f'<div style="display:flex;flex-wrap:wrap">{"".join(tables)}</div>'
    return f"<div>{heading(title)}{shown}{heading(more) if more else ''}</div>"


def table(
    head: Sequence[str], lines: Iterable[Sequence[str]], texts: int, *, wrap: bool = False
) -> str:
    """A table whose first columns (`texts` of them) are words and the others numbers."""
    words = _CELL.replace("nowrap", "normal;vertical-align:top") if wrap else _CELL

    def line(cells: Sequence[str], tag: str) -> str:
        styles = [words if column < texts else _NUMBER for column in range(len(cells))]
        inner = "".join(
            f'<{tag} style="{style}">{escape(cell)}</{tag}>'
            for cell, style in zip(cells, styles, strict=True)
        )
        return f"<tr>{inner}</tr>"

    body = "".join(line(cells, "td") for cells in lines)
    return f'<table style="border-collapse:collapse">{line(head, "th")}{body}</table>'


def notes(texts: Iterable[str]) -> str:
    """Lines below a table, as a list."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<ul style="margin:4px 0">{items}</ul>' if items else ""


Tree = tuple[str, Sequence["Tree"]]
"""A line, which is HTML already, and the trees below it."""


def tree(root: Tree) -> str:
    """A tree, drawn with lines down its left side.

    >>> tree(("a", [("b", [])])).count("<div")
    3
    """
    line = "border-left:2px solid #9fa8da;margin-left:0.6em;padding-left:0.8em"

    def below(node: Tree) -> str:
        text, branches = node
        inner = "".join(f'<div style="{line};margin-top:2px">{below(b)}</div>' for b in branches)
        return f"{text}{inner}"

    text, branches = root
    return f"<div><div>{text}</div>{below(('', branches))}</div>"
