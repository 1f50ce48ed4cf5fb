"""The methods of a distribution that are operations, too: `d.map(f)` is `dolphin.apply(d, f)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import torch

from dolphin.answering import (
    all_hold,
    how_many_hold,
    largest_of,
    smallest_of,
    some_holds,
    sum_of,
)
from dolphin.execution.batching import negated, sampled
from dolphin.execution.eager import eager
from dolphin.execution.run import applied, applied_if, filtered, united
from dolphin.execution.selecting import Mask
from dolphin.execution.tagged import Function, Holder, operand
from dolphin.inference import normalised
from dolphin.inputs.checks import asked_symbols
from dolphin.moments import entropy_of, expectation

if TYPE_CHECKING:
    from dolphin.distribution import Distribution

S_co = TypeVar("S_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
K = TypeVar("K")
R = TypeVar("R")
T = TypeVar("T")
V = TypeVar("V")


class Methods(Holder, Generic[S_co]):
    """What takes one distribution is a method and a function; the function has the explanation."""

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
        world = None if among is None else asked_symbols("negate", among)
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

    # fmt: off
    @overload
    def exists(self, predicate: Callable[[S_co], bool] | None = None, *, by: None = None, cache: bool = True) -> Distribution[bool]: ...  # noqa: E501
    @overload
    def exists(self, predicate: Callable[[S_co], bool] | None = None, *, by: Callable[[S_co], K], cache: bool = True) -> Distribution[tuple[K, bool]]: ...  # noqa: E501
    # fmt: on
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

    # fmt: off
    @overload
    def forall(self, predicate: Callable[[S_co], bool], *, by: None = None, cache: bool = True) -> Distribution[bool]: ...  # noqa: E501
    @overload
    def forall(self, predicate: Callable[[S_co], bool], *, by: Callable[[S_co], K], cache: bool = True) -> Distribution[tuple[K, bool]]: ...  # noqa: E501
    # fmt: on
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

    # fmt: off
    @overload
    def count(self, predicate: Callable[[S_co], bool] | None = None, *, by: None = None, cache: bool = True) -> Distribution[int]: ...  # noqa: E501
    @overload
    def count(self, predicate: Callable[[S_co], bool] | None = None, *, by: Callable[[S_co], K], cache: bool = True) -> Distribution[tuple[K, int]]: ...  # noqa: E501
    # fmt: on
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

    # fmt: off
    @overload
    def total(self, value: None = None, *, by: None = None, cache: bool = True) -> Distribution[S_co]: ...  # noqa: E501
    @overload
    def total(self, value: None = None, *, by: Callable[[S_co], K], cache: bool = True) -> Distribution[tuple[K, S_co]]: ...  # noqa: E501
    @overload
    def total(self, value: Callable[[S_co], V], *, by: None = None, cache: bool = True) -> Distribution[V]: ...  # noqa: E501
    @overload
    def total(self, value: Callable[[S_co], V], *, by: Callable[[S_co], K], cache: bool = True) -> Distribution[tuple[K, V]]: ...  # noqa: E501
    # fmt: on
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

    # fmt: off
    @overload
    def maximum(self, key: Callable[[S_co], Any] | None = None, *, by: None = None, cache: bool = True) -> Distribution[S_co | None]: ...  # noqa: E501
    @overload
    def maximum(self, key: Callable[[S_co], Any] | None = None, *, by: Callable[[S_co], K], cache: bool = True) -> Distribution[tuple[K, S_co | None]]: ...  # noqa: E501
    # fmt: on
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

    # fmt: off
    @overload
    def minimum(self, key: Callable[[S_co], Any] | None = None, *, by: None = None, cache: bool = True) -> Distribution[S_co | None]: ...  # noqa: E501
    @overload
    def minimum(self, key: Callable[[S_co], Any] | None = None, *, by: Callable[[S_co], K], cache: bool = True) -> Distribution[tuple[K, S_co | None]]: ...  # noqa: E501
    # fmt: on
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

    @eager
    def normalized(self) -> Distribution[S_co]:
        """`d.normalized()`: see `dolphin.normalized`."""
        return self._of(normalised(operand("normalized", self)))

    @eager
    def expected(self, value: Callable[[S_co], float] | None = None) -> torch.Tensor:
        """`d.expected(value)`: see `dolphin.expected`."""
        return expectation(operand("expected", self), value)

    @eager
    def entropy(self) -> torch.Tensor:
        """`d.entropy()`: see `dolphin.entropy`."""
        return entropy_of(operand("entropy", self))
