"""Further t-norms, each given by its formula and its slope.

A `TNorm` says what a ⊗ b is and what its derivative with respect to a is; ⊕ is its dual,
a ⊕ b = 1 - (1 - a) ⊗ (1 - b), unless a formula that is better for small numbers is given, and
¬a = 1 - a. Writing the slope down keeps gradients finite, exact, and defined where formulas are
0/0. All slopes lie in [0, 1] for the families and parameters here. Tests compare them with finite
differences.
"""

from __future__ import annotations

import abc
import math
from typing import Any

import torch
from torch import Tensor

from dolphin.errors import InputError
from dolphin.provenance.fuzzy import NEGATION, SEMIRING, ExtendedTruthValues, uncertain
from dolphin.provenance.numerics import expm1, log1p, rounding


class TNorm(ExtendedTruthValues):
    """A t-norm and its dual, from `norm` and `slope`.

    Cost: O(B) per combination; ⊕ of n values is done in log n steps, each over half as many.
    """

    laws = SEMIRING | NEGATION | {"one-absorbs", "de-morgan"}

    @abc.abstractmethod
    def norm(self, a: Tensor, b: Tensor) -> Tensor:
        """a ⊗ b."""

    @abc.abstractmethod
    def slope(self, a: Tensor, b: Tensor) -> Tensor:
        """d(a ⊗ b)/da, finite everywhere."""

    def conorm(self, a: Tensor, b: Tensor) -> Tensor:
        """a ⊕ b."""
        return 1.0 - self.norm(1.0 - a, 1.0 - b)

    def dual_slope(self, a: Tensor, b: Tensor) -> Tensor:
        """d(a ⊕ b)/da."""
        return self.slope(1.0 - a, 1.0 - b)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return _Norm.apply(self, False, *torch.broadcast_tensors(a, b))  # type: ignore

    def add(self, tags: Tensor, dim: int) -> Tensor:
        tags = tags.movedim(dim, 0)
        while len(tags) > 1:
            half = len(tags) // 2
            joined = _Norm.apply(self, True, tags[:half], tags[half : 2 * half])
            tags = torch.cat([joined, tags[2 * half :]]) if len(tags) % 2 else joined
        return tags[0]


class _Norm(torch.autograd.Function):
    """A t-norm or its dual, with the derivatives that the provenance gives.

    Infinite values are certain: one of them leaves the other operand as it is, one absorbs it.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(logic: TNorm, dual: bool, a: Tensor, b: Tensor) -> Tensor:
        operation, among = (logic.conorm, torch.maximum) if dual else (logic.norm, torch.minimum)
        joined = operation(a.clamp(0.0, 1.0), b.clamp(0.0, 1.0)).clamp(0.0, 1.0)
        return torch.where(uncertain(a, b), joined, among(a, b))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.logic, ctx.dual, a, b = inputs
        ctx.save_for_backward(a, b)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        a, b = ctx.saved_tensors
        return None, None, grad * _share(ctx, a, b), grad * _share(ctx, b, a)


def _share(ctx: Any, own: Tensor, other: Tensor) -> Tensor:
    """The derivative with respect to `own`."""
    slope = ctx.logic.dual_slope if ctx.dual else ctx.logic.slope
    both = slope(own.clamp(0.0, 1.0), other.clamp(0.0, 1.0))
    alone = (own > other if ctx.dual else own < other).to(both.dtype)
    return torch.where(uncertain(own, other), both, alone)


def _sorted(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The smaller and the larger one; of equal ones each is one of them, not half of both.

    A formula that is smooth in a and b then has the right derivatives where they are equal.
    """
    first = a <= b
    return torch.where(first, a, b), torch.where(first, b, a)


def _at_most_one(share: Tensor) -> Tensor:
    """A share that only rounding carries above 1, with its derivatives."""
    return share - (share - 1.0).clamp(min=0.0).detach()


class Hamacher(TNorm):
    """The Hamacher product (`hamacher`): a ⊗ b = ab/(a + b - ab), a ⊕ b = (a + b - 2ab)/(1 - ab).

    Between the product and the minimum. Gradients: (b / (a + b - ab))², which stays near 1 for
    small a where the product's would be b. At a = b = 0 both slopes are 1/4, as along the diagonal.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.5, 0.5], ["tail", "head"], provenance=dl.get_provenance("hamacher"))
    >>> dl.apply(d, d, lambda a, b: a + b).row(0)[0]
    ('tailtail', 0.333333)
    """

    name = "hamacher"

    def norm(self, a: Tensor, b: Tensor) -> Tensor:
        below = a + b - a * b
        return torch.where(
            below > 0.0, a * b / below.where(below > 0.0, torch.ones_like(below)), 0.0
        )

    def slope(self, a: Tensor, b: Tensor) -> Tensor:
        below = a + b - a * b
        share = b / below.where(below > 0.0, torch.ones_like(below))
        return torch.where(below > 0.0, _at_most_one(share).square(), 0.25)

    def conorm(self, a: Tensor, b: Tensor) -> Tensor:
        """By its distance from 1 where that is small: 1 - ab would round most of it away."""
        rest, other = 1.0 - a, 1.0 - b
        below = rest + other - rest * other  # 1 - ab, of which nothing cancels
        below = below.where(below > 0.0, torch.ones_like(below))  # a = b = 1: the rest is 0
        small = (a * other + b * rest) / below
        return torch.where(torch.maximum(a, b) < 0.5, small, 1.0 - rest * other / below)


class NilpotentMinimum(TNorm):
    """The nilpotent minimum (`nilpotent`): a ⊗ b = min(a, b) if a + b > 1, else 0.

    a ⊕ b = max(a, b) if a + b < 1, else 1. Gödel's logic with the law of contradiction. It jumps at
    a + b = 1. Gradients: 1 for the smaller one, a half each at a tie, and 0 where the value is 0:
    they vanish wherever a fact is as uncertain as its opposite.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.2, 0.8], ["tail", "head"], provenance=dl.get_provenance("nilpotent"))
    >>> dl.apply(d, d, lambda a, b: a == b).row(0)
    [(True, 0.8), (False, 0.0)]
    """

    name = "nilpotent"
    laws = TNorm.laws | {"excluded-middle", "contradiction"}

    def norm(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.where(a + b > 1.0 + rounding(a.dtype), torch.minimum(a, b), 0.0)

    def slope(self, a: Tensor, b: Tensor) -> Tensor:
        decides = torch.where(a == b, 0.5, (a < b).to(a.dtype))
        return torch.where(a + b > 1.0 + rounding(a.dtype), decides, 0.0)

    def conorm(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.where(a + b < 1.0 - rounding(a.dtype), torch.maximum(a, b), 1.0)


class Yager(TNorm):
    """Yager's family (`yager`): a ⊕ b = min(1, ‖(a, b)‖_p), and ⊗ its dual, 1 - ‖(1 - a, 1 - b)‖_p.

    p = 1 is Łukasiewicz' logic, p → ∞ Gödel's. Gradients: ((1 - a) / ‖(1 - a, 1 - b)‖)^(p - 1), so
    the smaller value gets more; 0 where a ⊗ b is 0, as in Łukasiewicz' logic, which is the case for
    fewer values the larger p is.

    >>> import dolphin as dl
    >>> logic = dl.get_provenance("yager", p=2)
    >>> d = dl.Distribution([0.2, 0.8], ["tail", "head"], provenance=logic)
    >>> dl.union(d, d).row(0)
    [('tail', 0.282843), ('head', 1.0)]
    """

    name = "yager"

    def __init__(self, p: float = 2.0) -> None:
        if not isinstance(p, (int, float)) or not 1.0 <= p < math.inf:
            raise InputError(f"Yager: p must be at least 1, got {p!r}.")
        self.p = float(p)

    def parameters(self) -> dict[str, Any]:
        return {"p": self.p}

    def _length(self, a: Tensor, b: Tensor) -> Tensor:
        """‖(a, b)‖_p, scaled by the larger one so that no power underflows."""
        smaller, larger = _sorted(a, b)
        ratio = smaller / larger.clamp(min=torch.finfo(a.dtype).tiny)
        return larger * (1.0 + ratio**self.p) ** (1.0 / self.p)

    def norm(self, a: Tensor, b: Tensor) -> Tensor:
        return (1.0 - self._length(1.0 - a, 1.0 - b)).clamp(min=0.0)

    def slope(self, a: Tensor, b: Tensor) -> Tensor:
        return self.dual_slope(1.0 - a, 1.0 - b)

    def dual_slope(self, a: Tensor, b: Tensor) -> Tensor:
        length = self._length(a, b)
        share = a / length.where(length > 0.0, torch.ones_like(length))
        share = torch.where(length > 0.0, share, 0.5 ** (1.0 / self.p))  # a = b = 0: as at any tie
        return torch.where(length <= 1.0, share ** (self.p - 1.0), 0.0)

    def conorm(self, a: Tensor, b: Tensor) -> Tensor:
        return self._length(a, b).clamp(max=1.0)


class SchweizerSklar(TNorm):
    """Schweizer and Sklar's family (`schweizer-sklar`): a ⊗ b = max(0, a^p + b^p - 1)^(1/p), p ≤ 1.

    p = 1 is Łukasiewicz' logic, p → 0 the product, p = -1 the Hamacher product, p → -∞ Gödel's
    logic: one parameter between "every fact counts" and "the weakest decides". Gradients: (a ⊗ b /
    a)^(1 - p).

    >>> import dolphin as dl
    >>> logic = dl.get_provenance("schweizer-sklar", p=-1)
    >>> d = dl.Distribution([0.5, 0.5], ["tail", "head"], provenance=logic)
    >>> dl.apply(d, d, lambda a, b: a + b).row(0)[0]
    ('tailtail', 0.333333)
    """

    name = "schweizer-sklar"

    def __init__(self, p: float = -2.0) -> None:
        if not isinstance(p, (int, float)) or not -math.inf < p <= 1.0:
            raise InputError(f"SchweizerSklar: p must be a number of at most 1, got {p!r}.")
        self.p = float(p)

    def parameters(self) -> dict[str, Any]:
        return {"p": self.p}

    def _share(self, a: Tensor, b: Tensor) -> Tensor:
        """(a ⊗ b) / a, also at a = 0."""
        if self.p == 0.0:
            return b
        if self.p > 0.0:
            power = (a**self.p + b**self.p - 1.0).clamp(min=0.0) ** (1.0 / self.p)
            return torch.where(a > 0.0, power / a.where(a > 0.0, torch.ones_like(a)), 0.0)
        smaller, larger = _sorted(a, b)
        ratio = smaller / larger.where(larger > 0.0, torch.ones_like(larger))
        ratio = torch.where(larger > 0.0, ratio, 1.0)
        scale = (1.0 + ratio**-self.p - smaller**-self.p) ** (1.0 / self.p)
        return torch.where(a <= b, 1.0, b / a.where(a > b, torch.ones_like(a))) * scale

    def norm(self, a: Tensor, b: Tensor) -> Tensor:
        return a * self._share(a, b)

    def slope(self, a: Tensor, b: Tensor) -> Tensor:
        if self.p == 0.0:
            return b
        share = self._share(a, b)
        slope = _at_most_one(share) ** (1.0 - self.p)
        return slope if self.p < 1.0 else (share > 0.0).to(a.dtype)

    def conorm(self, a: Tensor, b: Tensor) -> Tensor:
        """Without 1 - a where a and b are small: it would round them away."""
        if self.p == 0.0:
            return a * (1.0 - b) + b
        # (1 - a)^p + (1 - b)^p - 2, and the root of what is 1 more; small enough not to overflow.
        powers = expm1(self.p * log1p(-a)) + expm1(self.p * log1p(-b))
        small = -expm1(log1p(powers) / self.p)
        most = 0.5 / max(1.0, abs(self.p))
        return torch.where(torch.maximum(a, b) < most, small, super().conorm(a, b))


class Frank(TNorm):
    """Frank's family (`frank`): a ⊗ b = log_s(1 + (s^a - 1)(s^b - 1) / (s - 1)).

    s → 0 is Gödel's logic, s = 1 the product, s → ∞ Łukasiewicz'; s is taken between 0.001 and
    1000, where single precision is enough. The one family with a ⊗ b + a ⊕ b = a + b, as for
    probabilities. Gradients are smooth and strictly between 0 and 1 inside, small where a ⊗ b is.

    >>> import dolphin as dl
    >>> logic = dl.get_provenance("frank", s=1)
    >>> d = dl.Distribution([0.5, 0.5], ["tail", "head"], provenance=logic)
    >>> dl.union(d, d).row(0)
    [('tail', 0.75), ('head', 0.75)]
    """

    name = "frank"

    def __init__(self, s: float = 10.0) -> None:
        if not isinstance(s, (int, float)) or not 0.001 <= s <= 1000.0:
            raise InputError(f"Frank: s must lie between 0.001 and 1000, got {s!r}.")
        self.s = float(s)

    def parameters(self) -> dict[str, Any]:
        return {"s": self.s}

    def norm(self, a: Tensor, b: Tensor) -> Tensor:
        if self.s == 1.0:
            return a * b
        base = math.log(self.s)
        inner = expm1(base * a) * expm1(base * b) / math.expm1(base)
        return log1p(inner) / base

    def slope(self, a: Tensor, b: Tensor) -> Tensor:
        if self.s == 1.0:
            return b
        base = math.log(self.s)
        first, second = expm1(base * a), expm1(base * b)
        return (1.0 + first) * second / (math.expm1(base) + first * second)

    def conorm(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b - self.norm(a, b)
