"""Layered graphs as SVG, without any dependency: boxes of text with lines between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_LETTER, _LINE = 6.6, 15.0  # width and height of text in pixels, for a font of 11
_GAP, _LAYER_GAP, _MARGIN = 18.0, 34.0, 10.0


@dataclass(frozen=True)
class Box:
    """A box of a graph: its lines of text, its source boxes, how warm its colour is (0 to 1)."""

    lines: tuple[str, ...]
    sources: tuple[int, ...]
    warmth: float = 0.0

    @property
    def width(self) -> float:
        """In pixels, as wide as its longest line."""
        return _LETTER * max(len(line) for line in self.lines) + 16

    @property
    def height(self) -> float:
        """In pixels."""
        return _LINE * len(self.lines) + 10


def layers_of(boxes: Sequence[Box]) -> list[int]:
    """The layer of each box: one below the lowest of its sources; inputs just above their use.

    >>> layers_of([Box(("a",), ()), Box(("b",), ()), Box(("c",), (0,)), Box(("d",), (1, 2))])
    [0, 1, 1, 2]
    """
    layers: list[int] = []
    for box in boxes:
        layers.append(1 + max((layers[source] for source in box.sources), default=-1))
    uses = [[t for t, other in enumerate(boxes) if n in other.sources] for n in range(len(boxes))]
    return [
        layer if box.sources or not used else min(layers[target] for target in used) - 1
        for box, layer, used in zip(boxes, layers, uses, strict=True)
    ]


def _orders(boxes: Sequence[Box], layers: Sequence[int]) -> list[list[int]]:
    """The boxes of each layer from left to right, near their sources and targets."""
    rows: list[list[int]] = [[] for _ in range(1 + max(layers))]
    for number, layer in enumerate(layers):
        rows[layer].append(number)
    targets: list[list[int]] = [[] for _ in boxes]
    for number, box in enumerate(boxes):
        for source in box.sources:
            targets[source].append(number)
    place = {number: float(at) for row in rows for at, number in enumerate(row)}
    for _ in range(4):
        for row in [*rows, *reversed(rows)]:
            near = {n: [place[m] for m in (*boxes[n].sources, *targets[n])] for n in row}
            row.sort(key=lambda n: sum(near[n]) / len(near[n]) if near[n] else place[n])
            place.update({number: at - len(row) / 2 for at, number in enumerate(row)})
    return rows


def to_svg(boxes: Sequence[Box], title: str) -> str:
    """The graph from top to bottom. Text takes the colour of the page around it."""
    if not boxes:
        return ""
    rows = _orders(boxes, layers_of(boxes))
    widths = [sum(boxes[n].width for n in row) + _GAP * (len(row) - 1) for row in rows]
    whole = max(widths)
    corner: dict[int, tuple[float, float]] = {}
    y = _MARGIN
    for row, width in zip(rows, widths, strict=True):
        x = _MARGIN + (whole - width) / 2
        for number in row:
            corner[number] = x, y
            x += boxes[number].width + _GAP
        y += max(boxes[number].height for number in row) + _LAYER_GAP
    size = f"{whole + 2 * _MARGIN:.0f} {y - _LAYER_GAP + _MARGIN:.0f}"
    width, height = size.split()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{width}" '
        f'height="{height}" font-family="ui-monospace, monospace" font-size="11" '
        f'style="max-width:100%;height:auto" role="img"><title>{escape(title)}</title>'
    ]
    for number, box in enumerate(boxes):
        parts += [_edge(boxes, corner, source, number) for source in box.sources]
    parts += [_drawn(box, *corner[number]) for number, box in enumerate(boxes)]
    return "\n".join([*parts, "</svg>"])


def _edge(
    boxes: Sequence[Box], corner: dict[int, tuple[float, float]], source: int, target: int
) -> str:
    x1 = corner[source][0] + boxes[source].width / 2
    y1 = corner[source][1] + boxes[source].height
    x2, y2 = corner[target][0] + boxes[target].width / 2, corner[target][1]
    middle = (y1 + y2) / 2
    return (
        f'<path d="M{x1:.0f},{y1:.0f} C{x1:.0f},{middle:.0f} {x2:.0f},{middle:.0f} '
        f'{x2:.0f},{y2:.0f}" fill="none" stroke="#7986cb" stroke-width="1.3"/>'
    )


def _drawn(box: Box, x: float, y: float) -> str:
    colour = "#e8590c" if box.warmth else "#7986cb"
    opacity = 0.12 + 0.5 * box.warmth
    texts = [
        f'<text x="{x + box.width / 2:.0f}" y="{y + 16 + _LINE * at:.0f}" text-anchor="middle" '
        f'fill="currentColor"{weight}>{escape(line)}</text>'
        for at, line in enumerate(box.lines)
        for weight in [' font-weight="bold"' if at == 0 else ""]
    ]
    frame = (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="4" '
        f'fill="{colour}" fill-opacity="{opacity:.2f}" stroke="{colour}"/>'
    )
    return "\n".join([frame, *texts])
