"""Draws docs/images/clutrr.png: generated stories, what is read in them, and what follows.

    python docs/images/clutrr_picture.py

No network is involved: the reader is 98 % sure of every relation, and right.
"""

import random
from pathlib import Path

import torch
import torch.nn.functional as F

from dolphin.tasks.clutrr.data import NOT_TOLD, Story, StoryBatch
from dolphin.tasks.clutrr.stories import TEST_SENTENCES, TRAIN_SENTENCES, make_story
from dolphin.tasks.clutrr.task import ClutrrConfig, ClutrrTask

LENGTHS = (3, 5, 8)
SURE = 0.98


def main() -> None:
    """Draw one story of each length."""
    rng = random.Random(3)
    told = [make_story(length, TRAIN_SENTENCES + TEST_SENTENCES, rng) for length in LENGTHS]
    batch = StoryBatch.of([Story.of(story) for story in told])
    task = ClutrrTask(ClutrrConfig(encoder="scratch"))
    nothing = len(task.classes) - 1
    read = torch.where(batch.truths == NOT_TOLD, nothing, batch.truths)
    others = (1 - SURE) / nothing
    outputs = ((F.one_hot(read, len(task.classes)) * (SURE - others) + others).log(),)
    answers = task.answers(outputs, batch)
    task.draw(outputs, answers, batch, Path(__file__).with_name("clutrr.png"))


if __name__ == "__main__":
    main()
