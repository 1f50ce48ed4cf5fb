"""ABLkit: labels are revised so that they add up, and the network learns the revised labels.

As in its own example of this task, the network learns 32 images at a time, and labels are smoothed
by 0.2; a segment, whose labels are revised together, has 64 rows.
"""

from __future__ import annotations

import logging
from typing import Any

import ours
import torch
from ablkit.bridge import SimpleBridge  # pyright: ignore[reportMissingImports]
from ablkit.learning import ABLModel, BasicNN  # pyright: ignore[reportMissingImports]
from ablkit.reasoning import GroundKB, Reasoner  # pyright: ignore[reportMissingImports]
from measuring import Case, Learner, Peer, main, real_pairs
from torch import Tensor, nn

ROWS = 64


class Addition(GroundKB):
    """Two digits have a sum; all pairs are listed once."""

    def logic_forward(self, pseudo_label: Any) -> int:
        """What a pair of digits adds up to."""
        return sum(pseudo_label)


def sum_of_two(network: nn.Module) -> Learner:
    """Predict, revise, train: once for each segment of rows."""
    logging.disable(logging.INFO)
    base = BasicNN(
        network,
        nn.CrossEntropyLoss(label_smoothing=0.2),
        torch.optim.Adam(network.parameters(), lr=1e-3),
        batch_size=32,
        stop_loss=None,
    )
    knowledge = Addition(list(range(10)), GKB_len_list=[2])
    bridge = SimpleBridge(ABLModel(base), Reasoner(knowledge, dist_func="confidence"), [])

    def learn(images: Tensor, truth: list[int]) -> None:
        rows = [list(pair) for pair in images]
        data = bridge.data_preprocess("train", (rows, None, truth))
        bridge.predict(data)
        bridge.idx_to_pseudo_label(data)
        bridge.abduce_pseudo_label(data)
        bridge.filter_pseudo_label(data)
        bridge.pseudo_label_to_idx(data)
        bridge.model.train(data)

    return learn


if __name__ == "__main__":
    learning = Case(
        "sum-2, B = 64",
        real_pairs(ROWS),
        ours.whole_step(sum_of_two),
        ours.whole_step(ours.sum_of_two),
        20,
        what="whole step",
    )
    main(Peer("ABLkit", ["ablkit", "numpy"], [learning], sum_of_two, ROWS))
