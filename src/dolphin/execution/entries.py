"""Whether a user function only takes entries of tensors, or reads their numbers.

A function that only takes entries, as weights of chances, gives the same result whatever the
numbers are, so the symbolic stage may remember it: each weight is recorded as the entry's place.
Adding, subtracting and scaling entries is recorded too, as a linear combination. Everything else
counts as reading the numbers, and then the function is not remembered.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dolphin.symbolic.chance import Term, Weight

# Functions that only move entries: they can be applied to the places of the entries as well.
_MOVES = frozenset(
    {
        "__getitem__", "select", "unbind", "view", "reshape", "flatten", "t", "transpose",
        "permute", "squeeze", "unsqueeze", "diagonal", "narrow", "chunk", "split", "contiguous",
    }
)  # fmt: skip
_SHAPES = frozenset({"size", "dim", "__len__", "numel", "stride", "is_floating_point"})
_READ = tuple(
    getattr(Tensor, name).__get__
    for name in ("shape", "ndim", "dtype", "device", "is_sparse", "layout", "requires_grad")
)
_SUMS = {"add": 1.0, "__add__": 1.0, "__radd__": 1.0, "sub": -1.0, "__sub__": -1.0}
_SUBTRACTED = frozenset({"rsub", "__rsub__"})
_PRODUCTS = frozenset({"mul", "__mul__", "__rmul__"})
_QUOTIENTS = frozenset({"div", "__div__", "true_divide", "__truediv__"})
_NEGATIONS = frozenset({"neg", "negative", "__neg__"})


class _Entries(NamedTuple):
    """A tensor that consists of entries of a source."""

    tensor: Tensor
    source: int
    places: Tensor  # where in the source each of its entries is


class _Combination(NamedTuple):
    """A number that is a linear combination of entries."""

    tensor: Tensor
    weight: Weight


class Watch(TorchFunctionMode):
    """See `dolphin.symbolic.chance.Watch`. Watches all of torch while it is entered."""

    def __init__(self, sources: Sequence[Tensor]) -> None:
        super().__init__()
        self.looked = False
        self._known: dict[int, _Entries | _Combination] = {}
        for source, tensor in enumerate(sources):
            self._known[id(tensor)] = _Entries(tensor, source, _places(tensor))

    def weight(self, entry: Tensor) -> Weight | None:
        """Where an entry comes from: its place, or a linear combination of places."""
        origin = self._known.get(id(entry))
        if isinstance(origin, _Combination):
            return origin.weight
        if origin is None or origin.places.dim() != 0:
            return None
        with torch._C.DisableTorchFunction():
            return Weight(0.0, (Term(origin.source, int(origin.places), 1.0),))

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _SHAPES or any(func == read for read in _READ):
            return output
        if not (
            self._moved(name, func, args, kwargs, output) or self._combined(name, args, output)
        ):
            self.looked = True
        return output

    def _moved(self, name: str, func: Any, args: Any, kwargs: Any, output: Any) -> bool:
        """Record where moved entries come from."""
        origin = self._known.get(id(args[0])) if args else None
        if name not in _MOVES or not isinstance(origin, _Entries) or _has_tensor(args[1:]):
            return False
        places = func(origin.places, *args[1:], **kwargs)
        results = output if isinstance(output, (tuple, list)) else [output]
        moved = places if isinstance(places, (tuple, list)) else [places]
        for result, place in zip(results, moved, strict=True):
            self._known[id(result)] = _Entries(result, origin.source, place)
        return True

    def _combined(self, name: str, args: Any, output: Any) -> bool:
        """Record a linear combination of single entries."""
        if not isinstance(output, Tensor) or output.dim() != 0 or not 1 <= len(args) <= 2:
            return False
        operands = [self._operand(arg) for arg in args]
        if any(operand is None for operand in operands):
            return False
        weight = _combination(name, [operand for operand in operands if operand is not None])
        if weight is None:
            return False
        self._known[id(output)] = _Combination(output, weight)
        return True

    def _operand(self, value: Any) -> Weight | None:
        if isinstance(value, Tensor):
            return self.weight(value)
        if isinstance(value, numbers.Real) and not isinstance(value, bool):
            return Weight(float(value))
        return None


def _places(tensor: Tensor) -> Tensor:
    return torch.arange(tensor.numel()).view(tensor.shape)


def _has_tensor(values: Any) -> bool:
    return any(
        isinstance(value, Tensor) or (isinstance(value, (tuple, list)) and _has_tensor(value))
        for value in values
    )


def _combination(name: str, operands: Sequence[Weight]) -> Weight | None:
    """The linear combination that an operation computes; None if it isn't one."""
    first = operands[0]
    if name in _NEGATIONS and len(operands) == 1:
        return _scaled(first, -1.0)
    if len(operands) != 2:
        return None
    second = operands[1]
    if name in _SUMS:
        return _sum(first, _scaled(second, _SUMS[name]))
    if name in _SUBTRACTED:
        return _sum(second, _scaled(first, -1.0))
    if name in _PRODUCTS:
        if not second.terms:
            return _scaled(first, second.constant)
        return _scaled(second, first.constant) if not first.terms else None
    if name in _QUOTIENTS and not second.terms and second.constant:
        return _scaled(first, 1.0 / second.constant)
    return None


def _scaled(weight: Weight, factor: float) -> Weight:
    terms = (Term(t.tensor, t.offset, factor * t.factor) for t in weight.terms)
    return Weight(factor * weight.constant, tuple(terms))


def _sum(a: Weight, b: Weight) -> Weight:
    return Weight(a.constant + b.constant, a.terms + b.terms)
