"""What a user asked for: the functions to run, their identity, and their results."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dolphin.settings import current_settings
from dolphin.symbolic.calling import ABSENT, Watch, evaluate
from dolphin.symbolic.chance import Sources
from dolphin.symbolic.identity.changing import Changing, including
from dolphin.symbolic.identity.functions import key_of
from dolphin.symbolic.lookups import KeyReader, joined
from dolphin.symbolic.plans import (
    Domain,
    check_size,
)
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tables import SymbolTable


class Task(NamedTuple):
    """What a user asked for: the function to run, and where it applies."""

    operation: str
    function: Callable[..., Any]
    condition: Callable[..., Any] | None = None
    on: tuple[Callable[[Any], Any], ...] | None = None
    cache: bool = True

    def key(self, sources: Sources, changing: Changing) -> Hashable | None:
        """The identity of the user's functions, or None if they have none or `cache` is off.

        Tensors that they refer to are added to `sources`; `changing` is what may change about
        their arguments.
        """
        key = key_of(self.operation, (self.function, self.condition), self.cache, sources.slot)
        if self.on is not None:  # keys of a join are symbols, never weights: no tensor is a source
            on = key_of(self.operation, self.on, self.cache)
            key = None if key is None or on is None else (key, on)
        return including(key, changing, self.function) if changing else key

    def watch(self, key: Hashable | None, sources: Sources, changing: Changing) -> Watch | None:
        """A watch that notices if the functions change what they read."""
        if key is None:
            return None
        return Watch(key, lambda: self.key(sources.anew(), changing), changing)


def results_of(
    task: Task,
    key: Hashable | None,
    table: SymbolTable,
    columns: Sequence[np.ndarray],
    watch: Watch | None,
    sources: Sources,
    distinct: bool = True,
) -> np.ndarray:
    """The results of a task's functions for each combination of symbols."""
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


def _memo_key(task: Task, key: Hashable | None, combinations: int) -> Hashable | None:
    """The key, or None: too many combinations at once would evict everything else."""
    if key is None or combinations > current_settings().max_remembered:
        return None
    return (task.operation, key)


def looked_up(
    task: Task,
    table: SymbolTable,
    domains: Sequence[Domain],
    numbers: Sequence[np.ndarray],
    watch: Watch | None,
    active: np.ndarray,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Row and place in each operand of combinations with equal keys."""
    assert task.on is not None
    reader = KeyReader(task.operation, table, watch)
    sides = [
        reader.shared(key, domain)
        if isinstance(domain, Symbols)
        else reader.in_rows(key, number, len(active))
        for key, domain, number in zip(task.on, domains, numbers, strict=True)
    ]
    sizes = [number.shape[-1] for number in numbers]
    return joined(sides, active, lambda size: check_size(task.operation, sizes, size))


def join_keys(
    task: Task,
    key: Hashable | None,
    operand: int,
    table: SymbolTable,
    numbers: np.ndarray,
    watch: Watch | None,
) -> np.ndarray:
    """The class of the join key of each symbol of an operand, `ABSENT` where there is no symbol."""
    assert task.on is not None
    function = task.on[operand]
    identity = None if watch is None else watch.key_of(function)
    present = numbers != ABSENT
    results = evaluate(
        f"{task.operation}(on=...)",
        function,
        None,
        None if identity is None else ("key", identity),
        table,
        [numbers[present]],
        distinct=False,
        watch=watch,
    )
    keys = np.full(numbers.shape, ABSENT, dtype=np.int64)
    keys[present] = table.classes(results)
    return keys
