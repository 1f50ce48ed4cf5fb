"""Logic Tensor Networks: for all rows there are digits that add up to the label.

The network runs once per image, and variables stand for rows of its probabilities. (Variables that
stand for the images themselves, as in its tutorial, run it once for each image and class.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ltn  # pyright: ignore[reportMissingImports]
import ours
import torch
from measuring import Case, Learner, Peer, Step, digit_sums, main
from torch import Tensor, nn

EXISTS_P, FORALL_P = 2, 2


def statement(digits: int) -> Callable[[Sequence[Tensor], list[int]], Tensor]:
    """How true it is of a batch."""
    is_digit = ltn.Predicate(func=lambda probs, d: probs.gather(1, d.long()).squeeze(1))
    both = ltn.Connective(ltn.fuzzy_ops.AndProd())
    exists = ltn.Quantifier(ltn.fuzzy_ops.AggregPMean(p=EXISTS_P), quantifier="e")
    forall = ltn.Quantifier(ltn.fuzzy_ops.AggregPMeanError(p=FORALL_P), quantifier="f")

    def satisfaction(probs: Sequence[Tensor], truth: list[int]) -> Tensor:
        images = [ltn.Variable(f"x{i}", p) for i, p in enumerate(probs)]
        values = [ltn.Variable(f"d{i}", torch.arange(10.0)) for i in range(digits)]
        label = ltn.Variable("n", torch.tensor(truth, dtype=torch.float32))
        rows = ltn.diag(*images, label)
        said = [is_digit(image, value) for image, value in zip(rows, values, strict=False)]
        formula = said[0]
        for more in said[1:]:
            formula = both(formula, more)
        some = exists(
            values,
            formula,
            cond_vars=[*values, rows[-1]],
            cond_fn=lambda *parts: sum(p.value for p in parts[:-1]) == parts[-1].value,
        )
        return forall(rows, some).value

    return satisfaction


def sums(digits: int) -> Callable[[], Step]:
    """The loss from probabilities."""

    def made() -> Step:
        true = statement(digits)
        return lambda inputs: 1 - true(*inputs)

    return made


def sum_of_two(network: nn.Module) -> Learner:
    """Adam on how far the statement is from true."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    true = statement(2)

    def learn(images: Tensor, truth: list[int]) -> None:
        probs = network(images.flatten(0, 1)).softmax(-1).view(-1, 2, 10)
        optimizer.zero_grad()
        (1 - true(probs.unbind(1), truth)).backward()
        optimizer.step()

    return learn


def case(digits: int, steps: int) -> Case:
    """The loss from probabilities, and its gradients."""
    return Case(
        f"sum-{digits}",
        lambda generator: digit_sums(64, digits, generator),
        sums(digits),
        ours.sums("damp"),
        steps,
        comparable=False,
    )


if __name__ == "__main__":
    cases = [case(2, 20), case(3, 20), case(4, 10), case(5, 3)]
    main(Peer("LTNtorch", ["LTNtorch", "numpy"], cases, sum_of_two))
