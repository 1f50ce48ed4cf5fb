"""The symbolic stage of questions: which symbols they are about, and how answers are computed.

A question is about some symbols of a distribution, its *items*, in groups: those of a row, or those
of a row with the same key. Every item holds or fails. A `Fold` goes through the items of all groups
as a balanced tree: a node has one state for each value that its items can add up to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.calling import ABSENT, Watch, evaluate
from dolphin.symbolic.kinds import kind
from dolphin.symbolic.plans import Combinations, Domain, RowAddress, caches, check_size
from dolphin.symbolic.tables import SymbolTable

Function = Callable[[Any], Any]
Combine = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Items:
    """The symbols that a question is about, sorted by group; within one in the symbols' order."""

    table: SymbolTable
    symbols: np.ndarray  # (n,) numbers in the table
    places: np.ndarray  # (n,) of their tags among flattened tags
    groups_of: np.ndarray  # (n,)
    rows: int
    keys: tuple[Any, ...] | None  # of the groups of each row, where there are several

    @property
    def groups(self) -> int:
        """The number of groups, including empty ones."""
        return self.rows * (1 if self.keys is None else len(self.keys))

    @property
    def rows_of_groups(self) -> np.ndarray:
        return np.arange(self.groups) // max(1, self.groups // self.rows)

    def ordered(self, order: np.ndarray) -> Items:
        """The same items in another order, which keeps groups together."""
        chosen = (self.symbols[order], self.places[order], self.groups_of[order])
        return Items(self.table, *chosen, self.rows, self.keys)

    def values(self, operation: str, function: Function | None, cache: bool) -> list[Any]:
        """The value of a function for each item; the item itself if there is no function."""
        numbers = self.symbols
        if function is not None:
            numbers = _results(operation, function, None, self.table, numbers, cache)
        return [self.table.symbols[number] for number in numbers.tolist()]

    def labels(self, answers: Sequence[Any], groups_of: np.ndarray) -> np.ndarray:
        """The numbers of answers as symbols: themselves, or with the key of their group."""
        if self.keys is None:
            return self.table.numbers(answers)
        count = len(self.keys)
        keys = [self.keys[group % count] for group in groups_of.tolist()]
        return self.table.numbers(zip(keys, answers, strict=True))


def find_items(
    operation: str,
    domain: Domain,
    address: RowAddress | None,
    predicate: Function | None,
    by: Function | None,
    *,
    unless: bool = False,
    cache: bool = True,
) -> Items:
    """The symbols for which `predicate` is true (`unless`: false), grouped by row and key.

    Without an `address` all rows have the same symbols, and there is one row of items. Every row
    has a group for each key that any row has.
    """
    table = caches.current_table()
    numbers = domain.in_table(table)
    if address is None and predicate is None and by is None:  # all symbols, as they are
        count = numbers.shape[1]
        group = np.zeros(count, dtype=np.int64)
        return Items(table, numbers[0], np.arange(count), group, 1, None)
    row, place = np.nonzero(numbers != ABSENT)
    symbols = numbers[row, place]
    keys, key_of = None, np.zeros_like(row)
    if by is not None:
        named = _results(f"{operation}(by=...)", by, None, table, symbols, cache)
        _, first, inverse = np.unique(table.classes(named), return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
        key_of = rank[np.asarray(inverse).reshape(-1)]
        # As the function returns them: the table may have an equal one already, True for 1.
        keys = tuple(table.symbols[number] for number in named[np.sort(first)].tolist())
    group = row * (1 if keys is None else len(keys)) + key_of
    places = place if address is None else address.at(row, place)
    if predicate is not None:
        chosen = _results(operation, _itself, predicate, table, symbols, cache) != ABSENT
        chosen = ~chosen if unless else chosen
        symbols, places, group = symbols[chosen], places[chosen], group[chosen]
    items = Items(table, symbols, places, group, len(numbers), keys)
    return items if by is None else items.ordered(np.argsort(group, kind="stable"))


def _results(
    operation: str,
    function: Function,
    condition: Function | None,
    table: SymbolTable,
    symbols: np.ndarray,
    cache: bool,
) -> np.ndarray:
    """The numbers of a function's results; functions run once for each new symbol."""
    watch = Watch.of(operation, (function, condition), cache, table.changing(symbols))
    return evaluate(
        operation, function, condition, watch and watch.key, table, [symbols], distinct=False,
        watch=watch,
    )  # fmt: skip


def _itself(symbol: Any) -> Any:
    return symbol


# -- folds -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Level:
    """Pairs of states of one group that form a state of the next level; -1 stands for **1**."""

    left: np.ndarray
    right: np.ndarray
    out: np.ndarray
    states: int


@dataclass(frozen=True)
class _Tree:
    """How a group with certain values is folded, and the values of its last states."""

    levels: tuple[_Level, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Fold:
    """The steps of folding all groups at once, and the answers of their last states.

    The tags of the first level are `failing, holding` for each item, in the items' order (items
    that exclude each other: `all failing, first holding, second holding, ...`). Steps read their
    operands' tags with a **1** appended.
    """

    steps: tuple[Combinations, ...]
    answers: tuple[Any, ...]
    groups_of: np.ndarray

    @property
    def weight(self) -> int:
        return 1000 + sum(step.weight for step in self.steps)


_MAX_WEIGHT = 1_000_000
_known: BoundedCache[Hashable, Fold] = BoundedCache(_MAX_WEIGHT, lambda fold: fold.weight)


register("folds of questions", _known.__len__, _known.clear)


def fold_of(
    operation: str,
    items: Items,
    values: Sequence[Any],
    nothing: Any,
    combine: Combine,
    sizes: np.ndarray | None = None,
) -> Fold:
    """The fold of the items' values, `nothing` for items that fail, with an associative function.

    `sizes`: so many items that follow each other exclude each other; one each by default. It
    depends on these alone, so it is built once where all rows have the same symbols.
    """
    sizes = np.ones(len(items.symbols), dtype=np.int64) if sizes is None else sizes
    leaves = np.cumsum(sizes) - sizes
    counts = np.bincount(items.groups_of[leaves], minlength=items.groups)
    given = [
        tuple(values[at : at + n]) for at, n in zip(leaves.tolist(), sizes.tolist(), strict=True)
    ]
    if items.rows > 1:
        return _fold(operation, counts, given, nothing, combine)
    key = (operation, counts.tobytes(), tuple(map(kind, values)), tuple(given))
    return _known.get_or_make(key, lambda: _fold(operation, counts, given, nothing, combine))


def _fold(
    operation: str,
    counts: np.ndarray,
    values: Sequence[tuple[Any, ...]],
    nothing: Any,
    combine: Combine,
) -> Fold:
    ends = np.cumsum(counts)
    trees: dict[tuple[Any, ...], _Tree] = {}
    each, states = [], []
    for start, end in zip((ends - counts).tolist(), ends.tolist(), strict=True):
        shape = tuple(values[start:end])
        if shape not in trees:
            trees[shape] = _tree(operation, shape, nothing, combine)
        each.append(trees[shape])
        states.append(sum(map(len, shape)) + len(shape))
    answers = tuple(value for tree in each for value in tree.values)
    groups_of = np.repeat(np.arange(len(each)), [len(tree.values) for tree in each])
    first = np.array(states, dtype=np.int64)
    return Fold(tuple(_steps(each, first)), answers, groups_of)


def _tree(
    operation: str, shape: tuple[tuple[Any, ...], ...], nothing: Any, combine: Combine
) -> _Tree:
    """Neighbours are folded two by two, so that n items take log n steps."""
    if not shape:
        only = _Level(np.array([-1]), np.array([-1]), np.array([0]), 1)
        return _Tree((only,), (nothing,))
    nodes: list[tuple[Any, ...]] = [(nothing, *values) for values in shape]
    levels = []
    if any(len(dict.fromkeys(node)) < len(node) for node in nodes):  # an item that adds nothing
        nodes, level = _merged(nodes)
        levels.append(level)
    while len(nodes) > 1:
        nodes, level = _paired(operation, nodes, combine)
        levels.append(level)
    return _Tree(tuple(levels), nodes[0])


def _merged(nodes: Sequence[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], _Level]:
    """The nodes with equal states merged."""
    out, kept, states = [], [], 0
    for node in nodes:
        distinct = tuple(dict.fromkeys(node))
        out += [states + distinct.index(value) for value in node]
        kept.append(distinct)
        states += len(distinct)
    places = np.arange(len(out))
    return kept, _Level(places, np.full_like(places, -1), np.array(out), states)


def _paired(
    operation: str, nodes: Sequence[tuple[Any, ...]], combine: Combine
) -> tuple[list[tuple[Any, ...]], _Level]:
    sizes = [len(node) for node in nodes]
    pairs = sum(a * b for a, b in zip(sizes[::2], sizes[1::2], strict=False))
    check_size(operation, sizes[:2], pairs)
    starts = np.cumsum([0, *sizes])
    parents: list[tuple[Any, ...]] = []
    left, right, out, states = [], [], [], 0
    for number in range(0, len(nodes) - 1, 2):
        first, second = nodes[number], nodes[number + 1]
        place: dict[Any, int] = {}
        out += [states + place.setdefault(combine(a, b), len(place)) for a in first for b in second]
        grid = np.indices((len(first), len(second))).reshape(2, -1)
        left.append(starts[number] + grid[0])
        right.append(starts[number + 1] + grid[1])
        parents.append(tuple(place))
        states += len(place)
    if len(nodes) % 2:
        left.append(starts[-2] + np.arange(sizes[-1]))
        right.append(np.full(sizes[-1], -1))
        out += range(states, states + sizes[-1])
        parents.append(nodes[-1])
        states += sizes[-1]
    return parents, _Level(np.concatenate(left), np.concatenate(right), np.array(out), states)


def _steps(trees: Sequence[_Tree], states: np.ndarray) -> list[Combinations]:
    """One contraction per level for all groups; those that are done pass their states on."""
    alike: dict[int, list[int]] = {}
    for number, tree in enumerate(trees):
        alike.setdefault(id(tree), []).append(number)
    members = [np.array(numbers) for numbers in alike.values()]
    steps = []
    for depth in range(max((len(tree.levels) for tree in trees), default=0)):
        levels = [_level(trees[groups[0]], depth, int(states[groups[0]])) for groups in members]
        following = np.empty_like(states)
        for groups, level in zip(members, levels, strict=True):
            following[groups] = level.states
        starts, ends, total = _starts(states), _starts(following), int(states.sum())
        columns: list[list[np.ndarray]] = [[], [], []]
        for groups, level in zip(members, levels, strict=True):
            begin, end = starts[groups][:, None], ends[groups][:, None]
            for column, side in zip(columns, (level.left, level.right), strict=False):
                column.append(np.where(side < 0, total, side + begin).reshape(-1))
            columns[2].append((level.out + end).reshape(-1))
        left, right, out = map(np.concatenate, columns)
        steps.append(Combinations([left, right], out, int(following.sum())))
        states = following
    return steps


def _level(tree: _Tree, depth: int, states: int) -> _Level:
    return tree.levels[depth] if depth < len(tree.levels) else _handed_on(states)


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.cumsum(sizes) - sizes


def _handed_on(states: int) -> _Level:
    places = np.arange(states)
    return _Level(places, np.full(states, -1), places, states)


def prefixes(groups_of: np.ndarray) -> list[Combinations]:
    """Steps that turn each item into the ⊗ of all items of its group up to it.

    Step i doubles the length that is covered; an item whose group begins later takes **1**, which
    is appended to the tags.
    """
    n = len(groups_of)
    every, steps, reach = np.arange(n), [], 1
    while reach < n:
        before = every - reach
        same = (before >= 0) & (groups_of[before] == groups_of)
        if not same.any():
            break
        steps.append(Combinations([every, np.where(same, before, n)], every, n))
        reach *= 2
    return steps
