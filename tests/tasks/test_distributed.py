"""Two processes with half a batch each learn what one process with the whole batch learns."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("accelerate")

from dolphin_tasks.training import checkpoint
from dolphin_tasks.training.lock import LOCK_NAME, FolderLock

CLI = str(Path(__file__).parents[1] / "support" / "tiny_cli.py")
OPTIONS = ["train", "sum", "--n", "2", "--epochs", "1", "--batch", "21", "--validation", "100"]
OPTIONS += ["--train-samples", "22", "--threads", "1", "--device", "cpu"]  # the last batch has one


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launched() -> list[str]:
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launch += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    return [*launch, "--main_process_port", str(free_port()), CLI]


def start(command: list[str], out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command, *OPTIONS, "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def run(command: list[str], out: Path) -> dict:
    done = start(command, out)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "results.json").read_text())


def test_two_processes_are_one(tmp_path):
    one = run([CLI], tmp_path / "one")
    two = run(launched(), tmp_path / "two")
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
    done = start(launched(), tmp_path)
    lock.release()
    assert done.returncode != 0
    assert "another run is using" in done.stderr
    assert "the first process says why" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == []
