"""Algebras whose tags are one tensor.

A `TensorProvenance` needs **0**, **1**, ⊗, ⊕ and conversions from and to probabilities, and derives
the rest of the contract; README.md in this folder shows one in fifteen lines.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import Contraction, Index, to_device
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO, at_once, connected, safe_log


class TensorProvenance(Provenance):
    """An algebra whose tags are one tensor of shape (n, r, *tag_shape).

    To write one: set `zero` and `one_value`, and define `from_probs`, `to_probs`, `mul` and `add`
    (and `negation` if there is one). All of them are elementwise; `from_probs` turns probabilities
    of shape (n, r) into tags of shape (n, r, *tag_shape), and `to_probs` is its inverse.
    """

    numeric = True
    tag_shape: tuple[int, ...] = ()
    zero: float | Tensor = 0.0
    one_value: float | Tensor = 1.0
    padding: float | Tensor | None = None
    """The value that pads places without a combination for ⊕, if not `zero`.

    Where ⊕ shares its gradient among equal values, it must differ from every tag.
    """

    @abc.abstractmethod
    def from_probs(self, probs: Tensor) -> Tensor:
        """Tags of facts with these probabilities."""

    @abc.abstractmethod
    def to_probs(self, tags: Tensor) -> Tensor:
        """Probabilities of these tags, in [0, 1]."""

    @abc.abstractmethod
    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        """a ⊗ b, elementwise, broadcasting."""

    @abc.abstractmethod
    def add(self, tags: Tensor, dim: int) -> Tensor:
        """⊕ along a dimension."""

    def negation(self, tags: Tensor) -> Tensor:
        """The negation of each tag."""
        return super().negate(tags)

    # -- derived; override where there is a faster way ---------------------------------------------

    def from_facts(self, facts: Facts) -> Tensor:
        tags = self.from_probs(facts.probs)
        never = (facts.log_probs < IMPOSSIBLE).view(*tags.shape[:2], *([1] * len(self.tag_shape)))
        return torch.where(never, self._constant(self.zero, tags), tags)

    def log_probs(self, tags: Tensor) -> Tensor:
        logs = safe_log(self.to_probs(tags))
        never = tags == self._constant(self.zero, tags)
        never = never.flatten(2).all(2) if self.tag_shape else never
        return torch.where(never, ZERO, logs)

    def probs(self, tags: Tensor) -> Tensor:
        return self.to_probs(tags)

    def negate(self, tags: Tensor) -> Tensor:
        return self.negation(tags)

    def contract(self, operands: Sequence[Tensor], plan: Contraction) -> Tensor:
        if not operands:
            raise AssertionError("a contraction has at least one operand")
        rows = max(tags.shape[1] for tags in operands)
        parts = []
        for bucket in plan.on(operands[0].device):
            step = at_once(bucket.width, bucket.depth * rows)
            parts += [
                self._reduce(operands, bucket, start, min(step, bucket.width - start))
                for start in range(0, bucket.width, step)
            ]
        return self._assemble(parts, plan, operands)

    def _reduce(self, operands: Sequence[Tensor], bucket: Any, start: int, width: int) -> Tensor:
        product: Tensor | None = None
        for tags, index in zip(operands, bucket.indices, strict=True):
            chosen = index
            if width < bucket.width:
                chosen = index.view(bucket.depth, -1)[:, start : start + width].reshape(-1)
            gathered = tags.index_select(0, chosen).view(bucket.depth, width, *tags.shape[1:])
            product = gathered if product is None else self.mul(product, gathered)
        assert product is not None
        if bucket.pad is not None:
            pad = bucket.pad if width == bucket.width else bucket.pad[:, start : start + width]
            pad = pad.view(*pad.shape, *([1] * (product.dim() - 2)))
            nothing = self.zero if self.padding is None else self.padding
            product = self._filled(product, pad, nothing)
        return product.squeeze(0) if bucket.depth == 1 else self.add(product, 0)

    def _assemble(
        self, parts: list[Tensor], plan: Contraction, operands: Sequence[Tensor]
    ) -> Tensor:
        if not parts:
            rows = max(tags.shape[1] for tags in operands)
            nothing = self._constant(self.zero, operands[0])
            return connected(nothing.expand(plan.groups, rows, *self.tag_shape), operands)
        out = parts[0] if len(parts) == 1 else torch.cat(parts)
        return out if plan.position is None else self.select(out, plan.position)

    def _constant(self, value: float | Tensor, like: Tensor) -> Tensor:
        return torch.as_tensor(value, dtype=like.dtype, device=like.device)

    def _filled(self, tags: Tensor, where: Tensor, value: float | Tensor) -> Tensor:
        """Tags with this value in some places."""
        if isinstance(value, Tensor):
            return torch.where(where, self._constant(value, tags), tags)
        return tags.masked_fill(where, value)

    def one(self, n: int, like: Tensor) -> Tensor:
        if isinstance(self.one_value, Tensor):
            return self._constant(self.one_value, like).expand(n, 1, *self.tag_shape)
        return like.new_full((n, 1, *self.tag_shape), self.one_value)

    def select(self, tags: Tensor, index: Index) -> Tensor:
        if index.is_identity(tags.shape[0]):
            return tags
        if tags.shape[0] == 0:
            nothing = self._constant(self.zero, tags)
            return connected(nothing.expand(len(index), *tags.shape[1:]), [tags])
        places, missing = index.on(tags.device)
        chosen = tags.index_select(0, places)
        if missing is None:
            return chosen
        missing = missing.view(-1, *([1] * (tags.dim() - 1)))
        return self._filled(chosen, missing, self.zero)

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        rows = max(part.shape[1] for part in parts)
        return torch.cat([part.expand(-1, rows, *part.shape[2:]) for part in parts])

    def where(self, mask: Tensor, yes: Tensor, no: Tensor) -> Tensor:
        return torch.where(mask.view(1, -1, *([1] * len(self.tag_shape))), yes, no)

    def flatten(self, tags: Tensor, rows: int) -> Tensor:
        spread = tags.expand(-1, rows, *tags.shape[2:])
        return spread.transpose(0, 1).reshape(-1, 1, *tags.shape[2:])

    def unflatten(self, tags: Tensor, rows: int) -> Tensor:
        return tags.view(rows, tags.shape[0] // rows, *tags.shape[2:]).transpose(0, 1)

    def stack(self, parts: Sequence[Tensor], batches: Sequence[int], *, flat: bool) -> Tensor:
        if flat:
            return torch.cat(list(parts))
        shape = self.tag_shape
        spread = [p.expand(-1, rows, *shape) for p, rows in zip(parts, batches, strict=True)]
        return torch.cat(spread, dim=1)

    def take_rows(self, tags: Tensor, rows: np.ndarray, width: int | None) -> Tensor:
        places = to_device(rows, tags.device)
        if width is None:
            return tags if tags.shape[1] == 1 else tags.index_select(1, places)
        kept = tags.view(-1, width, *tags.shape[1:]).index_select(0, places)
        return kept.view(-1, *tags.shape[1:])

    def moved(self, tags: Tensor, move: Callable[[Tensor], Tensor]) -> Tensor:
        return move(tags)

    def describe(self, tags: Tensor) -> TagInfo:
        return TagInfo(tags.device, tags.shape[1], tags.dtype)
