"""Low-rank adapters: a few weights beside a frozen model (LoRA)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

ADAPTED = ("q_proj", "v_proj", "o_proj", "up_proj", "down_proj")
"""Linear layers of a block that get an adapter."""
SCALE = 2.0


class Adapter(nn.Module):
    """x ↦ scale · B A x, added to the output of a linear layer. B starts at zero."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)
        self.on = True

    def forward(self, x: Tensor) -> Tensor:
        """What is added to the layer's output."""
        return SCALE * self.up(self.down(x))

    def attach(self, layer: nn.Linear) -> None:
        """Add this adapter's output to that of `layer` from now on."""

        def add(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            return output + self(inputs[0]) if self.on else output

        layer.register_forward_hook(add)


class AdaptedModel(nn.Module):
    """Adapters of the last blocks of a causal model. The model is not part of the weights."""

    def __init__(self, model: nn.Module, blocks: int, rank: int) -> None:
        super().__init__()
        model.requires_grad_(False)
        self._model = (model.eval(),)  # in a tuple: not a submodule, so not saved
        self.adapters = nn.ModuleDict()
        for name, layer in _linear_layers(model, blocks):
            adapter = Adapter(layer, rank)
            adapter.attach(layer)
            self.adapters[name.replace(".", "_")] = adapter

    @property
    def model(self) -> nn.Module:
        """The model, on the device of the adapters."""
        device = next(self.adapters.parameters()).device
        return self._model[0].to(device)

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        """The model as it was before training."""
        adapters: list[Any] = list(self.adapters.values())
        try:
            for adapter in adapters:
                adapter.on = False
            yield
        finally:
            for adapter in adapters:
                adapter.on = True


def _linear_layers(model: nn.Module, blocks: int) -> list[tuple[str, nn.Linear]]:
    """The layers to adapt in the last blocks, by name."""
    layers = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in ADAPTED
    ]
    numbers = sorted({_block(name) for name, _ in layers})[-blocks:]
    return [(name, layer) for name, layer in layers if _block(name) in numbers]


def _block(name: str) -> int:
    return next((int(part) for part in name.split(".") if part.isdigit()), 0)
