"""Index lists that belong to no plan, kept by content.

Questions, negations and readings make lists of their own. Where all rows share their symbols, these
are the same at every step: kept, they are copied to a device once. Nothing is kept while a program
is exported: the tensors that an exporter makes have no values.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch

from dolphin.execution.indices import Contraction, Index
from dolphin.symbolic.bounded import BoundedCache, register

_MOST = 1_000_000  # places and combinations of all lists that are kept


def _weight(lists: Index | Contraction) -> int:
    size = len(lists) if isinstance(lists, Index) else lists.combinations + lists.groups
    return 100 + size


_known: BoundedCache[Hashable, Index | Contraction] = BoundedCache(_MOST, _weight)
register("index lists of no plan", _known.__len__, _known.clear)


def kept_index(places: np.ndarray) -> Index:
    """`Index(places)`, the same object for equal places.

    >>> kept_index(np.arange(3)) is kept_index(np.arange(3))
    True
    """
    if torch.compiler.is_compiling():
        return Index(places)
    index = _known.get_or_make(_content(places), lambda: Index(places.copy()))
    assert isinstance(index, Index)
    return index


def kept_lists(indices: Sequence[np.ndarray], group_of: np.ndarray, groups: int) -> Contraction:
    """`Contraction(indices, group_of, groups)`, the same object for equal arguments."""
    if torch.compiler.is_compiling():
        return Contraction(indices, group_of, groups)
    key = (*map(_content, indices), _content(group_of), groups)
    lists = _known.get_or_make(
        key, lambda: Contraction([index.copy() for index in indices], group_of.copy(), groups)
    )
    assert isinstance(lists, Contraction)
    return lists


def _content(array: np.ndarray) -> Hashable:
    return array.dtype.char, array.shape, array.tobytes()
