"""Images of PathFinder: the generator, and the layout of the Long Range Arena."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")
pytest.importorskip("networkx")


from dolphin_tasks.fetch import DataError
from dolphin_tasks.pathfinder import (
    arena,
    data,
    distance,
    generator,
    render,
)
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.training.noise import Noise
from pathfinder_cases import make_plans, make_task, perfect

pytestmark = pytest.mark.usefixtures("alone")


# -- the generator ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "dashes"), [(32, 6), (32, 14), (128, 9), (256, 14), (48, 3)])
def test_plans_keep_the_rules(size, dashes):
    design = generator.design(size, dashes)
    for seed, index in itertools.product((0, 7), range(4)):
        plan = generator.generate(design, seed, index)
        assert plan.contours.shape == (2, dashes, 3)
        assert plan.distractors.shape == (design.distractors, max(1, dashes // 3), 3)
        everything = np.concatenate([plan.contours.reshape(-1, 3), plan.distractors.reshape(-1, 3)])
        everything = everything[everything[:, 2] != generator.ABSENT]
        starts, angles = everything[:, :2], np.radians(everything[:, 2])
        heads = starts + design.length * np.stack([np.sin(angles), np.cos(angles)], 1)
        for points in (starts, heads):
            assert points.min() >= design.padding - 1
            assert points.max() <= size - design.padding
        # seeds are one seed distance apart, up to a pixel
        apart = np.hypot(*(plan.contours[0, 0, :2] - plan.contours[1, 0, :2]))
        assert abs(apart - design.seed_distance) < 1.5
        # a dash starts two margins past the last head, and turns by less than a right angle
        for contour in (*plan.contours, *plan.distractors):
            for last, dash in itertools.pairwise(
                contour[contour[:, 2] != generator.ABSENT].astype(float)
            ):
                angle = np.radians(last[2])
                head = last[:2] + design.length * np.array([np.sin(angle), np.cos(angle)])
                gap = np.hypot(*(dash[:2] - head))
                shortest = 2 * min(design.margins) * np.cos(np.pi / 4)  # around a corner
                assert shortest - 1.5 <= gap <= 2 * max(design.margins) + 2.5
                turn = abs((dash[2] - last[2] + 180) % 360 - 180)
                assert turn * design.continuity <= 91


def test_dashes_keep_two_margins_from_each_other():
    """What a margin around a dash covers, no other contour covers."""
    design = generator.design(128, 9)
    for index in range(5):
        plan = generator.generate(design, 1, index)
        contours = [
            [dash for dash in contour if dash[2] != generator.ABSENT]
            for contour in (*plan.contours, *plan.distractors)
        ]
        pixels = [
            (number, place, {(row + a, column + b) for a, b in _body(degrees, design)})
            for number, contour in enumerate(contours)
            for place, (row, column, degrees) in enumerate(contour)
        ]
        for (n, i, a), (m, j, b) in itertools.combinations(pixels, 2):
            if n != m or abs(i - j) > 1:
                nearest = min(np.hypot(r - x, c - y) for r, c in a for x, y in b)
                assert nearest > 2 * min(design.margins) - 1


def test_joined_discs_are_as_far_apart_as_in_published_images():
    """51 pixels on average at size 128 with six dashes, gaps of two margins; 40 with one."""
    design = generator.design(128, 6)
    plans = make_plans(design, 150)
    ends = render.tips(design, plans.contours[:, :, -1].long())
    apart = (plans.contours[:, :, 0, :2] - ends).norm(dim=-1)
    assert 49.5 < apart.mean() < 53


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
    lengths = (batch.contours[:, 0, :, 2] != generator.ABSENT).sum(1)
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


# -- the distance between the discs ----------------------------------------------------------------


def test_distances_are_those_of_the_discs_that_are_drawn():
    design = generator.design(128, 6)
    plans = make_plans(design, 20)
    batch = data.DrawnSamples(design, plans).batch(torch.arange(20))
    assert batch.discs is not None
    assert torch.allclose(
        distance.distances(plans, design), (batch.discs[:, 0] - batch.discs[:, 1]).norm(dim=1)
    )


def test_the_distance_answers_many_images_unless_it_is_balanced():
    design = generator.design(256, 6)
    train, test = make_plans(design, 400), make_plans(design, 200, seed=1)
    assert distance.accuracy(train, test, design) > 0.75
    balanced = [distance.balanced(plans, design, 10_000, 0) for plans in (train, test)]
    for plans in balanced:
        assert len(plans) > 150 and plans.labels.float().mean() == 0.5
        pixels = distance.distances(plans, design).long()
        for label in (True, False):
            counts = torch.bincount(pixels[plans.labels == label], minlength=256)
            assert torch.equal(2 * counts, torch.bincount(pixels, minlength=256))
    assert distance.accuracy(*balanced, design) < 0.62
    few = distance.balanced(train, design, 20, 0)
    assert len(few) == 20


def test_a_balanced_task_keeps_its_discs(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = make_task(balance="distance", train_samples=40, test_samples=30)
    found = task.data()
    assert "balanced" in found.source and isinstance(found.train, data.DrawnSamples)
    plain, varied = (found.train.batch(torch.arange(20), n) for n in (None, Noise(0, 0, 20, 20)))
    assert torch.equal(plain.labels, varied.labels)
    assert plain.discs is not None and varied.discs is not None
    apart = [(discs[:, 0] - discs[:, 1]).norm(dim=1) for discs in (plain.discs, varied.discs)]
    assert torch.allclose(*apart, atol=1e-3)
    results = task.more_results(task.network(), found.test)
    assert 0 <= results["distance_accuracy"] <= 1
    with pytest.raises(OptionError, match="combined with"):
        make_task(balance="distance", curriculum=True).config.check()


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


def test_a_run_is_tested_on_all_images_that_it_was_not_trained_on(tmp_path):
    folder, _ = write_arena(tmp_path / "new")
    task = make_task(data_dir=folder, test_samples=28, balance="distance")
    assert len(task.data_elsewhere(None).test) == 28
    assert len(make_task(data_dir=folder).data_elsewhere(tmp_path).test) == 30
    assert len(make_task(data_dir=folder).data_elsewhere(tmp_path / "new").test) == 3
    elsewhere = make_task(data_dir=tmp_path)
    for read in (elsewhere.data, lambda: elsewhere.data_elsewhere(None)):
        with pytest.raises(DataError, match="holds no PathFinder images"):
            read()


@pytest.mark.parametrize("kind", ["<U64", "S64"])
def test_metadata_of_the_public_generator(tmp_path, kind):
    """It writes arrays of strings, and no folder named after the size."""
    folder, batch = write_arena(tmp_path)
    for path in (folder / "metadata").glob("*.npy"):
        rows = [line.split() for line in path.read_text().splitlines()]
        np.save(path, np.array(rows, dtype=kind))
    listed = arena.list_arena(folder)
    assert [label for _, label in listed] == batch.labels.tolist()
    assert arena.find_arena(32, 6, folder) == folder
    task = make_task(data_dir=folder, train_samples=20, test_samples=3)
    assert len(task.data().test) == 3
    path = next((folder / "metadata").glob("*.npy"))
    for broken in (np.arange(3), np.array([[1.0]])):
        np.save(path, broken)
        with pytest.raises(DataError, match="table of strings"):
            arena.list_arena(folder)
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="can't be read"):
        arena.list_arena(folder)


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
