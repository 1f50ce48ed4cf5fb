"""Calls that an editor must show red: every line that ends with `# wrong` is reported."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import dolphin as dl
from dolphin import Distribution
from dolphin.lm import LanguageModel

probs = torch.tensor([[0.5, 0.5]])
digits = Distribution(probs, [0, 1])
letters = Distribution(probs, "ab")


def add(x: int, y: int) -> int:
    return x + y


def five(a: int, b: int, c: int, d: int, e: int) -> str:
    return f"{a}{b}{c}{d}{e}"


def less(x: int, y: int) -> bool:
    return x < y


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

dl.apply(add, digits, digits)  # wrong
dl.apply(digits, digits)  # wrong
dl.apply(digits, add)  # wrong
dl.apply(digits, digits, add, wher=[True])  # wrong
dl.apply([digits, digits], add)  # wrong
digits.apply(add, digits)  # wrong
digits.apply(digits)  # wrong
dl.apply_if(digits, digits, add)  # wrong
dl.apply_if(digits, digits, less, add, on=str)  # wrong
dl.fixpoint(lambda d: d, digits, goal=lambda x, y: True)  # wrong
dl.satisfaction(dl.exists(digits), "any")  # wrong
digits.apply_if(digits, add)  # wrong
dl.filter(less, digits)  # wrong
dl.filter(digits)  # wrong
digits.map(add)  # wrong
dl.union([digits, digits])  # wrong
dl.reduce([digits, digits], add)  # wrong
dl.fixpoint(digits, lambda d: d)  # wrong
dl.sample(digits, 3, method="greedy")  # wrong
dl.settings(max_combination=10)  # wrong
dl.settings(chunk_elements="many")  # wrong
dl.using("dmap")  # wrong
dl.get_provenance("dtkp")  # wrong
Distribution(probs, [0, 1], provenance="exakt")  # wrong
dl.TopKProofs(k=3, wmc="exactly")  # wrong
dl.TopKProofs(kk=3)  # wrong
dl.DAMP(above_one="ignore")  # wrong
dl.Exact(compiler="bdd")  # wrong
digits.probabilities()  # wrong
digits.smaple(3)  # wrong
digits.prob_of([1], mach=less)  # wrong
Distribution(probs)  # wrong
Distribution(probs, [0, 1], exclusive="yes")  # wrong
Distribution.from_logits(probs, symbols=[0, 1], independent=True)  # wrong
Distribution.certain(3, batch="two")  # wrong
dl.nll_loss(digits, [1], reduction="avg")  # wrong
dl.bce_loss(digits)  # wrong
dl.trace(digits, range(3))  # wrong
dl.aply(digits, digits, add)  # wrong
dl.estimation  # wrong
digits[1.5]  # wrong
digits["a"]  # wrong
digits.to(3)  # wrong
digits.top("all")  # wrong
digits.row()  # wrong
digits.explain()  # wrong
digits.log_prob()  # wrong
digits.prob_of()  # wrong
digits.argmax(1)  # wrong
digits.sample(k="3")  # wrong
digits.negate(amongst=[0])  # wrong
digits.normalised()  # wrong
Distribution.stack(digits)  # wrong
Distribution.from_rows([([0], [1.0])], logit=True)  # wrong
Distribution.from_log_prob(probs, [0, 1])  # wrong
Distribution.each_from_logits(probs)  # wrong
Distribution.certain_rows(3)  # wrong
dl.get_probs(digits, symbol=[0])  # wrong
dl.get_logits(probs)  # wrong
dl.get_tags([digits])  # wrong
dl.nll_loss(digits, [1], weights=[1.0])  # wrong
dl.nll_loss(digits, [1], ignored=None)  # wrong
dl.settings(max_symbols="many")  # wrong
dl.settings(10)  # wrong
dl.settings(max_iterations=3)  # wrong
dl.register_provenance(dl.DAMP)  # wrong
dl.batched(3)  # wrong
dl.batched(digits)  # wrong
dl.network(digits, [0, 1])  # wrong
dl.program(keep="all")  # wrong
dl.program(digits)  # wrong
dl.choose(3)  # wrong
dl.weighted(3)  # wrong
dl.weighted({"a": "b"})  # wrong
dl.where(3, digits, digits)  # wrong
dl.where(digits == 1, digits)  # wrong
dl.exists(digits, "even")  # wrong
dl.forall(digits)  # wrong
dl.count(digits, key=str)  # wrong
dl.total(digits, value="number")  # wrong
dl.maximum(digits, by="key")  # wrong
dl.minimum([digits])  # wrong
dl.condition(digits)  # wrong
dl.condition(digits, 3)  # wrong
dl.expected(digits, values=float)  # wrong
dl.entropy(probs)  # wrong
dl.posterior(digits, [1])  # wrong
dl.most_likely([digits], digits)  # wrong
dl.diagnose(digits)  # wrong
dl.estimate(digits, digits)  # wrong
dl.profile(3)  # wrong
dl.pure()  # wrong
list(digits)  # wrong
dl.apply(digits, digits, digits, digits, digits, digits)  # wrong
dl.using("dtkp-am", kk=3)  # wrong
dl.using("dtkp-am", k="three")  # wrong
dl.get_provenance("dtkp-wmc", wmcc=1)  # wrong
Distribution("abc", [0, 1, 2])  # wrong
Distribution(torch.distributions.Normal(0.0, 1.0), [0, 1])  # wrong
dl.condition(digits, event=digits.map(str))  # wrong
dl.apply(digits, digits.map(str), add)  # wrong
dl.apply_if(digits, digits, add, on=(str.upper, str.upper))  # wrong
dl.filter(digits.map(str), lambda x: x + 1 > 2)  # wrong
named: Distribution[str] = dl.apply(digits, digits, add)  # wrong
likeliest: list[str] = digits.argmax()  # wrong
dl.network(torch.nn.Linear(2, 2), [0, 1])(probs).map(str.upper)  # wrong
digits & Distribution(probs, "ab")  # wrong
reversed_: Distribution[str] = digits + digits  # wrong
both: Distribution[str] = (digits == 1) & (digits == 0)  # wrong
neither: Distribution[str] = ~(digits == 1)  # wrong
digits.exists().map(str.upper)  # wrong
digits.count(is_even=True)  # wrong
digits.maximum(by="key")  # wrong
(digits == 1).map(str.upper)  # wrong
dl.get_tags(probs)  # wrong
dl.register_provenance("mine")  # wrong
dl.cache_clear("all")  # wrong
dl.draw(3)  # wrong
dl.satisfaction(probs, "some", q=3)  # wrong
dl.most_likely(digits, digits, [1])  # wrong
digits.entropy(1)  # wrong
digits.expected("value")  # wrong
digits.detach(True)  # wrong
digits.rows(0)  # wrong
digits.symbols()  # wrong
digits.batch  # wrong
dl.reduce(lambda x, y: x + y.upper(), [digits, digits])  # wrong
dl.reduce(str.join, [digits, digits])  # wrong
-digits.map(str)  # wrong
quotient: Distribution[str] = digits / 2  # wrong
others: Distribution[int] = digits.negate(among="ab")  # wrong
drawn: Distribution[str] = digits.map(lambda x: dl.weighted({x: 1.0}))  # wrong
mean: Distribution[int] = dl.estimate(add, digits, digits)  # wrong
dl.apply(digits, digits, digits, digits, digits, digits, digits)  # wrong
dl.apply(digits, digits, digits, digits, digits, digits, digits, digits)  # wrong
dl.apply(digits, digits, digits, digits, digits, digits, digits, wher=[1])  # wrong
dl.apply(digits, digits, digits, five, digits, digits)  # wrong
digits.apply(digits, digits, digits, digits, digits, digits)  # wrong
dl.apply_if(digits, digits, digits, digits, digits, five)  # wrong
dl.apply_if(digits, digits, digits, digits, five, five)  # wrong
digits.apply_if(digits, digits, digits, digits, five)  # wrong
dl.using("exact", k=3)  # wrong
dl.using("damp", k=3)  # wrong
dl.using("damp", wmc="exact")  # wrong
dl.using("dtkp-am", wmc="exact")  # wrong
dl.using("dtkp-wmc", seconds=3)  # wrong
dl.using("viterbi", k=3)  # wrong
dl.using("min-max", p=2)  # wrong
dl.using("yager", s=2)  # wrong
dl.using("frank", p=2)  # wrong
dl.using("stable-product", eps=2)  # wrong
dl.using("exact", compiler="bdd")  # wrong
dl.using("damp", above_one="keep")  # wrong
dl.using(dl.DAMP(), k=3)  # wrong
dl.using(dl.DAMP)  # wrong
dl.using()  # wrong
dl.using("Exact")  # wrong
dl.using("dtkp-am", 3)  # wrong
dl.get_provenance("exact", k=3)  # wrong
dl.get_provenance("boolean", k=3)  # wrong
dl.get_provenance("exact", max_node=3)  # wrong
dl.get_provenance("dtkp-am", k="3")  # wrong
dl.get_provenance("dtkp-am", 3)  # wrong
dl.get_provenance(dl.DAMP())  # wrong
dl.Exact(k=3)  # wrong
dl.DAMP(k=3)  # wrong
dl.TopKProofs(k=3, above_one="clip")  # wrong
digits + "a"  # wrong
digits + letters  # wrong
letters + 1  # wrong
1 + letters  # wrong
letters - letters  # wrong
letters - "a"  # wrong
digits / letters  # wrong
"a" / digits  # wrong
digits // "a"  # wrong
digits ** "a"  # wrong
letters**2  # wrong
2**letters  # wrong
digits % letters  # wrong
digits + None  # wrong
None + digits  # wrong
digits + {1}  # wrong
smaller = digits < "a"  # wrong
before = digits < letters  # wrong
later = letters >= 3  # wrong
digits & letters  # wrong
digits & "a"  # wrong
letters & letters  # wrong
letters | letters  # wrong
1.5 & digits  # wrong
digits ^ 1.5  # wrong
-letters  # wrong
abs(letters)  # wrong
digits @ digits  # wrong
squares: Distribution[str] = digits**2  # wrong
powers: Distribution[str] = 2**digits  # wrong
reciprocals: Distribution[str] = 1 / digits  # wrong
quotients: Distribution[str] = 7 // digits  # wrong
numbers: Distribution[int] = dl.apply(digits, digits, digits, digits, digits, five)  # wrong
roots: Distribution[int] = digits**0.5  # wrong
inverses: Distribution[int] = digits**-1  # wrong
dl.apply(digits, digits, digits, digits, letters, five)  # wrong
dl.apply(letters, digits, digits, digits, digits, five)  # wrong
digits.apply(letters, digits, digits, digits, five)  # wrong
dl.apply(five, digits, digits, digits, digits, digits)  # wrong
dl.apply(digits, digits, digits, digits, digits, digits, digits, wher=[True])  # wrong
dl.apply_if(digits, digits, digits, digits, digits, five, less)  # wrong
dl.apply_if(digits, digits, digits, digits, digits, digits, digits, lambda *each: 1)  # wrong

# Symbols that are not hashable, not numbers or without an order; what other symbols can't do.
Distribution(probs, [[0], [1]])  # wrong
Distribution.certain([3])  # wrong
Distribution.certain_rows([["a"], ["b"]])  # wrong
digits.map(lambda x: [x])  # wrong
dl.apply(digits, digits, lambda x, y: {x, y})  # wrong
dl.reduce(lambda x, y: [x, y], [digits, digits])  # wrong
dl.network(torch.nn.Linear(2, 2), [[0], [1]])  # wrong
digits.count(by=lambda x: [x])  # wrong
dl.total(letters)  # wrong
letters.total(by=ord)  # wrong
dl.total(digits, lambda x: [x])  # wrong
dl.maximum(edges)  # wrong
edges.minimum(by=lambda e: e.start)  # wrong
dl.maximum(edges, key=lambda e: e)  # wrong
dl.expected(letters)  # wrong
edges.expected()  # wrong
letters.expected(str.upper)  # wrong
~letters  # wrong
edges + 1  # wrong
shorter = edges < edges  # wrong
edges.map(lambda e: e.begin)  # wrong
edges.filter(lambda e: e.begin > 0)  # wrong
dl.apply_if(edges, edges, edge_of, on=(lambda a: a.stop, lambda b: b.start))  # wrong
dl.fixpoint(lambda d: d.map(str), digits)  # wrong
Steps().first(letters)  # wrong
Steps().first()  # wrong
chosen: Distribution[str] = Steps().first(digits)  # wrong
dl.exists(digits, lambda x: x.upper())  # wrong
dl.where(letters, digits, digits)  # wrong
dl.posterior([digits], digits, 1)  # wrong
dl.nll_loss([1], digits)  # wrong
dl.diagnose(digits, 1)  # wrong
digits.top(2)[0][0][0].upper()  # wrong
digits[0] = digits  # wrong
lm.options(["q"], [1, 2])  # wrong
lm.answers(["q"], parse=int, method="greedy")  # wrong
lm.answers(["q"], parse=int).map(lambda x: x + 1)  # wrong
dl.get_provenance("damp").k  # wrong
dl.register_provenance("mine", dl.DAMP())  # wrong
dl.trace(range(3), lambda x: x)  # wrong
dl.negate(digits, among=[[1]])  # wrong
digits.negate(among=[{1}])  # wrong
