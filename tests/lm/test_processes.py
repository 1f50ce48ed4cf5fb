"""A language model that is trained in two processes gets the gradients of the whole batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

pytest.importorskip("transformers")

import dolphin as dl
import tiny_models
from dolphin.lm import LanguageModel
from two_processes import call_in_two_processes

PROMPTS = ["a", "the cat", "one two", "it is"]
TOTALS = [5, 2, 4, 3]
NUMBERS = ["1", "2", "3"]


def loss(lm: LanguageModel, rows: slice) -> torch.Tensor:
    """How unlikely the totals are, from one question with a list and one without."""
    listed = lm.options(PROMPTS[rows], NUMBERS, normalise=True).map(int)
    free = lm.answers(PROMPTS[rows], len, k=3, max_new_tokens=2)
    total = dl.apply(listed, free, lambda x, y: x + y if isinstance(y, int) else x)
    return dl.nll_loss(total, TOTALS[rows])


def model() -> torch.nn.Module:
    return tiny_models.tiny_llama(len(tiny_models.byte_level_tokenizer())).double()


def work(folder: Path) -> None:
    """One of the processes: two of the four rows."""
    rank = dist.get_rank()
    shared = DistributedDataParallel(model())
    lm = LanguageModel(shared, tiny_models.byte_level_tokenizer())
    loss(lm, slice(2 * rank, 2 * rank + 2)).backward()
    gradients = {name: p.grad for name, p in shared.module.named_parameters()}
    torch.save(gradients, folder / f"{rank}.pt")


def test_two_processes_have_the_gradients_of_one(tmp_path):
    alone = LanguageModel(model(), tiny_models.byte_level_tokenizer())
    loss(alone, slice(None)).backward()
    call_in_two_processes(work, tmp_path)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        for name, parameter in alone.model.named_parameters():
            torch.testing.assert_close(found[name], parameter.grad, atol=1e-5, rtol=1e-3)
