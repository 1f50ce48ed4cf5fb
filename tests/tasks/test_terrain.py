"""Terrain: paths against Dijkstra's, losses and gradients against enumeration of paths."""

from __future__ import annotations

import heapq
import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import dolphin as dl
from dolphin_tasks.catalogue import find_task
from dolphin_tasks.cli import main
from dolphin_tasks.terrain import data, drawing, program, world


def by_dijkstra(costs):
    """The least cost from corner to corner of one map, start excluded."""
    side = len(costs)
    best, queue = {}, [(0.0, 0, 0)]
    while queue:
        cost, row, column = heapq.heappop(queue)
        if (row, column) in best:
            continue
        best[row, column] = cost
        for r in range(max(0, row - 1), min(side, row + 2)):
            for c in range(max(0, column - 1), min(side, column + 2)):
                if (r, c) not in best:
                    heapq.heappush(queue, (cost + costs[r][c], r, c))
    return best[side - 1, side - 1]


def all_paths(side, cells=((0, 0),)):
    """Every path from corner to corner without a cell twice."""
    row, column = cells[-1]
    if (row, column) == (side - 1, side - 1):
        yield cells
        return
    for r in range(max(0, row - 1), min(side, row + 2)):
        for c in range(max(0, column - 1), min(side, column + 2)):
            if (r, c) not in cells:
                yield from all_paths(side, (*cells, (r, c)))


def scores_for(costs):
    """What a network must say for these costs."""
    return torch.as_tensor(np.log(np.expm1(costs - math.log(2.0))))


@pytest.fixture(scope="module")
def maps():
    return data.Maps(40, seed=0)


def test_paths_of_the_world_are_cheapest(maps):
    for costs, path in zip(maps.costs.numpy(), maps.paths.numpy(), strict=True):
        assert world.is_path(path)
        assert (costs * path).sum() - costs[0, 0] == pytest.approx(by_dijkstra(costs))
    assert (maps.kinds.flatten().bincount() > 0.1 * maps.kinds.numel()).all()


def test_distances_on_other_costs():
    costs = np.random.default_rng(0).uniform(0.1, 5, size=(10, 7, 7))
    found = world.distances(costs)[:, -1, -1]
    np.testing.assert_allclose(found, [by_dijkstra(one) for one in costs])


@pytest.mark.parametrize("rows", [1, 12])
def test_the_program_finds_cheapest_paths(rows):
    """Random costs, without ties."""
    costs = np.random.default_rng(rows).uniform(0.7, 9, size=(rows, 12, 12))
    reached = program.reached(program.passable(scores_for(costs)))
    found = -reached.log_probs([(11, 11)])[:, 0]
    np.testing.assert_allclose(found, [by_dijkstra(one) for one in costs])
    paths = program.cheapest(scores_for(costs)).numpy()
    assert (paths == world.cheapest_paths(costs)).all()


def test_regrets_and_their_gradients():
    """Against all paths of small maps, with a margin."""
    torch.manual_seed(0)
    scores = (2 * torch.randn(5, 3, 3, dtype=torch.float64)).requires_grad_()
    masks = []
    for cells in all_paths(3):
        mask = torch.zeros(3, 3, dtype=torch.float64)
        for cell in cells[1:]:
            mask[cell] = 1.0
        masks.append(mask)
    every = torch.stack(masks)
    labels = every[[0, 7, 20, 100, 3]]
    costs = math.log(2.0) + F.softplus(scores) + 0.3 * labels
    totals = (costs[:, None] * every).sum((2, 3))
    wanted = (costs * labels).sum((1, 2)) - totals.amin(1)
    marked = labels.clone()
    marked[:, 0, 0] = 1.0  # labels name the start, too
    found = program.regrets(scores, marked, 0.3)
    torch.testing.assert_close(found, wanted)
    slopes = [torch.autograd.grad(value.sum(), scores)[0] for value in (found, wanted)]
    torch.testing.assert_close(*slopes)


def example(maps):
    task = find_task("terrain")(find_task("terrain").config_class())
    return task, maps.batch(torch.arange(40))


def test_perfect_perception_gives_perfect_answers(maps):
    task, batch = example(maps)
    outputs = (scores_for(3 * maps.costs.numpy()),)
    assert all(task.right(task.answers(outputs, batch), batch))
    assert program.regrets(outputs[0], batch.paths).abs().max() < 1e-9


def test_a_network_that_knows_nothing_is_told_what_to_change(maps):
    """Cells of the label's path become cheaper, those of the path found instead dearer."""
    task, batch = example(maps)
    scores = torch.zeros(40, 12, 12).requires_grad_()
    losses = task.losses((scores,), batch)
    assert losses.shape == (40,)
    assert losses.isfinite().all()
    losses.sum().backward()
    assert scores.grad is not None
    assert (scores.grad[batch.paths] >= 0).all()
    assert (scores.grad[~batch.paths] <= 0).all()
    longer = batch.paths.sum((1, 2)) > 12  # where all costs are the same, the diagonal wins
    assert longer.sum() > 30
    assert torch.equal(scores.grad.abs().sum((1, 2)) > 0, longer)
    network = task.network()
    task.losses(task.read(network, batch), batch).sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in network.parameters())


def test_wrong_paths_are_wrong(maps):
    task, batch = example(maps)
    straight = [torch.eye(12, dtype=torch.bool)] * 40
    costs = (maps.costs * torch.eye(12)).sum((1, 2)) - maps.costs[:, 0, 0]
    found = [by_dijkstra(one) for one in maps.costs.tolist()]
    least = torch.tensor(found, dtype=torch.float64)
    assert task.right(straight, batch) == (costs <= least + 1e-6).tolist()
    assert not all(task.right(straight, batch))


def test_cells_of_a_path_in_order(maps):
    for path in maps.paths:
        order = drawing.in_order(path)
        assert len(order) == int(path.sum())
        assert order[-1] == (11, 11)


@pytest.mark.usefixtures("own_pictures")
def test_it_trains(tmp_path):
    sizes = ["--maps", "48", "--validation-maps", "6", "--test-maps", "8", "--batch", "16"]
    assert main(["train", "terrain", *sizes, "--epochs", "1", "--out", str(tmp_path / "run")]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["learnt_costs"]["sand"] == 1.0
    assert results["cost_over_cheapest"] >= 1.0
    assert (tmp_path / "run" / "samples.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"provenance": "damp"}, "--provenance must be viterbi"),
        ({"loss": "bce"}, "--loss has no effect here"),
        ({"margin": -1.0}, "--margin must not be negative, got -1.0."),
        ({"maps": 0}, "--maps must be at least 1, got 0."),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(dl.DolphinError, match=message):
        find_task("terrain").config_class(**options).check()
