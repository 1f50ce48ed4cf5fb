"""Inference from evidence: conditions, posteriors, and the likeliest explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat, TypeVar, overload

from torch import Tensor

from dolphin.answers.evidence import (
    conditioned,
    likeliest_choices,
    normalised,
    posteriors,
)
from dolphin.answers.moments import entropy_of, expectation
from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import InputError, shorten
from dolphin.execution.eager import eager
from dolphin.execution.tagged import Tagged, operand, operands
from dolphin.reading import Targets

S = TypeVar("S")


@eager
def condition(distribution: Distribution[S], event: Distribution[bool]) -> Distribution[S]:
    """`distribution`, given that `event` is true: P(symbol and True) / P(True).

    In a row where the event can't hold, every symbol has probability 0. The result is a new input:
    it keeps the symbols, and which of them exclude each other (all of them, or the groups of an
    input), but no longer knows which facts they came from.

    Under algebras whose tags are numbers this needs an autograd graph (see `posterior`), and
    `distribution` must be what the event was computed from, or independent of it.

    A quotient's gradient is a difference of numbers as large as 1 / P(True): rounding leaves an
    error of about 1e-14 / P(True) in double precision, 1e-5 / P(True) in single precision.

    Args:
        distribution: the symbols that are asked about.
        event: a distribution over True and False, as comparisons and `exists` give them.

    >>> import dolphin as dl
    >>> a, b = (dl.Distribution([0.5, 0.3, 0.2], [0, 1, 2], provenance="exact") for _ in "ab")
    >>> dl.condition(a, a + b == 3).row(0)
    [(0, 0.0), (1, 0.5), (2, 0.5)]
    """
    d, given = operands("condition", (distribution, event))
    return distribution_of(conditioned(d, given))


@eager
def normalized(distribution: Distribution[S]) -> Distribution[S]:
    """Probabilities divided by their sum, row by row: P(symbol), given that one of them holds.

    A row in which no symbol is possible stays as it is: all probabilities are 0, or too small to be
    told from 0 (1e-287 in double, 1e-27 in single precision). Log-probabilities that a distribution
    was made from may be smaller. The result is a new exclusive input, and differentiable.

    Args:
        distribution: in either layout.

    >>> import dolphin as dl
    >>> dl.normalized(dl.Distribution([0.2, 0.3], "ab")).row(0)
    [('a', 0.4), ('b', 0.6)]
    """
    return distribution_of(normalised(operand("normalized", distribution)))


@overload
def expected(distribution: Distribution[SupportsFloat]) -> Tensor: ...
@overload
def expected(distribution: Distribution[S], value: Callable[[S], SupportsFloat]) -> Tensor: ...
@eager
def expected(distribution: Distribution[Any], value: Callable[[Any], Any] | None = None) -> Tensor:
    """Σ P(symbol) · value(symbol) for each row, (B,), differentiable.

    Probabilities that add up to less than 1 are not rescaled; for a mean over the symbols of the
    row use `d.normalized().expected()`. `value` is not differentiated.

    Args:
        distribution: in either layout.
        value: a number for each symbol; by default the symbol itself.

    >>> import dolphin as dl
    >>> dl.expected(dl.Distribution([[0.5, 0.5], [0.1, 0.9]], [0, 10]))
    tensor([5., 9.])
    """
    return expectation(operand("expected", distribution), value)


@eager
def entropy(distribution: Distribution[Any]) -> Tensor:
    """-Σ P(symbol) · log P(symbol) for each row, (B,), in nats, differentiable.

    This is the entropy of the distribution if its probabilities add up to 1 (see `d.normalized()`).
    A symbol of probability 0 adds nothing.

    Args:
        distribution: in either layout.

    >>> import dolphin as dl
    >>> dl.entropy(dl.Distribution([[0.5, 0.5], [1.0, 0.0]], "ab"))
    tensor([0.6931, 0.0000])
    """
    return entropy_of(operand("entropy", distribution))


@eager
def posterior(
    inputs: Sequence[Distribution[Any]],
    result: Distribution[Any],
    targets: Targets,
) -> list[Tensor]:
    """For each input, the probabilities (B, N) of its symbols, given that the result is the target.

    A row that can't reach its target has probability 0 throughout. Exact where the provenance is.
    Under `exact` and `dtkp-*` it is differentiable. Under algebras whose tags are numbers it is one
    backward pass, so the inputs must require gradients.

    Args:
        inputs: the distributions that the result was computed from (or intermediate ones).
        result: the output of the program.
        targets: one symbol per row of the result.

    >>> import dolphin as dl
    >>> a, b = (dl.Distribution([0.5, 0.3, 0.2], [0, 1, 2], provenance="exact") for _ in "ab")
    >>> dl.posterior([a, b], a + b, [3])
    [tensor([[0.0000, 0.5000, 0.5000]]), tensor([[0.0000, 0.5000, 0.5000]])]
    """
    return posteriors(*_checked("posterior", inputs, result), targets)


@eager
def most_likely(
    inputs: Sequence[Distribution[Any]],
    result: Distribution[Any],
    targets: Targets,
) -> list[tuple[Any, ...] | None]:
    """For each row, the likeliest choice of the inputs' symbols that makes the result the target.

    A tuple with one entry per input, or None if there is no such choice: for an exclusive input its
    symbol (None if "none of them" is likelier), for others the tuple of the symbols that hold.
    Under `exact` it is the likeliest of all worlds. Under `dtkp-*` and `viterbi` it is the
    likeliest of the proofs that were kept, and inputs that it doesn't mention take their own
    likeliest symbol. The result has no gradients.

    Args:
        inputs: as for `posterior`.
        result: as for `posterior`.
        targets: as for `posterior`.

    >>> import dolphin as dl
    >>> a, b = (dl.Distribution([0.5, 0.3, 0.2], [0, 1, 2], provenance="exact") for _ in "ab")
    >>> dl.most_likely([a, b], a + b, [2]), dl.most_likely([a, b], a + b, [7])
    ([(0, 2)], [None])
    """
    return likeliest_choices(*_checked("most_likely", inputs, result), targets)


def _checked(operation: str, inputs: Any, result: Any) -> tuple[list[Tagged], Tagged]:
    """The inputs and the result, checked."""
    if isinstance(inputs, Distribution) or not isinstance(inputs, (list, tuple)):
        raise InputError(
            f"{operation}: inputs must be a list of distributions, got {shorten(inputs)}. Write "
            f"{operation}([d1, d2], result, targets)."
        )
    *given, outcome = operands(operation, (*inputs, result))
    if not given:
        raise InputError(f"{operation}: got no inputs.")
    return given, outcome
