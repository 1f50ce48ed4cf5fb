"""The gallery: every example runs from start to end and draws its picture, on a little data."""

import ast
import importlib.util
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import python_process
from dolphin_tasks import digits, mnist
from two_processes import run_in_two_processes

ROOT = Path(__file__).parent.parent
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
LIST = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
OWN_PROCESS = ("distributed", "lightning_sums")
"""Examples that run in several processes, or change how a process runs."""
QUICKLY = {
    "sum_mnist": ["--n", "3", "--epochs", "2"],
    "clutrr_graphs": ["--steps", "2", "--longest", "2"],
}
"""Options for a run of a moment, where `--steps 2` is not one."""
BELOW = (
    "sum_mnist", "pseudo_labels", "constraint_layer", "hidden_markov", "noisy_sensor", "grid_world",
    "counting", "kinship", "language_model", "consistent_answers", "kinship_model", "sudoku",
    "shortest_path", "learnt_rules", "rule_templates", "clustering", "detection", "scene_questions",
    "expression_trees",
)  # fmt: skip
"""Examples with a test of what they find out."""


def small_mnist(*args: object, **kwargs: object) -> mnist.Mnist:
    """Ten kinds of blots that a network can learn in a moment."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randint(0, 256, (10, 28, 28), generator=generator, dtype=torch.uint8)
    labels = torch.arange(400) % 10
    return mnist.Mnist(kinds[labels], labels, kinds[labels], labels, "a generator")


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_short_and_listed(name):
    source = EXAMPLES[name].read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 80
    first = (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]
    assert re.search(rf"^- \[.+\]\({name}\.py\): {re.escape(first)}$", LIST, re.MULTILINE)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_has_a_picture_on_the_site(name):
    picture = ROOT / "docs" / "images" / "gallery" / f"{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 100_000
    assert len(tomllib.loads(picture.with_name("alt.toml").read_text("utf-8"))[name]) > 40


def test_the_list_names_no_other():
    assert set(re.findall(r"\((\w+)\.py\)", LIST)) == set(EXAMPLES)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example, checks that it drew its picture, and gives the lines that it printed."""
    monkeypatch.setattr(mnist, "load_mnist", small_mnist)
    monkeypatch.setattr(digits, "find_digits", small_mnist)

    def run_example(name, *options):
        picture = tmp_path / f"{name}.png"
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *options, "--picture", str(picture)])
        runpy.run_path(str(EXAMPLES[name]), None, "__main__")
        assert picture.read_bytes().startswith(b"\x89PNG")
        return capsys.readouterr().out.splitlines()

    return run_example


def quick_options(name: str) -> list[str]:
    source = EXAMPLES[name].read_text(encoding="utf-8")
    tiny = ["--tiny"] if '"--tiny"' in source else []
    steps = ["--steps", "2"] if '"--steps"' in source else []
    return QUICKLY.get(name, tiny + steps)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in {*OWN_PROCESS, *BELOW}])
def test_example_runs(name, run, few_stories, monkeypatch):
    monkeypatch.delenv("DOLPHIN_DATA", raising=False)  # a few generated stories will do
    if "any_language_model" in EXAMPLES[name].read_text(encoding="utf-8"):
        pytest.importorskip("transformers")
    assert run(name, *quick_options(name))


def test_lightning_sums(tmp_path, monkeypatch):
    if not importlib.util.find_spec("pytorch_lightning"):
        pytest.skip("pytorch_lightning is not installed")
    picture = tmp_path / "picture.png"
    command = [EXAMPLES["lightning_sums"], "--steps", "3", "--picture", picture]
    monkeypatch.chdir(tmp_path)
    ended = python_process.run(*command)
    assert ended.code == 0, ended.errors
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_distributed(tmp_path):
    picture = tmp_path / "picture.png"
    printed = run_in_two_processes(EXAMPLES["distributed"], "--steps", "3", "--picture", picture)
    found = re.search(r"difference of a weight: (\S+)", printed)
    assert found and float(found[1]) < 1e-5  # what several learn is what one learns
    assert picture.read_bytes().startswith(b"\x89PNG")


# -- what they find out ----------------------------------------------------------------------------


def test_sums(run):
    printed = "\n".join(run("sum_mnist", *QUICKLY["sum_mnist"]))
    assert "MNIST from a generator" in printed
    assert "epoch 2/2  loss" in printed
    assert "sums right" in printed
    assert "digits right" in printed or "of digits right" in printed


def test_pseudo_labels(run):
    before, revised, after = run("pseudo_labels", "--steps", "30")
    assert int(revised.split()[0]) > 0
    percent = [float(line.split()[-1].rstrip("%")) for line in (before, after)]
    assert percent[1] > percent[0] + 5


def test_constraint_layer(run):
    plain, constrained = run("constraint_layer", "--steps", "20")
    assert "100.0% are paths" not in plain
    assert "100.0% are paths" in constrained


def test_hidden_markov(run):
    printed = run("hidden_markov", "--steps", "21")
    assert float(printed[0].split()[-1]) > float(printed[1].split()[-1])


def test_noisy_sensor(run):
    misses, false = (
        float(line.split()[2].rstrip(",")) for line in run("noisy_sensor", "--steps", "60")
    )
    assert abs(misses - 0.2) < 0.1
    assert abs(false - 0.05) < 0.05


def test_grid_world(run):
    before, after, *_ = run("grid_world", "--steps", "20")
    assert float(after.split()[-1]) > 0.5 > float(before.split()[-1])


def test_counting(run):
    shares = [float(line.split()[-2].rstrip("%")) for line in run("counting", "--steps", "40")]
    assert shares[0] > 45  # chance is 25


def test_kinship(run):
    shares = [float(line.split()[-2].rstrip("%")) for line in run("kinship", "--steps", "40")]
    assert shares[0] > 60  # chance is 5


def test_detection(run):
    images, boxes = run("detection", "--steps", "25")
    assert float(images.split("%")[0]) > 85
    assert float(boxes.split("%")[0]) > 60  # chance is 33


def test_scene_questions(run):
    shares = [
        float(line.split()[1].rstrip("%")) for line in run("scene_questions", "--steps", "12")
    ]
    assert len(shares) == 5  # count, exists, query, left, right
    assert min(shares) > 60


def test_sudoku(run):
    *epochs, last = run("sudoku", "--boards", "96", "--epochs", "2")
    assert float(epochs[-1].split()[-1]) < float(epochs[0].split()[-1])
    assert "% of valid ones read right" in last


def test_shortest_path(run):
    *epochs, last = run("shortest_path", "--maps", "128", "--epochs", "2")
    assert float(epochs[-1].split()[-2]) < float(epochs[0].split()[-2])
    assert last.endswith("% of paths are cheapest")


LANGUAGE = {
    "language_model": "P(total is 9)",
    "consistent_answers": "P(consistent)",
    "kinship_model": "composed by the program",
}


@pytest.mark.parametrize("name", LANGUAGE)
def test_examples_with_a_tiny_language_model(name, run, few_stories, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.delenv("DOLPHIN_DATA", raising=False)  # a few generated stories will do
    assert LANGUAGE[name] in "\n".join(run(name, "--tiny"))


def test_learnt_rules(run):
    learnt, right = run("learnt_rules", "--steps", "16")
    assert int(learnt.split()[2]) >= 55
    assert float(right.split()[-1].rstrip("%")) > 80


def test_rule_templates(run):
    lines = run("rule_templates", "--steps", "8")
    assert [line.split(" (")[0] for line in lines] == [
        "grandparent: parent of a parent",
        "grandchild: child of a child",
        "sibling: child of a parent",
        "parent-in-law: parent of a spouse",
    ]


def test_clustering(run):
    first, last, pairs = run("clustering", "--steps", "101")
    assert float(last.split()[-1]) > float(first.split()[-1]) + 0.2
    assert float(pairs.split()[-1].rstrip("%")) > 90


def test_expression_trees(run):
    losses = [float(line.split()[3]) for line in run("expression_trees", "--steps", "60")]
    assert losses[-1] < 0.6 * losses[0]
