"""The order in which compilers test exclusive groups. It decides how large diagrams become.

Two rules. A program that adds one input after the other has the last one on top, and testing that
one first makes compiling linear: inputs near the top of the formulas come first. An input of many
groups, such as the edges of a graph, is ordered within: groups that occur together are adjacent, so
that at any point of the order few of the earlier tests still matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from dolphin.provenance.exact.formulas import FACT, NOT, FormulaTable

Groups = tuple[
    tuple[tuple[int, ...], ...], ...
]  # of each input, the columns that exclude each other
Group = tuple[int, tuple[int, ...]]  # an input, and columns of it that exclude each other
Order = tuple[Group, ...]

WIDEST = 32  # facts of a formula that has more than these hardly belong together
MANY = 256  # groups of an input from which on those that don't occur are left out
CHOICES = 3  # orders that are tried
MOST = 5000  # with more meetings than this, every group is a neighbour of every other


def order_of_groups(table: FormulaTable, roots: Sequence[int], groups: Groups) -> Order:
    """All groups of all inputs, each once; of inputs of many groups, those that occur."""
    return orders_of_groups(table, roots, groups)[0]


def orders_of_groups(table: FormulaTable, roots: Sequence[int], groups: Groups) -> list[Order]:
    """Several such orders, the most promising one first."""
    groups = _that_occur(table, roots, groups)
    depth = _depth_of_inputs(table, roots, len(groups))
    inputs = sorted(range(len(groups)), key=lambda position: (depth[position], position))
    orders: list[list[Group]] = [[] for _ in range(CHOICES)]
    for scattered, together in itertools.groupby(inputs, lambda each: len(groups[each]) > 1):
        some = [(position, columns) for position in together for columns in groups[position]]
        parts = [some] * CHOICES
        if scattered:
            parts = _neighbours_together(some, _meetings(table, roots, some))
        for order, part in zip(orders, parts, strict=True):
            order.extend(part)
    return list(dict.fromkeys(map(tuple, orders)))


def _that_occur(table: FormulaTable, roots: Sequence[int], groups: Groups) -> Groups:
    """The same groups; of inputs of many groups, such as a knowledge base, those that occur."""
    if all(len(each) <= MANY for each in groups):
        return groups
    facts = {table.parts[f] for f in table.reachable(roots) if table.kinds[f] == FACT}
    return tuple(
        each
        if len(each) <= MANY
        else tuple(group for group in each if any((position, c) in facts for c in group))
        for position, each in enumerate(groups)
    )


def _depth_of_inputs(table: FormulaTable, roots: Sequence[int], inputs: int) -> list[int]:
    """How far below the roots the deepest fact of each input is."""
    depth: dict[int, int] = dict.fromkeys(roots, 0)
    deepest = [0] * inputs
    for formula in reversed(table.reachable(roots)):
        here = depth[formula]
        if table.kinds[formula] == FACT:
            position = table.parts[formula][0]
            deepest[position] = max(deepest[position], here)
        elif table.kinds[formula] >= NOT:
            for part in table.parts[formula]:
                depth[part] = max(depth.get(part, 0), here + 1)
    return deepest


def _meetings(
    table: FormulaTable, roots: Sequence[int], groups: Sequence[Group]
) -> list[tuple[Group, ...]]:
    """Groups that occur directly below the same formula, or, if that is only one, near it."""
    group_of = {(group[0], column): group for group in groups for column in group[1]}
    direct: dict[int, set[Group]] = {}  # of facts that a formula is, or has as its own parts
    near: dict[int, set[Group]] = {}  # of facts not far below
    met: dict[frozenset[Group], None] = {}
    for formula in table.reachable(roots):
        kind, parts = table.kinds[formula], table.parts[formula]
        if kind == FACT:
            group = group_of.get((parts[0], parts[1]))
            near[formula] = direct[formula] = {group} if group else set()
        elif kind >= NOT:
            facts = [direct[part] for part in parts if table.kinds[part] == FACT]
            direct[formula] = set().union(*facts)
            below = set().union(*(direct[part] for part in parts))
            if len(below) < 2:
                below = below.union(*(near[part] for part in parts))
            near[formula] = below if len(below) <= WIDEST else set()
            if len(near[formula]) >= 2:
                met[frozenset(below)] = None
    return [tuple(sorted(each)) for each in met]


def _neighbours_together(
    groups: Sequence[Group], meetings: Sequence[Sequence[Group]]
) -> list[Sequence[Group]]:
    """Orders in which few meetings are open at any time, the best one first.

    No rule always finds the best order, so there are a few.

    >>> a, b, c, d = ((0, (column,)) for column in range(4))
    >>> _neighbours_together([a, b, c, d], [(a, d), (d, b), (b, c)])[0] == [c, b, d, a]
    True
    """
    if len(meetings) > MOST:
        return [groups] * CHOICES
    walk = _Walk(groups, meetings)
    orders = (groups, walk.order(oldest_first=True), walk.order(oldest_first=False))
    return sorted(orders, key=walk.width)


class _Walk:
    """Ways through groups from neighbour to neighbour."""

    def __init__(self, groups: Sequence[Group], meetings: Sequence[Sequence[Group]]) -> None:
        self.meetings = meetings
        self.meetings_of: dict[Group, list[int]] = {group: [] for group in groups}
        for number, meeting in enumerate(meetings):
            for group in meeting:
                self.meetings_of[group].append(number)

    def order(self, oldest_first: bool) -> list[Group]:
        """All groups: those of the oldest open meeting first, or those that leave few open."""
        left = dict.fromkeys(self.meetings_of)
        missing = [len(meeting) for meeting in self.meetings]  # how many groups are still to come
        begun: dict[int, int] = {}  # open meetings → when they began
        order: list[Group] = []

        def cost(group: Group) -> tuple[int, int]:
            mine = self.meetings_of[group]
            since = min(begun[number] for number in mine if number in begun)
            opened = sum(number not in begun for number in mine)
            closed = sum(missing[number] == 1 for number in mine)
            return (since, opened - closed) if oldest_first else (opened - closed, since)

        while left:
            waiting = {g: None for number in begun for g in self.meetings[number] if g in left}
            group = min(waiting, key=cost) if waiting else self._border(next(iter(left)))
            for number in self.meetings_of[group]:
                begun.setdefault(number, len(order))
                missing[number] -= 1
                if not missing[number]:
                    del begun[number]
            del left[group]
            order.append(group)
        return order

    def _border(self, group: Group) -> Group:
        """One of those that are furthest from a group."""
        seen, reached = {group}, [group]
        for group in reached:  # grows during the loop
            for number in self.meetings_of[group]:
                new = [each for each in self.meetings[number] if each not in seen]
                seen.update(new)
                reached += new
        return reached[-1]

    def width(self, order: Sequence[Group]) -> float:
        """A measure of diagrams in this order: a level doubles with every meeting that is open."""
        place = {group: number for number, group in enumerate(order)}
        changes = [0] * (len(order) + 1)
        for meeting in self.meetings:
            places = [place[group] for group in meeting]
            changes[min(places)] += 1
            changes[max(places)] -= 1
        return sum(2.0 ** min(many, 1000) for many in itertools.accumulate(changes))
