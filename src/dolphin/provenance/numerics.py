"""Logarithms of probabilities whose gradients stay right and finite at 0 and at 1.

Tags that are products of many probabilities are kept as logarithms. A probability of exactly zero
is raised to a floor far below anything that matters, in the value and in the derivative 1/p alike.
The two cancel along a product, so the gradient of a·b at a = 0 comes out as b, as it should.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dolphin.settings import USUAL, current_settings

ZERO = -1e30  # the logarithm of "there is no derivation": finite, so that nothing becomes nan
IMPOSSIBLE = -1e29  # anything below is such a logarithm, perhaps multiplied with others


def floor(dtype: torch.dtype) -> float:
    """The smallest probability that is told from zero."""
    return 1e-290 if dtype == torch.float64 else 1e-30


def flush(dtype: torch.dtype) -> float:
    """Logarithms below this are reported as probability zero."""
    return math.log(floor(dtype)) + 7.0


class _SafeLog(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, probs: Tensor) -> Tensor:  # type: ignore[override]
        raised = probs.clamp(min=floor(probs.dtype))
        ctx.save_for_backward(raised)
        return raised.log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (raised,) = ctx.saved_tensors
        return grad / raised


class _ProbOfLog(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logs: Tensor) -> Tensor:  # type: ignore[override]
        probs = logs.exp()
        ctx.save_for_backward(probs)
        return probs.masked_fill(logs < flush(logs.dtype), 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (probs,) = ctx.saved_tensors
        return grad * probs


class _Precisely(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, numbers: Tensor) -> Tensor:  # type: ignore[override]
        ctx.dtype = numbers.dtype
        return numbers.double()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        largest = 1.0 / floor(ctx.dtype)
        return grad.clamp(-largest, largest).to(ctx.dtype)


def precisely(numbers: Tensor) -> Tensor:
    """The same in double precision; gradients come back no larger than those of the floor."""
    return _Precisely.apply(numbers)  # type: ignore[no-any-return]


def safe_log(probs: Tensor) -> Tensor:
    """log p, with the derivative 1/p of the floor where p is zero."""
    return _SafeLog.apply(probs)  # type: ignore[no-any-return]


def prob_of_log(logs: Tensor) -> Tensor:
    """exp of a logarithm made by `safe_log`; exactly zero where the floor was reached."""
    return _ProbOfLog.apply(logs)  # type: ignore[no-any-return]


def log1mexp(logs: Tensor) -> Tensor:
    """log(1 - p) from log p, through p so that its gradient is -1/(1 - p), floored as above."""
    return safe_log(1.0 - prob_of_log(logs))


def rounding(dtype: torch.dtype) -> float:
    """How far above 1 a sum of probabilities may be for no other reason than rounding."""
    return 1e-12 if dtype == torch.float64 else 1e-5


def clip_above_one(logs: Tensor, *, keep_gradient: bool = False) -> Tensor:
    """min(1, p) of a logarithm. Beyond rounding the gradient of p is 0, unless it is to be kept."""
    inside = logs <= rounding(logs.dtype)
    beyond = torch.zeros_like(logs)
    if keep_gradient:
        probs = torch.where(inside, 0.0, logs).exp()
        beyond = probs - probs.detach()
    return torch.where(inside, logs - logs.detach().clamp(min=0.0), beyond)


def gradient_above_one(grad: Tensor, logs: Tensor, *, clip: bool) -> Tensor:
    """The gradient of a logarithm, from that of its value clipped at log 1."""
    beyond = logs > rounding(logs.dtype)
    return torch.where(beyond, 0.0 if clip else grad * logs.exp(), grad)


def plain_share(grad: Tensor, sums: Tensor, *, clip: bool) -> Tensor:
    """The gradient of plain sums, from that of the logarithm of their value clipped at 1."""
    if not clip:
        return grad / sums.clamp(max=1.0)
    return (grad / sums).masked_fill_(sums > 1.0 + rounding(sums.dtype), 0.0)


def chunk_elements() -> int:
    """Numbers to hold at once; the usual limit in compiled code, which can't see its context."""
    limits = USUAL if torch.compiler.is_compiling() else current_settings()
    return limits.chunk_elements


def reading_is_free(tensor: Tensor) -> bool:
    """May the program branch on values here, without waiting for a device?"""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def underflows(sums: Tensor) -> bool:
    """Did sums of plain products come so near to underflow that terms may have been lost?"""
    return sums.numel() > 0 and sums.amin().item() < floor(sums.dtype)
