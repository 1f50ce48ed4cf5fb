"""How many 9×9 puzzles are solved where their digits are read less well: noise on the test images.

    python benchmarks/sudoku_readings.py runs/sudoku-9 --boards 200

The network of a run of `dolphin train sudoku-9` reads puzzles of test images with more and more
noise. How sure it may be is set again for each amount of noise by one number, the temperature of
the softmax, chosen on validation puzzles by the probability of their labels: digits that were
filled in, as in training. Writes `benchmarks/results/sudoku_readings.json`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dolphin_tasks.sudoku import data, model, solving
from dolphin_tasks.sudoku.program import read_puzzles
from dolphin_tasks.training import checkpoint
from dolphin_tasks.training.folder import RunFolder

RESULTS = Path(__file__).parent / "results" / "sudoku_readings.json"
NOISES = (0.0, 0.2, 0.25, 0.3, 0.35, 0.4)
TEMPERATURES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)


def noisy_logits(network: nn.Module, batch: data.BoardBatch, noise: float) -> Tensor:
    """What the network says about images with normal noise of this deviation."""
    generator = torch.Generator().manual_seed(0)
    images = batch.images + noise * torch.randn(batch.images.shape, generator=generator)
    seen = dataclasses.replace(batch, images=images.clamp(0, 1))
    with torch.no_grad():
        return model.read_cells(network, seen)


def measure(
    network: nn.Module, tuning: data.BoardBatch, test: data.BoardBatch, noise: float, beam: int
) -> dict[str, Any]:
    """Digits and puzzles right under this much noise."""
    logits = noisy_logits(network, tuning, noise)
    likelihoods = [
        float(solving.completed((logits / t).log_softmax(2), tuning).mean()) for t in TEMPERATURES
    ]
    temperature = TEMPERATURES[max(range(len(TEMPERATURES)), key=likelihoods.__getitem__)]
    logs = (noisy_logits(network, test, noise) / temperature).log_softmax(2)
    right = (logs.argmax(2) + 1 == test.digits) | ~test.given
    answers = read_puzzles(logs, test.given, beam)
    boards = [tuple(board) for board in test.digits.tolist()]
    return {
        "noise": noise,
        "temperature": temperature,
        "boards": len(boards),
        "beam": beam,
        "digits_right": float(right[test.given].float().mean()),
        "boards_read_without_mistake": float(right.all(1).float().mean()),
        "solved": sum(a == b for a, b in zip(answers, boards, strict=True)) / len(boards),
        "no_answer": sum(answer is None for answer in answers) / len(boards),
    }


def main() -> None:
    """Measure all amounts of noise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="folder of a run of sudoku-9")
    parser.add_argument("--boards", type=int, default=200, help="test puzzles")
    parser.add_argument("--beam", type=int, default=32, help="boards followed while solving")
    options = parser.parse_args()
    folder = RunFolder(options.run)
    stored = folder.read_fields("config.json", {"task": str, "config": dict})
    config = solving.Sudoku9Config.from_json(stored["config"])
    config = dataclasses.replace(config, boards=1, validation_boards=40, test_boards=options.boards)
    task = solving.Sudoku9Task(config)
    network = task.network()
    weights = checkpoint.load(folder.best, "sudoku-9")["network"]
    checkpoint.load_weights(network, weights, folder.best)
    network.eval()
    splits = task.data()
    tuning = splits.validation.batch(torch.arange(40))
    test = splits.test.batch(torch.arange(options.boards))
    found = []
    for noise in NOISES:
        found.append(measure(network, tuning, test, noise, options.beam))
        print(json.dumps(found[-1]), flush=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
