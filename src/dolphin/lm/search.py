"""The search for a model's likeliest answers: token sequences with exact probabilities."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from dolphin.lm.patterns import Progress
from dolphin.lm.reading import Reading
from dolphin.lm.scoring import at_least_single

NEGLIGIBLE = math.log(1e-9)
"""Prefixes that are less likely than this are not followed."""


class Answer(NamedTuple):
    """A token sequence, without its end, and log P(sequence and then an end | prompt)."""

    tokens: tuple[int, ...]
    log_prob: float


@dataclass(frozen=True)
class Node:
    """A prefix of an answer."""

    tokens: tuple[int, ...]
    path: tuple[int, ...]
    """The numbers of the nodes from the root to this one."""
    log_prob: float
    progress: Progress | None = None
    """The state of the pattern, if there is one."""


class Step(NamedTuple):
    """A token that is to follow the node at this place of the frontier."""

    place: int
    token: int
    log_prob: float


class Strategy(Protocol):
    """Which tokens to follow, row by row. A strategy with a larger k follows at least the same."""

    def choose(
        self, log_probs: Tensor, ends: Tensor, frontier: Sequence[Sequence[Node]]
    ) -> list[list[Step]]:
        """The next steps, given log-probabilities of tokens (B, t, V) and of an end (B, t).

        Both are those after the frontier; -inf for ends, and for tokens that can't follow.
        """
        ...


class Beam:
    """Up to k prefixes of each length, chosen so that a wider beam keeps those of a narrower one.

    The j-th place goes to the likeliest remaining continuation of the first j prefixes of the
    frontier. (The k likeliest of all, as in ordinary beam search, may drop what a narrower beam
    would have found.)
    """

    def __init__(self, k: int) -> None:
        self._k = k

    def choose(
        self, log_probs: Tensor, ends: Tensor, frontier: Sequence[Sequence[Node]]
    ) -> list[list[Step]]:
        best = log_probs.topk(min(self._k, log_probs.shape[2]), dim=2)
        values, tokens = best.values.tolist(), best.indices.tolist()
        return [
            self._row(nodes, own_values, own_tokens)
            for nodes, own_values, own_tokens in zip(frontier, values, tokens, strict=True)
        ]

    def _row(
        self, nodes: Sequence[Node], values: list[list[float]], tokens: list[list[int]]
    ) -> list[Step]:
        waiting: list[tuple[float, int, int]] = []
        chosen: list[Step] = []
        for slot in range(self._k if nodes else 0):
            if slot < len(nodes):
                for token, value in zip(tokens[slot], values[slot], strict=True):
                    total = nodes[slot].log_prob + value
                    if total > NEGLIGIBLE:
                        heapq.heappush(waiting, (-total, slot, token))
            if waiting:
                total, place, token = heapq.heappop(waiting)
                chosen.append(Step(place, token, -total))
        return chosen


class Walkers:
    """k walkers per row draw tokens from the model until they draw an end.

    Each has its own generator, seeded with the seed, the row and its number: the walkers of a
    smaller k take the same paths.
    """

    def __init__(self, k: int, rows: int, seed: int) -> None:
        self._dice = [[random.Random(f"{seed}/{row}/{w}") for w in range(k)] for row in range(rows)]
        self._places: list[list[int | None]] = [[0] * k for _ in range(rows)]

    def choose(
        self, log_probs: Tensor, ends: Tensor, frontier: Sequence[Sequence[Node]]
    ) -> list[list[Step]]:
        cumulative = log_probs.double().exp().cumsum(2)
        mass = cumulative[..., -1] + ends.double().exp()  # 1, or less where a pattern rules out
        return [
            self._row(row, nodes, log_probs[row], cumulative[row], mass[row].tolist())
            for row, nodes in enumerate(frontier)
        ]

    def _row(
        self,
        row: int,
        nodes: Sequence[Node],
        log_probs: Tensor,
        cumulative: Tensor,
        mass: list[float],
    ) -> list[Step]:
        steps: dict[tuple[int, int], int] = {}
        chosen: list[Step] = []
        for walker, place in enumerate(self._places[row]):
            if place is None:
                continue
            draw = self._dice[row][walker].random() * mass[place]
            token = int(torch.searchsorted(cumulative[place], draw, right=True))
            if token == cumulative.shape[1]:  # past all tokens that continue: an end
                self._places[row][walker] = None
                continue
            if (place, token) not in steps:
                steps[place, token] = len(chosen)
                total = nodes[place].log_prob + float(log_probs[place, token])
                chosen.append(Step(place, token, total))
            self._places[row][walker] = steps[place, token]
        return chosen


@torch.no_grad()
def search(
    reading: Reading,
    strategy: Strategy,
    ends: Sequence[int],
    depth: int,
    progress: Progress | None = None,
) -> list[list[Answer]]:
    """For each row every sequence of at most `depth` tokens that the strategy visits.

    Each prefix is also a whole answer, if an end follows; so nothing that was computed is lost.
    `progress` is the start of a pattern: only what matches it is found, and prefixes that can't
    match any more are not followed.
    """
    batch = len(reading.logits)
    frontier = [[Node((), (), 0.0, progress)] for _ in range(batch)]
    results: list[list[Answer]] = [[] for _ in range(batch)]
    logits, nodes = reading.logits, 0
    for length in range(depth + 1):
        log_probs, finals = _split(logits, ends)
        if progress is not None:
            _rule_out(log_probs, finals, frontier)
        for row, (own, last) in enumerate(zip(frontier, finals.tolist(), strict=True)):
            results[row] += [
                Answer(n.tokens, n.log_prob + e)
                for n, e in zip(own, last, strict=False)
                if n.progress is None or n.progress.complete
            ]
        if length == depth:
            break
        steps = strategy.choose(log_probs, finals, frontier)
        width = max(map(len, steps))
        if not width:
            break
        frontier = [_grow(own, new, nodes) for own, new in zip(frontier, steps, strict=True)]
        logits = reading.extend(*_tensors(frontier, nodes, width, length + 1, logits.device))
        nodes += width
    return results


def _split(logits: Tensor, ends: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Log-probabilities of tokens that continue, -inf at the ends, and of an end."""
    precise = at_least_single(logits)
    log_probs = precise - precise.logsumexp(2, keepdim=True)  # log_softmax rounds ten times more
    finals = log_probs[..., list(ends)].logsumexp(2)
    log_probs[..., list(ends)] = -torch.inf
    return log_probs, finals


def _rule_out(log_probs: Tensor, finals: Tensor, frontier: Sequence[Sequence[Node]]) -> None:
    """-inf, in place, where a pattern forbids a token or an end."""
    for row, nodes in enumerate(frontier):
        for place, node in enumerate(nodes):
            assert node.progress is not None
            allowed = node.progress.allowed(log_probs.shape[2]).to(log_probs.device)
            log_probs[row, place].masked_fill_(~allowed, -torch.inf)
            if not node.progress.complete:
                finals[row, place] = -torch.inf


def _grow(frontier: Sequence[Node], steps: Sequence[Step], nodes: int) -> list[Node]:
    grown = []
    for number, step in enumerate(steps):
        node = frontier[step.place]
        progress = None if node.progress is None else node.progress.after(step.token)
        path = (*node.path, nodes + number + 1)
        grown.append(Node((*node.tokens, step.token), path, step.log_prob, progress))
    return grown


def _tensors(
    frontier: Sequence[Sequence[Node]], nodes: int, width: int, depth: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Tokens (B, width) and lineages (B, width, depth).

    A row with fewer nodes is padded with nodes that have no children.
    """
    tokens = [[n.tokens[-1] for n in own] + [0] * (width - len(own)) for own in frontier]
    padding = [[nodes + n + 1] + [0] * (depth - 1) for n in range(width)]
    lineage = [[list(n.path) for n in own] + padding[len(own) :] for own in frontier]
    return torch.tensor(tokens, device=device), torch.tensor(lineage, device=device)
