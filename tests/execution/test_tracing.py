"""Traced programs: only the tag stage is left, it can be compiled, and it never looks at values."""

from __future__ import annotations

import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import dolphin as dl

PROVENANCES = [dl.DAMP(), dl.TopKProofs(k=1), dl.TopKProofs(k=3)]
EDGES = [(0, 1), (1, 2), (2, 1)]


def add_three(x, y, z):
    return x + y + z


def times_mod_seven(x, y):
    return dl.apply(x, y, lambda a, b: a * b % 7)


def equal_to_itself(x):
    return dl.apply(x, x, lambda a, b: a == b)


def closure(edges):
    def grow(paths):
        longer = dl.apply_if(
            paths, edges, lambda p, e: (p[0], e[1]), on=(lambda p: p[1], lambda e: e[0])
        )
        merged = dl.union(paths, longer)
        return merged if merged.symbols == paths.symbols else grow(merged)

    return grow(edges)


def with_something_certain(x):
    return dl.apply(x, dl.Distribution.certain(10), lambda a, b: a + b)


PROGRAMS = [
    (add_three, (range(10),) * 3, True),
    (times_mod_seven, (range(10),) * 2, True),
    (equal_to_itself, ("abcd",), True),
    (closure, (EDGES,), False),
    (with_something_certain, (range(5),), True),
]
each_program = pytest.mark.parametrize(
    ("program", "symbols", "exclusive"), PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS]
)
each_provenance = pytest.mark.parametrize("provenance", PROVENANCES, ids=repr)


def inputs(symbols, exclusive, device="cpu", batch=4):
    numbers = [torch.rand(batch, len(s), device=device) for s in symbols]
    return [(n.softmax(-1) if exclusive else n).requires_grad_() for n in numbers]


def directly(program, symbols, exclusive, provenance, probs):
    given = [
        dl.Distribution(p, s, exclusive=exclusive, provenance=provenance)
        for p, s in zip(probs, symbols, strict=True)
    ]
    return program(*given)


@each_program
@each_provenance
def test_traced_equals_direct(program, symbols, exclusive, provenance):
    traced = dl.trace(program, *symbols, exclusive=exclusive, provenance=provenance)
    for _ in range(2):
        probs = inputs(symbols, exclusive)
        result = directly(program, symbols, exclusive, provenance, probs)
        assert traced.symbols == result.symbols
        torch.testing.assert_close(traced.probs(*probs), dl.get_probs(result))
        wanted = torch.autograd.grad(dl.get_probs(result).square().sum(), probs)
        found = torch.autograd.grad(traced.probs(*probs).square().sum(), probs)
        torch.testing.assert_close(found, wanted)


def test_user_functions_do_not_run_again():
    calls = []

    def noted(x, y):
        calls.append((x, y))
        return x + y

    traced = dl.trace(lambda x, y: dl.apply(x, y, noted), range(3), range(3))
    assert len(calls) == 9
    traced(*inputs((range(3),) * 2, True))
    assert len(calls) == 9


@pytest.mark.parametrize(
    ("program", "symbols", "exclusive", "provenance"),
    [
        pytest.param(*program, PROVENANCES[of], id=f"{program[0].__name__}-{PROVENANCES[of]}")
        for place, program in enumerate(PROGRAMS)
        for of in (0, 2)  # DAMP takes half a second, proofs up to three
        if program[0] is closure or of == (0 if place < 2 else 2)
    ],
)
def test_compiled_equals_eager_and_compiles_once(program, symbols, exclusive, provenance, dynamo):
    """fullgraph=True: nothing falls back to Python. Fresh numbers don't compile again."""
    traced = dl.trace(program, *symbols, exclusive=exclusive, provenance=provenance)
    compiler = dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(traced, fullgraph=True, backend=compiler)
    for _ in range(3):
        probs = inputs(symbols, exclusive)
        expected, found = traced(*probs), compiled(*probs)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(
            torch.autograd.grad(found.exp().square().sum(), probs),
            torch.autograd.grad(expected.exp().square().sum(), probs),
        )
    assert compiler.frame_count == 1


@each_program
@each_provenance
def test_shared_programs_never_look_at_values(program, symbols, exclusive, provenance):
    """Meta tensors have no values: reading one (`.item()`, `.cpu()`, `if tensor`) would raise."""
    probs = inputs(symbols, exclusive, device="meta")
    result = directly(program, symbols, exclusive, provenance, probs)
    logits = dl.get_logits(result)
    assert logits.shape == (4, len(result.symbols))
    logits.sum().backward()
    assert all(p.grad is not None for p in probs)


class CountTransfers(TorchDispatchMode):
    """Counts what would wait for a device: values read, tensors copied to the host."""

    def __init__(self):
        super().__init__()
        self.reads = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.reads += name in ("_local_scalar_dense", "nonzero", "equal", "masked_select")
        return func(*args, **(kwargs or {}))


def test_per_row_programs_transfer_only_what_they_sample(monkeypatch):
    """Something goes to the host once for each call of `sample`: the likelihoods of few symbols,
    or which of many are kept."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dolphin.") and hasattr(module, "reading_is_free"):
            monkeypatch.setattr(module, "reading_is_free", lambda tensor: False)
    copies = []
    cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda t: (copies.append(t.shape), cpu(t))[1])
    for provenance in PROVENANCES:
        copies.clear()
        probs = torch.rand(5, 10).softmax(-1)
        d = dl.Distribution(probs, range(10), provenance=provenance)
        with CountTransfers() as counted:
            kept = dl.sample(d, 3)
            total = dl.sample(dl.apply(kept, kept, lambda x, y: x + 2 * y), 4)
            dl.get_probs(dl.apply(total, lambda x: x % 3), symbols=[0, 1, 2])
        assert copies == [(5, 10), (5, 9)]
        assert counted.reads == 0
        copies.clear()
        wide = dl.Distribution(torch.rand(5, 200).softmax(-1), range(200), provenance=provenance)
        dl.sample(wide, 3)
        assert copies == [(5, 3)]


def test_index_tensors_are_made_once_per_device(monkeypatch):
    made = []
    from dolphin.execution import indices as contraction

    original = contraction.to_device
    monkeypatch.setattr(
        contraction, "to_device", lambda a, d: (made.append(a.shape), original(a, d))[1]
    )
    for provenance in PROVENANCES:
        for step in range(3):
            if step == 2:
                made.clear()
            probs = inputs((EDGES,), False)
            dl.get_probs(directly(closure, (EDGES,), False, provenance, probs))
        assert made == []


@pytest.mark.parametrize(
    "program",
    [
        lambda d: dl.sample(d, 1),
        lambda d: dl.get_probs(d),
        lambda d: dl.apply(d, dl.Distribution([0.5, 0.5], [0, 1]), lambda x, y: x),
        lambda d: 3,
    ],
    ids=["sample", "get_probs", "another input", "not a distribution"],
)
def test_what_depends_on_numbers_is_refused(program):
    with pytest.raises(dl.DolphinError, match=r"trace|provenances"):
        dl.trace(program, range(3))


QUESTIONS = [
    dl.exists,
    lambda d: dl.forall(d, lambda s: s > 1),
    dl.count,
    dl.total,
    dl.maximum,
    lambda d: dl.minimum(d, by=lambda s: s % 2),
]


@pytest.mark.parametrize("ask", QUESTIONS)
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("name", ["damp", "exact", "noisy-or", "viterbi", "min-max", "dtkp-wmc"])
def test_a_traced_question_has_the_same_answer(name, exclusive, ask):
    probs = torch.tensor([[0.1, 0.2, 0.6], [0.5, 0.25, 0.25]])
    with dl.using(name):
        eager = ask(dl.Distribution(probs, range(3), exclusive=exclusive))
        module = dl.trace(ask, range(3), exclusive=exclusive)
    torch.testing.assert_close(module.probs(probs), eager.probs(list(module.symbols)))


def test_a_trace_under_exact_compiles_as_a_whole(dynamo):
    with dl.using("exact"):
        traced = dl.trace(lambda a, b: a + b, range(2), range(2))
    probs = torch.rand(3, 2).softmax(1), torch.rand(3, 2).softmax(1)
    compiled = torch.compile(traced, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*probs), traced(*probs))


def test_candidates_of_compiled_searches_are_stored(dynamo):
    """Otherwise a compiler writes one search into the next: more C++ than GCC can take."""
    traced = dl.trace(closure, EDGES[:3], exclusive=False, provenance=dl.TopKProofs(k=3))
    counter = dynamo.testing.EagerAndRecordGraphs()
    compiled = torch.compile(traced, fullgraph=True, dynamic=True, backend=counter)
    (probs,) = inputs((EDGES[:3],), False)
    torch.testing.assert_close(compiled(probs), traced(probs))
    (graph,) = counter.graphs
    called = [str(node.target) for node in graph.graph.nodes]
    maxima = called.count("max")  # up to three in each search
    assert 0 < maxima <= 3 * sum("dolphin.stored" in target for target in called)


def test_negated_proofs_compile_as_a_whole(dynamo):
    """Index lists, and arrays of which inputs are normalised, would need numpy's numbers.

    Codes of negated facts that are made on the way would make it compile again.
    """
    traced = dl.trace(
        lambda x, y: dl.exists(dl.apply_if(x, y, lambda a, b: a + b, lambda a, b: a < b)),
        range(3),
        range(3),
        provenance=dl.TopKProofs(k=2),
    )
    counter = dynamo.testing.CompileCounter()
    compiled = torch.compile(traced, fullgraph=True, dynamic=True, backend=counter)
    for rows in (5, 8, 13):
        numbers = [torch.rand(rows, 3).softmax(1) for _ in range(2)]
        torch.testing.assert_close(compiled(*numbers), traced(*numbers))
    assert counter.frame_count == 1


@pytest.mark.parametrize(
    ("program", "symbols", "message"),
    [
        (times_mod_seven, ([0, 1],), r"trace: the program times_mod_seven\(x, y\) can't be called"),
        (equal_to_itself, ([0, 1], [0, 1]), "with 2 distributions.*one list of symbols for each"),
        (equal_to_itself, (3,), "trace: symbols must be a list"),
        (equal_to_itself, ([0, 1, 0],), "trace: duplicate symbol 0 at columns 0 and 2"),
        (equal_to_itself, ([[0]],), "trace: unhashable symbol"),
    ],
)
def test_symbols_that_do_not_fit(program, symbols, message):
    with pytest.raises(dl.DolphinError, match=message):
        dl.trace(program, *symbols)
