"""Calls in which a type checker finds nothing wrong, and the symbol types that it infers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from fractions import Fraction
from typing import Any, assert_type

import numpy as np
import torch

import dolphin as dl
from dolphin import Distribution
from dolphin.lm import LanguageModel, Other
from dolphin.provenance import ProvenanceName, RegisteredName

probs = torch.tensor([[0.5, 0.5]])
digits = Distribution(probs, [0, 1])
letters = Distribution(probs, "ab")
pairs = Distribution(probs, [(0, "a"), (1, "b")], exclusive=False, provenance="exact")
assert_type(digits, Distribution[int])
assert_type(letters, Distribution[str])
assert_type(pairs, Distribution[tuple[int, str]])

# Other ways to make one.
assert_type(Distribution.from_logits(probs, "ab"), Distribution[str])
assert_type(Distribution.from_log_probs(probs.log(), "ab", provenance=dl.DAMP()), Distribution[str])
assert_type(Distribution.each_from_logits(torch.zeros(1, 3, 2), range(2)), list[Distribution[int]])
assert_type(Distribution.from_rows([(["a"], [1.0])], logits=False), Distribution[str])
assert_type(Distribution.certain(3, batch=2), Distribution[int])
assert_type(Distribution.certain_rows(["a", "b"]), Distribution[str])
assert_type(Distribution.stack([digits, digits]), Distribution[int])
Distribution(torch.distributions.Categorical(probs=probs), "ab")
Distribution(probs, [0, 1], exclusive=[[0, 1]], provenance=dl.TopKProofs(k=3, wmc="exact"))


def add(x: int, y: int) -> int:
    return x + y


def is_even(x: int) -> bool:
    return x % 2 == 0


# Operations, as functions and as methods.
assert_type(dl.apply(digits, str), Distribution[str])
assert_type(dl.apply(digits, digits, add), Distribution[int])
assert_type(dl.apply(digits, digits, lambda x, y: x < y), Distribution[bool])
assert_type(
    dl.apply(digits, letters, digits, lambda x, c, y: (c, x + y)), Distribution[tuple[str, int]]
)
assert_type(digits.apply(digits, add), Distribution[int])
assert_type(digits.map(float), Distribution[float])
assert_type(dl.apply(digits, digits, add, where=[True], cache=False), Distribution[int])
assert_type(dl.apply_if(digits, digits, add, lambda x, y: x < y), Distribution[int])
assert_type(dl.apply_if(digits, digits, add, on=(str, str)), Distribution[int])
assert_type(
    dl.apply_if(digits, digits, digits, lambda x, y, z: x + y + z, on=(str, str, str)),
    Distribution[int],
)
assert_type(
    dl.fixpoint(lambda d: d, digits, goal=lambda x: x > 1, only_new=True), Distribution[int]
)
assert_type(dl.satisfaction(dl.exists(digits), "some", p=4), torch.Tensor)
assert_type(digits.apply_if(digits, add, lambda x, y: x < y), Distribution[int])
assert_type(dl.filter(digits, is_even), Distribution[int])
assert_type(digits.filter(is_even), Distribution[int])
assert_type(dl.union(digits, digits), Distribution[int])
assert_type(digits.union(letters), Distribution[int | str])
assert_type(dl.sample(digits, 3, method="categorical"), Distribution[int])
assert_type(dl.reduce(add, [digits, digits]), Distribution[int])
assert_type(dl.fixpoint(lambda d: dl.union(d, d), digits), Distribution[int])
assert_type(digits == digits, Distribution[bool])
assert_type(digits < 3, Distribution[bool])
assert_type(digits + digits, Distribution[int])
assert_type(2 * digits - 1, Distribution[int])
assert_type(digits % 2, Distribution[int])
assert_type(letters + "s", Distribution[str])
assert_type(abs(digits), Distribution[int])
assert_type(digits / 2, Distribution[float])
assert_type(digits // digits, Distribution[int])
assert_type(digits * 2.0, Distribution[float])
assert_type(-digits, Distribution[int])
assert_type("s" + letters, Distribution[str])
assert_type((digits == 1) + (digits < 3), Distribution[int])
assert_type((digits == 1) & (digits < 3), Distribution[bool])
assert_type((digits == 1) | False, Distribution[bool])
assert_type(~(digits == 1) ^ (digits < 3), Distribution[bool])
assert_type(dl.reduce(lambda x, y: x * y, [digits, digits]), Distribution[int])
assert_type(dl.reduce(lambda x, y: f"{x}{y}", [digits, digits]), Distribution[str])
assert_type(dl.negate(digits), Distribution[int])
assert_type(digits.negate(among="ab"), Distribution[str])
dl.apply(digits, digits, digits, digits, digits, lambda a, b, c, d, e: a)

# Rows and numbers.
assert_type(digits[0], Distribution[int])
assert_type(digits[torch.tensor([True])], Distribution[int])
assert_type(digits.rows(), list[Distribution[int]])
assert_type(digits.to("cpu").detach(), Distribution[int])
assert_type(digits.symbols, tuple[int, ...])
assert_type(digits.probs(), torch.Tensor)
assert_type(digits.log_probs([1, 0]), torch.Tensor)
assert_type(digits.prob_of([1]), torch.Tensor)
assert_type(digits.row(0), list[tuple[int, float]])
assert_type(digits.top(2), list[list[tuple[int, float]]])
assert_type(digits.explain(1), dl.Proofs)
assert_type(digits.dtype, torch.dtype)
assert_type(dl.nll_loss(digits, [1], weight={1: 2.0}, ignore=-1), torch.Tensor)
assert_type(dl.nll_loss(digits, [1], weight=np.ones(1)), torch.Tensor)
assert_type(digits[np.int64(0)], Distribution[int])
assert_type(dl.sample(digits, k=np.int64(3)), Distribution[int])
assert_type(dl.bce_loss(digits, torch.tensor([1]), reduction="none"), torch.Tensor)
assert_type(dl.get_probs(digits, [1]), torch.Tensor)

# Settings and provenances.
with dl.using("dtkp-am", k=3), dl.settings(max_combinations=1000, chunk_elements=10):
    pass
with dl.using(dl.Exact(max_nodes=10)) as algebra:
    assert_type(algebra, dl.Exact)
name = dl.register_provenance("mine", dl.DAMP)
Distribution(probs, "ab", provenance=name)
with dl.using(name):
    pass


def program(x: Distribution[Any], y: Distribution[Any]) -> Distribution[Any]:
    return x + y


traced = dl.trace(program, range(3), range(3), logits=True)
assert_type(traced, dl.Traced)
assert_type(traced(probs, probs), torch.Tensor)
assert_type(dl.estimate(add, digits, digits, samples=4), torch.Tensor)
assert_type(dl.estimate(str, digits), Distribution[str])
assert_type(dl.estimate(add, digits, digits, outcome="symbol"), Distribution[int])

# Programs, chance and questions.
net = torch.nn.Linear(2, 2)
transitions = torch.eye(2).requires_grad_()


@dl.batched
def for_one(image: torch.Tensor) -> Distribution[int]:
    return Distribution.from_logits(image, [0, 1])


@dl.program
def answer(x: Distribution[int], y: Distribution[str]) -> str:
    return dl.choose(y) if dl.choose(x) else "none"


@dl.program(keep=3)
def likeliest(x: Distribution[int]) -> int:
    return dl.choose(x)


def step(state: int) -> dl.Weighted[int]:
    return dl.weighted({0: transitions[state, 0], 1: 0.5})


assert_type(answer(digits, letters), Distribution[str])
assert_type(likeliest(digits), Distribution[int])
dl.network(net, [0, 1])
for_one([probs[0], probs[0]])
assert_type(digits.map(step), Distribution[int])
assert_type(dl.apply(digits, digits, lambda x, y: dl.weighted({x + y: 0.5})), Distribution[int])
assert_type(dl.where(digits == 1, digits, digits), Distribution[int])
assert_type(dl.where(torch.tensor([True]), digits, digits), Distribution[int])
assert_type(dl.exists(digits, is_even), Distribution[bool])
assert_type(dl.forall(digits, is_even), Distribution[bool])
assert_type(dl.count(digits), Distribution[int])
assert_type(dl.count(digits, is_even, by=str), Distribution[tuple[str, int]])
assert_type(dl.total(digits), Distribution[int])
assert_type(dl.total(digits, value=float), Distribution[float])
assert_type(digits.exists(is_even), Distribution[bool])
assert_type(digits.forall(is_even, by=str), Distribution[tuple[str, bool]])
assert_type(digits.count(), Distribution[int])
assert_type(digits.total(float, by=str), Distribution[tuple[str, float]])
assert_type(digits.maximum(), Distribution[int | None])
assert_type(digits.minimum(abs, by=is_even), Distribution[tuple[bool, int | None]])
dl.maximum(digits, key=abs, by=is_even)
assert_type(dl.condition(digits, digits == 1), Distribution[int])
assert_type(digits.normalized(), Distribution[int])
assert_type(dl.expected(digits, float), torch.Tensor)
assert_type(dl.entropy(digits), torch.Tensor)
assert_type(dl.posterior([digits], digits + digits, [1]), list[torch.Tensor])
dl.most_likely([digits], digits + digits, [1])
assert_type(dl.diagnose(digits, [1]), dl.Diagnosis)
assert_type(digits.argmax(), list[int])
assert_type(digits.argmax(default=None), list[int | None])
assert_type(dl.network(net, [0, 1])(probs), Distribution[int])
assert_type(Distribution([[0.5, 0.5], (0.2, 0.8)], "ab"), Distribution[str])
assert_type(Distribution(np.array([0.2, 0.8]), [1, 2]), Distribution[int])
assert_type(Distribution([probs[0, 0], 0.5], "ab"), Distribution[str])
dl.using("yager", p=2.0)
dl.get_provenance("exact", max_nodes=1000, seconds=2, compiler="auto")
dl.get_provenance(dl.register_provenance("own", dl.DAMP), anything=3)
dl.using("frank", s=2.0)
dl.using("damp", above_one="pass")
dl.get_provenance("stable-product", epsilon=0.01)
assert_type(dl.get_provenance("dtkp-wmc", k=2), dl.TopKProofs)
dl.get_provenance(RegisteredName(str(probs)), k=2)


def by_name(one: ProvenanceName) -> dl.Provenance:
    """A name that is not known yet takes no parameters."""
    with dl.using(one):
        return dl.get_provenance(one)


# Five operands and more.
assert_type(
    dl.apply(digits, letters, digits, digits, digits, lambda a, b, c, d, e: (b, e)),
    Distribution[tuple[str, int]],
)
assert_type(
    dl.apply(digits, letters, digits, digits, digits, letters, lambda a, b, c, d, e, f: f),
    Distribution[str],
)
assert_type(
    digits.apply(letters, digits, digits, digits, letters, lambda a, b, c, d, e, f: (a, f)),
    Distribution[tuple[int, str]],
)
assert_type(
    dl.apply_if(digits, digits, digits, digits, digits, lambda *each: 1, lambda *each: True),
    Distribution[int],
)
assert_type(
    digits.apply_if(letters, digits, digits, digits, lambda a, b, c, d, e: b, lambda *each: True),
    Distribution[str],
)
assert_type(dl.apply(*[digits] * 9, lambda *each: str(each)), Distribution[str])
assert_type(dl.apply_if(*[digits] * 9, lambda *each: 1, lambda *each: True), Distribution[int])
dl.apply(digits, digits, digits, digits, digits, lambda *each: sum(each))

# Operators of all kinds of symbols, from both sides.
halves = Distribution(probs, [Fraction(1, 2), Fraction(1, 3)])
mixed = Distribution(probs, [1, 2.5])
words = Distribution(probs, [(1, 2), (3, 4)])
days = Distribution(probs, [date(2020, 1, 1), date(2020, 1, 2)])
sets = Distribution(probs, [frozenset([1]), frozenset([2])])
counts = Distribution(probs, [np.int64(1), np.int64(2)])
assert_type(digits**2, Distribution[int])
assert_type(2**digits, Distribution[int])
assert_type(digits**digits, Distribution[int])
assert_type(digits**-1, Distribution[float])
assert_type(digits**0.5, Distribution[float])
assert_type(mixed**2, Distribution[float])
assert_type(halves**2, Distribution[Fraction])
assert_type(1 / digits, Distribution[float])
assert_type(7 // digits, Distribution[int])
assert_type(7 % digits, Distribution[int])
assert_type(1 / halves, Distribution[Fraction])
assert_type(digits * halves, Distribution[Fraction])
assert_type(halves + 0.5, Distribution[Any])
assert_type(1 - mixed, Distribution[float])
assert_type(digits * letters, Distribution[str])
assert_type(words + words, Distribution[tuple[int, ...]])
end = ("a",)
words + end
days - days
assert_type(days + timedelta(1), Distribution[date])
assert_type(days < date(2020, 1, 3), Distribution[bool])
assert_type(mixed <= digits, Distribution[bool])
assert_type(letters < "b", Distribution[bool])
assert_type(counts < 3, Distribution[bool])
assert_type(sets | {"a"}, Distribution[frozenset[int | str]])
assert_type(sets & sets, Distribution[frozenset[int]])
assert_type(digits & 1, Distribution[int])
assert_type(True ^ (digits == 1), Distribution[bool])
counts * 2.5


def untyped(d: Distribution[Any]) -> None:
    """Where symbols have no type, results have none either: nothing is shown red by mistake."""
    assert_type(d + d, Distribution[Any])
    assert_type(d & d, Distribution[Any])
    assert_type(~d, Distribution[Any])
    assert_type(d / d, Distribution[Any])
    assert_type(-d, Distribution[Any])
    assert_type(2 * d, Distribution[Any])
    assert_type(d**2, Distribution[Any])
    assert_type(2**d, Distribution[Any])
    assert_type(d < 3, Distribution[bool])
    assert_type(d.negate(), Distribution[Any])


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Edge:
    start: int
    end: int


def edge_of(a: Edge, b: Edge) -> Edge:
    return Edge(a.start, b.end)


class Steps:
    @dl.program
    def first(self, d: Distribution[int]) -> int:
        return dl.choose(d)


edges = Distribution(probs, [Edge(0, 1), Edge(1, 2)], exclusive=False)
lm = LanguageModel.from_package()


# Symbols of classes of one's own.
assert_type(edges, Distribution[Edge])
assert_type(Distribution(probs, list(Colour)), Distribution[Colour])
assert_type(Distribution(probs, ["a", None]), Distribution[str | None])
assert_type(Distribution.certain(None), Distribution[None])
assert_type(Distribution.from_rows([([Edge(0, 1)], [0.5])], exclusive=False), Distribution[Edge])
assert_type(dl.apply(digits, digits, Edge), Distribution[Edge])
assert_type(
    dl.apply_if(edges, edges, edge_of, on=(lambda a: a.end, lambda b: b.start)), Distribution[Edge]
)
assert_type(edges.map(lambda e: e.start), Distribution[int])
assert_type(letters.map({"a": 1}.get), Distribution[int | None])
assert_type(digits.map([3, 4].__getitem__), Distribution[int])
assert_type(dl.reduce(max, [digits, digits]), Distribution[int])
assert_type(dl.union(digits, letters), Distribution[int | str])
assert_type(dl.where(digits == 1, 1, "a"), Distribution[int | str])
assert_type(dl.exists(edges, by=lambda e: e.start), Distribution[tuple[int, bool]])
assert_type(dl.total(edges, lambda e: e.start, by=lambda e: e.end), Distribution[tuple[int, int]])
assert_type(dl.total(halves), Distribution[Fraction])
assert_type(dl.total(counts), Distribution[np.int64])
assert_type(dl.maximum(edges, key=lambda e: (e.end, e.start)), Distribution[Edge | None])
assert_type(dl.maximum(letters), Distribution[str | None])
assert_type(dl.maximum(days), Distribution[date | None])
assert_type(words.minimum(by=len), Distribution[tuple[int, tuple[int, int] | None]])
assert_type((digits == 1).expected(), torch.Tensor)
assert_type(halves.expected(), torch.Tensor)
assert_type(counts.expected(), torch.Tensor)
assert_type(edges.expected(lambda e: e.start), torch.Tensor)
assert_type(~digits, Distribution[int])
assert_type(Steps().first(digits), Distribution[int])
assert_type(dl.nll_loss(digits, np.array([1])), torch.Tensor)
assert_type(dl.posterior([digits], digits + 1, np.array([1])), list[torch.Tensor])
assert_type(edges.top(1)[0][0][0].start, int)
assert_type(lm.options("q", ["yes", "no"]), Distribution[str])
assert_type(lm.answers(["q"], parse=int), Distribution[int | Other])
