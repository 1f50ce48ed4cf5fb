"""Differentiable top-k proofs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import InputError
from dolphin.execution.indices import BucketTensors, Contraction, Index, IndexLists
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.provenance.facts import Facts, all_apart
from dolphin.provenance.numerics import chunk_elements, prob_of_log
from dolphin.provenance.topk import proofs
from dolphin.provenance.topk.counting_models import LARGEST_K, log_probability_of_any
from dolphin.provenance.topk.encoding import Layout, Placement, code_of
from dolphin.provenance.topk.likeliest import allowed_values, likeliest_choices, value_probs
from dolphin.provenance.topk.proofs import NO_PROOF, Proofs
from dolphin.provenance.topk.search import Search
from dolphin.provenance.topk.weighing import (
    FACT_PENALTY,
    LEARNING,
    SEARCHING,
    log_weights,
    sum_of_proofs,
)

_LARGE_GROUP = 4  # chunks that the work for one symbol may take as a whole


class TopKProofs(Provenance):
    """The k likeliest proofs of each symbol (`dtkp-am`, `dtkp-wmc`).

    A proof is a set of facts. ⊕ keeps the k likeliest of both sets, ⊗ the k likeliest unions that
    don't take two symbols of one exclusive input; equal proofs are kept once and a proof that
    contains another is absorbed by it, before the k likeliest are chosen. The probability is
    Σ over proofs of Π over facts, at most 1: never less than the probability that one of the
    proofs holds, and equal to it where the proofs exclude each other. With `wmc="exact"` it is that
    probability: facts that proofs share are counted once (inclusion and exclusion over the proofs).

    Gradients flow into the facts of the surviving proofs and nowhere else. Choosing the proofs is
    not differentiated. Where the sum passes 1 the gradient is 0; the exact count never does, and
    its gradient for a fact is how much the fact matters: P(any | fact) - P(any | not fact).

    Cost: O(B · k²) per combination, O(B · k log k) where the operands share no input and the
    proofs of each exclude each other. Reading an exact count costs O(B · 2^k) per symbol, once.

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

    def __init__(self, k: int = 3, wmc: Literal["add-mult", "exact"] = "add-mult") -> None:
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise InputError(f"TopKProofs: k must be a positive integer, got {k!r}.")
        if wmc not in ("add-mult", "exact"):
            raise InputError(f"TopKProofs: wmc must be 'add-mult' or 'exact', got {wmc!r}.")
        if wmc == "exact" and k > LARGEST_K:
            raise InputError(
                f"TopKProofs: wmc='exact' looks at all 2^k sets of proofs and takes k up to "
                f"{LARGEST_K}, got {k}. Use a smaller k, or dolphin.provenance.Exact()."
            )
        self.k = k
        self.wmc = wmc
        self.name = "dtkp-am" if wmc == "add-mult" else "dtkp-wmc"

    def parameters(self) -> dict[str, Any]:
        return {"k": self.k} if self.wmc == "add-mult" else {"k": self.k, "wmc": self.wmc}

    # -- in and out --------------------------------------------------------------------------------

    def from_facts(self, facts: Facts) -> Proofs:
        code = code_of(facts.groups, False)
        tensors = code.on(facts.log_probs.device)
        fields = (tensors.words, tensors.masks) if code.single_digits else None
        scores = SEARCHING.of(facts) - FACT_PENALTY
        layout = Layout().having(facts)
        return Proofs(tensors.holds, scores[None], layout, len(code.groups) == 1, fields=fields)

    def log_probs(self, tags: Proofs) -> Tensor:
        if self._counts(tags):
            return log_probability_of_any(tags).to(proofs.precision(tags))
        logs = log_weights(tags.patterns, tags.layout, tags.row_of, weights=LEARNING)
        return sum_of_proofs(logs, tags.exists)

    def probs(self, tags: Proofs) -> Tensor:
        if self._counts(tags):  # in double precision to the end: next to 0 gradients need it
            return prob_of_log(log_probability_of_any(tags)).to(proofs.precision(tags))
        return super().probs(tags)

    def _counts(self, tags: Proofs) -> bool:
        """Whether proofs have to be weighed together, because they may hold at the same time."""
        return self.wmc == "exact" and not tags.disjoint and tags.k > 1

    def ranking(self, tags: Proofs) -> Tensor:
        return super().ranking(tags) if self.wmc == "exact" else tags.scores.logsumexp(0)

    def one(self, n: int, like: Proofs) -> Proofs:
        scores = like.scores.new_zeros(1, n, 1)
        return Proofs(like.patterns.new_zeros(0, 1, n, 1), scores, Layout(), disjoint=True)

    # -- the algebra -------------------------------------------------------------------------------

    @torch.no_grad()
    def contract(self, operands: Sequence[Proofs], plan: Contraction) -> Proofs:
        if len(operands) > 2:
            return self._two_by_two(operands, plan)
        search = Search(operands, self.k)
        search.check_size(plan.combinations)
        buckets = plan.on(operands[0].scores.device)
        found = [part for bucket in buckets for part in self._searched(search, bucket)]
        if not found:
            return self._none(operands, search, plan.groups)
        joined = replace(proofs.concat(found), disjoint=search.disjoint)
        return joined if plan.position is None else self.select(joined, plan.position)

    def _searched(self, search: Search, bucket: BucketTensors) -> list[Proofs]:
        """The proofs of a bucket's groups, some groups at a time."""
        limit = chunk_elements()
        each = search.cost(bucket)
        if each > _LARGE_GROUP * limit and bucket.depth > 1:
            return [self._in_pieces(search, bucket, -(-each // limit))]
        step = max(1, limit // max(1, each))
        found = []
        for start in range(0, bucket.width, step):
            width = min(step, bucket.width - start)
            patterns, scores = search.run(bucket, start, width)
            chunk = [i.view(bucket.depth, -1)[:, start : start + width] for i in bucket.indices]
            row_of = search.row_of([index.reshape(-1) for index in chunk], width)
            found.append(Proofs(patterns, scores, search.layout, search.disjoint, row_of=row_of))
        return found

    def _in_pieces(self, search: Search, bucket: BucketTensors, pieces: int) -> Proofs:
        """Groups too large to be looked at as a whole: the best of each piece, then of those."""
        depth = -(-bucket.depth // min(pieces, bucket.depth))
        parts = [
            proofs.concat(self._searched(search, bucket.piece(start, depth)))
            for start in range(0, bucket.depth, depth)
        ]
        joined = replace(proofs.concat(parts), disjoint=search.disjoint)
        places = np.arange(joined.n)
        return self.contract([joined], Contraction([places], places % bucket.width, bucket.width))

    def _two_by_two(self, operands: Sequence[Proofs], plan: Contraction) -> Proofs:
        """Many operands: k² unions for each operand more, and never more than fit in memory."""
        rows = max(operand.rows for operand in operands)
        limit = chunk_elements()
        found: list[Proofs] = []
        for steps in plan.two_by_two(max(1, limit // (2 * rows * self.k))):
            tags = operands[0]
            for step, operand in zip(steps, operands[1:], strict=True):
                tags = self.contract([tags, operand], step)
            found.append(tags)
        joined = proofs.concat(found)
        return replace(joined, disjoint=all(part.disjoint for part in found))

    def folds_freely(self, operands: Sequence[Proofs | None], exclusive: bool) -> bool:
        """With proofs that exclude each other and share no input, nothing is dropped too early."""
        given = [operand for operand in operands if operand is not None]
        facts = [p.facts for operand in given for p in operand.layout.placements]
        apart = len({id(each) for each in facts}) == len(facts) and all_apart(facts)
        return apart and all(operand.disjoint for operand in given)

    few = 20_000

    def waits(self, plan: IndexLists, operands: Sequence[Proofs]) -> bool:
        return plan.sizes is not None and len(operands) == 2

    def _none(self, operands: Sequence[Proofs], search: Search, n: int) -> Proofs:
        scores = operands[0].scores.new_full((1, n, search.rows), NO_PROOF)
        patterns = operands[0].patterns.new_zeros(search.layout.words, 1, n, 1)
        flat = any(operand.row_of is not None for operand in operands)
        row_of = torch.zeros(n, dtype=torch.int64, device=scores.device) if flat else None
        return Proofs(patterns, scores, search.layout, search.disjoint, row_of=row_of)

    @torch.no_grad()
    def negate(self, tags: Proofs) -> Proofs:
        """¬(P ∨ Q) = ¬P ∧ ¬Q, and ¬P holds if any one constraint of P is broken."""
        tags = proofs.with_signs(tags)
        places = np.arange(tags.n)
        plan = Contraction([places, places], places, tags.n)
        result = replace(self.one(tags.n, tags), row_of=tags.row_of)
        for slot in range(tags.k):
            result = self.contract([result, self._broken(tags, slot)], plan)
        return result

    def _broken(self, tags: Proofs, slot: int) -> Proofs:
        """The k likeliest ways in which one proof fails; a missing proof always does."""
        pattern = tags.patterns[:, slot]
        exists = tags.exists[slot]
        ways, scores = [torch.zeros_like(pattern)], [torch.where(exists, NO_PROOF, 0.0)]
        for digit in (d for placement in tags.layout.placements for d in placement.digits()):
            kept = pattern[digit.word] & digit.mask
            way = torch.zeros_like(pattern)
            way[digit.word] = digit.mask & ~kept
            score = log_weights(way[:, None], tags.layout, tags.row_of, weights=SEARCHING)[0]
            ways.append(way)
            scores.append(torch.where((kept != 0) & exists, score, NO_PROOF))
        rows = max(score.shape[-1] for score in scores)
        order = torch.stack([score.expand(-1, rows) for score in scores])
        best, at = order.topk(min(self.k, len(order)), dim=0)
        patterns = torch.stack([way.expand(-1, -1, rows) for way in ways], dim=1)
        chosen = patterns.gather(1, at.expand(patterns.shape[0], *at.shape))
        return Proofs(chosen, best, tags.layout, disjoint=False, row_of=tags.row_of)

    def saturated(self, old: Proofs, new: Proofs) -> bool:
        _, patterns, scores = proofs.aligned([old, new])
        exists = scores[0] > NO_PROOF
        if not torch.equal(exists, scores[1] > NO_PROOF):
            return False
        return bool(((patterns[0] == patterns[1]) | ~exists).all())

    # -- moving tags about -------------------------------------------------------------------------

    def select(self, tags: Proofs, index: Index) -> Proofs:
        return proofs.select(tags, index)

    def concat(self, parts: Sequence[Proofs]) -> Proofs:
        return proofs.concat(parts)

    def pick(self, parts: Sequence[Proofs], index: Index) -> Proofs:
        picked = self.select(proofs.concat(parts), index)
        return replace(picked, disjoint=all(part.disjoint for part in parts))

    def where(self, mask: Tensor, yes: Proofs, no: Proofs) -> Proofs:
        return proofs.where(mask, yes, no)

    def flatten(self, tags: Proofs, rows: int) -> Proofs:
        return proofs.flatten(tags, rows)

    def unflatten(self, tags: Proofs, rows: int) -> Proofs:
        return proofs.unflatten(tags, rows)

    def stack(self, parts: Sequence[Proofs], batches: Sequence[int], *, flat: bool) -> Proofs:
        return proofs.stack(parts, batches, flat=flat)

    def take_rows(self, tags: Proofs, rows: np.ndarray, width: int | None) -> Proofs:
        return proofs.take_rows(tags, rows, width)

    def moved(self, tags: Proofs, move: Callable[[Tensor], Tensor]) -> Proofs:
        return proofs.moved_to(tags, move)

    def describe(self, tags: Proofs) -> TagInfo:
        return TagInfo(tags.scores.device, tags.rows, proofs.precision(tags))

    @torch.no_grad()
    def likeliest(
        self, inputs: Sequence[Proofs], target: Proofs
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        return likeliest_choices(inputs, target)

    # -- for people --------------------------------------------------------------------------------

    def proofs(self, tags: Proofs, place: int, row: int) -> list[tuple[float, list[Any]]]:
        column = 0 if tags.scores.shape[-1] == 1 else row
        shown = []
        for slot in range(tags.k):
            if tags.scores[slot, place, column] == NO_PROOF:
                continue
            at = 0 if tags.patterns.shape[-1] == 1 else row
            words = tags.patterns[:, slot, place, at].tolist()
            facts = [fact for p in tags.layout.placements for fact in _spelled(words, p, row)]
            probability = 1.0
            for group in facts:
                probability *= group[-1]
            shown.append((probability, [fact[:-1] for fact in facts]))
        return sorted(shown, key=lambda proof: -proof[0])


def _spelled(
    words: list[int], placement: Placement, row: int
) -> list[tuple[Any, bool, float, float]]:
    """The facts of one input in a proof: (label, holds, probability, factor of the proof)."""
    facts = placement.facts
    probs = facts.probs[:, 0 if facts.rows == 1 else row].tolist()
    spelled = []
    for group in placement.code.groups:
        allowed = allowed_values(words, placement, group)
        values = value_probs(probs, group)
        mass = sum(values[v] for v in allowed)
        if len(allowed) == len(values):
            continue
        if len(allowed) == 1 and max(allowed) < len(group.columns):
            column = group.columns[max(allowed)]
            spelled.append((facts.label(column, row), True, probs[column], mass))
            continue
        out = [group.columns[v] for v in range(len(group.columns)) if v not in allowed]
        for number, column in enumerate(out):
            factor = mass if number == 0 else 1.0
            spelled.append((facts.label(column, row), False, 1.0 - probs[column], factor))
    return spelled
