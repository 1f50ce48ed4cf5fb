"""Distributions: symbols, their tags for a batch of rows, and a provenance. Immutable."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch

from dolphin.display import html
from dolphin.display.showing import (
    SHOWN,
    Rows,
    first_row,
    row_numbers,
    shown_rows,
)
from dolphin.errors import InputError, listing, shorten, told
from dolphin.execution.eager import eager
from dolphin.execution.selecting import stacked
from dolphin.execution.tagged import Tagged, operands
from dolphin.inputs.arguments import count, flag, items
from dolphin.inputs.checks import Exclusive, Numbers, listed_symbols, symbols_of
from dolphin.inputs.entering import input_of, inputs_of, tags_of
from dolphin.inputs.rows import read_rows as rows_of_input
from dolphin.operators import Operators
from dolphin.provenance.contract import Provenance
from dolphin.provenance.registry import AnyProvenance, resolve
from dolphin.symbolic.plans import RowSymbols, caches
from dolphin.symbolic.surroundings import numbers_are_read
from dolphin.symbolic.symbols import Symbols

S = TypeVar("S", bound=Hashable)
S_co = TypeVar("S_co", bound=Hashable, covariant=True)
_SHOWN_ROWS = 3  # rows in a notebook


class Distribution(Operators[S_co], Generic[S_co]):
    """Symbols with a tag for each of B rows. Gradients flow from results back to `probs`.

    Args:
        probs: probabilities of shape (B, N), or (N,) for a single row; or a
            `torch.distributions.Categorical`, or a `Bernoulli` of shape (B, N), whose symbols
            are independent.
        symbols: N distinct hashable objects.
        exclusive: whether at most one of the symbols holds (True: a classifier's softmax), each
            holds independently (False: a sigmoid per symbol), or which columns exclude each other
            (a list of groups of column numbers; other columns are independent). Exclusive
            probabilities add up to at most 1 per row; the rest is "none of them".
        provenance: the algebra of tags, or its name ("exact"); by default that of the enclosing
            `dolphin.using` block, and `DAMP()` outside such blocks.

    >>> import torch, dolphin as dl
    >>> digits = dl.Distribution(torch.tensor([[0.1, 0.7, 0.2]]), [0, 1, 2])
    >>> total = dl.apply(digits, digits, lambda x, y: x + y)
    >>> total.symbols
    (0, 1, 2, 3, 4)
    >>> total.row(0)
    [(0, 0.01), (1, 0.14), (2, 0.53), (3, 0.28), (4, 0.04)]
    """

    __slots__ = ()

    @eager
    def __init__(
        self,
        probs: Numbers | torch.distributions.Categorical | torch.distributions.Bernoulli,
        symbols: Iterable[S_co],
        *,
        exclusive: Exclusive = True,
        provenance: AnyProvenance | None = None,
    ) -> None:
        self._tagged = input_of("Distribution", probs, symbols, exclusive, "probs", provenance)

    # -- other constructors ------------------------------------------------------------------------

    @classmethod
    @eager
    def from_logits(
        cls,
        logits: Numbers,
        symbols: Iterable[S],
        *,
        exclusive: Exclusive = True,
        provenance: AnyProvenance | None = None,
    ) -> Distribution[S]:
        """From unnormalised scores: log-softmax over exclusive columns, log-sigmoid for others.

        Probabilities never leave log space, so this is numerically the safest constructor. A logit
        of -inf masks a symbol: its probability is 0, and so is its gradient. The other arguments
        are those of `Distribution`.

        >>> import torch, dolphin as dl
        >>> dl.Distribution.from_logits(torch.zeros(1, 4), "abcd").row(0)[0]
        ('a', 0.25)
        """
        operation = "Distribution.from_logits"
        result = input_of(operation, logits, symbols, exclusive, "logits", provenance)
        return Distribution._of(result)

    @classmethod
    @eager
    def from_log_probs(
        cls,
        log_probs: Numbers,
        symbols: Iterable[S],
        *,
        exclusive: Exclusive = True,
        provenance: AnyProvenance | None = None,
    ) -> Distribution[S]:
        """From logarithms of probabilities, as a language model or `log_softmax` gives them.

        They are taken as they are: exclusive symbols may add up to less than 1, and the rest is
        "none of them". -inf is probability 0, with gradient 0.

        >>> import torch, dolphin as dl
        >>> dl.Distribution.from_log_probs(torch.tensor([[0.2, 0.5]]).log(), "ab").row(0)
        [('a', 0.2), ('b', 0.5)]
        """
        operation = "Distribution.from_log_probs"
        result = input_of(operation, log_probs, symbols, exclusive, "log_probs", provenance)
        return Distribution._of(result)

    @classmethod
    @eager
    def each_from_logits(
        cls,
        logits: Numbers,
        symbols: Iterable[S],
        *,
        exclusive: Exclusive = True,
        provenance: AnyProvenance | None = None,
    ) -> list[Distribution[S]]:
        """One distribution per part, from scores of shape (B, parts, symbols).

        The same as `[from_logits(part, symbols) for part in logits.unbind(1)]`, at the cost of one
        of them.

        >>> import torch, dolphin as dl
        >>> left, right = dl.Distribution.each_from_logits(torch.zeros(1, 2, 4), "abcd")
        >>> right.row(0)[0]
        ('a', 0.25)
        """
        operation = "Distribution.each_from_logits"
        each = inputs_of(operation, logits, symbols, exclusive, provenance)
        return [Distribution._of(result) for result in each]

    @classmethod
    @eager
    def certain(
        cls, symbol: S, *, batch: int = 1, provenance: AnyProvenance | None = None
    ) -> Distribution[S]:
        """One symbol with probability 1, in all `batch` rows.

        It can be combined with operands of any provenance; a single row, with any batch size.

        >>> import dolphin as dl
        >>> dl.Distribution.certain("x").row(0)
        [('x', 1.0)]
        """
        algebra = resolve("Distribution.certain", provenance)
        with symbols_of("Distribution.certain"):
            domain = Symbols.of((symbol,))
        return Distribution._of(Tagged(domain, None, algebra, _batch_size(batch), exclusive=True))

    @classmethod
    @eager
    def certain_rows(
        cls, symbols: Iterable[S], *, provenance: AnyProvenance | None = None
    ) -> Distribution[S]:
        """One certain symbol per row: labels, observations, options.

        It can be combined with operands of any provenance.

        >>> import dolphin as dl
        >>> dl.Distribution.certain_rows([3, 5]).argmax()
        [3, 5]
        """
        members = listed_symbols("Distribution.certain_rows", symbols)
        if not members:
            raise InputError("Distribution.certain_rows: got no rows; give one symbol per row.")
        table = caches.current_table()
        with symbols_of("Distribution.certain_rows"):
            domain = RowSymbols(table, table.numbers(members)[:, None])
        algebra = resolve("Distribution.certain_rows", provenance)
        return Distribution._of(Tagged(domain, None, algebra, len(members), exclusive=True))

    @classmethod
    @eager
    def from_rows(
        cls,
        rows: Iterable[tuple[Iterable[S], Any]],
        *,
        exclusive: Exclusive | Sequence[Exclusive] = True,
        provenance: AnyProvenance | None = None,
        logits: bool = False,
        log_probs: bool = False,
    ) -> Distribution[S]:
        """From rows with different symbols: `[(symbols, probabilities), ...]`.

        Args:
            rows: one pair per row: its symbols, and as many numbers.
            exclusive: as for `Distribution`, for all rows, or a list with one entry per row.
            provenance: as for `Distribution`.
            logits: whether the numbers are unnormalised scores, as in `from_logits`.
            log_probs: whether the numbers are log-probabilities, as in `from_log_probs`.

        >>> import dolphin as dl
        >>> d = dl.Distribution.from_rows([(["a", "b"], [0.4, 0.6]), (["c"], [1.0])])
        >>> d.row(0), d.row(1)
        ([('a', 0.4), ('b', 0.6)], [('c', 1.0)])
        """
        algebra = resolve("Distribution.from_rows", provenance)
        flag("Distribution.from_rows", "logits", logits)
        flag("Distribution.from_rows", "log_probs", log_probs)
        if logits and log_probs:
            raise InputError(
                "Distribution.from_rows: numbers are either logits or log_probs; choose one."
            )
        kind = "logits" if logits else "log_probs" if log_probs else "probs"
        parts = rows_of_input(rows, exclusive, caches.current_table(), kind)
        each = [Distribution._of(tags_of(part.given, algebra)) for part in parts]
        if len(each) == 1:
            return each[0]
        order = np.argsort([row for part in parts for row in part.rows])
        return Distribution.stack(each)[order]

    @classmethod
    @eager
    def stack(cls, distributions: Iterable[Distribution[S]]) -> Distribution[S]:
        """Concatenate the rows of several distributions into one batch, in the given order.

        The facts behind them stay the same facts, row by row: `stack([a, b]) == a` is certain in
        the row of a. `d[rows]` is the inverse.

        >>> import dolphin as dl
        >>> parts = [dl.Distribution([0.5, 0.5], "ab"), dl.Distribution([0.1, 0.9], "bc")]
        >>> dl.Distribution.stack(parts).row(1)
        [('b', 0.1), ('c', 0.9)]
        """
        remedy = "Write Distribution.stack([a, b])."
        if isinstance(distributions, Distribution):  # which refuses to be iterated
            raise InputError(f"stack: distributions must be a list, got one of them. {remedy}")
        each = items("stack", "distributions", distributions, remedy)
        return Distribution._of(stacked(operands("stack", each)))

    # -- properties --------------------------------------------------------------------------------

    @property
    def symbols(self) -> tuple[S_co, ...]:
        """The symbols, in order; if rows differ, those of all rows, by first appearance."""
        if not self._tagged.shared:
            numbers_are_read()
        return self._tagged.domain.members

    @property
    def batch_size(self) -> int:
        """The number of rows, B."""
        numbers_are_read()
        return self._tagged.batch

    @property
    def provenance(self) -> Provenance:
        """The algebra of the tags."""
        return self._tagged.provenance

    @property
    def device(self) -> torch.device:
        """The device of the tags."""
        return self._tagged.info().device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the probabilities: that of the inputs."""
        return self._tagged.info().dtype

    def __len__(self) -> int:
        return len(self.symbols)

    @eager
    def __repr__(self) -> str:
        d = self._tagged
        rows = f"{d.batch} row{'s' * (d.batch != 1)}"
        try:
            shown = first_row(d)
        except Exception:  # inspection must not fail, even if tags can't be read
            shown = f"[{listing(self.symbols, SHOWN)}]"
        return f"Distribution({shown}, {rows}, {d.provenance!r})"

    @eager
    def _repr_html_(self) -> str:
        d = self._tagged
        try:
            rows = shown_rows(d, _SHOWN_ROWS)
        except Exception:  # inspection must not fail, even if tags can't be read
            return html.heading(repr(self))
        title = (
            f"{d.batch} row{'s' * (d.batch != 1)}, {len(self.symbols)} symbols, {d.provenance!r}"
        )
        hidden = d.batch - len(rows)
        return html.bars(
            rows, title, f"... {hidden} more row{'s' * (hidden != 1)}" if hidden else ""
        )

    def __bool__(self) -> bool:
        raise InputError(
            "bool(d): a distribution is neither true nor false, so it can't be used in `if`, "
            "`while`, `and`, `or`, `not` or a chained comparison. For a distribution over True and "
            "False write d1 & d2, d1 | d2, ~d; to branch on symbols use dolphin.apply or "
            "dolphin.filter, or dolphin.choose inside a dolphin.program; to read numbers use "
            "d.prob_of(...), d.argmax() or d.probs(); to compare sets of symbols use "
            "d1.symbols == d2.symbols."
        )

    if TYPE_CHECKING:
        __iter__: None  # so that type checkers reject a loop over a distribution
    else:
        __array_ufunc__ = None  # a number of numpy on the left leaves the operator to this class

        def __iter__(self) -> Any:
            raise InputError(
                "iter(d): a distribution can't be iterated; use d.symbols, d.row(i), d.rows() or "
                "d.top(k)."
            )

    # -- rows --------------------------------------------------------------------------------------

    @eager
    def __getitem__(self, rows: Rows) -> Distribution[S_co]:
        """`d[rows]`: those rows, in that order; the inverse of `stack`.

        Args:
            rows: a number (one row), a slice, a list or tensor of numbers, or a mask of B booleans.

        >>> import dolphin as dl
        >>> d = dl.Distribution([[0.3, 0.7], [0.9, 0.1], [0.5, 0.5]], "ab")
        >>> d[1].row(0), d[[2, 0]].batch_size
        ([('a', 0.9), ('b', 0.1)], 2)
        """
        chosen = row_numbers(rows, self.batch_size)
        return Distribution._of(self._tagged.take_rows(chosen))

    @eager
    def rows(self) -> list[Distribution[S_co]]:
        """B distributions of one row each.

        >>> import dolphin as dl
        >>> [d.argmax() for d in dl.Distribution([[0.3, 0.7], [0.9, 0.1]], "ab").rows()]
        [['b'], ['a']]
        """
        return [self[row] for row in range(self.batch_size)]

    @eager
    def to(self, device: torch.device | str) -> Distribution[S_co]:
        """The same distribution on another device, with the same facts; differentiable.

        >>> import dolphin as dl
        >>> dl.Distribution([0.3, 0.7], "ab").to("cpu").row(0)
        [('a', 0.3), ('b', 0.7)]
        """
        try:
            target = torch.device(device)
        except (TypeError, RuntimeError) as error:
            raise InputError(
                f"to: device must be a torch.device or its name, got {shorten(device)}."
            ) from error
        try:
            return self._moved(lambda numbers: numbers.to(target))
        except (AssertionError, NotImplementedError, RuntimeError) as error:  # there is none here
            raise InputError(f"to: can't move to {target}: {told(error)}.") from error

    @eager
    def detach(self) -> Distribution[S_co]:
        """The same distribution without gradients.

        >>> import torch, dolphin as dl
        >>> d = dl.Distribution.from_logits(torch.zeros(1, 2, requires_grad=True), "ab")
        >>> d.probs().requires_grad, d.detach().probs().requires_grad
        (True, False)
        """
        return self._moved(torch.Tensor.detach)

    def _moved(self, move: Any) -> Distribution[S_co]:
        d = self._tagged
        if d.tags is None:
            return self
        return Distribution._of(d.with_tags(d.provenance.moved(d.tags, move)))


distribution_of: Callable[[Tagged], Distribution[Any]] = Distribution._of
"""The result of an operation as a distribution."""


def _batch_size(batch: int) -> int:
    return count("Distribution.certain", "batch", batch)
