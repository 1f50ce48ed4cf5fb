"""One suite over all provenances and both layouts: laws, programs, exactness, bounds, gradients.

Every provenance declares its laws. The algebras of numbers are compared with the same algebra
written once more in plain Python (`NUMBERS`), run by the interpreter of `oracles.py`; the algebras
of proofs and formulas with the enumeration of possible worlds.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given

import dolphin as dl
import oracles
from algebras import (
    COMMON,
    EXACT,
    FAMILIES,
    JUMPS,
    LAYOUTS,
    NAMES,
    NUMBERS,
    WITHOUT_GRADIENT,
    Algebra,
    inputs_of,
    outcome,
    provenance_of,
)
from compare import batches, even_rows, tensors
from dolphin.execution.tagged import tagged_of
from dolphin.provenance import (
    Exact,
    TensorProvenance,
    TopKProofs,
    get_provenance,
)
from programs import BY_NAME, PROGRAMS, Program


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("program", [BY_NAME[n] for n in COMMON], ids=lambda p: p.name)
def test_numbers_are_what_the_formulas_say(program, name, layout):
    rows = even_rows(program, 3)
    found = outcome(program, tensors(rows), provenance_of(name), layout)
    for row, probs in zip(rows, found, strict=True):
        expected = oracles.run(program, NUMBERS[name].on(row))
        values = torch.tensor([tag for _, tag in expected.items()], dtype=torch.float64)
        torch.testing.assert_close(probs.detach().double(), values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", sorted(set(NUMBERS) - JUMPS))
@given(batches(BY_NAME["three_symbol_formula"], size=2))
def test_numbers_at_zeros_ones_and_ties(name, rows):
    program = BY_NAME["three_symbol_formula"]
    for layout in LAYOUTS:
        found = outcome(program, tensors(rows), provenance_of(name), layout)
        for row, probs in zip(rows, found, strict=True):
            expected = oracles.run(program, NUMBERS[name].on(row))
            values = torch.tensor([tag for _, tag in expected.items()], dtype=torch.float64)
            torch.testing.assert_close(probs.detach().double(), values, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("program", [BY_NAME[n] for n in COMMON], ids=lambda p: p.name)
def test_the_same_programs_run_under_every_provenance(program, name):
    """Both layouts agree; values are probabilities (or counts); certain inputs give the answer."""
    probs = tensors(even_rows(program, 3))
    shared = outcome(program, probs, provenance_of(name), "shared")
    rows = outcome(program, probs, provenance_of(name), "rows")
    torch.testing.assert_close(shared, rows, rtol=1e-9, atol=1e-9)
    assert torch.isfinite(shared).all()
    assert (shared >= 0).all()
    if name != "counting":
        assert (shared <= 1 + 1e-9).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"stable-product", "counting"}))
@pytest.mark.parametrize("program", [BY_NAME[n] for n in COMMON], ids=lambda p: p.name)
def test_certain_inputs_give_certain_answers(program, name, layout):
    """With facts that are 0 or 1 every logic is ordinary logic."""
    certain = []
    for place, shape in enumerate(program.shapes):
        p = torch.zeros(1, len(shape.symbols), dtype=torch.float64)
        p[0, (place + 1) % p.shape[1]] = 1.0
        if shape.exclusive is False:
            p[0, ::2] = 1.0
        certain.append(p)
    found = outcome(program, certain, provenance_of(name), layout)
    expected = outcome(program, certain, Exact(), layout)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    assert set(found.flatten().tolist()) <= {0.0, 1.0}


# -------------------------------------------------------------------------- exactness and bounds


def fits(program: Program, rows, provenance) -> bool:
    """Is there room for every proof?"""
    most = max(oracles.most_proofs(program, row) for row in rows)
    return not isinstance(provenance, TopKProofs) or most <= provenance.k


MANY_PROOFS = {"five_operands", "at_least_two_of_five", "largest"}
"""Programs with more than 9 proofs, of which top-k proofs give a lower bound (see below)."""
EXACTLY = [
    pytest.param(program, provenance, id=f"{program.name}-{provenance!r}")
    for program in PROGRAMS
    for provenance in EXACT
    if program.name not in MANY_PROOFS or not isinstance(provenance, TopKProofs)
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("program", "provenance"), EXACTLY)
def test_exact_is_exact(program, provenance, layout):
    rows = even_rows(program)
    assert fits(program, rows, provenance)
    probs = tensors(rows)
    answers = [oracles.exact(program, row) for row in rows]
    symbols = list(answers[0])
    found = outcome(program, probs, provenance, layout, symbols)
    expected = torch.tensor([[float(a.value) for a in row.values()] for row in answers])
    if symbols:
        torch.testing.assert_close(found, expected.to(found.dtype), rtol=1e-6, atol=1e-6)
        assert_gradients(found, probs, answers)


def assert_gradients(found, probs, answers):
    for b, row in enumerate(answers):
        for column, answer in enumerate(row.values()):
            grads = torch.autograd.grad(
                found[b, column], probs, retain_graph=True, allow_unused=True
            )
            flat = [
                torch.zeros_like(p[b]) if g is None else g[b]
                for g, p in zip(grads, probs, strict=True)
            ]
            expected = torch.tensor([float(g) for g in answer.gradient], dtype=torch.float64)
            torch.testing.assert_close(torch.cat(flat), expected, rtol=1e-6, atol=1e-6)


SHARING = [
    "equals_itself", "redundant_derivation", "alarm", "closure_of_cycle", "shape_and_colour",
    "neither", "union_of_three",
]  # fmt: skip


@pytest.mark.parametrize("provenance", [Exact(), TopKProofs(k=8, wmc="exact")], ids=repr)
@pytest.mark.parametrize("program", [BY_NAME[n] for n in SHARING], ids=lambda p: p.name)
def test_exact_at_zeros_ones_and_ties(program, provenance):
    @given(batches(program, size=2))
    def check(rows):
        if not fits(program, rows, provenance):
            return
        answers = [oracles.exact(program, row) for row in rows]
        expected = torch.tensor([[float(a.value) for a in row.values()] for row in answers])
        for layout in LAYOUTS:
            probs = tensors(rows)
            found = outcome(program, probs, provenance, layout, list(answers[0]))
            torch.testing.assert_close(found, expected.to(found.dtype), rtol=1e-9, atol=1e-9)
            grads = torch.autograd.grad(found.sum(), probs, allow_unused=True)
            assert all(g is None or torch.isfinite(g).all() for g in grads)

    check()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_bounds_of_top_k(program):
    """For some k: add-mult over k proofs ≥ their exact count ≤ the exact probability.

    The second holds without negation: what is dropped under a negation makes it larger.
    """
    probs = tensors(even_rows(program))
    symbols = list(program(dl, *inputs_of(program, probs, dl.DAMP(), "shared")).symbols)
    if not symbols:
        return
    exact = outcome(program, probs, Exact(), "shared", symbols)
    for k in (1, 2, 3, 5, 8):
        added = outcome(program, probs, TopKProofs(k), "shared", symbols)
        counted = outcome(program, probs, TopKProofs(k, wmc="exact"), "shared", symbols)
        assert (added >= counted - 1e-12).all()
        assert program.negates or (counted <= exact + 1e-12).all()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_viterbi_is_a_lower_bound(program):
    if program.negates:
        return
    probs = tensors(even_rows(program))
    symbols = list(program(dl, *inputs_of(program, probs, dl.DAMP(), "shared")).symbols)
    if not symbols or program.name in ("thrice_the_same", "equals_itself", "minus_what_was_added"):
        return  # contradictions are no proofs, but a number doesn't know that
    if program.name == "shape_and_colour":
        return
    best = outcome(program, probs, get_provenance("viterbi"), "shared", symbols)
    exact = outcome(program, probs, Exact(), "shared", symbols)
    assert (best <= exact + 1e-9).all()


def test_lukasiewicz_bounds_every_dependence():
    """max(0, a + b - 1) ≤ P(a ∧ b) and P(a ∨ b) ≤ min(1, a + b), however a and b are related."""
    edges = torch.tensor([[0.6, 0.7, 0.5]], dtype=torch.float64)

    def of(provenance):
        d = dl.Distribution(edges, list("xyz"), exclusive=False, provenance=provenance)
        a = dl.apply(dl.filter(d, lambda s: s in "xy"), lambda s: "a")
        b = dl.apply(dl.filter(d, lambda s: s in "yz"), lambda s: "a")
        return a, b

    a, b = of(Exact())
    alone = [dl.get_probs(d).item() for d in (a, b)]
    both = dl.get_probs(dl.apply(a, b, lambda s, t: "a")).item()
    either = dl.get_probs(dl.union(a, b)).item()
    assert max(0.0, sum(alone) - 1) <= both <= min(alone)
    assert max(alone) <= either <= min(1.0, sum(alone))


# -------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("provenance", FAMILIES, ids=repr)
@pytest.mark.parametrize("name", ["sum_of_two", "closure_of_chain", "alarm"])
def test_gradients_match_differences(name, provenance, layout):
    if provenance.name in WITHOUT_GRADIENT:
        return
    program = BY_NAME[name]
    probs = tensors(even_rows(program, 1))

    def weighted(*probs):
        found = outcome(program, probs, provenance, layout)
        return (found * torch.linspace(0.3, 1.0, found.shape[1], dtype=found.dtype)).sum()

    grads = torch.autograd.grad(weighted(*probs), probs, allow_unused=True)
    step = 1e-6
    for place, (grad, p) in enumerate(zip(grads, probs, strict=True)):
        grad = torch.zeros_like(p) if grad is None else grad
        for column in range(p.shape[1]):
            sides = []
            for sign in (1.0, -1.0):
                moved = [q.detach().clone() for q in probs]
                moved[place][0, column] += sign * step
                sides.append(weighted(*moved).item())
            slope = (sides[0] - sides[1]) / (2 * step)
            assert grad[0, column].item() == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("provenance", FAMILIES, ids=repr)
def test_everything_is_finite_at_corners_and_ties(provenance, layout):
    """All combinations of 0, 1/2 and 1 as probabilities of three facts, values and gradients."""
    levels = torch.tensor([0.0, 0.5, 1.0])
    corners = torch.cartesian_prod(levels, levels, levels).requires_grad_()
    algebra = Algebra(provenance, layout)
    facts = []
    for column in range(3):
        p = corners[:, column]
        rows = [(["x"], value.view(1)) for value in p]
        facts.append(
            dl.Distribution.from_rows(rows, provenance=provenance)
            if layout == "rows"
            else dl.Distribution(p.view(-1, 1), ["x"], provenance=provenance)
        )
    a, b, c = facts
    made = algebra.plus(algebra.times(a, b), algebra.times(b, c), algebra.times(a, c), a)
    results = [made, algebra.times(made, b)]
    if provenance.name != "counting":
        results.append(algebra.neg(made))
    for result in results:
        for read in (dl.get_probs, dl.get_logits):
            values = read(result)
            assert torch.isfinite(values).all()
            if provenance.name in WITHOUT_GRADIENT:
                assert not values.requires_grad
                continue
            (grad,) = torch.autograd.grad(values.sum(), corners, retain_graph=True)
            assert torch.isfinite(grad).all()


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_GRADIENT))
def test_ties_share_or_sum_but_never_lose_the_gradient(name):
    """At a tie of two alternatives the gradients of both are alike, and one of them is not 0."""
    p = torch.tensor([0.4, 0.4], dtype=torch.float64, requires_grad=True)
    d = [dl.Distribution(p[i : i + 1], ["x"], provenance=provenance_of(name)) for i in (0, 1)]
    dl.get_probs(dl.union(*d)).sum().backward()
    assert p.grad is not None
    assert p.grad[0].item() == pytest.approx(p.grad[1].item())
    assert p.grad.sum().item() >= 0.5


# ------------------------------------------------------------------------------------ precision


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_bfloat16(name, layout):
    program = BY_NAME["three_symbol_formula"]
    exact = [p.detach() for p in tensors(even_rows(program, 2))]
    rough = [p.bfloat16().requires_grad_() for p in exact]
    found = outcome(program, rough, provenance_of(name), layout)
    expected = outcome(program, exact, provenance_of(name), layout)
    torch.testing.assert_close(found.double(), expected.double(), rtol=0.05, atol=0.02)
    if name not in WITHOUT_GRADIENT:
        grads = torch.autograd.grad(found.sum(), rough)
        assert all(g.dtype == torch.bfloat16 and torch.isfinite(g).all() for g in grads)


@pytest.mark.parametrize("name", ["damp", "noisy-or", "viterbi", "exact", "dtkp-am", "dtkp-wmc"])
def test_long_products_keep_their_logarithm(name):
    """A product of sixty facts of a millionth each: 1e-360 is no number, its logarithm is."""
    facts = [
        dl.Distribution(torch.full((1, 1), 1e-6), ["x"], provenance=provenance_of(name))
        for _ in range(60)
    ]
    product = facts[0]
    for fact in facts[1:]:
        product = dl.apply(product, fact, lambda a, b: "x")
    raw = product.provenance.log_probs(tagged_of(product).tags).item()
    assert raw == pytest.approx(60 * math.log(1e-6), rel=1e-5)


# -------------------------------------------------------------------------------------- negation


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"counting"}))
def test_negation_of_facts(name, layout):
    algebra = Algebra(provenance_of(name), layout)
    p = torch.tensor([0.0, 0.25, 0.5, 1.0], dtype=torch.float64)
    found = algebra.value(algebra.neg(algebra.fact(p)))
    expected = (p == 0).double() if name == "boolean" else 1 - p
    torch.testing.assert_close(found, expected)


def test_no_negation_is_a_clear_error():
    d = dl.Distribution([0.5], ["x"], provenance=get_provenance("counting"))
    with pytest.raises(dl.DolphinError, match=r"Counting\(\) has no negation") as caught:
        dl.negate(d)
    listed = str(caught.value).split("negation: ")[1].rstrip(".").split(", ")
    assert listed == [name for name in NAMES if name != "counting"]


# ----------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    provenance = get_provenance(name)
    assert provenance.name == name
    assert provenance == get_provenance(name)
    assert hash(provenance) == hash(get_provenance(name))
    assert eval(repr(provenance), vars(dl.provenance)) == provenance


def test_the_names_of_the_design_are_there():
    wanted = "damp dtkp-am dtkp-wmc exact min-max noisy-or lukasiewicz viterbi boolean counting"
    assert set(wanted.split()) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_mixed_with_another_provenance_is_refused(name):
    other = "damp" if name != "damp" else "exact"
    a = dl.Distribution([0.5], ["x"], provenance=get_provenance(name))
    b = dl.Distribution([0.5], ["x"], provenance=get_provenance(other))
    with pytest.raises(dl.DolphinError, match="different provenances"):
        dl.union(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_one_row_for_all_beside_rows_of_their_own(name):
    """An operand with one row, in any place of `apply` and `union`, is the same in every row."""
    provenance = provenance_of(name)
    p = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], dtype=torch.float64)
    once = torch.tensor([0.4, 0.6], dtype=torch.float64)
    rows = dl.Distribution.from_rows([([0, 1], row) for row in p], provenance=provenance)
    shared = dl.Distribution(p, [0, 1], provenance=provenance)
    same = dl.Distribution(once, [0, 1], provenance=provenance)
    wide = dl.Distribution(once.repeat(3, 1), [0, 1], provenance=provenance)
    for build in (
        lambda one, own: dl.apply(one, own, lambda x, y: (x, y)),
        lambda one, own: dl.apply(own, one, lambda x, y: (y, x)),
        lambda one, own: dl.union(one, own),
        lambda one, own: dl.union(own, one),
        lambda one, own: dl.apply(dl.union(one, own), own, lambda x, y: x == y),
        lambda one, own: dl.apply(dl.union(one.map(lambda x: x + 5), own), own, lambda x, y: x * y),
    ):
        expected = build(wide, shared)
        symbols = list(expected.symbols)
        for one, own in ((same, rows), (wide, rows), (same, shared)):
            found = dl.get_probs(build(one, own), symbols=symbols)
            torch.testing.assert_close(found, dl.get_probs(expected, symbols=symbols))


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_runs(name):
    """sample, where=, stack, prob_of with match, certain operands: nothing is special."""
    provenance = provenance_of(name)
    p = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], dtype=torch.float64)
    d = dl.Distribution(p, [1, 2, 3], provenance=provenance)
    e = dl.Distribution(p.flip(1), [1, 2, 3], provenance=provenance)
    total = dl.apply(d, e, lambda x, y: x + y, where=torch.tensor([True, False]))
    plain = dl.apply(d, e, lambda x, y: x + y)
    both = dl.get_probs(total, symbols=[2, 3, 4])
    assert torch.equal(both[1], dl.get_probs(d, symbols=[2, 3, 4])[1])
    assert torch.allclose(both[0], dl.get_probs(plain, symbols=[2, 3, 4])[0])
    kept = dl.sample(plain, 2)
    assert kept.batch_size == 2
    assert torch.isfinite(dl.get_probs(dl.apply(kept, d, lambda x, y: x * y))).all()
    again = dl.Distribution.stack([plain, plain])
    assert torch.allclose(dl.get_probs(again)[2:], dl.get_probs(plain))
    mixed = dl.Distribution.stack([plain, kept])
    assert torch.allclose(dl.get_probs(mixed, symbols=[4])[:2], dl.get_probs(plain, symbols=[4]))
    assert plain.prob_of([4, 4], match=lambda a, b: abs(a - b) <= 1).shape == (2,)
    labelled = dl.apply(plain, dl.Distribution.certain_rows([1, 2]), lambda x, y: x - y)
    assert torch.allclose(labelled.prob_of([3, 2]), plain.prob_of([4, 4]))
    assert isinstance(plain.argmax(), list)
    if isinstance(provenance, TensorProvenance):
        with pytest.raises(dl.DolphinError, match="explain"):
            plain.explain(4)
