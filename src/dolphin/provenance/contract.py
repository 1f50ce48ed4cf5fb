"""The contract between distributions and algebras of tags.

A provenance never sees a symbol. It is given *facts* (the numbers behind an input distribution)
and index lists, and works on *tags*: whatever it stores for n symbols in r rows. Everything
outside this package treats tags as opaque.

There are two levels. `Provenance` is the full contract, for algebras whose tags are more than one
tensor (proofs, formulas). `TensorProvenance` in `tensors` derives most of it from five functions.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import UnsupportedError
from dolphin.execution.indices import Contraction, Convolution, Index, IndexLists
from dolphin.execution.recursion.recurrences import Limit, Loop, Recurrence
from dolphin.execution.regrouping import Halves
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import log_of_rest, prob_of_log
from dolphin.symbolic.growth import Growth

Tags = Any


class TagInfo(NamedTuple):
    """Properties of tags that don't depend on their values."""

    device: torch.device
    rows: int
    dtype: torch.dtype


def not_an_input(number: int) -> UnsupportedError:
    """The error of `likeliest` for a result in place of an input."""
    return UnsupportedError(
        f"most_likely: input {number} is the result of an operation, not an input. Give the "
        "distributions that were created from numbers, and apply the operation to the symbols."
    )


Evaluator = Callable[[Sequence[Facts], bool], Tensor]


class Provenance(abc.ABC):
    """An algebra of tags. Immutable; two are equal if they have the same type and parameters."""

    name: str

    laws: ClassVar[frozenset[str]] = frozenset()
    """The laws, of those in README.md, that ⊕, ⊗ and ¬ keep for any tags; tests check them."""

    numeric: bool = False
    """Whether a tag is a number that doesn't know which facts it came from."""

    repeatable: bool = True
    """Whether a group of a contraction may contain the same combination of tags several times."""

    adds: bool = False
    """Whether tags are numbers, ⊕ adds them and ⊗ multiplies them, as long as sums don't pass 1."""

    adds_disjoint: bool = False
    """Whether `contract_disjoint` adds numbers."""

    structural: ClassVar[bool] = False
    """Whether tags depend on the program alone, and numbers are used when they are read."""

    # -- identity ----------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        """What distinguishes this provenance from others of the same type."""
        return {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Provenance):
            return NotImplemented
        return type(self) is type(other) and self.parameters() == other.parameters()

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self.parameters().items()))))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({shown})"

    # -- in and out --------------------------------------------------------------------------------

    @abc.abstractmethod
    def from_facts(self, facts: Facts) -> Tags:
        """The tags of an input's columns, for n = facts.columns and r = facts.rows."""

    @abc.abstractmethod
    def log_probs(self, tags: Tags) -> Tensor:
        """Log-probabilities, (n, r), differentiable. Zero is a large negative number, not -inf."""

    def probs(self, tags: Tags) -> Tensor:
        """Probabilities, (n, r), differentiable."""
        return prob_of_log(self.log_probs(tags))

    def unrounded_probs(self, parts: Sequence[Tags]) -> list[Tensor]:
        """`probs` of each part for quotients, in the precision in which they are computed."""
        return [self.probs(tags) for tags in parts]

    def logs_and_rest(self, tags: Tags) -> tuple[Tensor, Tensor]:
        """`log_probs`, and logarithms of 1 - P, (n, r), differentiable at 0 and 1, too; finite."""
        logs = self.log_probs(tags)
        return logs, log_of_rest(logs, logs.dtype)

    def ranking(self, tags: Tags) -> Tensor:
        """Numbers that order the symbols of a row by likelihood, (n, r), without gradient."""
        with torch.no_grad():
            return self.log_probs(tags).detach()

    def evaluator(self, tags: Tags, inputs: Sequence[Facts]) -> Evaluator:
        """For structural algebras: the numbers of these tags, (n, r), given other facts.

        The function takes facts in the order of `inputs`, which they replace, and whether
        logarithms of probabilities are wanted.
        """
        raise AssertionError("only structural algebras have one")

    def reads(self) -> int:
        """For structural algebras: grows whenever tags are turned into numbers."""
        return 0

    def content(self, parts: Sequence[Tags]) -> tuple[Hashable, Sequence[Facts]] | None:
        """For structural algebras: the content of tags over any facts, and the facts in them.

        None where the two can't be separated. Tags of shared symbols only.
        """
        return None

    def of_other_facts(
        self, tags: Tags, facts: Sequence[Facts]
    ) -> Callable[[Sequence[Facts]], Tags] | None:
        """The same tags as a function of facts in place of these; None if they refer to more."""
        return None

    @abc.abstractmethod
    def one(self, n: int, like: Tags) -> Tags:
        """**1** for n symbols in one row, on the device and in the precision of `like`."""

    # -- the algebra -------------------------------------------------------------------------------

    @abc.abstractmethod
    def contract(self, operands: Sequence[Tags], plan: Contraction) -> Tags:
        """⊕ over each group of ⊗ over the operands (see `Contraction`)."""

    def contract_disjoint(self, operands: Sequence[Tags], plan: Contraction) -> Tags:
        """`contract` for groups whose combinations are known to exclude each other.

        Override it where ⊕ is an "or" of independent events and a plain sum is right instead.
        """
        return self.contract(operands, plan)

    def convolve(self, operands: Sequence[Tags], plan: Convolution) -> Tags:
        """The same for sums of integers; override it where there is a faster way."""
        return self.contract(operands, plan.spelled_out())

    def combine(self, operands: Sequence[Tags], plan: IndexLists) -> Tags:
        """The result of a plan of either kind."""
        if isinstance(plan, Convolution):
            return self.convolve(operands, plan)
        return self.contract(operands, plan)

    def deferral(self, plan: IndexLists | Loop, operands: Sequence[Tags]) -> Deferral | None:
        """How an operation is computed if it is deferred until read; None to run it at once.

        A contraction has two operands. The first may be deferred itself; then the second is passed
        in its place. A recursion has those of `looped`, which must succeed. Under `torch.compile`
        and transforms of `torch.func` nothing is deferred.
        """
        return None

    # -- samples of a batch with different programs (optional) -------------------------------------

    def followed_by_one(self, tags: Tags) -> Tags | None:
        """The same flattened tags, and after them a **1**.

        None (the default) unless t ⊗ **1** is t, and its gradient that of t, at ties, too.
        """
        return None

    spreads = False
    """Whether tags of single rows can be written as tags of a batch, row by row: see `spread`."""

    def spread(self, tags: Tags, places: np.ndarray, batch: int) -> Tags:
        """An input whose row i belongs to row places[i] of a batch, flattened.

        Facts of the result have a row for each row of the batch.
        """
        raise AssertionError("only algebras that spread")

    def regrouped(self, tags: Tags, places: np.ndarray) -> Tags:
        """Flattened tags of rows that belong to these rows of a batch, as a separate batch."""
        raise AssertionError("only algebras that spread")

    def facts_in(self, tags: Tags) -> Sequence[Facts]:
        """The inputs that the tags may refer to, where they know them."""
        return ()

    def excludes(self, tags: Tags) -> bool:
        """Whether no two proofs of a row can hold at the same time."""
        raise AssertionError("only algebras that spread")

    def all_apart(self, parts: Sequence[Tags]) -> bool:
        """Whether no two of the inputs that the parts refer to have a fact in common."""
        raise AssertionError("only algebras that spread")

    def contract_apart(self, operands: Sequence[Tags], plan: Contraction) -> Tags:
        """`contract` where no combination has operands that refer to the same input."""
        return self.contract(operands, plan)

    # -- rounds of a recursion (optional) ----------------------------------------------------------

    renews = False
    """Whether tags can be reused from the last round of a recursion, if those they are made of
    are the same. A tag must carry everything: equal numbers may differ in their gradients."""

    def size(self, tags: Tags) -> int:
        """The number of symbols, of all rows together where they are flattened."""
        raise AssertionError("only algebras that renew")

    def differing(self, old: Tags, new: Tags) -> np.ndarray | None:
        """Which of n tags are not the same; None if that can't be told."""
        raise AssertionError("only algebras that renew")

    def renewed(self, old: Tags, index: Index, part: Tags, at: np.ndarray) -> Tags:
        """Old tags at these places, but those of `part`, made of the same inputs, at `at`."""
        places = index.places.copy()
        places[at] = self.size(old) + np.arange(len(at))
        return self.select(self.concat([old, part]), Index(places))

    has_loops: ClassVar[bool] = False
    """Whether it can run all rounds of some recursions in a loop of its own: see `looped`."""

    def looped(
        self, form: Recurrence, limit: Limit, start: Tags, constant: Tags, other: Tags
    ) -> Tags | None:
        """The tags that a fixpoint ends with, as if it were run round by round.

        None where there is no loop for these tags, or if it has to go on after the last round.
        """
        return None

    has_row_loops: ClassVar[bool] = False
    """The same for recursions over per-row symbols: see `looped_in_rows`."""

    def looped_in_rows(
        self,
        growth: Growth,
        starts: bool,
        keeps: bool,
        most_rounds: int,
        start: Tags,
        other: Tags,
    ) -> Tags | None:
        """The flattened tags that a fixpoint of such a recursion ends with.

        A round gives each symbol what is combined into it, its tag of the start if the recursion
        `starts` with that in each round, and the one that it has if it `keeps` that. None as above.
        """
        return None

    def negate(self, tags: Tags) -> Tags:
        raise UnsupportedError(f"negate: {self!r} has no negation.")

    def negate_choices(self, tags: Tags, width: int) -> Tags:
        """`negate`, where one of each `width` tags that follow each other holds for certain.

        Override it where the negation of one can be computed more precisely from the others.
        """
        return self.negate(tags)

    def saturated(self, old: Tags, new: Tags) -> bool:
        """Whether an iteration that found no new symbols left the tags unchanged as well.

        May read values. Algebras whose tags need not settle (add-mult on a cyclic graph grows
        until it is clipped) return True: then only new symbols keep a fixpoint going.
        """
        return True

    # -- moving tags -------------------------------------------------------------------------------

    @abc.abstractmethod
    def select(self, tags: Tags, index: Index) -> Tags:
        """The tags at these places, **0** where the place is -1."""

    @abc.abstractmethod
    def concat(self, parts: Sequence[Tags]) -> Tags:
        """The symbols of all parts, one part after the other."""

    def pick(self, parts: Sequence[Tags], index: Index) -> Tags:
        """Tags at these places of all parts, one after the other. No row mixes two parts."""
        return self.select(self.concat(parts), index)

    @abc.abstractmethod
    def where(self, mask: Tensor, yes: Tags, no: Tags) -> Tags:
        """`yes` in the rows where `mask` (r,) is true, otherwise `no`."""

    @abc.abstractmethod
    def flatten(self, tags: Tags, rows: int) -> Tags:
        """(n, r) as (rows * n, 1), rows slowest: the storage of the per-row layout."""

    def unflatten(self, tags: Tags, rows: int) -> Tags:
        """(rows * n, 1) as (n, rows): the inverse of `flatten`."""
        raise UnsupportedError(f"batched: {self!r} has no `unflatten`, the inverse of `flatten`.")

    @abc.abstractmethod
    def stack(self, parts: Sequence[Tags], batches: Sequence[int], *, flat: bool) -> Tags:
        """The rows of all parts, one part after the other; part i has `batches[i]` rows.

        The parts have the same number of symbols n, or are flattened with the same width.
        """

    @abc.abstractmethod
    def take_rows(self, tags: Tags, rows: np.ndarray, width: int | None) -> Tags:
        """The tags of some rows, in that order. `width`: symbols per row, if flattened."""

    @abc.abstractmethod
    def moved(self, tags: Tags, move: Callable[[Tensor], Tensor]) -> Tags:
        """The same tags, with every tensor of numbers replaced: another device, or detached."""

    # -- for inspection ----------------------------------------------------------------------------

    def glance(self, tags: Tags) -> Tensor | None:
        """Probabilities for display, (n, r); None where they would take long."""
        with torch.no_grad():
            return self.probs(tags)

    def folds_freely(self, operands: Sequence[Tags | None], exclusive: bool) -> bool:
        """Whether a fold over these may be done in any order, with the same result.

        `exclusive`: of each operand at most one symbol holds. None stands for certain symbols.
        """
        return {"associative", "distributive"} <= self.laws

    def proofs(self, tags: Tags, place: int, row: int) -> list[tuple[float, list[Any]]]:
        """The proofs of one symbol: (probability, [(label, holds, probability, key), ...]).

        `key` is `Facts.key`: which fact it is.
        """
        raise UnsupportedError(
            f"explain: {self!r} keeps numbers, not proofs, so there is nothing to show. Use "
            "dolphin.TopKProofs(k=...), 'exact' or 'viterbi' as the provenance of the inputs."
        )

    def likeliest(
        self, inputs: Sequence[Tags], target: Tags
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The likeliest choice of facts under which each row's target holds.

        `target` has one symbol for each of B rows, flattened; the inputs are flattened too. Returns
        whether there is such a choice, (B,), and of each input which symbols hold, (rows * n,).
        """
        raise UnsupportedError(
            f"most_likely: {self!r} keeps numbers, not proofs, so it can't tell which facts make "
            "the target likely. Use 'exact' (the likeliest of all worlds), 'dtkp-am' (of the k "
            "proofs kept) or 'viterbi' as the provenance of the inputs."
        )

    @abc.abstractmethod
    def describe(self, tags: Tags) -> TagInfo:
        """The device of the tags, their number of rows r, and the precision of probabilities."""


Steps = Sequence[tuple[IndexLists, Tags]]  # the plan and the second operand of each contraction


@dataclass(frozen=True)
class Deferral:
    """How deferred operations are computed, with the same results as `combine` and `looped`.

    A chain of contractions is folded over its operands: each step contracts the tags so far with
    one more operand. `few` is the number of combinations, over all rows, above which it pays to
    compute only those of the symbols that are read.
    """

    provenance: Provenance
    few: int = 0

    regroups: ClassVar[bool] = False
    """Whether `read` makes use of `halves`."""

    def chain(self, first: Tags, steps: Steps) -> Tags:
        """The tags at the end of a chain."""
        tags = first
        for plan, other in steps:
            tags = self.provenance.combine([tags, other], plan)
        return tags

    def read(
        self, first: Tags, steps: Steps, wanted: np.ndarray, halves: Halves | None = None
    ) -> Tensor | None:
        """Log-probabilities of the symbol at place wanted[row] of each row of a chain, (r,).

        None if computing all of it is at least as fast. A chain with `halves` is a product of
        integers, whose order is free.
        """
        return None

    def answer(
        self, loop: Loop, operands: Sequence[Tags], plan: Contraction, partner: Tags
    ) -> Tags | None:
        """The contraction of the result of a recursion and a partner.

        None if all of the recursion may as well be computed first.
        """
        return None
