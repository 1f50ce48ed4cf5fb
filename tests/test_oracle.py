"""A few dozen programs against exact enumeration: values and gradients, ties, zeros and ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import compare
import dolphin as dl
import oracles
from programs import BY_NAME, PROGRAMS, Program

PLAIN = [p for p in PROGRAMS if not p.negates]
BOUNDED = [p for p in PLAIN if not p.recursive]


def by_name(programs: list[Program]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("program", programs, ids=lambda p: p.name)


@by_name(PROGRAMS)
def test_the_oracles_agree_where_theory_says_so(program):
    """Enumeration, proofs and add-mult are three ways to one number if nothing is counted twice."""
    for row in compare.even_rows(program):
        exact = oracles.exact(program, row)
        if program.damp_is_exact:
            assert {s: a.value for s, a in oracles.add_mult(program, row).items()} == {
                s: a.value for s, a in exact.items()
            }
        # The sum over proofs counts a world once for each proof that holds in it.
        for symbol, answer in oracles.proofs_add_mult(program, row).items():
            assert answer.value >= exact[symbol].value


@by_name(BOUNDED)
@given(st.data())
def test_damp_is_add_and_multiply(program, data):
    rows = data.draw(compare.batches(program))
    probs = compare.tensors(rows)
    result = compare.evaluate(program, probs, dl.DAMP())
    compare.assert_answers(result, probs, [oracles.add_mult(program, row) for row in rows])


@by_name([p for p in BOUNDED if p.damp_is_exact])
@given(st.data())
def test_damp_is_exact_without_shared_facts(program, data):
    rows = data.draw(compare.batches(program))
    result = compare.evaluate(program, compare.tensors(rows), dl.DAMP())
    for b, row in enumerate(rows):
        for symbol, answer in oracles.exact(program, row).items():
            found = dl.get_probs(result, symbols=[symbol])[b, 0].item()
            assert found == pytest.approx(float(answer.value), abs=1e-9)


@by_name([p for p in PLAIN if p.recursive and p.name.startswith("closure")])
def test_damp_of_the_papers_recursion(program):
    """The recursion that ends when no new symbols appear adds up as often under every algebra."""
    rows = compare.even_rows(program)
    probs = compare.tensors(rows)
    result = compare.evaluate(program, probs, dl.DAMP())
    compare.assert_answers(result, probs, [oracles.add_mult(program, row) for row in rows])


@by_name(PLAIN)
@given(st.data())
def test_all_proofs(program, data):
    """With room for every proof, top-k is Σ over proofs of Π over facts."""
    rows = data.draw(compare.batches(program))
    k = max(oracles.most_proofs(program, row) for row in rows)
    probs = compare.tensors(rows)
    result = compare.evaluate(program, probs, dl.TopKProofs(k=k))
    compare.assert_answers(result, probs, [oracles.proofs_add_mult(program, row) for row in rows])


@by_name(PLAIN)
def test_more_room_than_proofs_changes_nothing(program):
    rows = compare.even_rows(program)
    answers = [oracles.proofs_add_mult(program, row) for row in rows]
    k = max(oracles.most_proofs(program, row) for row in rows)
    for extra in (1, 5):
        probs = compare.tensors(rows)
        result = compare.evaluate(program, probs, dl.TopKProofs(k=k + extra))
        compare.assert_answers(result, probs, answers)


@by_name([p for p in PLAIN if len(p.shapes) == 1])
def test_one_network_output_alone(program):
    """(N,) probabilities are a batch of one."""
    (row,) = compare.even_rows(program, size=1)
    (probs,) = compare.tensors([row])
    k = oracles.most_proofs(program, row)
    result = compare.evaluate(program, [probs[0]], dl.TopKProofs(k=k))
    assert result.batch_size == 1
    compare.assert_answers(result, [probs], [oracles.proofs_add_mult(program, row)])


ONE_STEP = ["sum_of_two", "largest", "constant", "three_symbol_formula", "if_then_else", "alarm"]


@pytest.mark.parametrize("k", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ONE_STEP)
@given(st.data())
def test_the_k_likeliest_proofs(name, k, data):
    """In one step from the inputs nothing is dropped early: the value is the sum over the k
    likeliest of all proofs. Which of two equally likely ones is kept does not matter to it."""
    program = BY_NAME[name]
    rows = data.draw(compare.batches(program))
    result = compare.evaluate(program, compare.tensors(rows), dl.TopKProofs(k=k))
    for b, row in enumerate(rows):
        proofs = oracles.Proofs(row)
        for symbol, tag in oracles.run(program, proofs).items():
            expected = proofs.add_mult(proofs.likeliest(tag, k))
            found = dl.get_probs(result, symbols=[symbol])[b, 0].item()
            assert found == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ONE_STEP)
def test_gradient_of_the_k_likeliest_proofs(name, k):
    program = BY_NAME[name]
    rows = compare.even_rows(program)
    probs = compare.tensors(rows)
    result = compare.evaluate(program, probs, dl.TopKProofs(k=k))
    answers = []
    for row in rows:
        proofs = oracles.Proofs(row)
        kept = {s: proofs.likeliest(tag, k) for s, tag in oracles.run(program, proofs).items()}
        answers.append(
            {
                s: oracles.Answer(proofs.add_mult(best), proofs.gradient(best))
                for s, best in kept.items()
            }
        )
    compare.assert_answers(result, probs, answers)


@by_name(PLAIN)
def test_top_k_grows_with_k(program):
    rows = compare.even_rows(program)
    before = None
    for k in (1, 2, 4, 8):
        result = compare.evaluate(program, compare.tensors(rows), dl.TopKProofs(k=k))
        if not len(result):
            return
        probs = dl.get_probs(result).detach()
        if before is not None:
            assert (probs >= before - 1e-12).all()
        before = probs


@by_name([p for p in PROGRAMS if p.negates])
@given(st.data())
def test_negation_under_damp(program, data):
    rows = data.draw(compare.batches(program))
    probs = compare.tensors(rows)
    result = compare.evaluate(program, probs, dl.DAMP())
    compare.assert_answers(result, probs, [oracles.add_mult(program, row) for row in rows])


@by_name([p for p in PROGRAMS if p.negates])
@given(st.data())
def test_negation_of_proofs(program, data):
    rows = data.draw(compare.batches(program))
    k = max(oracles.most_proofs(program, row) for row in rows)
    probs = compare.tensors(rows)
    result = compare.evaluate(program, probs, dl.TopKProofs(k=k))
    compare.assert_answers(result, probs, [oracles.proofs_add_mult(program, row) for row in rows])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("provenance", [dl.DAMP(), dl.TopKProofs(k=30)], ids=["damp", "top-k"])
@by_name([p for p in PLAIN if p.damp_is_exact])
def test_both_float_types(program, provenance, dtype):
    rows = compare.even_rows(program)
    probs = compare.tensors(rows, dtype)
    result = compare.evaluate(program, probs, provenance)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-5
    compare.assert_answers(result, probs, [oracles.exact(program, r) for r in rows], tolerance)
