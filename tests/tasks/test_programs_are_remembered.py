"""In a second step the tasks' own programs call no user function."""

from __future__ import annotations

import pytest
import torch

import dolphin as dl
from dolphin_tasks.bench.actions import Captions
from dolphin_tasks.bench.addition import Addition
from dolphin_tasks.bench.formulas import Formula
from dolphin_tasks.bench.kinship import Kinship
from dolphin_tasks.bench.paths import Chain, GridPaths
from dolphin_tasks.bench.sums import Product, Sum

PROGRAMS = [
    Sum(4), Product(4), Addition(3), Formula(5), GridPaths(3), Chain(6), Kinship(4), Captions(4),
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: type(program).__name__)
def test_no_calls_in_the_second_step(program):
    dl.cache_clear()
    calls = []
    for _ in range(2):
        scores, labels = program.draw(2, "confident", torch.Generator().manual_seed(0))
        with dl.profile() as seen:
            program.loss(scores, labels)
        # Losses compare targets with symbols anew: the targets are another batch's.
        calls.append(sum(e.function_calls for e in seen.entries if "loss" not in e.operation))
    assert calls[0] > 0
    assert calls[1] == 0, dl.cache_info().not_remembered
    assert dl.cache_info().not_remembered == ()
