"""Methods of a distribution: operations (`d.map(f)` is `dolphin.apply(d, f)`), and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    SupportsFloat,
    SupportsIndex,
    TypeVar,
    overload,
)

import torch
from torch import Tensor

from dolphin.answers.arguments import Added, Comparable, Ordered
from dolphin.answers.events import (
    all_hold,
    how_many_hold,
    largest_of,
    smallest_of,
    some_holds,
    sum_of,
)
from dolphin.answers.evidence import normalised
from dolphin.answers.moments import entropy_of, expectation
from dolphin.display.proofs import Proof, Proofs, proofs_of
from dolphin.display.showing import RAISE, likeliest_symbols, pairs, row_number, row_numbers
from dolphin.execution.batching.operations import negated, read_rows, sampled
from dolphin.execution.eager import eager
from dolphin.execution.profiling import profiled
from dolphin.execution.run import applied, applied_if, filtered, united
from dolphin.execution.selecting import Mask
from dolphin.execution.tagged import Function, Holder, operand
from dolphin.inputs.arguments import count
from dolphin.inputs.checks import closed_world
from dolphin.reading import Match, Targets, prob_of, read
from dolphin.symbolic.chance import Outcome
from dolphin.symbolic.surroundings import numbers_are_read

if TYPE_CHECKING:
    from dolphin.distribution import Distribution

S_co = TypeVar("S_co", bound=Hashable, covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Hashable)
T = TypeVar("T")


class Methods(Holder, Generic[S_co]):
    """What takes one distribution is a method; operations are explained at their functions."""

    __slots__ = ()

    # fmt: off
    @overload
    def apply(self, f: Callable[[S_co], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply(self, d2: Distribution[A], f: Callable[[S_co, A], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply(self, d2: Distribution[A], d3: Distribution[B], f: Callable[[S_co, A, B], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply(self, d2: Distribution[A], d3: Distribution[B], d4: Distribution[C], f: Callable[[S_co, A, B, C], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply(self, d2: Distribution[A], d3: Distribution[B], d4: Distribution[C], d5: Distribution[D], f: Callable[[S_co, A, B, C, D], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply(self, d2: Distribution[A], d3: Distribution[B], d4: Distribution[C], d5: Distribution[D], d6: Distribution[E], f: Callable[[S_co, A, B, C, D, E], Outcome[R]], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply(self, *arguments: *tuple[Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], *tuple[Distribution[Any], ...], Callable[..., Outcome[R]]], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    # fmt: on
    @eager
    def apply(self, *arguments: Any, where: Any = None, cache: bool = True) -> Distribution[Any]:
        """f of every combination of one symbol from each operand: see `dolphin.apply`."""
        return self._of(applied((self, *arguments), where, cache))

    @eager
    def map(
        self,
        function: Callable[[S_co], Outcome[R]],
        *,
        where: Mask | None = None,
        cache: bool = True,
    ) -> Distribution[R]:
        """f of every symbol; equal results are merged: `d.map(f)` is `dolphin.apply(d, f)`."""
        return self._of(applied((self, function), where, cache))

    # fmt: off
    @overload
    def apply_if(self, f: Callable[[S_co], Outcome[R]], cond: Callable[[S_co], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], f: Callable[[S_co, A], Outcome[R]], /, *, on: tuple[Callable[[S_co], Any], Callable[[A], Any]], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], f: Callable[[S_co, A], Outcome[R]], cond: Callable[[S_co, A], bool], /, *, on: tuple[Callable[[S_co], Any], Callable[[A], Any]] | None = None, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], d3: Distribution[B], f: Callable[[S_co, A, B], Outcome[R]], /, *, on: tuple[Callable[[S_co], Any], Callable[[A], Any], Callable[[B], Any]], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], d3: Distribution[B], f: Callable[[S_co, A, B], Outcome[R]], cond: Callable[[S_co, A, B], bool], /, *, on: tuple[Callable[[S_co], Any], Callable[[A], Any], Callable[[B], Any]] | None = None, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], d3: Distribution[B], d4: Distribution[C], f: Callable[[S_co, A, B, C], Outcome[R]], cond: Callable[[S_co, A, B, C], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], d3: Distribution[B], d4: Distribution[C], d5: Distribution[D], f: Callable[[S_co, A, B, C, D], Outcome[R]], cond: Callable[[S_co, A, B, C, D], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, d2: Distribution[A], d3: Distribution[B], d4: Distribution[C], d5: Distribution[D], d6: Distribution[E], f: Callable[[S_co, A, B, C, D, E], Outcome[R]], cond: Callable[[S_co, A, B, C, D, E], bool], /, *, where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    @overload
    def apply_if(self, *arguments: *tuple[Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], Distribution[Any], *tuple[Distribution[Any], ...], Callable[..., Outcome[R]], Callable[..., bool]], where: Mask | None = None, cache: bool = True) -> Distribution[R]: ...  # noqa: E501
    # fmt: on
    @eager
    def apply_if(
        self,
        *arguments: Any,
        on: tuple[Function, ...] | None = None,
        where: Any = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """`apply` where `cond` is true, or where keys are equal: see `dolphin.apply_if`."""
        return self._of(applied_if((self, *arguments), on, where, cache))

    @eager
    def filter(
        self, predicate: Callable[[S_co], bool], *, cache: bool = True
    ) -> Distribution[S_co]:
        """The symbols for which `predicate` is true: see `dolphin.filter`."""
        return self._of(filtered(self, predicate, cache))

    @eager
    def union(self, *others: Distribution[T]) -> Distribution[S_co | T]:
        """All symbols of all operands; the tags of common ones are ⊕-ed: see `dolphin.union`."""
        return self._of(united((self, *others)))

    @overload
    def negate(self, among: None = None) -> Distribution[S_co]: ...
    @overload
    def negate(self, among: Iterable[R]) -> Distribution[R]: ...
    @eager
    def negate(self, among: Iterable[Any] | None = None) -> Distribution[Any]:
        """The probability that each symbol does *not* hold: see `dolphin.negate`."""
        world = None if among is None else closed_world("negate", among)
        return self._of(negated(operand("negate", self), world))

    @eager
    def sample(
        self,
        k: SupportsIndex,
        method: Literal["top", "categorical"] = "top",
        generator: torch.Generator | None = None,
    ) -> Distribution[S_co]:
        """At most k symbols per row, with their tags unchanged: see `dolphin.sample`."""
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
        """Whether some symbol holds for which `predicate` is true: see `dolphin.exists`."""
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
        """Whether `predicate` is true of all symbols that hold: see `dolphin.forall`."""
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
        """How many of the symbols for which `predicate` is true hold: see `dolphin.count`."""
        return self._of(how_many_hold(operand("count", self), predicate, by, cache))

    # fmt: off
    @overload
    def total(self: Methods[Added], value: None = None, *, by: None = None, cache: bool = True) -> Distribution[Added]: ...  # noqa: E501
    @overload
    def total(self: Methods[Added], value: None = None, *, by: Callable[[Added], K], cache: bool = True) -> Distribution[tuple[K, Added]]: ...  # noqa: E501
    @overload
    def total(self, value: Callable[[S_co], Added], *, by: None = None, cache: bool = True) -> Distribution[Added]: ...  # noqa: E501
    @overload
    def total(self, value: Callable[[S_co], Added], *, by: Callable[[S_co], K], cache: bool = True) -> Distribution[tuple[K, Added]]: ...  # noqa: E501
    # fmt: on
    @eager
    def total(
        self,
        value: Callable[[S_co], Any] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """The sum of `value(symbol)` over the symbols that hold: see `dolphin.total`."""
        return self._of(sum_of(operand("total", self), value, by, cache))

    # fmt: off
    @overload
    def maximum(self: Methods[Ordered], key: None = None, *, by: None = None, cache: bool = True) -> Distribution[Ordered | None]: ...  # noqa: E501
    @overload
    def maximum(self: Methods[Ordered], key: None = None, *, by: Callable[[Ordered], K], cache: bool = True) -> Distribution[tuple[K, Ordered | None]]: ...  # noqa: E501
    @overload
    def maximum(self, key: Callable[[S_co], Comparable], *, by: None = None, cache: bool = True) -> Distribution[S_co | None]: ...  # noqa: E501
    @overload
    def maximum(self, key: Callable[[S_co], Comparable], *, by: Callable[[S_co], K], cache: bool = True) -> Distribution[tuple[K, S_co | None]]: ...  # noqa: E501
    # fmt: on
    @eager
    def maximum(
        self,
        key: Callable[[S_co], Any] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """The largest symbol that holds, None if none does: see `dolphin.maximum`."""
        return self._of(largest_of(operand("maximum", self), key, by, cache))

    # fmt: off
    @overload
    def minimum(self: Methods[Ordered], key: None = None, *, by: None = None, cache: bool = True) -> Distribution[Ordered | None]: ...  # noqa: E501
    @overload
    def minimum(self: Methods[Ordered], key: None = None, *, by: Callable[[Ordered], K], cache: bool = True) -> Distribution[tuple[K, Ordered | None]]: ...  # noqa: E501
    @overload
    def minimum(self, key: Callable[[S_co], Comparable], *, by: None = None, cache: bool = True) -> Distribution[S_co | None]: ...  # noqa: E501
    @overload
    def minimum(self, key: Callable[[S_co], Comparable], *, by: Callable[[S_co], K], cache: bool = True) -> Distribution[tuple[K, S_co | None]]: ...  # noqa: E501
    # fmt: on
    @eager
    def minimum(
        self,
        key: Callable[[S_co], Any] | None = None,
        *,
        by: Callable[[S_co], Any] | None = None,
        cache: bool = True,
    ) -> Distribution[Any]:
        """The smallest symbol that holds, None if none does: see `dolphin.minimum`."""
        return self._of(smallest_of(operand("minimum", self), key, by, cache))

    @eager
    def normalized(self) -> Distribution[S_co]:
        """Probabilities divided by their sum, row by row: see `dolphin.normalized`."""
        return self._of(normalised(operand("normalized", self)))

    @overload
    def expected(self: Methods[SupportsFloat]) -> Tensor: ...
    @overload
    def expected(self, value: Callable[[S_co], SupportsFloat]) -> Tensor: ...
    @eager
    def expected(self, value: Callable[[Any], Any] | None = None) -> Tensor:
        """Σ P(symbol) · value(symbol) for each row, (B,): see `dolphin.expected`."""
        return expectation(operand("expected", self), value)

    @eager
    def entropy(self) -> Tensor:
        """-Σ P(symbol) · log P(symbol) for each row, (B,), in nats: see `dolphin.entropy`."""
        return entropy_of(operand("entropy", self))

    # -- numbers -----------------------------------------------------------------------------------

    @eager
    @profiled("probs", tags=True)
    def probs(self, symbols: Iterable[Any] | None = None) -> Tensor:
        """Probabilities (B, N), one column per symbol of `d.symbols`, or of the list given.

        A symbol that a row doesn't have has probability 0. Differentiable.

        >>> import dolphin as dl
        >>> dl.Distribution([0.25, 0.75], "ab").probs(symbols=["b", "z"])
        tensor([[0.7500, 0.0000]])
        """
        return read(self._tagged, "probs", symbols, logs=False)

    @eager
    @profiled("log_probs", tags=True)
    def log_probs(self, symbols: Iterable[Any] | None = None) -> Tensor:
        """Log-probabilities (B, N), for `F.nll_loss` or `F.cross_entropy`; columns as in `probs`.

        Differentiable, and computed in log space, so nothing underflows. Symbols that nothing
        derives, or that are derived from logits of -inf only, get -1e4 rather than -inf, which
        keeps losses finite. A fact given as probability 0 counts as 1e-30 (1e-290 in double
        precision).

        >>> import dolphin as dl
        >>> dl.Distribution([0.25, 0.75], "ab").log_probs()
        tensor([[-1.3863, -0.2877]])
        """
        return read(self._tagged, "log_probs", symbols, logs=True)

    @eager
    @profiled("prob_of", tags=True)
    def prob_of(self, targets: Targets, match: Match | None = None) -> Tensor:
        """The probability (B,) of each row's target, differentiable; 0 if the row can't reach it.

        `match(symbol, target)` decides what counts, for example `math.isclose`; the tags of all
        symbols that match are ⊕-ed.

        >>> import dolphin as dl
        >>> dl.Distribution([[0.3, 0.7], [0.9, 0.1]], "ab").prob_of(["a", "z"])
        tensor([0.3000, 0.0000])
        """
        return prob_of(self._tagged, "prob_of", targets, match)

    @overload
    def argmax(self) -> list[S_co]: ...
    @overload
    def argmax(self, *, default: T) -> list[S_co | T]: ...
    @eager
    @profiled("argmax", tags=True)
    def argmax(self, *, default: Any = RAISE) -> list[Any]:
        """The likeliest symbol of each row; no gradients.

        A row without any symbol has `default` instead; without a default it is an error.

        >>> import dolphin as dl
        >>> dl.Distribution([[0.3, 0.7], [0.9, 0.1]], "ab").argmax()
        ['b', 'a']
        """
        return read_rows("argmax", partial(likeliest_symbols, default), self._tagged, id(default))

    @eager
    def row(self, row: int) -> list[tuple[S_co, float]]:
        """The symbols of one row and their probabilities, rounded to six digits for inspection.

        >>> import dolphin as dl
        >>> dl.Distribution([[0.3, 0.7], [0.9, 0.1]], "ab").row(1)
        [('a', 0.9), ('b', 0.1)]
        """
        numbers_are_read()
        d = self._tagged
        chosen = row_numbers(row_number("row", row, d.batch), d.batch)
        return read_rows("row", pairs, d if d.batch == 1 else d.take_rows(chosen), None)[0]

    @eager
    def top(self, k: int = 5) -> list[list[tuple[S_co, float]]]:
        """The k likeliest symbols of every row, likeliest first.

        >>> import dolphin as dl
        >>> dl.Distribution([[0.2, 0.5, 0.3]], "abc").top(2)
        [[('b', 0.5), ('c', 0.3)]]
        """
        k = count("top", "k", k, least=0)
        rows = read_rows("top", pairs, self._tagged, None)
        return [sorted(row, key=lambda pair: -pair[1])[:k] for row in rows]

    @eager
    def explain(self, symbol: Any, row: int = 0) -> Proofs:
        """The proofs behind a symbol, likeliest first, as facts with probabilities.

        Under `dtkp-*` these are the proofs that were kept, under `exact` the ten likeliest, under
        `viterbi` the likeliest one (the inputs must require gradients). The result is a list;
        `print` shows it as a tree, and a notebook draws it.
        `dolphin.draw(program, ...).explain(symbol, row)` shows how the symbol follows from these
        facts, operation by operation.

        >>> import dolphin as dl
        >>> d = dl.Distribution([0.5, 0.5], [0, 1], provenance=dl.TopKProofs(k=3))
        >>> for proof in dl.apply(d, lambda x: x > 0).explain(True):
        ...     print(proof)
        Proof(probability=0.5, facts=(Fact(symbol=1, probability=0.5, holds=True, source=''),))
        """
        proofs = proofs_of(self._tagged, symbol, row)
        return Proofs([Proof(p, tuple(facts.values())) for p, facts in proofs], symbol)
