"""Tasks that are not part of the package, as docs/own-task.md writes them."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from dolphin_tasks import catalogue
from dolphin_tasks.cli import main
from dolphin_tasks.training.config import OptionError
from python_process import run

PAGE = Path(__file__).parents[2] / "docs" / "own-task.md"
OPTIONS = ["--epochs", "2", "--batch", "50", "--lr", "0.02", "--threads", "1", "--device", "cpu"]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The module of the page, in a folder of its own."""
    source = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    (tmp_path / "majority.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "majority", raising=False)
    yield source
    sys.modules.pop("majority", None)


def refused(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 2
    message = capsys.readouterr().err
    assert message.startswith("dolphin: ") and message.count("\n") == 1
    return message


def test_the_task_of_the_page_learns(module, capsys):
    assert main(["train", "--task", "majority:Majority", *OPTIONS, "--out", "run"]) == 0
    results = json.loads(Path("run/results.json").read_text())
    assert results["test_accuracy"] > 0.9
    assert results["perception_accuracy"] is None
    assert results["task"] == "majority:Majority"
    assert not Path("run/samples.png").exists()
    assert main(["eval", "run"]) == 0
    assert main(["report", "run"]) == 0
    assert main(["train", "majority:Majority", "--out", "run", "--resume"]) == 0
    capsys.readouterr()
    assert "given()" in refused(capsys, "predict", "run", "a.png")


def test_own_tasks_have_help(module, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--task=majority:Majority", "--help"])
    assert "--provenance" in capsys.readouterr().out
    assert main(["data", "majority:Majority"]) == 0
    assert "noisy lamps" in capsys.readouterr().out


def test_entry_points(module, monkeypatch):
    entry = EntryPoint("lamps", "majority:Majority", catalogue.GROUP)
    monkeypatch.setattr(
        catalogue, "entry_points", lambda group, name="lamps": [entry] if name == "lamps" else []
    )
    assert catalogue.find_task("lamps").summary.startswith("count lamps")
    with pytest.raises(OptionError, match="lamps; or module:Class"):
        catalogue.find_task("som")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nowhere:Task", "nowhere can't be imported (ModuleNotFoundError"),
        ("majority:Nothing", "no task 'Nothing'"),
        ("majority:LAMPS", "no task 'LAMPS'"),
        ("majority:", "no task ''"),
    ],
)
def test_what_is_not_a_task(module, capsys, place, words):
    assert words in refused(capsys, "train", "--task", place)


def test_a_module_without_a_guard(module, capsys):
    """It would start training when it is imported."""
    before, _, call = module.partition('if __name__ == "__main__":\n')
    unguarded = before + "\n".join(line[4:] for line in call.splitlines())
    Path("majority.py").write_text(unguarded)
    assert "__main__" in refused(capsys, "train", "--task", "majority:Majority")
    Path("majority.py").write_text(before + "raise SystemExit(3)\n")
    assert "ends when it is imported" in refused(capsys, "train", "--task", "majority:Majority")


def test_a_script_without_a_guard_that_needs_processes(tmp_path):
    """Every process that plans images would run the script again."""
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from dolphin_tasks.pathfinder import data, generator\n"
        "data.SHARD = 2\n"
        "from dolphin import DolphinError\n"
        "try:\n"
        "    data.load_plans(generator.design(32, 2), 0, 8, Path(__file__).parent, workers=2)\n"
        "except DolphinError as error:\n"
        "    raise SystemExit(str(error))\n"
    )
    ended = run(script)
    assert ended.code == 1
    assert ended.errors.count("\n") == 1 and "__main__" in ended.errors
