"""What a run shows: lines that fit a terminal, and plots that hide nothing."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from rich.console import Console

from dolphin_tasks.cli import main
from dolphin_tasks.training import plots
from dolphin_tasks.training.display import Clock, Display
from dolphin_tasks.training.table import State

LONG = State(100, 100, 1234, 5678, 12.34567, 0.98765, 12345.6, 0.12345, 4000.0)
ENDED = replace(LONG, validation=0.9545, perception=0.9876, chosen=True)


def terminal(width, height=24):
    """A display on a terminal of this size, and what it writes."""
    display = Display()
    stream = io.StringIO()
    display.console = Console(
        file=stream, width=width, height=height, force_terminal=True, highlight=False
    )
    return display, stream


def screen(written):
    """The lines that a terminal shows after `written`.

    Follows the codes that rich redraws lines with: up, erase, and back to the first column. Colours
    and whether the cursor is visible make no difference.
    """
    lines, row, column = [""], 0, 0
    for code, final, text in re.findall(r"\x1b\[\??([\d;]*)([A-Za-z])|([^\x1b])", written):
        if final == "A":
            row -= int(code or 1)
        elif final == "K":
            lines[row] = ""
        elif text == "\r":
            column = 0
        elif text == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif text:
            lines[row] = lines[row].ljust(column)[:column] + text + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_the_table_fits_the_terminal(width):
    display, stream = terminal(width)
    with display:
        display.doing("loading data")
        display.line("a line " * 30)
        display.show(LONG)
        running = screen(stream.getvalue())
        display.doing("validating")
        display.epoch(ENDED)
        display.show(LONG)
    lines = screen(stream.getvalue())
    assert max(map(len, running + lines)) <= width
    assert "step" in running[-1] and len(running[-1] + "^C^C") <= width  # else Ctrl-C breaks it
    title = next(i for i, line in enumerate(lines) if "epoch" in line)
    assert "100/100" in lines[title + 2] and "95.45% *" in lines[title + 2]
    assert ("98.76%" in lines[title + 2]) == ("perception" in lines[title]) == (width >= 60)
    assert not any(lines[title + 3 :])  # the running epoch is gone


def test_the_table_grows_by_a_row_per_epoch():
    display, stream = terminal(80)
    with display:
        display.doing("loading data")
        assert screen(stream.getvalue())[-1].endswith("loading data")
        for epoch in (1, 2, 3):
            state = replace(LONG, epoch=epoch, epochs=3)
            display.show(state)
            display.doing("validating")
            *_, row, below = screen(stream.getvalue())
            assert row.split()[0] == f"{epoch}/3" and below.endswith("validating")
            display.epoch(replace(state, validation=0.5))
        display.line("stopped")
        assert screen(stream.getvalue())[-2] == "stopped"
    lines = screen(stream.getvalue())
    assert [line.split()[0] for line in lines[2:6]] == ["1/3", "2/3", "3/3", "stopped"]
    assert lines[0].split()[:4] == ["epoch", "loss", "training", "validation"]


def test_a_continued_run_shows_its_earlier_epochs():
    display, stream = terminal(80)
    display.table([replace(ENDED, epoch=n) for n in (1, 2)], perception=False)
    lines = screen(stream.getvalue())
    assert "perception" not in lines[0] and "98.76%" not in lines[2]
    assert [line.split()[0] for line in lines[2:4]] == ["1/100", "2/100"]


def test_files_get_whole_lines():
    display = Display()
    display.console = Console(file=(stream := io.StringIO()), width=80, highlight=False)
    with display:
        display.table([ENDED], perception=True)
        display.doing("validating")
        display.epoch(ENDED)
        display.epoch(LONG)
    first, second = stream.getvalue().splitlines()
    assert first.endswith("symbolic 12.3%  validation 95.45%, perception 98.76%")
    assert second.endswith("symbolic 12.3%  no validation")


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


def test_what_is_right_is_on_the_diagonal(tmp_path, monkeypatch):
    """Also where a class is never read: here 1; 0 is read, but never true."""
    kept = []
    monkeypatch.setattr(plots, "save", lambda figure, path: kept.append(figure))
    confusions = torch.tensor([[0, 0, 0], [4, 0, 6], [0, 0, 9]])
    plots.draw_confusions(confusions, ["0", "1", "2"], tmp_path / "c.png")
    (axes,) = kept[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "0"]


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
