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

# What compiles the frames of this thread; not every version of torch tells.
_frames = torch._C._dynamo.eval_frame  # type: ignore[attr-defined]
_compiler: Callable[[], object] | None = getattr(_frames, "get_eval_frame_callback", None)


def eager(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Exclude an operation from compilation.

    The compiler is imported only where it is used: that takes longer than importing all of Dolphin.
    Where nothing is being compiled, the operation is called directly.
    """
    disabled: Callable[_P, _R] | None = None

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        nonlocal disabled
        if "torch._dynamo" not in sys.modules or (_compiler is not None and _compiler() is None):
            return function(*args, **kwargs)
        if disabled is None:
            disabled = cast("Callable[_P, _R]", torch.compiler.disable(function))
        return disabled(*args, **kwargs)

    run._torchdynamo_disable = True  # type: ignore[attr-defined]
    _exclude(cast("Any", run).__code__)
    return run


def _exclude(code: types.CodeType) -> None:
    """Never compile the frames of this code: for each operation they would be compiled again."""
    actions = getattr(_frames, "_FrameAction", None)
    if actions is not None:  # not every version of torch has this
        strategy = _frames._FrameExecStrategy(actions.SKIP, actions.DEFAULT)
        _frames.set_code_exec_strategy(code, strategy)
