"""Circuits: sums of products of probabilities, evaluated layer by layer for a whole batch.

A layer is a contraction (see indices.py): each of its nodes is a sum of products of two earlier
values. Values that later layers need are handed on, so a layer reads the one before it and nothing
else. Everything is in logarithms and double precision, so nothing underflows; a layer's backward
pass needs no more memory than its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import Contraction, to_device
from dolphin.provenance.damp import DAMP
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import ZERO, precisely, prob_of_log, safe_log

_SUMS = DAMP(above_one="pass")

Pairs = list[tuple[int, int]]


@dataclass
class Sketch:
    """A circuit being put together. Values are numbered: two constants, then what is added."""

    values: list[object] = field(default_factory=lambda: ["false", "true"])
    _facts: dict[tuple[int, int], int] = field(default_factory=dict)
    _rests: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)

    def fact(self, position: int, column: int) -> int:
        """P(this column of this input holds)."""
        return self._leaf(self._facts, (position, column))

    def rest(self, position: int, columns: tuple[int, ...]) -> int:
        """P(none of these columns, which exclude each other, holds)."""
        return self._leaf(self._rests, (position, columns))

    def _leaf(self, known: dict, key: tuple) -> int:
        number = known.get(key)
        if number is None:
            number = known[key] = len(self.values)
            self.values.append(key)
        return number

    def sum_of_products(self, pairs: Pairs) -> int:
        """Σ of products of two values each."""
        self.values.append(pairs)
        return len(self.values) - 1

    def finish(self, roots: Sequence[int]) -> Circuit:
        """The circuit for these values."""
        return Circuit(self, roots)


class Circuit:
    """Index lists of all layers, ready to be evaluated. Immutable but for copies on devices."""

    def __init__(self, sketch: Sketch, roots: Sequence[int]) -> None:
        self.facts = list(sketch._facts)
        self.rests = list(sketch._rests)
        leaves = [0, 1, *sketch._facts.values(), *sketch._rests.values()]
        depth = dict.fromkeys(leaves, 0)
        by_depth: list[list[int]] = [leaves]
        last_use: dict[int, int] = {}
        for number, value in enumerate(sketch.values):
            if number in depth:
                continue
            pairs: Pairs = value  # type: ignore[assignment]
            depth[number] = here = 1 + max(depth[part] for pair in pairs for part in pair)
            if here == len(by_depth):
                by_depth.append([])
            by_depth[here].append(number)
            for pair in pairs:
                for part in pair:
                    last_use[part] = max(last_use.get(part, 0), here)
        last_use.update(dict.fromkeys(roots, len(by_depth)))
        self.nodes = sum(map(len, by_depth))
        self.layers: list[tuple[Contraction, np.ndarray]] = []
        live = leaves
        for here, numbers in enumerate(by_depth[1:], start=1):
            place = {number: at for at, number in enumerate(live)}
            left, right, group = [], [], []
            for at, number in enumerate(numbers):
                for a, b in sketch.values[number]:  # type: ignore[attr-defined]
                    left.append(place[a])
                    right.append(place[b])
                    group.append(at)
            arrays = [np.array(part, dtype=np.int64) for part in (left, right, group)]
            kept = [number for number in live if last_use.get(number, 0) > here]
            keep = np.array([place[number] for number in kept], dtype=np.int64)
            self.layers.append((Contraction(arrays[:2], arrays[2], len(numbers)), keep))
            live = numbers + kept
        place = {number: at for at, number in enumerate(live)}
        self.roots = np.array([place[root] for root in roots], dtype=np.int64)
        self._tensors: dict[tuple[str, torch.device], Tensor] = {}

    def log_probs(self, inputs: Sequence[Facts], device: torch.device) -> Tensor:
        """(roots, rows) logarithms, in double precision."""
        values = self._leaves(inputs, device)
        for number, (contraction, keep) in enumerate(self.layers):
            made = _SUMS.contract([values, values], contraction)
            if len(keep):
                kept = values.index_select(0, self._on(f"keep {number}", keep, device))
                made = torch.cat([made, kept])
            values = made
        return values.index_select(0, self._on("roots", self.roots, device))

    def prepare(self, device: torch.device) -> None:
        """Make all index tensors on `device`, before anything is compiled."""
        for number, (contraction, keep) in enumerate(self.layers):
            contraction.on(device)
            if contraction.position is not None:
                contraction.position.on(device)
            self._on(f"keep {number}", keep, device)
        self._on("roots", self.roots, device)

    def _leaves(self, inputs: Sequence[Facts], device: torch.device) -> Tensor:
        rows = max([1, *(facts.rows for facts in inputs)])
        constants = torch.tensor([[ZERO], [0.0]], dtype=torch.float64, device=device)
        parts = [constants.expand(2, rows)]
        start = np.cumsum([0, *(facts.columns for facts in inputs)])
        if self.facts:
            logs = [precisely(facts.log_probs).expand(-1, rows) for facts in inputs]
            places = np.array([start[p] + c for p, c in self.facts], dtype=np.int64)
            parts.append(torch.cat(logs).index_select(0, self._on("facts", places, device)))
        if self.rests:
            probs = torch.cat([_probs(facts).expand(-1, rows) for facts in inputs])
            columns = [start[p] + c for p, group in self.rests for c in group]
            owner = [at for at, (_, group) in enumerate(self.rests) for _ in group]
            places = self._on("columns", np.array(columns, dtype=np.int64), device)
            owners = self._on("owners", np.array(owner, dtype=np.int64), device)
            taken = probs.new_zeros(len(self.rests), rows)
            taken = taken.index_add(0, owners, probs.index_select(0, places))
            left = 1.0 - taken
            parts.append(safe_log(left + (left.clamp(min=0.0) - left).detach()))
        return torch.cat(parts)

    def _on(self, name: str, array: np.ndarray, device: torch.device) -> Tensor:
        known = self._tensors.get((name, device))
        if known is None:
            known = self._tensors[name, device] = to_device(array, device)
        return known


def _probs(facts: Facts) -> Tensor:
    """Probabilities in double precision, from the logarithms if those are what was given."""
    if facts._probs is None:
        return prob_of_log(precisely(facts.log_probs))
    return precisely(facts._probs)
