"""Derivations: every line follows from those below it, and the leaves are facts of the proof."""

import pickle
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import dolphin as dl

PROVENANCES = ["dtkp-am", "dtkp-wmc", "exact", "viterbi"]
EDGES = [(1, 2), (2, 3), (3, 4), (1, 3)]


def compose(a, b):
    return (a[0], b[1])


def meet(a, b):
    return a[1] == b[0]


def edges(name):
    probs = torch.tensor([0.9, 0.8, 0.7, 0.3], requires_grad=True)
    return dl.Distribution(probs, EDGES, exclusive=False, provenance=name)


def number(probs, name, symbols=(1, 2, 3)):
    return dl.Distribution(torch.tensor(probs, requires_grad=True), symbols, provenance=name)


def paths(roads):
    return dl.fixpoint(
        lambda p: dl.union(roads, dl.apply_if(p, roads, compose, on=(_end, _start))), roads
    )


def _end(edge):
    return edge[1]


def _start(edge):
    return edge[0]


def leaves(node):
    if isinstance(node, dl.Fact):
        return {node}
    return set().union(*map(leaves, node.parts))


def parts(proofs) -> Any:
    """What the last operation of the first proof's derivation read."""
    return proofs.derivations[0].parts


def check(proofs, functions):
    """Each line is what its function makes of the lines below; the leaves are the proof's facts."""

    def walk(node):
        if isinstance(node, dl.Derivation) and node.operation in functions:
            assert functions[node.operation](*(part.symbol for part in node.parts)) == node.symbol
        for part in getattr(node, "parts", ()):
            walk(part)

    assert proofs
    for proof, tree in zip(proofs, proofs.derivations, strict=True):
        assert tree.symbol == proofs.symbol
        assert leaves(tree) <= set(proof.facts)
        walk(tree)


@pytest.mark.parametrize("name", PROVENANCES)
def test_recursion_goes_down_to_the_edges(name):
    found = dl.draw(paths, edges(name)).explain((1, 4))
    check(found, {"apply_if compose": compose})
    assert [line[3:] for line in str(found).splitlines()[1:6]] == [
        "0.504  by apply_if compose",
        "├─ (1, 3)  by apply_if compose",
        "│  ├─ (1, 2)  0.9  roads",
        "│  └─ (2, 3)  0.8  roads",
        "└─ (3, 4)  0.7  roads",
    ]
    assert all(leaves(t) == set(p.facts) for p, t in zip(found, found.derivations, strict=True))


@pytest.mark.parametrize("name", ["exact", "viterbi"])
def test_rounds_over_what_is_new_are_taken_apart_too(name):
    def grown(roads):
        return dl.fixpoint(
            lambda p: dl.union(p, dl.apply_if(p, roads, compose, meet)), roads, only_new=True
        )

    found = dl.draw(grown, edges(name)).explain((1, 4))
    check(found, {"apply_if compose": compose})
    assert str(found).count("by apply_if compose") == (3 if name == "exact" else 2)


@pytest.mark.parametrize("name", PROVENANCES[:3])
def test_programs_of_many_operations(name):
    a, b = number([0.2, 0.5, 0.3], name), number([0.1, 0.6, 0.3], name)

    def program(a, b):
        total = dl.apply(a, b, int.__add__)
        return dl.sample(dl.apply(dl.filter(total, lambda n: n > 2), a, int.__mul__), 5)

    drawing = dl.draw(program, a, b)
    functions = {"apply int.__add__": int.__add__, "apply int.__mul__": int.__mul__}
    for symbol in program(a, b).symbols:
        if program(a, b).explain(symbol):
            check(drawing.explain(symbol), functions)
    # The same proofs as without a drawing, with the names of inputs.
    plain, named = program(a, b).explain(8), drawing.explain(8)
    assert [[f._replace(source="") for f in p.facts] for p in named] == [
        list(p.facts) for p in plain
    ]
    assert {f.source for p in named for f in p.facts} == {"a", "b"}


def test_facts_of_equal_symbols_and_numbers_are_told_apart():
    digits = [number([0.25, 0.75], "exact", (0, 1)) for _ in range(3)]
    (proof,) = found = dl.draw(lambda digits: dl.reduce(int.__add__, digits), digits).explain(0)
    assert [f.source for f in proof.facts] == ["digits[0]", "digits[1]", "digits[2]"]
    assert [part.source for part in parts(found)] == [f.source for f in proof.facts]


def test_what_is_not_taken_apart_stands_above_its_facts():
    roads = edges("exact")
    (proof, *_) = found = dl.draw(lambda roads: dl.count(roads).map(str), roads).explain("2")
    inner = parts(found)[0]
    assert (inner.symbol, inner.operation) == (2, "count")
    assert set(inner.parts) == set(proof.facts)
    assert "not (3, 4)  0.3  roads" in str(found)
    masked = dl.Distribution([[0.5, 0.5], [0.5, 0.5]], [1, 2], provenance="exact")
    only_first = torch.tensor([True, False])
    drawing = dl.draw(lambda x: dl.apply(x, lambda n: 3 - n, where=only_first), masked)
    assert drawing.explain(1, row=0)[0].facts[0].symbol == 2
    assert parts(drawing.explain(1, row=1))[0].symbol == 1


def test_results_of_before_certain_symbols_and_chance():
    a = number([0.2, 0.5, 0.3], "exact")
    before = dl.apply(a, number([0.1, 0.6, 0.3], "exact"), int.__add__)
    seven = dl.Distribution.certain(7)
    found = dl.draw(lambda x, y: dl.apply(x, y, int.__mul__), before, seven).explain(14)
    assert str(found).splitlines()[2:] == [
        "   ├─ 2  input x",
        "   │  ├─ 1  0.2",
        "   │  └─ 1  0.1",
        "   └─ 7  certain",
    ]
    coin = dl.draw(lambda a: a.map(lambda x: dl.weighted({x: 0.3, "no": 0.7})), a).explain("no")
    assert [fact.probability for fact in parts(coin)] == [0.5, 0.7]


def test_rows_and_large_trees():
    rows = dl.Distribution([[1.0, 0.0], [0.25, 0.75]], [1, 2], provenance="exact")
    drawing = dl.draw(lambda x: dl.apply(x, x, int.__add__), rows)
    assert drawing.explain(4, row=-1)[0].facts == (dl.Fact(2, 0.75, True, "x"),)

    def doubled(x):
        for _ in range(40):
            x = dl.apply(x, x, max)
        return x

    found = dl.draw(doubled, rows).explain(2, row=1)
    assert str(found).splitlines()[1:] == ["└─ 0.75  by apply max", "   └─ 2  0.75  x"]


def test_html_has_the_same_lines():
    found = dl.draw(paths, edges("exact")).explain((1, 4))
    html = found.to_html(lambda fact: f"{fact.source}/{fact.symbol[0]}.png")
    tree = ElementTree.fromstring(html.replace('alt="">', 'alt=""/>'))
    text = " ".join(" ".join(tree.itertext()).split())
    assert "(1, 3) by apply_if compose (1, 2) 0.9 roads (2, 3) 0.8 roads (3, 4) 0.7" in text
    assert html.count("<img") == 5
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_what_cannot_be_explained_is_refused():
    x = number([0.2, 0.5, 0.3], "exact")
    with pytest.raises(dl.InputError, match="didn't return a distribution"):
        dl.draw(lambda x: (x + x).probs(), x).explain(2)
    with pytest.raises(dl.InputError, match="7 is not among the symbols of row 0"):
        dl.draw(lambda x: x + x, x).explain(7)
    with pytest.raises(dl.UnsupportedError, match="keeps numbers, not proofs"):
        dl.draw(lambda x: x + x, number([0.2, 0.5, 0.3], "damp")).explain(2)
