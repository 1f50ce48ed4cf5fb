"""Functions with hand-written derivatives that can still be differentiated any number of times.

Hand-written code works in place, in chunks, and keeps little for the backward pass: autograd can't
follow it. So it serves ordinary backward passes only. Where a graph of the backward pass is
requested (`create_graph=True`), and under the transforms of `torch.func`, the same function is
computed in ordinary operations instead: its *formula*.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch._C import _functorch as functorch  # type: ignore[attr-defined]

from dolphin.errors import UnsupportedError

# transformed(): whether the program runs under `torch.func.grad`, `jacrev`, `vmap` and the like.
transformed = torch._C._are_functorch_transforms_active


def followed() -> bool:
    """Whether every operation is traced by a compiler or a transform of `torch.func`."""
    return torch.compiler.is_compiling() or transformed()


def vectorized(tensor: Tensor) -> bool:
    """Whether a tensor stands for many, one for each sample of `torch.func.vmap`."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def reading_is_free(tensor: Tensor) -> bool:
    """Whether the program may branch on values here, without waiting for a device."""
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    return not (transformed() and vectorized(tensor))


def array_of(tensor: Tensor) -> np.ndarray:
    """The numbers of a tensor, under a transform of `torch.func` as well."""
    if tensor.is_meta:
        raise UnsupportedError(
            "numbers are asked for, and a tensor on the meta device has none. Run the program on a "
            "real device."
        )
    if not transformed():
        if not tensor.requires_grad:
            return tensor.cpu().numpy()
        with torch.no_grad():  # where nothing is recorded, `numpy` detaches itself
            return tensor.cpu().numpy()
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    # Their results would be wrapped again.
    with torch._C._DisableFuncTorch(), torch.no_grad():
        return tensor.cpu().numpy()


class Formula(torch.autograd.Function):
    """A function of tensors. Call it with `of`.

    A subclass defines the value (`value`, never recorded by autograd), the first derivatives
    (`gradients`), and the same function in ordinary operations (`formula`).
    """

    value: ClassVar[Callable[..., tuple[Tensor, Sequence[Tensor]]]]
    """(ctx, *arguments): the value, and tensors for `gradients`. `ctx` may store more."""
    gradients: ClassVar[Callable[[Any, Sequence[Tensor], Tensor], Sequence[Tensor | None]]]
    """(ctx, saved, grad): the gradient of each tensor argument."""
    formula: ClassVar[Callable[..., Tensor]]
    """(*arguments): the same value in ordinary operations, with the same derivatives."""

    @staticmethod
    def cut(ctx: Any, saved: Sequence[Tensor]) -> tuple[int, int]:
        """How many values were clipped, so that they pass no gradient, and of how many."""
        return 0, 0

    @classmethod
    def of(cls, *arguments: Any) -> Tensor:
        """The function's value, differentiable."""
        return cls.formula(*arguments) if followed() else cls.apply(*arguments)  # type: ignore[return-value]

    @classmethod
    def forward(cls, ctx: Any, *arguments: Any) -> Tensor:  # type: ignore[override]
        out, saved = cls.value(ctx, *arguments)
        tensors = [each for each in arguments if isinstance(each, Tensor)]
        ctx.others = [None if isinstance(each, Tensor) else each for each in arguments]
        ctx.at = [at for at, each in enumerate(arguments) if isinstance(each, Tensor)]
        ctx.save_for_backward(*tensors, *saved)
        return out

    @classmethod
    def backward(cls, ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        tensors, saved = ctx.saved_tensors[: len(ctx.at)], ctx.saved_tensors[len(ctx.at) :]
        if torch.is_grad_enabled():
            gradients = cls._again(ctx, tensors, grad)
        else:
            gradients = cls.gradients(ctx, saved, grad)
        grads: list[Tensor | None] = [None] * len(ctx.others)
        for at, each in zip(ctx.at, gradients, strict=True):
            grads[at] = each if ctx.needs_input_grad[at] else None
        return tuple(grads)

    @classmethod
    def _again(cls, ctx: Any, tensors: Sequence[Tensor], grad: Tensor) -> list[Tensor | None]:
        """The gradients as functions of the tensors and of `grad`, for another derivative."""
        arguments = list(ctx.others)
        for at, tensor in zip(ctx.at, tensors, strict=True):
            # If a tensor is passed twice, each occurrence has its own gradient.
            arguments[at] = tensor.view_as(tensor) if ctx.needs_input_grad[at] else tensor
        needed = [at for at in ctx.at if ctx.needs_input_grad[at]]
        out = cls.formula(*arguments)
        by_place: dict[int, Tensor | None] = {}
        if out.requires_grad:
            inputs = [arguments[at] for at in needed]
            grads = torch.autograd.grad(out, inputs, grad, create_graph=True, allow_unused=True)
            by_place = dict(zip(needed, grads, strict=True))
        return [by_place.get(at) for at in ctx.at]


def cut_values(node: Any) -> tuple[int, int]:
    """How many values of a node of an autograd graph were clipped, and of how many."""
    made_by = getattr(node, "_forward_cls", None)
    if made_by is None or not issubclass(made_by, Formula):
        return 0, 0
    return made_by.cut(node, node.saved_tensors[len(node.at) :])


@contextlib.contextmanager
def graph_of(operation: str) -> Iterator[None]:
    """A block that reads the graph of a result, which a backward pass may have freed."""
    try:
        yield
    except RuntimeError as error:
        if "a second time" not in str(error):
            raise
        raise UnsupportedError(
            f"{operation}: a backward pass has freed what the result was computed with. Call it "
            "before backward(), or with a result that is computed anew."
        ) from None
