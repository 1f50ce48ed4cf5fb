"""Word problems for the trainer."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.fetch import DataError
from dolphin_tasks.pictures import INK, RIGHT, WRONG, pick_rows
from dolphin_tasks.training.config import OptionError, TrainConfig
from dolphin_tasks.training.noise import Noise
from dolphin_tasks.training.task import Data, Outputs, Samples, Task
from dolphin_tasks.words import model, program
from dolphin_tasks.words.problems import Problem, ProblemBatch, make_problems
from dolphin_tasks.words.program import OPERATIONS

VALIDATION = 24
EVALUATED = 16
"""Problems that are read together where no gradients are kept."""


@dataclass(frozen=True, kw_only=True)
class WordsConfig(TrainConfig):
    """Teach a language model to read word problems from their results."""

    model: str = "smollm2"
    """smollm2 (from its package), tiny (random weights), or a model of Hugging Face."""
    blocks: int = 8
    """Blocks of the model that get adapters, the last ones."""
    rank: int = 8
    """Rank of the adapters."""
    supervision: Literal["result", "calculation"] = "result"
    """Learn from results, or, for comparison, from the calculation behind every problem."""
    training: int = 128
    """Training problems to generate."""
    testing: int = 80
    """Test problems to generate, of templates, names and numbers that training doesn't have."""
    epochs: int = 3
    batch: int = 8
    lr: float = 2e-3

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        self.at_least(1, "blocks", "rank", "training", "testing")

    def label(self) -> str:
        """The main options in a few characters."""
        twin = "-supervised" if self.supervision == "calculation" else ""
        return f"-{Path(self.model).name}{twin}-{super().label()}"


@dataclass(frozen=True)
class Problems:
    """One split."""

    problems: Sequence[Problem]

    def __len__(self) -> int:
        return len(self.problems)

    def reads(self, index: Tensor) -> int:
        return len(index)

    def batch(self, index: Tensor, noise: Noise | None = None) -> ProblemBatch:
        return ProblemBatch([self.problems[i] for i in index.tolist()])


class WordsTask(Task[WordsConfig, ProblemBatch]):
    """Teach a language model to read word problems from their results."""

    name = "words"
    summary = "read word problems with a language model, knowing only results"
    config_class = WordsConfig
    group_names = OPERATIONS
    group_title = "operation"

    # -- the parts ---------------------------------------------------------------------------------

    def data(self) -> Data[ProblemBatch]:
        config = self.config
        problems = make_problems(config.training + VALIDATION, seed=0)
        return Data(
            Problems(problems[VALIDATION:]),
            Problems(problems[:VALIDATION]),
            Problems(make_problems(config.testing, seed=0, held_out=True)),
            "generated problems; test templates, names and numbers are held out",
        )

    @classmethod
    def whereabouts(cls) -> str:
        return "generated problems; the model comes from its package"

    def network(self) -> nn.Module:
        language = model.load_language_model(self.config.model, self.config.download)
        return model.ProblemReader(language, self.config.blocks, self.config.rank)

    def read(self, network: nn.Module, batch: ProblemBatch) -> Outputs:
        texts = [problem.text for problem in batch.problems]
        listed = _listed(batch)
        if torch.is_grad_enabled():
            return (model.read(network, texts, listed),)
        width = max(map(len, listed))
        parts = [
            model.read(network, texts[i : i + EVALUATED], listed[i : i + EVALUATED])
            for i in range(0, len(texts), EVALUATED)
        ]
        padded = [F.pad(part, (0, width - part.shape[1]), value=-torch.inf) for part in parts]
        return (torch.cat(padded),)

    def result(self, outputs: Outputs, batch: ProblemBatch) -> dl.Distribution[Any]:
        """The distribution of each problem's result."""
        with dl.using(self.provenance):
            return program.results(outputs[0], _listed(batch))

    def losses(self, outputs: Outputs, batch: ProblemBatch) -> Tensor:
        if self.config.supervision == "calculation":
            right = [problem.calculation for problem in batch.problems]
            return dl.nll_loss(
                program.read_calculations(outputs[0], _listed(batch)), right, reduction="none"
            )
        result = self.result(outputs, batch)
        return self.config.make_loss()(result, batch.answers, reduction="none")

    def answers(self, outputs: Outputs, batch: ProblemBatch) -> list[Any]:
        return self.result(outputs, batch).argmax()

    def targets(self, batch: ProblemBatch) -> Sequence[Any]:
        return batch.answers

    # -- inspection --------------------------------------------------------------------------------

    @property
    def classes(self) -> Sequence[str]:
        return OPERATIONS

    def _calculations(self, outputs: Outputs, batch: ProblemBatch) -> list[str]:
        """The likeliest calculation of each problem."""
        return program.read_calculations(outputs[0], _listed(batch)).argmax()

    def perceived(self, outputs: Outputs, batch: ProblemBatch) -> tuple[Tensor, Tensor]:
        """The operations; quantities are counted by the answers."""
        read = [_operation(one) for one in self._calculations(outputs, batch)]
        true = [_operation(problem.calculation) for problem in batch.problems]
        return torch.tensor(read), torch.tensor(true)

    def groups(self, batch: ProblemBatch) -> list[int]:
        return [_operation(problem.calculation) for problem in batch.problems]

    def more_results(self, network: nn.Module, samples: Samples[ProblemBatch]) -> dict[str, Any]:
        """The same problems before training, and answered by the model without a program."""
        assert isinstance(samples, Problems) and isinstance(network, model.ProblemReader)
        batch = ProblemBatch(samples.problems[: self.config.test_samples])
        with torch.no_grad(), network.switched_off():
            before = self.right(self.answers(self.read(network, batch), batch), batch)
            alone: list[Any] = []
            for start in range(0, len(batch.problems), EVALUATED):
                some = batch.problems[start : start + EVALUATED]
                alone += model.answer_alone(network, [problem.text for problem in some])
        return {
            "accuracy_before_training": sum(before) / len(before),
            "accuracy_of_the_model_alone": sum(self.right(alone, batch)) / len(alone),
        }

    def draw(
        self, outputs: Outputs, answers: Sequence[Any], batch: ProblemBatch, path: Path
    ) -> None:
        from matplotlib.figure import Figure

        right = torch.tensor(self.right(answers, batch), dtype=torch.bool)
        rows = pick_rows(right, 6)
        read = self._calculations(outputs, batch)
        figure = Figure(figsize=(9.0, 0.9 * len(rows)), dpi=150, facecolor="white")
        for place, row in enumerate(rows):
            problem, height = batch.problems[row], 1 - (place + 0.5) / len(rows)
            text = "\n".join(textwrap.wrap(problem.text, 72))
            figure.text(0.02, height, text, fontsize=9, va="center", color=INK)
            outcome = f"{read[row]} = {answers[row]}"
            outcome += "" if right[row] else f"  ({problem.answer})"
            figure.text(
                0.68,
                height,
                outcome,
                fontsize=10,
                va="center",
                color=RIGHT if right[row] else WRONG,
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)

    def given(self, inputs: Sequence[str]) -> ProblemBatch:
        if len(inputs) != 1:
            raise OptionError(
                'predict needs one problem: dolphin predict RUN "Ann has 7 pears ..."'
            )
        if len(program.numbers_in(inputs[0])) < 2:
            raise DataError("a problem has at least two numbers, written in digits.")
        return ProblemBatch([Problem(inputs[0], Fraction(0), "0+0")])

    def describe(self, outputs: Outputs, batch: ProblemBatch) -> list[str]:
        read = program.read_calculations(outputs[0], _listed(batch))
        result = self.result(outputs, batch)
        lines = ["read:"] + [f"  {one}: {p:.4f}" for one, p in read.top(5)[0]]
        return [*lines, "result:"] + [f"  {value}: {p:.4f}" for value, p in result.top(5)[0]]


def _listed(batch: ProblemBatch) -> list[list[str]]:
    """The calculations that each problem allows."""
    return [program.calculations(program.numbers_in(p.text)) for p in batch.problems]


def _operation(calculation: str) -> int:
    return OPERATIONS.index(program.operation_of(calculation))
