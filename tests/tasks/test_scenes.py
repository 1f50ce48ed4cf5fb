"""Scenes: questions against plain Python and all readings of a scene, and for the trainer."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import dolphin as dl
from dolphin_tasks.catalogue import find_task
from dolphin_tasks.cli import main
from dolphin_tasks.scenes import data, program, world

CLASSES = [value for values in world.ATTRIBUTES.values() for value in values]


@pytest.fixture(scope="module")
def scenes():
    return data.Scenes(120, seed=0)


@pytest.fixture
def task():
    return find_task("scenes")(find_task("scenes").config_class())


def perfect(batch, sure=40.0):
    """Scores of a network that sees everything."""
    scores = torch.zeros(len(batch.scenes), world.MOST, len(CLASSES), dtype=torch.float64)
    for number, scene in enumerate(batch.scenes):
        for place, thing in enumerate(scene):
            for value in (thing.shape, thing.colour, thing.size):
                scores[number, place, CLASSES.index(value)] = sure
    return (scores,)


def test_perfect_perception_gives_perfect_answers(task, scenes):
    batch = scenes.batch(torch.arange(len(scenes)))
    outputs = perfect(batch)
    assert all(task.right(task.answers(outputs, batch), batch))
    read, true = task.perceived(outputs, batch)
    assert torch.equal(read, true)
    assert set(task.groups(batch)) == {0, 1, 2}


@pytest.mark.parametrize("provenance", ["damp", "exact"])
def test_answers_against_all_readings_of_a_scene(provenance):
    """Two things with attributes of their own probabilities: 576 readings, each with its answer."""
    rng = np.random.default_rng(1)
    torch.manual_seed(0)
    scores = torch.randn(2, len(CLASSES), dtype=torch.float64, requires_grad=True)
    places = [(2, 0), (0, 3)]
    sizes = [len(values) for values in world.ATTRIBUTES.values()]
    probs = [part.softmax(1) for part in scores.split(sizes, dim=1)]
    looks = list(itertools.product(*world.ATTRIBUTES.values()))
    for _ in range(6):
        question = program.make_question(rng)
        truth: dict[object, torch.Tensor] = {}
        for pair in itertools.product(looks, looks):
            things = tuple(world.Thing(*look, *at) for look, at in zip(pair, places, strict=True))
            weight = torch.ones((), dtype=torch.float64)
            for number, look in enumerate(pair):
                for part, values, value in zip(probs, world.ATTRIBUTES.values(), look, strict=True):
                    weight = weight * part[number, values.index(value)]
            answer = data.true_answer(things, question)
            truth[answer] = truth.get(answer, 0) + weight
        with dl.using(provenance):
            found = program.answers(scores[None], [places], [question])
        symbols = list(truth)
        expected = torch.stack([truth[symbol] for symbol in symbols])
        torch.testing.assert_close(found.probs(symbols)[0], expected)
        slopes = [
            torch.autograd.grad(value.square().sum(), scores, retain_graph=True)[0]
            for value in (found.probs(symbols)[0], expected)
        ]
        torch.testing.assert_close(*slopes)


def test_every_head_gets_a_gradient(task, scenes):
    network = task.network()
    batch = scenes.batch(torch.arange(60))
    task.losses(task.read(network, batch), batch).mean().backward()
    last = network.layers[-1].weight.grad
    sizes = [len(values) for values in world.ATTRIBUTES.values()]
    assert all(part.abs().sum() > 0 for part in last.split(sizes))


def test_questions_read_no_attribute_twice():
    rng = np.random.default_rng(0)
    for _ in range(200):
        question = program.make_question(rng)
        read = [
            program.ATTRIBUTE_OF.get(step[-1], step[-1])
            for step in question
            if step[0] in ("filter", "query")
        ]
        assert len(read) == len(set(read))


@pytest.mark.usefixtures("own_pictures")
def test_training_from_the_command_line(tmp_path):
    options = "--scenes 32 --validation-scenes 8 --test-scenes 8 --epochs 1 --batch 16 --threads 1"
    assert main(["train", "scenes", *options.split(), "--out", str(tmp_path / "run")]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["task"] == "scenes"
    assert list(tmp_path.rglob("*.png"))
