"""Distributions: symbols, their tags for a batch of rows, and a provenance. Immutable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dolphin import inputs
from dolphin.context import default_provenance
from dolphin.errors import InputError, listing, shorten
from dolphin.execution.deferred import Deferred
from dolphin.execution.indices import Index, to_device
from dolphin.execution.profiling import profiled
from dolphin.operators import Operators
from dolphin.provenance.contract import Provenance, Tags, TensorProvenance
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO, prob_of_log
from dolphin.reading import columns, matching, read_targets
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import Domain, RowSymbols, caches, group_rows
from dolphin.symbolic.symbols import Symbols

_RAISE = object()
_LOG_OF_ZERO = -1e4  # what get_logits gives for an impossible symbol: losses stay finite


class Fact(NamedTuple):
    """One symbol of an input, as part of a proof."""

    symbol: Any
    probability: float
    holds: bool = True


class Proof(NamedTuple):
    """Facts that together are enough to derive a symbol."""

    probability: float
    facts: tuple[Fact, ...]


class Distribution(Operators):
    """Symbols with a tag for each of B rows.

    Args:
        probs: probabilities of shape (B, N), or (N,) for a single row.
        symbols: N distinct hashable objects.
        exclusive: whether at most one of the symbols holds (True: a classifier's softmax), each
            holds on its own (False: a sigmoid per symbol), or which columns exclude each other
            (a list of groups of column numbers; other columns are on their own).
        provenance: the algebra of tags; by default that of the enclosing `dolphin.using` block,
            and `DAMP()` outside of any.

    >>> import torch, dolphin as dl
    >>> digits = dl.Distribution(torch.tensor([[0.1, 0.7, 0.2]]), [0, 1, 2])
    >>> total = dl.apply(digits, digits, lambda x, y: x + y)
    >>> total.symbols
    (0, 1, 2, 3, 4)
    >>> total.row(0)
    [(0, 0.01), (1, 0.14), (2, 0.53), (3, 0.28), (4, 0.04)]
    """

    __slots__ = ("__weakref__", "_batch", "_domain", "_made", "_provenance")

    _domain: Domain
    _made: Tags | Deferred | None  # None: every symbol has the tag 1
    _provenance: Provenance
    _batch: int

    def __init__(
        self,
        probs: Any,
        symbols: Iterable[Any],
        *,
        exclusive: bool | Sequence[Sequence[int]] = True,
        provenance: Provenance | None = None,
    ) -> None:
        given = inputs.read("Distribution", probs, symbols, exclusive, logits=False)
        self._set(given.symbols, None, _provenance_or_default(provenance), given.batch)
        self._made = self._provenance.from_facts(given.facts)

    def _set(
        self, domain: Domain, tags: Tags | Deferred | None, provenance: Provenance, batch: int
    ) -> None:
        self._domain, self._made = domain, tags
        self._provenance, self._batch = provenance, batch

    @classmethod
    def _make(
        cls, domain: Domain, tags: Tags | Deferred | None, provenance: Provenance, batch: int
    ) -> Distribution:
        new = object.__new__(cls)
        new._set(domain, tags, provenance, batch)
        return new

    # -- other ways to make one --------------------------------------------------------------------

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        symbols: Iterable[Any],
        *,
        exclusive: bool | Sequence[Sequence[int]] = True,
        provenance: Provenance | None = None,
    ) -> Distribution:
        """From unnormalised scores: log-softmax over exclusive columns, log-sigmoid for others.

        Probabilities never leave log space, so this is the safest way in.

        >>> import torch, dolphin as dl
        >>> dl.Distribution.from_logits(torch.zeros(1, 4), "abcd").row(0)[0]
        ('a', 0.25)
        """
        given = inputs.read("Distribution.from_logits", logits, symbols, exclusive, logits=True)
        algebra = _provenance_or_default(provenance)
        return cls._make(given.symbols, algebra.from_facts(given.facts), algebra, given.batch)

    @classmethod
    def each_from_logits(
        cls,
        logits: Any,
        symbols: Iterable[Any],
        *,
        exclusive: bool | Sequence[Sequence[int]] = True,
        provenance: Provenance | None = None,
    ) -> list[Distribution]:
        """One distribution for each of N places, from scores (B, N, symbols).

        The same as `[from_logits(place, symbols) for place in logits.unbind(1)]`, at the cost of
        one of them.

        >>> import torch, dolphin as dl
        >>> left, right = dl.Distribution.each_from_logits(torch.zeros(1, 2, 4), "abcd")
        >>> right.row(0)[0]
        ('a', 0.25)
        """
        operation = "Distribution.each_from_logits"
        algebra = _provenance_or_default(provenance)
        return [
            cls._make(given.symbols, algebra.from_facts(given.facts), algebra, given.batch)
            for given in inputs.read_each(operation, logits, symbols, exclusive)
        ]

    @classmethod
    def certain(
        cls, symbol: Any, *, batch: int = 1, provenance: Provenance | None = None
    ) -> Distribution:
        """One symbol with probability one, in every row. Fits operands of any provenance.

        >>> import dolphin as dl
        >>> dl.Distribution.certain("x").row(0)
        [('x', 1.0)]
        """
        return cls._make(
            Symbols.of((symbol,)), None, _provenance_or_default(provenance), _batch_size(batch)
        )

    @classmethod
    def certain_rows(
        cls, symbols: Iterable[Any], *, provenance: Provenance | None = None
    ) -> Distribution:
        """One certain symbol a row: labels, observations, options. Fits any provenance.

        >>> import dolphin as dl
        >>> dl.Distribution.certain_rows([3, 5]).argmax()
        [3, 5]
        """
        members = symbols.tolist() if isinstance(symbols, (Tensor, np.ndarray)) else list(symbols)
        if not members:
            raise InputError("Distribution.certain_rows: got no rows; give one symbol per row.")
        table = caches.current_table()
        domain = RowSymbols(table, table.numbers(members)[:, None])
        return cls._make(domain, None, _provenance_or_default(provenance), len(members))

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[tuple[Iterable[Any], Any]],
        *,
        exclusive: bool | Sequence[Sequence[int]] = True,
        provenance: Provenance | None = None,
    ) -> Distribution:
        """Symbols of their own for every row: `[(symbols, probabilities), ...]`.

        >>> import dolphin as dl
        >>> d = dl.Distribution.from_rows([(["a", "b"], [0.4, 0.6]), (["c"], [1.0])])
        >>> d.row(0), d.row(1)
        ([('a', 0.4), ('b', 0.6)], [('c', 1.0)])
        """
        given = inputs.read_rows(rows, exclusive, caches.current_table())
        algebra = _provenance_or_default(provenance)
        tags = algebra.flatten(algebra.from_facts(given.facts), given.batch)
        return cls._make(given.symbols, tags, algebra, given.batch)

    @classmethod
    def stack(cls, distributions: Iterable[Distribution]) -> Distribution:
        """Distributions of some rows each as one batch, in the given order.

        >>> import dolphin as dl
        >>> parts = [dl.Distribution([0.5, 0.5], "ab"), dl.Distribution([0.1, 0.9], "bc")]
        >>> dl.Distribution.stack(parts).row(1)
        [('b', 0.1), ('c', 0.9)]
        """
        from dolphin.operations import stack

        return stack(list(distributions))

    # -- what it is --------------------------------------------------------------------------------

    @property
    def symbols(self) -> tuple[Any, ...]:
        """The symbols, in order; of all rows by first appearance, where rows have their own."""
        return self._domain.members

    @property
    def batch_size(self) -> int:
        """The number of rows, B."""
        return self._batch

    @property
    def provenance(self) -> Provenance:
        """The algebra of the tags."""
        return self._provenance

    @property
    def device(self) -> torch.device:
        """Where the tags are."""
        made = self._made
        while isinstance(made, Deferred):
            made = made.other
        return torch.device("cpu") if made is None else self._provenance.describe(made)[0]

    def __len__(self) -> int:
        return len(self.symbols)

    def __repr__(self) -> str:
        rows = "row" if self._batch == 1 else "rows"
        shown = listing(self.symbols, 8)
        return f"Distribution([{shown}], {self._batch} {rows}, {self._provenance!r})"

    def __bool__(self) -> bool:
        raise InputError(
            "bool(d): a distribution is neither true nor false, so it can't be used in `if`, "
            "`while`, `and`, `or`, `not` or a chained comparison. For a distribution over True and "
            "False write d1 & d2, d1 | d2, ~d; to branch on symbols use dolphin.apply or "
            "dolphin.filter; to read numbers use d.prob_of(...), d.argmax() or "
            "dolphin.get_probs(d); to compare sets of symbols use d1.symbols == d2.symbols."
        )

    def __iter__(self) -> Any:
        raise InputError(
            "iter(d): a distribution can't be iterated; use d.symbols, d.row(i) or d.top(k)."
        )

    # -- tags --------------------------------------------------------------------------------------

    @property
    def _tags(self) -> Tags | None:
        """The tags, computed now if that was put off; None if every symbol is certain."""
        made = self._made
        if isinstance(made, Deferred):
            made = self._made = made.compute()
        return made

    def _certain(self) -> bool:
        return self._made is None

    def _shared(self) -> bool:
        return isinstance(self._domain, Symbols)

    def _width(self) -> int:
        domain = self._domain
        return len(domain) if isinstance(domain, Symbols) else domain.width

    def _tags_like(self, like: Tags | None = None) -> Tags:
        """The tags, made now if every one of them is **1**."""
        if self._tags is not None:
            return self._tags
        if like is None:
            logs = torch.zeros(1, 1)
            like = self._provenance.from_facts(
                Facts(log_probs=logs, groups=((0,),), label=lambda column, row: None)
            )
        ones = self._provenance.one(self._width(), like)
        return ones if self._shared() else self._provenance.flatten(ones, self._batch)

    def _flat_tags(self, like: Tags | None = None) -> tuple[Tags, int]:
        """Tags with rows flattened, and for how many rows (1 if they are the same in all)."""
        tags = self._tags_like(like)
        if not self._shared():
            return tags, self._batch
        rows = self._provenance.describe(tags)[1]
        return self._provenance.flatten(tags, rows), rows

    def _in_rows(self, numbers: Tensor) -> Tensor:
        """(n, r) of a provenance as (B, symbols or width)."""
        if self._shared():
            return numbers.t().expand(self._batch, -1)
        return numbers.view(self._batch, -1)

    # -- numbers -----------------------------------------------------------------------------------

    def _read(self, operation: str, symbols: Iterable[Any] | None, logs: bool) -> Tensor:
        if symbols is None and len(self) == 0:
            raise InputError(
                f"{operation}: the distribution has no symbols, because every combination was "
                f"filtered away. Name the columns you want, {operation}(d, symbols=[...]), or "
                "loosen the condition."
            )
        if isinstance(symbols, (str, bytes, Tensor)):
            raise InputError(
                f"{operation}: symbols must be a list of symbols, got {shorten(symbols)}."
            )
        tags = self._tags_like()
        numbers = self._provenance.log_probs(tags) if logs else self._provenance.probs(tags)
        table = self._in_rows(numbers)
        low = 0.0
        if logs:
            low = _LOG_OF_ZERO
            table = torch.where(table < IMPOSSIBLE, low, table)
        if symbols is None and self._shared():
            return table
        wanted = Symbols.of(self.symbols if symbols is None else symbols)
        if wanted is self._domain:
            return table
        return columns(table, self._places(wanted), low)

    def _places(self, wanted: Symbols) -> np.ndarray:
        """Where each wanted symbol stands in each row, (B or 1, wanted), -1 where it doesn't."""
        domain = self._domain
        if isinstance(domain, Symbols):
            return domain.places_of(wanted)[None, :]
        first = np.array([wanted.index_of(symbol) for symbol in wanted], dtype=np.int64)
        places = np.full((self._batch, len(wanted)), -1, dtype=np.int64)
        known = np.unique(domain.numbers)
        column = {n: wanted.index_of(domain.table.symbols[n]) for n in known if n != ABSENT}
        rows, at = np.nonzero(domain.numbers != ABSENT)
        target = np.array([column[n] for n in domain.numbers[rows, at]], dtype=np.int64)
        hit = target >= 0
        places[rows[hit], target[hit]] = at[hit]
        return places[:, first]  # a symbol may be wanted more than once

    def _log_prob_of(
        self, operation: str, targets: Sequence[Any], match: Callable[[Any, Any], Any] | None
    ) -> Tensor:
        """(B,) log-probability of each row's target; `ZERO` where no symbol is the target."""
        targets = read_targets(operation, targets, self._batch)
        if match is None and isinstance(self._made, Deferred):
            read = self._made.read(self._target_places(targets))
            if read is not None:
                return read
        if match is None and self._shared() and isinstance(self._provenance, TensorProvenance):
            logs = self._provenance.log_probs(self._tags_like())
            places = self._target_places(targets)
            if (
                logs.shape[1] == self._batch and places.min() >= 0
            ):  # the usual case, without detours
                return logs.gather(0, to_device(places[None], logs.device))[0]
            return columns(self._in_rows(logs), places[:, None], ZERO)[:, 0]
        flat, rows = self._flat_tags()
        width = self._width()
        start = np.arange(self._batch) * width if rows > 1 else np.zeros(self._batch, np.int64)
        if match is None:
            place = self._target_places(targets)
            index = Index(np.where(place >= 0, start + place, -1))
            return self._provenance.log_probs(self._provenance.select(flat, index)).view(-1)
        row, place = matching(operation, self._domain, targets, match)
        table = caches.current_table()
        plan = group_rows(
            table, np.full(len(row), table.number(True)), row, self._batch, [start[row] + place]
        )
        found = self._provenance.contract([flat], plan.contraction)
        return self._provenance.log_probs(found).view(-1)

    def _target_places(self, targets: Sequence[Any]) -> np.ndarray:
        domain = self._domain
        if isinstance(domain, Symbols):
            return domain.indices_of(targets)
        classes = domain.table.classes(np.maximum(domain.numbers, 0))
        classes = np.where(domain.numbers == ABSENT, ABSENT, classes)
        wanted = domain.table.classes(domain.table.numbers(targets))
        hits = classes == wanted[:, None]
        return np.where(hits.any(1), hits.argmax(1), -1)

    @profiled(tags=True)
    def prob_of(
        self, targets: Sequence[Any], match: Callable[[Any, Any], Any] | None = None
    ) -> Tensor:
        """The probability (B,) of each row's target; 0 where the row can't reach it.

        `match(symbol, target)` decides what counts, for example `math.isclose`; the tags of all
        symbols that match are ⊕-ed.

        >>> import dolphin as dl
        >>> dl.Distribution([[0.3, 0.7], [0.9, 0.1]], "ab").prob_of(["a", "z"])
        tensor([0.3000, 0.0000])
        """
        return prob_of_log(self._log_prob_of("prob_of", targets, match))

    @profiled(tags=True)
    def argmax(self, default: Any = _RAISE) -> list[Any]:
        """The likeliest symbol of each row; `default` for a row without any.

        >>> import dolphin as dl
        >>> dl.Distribution([[0.3, 0.7], [0.9, 0.1]], "ab").argmax()
        ['b', 'a']
        """
        ranking = self._in_rows(self._provenance.ranking(self._tags_like()))
        empty = self._width() == 0
        best = np.zeros(self._batch, np.int64) if empty else ranking.argmax(1).cpu().numpy()
        domain = self._domain
        chosen = []
        for row, place in enumerate(best):
            if empty or (isinstance(domain, RowSymbols) and domain.numbers[row, place] == ABSENT):
                if default is _RAISE:
                    raise InputError(
                        f"argmax: row {row} has no symbols, because every combination was "
                        "filtered away. Pass argmax(default=...) to get that instead, or loosen "
                        "the condition."
                    )
                chosen.append(default)
            elif isinstance(domain, Symbols):
                chosen.append(domain[place])
            else:
                chosen.append(domain.table.symbols[domain.numbers[row, place]])
        return chosen

    def row(self, row: int) -> list[tuple[Any, float]]:
        """What one row holds: `[(symbol, probability), ...]`, in the order of the symbols."""
        row = _row_number("row", row, self._batch)
        with torch.no_grad():
            probs = self._in_rows(self._provenance.probs(self._tags_like()))[row].tolist()
        domain = self._domain
        members = domain.members if isinstance(domain, Symbols) else domain.row(row)
        return [(symbol, float(f"{p:.6g}")) for symbol, p in zip(members, probs, strict=False)]

    def top(self, k: int = 5) -> list[list[tuple[Any, float]]]:
        """The k likeliest symbols of every row, likeliest first.

        >>> import dolphin as dl
        >>> dl.Distribution([[0.2, 0.5, 0.3]], "abc").top(2)
        [[('b', 0.5), ('c', 0.3)]]
        """
        rows = (self.row(i) for i in range(self._batch))
        return [sorted(row, key=lambda pair: -pair[1])[:k] for row in rows]

    def explain(self, symbol: Any, row: int = 0) -> list[Proof]:
        """The proofs behind a symbol, likeliest first, as facts with probabilities.

        >>> import dolphin as dl
        >>> d = dl.Distribution([0.5, 0.5], [0, 1], provenance=dl.TopKProofs(k=3))
        >>> for proof in dl.apply(d, lambda x: x > 0).explain(True):
        ...     print(proof)
        Proof(probability=0.5, facts=(Fact(symbol=1, probability=0.5, holds=True),))
        """
        row = _row_number("explain", row, self._batch)
        domain = self._domain
        if isinstance(domain, Symbols):
            place = domain.index_of(symbol)
        else:
            members = Symbols.of(domain.row(row))
            place = members.index_of(symbol)
        if place < 0:
            members = self.symbols if isinstance(domain, Symbols) else domain.row(row)
            raise InputError(
                f"explain: {shorten(symbol)} is not among the symbols of row {row}: "
                f"{listing(members)}."
            )
        if not self._shared():
            place += row * self._width()
        found = self._provenance.proofs(self._tags_like(), place, row)
        return [
            Proof(
                float(f"{p:.6g}"),
                tuple(Fact(s, float(f"{prob:.6g}"), holds) for s, holds, prob in facts),
            )
            for p, facts in found
        ]


def _provenance_or_default(provenance: Provenance | None) -> Provenance:
    if provenance is None:
        return default_provenance()
    if not isinstance(provenance, Provenance):
        raise InputError(
            f"provenance must be a Provenance such as dolphin.TopKProofs(k=3), got "
            f"{shorten(provenance)}. From a name: dolphin.get_provenance('dtkp-am', k=3)."
        )
    return provenance


def _batch_size(batch: int) -> int:
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        raise InputError(f"Distribution.certain: batch must be a positive integer, got {batch!r}.")
    return batch


def _row_number(operation: str, row: int, batch: int) -> int:
    if not -batch <= row < batch:
        raise InputError(f"{operation}: row {row} of a distribution with {batch} rows.")
    return row % batch
