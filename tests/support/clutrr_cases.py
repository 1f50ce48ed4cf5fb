"""What tests of CLUTRR share: tasks, stories, files, and perfect perception."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import torch
import torch.nn.functional as F

from dolphin_tasks.clutrr import data, model, stories
from dolphin_tasks.clutrr.data import Story, StoryBatch
from dolphin_tasks.clutrr.kinship import RELATIONS
from dolphin_tasks.clutrr.task import ClutrrConfig, ClutrrTask


def make_task(**options):
    return ClutrrTask(ClutrrConfig(**{"encoder": "scratch", **options}))


def told(*lengths, seed=0):
    rng = random.Random(seed)
    return [stories.make_story(length, stories.TRAIN_SENTENCES, rng) for length in lengths]


def batch_of(*lengths, seed=0):
    return StoryBatch.of([Story.of(story) for story in told(*lengths, seed=seed)])


def perfect(batch):
    """Logits of a network that reads every passage right."""
    nothing = len(RELATIONS)
    told = torch.where(batch.truths == data.NOT_TOLD, nothing, batch.truths)
    return 40.0 * F.one_hot(told, model.CLASSES)


def write_csv(path: Path, rows, name="1.2") -> bytes:
    stream = io.StringIO(newline="")
    fields = ["story", "query", "target", "task_name", "story_edges", "edge_types", "genders"]
    writer = csv.DictWriter(stream, fields)
    writer.writeheader()
    for story in rows:
        people = [story.relations[0][0], *(b for _, _, b in story.relations)]
        writer.writerow(
            {
                "story": story.text,
                "query": str(story.query),
                "target": story.answer,
                "task_name": f"task_{story.noise}.{story.length}",
                "story_edges": str([(i, i + 1) for i in range(story.length)]),
                "edge_types": str([r for _, r, _ in story.relations]),
                "genders": ",".join(
                    f"{n}:{'female' if n in story.women else 'male'}" for n in people
                ),
            }
        )
    path.write_bytes(stream.getvalue().encode())
    return path.read_bytes()
