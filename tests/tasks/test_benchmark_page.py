"""docs/benchmarks.md and docs/pathfinder.md say what the files in benchmarks/results say."""

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
    assert len(collect.table_of_runs().splitlines()) > 60
    for path, tables in collect.PAGES.items():
        for table in tables:
            assert len(table().splitlines()) > 2
            assert f"\n\n{table()}\n\n" in path.read_text() + "\n"


def test_every_table_of_the_page_is_made_of_json(collect):
    path = collect.DOCS / "benchmarks.md"
    page = path.read_text().splitlines()
    heads = [page[n - 1] for n, line in enumerate(page) if line.startswith("|---")]
    assert sorted(heads) == sorted(table().splitlines()[0] for table in collect.PAGES[path])


def test_check_writes_nothing(collect, monkeypatch, tmp_path):
    page = tmp_path / "benchmarks.md"
    path = collect.DOCS / "benchmarks.md"
    monkeypatch.setattr(collect, "PAGES", {page: collect.PAGES[path]})
    monkeypatch.setattr("sys.argv", ["collect.py", "--check"])
    before = path.read_text()
    page.write_text(before)
    stamp = page.stat().st_mtime_ns
    collect.main()
    assert page.stat().st_mtime_ns == stamp
    first = next(line for line in before.splitlines() if line.startswith("| `sum "))
    page.write_text(before.replace(first, first.replace("%", "percent")))
    kept = page.read_text()
    with pytest.raises(SystemExit, match="out of date"):
        collect.main()
    assert page.read_text() == kept and [p.name for p in tmp_path.iterdir()] == ["benchmarks.md"]


def test_a_table_takes_the_place_of_the_one_with_its_heads(collect):
    page = "before\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| c |\n|---|\n| 3 |\n\nafter\n"
    new = "| a | b |\n|---|---|\n| 4 | 5 |\n| 6 | 7 |"
    assert collect.replaced(page, new) == page.replace("| 1 | 2 |", "| 4 | 5 |\n| 6 | 7 |")
    with pytest.raises(SystemExit, match="heads"):
        collect.replaced("nothing", new)
