"""docs/comparison.md says what the files in benchmarks/results/peers say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def peers():
    spec = importlib.util.spec_from_file_location("peers", ROOT / "benchmarks" / "peers" / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_hold_what_was_measured(peers):
    page = peers.PAGE.read_text(encoding="utf-8")
    found = peers.results()
    assert peers.with_tables(page, found) == page
    assert set(found) == set(peers.PLACES)
    for table in peers.TABLES:
        assert len(table(found).splitlines()) > 4


def test_a_table_takes_the_place_of_the_one_with_its_heads(peers):
    found = peers.results()
    page = peers.PAGE.read_text(encoding="utf-8")
    row = peers.table_of_learning(found).splitlines()[2]
    assert peers.with_tables(page.replace(row, "| older |"), found) == page
    with pytest.raises(SystemExit, match="no table with the heads"):
        peers.with_tables("an empty page", found)


def test_every_driver_is_there_and_environments_are_ignored(peers):
    for place in peers.PLACES.values():
        assert (peers.HERE / place.script).is_file()
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"/{peers.ENVIRONMENTS.relative_to(ROOT).as_posix()}/" in ignored


def test_the_table_of_klay_holds_what_was_measured():
    pytest.importorskip("klay")
    path = ROOT / "benchmarks" / "against_klay.py"
    spec = importlib.util.spec_from_file_location("against_klay", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.PAGE.read_text(encoding="utf-8")
    assert module.with_table(page, json.loads(module.RESULTS.read_text())) == page
