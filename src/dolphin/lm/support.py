"""Whether a model can read a trie from a cache: tested, not guessed from its name."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from dolphin.lm.reading import CachedReading, PlainReading, Reading, placement
from dolphin.lm.scoring import score
from dolphin.lm.trie import build_tries

_TOLERANCE = {torch.float64: 1e-6, torch.float32: 5e-4}
_TOLERANCE_OF_HALF = 0.2


def reads_tries(model: nn.Module) -> bool:
    """Whether a trie on a cache gives the same as whole texts, for prompts of unequal length.

    Models with custom positions, attention windows or states may not; some refuse the mask, others
    ignore it. Two small passes show it.
    """
    _, dtype = placement(model)
    prompts = [[3, 5, 4, 6, 3], [4, 3]]
    tries = build_tries([[[4, 5, 3], [4, 6], [5, 3, 4], [6]]])

    def scored(reading: Reading) -> Tensor:
        return score(reading, tries, [0])

    with torch.no_grad(), _evaluating(model):
        expected = scored(PlainReading(model, prompts))
        try:
            result = scored(CachedReading(model, prompts))
        except (
            TypeError,
            ValueError,
            RuntimeError,
            IndexError,
            AttributeError,
            NotImplementedError,
        ):
            return False
    tolerance = _TOLERANCE.get(dtype, _TOLERANCE_OF_HALF)
    return bool(((result - expected).abs() <= tolerance).all())


def attention_window(model: nn.Module) -> float:
    """The fewest tokens that a layer attends to. A cache of a layer with a window drops tokens.

    >>> attention_window(nn.Linear(2, 2))
    inf
    """
    inner = getattr(model, "module", model)  # of a wrapper for several processes
    config: Any = getattr(inner, "config", None)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    sizes = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    return min((size for size in sizes if isinstance(size, int)), default=math.inf)


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """A block in evaluation mode; afterwards every module is in the mode that it was in."""
    training = [module for module in model.modules() if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True
