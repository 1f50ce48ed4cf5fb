"""`diagnose` finds the known ways in which programs don't learn."""

from __future__ import annotations

import re

import pytest
import torch

import clutrr_cases
import dolphin as dl
from dolphin_tasks.bench import formulas, sums
from dolphin_tasks.bench.program import class_scores
from dolphin_tasks.clutrr import data, model, program
from dolphin_tasks.clutrr.kinship import RELATIONS
from dolphin_tasks.digits import digit_distributions
from dolphin_tasks.hwf import program as hwf
from dolphin_tasks.sum_n.program import add_up


def generator():
    return torch.Generator().manual_seed(0)


def kinds(report):
    return {finding.kind for finding in report.findings}


def finding(report, kind):
    return next(each for each in report.findings if each.kind == kind)


def test_targets_out_of_reach_in_the_first_epoch():
    """Handwritten formulas under nll: few of the sampled results are the label."""
    scores, labels = formulas.Formula(7).draw(32, "early", generator())
    places = hwf.readings(scores.requires_grad_())
    result = hwf.calculate(places, torch.full((32,), 7))
    report = dl.diagnose(result, labels, match=hwf.same)
    found = finding(report, "out of reach")
    assert len(found.rows) > 16
    assert found.rows == report.unreachable
    assert "bce_loss" in found.advice
    assert f"{len(found.rows)} of 32 rows" in str(report)


def test_too_few_proofs():
    scores, labels = sums.Sum(15).draw(8, "early", generator())
    digits = dl.Distribution.each_from_logits(
        scores.requires_grad_(), range(10), provenance=dl.TopKProofs(k=3)
    )
    report = dl.diagnose(add_up(digits), labels)
    found = finding(report, "too few proofs")
    assert len(found.rows) == 8
    assert "larger k than 3" in found.advice
    assert report.bounds is not None
    low, high = report.bounds
    exact = add_up(dl.Distribution.each_from_logits(scores, range(10))).prob_of(labels)
    assert (low <= exact).all() and (exact <= high).all()
    assert kinds(dl.diagnose(add_up(digit_distributions(scores)), labels)) == set()


def clipped_case(provenance="damp"):
    """Sums that pass 1: the same facts used along many ways of a cyclic story."""
    logits = (2.0 + 0.3 * torch.randn(4, 6, generator=generator())).requires_grad_()
    pairs = [(0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)]
    edges = dl.Distribution.from_logits(logits, pairs, exclusive=False, provenance=provenance)
    ends = (lambda p: p[1], lambda e: e[0])

    def longer(paths):
        return dl.union(edges, dl.apply_if(paths, edges, lambda p, e: (p[0], e[1]), on=ends))

    return longer(longer(edges)), [(0, 2)] * 4


def test_clipped_sums():
    result, targets = clipped_case()
    report = dl.diagnose(result, targets)
    found = finding(report, "clipped sums")
    assert found.rows == (0, 1, 2, 3) == report.dead
    assert "dtkp-am" in found.advice
    for provenance in ("dtkp-wmc", "exact"):
        assert kinds(dl.diagnose(*clipped_case(provenance))) == set()


@pytest.mark.parametrize("provenance", ["damp", "noisy-or"])
def test_clipped_sums_in_stories(provenance):
    """CLUTRR-4 under damp: derivations are added up, and a result soon stands at 1."""
    batch = clutrr_cases.batch_of(4, 4, 4, 4, 3, 2)
    truth = torch.where(batch.truths == data.NOT_TOLD, len(RELATIONS), batch.truths)
    scores = class_scores(truth, model.CLASSES, "confident", generator()).requires_grad_()
    with dl.using(provenance):
        told = program.told_facts(scores.softmax(-1)[:, :-1], batch)
    report = dl.diagnose(program.relation_asked_for(told, links=6), batch.answers)
    assert ("clipped sums" in kinds(report)) == (provenance == "damp")
    if provenance == "damp":
        assert len(finding(report, "clipped sums").rows) >= 4


def test_sums_that_are_cut_inside_of_a_program():
    """CLUTRR-4 under damp early on: passages are read right half of the time, no result is at 1."""
    batch = clutrr_cases.batch_of(4, 4, 4, 4, 3, 2)
    truth = torch.where(batch.truths == data.NOT_TOLD, len(RELATIONS), batch.truths)
    noise = 0.3 * torch.randn(*truth.shape, model.CLASSES, generator=generator())
    scores = (noise + 3.0 * torch.nn.functional.one_hot(truth, model.CLASSES)).requires_grad_()
    assert scores.softmax(-1).gather(-1, truth[..., None]).mean().item() < 0.6
    reports = []
    for provenance in (dl.DAMP(), dl.DAMP(above_one="pass"), dl.get_provenance("noisy-or")):
        with dl.using(provenance):
            told = program.told_facts(scores.softmax(-1)[:, :-1], batch)
        result = program.relation_asked_for(told, links=7)
        reports.append(dl.diagnose(result, batch.answers))
        if provenance == dl.DAMP():
            assert result.probs().max() < 1.0
    assert [("clipped sums" in kinds(report)) for report in reports] == [True, False, False]
    assert re.search("inside the program [0-9,]+ of [0-9,]+ sums", str(reports[0]))


# Programs that somebody could have written, and what should be said of them.
def pair_of_digits(scores, **options):
    return dl.Distribution.each_from_logits(scores, range(10), **options)


def one_softmax_for_both(scores):
    probs = scores.flatten(1).softmax(1).unflatten(1, (2, 10))
    one, other = (dl.Distribution(p, range(10)) for p in probs.unbind(1))
    return one + other, [3, 4, 5, 6], "lost mass", "or over several inputs"


def shifted_digits(scores):
    one, other = dl.Distribution.each_from_logits(scores, range(1, 11))
    return one + other, [0, 1, 5, 18], "out of reach", "from 2 to 20"


def certain_too_early(scores):
    one, other = (digit.argmax() for digit in pair_of_digits(scores))
    sums = [x + y for x, y in zip(one, other, strict=True)]
    return dl.Distribution.certain_rows(sums), sums, "no graph", "without argmax"


def filtered_away(scores):
    one, other = pair_of_digits(scores)
    kept = dl.filter(one + other, lambda total: total > 18)
    return kept, [3, 4, 5, 6], "out of reach", "every combination was filtered away"


def too_sure(scores):
    one, other = pair_of_digits(1000 * scores)
    wrong = [(x + y + 1) % 19 for x, y in zip(one.argmax(), other.argmax(), strict=True)]
    return one + other, wrong, "contradiction", "smaller logits"


def not_sure_enough(scores):
    edges = dl.Distribution(
        scores.sigmoid()[:, 0, :3] * 0.3,
        [(0, 1), (1, 2), (2, 3)],
        exclusive=False,
        provenance="lukasiewicz",
    )
    ends = (lambda p: p[1], lambda e: e[0])
    two = dl.apply_if(edges, edges, lambda p, e: (p[0], e[1]), on=ends)
    return two, [(0, 2)] * 4, "contradiction", "lukasiewicz turns small values into 0"


def only_the_likeliest(scores):
    one, other = (dl.sample(digit, 1) for digit in pair_of_digits(scores))
    return one + other, [18, 18, 18, 18], "out of reach", "1 symbol"


@pytest.mark.parametrize(
    "broken",
    [
        shifted_digits, certain_too_early, filtered_away, too_sure, not_sure_enough,
        only_the_likeliest, one_softmax_for_both,
    ],
)  # fmt: skip
def test_programs_it_has_not_seen(broken):
    scores = torch.randn(4, 2, 10, generator=generator()).requires_grad_()
    result, targets, kind, said = broken(scores)
    report = dl.diagnose(result, targets)
    found = finding(report, kind)
    assert said in f"{found.text} {found.advice}"


def test_fuzzy_results_need_not_add_up():
    one, other = pair_of_digits(torch.randn(4, 2, 10, generator=generator()).requires_grad_(),
                                provenance="viterbi")  # fmt: skip
    assert "lost mass" not in kinds(dl.diagnose(one + other, [3, 4, 5, 6]))


def test_labels_of_the_wrong_type():
    d = dl.Distribution.from_logits(torch.zeros(3, 10).requires_grad_(), range(10))
    report = dl.diagnose(d + d, ["7", 7, "5"])
    found = finding(report, "wrong type")
    assert found.rows == (0, 2)
    assert "'7' is a str" in found.text
    assert kinds(report) == {"wrong type"}


@pytest.mark.parametrize("provenance", ["damp", "dtkp-am", "exact"])
def test_a_forgotten_exclusive(provenance):
    """Edges of a graph as one softmax: a path of two of them can't be."""
    logits = (0.3 * torch.randn(4, 8, generator=generator())).requires_grad_()
    pairs = [(x, y) for x in range(3) for y in range(3) if x != y] + [(3, 0), (2, 3)]
    ends = (lambda p: p[1], lambda e: e[0])

    def hops(exclusive):
        edges = dl.Distribution.from_logits(
            logits, pairs, exclusive=exclusive, provenance=provenance
        )
        return dl.apply_if(edges, edges, lambda p, e: (p[0], e[1]), on=ends)

    report = dl.diagnose(hops(True), [(0, 3)] * 4)
    assert any("exclusive=False" in each.advice for each in report.findings)
    after = dl.diagnose(hops(False), [(0, 3)] * 4)
    assert not any("exclusive=False" in each.advice for each in after.findings)


@pytest.mark.parametrize("provenance", ["dtkp-am", "dtkp-wmc", "exact"])
def test_a_softmax_whose_symbols_are_said_to_be_independent(provenance):
    scores = torch.randn(4, 2, 10, generator=generator()).requires_grad_()
    with dl.using(provenance):
        for exclusive in (False, True):
            inputs = [
                dl.Distribution(p, range(10), exclusive=exclusive)
                for p in scores.softmax(-1).unbind(1)
            ]
            report = dl.diagnose(inputs[0] + inputs[1], [3, 4, 5, 6])
            assert ("independent input" in kinds(report)) != exclusive
        edges = dl.Distribution(torch.rand(4, 3).requires_grad_(), "abc", exclusive=False)
        assert "independent input" not in kinds(dl.diagnose(edges, ["a"] * 4))
        alone = dl.Distribution(scores[:, 0].softmax(-1), range(10), exclusive=False)
        found = finding(dl.diagnose(alone, [1, 2, 3, 4]), "independent input")
    assert "1 of 1 inputs add up to 1" in found.text and "exclusive=True" in found.advice


@pytest.mark.parametrize("provenance", ["dtkp-am", "exact"])
def test_an_input_that_was_detached_is_mentioned(provenance):
    scores = torch.randn(4, 2, 10, generator=generator()).requires_grad_()
    one, other = scores.unbind(1)
    with dl.using(provenance, **({"k": 100} if provenance == "dtkp-am" else {})):
        for second, fixed in ((other.detach(), 1), (other, 0)):
            digits = [dl.Distribution.from_logits(logits, range(10)) for logits in (one, second)]
            report = dl.diagnose(digits[0] + digits[1], [3, 4, 5, 6])
            assert report.fixed == (fixed, 2)
            assert report.findings == ()
            assert ("1 of 2 inputs require no gradient" in str(report)) == bool(fixed)


def test_nothing_recorded_and_nothing_found():
    d = dl.Distribution([0.5, 0.5], [0, 1])
    assert kinds(dl.diagnose(d + d, [1])) == {"no graph"}
    balanced = dl.Distribution.from_logits(torch.zeros(1, 4, requires_grad=True), range(4))
    assert kinds(dl.diagnose(balanced + balanced, [3])) == {"dead gradients"}
    logits = torch.randn(2, 4, generator=generator()).requires_grad_()
    d = dl.Distribution.from_logits(logits, range(4))
    report = dl.diagnose(d + d, [3, 2])
    assert report.findings == () and report.unreachable == () and report.dead == ()
    assert logits.grad is None
    assert str(report).startswith("2 rows, 0 findings")


def test_text_fits_a_terminal():
    logits = torch.zeros(1, 4, requires_grad=True)
    d = dl.Distribution.from_logits(logits, range(4))
    report = dl.diagnose(d + d, [40])
    (finding,) = report.findings
    assert len(finding.text) + len(finding.advice) > 160
    assert all(len(line) <= 80 for line in str(report).splitlines())
    assert finding.advice in " ".join(str(report).split())


def test_operations_of_a_profile():
    logits = torch.zeros(2, 4, requires_grad=True)
    with dl.profile():
        d = dl.Distribution.from_logits(logits, range(4))
        report = dl.diagnose(d + d, [3, 2])
    assert report.operations[0].combinations == 16
    assert "16 combinations" in str(report)


@pytest.mark.parametrize("provenance", ["damp", "exact"])
@pytest.mark.parametrize("backward_first", [True, False])
def test_after_a_backward_pass(provenance, backward_first):
    logits = torch.randn(2, 10, generator=generator(), requires_grad=True)
    digit = dl.Distribution.from_logits(logits, range(10), provenance=provenance)
    result = digit + dl.Distribution.from_logits(logits + 1, range(10), provenance=provenance)
    if not backward_first:
        assert dl.diagnose(result, [3, 4]).findings == ()
        return
    dl.nll_loss(result, [3, 4]).backward()
    with pytest.raises(dl.UnsupportedError, match=r"diagnose: a backward pass has freed"):
        dl.diagnose(result, [3, 4])


def test_posterior_after_a_backward_pass():
    letters = dl.Distribution.each_from_logits(torch.zeros(4, 3, 3, requires_grad=True), "abc")
    result = dl.apply(*letters, lambda *read: read.count("a"))
    dl.nll_loss(result, [1] * 4).backward()
    with pytest.raises(dl.UnsupportedError, match=r"posterior: a backward pass has freed"):
        dl.posterior(letters, result, [1] * 4)
