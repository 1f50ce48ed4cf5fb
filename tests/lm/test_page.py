"""The page on language models: its code runs, with a tiny model in place of the real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from dolphin.lm import OTHER, LanguageModel
from dolphin_tasks.words.tiny import tiny_language_model

PAGE = Path(__file__).parents[2] / "docs" / "language_models.md"


def test_the_code_of_the_page_runs(monkeypatch):
    monkeypatch.setattr(LanguageModel, "from_package", tiny_language_model)
    names: dict = {}
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    exec(code, names)
    assert names["total"].batch_size == 1
    assert OTHER in names["free"].symbols


def test_the_figures_of_the_page_were_measured():
    import json

    results = PAGE.parents[1] / "benchmarks" / "results" / "language_model.json"
    page = PAGE.read_text("utf-8").replace(",", "")
    for run in json.loads(results.read_text())["runs"]:
        trie, alone = run["trie"], run["each_on_its_own"]
        assert f"| {run['options']} | {trie['tokens']} | {trie['seconds']:.2f} |" in page
        assert f"| {alone['tokens']} | {alone['seconds']:.2g} |" in page
