"""What tests of PathFinder share: plans, tasks, and perfect perception."""

from __future__ import annotations

import functools

import numpy as np
import torch

from dolphin_tasks.pathfinder import data, generator, truth
from dolphin_tasks.pathfinder.task import PathfinderConfig, PathfinderTask

plan = functools.cache(generator.generate)


def make_plans(design, count, seed=0):
    plans = [plan(design, seed, index) for index in range(count)]
    return data.Plans(
        torch.from_numpy(np.stack([each.contours for each in plans])),
        torch.from_numpy(np.stack([each.distractors for each in plans])),
        torch.tensor([each.first for each in plans]),
        torch.tensor([each.label for each in plans]),
    )


def make_task(**options):
    return PathfinderTask(PathfinderConfig(**options))


def perfect(task, batch, lean=40.0):
    """The outputs of a network that knows the plans of a batch."""
    return tuple(lean * (2 * facts.float() - 1) for facts in facts_of(task, batch))


def facts_of(task, batch):
    """Which ends and edges hold in the windows that the network looks at."""
    seen = data.window(batch, task.corners(batch.images), task.config.window)
    return truth.true_facts(seen, task.config.design(), task.config.side, task.edges)
