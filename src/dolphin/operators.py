"""What can be written as a method or an operator of a distribution."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from dolphin.distribution import Distribution


class Operators:
    """Sugar for `apply`: d + e, d == e, d & e, ~d, with distributions or plain values.

    `==` builds a distribution, so distributions hash by identity.
    """

    __slots__ = ()

    def apply(self, *arguments: Any, **options: Any) -> Distribution:
        """`d1.apply(d2, ..., f)`: see `dolphin.apply`."""
        from dolphin.operations import apply

        return apply(self, *arguments, **options)

    def map(self, function: Callable[[Any], Any], **options: Any) -> Distribution:
        """`d.map(f)` is `dolphin.apply(d, f)`."""
        return self.apply(function, **options)

    def apply_if(self, *arguments: Any, **options: Any) -> Distribution:
        """`d1.apply_if(d2, ..., f, cond)`: see `dolphin.apply_if`."""
        from dolphin.operations import apply_if

        return apply_if(self, *arguments, **options)

    def filter(self, predicate: Callable[[Any], Any], **options: Any) -> Distribution:
        """`d.filter(predicate)`: see `dolphin.filter`."""
        from dolphin.operations import filter as filter_

        return filter_(cast("Distribution", self), predicate, **options)

    def union(self, *others: Distribution) -> Distribution:
        """`d1.union(d2, ...)`: see `dolphin.union`."""
        from dolphin.operations import union

        return union(cast("Distribution", self), *others)

    def _binary(self, function: Callable[[Any, Any], Any], other: Any) -> Distribution:
        if isinstance(other, Operators):
            return self.apply(other, function)
        return self.map(partial(_with_right, function, other))

    def _reflected(self, function: Callable[[Any, Any], Any], other: Any) -> Distribution:
        return self.map(partial(function, other))

    def __add__(self, other: Any) -> Distribution:
        return self._binary(operator.add, other)

    def __radd__(self, other: Any) -> Distribution:
        return self._reflected(operator.add, other)

    def __sub__(self, other: Any) -> Distribution:
        return self._binary(operator.sub, other)

    def __rsub__(self, other: Any) -> Distribution:
        return self._reflected(operator.sub, other)

    def __mul__(self, other: Any) -> Distribution:
        return self._binary(operator.mul, other)

    def __rmul__(self, other: Any) -> Distribution:
        return self._reflected(operator.mul, other)

    def __truediv__(self, other: Any) -> Distribution:
        return self._binary(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Distribution:
        return self._reflected(operator.truediv, other)

    def __floordiv__(self, other: Any) -> Distribution:
        return self._binary(operator.floordiv, other)

    def __rfloordiv__(self, other: Any) -> Distribution:
        return self._reflected(operator.floordiv, other)

    def __mod__(self, other: Any) -> Distribution:
        return self._binary(operator.mod, other)

    def __rmod__(self, other: Any) -> Distribution:
        return self._reflected(operator.mod, other)

    def __pow__(self, other: Any) -> Distribution:
        return self._binary(operator.pow, other)

    def __rpow__(self, other: Any) -> Distribution:
        return self._reflected(operator.pow, other)

    def __neg__(self) -> Distribution:
        return self.map(operator.neg)

    def __abs__(self) -> Distribution:
        return self.map(operator.abs)

    def __eq__(self, other: Any) -> Distribution:  # type: ignore[override]
        return self._binary(operator.eq, other)

    def __ne__(self, other: Any) -> Distribution:  # type: ignore[override]
        return self._binary(operator.ne, other)

    def __lt__(self, other: Any) -> Distribution:
        return self._binary(operator.lt, other)

    def __le__(self, other: Any) -> Distribution:
        return self._binary(operator.le, other)

    def __gt__(self, other: Any) -> Distribution:
        return self._binary(operator.gt, other)

    def __ge__(self, other: Any) -> Distribution:
        return self._binary(operator.ge, other)

    def __and__(self, other: Any) -> Distribution:
        return self._binary(operator.and_, other)

    def __rand__(self, other: Any) -> Distribution:
        return self._reflected(operator.and_, other)

    def __or__(self, other: Any) -> Distribution:
        return self._binary(operator.or_, other)

    def __ror__(self, other: Any) -> Distribution:
        return self._reflected(operator.or_, other)

    def __xor__(self, other: Any) -> Distribution:
        return self._binary(operator.xor, other)

    def __invert__(self) -> Distribution:
        return self.map(_invert)

    __hash__ = object.__hash__


def _with_right(function: Callable[[Any, Any], Any], right: Any, left: Any) -> Any:
    return function(left, right)


def _invert(symbol: Any) -> Any:
    return not symbol if isinstance(symbol, bool) else ~symbol
