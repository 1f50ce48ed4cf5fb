"""Token sequences as tries: common prefixes are read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tries:
    """One trie per row, or a single one for all rows, padded to the same size.

    Node 0 is the root, the end of the prompt. Nodes 1 ... T follow, parents before children. A
    padding node is a child of the root that no sequence passes through.
    """

    tokens: np.ndarray
    """(rows, T): the token of each node but the root."""
    parents: np.ndarray
    """(rows, T): the node before each node."""
    lineage: np.ndarray
    """(rows, T, depth): the nodes from the root to each node, itself included, then zeros."""
    ends: np.ndarray
    """(rows, N): the node at which each sequence ends, -1 for padding."""

    @property
    def nodes(self) -> int:
        """The number of nodes, T, the root not included."""
        return self.tokens.shape[1]

    def paths(self) -> np.ndarray:
        """(rows, N, depth): the nodes on the path to the end of each sequence, then zeros."""
        rooted = np.pad(self.lineage, ((0, 0), (1, 0), (0, 0)))
        rows = np.arange(len(self.ends))[:, None]
        return rooted[rows, np.maximum(self.ends, 0)]


def build_tries(rows: Sequence[Sequence[Sequence[int]]]) -> Tries:
    """The tries of the token sequences of each row.

    >>> tries = build_tries([[[5, 6], [5, 7], [5]]])
    >>> tries.tokens, tries.parents, tries.ends
    (array([[5, 6, 7]]), array([[0, 1, 1]]), array([[2, 3, 1]]))
    """
    each = [_build(sequences) for sequences in rows]
    size = max(len(tokens) for tokens, _, _ in each)
    depth = max((len(path) for _, paths, _ in each for path in paths), default=0)
    width = max(len(ends) for _, _, ends in each)
    tokens = np.zeros((len(each), size), dtype=np.int64)
    parents = np.zeros((len(each), size), dtype=np.int64)
    lineage = np.zeros((len(each), size, max(depth, 1)), dtype=np.int64)
    lineage[:, :, 0] = np.arange(1, size + 1)  # padding sees itself, so that no softmax is empty
    ends = np.full((len(each), width), -1, dtype=np.int64)
    for row, (own_tokens, own_paths, own_ends) in enumerate(each):
        tokens[row, : len(own_tokens)] = own_tokens
        ends[row, : len(own_ends)] = own_ends
        for node, path in enumerate(own_paths):
            lineage[row, node, : len(path)] = path
            parents[row, node] = path[-2] if len(path) > 1 else 0
    return Tries(tokens, parents, lineage, ends)


def _build(
    sequences: Sequence[Sequence[int]],
) -> tuple[list[int], list[tuple[int, ...]], list[int]]:
    """The token and the lineage of each node, and the node at which each sequence ends."""
    children: dict[tuple[int, int], int] = {}
    tokens: list[int] = []
    paths: list[tuple[int, ...]] = []
    ends: list[int] = []
    for sequence in sequences:
        node = 0
        for token in sequence:
            following = children.get((node, token))
            if following is None:
                following = children[node, token] = len(tokens) + 1
                tokens.append(token)
                paths.append((*(paths[node - 1] if node else ()), following))
            node = following
        ends.append(node)
    return tokens, paths, ends
