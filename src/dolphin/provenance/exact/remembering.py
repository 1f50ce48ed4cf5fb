"""Operations on the formulas of many symbols and rows, each computed once."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dolphin.execution.indices import Contraction
from dolphin.provenance.exact.formulas import FormulaTable
from dolphin.symbolic.bounded import register


def combined(
    table: FormulaTable,
    operands: Sequence[np.ndarray],
    plan: Contraction,
    join: Callable[[FormulaTable, list[int]], int],
) -> np.ndarray:
    """∨ over each group of ∧ over the operands, (groups, r)."""
    groups = plan.group_of.tolist()
    columns = []
    for column in range(max(part.shape[1] for part in operands)):
        chosen = [
            part[index, column if part.shape[1] > 1 else 0].tolist()
            for part, index in zip(operands, plan.indices, strict=True)
        ]
        members: list[list[int]] = [[] for _ in range(plan.groups)]
        for group, combination in zip(groups, zip(*chosen, strict=True), strict=True):
            members[group].append(table.conjunction(combination))
        columns.append([join(table, formulas) for formulas in members])
    return np.array(columns, dtype=np.int64).reshape(len(columns), plan.groups).T


def each_of(numbers: np.ndarray, function: Callable[[int], int]) -> np.ndarray:
    """A function of each formula, (n, r)."""
    flat = [function(number) for number in numbers.reshape(-1).tolist()]
    return np.array(flat, dtype=np.int64).reshape(numbers.shape)


_NOTHING = object()
_contents: weakref.WeakKeyDictionary[Contraction, bytes] = weakref.WeakKeyDictionary()
register("digests of index lists", _contents.__len__, _contents.clear)


def content_of(plan: Contraction) -> bytes:
    """A digest of a contraction by content, whichever object it is."""
    content = _contents.get(plan)
    if content is None:
        digest = hashlib.sha256(str(plan.groups).encode())
        for array in (*plan.indices, plan.group_of):
            digest.update(b"|" + np.ascontiguousarray(array, dtype=np.int64).tobytes())
        content = _contents[plan] = digest.digest()
    return content


def remembered(table: FormulaTable, key: Any, make: Callable[[], Any]) -> Any:
    """The result of an operation on formulas of this table, computed once."""
    result = table.remembered.get(key, _NOTHING)  # mostly: without the lock
    if result is _NOTHING:
        with table.lock:
            result = table.remembered.get(key, _NOTHING)
            if result is _NOTHING:
                result = table.remembered[key] = make()
                table.remembered_bytes += 1000 + 2 * getattr(result, "nbytes", 0)
    return result
