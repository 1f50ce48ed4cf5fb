"""Log-probabilities of whole token sequences and their end, after prompts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dolphin.lm.reading import Reading
from dolphin.lm.trie import Tries


def score(reading: Reading, tries: Tries, ends: Sequence[int]) -> Tensor:
    """log P(sequence and then an end | prompt), (B, N); -inf for padding.

    The probability of a sequence is the product over the edges of its path, each the softmax of
    the logits of the node before, and of its end at the last node. Each node is computed once; only
    the logits that are needed are kept, so that memory under `no_grad` does not grow with the trie.
    """
    batch, device = len(reading.logits), reading.logits.device
    tokens = torch.from_numpy(tries.tokens).to(device).expand(batch, -1)
    parents = torch.from_numpy(tries.parents).to(device).expand(batch, -1)
    lineage = torch.from_numpy(tries.lineage).to(device).expand(batch, -1, -1)
    edges, finals = _steps(reading.logits, 0, tokens, parents, ends)
    finals = [finals]
    start = 0
    while start < tries.nodes:
        stop = min(start + reading.room(tries.nodes - start), tries.nodes)
        logits = reading.extend(tokens[:, start:stop], lineage[:, start:stop])
        more, final = _steps(logits, start + 1, tokens, parents, ends)
        edges = edges + more
        finals.append(final)
        start = stop
    return _along_paths(edges, torch.cat(finals, dim=1), tries)


def at_least_single(logits: Tensor) -> Tensor:
    """Logits in the precision of log-probabilities: the model's own, single precision for half."""
    return logits if logits.dtype == torch.float64 else logits.float()


def _steps(
    logits: Tensor, first: int, tokens: Tensor, parents: Tensor, ends: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the edges to the children of some nodes, and of the ends after them.

    The nodes are those from number `first` on. Edges are (B, T), 0 at other edges; ends (B, t).
    """
    precise = at_least_single(logits)
    total = precise.logsumexp(2)
    count = precise.shape[1]
    mine = (parents >= first) & (parents < first + count)
    place = (parents - first).clamp(0, count - 1)
    rows = torch.arange(len(precise), device=precise.device)[:, None]
    edges = precise[rows, place, tokens] - total.gather(1, place)
    final = precise[..., list(ends)].logsumexp(2) - total
    return torch.where(mine, edges, 0.0), final


def _along_paths(edges: Tensor, finals: Tensor, tries: Tries) -> Tensor:
    """The sum of the edges of each sequence's path, and its end."""
    batch = len(edges)
    rooted = torch.cat([edges.new_zeros(batch, 1), edges], dim=1)
    paths = torch.from_numpy(tries.paths()).to(edges.device).expand(batch, -1, -1)
    ends = torch.from_numpy(tries.ends).to(edges.device).expand(batch, -1)
    sums = rooted.gather(1, paths.flatten(1)).unflatten(1, paths.shape[1:]).sum(2)
    logs = sums + finals.gather(1, ends.clamp(min=0))
    return torch.where(ends >= 0, logs, -torch.inf)
