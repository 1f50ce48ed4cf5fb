"""The program of Scenes: a question is itself a program of filter, relate, count, exists and query.

A question is about a set of things; each step of the question is an operation on the distribution
over such sets. No question reads an attribute twice, so `damp` is exact.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

import dolphin as dl
from dolphin_tasks.scenes.world import ATTRIBUTES

Question = tuple[tuple[str, ...], ...]
"""Steps: ("filter", "red"), ("relate", "left"), and last ("count",), ("exists",) or
("query", "shape")."""
Places = Sequence[tuple[int, int]]
"""Row and column of each thing, sorted by column, then row."""
Chosen = frozenset[int]
"""The numbers of things."""

ATTRIBUTE_OF = {value: name for name, values in ATTRIBUTES.items() for value in values}
RELATIONS: dict[str, Callable[[tuple[int, int], tuple[int, int]], bool]] = {
    "left": lambda a, b: a[1] < b[1],
    "right": lambda a, b: a[1] > b[1],
    "above": lambda a, b: a[0] < b[0],
    "below": lambda a, b: a[0] > b[0],
}
NOTHING = "nothing"


def answer(
    seen: Mapping[str, Sequence[dl.Distribution[str]]], places: Places, question: Question
) -> dl.Distribution[Any]:
    """The answer to ONE question about ONE scene.

    Args:
        seen: for "shape", "colour" and "size", a distribution for each thing.

    >>> sure = dl.Distribution.certain
    >>> seen = {"colour": [sure("red"), sure("blue"), sure("red")]}
    >>> places = [(0, 0), (3, 1), (1, 2)]
    >>> steps = ("filter", "blue"), ("relate", "right"), ("count",)
    >>> answer(seen, places, steps).argmax()
    [1]
    """
    chosen: dl.Distribution[Chosen] = dl.Distribution.certain(frozenset(range(len(places))))
    for kind, word in question[:-1]:
        if kind == "relate":
            chosen = chosen.map(_related(word, tuple(places)))
        else:
            for number, attribute in enumerate(seen[ATTRIBUTE_OF[word]]):
                chosen = dl.apply(chosen, attribute, _kept(number, word))
    kind, *asked = question[-1]
    if kind == "query":
        for number, attribute in enumerate(seen[asked[0]]):
            chosen = dl.apply(chosen, attribute, _told(number))
        return chosen.map(_first)
    return chosen.map(len if kind == "count" else _any)


def _any(chosen: Chosen) -> str:
    return "yes" if chosen else "no"


def _first(chosen: Any) -> str:
    """What was told of the first of the chosen things."""
    return chosen if isinstance(chosen, str) else NOTHING


@functools.cache
def _kept(number: int, word: str) -> Callable[[Chosen, str], Chosen]:
    """Without this thing unless it is as the word says."""
    return lambda chosen, value: chosen if value == word else chosen - {number}


@functools.cache
def _told(number: int) -> Callable[[Any, str], Any]:
    """The attribute of this thing instead of the set, if it is the first one in it."""

    def told(chosen: Any, value: str) -> Any:
        first = not isinstance(chosen, str) and bool(chosen) and min(chosen) == number
        return value if first else chosen

    return told


@functools.lru_cache(maxsize=10_000)
def _related(word: str, places: tuple[tuple[int, int], ...]) -> Callable[[Chosen], Chosen]:
    """The things that are left of (or right of, above, below) one of the set."""
    holds = RELATIONS[word]
    beside = [
        frozenset(a for a, here in enumerate(places) if holds(here, there)) for there in places
    ]
    return dl.pure(lambda chosen: frozenset().union(*(beside[b] for b in chosen)))


def answer_from_scores(scores: Tensor, places: Places, question: Question) -> dl.Distribution[Any]:
    """The same from scores (things, 9): for each thing those of its shape, colour and size."""
    parts = scores[: len(places)].split([len(values) for values in ATTRIBUTES.values()], dim=1)
    wanted = {ATTRIBUTE_OF.get(step[-1], step[-1]) for step in question}
    return answer(
        {
            name: [dl.Distribution.from_logits(row, values) for row in part.unbind(0)]
            for (name, values), part in zip(ATTRIBUTES.items(), parts, strict=True)
            if name in wanted
        },
        places,
        question,
    )


answers = dl.batched(answer_from_scores)
"""The same for a batch of scenes, each with a question of its own."""


def make_question(rng: np.random.Generator) -> Question:
    """One or two filters, a relation between them, and what is asked; no attribute twice."""
    names = [str(name) for name in rng.permutation(list(ATTRIBUTES))]
    steps: list[tuple[str, ...]] = [("filter", _value(names.pop(), rng))]
    shape = rng.integers(3)
    if shape > 0:
        steps.append(("relate", str(rng.choice(list(RELATIONS)))))
    if shape > 1:
        steps.append(("filter", _value(names.pop(), rng)))
    kind = str(rng.choice(["count", "exists", "query"]))
    return (*steps, (kind, names.pop()) if kind == "query" else (kind,))


def _value(name: str, rng: np.random.Generator) -> str:
    return str(rng.choice(ATTRIBUTES[name]))
