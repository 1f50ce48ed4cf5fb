"""Two processes with half a batch each learn what one process with the whole batch learns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("tyro")

import tiny_cli
from dolphin_tasks import digits
from dolphin_tasks.cli import main
from dolphin_tasks.training import checkpoint
from dolphin_tasks.training.lock import LOCK_NAME, FolderLock
from two_processes import check, launch

OPTIONS = ["train", "sum", "--n", "2", "--epochs", "1", "--batch", "21", "--validation", "100"]
OPTIONS += ["--train-samples", "22", "--threads", "1", "--device", "cpu"]  # the last batch has one


def results(out: Path) -> dict:
    return json.loads((out / "results.json").read_text())


def test_two_processes_are_one(tmp_path, monkeypatch):
    monkeypatch.setattr(digits, "find_digits", tiny_cli.blots)
    assert main([*OPTIONS, "--out", str(tmp_path / "one")]) == 0
    check(launch(tiny_cli.__file__, *OPTIONS, "--out", tmp_path / "two"))
    one, two = results(tmp_path / "one"), results(tmp_path / "two")
    assert not (tmp_path / "two" / LOCK_NAME).exists()
    assert two["processes"] == 2
    first, second = (
        checkpoint.load(tmp_path / name / "checkpoint.pt", "sum") for name in ("one", "two")
    )
    # Weights are a poor measure: Adam turns rounding in a gradient near zero into a whole step. Its
    # averages of the gradients are linear in them. Rounding moves these by 1e-5, noise that differs
    # between processes or a mean over the wrong number of rows by more than a tenth.
    for place, expected in first["optimizer"]["state"].items():
        found = second["optimizer"]["state"][place]["exp_avg"]
        gap = (found - expected["exp_avg"]).norm() / expected["exp_avg"].norm()
        assert gap < 1e-2, place
    metrics = [json.loads((tmp_path / n / "metrics.jsonl").read_text()) for n in ("one", "two")]
    assert metrics[0]["loss"] == pytest.approx(metrics[1]["loss"], rel=1e-4)
    assert metrics[0]["train_accuracy"] == metrics[1]["train_accuracy"]
    assert two["test_accuracy"] == pytest.approx(one["test_accuracy"], abs=0.02)


def test_all_processes_of_a_second_run_are_refused(tmp_path):
    lock = FolderLock(tmp_path)
    assert lock.take()
    first, second = launch(tiny_cli.__file__, *OPTIONS, "--out", tmp_path)
    lock.release()
    assert first.code != 0 and "another run is using" in first.errors
    assert second.code != 0 and "the first process says why" in second.errors
    assert [path.name for path in tmp_path.iterdir()] == []
