"""Plain arguments that can't be meant are refused, with the operation and the argument."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import dolphin as dl


def d():
    return dl.Distribution([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], [0, 1, 2])


def total(x, y):
    return x + y


def same(x):
    return x


SEVERAL = torch.tensor([1.0, 2.0, 3.0])
WRONG = {
    "cache of apply": (lambda: dl.apply(d(), same, cache=SEVERAL), "apply: cache="),
    "cache of count": (lambda: dl.count(d(), bool, cache="no"), "count: cache="),
    "where of apply": (lambda: dl.apply(d(), same, where=d()), "apply: where="),
    "where of map": (lambda: d().map(same, where="first"), "where="),
    "where of satisfaction": (
        lambda: dl.satisfaction(d().map(bool), where={}),
        "satisfaction: where=",
    ),
    "rows of from_rows": (lambda: dl.Distribution.from_rows(3), "Distribution.from_rows: rows"),
    "logits of from_rows": (
        lambda: dl.Distribution.from_rows([([1], [0.5])], logits=SEVERAL),
        "Distribution.from_rows: logits=",
    ),
    "certain_rows": (lambda: dl.Distribution.certain_rows(3), "Distribution.certain_rows: symbols"),
    "stack": (lambda: dl.Distribution.stack(None), "stack: distributions must be a list"),
    "reduce": (lambda: dl.reduce(total, 3), "reduce:"),
    "among": (lambda: dl.negate(d(), among=3), "negate: symbols"),
    "symbols of probs": (lambda: d().probs(3), "probs: symbols"),
    "symbols of get_tags": (lambda: dl.get_tags(d(), 3.5), "get_tags: symbols"),
    "symbols of trace": (lambda: dl.trace(same, 3), "trace: symbols"),
    "too few lists for trace": (lambda: dl.trace(total, [0, 1]), "trace: "),
    "logits of trace": (lambda: dl.trace(same, [0, 1], logits=SEVERAL), "trace: logits="),
    "step of fixpoint": (lambda: dl.fixpoint(total, d()), "fixpoint: the step total"),
    "max_iterations": (lambda: dl.fixpoint(same, d(), 2.5), "fixpoint: max_iterations"),
    "only_new": (lambda: dl.fixpoint(same, d(), only_new=SEVERAL), "fixpoint: only_new="),
    "k of top": (lambda: d().top(1.5), "top: k"),
    "row": (lambda: d().row("first"), "row: row"),
    "row of explain": (lambda: d().explain(0, "first"), "explain: row"),
    "rows of different lengths": (lambda: d()[[[1], [1, 0]]], "d[rows]"),
    "device": (lambda: d().to(3.5), "to: device"),
    "generator of sample": (
        lambda: dl.sample(d(), 1, "categorical", generator=0),
        "sample: generator",
    ),
    "generator of estimate": (
        lambda: dl.estimate(same, d(), generator=0),
        "estimate: generator",
    ),
    "weight": (lambda: dl.nll_loss(d(), [0, 1], weight=["a", "b"]), "nll_loss: weight"),
    "ignore": (lambda: dl.bce_loss(d(), [0, 1], ignore=SEVERAL), "bce_loss: ignore"),
    "max_nodes": (lambda: dl.Exact(max_nodes="many"), "Exact: max_nodes"),
    "seconds": (lambda: dl.Exact(seconds=None), "Exact: seconds"),
    "method": (lambda: dl.sample(d(), 1, method=SEVERAL.numpy()), "sample: method"),
    "reduction": (lambda: dl.nll_loss(d(), [0, 1], reduction=SEVERAL.numpy()), "reduction"),
    "logits of network": (lambda: dl.network(same, [0], logits=SEVERAL), "network: logits="),
    "a program without a signature": (lambda: dl.batched(int), "batched:"),
    "samples": (lambda: dl.batched(same)(np.array(3)), "same: the argument x"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_meant_is_refused(case):
    call, words = WRONG[case]
    with pytest.raises(dl.DolphinError) as error:
        call()
    assert words in str(error.value)


def test_an_endless_iterator_is_refused(monkeypatch):
    monkeypatch.setattr("dolphin.inputs.arguments._MOST_ITEMS", 100)
    with pytest.raises(dl.SizeError, match="Distribution: symbols are more than 100"):
        dl.Distribution([0.5, 0.5], itertools.count())


def test_numbers_of_numpy_are_numbers():
    assert len(dl.sample(d(), np.int64(1)).row(0)) == 1
    assert dl.apply(d(), same, cache=np.True_).symbols == (0, 1, 2)
    assert dl.TopKProofs(np.int32(2)) == dl.TopKProofs(2)
    assert dl.Distribution.certain("x", batch=np.int64(2)).batch_size == 2


@pytest.mark.parametrize("answer", [None, "yes", 1, [], float("nan")])
def test_match_says_true_or_false(answer):
    with pytest.raises(dl.FunctionError, match="prob_of: match returned"):
        d().prob_of([0, 1], match=lambda symbol, target: answer)


@pytest.mark.parametrize("number", [1.5, -0.5, float("nan")])
def test_truths_are_probabilities(number):
    with pytest.raises(dl.InputError, match="satisfaction: "):
        dl.satisfaction(torch.tensor([0.5, number]))


@pytest.mark.parametrize("question", [dl.maximum, dl.minimum])
def test_a_key_that_is_nan_has_no_place(question):
    with pytest.raises(dl.FunctionError, match="nan"):
        question(d(), key=lambda x: float("nan") if x == 1 else x)
