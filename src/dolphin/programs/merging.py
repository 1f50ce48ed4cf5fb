"""The results of a batch's samples as one result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import MismatchError, shorten
from dolphin.execution.batching.contractions import one_per_sample
from dolphin.execution.batching.crew import SampleFailed
from dolphin.execution.batching.gathering import Part
from dolphin.execution.batching.pending import row_of
from dolphin.execution.selecting import stacked
from dolphin.execution.tagged import Tagged, tagged_of


def merged(program: str, values: Sequence[Any]) -> Any:
    """Distributions and tensors stacked, containers item by item, anything else as a list."""
    return _Merge(program).all("", values)


class _Merge:
    def __init__(self, program: str) -> None:
        self.program = program

    def all(self, where: str, values: Sequence[Any]) -> Any:
        """`where` says which item of the results these are: "", "[0]", "['sum']", ".total"."""
        first = values[0]
        if not any(map(_has_numbers, values)):
            return list(values)
        kinds = list(map(_kind, values))
        for number, kind in enumerate(kinds):
            if kind != kinds[0]:
                self._refuse(where, 0, first, number, values[number])
        if isinstance(first, Distribution):
            return self._distributions(where, values)
        if isinstance(first, Tensor):
            for number, value in enumerate(values):
                if value.shape != first.shape or value.device != first.device:
                    self._refuse(where, 0, first, number, value)
            return torch.stack(list(values))
        if isinstance(first, Mapping):
            return {k: self.all(f"{where}[{k!r}]", [v[k] for v in values]) for k in first}
        if dataclasses.is_dataclass(first):
            return self._objects(where, first, values)
        items = [
            self.all(f"{where}[{at}]", [value[at] for value in values]) for at in range(len(first))
        ]
        make: Any = getattr(type(first), "_make", type(first))
        return make(items)

    def _objects(self, where: str, first: Any, values: Sequence[Any]) -> Any:
        names = [field.name for field in dataclasses.fields(first)]
        whole = object.__new__(type(first))
        for name in names:
            item = self.all(f"{where}.{name}", [getattr(value, name) for value in values])
            object.__setattr__(whole, name, item)
        return whole

    def _distributions(self, where: str, values: Sequence[Any]) -> Any:
        given = [tagged_of(value) for value in values]
        if any(d.batch != 1 for d in given):
            return distribution_of(stacked(given))
        return distribution_of(one_per_sample([_row(n, d) for n, d in enumerate(given)]))

    def _refuse(self, where: str, first: int, a: Any, second: int, b: Any) -> None:
        place = f" in result{where}" if where else ""
        raise MismatchError(
            f"{self.program}: samples must return the same kind of thing{place}: sample {first} "
            f"returned {_described(a)}, sample {second} {_described(b)}."
        )


def _row(number: int, d: Tagged) -> Part:
    try:
        return row_of(d)
    except Exception as error:  # the sample caught it before, and returned what had raised it
        raise SampleFailed(number) from error


def _has_numbers(value: Any) -> bool:
    """Whether there is a distribution or a tensor in it."""
    if isinstance(value, (Distribution, Tensor)):
        return True
    if isinstance(value, Mapping):
        return any(map(_has_numbers, value.values()))
    if isinstance(value, (tuple, list)):
        return any(map(_has_numbers, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(_has_numbers(getattr(value, f.name)) for f in dataclasses.fields(value))
    return False


def _kind(value: Any) -> Any:
    """What the results of two samples must have in common."""
    if isinstance(value, (Distribution, Tensor)):
        return Distribution if isinstance(value, Distribution) else Tensor
    if isinstance(value, Mapping):
        return (dict, frozenset(value))
    if isinstance(value, (tuple, list)):
        return (type(value), len(value))
    return type(value)


def _described(value: Any) -> str:
    if isinstance(value, Distribution):
        return "a Distribution"
    if isinstance(value, Tensor):
        on = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"a tensor of shape {tuple(value.shape)}{on}"
    if isinstance(value, Mapping):
        return f"a dictionary with the keys {shorten(list(value), 60)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{shorten(value, 60)} ({type(value).__name__})"
