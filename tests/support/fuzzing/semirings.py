"""Every provenance by its definition: tags, ⊕, ⊗, negation, and the probability of a tag."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fuzzing.diagrams import FALSE, TRUE, Diagrams, Group
from fuzzing.jets import STEP, TIE, Jet, is_precise, largest, product, smallest, total

Proof = frozenset[tuple[int, int]]
Proofs = frozenset[Proof]
_ORDERS = 24  # of proofs that are negated: all orders of four


class RefusedError(Exception):
    """The definitions don't allow it: Dolphin must refuse it, too, with an error of its own."""


class UnsettledError(Exception):
    """The definitions leave the result open here (a tie), or it is too large for the reference."""


class Semiring:
    """What the reference asks of a provenance."""

    zero: Any
    one: Any
    by_symbols = True  # whether only new symbols keep a fixpoint going
    asks = True  # whether questions don't depend on the order of ⊕ and ⊗
    adds = False  # whether ⊕ adds, so that "or" has to be said in another way
    counts = False  # whether probabilities are those of all worlds
    rounding = 0.0  # how far apart equal probabilities may be, however small they are

    def fact(self, group: Group, choice: int) -> Any:
        raise NotImplementedError

    def plus(self, tags: Sequence[Any]) -> Any:
        raise NotImplementedError

    def plus_disjoint(self, tags: Sequence[Any]) -> Any:
        """⊕ of what excludes each other."""
        return self.plus(tags)

    def times(self, tags: Sequence[Any]) -> Any:
        raise NotImplementedError

    def product(self, factors: Sequence[Any]) -> Any:
        """⊗ of any number of tags."""
        factors = [tag for tag in factors if tag is not self.one]
        if not factors:
            return self.one
        return factors[0] if len(factors) == 1 else self.times(factors)

    def sum_of_products(self, products: Sequence[Sequence[Any]]) -> Any:
        """⊕ over all combinations that give a symbol of the ⊗ of their tags."""
        tags = list(map(self.product, products))
        return tags[0] if len(tags) == 1 else self.plus(tags)

    def negate(self, tag: Any) -> Any:
        raise NotImplementedError

    def probability(self, tag: Any) -> Jet:
        raise NotImplementedError

    def rounded(self, tag: Any, rounding: float) -> Jet:
        """The probability of all worlds, if what is left of a choice is this much more."""
        raise NotImplementedError

    def same(self, one: Any, other: Any) -> bool:
        return one == other


class Exact(Semiring):
    """A tag is a formula."""

    zero, one, by_symbols, counts = FALSE, TRUE, False, True

    def __init__(self) -> None:
        self.diagrams = Diagrams()

    def fact(self, group: Group, choice: int) -> int:
        return self.diagrams.fact(group, choice)

    def plus(self, tags: Sequence[int]) -> int:
        result = FALSE
        for tag in tags:
            result = self.diagrams.either(result, tag)
        return result

    def times(self, tags: Sequence[int]) -> int:
        result = TRUE
        for tag in tags:
            result = self.diagrams.both(result, tag)
        return result

    def negate(self, tag: int) -> int:
        return self.diagrams.negation(tag)

    def probability(self, tag: int) -> Jet:
        return self.diagrams.probability(tag)

    def rounded(self, tag: int, rounding: float) -> Jet:
        return self.diagrams.probability(tag, rounding)


class TopK(Semiring):
    """A tag is a set of at most k proofs; k = None keeps all of them.

    A proof is written as what it rules out: pairs (group, choice). "This fact holds" rules out
    every other choice of its group, "it doesn't hold" that one. So a conjunction is a union, a
    contradiction leaves a group without a choice, and equal proofs are equal sets.
    """

    zero: Proofs = frozenset()
    one: Proofs = frozenset([frozenset()])
    by_symbols = False
    most = 300  # proofs of a tag that the reference goes along with

    def __init__(self, k: int | None, exact: bool) -> None:
        self.k, self.exact = k, exact
        self.asks, self.counts = k is None, exact and k is None
        self.groups: dict[int, Group] = {}
        self.widest = 1  # the largest number of proofs that a tag had

    def fact(self, group: Group, choice: int) -> Proofs:
        self.groups[group.number] = group
        others = (c for c in range(group.none + 1) if c != choice)
        return frozenset([frozenset((group.number, c) for c in others)])

    def _allowed(self, proof: Proof) -> dict[int, list[int]]:
        """The choices that a proof leaves in each group that it refers to."""
        return {
            number: [c for c in range(self.groups[number].none + 1) if (number, c) not in proof]
            for number in {number for number, _ in proof}
        }

    def _weight(self, proof: Proof) -> Jet:
        return product(
            total(map(self.groups[number].probability, choices))
            for number, choices in self._allowed(proof).items()
        )

    def _kept(self, proofs: Iterable[Proof]) -> Proofs:
        """Consistent proofs that contain no other one; of these the k likeliest."""
        kept = self._absorbed(proofs)
        self.widest = max(self.widest, len(kept))
        if self.k is None or len(kept) <= self.k:
            return frozenset(kept)
        weights = {proof: self._weight(proof).real for proof in kept}
        kept.sort(key=weights.__getitem__, reverse=True)
        last, next_ = weights[kept[self.k - 1]], weights[kept[self.k]]
        # Where directions are carried along, a weight of 0 is a product of imaginary parts.
        if last - next_ <= TIE * last + STEP:
            raise UnsettledError("a tie among proofs")
        return frozenset(kept[: self.k])

    def _absorbed(self, proofs: Iterable[Proof]) -> list[Proof]:
        """Consistent proofs that contain no other one."""
        able = {proof for proof in proofs if all(self._allowed(proof).values())}
        if len(able) > self.most:
            raise UnsettledError("too many proofs")
        return [proof for proof in able if not any(other < proof for other in able)]

    def plus(self, tags: Sequence[Proofs]) -> Proofs:
        return self._kept(proof for tag in tags for proof in tag)

    def times(self, tags: Sequence[Proofs]) -> Proofs:
        result = self.one
        for tag in tags:
            result = self._kept(self._unions(result, tag))
        return result

    def _unions(self, tag: Proofs, other: Proofs) -> Iterable[Proof]:
        if len(tag) * len(other) > self.most**2 // 4:
            raise UnsettledError("too many proofs")
        return (one | two for one in tag for two in other)

    def sum_of_products(self, products: Sequence[Sequence[Proofs]]) -> Proofs:
        """The k likeliest are chosen once: among the unions of all combinations, after absorption.

        So a proof that another combination absorbs takes no place from the next one of its own. Of
        three factors and more, the first ones are multiplied two at a time.
        """
        if self.k is None:  # every order gives the same
            return super().sum_of_products(products)
        found: list[Proof] = []
        for factors in products:
            *others, last = [tag for tag in factors if tag is not self.one] or [self.one]
            found += self._absorbed(self._unions(self.product(others), last))
        kept = self._kept(found)
        # A certain factor that comes last has the other factors' k likeliest chosen before it.
        certain = any(tag is self.one for factors in products for tag in factors)
        if certain and kept != super().sum_of_products(products):
            raise UnsettledError("the k likeliest depend on the place of a certain factor")
        return kept

    def negate(self, tag: Proofs) -> Proofs:
        """De Morgan: every proof must fail, each in one of the groups that it refers to."""
        if self.k is not None and len(tag) > 1:
            raise UnsettledError("which failures are kept depends on the order of proofs")
        failures = [
            frozenset(
                frozenset((number, c) for c in choices)
                for number, choices in self._allowed(proof).items()
            )
            for proof in tag
        ]
        # How many there are on the way, and so which k is enough, depends on the order as well.
        for order in itertools.islice(itertools.permutations(failures), 1, _ORDERS):
            self.times(order)
        return self.times(failures)

    def probability(self, tag: Proofs) -> Jet:
        if not self.exact:
            return clipped(total(map(self._weight, tag)))
        return self.rounded(tag, 0.0)

    def rounded(self, tag: Proofs, rounding: float) -> Jet:
        diagrams, formula = Diagrams(), FALSE
        for proof in tag:
            holds = TRUE
            for number, choices in self._allowed(proof).items():
                group, allowed = self.groups[number], FALSE
                for choice in choices:
                    allowed = diagrams.either(allowed, diagrams.fact(group, choice))
                holds = diagrams.both(holds, allowed)
            formula = diagrams.either(formula, holds)
        return diagrams.probability(formula, rounding)


class Numbers(Semiring):
    """A tag is a number."""

    zero, one = Jet(0.0), Jet(1.0)

    def __init__(
        self,
        plus: Callable[[list[Jet]], Jet],
        times: Callable[[Jet, Jet], Jet],
        *,
        fact: Callable[[Jet], Jet] = lambda p: p,
        by_symbols: bool = True,
        negates: bool = True,
        asks: bool = False,
        adds: bool = False,
        disjoint: Callable[[list[Jet]], Jet] | None = None,
        rounding: float = 0.0,
    ) -> None:
        self._plus, self._times, self._fact = plus, times, fact
        self.by_symbols, self.negates, self.asks, self.adds = by_symbols, negates, asks, adds
        self._disjoint = plus if disjoint is None else disjoint
        self.rounding = rounding

    def fact(self, group: Group, choice: int) -> Jet:
        return self._fact(group.probs[choice])

    def plus(self, tags: Sequence[Jet]) -> Jet:
        return tags[0] if len(tags) == 1 else self._plus(list(tags))

    def plus_disjoint(self, tags: Sequence[Jet]) -> Jet:
        return tags[0] if len(tags) == 1 else self._disjoint(list(tags))

    def times(self, tags: Sequence[Jet]) -> Jet:
        result = tags[0]
        for tag in tags[1:]:
            result = self._times(result, tag)
        return result

    def negate(self, tag: Jet) -> Jet:
        if not self.negates:
            raise RefusedError("no negation")
        return 1.0 - tag

    def probability(self, tag: Jet) -> Jet:
        return tag

    def same(self, one: Jet, other: Jet) -> bool:
        return abs(one.real - other.real) < 1e-12


def clipped(number: Jet) -> Jet:
    """min(1, x): at 1 itself the gradient is that of x, beyond it 0; rounding decides between."""
    if number.real <= 1.0 + 1e-13:
        return number if number.real <= 1.0 else Jet(1.0, number.grad, number.smooth)
    return Jet(1.0, {}, number.smooth and number.real > 1.0 + 1e-4)


def added(numbers: list[Jet]) -> Jet:
    """min(1, Σ x)."""
    return clipped(total(numbers))


def either(numbers: list[Jet]) -> Jet:
    """1 - Π (1 - x), in a way that loses nothing of numbers next to 0."""
    return functools.reduce(lambda a, b: a + b * (1.0 - a), numbers)


OF_DUALS = 1e-14


def dual(
    norm: Callable[[Jet, Jet], Jet], conorm: Callable[[float, float], float] | None = None
) -> Callable[[list[Jet]], Jet]:
    """The ⊕ that belongs to ⊗, 1 - (1 - a) ⊗ (1 - b).

    Next to 0 that leaves a rounding of `OF_DUALS`; `conorm` is a formula for its value without.
    """

    def either_of(a: Jet, b: Jet) -> Jet:
        joined = 1.0 - norm(1.0 - a, 1.0 - b)
        if conorm is None or is_precise(joined.value) or max(a.real, b.real) > 0.5:
            return joined
        return Jet(joined.value - joined.real + conorm(a.real, b.real), joined.grad, joined.smooth)

    return lambda numbers: functools.reduce(either_of, numbers)


CONORMS: dict[str, Callable[[float, float], float]] = {
    "lukasiewicz": lambda a, b: min(1.0, a + b),
    "hamacher": lambda a, b: (a + b - 2.0 * a * b) / (1.0 - a * b),
    "yager": lambda a, b: min(1.0, math.hypot(a, b)),
    "schweizer-sklar": lambda a, b: schweizer_sklar_conorm(a, b),
    "frank": lambda a, b: a + b - frank(Jet(a), Jet(b)).real,
}


def schweizer_sklar_conorm(a: float, b: float) -> float:
    """1 - ((1 - a)⁻² + (1 - b)⁻² - 1)^(-1/2), by what the root is of more than 1."""
    more = sum(x * (2.0 - x) / (1.0 - x) ** 2 for x in (a, b))
    root = math.sqrt(1.0 + more)
    return more / (root * (root + 1.0))


def lukasiewicz(a: Jet, b: Jet) -> Jet:
    left = a + b - 1.0
    return (left if left.real > 0.0 else Jet(0.0, {}, left.smooth)).cornered(abs(left.real) < TIE)


def hamacher(a: Jet, b: Jet) -> Jet:
    below = a + b - a * b
    if below.real < 1e-12:
        return Jet(0.0, {}, smooth=False)
    return (a * b / below).cornered(min(a.real, b.real) < TIE)


def nilpotent(a: Jet, b: Jet) -> Jet:
    over = a.real + b.real - 1.0
    if abs(over) < 1e-4 and 1e-9 < min(a.real, b.real) < 1.0 - 1e-9:
        raise UnsettledError("where the nilpotent minimum jumps")
    if min(a.real, b.real) < 1e-9:
        return Jet(0.0, {}, smooth=False)
    if max(a.real, b.real) > 1.0 - 1e-9 or over > 0:
        return smallest([a, b]).cornered(max(a.real, b.real) > 1.0 - 1e-4)
    return Jet(0.0, {}, a.smooth and b.smooth)


def yager(a: Jet, b: Jet) -> Jet:
    x, y = 1.0 - a, 1.0 - b
    square = x * x + y * y
    if square.real < 1e-30:
        return Jet(1.0, {}, smooth=False)
    left = 1.0 - square.sqrt()
    corner = abs(left.real) < TIE
    return (left if left.real > 0.0 else Jet(0.0, {}, left.smooth)).cornered(corner)


def schweizer_sklar(a: Jet, b: Jet) -> Jet:
    """(a⁻² + b⁻² - 1)^(-1/2), without the large numbers in between."""
    if min(a.real, b.real) < 1e-100:
        return Jet(0.0, {}, smooth=False)
    left, right = a * a, b * b
    return (a * b / (left + right - left * right).sqrt()).cornered(min(a.real, b.real) < TIE)


def frank(a: Jet, b: Jet) -> Jet:
    base = math.log(10.0)
    raised = (a * base).expm1() * (b * base).expm1()
    return (raised * (1.0 / 9.0)).log1p() * (1.0 / base)


def _mul(a: Jet, b: Jet) -> Jet:
    return a * b


def _possible(p: Jet) -> Jet:
    if 0.0 < p.real < 1e-25:
        raise UnsettledError("single precision can't tell it from zero")
    return Jet(float(p.real > 0.0))


WITHOUT_GRADIENT = frozenset({"boolean", "counting"})


def semiring_of(name: str, k: int | None = None) -> Semiring:
    """The provenance of this name; proofs are kept without limit if k is None."""
    match name:
        case "exact":
            return Exact()
        case "dtkp-am" | "dtkp-wmc":
            return TopK(k, exact=name == "dtkp-wmc")
        case "damp":
            return Numbers(added, _mul, asks=True, adds=True)
        case "min-max":
            both = functools.partial(Numbers, by_symbols=False, asks=True)
            return both(largest, lambda a, b: smallest([a, b]))
        case "viterbi":
            return Numbers(largest, _mul, by_symbols=False, asks=True)
        case "noisy-or" | "stable-product":
            return Numbers(either, _mul, asks=name == "noisy-or", disjoint=added)
        case "boolean":
            return Numbers(largest, _mul, fact=_possible, by_symbols=False, asks=True)
        case "counting":
            return Numbers(total, _mul, fact=_possible, negates=False)
    norms = {"hamacher": hamacher, "nilpotent": nilpotent, "yager": yager, "frank": frank}
    more = {"lukasiewicz": lukasiewicz, "schweizer-sklar": schweizer_sklar}
    norm, conorm = {**norms, **more}[name], CONORMS.get(name)
    return Numbers(dual(norm, conorm), norm, rounding=OF_DUALS)
