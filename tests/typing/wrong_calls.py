"""Calls that an editor must show red: every line that ends with `# wrong` is reported."""

from __future__ import annotations

import torch

import dolphin as dl
from dolphin import Distribution

probs = torch.tensor([[0.5, 0.5]])
digits = Distribution(probs, [0, 1])


def add(x: int, y: int) -> int:
    return x + y


def less(x: int, y: int) -> bool:
    return x < y


dl.apply(add, digits, digits)  # wrong
dl.apply(digits, digits)  # wrong
dl.apply(digits, add)  # wrong
dl.apply(digits, digits, add, wher=[True])  # wrong
dl.apply([digits, digits], add)  # wrong
digits.apply(add, digits)  # wrong
digits.apply(digits)  # wrong
dl.apply_if(digits, digits, add)  # wrong
dl.apply_if(digits, digits, less, add, on=str)  # wrong
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
