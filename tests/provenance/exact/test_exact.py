"""Exact inference: known answers, two compilers, both libraries nearby, and limits."""

from __future__ import annotations

import itertools
import operator
import random
import time

import networkx as nx
import numpy as np
import pytest
import torch

import dolphin as dl
from dolphin.errors import InputError, SizeError
from dolphin.provenance import Exact
from dolphin.provenance.exact import compiling, diagrams, formulas, sentential
from exact_cases import COMPILERS, grid, random_graph, reachable, reliability, step

# ---------------------------------------------------------------------------------- known answers


@pytest.mark.parametrize("compiler", COMPILERS)
def test_reliability_of_a_grid(compiler):
    edges = grid(4)
    assert len(edges) == 24
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(3, 24, generator=generator, dtype=torch.float64)
    d = dl.Distribution(probs, edges, exclusive=False, provenance=Exact(compiler=compiler))
    found = reachable(d, (0, 0), (3, 3))
    expected = [reliability(edges, row, (0, 0), (3, 3)) for row in probs.tolist()]
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9
    )
    single = dl.Distribution(
        probs.float(), edges, exclusive=False, provenance=Exact(compiler=compiler)
    )
    found = reachable(single, (0, 0), (3, 3)).double()
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-6
    )


def test_the_order_of_edges_does_not_matter():
    """A ladder whose edges are given in disorder is compiled from one end to the other."""
    edges = sorted(tuple(sorted(edge)) for edge in nx.grid_2d_graph(14, 2).edges)
    probs = dict(zip(edges, np.random.default_rng(0).uniform(size=len(edges)), strict=True))
    expected = reliability(edges, list(probs.values()), (0, 0), (13, 1))
    for seed in range(2):
        random.Random(seed).shuffle(edges)
        mixed = torch.tensor([probs[edge] for edge in edges], dtype=torch.float64)
        d = dl.Distribution(mixed, edges, exclusive=False, provenance=Exact(compiler="diagrams"))
        assert reachable(d, (0, 0), (13, 1)).item() == pytest.approx(expected, abs=1e-9)


def test_what_is_no_longer_needed_takes_no_room():
    """The diagrams of paths of up to 14 edges are made one after the other, and few at a time."""
    graph = nx.grid_2d_graph(3, 3)
    graph.add_edges_from(((r, c), (r + 1, 1 - c)) for r in (0, 1) for c in (0, 1))
    edges = [tuple(sorted(edge)) for edge in graph.edges]
    d = dl.Distribution(
        torch.full((len(edges),), 0.5, dtype=torch.float64),
        edges,
        exclusive=False,
        provenance=Exact(max_nodes=3000, compiler="diagrams"),
    )
    both = dl.union(d, dl.apply(d, lambda e: (e[1], e[0])))
    ends = (lambda v: v, lambda e: e[0])
    found = dl.apply(dl.filter(both, lambda e: e[0] == (0, 0)), lambda e: e[1])
    for _ in range(14):
        found = dl.union(found, dl.apply_if(found, both, lambda v, e: e[1], on=ends))
    expected = reliability(edges, [0.5] * len(edges), (0, 0), (2, 2))
    assert found.prob_of([(2, 2)]).item() == pytest.approx(expected, abs=1e-9)


def test_forgetting_changes_nothing(monkeypatch):
    """Diagrams are tidied up before every formula, with several results and with negation."""

    class Forgetful(diagrams.Budget):
        def __init__(self, nodes, seconds):
            super().__init__(2, seconds)

        def check(self, nodes):
            pass

    def results(seed):
        edges = random_graph(seed)
        d = dl.Distribution(
            torch.linspace(0.1, 0.9, 12, dtype=torch.float64),
            edges,
            exclusive=False,
            provenance=Exact(compiler="diagrams"),
        )
        both = dl.union(d, dl.apply(d, lambda e: (e[1], e[0])))
        ends = (lambda v: v, lambda e: e[0])
        found = dl.apply(dl.filter(both, lambda e: e[0] == edges[0][0]), lambda e: e[1])
        for _ in range(5):
            found = dl.union(found, dl.apply_if(found, both, lambda v, e: e[1], on=ends))
        return dl.get_probs(dl.union(found, dl.apply(dl.negate(found), lambda v: ("not", v))))

    usual = [results(seed) for seed in range(4)]
    dl.cache_clear()
    forgotten = []
    forget = diagrams.Diagrams._forget
    monkeypatch.setattr(compiling, "Budget", Forgetful)
    monkeypatch.setattr(
        diagrams.Diagrams,
        "_forget",
        lambda self, needed: (forgotten.append(needed), forget(self, needed))[1],
    )
    for seed, expected in enumerate(usual):
        torch.testing.assert_close(results(seed), expected, rtol=0, atol=1e-12)
    assert len(forgotten) > 20


def test_an_order_of_thousands_of_groups_is_found_quickly():
    """Whether some two neighbours of a long row both hold."""
    count = 1000
    d = dl.Distribution(
        torch.full((count,), 0.1), range(count), exclusive=False, provenance=Exact()
    )
    pairs = dl.apply_if(
        d, d, lambda a, b: True, lambda a, b: a + 1 == b, on=(lambda a: a + 1, lambda b: b)
    )
    nothing = [1.0, 0.0]  # the chance of no pair so far, with the last one false or true
    for _ in range(count):
        nothing = [0.9 * sum(nothing), 0.1 * nothing[0]]
    started = time.process_time()
    assert pairs.prob_of([True]).item() == pytest.approx(1 - sum(nothing), abs=1e-4)
    assert time.process_time() - started < 60  # a second or two


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_by_enumeration(seed):
    """All 4096 worlds of twelve edges, values and gradients."""
    edges = random_graph(seed)
    graph = nx.Graph(edges)
    source, target = sorted(graph)[0], sorted(graph)[-1]
    probs = torch.rand(2, 12, dtype=torch.float64).requires_grad_()
    d = dl.Distribution(probs, edges, exclusive=False, provenance=Exact())
    found = reachable(d, source, target)
    worlds = np.array(list(itertools.product([False, True], repeat=12)))
    connected = []
    for world in worlds:
        kept = nx.Graph([e for e, here in zip(edges, world, strict=True) if here])
        kept.add_nodes_from([source, target])
        connected.append(nx.has_path(kept, source, target))
    held = torch.from_numpy(worlds[np.array(connected)])
    expected = torch.where(held[:, None], probs, 1 - probs).prod(2).sum(0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    grads = [torch.autograd.grad(value.sum(), probs)[0] for value in (found, expected)]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-9)


def test_monty_hall():
    """You chose door 1, the host opened door 3: behind door 2 the car is with probability 2/3."""
    with dl.using(Exact()):
        car = dl.Distribution([1 / 3, 1 / 3, 1 / 3], [1, 2, 3])
        coin = dl.Distribution([0.5, 0.5], [2, 3])
    opened = dl.apply(car, coin, lambda c, k: {1: k, 2: 3, 3: 2}[c])
    story = dl.apply(car, opened, lambda c, o: (c, o))
    seen = dl.filter(story, lambda s: s[1] == 3)
    by_car = dl.get_probs(dl.apply(seen, lambda s: s[0]), symbols=[1, 2, 3])
    torch.testing.assert_close(
        by_car / by_car.sum(), torch.tensor([[1 / 3, 2 / 3, 0]]), atol=1e-6, rtol=0
    )
    assert by_car.sum().item() == pytest.approx(0.5, abs=1e-6)


def test_sums_of_many_digits():
    """Exclusive inputs in a chain stay linear: ten digits, all 91 sums, against DAMP."""
    probs = torch.rand(4, 10, 10, dtype=torch.float64).softmax(-1)
    found = {}
    for provenance in (Exact(), dl.DAMP()):
        digits = [dl.Distribution(probs[:, i], range(10), provenance=provenance) for i in range(10)]
        total = digits[0]
        for digit in digits[1:]:
            total = dl.apply(total, digit, operator.add)
        found[provenance.name] = dl.get_probs(total)
    torch.testing.assert_close(found["exact"], found["damp"], rtol=1e-9, atol=1e-12)


def test_long_parity_and_deep_diagrams():
    """A chain of 300 coins: deeper than Python's recursion would like by default."""
    p = torch.full((1, 300), 0.25, dtype=torch.float64, requires_grad=True)
    coins = [
        dl.Distribution(torch.stack([1 - p[:, i], p[:, i]], 1), [0, 1], provenance=Exact())
        for i in range(300)
    ]
    parity = coins[0]
    for coin in coins[1:]:
        parity = dl.apply(parity, coin, operator.xor)
    odd = parity.prob_of([1])
    assert odd.item() == pytest.approx(0.5 - 0.5 * 0.5**300)
    odd.backward()
    assert torch.isfinite(p.grad).all()


@pytest.mark.parametrize("compiler", COMPILERS)
def test_groups_and_negation_in_both_compilers(compiler):
    """Exclusive groups, a negation over them and shared facts, against all combinations."""
    p = torch.tensor([[0.2, 0.5, 0.4, 0.3, 0.9]], dtype=torch.float64)
    d = dl.Distribution(
        p, list("abcde"), exclusive=[[0, 1], [2, 3]], provenance=Exact(compiler=compiler)
    )
    pairs = dl.apply(d, dl.negate(d), lambda x, y: (x, y))
    groups = [("a", "b", None), ("c", "d", None), ("e", None)]
    weight = dict(zip("abcde", p[0].tolist(), strict=True))
    expected = dict.fromkeys(itertools.product("abcde", repeat=2), 0.0)
    for world in itertools.product(*groups):
        total = 1.0
        for choice, group in zip(world, groups, strict=True):
            total *= weight[choice] if choice else 1 - sum(weight[c] for c in group if c)
        for x, y in expected:
            if x in world and y not in world:
                expected[x, y] += total
    found = dict(pairs.row(0))
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_none_of_several_exclusive_columns(compiler):
    """¬(a ∨ b) = 1 - a - b, and with a coin that says the same of c: gradients as well."""
    p = torch.tensor([[0.2, 0.5, 0.1]], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([[0.4]], dtype=torch.float64, requires_grad=True)
    with dl.using(Exact(compiler=compiler)):
        letter, coin = dl.Distribution(p, list("abc")), dl.Distribution(q, ["coin"])
    either = dl.apply(dl.filter(letter, lambda s: s != "c"), lambda s: "x")
    found = dl.get_probs(dl.negate(dl.union(either, dl.apply(coin, lambda s: "x"))))
    assert found.item() == pytest.approx(0.3 * 0.6)
    found.sum().backward()
    torch.testing.assert_close(p.grad, torch.tensor([[-0.6, -0.6, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(q.grad, torch.tensor([[-0.3]], dtype=torch.float64))


def test_nearly_certain_facts_from_logits():
    """1 - σ(20) is 2e-9, which float32 can't tell from 0 once it is a probability."""
    d = dl.Distribution.from_logits(
        torch.tensor([[20.0]]), ["x"], exclusive=False, provenance=Exact()
    )
    assert dl.get_logits(dl.negate(d)).item() == pytest.approx(-20.0, rel=1e-3)


# -------------------------------------------------------------------------- the libraries nearby


def paths(edges: list, source, target) -> list[list[int]]:
    graph = nx.Graph(edges)
    number = {frozenset(edge): i for i, edge in enumerate(edges)}
    return [
        [number[frozenset(pair)] for pair in itertools.pairwise(path)]
        for path in nx.all_simple_paths(graph, source, target)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_against_pysdd_and_klay(seed):
    sdd = pytest.importorskip("pysdd.sdd", reason="PySDD is not installed")
    klay = pytest.importorskip("klay", reason="klaycircuits is not installed")
    edges = random_graph(seed + 10)
    source, target = edges[0][0], edges[-1][1]
    manager = sdd.SddManager(var_count=12)
    root = manager.false()
    for path in paths(edges, source, target):
        term = manager.true()
        for edge in path:
            term = term & manager.literal(edge + 1)
        root = root | term
    probs = torch.rand(12, dtype=torch.float64)
    d = dl.Distribution(probs, edges, exclusive=False, provenance=Exact())
    found = reachable(d, source, target).item()
    count = root.wmc(log_mode=False)
    for edge, p in enumerate(probs.tolist()):
        count.set_literal_weight(manager.literal(edge + 1), p)
        count.set_literal_weight(manager.literal(-edge - 1), 1.0 - p)
    assert found == pytest.approx(count.propagate(), abs=1e-9)
    circuit = klay.Circuit()
    circuit.add_sdd(root)
    module = circuit.to_torch_module(semiring="log", compile=False)
    logs = module(probs.float().log(), torch.log1p(-probs.float()))
    assert found == pytest.approx(logs.exp().item(), abs=1e-5)


PROBLOG = """
0.3::burglary. 0.2::earthquake.
0.6::color(red); 0.3::color(green).
0.7::hears(mary). 0.4::hears(john).
alarm :- burglary. alarm :- earthquake, color(red).
calls(X) :- alarm, hears(X).
quiet :- \\+ calls(mary), \\+ calls(john), \\+ color(green).
query(calls(mary)). query(quiet).
"""


def test_against_problog():
    """Shared facts, an annotated disjunction and negation."""
    problog = pytest.importorskip("problog", reason="ProbLog is not installed")
    source = pytest.importorskip("problog.program").PrologString(PROBLOG)
    answers = problog.get_evaluatable().create_from(source).evaluate()
    expected = {str(query): float(p) for query, p in answers.items()}
    with dl.using(Exact()):
        facts = dl.Distribution([0.3, 0.2], ["burglary", "earthquake"], exclusive=False)
        color = dl.Distribution([0.6, 0.3], ["red", "green"])
        hears = dl.Distribution([0.7, 0.4], ["mary", "john"], exclusive=False)
    alarm = dl.union(
        dl.apply(dl.filter(facts, lambda f: f == "burglary"), lambda f: "alarm"),
        dl.apply_if(
            facts, color, lambda f, c: "alarm", lambda f, c: (f, c) == ("earthquake", "red")
        ),
    )
    calls = dl.apply(alarm, hears, lambda a, x: x)
    green = dl.filter(color, lambda c: c == "green")
    loud = dl.union(dl.apply(calls, lambda x: "loud"), dl.apply(green, lambda c: "loud"))
    assert calls.prob_of(["mary"]).item() == pytest.approx(expected["calls(mary)"], abs=1e-6)
    assert dl.get_probs(dl.negate(loud)).item() == pytest.approx(expected["quiet"], abs=1e-6)


# ---------------------------------------------------------------------------------------- limits


def satisfiable(variables: int, clauses: int, provenance) -> dl.Distribution:
    """A random 3-CNF: formulas that no order of variables makes small."""
    generator = random.Random(0)
    p = torch.full((1, variables), 0.5, dtype=torch.float64)
    d = dl.Distribution(p, range(variables), exclusive=False, provenance=provenance)
    literals = {True: d, False: dl.negate(d)}
    formula = None
    for _ in range(clauses):
        parts = []
        for variable in generator.sample(range(variables), 3):
            source = literals[generator.random() < 0.5]
            kept = dl.filter(source, lambda v, wanted=variable: v == wanted)
            parts.append(dl.apply(kept, lambda v: "holds"))
        clause = dl.union(*parts)
        formula = clause if formula is None else dl.apply(formula, clause, lambda a, b: a)
    assert formula is not None
    return formula


def test_random_formula_by_enumeration():
    found = dl.get_probs(satisfiable(12, 30, Exact())).item()
    generator = random.Random(0)
    clauses = []
    for _ in range(30):
        chosen = generator.sample(range(12), 3)
        signs = []
        for _ in chosen:
            signs.append(generator.random() < 0.5)
        clauses.append(list(zip(chosen, signs, strict=True)))
    models = sum(
        all(any(world[v] == sign for v, sign in clause) for clause in clauses)
        for world in itertools.product([False, True], repeat=12)
    )
    assert found == pytest.approx(models / 2**12, abs=1e-9)


@pytest.mark.parametrize("compiler", ["auto", *COMPILERS])
def test_too_large_is_a_clear_error(compiler):
    provenance = Exact(max_nodes=2000, seconds=10, compiler=compiler)
    start = time.process_time()
    with pytest.raises(SizeError, match=r"have 5\d\d parts.*passed .* nodes.*TopKProofs") as caught:
        dl.get_probs(satisfiable(100, 300, provenance))
    assert time.process_time() - start < 30
    assert isinstance(caught.value, dl.DolphinError)


def test_too_slow_is_a_clear_error():
    provenance = Exact(max_nodes=10**9, seconds=0.1, compiler="diagrams")
    start = time.process_time()
    with pytest.raises(SizeError, match=r"took more than 0\.1 s"):
        dl.get_probs(satisfiable(100, 300, provenance))
    assert time.process_time() - start < 10


def test_too_many_formulas_is_a_clear_error(monkeypatch):
    monkeypatch.setattr(formulas.tables, "_table", formulas.FormulaTable(limit=1000))
    d = dl.Distribution(torch.full((1, 100), 0.01), range(100), provenance=Exact())
    with pytest.raises(SizeError, match="more than 1,000 different parts"):
        dl.apply(d, d, lambda x, y: (x, y))


def test_without_pysdd(monkeypatch):
    monkeypatch.setattr(sentential, "available", lambda: False)
    with pytest.raises(InputError, match=r"dolphin-nesy\[exact\]"):
        Exact(compiler="sdd")
    compiling.clear()
    assert torch.isfinite(step(torch.rand(1, 12))).all()


@pytest.mark.parametrize(
    "options", [{"compiler": "magic"}, {"max_nodes": 0}, {"seconds": 0}], ids=str
)
def test_wrong_parameters(options):
    with pytest.raises(InputError, match="Exact"):
        Exact(**options)
