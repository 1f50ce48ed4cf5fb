"""Distributions: symbols, their tags for a batch of rows, and a provenance. Immutable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from dolphin import inputs
from dolphin.arguments import operands
from dolphin.errors import InputError, listing, shorten
from dolphin.execution.batching import read_rows, settle
from dolphin.execution.deferred import Deferred
from dolphin.execution.eager import eager
from dolphin.execution.pending import Node, Pending, Waiting, collecting
from dolphin.execution.profiling import profiled
from dolphin.execution.selecting import stacked
from dolphin.execution.tagged import Tagged
from dolphin.inputs import Exclusive, Given, Kind
from dolphin.operators import Operators
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.provenance.registry import AnyProvenance, resolve
from dolphin.reading import Match, prob_of, read
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import RowSymbols, caches
from dolphin.symbolic.symbols import Symbols

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
Rows = int | slice | Sequence[int] | Sequence[bool] | Tensor | np.ndarray

_RAISE: Any = object()
_SHOWN = 5  # symbols in a repr


class Fact(NamedTuple):
    """One symbol of an input, as part of a proof."""

    symbol: Any
    probability: float
    holds: bool = True


class Proof(NamedTuple):
    """Facts that together are enough to derive a symbol."""

    probability: float
    facts: tuple[Fact, ...]


class Distribution(Operators[S_co], Generic[S_co]):
    """Symbols with a tag for each of B rows.

    Args:
        probs: probabilities of shape (B, N), or (N,) for a single row; or a
            `torch.distributions.Categorical`, or a `Bernoulli` of shape (B, N), whose symbols
            hold each on its own.
        symbols: N distinct hashable objects.
        exclusive: whether at most one of the symbols holds (True: a classifier's softmax), each
            holds on its own (False: a sigmoid per symbol), or which columns exclude each other
            (a list of groups of column numbers; other columns are on their own). Exclusive
            probabilities add up to at most 1 per row; what is missing is "none of them".
        provenance: the algebra of tags, or its name ("exact"); by default that of the enclosing
            `dolphin.using` block, and `DAMP()` outside of any.

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
        probs: Any,
        symbols: Iterable[S_co],
        *,
        exclusive: Exclusive = True,
        provenance: AnyProvenance | None = None,
    ) -> None:
        self._tagged = _input("Distribution", probs, symbols, exclusive, "probs", provenance)

    # -- other ways to make one --------------------------------------------------------------------

    @classmethod
    @eager
    def from_logits(
        cls,
        logits: Any,
        symbols: Iterable[S],
        *,
        exclusive: Exclusive = True,
        provenance: AnyProvenance | None = None,
    ) -> Distribution[S]:
        """From unnormalised scores: log-softmax over exclusive columns, log-sigmoid for others.

        Probabilities never leave log space, so this is the safest way in. A logit of -inf masks a
        symbol: its probability is 0, and so is its gradient.

        >>> import torch, dolphin as dl
        >>> dl.Distribution.from_logits(torch.zeros(1, 4), "abcd").row(0)[0]
        ('a', 0.25)
        """
        operation = "Distribution.from_logits"
        made = _input(operation, logits, symbols, exclusive, "logits", provenance)
        return Distribution._of(made)

    @classmethod
    @eager
    def from_log_probs(
        cls,
        log_probs: Any,
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
        made = _input(operation, log_probs, symbols, exclusive, "log_probs", provenance)
        return Distribution._of(made)

    @classmethod
    @eager
    def each_from_logits(
        cls,
        logits: Any,
        symbols: Iterable[S],
        *,
        exclusive: Exclusive = True,
        provenance: AnyProvenance | None = None,
    ) -> list[Distribution[S]]:
        """One distribution for each of N places, from scores (B, N, symbols).

        The same as `[from_logits(place, symbols) for place in logits.unbind(1)]`, at the cost of
        one of them.

        >>> import torch, dolphin as dl
        >>> left, right = dl.Distribution.each_from_logits(torch.zeros(1, 2, 4), "abcd")
        >>> right.row(0)[0]
        ('a', 0.25)
        """
        operation = "Distribution.each_from_logits"
        algebra = resolve(operation, provenance)
        each = inputs.read_each(operation, logits, symbols, exclusive)
        return [Distribution._of(_tags_of(given, algebra)) for given in each]

    @classmethod
    @eager
    def certain(
        cls, symbol: S, *, batch: int = 1, provenance: AnyProvenance | None = None
    ) -> Distribution[S]:
        """One symbol with probability one, in every row. Fits operands of any provenance.

        >>> import dolphin as dl
        >>> dl.Distribution.certain("x").row(0)
        [('x', 1.0)]
        """
        algebra = resolve("Distribution.certain", provenance)
        domain = Symbols.of((symbol,))
        return Distribution._of(Tagged(domain, None, algebra, _batch_size(batch), exclusive=True))

    @classmethod
    @eager
    def certain_rows(
        cls, symbols: Iterable[S], *, provenance: AnyProvenance | None = None
    ) -> Distribution[S]:
        """One certain symbol per row: labels, observations, options. Fits any provenance.

        >>> import dolphin as dl
        >>> dl.Distribution.certain_rows([3, 5]).argmax()
        [3, 5]
        """
        members = symbols.tolist() if isinstance(symbols, (Tensor, np.ndarray)) else list(symbols)
        if not members:
            raise InputError("Distribution.certain_rows: got no rows; give one symbol per row.")
        table = caches.current_table()
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
        """Symbols of their own for every row: `[(symbols, probabilities), ...]`.

        Args:
            exclusive: as for `Distribution`, for all rows, or a list with one entry per row.
            logits: the numbers are unnormalised scores, as in `from_logits`.
            log_probs: the numbers are logarithms of probabilities, as in `from_log_probs`.

        >>> import dolphin as dl
        >>> d = dl.Distribution.from_rows([(["a", "b"], [0.4, 0.6]), (["c"], [1.0])])
        >>> d.row(0), d.row(1)
        ([('a', 0.4), ('b', 0.6)], [('c', 1.0)])
        """
        algebra = resolve("Distribution.from_rows", provenance)
        if logits and log_probs:
            raise InputError(
                "Distribution.from_rows: numbers are either logits or log_probs; choose one."
            )
        kind = "logits" if logits else "log_probs" if log_probs else "probs"
        parts = inputs.read_rows(rows, exclusive, caches.current_table(), kind)
        each = [Distribution._of(_tags_of(part.given, algebra)) for part in parts]
        if len(each) == 1:
            return each[0]
        order = np.argsort([row for part in parts for row in part.rows])
        return Distribution.stack(each)[order]

    @classmethod
    @eager
    def stack(cls, distributions: Iterable[Distribution[S]]) -> Distribution[S]:
        """Distributions of some rows each as one batch, in the given order.

        The facts behind them stay the same facts, row by row: `stack([a, b]) == a` is certain in
        the row of a. `d[rows]` is the way back.

        >>> import dolphin as dl
        >>> parts = [dl.Distribution([0.5, 0.5], "ab"), dl.Distribution([0.1, 0.9], "bc")]
        >>> dl.Distribution.stack(parts).row(1)
        [('b', 0.1), ('c', 0.9)]
        """
        return Distribution._of(stacked(operands("stack", list(distributions))))

    # -- what it is --------------------------------------------------------------------------------

    @property
    def symbols(self) -> tuple[S_co, ...]:
        """The symbols, in order; of all rows by first appearance, where rows have their own."""
        return self._tagged.domain.members

    @property
    def batch_size(self) -> int:
        """The number of rows, B."""
        return self._tagged.batch

    @property
    def provenance(self) -> Provenance:
        """The algebra of the tags."""
        return self._tagged.provenance

    @property
    def device(self) -> torch.device:
        """Where the tags are."""
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
            shown = _first_row(d)
        except Exception:  # for inspection, also of what can't be read
            shown = f"[{listing(self.symbols, _SHOWN)}]"
        return f"Distribution({shown}, {rows}, {d.provenance!r})"

    def __bool__(self) -> bool:
        raise InputError(
            "bool(d): a distribution is neither true nor false, so it can't be used in `if`, "
            "`while`, `and`, `or`, `not` or a chained comparison. For a distribution over True and "
            "False write d1 & d2, d1 | d2, ~d; to branch on symbols use dolphin.apply or "
            "dolphin.filter; to read numbers use d.prob_of(...), d.argmax() or "
            "d.probs(); to compare sets of symbols use d1.symbols == d2.symbols."
        )

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
        chosen = _rows_of(rows, self.batch_size)
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
        """The same distribution on another device, facts and all; differentiable."""
        return self._moved(lambda numbers: numbers.to(device))

    @eager
    def detach(self) -> Distribution[S_co]:
        """The same distribution without gradients."""
        return self._moved(torch.Tensor.detach)

    def _moved(self, move: Any) -> Distribution[S_co]:
        d = self._tagged
        if d.tags is None:
            return self
        return Distribution._of(d.replaced(d.domain, d.provenance.moved(d.tags, move)))

    # -- numbers -----------------------------------------------------------------------------------

    @eager
    @profiled("probs", tags=True)
    def probs(self, symbols: Iterable[Any] | None = None) -> Tensor:
        """Probabilities (B, N), one column per symbol of `d.symbols`, or of the list given.

        A symbol that a row doesn't have has probability 0.

        >>> import dolphin as dl
        >>> dl.Distribution([0.25, 0.75], "ab").probs(symbols=["b", "z"])
        tensor([[0.7500, 0.0000]])
        """
        return read(self._tagged, "probs", symbols, logs=False)

    @eager
    @profiled("log_probs", tags=True)
    def log_probs(self, symbols: Iterable[Any] | None = None) -> Tensor:
        """Log-probabilities (B, N), for `F.nll_loss` or `F.cross_entropy`; columns as in `probs`.

        They are computed in log space, so nothing underflows. Impossible symbols get -1e4 rather
        than -inf, which keeps losses finite.

        >>> import dolphin as dl
        >>> dl.Distribution([0.25, 0.75], "ab").log_probs()
        tensor([[-1.3863, -0.2877]])
        """
        return read(self._tagged, "log_probs", symbols, logs=True)

    @eager
    @profiled("prob_of", tags=True)
    def prob_of(self, targets: Sequence[Any] | Tensor, match: Match | None = None) -> Tensor:
        """The probability (B,) of each row's target; 0 where the row can't reach it.

        `match(symbol, target)` decides what counts, for example `math.isclose`; the tags of all
        symbols that match are ⊕-ed.

        >>> import dolphin as dl
        >>> dl.Distribution([[0.3, 0.7], [0.9, 0.1]], "ab").prob_of(["a", "z"])
        tensor([0.3000, 0.0000])
        """
        return prob_of(self._tagged, "prob_of", targets, match)

    @eager
    @profiled("argmax", tags=True)
    def argmax(self, default: Any = _RAISE) -> list[Any]:
        """The likeliest symbol of each row; `default` for a row without any.

        >>> import dolphin as dl
        >>> dl.Distribution([[0.3, 0.7], [0.9, 0.1]], "ab").argmax()
        ['b', 'a']
        """
        return read_rows("argmax", partial(_likeliest, default), self._tagged, id(default))

    @eager
    def row(self, row: int) -> list[tuple[S_co, float]]:
        """What one row holds: `[(symbol, probability), ...]`, in the order of the symbols."""
        row = _row_number("row", row, self.batch_size)
        d = self._tagged if self.batch_size == 1 else self[row]._tagged
        return read_rows("row", _pairs, d, None)[0]

    @eager
    def top(self, k: int = 5) -> list[list[tuple[S_co, float]]]:
        """The k likeliest symbols of every row, likeliest first.

        >>> import dolphin as dl
        >>> dl.Distribution([[0.2, 0.5, 0.3]], "abc").top(2)
        [[('b', 0.5), ('c', 0.3)]]
        """
        rows = read_rows("top", _pairs, self._tagged, None)
        return [sorted(row, key=lambda pair: -pair[1])[:k] for row in rows]

    @eager
    def explain(self, symbol: Any, row: int = 0) -> list[Proof]:
        """The proofs behind a symbol, likeliest first, as facts with probabilities.

        >>> import dolphin as dl
        >>> d = dl.Distribution([0.5, 0.5], [0, 1], provenance=dl.TopKProofs(k=3))
        >>> for proof in dl.apply(d, lambda x: x > 0).explain(True):
        ...     print(proof)
        Proof(probability=0.5, facts=(Fact(symbol=1, probability=0.5, holds=True),))
        """
        d = self._tagged
        row = _row_number("explain", row, d.batch)
        members = Symbols.of(_members(d, row))
        place = members.index_of(symbol)
        if place < 0:
            raise InputError(
                f"explain: {shorten(symbol)} is not among the symbols of row {row}: "
                f"{listing(members)}."
            )
        if not d.shared:
            place += row * d.width
        proofs = d.provenance.proofs(d.tags_like(), place, row)
        return [
            Proof(_rounded(p), tuple(Fact(s, _rounded(prob), holds) for s, holds, prob in facts))
            for p, facts in proofs
        ]


def _likeliest(default: Any, d: Tagged, _: Sequence[None]) -> list[Any]:
    """The likeliest symbol of each row."""
    domain = d.domain
    best = np.zeros(d.batch, dtype=np.int64)
    empty = np.full(d.batch, d.width == 0)
    if d.width:
        ranking = d.in_rows(d.provenance.ranking(d.tags_like()))
        if isinstance(domain, RowSymbols):
            absent = domain.numbers == ABSENT
            empty = absent.all(1)
            mask = torch.from_numpy(absent).to(ranking.device)
            ranking = ranking.masked_fill(mask, -torch.inf)
        best = ranking.argmax(1).cpu().numpy()
    if empty.any() and default is _RAISE:
        raise InputError(
            f"argmax: row {int(empty.argmax())} has no symbols, because every combination was "
            "filtered away. Pass argmax(default=...) to get that instead, or loosen the "
            "condition."
        )
    return [
        default if nothing else _symbol_at(domain, row, place)
        for row, (place, nothing) in enumerate(zip(best.tolist(), empty, strict=True))
    ]


def _pairs(d: Tagged, _: Sequence[None]) -> list[list[tuple[Any, float]]]:
    """Symbols with their probabilities, row by row."""
    with torch.no_grad():
        numbers = d.in_rows(d.provenance.probs(d.tags_like())).tolist()
    return [
        [(symbol, _rounded(p)) for symbol, p in zip(_members(d, row), probs, strict=False)]
        for row, probs in enumerate(numbers)
    ]


def distribution_of(tagged: Tagged) -> Distribution[Any]:
    """The distribution of what an operation made."""
    return Distribution._of(tagged)


def _input(
    operation: str,
    numbers: Any,
    symbols: Any,
    exclusive: Exclusive,
    kind: Kind,
    provenance: AnyProvenance | None,
) -> Tagged:
    """A user's input; of one sample among many, together with those of the others."""
    algebra = resolve(operation, provenance)
    agenda = collecting()
    if agenda is not None and inputs.is_one_row(numbers):
        return _input_of_sample(agenda, operation, numbers, symbols, exclusive, kind, algebra)
    return _tags_of(inputs.read(operation, numbers, symbols, exclusive, kind), algebra)


def _input_of_sample(
    agenda: Waiting,
    operation: str,
    row: Tensor,
    symbols: Any,
    exclusive: Exclusive,
    kind: Kind,
    algebra: Provenance,
) -> Tagged:
    row = row if row.dim() == 1 else row[0]
    members, groups = inputs.read_columns(operation, row, symbols, exclusive, kind)
    info = TagInfo(row.device, 1, inputs.precision(row))
    whole = exclusive if isinstance(exclusive, bool) else groups

    def run(nodes: Sequence[Node]) -> None:
        rows = torch.stack([_unchanged(operation, *node.payload) for node in nodes])
        settle(nodes, _tags_of(inputs.read(operation, rows, members, whole, kind), algebra))

    key = (algebra, info.device, row.dtype, members, whole, kind)
    version = None if row.is_inference() else row._version
    node = Node(agenda, operation, key, run, (), (row.clone() if version is None else row, version))
    return Pending(node, algebra, info, domain=members, exclusive=len(groups) == 1)


def _unchanged(operation: str, row: Tensor, version: int | None) -> Tensor:
    if version is not None and row._version != version:
        raise InputError(
            f"{operation}: the numbers were changed in place after they were given. Inside "
            "dolphin.batched they are read later; give a copy, numbers.clone()."
        )
    return row


def _tags_of(given: Given, algebra: Provenance) -> Tagged:
    tags = algebra.from_facts(given.facts)
    if not isinstance(given.symbols, Symbols):
        tags = algebra.flatten(tags, given.batch)
    return Tagged(
        given.symbols,
        tags,
        algebra,
        given.batch,
        exclusive=given.exclusive,
        groups=given.facts.groups,
    )


def _members(d: Tagged, row: int) -> Sequence[Any]:
    """The symbols of a row."""
    return d.domain.members if isinstance(d.domain, Symbols) else d.domain.row(row)


def _symbol_at(domain: Symbols | RowSymbols, row: int, place: int) -> Any:
    if isinstance(domain, Symbols):
        return domain[place]
    return domain.table.symbols[domain.numbers[row, place]]


def _first_row(d: Tagged) -> str:
    """The likeliest symbols of the first row, with numbers where they are at hand."""
    members = list(_members(d, 0))
    tags = d.made.compute() if isinstance(d.made, Deferred) else d.tags_like()
    numbers = d.provenance.glance(tags)
    if numbers is None:
        return f"[{listing(members, _SHOWN)}]"
    probs = d.in_rows(numbers)[0].tolist()
    pairs = sorted(zip(members, probs, strict=False), key=lambda pair: -pair[1])
    shown = [f"{shorten(symbol, 40)}: {p:.3g}" for symbol, p in pairs[:_SHOWN]]
    more = [f"... {len(members)} symbols"] if len(members) > _SHOWN else []
    return "{" + ", ".join(shown + more) + "}"


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")


def _batch_size(batch: int) -> int:
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        raise InputError(f"Distribution.certain: batch must be a positive integer, got {batch!r}.")
    return batch


def _row_number(operation: str, row: int, batch: int) -> int:
    if not -batch <= row < batch:
        raise InputError(f"{operation}: row {row} of a distribution with {batch} rows.")
    return row % batch


def _rows_of(rows: Rows, batch: int) -> np.ndarray:
    """The numbers of the rows that are meant, checked."""
    if isinstance(rows, slice):
        chosen = np.arange(batch)[rows]
    else:
        given = rows.cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows)
        if given.ndim > 1 or (given.size and given.dtype.kind not in "biu"):
            raise InputError(
                f"d[rows]: rows must be a number, a slice, a list of numbers or a mask of {batch} "
                f"booleans, got {shorten(rows)}. To look symbols up use d.probs(symbols=[...])."
            )
        if given.dtype.kind == "b":
            if given.shape != (batch,):
                raise InputError(f"d[mask]: a mask of shape {given.shape} for {batch} rows.")
            given = np.flatnonzero(given)
        chosen = np.atleast_1d(given).astype(np.int64)
    outside = chosen[(chosen < -batch) | (chosen >= batch)]
    if len(outside):
        raise InputError(f"d[rows]: row {outside[0]} of a distribution with {batch} rows.")
    if not len(chosen):
        raise InputError(f"d[rows]: {shorten(rows)} leaves no rows; a batch has at least one.")
    return chosen % batch
