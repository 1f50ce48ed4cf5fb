"""docs/benchmarks.md says what the files in benchmarks/results say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("tyro")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def collect():
    spec = importlib.util.spec_from_file_location("collect", ROOT / "benchmarks" / "collect.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_hold_what_was_measured(collect):
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    runs, speed = collect.table_of_runs(), collect.table_of_speed()
    assert len(runs.splitlines()) > 80 and len(speed.splitlines()) > 10
    assert f"\n\n{runs}\n\n" in page
    assert f"\n\n{speed}\n\n" in page


def test_a_table_takes_the_place_of_the_one_with_its_heads(collect):
    page = "before\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| c |\n|---|\n| 3 |\n\nafter\n"
    new = "| a | b |\n|---|---|\n| 4 | 5 |\n| 6 | 7 |"
    assert collect.replaced(page, new) == page.replace("| 1 | 2 |", "| 4 | 5 |\n| 6 | 7 |")
    with pytest.raises(SystemExit, match="heads"):
        collect.replaced("nothing", new)
