"""The command line on ten kinds of blots instead of MNIST: for tests that need a process."""

import sys
import types

import torch

from dolphin_tasks import digits
from dolphin_tasks.mnist import Mnist


def blots(*args: object, **kwargs: object) -> Mnist:
    """Ten kinds of noise that a network can learn in a moment."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randint(0, 256, (10, 28, 28), generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, 10, (600,), generator=generator)
    return Mnist(kinds[labels], labels, kinds[labels[:200]], labels[:200], "a generator")


if __name__ == "__main__":
    digits.find_digits = blots
    if "train" in sys.argv:  # pictures take longer than the training
        plots = types.ModuleType("dolphin_tasks.training.plots")
        vars(plots)["draw_run"] = lambda *given: None
        sys.modules[plots.__name__] = plots
    from dolphin_tasks.cli import main

    sys.exit(main())
