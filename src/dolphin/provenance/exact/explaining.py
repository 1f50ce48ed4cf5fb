"""The likeliest proofs of a formula: small sets of facts, each enough for it to hold.

A path through the formula's decision diagram to TRUE names a value for some groups: a column that
holds, or columns none of which does. Paths are found best first. What a path doesn't need is
removed again, negated facts before others, so that the rest is a proof: none of its facts can be
left out.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dolphin.provenance.exact.diagrams import Diagrams
from dolphin.provenance.exact.formulas import FALSE, TRUE
from dolphin.provenance.facts import Facts

MOST_PROOFS = 10
MOST_PATHS = 1000  # that are visited; many of them may reduce to the same proof


class Literal(NamedTuple):
    """What a proof says about one group of exclusive columns."""

    level: int
    holds: bool
    columns: tuple[int, ...]  # the one that holds, or those none of which does


Proof = frozenset[Literal]
Probability = Callable[[Literal], float]


def likeliest_proofs(
    diagrams: Diagrams, root: int, probability: Probability
) -> list[tuple[float, Proof]]:
    """Up to `MOST_PROOFS` proofs of a node, likeliest first, with their probabilities."""
    proofs: dict[Proof, float] = {}
    paths = _best_paths(diagrams, root, probability)
    for path in itertools.islice(paths, MOST_PATHS):
        proof = _without_surplus(diagrams, root, path, probability)
        if proof not in proofs:
            weight = 1.0
            for literal in proof:
                weight *= probability(literal)
            proofs[proof] = weight
        if len(proofs) == MOST_PROOFS:
            break
    return sorted(((weight, proof) for proof, weight in proofs.items()), key=lambda each: -each[0])


def _branches(diagrams: Diagrams, node: int) -> list[tuple[Literal, int]]:
    """The possible values at a node, and where each leads."""
    level, default, cases = diagrams.nodes[node]
    branches = [(Literal(level, True, (column,)), to) for column, to in cases]
    return [*branches, (Literal(level, False, tuple(column for column, _ in cases)), default)]


def _best_paths(
    diagrams: Diagrams, root: int, probability: Probability
) -> Iterator[tuple[Literal, ...]]:
    """All possible paths to TRUE, best first."""
    best = {FALSE: 0.0, TRUE: 1.0}
    for node in diagrams.below([root]):  # each after those that it leads to
        best[node] = max(probability(said) * best[to] for said, to in _branches(diagrams, node))
    tie = itertools.count()
    waiting: list[tuple[float, int, int, float, tuple[Literal, ...]]]
    waiting = [(-best[root], next(tie), root, 1.0, ())]
    while waiting:
        _, _, node, weight, said = heapq.heappop(waiting)
        if node == TRUE:
            yield said
            continue
        for literal, to in _branches(diagrams, node) if node != FALSE else ():
            so_far = weight * probability(literal)
            if so_far * best[to] > 0.0:
                entry = (-so_far * best[to], next(tie), to, so_far, (*said, literal))
                heapq.heappush(waiting, entry)


def _without_surplus(
    diagrams: Diagrams, root: int, path: tuple[Literal, ...], probability: Probability
) -> Proof:
    """The path without what it doesn't need; unlikely and negated facts are removed first."""
    kept = {literal.level: literal for literal in path}
    for literal in sorted(path, key=lambda each: (each.holds, probability(each))):
        for column in literal.columns:
            columns = tuple(c for c in kept[literal.level].columns if c != column)
            fewer = {level: said for level, said in kept.items() if level != literal.level}
            if columns:
                fewer[literal.level] = literal._replace(columns=columns)
            if _enough(diagrams, root, fewer):
                kept = fewer
    return frozenset(kept.values())


def _enough(diagrams: Diagrams, root: int, said: Mapping[int, Literal]) -> bool:
    """Whether every path on which this is so leads to TRUE."""
    waiting, seen = [root], {FALSE, TRUE}
    while waiting:
        node = waiting.pop()
        if node == FALSE:
            return False
        if node in seen:
            continue
        seen.add(node)
        level, default, cases = diagrams.nodes[node]
        literal = said.get(level)
        if literal is not None and literal.holds:
            waiting.append(dict(cases).get(literal.columns[0], default))
            continue
        waiting.append(default)
        out = () if literal is None else literal.columns
        waiting += [to for column, to in cases if column not in out]
    return True


class Spelling:
    """Literals in one row: their probabilities, and their facts."""

    def __init__(self, diagrams: Diagrams, inputs: Sequence[Facts], row: int) -> None:
        self.order, self.inputs, self.row = diagrams.order, inputs, row
        self.probs = [
            facts.probs[:, 0 if facts.rows == 1 else row].detach().tolist() for facts in inputs
        ]

    def probability(self, literal: Literal) -> float:
        """The probability of a literal in the row."""
        probs = self.probs[self.order[literal.level][0]]
        held = sum(probs[column] for column in literal.columns)
        return held if literal.holds else max(0.0, 1.0 - held)

    def facts(self, literal: Literal) -> list[tuple[Any, bool, float, Any]]:
        """A literal as facts: (label, holds, probability, key)."""
        position = self.order[literal.level][0]
        facts, probs = self.inputs[position], self.probs[position]
        row = 0 if facts.rows == 1 else self.row
        return [
            (
                facts.label(c, row),
                literal.holds,
                probs[c] if literal.holds else 1.0 - probs[c],
                facts.key(c, row),
            )
            for c in literal.columns
        ]
