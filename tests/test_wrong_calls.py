"""Wrong calls that ended in an error of torch or Python, or in a number without a meaning."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dolphin as dl

PROBS = torch.tensor([[0.5, 0.5], [0.3, 0.7]])
MASK = torch.tensor([True, False])


def d(**options):
    return dl.Distribution(PROBS.clone(), [0, 1], **options)


def meta(**options):
    return dl.Distribution(torch.full((2, 2), 0.5, device="meta"), [0, 1], **options)


def same(x):
    return x


def nothing():
    raise ZeroDivisionError


def first_up_to_one(x):
    return next(n for n in (0, 1) if n >= x)  # StopIteration for 2


def of_three():
    return dl.Distribution([[0.2, 0.3, 0.5]], [0, 1, 2])


linear = torch.nn.Linear(3, 2)
read = dl.network(linear, [0, 1])
on_meta = torch.ones(2, device="meta")

WRONG = {
    "nested": (
        lambda: dl.Distribution(torch.nested.nested_tensor([torch.ones(2)]), [0, 1]),
        "a nested tensor",
    ),
    "masked": (lambda: dl.Distribution(np.ma.array([[0.5, 0.5]]), [0, 1]), "a masked array"),
    "rows on devices": (
        lambda: dl.Distribution.from_rows([([0], torch.ones(1)), ([0], on_meta[:1])]),
        "on different devices: cpu, meta",
    ),
    "row that is a mask": (lambda: d().row(True), "row: row must be a number"),
    "row that is a tensor": (lambda: d().row(torch.tensor([True])), "row: row must be a number"),
    "stack of one": (lambda: dl.Distribution.stack(d()), "stack: distributions must be a list"),
    "unhashable and certain": (
        lambda: dl.Distribution.certain([1]),
        "Distribution.certain: unhashable symbol [1]",
    ),
    "unhashable in certain rows": (
        lambda: dl.Distribution.certain_rows([1, [2]]),
        "Distribution.certain_rows: unhashable symbol [2]",
    ),
    "reduce of one": (
        lambda: dl.reduce(lambda x: x, [d(), d()]),
        "does not take 2 arguments (too many positional arguments). reduce calls it with two sym",
    ),
    "operator on a list": (lambda: d() - [1], "function with_right_side(sub, [1], ...) raised"),
    "slice of texts": (lambda: d()[slice("a")], "d[rows]"),
    "slice without steps": (lambda: d()[::0], "d[rows]"),
    "symbols twice": (lambda: dl.negate(d(), among=[0, True, 1]), "negate: among= has 1 twice"),
    "no such device": (lambda: d().to("cuda:77"), "to: can't move to cuda:77"),
    "total of texts": (lambda: dl.total(d(), str), "total: '0' (str) can't be added"),
    "total of symbols": (lambda: dl.total(d().map(lambda x: (x,))), "total: (0,) (tuple)"),
    "negative weight": (lambda: dl.nll_loss(d(), [0, 1], weight=[-1.0, 1.0]), "from 0 upwards"),
    "endless weight": (lambda: dl.bce_loss(d(), [0, 1], weight={0: np.inf}), "from 0 upwards"),
    "unknown weight": (lambda: dl.nll_loss(d(), [0, 1], weight=[np.nan, 1]), "from 0 upwards"),
    "weight of text": (lambda: dl.nll_loss(d(), [0, 1], weight={0: "a"}), "nll_loss: weight"),
    "list of targets": (lambda: dl.nll_loss(d(), [0, 1], ignore=[1]), "ignore must be a symbol"),
    "network of other shapes": (
        lambda: read(torch.ones(7)),
        "network: the network raised RuntimeError",
    ),
    "network of texts": (lambda: read("seven"), "network: the network raised TypeError"),
    "tensors on devices": (
        lambda: dl.batched(lambda x: on_meta if x else torch.ones(2))([0, 1]),
        "sample 1 a tensor of shape (2,) on meta",
    ),
    "mask on meta": (lambda: dl.where(on_meta.bool(), d(), d()), "the mask is on the meta device"),
    "weight on meta": (lambda: dl.nll_loss(d(), [0, 1], weight=on_meta), "weight is on the meta"),
    "chance on meta": (
        lambda: d().map(lambda x: dl.weighted({x: on_meta[0]})).probs(),
        "a weight is on the meta device",
    ),
    "row of meta": (lambda: meta().row(0), "meta device has none"),
    "argmax of meta": (lambda: meta().argmax(), "meta device has none"),
    "sample of meta": (lambda: dl.sample(meta(), 1), "meta device has none"),
    "proof of meta": (lambda: meta(provenance="dtkp-am").explain(0, 0), "meta device has none"),
    "diagnosis of meta": (lambda: dl.diagnose(meta(), [0, 1]), "meta device has none"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_wrong_call_is_explained(name):
    call, words = WRONG[name]
    with pytest.raises(dl.DolphinError) as info:
        call()
    assert words in str(info.value)


def test_a_tensor_of_one_number_is_a_number():
    assert dl.sample(d(), torch.tensor(1)).row(0) == [(0, 0.5)]


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (lambda: 3, "returned 3; it must return a dolphin.Provenance"),
        (nothing, "raised ZeroDivisionError."),
    ],
)
def test_factories_of_ones_own(factory, words):
    name = dl.register_provenance("of this test", factory)
    for ask in (
        lambda: dl.Distribution(PROBS, [0, 1], provenance=name),
        lambda: dl.get_provenance(name),
    ):
        with pytest.raises(dl.InputError, match=words):
            ask()


# Python's `map` takes a StopIteration for its end: the other symbols counted as if all held.
ENDING = {
    "map": lambda: of_three().map(first_up_to_one),
    "filter": lambda: of_three().filter(lambda x: first_up_to_one(x) >= 0),
    "condition": lambda: dl.apply_if(
        of_three(), of_three(), lambda x, y: x, lambda x, y: first_up_to_one(x) >= 0
    ),
    "keys": lambda: dl.apply_if(of_three(), of_three(), max, on=(first_up_to_one, same)),
    "rows": lambda: dl.Distribution.from_rows([([0, 1, 2], [0.2, 0.3, 0.5])]).filter(
        lambda x: first_up_to_one(x) >= 0
    ),
    "exists": lambda: dl.exists(of_three(), lambda x: first_up_to_one(x) >= 0),
    "total": lambda: dl.total(of_three(), first_up_to_one),
    "expected": lambda: dl.expected(of_three(), first_up_to_one),
    "match": lambda: of_three().prob_of([0], match=lambda s, t: first_up_to_one(s) >= t),
    "program": lambda: dl.program(lambda e: first_up_to_one(dl.choose(e)))(of_three()),
}


@pytest.mark.parametrize("name", ENDING)
def test_a_function_that_finds_nothing_is_no_end(name):
    with pytest.raises(dl.FunctionError, match=r"StopIteration\b(?!: )"):
        ENDING[name]()
