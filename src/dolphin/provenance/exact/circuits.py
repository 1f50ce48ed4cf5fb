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
from dolphin.provenance.exact.ordering import Groups
from dolphin.provenance.exact.rests import Normalised, Rests
from dolphin.provenance.exact.sweeps import Level, Sweep
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import (
    ZERO,
    floor,
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
        self._leaves: dict[torch.device, tuple[Tensor, Rests | None]] = {}
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
        self._prepare_leaves(tuple(facts.groups for facts in inputs), device)
        rests = self._leaves[device][1]
        normalised = False if rests is None else rests.normalised(inputs)
        low = max([0.0, *(floor(facts.dtype) for facts in inputs)])
        if not followed():
            given = (self, logs, low, are_logs, normalised, numbers)
            return _Evaluation.apply(*given)  # type: ignore[return-value]
        if logs:
            return self.in_logarithms(low, are_logs, normalised, numbers)
        return self.in_numbers(logs, are_logs, normalised, numbers)

    def in_logarithms(
        self, low: float | Tensor, are_logs: AreLogs, normalised: Normalised, numbers: Tensor
    ) -> Tensor:
        """The logarithms, in the way that never underflows.

        Probabilities are raised to `low`, the floor of the inputs' precision: below it their
        gradients are too large for that precision, and would lose their ratio.
        """
        leaves = raised_log(self._left(numbers, are_logs, normalised), low)
        constants = torch.tensor([[ZERO], [0.0]], dtype=torch.float64, device=numbers.device)
        facts = logs_of(numbers, are_logs, low).index_select(0, self._leaves[numbers.device][0])
        values = torch.cat([constants.expand(2, numbers.shape[1]), facts, leaves])
        for number, (contraction, keep) in enumerate(self.layers):
            made = _SUMS.contract([values, values], contraction)
            values = self._handed_on(made, values, number, keep)
        return values.index_select(0, self.on("roots", self.roots, numbers.device))

    def in_numbers(
        self, logs: bool, are_logs: AreLogs, normalised: Normalised, numbers: Tensor
    ) -> Tensor:
        """The way whose second derivatives are right next to 0 and 1, too: without logarithms."""
        probs, left = probs_of(numbers, are_logs), self._left(numbers, are_logs, normalised)
        constants = torch.tensor([[0.0], [1.0]], dtype=torch.float64, device=numbers.device)
        facts = probs.index_select(0, self._leaves[numbers.device][0])
        values = torch.cat([constants.expand(2, numbers.shape[1]), facts, left])
        for number, (contraction, keep) in enumerate(self.layers):
            parts = [_sums_of_products(values, bucket) for bucket in contraction.on(values.device)]
            made = torch.cat(parts)
            if contraction.position is not None:
                made = made.index_select(0, contraction.position.on(values.device)[0])
            values = self._handed_on(made, values, number, keep)
        values = values.index_select(0, self.on("roots", self.roots, numbers.device))
        return safe_log(values) if logs else values

    def swept(
        self,
        numbers: Tensor,
        are_logs: AreLogs,
        normalised: Normalised,
        probs: Tensor,
        keep: bool,
    ) -> tuple[Tensor, list[Tensor] | None, Tensor | None]:
        """The values of all nodes in plain numbers; with `keep`, what the sweep down needs."""
        by_others: Tensor | None = None
        device, rows = probs.device, probs.shape[1]
        places, rests = self._leaves[device]
        values = torch.zeros(self.nodes, rows, dtype=torch.float64, device=device)
        values[1] = 1.0
        values[2 : 2 + len(self.facts)] = probs.index_select(0, places)
        if rests is not None:
            left, by_others = rests.values(numbers, are_logs, probs, normalised)
            values[2 + len(self.facts) : self.leaves] = left
        return values, self._sweep(device).up(values, keep), by_others

    def gradients(
        self,
        probs: Tensor,
        values: Tensor,
        gathered: list[Tensor] | None,
        grad: Tensor,
        by_others: Tensor | None,
    ) -> Tensor:
        """The derivatives with respect to the probabilities, from those of the roots."""
        grads = torch.zeros_like(values)
        grads.index_add_(0, self.on("places", self.places, grads.device), grad)
        self._sweep(grads.device).down(values, gathered, grads)
        places, rests = self._leaves[grads.device]
        at = 2 + len(self.facts)
        out = torch.zeros_like(probs).index_add_(0, places, grads[2:at])
        if rests is not None:
            rests.add_gradients(out, grads[at : self.leaves], by_others)
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

    def prepare(self, groups: Groups, device: torch.device) -> None:
        """Create all index tensors on `device` now, for inputs with these groups of columns."""
        for number, (contraction, keep) in enumerate(self.layers):
            contraction.prepare(device)
            self.on(f"keep {number}", keep, device)
        self.on("roots", self.roots, device)
        self._prepare_leaves(groups, device)

    def _prepare_leaves(self, groups: Groups, device: torch.device) -> None:
        """Where facts, and the columns of rests, are among those of all inputs.

        A circuit belongs to inputs with certain groups, so they are always the same.
        """
        if device in self._leaves:
            return
        start = np.cumsum([0, *(sum(map(len, each)) for each in groups)])
        facts = np.array([start[p] + c for p, c in self.facts], dtype=np.int64)
        rests = Rests(self.rests, groups, device) if self.rests else None
        self._leaves[device] = (to_device(facts, device), rests)

    def _left(self, numbers: Tensor, are_logs: AreLogs, normalised: Normalised) -> Tensor:
        """P(none of some columns holds), (rests, rows), differentiable."""
        rests = self._leaves[numbers.device][1]
        if rests is None:  # torch.export.save can't store empty index lists
            return numbers.new_zeros(0, numbers.shape[1])
        return rests.differentiable(numbers, are_logs, probs_of(numbers, are_logs), normalised)

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
        ctx: Any,
        circuit: Circuit,
        logs: bool,
        low: float,
        are_logs: AreLogs,
        normalised: Normalised,
        numbers: Tensor,
    ) -> tuple[Tensor, Sequence[Tensor]]:
        lows: float | Tensor = low
        needed = ctx.needs_input_grad[-1]
        ctx.circuit, ctx.logs, ctx.out = circuit, logs, None
        ctx.are_logs, ctx.normalised = are_logs, normalised
        if not logs or reading_is_free(numbers):
            probs = probs_of(numbers, are_logs)
            swept = circuit.swept(numbers, are_logs, normalised, probs, needed)
            values, ctx.gathered, ctx.by_others = swept
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
            return circuit.in_logarithms(lows, are_logs, normalised, numbers), ()
        with torch.enable_grad():
            ctx.input = numbers.detach().requires_grad_()
            ctx.out = circuit.in_logarithms(lows, are_logs, normalised, ctx.input)
        return ctx.out.detach(), ()

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        if ctx.out is None:
            probs, values, *out = saved
            if ctx.logs:
                grad = grad / out[0]
            made = ctx.circuit.gradients(probs, values, ctx.gathered, grad, ctx.by_others)
            if ctx.are_logs is True:
                made *= probs
            elif ctx.are_logs is not False:
                made = torch.where(ctx.are_logs, made * probs, made)
        elif ctx.out.requires_grad:
            (made,) = torch.autograd.grad(ctx.out, ctx.input, grad, retain_graph=True)
        else:
            made = None
        masks = [each for each in (ctx.are_logs, ctx.normalised) if isinstance(each, Tensor)]
        return (*(None for _ in masks), made)

    @staticmethod
    def formula(
        circuit: Circuit,
        logs: bool,
        low: float,
        are_logs: AreLogs,
        normalised: Normalised,
        numbers: Tensor,
    ) -> Tensor:
        return circuit.in_numbers(logs, are_logs, normalised, numbers)


def _sums_of_products(values: Tensor, bucket: BucketTensors) -> Tensor:
    left, right = (values.index_select(0, index) for index in bucket.indices)
    products = (left * right).view(bucket.depth, bucket.width, -1)
    if bucket.pad is not None:
        products = products.masked_fill(bucket.pad[:, :, None], 0.0)
    return products.sum(0)
