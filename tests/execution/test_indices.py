"""Index lists, laid out in buckets of groups of about the same size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dolphin as dl
from dolphin.execution import buckets
from dolphin.execution.indices import Contraction


def uneven(seed: int) -> Contraction:
    """Many groups of one combination, some of a few, few of many; and some without any."""
    noise = np.random.default_rng(seed)
    counts = np.concatenate([np.ones(3000), noise.integers(0, 9, 60), [40, 41, 300]]).astype(int)
    group_of = noise.permutation(np.repeat(np.arange(len(counts)), counts))
    indices = [noise.integers(0, 7, len(group_of)), noise.integers(0, 5, len(group_of))]
    return Contraction(indices, group_of, len(counts))


@pytest.mark.parametrize("worth", [0, 256, 10**9], ids=lambda w: f"padding of {w}")
@pytest.mark.parametrize("name", ["damp", "viterbi", "noisy-or"])
def test_whatever_the_buckets_the_sums_are_the_same(name, worth, monkeypatch):
    monkeypatch.setattr(buckets, "_WORTH_A_BUCKET", worth)
    plan, provenance = uneven(1), dl.get_provenance(name)
    logs = [torch.rand(n, 2, dtype=torch.float64).mul(-9).requires_grad_() for n in (7, 5)]
    found = provenance.log_probs(provenance.contract(logs, plan))
    gathered = [tags[torch.from_numpy(i)] for tags, i in zip(logs, plan.indices, strict=True)]
    products = torch.stack(gathered).sum(0)
    for group in (*range(40), *range(3000, plan.groups)):
        members = products[torch.from_numpy(plan.group_of == group)]
        if len(members) == 0:
            assert (found[group] < -1e20).all()
            continue
        expected = provenance.add(members, 0)
        torch.testing.assert_close(found[group], expected)
    weights = torch.linspace(0.1, 1.0, plan.groups, dtype=torch.float64)[:, None]
    there = found > -1e20
    gradients = torch.autograd.grad((found * weights)[there].sum(), logs, retain_graph=True)
    if name == "viterbi":  # the likeliest product of each group gets all of it
        totals = [torch.zeros_like(tags) for tags in logs]
        for group in range(plan.groups):
            members = np.flatnonzero(plan.group_of == group)
            for row in range(2):
                if len(members):
                    best = members[int(products[members, row].argmax())]
                    for total, index in zip(totals, plan.indices, strict=True):
                        total[index[best], row] += weights[group, 0]
        torch.testing.assert_close(gradients, tuple(totals))


def test_classes_are_joined_where_that_adds_little_padding():
    sizes = [(bucket.depth, bucket.width) for bucket in uneven(0).buckets]
    assert [depth for depth, _ in sizes] == [1, 8, 41, 300]  # 2 to 8 in one, single ones apart
