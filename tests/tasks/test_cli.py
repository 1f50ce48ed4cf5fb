"""The command line: help, mistakes of users, and reports."""

from __future__ import annotations

import itertools
import runpy
import sys

import pytest

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from dolphin_tasks import digits, fetch
from dolphin_tasks.catalogue import TASKS
from dolphin_tasks.cli import COMMANDS, main
from dolphin_tasks.training.folder import RunFolder, portable
from tiny_cli import blots


@pytest.fixture(autouse=True)
def sandbox(monkeypatch, tmp_path):
    monkeypatch.setattr(digits, "find_digits", blots)
    monkeypatch.delenv("DOLPHIN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


def status(*arguments: str) -> int:
    """The exit status, whether returned or raised."""
    try:
        return main(list(arguments))
    except SystemExit as ended:
        return int(ended.code or 0)


def test_help_names_every_command(capsys):
    assert status("--help") == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS)
    assert status() == 2
    assert status("--version") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("dolphin ")


@pytest.mark.parametrize("command", ["tasks", "eval", "predict", "report"])
def test_commands_have_help(command, capsys):
    assert status(command, "--help") == 0
    assert f"usage: dolphin {command}" in capsys.readouterr().out


@pytest.mark.parametrize("task", list(TASKS))
def test_tasks_have_help_on_every_option(task, capsys):
    assert status("train", task, "--help") == 0
    printed = capsys.readouterr().out
    for option in ("--epochs", "--provenance", "--seed", "--out", "--resume", "--device"):
        assert option in printed
    assert status("train", "--help") == 0
    assert task in capsys.readouterr().out


def test_help_does_not_mention_none(capsys):
    assert status("train", "sum", "--help") == status("report", "--help") == 0
    printed = capsys.readouterr().out
    assert "None" not in printed and "(default: )" not in printed
    assert "--data-dir PATH" in printed and "(default: 10)" in printed


def test_list_of_tasks_fits_a_terminal(capsys):
    assert status("train", "--help") == 0
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 80
    for name, task in TASKS.items():
        assert any(line.split() == [name, *task.summary.split()] for line in printed)


@pytest.mark.parametrize("command", [[], ["eval"], ["predict"], ["report"], ["new-task"]], ids=str)
def test_help_fits_80_columns(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert status(*command, "--help") == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize("task", ["sum", "hwf", "pathfinder"])
def test_help_breaks_lines_only_where_they_are_full(task, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert status("train", task, "--help") == 0
    printed = capsys.readouterr().out.splitlines()
    indent = max(len(line) - len(line.lstrip()) for line in printed if line.strip())
    for line, after in itertools.pairwise(printed):
        if line[:indent].strip() == after[:indent].strip() == "" and after.strip():
            word = after.split()[0]
            assert len(line.rstrip()) + 1 + len(word) >= 80, (line, after)


def test_tasks_are_listed_with_their_data(capsys, tmp_path, monkeypatch):
    assert status("tasks") == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in TASKS)
    assert "cache" in printed
    (tmp_path / "shared" / "mnist").mkdir(parents=True)
    monkeypatch.setenv("DOLPHIN_DATA", str(tmp_path / "shared"))
    assert status("tasks") == 0
    assert "shared" in capsys.readouterr().out


def test_data(capsys):
    assert status("data", "sum") == 0
    assert "sum: MNIST from a generator" in capsys.readouterr().out


MISTAKES = [
    ([], ["usage"]),
    (["trian", "sum"], ["no command 'trian'", "train"]),
    (["train"], ["needs a task", "sum"]),
    (["train", "--n", "5"], ["starts with a task"]),
    (["train", "som"], ["no task 'som'", "sum"]),
    (["train", "sum", "--banana"], ["--banana"]),
    (["train", "sum", "--n", "five"], ["--n"]),
    (["train", "sum", "--n", "0"], ["--n must be at least 1"]),
    (["train", "sum", "--epochs", "0"], ["--epochs must be greater than 0"]),
    (["train", "sum", "--lr", "-1"], ["--lr must be greater than 0"]),
    (["train", "sum", "--seed", "-1"], ["--seed must not be negative"]),
    (["train", "sum", "--lr", "inf"], ["--lr must be at most 1,000,000,000"]),
    (["train", "sum", "--n", "9" * 25], ["--n must be at most 1,000,000,000"]),
    (["train", "sum", "--batch", "9" * 25], ["--batch must be at most 1,000,000,000"]),
    (["train", "sum", "--k", "3"], ["--k", "damp"]),
    (["train", "sum", "--provenance", "magic"], ["'magic'", "damp"]),
    (["train", "sum", "--loss", "mse"], ["--loss", "nll"]),
    (["train", "sum", "--device", "toaster"], ["--device toaster"]),
    (["train", "sum", "--resume"], ["--resume needs --out"]),
    (["train", "sum", "--n", "301"], ["no training samples"]),
    (["train", "add", "--loss", "bce"], ["bce can't be used with add"]),
    (["train", "hwf", "--length", "8"], ["--length must be odd"]),
    (["train", "hwf", "--data-dir", "nowhere"], ["symbols.npz"]),
    (["eval", "nowhere"], ["no such run folder"]),
    (["eval"], ["run"]),
    (["predict", "nowhere", "a.png"], ["no such run folder"]),
    (["predict", "nowhere"], ["at least one input"]),
    (["report"], ["at least one run"]),
    (["report", "nowhere"], ["nowhere: there is no such run folder"]),
    (["data", "som"], ["no task 'som'"]),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=lambda v: "_".join(v)[:40])
def test_mistakes_are_answered_with_a_message(arguments, words, capsys):
    assert status(*arguments) == 2
    printed = capsys.readouterr()
    text = printed.err + printed.out
    for word in words:
        assert word in text
    assert "Traceback" not in text


def test_messages_break_between_words_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    assert status("data", "som") == 2
    whole = capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert status("data", "som") == 2
    broken = capsys.readouterr().err
    assert broken.split() == whole.split() and max(map(len, whole.splitlines())) > 40
    assert max(map(len, broken.splitlines())) <= 40


def test_an_unfinished_or_damaged_run(tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    assert status("eval", str(run)) == 2
    assert "no config.json" in capsys.readouterr().err
    (run / "config.json").write_text("{")
    assert status("eval", str(run)) == 2
    assert "can't be read" in capsys.readouterr().err


def test_missing_packages_are_named(monkeypatch, capsys):
    monkeypatch.setitem(COMMANDS, "tasks", "dolphin.no_such_part:main")
    assert status("tasks") == 2
    assert "no dolphin.no_such_part" in capsys.readouterr().err
    monkeypatch.setitem(COMMANDS, "tasks", "no_such_package:main")
    assert status("tasks") == 2
    assert "dolphin-nesy[train]" in capsys.readouterr().err


def finished(path, seed, accuracy, **options):
    config = TASKS["sum"].config_class(seed=seed, **options).as_json()
    folder = RunFolder(path)
    shares = dict.fromkeys(
        ("test_accuracy", "perception_accuracy", "validation_accuracy", "symbolic_share"), accuracy
    )
    folder.write_json(
        "results.json",
        {"task": "sum", "epochs": 1, "train_seconds": 10.0, "config": config, **shares},
    )
    folder.write_metrics([{"epoch": 1, "loss": 1.0, "validation_accuracy": accuracy}])


def test_report_puts_seeds_together(tmp_path, capsys):
    runs = tmp_path / "runs"
    finished(runs / "a", 0, 0.9)
    finished(runs / "b", 1, 0.8)
    finished(runs / "c", 0, 0.5, n=10, provenance="dtkp-am")
    (runs / "unfinished").mkdir()
    assert status("report", *(str(path) for path in sorted(runs.iterdir()))) == 0
    printed = capsys.readouterr().out
    table = (runs / "report.md").read_text()
    assert "| sum --n 5 | 0, 1 | 1 | 85.00 ± 7.07 % |" in table
    assert "sum --provenance dtkp-am --n 10" in table
    assert "unfinished has no results yet" in printed
    assert (runs / "report.png").read_bytes().startswith(b"\x89PNG")
    page = (runs / "report.html").read_text(encoding="utf-8")
    assert "<td>85.00 ± 7.07 %</td>" in page
    assert page.count("<h2>") == 3
    assert "No samples: " in page  # there are no weights


def test_numbers_that_cannot_be_meant(capsys):
    assert status("train", "sum", "--k", "0") == 2
    assert capsys.readouterr().err == "dolphin: --k must be greater than 0, got 0.\n"


def test_python_m_dolphin(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["dolphin", "trian"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("dolphin", run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("dolphin: there is no command 'trian'.")


def test_somebody_without_a_home(monkeypatch):
    """As in a container whose user is a number."""

    def unknown(*args: object) -> None:
        raise KeyError("uid not found")

    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert fetch.cache_dir("mnist").parts[-2:] == ("dolphin", "mnist")
    assert portable("digits in /data") == "digits in /data"
