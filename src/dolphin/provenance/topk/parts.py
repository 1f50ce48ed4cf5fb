"""Inputs of many facts, of which programs use a few: a knowledge base and its queries.

A proof has bits for all facts of an input. For 50,000 independent facts that would be 794 words
per proof, and 50,000 such proofs for the input itself. So a large input is not encoded until facts
of it are selected, and then bits are assigned to those alone: the proofs refer to a *part* of the
input. Where two parts of one input are combined, their proofs are rewritten in terms of all facts
that either of them has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dolphin.errors import SizeError
from dolphin.execution.indices import to_device
from dolphin.provenance.facts import Facts, all_alone
from dolphin.provenance.numerics import chunk_elements
from dolphin.provenance.topk.encoding import WORD_BITS, Code, Layout, Placement, code_of
from dolphin.provenance.topk.weighing import FACT_PENALTY, SEARCHING
from dolphin.settings import current_settings

MANY = 256  # groups of facts above which an input is encoded in parts
_WORDS_EACH = 10  # that all proofs together may take, per combination that is allowed


@dataclass(frozen=True)
class LargeInput:
    """The unchanged facts of an input, not encoded yet."""

    facts: Facts
    flat: bool = False  # whether rows are flattened

    @property
    def n(self) -> int:
        return self.facts.columns * (self.facts.rows if self.flat else 1)

    @property
    def scores(self) -> Tensor:
        """The same as those of `Proofs`, (1, n, r)."""
        scores = SEARCHING.of(self.facts.log_probs) - FACT_PENALTY
        return scores.t().reshape(1, -1, 1) if self.flat else scores[None]

    def groups_at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Column and group of the facts at some places."""
        columns = places % self.facts.columns
        if all_alone(self.facts.groups, self.facts.columns):
            return columns, columns
        group_of = np.empty(self.facts.columns, dtype=np.int64)
        for number, group in enumerate(self.facts.groups):
            group_of[list(group)] = number
        return columns, group_of[columns]


def place_among(facts: Facts, columns: np.ndarray) -> np.ndarray:
    """The places of columns of the whole in a part."""
    if facts.whole is None or facts.chosen is None:
        return columns
    kept = np.array([c for g in facts.chosen.tolist() for c in facts.whole.groups[g]])
    order = np.argsort(kept)
    return order[np.searchsorted(kept, columns, sorter=order)]


def check_words(words: int, proofs: int) -> None:
    """Refuse proofs that would fill the memory, before they are created."""
    most = _WORDS_EACH * current_settings().max_combinations
    if words * proofs > most:
        raise SizeError(
            f"TopKProofs: {proofs:,} proofs over inputs of many facts take {words:,} words each, "
            f"{words * proofs:,} in all and more than {most:,}. Start from the queries, so that "
            "proofs refer to few facts (join certain queries with the facts, "
            "apply_if(queries, facts, f, on=...)), filter the facts first, use a provenance "
            "that keeps numbers ('damp', 'viterbi'), or raise the limit with "
            "dolphin.settings(max_combinations=...)."
        )


@dataclass(frozen=True)
class _Digits:
    """The digits of a code as arrays, by group."""

    starts: np.ndarray  # (groups + 1,) where the digits of each group start
    words: np.ndarray
    shifts: np.ndarray
    masks: np.ndarray

    @classmethod
    def of(cls, code: Code) -> _Digits:
        digits = [digit for group in code.groups for digit in group.digits]
        table = np.array([(d.word, d.shift, (1 << d.size) - 1) for d in digits], dtype=np.int64)
        starts = np.cumsum([0, *(len(group.digits) for group in code.groups)])
        return cls(starts, *table.reshape(-1, 3).T)

    def of_groups(self, groups: np.ndarray) -> np.ndarray:
        counts = self.starts[groups + 1] - self.starts[groups]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(self.starts[groups], counts) + within


def rewritten(patterns: Tensor, source: Placement, target: Placement, out: Tensor) -> None:
    """Add the bits of a part to `out`, in the places that another part has for them."""
    old, new = source.facts.chosen, target.facts.chosen
    assert old is not None
    groups = old if new is None else np.searchsorted(new, old)
    ours, theirs = _Digits.of(source.code), _Digits.of(target.code)
    to = theirs.of_groups(groups)
    step = max(1, chunk_elements() // max(1, patterns[0].numel()))
    for start in range(0, len(ours.words), step):
        some, there = slice(start, start + step), to[start : start + step]
        columns = (
            to_device(array, patterns.device).view(-1, 1, 1, 1)
            for array in (ours.shifts[some] + source.shift, ours.masks[some], theirs.shifts[there])
        )
        shift, mask, up = columns
        words = to_device(ours.words[some] + source.word, patterns.device)
        bits = (patterns.index_select(0, words) >> shift) & mask
        at = to_device(theirs.words[there] + target.word, patterns.device)
        out.index_add_(0, at, bits << (up + target.shift))


def common_parts(facts: Sequence[Facts]) -> dict[int, Facts]:
    """For facts, by identity, their replacements, of which no two overlap.

    Parts of the same rows of one input become one part that has the groups of all; where rows were
    assembled in different ways, or the input itself occurs, all of it is encoded.
    """
    given = list({id(each): each for each in facts}.values())
    if all(each.chosen is None for each in given):
        return {}
    replacements: dict[int, Facts] = {}
    for family in _families(given):
        if len(family) == 1 or all(each.chosen is None for each in family):
            continue
        first = family[0].whole or family[0]
        for each in family:
            whole = each.whole or each
            if whole.groups != first.groups:
                raise AssertionError("facts of one origin have the same groups")
        parts = [each.chosen for each in family if each.chosen is not None]
        joined = None
        if len(parts) == len(family) and _same_rows(family):
            chosen = np.unique(np.concatenate(parts))
            fits = (e for e, own in zip(family, parts, strict=True) if len(own) == len(chosen))
            joined = next(fits, None) or first.part(chosen)
        for each in family:
            target = joined or each.whole or each
            if target is not each:
                replacements[id(each)] = target
    return replacements


def _same_rows(family: Sequence[Facts]) -> bool:
    return all(np.array_equal(each.origins, family[0].origins) for each in family)


def _families(facts: Sequence[Facts]) -> list[list[Facts]]:
    """The facts grouped by common origins."""
    families: list[tuple[np.ndarray, list[Facts]]] = []
    for each in facts:
        own = np.unique(each.origins)
        near = [family for family in families if np.isin(family[0], own).any()]
        families = [family for family in families if not any(family is other for other in near)]
        origins = np.unique(np.concatenate([own, *(family[0] for family in near)]))
        families.append((origins, [*(f for family in near for f in family[1]), each]))
    return [family for _, family in families]


Fields = tuple[Tensor, Tensor]


def literal_patterns(part: Facts, columns: np.ndarray) -> tuple[Tensor, Layout, Fields | None]:
    """Patterns (words, 1, n, 1) of facts, their layout, and word and mask of each one's group."""
    check_words(len(part.groups) // WORD_BITS, part.columns)
    code = code_of(part.groups, False)
    check_words(code.words, code.columns)
    tensors = code.on(part.log_probs.device)
    places = to_device(columns, part.log_probs.device)
    fields = None
    if code.single_digits:
        fields = (tensors.words.index_select(0, places), tensors.masks.index_select(0, places))
    return tensors.holds.index_select(2, places), Layout().having(part), fields
