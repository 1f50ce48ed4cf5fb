"""What the guides say about writing a provenance is true: their code runs, and works everywhere."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
import torch

import dolphin as dl
from algebras import COMMON, LAWS, Algebra, inputs_of, keeps
from dolphin.provenance import Exact, TensorProvenance, provenance_names
from programs import BY_NAME
from snippets import snippets

ROOT = Path(__file__).parents[2]
NAMES = provenance_names()  # before any test registers one
GUIDES = {
    "docs/provenances.md": "Interval",
    "src/dolphin/provenance/README.md": "Cheapest",
}


def run(guide: str) -> dict:
    """Run every snippet of a guide, compare what is printed, and return its names."""
    names: dict = {"__name__": "guide"}
    for _line, code, expected in snippets((ROOT / guide).read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, guide, "exec"), names)
        if expected is not None:
            assert printed.getvalue().split() == expected.split()
    return names


@pytest.fixture(params=GUIDES)
def provenance(request) -> TensorProvenance:
    return run(request.param)[GUIDES[request.param]]()


def test_it_is_short():
    for guide, name in GUIDES.items():
        page = (ROOT / guide).read_text(encoding="utf-8")
        body = page.split(f"class {name}(TensorProvenance):\n")[1].split("\n\nwith ")[0]
        body = body.split("\n\nroads")[0]
        assert len([line for line in body.splitlines() if line.strip()]) <= 16


@pytest.mark.parametrize("name", COMMON)
def test_it_runs_the_programs_in_both_layouts(provenance, name):
    program = BY_NAME[name]
    torch.manual_seed(0)
    probs = [torch.rand(3, len(shape.symbols)).softmax(1) for shape in program.shapes]
    for p in probs:
        p.requires_grad_()
    found = []
    for layout in ("shared", "rows"):
        result = program(dl, *inputs_of(program, probs, provenance, layout))
        found.append(dl.get_probs(result, symbols=list(result.symbols)))
    torch.testing.assert_close(*found)
    grads = torch.autograd.grad(found[0].sum(), probs)
    assert all(torch.isfinite(g).all() for g in grads)


def test_it_works_with_every_operation(provenance):
    d = dl.Distribution(torch.rand(3, 4).softmax(1), range(4), provenance=provenance)
    total = dl.apply(d, d, lambda x, y: x + y, where=torch.tensor([True, False, True]))
    kept = dl.sample(total, 2)
    stacked = dl.Distribution.stack([kept, total])
    assert torch.isfinite(dl.get_probs(stacked)).all()
    assert torch.isfinite(dl.get_logits(dl.filter(stacked, lambda x: x > 1))).all()
    assert total.prob_of([1, 1, 1], match=lambda a, b: a >= b).shape == (3,)
    labelled = dl.apply(total, dl.Distribution.certain_rows([1, 2, 3]), lambda x, y: x == y)
    assert len(labelled.argmax()) == 3


def test_its_laws_hold(provenance):
    assert [
        law
        for law in LAWS
        if law in provenance.laws
        if not keeps(Algebra(provenance, "shared"), law)
    ] == []


def test_no_negation_is_an_error_that_names_those_that_have_one():
    cheapest = run("src/dolphin/provenance/README.md")["Cheapest"]()
    d = dl.Distribution([0.5], ["x"], provenance=cheapest)
    with pytest.raises(dl.DolphinError, match=r"no negation.*damp, dtkp-am, dtkp-wmc, exact"):
        dl.negate(d)


def test_the_interval_holds_the_exact_probability():
    """What the example claims: a lower and an upper bound, whatever depends on what."""
    interval = run("docs/provenances.md")["Interval"]()
    torch.manual_seed(1)
    for name in ("closure_of_cycle", "equals_itself", "at_least_two_of_five"):
        program = BY_NAME[name]
        probs = [torch.rand(4, len(shape.symbols)).softmax(1) for shape in program.shapes]
        bounds = program(dl, *inputs_of(program, probs, interval, "shared"))._tagged.tags
        exact = dl.get_probs(program(dl, *inputs_of(program, probs, Exact(), "shared"))).t()
        assert (bounds[..., 0] <= exact + 1e-5).all()
        assert (exact <= bounds[..., 1] + 1e-5).all()


def test_the_page_mentions_every_provenance():
    page = (ROOT / "docs/provenances.md").read_text(encoding="utf-8")
    for name in NAMES:
        missing = f"`{name}` needs a row in both tables of docs/provenances.md"
        assert page.count(f"`{name}`") >= 2, missing
