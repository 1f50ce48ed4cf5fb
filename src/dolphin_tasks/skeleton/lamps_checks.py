"""What every task should pass: perfect perception gives perfect answers; gradients everywhere."""

import torch

from dolphin_tasks.skeleton.lamps import Lamps, Options

task = Lamps(Options())


def test_perfect_perception_gives_perfect_answers() -> None:
    """With confident correct scores, the program's answer is the label."""
    batch = task.data().test.batch(torch.arange(20))
    on = (batch.inputs.mean(2) > 0.5).long()
    scores = 50.0 * torch.nn.functional.one_hot(on, 2).float()
    assert task.right(task.answers((scores,), batch), batch) == [True] * 20


def test_every_score_gets_a_gradient() -> None:
    """Every output of the network influences the loss of some sample."""
    batch = task.data().train.batch(torch.arange(20))
    scores = task.read(task.network(), batch)[0].detach().requires_grad_()
    task.losses((scores,), batch).sum().backward()
    assert scores.grad is not None
    assert (scores.grad != 0).any(0).all()
