"""The symbolic stage: from a user function and symbols to a plan.

For operands whose symbols all rows share, a plan is built once and remembered by the function's
identity and the symbols. In per-row layout (`row_planning`) it is built again each time, but user
functions still run only for combinations that were not seen before.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from dolphin.settings import current_settings
from dolphin.symbolic.calling import ABSENT, Watch, name_of
from dolphin.symbolic.chance import Sources, expanded
from dolphin.symbolic.identity.functions import note_not_remembered
from dolphin.symbolic.plans import (
    AntiDiagonals,
    Combinations,
    Domain,
    Plan,
    Rows,
    caches,
    check_size,
)
from dolphin.symbolic.row_planning import group_rows, places_of_all, row_plan
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tables import SymbolTable
from dolphin.symbolic.tasks import Task, looked_up, results_of

_AT_ONCE = 1_000_000  # combinations that are processed together while a plan is built


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
    changing = tuple([each for domain in domains for each in domain.changing])
    key = task.key(sources, changing)
    if rows is not None:
        watch = task.watch(key, sources, changing)
        return row_plan(task, key, domains, rows, skipped, watch, sources)
    if key is None:
        return _shared_plan(task, None, domains, skipped, None, sources)
    whole = (task.operation, key, tuple(domains), tuple(skipped))
    plan = caches.plans.get(whole)
    if plan is not None:
        return plan
    watch = task.watch(key, sources, changing)
    assert watch is not None
    plan = _shared_plan(task, key, domains, skipped, watch, sources)
    watch.check()
    if watch.steady and sources.remembered:
        return caches.plans.put(whole, plan)
    note_not_remembered(task.function, watch.reason or "reads the numbers of tensors")
    return plan


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
        places = looked_up(task, table, domains, numbers, watch, np.ones(1, dtype=bool))[1]
        columns = [number[place] for number, place in zip(numbers, places, strict=True)]
        results = results_of(task, key, table, columns, watch, sources)
    if len(results) and results.min() < ABSENT:
        if places is None:
            places = places_of_all(*sizes)
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
    members = Symbols.numbered(table, results[first])
    if places is None and not any(skipped) and _is_convolution(group_of, sizes):
        return Plan(members, AntiDiagonals((sizes[0], sizes[1])))
    keep = group_of != ABSENT
    everything = places is None and not any(skipped) and bool(keep.all())
    if places is None:
        places = places_of_all(*sizes)
    used = [place for place, skip in zip(places, skipped, strict=True) if not skip]
    combinations = Combinations(
        [place[keep] for place in used],
        group_of[keep],
        len(members),
        tuple(sizes) if everything else None,
    )
    return Plan(members, combinations)


def _chance_plan(
    task: Task,
    table: SymbolTable,
    numbers: Sequence[np.ndarray],
    results: np.ndarray,
    places: Sequence[np.ndarray],
    skipped: Sequence[bool],
) -> Plan:
    """The plan where some results are random."""
    columns = [number[place] for number, place in zip(numbers, places, strict=True)]
    each = expanded(table, name_of(task.function), results, columns)
    assert each is not None
    keep = each.results != ABSENT
    first, group_of = _groups(table.classes(each.results[keep]), len(table))
    members = Symbols.numbered(table, each.results[keep][first])
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
        key = None  # it would evict everything else
    parts = []
    for start in range(0, len(first), step):
        some = (first[start : start + step], *rest)
        places = places_of_all(*map(len, some))
        columns = [number[place] for number, place in zip(some, places, strict=True)]
        parts.append(results_of(task, key, table, columns, watch, sources))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _shared_union(domains: Sequence[Any]) -> Plan:
    table = caches.current_table()
    numbers = np.concatenate([domain.numbers(table) for domain in domains])
    first, group_of = _groups(table.classes(numbers), len(table))
    members = Symbols.numbered(table, numbers[first])
    index = np.arange(len(group_of))
    return Plan(members, Combinations([index], group_of, len(members)))


def _groups(classes: np.ndarray, numbers: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each class of symbols appears first, in that order, and the group of every entry."""
    if numbers > max(_MANY, 8 * len(classes)):  # sorting a few is faster than a place for each
        present, first, group_of = np.unique(classes, return_index=True, return_inverse=True)
        start = int(np.searchsorted(present, 0))  # `ABSENT` comes first
        order = np.argsort(first[start:], kind="stable")
        rank = np.full(len(present), ABSENT, dtype=np.int64)
        rank[start + order] = np.arange(len(order))
        return first[start:][order], rank[group_of]
    seen = np.full(numbers + 1, -1, dtype=np.int64)  # the last place is for ABSENT
    seen[classes[::-1]] = np.arange(len(classes) - 1, -1, -1)  # the first appearance stays
    seen[ABSENT] = -1
    present = np.flatnonzero(seen >= 0)
    present = present[np.argsort(seen[present], kind="stable")]
    rank = np.full(numbers + 1, ABSENT, dtype=np.int64)
    rank[present] = np.arange(len(present))
    return seen[present], rank[classes]


_MANY = 30_000  # symbols; 50 combinations of 100,000 symbols: 18 instead of 69 microseconds


def _is_convolution(group_of: np.ndarray, sizes: Sequence[int]) -> bool:
    """Whether all combinations on an anti-diagonal, and only they, give the same symbol."""
    if len(sizes) != 2 or min(sizes) < 2:
        return False
    columns = np.arange(sizes[1])
    rows = group_of.reshape(tuple(sizes))
    return all((row == columns + number).all() for number, row in enumerate(rows))
