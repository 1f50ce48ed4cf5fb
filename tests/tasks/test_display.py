"""What a run shows: lines that fit a terminal, and plots that hide nothing."""

from __future__ import annotations

import io

import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from rich.console import Console

from dolphin_tasks.cli import main
from dolphin_tasks.training import plots
from dolphin_tasks.training.display import Clock, Display, State

LONG = State(10, 10, 1234, 5678, 12.34567, 0.98765, 12345.6, 0.12345, 100.0)


def terminal(width):
    """A display on a terminal of so many columns, and what it writes."""
    display = Display()
    stream = io.StringIO()
    display.console = Console(file=stream, width=width, force_terminal=True, highlight=False)
    return display, stream


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_terminal(width):
    display, stream = terminal(width)
    display.epoch(LONG, "validation 95.45%, perception 98.76%")
    display.line("a line " * 30)
    lines = stream.getvalue().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines)
    assert lines[0].startswith("epoch 10/10")
    assert lines[0].rstrip().endswith("perception 98.76%")


def test_files_get_whole_lines():
    display = Display()
    display.console = Console(file=(stream := io.StringIO()), width=80, highlight=False)
    display.epoch(LONG, "validation 95.45%, perception 98.76%")
    assert len(stream.getvalue().splitlines()) == 1
    assert "symbolic 12.3%" in stream.getvalue()


def test_the_time_left_counts_validation_and_not_the_first_steps():
    clock = Clock()
    times = [0.0]  # the first step is slow
    for step in range(1, 61):
        times.append(times[-1] + (30.0 if step == 1 else 1.0))
    found = [clock.left(step, 100 - step + 20.0, now) for step, now in enumerate(times)]
    assert found[60] == pytest.approx(60.0)  # 40 steps, and validation as long as 20


def test_a_tasks_own_options_stand_first(capsys):
    with pytest.raises(SystemExit):
        main(["train", "pathfinder", "--help"])
    text = capsys.readouterr().out
    places = [text.index(f"--{name} ") for name in ("size", "dashes", "epochs", "batch")]
    assert places == sorted(places)


def test_the_last_percents_have_room():
    axes = Figure().subplots()
    plots.scale_accuracy(axes)
    places = axes.transData.transform([(0, share) for share in (0.0, 0.9, 0.99, 1.0)])[:, 1]
    first, second, third = (places[1:] - places[:-1]).tolist()
    assert min(first, second, third) > 0.15 * (places[3] - places[0])


def test_confusions_have_no_empty_rows(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(plots, "save", lambda figure, path: kept.append(figure))
    confusions = torch.tensor([[0, 0, 0], [0, 8, 2], [0, 1, 9]])
    plots.draw_confusions(confusions, ["zero", "father-in-law", "two"], tmp_path / "c.png")
    (axes,) = kept[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["father-in-law", "two"]
    assert all(label.get_rotation() == 90 for label in axes.get_xticklabels())


def test_the_chosen_epoch_is_marked_and_the_legend_is_outside(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(plots, "save", lambda figure, path: kept.append(figure))
    history = [
        {"epoch": e, "loss": 1.0, "train_accuracy": 0.9, "validation_accuracy": None}
        for e in (1, 2, 3)
    ]
    plots.draw_learning_curve(history, tmp_path / "c.png", 2)
    right = kept[0].axes[1]
    assert any(line.get_label() == "chosen epoch" for line in right.lines)
    assert right.get_legend() is None and len(kept[0].legends) == 1


@pytest.mark.parametrize(("last", "scale"), [(900.0, "linear"), (10.0, "log"), (0.0, "linear")])
def test_steep_losses_have_a_logarithmic_axis(tmp_path, monkeypatch, last, scale):
    kept = []
    monkeypatch.setattr(plots, "save", lambda figure, path: kept.append(figure))
    history = [
        {"epoch": e, "loss": loss, "train_accuracy": 0.9, "validation_accuracy": 0.9}
        for e, loss in ((1, 5000.0), (2, last))
    ]
    plots.draw_learning_curve(history, tmp_path / "c.png", 2)
    assert kept[0].axes[0].get_yscale() == scale
