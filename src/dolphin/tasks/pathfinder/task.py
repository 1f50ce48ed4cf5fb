"""PathFinder for the trainer."""

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
from dolphin.tasks.fetch import DataError, cache_dir
from dolphin.tasks.pathfinder import arena, data, drawing, generator, model, program, truth
from dolphin.tasks.pictures import pick_rows
from dolphin.tasks.scan import load_ink
from dolphin.training.config import OptionError, TrainConfig
from dolphin.training.noise import seed_of
from dolphin.training.task import Data, Outputs, Task

TRAIN, VALIDATION, TEST = 100_000, 2_000, 10_000
"""Images of each split, where no other number is asked for."""
PAPER_SIDE = 6
SURE = 1e-6
"""No connection is taken for more certain than this."""
BETTER_SIDES = {32: 16, 128: 20, 256: 20}
"""Blocks along a side: finer grids keep more contours apart, and cost more."""


@dataclass(frozen=True, kw_only=True)
class PathfinderConfig(TrainConfig):
    """Learn to follow dashed contours from whether they join two discs."""

    size: int = 32
    """Pixels of an image: 32, 128 and 256 are drawn as published, others in between."""
    dashes: int = 6
    """Dashes of a contour; 6, 9 and 14 are the subsets of the Long Range Arena."""
    network: Literal["better", "paper", "plain", "plain-paper"] = "better"
    """Local features or the paper's network; plain ones answer themselves, without a program."""
    grid: int | None = None
    """Blocks along a side (default: 6 for the paper's network, else 16 at size 32 and 20 above)."""
    curriculum: bool = False
    """Shorten half of the training contours, and thin out what is around them."""
    data_seed: int = 0
    """Fixes the images; runs with another --seed see the same ones."""
    provenance: str = "viterbi"
    loss: Literal["nll", "bce"] = "bce"
    lr: float = 2e-3

    @property
    def side(self) -> int:
        """Blocks along a side."""
        if self.grid is not None:
            return self.grid
        if self.network in ("paper", "plain-paper"):
            return PAPER_SIDE
        nearest = min(BETTER_SIDES, key=lambda size: abs(size - self.size))
        return BETTER_SIDES[nearest]

    def design(self) -> generator.Design:
        """What images look like."""
        return generator.design(self.size, self.dashes)

    def check(self) -> None:
        """Refuse what makes no sense."""
        super().check()
        try:
            self.design()
        except DataError as error:
            raise OptionError(f"--size {self.size} --dashes {self.dashes}: {error}") from None
        if not 2 <= self.side <= self.size // 2:
            raise OptionError(f"--grid must be 2 to {self.size // 2} blocks, got {self.side}.")
        if self.data_seed < 0:
            raise OptionError(f"--data-seed must not be negative, got {self.data_seed}.")
        if self.loss != "bce":
            raise OptionError("--loss nll needs results that exclude each other; use bce.")

    def label(self) -> str:
        """The main options in a few characters."""
        return f"{self.size}-{self.dashes}-{self.network}-{super().label()}"


class PathfinderTask(Task[PathfinderConfig, data.PathBatch]):
    """Learn to follow dashed contours from whether they join two discs."""

    name = "pathfinder"
    summary = "follow dashed contours, knowing only whether they join two discs"
    config_class = PathfinderConfig
    group_names = ("apart", "joined")

    def __init__(self, config: PathfinderConfig) -> None:
        super().__init__(config)
        self.plain = config.network.startswith("plain")
        self.directed = config.network == "paper"
        self.nodes = range(config.side**2)
        undirected = program.grid_edges(config.side, diagonal=not self.directed)
        back = [(b, a) for a, b in undirected] if self.directed else []
        self.edges = [*undirected, *back]
        self.steps = longest_path(config.design(), config.side)

    # -- data --------------------------------------------------------------------------------------

    def data(self) -> Data[data.PathBatch]:
        config, design = self.config, self.config.design()
        test = config.test_samples or TEST
        counts = (config.train_samples or TRAIN, min(VALIDATION, test), test)
        folder = arena.find_arena(config.size, config.dashes, config.data_dir)
        if folder is not None:
            train, validation, tested = arena.split_arena(folder, config.size, counts)
            return Data(train, validation, tested, f"images in {folder}")
        plans = [
            data.load_plans(design, seed_of(config.data_seed, split), count)
            for split, count in enumerate(counts)
        ]
        return Data(
            data.DrawnSamples(design, plans[0], config.curriculum),
            data.DrawnSamples(design, plans[1]),
            data.DrawnSamples(design, plans[2]),
            f"drawn images of {config.size}×{config.size} pixels, contours of {config.dashes} "
            f"dashes, {design.distractors} distractors, data seed {config.data_seed}",
        )

    @classmethod
    def whereabouts(cls) -> str:
        folder = arena.find_arena(32, 6, None)
        return str(folder) if folder else f"drawn, plans kept in {cache_dir('pathfinder')}"

    def groups(self, batch: data.PathBatch) -> list[int]:
        return batch.labels.long().tolist()

    # -- perception and program --------------------------------------------------------------------

    def network(self) -> nn.Module:
        made = self._network()
        return made.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def _network(self) -> nn.Module:
        size, side, width = self.config.size, self.config.side, 40
        match self.config.network:
            case "paper":
                return model.GlobalNetwork(size, len(self.nodes), len(self.edges))
            case "better":
                return model.LocalNetwork(size, side, self.config.design().radius, width)
            case "plain":
                features = model.local_features(size, side, width)
                guess = model.FirstGuess(side, self.config.design().radius)
                return model.PlainNetwork(features, (width + 2) * side * side, guess)
            case "plain-paper":
                return model.PlainNetwork(model.paper_features(size), 256)

    def read(self, network: nn.Module, batch: data.PathBatch) -> Outputs:
        device = next(network.parameters()).device
        return network(batch.images.to(device, memory_format=torch.channels_last))

    def result(self, outputs: Outputs, provenance: dl.Provenance | None = None) -> dl.Distribution:
        """True: two ends are connected."""
        ends, edges = outputs
        with dl.using(provenance or self.provenance):
            where = dl.Distribution.from_logits(ends, self.nodes, exclusive=False)
            roads = dl.Distribution.from_logits(edges, self.edges, exclusive=False)
        if self.directed:
            return program.connected(where, roads, self.steps)
        return program.connected(where, program.both_ways(roads), self.steps, symmetric=True)

    def losses(self, outputs: Outputs, batch: data.PathBatch) -> Tensor:
        if self.plain:
            labels = batch.labels.to(outputs[0])
            return F.binary_cross_entropy_with_logits(outputs[0][:, 0], labels, reduction="none")
        joined = dl.get_logits(self.result(outputs), symbols=[True])[:, 0]
        apart = torch.log1p(-joined.clamp(max=-SURE).exp())
        return -torch.where(batch.labels.to(joined.device), joined, apart)

    def chances(self, outputs: Outputs) -> Tensor:
        """The probability of a connection, (B,)."""
        if self.plain:
            return outputs[0][:, 0].sigmoid()
        return dl.get_probs(self.result(outputs), symbols=[True])[:, 0]

    def answers(self, outputs: Outputs, batch: data.PathBatch) -> list[Any]:
        return (self.chances(outputs) > 0.5).tolist()

    def right(self, answers: Sequence[Any], batch: data.PathBatch) -> list[bool]:
        return [a == b for a, b in zip(answers, batch.labels.tolist(), strict=True)]

    # -- looking at it -----------------------------------------------------------------------------

    @property
    def classes(self) -> Sequence[str]:
        return ("nothing", "disc")

    def perceived(self, outputs: Outputs, batch: data.PathBatch) -> tuple[Tensor, Tensor]:
        """Blocks with a disc, or that are taken for one; nothing where it isn't known."""
        if self.plain or batch.discs is None:
            nothing = torch.zeros(0, dtype=torch.int64)
            return nothing, nothing
        read = (outputs[0] > 0).long().cpu()
        blocks = truth.end_blocks(batch.discs, self.config.size, self.config.side)
        true = torch.zeros_like(read).scatter_(1, blocks, 1)
        either = (read + true) > 0
        return read[either], true[either]

    def beliefs(self, outputs: Outputs, row: int) -> drawing.Belief:
        """The likeliest path of a row, found as its likeliest proof."""
        if self.plain:
            return drawing.Belief(float(self.chances(outputs)[row]), [], [], self.config.side)
        single = tuple(out[row : row + 1].float() for out in outputs)
        proofs = self.result(single, dl.TopKProofs(k=1)).explain(True)
        facts = [fact.symbol for fact in proofs[0].facts] if proofs else []
        return drawing.Belief(
            float(self.chances(single)[0]),
            [fact for fact in facts if not isinstance(fact, tuple)],
            [fact for fact in facts if isinstance(fact, tuple)],
            self.config.side,
        )

    def draw(
        self, outputs: Outputs, answers: Sequence[Any], batch: data.PathBatch, path: Path
    ) -> None:
        rows = pick_rows(torch.tensor(self.right(answers, batch)), 12)
        drawing.draw_sheet(
            batch.images[rows, 0],
            [self.beliefs(outputs, row) for row in rows],
            batch.labels[rows].tolist(),
            path,
        )

    def portray(self, outputs: Outputs, batch: data.PathBatch, path: Path) -> bool:
        drawing.draw_one(batch.images[0, 0], self.beliefs(outputs, 0), path)
        return True

    def given(self, inputs: Sequence[str]) -> data.PathBatch:
        if len(inputs) != 1:
            raise DataError(f"PathFinder reads one picture at a time, got {len(inputs)}.")
        ink = load_ink(Path(inputs[0]))
        if ink.shape[0] != ink.shape[1]:
            height, width = ink.shape
            raise DataError(f"{inputs[0]} has {width}×{height} pixels; it must be square.")
        size = (self.config.size, self.config.size)
        if ink.shape != size:
            ink = F.interpolate(ink[None, None], size, mode="bilinear", antialias=True)[0, 0]
        return data.PathBatch(ink[None, None], torch.zeros(1, dtype=torch.bool))

    def describe(self, outputs: Outputs, batch: data.PathBatch) -> list[str]:
        belief = self.beliefs(outputs, 0)
        answer = "joined" if belief.chance > 0.5 else "apart"
        lines = [f"result: {answer} (probability of a connection: {belief.chance:.4f})"]
        if not self.plain:
            ends, edges = (out[0].sigmoid().tolist() for out in outputs)
            lines.append("likeliest path (blocks as row, column):")
            lines += [
                f"  end at {_spell(node, belief.side)} ({ends[node]:.3f})" for node in belief.ends
            ]
            lines += [
                f"  {_spell(a, belief.side)} to {_spell(b, belief.side)} "
                f"({edges[self.edges.index((a, b))]:.3f})"
                for a, b in belief.edges
            ]
        return lines


def longest_path(design: generator.Design, side: int) -> int:
    """Steps that are enough for a contour of this design on a grid of so many blocks a side."""
    rounding = 0.5  # dashes start on whole pixels, half a pixel late on average
    length = design.dashes * (design.length + max(design.margins) + rounding)
    return min(side * side, math.ceil(math.sqrt(2) * length * side / design.size) + 2)


def _spell(node: int, side: int) -> str:
    return f"{node // side}, {node % side}"
