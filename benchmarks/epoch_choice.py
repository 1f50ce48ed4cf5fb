"""How to choose the epoch: what the test set says about epochs that several rules would choose.

    python benchmarks/epoch_choice.py sum --n 5 --epochs 8 --seeds 3 4 5 --runs runs/sum-5

Trains once per seed, and measures every epoch on the test set as well, which no run of `dolphin
train` does. Adds to `benchmarks/results/epoch_choice.json`. With `--runs` the runs are kept in
`runs/sum-5-seed3` and so on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from dolphin_tasks.catalogue import find_task
from dolphin_tasks.training.commands import parse
from dolphin_tasks.training.display import Display
from dolphin_tasks.training.evaluation import evaluate, near_tie
from dolphin_tasks.training.folder import RunFolder
from dolphin_tasks.training.loop import Trainer
from dolphin_tasks.training.processes import Processes

RESULTS = Path(__file__).parent / "results" / "epoch_choice.json"

Epochs = Sequence[dict[str, Any]]


def most_accurate(epochs: Epochs, rows: int) -> int:
    """The epoch with the most right validation answers, the last of those with as many."""
    return max(range(len(epochs)), key=lambda e: (epochs[e]["validation_accuracy"], e))


def likeliest(epochs: Epochs, rows: int) -> int:
    """The epoch with the lowest validation loss."""
    return min(range(len(epochs)), key=lambda e: epochs[e]["validation_loss"])


def last_near_tie(epochs: Epochs, rows: int) -> int:
    """The last epoch that validation can't tell from the most accurate one: what training does."""
    shares = [epoch["validation_accuracy"] for epoch in epochs]
    return max(e for e, share in enumerate(shares) if near_tie(share, max(shares), rows))


RULES: dict[str, Callable[[Epochs, int], int]] = {
    "most right answers": most_accurate,
    "lowest validation loss": likeliest,
    "last near-tie": last_near_tie,
}


def choices(epochs: Epochs, rows: int) -> dict[str, float]:
    """The test accuracy of the epoch that each rule chooses, and of the last one.

    >>> epochs = [{"validation_accuracy": v, "validation_loss": 1 - v, "test_accuracy": t}
    ...           for v, t in ((0.5, 0.6), (0.95, 0.9), (0.94, 0.92))]
    >>> choices(epochs, 100)
    {'most right answers': 0.9, 'lowest validation loss': 0.9, 'last near-tie': 0.92, 'last': 0.92}
    """
    chosen = {name: epochs[rule(epochs, rows)]["test_accuracy"] for name, rule in RULES.items()}
    return {**chosen, "last": epochs[-1]["test_accuracy"]}


class Watched(Trainer):
    """A trainer that looks at the test set after every epoch."""

    def _validate(self) -> None:
        super()._validate()
        line = self.progress.history[-1]
        line["test_accuracy"] = evaluate(
            self.task, self.network, self.data.test, self.processes
        ).accuracy
        line["validation_loss"] = self._loss()

    @torch.no_grad()
    def _loss(self) -> float:
        samples, total = self.data.validation, 0.0
        for index in torch.arange(len(samples)).split(250):
            batch = samples.batch(index)
            total += float(self.task.losses(self.task.read(self.network, batch), batch).sum())
        return total / len(samples)


def watch(name: str, arguments: list[str], seed: int, runs: str | None) -> dict[str, Any]:
    """Train once; every epoch, and the number of validation rows."""
    task = find_task(name)
    config = parse(task.config_class, f"train {name}", arguments)
    kept = nullcontext(f"{runs}-seed{seed}") if runs else tempfile.TemporaryDirectory()
    with kept as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        config = dataclasses.replace(config, seed=seed, out=Path(folder))
        trainer = Watched(task(config), RunFolder(Path(folder)), Display(), Processes("cpu"))
        trainer.run()
    keys = ("epoch", "validation_accuracy", "validation_loss", "test_accuracy")
    epochs = [{key: line[key] for key in keys} for line in trainer.progress.history]
    rows = len(trainer.data.validation)
    command = " ".join([name, *arguments])
    chosen = choices(epochs, rows)
    return {"command": command, "seed": seed, "rows": rows, "chosen": chosen, "epochs": epochs}


def main() -> None:
    """Train, and add what was seen to the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("task")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", help="keep runs in folders with this name and their seed")
    options, arguments = parser.parse_known_args()
    for seed in options.seeds:
        found = watch(options.task, arguments, seed, options.runs)
        known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
        same = (found["command"], seed)
        kept = [each for each in known if (each["command"], each["seed"]) != same]
        RESULTS.write_text(json.dumps([*kept, found], indent=1) + "\n")


if __name__ == "__main__":
    main()
