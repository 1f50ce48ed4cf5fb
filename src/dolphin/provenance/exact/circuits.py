"""Circuits: sums of products of probabilities, evaluated layer by layer for a whole batch.

A layer is a contraction (see indices.py): each of its nodes is a sum of products of two earlier
values. Values that later layers need are passed on, so a layer reads the one before it and nothing
else. Everything is in logarithms and double precision, so nothing underflows; a layer's backward
pass needs no more memory than its values. Only second derivatives are computed in plain numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import BucketTensors, Contraction, to_device
from dolphin.provenance.damp import DAMP
from dolphin.provenance.differentiation import Formula, followed
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import ZERO, precisely, prob_of_log, rounded_to, safe_log

_SUMS = DAMP(above_one="pass")

Pairs = list[tuple[int, int]]


@dataclass
class Sketch:
    """A circuit under construction. Values are numbered: two constants, then what is added."""

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
        self._leaves: dict[torch.device, tuple[Tensor, Tensor, Tensor]] = {}

    def log_probs(self, inputs: Sequence[Facts], device: torch.device) -> Tensor:
        """(roots, rows) logarithms, in double precision."""
        return self._evaluated(inputs, device, logs=True)

    def probs(self, inputs: Sequence[Facts], device: torch.device) -> Tensor:
        """(roots, rows) probabilities, in double precision."""
        return self._evaluated(inputs, device, logs=False)

    def _evaluated(self, inputs: Sequence[Facts], device: torch.device, *, logs: bool) -> Tensor:
        rows = max([1, *(facts.rows for facts in inputs)])
        given = self._facts_in(inputs, rows, device)
        left = self._left(inputs, rows, device)
        if followed():
            return self.in_logarithms(logs, *given, left)
        return _Evaluation.apply(self, logs, *given, left)  # type: ignore[return-value]

    def in_logarithms(self, logs: bool, are_logs: bool, facts: Tensor, left: Tensor) -> Tensor:
        """Evaluation that never underflows."""
        constants = torch.tensor([[ZERO], [0.0]], dtype=torch.float64, device=facts.device)
        known = facts if are_logs else safe_log(facts)
        values = torch.cat([constants.expand(2, facts.shape[1]), known, safe_log(left)])
        for number, (contraction, keep) in enumerate(self.layers):
            made = _SUMS.contract([values, values], contraction)
            values = self._handed_on(made, values, number, keep)
        values = values.index_select(0, self._on("roots", self.roots, facts.device))
        return values if logs else prob_of_log(values)

    def in_numbers(self, logs: bool, are_logs: bool, facts: Tensor, left: Tensor) -> Tensor:
        """Evaluation without logarithms: second derivatives are correct even near 0 and 1."""
        constants = torch.tensor([[0.0], [1.0]], dtype=torch.float64, device=facts.device)
        known = prob_of_log(facts) if are_logs else facts
        values = torch.cat([constants.expand(2, facts.shape[1]), known, left])
        for number, (contraction, keep) in enumerate(self.layers):
            parts = [_sums_of_products(values, bucket) for bucket in contraction.on(values.device)]
            made = torch.cat(parts)
            if contraction.position is not None:
                made = made.index_select(0, contraction.position.on(values.device)[0])
            values = self._handed_on(made, values, number, keep)
        values = values.index_select(0, self._on("roots", self.roots, facts.device))
        return safe_log(values) if logs else values

    def _handed_on(self, made: Tensor, before: Tensor, number: int, keep: np.ndarray) -> Tensor:
        """The results of a layer, and the values before it that later layers need."""
        if not len(keep):
            return made
        places = self._on(f"keep {number}", keep, made.device)
        return torch.cat([made, before.index_select(0, places)])

    def prepare(self, columns: Sequence[int], device: torch.device) -> None:
        """Create all index tensors on `device` now, for inputs with this many columns each."""
        for number, (contraction, keep) in enumerate(self.layers):
            contraction.on(device)
            if contraction.position is not None:
                contraction.position.on(device)
            self._on(f"keep {number}", keep, device)
        self._on("roots", self.roots, device)
        self._leaf_indices(columns, device)

    def _leaf_indices(
        self, columns: Sequence[int], device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The places of facts, and of the columns of rests, among all inputs'; whose they are.

        A circuit belongs to inputs with certain groups, so the columns are always the same.
        """
        cached = self._leaves.get(device)
        if cached is None:
            start = np.cumsum([0, *columns])
            facts = [start[p] + c for p, c in self.facts]
            places = [start[p] + c for p, group in self.rests for c in group]
            owners = [at for at, (_, group) in enumerate(self.rests) for _ in group]
            arrays = [np.array(part, dtype=np.int64) for part in (facts, places, owners)]
            first, second, third = (to_device(array, device) for array in arrays)
            cached = self._leaves[device] = (first, second, third)
        return cached

    def _facts_in(
        self, inputs: Sequence[Facts], rows: int, device: torch.device
    ) -> tuple[bool, Tensor]:
        """The facts that occur, (facts, rows), and whether they are logarithms.

        As given, if all were given as probabilities: near 0 this matters for second derivatives.
        """
        if not self.facts:
            return True, torch.zeros(0, rows, dtype=torch.float64, device=device)
        numbers = [facts.given_probs for facts in inputs]
        are_logs = any(each is None for each in numbers)
        if are_logs:
            numbers = [facts.log_probs for facts in inputs]
        every = [precisely(each).expand(-1, rows) for each in numbers if each is not None]
        places, _, _ = self._leaf_indices([facts.columns for facts in inputs], device)
        return are_logs, torch.cat(every).index_select(0, places)

    def _left(self, inputs: Sequence[Facts], rows: int, device: torch.device) -> Tensor:
        """P(none of some columns holds), (rests, rows)."""
        if not self.rests:
            return torch.zeros(0, rows, dtype=torch.float64, device=device)
        probs = torch.cat([_probs(facts).expand(-1, rows) for facts in inputs])
        _, places, owners = self._leaf_indices([facts.columns for facts in inputs], device)
        taken = probs.new_zeros(len(self.rests), rows)
        left = 1.0 - taken.index_add(0, owners, probs.index_select(0, places))
        return left + (left.clamp(min=0.0) - left).detach()  # rounding may go below 0

    def _on(self, name: str, array: np.ndarray, device: torch.device) -> Tensor:
        known = self._tensors.get((name, device))
        if known is None:
            known = self._tensors[name, device] = to_device(array, device)
        return known


class _Evaluation(Formula):
    """A circuit's value: through logarithms, or in plain numbers for second derivatives."""

    @staticmethod
    def value(
        ctx: Any, circuit: Circuit, logs: bool, are_logs: bool, facts: Tensor, left: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        if not any(ctx.needs_input_grad):
            return circuit.in_logarithms(logs, are_logs, facts, left), ()
        with torch.enable_grad():
            ctx.inputs = [tensor.detach().requires_grad_() for tensor in (facts, left)]
            ctx.out = circuit.in_logarithms(logs, are_logs, *ctx.inputs)
        return ctx.out.detach(), ()

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        if not ctx.out.requires_grad:
            return None, None
        return torch.autograd.grad(ctx.out, ctx.inputs, grad, retain_graph=True, allow_unused=True)

    @staticmethod
    def formula(
        circuit: Circuit, logs: bool, are_logs: bool, facts: Tensor, left: Tensor
    ) -> Tensor:
        return circuit.in_numbers(logs, are_logs, facts, left)


def _sums_of_products(values: Tensor, bucket: BucketTensors) -> Tensor:
    left, right = (values.index_select(0, index) for index in bucket.indices)
    products = (left * right).view(bucket.depth, bucket.width, -1)
    if bucket.pad is not None:
        products = products.masked_fill(bucket.pad[:, :, None], 0.0)
    return products.sum(0)


def _probs(facts: Facts) -> Tensor:
    """Probabilities in double precision, from the logarithms if those are what was given."""
    given = facts.given_probs
    return prob_of_log(precisely(facts.log_probs)) if given is None else precisely(given)


class CircuitEvaluator:
    """A compiled program that takes its facts as arguments."""

    def __init__(
        self,
        circuit: Circuit,
        places: np.ndarray,
        order: Sequence[int],
        columns: Sequence[int],
    ) -> None:
        self.circuit, self.places = circuit, places
        self.order, self.columns = tuple(order), tuple(columns)
        self._tensors: dict[torch.device, Tensor] = {}

    def prepare(self, device: torch.device) -> None:
        """Create all index tensors on `device`."""
        self._tensors[device] = to_device(self.places, device)
        self.circuit.prepare(self.columns, device)

    def __call__(self, facts: Sequence[Facts], logs: bool) -> Tensor:
        device, evaluate = facts[0].log_probs.device, Circuit.log_probs if logs else Circuit.probs
        made = evaluate(self.circuit, [facts[at] for at in self.order], device)
        widest = functools.reduce(torch.promote_types, (each.log_probs.dtype for each in facts))
        made = made.index_select(0, self._tensors[device])
        return made.to(widest) if logs else rounded_to(widest, made)
