"""Tasks that are not part of the package, as docs/own-task.md writes them."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from dolphin_tasks import catalogue
from dolphin_tasks.cli import main
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.training.task import Batch
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


@pytest.mark.usefixtures("own_pictures")
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


def test_entry_points(module, monkeypatch, capsys):
    entry = EntryPoint("lamps", "majority:Majority", catalogue.GROUP)
    monkeypatch.setattr(
        catalogue, "entry_points", lambda group, name="lamps": [entry] if name == "lamps" else []
    )
    assert catalogue.find_task("lamps").summary.startswith("count lamps")
    with pytest.raises(OptionError, match="lamps; or module:Class"):
        catalogue.find_task("som")
    assert main(["tasks"]) == 0
    assert "majority:Majority" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "  lamps " in capsys.readouterr().out


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


WRONG = """
from dataclasses import dataclass

import torch
from torch import nn

from dolphin_tasks.training.config import TrainConfig
from dolphin_tasks.training.task import Data, Task, TensorSamples
from majority import Majority

def samples(count):
    return TensorSamples(torch.randn(count, 5, 4), torch.ones(count) > 0)  # tensors as targets

class NoNetwork(Task):
    def data(self): pass
    def program(self, scores): pass

class NoProgram(Majority):
    program = Task.program

class Undecorated(Majority):
    class config_class(TrainConfig):
        lamps: int = 5

class NoOptions(Majority):
    config_class = dict

class NoData(Majority):
    def data(self): return samples(64), samples(5), samples(5)

class Lists(Majority):
    def data(self): return Data([1, 2], samples(5), samples(5), "lists")

class NoTest(Majority):
    def data(self): return Data(samples(64), samples(5), samples(0), "nowhere")

class NoSource(Majority):
    def data(self): return Data(samples(64), samples(5), samples(5), None)

class Arrays(Majority):
    def data(self): return TensorSamples(torch.randn(5, 4).numpy(), [True] * 5)

class NotMade(Majority):
    def network(self): return nn.Linear

class Nothing(Majority):
    def network(self): return nn.Identity()

class Named(nn.Linear):
    def forward(self, x): return {"scores": super().forward(x)}

class Names(Majority):
    def network(self): return Named(4, 2)

class NoResult(Majority):
    def program(self, scores): return scores

class Mean(Majority):
    def losses(self, outputs, batch): return super().losses(outputs, batch).mean()

class Number(Majority):
    def losses(self, outputs, batch): return 3.0

class Constant(Majority):
    def losses(self, outputs, batch): return super().losses(outputs, batch).detach()

class NotANumber(Majority):
    def losses(self, outputs, batch): return super().losses(outputs, batch) * float("nan")

class OneMark(Majority):
    def right(self, answers, batch): return [True]

class Seventh(Majority):
    classes = ("off", "on")
    def perceived(self, outputs, batch):
        read = outputs[0].argmax(2).flatten()
        return read, torch.full_like(read, 7)

class Uneven(Seventh):
    def perceived(self, outputs, batch): return torch.zeros(4).long(), torch.zeros(3).long()

class Groups(Majority):
    group_names = ("dark", "bright")

class Unvalidated(Majority):
    def data(self): return Data(samples(64), samples(0), samples(5), "lamps")
"""


@pytest.fixture
def wrong(module):
    Path("wrong.py").write_text(WRONG)
    yield
    sys.modules.pop("wrong", None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NoNetwork", "NoNetwork has no network(): a task needs data(), network() and program()."),
        ("NoProgram", "NoProgram has no program()"),
        ("Undecorated", "would ignore its option 'lamps': write @dataclass(frozen=True)"),
        ("NoOptions", "NoOptions.config_class must be a dataclass that inherits TrainConfig"),
        ("NoData", "must return Data(train, validation, test, source), got tuple"),
        ("Lists", "the train split is a list, which has no reads(); write TensorSamples("),
        ("NoTest", "there are no test samples in: nowhere."),
        ("NoSource", "the source must be a text, got None"),
        ("Arrays", "must be a tensor, got ndarray; convert them with torch.as_tensor"),
        ("NotMade", "NotMade.network() must return an nn.Module, got the class Linear"),
        ("Nothing", "Nothing.network() has no parameters to train"),
        ("Names", "a tensor or a tuple of tensors, got dict; override read()"),
        ("NoResult", "NoResult.program() must return a Distribution, got Tensor"),
        ("Mean", "Mean.losses() must return one loss per row, of shape (50,), got ()"),
        ("Number", "Number.losses() must return a tensor, got float"),
        ("Constant", "Constant.losses() doesn't depend on the outputs of the network"),
        ("NotANumber", "the loss became nan in epoch 1, step 1. Check losses() for division"),
        ("OneMark", "OneMark.right() must return one mark per row, got 1 for 250 rows"),
        ("Seventh", "Seventh.perceived() returned the class 7, but there are 2 classes"),
        ("Uneven", "as many true classes as readings, got (3,) and (4,)"),
        ("Groups", "Groups has group_names, but no groups()"),
    ],
)
def test_wrong_tasks_are_refused_with_one_sentence(wrong, capsys, name, words):
    options = ["--epochs", "1", "--batch", "50", "--train-samples", "50", "--threads", "1"]
    assert words in refused(capsys, "train", "--task", f"wrong:{name}", *options, "--out", "run")


def test_without_validation_the_last_epoch_counts(wrong, capsys):
    options = [*OPTIONS, "--out", "run"]
    assert main(["train", "--task", "wrong:Unvalidated", *options]) == 0
    results = json.loads(Path("run/results.json").read_text())
    assert results["validation_accuracy"] is None and results["best_epoch"] == 2
    assert "(epoch 2); the program" in capsys.readouterr().out


def test_networks_may_return_lists(wrong):
    task = catalogue.find_task("wrong:Unvalidated")
    several = torch.nn.Identity()
    several.forward = lambda x: [x, x + 1]
    batch = Batch(torch.zeros(2), [])
    assert len(task(task.config_class()).read(several, batch)) == 2


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
