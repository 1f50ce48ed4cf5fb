"""Differentiable top-k proofs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeGuard

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin.errors import InputError
from dolphin.execution.indices import Contraction, Index, IndexLists, to_device
from dolphin.execution.recursion.recurrences import Limit, Loop, Recurrence
from dolphin.inputs.arguments import count, option
from dolphin.provenance.contract import Deferral, Provenance, TagInfo
from dolphin.provenance.facts import Facts, all_apart
from dolphin.provenance.numerics import (
    ZERO,
    clip_above_one,
    log_of_rest,
    prob_of_log,
    rounded_to,
)
from dolphin.provenance.topk import proofs, spreading
from dolphin.provenance.topk import rows as rows_of_proofs
from dolphin.provenance.topk.counting_models import LARGEST_K, log_probability_of_any
from dolphin.provenance.topk.encoding import Layout, code_of
from dolphin.provenance.topk.explaining import explained
from dolphin.provenance.topk.likeliest import likeliest_choices
from dolphin.provenance.topk.negation import broken, check_size
from dolphin.provenance.topk.parts import MANY, LargeInput
from dolphin.provenance.topk.proofs import NO_PROOF, Proofs
from dolphin.provenance.topk.recursion import likeliest_proofs
from dolphin.provenance.topk.row_recursion import likeliest_in_rows
from dolphin.provenance.topk.search import contracted, place_by_place
from dolphin.provenance.topk.weighing import (
    FACT_PENALTY,
    LEARNING,
    LOWEST,
    SEARCHING,
    log_weights,
    sum_of_proofs,
)
from dolphin.symbolic.growth import Growth

AnyProofs = Proofs | LargeInput

# Combinations above which it pays to search for the proofs of the label only. Forward and
# backward of `nll_loss`, k = 3, on one core: a product of 4 digits in 64 rows takes 13.9 ms
# instead of 18.2, one of 8 digits in 16 rows 14.0 instead of 19.3, the sum of two numbers up to
# 300 in 16 rows 2.1 instead of 38.1. Sums of digits have fewer combinations and lose nothing.
_FEW = 20_000


class TopKProofs(Provenance):
    """The k likeliest proofs of each symbol (`dtkp-am`, `dtkp-wmc`).

    A proof is a set of facts. ⊕ keeps the k likeliest of both sets, ⊗ the k likeliest unions that
    don't contain two symbols of one exclusive input; equal proofs are kept once and a proof that
    contains another is absorbed by it, before the k likeliest are chosen. The probability is
    Σ over proofs of Π over facts, at most 1: never less than the probability that one of the
    proofs holds, and equal to it where the proofs exclude each other. With `wmc="exact"` it is that
    probability: facts that proofs share are counted once.

    Gradients flow into the facts of the surviving proofs and nowhere else. Choosing the proofs is
    not differentiated. Where the sum exceeds 1 the gradient is 0; the exact count never does, and
    its gradient for a fact is P(any | fact) - P(any | not fact).

    Cost: O(B · k²) per combination, O(B · k log k) where the operands share no input and the
    proofs of each exclude each other. Reading an exact count costs at most O(B · 2^k) per symbol,
    once; with more than 8 proofs on a CPU it is usually far less.

    Args:
        k: the most proofs that a symbol keeps in a row.
        wmc: how proofs are weighed: "add-mult" or "exact" (k up to 16), see above.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.2, 0.8], ["tail", "head"], provenance=dl.TopKProofs(k=3))
    >>> dl.apply(d, d, lambda a, b: a == b).row(0)
    [(True, 1.0), (False, 0.0)]
    >>> alarms = [dl.Distribution([0.5], ["rings"], provenance=dl.TopKProofs(k=3)) for _ in "ab"]
    >>> dl.union(*alarms).row(0)
    [('rings', 1.0)]
    >>> wmc = dl.TopKProofs(k=3, wmc="exact")
    >>> alarms = [dl.Distribution([0.5], ["rings"], provenance=wmc) for _ in "ab"]
    >>> dl.union(*alarms).row(0)
    [('rings', 0.75)]
    """

    laws = frozenset(
        {"commutative", "identities", "annihilation", "idempotent-add", "negated-zero"}
    )

    repeatable = False  # proofs that exclude each other are not compared

    def __init__(self, k: int = 3, wmc: Literal["add-mult", "exact"] = "add-mult") -> None:
        k = count("TopKProofs", "k", k)
        option("TopKProofs", "wmc", wmc, ("add-mult", "exact"))
        if wmc == "exact" and k > LARGEST_K:
            raise InputError(
                f"TopKProofs: wmc='exact' may need all 2^k sets of proofs and takes k up to "
                f"{LARGEST_K}, got {k}. Use a smaller k, or dolphin.provenance.Exact()."
            )
        self.k = k
        self.wmc: Literal["add-mult", "exact"] = wmc
        self.name = "dtkp-am" if wmc == "add-mult" else "dtkp-wmc"

    def parameters(self) -> dict[str, Any]:
        return {"k": self.k} if self.wmc == "add-mult" else {"k": self.k, "wmc": self.wmc}

    # -- in and out --------------------------------------------------------------------------------

    def from_facts(self, facts: Facts) -> AnyProofs:
        return LargeInput(facts) if len(facts.groups) >= MANY else self._written(facts)

    def _written(self, facts: Facts) -> Proofs:
        """The facts of an input as proofs."""
        code = code_of(facts.groups, False)
        tensors = code.on(facts.log_probs.device)
        fields = (tensors.words, tensors.masks) if code.single_digits else None
        scores = SEARCHING.of(facts.log_probs) - FACT_PENALTY
        layout = Layout().having(facts)
        return Proofs(tensors.holds, scores[None], layout, len(code.groups) == 1, fields=fields)

    def log_probs(self, tags: AnyProofs) -> Tensor:
        if isinstance(tags, LargeInput):
            logs = tags.facts.log_probs
            return clip_above_one(logs.t().reshape(-1, 1) if tags.flat else logs)
        if self._counts(tags):
            return log_probability_of_any(tags).to(proofs.precision(tags))
        logs = log_weights(tags.patterns, tags.layout, tags.row, weights=LEARNING)
        return sum_of_proofs(logs, tags.exists)

    def probs(self, tags: AnyProofs) -> Tensor:
        if self._counts(tags):  # in double precision to the end: gradients near 0 need it
            return rounded_to(proofs.precision(tags), prob_of_log(log_probability_of_any(tags)))
        return super().probs(tags)

    def logs_and_rest(self, tags: AnyProofs) -> tuple[Tensor, Tensor]:
        if self._counts(tags):  # likewise: single precision has no exp of the logarithm of 0 here
            dtype, logs = proofs.precision(tags), log_probability_of_any(tags)
            return logs.to(dtype), log_of_rest(logs, dtype).to(dtype)
        return super().logs_and_rest(tags)

    def _counts(self, tags: AnyProofs) -> TypeGuard[Proofs]:
        """Whether proofs have to be weighed together, because they may hold at the same time."""
        if isinstance(tags, LargeInput):
            return False
        return self.wmc == "exact" and not tags.disjoint and tags.k > 1

    def ranking(self, tags: AnyProofs) -> Tensor:
        if self.wmc == "exact":
            return super().ranking(tags)
        logs, *others = tags.scores
        for each in others:  # 39 instead of 55 microseconds for 4,000 symbols of three proofs
            logs = torch.logaddexp(logs, each)
        return F.threshold(logs, LOWEST, ZERO)

    def one(self, n: int, like: AnyProofs) -> Proofs:
        scores = like.scores.new_zeros(1, n, 1)
        patterns = scores.new_zeros(0, 1, n, 1, dtype=torch.int64)
        return Proofs(patterns, scores, Layout(), disjoint=n <= 1)

    # -- the algebra -------------------------------------------------------------------------------

    @torch.no_grad()
    def contract(self, operands: Sequence[AnyProofs], plan: Contraction) -> Proofs:
        return contracted(list(map(written, operands)), plan, self.k, apart=False)

    def folds_freely(self, operands: Sequence[AnyProofs | None], exclusive: bool) -> bool:
        """Whether proofs exclude each other and share no input: then none is dropped too early."""
        if any(isinstance(operand, LargeInput) for operand in operands):
            return False  # of many groups: its proofs don't exclude each other
        given = [operand for operand in operands if isinstance(operand, Proofs)]
        facts = [p.facts for operand in given for p in operand.layout.placements]
        apart = len({id(each) for each in facts}) == len(facts) and all_apart(facts)
        return apart and all(operand.disjoint for operand in given)

    def deferral(self, plan: IndexLists | Loop, operands: Sequence[Proofs]) -> Deferral | None:
        """Only to search for the label's proofs: chains are computed step by step."""
        return None if isinstance(plan, Loop) or plan.sizes is None else Deferral(self, _FEW)

    @torch.no_grad()
    def negate(self, tags: AnyProofs) -> Proofs:
        """¬(P ∨ Q) = ¬P ∧ ¬Q, and ¬P holds if any one constraint of P is broken."""
        tags = written(tags)
        check_size(tags, self.k)
        tags = proofs.with_signs(tags)
        result = replace(self.one(tags.n, tags), row_map=tags.row_map)
        for slot in range(tags.k):
            result = place_by_place(result, broken(tags, slot, self.k), self.k)
        return result

    def saturated(self, old: AnyProofs, new: AnyProofs) -> bool:
        _, patterns, scores = proofs.aligned([written(old), written(new)])
        exists = [part > NO_PROOF for part in scores]
        if not torch.equal(*exists):
            return False
        if bool(((patterns[0] == patterns[1]) | ~exists[0]).all()):
            return True
        return proofs.includes(patterns, exists) and proofs.includes(patterns[::-1], exists[::-1])

    # -- rounds of a recursion ---------------------------------------------------------------------

    renews = True

    def size(self, tags: AnyProofs) -> int:
        return tags.n

    def differing(self, old: AnyProofs, new: AnyProofs) -> np.ndarray | None:
        if isinstance(old, LargeInput) or isinstance(new, LargeInput):
            return None
        return proofs.differing(old, new)

    @torch.no_grad()
    def renewed(self, old: AnyProofs, index: Index, part: AnyProofs, at: np.ndarray) -> Proofs:
        assert isinstance(old, Proofs) and isinstance(part, Proofs)
        if part.layout.words == old.layout.words and part.layout.begins_with(old.layout):
            kept = proofs.copied(old) if index.is_identity(old.n) else proofs.select(old, index)
            made = proofs.replaced(kept, to_device(at, old.scores.device), part)
        else:
            made = super().renewed(old, index, part, at)
        return replace(made, disjoint=part.disjoint, fields=None, literal=None)

    has_loops = True

    @torch.no_grad()
    def looped(
        self,
        form: Recurrence,
        limit: Limit,
        start: AnyProofs,
        constant: AnyProofs,
        other: AnyProofs,
    ) -> Proofs | None:
        if self.k > 1:
            return None
        return likeliest_proofs(form, limit, written(start), written(constant), written(other))

    has_row_loops = True

    @torch.no_grad()
    def looped_in_rows(
        self,
        growth: Growth,
        starts: bool,
        keeps: bool,
        most_rounds: int,
        start: AnyProofs,
        other: AnyProofs,
    ) -> Proofs | None:
        if isinstance(start, LargeInput) or isinstance(other, LargeInput):
            return None
        return likeliest_in_rows(growth, starts, keeps, self.k, most_rounds, start, other)

    # -- samples of a batch ------------------------------------------------------------------------

    spreads = True

    def spread(self, tags: AnyProofs, places: np.ndarray, batch: int) -> Proofs:
        return spreading.spread(written(tags), places, batch)

    def regrouped(self, tags: Proofs, places: np.ndarray) -> Proofs:
        return spreading.regrouped(tags, places)

    def facts_in(self, tags: AnyProofs) -> list[Facts]:
        if isinstance(tags, LargeInput):
            return [tags.facts]
        return [placement.facts for placement in tags.layout.placements]

    def excludes(self, tags: AnyProofs) -> bool:
        return isinstance(tags, Proofs) and tags.disjoint

    def all_apart(self, parts: Sequence[AnyProofs]) -> bool:
        return all_apart([facts for part in parts for facts in self.facts_in(part)])

    @torch.no_grad()
    def contract_apart(self, operands: Sequence[Proofs], plan: Contraction) -> Proofs:
        return contracted(operands, plan, self.k, apart=True)

    # -- moving tags -------------------------------------------------------------------------------

    def followed_by_one(self, tags: AnyProofs) -> Proofs | None:
        return None if isinstance(tags, LargeInput) else proofs.followed_by_one(tags)

    @torch.no_grad()
    def select(self, tags: AnyProofs, index: Index) -> Proofs:
        if isinstance(tags, LargeInput):
            return proofs.selected(tags, index)
        return proofs.select(tags, index)

    def concat(self, parts: Sequence[AnyProofs]) -> Proofs:
        return proofs.concat(list(map(written, parts)))

    def pick(self, parts: Sequence[AnyProofs], index: Index) -> Proofs:
        ready = list(map(written, parts))
        picked = self.select(proofs.concat(ready), index)
        return replace(picked, disjoint=all(part.disjoint for part in ready))

    def where(self, mask: Tensor, yes: AnyProofs, no: AnyProofs) -> Proofs:
        return rows_of_proofs.where(mask, written(yes), written(no))

    def flatten(self, tags: AnyProofs, rows: int) -> AnyProofs:
        if isinstance(tags, LargeInput) and rows == tags.facts.rows:
            return LargeInput(tags.facts, flat=True)
        return rows_of_proofs.flatten(written(tags), rows)

    def unflatten(self, tags: AnyProofs, rows: int) -> AnyProofs:
        if isinstance(tags, LargeInput) and rows == tags.facts.rows:
            return LargeInput(tags.facts)
        return rows_of_proofs.unflatten(written(tags), rows)

    def stack(self, parts: Sequence[AnyProofs], batches: Sequence[int], *, flat: bool) -> Proofs:
        return rows_of_proofs.stack(list(map(written, parts)), batches, flat=flat)

    def take_rows(self, tags: AnyProofs, rows: np.ndarray, width: int | None) -> AnyProofs:
        if isinstance(tags, LargeInput) and width is None and tags.facts.rows == 1:
            return tags
        return rows_of_proofs.take_rows(written(tags), rows, width)

    def moved(self, tags: AnyProofs, move: Callable[[Tensor], Tensor]) -> AnyProofs:
        if isinstance(tags, LargeInput):
            return LargeInput(tags.facts.moved(move), tags.flat)
        return proofs.moved_to(tags, move)

    def describe(self, tags: AnyProofs) -> TagInfo:
        if isinstance(tags, LargeInput):
            logs = tags.facts.log_probs
            return TagInfo(logs.device, 1 if tags.flat else tags.facts.rows, logs.dtype)
        return TagInfo(tags.scores.device, tags.rows, proofs.precision(tags))

    @torch.no_grad()
    def likeliest(
        self, inputs: Sequence[AnyProofs], target: AnyProofs
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        return likeliest_choices(list(map(written, inputs)), written(target))

    # -- for inspection ----------------------------------------------------------------------------

    def proofs(self, tags: AnyProofs, place: int, row: int) -> list[tuple[float, list[Any]]]:
        if isinstance(tags, LargeInput):
            tags, place = self.select(tags, Index(np.array([place]))), 0
        return explained(tags, place, row)


def written(tags: AnyProofs) -> Proofs:
    """Proofs of all facts of a large input, which may be too many."""
    if isinstance(tags, Proofs):
        return tags
    return proofs.selected(tags, Index(np.arange(tags.n)))
