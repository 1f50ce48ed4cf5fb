"""Programs that are trained in two processes get the gradients of the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import dolphin as dl
from two_processes import call_in_two_processes

Wrap = Callable[[nn.Module], nn.Module]


class Sums(nn.Module):
    """Sums of some numbers, one sample at a time."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.read = dl.network(nn.Linear(5, 2), [0, 1])
        self.run = dl.batched(self.total)

    def total(self, rows):
        return dl.reduce(lambda x, y: x + y, [self.read(row) for row in rows])

    def forward(self, samples):
        return self.run(samples)


def batched(wrap: Wrap, rows: slice) -> tuple[nn.Module, Tensor]:
    model = wrap(Sums())
    torch.manual_seed(1)
    samples, labels = [torch.randn(n, 5) for n in (1, 3, 2, 4)], [0, 2, 1, 3]
    return model, dl.nll_loss(model(samples[rows]), labels[rows])


def language_model(wrap: Wrap, rows: slice) -> tuple[nn.Module, Tensor]:
    """How unlikely totals are, from one question with a list and one without."""
    import tiny_models
    from dolphin.lm import LanguageModel

    tokenizer = tiny_models.byte_level_tokenizer()
    model = wrap(tiny_models.tiny_llama(len(tokenizer)).double())
    lm = LanguageModel(model, tokenizer)
    prompts, totals = ["a", "the cat", "one two", "it is"][rows], [5, 2, 4, 3][rows]
    listed = lm.options(prompts, ["1", "2", "3"], normalise=True).map(int)
    free = lm.answers(prompts, len, k=3, max_new_tokens=2)
    total = dl.apply(listed, free, lambda x, y: x + y if isinstance(y, int) else x)
    return model, dl.nll_loss(total, totals)


PROGRAMS = [batched, language_model] if find_spec("transformers") else [batched]


def gradients(wrap: Wrap, rows: slice) -> dict[tuple[str, str], Tensor | None]:
    """Those of every weight of every program."""
    found = {}
    for program in PROGRAMS:
        model, loss = program(wrap, rows)
        loss.backward()
        for name, parameter in model.named_parameters():
            found[program.__name__, name.removeprefix("module.")] = parameter.grad
    return found


def work(folder: Path) -> None:
    """One of the processes: every second row."""
    rank = dist.get_rank()
    torch.save(gradients(DistributedDataParallel, slice(rank, None, 2)), folder / f"{rank}.pt")


@pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed")
def test_two_processes_have_the_gradients_of_one(tmp_path):
    call_in_two_processes(work, tmp_path)
    expected = gradients(lambda model: model, slice(None))
    assert len(expected) > 2
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-3)
