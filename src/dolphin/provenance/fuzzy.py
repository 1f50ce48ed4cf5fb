"""Fuzzy logics: a truth value in [0, 1] for each symbol, t-norms and t-conorms.

A t-norm ⊗ is a commutative, associative and monotone "and" with 1 as its identity, and the t-conorm
a ⊕ b = 1 - (1 - a) ⊗ (1 - b) is the "or" that belongs to it. Negation is 1 - a throughout. Every
algebra here is such a pair, so De Morgan's laws hold. None of them knows which facts a value came
from: none is exact where facts are shared, and all of them are cheap.

Gradients are finite everywhere. Where a formula has a corner, they are what the classes say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dolphin.errors import InputError
from dolphin.execution.indices import Contraction
from dolphin.provenance.damp import DAMP
from dolphin.provenance.damp.chains import spread_rows
from dolphin.provenance.differentiation import Formula, followed, reading_is_free
from dolphin.provenance.logarithms import LogTags, chunk_size
from dolphin.provenance.numerics import expm1, floor, log1p
from dolphin.provenance.plain_or import plain_or
from dolphin.provenance.tensors import TensorProvenance

SEMIRING = frozenset({"commutative", "associative", "identities", "annihilation"})
LATTICE = frozenset({"idempotent-add", "absorption", "one-absorbs"})
NEGATION = frozenset({"double-negation", "negated-zero"})


class TruthValues(TensorProvenance):
    """Tags that are the truth values themselves, with 1 - a as negation."""

    def from_probs(self, probs: Tensor) -> Tensor:
        return probs

    def to_probs(self, tags: Tensor) -> Tensor:
        return tags

    def negation(self, tags: Tensor) -> Tensor:
        return 1.0 - tags

    def negate_choices(self, tags: Tensor, width: int) -> Tensor:
        choices = tags.reshape(-1, width, tags.shape[-1])
        likely = choices.detach() > 0.6  # at most one; what is left of it may be rounded away
        others = torch.where(likely, 0.0, self.to_probs(choices)).sum(1, keepdim=True)
        likely = likely & (others.detach() > 0.0)
        return torch.where(likely, others, self.negation(choices)).view(tags.shape)


class ExtendedTruthValues(TruthValues):
    """Truth values with **0** and **1** beyond them: no fact of probability 0 or 1 equals these.

    So what is certain takes no share of a gradient, and no part of a value by rounding.
    """

    zero = -math.inf
    one_value = math.inf

    def to_probs(self, tags: Tensor) -> Tensor:
        return tags.clamp(0.0, 1.0)


def uncertain(a: Tensor, b: Tensor) -> Tensor:
    """Where neither of two extended truth values is certain.

    With one that is, a ⊗ b is the smaller of the two, and a ⊕ b the larger.
    """
    return (a - b).abs() < math.inf


class Godel(ExtendedTruthValues):
    """Gödel's logic (`min-max`): a ⊗ b = min(a, b), a ⊕ b = max(a, b).

    The truth of the weakest fact of the best proof. A distributive lattice: facts that occur twice
    change nothing. Exact where all probabilities are 0 or 1, otherwise a possibility.

    Gradients: 1 for the one fact that decides, 0 for all others, so learning is slow but nothing
    vanishes or explodes. At a tie the equal candidates share it evenly. Certain tags don't share
    it: **0** and **1** are infinite, so no fact of probability 0 or 1 equals them.

    Cost: O(B) per combination.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.2, 0.8], ["tail", "head"], provenance=dl.get_provenance("min-max"))
    >>> dl.apply(d, d, lambda a, b: a == b).row(0)
    [(True, 0.8), (False, 0.2)]
    """

    name = "min-max"
    laws = SEMIRING | LATTICE | NEGATION | {"distributive", "idempotent-mul", "de-morgan"}

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.minimum(a, b)

    def add(self, tags: Tensor, dim: int) -> Tensor:
        return tags.amax(dim)

    def saturated(self, old: Tensor, new: Tensor) -> bool:
        return bool((old == new).all())


class NoisyOr(LogTags):
    """Product and probabilistic sum (`noisy-or`): a ⊗ b = a·b, a ⊕ b = a + b - a·b.

    Exact where summands and factors are all independent. Tags are logarithms: neither a long
    product nor a long sum of small numbers underflows.

    Gradients: d(⊕)/da_i = Π over the others of (1 - a_j). They vanish where another summand is near
    1, and are at most 1.

    Cost: O(B) per combination.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.2, 0.8], ["tail", "head"], provenance=dl.get_provenance("noisy-or"))
    >>> dl.apply(d, d, lambda a, b: a == b).row(0)
    [(True, 0.6544), (False, 0.2944)]
    """

    name = "noisy-or"
    adds_disjoint = True
    laws = SEMIRING | NEGATION | {"one-absorbs", "de-morgan"}

    def add(self, tags: Tensor, dim: int) -> Tensor:
        return _NoisyOr.of(tags, dim)

    def contract(self, operands: Sequence[Tensor], plan: Contraction) -> Tensor:
        single = all(tags.dtype == torch.float32 for tags in operands)
        if followed() or not single or not reading_is_free(operands[0]):
            return super().contract(operands, plan)
        spread = spread_rows(operands)
        parts: list[Tensor] = []
        for bucket in plan.on(operands[0].device):
            step = chunk_size(bucket.width, bucket.depth * spread[0].shape[1])
            part = plain_or(bucket, step, _NoisyOr.formula, spread)
            if part is None:
                return super().contract(operands, plan)
            parts.append(part)
        return self._assemble(parts, plan, operands)

    def contract_disjoint(self, operands: Sequence[Tensor], plan: Contraction) -> Tensor:
        return _SUMS.contract(operands, plan)


_SUMS = DAMP()


class _NoisyOr(Formula):
    """log(1 - Π (1 - p)) from log p along a dimension.

    Where the sum of all p is below rounding it is that sum. Every derivative is one exponential of
    a difference of logarithms, so it can't become nan.
    """

    @staticmethod
    def value(ctx: Any, logs: Tensor, dim: int) -> tuple[Tensor, Sequence[Tensor]]:
        fails = torch.log1p(-logs.exp()).clamp(min=math.log(floor(logs.dtype)))
        none = fails.sum(dim, keepdim=True)
        total = logs.logsumexp(dim, keepdim=True)
        small = total < _small(logs)
        out = torch.where(small, total, torch.log(-torch.expm1(none)))
        ctx.dim = dim
        return out.squeeze(dim), (logs, fails, torch.where(small, 0.0, none), out, small)

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        logs, fails, none, out, small = saved
        others = none - torch.where(small, 0.0, fails)
        return (grad.unsqueeze(ctx.dim) * (logs - out + others).exp(),)

    @staticmethod
    def formula(logs: Tensor, dim: int) -> Tensor:
        probs = logs.exp()
        certain = probs >= 1.0
        fails = log1p(-torch.where(certain, 0.0, probs))
        none, total = fails.sum(dim), logs.logsumexp(dim)
        small = total < _small(logs)
        # The derivative of expm1 would be 0 beyond rounding, where that of exp is a tiny factor.
        far = small | (none < -1.0)
        near = -expm1(torch.where(far, -1.0, none))
        some = torch.where(far, 1.0 - torch.where(small, -1.0, none).exp(), near)
        # Next to something certain the product is 0: it has derivatives, its logarithm has none.
        sure = certain.any(dim)
        plain = torch.where(certain, probs.detach() - probs, 1.0 - probs)
        plain = torch.where(sure.unsqueeze(dim), plain, 1.0).prod(dim)
        some = torch.where(sure, 1.0 - plain, some)
        return torch.where(small, total, torch.log(some))


def _small(logs: Tensor) -> float:
    """The logarithm of a number that is negligible compared with 1."""
    return -36.0 if logs.dtype == torch.float64 else -16.0


class Lukasiewicz(ExtendedTruthValues):
    """Łukasiewicz' logic (`lukasiewicz`): a ⊗ b = max(0, a + b - 1), a ⊕ b = min(1, a + b).

    The least probability that "a and b" can have, however the two depend on each other, and the
    largest that "a or b" can have.

    Gradients: 1 for every fact or 0 for all. They are 0 where a ⊗ b is 0, nearly everywhere for
    long products of uncertain facts; at the corners themselves they are 1.

    Cost: O(B) per combination.

    >>> import dolphin as dl
    >>> logic = dl.get_provenance("lukasiewicz")
    >>> d = dl.Distribution([0.2, 0.8], ["tail", "head"], provenance=logic)
    >>> dl.apply(d, d, lambda a, b: a == b).row(0)
    [(True, 0.6), (False, 0.0)]
    """

    name = "lukasiewicz"
    laws = SEMIRING | NEGATION | {"one-absorbs", "excluded-middle", "contradiction", "de-morgan"}

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.where(uncertain(a, b), (a + b - 1.0).clamp(min=0.0), torch.minimum(a, b))

    def add(self, tags: Tensor, dim: int) -> Tensor:
        total = tags.clamp(min=0.0).sum(dim)
        total = torch.where(total < math.inf, total.clamp(max=1.0), total)
        return torch.where(tags.amax(dim) < 0.0, self.zero, total)  # nothing can hold


class StableProduct(ExtendedTruthValues):
    """The stable product of Logic Tensor Networks (`stable-product`), with a small ε:

    a ⊗ b = a'·b' with x' = (1 - ε)·x + ε, and ⊕ = 1 - Π (1 - x") with x" = (1 - ε)·x over all
    values but 0, if there are at least two.

    Values are a little off, so ⊗ has no identity, nothing is associative, and results depend on how
    often a value passes through an operation. In exchange no operation has a gradient below about
    ε, at 0 and at 1 as well.

    Cost: O(B) per combination.

    >>> import dolphin as dl
    >>> stable = dl.get_provenance("stable-product", epsilon=0.01)
    >>> d = dl.Distribution([0.0, 1.0], ["tail", "head"], provenance=stable)
    >>> dl.apply(d, d, lambda a, b: a == b).row(0)
    [(True, 0.990001), (False, 0.019702)]
    """

    name = "stable-product"
    laws = frozenset({"commutative", "double-negation", "negated-zero"})

    def __init__(self, epsilon: float = 1e-4) -> None:
        if not isinstance(epsilon, (int, float)) or not 0.0 <= epsilon < 1.0:
            raise InputError(f"StableProduct: epsilon must lie in [0, 1), got {epsilon!r}.")
        self.epsilon = float(epsilon)

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        keep, lift = 1.0 - self.epsilon, self.epsilon
        return (keep * self.to_probs(a) + lift) * (keep * self.to_probs(b) + lift)

    def add(self, tags: Tensor, dim: int) -> Tensor:
        none = tags.amax(dim) < 0.0
        tags = self.to_probs(tags)
        several = (tags != 0.0).sum(dim, keepdim=True) > 1
        keep = torch.where(several, 1.0 - self.epsilon, 1.0).to(tags.dtype)
        kept = keep * tags
        # A difference to 1 would round small results away; next to 1 a logarithm has no gradient.
        small = kept.amax(dim) < 0.5
        logs = log1p(-torch.where(small.unsqueeze(dim), kept, 0.0))
        some = torch.where(small, -expm1(logs.sum(dim)), 1.0 - (1.0 - kept).prod(dim))
        return torch.where(none, self.zero, some)
