"""The symbolic stage: from a user function and symbols to a plan.

A plan depends on symbols alone, never on probabilities. For operands whose symbols all rows share
it is made once and remembered by what the function is and what the symbols are. Where rows have
symbols of their own it is made anew, but user functions still run only for combinations that were
not seen before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dolphin.errors import MismatchError, SizeError
from dolphin.settings import current_settings
from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.calling import ABSENT, Watch, evaluate, name_of
from dolphin.symbolic.chance import Draws, Sources, expanded
from dolphin.symbolic.identity import fingerprint, key_of, note_not_remembered
from dolphin.symbolic.symbols import Symbols, SymbolTable


class RowSymbols:
    """Symbols of their own for every row: numbers in a table, `ABSENT` behind the last one."""

    __slots__ = ("_members", "numbers", "table")

    def __init__(self, table: SymbolTable, numbers: np.ndarray) -> None:
        self.table = table
        self.numbers = numbers  # (rows, width)
        self._members: tuple[Any, ...] | None = None

    @property
    def width(self) -> int:
        return self.numbers.shape[1]

    @property
    def members(self) -> tuple[Any, ...]:
        """The symbols of all rows, by first appearance."""
        if self._members is None:
            flat = self.numbers[self.numbers != ABSENT]
            _, first = np.unique(self.table.classes(flat), return_index=True)
            self._members = tuple(self.table.symbols[n] for n in flat[np.sort(first)])
        return self._members

    def in_table(self, table: SymbolTable) -> np.ndarray:
        """The numbers of the same symbols in another table."""
        if table is self.table:
            return self.numbers
        old, inverse = np.unique(self.numbers, return_inverse=True)
        new = [ABSENT if n == ABSENT else table.number(self.table.symbols[n]) for n in old]
        return np.array(new, dtype=np.int64)[inverse].reshape(self.numbers.shape)

    def __reduce__(self) -> Any:  # a table belongs to its process: symbols travel, numbers don't
        return _rows_from_symbols, ([self.row(i) for i in range(len(self.numbers))], self.width)

    def row(self, row: int) -> list[Any]:
        return [self.table.symbols[n] for n in self.numbers[row] if n != ABSENT]


def _rows_from_symbols(rows: list[list[Any]], width: int) -> RowSymbols:
    table = caches.current_table()
    numbers = np.full((len(rows), width), ABSENT, dtype=np.int64)
    for number, members in zip(numbers, rows, strict=True):
        number[: len(members)] = table.numbers(members)
    return RowSymbols(table, numbers)


Domain = Symbols | RowSymbols


class Task(NamedTuple):
    """What a user asked for: the function to run, and where it applies."""

    operation: str
    function: Callable[..., Any]
    condition: Callable[..., Any] | None = None
    on: tuple[Callable[[Any], Any], ...] | None = None
    cache: bool = True

    def key(self, sources: Sources) -> Hashable | None:
        """What the user's functions are, or None if that can't be told or isn't wanted.

        Tensors that they refer to are entered in `sources`.
        """
        functions = (self.function, self.condition, *(self.on or ()))
        return key_of(self.operation, functions, self.cache, sources.slot)

    def watch(self, key: Hashable | None, sources: Sources) -> Watch | None:
        """Notices whether the functions change what they read."""
        return None if key is None else Watch(key, lambda: self.key(sources.anew()))


@dataclass(eq=False, slots=True)
class Combinations:
    """Which places of the operands combine, and into which symbol of the result.

    Combination m takes the symbol at indices[i][m] of operand i and belongs to group_of[m].
    """

    indices: Sequence[np.ndarray]
    group_of: np.ndarray
    groups: int
    sizes: tuple[int, ...] | None = None  # of the operands, if all their combinations are here
    lists: Any = None  # what the tag stage makes of this, once

    @property
    def weight(self) -> int:
        return len(self.group_of)


@dataclass(eq=False)
class AntiDiagonals:
    """Two operands whose combination (i, j) belongs to group i + j: a sum of integers."""

    sizes: tuple[int, int]
    lists: Any = None
    weight = 0


@dataclass(frozen=True)
class Plan:
    """Output symbols, and what combines into them; the last operand is the draws if there are any.

    A place behind the last draw stands for **1**: no matter of chance.
    """

    domain: Domain
    combinations: Combinations | AntiDiagonals
    draws: Draws | None = None

    @property
    def weight(self) -> int:
        """How many numbers are kept."""
        return self.combinations.weight


_MAX_PLAN_WEIGHT = 4_000_000
_AT_ONCE = 1_000_000  # combinations that are looked at together while a plan is made


class Caches:
    """All that is remembered between operations. Nothing here can change a result."""

    def __init__(self) -> None:
        # A plan weighs as much as its index lists.
        self.plans: BoundedCache[Hashable, Any] = BoundedCache(
            _MAX_PLAN_WEIGHT, lambda plan: 1000 + plan.weight
        )
        self.table = SymbolTable()
        self.restarts = 0

    def current_table(self) -> SymbolTable:
        """The table to use now: a fresh one once the last has grown too large."""
        settings = current_settings()
        table = self.table
        if len(table) > settings.max_symbols or table.remembered > settings.max_remembered:
            table = self.restart()
        return table

    def forget_symbols(self) -> None:
        self.restart()

    def restart(self) -> SymbolTable:
        """Go on with an empty table."""
        if len(self.table) or self.table.memos:
            self.table = SymbolTable()
            self.restarts += 1
        return self.table


caches = Caches()
register("plans", lambda: len(caches.plans), caches.plans.clear)
register("symbols", lambda: len(caches.table), caches.forget_symbols)
register("remembered results", lambda: caches.table.remembered, caches.forget_symbols)


@dataclass(frozen=True)
class RowAddress:
    """Where the tag of a symbol of a row stands among flattened tags."""

    width: int  # symbols a row
    per_row: bool  # whether rows have tags of their own

    def at(self, row: Any, place: Any) -> Any:
        """The tag of the symbol at `place` of `row`."""
        return row * self.width + place if self.per_row else place + 0 * row

    def size(self, batch: int) -> int:
        """How many tags there are."""
        return self.width * batch if self.per_row else self.width


@dataclass(frozen=True)
class Rows:
    """The rows of an operation, where they have symbols of their own."""

    batch: int
    addresses: Sequence[RowAddress]  # of each operand's tags
    active: np.ndarray | None = None  # (batch,) which rows take part
    draw_apart: bool = False  # whether the draws of each row have tags of their own


def make_plan(
    task: Task,
    domains: Sequence[Domain],
    skipped: Sequence[bool],
    sources: Sources,
    rows: Rows | None = None,
) -> Plan:
    """The plan of `task` over operands with these symbols.

    Operands marked in `skipped` are certain: they take part in the symbols but not in the tags.
    `sources` are filled with the tensors that weights come from.
    """
    key = task.key(sources)
    if rows is not None:
        return _row_plan(task, key, domains, rows, skipped, sources)
    watch = task.watch(key, sources)
    if watch is None:
        return _shared_plan(task, None, domains, skipped, None, sources)
    whole = (task.operation, key, tuple(domains), tuple(skipped))
    plan = caches.plans.get(whole)
    if plan is not None:
        return plan
    plan = _shared_plan(task, key, domains, skipped, watch, sources)
    watch.check()
    if watch.steady and sources.remembered:
        return caches.plans.put(whole, plan)
    reason = "changes what it reads" if sources.remembered else "looks at the numbers of tensors"
    note_not_remembered(task.function, reason)
    return plan


# -- shared symbols --------------------------------------------------------------------------------


def _shared_plan(
    task: Task,
    key: Hashable | None,
    domains: Sequence[Any],
    skipped: Sequence[bool],
    watch: Watch | None,
    sources: Sources,
) -> Plan:
    table = caches.current_table()
    sizes = [len(domain) for domain in domains]
    if task.on is None:
        check_size(task.operation, sizes, math.prod(sizes))
        results = _product_results(task, key, domains, table, watch, sources)
        places = None
    else:
        numbers = [domain.numbers(table) for domain in domains]
        keys = _join_keys(task, key, table, numbers, watch)
        check_size(task.operation, sizes, _join_size(keys))
        places = list(_join(*keys))
        columns = [number[place] for number, place in zip(numbers, places, strict=True)]
        results = _results(task, key, table, columns, watch, sources)
    if len(results) and results.min() < ABSENT:
        if places is None:
            places = [grid.reshape(-1) for grid in np.indices(sizes)]
        numbers = [domain.numbers(table) for domain in domains]
        return _chance_plan(task, table, numbers, results, places, skipped)
    return grouped(table, results, places, sizes, skipped)


def grouped(
    table: SymbolTable,
    results: np.ndarray,
    places: Sequence[np.ndarray] | None,
    sizes: Sequence[int],
    skipped: Sequence[bool],
) -> Plan:
    """The plan that ⊕-es equal results. `places` None: of all combinations, in order."""
    classes = np.where(results == ABSENT, ABSENT, table.classes(results))
    first, group_of = _groups(classes, len(table))
    members = Symbols.of(table.symbols[n] for n in results[first])
    if places is None and not any(skipped) and _is_convolution(group_of, sizes):
        return Plan(members, AntiDiagonals((sizes[0], sizes[1])))
    keep = group_of != ABSENT
    everything = places is None and not any(skipped) and bool(keep.all())
    if places is None:
        places = [grid.reshape(-1) for grid in np.indices(sizes)]
    if not keep.all():
        group_of = group_of[keep]
        places = [place[keep] for place in places]
    indices = [place for place, skip in zip(places, skipped, strict=True) if not skip]
    whole = tuple(sizes) if everything else None
    return Plan(members, Combinations(indices, group_of, len(members), whole))


def _chance_plan(
    task: Task,
    table: SymbolTable,
    numbers: Sequence[np.ndarray],
    results: np.ndarray,
    places: Sequence[np.ndarray],
    skipped: Sequence[bool],
) -> Plan:
    """The plan where some results are a matter of chance."""
    columns = [number[place] for number, place in zip(numbers, places, strict=True)]
    each = expanded(table, name_of(task.function), results, columns)
    assert each is not None
    keep = each.results != ABSENT
    first, group_of = _groups(table.classes(each.results[keep]), len(table))
    members = Symbols.of(table.symbols[n] for n in each.results[keep][first])
    used = [place for place, skip in zip(places, skipped, strict=True) if not skip]
    indices = [*(place[each.origin[keep]] for place in used), each.column[keep]]
    return Plan(members, Combinations(indices, group_of, len(members)), each.draws)


def _product_results(
    task: Task,
    key: Hashable | None,
    domains: Sequence[Any],
    table: SymbolTable,
    watch: Watch | None,
    sources: Sources,
) -> np.ndarray:
    """Results for all combinations, first operand slowest, some symbols of that one at a time."""
    first, *rest = (domain.numbers(table) for domain in domains)
    behind = math.prod(map(len, rest))
    step = max(1, _AT_ONCE // max(1, behind))
    if len(first) * behind > current_settings().max_remembered:
        key = None  # it would push everything else out of memory
    parts = []
    for start in range(0, len(first), step):
        some = (first[start : start + step], *rest)
        grids = np.indices(tuple(map(len, some)))
        columns = [n[grid.reshape(-1)] for n, grid in zip(some, grids, strict=True)]
        parts.append(_results(task, key, table, columns, watch, sources))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _results(
    task: Task,
    key: Hashable | None,
    table: SymbolTable,
    columns: Sequence[np.ndarray],
    watch: Watch | None,
    sources: Sources,
    distinct: bool = True,
) -> np.ndarray:
    return evaluate(
        task.operation,
        task.function,
        task.condition,
        _memo_key(task, key, len(columns[0])),
        table,
        columns,
        distinct=distinct,
        watch=watch,
        sources=sources,
    )


def _groups(classes: np.ndarray, numbers: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each class of symbols appears first, in that order, and the group of every entry."""
    seen = np.full(numbers + 1, -1, dtype=np.int64)  # the last place is for ABSENT
    seen[classes[::-1]] = np.arange(len(classes) - 1, -1, -1)  # what is written last comes first
    seen[ABSENT] = -1
    present = np.flatnonzero(seen >= 0)
    present = present[np.argsort(seen[present], kind="stable")]
    rank = np.full(numbers + 1, ABSENT, dtype=np.int64)
    rank[present] = np.arange(len(present))
    return seen[present], rank[classes]


def _is_convolution(group_of: np.ndarray, sizes: Sequence[int]) -> bool:
    """Do all combinations on an anti-diagonal, and only they, give the same symbol?"""
    if len(sizes) != 2 or min(sizes) < 2:
        return False
    columns = np.arange(sizes[1])
    rows = group_of.reshape(tuple(sizes))
    return all((row == columns + number).all() for number, row in enumerate(rows))


# -- symbols of their own for every row ------------------------------------------------------------


def _row_plan(
    task: Task,
    key: Hashable | None,
    domains: Sequence[Domain],
    rows: Rows,
    skipped: Sequence[bool],
    sources: Sources,
) -> Plan:
    table = caches.current_table()
    watch = task.watch(key, sources)
    batch = rows.batch
    numbers = [domain.in_table(table) for domain in domains]  # each (batch or 1, width)
    widths = [number.shape[1] for number in numbers]
    if task.on is None:
        check_size(task.operation, widths, batch * int(np.prod(widths, dtype=object)), batch)
        row, places = _row_products(numbers, rows)
    else:
        keys = [
            np.where(number == ABSENT, ABSENT, k.reshape(number.shape))
            for number, k in zip(
                numbers,
                _join_keys(task, key, table, [n.reshape(-1) for n in numbers], watch),
                strict=True,
            )
        ]
        row, places = _row_joins(keys, rows, lambda n: check_size(task.operation, widths, n))
    combined = [
        number[row if len(number) > 1 else 0, place]
        for number, place in zip(numbers, places, strict=True)
    ]
    results = _results(task, key, table, combined, watch, sources, distinct=False)
    if watch is not None and not watch.steady:
        note_not_remembered(task.function, "changes what it reads")
    each = expanded(table, name_of(task.function), results, combined)
    column = None
    if each is not None:
        row, results, column = row[each.origin], each.results, each.column
        places = [place[each.origin] for place in places]
    keep = results != ABSENT
    if not keep.all():
        results, row = results[keep], row[keep]
        places = [place[keep] for place in places]
        column = None if column is None else column[keep]
    indices = [
        address.at(row, place)
        for address, place, skip in zip(rows.addresses, places, skipped, strict=True)
        if not skip
    ]
    if each is None or column is None:
        return group_rows(table, results, row, batch, indices)
    address = RowAddress(len(each.draws) + each.draws.mixed, per_row=rows.draw_apart)
    plan = group_rows(table, results, row, batch, [*indices, address.at(row, column)])
    return replace(plan, draws=each.draws)


def group_rows(
    table: SymbolTable,
    results: np.ndarray,
    row: np.ndarray,
    batch: int,
    indices: Sequence[np.ndarray],
) -> Plan:
    """The plan that ⊕-es equal symbols of a row. `row` is sorted."""
    packed = (row << 32) | table.classes(results)
    _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
    appearance = np.argsort(first, kind="stable")
    first = first[appearance]
    rank = np.empty_like(appearance)
    rank[appearance] = np.arange(len(appearance))
    group_row = row[first]
    counts = np.bincount(group_row, minlength=batch)
    width = max(1, int(counts.max(initial=0)))
    column = np.arange(len(first)) - (np.cumsum(counts) - counts)[group_row]
    numbers = np.full((batch, width), ABSENT, dtype=np.int64)
    numbers[group_row, column] = results[first]
    slot = group_row * width + column
    return Plan(
        RowSymbols(table, numbers), Combinations(indices, slot[rank[inverse]], batch * width)
    )


def _row_products(numbers: Sequence[np.ndarray], rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
    """Row and place in each operand of all combinations of symbols of one row."""
    sizes = (rows.batch, *(number.shape[1] for number in numbers))
    grids = [grid.reshape(-1) for grid in np.indices(sizes)]
    row, places = grids[0], grids[1:]
    valid = np.ones(len(row), dtype=bool) if rows.active is None else rows.active[row]
    for number, place in zip(numbers, places, strict=True):
        if (number == ABSENT).any():
            valid &= number[row if len(number) > 1 else 0, place] != ABSENT
    if valid.all():
        return row, places
    return row[valid], [place[valid] for place in places]


def _row_joins(
    keys: Sequence[np.ndarray], rows: Rows, check: Callable[[int], None]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Like `_row_products`, for combinations with equal keys only."""
    batch = rows.batch
    flat = []
    for key in keys:
        spread = np.broadcast_to(key, (batch, key.shape[1]))
        if rows.active is not None:
            spread = np.where(rows.active[:, None], spread, ABSENT)
        packed = (np.arange(batch)[:, None] << 32) | spread
        flat.append(np.where(spread == ABSENT, ABSENT, packed).reshape(-1))
    check(_join_size(flat))
    left, right = _join(*flat)
    widths = [key.shape[1] for key in keys]
    return left // widths[0], [left % widths[0], right % widths[1]]


# -- joins -----------------------------------------------------------------------------------------


def _join_keys(
    task: Task,
    key: Hashable | None,
    table: SymbolTable,
    numbers: Sequence[np.ndarray],
    watch: Watch | None,
) -> list[np.ndarray]:
    """The class of the join key of each symbol, `ABSENT` where there is no symbol."""
    assert task.on is not None
    keys = []
    for function, number in zip(task.on, numbers, strict=True):
        known = None if key is None else fingerprint(function)
        present = np.flatnonzero(number != ABSENT)
        found = evaluate(
            f"{task.operation}(on=...)",
            function,
            None,
            None if known is None else ("key", known),
            table,
            [number[present]],
            distinct=False,
            watch=watch,
        )
        column = np.full(len(number), ABSENT, dtype=np.int64)
        column[present] = table.classes(found)
        keys.append(column)
    return keys


def _matches(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each key on the left, where equal keys start and end among the right ones, sorted."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    start = np.searchsorted(ordered, left, side="left")
    stop = np.searchsorted(ordered, left, side="right")
    stop[left == ABSENT] = start[left == ABSENT]
    return order, start, stop


def _join_size(keys: Sequence[np.ndarray]) -> int:
    _, start, stop = _matches(keys[0], keys[1])
    return int((stop - start).sum())


def _join(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of equal keys in both, first operand slowest."""
    order, start, stop = _matches(left, right)
    counts = stop - start
    from_left = np.repeat(np.arange(len(left)), counts)
    within = np.arange(len(from_left)) - np.repeat(np.cumsum(counts) - counts, counts)
    return from_left, order[np.repeat(start, counts) + within]


# -- limits ----------------------------------------------------------------------------------------


def check_size(operation: str, sizes: Sequence[int], combinations: int, batch: int = 1) -> None:
    """Refuse more combinations than the settings allow, before they are made."""
    limit = current_settings().max_combinations
    if combinations > limit:
        product = " x ".join(f"{size:,}" for size in sizes)
        rows = f" in each of {batch:,} rows" if batch > 1 else ""
        raise SizeError(
            f"{operation}: {product} symbols{rows} make {combinations:,} combinations, more than "
            f"the limit of {limit:,}. Keep fewer symbols (dolphin.sample or dolphin.filter), join "
            "on a key (apply_if with on=), use a smaller domain, or raise the limit with "
            "dolphin.settings(max_combinations=...)."
        )


def _memo_key(task: Task, key: Hashable | None, combinations: int) -> Hashable | None:
    """Too many combinations at once would push everything else out of memory."""
    if key is None or combinations > current_settings().max_remembered:
        return None
    return (task.operation, key)


def union_plan(operation: str, domains: Sequence[Domain], rows: Rows | None = None) -> Plan:
    """All symbols of all operands; the index refers to the operands' tags one after another."""
    if all(isinstance(domain, Symbols) for domain in domains):
        whole = (operation, None, tuple(domains))
        return caches.plans.get_or_make(whole, lambda: _shared_union(domains))
    assert rows is not None
    table = caches.current_table()
    batch = rows.batch
    numbers, row, index = [], [], []
    start = 0
    for domain, address in zip(domains, rows.addresses, strict=True):
        number = domain.in_table(table)
        spread = np.broadcast_to(number, (batch, address.width))
        r, c = np.nonzero(spread != ABSENT)
        numbers.append(spread[r, c])
        row.append(r)
        index.append(start + address.at(r, c))
        start += address.size(batch)
    order = np.argsort(np.concatenate(row), kind="stable")
    return group_rows(
        table,
        np.concatenate(numbers)[order],
        np.concatenate(row)[order],
        batch,
        [np.concatenate(index)[order]],
    )


def _shared_union(domains: Sequence[Any]) -> Plan:
    table = caches.current_table()
    numbers = np.concatenate([domain.numbers(table) for domain in domains])
    first, group_of = _groups(table.classes(numbers), len(table))
    members = Symbols.of(table.symbols[n] for n in numbers[first])
    index = np.arange(len(group_of))
    return Plan(members, Combinations([index], group_of, len(members)))


def check_rows(operation: str, sizes: Sequence[int]) -> int:
    """The common batch size; operands with one row fit any other."""
    batch = max(sizes, default=1)
    if min(sizes, default=1) == batch:
        return batch
    if any(size not in (1, batch) for size in sizes):
        shown = ", ".join(map(str, sizes))
        raise MismatchError(
            f"{operation}: the batch sizes of the operands don't match: {shown}. They must be "
            "equal, or 1 for an operand that is the same in all rows."
        )
    return batch
