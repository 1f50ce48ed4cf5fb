"""Methods and operators of a distribution."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

import torch

from dolphin.answering import (
    all_hold,
    how_many_hold,
    largest_of,
    smallest_of,
    some_holds,
    sum_of,
)
from dolphin.calls import Function, Mask, applied, applied_if, filtered, operand, united
from dolphin.execution.batching import negated, sampled
from dolphin.execution.eager import eager
from dolphin.execution.tagged import Holder
from dolphin.inference import entropy_of, expectation, normalised
from dolphin.symbolic.symbols import Symbols

if TYPE_CHECKING:
    from dolphin.distribution import Distribution

S_co = TypeVar("S_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")
T = TypeVar("T")


class Operators(Holder, Generic[S_co]):
    """Sugar for `apply`: d + e, d == e, d & e, ~d, with distributions or plain values.

    `==` builds a distribution, so distributions hash by identity.
    """

    __slots__ = ()

    # fmt: off
    @overload
    def apply(self, f: Callable[[S_co], R], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply(self, d2: Distribution[A], f: Callable[[S_co, A], R], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply(self, d2: Distribution[A], d3: Distribution[B], f: Callable[[S_co, A, B], R], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply(self, d2: Distribution[Any], d3: Distribution[Any], d4: Distribution[Any], more: Distribution[Any] | Callable[..., R], /, *rest: Distribution[Any] | Callable[..., R], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    # fmt: on
    @eager
    def apply(self, *arguments: Any, where: Any = None, cache: bool = True) -> Distribution[Any]:
        """`d1.apply(d2, ..., f)`: see `dolphin.apply`."""
        return self._of(applied((self, *arguments), where, cache))

    @eager
    def map(
        self, function: Callable[[S_co], R], *, where: Mask | None = None, cache: bool = True
    ) -> Distribution[R]:
        """`d.map(f)` is `dolphin.apply(d, f)`."""
        return self._of(applied((self, function), where, cache))

    # fmt: off
    @overload
    def apply_if(self, f: Callable[[S_co], R], cond: Callable[[S_co], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], f: Callable[[S_co, A], R], /, *, on: tuple[Callable[[S_co], Any], Callable[[A], Any]], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], f: Callable[[S_co, A], R], cond: Callable[[S_co, A], bool], /, *, on: tuple[Callable[[S_co], Any], Callable[[A], Any]] | None = None, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], d3: Distribution[B], f: Callable[[S_co, A, B], R], /, *, on: tuple[Callable[[S_co], Any], Callable[[A], Any], Callable[[B], Any]], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], d3: Distribution[B], f: Callable[[S_co, A, B], R], cond: Callable[[S_co, A, B], bool], /, *, on: tuple[Callable[[S_co], Any], Callable[[A], Any], Callable[[B], Any]] | None = None, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[Any], d3: Distribution[Any], d4: Distribution[Any], more: Distribution[Any] | Callable[..., Any], last: Distribution[Any] | Callable[..., Any], /, *rest: Distribution[Any] | Callable[..., Any], where: Mask | None = None, cache: bool = True) -> Distribution[Any]: ...  # noqa: E501
    # fmt: on
    @eager
    def apply_if(
        self,
        *arguments: Any,
        on: tuple[Function, ...] | None = None,
        where: Any = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d1.apply_if(d2, ..., f, cond)`: see `dolphin.apply_if`."""
        return self._of(applied_if((self, *arguments), on, where, cache))

    @eager
    def filter(
        self, predicate: Callable[[S_co], bool], *, cache: bool = True
    ) -> Distribution[S_co]:
        """`d.filter(predicate)`: see `dolphin.filter`."""
        return self._of(filtered(self, predicate, cache))

    @eager
    def union(self, *others: Distribution[T]) -> Distribution[S_co | T]:
        """`d1.union(d2, ...)`: see `dolphin.union`."""
        return self._of(united((self, *others)))

    @eager
    def negate(self, among: Iterable[Any] | None = None) -> Distribution[Any]:
        """`d.negate()`: see `dolphin.negate`."""
        world = None if among is None else Symbols.of(among)
        return self._of(negated(operand("negate", self), world))

    @eager
    def sample(
        self,
        k: int,
        method: Literal["top", "categorical"] = "top",
        generator: torch.Generator | None = None,
    ) -> Distribution[S_co]:
        """`d.sample(k)`: see `dolphin.sample`."""
        return self._of(sampled(operand("sample", self), k, method, generator))

    @eager
    def exists(
        self,
        predicate: Callable[[S_co], bool] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.exists(predicate)`: see `dolphin.exists`."""
        return self._of(some_holds(operand("exists", self), predicate, by, cache))

    @eager
    def forall(
        self,
        predicate: Callable[[S_co], bool],
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.forall(predicate)`: see `dolphin.forall`."""
        return self._of(all_hold(operand("forall", self), predicate, by, cache))

    @eager
    def count(
        self,
        predicate: Callable[[S_co], bool] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.count(predicate)`: see `dolphin.count`."""
        return self._of(how_many_hold(operand("count", self), predicate, by, cache))

    @eager
    def total(
        self,
        value: Callable[[S_co], Any] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.total(value)`: see `dolphin.total`."""
        return self._of(sum_of(operand("total", self), value, by, cache))

    @eager
    def maximum(
        self,
        key: Callable[[S_co], Any] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.maximum(key)`: see `dolphin.maximum`."""
        return self._of(largest_of(operand("maximum", self), key, by, cache))

    @eager
    def minimum(
        self,
        key: Callable[[S_co], Any] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`d.minimum(key)`: see `dolphin.minimum`."""
        return self._of(smallest_of(operand("minimum", self), key, by, cache))

    def normalized(self) -> Distribution[S_co]:
        """`d.normalized()`: see `dolphin.normalized`."""
        return self._of(normalised(operand("normalized", self)))

    def expected(self, value: Callable[[S_co], float] | None = None) -> torch.Tensor:
        """`d.expected(value)`: see `dolphin.expected`."""
        return expectation(operand("expected", self), value)

    def entropy(self) -> torch.Tensor:
        """`d.entropy()`: see `dolphin.entropy`."""
        return entropy_of(operand("entropy", self))

    def _binary(self, function: Callable[[Any, Any], Any], other: Any) -> Distribution[Any]:
        if isinstance(other, Operators):
            return self._of(applied((self, other, function), None, True))
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
