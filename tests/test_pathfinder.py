"""PathFinder: the generator, the program against networkx, perfect perception, and a smoke run."""

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
from dolphin.tasks.fetch import DataError
from dolphin.tasks.pathfinder import (
    arena,
    data,
    generator,
    glimpse,
    model,
    program,
    render,
    truth,
)
from dolphin.tasks.pathfinder.task import PathfinderConfig, PathfinderTask
from dolphin.training.config import OptionError
from dolphin.training.display import Display
from dolphin.training.folder import RunFolder
from dolphin.training.loop import Trainer
from dolphin.training.noise import Noise
from dolphin.training.processes import Processes


@pytest.fixture(autouse=True)
def sandbox(monkeypatch, tmp_path):
    """No shared data, and a cache of its own."""
    monkeypatch.delenv("DOLPHIN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def make_plans(design, count, seed=0):
    plans = [generator.generate(design, seed, index) for index in range(count)]
    return data.Plans(
        torch.from_numpy(np.stack([plan.contours for plan in plans])),
        torch.from_numpy(np.stack([plan.distractors for plan in plans])),
        torch.tensor([plan.first for plan in plans]),
        torch.tensor([plan.label for plan in plans]),
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
    nodes, undirected = range(side * side), program.grid_edges(side, diagonal=True)
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
        diagonal = program.grid_edges(side, diagonal=True)
        assert len(set(map(frozenset, diagonal))) == len(diagonal)
        assert len(diagonal) == 2 * side * (side - 1) + 2 * (side - 1) ** 2


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
    plans = make_plans(design, 60, seed=3)
    batch = data.DrawnSamples(design, plans).batch(torch.arange(60))
    assert 10 < batch.labels.sum() < 50
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
    plans = data.toss(make_plans(design, 60, seed=5), torch.zeros(60, 2))  # all of them joined
    batch = data.draw_plans(design, plans.rows(torch.arange(60)), torch.full((60,), dashes))
    ends, edges = facts_of(task, batch)
    for row in range(60):
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
    pairs = [[[1, 1], [0, 0]], [[1, 0], [1, 0]], [[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    network.edges = torch.nn.Conv2d(1, 4, 2, bias=False)
    network.edges.weight.data = torch.tensor(pairs)[:, None].float()
    features = torch.randn(1, 1, 8, 8)
    expected = [
        (features.flatten()[a] + features.flatten()[b]).item()
        for a, b in program.grid_edges(8, diagonal=True)
    ]
    assert network(features)[1][0].tolist() == pytest.approx(expected, abs=1e-5)


def test_ink_in_two_blocks_speaks_for_their_edge():
    network = model.LocalNetwork(32, 8, radius=1.5).eval()
    torch.nn.init.zeros_(network.edges[-1].weight)
    for place, edge in enumerate(program.grid_edges(8, diagonal=True)):
        image = torch.zeros(1, 1, 32, 32)
        for node in edge:
            image[0, 0, 4 * (node // 8) + 1, 4 * (node % 8) + 2] = 1
        assert (network(image)[1][0] > 0).nonzero().flatten().tolist() == [place]


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
    assert (edges[held] > 0).float().mean() > 0.85  # gaps may leave a small block empty
    assert (edges[~held] > 0).float().mean() < 0.5


@pytest.mark.parametrize(("size", "dashes"), [(32, 6), (128, 6), (128, 9), (256, 6), (256, 14)])
def test_the_window_shows_discs_that_are_joined_and_all_between_them(size, dashes):
    task = make_task(size=size, dashes=dashes)
    design, width = task.config.design(), task.config.window
    plans = data.toss(make_plans(design, 60, seed=5), torch.zeros(60, 2))  # all of them joined
    batch = data.draw_plans(design, plans.rows(torch.arange(60)), torch.full((60,), dashes))
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


def test_an_image_of_nothing_is_answered():
    for size in (32, 128):
        task = make_task(size=size)
        batch = data.PathBatch(torch.zeros(2, 1, size, size), torch.tensor([False, True]))
        outputs = task.read(task.network().eval(), batch)
        assert all(out.isfinite().all() for out in outputs)
        assert task.answers(outputs, batch) == [False, False]


# -- the generator ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "dashes"), [(32, 6), (32, 14), (128, 9), (256, 14), (48, 3)])
def test_plans_keep_the_rules(size, dashes):
    design = generator.design(size, dashes)
    for seed, index in itertools.product((0, 7), range(4)):
        plan = generator.generate(design, seed, index)
        assert plan.contours.shape == (2, dashes, 3)
        assert plan.distractors.shape == (design.distractors, max(1, dashes // 3), 3)
        everything = np.concatenate([plan.contours.reshape(-1, 3), plan.distractors.reshape(-1, 3)])
        starts, angles = everything[:, :2], np.radians(everything[:, 2])
        heads = starts + design.length * np.stack([np.sin(angles), np.cos(angles)], 1)
        for points in (starts, heads):
            assert points.min() >= design.padding - 1
            assert points.max() <= size - design.padding
        # seeds are one seed distance apart, up to a pixel
        apart = np.hypot(*(plan.contours[0, 0, :2] - plan.contours[1, 0, :2]))
        assert abs(apart - design.seed_distance) < 1.5
        # a dash starts a margin past the last head, and turns by less than a right angle
        for contour in (*plan.contours, *plan.distractors):
            for last, dash in itertools.pairwise(contour.astype(float)):
                expected = generator.move(
                    int(last[0]),
                    int(last[1]),
                    np.radians(last[2]),
                    design.length + design.margins[0],
                )
                slack = 1 + max(design.margins) - min(design.margins)
                assert np.abs(np.array(expected) - dash[:2]).max() <= slack
                turn = abs((dash[2] - last[2] + 180) % 360 - 180)
                assert turn * design.continuity <= 91


def test_dashes_keep_a_margin():
    """No dash covers a pixel of another one, but for neighbours on a contour."""
    design = generator.design(128, 9)
    for index in range(5):
        plan = generator.generate(design, 1, index)
        contours = [list(contour) for contour in (*plan.contours, *plan.distractors)]
        pixels = [
            (number, place, {(row + a, column + b) for a, b in _body(degrees, design)})
            for number, contour in enumerate(contours)
            for place, (row, column, degrees) in enumerate(contour)
        ]
        for (n, i, a), (m, j, b) in itertools.combinations(pixels, 2):
            if n != m or abs(i - j) > 1:
                assert not a & b


def _body(degrees, design):
    return generator.dash_pixels(np.radians(float(degrees)), design.length, design.thickness)


def test_an_image_depends_on_its_seed_and_number_only():
    design = generator.design(32, 6)
    one, again = (generator.generate(design, 5, 3) for _ in range(2))
    assert np.array_equal(one.contours, again.contours)
    assert np.array_equal(one.distractors, again.distractors)
    for other in (generator.generate(design, 5, 4), generator.generate(design, 6, 3)):
        assert not np.array_equal(one.contours, other.contours)


def test_bad_designs_are_refused():
    for arguments in ((8, 6), (5000, 6), (32, 0), (32, 6, -1)):
        with pytest.raises(DataError):
            generator.design(*arguments)
    with pytest.raises(DataError, match="don't fit"):
        generator.generate(generator.design(32, 200), 0, 0)


def test_discs_tell_the_label():
    """Discs sit on both ends of one contour, or on an end of each."""
    design = generator.design(32, 6)
    plans = make_plans(design, 40)
    batch = data.DrawnSamples(design, plans).batch(torch.arange(40))
    assert batch.discs is not None and batch.contours is not None
    assert batch.images.shape == (40, 1, 32, 32)
    assert batch.images.amax((1, 2, 3)).eq(1).all()
    for row in range(40):
        first, second = batch.discs[row]
        own, other = batch.contours[row]
        assert torch.equal(first, own[0, :2].float())
        tip = render.tips(design, (own if batch.labels[row] else other)[-1])
        assert torch.allclose(second, tip)
        for place in batch.discs[row].round().long().clamp(0, 31):
            assert batch.images[row, 0, place[0], place[1]] == 1
    assert 8 < batch.labels.sum() < 32


@pytest.mark.parametrize("choices", list(itertools.product([False, True], repeat=3)))
def test_mirrored_plans_are_mirrored_images(choices):
    design = generator.design(128, 6)
    plans = make_plans(design, 2).rows(torch.arange(2))
    lengths = torch.full((2,), 6)
    image = data.draw_plans(design, plans, lengths).images
    turned = data.mirror(plans, 128, torch.tensor([choices, choices]))
    expected = image
    for choice, flip in zip(
        choices,
        (lambda x: x.flip(2), lambda x: x.flip(3), lambda x: x.transpose(2, 3)),
        strict=True,
    ):
        expected = flip(expected) if choice else expected
    found = data.draw_plans(design, turned, lengths).images
    assert (found - expected).abs().mean() < 2e-3  # discs on half pixels are rounded either way


def test_curriculum_shortens_and_keeps_answers():
    design = generator.design(32, 6)
    plans = make_plans(design, 30)
    samples = data.DrawnSamples(design, plans, curriculum=True)
    batch = samples.batch(torch.arange(30), Noise(0, 0, 30, 30))
    assert batch.contours is not None
    lengths = (batch.contours[:, 0, :, 2] != render.ABSENT).sum(1)
    assert lengths.min() >= 2
    assert 5 < (lengths < 6).sum() < 25
    task = make_task(grid=12)
    assert all(task.right(task.answers(perfect(task, batch), batch), batch))
    parts = [samples.batch(torch.arange(30)[s], Noise(0, s.start, 15, 30)).images
             for s in (slice(0, 15), slice(15, 30))]  # fmt: skip
    assert torch.equal(torch.cat(parts), batch.images)


def test_plans_are_cached_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "SHARD", 4)
    design = generator.design(32, 6)
    plans = data.load_plans(design, 1, 10, tmp_path, workers=1)
    files = sorted(tmp_path.rglob("*.npz"))
    assert len(plans) == 10 and len(files) == 3
    assert torch.equal(plans.contours, make_plans(design, 10, seed=1).contours)
    calls = []
    make = data.generate
    monkeypatch.setattr(data, "generate", lambda *a: calls.append(a[2]) or make(*a))
    again = data.load_plans(design, 1, 10, tmp_path, workers=1)
    assert torch.equal(again.contours, plans.contours) and not calls
    files[0].write_bytes(b"broken")  # a damaged piece is made again, and only that
    data.load_plans(design, 1, 6, tmp_path, workers=1)
    assert calls == [0, 1, 2, 3]
    data.load_plans(design, 1, 11, tmp_path, workers=1)
    assert calls[4:] == [8, 9, 10]


def test_plans_are_the_same_from_several_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "SHARD", 2)
    design = generator.design(32, 6)
    several = data.load_plans(design, 2, 6, tmp_path / "a", workers=2)
    assert torch.equal(several.contours, make_plans(design, 6, seed=2).contours)


# -- the Long Range Arena --------------------------------------------------------------------------


def write_arena(root, size=32, count=30):
    from PIL import Image

    folder = root / f"pathfinder{size}" / "curv_baseline"
    (folder / "metadata").mkdir(parents=True)
    design = generator.design(size, 6)
    batch = data.DrawnSamples(design, make_plans(design, count)).batch(torch.arange(count))
    half = count // 2
    for name, rows in (("0", range(half)), ("1", range(half, count))):
        (folder / "imgs" / name).mkdir(parents=True)
        lines = []
        for place, row in enumerate(rows):
            pixels = (batch.images[row, 0] * 255).round().byte().numpy()
            Image.fromarray(pixels).save(folder / "imgs" / name / f"sample_{place}.png")
            label = int(batch.labels[row])
            lines.append(f"imgs/{name} sample_{place}.png {place} {label} 0 1.8 6 2")
        (folder / "metadata" / f"{name}.npy").write_text("\n".join(lines) + "\n")
    return folder, batch


def test_the_arena_is_read(tmp_path):
    folder, batch = write_arena(tmp_path)
    listed = arena.list_arena(folder)
    assert [label for _, label in listed] == batch.labels.tolist()
    samples = arena.read_pictures(listed, 32)
    assert torch.allclose(samples.batch(torch.arange(30)).images, batch.images, atol=1 / 500)
    task = make_task(data_dir=tmp_path, train_samples=20, test_samples=3)
    found = task.data()
    assert (len(found.train), len(found.validation), len(found.test)) == (20, 3, 3)
    assert "curv_baseline" in found.source
    unknown = found.train.batch(torch.arange(4), Noise(0, 0, 4, 4))
    outputs = task.read(task.network(), unknown)
    assert all(len(part) == 0 for part in task.perceived(outputs, unknown))


def test_a_damaged_arena_is_named(tmp_path):
    folder, _ = write_arena(tmp_path)
    (folder / "imgs" / "0" / "sample_1.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"sample_1\.png can't be read"):
        arena.read_pictures(arena.list_arena(folder), 32)
    (folder / "imgs" / "0" / "sample_1.png").unlink()
    with pytest.raises(DataError, match=r"sample_1\.png: there is no such file"):
        arena.read_pictures(arena.list_arena(folder), 32)
    with pytest.raises(DataError, match=r"has 32×32 pixels; this needs 64×64"):
        arena.read_pictures(arena.list_arena(folder)[:1], 64)
    (folder / "metadata" / "0.npy").write_text("imgs/0 sample_0.png 0\n")
    with pytest.raises(DataError, match=r"0\.npy, line 1"):
        arena.list_arena(folder)


# -- the task --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 8}, "--size 8"),
        ({"dashes": 0}, "dash"),
        ({"grid": 1}, "--grid"),
        ({"grid": 17}, "--grid"),
        ({"data_seed": -1}, "--data-seed"),
        ({"loss": "nll"}, "--loss"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        PathfinderConfig(**options).check()


@pytest.mark.parametrize("network", ["better", "plain"])
def test_smoke(network, tmp_path):
    config = PathfinderConfig(
        network=network, epochs=1, batch=16, train_samples=32, test_samples=12, device="cpu"
    )
    config.check()
    folder = RunFolder(tmp_path / "run")
    task = PathfinderTask(config)
    results = Trainer(task, folder, Display(quiet=True), Processes("cpu")).run()
    assert results["test_samples"] == 12
    assert sum(group["total"] for group in results["accuracy_by_group"].values()) == 12
    assert (folder.path / "samples.png").stat().st_size > 10_000
    assert json.loads((folder.path / "results.json").read_text())["symbolic_share"] >= 0


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
