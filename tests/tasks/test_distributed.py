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

CLI = str(Path(__file__).parents[1] / "support" / "tiny_cli.py")
OPTIONS = ["train", "sum", "--n", "2", "--epochs", "1", "--batch", "21", "--validation", "100"]
OPTIONS += ["--train-samples", "22", "--threads", "1", "--device", "cpu"]  # the last batch has one


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(command: list[str], out: Path) -> dict:
    done = subprocess.run(
        [sys.executable, *command, *OPTIONS, "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads((out / "results.json").read_text())


def test_two_processes_are_one(tmp_path):
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launch += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    launch += ["--main_process_port", str(free_port())]
    one = run([CLI], tmp_path / "one")
    two = run([*launch, CLI], tmp_path / "two")
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
