"""Visual Sudoku: programs against enumeration, puzzles against a solver of the tests' own."""

from __future__ import annotations

import itertools
import json
import random
import re

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import dolphin as dl
from dolphin_tasks.catalogue import find_task
from dolphin_tasks.cli import main
from dolphin_tasks.strokes import draw_symbols
from dolphin_tasks.sudoku import boards as bd
from dolphin_tasks.sudoku import data, program, solving, validity
from dolphin_tasks.sudoku import task as board_task
from dolphin_tasks.training import plots
from tiny_cli import blots


def obeys(board, side):
    """The rules, written once more."""
    box = {4: 2, 9: 3}[side]
    for number in range(side):
        row = board[number * side : (number + 1) * side]
        column = board[number::side]
        top, left = number // box * box, number % box * box
        square = [board[(top + r) * side + left + c] for r in range(box) for c in range(box)]
        if not all(len(set(unit)) == side for unit in (row, column, square)):
            return False
    return True


LINES = list(itertools.permutations((1, 2, 3, 4)))
ALL = [
    sum(rows, ())
    for pair in itertools.product(LINES, repeat=2)
    if len({*pair[0][:2], *pair[1][:2]}) == 4
    for rows in ((*pair, *rest) for rest in itertools.product(LINES, repeat=2))
    if obeys(sum(rows, ()), 4)
]


def by_backtracking(puzzle, limit=3):
    """Up to `limit` solutions of a 9×9 puzzle, cell by cell, without any propagation."""
    board, found = list(puzzle), []

    def free(cell):
        row, column = divmod(cell, 9)
        top, left = row // 3 * 3, column // 3 * 3
        taken = {*board[row * 9 : row * 9 + 9], *board[column::9]}
        taken |= {board[(top + r) * 9 + left + c] for r in range(3) for c in range(3)}
        return [digit for digit in range(1, 10) if digit not in taken]

    def search():
        if len(found) == limit:
            return
        blanks = [cell for cell in range(81) if not board[cell]]
        if not blanks:
            found.append(tuple(board))
            return
        cell = min(blanks, key=lambda c: len(free(c)))
        for digit in free(cell):
            board[cell] = digit
            search()
        board[cell] = 0

    search()
    return found


def cells_of(logits, provenance):
    return dl.Distribution.each_from_logits(logits, range(1, 5), provenance=provenance)


def log_weights(logits):
    """log P(board) of all 288 valid boards, (B, 288)."""
    every = torch.tensor(ALL) - 1
    return logits.log_softmax(2).transpose(1, 2)[:, every, torch.arange(16)].sum(2)


# -- 4×4 -------------------------------------------------------------------------------------------


def test_there_are_288_boards():
    assert len(ALL) == 288
    assert sorted(bd.solutions(bd.unknown(4))) == sorted(ALL)
    assert all(bd.is_valid(board) for board in ALL)
    rng = random.Random(0)
    for _ in range(200):
        board = tuple(rng.choices((1, 2, 3, 4), k=16))
        assert bd.is_valid(board) == obeys(board, 4)


@pytest.mark.parametrize("provenance", ["damp", "exact"])
@pytest.mark.parametrize("rows", [1, 5])
def test_validity_is_the_sum_over_all_boards(provenance, rows):
    torch.manual_seed(rows)
    logits = (2 * torch.randn(rows, 16, 4, dtype=torch.float64)).requires_grad_()
    found = program.valid(cells_of(logits, provenance))
    wanted = log_weights(logits).logsumexp(1)
    torch.testing.assert_close(found.log_probs([True])[:, 0], wanted)
    torch.testing.assert_close(found.probs([False])[:, 0], 1 - wanted.exp())
    slopes = [
        torch.autograd.grad(value.sum(), logits)[0]
        for value in (found.log_probs([True]), log_weights(logits).logsumexp(1))
    ]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("provenance", ["exact", "viterbi", dl.TopKProofs(k=1)])
def test_likeliest_valid_board(provenance):
    torch.manual_seed(0)
    logits = (2 * torch.randn(6, 16, 4)).requires_grad_()
    cells = cells_of(logits, provenance)
    found = dl.most_likely(cells, program.valid(cells), [True] * 6)
    assert found == [ALL[place] for place in log_weights(logits).argmax(1).tolist()]
    assert len(validity.likeliest_boards(logits.detach())) == 6


def test_spoilt_boards_are_invalid():
    rng = random.Random(0)
    boards = [data.spoilt(bd.random_board(4, rng), rng) for _ in range(100)]
    assert not any(obeys(board, 4) for board in boards)
    assert len(set(boards)) > 50


def test_naming_and_auroc():
    true = torch.arange(40) % 4
    names = torch.tensor([2, 0, 3, 1])
    assert torch.equal(validity.naming(names.argsort()[true], true), names)
    assert (
        validity.auroc(torch.tensor([0.1, 0.7, 0.8, 0.9]), torch.tensor([0, 1, 0, 1]) > 0) == 0.75
    )


# -- 9×9 -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def puzzles():
    """Forty puzzles, four of them made from scratch."""
    images, labels = torch.zeros(100, 28, 28, dtype=torch.uint8), torch.arange(100) % 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "COPIES", 10)
        return data.puzzles(40, (images, labels), seed=2)


def test_puzzles_have_one_solution(puzzles):
    boards, given = puzzles.digits.tolist(), puzzles.given
    assert all(obeys(board, 9) for board in boards)
    assert len(set(map(tuple, boards))) == 40
    low, high = data.GIVENS
    assert bool(((given.sum(1) >= low) & (given.sum(1) <= high)).all())
    for row in range(0, 40, 4):
        puzzle = torch.where(given[row], puzzles.digits[row], 0).tolist()
        assert by_backtracking(puzzle) == [tuple(boards[row])]


def test_solutions_are_those_of_the_other_solver(puzzles):
    """With a few given digits less there are several, and with a wrong one there is none."""
    rng = random.Random(0)
    for row in range(4):
        puzzle = torch.where(puzzles.given[row], puzzles.digits[row], 0).tolist()
        for cell in rng.sample([c for c in range(81) if puzzle[c]], 4):
            puzzle[cell] = 0
        mine = list(itertools.islice(bd.solutions(bd.candidates_of(puzzle)), 200))
        assert set(mine) == set(by_backtracking(puzzle, limit=200))
        full = list(puzzles.digits[row].tolist())
        full[0] = full[0] % 9 + 1
        assert bd.solve(bd.candidates_of(full)) is None
        assert bd.only_solution(bd.unknown(9)) is None


def test_propagation_keeps_what_is_possible(puzzles):
    for row in range(10):
        puzzle = torch.where(puzzles.given[row], puzzles.digits[row], 0).tolist()
        left = bd.candidates_of(puzzle)
        assert all(bd.allows(left, cell, d) for cell, d in enumerate(puzzles.digits[row].tolist()))


@pytest.mark.parametrize("provenance", ["damp", "exact"])
def test_the_loss_is_the_sum_over_all_completions(puzzles, provenance):
    """The label has no digit of a cell with an image; several completions are common."""
    torch.manual_seed(0)
    batch = puzzles.batch(torch.arange(0, 40, 3))
    logits = torch.randn(14, 81, 9, dtype=torch.float64).requires_grad_()
    wanted, several = [], 0
    for row, logs in enumerate(logits.log_softmax(2)):
        label = batch.digits[row].where(~batch.given[row], 0).tolist()
        ways = by_backtracking(label, limit=50)
        several += len(ways) > 1
        cells = batch.given[row].nonzero().flatten()
        each = [logs[cells, torch.tensor(way)[cells] - 1].sum() for way in ways]
        wanted.append(torch.stack(each).logsumexp(0))
    assert several
    with dl.using(provenance):
        found = solving.completed(logits.log_softmax(2), batch)
    torch.testing.assert_close(found, torch.stack(wanted))
    slopes = [torch.autograd.grad(v.sum(), logits)[0] for v in (found, torch.stack(wanted))]
    torch.testing.assert_close(*slopes)
    assert bool((slopes[0].abs().sum(2) > 0)[batch.given].all())


def test_misread_digits_are_found(puzzles):
    """Three given digits of each puzzle are read as another one, the truth as second best."""
    torch.manual_seed(0)
    batch = puzzles.batch(torch.arange(12))
    logits = 6.0 * F.one_hot(batch.digits - 1, 9).float() + torch.rand(12, 81, 9)
    for row in range(12):
        cells = batch.given[row].nonzero().flatten()
        for cell in cells[torch.randperm(len(cells))[:3]]:
            logits[row, cell, batch.digits[row, cell] % 9] += 7.5
    read = logits.argmax(2) + 1
    assert (read != batch.digits)[batch.given].sum() == 36
    answers = program.read_puzzles(logits.log_softmax(2), batch.given)
    right = [
        answer == tuple(board) for answer, board in zip(answers, batch.digits.tolist(), strict=True)
    ]
    assert sum(right) >= 11
    assert all(answer is not None and obeys(answer, 9) for answer in answers)


def test_a_board_that_cannot_be_read_has_no_answer():
    """Two certain ones in a row."""
    given = torch.zeros(1, 81, dtype=torch.bool)
    given[0, :2] = True
    logits = torch.full((1, 81, 9), -torch.inf)
    logits[..., 0] = 0.0
    assert program.read_puzzles(logits, given) == [None]


# -- for the trainer -------------------------------------------------------------------------------


def example(name, puzzles):
    task = find_task(name)(find_task(name).config_class())
    if name == "sudoku-9":
        return task, puzzles.batch(torch.arange(6))
    images, labels = torch.zeros(100, 28, 28, dtype=torch.uint8), torch.arange(100) % 10
    return task, data.validity_boards(6, (images, labels), seed=1).batch(torch.arange(6))


@pytest.mark.parametrize("name", ["sudoku", "sudoku-9"])
def test_perfect_perception_gives_perfect_answers(name, puzzles):
    task, batch = example(name, puzzles)
    outputs = (40 * F.one_hot(batch.digits - 1, len(task.classes)).float(),)
    answers = task.answers(outputs, batch)
    assert all(task.right(answers, batch))
    assert all(task.right(task.guesses(outputs, batch), batch))
    assert task.losses(outputs, batch).max() < 1e-3
    read, true = task.perceived(outputs, batch)
    assert torch.equal(read, true)
    if name == "sudoku":
        assert answers == [True, False] * 3
        renamed = (outputs[0].roll(1, 2),)  # labels can't tell what digits are called
        assert task.answers(renamed, batch) == answers
        assert torch.equal(*task.perceived(renamed, batch))


@pytest.mark.parametrize("name", ["sudoku", "sudoku-9"])
@pytest.mark.parametrize("lean", [2.0, 0.0])
def test_every_cell_gets_a_gradient(name, lean, puzzles):
    task, batch = example(name, puzzles)
    right = F.one_hot(batch.digits - 1, len(task.classes)).float()
    outputs = (lean * right + 0.1 * torch.randn_like(right)).requires_grad_()
    losses = task.losses((outputs,), batch)
    assert losses.shape == (6,)
    losses.sum().backward()
    assert outputs.grad.isfinite().all()
    given = outputs.grad.abs().sum(2) > 0
    wanted = batch.given & torch.tensor(batch.valid)[:, None] if lean == 0 else batch.given
    assert bool(given[wanted].all())  # a board that can't be valid yet says little


@pytest.mark.parametrize(
    ("name", "more"), [("sudoku", "auroc"), ("sudoku-9", "boards_read_without_mistake")]
)
@pytest.mark.usefixtures("own_pictures")
def test_it_trains(name, more, tmp_path, monkeypatch):
    monkeypatch.setattr(board_task, "find_digits", blots)
    sizes = ["--boards", "16", "--validation-boards", "4", "--test-boards", "4", "--batch", "8"]
    assert main(["train", name, *sizes, "--epochs", "1", "--out", str(tmp_path / "run")]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert 0 <= results[more] <= 1
    assert (tmp_path / "run" / "samples.png").read_bytes().startswith(b"\x89PNG")


def test_predict_tells_about_a_board(tmp_path, monkeypatch, capsys):
    from PIL import Image

    monkeypatch.setattr(board_task, "find_digits", blots)
    monkeypatch.setattr(plots, "draw_run", lambda *given: None)  # as above
    sizes = ["--boards", "8", "--validation-boards", "2", "--test-boards", "2", "--epochs", "1"]
    run = str(tmp_path / "run")
    assert main(["train", "sudoku", *sizes, "--out", run]) == 0
    names = []
    for cell, image in enumerate(draw_symbols(torch.arange(16) % 4 + 1, 28, seed=0)):
        names.append(str(tmp_path / f"{cell}.png"))
        Image.fromarray(255 - image.numpy()).save(names[-1])
    capsys.readouterr()
    assert main(["predict", run, *names]) == 0
    printed = capsys.readouterr().out
    assert "valid with probability" in printed
    likeliest = re.findall(r"^\s*\d{4}\s+(\d{4})\s*$", printed, flags=re.MULTILINE)
    assert obeys([int(digit) for digit in "".join(likeliest)], 4)
    assert main(["predict", run, *names[:15]]) == 2
    assert "a 4×4 board has 16 digits, the pictures show 15" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sudoku", {"boards": 1}, "--boards must be at least 2, got 1."),
        ("sudoku-9", {"beam": 0}, "--beam must be at least 1, got 0."),
        ("sudoku-9", {"loss": "bce"}, "--loss must be nll"),
    ],
)
def test_options_are_checked(name, options, message):
    with pytest.raises(dl.DolphinError, match=message):
        find_task(name).config_class(**options).check()
