"""Operators between distributions, and with plain values: d + e, d == 3, d & e, ~d."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, SupportsAbs, TypeVar, cast, overload

from dolphin.execution.eager import eager
from dolphin.execution.run import applied
from dolphin.execution.tagged import Holder
from dolphin.methods import Methods

if TYPE_CHECKING:
    from _typeshed import (
        SupportsAdd,
        SupportsMod,
        SupportsMul,
        SupportsRAdd,
        SupportsRMod,
        SupportsRMul,
        SupportsRSub,
        SupportsSub,
    )

    from dolphin.distribution import Distribution

S_co = TypeVar("S_co", covariant=True)
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class SupportsTrueDiv(Protocol[T_contra, R_co]):
    """Symbols that can be divided."""

    def __truediv__(self, other: T_contra, /) -> R_co: ...


class SupportsFloorDiv(Protocol[T_contra, R_co]):
    """Symbols that support floor division."""

    def __floordiv__(self, other: T_contra, /) -> R_co: ...


class SupportsNeg(Protocol[R_co]):
    """Symbols that can be negated."""

    def __neg__(self) -> R_co: ...


class Operators(Methods[S_co]):
    """Sugar for `apply`. `==` builds a distribution, so distributions hash by identity."""

    __slots__ = ()

    @eager
    def _binary(self, function: Callable[[Any, Any], Any], other: Any) -> Distribution[Any]:
        if isinstance(other, Holder):
            return self._of(applied((self, other, function), None, True))
        return self.map(partial(_with_right, function, other))

    def _reflected(self, function: Callable[[Any, Any], Any], other: Any) -> Distribution[Any]:
        return self.map(partial(function, other))

    @overload
    def __add__(
        self: Operators[SupportsAdd[T, R]], other: Distribution[T] | T
    ) -> Distribution[R]: ...
    @overload
    def __add__(
        self: Operators[T], other: Distribution[SupportsRAdd[T, R]] | SupportsRAdd[T, R]
    ) -> Distribution[R]: ...
    @overload
    def __add__(self, other: Any) -> Distribution[Any]: ...
    def __add__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.add, other)

    @overload
    def __radd__(self: Operators[SupportsRAdd[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __radd__(self: Operators[T], other: SupportsAdd[T, R]) -> Distribution[R]: ...
    @overload
    def __radd__(self, other: Any) -> Distribution[Any]: ...
    def __radd__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.add, other)

    @overload
    def __sub__(
        self: Operators[SupportsSub[T, R]], other: Distribution[T] | T
    ) -> Distribution[R]: ...
    @overload
    def __sub__(
        self: Operators[T], other: Distribution[SupportsRSub[T, R]] | SupportsRSub[T, R]
    ) -> Distribution[R]: ...
    @overload
    def __sub__(self, other: Any) -> Distribution[Any]: ...
    def __sub__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.sub, other)

    @overload
    def __rsub__(self: Operators[SupportsRSub[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rsub__(self: Operators[T], other: SupportsSub[T, R]) -> Distribution[R]: ...
    @overload
    def __rsub__(self, other: Any) -> Distribution[Any]: ...
    def __rsub__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.sub, other)

    @overload
    def __mul__(
        self: Operators[SupportsMul[T, R]], other: Distribution[T] | T
    ) -> Distribution[R]: ...
    @overload
    def __mul__(
        self: Operators[T], other: Distribution[SupportsRMul[T, R]] | SupportsRMul[T, R]
    ) -> Distribution[R]: ...
    @overload
    def __mul__(self, other: Any) -> Distribution[Any]: ...
    def __mul__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.mul, other)

    @overload
    def __rmul__(self: Operators[SupportsRMul[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rmul__(self: Operators[T], other: SupportsMul[T, R]) -> Distribution[R]: ...
    @overload
    def __rmul__(self, other: Any) -> Distribution[Any]: ...
    def __rmul__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.mul, other)

    @overload
    def __truediv__(
        self: Operators[SupportsTrueDiv[T, R]], other: Distribution[T] | T
    ) -> Distribution[R]: ...
    @overload
    def __truediv__(self, other: Any) -> Distribution[Any]: ...
    def __truediv__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.truediv, other)

    @overload
    def __floordiv__(
        self: Operators[SupportsFloorDiv[T, R]], other: Distribution[T] | T
    ) -> Distribution[R]: ...
    @overload
    def __floordiv__(self, other: Any) -> Distribution[Any]: ...
    def __floordiv__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.floordiv, other)

    def __rfloordiv__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.floordiv, other)

    @overload
    def __mod__(
        self: Operators[SupportsMod[T, R]], other: Distribution[T] | T
    ) -> Distribution[R]: ...
    @overload
    def __mod__(
        self: Operators[T], other: Distribution[SupportsRMod[T, R]] | SupportsRMod[T, R]
    ) -> Distribution[R]: ...
    @overload
    def __mod__(self, other: Any) -> Distribution[Any]: ...
    def __mod__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.mod, other)

    @overload
    def __rmod__(self: Operators[SupportsRMod[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rmod__(self: Operators[T], other: SupportsMod[T, R]) -> Distribution[R]: ...
    @overload
    def __rmod__(self, other: Any) -> Distribution[Any]: ...
    def __rmod__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.mod, other)

    def __pow__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.pow, other)

    def __rpow__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.pow, other)

    def __neg__(self: Operators[SupportsNeg[R]]) -> Distribution[R]:
        return self.map(cast("Any", operator.neg))

    def __abs__(self: Operators[SupportsAbs[R]]) -> Distribution[R]:
        return self.map(operator.abs)

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

    def __and__(self: Operators[T], other: Distribution[T] | T) -> Distribution[T]:
        return self._binary(operator.and_, other)

    def __rand__(self: Operators[T], other: T) -> Distribution[T]:
        return self._reflected(operator.and_, other)

    def __or__(self: Operators[T], other: Distribution[T] | T) -> Distribution[T]:
        return self._binary(operator.or_, other)

    def __ror__(self: Operators[T], other: T) -> Distribution[T]:
        return self._reflected(operator.or_, other)

    def __xor__(self: Operators[T], other: Distribution[T] | T) -> Distribution[T]:
        return self._binary(operator.xor, other)

    def __invert__(self) -> Distribution[S_co]:
        return self.map(_invert)

    __hash__ = object.__hash__


def _with_right(function: Callable[[Any, Any], Any], right: Any, left: Any) -> Any:
    return function(left, right)


def _invert(symbol: Any) -> Any:
    return not symbol if isinstance(symbol, bool) else ~symbol
