"""Algebras for inspecting a program rather than for learning: no gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from dolphin.provenance.fuzzy import LATTICE, SEMIRING
from dolphin.provenance.tensors import TensorProvenance


class Boolean(TensorProvenance):
    """Truth (`boolean`): a ⊗ b = a ∧ b, a ⊕ b = a ∨ b, over 0 and 1.

    Which symbols can be derived at all from facts with a positive probability. Like every algebra
    of numbers it doesn't know that symbols of an exclusive input exclude each other. There is no
    gradient.

    Cost: O(B) per combination.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.0, 0.3, 0.7], [0, 1, 2], provenance=dl.get_provenance("boolean"))
    >>> dl.apply(d, d, lambda x, y: x + y).row(0)
    [(0, 0.0), (1, 0.0), (2, 1.0), (3, 1.0), (4, 1.0)]
    """

    name = "boolean"
    laws = (
        SEMIRING
        | LATTICE
        | {"distributive", "idempotent-mul", "de-morgan", "double-negation", "excluded-middle"}
        | {"contradiction", "negated-zero"}
    )

    def from_probs(self, probs: Tensor) -> Tensor:
        return (probs.detach() > 0.0).to(probs.dtype)

    def to_probs(self, tags: Tensor) -> Tensor:
        return tags

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    def add(self, tags: Tensor, dim: int) -> Tensor:
        return tags.amax(dim)

    def negation(self, tags: Tensor) -> Tensor:
        return 1.0 - tags

    def saturated(self, old: Tensor, new: Tensor) -> bool:
        return bool((old == new).all())


class Counting(TensorProvenance):
    """The number of derivations (`counting`): a ⊗ b = a·b, a ⊕ b = a + b, over 0, 1, 2, ...

    In how many ways each symbol is derived from facts with a positive probability; `get_probs`
    returns the counts. They are doubles: exact up to 2^53, rounded beyond, and held at the largest
    double instead of infinity. There is no negation and no gradient. On cyclic programs the count
    is that of the derivations made until no new symbol appeared.

    Cost: O(B) per combination.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.2, 0.3, 0.5], [0, 1, 2], provenance=dl.get_provenance("counting"))
    >>> dl.apply(d, d, lambda x, y: x + y).row(0)
    [(0, 1.0), (1, 2.0), (2, 3.0), (3, 2.0), (4, 1.0)]
    """

    name = "counting"
    laws = SEMIRING | {"distributive"}

    def from_probs(self, probs: Tensor) -> Tensor:
        return (probs.detach() > 0.0).double()

    def to_probs(self, tags: Tensor) -> Tensor:
        return tags

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return (a * b).clamp(max=torch.finfo(a.dtype).max)

    def add(self, tags: Tensor, dim: int) -> Tensor:
        return tags.sum(dim).clamp(max=torch.finfo(tags.dtype).max)
