"""What can be written as a method or an operator of a distribution."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

import torch

if TYPE_CHECKING:
    from dolphin.distribution import Distribution

S_co = TypeVar("S_co", covariant=True)
T = TypeVar("T")
R = TypeVar("R")


class Operators(Generic[S_co]):
    """Sugar for `apply`: d + e, d == e, d & e, ~d, with distributions or plain values.

    `==` builds a distribution, so distributions hash by identity.
    """

    __slots__ = ()

    def apply(self, *arguments: Any, **options: Any) -> Distribution[Any]:
        """`d1.apply(d2, ..., f)`: see `dolphin.apply`."""
        from dolphin.operations import apply

        return cast("Any", apply)(self, *arguments, **options)

    def map(
        self, function: Callable[[S_co], R], *, where: Any = None, cache: bool = True
    ) -> Distribution[R]:
        """`d.map(f)` is `dolphin.apply(d, f)`."""
        from dolphin.operations import apply

        return apply(self._itself(), function, where=where, cache=cache)

    def apply_if(self, *arguments: Any, **options: Any) -> Distribution[Any]:
        """`d1.apply_if(d2, ..., f, cond)`: see `dolphin.apply_if`."""
        from dolphin.operations import apply_if

        return cast("Any", apply_if)(self, *arguments, **options)

    def filter(
        self, predicate: Callable[[S_co], bool], *, cache: bool = True
    ) -> Distribution[S_co]:
        """`d.filter(predicate)`: see `dolphin.filter`."""
        from dolphin.operations import filter as filter_

        return filter_(self._itself(), predicate, cache=cache)

    def union(self, *others: Distribution[T]) -> Distribution[S_co | T]:
        """`d1.union(d2, ...)`: see `dolphin.union`."""
        from dolphin.operations import union

        return union(self._itself(), *others)

    def negate(self, among: Sequence[Any] | None = None) -> Distribution[Any]:
        """`d.negate()`: see `dolphin.negate`."""
        from dolphin.operations import negate

        return negate(self._itself(), among)

    def sample(
        self,
        k: int,
        method: Literal["top", "categorical"] = "top",
        generator: torch.Generator | None = None,
    ) -> Distribution[S_co]:
        """`d.sample(k)`: see `dolphin.sample`."""
        from dolphin.operations import sample

        return sample(self._itself(), k, method, generator)

    def exists(
        self,
        predicate: Callable[[S_co], bool] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.exists(predicate)`: see `dolphin.exists`."""
        from dolphin.quantifiers import exists

        return cast("Any", exists)(self, predicate, by=by, cache=cache)

    def forall(
        self,
        predicate: Callable[[S_co], bool],
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.forall(predicate)`: see `dolphin.forall`."""
        from dolphin.quantifiers import forall

        return cast("Any", forall)(self, predicate, by=by, cache=cache)

    def count(
        self,
        predicate: Callable[[S_co], bool] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.count(predicate)`: see `dolphin.count`."""
        from dolphin.quantifiers import count

        return cast("Any", count)(self, predicate, by=by, cache=cache)

    def total(
        self,
        value: Callable[[S_co], Any] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.total(value)`: see `dolphin.total`."""
        from dolphin.quantifiers import total

        return cast("Any", total)(self, value, by=by, cache=cache)

    def maximum(
        self,
        key: Callable[[S_co], Any] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.maximum(key)`: see `dolphin.maximum`."""
        from dolphin.quantifiers import maximum

        return cast("Any", maximum)(self, key, by=by, cache=cache)

    def minimum(
        self,
        key: Callable[[S_co], Any] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.minimum(key)`: see `dolphin.minimum`."""
        from dolphin.quantifiers import minimum

        return cast("Any", minimum)(self, key, by=by, cache=cache)

    def _itself(self) -> Distribution[S_co]:
        return cast("Distribution[S_co]", self)

    def _binary(self, function: Callable[[Any, Any], Any], other: Any) -> Distribution[Any]:
        if isinstance(other, Operators):
            return self.apply(other, function)
        return self.map(partial(_with_right, function, other))

    def _reflected(self, function: Callable[[Any, Any], Any], other: Any) -> Distribution[Any]:
        return self.map(partial(function, other))

    def __add__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.add, other)

    def __radd__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.add, other)

    def __sub__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.sub, other)

    def __rsub__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.sub, other)

    def __mul__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.mul, other)

    def __rmul__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.mul, other)

    def __truediv__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.truediv, other)

    def __floordiv__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.floordiv, other)

    def __rfloordiv__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.floordiv, other)

    def __mod__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.mod, other)

    def __rmod__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.mod, other)

    def __pow__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.pow, other)

    def __rpow__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.pow, other)

    def __neg__(self) -> Distribution[Any]:
        return self.map(cast("Any", operator.neg))

    def __abs__(self) -> Distribution[Any]:
        return self.map(cast("Any", operator.abs))

    def __eq__(self, other: Any) -> Distribution[bool]:  # type: ignore[override]
        return self._binary(operator.eq, other)

    def __ne__(self, other: Any) -> Distribution[bool]:  # type: ignore[override]
        return self._binary(operator.ne, other)

    def __lt__(self, other: Any) -> Distribution[bool]:
        return self._binary(operator.lt, other)

    def __le__(self, other: Any) -> Distribution[bool]:
        return self._binary(operator.le, other)

    def __gt__(self, other: Any) -> Distribution[bool]:
        return self._binary(operator.gt, other)

    def __ge__(self, other: Any) -> Distribution[bool]:
        return self._binary(operator.ge, other)

    def __and__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.and_, other)

    def __rand__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.and_, other)

    def __or__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.or_, other)

    def __ror__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.or_, other)

    def __xor__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.xor, other)

    def __invert__(self) -> Distribution[Any]:
        return self.map(_invert)

    __hash__ = object.__hash__


def _with_right(function: Callable[[Any, Any], Any], right: Any, left: Any) -> Any:
    return function(left, right)


def _invert(symbol: Any) -> Any:
    return not symbol if isinstance(symbol, bool) else ~symbol
