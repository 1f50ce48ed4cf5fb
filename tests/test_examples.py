"""Every example runs from start to end, on a little generated data."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

from dolphin_tasks import mnist

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def small_mnist(*args: object, **kwargs: object) -> mnist.Mnist:
    """Ten kinds of blots that a network can learn in a moment."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randint(0, 256, (10, 28, 28), generator=generator, dtype=torch.uint8)
    labels = torch.arange(400) % 10
    return mnist.Mnist(kinds[labels], labels, kinds[labels], labels, "a generator")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 150


def test_sum_mnist(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "new" / "sum.png"
    monkeypatch.setattr(mnist, "load_mnist", small_mnist)
    monkeypatch.setattr(
        sys, "argv", ["sum_mnist.py", "--n", "3", "--epochs", "2", "--picture", str(picture)]
    )
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(
            str(EXAMPLES[[p.stem for p in EXAMPLES].index("sum_mnist")]), None, "__main__"
        )
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert "MNIST from a generator" in printed
    assert "epoch 2/2  loss" in printed
    assert "sums right" in printed
    assert "digits right" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def run_example(name, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    runpy.run_path(str(EXAMPLES[[p.stem for p in EXAMPLES].index(name)]), None, "__main__")


def test_pseudo_labels(monkeypatch, capsys):
    run_example("pseudo_labels", monkeypatch, "--steps", "30")
    before, revised, after = capsys.readouterr().out.splitlines()
    assert int(revised.split()[0]) > 0
    percent = [float(line.split()[-1].rstrip("%")) for line in (before, after)]
    assert percent[1] > percent[0] + 5


def test_constraint_layer(monkeypatch, capsys):
    run_example("constraint_layer", monkeypatch, "--steps", "20")
    plain, constrained = capsys.readouterr().out.splitlines()
    assert "100.0% are paths" not in plain
    assert "100.0% are paths" in constrained


def test_hidden_markov(monkeypatch, capsys, tmp_path):
    picture = tmp_path / "weather.png"
    run_example("hidden_markov", monkeypatch, "--steps", "21", "--picture", str(picture))
    printed = capsys.readouterr().out.splitlines()
    assert float(printed[0].split()[-1]) > float(printed[1].split()[-1])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_noisy_sensor(monkeypatch, capsys):
    run_example("noisy_sensor", monkeypatch, "--steps", "60")
    misses, false = (
        float(line.split()[2].rstrip(",")) for line in capsys.readouterr().out.splitlines()
    )
    assert abs(misses - 0.2) < 0.1
    assert abs(false - 0.05) < 0.05


def test_grid_world(monkeypatch, capsys):
    run_example("grid_world", monkeypatch, "--steps", "20")
    before, after, *_ = capsys.readouterr().out.splitlines()
    assert float(after.split()[-1]) > 0.5 > float(before.split()[-1])


LANGUAGE = {
    "language_model": "P(total is 9)",
    "consistent_answers": "P(consistent)",
    "kinship_model": "Tom is Ann's",
}


@pytest.mark.parametrize("name", LANGUAGE)
def test_examples_with_a_tiny_language_model(name, monkeypatch, capsys):
    pytest.importorskip("transformers")
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--tiny"])
    runpy.run_path(str(EXAMPLES[[p.stem for p in EXAMPLES].index(name)]), None, "__main__")
    assert LANGUAGE[name] in capsys.readouterr().out
