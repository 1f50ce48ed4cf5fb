"""HWF for the trainer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.fetch import DataError
from dolphin_tasks.hwf import data, model, program
from dolphin_tasks.pictures import SheetRow, draw_sheet, pick_rows
from dolphin_tasks.scan import read_pictures
from dolphin_tasks.strokes import NAMES
from dolphin_tasks.training.config import OptionError, TrainConfig
from dolphin_tasks.training.evaluation import EVALUATION_BATCH
from dolphin_tasks.training.task import Data, Outputs, Samples, Task


@dataclass(frozen=True, kw_only=True)
class HwfConfig(TrainConfig):
    """Learn to read handwritten formulas from their values."""

    length: int = 7
    """Maximum length of a formula, an odd number."""
    split: Literal["strict", "shared"] = "strict"
    """Whether test formulas use other handwriting samples than training formulas, or the same."""
    digits: Literal["1-9", "0-9"] = "1-9"
    """Digits of the formulas. The official ones contain no 0, so a network that learns from them
    can't read it; with 0-9, formulas are generated."""
    network: Literal["paper", "better"] = "better"
    """The paper's network (it was trained with --lr 1e-4 --schedule constant), or a deeper and
    cheaper one."""
    augment: bool | None = None
    """Augment training images with small distortions (default: only with the better network)."""
    curriculum: bool = True
    """Begin with formulas of up to 7 symbols, and of 4 more in every epoch."""
    sample: int = 7
    """Formulas kept per row after each symbol."""
    supervision: Literal["result", "symbols"] = "result"
    """Learn from results, or, for comparison, from the label of every symbol."""
    provenance: str = "dtkp-am"
    loss: Literal["nll", "bce"] = "bce"
    lr: float = 3e-3

    @property
    def lowest(self) -> int:
        """The first digit."""
        return int(self.digits[0])

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        if self.length < 1 or self.length % 2 == 0:
            raise OptionError(f"--length must be odd and positive, got {self.length}.")
        self.at_least(1, "sample")

    def label(self) -> str:
        """The main options in a few characters."""
        twin = "-supervised" if self.supervision == "symbols" else ""
        zero = "" if self.lowest else "-zeros"
        return f"{self.length}-{self.split}{zero}-{self.network}{twin}-{super().label()}"


class HwfTask(Task[HwfConfig, data.FormulaBatch]):
    """Learn to read handwritten formulas from their values."""

    name = "hwf"
    summary = "read handwritten formulas, knowing only their values"
    config_class = HwfConfig

    def data(self) -> Data[data.FormulaBatch]:
        config = self.config
        augment = config.network == "better" if config.augment is None else config.augment
        return data.load(
            config.length,
            config.split,
            config.data_dir,
            config.download,
            augment,
            lowest=config.lowest,
        )

    def lesson(self, samples: Samples[data.FormulaBatch], epoch: int) -> Tensor | None:
        longest = 7 + 4 * epoch
        if not self.config.curriculum or longest >= self.config.length:
            return None
        assert isinstance(samples, data.Formulas)
        return (samples.lengths <= longest).nonzero().flatten()

    @classmethod
    def whereabouts(cls) -> str:
        folder = data.find_folder(None)
        if folder is not None:
            return str(folder)
        return "digits of MNIST and drawn operators (no real ink: set DOLPHIN_DATA)"

    def network(self) -> nn.Module:
        made = model.paper_network() if self.config.network == "paper" else model.better_network()
        return made.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def read(self, network: nn.Module, batch: data.FormulaBatch) -> Outputs:
        return (model.read(network, batch.images, batch.lengths),)

    def result(self, outputs: Outputs, batch: data.FormulaBatch) -> dl.Distribution:
        """The distribution of each formula's value."""
        with dl.using(self.provenance):
            symbols = program.readings(outputs[0], self.config.lowest)
        return program.calculate(symbols, batch.lengths, self.config.sample)

    def losses(self, outputs: Outputs, batch: data.FormulaBatch) -> Tensor:
        if self.config.supervision == "symbols":
            return self._symbol_losses(outputs[0], batch)
        loss = self.config.make_loss()
        result = self.result(outputs, batch)
        return loss(result, batch.values, match=program.same, reduction="none")

    def _symbol_losses(self, logits: Tensor, batch: data.FormulaBatch) -> Tensor:
        """Cross-entropy with every symbol's label, summed over each formula."""
        present = _present(batch).to(logits.device)
        each = F.cross_entropy(logits[present], batch.classes.to(logits.device), reduction="none")
        return torch.zeros_like(logits[..., 0]).masked_scatter(present, each).sum(1)

    def answers(self, outputs: Outputs, batch: data.FormulaBatch) -> list[Any]:
        return self.result(outputs, batch).argmax()

    def guesses(self, outputs: Outputs, batch: data.FormulaBatch) -> list[Any]:
        return [program.value(symbols) for symbols in self._likeliest(outputs, batch)]

    def targets(self, batch: data.FormulaBatch) -> Sequence[Any]:
        return batch.values

    def right(self, answers: Sequence[Any], batch: data.FormulaBatch) -> list[bool]:
        return [program.same(a, v) for a, v in zip(answers, batch.values, strict=True)]

    def _likeliest(self, outputs: Outputs, batch: data.FormulaBatch) -> list[list[Any]]:
        """The likeliest symbols of each formula."""
        read, lengths = self._classes(outputs).tolist(), batch.lengths.tolist()
        return [[program.SYMBOLS[c] for c in row[:n]] for row, n in zip(read, lengths, strict=True)]

    @property
    def classes(self) -> Sequence[str]:
        return NAMES

    def perceived(self, outputs: Outputs, batch: data.FormulaBatch) -> tuple[Tensor, Tensor]:
        """Only digits are read at even places, only operators at odd ones, as in the program."""
        return self._classes(outputs).cpu()[_present(batch)], batch.classes

    def _classes(self, outputs: Outputs) -> Tensor:
        return _likeliest_classes(outputs[0], self.config.lowest)

    @torch.no_grad()
    def more_results(
        self, network: nn.Module, samples: Samples[data.FormulaBatch]
    ) -> dict[str, Any]:
        """Symbols that are read correctly among all 14, without using their places."""
        right = total = 0
        count = min(len(samples), self.config.test_samples or len(samples))
        for index in torch.arange(count).split(EVALUATION_BATCH):
            batch = samples.batch(index)
            read = self.read(network, batch)[0].argmax(2).cpu()[_present(batch)]
            right += int((read == batch.classes).sum())
            total += len(read)
        return {"perception_14_way": {"right": right, "total": total}}

    def draw(
        self, outputs: Outputs, answers: Sequence[Any], batch: data.FormulaBatch, path: Path
    ) -> None:
        right = torch.tensor(self.right(answers, batch))
        images = batch.images[:, 0].split(batch.lengths.tolist())
        classes = batch.classes.split(batch.lengths.tolist())
        read = self._classes(outputs).tolist()
        rows = [
            SheetRow(
                images[row],
                [NAMES[c] for c in read[row][: len(images[row])]],
                [NAMES[c] for c in classes[row].tolist()],
                f"{answers[row]:.6g}",
                f"{batch.values[row]:.6g}",
                bool(right[row]),
                [""] * len(images[row]),
            )
            for row in pick_rows(right, 6)
        ]
        draw_sheet(rows, path)

    def looks(self, batch: data.FormulaBatch) -> Tensor:
        return batch.images[:, 0]

    def portray(self, outputs: Outputs, batch: data.FormulaBatch, path: Path) -> bool:
        read = [NAMES[c] for c in self._classes(outputs)[0].tolist()]
        answer = f"{self.answers(outputs, batch)[0]:.6g}"
        draw_sheet([SheetRow.alone(batch.images[:, 0], read, answer, [""] * len(read))], path)
        return True

    def given(self, inputs: Sequence[str]) -> data.FormulaBatch:
        paths = [Path(name) for name in inputs]
        # The ink of HWF is one pixel wide, whatever pen a user writes with.
        images = read_pictures(paths, size=data.SIZE, box=data.SIZE, fine_pen=True)
        if len(images) % 2 == 0:
            raise DataError(
                f"the pictures show {len(images)} symbols; a formula has an odd number, digits and "
                "operators in turn. Leave a gap between symbols."
            )
        unknown = torch.zeros(len(images), dtype=torch.int64)
        return data.FormulaBatch(images, unknown, torch.tensor([len(images)]), [math.nan])

    def describe(self, outputs: Outputs, batch: data.FormulaBatch) -> list[str]:
        result = self.result(outputs, batch)
        answer = result.argmax()[0]
        spelled = " ".join(_spell(symbol) for symbol in self._likeliest(outputs, batch)[0])
        lines = [f"formula: {spelled}", f"result: {answer:.6g}"]
        if self.config.lowest:
            lines.append(
                "note: this network has never seen a 0 and reads one as another digit; train with "
                "--digits 0-9 to read it"
            )
        lines.append("probabilities:")
        lines += [f"  {value:.6g}: {prob:.4f}" for value, prob in result.top(5)[0]]
        if self.provenance.name.startswith("dtkp"):
            lines.append(f"proofs of {answer:.6g}:")
            for proof in result.explain(answer):
                facts = ", ".join(f"{_spell(f.symbol)} ({f.probability:.3f})" for f in proof.facts)
                lines.append(f"  {proof.probability:.4f}: {facts}")
        return lines


def _present(batch: data.FormulaBatch) -> Tensor:
    """(B, greatest length), True where a formula has a symbol."""
    return torch.arange(int(batch.lengths.max())) < batch.lengths[:, None]


def _likeliest_classes(logits: Tensor, lowest: int) -> Tensor:
    """(B, places), the likeliest digit at even and the likeliest operator at odd places."""
    digits = len(program.DIGITS)
    signs = logits[..., digits:].argmax(2) + digits
    odd = torch.arange(logits.shape[1], device=logits.device) % 2 == 1
    return torch.where(odd, signs, logits[..., lowest:digits].argmax(2) + lowest)


def _spell(symbol: Any) -> str:
    return NAMES[program.SYMBOLS.index(symbol)]
