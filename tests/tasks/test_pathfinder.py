"""PathFinder: the program against networkx, perfect perception, and a smoke run."""

from __future__ import annotations

import itertools
import json
import random

import numpy as np
import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")
pytest.importorskip("networkx")

import networkx

import dolphin as dl
from dolphin_tasks.fetch import DataError
from dolphin_tasks.pathfinder import (
    data,
    glimpse,
    model,
    program,
)
from dolphin_tasks.pathfinder.task import PathfinderConfig, PathfinderTask
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.training.display import Display
from dolphin_tasks.training.folder import RunFolder
from dolphin_tasks.training.loop import Trainer
from dolphin_tasks.training.processes import Processes
from pathfinder_cases import facts_of, make_plans, make_task, perfect

pytestmark = pytest.mark.usefixtures("alone")
SHIFTS = model.LocalNetwork.shifts


# -- the program -----------------------------------------------------------------------------------


def certain(symbols, held, provenance="boolean"):
    probs = torch.tensor([[1.0 if symbol in held else 0.0 for symbol in symbols]])
    return dl.Distribution(
        probs, symbols, exclusive=False, provenance=dl.get_provenance(provenance)
    )


@pytest.mark.parametrize("provenance", ["boolean", "viterbi", "dtkp-am", "damp"])
def test_connections_are_those_of_networkx(provenance):
    rng = random.Random(0)
    nodes = [f"n{place}" for place in range(7)]
    every = list(itertools.permutations(nodes, 2))
    answers = set()
    for _ in range(25):
        edges, ends = rng.sample(every, rng.randrange(12)), rng.sample(nodes, rng.randrange(5))
        graph = networkx.DiGraph(edges)
        graph.add_nodes_from(nodes)
        expected = any(networkx.has_path(graph, a, b) for a, b in itertools.permutations(ends, 2))
        found = program.connected(
            certain(nodes, ends, provenance), certain(every, edges, provenance), steps=7
        )
        assert (dl.get_probs(found, symbols=[True]).item() > 0.5) == expected
        plain = program.joined(
            certain(nodes, ends, provenance), certain(every, edges, provenance), steps=7
        )
        assert (dl.get_probs(plain, symbols=[True]).item() > 0.5) == expected
        settled = program.connected(certain(nodes, ends), certain(every, edges))
        assert (dl.get_probs(settled, symbols=[True]).item() > 0.5) == expected
        roads = program.both_ways(certain(every, edges, provenance))
        both = program.connected(certain(nodes, ends, provenance), roads, 7, symmetric=True)
        joined = any(
            networkx.has_path(graph.to_undirected(), a, b)
            for a, b in itertools.permutations(ends, 2)
        )
        assert (dl.get_probs(both, symbols=[True]).item() > 0.5) == joined
        answers.add((expected, joined))
    assert len(answers) == 3


def likeliest_path(nodes, ends, edges):
    """The greatest product of probabilities of two ends and a path between them."""
    graph = networkx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_weighted_edges_from((a, b, -np.log(p)) for (a, b), p in edges.items())
    best = 0.0
    for a, lengths in networkx.all_pairs_dijkstra_path_length(graph):
        for b, length in lengths.items():
            if a != b:
                best = max(best, ends[a] * ends[b] * np.exp(-length))
    return best


@pytest.mark.parametrize("side", [2, 3, 4])
def test_the_likeliest_path_is_that_of_networkx(side, float64):
    nodes, undirected = range(side * side), program.grid_edges(side, SHIFTS[:4])
    for seed in range(5):
        torch.manual_seed(seed)
        ends = torch.rand(1, len(nodes))
        edges = torch.rand(1, len(undirected))
        probs = dict(zip(undirected, edges[0].tolist(), strict=True))
        probs |= {(b, a): p for (a, b), p in probs.items()}
        expected = likeliest_path(nodes, ends[0].tolist(), probs)
        for provenance in (dl.get_provenance("viterbi"), dl.TopKProofs(k=1)):
            where = dl.Distribution(ends, nodes, exclusive=False, provenance=provenance)
            roads = dl.Distribution(edges, undirected, exclusive=False, provenance=provenance)
            found = program.connected(
                where, program.both_ways(roads), steps=len(nodes), symmetric=True
            )
            assert dl.get_probs(found).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("provenance", ["viterbi", "dtkp-wmc", "exact"])
def test_the_closure_and_the_digits_give_one_answer(provenance, float64):
    """Values and gradients, on graphs of five nodes."""
    nodes = range(5)
    edges = [(a, b) for a in nodes for b in nodes if a != b and (a + b) % 3]
    torch.manual_seed(0)
    ends, roads = torch.rand(3, 5).requires_grad_(), torch.rand(3, len(edges)).requires_grad_()
    found = []
    for answer in (program.joined, program.connected):
        with dl.using(provenance):
            where = dl.Distribution(ends, nodes, exclusive=False)
            between = dl.Distribution(roads, edges, exclusive=False)
        probs = dl.get_probs(answer(where, between, 4), symbols=[True])
        found.append((probs, *torch.autograd.grad(probs.sum(), (ends, roads))))
    for first, second in zip(*found, strict=True):
        assert torch.allclose(first, second)


def test_an_end_is_not_connected_with_itself():
    nodes, edges = range(4), [(0, 1), (1, 0), (1, 2), (2, 1)]
    for ends in ([0], [2], [3], [0, 3]):
        found = program.connected(certain(nodes, ends), certain(edges, edges))
        assert dl.get_probs(found, symbols=[True]).item() == 0.0
    found = program.connected(certain(nodes, [0, 2]), certain(edges, edges))
    assert dl.get_probs(found, symbols=[True]).item() == 1.0


def test_one_node_and_steps_too_few():
    alone = program.connected(certain(["a"], ["a"]), certain([("a", "a")], [("a", "a")]), steps=3)
    assert dl.get_probs(alone, symbols=[True]).item() == 0.0
    chain = [(place, place + 1) for place in range(5)]
    for steps, reached in ((4, 0.0), (5, 1.0)):
        found = program.connected(certain(range(6), [0, 5]), certain(chain, chain), steps=steps)
        assert dl.get_probs(found, symbols=[True]).item() == reached


def test_exact_probability_of_a_square(float64):
    """Two ways around: 1 - (1 - p²)², both ends certain."""
    where = dl.Distribution(
        [[1.0, 0.0, 0.0, 1.0]], range(4), exclusive=False, provenance=dl.Exact()
    )
    edges = program.grid_edges(2)
    roads = dl.Distribution([[0.5] * 4], edges, exclusive=False, provenance=dl.Exact())
    found = program.connected(where, program.both_ways(roads), steps=4, symmetric=True)
    assert dl.get_probs(found).item() == pytest.approx(1 - (1 - 0.25) ** 2)


def test_grid_edges_are_those_of_networkx():
    for side in (2, 3, 6):
        graph = networkx.grid_2d_graph(side, side)
        expected = {frozenset((a * side + b, c * side + d)) for (a, b), (c, d) in graph.edges}
        assert {frozenset(edge) for edge in program.grid_edges(side)} == expected
        places = {a * side + b: (a, b) for a, b in graph.nodes}
        for shifts, reach in ((SHIFTS[:4], 1), (SHIFTS, 2)):  # everything within this many blocks
            edges = program.grid_edges(side, shifts)
            expected = {
                frozenset((one, other))
                for (one, a), (other, b) in itertools.combinations(places.items(), 2)
                if max(abs(a[0] - b[0]), abs(a[1] - b[1])) <= reach
            }
            assert {frozenset(edge) for edge in edges} == expected and len(edges) == len(expected)


def test_the_plan_is_made_once(monkeypatch):
    task = make_task(network="paper")
    batch = data.draw_plans(
        task.config.design(), make_plans(task.config.design(), 4), torch.full((4,), 6)
    )

    def step():
        outputs = tuple(torch.randn(4, n, requires_grad=True) for n in (36, 120))
        task.losses(outputs, batch).sum().backward()

    calls = []
    digit = program._digit
    monkeypatch.setattr(program, "_digit", lambda *args: calls.append(args) or digit(*args))
    dl.cache_clear()
    step()
    assert calls
    calls.clear()
    before = dl.cache_info()
    step()
    after = dl.cache_info()
    assert not calls  # nothing of the program runs again
    assert after.misses == before.misses
    assert after.hits > before.hits


# -- perception ------------------------------------------------------------------------------------

CONFIGS = [
    {"size": 32, "dashes": 6, "network": "paper"},
    {"size": 32, "dashes": 14, "network": "paper", "provenance": "dtkp-am", "k": 1},
    {"size": 32, "dashes": 6, "provenance": "damp"},
    {"size": 32, "dashes": 14, "grid": 5},
    {"size": 128, "dashes": 9},
    {"size": 256, "dashes": 6},
    {"size": 64, "dashes": 4, "network": "paper"},
    {"size": 97, "dashes": 5},
]


def describe(options):
    return "-".join(map(str, options.values()))


@pytest.mark.parametrize("options", CONFIGS, ids=describe)
def test_perfect_perception_gives_perfect_answers(options):
    task = make_task(**options)
    design = task.config.design()
    plans = make_plans(design, 12, seed=3)
    batch = data.DrawnSamples(design, plans).batch(torch.arange(12))
    assert 2 < batch.labels.sum() < 10
    outputs = perfect(task, batch)
    answers = task.answers(outputs, batch)
    assert all(task.right(answers, batch))
    assert task.losses(outputs, batch).max() < 1e-3
    read, true = task.perceived(outputs, batch)
    assert (read == true).float().mean() > 0.95  # two discs of one block count as two blocks
    # the answer depends on both heads
    ends, edges = outputs
    assert not any(task.answers((-ends.abs(), edges), batch))
    assert not any(task.answers((ends, -edges.abs()), batch))


@pytest.mark.parametrize(("size", "dashes"), [(32, 6), (32, 14), (128, 9), (256, 14)])
def test_steps_are_enough_for_every_contour(size, dashes):
    task = make_task(size=size, dashes=dashes)
    design = task.config.design()
    plans = data.toss(make_plans(design, 15, seed=5), torch.zeros(15, 2))  # all of them joined
    batch = data.draw_plans(design, plans.rows(torch.arange(15)), torch.full((15,), dashes))
    ends, edges = facts_of(task, batch)
    for row in range(15):
        held = edges[row].nonzero().flatten().tolist()
        graph = networkx.Graph(task.edges[place] for place in held)
        first, second = ends[row].nonzero().flatten().tolist()[:2]
        assert networkx.shortest_path_length(graph, first, second) <= task.steps


@pytest.mark.parametrize("options", CONFIGS[:3], ids=describe)
def test_every_head_gets_a_gradient(options):
    task = make_task(**options)
    design = task.config.design()
    batch = data.DrawnSamples(design, make_plans(design, 8)).batch(torch.arange(8))
    outputs = tuple(
        (0.05 * facts + 0.1 * torch.randn_like(facts) - shift).requires_grad_()
        for facts, shift in zip(perfect(task, batch), (2.0, 3.0), strict=True)
    )
    losses = task.losses(outputs, batch)
    assert losses.shape == (8,)
    losses.sum().backward()
    for head in outputs:
        assert head.grad is not None and head.grad.isfinite().all()
        assert (head.grad.abs().sum(1) > 0).all()
    after = task.losses(tuple((o - 1e-3 * o.grad).detach() for o in outputs), batch)
    assert after.sum() < losses.sum()


@pytest.mark.parametrize("network", ["better", "paper", "plain", "plain-whole", "plain-paper"])
@pytest.mark.parametrize("size", [32, 97])
def test_every_weight_learns(network, size):
    torch.manual_seed(0)
    task = make_task(size=size, network=network)
    made = task.network()
    design = task.config.design()
    batch = data.DrawnSamples(design, make_plans(design, 6)).batch(torch.arange(6))
    task.losses(task.read(made, batch), batch).sum().backward()
    moved = dict.fromkeys((name for name, _ in made.named_children()), 0.0)
    for name, weight in made.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all(), name
        moved[name.split(".")[0]] += float(weight.grad.abs().sum())
    assert all(total > 0 for total in moved.values()), moved


def test_edges_of_the_network_are_those_of_the_grid():
    """A head that adds up two blocks of its square must speak for the edge of these very blocks."""
    network = model.LocalNetwork(32, 8, radius=1.5)
    network.features, network.ends = torch.nn.Identity(), torch.nn.Identity()
    network.glimpse = torch.nn.Identity()
    network.glimpse.forward = lambda images: (images, *[torch.zeros(1, 1, 8, 8)] * 2)
    weight = torch.zeros(len(SHIFTS), 1, 3, 3)
    for place, (down, right) in enumerate(SHIFTS):
        for row, column in ((0, max(0, -right)), (down, max(0, right))):
            weight[place, 0, row, column] = 1
    network.edges = torch.nn.Conv2d(1, len(SHIFTS), 3, bias=False)
    network.edges.weight.data = weight
    features = torch.randn(1, 1, 8, 8)
    expected = [
        (features.flatten()[a] + features.flatten()[b]).item()
        for a, b in program.grid_edges(8, SHIFTS)
    ]
    assert network(features)[1][0].tolist() == pytest.approx(expected, abs=1e-5)


def test_ink_in_two_blocks_speaks_for_their_edge():
    """More than anything else, and alone it decides only about neighbours."""
    network = model.LocalNetwork(32, 8, radius=1.5).eval()
    torch.nn.init.zeros_(network.edges[-1].weight)
    edges = program.grid_edges(8, SHIFTS)
    images = torch.zeros(len(edges), 1, 32, 32)
    for image, edge in zip(images, edges, strict=True):
        for node in edge:
            image[0, 4 * (node // 8) + 1, 4 * (node % 8) + 2] = 1
    with torch.no_grad():
        scores = network(images)[1]
    places = torch.arange(len(edges))
    assert torch.equal(scores.argmax(1), places)
    neighbours = len(program.grid_edges(8, SHIFTS[:4]))
    assert torch.equal((scores > 0).nonzero(), places[:neighbours, None].expand(-1, 2))


@pytest.mark.parametrize("size", [32, 128, 256])
def test_the_first_guess_finds_discs_and_ink(size):
    """The ends that it guesses are the discs, and most of a contour is among the edges."""
    task = make_task(size=size)
    design = task.config.design()
    batch = data.DrawnSamples(design, make_plans(design, 40)).batch(torch.arange(40))
    network = task.network().eval()
    assert isinstance(network, model.LocalNetwork)
    for head in (network.ends, network.edges):
        torch.nn.init.zeros_(head[-1].weight)
    with torch.no_grad():
        ends, edges = task.read(network, batch)
    true_ends, held = facts_of(task, batch)
    assert ((ends > 0) == true_ends).all(1).float().mean() > 0.9  # discs may lie between blocks
    assert (edges[held] > 0).float().mean() > 0.6  # gaps leave blocks empty
    assert (edges[~held] > 0).float().mean() < 0.5


@pytest.mark.parametrize(("size", "dashes"), [(32, 6), (128, 6), (128, 9), (256, 6), (256, 14)])
def test_the_window_shows_discs_that_are_joined_and_all_between_them(size, dashes):
    task = make_task(size=size, dashes=dashes)
    design, width = task.config.design(), task.config.window
    plans = data.toss(make_plans(design, 30, seed=5), torch.zeros(30, 2))  # all of them joined
    batch = data.draw_plans(design, plans.rows(torch.arange(30)), torch.full((30,), dashes))
    spots, bright = glimpse.brightest_spots(batch.images, design.radius)
    apart = (spots[:, :, None] - batch.discs.round()[:, None]).abs().amax(-1)
    assert apart.amin(1).max() <= 1 and apart.amin(2).max() <= 1
    assert (bright[:, 1] > 0.9 * bright[:, 0]).all()
    corners = task.corners(batch.images)
    seen = data.window(batch, corners, width)
    for row, (top, left) in enumerate(corners.tolist()):
        part = batch.images[row, :, top : top + width, left : left + width]
        assert torch.equal(seen.images[row], part)
    assert seen.contours is not None and seen.discs is not None
    points = torch.cat([seen.contours[:, 0, :, :2], seen.discs], dim=1)
    assert points.min() >= -1 and points.max() <= width  # a tip may reach over the image's border


def test_two_discs_too_far_apart_are_not_joined():
    task = make_task(size=256)
    images = torch.zeros(1, 1, 256, 256)
    images[..., 20:31, 20:31] = images[..., 220:231, 120:131] = 1
    batch = data.PathBatch(images, torch.tensor([False]))
    ends, _ = outputs = task.read(task.network().eval(), batch)
    assert (ends < 0).all() and task.answers(outputs, batch) == [False]


@pytest.mark.parametrize(
    ("options", "share"), [({}, 0.1), ({"size": 128}, 1.0), ({"end_share": 0.0}, 0.0)]
)
def test_ends_are_corrected_as_much_as_they_may(options, share):
    task = make_task(**options)
    network = task.network().eval()
    *_, bias = network.get_submodule("ends").parameters()
    images = torch.rand(2, 1, task.config.size, task.config.size)
    with torch.no_grad():
        before = network(images)[0]
        bias.add_(3.0)
        moved = network(images)[0] - before
    torch.testing.assert_close(moved, torch.full_like(moved, 3.0 * share), atol=1e-4, rtol=1e-4)


def test_an_image_of_nothing_is_answered():
    for size in (32, 128):
        task = make_task(size=size)
        batch = data.PathBatch(torch.zeros(2, 1, size, size), torch.tensor([False, True]))
        outputs = task.read(task.network().eval(), batch)
        assert all(out.isfinite().all() for out in outputs)
        assert task.answers(outputs, batch) == [False, False]


# -- the task --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 8}, "--size 8"),
        ({"dashes": 0}, "dash"),
        ({"grid": 1}, "--grid"),
        ({"grid": 17}, "--grid"),
        ({"data_seed": -1}, "--data-seed"),
        ({"end_share": -0.1}, "--end-share must not be negative"),
        ({"end_share": 0.1, "network": "paper"}, "--end-share is for --network better"),
        ({"loss": "nll"}, "--loss"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        PathfinderConfig(**options).check()


@pytest.mark.parametrize("network", ["better", "plain"])
def test_smoke(network, tmp_path, monkeypatch):
    config = PathfinderConfig(
        network=network, epochs=1, batch=16, train_samples=32, test_samples=6, device="cpu"
    )
    config.check()
    folder = RunFolder(tmp_path / "run")
    task = PathfinderTask(config)
    display, lines = Display(quiet=True), []
    monkeypatch.setattr(display, "line", lines.append)
    results = Trainer(task, folder, display, Processes("cpu")).run()
    *lines, baseline = [line for line in lines if "%" in line]
    assert len(lines) == 2 and baseline.startswith("distance accuracy: ")
    assert results["test_samples"] == 6
    assert sum(group["total"] for group in results["accuracy_by_group"].values()) == 6
    assert (folder.path / "samples.png").stat().st_size > 10_000
    assert json.loads((folder.path / "results.json").read_text())["symbolic_share"] >= 0
    perceives = network == "better"  # nothing to say about discs without a program
    assert (results["perception_accuracy"] is not None) == perceives
    assert (folder.path / "confusion.png").exists() == perceives
    assert all(("perception" in line) == perceives for line in lines)


@pytest.mark.parametrize("size", [32, 128])
def test_prediction_draws_the_path(size, tmp_path):
    from PIL import Image

    task = make_task(size=size)
    reach = task.config.window / task.config.side / 2 + 1
    design = task.config.design()
    batch = data.DrawnSamples(design, make_plans(design, 8)).batch(torch.arange(8))
    row = int(batch.labels.nonzero()[0])
    pixels = (batch.images[row, 0] * 255).round().byte().numpy()
    Image.fromarray(pixels).save(tmp_path / "given.png")
    given = task.given([str(tmp_path / "given.png")])
    assert torch.allclose(given.images[0], batch.images[row], atol=1 / 100)
    outputs = tuple(out[row : row + 1] for out in perfect(task, batch))
    lines = task.describe(outputs, given)
    assert lines[0].startswith("result: joined")
    belief = task.beliefs(outputs, given.images)[0]
    assert len(belief.ends) == 2
    walk = [belief.edges[0][0], *(there for _, there, _ in belief.edges)]
    assert [here for here, _, _ in belief.edges] == walk[:-1]
    assert {walk[0], walk[-1]} == {end for end, _ in belief.ends}
    assert batch.discs is not None
    discs = batch.discs[row].tolist()
    for end, chance in belief.ends:  # at most half a block from a disc
        assert (
            min(max(abs(a - b) for a, b in zip(end, disc, strict=True)) for disc in discs) < reach
        )
        assert chance > 0.99
    assert task.portray(outputs, given, tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 5_000
    with pytest.raises(DataError, match="one picture"):
        task.given(["a.png", "b.png"])
    Image.fromarray(pixels[:20]).save(tmp_path / "flat.png")
    with pytest.raises(DataError, match="square"):
        task.given([str(tmp_path / "flat.png")])
