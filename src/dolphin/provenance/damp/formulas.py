"""Sums of products of logarithms in ordinary operations, for second derivatives and `torch.func`.

Everything is in memory at once here, which is what second derivatives need.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin.errors import SizeError
from dolphin.execution.buckets import BucketTensors
from dolphin.execution.indices import Convolution, IndexLists
from dolphin.provenance.logarithms import log_products, padded
from dolphin.provenance.numerics import ZERO, chunk_elements

_CHUNKS = 32  # of the numbers that are usually held at once


def log_sums(operands: Sequence[Tensor], bucket: BucketTensors) -> Tensor:
    """log Σ_d Π_i exp(operand_i[index_i[d, w]]) for every group w of a bucket."""
    _check_size(bucket.depth * bucket.width * operands[0].shape[1])
    return log_products(bucket, padded(bucket, operands, ZERO), 0, bucket.width).logsumexp(0)


def log_convolved(a: Tensor, b: Tensor) -> Tensor:
    """log Σ_{i + j = n} exp(a[i] + b[j]), of (n, r) and (m, r)."""
    if a.shape[0] < b.shape[0]:
        a, b = b, a
    depth = b.shape[0]
    _check_size((a.shape[0] + depth) * b.numel())
    terms = F.pad(a, (0, 0, depth - 1, depth - 1), value=ZERO).unfold(0, depth, 1)
    return (terms + b.flip(0).t()).logsumexp(-1)


def log_sums_of_pairs(a: Tensor, b: Tensor, plan: IndexLists) -> Tensor:
    """log Σ over each group of exp(a[i] + b[j]), for a plan over all pairs."""
    if isinstance(plan, Convolution):
        return log_convolved(a, b)
    out = torch.cat([log_sums([a, b], bucket) for bucket in plan.on(a.device)])
    return out if plan.position is None else out.index_select(0, plan.position.on(a.device)[0])


def _check_size(numbers: int) -> None:
    if torch.compiler.is_compiling():  # sizes may not be known yet
        return
    limit = _CHUNKS * chunk_elements()
    if numbers > limit:
        raise SizeError(
            f"create_graph=True: an operation has {numbers:,} products of probabilities in all "
            f"rows, more than the {limit:,} that second derivatives may keep in memory. Use "
            "smaller batches or fewer symbols (dolphin.sample, dolphin.filter), or raise the limit "
            "with dolphin.settings(chunk_elements=...)."
        )
