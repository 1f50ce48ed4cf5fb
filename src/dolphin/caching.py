"""Looking at, and emptying, what is remembered between operations."""

from __future__ import annotations

from typing import NamedTuple

from dolphin.provenance.exact import compiling, formulas
from dolphin.settings import current_settings
from dolphin.symbolic.plans import caches
from dolphin.symbolic.questions import known_folds


class CacheInfo(NamedTuple):
    """What is remembered, and how much may be. A plan weighs 1000 and one per combination."""

    plans: int
    plan_weight: int
    max_plan_weight: int
    hits: int
    misses: int
    symbols: int
    max_symbols: int
    remembered: int
    max_remembered: int
    restarts: int


def cache_info() -> CacheInfo:
    """Sizes of all caches, their limits, hits and misses of plans, and restarts of the table.

    >>> import dolphin as dl
    >>> dl.cache_clear()
    >>> d = dl.Distribution([0.5, 0.5], [0, 1])
    >>> for _ in range(3):
    ...     total = dl.apply(d, d, lambda x, y: x + y)
    >>> dl.cache_info().plans, dl.cache_info().hits, dl.cache_info().remembered
    (1, 2, 4)
    """
    limits = current_settings()
    return CacheInfo(
        plans=len(caches.plans),
        plan_weight=caches.plans.weight,
        max_plan_weight=caches.plans.limit,
        hits=caches.plans.hits,
        misses=caches.plans.misses,
        symbols=len(caches.table),
        max_symbols=limits.max_symbols,
        remembered=caches.table.remembered,
        max_remembered=limits.max_remembered,
        restarts=caches.restarts,
    )


def cache_clear() -> None:
    """Forget everything that is remembered. Only speed can change, never a result."""
    caches.clear()
    known_folds().clear()
    formulas.tables.clear()
    compiling.clear()
