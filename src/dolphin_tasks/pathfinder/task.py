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
from dolphin import Proof
from dolphin_tasks.fetch import DataError, cache_dir
from dolphin_tasks.pathfinder import (
    arena,
    data,
    distance,
    drawing,
    generator,
    glimpse,
    model,
    program,
    truth,
)
from dolphin_tasks.pictures import pick_rows
from dolphin_tasks.scan import load_ink
from dolphin_tasks.training.config import OptionError, TrainConfig
from dolphin_tasks.training.noise import seed_of
from dolphin_tasks.training.task import Data, Outputs, Samples, Task

TRAIN, VALIDATION, TEST = 100_000, 2_000, 10_000
"""Images of each split, by default."""
PAPER_SIDE = 6
SURE = 1e-6
"""Probabilities of a connection are clamped to this."""
SMALL = 64
"""Images with fewer pixels along a side mostly keep the first guess of their discs."""
BETTER_SIDE = 16
"""Blocks along a side: finer grids separate more contours, and cost more."""


@dataclass(frozen=True, kw_only=True)
class PathfinderConfig(TrainConfig):
    """Learn to follow dashed contours from whether they join two discs."""

    size: int = 32
    """Pixels of an image: 32, 128 and 256 have the published lengths, others lie in between."""
    dashes: int = 6
    """Dashes of a contour; 6, 9 and 14 are the subsets of the Long Range Arena."""
    network: Literal["better", "paper", "plain", "plain-whole", "plain-paper"] = "better"
    """Local features in a window around the discs, or the paper's network. Plain ones have the same
    features and answer themselves, without a program: plain sees the window and the first guess,
    too, plain-whole the whole image."""
    grid: int | None = None
    """Blocks along a side (default: 6 for the paper's network, otherwise 16)."""
    end_share: float | None = None
    """How much the better network may correct its first guess of where the discs are (default: a
    tenth for images below 64 pixels, where made-up discs are learnt first, otherwise 1)."""
    balance: Literal["none", "distance"] = "none"
    """distance: distances between discs have the same distribution for both labels, so they are
    uninformative."""
    curriculum: bool = False
    """Shorten half of the training contours, and remove some distractors."""
    data_seed: int = 0
    """Seed of the images; runs with another --seed use the same images."""
    provenance: str = "viterbi"
    loss: Literal["nll", "bce"] = "bce"
    lr: float = 2e-3

    @property
    def side(self) -> int:
        """Blocks along a side."""
        if self.grid is not None:
            return self.grid
        return PAPER_SIDE if self.network in ("paper", "plain-paper") else BETTER_SIDE

    @property
    def window(self) -> int:
        """Pixels along a side of the network's window."""
        if self.network in ("better", "plain"):
            return glimpse.window_width(self.design(), self.side)
        return self.size

    def design(self) -> generator.Design:
        """What images look like."""
        return generator.design(self.size, self.dashes)

    def check(self) -> None:
        """Refuse invalid options."""
        super().check()
        try:
            self.design()
        except DataError as error:
            raise OptionError(f"--size {self.size} --dashes {self.dashes}: {error}") from None
        if not 2 <= self.side <= self.size // 2:
            raise OptionError(f"--grid must be 2 to {self.size // 2} blocks, got {self.side}.")
        if self.end_share is not None:
            if self.network != "better":
                raise OptionError(
                    "--end-share is for --network better: others have no first guess."
                )
            if self.end_share < 0:
                raise OptionError(f"--end-share must not be negative, got {self.end_share}.")
        if self.data_seed < 0:
            raise OptionError(f"--data-seed must not be negative, got {self.data_seed}.")
        if self.curriculum and self.balance != "none":
            raise OptionError(
                "--curriculum moves discs: it can't be combined with --balance distance."
            )
        if self.loss != "bce":
            raise OptionError("--loss nll needs results that exclude each other; use bce.")

    def label(self) -> str:
        """The main options in a few characters."""
        balance = "" if self.balance == "none" else "balanced-"
        return f"{self.size}-{self.dashes}-{balance}{self.network}-{super().label()}"


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
        shifts = program.STRAIGHT if self.directed else model.LocalNetwork.shifts
        undirected = program.grid_edges(config.side, shifts)
        back = [(b, a) for a, b in undirected] if self.directed else []
        self.edges = [*undirected, *back]
        self.steps = longest_path(config)

    # -- data --------------------------------------------------------------------------------------

    def data(self) -> Data[data.PathBatch]:
        config, design = self.config, self.config.design()
        test = config.test_samples or TEST
        counts = (config.train_samples or TRAIN, min(VALIDATION, test), test)
        folder = self._arena()
        if folder is not None and config.balance != "none":
            raise OptionError(f"--balance is for drawn images, not for those in {folder}.")
        if folder is not None:
            train, validation, tested = arena.split_arena(folder, config.size, counts)
            return Data(train, validation, tested, f"images in {folder}")
        balanced = config.balance == "distance"
        plans = [self._plans(split, count) for split, count in enumerate(counts)]
        self._baseline = distance.accuracy(plans[0], plans[2], design)
        note = ", distances of discs balanced" if balanced else ""
        return Data(
            data.DrawnSamples(design, plans[0], config.curriculum, fixed=balanced),
            data.DrawnSamples(design, plans[1]),
            data.DrawnSamples(design, plans[2]),
            f"drawn images of {config.size}×{config.size} pixels, contours of {config.dashes} "
            f"dashes two margins apart, {design.distractors} distractors, data seed "
            f"{config.data_seed}{note}",
        )

    def data_elsewhere(self, trained_in: Path | None) -> Data[data.PathBatch]:
        """All images of a folder, unless the run was trained on them."""
        config, folder = self.config, self._arena()
        known = arena.find_arena(config.size, config.dashes, trained_in)
        if folder is None or (known is not None and known.resolve() == folder.resolve()):
            return self.data()
        listed = arena.list_arena(folder)[: config.test_samples]
        none, images = (arena.read_pictures(part, config.size) for part in ([], listed))
        return Data(none, none, images, f"all images in {folder}")

    def _arena(self) -> Path | None:
        """The folder of images to read, None where images are drawn."""
        config = self.config
        folder = arena.find_arena(config.size, config.dashes, config.data_dir)
        if folder is None and config.data_dir is not None:
            raise DataError(
                f"{config.data_dir} holds no PathFinder images: neither `imgs` and `metadata`, nor "
                f"`pathfinder{config.size}` with the subset of {config.dashes} dashes."
            )
        return folder

    def _plans(self, split: int, count: int) -> data.Plans:
        config, design = self.config, self.config.design()
        seed = seed_of(config.data_seed, split)
        if config.balance == "none":
            return data.load_plans(design, seed, count)
        pool = data.load_plans(design, seed, math.ceil(distance.POOL * count))
        return distance.balanced(pool, design, count, seed)

    def more_results(self, network: nn.Module, samples: Samples[data.PathBatch]) -> dict[str, Any]:
        if not isinstance(samples, data.DrawnSamples):
            return {}
        return {"distance_accuracy": self._baseline}

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
        config, design, width = self.config, self.config.design(), 40
        stride = max(1, design.length // 2)
        match config.network:
            case "paper":
                return model.GlobalNetwork(config.size, len(self.nodes), len(self.edges))
            case "better":
                share = config.end_share
                if share is None:
                    share = 0.1 if config.size < SMALL else 1.0
                return model.LocalNetwork(
                    config.window, config.side, design.radius, stride, width, share
                )
            case "plain":
                features = model.local_features(config.side, stride, width)
                look = model.Glimpse(config.window, config.side, design.radius)
                return model.PlainNetwork(features, (width + 2) * len(self.nodes), look)
            case "plain-whole":
                features = model.local_features(config.side, stride, width)
                return model.PlainNetwork(features, width * len(self.nodes))
            case "plain-paper":
                return model.PlainNetwork(model.paper_features(config.size), 256)

    def corners(self, images: Tensor) -> Tensor:
        """Where the network looks: the first row and column (B, 2) of its windows."""
        config = self.config
        spots, _ = glimpse.brightest_spots(images, config.design().radius)
        return glimpse.window_corners(spots, config.size, config.window)

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

    def targets(self, batch: data.PathBatch) -> Sequence[Any]:
        return batch.labels.tolist()

    # -- inspection --------------------------------------------------------------------------------

    @property
    def classes(self) -> Sequence[str]:
        return ("nothing", "disc")

    def perceived(self, outputs: Outputs, batch: data.PathBatch) -> tuple[Tensor, Tensor]:
        """Blocks with a disc, or that are read as one; empty where it isn't known."""
        if self.plain or batch.discs is None:
            nothing = torch.zeros(0, dtype=torch.int64)
            return nothing, nothing
        read = (outputs[0] > 0).long().cpu()
        seen = data.window(batch, self.corners(batch.images), self.config.window)
        true = truth.true_ends(seen, self.config.side).long()
        either = (read + true) > 0
        return read[either], true[either]

    def beliefs(self, outputs: Outputs, images: Tensor) -> list[drawing.Belief]:
        """The likeliest path of each image, found as its likeliest proof."""
        chances = self.chances(outputs).tolist()
        if self.plain:
            return [drawing.Belief(chance, [], []) for chance in chances]
        corners = self.corners(images).tolist()
        answers = self.result(tuple(out.float() for out in outputs), dl.TopKProofs(k=1))
        return [
            self._belief(chance, answers.explain(True, row=row), corner)
            for row, (chance, corner) in enumerate(zip(chances, corners, strict=True))
        ]

    def _belief(
        self, chance: float, proofs: Sequence[Proof], corner: Sequence[int]
    ) -> drawing.Belief:
        block, side = self.config.window / self.config.side, self.config.side

        def place(node: int) -> drawing.Place:
            """The middle of a block, in pixels of the image."""
            within = ((x + 0.5) * block - 0.5 for x in divmod(node, side))
            row, column = (start + x for start, x in zip(corner, within, strict=True))
            return row, column

        ends, edges = [], []
        for fact in proofs[0].facts if proofs else ():
            if isinstance(fact.symbol, tuple):
                edges.append((*map(place, fact.symbol), fact.probability))
            else:
                ends.append((place(fact.symbol), fact.probability))
        return drawing.Belief(chance, ends, along(edges, ends[0][0]) if ends else edges)

    def draw(
        self, outputs: Outputs, answers: Sequence[Any], batch: data.PathBatch, path: Path
    ) -> None:
        rows = pick_rows(torch.tensor(self.right(answers, batch)), 12)
        drawing.draw_sheet(
            batch.images[rows, 0],
            self.beliefs(tuple(out[rows] for out in outputs), batch.images[rows]),
            batch.labels[rows].tolist(),
            path,
        )

    def portray(self, outputs: Outputs, batch: data.PathBatch, path: Path) -> bool:
        drawing.draw_one(batch.images[0, 0], self.beliefs(outputs, batch.images)[0], path)
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
        belief = self.beliefs(outputs, batch.images)[0]
        answer = "joined" if belief.chance > 0.5 else "apart"
        lines = [f"result: {answer} (probability of a connection: {belief.chance:.4f})"]
        if not self.plain:
            lines.append("likeliest path (pixels as row, column):")
            lines += [f"  end at {_spell(end)} ({chance:.3f})" for end, chance in belief.ends]
            lines += [
                f"  {_spell(a)} to {_spell(b)} ({chance:.3f})" for a, b, chance in belief.edges
            ]
        return lines


def longest_path(config: PathfinderConfig) -> int:
    """The number of steps that any contour of this design needs on this grid."""
    blocks = glimpse.longest_contour(config.design()) * config.side / config.window
    return min(config.side**2, math.ceil(math.sqrt(2) * blocks) + 2)


def along(edges: Sequence[drawing.Edge], start: drawing.Place) -> list[drawing.Edge]:
    """The edges of a path in order, each directed away from the start.

    >>> along([((0, 1), (0, 2), 0.5), ((0, 1), (0, 0), 0.9)], (0, 0))
    [((0, 0), (0, 1), 0.9), ((0, 1), (0, 2), 0.5)]
    """
    left, gone, here = list(edges), [], start
    while left:
        edge = next((each for each in left if here in each[:2]), left[0])
        left.remove(edge)
        a, b, chance = edge
        gone.append((b, a, chance) if b == here else edge)
        here = gone[-1][1]
    return gone


def _spell(place: drawing.Place) -> str:
    return f"{place[0]:.0f}, {place[1]:.0f}"
