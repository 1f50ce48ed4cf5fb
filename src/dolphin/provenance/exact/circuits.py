"""Circuits: sums of products of probabilities, evaluated level by level for a whole batch.

Each node is a sum of products of two values of earlier levels, in double precision. Three ways lead
to the same values. Plain numbers (sweeps.py) are fast, and enough unless a logarithm is asked for
of something too small for them. Then, and where a compiler or a device forbids reading values,
logarithms are used. Second derivatives are taken of plain numbers in ordinary operations. There a
level is a contraction (see indices.py), and what later levels need is handed on.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.buckets import BucketTensors
from dolphin.execution.indices import Contraction, to_device
from dolphin.provenance.damp import DAMP
from dolphin.provenance.differentiation import Formula, followed, reading_is_free
from dolphin.provenance.exact.leaves import AreLogs, logs_of, numbers_of, probs_of, raised_log
from dolphin.provenance.exact.sweeps import Level, Sweep
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import (
    ZERO,
    floor,
    rounded_to,
    safe_log,
    underflows,
)

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
    """Index lists of all layers, ready to be evaluated. Immutable but for copies on devices.

    Values stand one after the other: two constants, facts, rests, then each layer's nodes.
    """

    def __init__(self, sketch: Sketch, roots: Sequence[int]) -> None:
        self.facts = list(sketch._facts)
        self.rests = list(sketch._rests)
        leaves = [0, 1, *sketch._facts.values(), *sketch._rests.values()]
        self.leaves = len(leaves)
        depth = dict.fromkeys(leaves, 0)
        by_depth: list[list[int]] = [leaves]
        for number, value in enumerate(sketch.values):
            if number in depth:
                continue
            pairs: Pairs = value  # type: ignore[assignment]
            depth[number] = here = 1 + max(depth[part] for pair in pairs for part in pair)
            if here == len(by_depth):
                by_depth.append([])
            by_depth[here].append(number)
        place = {number: at for at, number in enumerate(itertools.chain(*by_depth))}
        self.nodes = len(place)
        self.levels: list[Level] = []
        first = self.leaves
        for numbers in by_depth[1:]:
            triples = [
                (place[a], place[b], at)
                for at, number in enumerate(numbers, start=first)
                for a, b in sketch.values[number]  # type: ignore[attr-defined]
            ]
            left, right, node = np.array(triples, dtype=np.int64).T
            self.levels.append(Level(left, right, node, len(numbers)))
            first += len(numbers)
        self.places = np.array([place[root] for root in roots], dtype=np.int64)
        self._tensors: dict[tuple[str, torch.device], Tensor] = {}
        self._leaves: dict[torch.device, tuple[Tensor, Tensor, Tensor]] = {}
        self._sweeps: dict[torch.device, Sweep] = {}

    @functools.cached_property
    def never(self) -> np.ndarray | None:
        """Which roots are impossible whatever the numbers, if any is."""
        false = self.places == 0
        return false if false.any() else None

    @property
    def pairs(self) -> int:
        """How many products there are."""
        return sum(len(level.left) for level in self.levels)

    @functools.cached_property
    def _one_by_one(self) -> tuple[list[tuple[Contraction, np.ndarray]], np.ndarray]:
        """The layers, each with the values before it that later ones need; and the roots' places.

        Each reads what the one before it hands on, and nothing else.
        """
        last_use = np.zeros(self.nodes, dtype=np.int64)
        for here, level in enumerate(self.levels, start=1):
            last_use[level.left] = last_use[level.right] = here
        last_use[self.places] = len(self.levels) + 1
        layers = []
        live, first = np.arange(self.leaves), self.leaves
        place = np.zeros(self.nodes, dtype=np.int64)
        for here, level in enumerate(self.levels, start=1):
            place[live] = np.arange(len(live))
            keep = np.flatnonzero(last_use[live] > here)
            indices = [place[level.left], place[level.right]]
            layers.append((Contraction(indices, level.node - first, level.width), keep))
            live = np.concatenate([np.arange(first, first + level.width), live[keep]])
            first += level.width
        place[live] = np.arange(len(live))
        return layers, place[self.places]

    @property
    def layers(self) -> list[tuple[Contraction, np.ndarray]]:
        return self._one_by_one[0]

    @property
    def roots(self) -> np.ndarray:
        """Where the roots stand among what the last layer hands on."""
        return self._one_by_one[1]

    def log_probs(self, inputs: Sequence[Facts], device: torch.device) -> Tensor:
        """(roots, rows) logarithms, in double precision."""
        return self._evaluated(inputs, device, logs=True)

    def probs(self, inputs: Sequence[Facts], device: torch.device) -> Tensor:
        """(roots, rows) probabilities, in double precision."""
        return self._evaluated(inputs, device, logs=False)

    def _evaluated(self, inputs: Sequence[Facts], device: torch.device, *, logs: bool) -> Tensor:
        numbers, are_logs = numbers_of(inputs, device)
        self._leaf_indices([facts.columns for facts in inputs], device)
        low = max([0.0, *(floor(facts.log_probs.dtype) for facts in inputs)])
        if not followed():
            return _Evaluation.apply(self, logs, low, are_logs, numbers)  # type: ignore[return-value]
        if logs:
            return self.in_logarithms(low, are_logs, numbers)
        return self.in_numbers(logs, are_logs, numbers)

    def in_logarithms(self, low: float | Tensor, are_logs: AreLogs, numbers: Tensor) -> Tensor:
        """The logarithms, in the way that never underflows.

        Probabilities are raised to `low`, the floor of the inputs' precision: below it their
        gradients are too large for that precision, and would lose their ratio.
        """
        leaves = raised_log(self._left(probs_of(numbers, are_logs)), low)
        constants = torch.tensor([[ZERO], [0.0]], dtype=torch.float64, device=numbers.device)
        facts = logs_of(numbers, are_logs, low).index_select(0, self._leaves[numbers.device][0])
        values = torch.cat([constants.expand(2, numbers.shape[1]), facts, leaves])
        for number, (contraction, keep) in enumerate(self.layers):
            made = _SUMS.contract([values, values], contraction)
            values = self._handed_on(made, values, number, keep)
        return values.index_select(0, self.on("roots", self.roots, numbers.device))

    def in_numbers(self, logs: bool, are_logs: AreLogs, numbers: Tensor) -> Tensor:
        """The way whose second derivatives are right next to 0 and 1, too: without logarithms."""
        probs = probs_of(numbers, are_logs)
        constants = torch.tensor([[0.0], [1.0]], dtype=torch.float64, device=numbers.device)
        facts = probs.index_select(0, self._leaves[numbers.device][0])
        values = torch.cat([constants.expand(2, numbers.shape[1]), facts, self._left(probs)])
        for number, (contraction, keep) in enumerate(self.layers):
            parts = [_sums_of_products(values, bucket) for bucket in contraction.on(values.device)]
            made = torch.cat(parts)
            if contraction.position is not None:
                made = made.index_select(0, contraction.position.on(values.device)[0])
            values = self._handed_on(made, values, number, keep)
        values = values.index_select(0, self.on("roots", self.roots, numbers.device))
        return safe_log(values) if logs else values

    def swept(self, probs: Tensor, keep: bool) -> tuple[Tensor, list[Tensor] | None]:
        """The values of all nodes in plain numbers; with `keep`, what the sweep down needs."""
        device, rows = probs.device, probs.shape[1]
        places, _, _ = self._leaves[device]
        values = torch.zeros(self.nodes, rows, dtype=torch.float64, device=device)
        values[1] = 1.0
        values[2 : 2 + len(self.facts)] = probs.index_select(0, places)
        if self.rests:
            values[2 + len(self.facts) : self.leaves] = self._left(probs)
        return values, self._sweep(device).up(values, keep)

    def gradients(
        self,
        probs: Tensor,
        values: Tensor,
        gathered: list[Tensor] | None,
        grad: Tensor,
    ) -> Tensor:
        """The derivatives with respect to the probabilities, from those of the roots."""
        grads = torch.zeros_like(values)
        grads.index_add_(0, self.on("places", self.places, grads.device), grad)
        self._sweep(grads.device).down(values, gathered, grads)
        places, columns, owners = self._leaves[grads.device]
        at = 2 + len(self.facts)
        out = torch.zeros_like(probs).index_add_(0, places, grads[2:at])
        if self.rests:
            out.index_add_(0, columns, grads[at : self.leaves].index_select(0, owners), alpha=-1)
        return out

    def _sweep(self, device: torch.device) -> Sweep:
        known = self._sweeps.get(device)
        if known is None:
            known = self._sweeps[device] = Sweep(self.levels, self.nodes, device)
        return known

    def _handed_on(self, made: Tensor, before: Tensor, number: int, keep: np.ndarray) -> Tensor:
        """The results of a layer, and the values before it that later layers need."""
        if not len(keep):
            return made
        places = self.on(f"keep {number}", keep, made.device)
        return torch.cat([made, before.index_select(0, places)])

    def prepare(self, columns: Sequence[int], device: torch.device) -> None:
        """Create all index tensors on `device` now, for inputs with this many columns each."""
        for number, (contraction, keep) in enumerate(self.layers):
            contraction.prepare(device)
            self.on(f"keep {number}", keep, device)
        self.on("roots", self.roots, device)
        self._leaf_indices(columns, device)

    def _leaf_indices(self, columns: Sequence[int], device: torch.device) -> None:
        """Where facts and the columns of rests are among those of all inputs, and whose they are.

        A circuit belongs to inputs with certain groups, so the columns are always the same.
        """
        if device in self._leaves:
            return
        start = np.cumsum([0, *columns])
        facts = [start[p] + c for p, c in self.facts]
        places = [start[p] + c for p, group in self.rests for c in group]
        owners = [at for at, (_, group) in enumerate(self.rests) for _ in group]
        arrays = [np.array(part, dtype=np.int64) for part in (facts, places, owners)]
        first, second, third = (to_device(array, device) for array in arrays)
        self._leaves[device] = (first, second, third)

    def _left(self, probs: Tensor) -> Tensor:
        """P(none of some columns holds), (rests, rows)."""
        if not self.rests:  # torch.export.save can't store empty index lists
            return probs.new_zeros(0, probs.shape[1])
        _, places, owners = self._leaves[probs.device]
        taken = probs.new_zeros(len(self.rests), probs.shape[1])
        left = 1.0 - taken.index_add(0, owners, probs.index_select(0, places))
        return left + (left.clamp(min=0.0) - left).detach()  # rounding may go below 0

    def on(self, name: str, array: np.ndarray, device: torch.device) -> Tensor:
        """An array on a device, moved there once."""
        known = self._tensors.get((name, device))
        if known is None:
            known = self._tensors[name, device] = to_device(array, device)
        return known


class _Evaluation(Formula):
    """A circuit's value: in plain numbers, and through logarithms where these are too small."""

    @staticmethod
    def value(
        ctx: Any, circuit: Circuit, logs: bool, low: float, are_logs: AreLogs, numbers: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        lows: float | Tensor = low
        needed = ctx.needs_input_grad[-1]
        ctx.circuit, ctx.logs, ctx.are_logs, ctx.out = circuit, logs, are_logs, None
        if not logs or reading_is_free(numbers):
            probs = probs_of(numbers, are_logs)
            values, ctx.gathered = circuit.swept(probs, needed)
            out = values.index_select(0, circuit.on("places", circuit.places, numbers.device))
            if not logs:
                return out, (probs, values)
            never = circuit.never
            mask = None if never is None else circuit.on("never", never[:, None], numbers.device)
            if mask is not None:
                out.masked_fill_(mask, 1.0)
            if not underflows(out):
                found = out.log()
                return found if mask is None else found.masked_fill_(mask, ZERO), (
                    probs,
                    values,
                    out,
                )
            # Other rows must not depend on those that underflow.
            least = out.new_tensor(floor(out.dtype))
            lows = torch.where((out < least).any(0), out.new_tensor(low), least)
        if not needed:
            return circuit.in_logarithms(lows, are_logs, numbers), ()
        with torch.enable_grad():
            ctx.input = numbers.detach().requires_grad_()
            ctx.out = circuit.in_logarithms(lows, are_logs, ctx.input)
        return ctx.out.detach(), ()

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        if ctx.out is None:
            probs, values, *out = saved
            if ctx.logs:
                grad = grad / out[0]
            made = ctx.circuit.gradients(probs, values, ctx.gathered, grad)
            if ctx.are_logs is True:
                made *= probs
            elif ctx.are_logs is not False:
                made = torch.where(ctx.are_logs, made * probs, made)
        elif ctx.out.requires_grad:
            (made,) = torch.autograd.grad(ctx.out, ctx.input, grad, retain_graph=True)
        else:
            made = None
        return (made,) if not isinstance(ctx.are_logs, Tensor) else (None, made)

    @staticmethod
    def formula(
        circuit: Circuit, logs: bool, low: float, are_logs: AreLogs, numbers: Tensor
    ) -> Tensor:
        return circuit.in_numbers(logs, are_logs, numbers)


def _sums_of_products(values: Tensor, bucket: BucketTensors) -> Tensor:
    left, right = (values.index_select(0, index) for index in bucket.indices)
    products = (left * right).view(bucket.depth, bucket.width, -1)
    if bucket.pad is not None:
        products = products.masked_fill(bucket.pad[:, :, None], 0.0)
    return products.sum(0)


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
