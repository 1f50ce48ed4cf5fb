"""CLUTRR for the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.clutrr import data, drawing, graph_only, model, program
from dolphin_tasks.clutrr.data import GROUPS, Story, StoryBatch
from dolphin_tasks.clutrr.encoders import default_encoder, make_encoder
from dolphin_tasks.clutrr.kinship import RELATIONS, UNKNOWN
from dolphin_tasks.clutrr.passages import find_names
from dolphin_tasks.clutrr.stories import Told
from dolphin_tasks.fetch import DataError
from dolphin_tasks.pictures import pick_rows
from dolphin_tasks.training.config import OptionError, TrainConfig
from dolphin_tasks.training.evaluation import EVALUATION_BATCH
from dolphin_tasks.training.task import Data, Outputs, Samples, Task

NOTHING = "nothing"
PROOFS = dl.TopKProofs(k=1)
"""For explanations: the facts of the likeliest proof."""
SETTLING = ("viterbi", "dtkp-am", "dtkp-wmc", "min-max")
"""Provenances that see when a derivation adds nothing new, and can derive until nothing changes."""


@dataclass(frozen=True, kw_only=True)
class ClutrrConfig(TrainConfig):
    """Learn to read family stories from how two people in them are related."""

    train_chains: Literal[3, 4] = 3
    """Longest chain of relations in training: CLUTRR-3 or CLUTRR-4. Tests go up to 10."""
    encoder: str = field(default_factory=default_encoder)
    """minilm, scratch, or a Hugging Face encoder by name or path (default: minilm if installed)."""
    tune: bool = False
    """Train a pretrained encoder too, with --lr 1e-4 or so. Without it each passage is encoded only
    once, which is many times faster; the encoder `scratch` is always trained."""
    provenance: str = "noisy-or"
    loss: Literal["nll", "bce"] = "bce"
    batch: int = 32
    lr: float = 3e-4
    epochs: int = 6

    def label(self) -> str:
        """The main options in a few characters."""
        encoder = Path(self.encoder).name + ("-tuned" if self.tune else "")
        return f"{self.train_chains}-{encoder}-{super().label()}"


class ClutrrTask(Task[ClutrrConfig, StoryBatch]):
    """Learn to read family stories from how two people in them are related."""

    name = "clutrr"
    summary = "tell how two people are related when no sentence says it"
    config_class = ClutrrConfig
    group_names = GROUPS
    group_title = "chain length, or kind of noise"

    # -- the parts ---------------------------------------------------------------------------------

    def data(self) -> Data[StoryBatch]:
        return data.load(self.config.train_chains, self.config.data_dir)

    @classmethod
    def whereabouts(cls) -> str:
        archive = data.find_archive(None, 3)
        return str(archive or "generated stories (no official ones: set DOLPHIN_DATA)")

    def network(self) -> nn.Module:
        return model.RelationReader(make_encoder(self.config.encoder, self.config.tune))

    def read(self, network: nn.Module, batch: StoryBatch) -> Outputs:
        return (model.read(network, batch),)

    def told(self, outputs: Outputs, batch: StoryBatch) -> dl.Distribution:
        """What the network read, with the default provenance."""
        return program.told_facts(outputs[0].float().softmax(1)[:, : len(RELATIONS)], batch)

    def losses(self, outputs: Outputs, batch: StoryBatch) -> Tensor:
        with dl.using(self.provenance):
            told = self.told(outputs, batch)
        settles = self.provenance.name in SETTLING
        result = program.relation_asked_for(told, None if settles else self.config.train_chains)
        return self.config.make_loss()(result, batch.answers, reduction="none")

    def answers(self, outputs: Outputs, batch: StoryBatch) -> list[Any]:
        with dl.using(program.LIKELIEST):
            told = self.told(outputs, batch)
        return program.likeliest(program.relation_asked_for(told))

    def targets(self, batch: StoryBatch) -> Sequence[Any]:
        return batch.answers

    # -- inspection --------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[str, ...]:
        return (*RELATIONS, NOTHING)

    def perceived(self, outputs: Outputs, batch: StoryBatch) -> tuple[Tensor, Tensor]:
        """Relations that are told, in both directions where it is told who is a woman."""
        told = (batch.truths != data.NOT_TOLD) & ~batch.untold
        return outputs[0].argmax(1).cpu()[told], batch.truths[told]

    def groups(self, batch: StoryBatch) -> list[int]:
        return [story.group for story in batch.stories]

    def more_results(self, network: nn.Module, samples: Samples[StoryBatch]) -> dict[str, Any]:
        """The bound that perfect reading would reach, and directions that no sentence tells."""
        assert isinstance(samples, data.Stories)
        stories = samples.stories[: self.config.test_samples]
        right = graph_only.count_right(stories, graph_only.answer_given(stories))
        return {
            "accuracy_with_given_relations": right,
            "perception_of_untold_directions": self._untold(network, stories),
        }

    @torch.no_grad()
    def _untold(self, network: nn.Module, stories: Sequence[Story]) -> dict[str, int]:
        """How often a relation is guessed right whose gender no sentence tells: half is chance."""
        right = total = 0
        for start in range(0, len(stories), EVALUATION_BATCH):
            batch = StoryBatch.of(stories[start : start + EVALUATION_BATCH])
            asked = (batch.truths != data.NOT_TOLD) & batch.untold
            read = self.read(network, batch)[0].argmax(1).cpu()[asked]
            right += int((read == batch.truths[asked]).sum())
            total += int(asked.sum())
        return {"right": right, "total": total}

    def draw(self, outputs: Outputs, answers: Sequence[Any], batch: StoryBatch, path: Path) -> None:
        right = torch.tensor(self.right(answers, batch), dtype=torch.bool)
        rows = pick_rows(right, 4)
        drawing.draw([self._seen(outputs, batch, row) for row in rows], path)

    def portray(self, outputs: Outputs, batch: StoryBatch, path: Path) -> bool:
        drawing.draw([self._seen(outputs, batch, 0)], path)
        return True

    def _seen(self, outputs: Outputs, batch: StoryBatch, row: int) -> drawing.Seen:
        """What was read in one story, the answer, and the facts that it rests on."""
        mine = batch.rows == row
        alone = StoryBatch.of([batch.stories[row]])
        logits = outputs[0][mine.to(outputs[0].device)]
        with dl.using(PROOFS):
            told = self.told((logits,), alone)
        result = program.relation_asked_for(told)
        answer = program.likeliest(result)[0]
        proofs = [] if answer == UNKNOWN else result.explain(answer)
        return drawing.Seen(
            batch.stories[row],
            answer,
            float(result.prob_of([answer])) if proofs else 0.0,
            {fact.symbol: fact.probability for proof in proofs[:1] for fact in proof.facts},
        )

    def given(self, inputs: Sequence[str]) -> StoryBatch:
        """A story (or a file with one) and two names."""
        if len(inputs) != 3:
            raise OptionError(
                "predict needs a story, or a file with one, and two names: "
                'dolphin predict RUN "[Ann] called her son [Bob]. ..." Ann Eve'
            )
        text, *query = inputs
        if "[" not in text:
            text = _read_story(text)
        names = find_names(text)
        if not names:
            raise DataError("the story names nobody: put names in brackets, as in [Ann].")
        for name in query:
            if name.strip("[]") not in names:
                raise DataError(f"the story doesn't name {name!r}; it names {', '.join(names)}.")
        first, second = (name.strip("[]") for name in query)
        if first == second:
            raise DataError(f"both names are {first!r}: ask about two people.")
        return StoryBatch.of([Story.of(Told(text, (first, second), UNKNOWN))])

    def describe(self, outputs: Outputs, batch: StoryBatch) -> list[str]:
        story = batch.stories[0]
        first, second = story.told.query
        best, relations = outputs[0].float().softmax(1).max(1)
        lines = ["read in the passages:"]
        for mention, prob, relation in zip(
            story.mentions, best.tolist(), relations.tolist(), strict=True
        ):
            a, b = (story.people[person] for person in mention.pair)
            lines.append(f"  {_say(a, self.classes[relation], b)} ({prob:.3f})")
        if not story.mentions:
            lines.append("  no two people are named together")
        seen = self._seen(outputs, batch, 0)
        if seen.answer == UNKNOWN:
            return [*lines, f"answer: {UNKNOWN}, the story does not lead from {first} to {second}"]
        lines.append(f"answer: {_say(first, seen.answer, second)}")
        lines.append(f"likeliest proof ({seen.probability:.4f}):")
        for fact, prob in seen.facts.items():
            a, b = story.people[fact.whose], story.people[fact.who]
            lines.append(f"  {_say(a, fact.relation, b)} ({prob:.3f})")
        return lines


def _read_story(text: str) -> str:
    """The story in a file of this name; the text itself if there is none."""
    try:
        return Path(text).read_text(encoding="utf-8") if Path(text).is_file() else text
    except UnicodeDecodeError as error:
        raise DataError(f"{text} can't be read as a story: {error.reason}.") from None
    except (OSError, ValueError):  # too long for the name of a file
        return text


def _say(first: str, relation: str, second: str) -> str:
    """A fact in words."""
    if relation == NOTHING:
        return f"{first} and {second}: nothing is said"
    return f"{first}'s {relation} is {second}"
