"""Mugen for the trainer.

A sample of the trainer is a group of three clips and three captions. An answer is right if all six
retrievals in the group are: every clip finds its caption, every caption its clip. The shares of
captions and of clips that find their partner (TVR and VTR) are among the results of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.fetch import DataError
from dolphin_tasks.mugen import annotations, data, model, program
from dolphin_tasks.mugen.annotations import Kind
from dolphin_tasks.mugen.captions import read_caption, read_phrases
from dolphin_tasks.mugen.pictures import ClipRow, draw_clips
from dolphin_tasks.mugen.program import ACTIONS, Deeds
from dolphin_tasks.mugen.retrieval import reordered, retrieval_results
from dolphin_tasks.training.config import OptionError, TrainConfig
from dolphin_tasks.training.task import Data, Outputs, Samples, Task

GENERATED = "generated:"
REORDERED = 9
"""Captions with the same actions in another order that a clip's own one is compared with."""
AT_ONCE = 50  # clips that are compared with all captions together, to keep memory flat


@dataclass(frozen=True, kw_only=True)
class MugenConfig(TrainConfig):
    """Learn to see actions in clips from which caption belongs to which clip."""

    train_size: int = 1_000
    """Training clips; they are divided into groups of three."""
    validation_size: int = 300
    """Clips to choose the epoch on."""
    test_size: int = 1_000
    """Clips to test on."""
    world: int = 0
    """Seed of the generated world."""
    captions: Kind = "auto"
    """Which captions of annotated clips to use: generated ones, or those written by people."""
    mirror: bool = True
    """Mirror half of the clips while training: captions are about actions, not directions."""
    batch: int = 4
    """Groups of three clips per step, over all processes together."""
    lr: float = 2e-3

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        for name in ("train_size", "validation_size", "test_size"):
            if getattr(self, name) < data.GROUP:
                flag = name.replace("_", "-")
                raise OptionError(
                    f"--{flag} must be at least {data.GROUP}, a group, got {getattr(self, name)}."
                )
        if self.world < 0:
            raise OptionError(f"--world must not be negative, got {self.world}.")
        if self.loss != "nll":
            raise OptionError(
                "--loss has no effect here: clips and captions of a group are matched by binary "
                "cross-entropy. Leave it out."
            )

    def label(self) -> str:
        """The main options in a few characters."""
        world = f"-world{self.world}" if self.world else ""
        return f"{self.train_size}{world}-{super().label()}"


class MugenTask(Task[MugenConfig, data.GroupBatch]):
    """Learn to see actions in clips from which caption belongs to which clip."""

    name = "mugen"
    summary = "tell which caption belongs to which clip of a platform game"
    config_class = MugenConfig

    def data(self) -> Data[data.GroupBatch]:
        config = self.config
        sizes = (config.train_size, config.validation_size, config.test_size)
        return data.load(sizes, config.world, config.data_dir, config.captions, config.mirror)

    @classmethod
    def whereabouts(cls) -> str:
        folder = annotations.find_folder(None)
        return "a generated platform world" if folder is None else str(folder)

    def network(self) -> nn.Module:
        return model.PairNetwork().to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def read(self, network: nn.Module, batch: data.GroupBatch) -> Outputs:
        device = next(network.parameters()).device
        logits = network(batch.clips.flatten(0, 1).to(device))
        return (logits.unflatten(0, batch.clips.shape[:2]),)

    def scores(self, outputs: Outputs, batch: data.GroupBatch) -> Tensor:
        """(groups, clips, captions), log-probabilities that clips show what captions tell."""
        with dl.using(self.provenance):
            return program.group_scores(outputs[0], batch.deeds)

    def losses(self, outputs: Outputs, batch: data.GroupBatch) -> Tensor:
        return program.matching_losses(self.scores(outputs, batch))

    def answers(self, outputs: Outputs, batch: data.GroupBatch) -> list[Any]:
        """(the caption of each clip, the clip of each caption) of every group."""
        scores = self.scores(outputs, batch)
        texts, videos = scores.argmax(2).tolist(), scores.argmax(1).tolist()
        return [(tuple(t), tuple(v)) for t, v in zip(texts, videos, strict=True)]

    def right(self, answers: Sequence[Any], batch: data.GroupBatch) -> list[bool]:
        own = tuple(range(batch.clips.shape[1]))
        return [answer == (own, own) for answer in answers]

    @property
    def classes(self) -> Sequence[str]:
        return ACTIONS

    def perceived(self, outputs: Outputs, batch: data.GroupBatch) -> tuple[Tensor, Tensor]:
        known = batch.actions != annotations.UNKNOWN
        return outputs[0].argmax(3).cpu()[known], batch.actions[known]

    # -- retrieval ---------------------------------------------------------------------------------

    @torch.no_grad()
    def more_results(self, network: nn.Module, samples: Samples[data.GroupBatch]) -> dict[str, Any]:
        """Both retrievals in groups of three, and among all clips and captions of the test set."""
        assert isinstance(samples, data.Groups)
        network.eval()
        clips = torch.arange(len(samples.captions))
        groups = samples.groups
        if self.config.test_samples is not None:
            groups = groups[: self.config.test_samples]
            clips = groups.flatten()
        deeds = [samples.deeds[clip] for clip in clips.tolist()]
        scores = torch.cat(
            [self._scores_of(network, samples, part, deeds) for part in clips.split(AT_ONCE)]
        )
        place = {clip: row for row, clip in enumerate(clips.tolist())}
        rows = torch.tensor([[place[clip] for clip in group] for group in groups.tolist()])
        squares = scores[rows[:, :, None], rows[:, None, :]]
        own = torch.arange(squares.shape[1])
        return {
            "tvr": float((squares.argmax(1) == own).double().mean()),
            "vtr": float((squares.argmax(2) == own).double().mean()),
            "whole_test_set": {"clips": len(clips), **retrieval_results(scores, deeds)},
            "reordered_captions": self._reordered(network, samples, clips),
        }

    def _reordered(self, network: nn.Module, samples: data.Groups, clips: Tensor) -> dict[str, Any]:
        """Clips that find their caption among others that tell the same actions in another order.

        `chance` is what guessing would get. Clips whose actions have one order only are left out.
        """
        right = total = 0
        chance = 0.0
        for part in clips.split(AT_ONCE):
            logits = network(samples.footage.frames(part).to(next(network.parameters()).device))
            for clip, seen in zip(part.tolist(), logits, strict=True):
                others = reordered(samples.deeds[clip], REORDERED, seed=clip)
                if not others:
                    continue
                with dl.using(self.provenance):
                    scores = program.scores(seen[None], [samples.deeds[clip], *others])[0]
                right += bool(scores[0] > scores[1:].max())
                total += 1
                chance += 1 / (1 + len(others))
        counts = {"right": right, "total": total}
        return {"vtr": counts, "chance": chance / max(1, total)}

    def _scores_of(
        self, network: nn.Module, samples: data.Groups, clips: Tensor, deeds: Sequence[Deeds]
    ) -> Tensor:
        """(clips, captions), a few clips against all captions."""
        logits = network(samples.footage.frames(clips).to(next(network.parameters()).device))
        with dl.using(self.provenance):
            return program.scores(logits, deeds).cpu()

    # -- inspection --------------------------------------------------------------------------------

    def draw(
        self, outputs: Outputs, answers: Sequence[Any], batch: data.GroupBatch, path: Path
    ) -> None:
        right = self.right(answers, batch)
        chosen = [0, next((row for row, good in enumerate(right) if not good), 1)]
        rows = [
            self._clip_row(outputs, answers, batch, group, clip)
            for group in dict.fromkeys(min(group, len(right) - 1) for group in chosen)
            for clip in range(batch.clips.shape[1])
        ]
        draw_clips(rows, path)

    def _clip_row(
        self,
        outputs: Outputs,
        answers: Sequence[Any],
        batch: data.GroupBatch,
        group: int,
        clip: int,
    ) -> ClipRow:
        guess = answers[group][0][clip]
        bands = [("read", _named(outputs[0][group, clip].argmax(1)))]
        if (batch.actions[group, clip] != annotations.UNKNOWN).all():
            bands.append(("true", _named(batch.actions[group, clip])))
        title = batch.captions[group][guess]
        if guess != clip:
            title += f" — wrong: {batch.captions[group][clip]}"
        return ClipRow(batch.clips[group, clip], title, bands, guess == clip)

    def given(self, inputs: Sequence[str]) -> data.GroupBatch:
        """A clip (.npy, a folder of pictures, or `generated:SEED`) and captions, in this order."""
        if not inputs:
            raise DataError("give a clip and captions: CLIP 'Mugen walks left' ...")
        clip, *captions = inputs
        if clip.startswith(GENERATED):
            frames, caption, actions = _generated(clip)
            captions = captions or [caption]
        elif Path(clip).exists():
            frames, actions = annotations.read_clip(Path(clip)), None
        else:
            raise DataError(
                f"{clip}: there is no such clip. Give a .npy file, a folder of .png files, or "
                f"{GENERATED}SEED, then captions."
            )
        if not captions:
            raise DataError(f"{clip}: give at least one caption to compare the clip with.")
        unknown = torch.full((1, 1, data.PAIRS), annotations.UNKNOWN)
        return data.GroupBatch(
            frames[None, None],
            [captions],
            [[read_caption(caption) for caption in captions]],
            unknown if actions is None else actions[None, None],
        )

    def describe(self, outputs: Outputs, batch: data.GroupBatch) -> list[str]:
        scores = self.scores(outputs, batch)[0, 0]
        best = int(scores.argmax())
        read = program.collapse(_named(outputs[0][0, 0].argmax(1)))
        lines = [f"actions seen: {', '.join(read)}", "captions:"]
        for caption, score in zip(batch.captions[0], scores.exp().tolist(), strict=True):
            lines.append(f"  {score:<7.2g}  {caption}")
        lines += [f"result: {batch.captions[0][best]}", "alignment:"]
        return lines + self._alignment_lines(outputs, batch, best)

    def _alignment_lines(self, outputs: Outputs, batch: data.GroupBatch, caption: int) -> list[str]:
        aligned = program.alignment(outputs[0][0, 0], batch.deeds[0][caption])
        if aligned is None:
            return [f"  none: {data.PAIRS} frame pairs can't show this many actions"]
        lines, start = [], 0
        named = _named_phrases(batch.captions[0][caption])
        for (action, phrase), stop in zip(named, _ends([a for a, _ in aligned]), strict=True):
            sure = sum(p for _, p in aligned[start:stop]) / (stop - start)
            lines.append(f"  pairs {start + 1:>2}-{stop:<2}  {action:<8} {sure:4.0%}  {phrase}")
            start = stop
        return lines

    def portray(self, outputs: Outputs, batch: data.GroupBatch, path: Path) -> bool:
        """Draw the clip with what was seen, and the best caption where it would happen."""
        best = int(self.scores(outputs, batch)[0, 0].argmax())
        aligned = program.alignment(outputs[0][0, 0], batch.deeds[0][best])
        bands = [("seen", _named(outputs[0][0, 0].argmax(1)))]
        if aligned is not None:
            bands.append(("caption", [action for action, _ in aligned]))
        draw_clips([ClipRow(batch.clips[0, 0], batch.captions[0][best], bands)], path)
        return True


def _named(actions: Tensor) -> list[str]:
    return [ACTIONS[action] for action in actions.tolist()]


def _ends(actions: Sequence[str]) -> list[int]:
    """Where each run of equal actions ends.

    >>> _ends(["walk", "walk", "jump"])
    [2, 3]
    """
    last = len(actions) - 1
    return [n + 1 for n, a in enumerate(actions) if n == last or actions[n + 1] != a]


def _named_phrases(caption: str) -> list[tuple[str, str]]:
    """Each action of a caption's sequence, with the phrases that name it."""
    phrases: list[tuple[str, str]] = []
    for phrase in read_phrases(caption):
        for action in phrase.actions:
            if phrases and phrases[-1][0] == action:
                before = phrases.pop()[1]
                text = before if before.endswith(phrase.text) else f"{before}, {phrase.text}"
                phrases.append((action, text))
            else:
                phrases.append((action, phrase.text))
    return phrases


def _generated(name: str) -> tuple[Tensor, str, Tensor]:
    """Frames, caption and actions of `generated:SEED`, in a separate world."""
    seed = name.removeprefix(GENERATED)
    if not seed.isdecimal():
        raise DataError(f"{name}: the seed must be a number, as in {GENERATED}7.")
    story = data.tell(int(seed))
    frames = data.Drawn([story]).frames(torch.tensor([0]))[0]
    return frames, story.caption, torch.tensor(story.actions)
