"""Passes of a model over prompts and over tries of tokens that follow them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

ELEMENTS = 1 << 26
"""Numbers that one pass may hold in its largest tensor, logits or attention mask (256 MB)."""


class Reading(Protocol):
    """Prompts that a model has read, and a trie of tokens after each."""

    logits: Tensor
    """(B, 1, V): what follows the prompts."""

    def extend(self, tokens: Tensor, lineage: Tensor) -> Tensor:
        """Read more nodes, numbered after the last: logits (B, t, V) of what follows them.

        `tokens` (B, t); `lineage` (B, t, depth): for each node the numbers of the nodes from the
        root, which is 0 and not listed, to itself, in any order, filled with zeros.
        """
        ...

    def room(self, nodes: int) -> int:
        """How many nodes to pass to one call of `extend` if `nodes` remain."""
        ...


class CachedReading:
    """One pass over the prompts; then every node is computed once, on one cache of B rows.

    An attention mask lets a node attend only to its prompt and its ancestors, and its position is
    its depth. That is exact, whatever else is in the cache.
    """

    def __init__(self, model: nn.Module, prompts: Sequence[Sequence[int]]) -> None:
        self._model = model
        self._device, self._dtype = placement(model)
        self._lengths = torch.tensor([len(prompt) for prompt in prompts], device=self._device)
        longest = max(map(len, prompts))
        padded = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
        places = torch.arange(longest, device=self._device)
        self._present = places >= longest - self._lengths[:, None]  # (B, P)
        self._nodes = 0
        self._cache: Any = None
        positions = (places - (longest - self._lengths[:, None])).clamp(min=0)
        mask = None
        if not bool(self._present.all()):
            visible = self._present[:, None, :] & (places <= places[:, None])
            mask = self._additive(
                visible | torch.eye(longest, dtype=torch.bool, device=self._device)
            )
        self.logits = self._forward(torch.tensor(padded, device=self._device), positions, mask, 1)

    def extend(self, tokens: Tensor, lineage: Tensor) -> Tensor:
        batch, count = tokens.shape
        total = self._nodes + count
        seen = torch.zeros(batch, count, 1 + total, dtype=torch.bool, device=self._device)
        seen.scatter_(2, lineage, True)
        prompt = self._present[:, None, :].expand(-1, count, -1)
        mask = self._additive(torch.cat([prompt, seen[..., 1:]], dim=2))
        depth = (lineage > 0).sum(2)
        positions = self._lengths[:, None] + depth - 1
        self._nodes = total
        return self._forward(tokens, positions, mask, count)

    def room(self, nodes: int) -> int:
        batch, prompt = self._present.shape
        widest = max(self.logits.shape[2], prompt + self._nodes + nodes)
        return max(1, ELEMENTS // (batch * widest))

    def _forward(self, tokens: Tensor, positions: Tensor, mask: Tensor | None, keep: int) -> Tensor:
        output = self._model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=self._cache,
            use_cache=True,
            **_keeping(self._model, keep),
        )
        self._cache = output.past_key_values
        if self._cache is None:
            raise ValueError("the model returned no cache")
        return output.logits[:, -keep:]

    def _additive(self, visible: Tensor) -> Tensor:
        """(B, 1, queries, keys): 0 where a query sees a key, and the lowest number elsewhere."""
        mask = torch.zeros(visible.shape, dtype=self._dtype, device=self._device)
        return mask.masked_fill_(~visible, torch.finfo(self._dtype).min)[:, None]


class PlainReading:
    """Every node computed with its whole text, for models that can't read a trie from a cache.

    Needs nothing but a causal model: sequences are padded on the right, where nothing is seen.
    """

    def __init__(self, model: nn.Module, prompts: Sequence[Sequence[int]]) -> None:
        self._model = model
        self._device, _ = placement(model)
        self._prompts = [list(prompt) for prompt in prompts]
        self._known: list[list[int]] = [[] for _ in prompts]  # tokens of the nodes of each row
        self.logits = self._last([self._prompts])

    def extend(self, tokens: Tensor, lineage: Tensor) -> Tensor:
        for known, new in zip(self._known, tokens.tolist(), strict=True):
            known.extend(new)
        texts = [
            [
                prompt + [known[node - 1] for node in path if node]
                for prompt, known, path in zip(self._prompts, self._known, paths, strict=True)
            ]
            for paths in lineage.transpose(0, 1).tolist()
        ]
        return self._last(texts)

    def room(self, nodes: int) -> int:
        longest = max(map(len, self._prompts)) + nodes
        return max(1, ELEMENTS // (len(self._prompts) * longest * self.logits.shape[2]))

    def _last(self, texts: Sequence[Sequence[Sequence[int]]]) -> Tensor:
        """Logits (B, t, V) after each of t texts per row."""
        flat = [text for row in zip(*texts, strict=True) for text in row]
        longest = max(map(len, flat))
        padded = [list(text) + [0] * (longest - len(text)) for text in flat]
        output = self._model(input_ids=torch.tensor(padded, device=self._device), use_cache=False)
        last = torch.tensor([len(text) - 1 for text in flat], device=self._device)
        logits = output.logits[torch.arange(len(flat), device=self._device), last]
        return logits.unflatten(0, (len(self._prompts), len(texts)))


def placement(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """The device of a model, and the precision it computes in."""
    first = next((p for p in model.parameters() if p.is_floating_point()), None)
    if first is None:
        return torch.device("cpu"), torch.get_default_dtype()
    if torch.is_autocast_enabled(first.device.type):
        return first.device, torch.get_autocast_dtype(first.device.type)
    return first.device, first.dtype


def _keeping(model: nn.Module, keep: int) -> dict[str, int]:
    """The argument that limits a model to the last logits, where it has one."""
    inner = getattr(model, "module", model)  # of a wrapper for several processes
    names = inspect.signature(inner.forward).parameters
    return {"logits_to_keep": keep} if "logits_to_keep" in names else {}
