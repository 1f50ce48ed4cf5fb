"""`dolphin new-task`: what it writes works from the first moment, and overwrites nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from dolphin_tasks import cli
from dolphin_tasks.skeleton import lamps_checks
from dolphin_tasks.training.folder import RunFolder


def test_the_template_holds_what_it_asks_for():
    lamps_checks.test_perfect_perception_gives_perfect_answers()
    lamps_checks.test_every_score_gets_a_gradient()


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    yield tmp_path
    for name in ("night_lights", "test_night_lights"):
        sys.modules.pop(name, None)


def test_a_new_task_trains_reports_and_passes_its_tests(elsewhere, capsys):
    assert cli.main(["new-task", "night_lights"]) == 0
    printed = capsys.readouterr().out
    assert "dolphin train --task night_lights:NightLights" in printed
    source = (elsewhere / "night_lights.py").read_text(encoding="utf-8")
    assert "class NightLights(Task[" in source
    assert "Lamps" not in source.replace("NightLights", "")
    run = ["train", "--task", "night_lights:NightLights", "--epochs", "3", "--out", "runs/first"]
    assert cli.main(run) == 0
    results = RunFolder(Path("runs/first")).read_json("results.json")
    assert results["test_accuracy"] > 0.9
    assert results["perception_accuracy"] > 0.9
    assert cli.main(["report", "runs/first"]) == 0
    page = (elsewhere / "runs" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2  # learning curve and confusions
    assert '<pre class="right">test sample' in page
    assert "result: " in page
    assert "label: " in page
    assert page.count("because\n└─ ") + page.count("because\n├─ ") >= 2  # why the answers
    import test_night_lights  # pyright: ignore

    test_night_lights.test_perfect_perception_gives_perfect_answers()
    test_night_lights.test_every_score_gets_a_gradient()


def test_into_a_folder_and_never_over_a_file(elsewhere, capsys):
    assert cli.main(["new-task", "lights", "--out", "mine"]) == 0
    before = (elsewhere / "mine" / "lights.py").read_text(encoding="utf-8")
    assert cli.main(["new-task", "lights", "--out", "mine"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert (elsewhere / "mine" / "lights.py").read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "needs one name"),
        (["two", "names"], "needs one name"),
        (["no-dash"], "digits and _, such as no_dash"),
        (["class"], "can't be the name of a module"),
        (["Upper"], "can't be the name of a module"),
        (["random"], "a module that is installed"),
        (["dolphin"], "a module that is installed, which dolphin.py would hide"),
        (["lights", "--out"], "--out needs a folder"),
    ],
)
def test_mistakes(arguments, message, elsewhere, capsys):
    assert cli.main(["new-task", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []


def test_help_needs_neither_torch_nor_any_other_package():
    code = (
        "import sys; from dolphin_tasks.cli import main; main(['--help']); main(['--version']);"
        "print([m for m in ('torch', 'numpy', 'rich', 'tyro', 'matplotlib') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
    assert "new-task NAME" in ran.stdout
