"""Pictures of stories: the people, what was read about them, and what follows."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dolphin_tasks.clutrr.data import ASKED, ASKER, Story
from dolphin_tasks.clutrr.kinship import UNKNOWN, Fact
from dolphin_tasks.pictures import FRAME, INK, RIGHT, WRONG, save

BLUE = "#0969da"
LINE = 105
"""Characters of a line of the story."""
WIDTH = 9.0
"""Inches of the picture, and units of its axes."""
NAME, NOTE = 11, 9
"""Points of the letters of names, and of what was read."""


@dataclass(frozen=True)
class Seen:
    """A story, the answer, and the facts that it rests on with their probabilities."""

    story: Story
    answer: str
    probability: float
    facts: Mapping[Fact, float]


def draw(seen: Sequence[Seen], path: Path) -> None:
    """Draw stories one under the other. The folder of `path` is created."""
    from matplotlib.figure import Figure

    texts = [textwrap.wrap(one.story.told.text, LINE) for one in seen]
    heights = [2.15 + 0.24 * len(lines) for lines in texts]
    figure = Figure(figsize=(WIDTH, sum(heights)), dpi=150, facecolor="white")
    panels = figure.subplots(len(seen), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, one, lines, height in zip(panels, seen, texts, heights, strict=True):
        _draw_story(axes, one, lines, height)
    figure.subplots_adjust(left=0.01, right=0.99, top=0.995, bottom=0.005, hspace=0.03)
    save(figure, path)


def _draw_story(axes: Any, seen: Seen, lines: list[str], height: float) -> None:
    """The text above; below it the people on the way to the answer from left to right."""
    axes.set(xlim=(0, WIDTH), ylim=(0, height))
    axes.axis("off")
    axes.plot([0.1, 8.9], [0.02, 0.02], color=FRAME, lw=0.8)
    axes.text(
        0.15, height - 0.12, "\n".join(lines), fontsize=10.5, va="top", color=INK, linespacing=1.4
    )
    way = on_the_way(seen.facts)
    others = [p for p in range(len(seen.story.people)) if p not in way]
    step = 7.6 / max(1, len(way) - 1)
    places = {person: (0.7 + step * n, 1.1) for n, person in enumerate(way)}
    for person, (x, y) in places.items():
        _name(axes, seen.story.people[person], x, y, bold=person in (ASKER, ASKED))
    for fact, probability in seen.facts.items():
        (x, y), (end, _) = places[fact.whose], places[fact.who]
        way_there = 1 if end > x else -1
        start = x + way_there * _half_width(seen.story.people[fact.whose])
        stop = end - way_there * _half_width(seen.story.people[fact.who])
        bend = 0.0 if abs(end - x) <= step * 1.01 else 0.25
        _arrow(axes, (start, y), (stop, y), BLUE, bend=bend)
        label = f"{fact.relation}\n{probability:.2f}"
        crowded = step < 2 * _half_width("mother-in-law", NOTE) and way.index(fact.whose) % 2 == 1
        below = y - (0.52 if crowded else 0.16)
        axes.text((x + end) / 2, below, label, fontsize=NOTE, ha="center", va="top", color=BLUE)
    if others:
        names = ", ".join(seen.story.people[person] for person in others)
        axes.text(0.15, 0.1, f"not needed: {names}", fontsize=NOTE, color="#57606a", ha="left")
    _draw_answer(axes, seen, places)


def _draw_answer(axes: Any, seen: Seen, places: dict[int, tuple[float, float]]) -> None:
    """The relation of the two people, bent over the way to it."""
    told = seen.story.told
    judged = told.answer != UNKNOWN
    colour = INK if not judged else RIGHT if seen.answer == told.answer else WRONG
    (x, y), (end, _) = places[ASKER], places[ASKED]
    _arrow(axes, (x, y + 0.2), (end, y + 0.2), colour, bend=-0.09, dashed=True)
    note = "" if not judged or seen.answer == told.answer else f" (it is {told.answer})"
    sure = f"  {seen.probability:.2f}" if seen.facts else ""
    axes.text(
        (x + end) / 2,
        y + 0.64,
        f"{seen.answer}{sure}{note}",
        fontsize=13,
        ha="center",
        color=colour,
    )


def on_the_way(facts: Mapping[Fact, float]) -> list[int]:
    """The people from the asker to the asked, as the facts lead from one to the next.

    >>> on_the_way({Fact(3, "son", 1): 0.9, Fact(0, "wife", 3): 0.8})
    [0, 3, 1]
    """
    way, left = [ASKER], list(facts)
    while left:
        following = next((fact for fact in left if fact.whose == way[-1]), left[0])
        left.remove(following)
        way += [person for person in (following.whose, following.who) if person not in way]
    others = [person for person in way if person not in (ASKER, ASKED)]
    return [ASKER, *others, ASKED]


def _half_width(text: str, size: int = NAME) -> float:
    """From the middle of a name to just outside the frame around it, in inches."""
    from matplotlib.textpath import TextPath

    # bold letters are a little wider
    return (0.6 * float(TextPath((0, 0), text, size=size).get_extents().width) + 5) / 72


def _name(axes: Any, name: str, x: float, y: float, *, bold: bool) -> None:
    axes.text(
        x, y, name, fontsize=NAME, ha="center", va="center", color=INK, zorder=3,
        weight="bold" if bold else "normal",
        bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": INK, "lw": 0.8},
    )  # fmt: skip


def _arrow(
    axes: Any,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    *,
    bend: float = 0.0,
    dashed: bool = False,
) -> None:
    axes.annotate(
        "", end, start,
        arrowprops={
            "arrowstyle": "->", "color": colour, "lw": 1.2, "shrinkA": 0, "shrinkB": 0,
            "linestyle": "--" if dashed else "-", "connectionstyle": f"arc3,rad={bend}",
        },
    )  # fmt: skip
