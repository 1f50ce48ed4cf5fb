"""A traced program is exported with any number of rows: `torch.export`, and ONNX."""

from __future__ import annotations

import io
from importlib.util import find_spec

import pytest
import torch
from torch import nn

import dolphin as dl
from dolphin.provenance.topk import encoding
from dolphin_tasks.mugen import program as mugen
from dolphin_tasks.sum_n import program as sum_n

EDGES = [(0, 1), (1, 2), (2, 1)]
BATCHES = (1, 7, 64, 1000)


def times_mod_seven(x, y):
    return dl.apply(x, y, lambda a, b: a * b % 7)


def equal_to_itself(x):
    return dl.apply(x, x, lambda a, b: a == b)


def total(x, y, z):
    return sum_n.add_up([x, y, z])


def three_at_once(x, y, z):
    return dl.apply(x, y, z, lambda a, b, c: (a + b * c) % 4)


def longer(edges, paths):
    new = dl.apply_if(paths, edges, lambda p, e: (p[0], e[1]), on=(lambda p: p[1], lambda e: e[0]))
    return dl.union(edges, new)


def one_step(edges):
    return longer(edges, edges)


def closure(edges):
    return dl.fixpoint(lambda paths: longer(edges, paths), edges)


def one_is_left_over(x):
    return dl.exists(dl.apply(x, lambda digit: digit % 2), lambda rest: rest == 1)


def what_happened(*moments):
    return mugen.watch(moments, [("walk",), ("jump", "walk")])


PROGRAMS = {
    "total": (total, (range(10),) * 3, True),
    "times": (times_mod_seven, (range(10),) * 2, True),
    "equal": (equal_to_itself, ("abcd",), True),
    "three": (three_at_once, (range(4),) * 3, True),
    "step": (one_step, (EDGES,), False),
    "closure": (closure, (EDGES,), False),
    "watched": (what_happened, (("walk", "jump", "die"),) * 3, True),
}
CASES = [  # each of both in one pair at least: a pair takes up to a second
    ("total", "dtkp-wmc"),
    ("times", "damp"),
    ("equal", "exact"),
    ("three", "viterbi"),
    ("step", "dtkp-am"),
    ("closure", "exact"),
    ("closure", "noisy-or"),
    ("watched", "dtkp-wmc"),
]
ALSO_ONNX = {("times", "damp"), ("three", "viterbi"), ("step", "dtkp-am")}


# An ONNX model computes these by a sum or a difference that is rounded.
INEXACT_IN_ONNX = {torch.ops.aten.log1p.default, torch.ops.aten.expm1.default}


def numbers(symbols, exclusive, rows, seed=0):
    generator = torch.Generator().manual_seed(seed + rows)
    each = [torch.rand(rows, len(own), generator=generator) for own in symbols]
    return tuple(n.softmax(1) if exclusive else n for n in each)


def exported(name, algebra):
    program, symbols, exclusive = PROGRAMS[name]
    traced = dl.trace(program, *symbols, exclusive=exclusive, provenance=algebra)
    batch = torch.export.Dim("batch")
    shapes = (tuple({0: batch} for _ in symbols),)
    given = numbers(symbols, exclusive, 5)
    return traced, torch.export.export(traced, given, dynamic_shapes=shapes, strict=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "algebra"), CASES)
def test_one_export_serves_all_batches(name, algebra):
    """What an exporter makes on its way is not remembered for later calls, which need values."""
    program, symbols, exclusive = PROGRAMS[name]
    encoding._constants.clear()
    traced, whole = exported(name, algebra)
    assert all(type(tensor) is torch.Tensor for tensor in encoding._constants.values())
    targets = {node.target for node in whole.graph.nodes}
    assert not targets & INEXACT_IN_ONNX
    assert not any("dolphin" in str(target) for target in targets)  # it runs without Dolphin
    ways = [(saved_and_loaded(whole) if algebra == "exact" else whole).module()]
    if (name, algebra) in ALSO_ONNX and find_spec("onnxscript") and find_spec("onnxruntime"):
        ways.append(as_onnx(whole))
    for rows in BATCHES:
        given = numbers(symbols, exclusive, rows)
        wanted = traced(*given)
        assert wanted.shape == (rows, len(traced.symbols))
        for run in ways:
            torch.testing.assert_close(run(*given).exp(), wanted.exp(), atol=1e-6, rtol=0)
    with dl.using(algebra):
        direct = [
            dl.Distribution(numbers, own, exclusive=exclusive)
            for numbers, own in zip(given, symbols, strict=True)
        ]
    assert torch.isfinite(program(*direct).probs()).all()


def saved_and_loaded(program):
    torch.export.save(program, file := io.BytesIO())
    return torch.export.load(io.BytesIO(file.getvalue()))


def as_onnx(program):
    """An exported program as it runs without torch."""
    import onnxruntime

    model = torch.onnx.export(program, (), dynamo=True, verbose=False)
    assert model is not None
    model.save(file := io.BytesIO())
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])

    def run(*numbers):
        names = [given.name for given in session.get_inputs()]
        named = {name: n.numpy() for name, n in zip(names, numbers, strict=True)}
        return torch.from_numpy(session.run(None, named)[0])

    return run


@pytest.mark.filterwarnings("ignore")
def test_negated_proofs_are_exported_and_nothing_of_them_is_kept():
    """The program itself runs on afterwards; shifts are those that ONNX has an operator for."""
    traced = dl.trace(one_is_left_over, range(4), provenance="dtkp-am")
    given = numbers((range(4),), True, 5)
    shapes = (({0: torch.export.Dim("batch")},),)
    whole = torch.export.export(traced, given, dynamic_shapes=shapes, strict=False)
    result = one_is_left_over(dl.Distribution(given[0], range(4), provenance="dtkp-am"))
    assert type(result.probs()) is torch.Tensor
    torch.testing.assert_close(whole.module()(*given).exp(), result.probs(traced.symbols))
    assert torch.ops.aten.__rshift__.Tensor not in {node.target for node in whole.graph.nodes}


@pytest.mark.filterwarnings("ignore")
def test_a_round_of_a_recursion_is_few_operations():
    """Exporting the rounds of a map of 12×12 cells took 158 s of CPU time with 31 in each."""
    traced, whole = exported("closure", "viterbi")
    rounds = len(traced.symbols)  # as many as may be needed
    calls = sum(node.op == "call_function" for node in whole.graph.nodes)
    assert calls <= 20 * (rounds + 2)


def test_recursion_that_depends_on_numbers_is_refused():
    with pytest.raises(dl.UnsupportedError, match=r"fixpoint\(..., rounds=n\)"):
        exported("closure", "dtkp-am")


class Adder(nn.Module):
    """A network and its program."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(6, 10)
        self.add = dl.trace(lambda x, y: x + y, range(10), range(10), logits=True)

    def forward(self, images):
        return self.add(*self.read(images).unbind(1))


def test_a_network_and_its_program_are_one_file():
    torch.manual_seed(0)
    model, batch = Adder(), torch.export.Dim("batch")
    program = torch.export.export(model, (torch.rand(3, 2, 6),), dynamic_shapes=({0: batch},))
    loaded = saved_and_loaded(program).module()
    for rows in BATCHES:
        images = torch.rand(rows, 2, 6)
        torch.testing.assert_close(loaded(images), model(images))
