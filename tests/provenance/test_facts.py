"""Facts whose logarithms are computed when they are first read."""

import contextlib

import pytest
import torch

from dolphin.inputs.shared import read


@pytest.mark.parametrize("mode", [contextlib.nullcontext, torch.no_grad, torch.inference_mode])
def test_who_reads_logarithms_first_does_not_decide_about_gradients(mode):
    probs = torch.tensor([[0.2, 0.5]], requires_grad=True)
    facts = read("test", probs, "ab", True, "probs").facts
    with mode():
        assert facts.log_probs.requires_grad
    facts.log_probs.sum().backward()
    torch.testing.assert_close(probs.grad, 1 / probs.detach())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_facts_that_were_made_without_gradients_stay_without(mode):
    probs = torch.tensor([[0.2, 0.5]], requires_grad=True)
    with mode():
        facts = read("test", probs, "ab", True, "probs").facts
    assert not facts.log_probs.requires_grad
    torch.testing.assert_close(facts.log_probs, probs.detach().log().t())
