"""Programs of the tasks written for one sample give what the batched ones give."""

from __future__ import annotations

import pytest
import torch

import dolphin as dl
from clutrr_cases import batch_of
from dolphin_tasks.clutrr.kinship import RELATIONS
from dolphin_tasks.clutrr.program import relation_asked_for, relation_in_one, told_facts
from dolphin_tasks.hwf.program import calculate, calculate_one, readings
from dolphin_tasks.mugen.program import ACTIONS, collapse, read_actions, watch, watch_one


def assert_same(found, expected, leaf, symbols):
    logs = [d.probs(symbols) for d in (found, expected)]
    torch.testing.assert_close(*logs)
    grads = [torch.autograd.grad(x.square().sum(), leaf, retain_graph=True)[0] for x in logs]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("provenance", ["damp", "dtkp-am"])
def test_hwf(provenance):
    lengths = torch.tensor([1, 5, 3, 7, 3])
    logits = torch.randn(5, 7, 14, dtype=torch.float64, requires_grad=True)
    with dl.using(provenance):
        places = readings(logits)
        expected = calculate(places, lengths)
        samples = [
            [place[row] for place in places[:length]] for row, length in enumerate(lengths.tolist())
        ]
        found = dl.batched(calculate_one)(samples)
    symbols = sorted(s for s in expected.symbols if s == s)
    assert len(found) == len(expected)
    assert_same(found, expected, logits, symbols)


@pytest.mark.parametrize("provenance", ["damp", "dtkp-am"])
def test_mugen(provenance):
    logits = torch.randn(3, 6, 8, dtype=torch.float64, requires_grad=True)
    captions = [collapse(ACTIONS[i : i + 3]) for i in range(3)]
    with dl.using(provenance):
        expected = watch(read_actions(logits), captions)
        found = dl.batched(watch_one)(logits, [captions] * 3)
    assert_same(found, expected, logits, captions)


@pytest.mark.parametrize(("provenance", "links"), [("damp", 2), ("viterbi", None)])
def test_clutrr(provenance, links):
    batch = batch_of(3, 2, 4)
    probs = torch.rand(len(batch.rows), 20, dtype=torch.float64).softmax(1).requires_grad_()
    rows = range(len(batch.stories))
    mentions = [(batch.rows == row).nonzero()[:, 0] for row in rows]
    pairs = [list(map(tuple, batch.pairs[own].tolist())) for own in mentions]
    with dl.using(provenance):
        expected = relation_asked_for(told_facts(probs, batch), links)
        found = dl.batched(relation_in_one)(pairs, [probs[own] for own in mentions], links=links)
    assert_same(found, expected, probs, RELATIONS)
