"""DeepProbLog: a logic program whose facts are a network's outputs, compiled per query.

Circuits are remembered between queries (`cache=True`), and the network sees a query's two images at
once (`batching=True`). Batches have two rows, as in its own example, which learns better than with
larger ones within the same time.
"""

from __future__ import annotations

from typing import Any

import ours
import torch
from deepproblog.engines import ExactEngine  # pyright: ignore[reportMissingImports]
from deepproblog.model import Model  # pyright: ignore[reportMissingImports]
from deepproblog.network import Network  # pyright: ignore[reportMissingImports]
from deepproblog.query import Query  # pyright: ignore[reportMissingImports]
from deepproblog.train import TrainObject  # pyright: ignore[reportMissingImports]
from measuring import Case, Learner, Peer, main, real_pairs
from problog.logic import Constant, Term  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn

PROGRAM = """
nn(reader, [X], Y, [0,1,2,3,4,5,6,7,8,9]) :: digit(X, Y).
total(X, Y, Z) :- digit(X, A), digit(Y, B), Z is A + B.
"""


class Images:
    """The images of a batch, by their number."""

    def __init__(self) -> None:
        self.rows: Any = None

    def __getitem__(self, key: Any) -> Tensor:
        return self.rows[int(key[0])]


def sum_of_two(network: nn.Module) -> Learner:
    """Adam on the likelihood of the queries of a batch."""
    reader = Network(nn.Sequential(network, nn.Softmax(-1)), "reader", batching=True)
    reader.optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    model = Model(PROGRAM, [reader], load=False)
    model.set_engine(ExactEngine(model), cache=True)
    images = Images()
    model.add_tensor_source("batch", images)
    training = TrainObject(model)
    places = [Term(f"p{place}") for place in range(2)]

    def query(row: int, total: int) -> Query:
        shown = [Term("tensor", Term("batch", Constant(2 * row + place))) for place in range(2)]
        known = dict(zip(places, shown, strict=True))
        return Query(Term("total", *places, Constant(total)), known)

    def learn(batch: Tensor, truth: list[int]) -> None:
        images.rows = batch.flatten(0, 1)
        model.train()
        model.optimizer.zero_grad()
        queries = [query(row, total) for row, total in enumerate(truth)]
        training.get_loss(queries, model.solver.semiring.cross_entropy)
        model.optimizer.step()

    return learn


if __name__ == "__main__":
    cases = [
        Case(
            f"sum-2, B = {rows}",
            real_pairs(rows),
            ours.whole_step(sum_of_two),
            ours.whole_step(ours.sum_of_two),
            steps,
            what="whole step",
        )
        for rows, steps in ((2, 60), (64, 5))
    ]
    packages = ["deepproblog", "problog", "PySDD", "numpy"]
    main(Peer("DeepProbLog", packages, cases, sum_of_two, rows=2))
