"""Member: against counting, and for the trainer."""

from __future__ import annotations

import json
import re

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import dolphin as dl
from dolphin_tasks import digits
from dolphin_tasks.catalogue import find_task
from dolphin_tasks.cli import main
from dolphin_tasks.member import data, program
from tiny_cli import blots


def example(n, rows=20):
    task = find_task("member")(find_task("member").config_class(n=n))
    labels = torch.arange(n * rows) * 7 % 10
    images = torch.zeros(n * rows, 28, 28, dtype=torch.uint8)
    samples = data.MemberRows(digits.DigitRows(images, labels, n, seed=0), seed=0)
    return task, samples.batch(torch.arange(rows))


@pytest.mark.parametrize("provenance", ["damp", "exact"])
def test_probability_that_one_of_them_is_it(provenance):
    """P(none) is the product of P(not this one)."""
    torch.manual_seed(0)
    logits = torch.randn(4, 5, 10, dtype=torch.float64).requires_grad_()
    with dl.using(provenance):
        asked = dl.Distribution.certain_rows([3, 0, 9, 3])
        found = program.member(digits.digit_distributions(logits), asked)
    of_asked = logits.softmax(2)[torch.arange(4), :, torch.tensor([3, 0, 9, 3])]
    none = (1 - of_asked).prod(1)
    torch.testing.assert_close(found.probs([False])[:, 0], none)
    torch.testing.assert_close(found.probs([True])[:, 0], 1 - none)
    slopes = [torch.autograd.grad(v.sum(), logits)[0] for v in (found.probs([False]), none)]
    torch.testing.assert_close(*slopes)


def test_every_second_question_is_about_a_digit_that_is_there():
    task, batch = example(4, rows=400)
    there = torch.tensor(task.targets(batch))
    assert torch.equal(there, (batch.digits == batch.asked[:, None]).any(1))
    assert 160 < int(there.sum()) < 240
    assert len(batch.asked[~there].unique()) == 10


@pytest.mark.parametrize("n", [1, 3, 5])
def test_perfect_perception_gives_perfect_answers(n):
    task, batch = example(n)
    outputs = (40 * F.one_hot(batch.digits, 10).float(),)
    assert all(task.right(task.answers(outputs, batch), batch))
    assert task.losses(outputs, batch).max() < 1e-3


@pytest.mark.parametrize("lean", [2.0, 0.0])
def test_every_place_gets_a_gradient(lean):
    task, batch = example(5)
    right = F.one_hot(batch.digits, 10).float()
    outputs = (lean * right + 0.1 * torch.randn_like(right)).requires_grad_()
    task.losses((outputs,), batch).sum().backward()
    assert outputs.grad.isfinite().all()
    assert (outputs.grad.abs().sum(2) > 0).all()


@pytest.mark.usefixtures("own_pictures")
def test_it_trains_and_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(digits, "find_digits", blots)
    run = str(tmp_path / "run")
    sizes = ["--validation", "60", "--train-samples", "64", "--test-samples", "20"]
    assert main(["train", "member", "--n", "2", "--epochs", "1", *sizes, "--out", run]) == 0
    assert 0 <= json.loads((tmp_path / "run" / "results.json").read_text())["test_accuracy"] <= 1
    assert (tmp_path / "run" / "samples.png").read_bytes().startswith(b"\x89PNG")
    assert main(["predict", run, "seven.png"]) == 2
    assert "member starts with a digit" in re.sub(r"\s+", " ", capsys.readouterr().err)


def test_ten_digits_leave_none_to_ask_for():
    with pytest.raises(dl.DolphinError, match="--n must be at most 9, got 10"):
        find_task("member").config_class(n=10).check()
