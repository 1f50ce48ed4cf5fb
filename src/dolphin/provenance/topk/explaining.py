"""Proofs for inspection: facts with their labels and probabilities."""

from __future__ import annotations

from typing import Any

from dolphin.provenance.differentiation import array_of
from dolphin.provenance.topk.encoding import Placement
from dolphin.provenance.topk.likeliest import allowed_values, value_probs
from dolphin.provenance.topk.proofs import NO_PROOF, Proofs


def explained(tags: Proofs, place: int, row: int) -> list[tuple[float, list[Any]]]:
    """The proofs of a symbol in a row with their probabilities and facts, the likeliest first."""
    column = 0 if tags.scores.shape[-1] == 1 else row
    scores = array_of(tags.scores[:, place, column])
    shown = []
    for slot in range(tags.k):
        if scores[slot] == NO_PROOF:
            continue
        at = 0 if tags.patterns.shape[-1] == 1 else row
        words = tags.patterns[:, slot, place, at].tolist()
        facts = [fact for p in tags.layout.placements for fact in _spelled(words, p, row)]
        probability = 1.0
        for *_, factor in facts:
            probability *= factor
        shown.append((probability, [fact[:-1] for fact in facts]))
    return sorted(shown, key=lambda proof: -proof[0])


def _spelled(
    words: list[int], placement: Placement, row: int
) -> list[tuple[Any, bool, float, Any, float]]:
    """The facts of one input in a proof: (label, holds, probability, key, factor of the proof)."""
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
            key = facts.key(column, row)
            spelled.append((facts.label(column, row), True, probs[column], key, mass))
            continue
        out = [group.columns[v] for v in range(len(group.columns)) if v not in allowed]
        for number, column in enumerate(out):
            factor = mass if number == 0 else 1.0
            key = facts.key(column, row)
            spelled.append((facts.label(column, row), False, 1.0 - probs[column], key, factor))
    return spelled
