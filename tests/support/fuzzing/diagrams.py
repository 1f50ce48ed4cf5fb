"""Decision diagrams over choices: what a program says of all possible worlds, in canonical form.

A variable is a *group*: the facts of an input that exclude each other in one row, of which one
holds or none. Two formulas are equivalent if and only if they are the same diagram.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fuzzing.jets import Jet, total

FALSE, TRUE = 0, 1


@dataclass(frozen=True, eq=False)
class Group:
    """Facts of which at most one holds, with their probabilities.

    `loose`: those whose probability is 0 only up to rounding.
    """

    number: int
    probs: tuple[Jet, ...]
    loose: frozenset[int] = frozenset()

    @property
    def none(self) -> int:
        """The choice in which no fact of the group holds."""
        return len(self.probs)

    def probability(self, choice: int) -> Jet:
        return 1.0 - total(self.probs) if choice == self.none else self.probs[choice]

    def rounds(self, choice: int) -> bool:
        """Whether a probability of 0 may be rounded: what is left of several facts, for example."""
        return choice in self.loose or choice == self.none > 1


class Diagrams:
    def __init__(self) -> None:
        self._nodes: list[tuple[Group | None, tuple[int, ...]]] = [(None, ()), (None, ())]
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}
        self._memo: dict[tuple[str, int, int], int] = {}

    def fact(self, group: Group, choice: int) -> int:
        return self._node(group, tuple(int(c == choice) for c in range(group.none + 1)))

    def _node(self, group: Group, branches: tuple[int, ...]) -> int:
        if all(branch == branches[0] for branch in branches):
            return branches[0]
        key = group.number, branches
        if key not in self._known:
            self._known[key] = len(self._nodes)
            self._nodes.append((group, branches))
        return self._known[key]

    def either(self, a: int, b: int) -> int:
        if TRUE in (a, b):
            return TRUE
        return self._both_ways("or", a, b, FALSE, self.either)

    def both(self, a: int, b: int) -> int:
        if FALSE in (a, b):
            return FALSE
        return self._both_ways("and", a, b, TRUE, self.both)

    def _both_ways(self, name: str, a: int, b: int, neutral: int, again: Callable) -> int:
        if a == b or b == neutral:
            return a
        if a == neutral:
            return b
        key = name, min(a, b), max(a, b)
        if key not in self._memo:
            (one, ones), (other, others) = self._nodes[a], self._nodes[b]
            assert one is not None
            assert other is not None
            first = one if one.number <= other.number else other
            choices = range(first.none + 1)
            left = ones if one is first else (a,) * len(choices)
            right = others if other is first else (b,) * len(choices)
            branches = tuple(again(left[c], right[c]) for c in choices)
            self._memo[key] = self._node(first, branches)
        return self._memo[key]

    def negation(self, a: int) -> int:
        if a in (FALSE, TRUE):
            return 1 - a
        key = "not", a, a
        if key not in self._memo:
            group, branches = self._nodes[a]
            assert group is not None
            self._memo[key] = self._node(group, tuple(map(self.negation, branches)))
        return self._memo[key]

    def probability(self, a: int, rounding: float = 0.0) -> Jet:
        """The weight of all worlds in which the formula holds.

        `rounding` is added to what may be rounded.
        """
        memo: dict[int, Jet] = {FALSE: Jet(0.0), TRUE: Jet(1.0)}

        def weigh(node: int) -> Jet:
            if node not in memo:
                group, branches = self._nodes[node]
                assert group is not None
                memo[node] = total(
                    (group.probability(c) + rounding * group.rounds(c)) * weigh(branch)
                    for c, branch in enumerate(branches)
                    if branch != FALSE
                )
            return memo[node]

        return weigh(a)
