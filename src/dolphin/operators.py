"""Operators between distributions, and with plain values: d + e, d == 3, d & e, ~d."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Never,
    Protocol,
    SupportsAbs,
    TypeVar,
    cast,
    overload,
)

from dolphin.execution.eager import eager
from dolphin.execution.run import applied
from dolphin.execution.tagged import Holder
from dolphin.methods import Methods

if TYPE_CHECKING:
    from datetime import date, timedelta
    from fractions import Fraction

    import numpy as np
    from _typeshed import (
        SupportsAdd,
        SupportsDunderGE,
        SupportsDunderGT,
        SupportsDunderLE,
        SupportsDunderLT,
        SupportsMod,
        SupportsMul,
        SupportsRAdd,
        SupportsRMod,
        SupportsRMul,
        SupportsRSub,
        SupportsSub,
    )

    from dolphin.distribution import Distribution

    # Their operators are overloaded, and of an overloaded method a protocol sees the first version.
    Overloaded = tuple[Any, ...] | date | timedelta | Fraction | np.generic

S_co = TypeVar("S_co", bound=Hashable, covariant=True)
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


# Symbols that can stand to the left or right of an operator, where _typeshed has no name for them.
class _TrueDiv(Protocol[T_contra, R_co]):
    def __truediv__(self, other: T_contra, /) -> R_co: ...


class _RTrueDiv(Protocol[T_contra, R_co]):
    def __rtruediv__(self, other: T_contra, /) -> R_co: ...


class _FloorDiv(Protocol[T_contra, R_co]):
    def __floordiv__(self, other: T_contra, /) -> R_co: ...


class _RFloorDiv(Protocol[T_contra, R_co]):
    def __rfloordiv__(self, other: T_contra, /) -> R_co: ...


class _Pow(Protocol[T_contra, R_co]):
    def __pow__(self, other: T_contra, /) -> R_co: ...


class _RPow(Protocol[T_contra, R_co]):
    def __rpow__(self, other: T_contra, /) -> R_co: ...


class _And(Protocol[T_contra, R_co]):
    def __and__(self, other: T_contra, /) -> R_co: ...


class _RAnd(Protocol[T_contra, R_co]):
    def __rand__(self, other: T_contra, /) -> R_co: ...


class _Or(Protocol[T_contra, R_co]):
    def __or__(self, other: T_contra, /) -> R_co: ...


class _ROr(Protocol[T_contra, R_co]):
    def __ror__(self, other: T_contra, /) -> R_co: ...


class _Xor(Protocol[T_contra, R_co]):
    def __xor__(self, other: T_contra, /) -> R_co: ...


class _RXor(Protocol[T_contra, R_co]):
    def __rxor__(self, other: T_contra, /) -> R_co: ...


class _Neg(Protocol[R_co]):
    def __neg__(self) -> R_co: ...


class _Invert(Protocol[R_co]):
    def __invert__(self) -> R_co: ...


class Operators(Methods[S_co]):
    """Sugar for `apply`. `==` builds a distribution, so distributions hash by identity."""

    __slots__ = ()

    @eager
    def _binary(self, function: Callable[[Any, Any], Any], other: Any) -> Distribution[Any]:
        if isinstance(other, Holder):
            return self._of(applied((self, other, function), None, True))
        return self.map(partial(with_right_side, function, other))

    def _reflected(self, function: Callable[[Any, Any], Any], other: Any) -> Distribution[Any]:
        return self.map(partial(function, other))

    # fmt: off
    @overload
    def __add__(self: Operators[SupportsAdd[T, R]], other: Distribution[T] | T) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __add__(self: Operators[T], other: Distribution[SupportsRAdd[T, R]] | SupportsRAdd[T, R]) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __add__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __add__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.add, other)

    @overload
    def __radd__(self: Operators[SupportsRAdd[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __radd__(self: Operators[T], other: SupportsAdd[T, R]) -> Distribution[R]: ...
    @overload
    def __radd__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __radd__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.add, other)

    @overload
    def __sub__(self: Operators[date], other: Any) -> Distribution[Any]: ...
    @overload
    def __sub__(self: Operators[SupportsSub[T, R]], other: Distribution[T] | T) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __sub__(self: Operators[T], other: Distribution[SupportsRSub[T, R]] | SupportsRSub[T, R]) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __sub__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __sub__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.sub, other)

    @overload
    def __rsub__(self: Operators[SupportsRSub[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rsub__(self: Operators[T], other: SupportsSub[T, R]) -> Distribution[R]: ...
    @overload
    def __rsub__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __rsub__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.sub, other)

    @overload
    def __mul__(self: Operators[SupportsMul[T, R]], other: Distribution[T] | T) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __mul__(self: Operators[T], other: Distribution[SupportsRMul[T, R]] | SupportsRMul[T, R]) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __mul__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __mul__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.mul, other)

    @overload
    def __rmul__(self: Operators[SupportsRMul[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rmul__(self: Operators[T], other: SupportsMul[T, R]) -> Distribution[R]: ...
    @overload
    def __rmul__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __rmul__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.mul, other)

    @overload
    def __truediv__(self: Operators[_TrueDiv[T, R]], other: Distribution[T] | T) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __truediv__(self: Operators[T], other: Distribution[_RTrueDiv[T, R]] | _RTrueDiv[T, R]) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __truediv__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __truediv__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.truediv, other)

    @overload
    def __rtruediv__(self: Operators[_RTrueDiv[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rtruediv__(self: Operators[T], other: _TrueDiv[T, R]) -> Distribution[R]: ...
    @overload
    def __rtruediv__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __rtruediv__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.truediv, other)

    @overload
    def __floordiv__(self: Operators[_FloorDiv[T, R]], other: Distribution[T] | T) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __floordiv__(self: Operators[T], other: Distribution[_RFloorDiv[T, R]] | _RFloorDiv[T, R]) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __floordiv__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __floordiv__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.floordiv, other)

    @overload
    def __rfloordiv__(self: Operators[_RFloorDiv[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rfloordiv__(self: Operators[T], other: _FloorDiv[T, R]) -> Distribution[R]: ...
    @overload
    def __rfloordiv__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __rfloordiv__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.floordiv, other)

    @overload
    def __mod__(self: Operators[SupportsMod[T, R]], other: Distribution[T] | T) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __mod__(self: Operators[T], other: Distribution[SupportsRMod[T, R]] | SupportsRMod[T, R]) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __mod__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __mod__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.mod, other)

    @overload
    def __rmod__(self: Operators[SupportsRMod[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rmod__(self: Operators[T], other: SupportsMod[T, R]) -> Distribution[R]: ...
    @overload
    def __rmod__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __rmod__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.mod, other)

    # Only symbols of no type (`Any`) are `Never`. Powers of ints are ints unless the exponent is
    # visibly negative, which typeshed leaves open.
    @overload
    def __pow__(self: Operators[Never], other: Any) -> Distribution[Any]: ...
    @overload
    def __pow__(self: Operators[int], other: Literal[-1, -2, -3]) -> Distribution[float]: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def __pow__(self: Operators[int], other: Distribution[int] | int) -> Distribution[int]: ...
    @overload
    def __pow__(self: Operators[float], other: Distribution[float] | float) -> Distribution[float]: ...  # noqa: E501
    @overload
    def __pow__(self: Operators[_Pow[T, R]], other: Distribution[T] | T) -> Distribution[R]: ...
    @overload
    def __pow__(self: Operators[T], other: Distribution[_RPow[T, R]] | _RPow[T, R]) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __pow__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __pow__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.pow, other)

    @overload
    def __rpow__(self: Operators[Never], other: Any) -> Distribution[Any]: ...
    @overload
    def __rpow__(self: Operators[int], other: int) -> Distribution[int]: ...
    @overload
    def __rpow__(self: Operators[float], other: float) -> Distribution[float]: ...
    @overload
    def __rpow__(self: Operators[_RPow[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rpow__(self: Operators[T], other: _Pow[T, R]) -> Distribution[R]: ...
    @overload
    def __rpow__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __rpow__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.pow, other)

    @overload
    def __and__(self: Operators[_And[T, R]], other: Distribution[T] | T) -> Distribution[R]: ...
    @overload
    def __and__(self: Operators[T], other: Distribution[_RAnd[T, R]] | _RAnd[T, R]) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __and__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __and__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.and_, other)

    @overload
    def __rand__(self: Operators[_RAnd[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rand__(self: Operators[T], other: _And[T, R]) -> Distribution[R]: ...
    @overload
    def __rand__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __rand__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.and_, other)

    @overload
    def __or__(self: Operators[_Or[T, R]], other: Distribution[T] | T) -> Distribution[R]: ...
    @overload
    def __or__(self: Operators[T], other: Distribution[_ROr[T, R]] | _ROr[T, R]) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __or__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __or__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.or_, other)

    @overload
    def __ror__(self: Operators[_ROr[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __ror__(self: Operators[T], other: _Or[T, R]) -> Distribution[R]: ...
    @overload
    def __ror__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __ror__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.or_, other)

    @overload
    def __xor__(self: Operators[_Xor[T, R]], other: Distribution[T] | T) -> Distribution[R]: ...
    @overload
    def __xor__(self: Operators[T], other: Distribution[_RXor[T, R]] | _RXor[T, R]) -> Distribution[R]: ...  # noqa: E501
    @overload
    def __xor__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __xor__(self, other: Any) -> Distribution[Any]:
        return self._binary(operator.xor, other)

    @overload
    def __rxor__(self: Operators[_RXor[T, R]], other: T) -> Distribution[R]: ...
    @overload
    def __rxor__(self: Operators[T], other: _Xor[T, R]) -> Distribution[R]: ...
    @overload
    def __rxor__(self: Operators[Overloaded], other: Any) -> Distribution[Any]: ...
    def __rxor__(self, other: Any) -> Distribution[Any]:
        return self._reflected(operator.xor, other)

    @overload
    def __lt__(self: Operators[SupportsDunderLT[T]], other: Distribution[T] | T) -> Distribution[bool]: ...  # noqa: E501
    @overload
    def __lt__(self: Operators[T], other: Distribution[SupportsDunderGT[T]] | SupportsDunderGT[T]) -> Distribution[bool]: ...  # noqa: E501
    def __lt__(self, other: Any) -> Distribution[bool]:
        return self._binary(operator.lt, other)

    @overload
    def __le__(self: Operators[SupportsDunderLE[T]], other: Distribution[T] | T) -> Distribution[bool]: ...  # noqa: E501
    @overload
    def __le__(self: Operators[T], other: Distribution[SupportsDunderGE[T]] | SupportsDunderGE[T]) -> Distribution[bool]: ...  # noqa: E501
    def __le__(self, other: Any) -> Distribution[bool]:
        return self._binary(operator.le, other)

    @overload
    def __gt__(self: Operators[SupportsDunderGT[T]], other: Distribution[T] | T) -> Distribution[bool]: ...  # noqa: E501
    @overload
    def __gt__(self: Operators[T], other: Distribution[SupportsDunderLT[T]] | SupportsDunderLT[T]) -> Distribution[bool]: ...  # noqa: E501
    def __gt__(self, other: Any) -> Distribution[bool]:
        return self._binary(operator.gt, other)

    @overload
    def __ge__(self: Operators[SupportsDunderGE[T]], other: Distribution[T] | T) -> Distribution[bool]: ...  # noqa: E501
    @overload
    def __ge__(self: Operators[T], other: Distribution[SupportsDunderLE[T]] | SupportsDunderLE[T]) -> Distribution[bool]: ...  # noqa: E501
    def __ge__(self, other: Any) -> Distribution[bool]:
        return self._binary(operator.ge, other)

    # fmt: on
    def __neg__(self: Operators[_Neg[R]]) -> Distribution[R]:
        return self.map(cast("Any", operator.neg))

    def __abs__(self: Operators[SupportsAbs[R]]) -> Distribution[R]:
        return self.map(operator.abs)

    def __eq__(self, other: Any) -> Distribution[bool]:  # type: ignore[override]
        return self._binary(operator.eq, other)

    def __ne__(self, other: Any) -> Distribution[bool]:  # type: ignore[override]
        return self._binary(operator.ne, other)

    def __invert__(self: Operators[_Invert[Any]]) -> Distribution[S_co]:
        return self.map(_invert)

    __hash__ = object.__hash__


def with_right_side(function: Callable[[Any, Any], Any], right: Any, left: Any) -> Any:
    """An operator whose right side is not a distribution."""
    return function(left, right)


def _invert(symbol: Any) -> Any:
    return not symbol if isinstance(symbol, bool) else ~symbol
