"""The programs of all tasks whose rows share their symbols, in full size and small.

Rows of AddN, HWF, words and Sudoku 9×9 have symbols of their own: these can't be traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

import dolphin as dl
from dolphin_tasks.clutrr.kinship import RELATIONS, Fact
from dolphin_tasks.clutrr.program import relation_asked_for
from dolphin_tasks.member.program import member
from dolphin_tasks.mugen.program import ACTIONS, watch
from dolphin_tasks.pathfinder.program import both_ways, connected
from dolphin_tasks.pathfinder.task import PathfinderConfig, PathfinderTask
from dolphin_tasks.product_n.program import multiply
from dolphin_tasks.scenes.program import answer
from dolphin_tasks.scenes.world import ATTRIBUTES
from dolphin_tasks.sudoku.program import valid
from dolphin_tasks.sum_n.program import add_up
from dolphin_tasks.terrain.program import grid, reached

PROVENANCES = ("damp", "viterbi", "noisy-or", "dtkp-am", "exact")


class Shared(NamedTuple):
    """A task's program, and the symbols of its inputs."""

    program: Callable[..., dl.Distribution[Any]]
    symbols: Sequence[Sequence[Any]]
    exclusive: Any = True
    likely: Sequence[Any] | None = None  # a symbol of each input that is likelier than the others
    power: int = 1  # above 1, few independent facts are likely and most are not

    def numbers(self, rows: int) -> tuple[Tensor, ...]:
        """Probabilities for every input, not the same for any two symbols.

        Results of all sizes follow from them: where all were 0 or 1, nothing would be compared.
        """
        generator = torch.Generator().manual_seed(rows)
        each = [torch.rand(rows, len(own), generator=generator) for own in self.symbols]
        if self.exclusive is False:
            return tuple(numbers**self.power for numbers in each)
        if self.likely is not None:
            for scores, own, symbol in zip(each, self.symbols, self.likely, strict=True):
                scores[:, list(own).index(symbol)] += 1.0
        if self.exclusive is True:
            return tuple((3 * scores).softmax(1) for scores in each)
        return tuple(
            torch.cat([(3 * scores[:, group]).softmax(1) for group in self.exclusive], 1)
            for scores in each
        )

    def run(self, numbers: Sequence[Tensor], provenance: Any) -> dl.Distribution[Any]:
        """The program itself, on distributions."""
        given = [
            dl.Distribution(probs, own, exclusive=self.exclusive, provenance=provenance)
            for probs, own in zip(numbers, self.symbols, strict=True)
        ]
        return self.program(*given)

    def trace(self, provenance: Any) -> dl.Traced:
        return dl.trace(
            self.program, *self.symbols, exclusive=self.exclusive, provenance=provenance
        )


def _sum(*digits: dl.Distribution) -> dl.Distribution:
    return add_up(digits)


def _product(*digits: dl.Distribution) -> dl.Distribution:
    return multiply(digits)


def _member(asked: dl.Distribution, *digits: dl.Distribution) -> dl.Distribution:
    """The digit that is asked for is one more input here: a row of zeros and a one."""
    return member(digits, asked)


def _mugen(*pairs: dl.Distribution) -> dl.Distribution:
    return watch(pairs, [("walk", "jump"), ("walk", "collect", "walk"), ("jump", "kill", "die")])


def _scenes(*colours: dl.Distribution) -> dl.Distribution:
    """One question about a scene: how many things are left of a red one."""
    places = [(0, 0), (3, 1), (1, 2), (2, 3)][: len(colours)]
    question = ("filter", "red"), ("relate", "left"), ("count",)
    return answer({"colour": colours}, places, question)


def _sudoku(*cells: dl.Distribution) -> dl.Distribution:
    return valid(cells)


def _kinship(people: int, links: int) -> Shared:
    pairs = [(a, b) for a in range(people) for b in range(people) if a != b]
    facts = [Fact(a, relation, b) for a, b in pairs for relation in RELATIONS]
    size = len(RELATIONS)
    groups = [list(range(size * place, size * (place + 1))) for place in range(len(pairs))]
    return Shared(lambda told: relation_asked_for(told, links), [facts], groups)


def _paths(power: int = 1, **options: Any) -> Shared:
    task = PathfinderTask(PathfinderConfig(**options))

    def joined(ends: dl.Distribution, edges: dl.Distribution) -> dl.Distribution:
        if task.directed:
            return connected(ends, edges, task.steps)
        return connected(ends, both_ways(edges), task.steps, symmetric=True)

    return Shared(joined, [task.nodes, task.edges], False, power=power)


_BOARD = (1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1)
_MOVES = ("walk", "walk", "collect", "collect", "walk", "walk")

FULL: dict[str, Callable[[], Shared]] = {
    "sum, 5 digits": lambda: Shared(_sum, [range(10)] * 5),
    "half, even-odd": lambda: Shared(_sum, [range(10)] * 2),
    "product, 4 digits": lambda: Shared(_product, [range(10)] * 4),
    "member, 3 digits": lambda: Shared(_member, [range(10)] * 4),
    "mugen, 6 pairs of frames": lambda: Shared(_mugen, [ACTIONS] * 6, likely=_MOVES),
    "scenes, one question": lambda: Shared(_scenes, [ATTRIBUTES["colour"]] * 4),
    "sudoku 4×4": lambda: Shared(_sudoku, [range(1, 5)] * 16, likely=_BOARD),
    "clutrr, 3 links": lambda: _kinship(4, 3),
    "pathfinder, 6×6 blocks": lambda: _paths(8, network="paper"),
    "pathfinder, 16×16 blocks": lambda: _paths(45),
    "terrain 12×12": lambda: Shared(reached, [grid(12)], False),
}

SMALL: dict[str, Callable[[], Shared]] = {
    "sum": lambda: Shared(_sum, [range(10)] * 3),
    "product": lambda: Shared(_product, [range(10)] * 3),
    "member": lambda: Shared(_member, [range(10)] * 3),
    "mugen": lambda: Shared(_mugen, [ACTIONS] * 3, likely=_MOVES[1:4]),
    "scenes": lambda: Shared(_scenes, [ATTRIBUTES["colour"]] * 3),
    "sudoku": lambda: Shared(_sudoku, [range(1, 5)] * 16, likely=_BOARD),
    "clutrr": lambda: _kinship(3, 2),
    "pathfinder, straight": lambda: _paths(2, network="paper", grid=2),
    "pathfinder": lambda: _paths(2, grid=2),
    "terrain": lambda: Shared(reached, [grid(3)], False),
}
