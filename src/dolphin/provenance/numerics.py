"""Logarithms of probabilities whose gradients stay correct and finite at 0 and at 1.

Tags that are products of many probabilities are kept as logarithms. A probability of exactly zero
is raised to a floor far below anything that matters, in the value and in the derivative 1/p alike.
The two cancel along a product, so the gradient of a·b at a = 0 comes out as b, as it should.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dolphin.errors import UnsupportedError
from dolphin.provenance.differentiation import followed, reading_is_free, transformed
from dolphin.settings import USUAL, current_settings, settings_in_force

ZERO = -1e30  # the logarithm of "there is no derivation": finite, so that nothing becomes nan
IMPOSSIBLE = -1e29  # anything below is such a logarithm, perhaps multiplied with others


def floor(dtype: torch.dtype) -> float:
    """The smallest probability that is distinguished from zero."""
    return 1e-290 if dtype == torch.float64 else 1e-30


def flush(dtype: torch.dtype) -> float:
    """Logarithms below this are reported as probability zero."""
    return math.log(floor(dtype)) + 7.0


def log1p(numbers: Tensor) -> Tensor:
    """log(1 + x) to full precision, for small x as well.

    Other formats than torch's have no such function: an ONNX model would take the logarithm of a
    rounded sum. So exported programs make up for the rounding, with the same derivative.
    """
    if not torch.compiler.is_exporting():
        return torch.log1p(numbers)
    above = 1.0 + numbers
    return above.log() + (numbers - (above - 1.0)) / above.clamp(min=floor(above.dtype))


def expm1(numbers: Tensor) -> Tensor:
    """exp(x) - 1 to full precision, for small x as well; exported like `log1p`."""
    if not torch.compiler.is_exporting():
        return torch.expm1(numbers)
    near = numbers.clamp(-1.0, 1.0)  # elsewhere nothing is lost
    power = near.exp()
    small = (power - 1.0) + power * (near - power.log())
    return torch.where(numbers == near, small, numbers.exp() - 1.0)


class _SafeLog(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(probs: Tensor) -> Tensor:
        return probs.clamp(min=floor(probs.dtype)).log()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (probs,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return grad / _raised(probs, grad != 0.0)
        return grad / probs.clamp(min=floor(probs.dtype))


class _SafeLogOfFacts(_SafeLog):
    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (probs,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return grad / _raised(probs, torch.ones_like(grad, dtype=torch.bool))
        return grad / probs.clamp(min=floor(probs.dtype))


def _raised(probs: Tensor, used: Tensor) -> Tensor:
    """Probabilities at least as large as the floor, with derivative 1, for second derivatives.

    At 0 these would be differences of numbers as large as 1/p², of which only rounding errors
    remain: it is better to have none.
    """
    low = floor(probs.dtype)
    below = probs < low
    if not transformed() and reading_is_free(probs) and bool((below & used).any()):
        raise UnsupportedError(
            "create_graph=True: second derivatives are lost where the logarithm is taken of a "
            "probability that is exactly 0 (a fact of 0, a negated fact of 1, or an impossible "
            "result). Give logits instead (dolphin.Distribution.from_logits), keep probabilities "
            "away from 0 and 1 with probs.clamp(1e-6, 1 - 1e-6), or use the provenance 'exact'."
        )
    return torch.where(below, probs - probs.detach() + low, probs)


class _ProbOfLog(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(logs: Tensor) -> Tensor:
        return logs.exp().masked_fill_(logs < flush(logs.dtype), 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (logs,) = ctx.saved_tensors
        return grad * logs.exp()


class _RestOfLog(_ProbOfLog):
    """1 - p from log p.

    A difference to 1 would round away what is left of a probability near 1, and the derivative of
    `expm1` that of a small one. Where nothing is left, it was rounded away, and the floor of its
    logarithm would give a nearly certain softmax gradients of 1e20, which no optimizer survives.
    They are limited to the slope at the smallest rest that numbers next to 1 have.
    """

    @staticmethod
    def forward(logs: Tensor) -> Tensor:
        return -expm1(logs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (logs,) = ctx.saved_tensors
        steepest = 1.0 / torch.finfo(logs.dtype).eps
        bounded = grad.clamp(-steepest, steepest)
        return -torch.where(logs == 0, bounded, grad) * logs.exp()


class _Precisely(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(numbers: Tensor) -> Tensor:
        return numbers.to(torch.float64, copy=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.dtype = inputs[0].dtype

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        largest = 1.0 / floor(ctx.dtype)
        return grad.clamp(-largest, largest).to(ctx.dtype)


def _quickly(function: Any) -> Any:
    """A function of one tensor outside of `torch.func`.

    A function that can be transformed takes its arguments apart by their names in every call: 25
    microseconds, five times as long as the rest of it.
    """

    class Quick(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, tensor: Tensor) -> Tensor:  # type: ignore[override]
            out = function.forward(tensor)
            function.setup_context(ctx, (tensor,), out)
            return out

        backward = function.backward

    def run(tensor: Tensor) -> Tensor:
        return (function if followed() else Quick).apply(tensor)  # type: ignore[return-value]

    return run


_precisely, _safe_log, _prob_of_log = map(_quickly, (_Precisely, _SafeLog, _ProbOfLog))
_safe_log_of_facts, _rest_of_log = map(_quickly, (_SafeLogOfFacts, _RestOfLog))


def precisely(numbers: Tensor) -> Tensor:
    """The same in double precision; gradients come back no larger than those of the floor."""
    return numbers if numbers.dtype == torch.float64 else _precisely(numbers)


def safe_log(probs: Tensor) -> Tensor:
    """log p, with the derivative 1/p of the floor where p is zero."""
    return _safe_log(probs)


def safe_log_of_facts(probs: Tensor) -> Tensor:
    """The same for what products are made of.

    Several factors of 0 have no gradient, but they do have second derivatives. These are lost here,
    so they are refused whether there is a gradient or not.
    """
    return _safe_log_of_facts(probs)


def prob_of_log(logs: Tensor) -> Tensor:
    """exp of a logarithm made by `safe_log`; exactly zero where the floor was reached."""
    return _prob_of_log(logs)


def rounded_to(dtype: torch.dtype, probs: Tensor) -> Tensor:
    """Probabilities that were computed in double precision from facts of this one.

    Values that such facts can't distinguish from zero are exactly zero, with unchanged gradients.
    """
    if probs.dtype == dtype:
        return probs
    low = probs < math.exp(flush(dtype))
    return torch.where(low, probs - probs.detach(), probs).to(dtype)


def rest_of_log(logs: Tensor) -> Tensor:
    """1 - p from log p."""
    return _rest_of_log(logs)


def log1mexp(logs: Tensor) -> Tensor:
    """log(1 - p) from log p, through p so that its gradient is -1/(1 - p), floored as above."""
    return safe_log_of_facts(_rest_of_log(logs))


def log_of_others(logs: Tensor, dim: int, rest: Callable[[Tensor], Tensor]) -> Tensor:
    """log(1 - p) from log p of symbols of which one holds for certain, along a dimension.

    `rest` of log p would round away what is left of a symbol that is nearly certain, and a softmax
    its gradient. There it is the sum of the others.
    """
    likely = logs.detach() > -0.5  # at most one
    others = torch.where(likely, ZERO, logs).logsumexp(dim, keepdim=True)
    likely = likely & (others.detach() > IMPOSSIBLE)
    return torch.where(likely, others, rest(torch.where(likely, -1.0, logs)))


def log_of_rest(logs: Tensor, dtype: torch.dtype) -> Tensor:
    """log(1 - p) from log p. At p = 1 the rest is raised to a floor, but keeps its gradient.

    A symbol that is wrong and certain must be pushed down: clamping would remove its gradient.
    `dtype`: the precision of the facts, which may be less than that of the logarithms.
    """
    likely = -expm1(logs.clamp(min=-1.0))
    lowest = torch.finfo(dtype).eps
    likely = (likely + (lowest - likely).clamp(min=0.0).detach()).log()
    unlikely = log1p(-logs.clamp(max=-0.5).exp())  # expm1 would lose tiny gradients
    return torch.where(logs > -0.7, likely, unlikely)


def rounding(dtype: torch.dtype) -> float:
    """How far numbers that should be equal may differ because of rounding alone."""
    return 1e-12 if dtype == torch.float64 else 1e-5


CARRIED = 3e-5
"""How far above 1 a sum of many products counts as 1, because rounding may carry it there.

In double precision as well: such numbers may come from inputs, or a network, in single precision.
"""


def excess(dtype: torch.dtype) -> float:
    """The same where numbers of this precision are added up that were checked before."""
    return 1e-9 if dtype == torch.float64 else CARRIED


def at_most_one(logs: Tensor) -> Tensor:
    """The logarithm of a probability that only rounding can carry above 1, with its gradient."""
    return logs - logs.detach().clamp(min=0.0)


def clip_above_one(logs: Tensor, *, keep_gradient: bool = False) -> Tensor:
    """min(1, p) of a logarithm. Beyond rounding the gradient of p is 0, unless it is kept."""
    inside = logs <= CARRIED
    beyond = torch.zeros_like(logs)
    if keep_gradient:
        probs = torch.where(inside, 0.0, logs).exp()
        beyond = probs - probs.detach()
    return torch.where(inside, at_most_one(logs), beyond)


def gradient_above_one(grad: Tensor, logs: Tensor, *, clip: bool) -> Tensor:
    """The gradient of a logarithm, from that of its value clipped at log 1."""
    beyond = logs > CARRIED
    return torch.where(beyond, 0.0 if clip else grad * logs.exp(), grad)


def plain_share(grad: Tensor, sums: Tensor, *, clip: bool) -> Tensor:
    """The gradient of plain sums, from that of the logarithm of their value clipped at 1."""
    if not clip:
        return grad / sums.clamp(max=1.0)
    return (grad / sums).masked_fill_(sums > 1.0 + CARRIED, 0.0)


def shares_above_one(share: Tensor, sums: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of own and of grown in min(1, own + min(1, grown)), from that of the value.

    `sums` is own + grown. What is grown and passes 1 alone has no gradient, but what is added to it
    has one if it is 0: there the outer sum is 1 and doesn't pass it.
    """
    beyond = sums > 1.0 + CARRIED
    if not beyond.any():
        return share, share
    return share.masked_fill(beyond & (own > CARRIED), 0.0), share.masked_fill(beyond, 0.0)


def clip_plain(sums: Tensor, *, clip: bool) -> Tensor:
    """min(1, sums), with the gradient of the sums as far as it isn't clipped."""
    clipped = sums - (sums - 1.0).clamp(min=0.0).detach()
    return torch.where(sums > 1.0 + CARRIED, clipped.detach(), clipped) if clip else clipped


def at_once(things: int, numbers_each: int, most: int | None = None) -> int:
    """How many of `things`, of this many numbers each, are processed at once.

    All of them in compiled and exported code: what it does can't depend on the number of rows.
    """
    if torch.compiler.is_compiling():
        return max(1, things)
    limit = chunk_elements() if most is None else min(most, chunk_elements())
    return max(1, limit // max(1, numbers_each))


def cut_above_one(sums: Tensor, *, plain: bool) -> tuple[int, int]:
    """How many sums, as numbers or as logarithms, lose their gradient because they pass 1."""
    return int((sums > (1.0 + CARRIED if plain else CARRIED)).sum()), sums.numel()


def chunk_elements() -> int:
    """Numbers to hold at once; the default limit in compiled code, which can't read settings."""
    limits = USUAL if torch.compiler.is_compiling() else current_settings()
    return limits.chunk_elements


def recomputed(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """The result of a function that is recomputed in the backward pass, instead of being kept.

    It runs under the same limits, whatever is in force then: it must do exactly the same again.
    A transform of `torch.func` can't recompute anything: there it is kept.
    """
    if transformed():
        return function(*arguments)
    limits = current_settings()

    def limited(*given: Any) -> Tensor:
        with settings_in_force(limits):
            return function(*given)

    return checkpoint(limited, *arguments, use_reentrant=False)  # type: ignore[return-value]


def underflows(sums: Tensor) -> bool:
    """Whether sums of plain products are so near underflow that terms may have been lost."""
    return sums.numel() > 0 and sums.amin().item() < floor(sums.dtype)


def connected(numbers: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """Numbers with gradient 0 for all inputs, so that backward() works on a constant loss."""
    if numbers.requires_grad:
        return numbers
    for tensor in inputs:
        if tensor.requires_grad:
            numbers = numbers + tensor[:0].sum().to(numbers.dtype)
    return numbers
