"""The likeliest proof of a symbol under max-product, read off its derivatives.

Under max-product a tag is the largest product of facts, so the derivative of its logarithm with
respect to that of a fact is how often the fact occurs in that product; for a negated fact it is
negative. Inputs leave a mark in autograd's graph, by which they are found again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from dolphin.errors import UnsupportedError
from dolphin.provenance.differentiation import followed
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import flush

_one_winner: ContextVar[bool] = ContextVar("dolphin_one_winner", default=False)


def one_winner() -> bool:
    """Whether the first of several equal products gets all of the gradient."""
    return _one_winner.get()


def marked(facts: Facts) -> Tensor:
    """The logarithms of an input's facts, marked so that results lead back to the input."""
    logs = facts.log_probs
    if followed() or not (torch.is_grad_enabled() and logs.requires_grad):
        return logs
    return _Mark.apply(logs, facts)  # type: ignore[return-value]


class _Mark(torch.autograd.Function):
    """The same numbers, with the input that they come from."""

    @staticmethod
    def forward(ctx: Any, logs: Tensor, facts: Facts) -> Tensor:  # type: ignore[override]
        ctx.facts = facts
        return logs.view_as(logs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        return grad, None


def likeliest_proof(algebra: Any, tag: Tensor) -> list[tuple[float, list[Any]]]:
    """The proof behind a tag, the logarithm of its probability; an empty list if impossible."""
    if tag.item() <= flush(tag.dtype):
        return []
    proof: list[Any] = []
    weight = 0.0
    marks = _marks_behind(tag.grad_fn)
    for facts, gradient in zip(marks, _gradients(algebra, tag, marks), strict=True):
        for column, row in gradient.nonzero().tolist():
            share = gradient[column, row].item()
            probability = facts.facts.probs[column, row].item()
            holds = share > 0
            probability = probability if holds else 1.0 - probability
            key = facts.facts.key(column, row)
            proof.append((facts.facts.label(column, row), holds, probability, key))
            weight += round(share) * math.log(probability) if holds else math.log(probability)
    if not math.isclose(weight, tag.item(), rel_tol=1e-4, abs_tol=1e-4):
        raise UnsupportedError(
            f"explain: {algebra!r} keeps the likeliest product of facts, and the facts with a "
            "gradient don't multiply to this symbol's probability: some inputs have no gradients, "
            "or the negation of more than one fact is part of it. Create all inputs from numbers "
            "that require gradients, or use 'dtkp-am' or 'exact' as their provenance."
        )
    return [(math.exp(tag.item()), proof)]


def _gradients(algebra: Any, tag: Tensor, marks: list[Any]) -> list[Tensor]:
    if not marks:
        return []
    edges = [GradientEdge(mark, 0) for mark in marks]
    with _first_of_equals():
        try:
            return list(torch.autograd.grad(tag, edges, retain_graph=True))
        except RuntimeError as error:
            raise UnsupportedError(
                f"explain: {algebra!r} reads proofs off gradients, and the graph of this result is "
                "gone. Explain it before backward(), or call backward(retain_graph=True)."
            ) from error


def _marks_behind(node: Node | None) -> list[Any]:
    """The marks of all inputs behind a result, in the order in which they were created."""
    seen: set[Node] = set()
    waiting = [] if node is None else [node]
    marks = []
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        if isinstance(getattr(at, "facts", None), Facts):
            marks.append(at)
            continue
        waiting.extend(following for following, _ in at.next_functions if following is not None)
    return sorted(marks, key=lambda mark: mark._sequence_nr())


@contextlib.contextmanager
def _first_of_equals() -> Iterator[None]:
    token = _one_winner.set(True)
    try:
        yield
    finally:
        _one_winner.reset(token)
