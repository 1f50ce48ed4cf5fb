"""Operations under `torch.compile`: one graph break each, instead of a walk through the engine."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import torch

_P = ParamSpec("_P")
_R = TypeVar("_R")


def eager(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Exclude an operation from compilation: its own frame, and those of all that it calls.

    The compiler is imported only where it is used: that takes longer than importing all of Dolphin.
    """
    if _mark is None:
        return _disabled(function)
    operation = cast("Any", function)
    operation._torchdynamo_disable = True  # a compiler that meets the call breaks its graph
    _mark(operation.__code__)
    return function


def _skip_mark() -> Callable[[types.CodeType], None] | None:
    """What `torch.compiler.disable` does to code in the end, without a wrapper around each call.

    None where this version of torch has no such mark, or another one: it is not public.
    """
    try:
        frames = torch._C._dynamo.eval_frame  # type: ignore[attr-defined]
        skip = frames._FrameAction.SKIP
        strategy = frames._FrameExecStrategy(skip, skip)
        mark = frames.set_code_exec_strategy
    except (AttributeError, TypeError):
        return None
    return lambda code: mark(code, strategy)


_mark = _skip_mark()


def _disabled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same in `torch.compiler.disable`, once there is a compiler."""
    disabled: Callable[_P, _R] | None = None

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        nonlocal disabled
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if disabled is None:
            disabled = cast("Callable[_P, _R]", torch.compiler.disable(function))
        return disabled(*args, **kwargs)

    cast("Any", run)._torchdynamo_disable = True
    return run
