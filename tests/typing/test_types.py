"""The editor is part of the interface: wrong calls are reported, and results have types."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def errors() -> dict[str, dict[int, str]]:
    """What pyright reports of each file, by line."""
    command = [sys.executable, "-m", "pyright", "-p", str(HERE), "--outputjson"]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    found: dict[str, dict[int, str]] = {"right_calls.py": {}, "wrong_calls.py": {}}
    for entry in report["generalDiagnostics"]:
        line = entry["range"]["start"]["line"] + 1
        found[Path(entry["file"]).name][line] = entry["message"]
    return found


def test_right_calls_are_not_reported(errors):
    assert errors["right_calls.py"] == {}


def test_every_wrong_call_is_reported_and_nothing_else(errors):
    lines = (HERE / "wrong_calls.py").read_text(encoding="utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(wrong) > 30
    missed = [lines[number - 1] for number in sorted(wrong - errors["wrong_calls.py"].keys())]
    assert missed == []
    assert errors["wrong_calls.py"].keys() == wrong
