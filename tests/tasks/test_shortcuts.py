"""Half and Even-Odd: which pairs occur, what is left open, and what is reported."""

from __future__ import annotations

import itertools
import json

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
from dolphin_tasks.shortcuts import data
from dolphin_tasks.shortcuts.task import calibration_error
from tiny_cli import blots


def task_of(name, **options):
    task = find_task(name)
    return task(task.config_class(**options))


def example(name):
    """One sample of each pair that training has."""
    task = task_of(name)
    pairs = torch.tensor(data.both_orders(task.pairs))
    return task, digits.DigitBatch(torch.zeros(*pairs.shape, 1, 28, 28), pairs)


@pytest.mark.parametrize(("name", "known", "others"), [("half", 7, 18), ("even-odd", 16, 84)])
def test_samples_are_of_these_pairs_only(name, known, others, monkeypatch):
    """The published numbers: 420, 120 and 60 of each pair, and 60 of each other pair."""
    monkeypatch.setattr(digits, "find_digits", blots)
    task = task_of(name, validation=60)
    splits = task.data()
    pairs = set(data.both_orders(task.pairs))
    assert len(pairs) == known
    used = []
    for rows, count in ((splits.train, 420), (splits.validation, 120), (splits.test, 60)):
        batch = rows.batch(torch.arange(len(rows)))
        seen = [tuple(row) for row in batch.digits.tolist()]
        assert {pair: seen.count(pair) for pair in pairs} == dict.fromkeys(pairs, count)
        assert len(seen) == known * count
        used.append(rows.images)
    assert used[0].data_ptr() != used[1].data_ptr() != used[2].data_ptr()
    unseen = task._unseen.batch(torch.arange(len(task._unseen))).digits
    assert len(unseen) == others * 60
    assert not pairs & {tuple(row) for row in unseen.tolist()}
    assert int(unseen.max()) == task.digits - 1


@pytest.mark.parametrize(("name", "count"), [("half", 3), ("even-odd", 36)])
def test_readings_are_those_that_fit_all_sums(name, count):
    task = task_of(name)
    found = data.readings(task.pairs, task.digits)
    assert len(found) == len(set(found)) == count
    assert tuple(range(task.digits)) in found
    assert all(names[a] + names[b] == a + b for names in found for a, b in task.pairs)
    if task.digits == 5:
        every = itertools.product(range(5), repeat=5)
        fits = [n for n in every if all(n[a] + n[b] == a + b for a, b in task.pairs)]
        assert found == fits


@pytest.mark.parametrize("name", ["half", "even-odd"])
def test_all_readings_that_fit_have_no_loss(name):
    """So nothing in the labels says which one is right: this is the shortcut."""
    task, batch = example(name)
    for names in data.readings(task.pairs, task.digits):
        read = torch.tensor(names)[batch.digits]
        outputs = (40 * F.one_hot(read, task.digits).float(),)
        assert all(task.right(task.answers(outputs, batch), batch))
        assert task.losses(outputs, batch).max() < 1e-3


@pytest.mark.parametrize("name", ["half", "even-odd"])
def test_every_digit_gets_a_gradient(name):
    task, batch = example(name)
    outputs = torch.randn(*batch.digits.shape, task.digits).requires_grad_()
    task.losses((outputs,), batch).sum().backward()
    assert outputs.grad is not None
    assert (outputs.grad.abs().sum(2) > 0).all()


def test_calibration_error_against_bins_by_hand():
    probs = torch.tensor([0.55, 0.58, 0.95, 0.91, 0.72])
    right = [True, False, True, True, False]
    logits = torch.stack([probs, 1 - probs], 1).log()
    labels = torch.tensor([0 if r else 1 for r in right])
    wanted = (abs(1 - 0.55 - 0.58) + abs(2 - 0.95 - 0.91) + abs(0 - 0.72)) / 5
    assert calibration_error(logits, labels) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.usefixtures("own_pictures")
def test_it_trains_and_tells_about_other_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(digits, "find_digits", blots)
    sizes = ["--validation", "60", "--train-samples", "64", "--test-samples", "20"]
    run = tmp_path / "run"
    assert main(["train", "half", "--epochs", "1", *sizes, "--out", str(run)]) == 0
    results = json.loads((run / "results.json").read_text())
    assert results["readings_that_fit"] == 3
    for part in (results, results["other_pairs"]):
        assert 0 <= part["calibration_error"] <= 1
        assert 0 <= part["perception_accuracy"] <= 1


def test_samples_are_pairs():
    with pytest.raises(dl.DolphinError, match="--n must be 2, got 3: samples are pairs"):
        find_task("half").config_class(n=3).check()
