"""The common base of provenances whose tags are logarithms: ⊗ is a sum, and nothing underflows.

Products of combinations are computed in chunks. Combinations come in buckets of groups of the same
size. Where a bucket is padded, its first operand gets a row of zeros in front that the padding
refers to.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from dolphin.execution.buckets import BucketTensors
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import ZERO, at_once, log1mexp, log_of_others, prob_of_log
from dolphin.provenance.tensors import TensorProvenance


class LogTags(TensorProvenance):
    """Tags that are logarithms of numbers in [0, 1], with 1 - a as negation."""

    zero = ZERO
    one_value = 0.0

    def from_facts(self, facts: Facts) -> Tensor:
        return facts.log_probs

    def from_probs(self, probs: Tensor) -> Tensor:
        raise AssertionError("starts from logarithms")

    def to_probs(self, tags: Tensor) -> Tensor:
        return prob_of_log(tags)

    def log_probs(self, tags: Tensor) -> Tensor:
        return tags

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b

    def negation(self, tags: Tensor) -> Tensor:
        return log1mexp(tags)

    def negate_choices(self, tags: Tensor, width: int) -> Tensor:
        choices = tags.reshape(-1, width, tags.shape[-1])
        return log_of_others(choices, 1, log1mexp).view(tags.shape)


_IN_CACHE = 262_144  # numbers that stay in the CPU's cache while several operations use them


def chunk_size(things: int, numbers_each: int) -> int:
    """How many groups or symbols, of this many numbers each, are processed at once."""
    return at_once(things, numbers_each, _IN_CACHE)


def padded(bucket: BucketTensors, operands: Sequence[Tensor], zero: float) -> list[Tensor]:
    """The operands; the first with a zero in front, which padding refers to."""
    if bucket.shifted is None:
        return list(operands)
    return [F.pad(operands[0], (0, 0, 1, 0), value=zero), *operands[1:]]


def chunk_indices(bucket: BucketTensors, start: int, step: int) -> list[Tensor]:
    """Indices into padded operands, for groups start .. start + step."""
    indices = list(bucket.indices)
    if bucket.shifted is not None:
        indices[0] = bucket.shifted
    if start == 0 and step >= bucket.width:
        return indices
    shape = (bucket.depth, bucket.width)
    return [index.view(shape)[:, start : start + step].reshape(-1) for index in indices]


def log_products(
    bucket: BucketTensors, operands: Sequence[Tensor], start: int, step: int
) -> Tensor:
    """(depth, width of the chunk, rows) logarithms of products."""
    product: Tensor | None = None
    for logs, index in zip(operands, chunk_indices(bucket, start, step), strict=True):
        gathered = logs.index_select(0, index)
        product = gathered if product is None else product.add_(gathered)
    assert product is not None
    return product.view(bucket.depth, -1, product.shape[-1])


def without_padding(bucket: BucketTensors, grads: list[Tensor]) -> list[Tensor]:
    """Gradients of the operands, from those of the padded ones."""
    return grads if bucket.shifted is None else [grads[0][1:], *grads[1:]]
