"""The benchmark runs and reports what it should. Nothing here looks at a time."""

from __future__ import annotations

import json

import pytest
import torch

import dolphin as dl
from dolphin_tasks import bench, cli
from dolphin_tasks.bench import command, launches, sums, timing
from dolphin_tasks.bench.cases import CASES, NAMES, choose
from dolphin_tasks.bench.command import count_launches
from dolphin_tasks.bench.memory import peak_memory
from dolphin_tasks.bench.program import class_scores, fact_scores
from dolphin_tasks.bench.timing import Draws
from dolphin_tasks.digits import digit_distributions
from dolphin_tasks.sum_n.program import add_up

KEYS = {
    "name", "provenance", "batch", "neural_s", "forward_s", "backward_s", "ratio", "peak_mb",
    "udf_calls_first", "udf_calls_later", "host_ms", "kernels", "cold_s",
}  # fmt: skip
ALL = [
    "sum-5", "sum-10", "sum-15", "sum-1024", "product-16", "product-20", "add-15", "hwf-7",
    "hwf-15", "hwf-19", "path-6x6", "closure-chain-64", "kinship-4", "kinship-10", "clutrr-like",
    "mugen-like", "sudoku-4x4", "kg-50k", "count-50",
    "tree-64", "hwf-7-batched", "sum-15-program", "hmm-50",
]  # fmt: skip
LARGE = {"sum-1024", "product-16", "product-20"}
LONGER = {"sum-10", "sum-15", "sum-1024", "product-20", "hwf-15", "hwf-19", "kinship-10"}
"""Cases whose program is that of a shorter one."""


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """As few steps as give a figure at all: what they say of the machine is not the point here."""
    monkeypatch.setattr(timing, "WARM_UP", 1)
    monkeypatch.setattr(timing, "SHORTEST", 0.0)
    monkeypatch.setattr(launches, "STEPS", 1)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_names():
    assert list(NAMES) == ALL


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=f"{case.name}-{case.provenance}",
            marks=[pytest.mark.slow] if case.name in LARGE else [],
        )
        for case in {case.name: case for case in reversed(CASES)}.values()  # under one provenance
        if case.name not in LONGER
    ],
)
def test_every_program_can_be_measured(case):
    (small,) = choose([case.name], provenance=case.provenance, batch=3)
    found = bench.measure(small, steps=1, memory=False)
    assert (found.udf_calls_first > 0) is (case.name != "count-50")  # which calls none
    assert found.kernels > 0 and found.host_ms >= 0
    assert found.ratio == (found.forward_s + found.backward_s) / found.neural_s
    assert set(found.compared) == {other.name for other in case.program.others()}
    if case.name.startswith(("sum", "product", "path", "closure", "tree", "hmm")):
        assert found.udf_calls_later == 0


@pytest.mark.parametrize("case", [c for c in CASES if c.program.others()], ids=lambda c: c.name)
def test_other_ways_to_write_a_program_give_the_same_loss(case):
    scores, labels = case.program.draw(3, "confident", generator())
    scores = scores.double().requires_grad_()
    with dl.using(case.algebra()):
        loss = case.program.loss(scores, labels)
        others = [other.loss(scores, labels) for other in case.program.others()]
    (grad,) = torch.autograd.grad(loss, scores)
    for other in others:
        torch.testing.assert_close(other, loss)
        torch.testing.assert_close(torch.autograd.grad(other, scores)[0], grad)


def test_long_sums_are_folded_as_a_tree():
    scores, labels = sums.Sum(80).draw(2, "early", generator())
    with dl.profile() as seen:
        folded = sums.Sum(80).loss(scores, labels)
    assert seen.total.calls == 7 + 1  # one addition for each level, and the loss
    in_a_row = dl.nll_loss(add_up(digit_distributions(scores)), labels)
    torch.testing.assert_close(folded, in_a_row)


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in LARGE], ids=lambda c: c.name)
def test_losses_and_gradients_are_finite_and_reach_the_scores(case):
    for inputs in ("early", "confident"):  # plans are made for the first, and serve both
        scores, labels = case.program.draw(3, inputs, generator())
        scores.requires_grad_()
        with dl.using(case.algebra()):
            loss = case.program.loss(scores, labels)
        loss.backward()
        assert torch.isfinite(loss), inputs
        assert torch.isfinite(scores.grad).all(), inputs
        # Early on, hardly a formula reaches its label; and sums over paths are clipped at 1.
        if inputs == "confident" and (case.name, case.provenance) != ("path-6x6", "damp"):
            assert (scores.grad != 0).any()


def test_steps_right_after_the_network_are_told_apart(monkeypatch):
    """They take longer: a median over all steps of short programs doesn't show it."""
    warm = []

    def network(_):
        warm.clear()
        return 1.0, 2.0

    def symbolic(_):
        warm.append(None)
        return (0.3, 0.6) if len(warm) == 1 else (0.1, 0.2)

    monkeypatch.setattr(timing._Network, "step", network)
    monkeypatch.setattr(timing._Symbolic, "step", symbolic)
    (case,) = choose(["sum-5"], batch=2)
    draws = Draws(case.program, 2, "early", torch.device("cpu"))
    found = timing.time_both(case.program, case.algebra(), draws, steps=50, budget=40.0)
    assert found.symbolic == timing.Times(0.1, 0.2)
    assert found.cold == timing.Times(0.3, 0.6)
    assert found.network == timing.Times(1.0, 2.0)


def test_command_line_prints_a_table_and_writes_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "peak_memory", lambda case, inputs: len(case.name))
    file = tmp_path / "deep" / "results.json"
    names = ["sum-5", "mugen-like"]
    options = ["--steps", "1", "--batch", "2", "--json", str(file)]
    assert cli.main(["bench", *names, *options]) == 0
    printed = capsys.readouterr().out
    found = json.loads(file.read_text())
    assert [line["name"] for line in found] == ["sum-5", "mugen-like"]
    for line in found:
        assert set(line) >= KEYS
        assert line["batch"] == 2 and line["provenance"] == "damp"
        assert line["ratio"] == (line["forward_s"] + line["backward_s"]) / line["neural_s"]
        assert line["peak_mb"] == len(line["name"])
        assert line["name"] in printed


def test_command_line_takes_a_provenance(tmp_path):
    file = tmp_path / "results.json"
    arguments = ["sum-5", "--steps", "1", "--batch", "2", "--no-memory", "--json", str(file)]
    assert bench.main([*arguments, "--provenance", "dtkp-am", "--k", "2"]) == 0
    (line,) = json.loads(file.read_text())
    assert (line["provenance"], line["k"], line["peak_mb"]) == ("dtkp-am", 2, None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["sum-6"],
        ["sum-5", "--provenance", "nonsense"],
        ["sum-5", "--steps", "0"],
        ["sum-5", "--batch", "-1"],
        ["sum-5", "--threads", "0"],
        ["sum-5", "--device", "nowhere"],
        ["sum-5", "--device", "meta"],
        ["sum-5", "--json", "."],
    ],
)
def test_command_line_refuses_what_it_does_not_know(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        bench.main(arguments)
    assert stopped.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_peak_memory_sees_what_a_program_allocates():
    """79 MB with 4096 rows and 6 with one; torch itself takes more than 200."""
    (many,) = choose(["sum-15"], provenance="damp", batch=4096)
    assert 30 < peak_memory(many, "early") < 150


def test_a_changed_case_has_no_target():
    assert choose(["sum-5"])[0].target is not None
    assert choose(["sum-5"], batch=7)[0].target is None
    assert choose(["hwf-7"], k=1)[0].target is None


def test_early_scores_are_undecided_and_confident_ones_mostly_right():
    truth = torch.randint(10, (4000,), generator=generator())
    early = class_scores(truth, 10, "early", generator()).softmax(-1)
    late = class_scores(truth, 10, "confident", generator()).softmax(-1)
    assert early.max() < 0.5
    assert 0.95 < (late.argmax(-1) == truth).float().mean() < 1
    holds = torch.rand(4000, generator=generator()) < 0.3
    assert (fact_scores(holds, "early", generator()).sigmoid() - 0.5).abs().max() < 0.35
    seen = fact_scores(holds, "confident", generator()) > 0
    assert 0.95 < (seen == holds).float().mean() < 1


# Torch operations of a step, forward and backward. Lower them when there are fewer.
CEILINGS = {
    ("sum-15", None): 60,
    ("mugen-like", None): 320,
    ("add-15", None): 1100,
    ("hwf-7", 3): 2300,
    ("path-6x6", None): 450,
    ("path-6x6", 1): 900,
    ("kinship-4", None): 350,
    ("kinship-10", None): 760,
}


@pytest.mark.parametrize(("name", "k"), list(CEILINGS))
def test_a_step_takes_few_torch_operations(name, k):
    (case,) = [case for case in CASES if (case.name, case.k) == (name, k)]
    found = count_launches(case, Draws(case.program, 8, "early", torch.device("cpu")))
    assert 0 < found.kernels <= CEILINGS[name, k]
