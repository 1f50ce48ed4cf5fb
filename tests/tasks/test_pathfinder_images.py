"""Images of PathFinder: the generator, and the layout of the Long Range Arena."""

from __future__ import annotations

import dataclasses
import itertools
import os

import numpy as np
import pytest
import torch
import torch.nn.functional as F

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
from python_process import CONTEXT

pytestmark = pytest.mark.usefixtures("alone")


# -- the generator ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "dashes"), [(32, 6), (32, 14), (128, 9), (256, 14), (48, 3)])
def test_plans_keep_the_rules(size, dashes):
    design = generator.design(size, dashes)
    plans = make_plans(design, 8, seed=7)
    assert plans.contours.shape == (8, 2, dashes, 3)
    assert plans.distractors.shape == (8, design.distractors, max(1, dashes // 3), 3)
    drawn = plans.distractors[..., 0, 2].flatten() != generator.ABSENT
    assert drawn.float().mean() > 0.85
    groups = [plans.contours.flatten(0, 1), plans.distractors.flatten(0, 1)[drawn]]
    # the first seed lies in the middle, the second one seed distance from it, up to a pixel
    first, second = plans.contours[:, :, 0, :2].float().unbind(1)
    strip = min(2 * design.seed_distance, size // 2 - 2)
    assert strip - 3 <= first.min() and first.max() <= size - strip + 2
    assert ((first - second).norm(dim=1) - design.seed_distance).abs().max() < 1
    for ends in (render.segments(design, group) for group in groups):
        assert ends.min() >= -1 and ends.max() <= size
        if ends.shape[1] == 1:
            continue
        # a dash starts two margins past the last head, and turns by less than a right angle
        gaps = (ends[:, 1:, 0] - ends[:, :-1, 1]).norm(dim=-1)
        shortest = 2 * min(design.margins) * np.cos(np.pi / 4)  # around a corner
        assert gaps.min() >= shortest - 1.5 and gaps.max() <= 2 * max(design.margins) + 3
        along = ends[:, :, 1] - ends[:, :, 0]
        angles = torch.rad2deg(torch.atan2(along[..., 0], along[..., 1]))
        turns = ((angles[:, 1:] - angles[:, :-1] + 180) % 360 - 180).abs()
        assert turns.max() * design.continuity <= 92


def test_dashes_keep_out_of_what_was_reserved_before_them():
    """Only the latest dash of each contour, and the last one of the first, may be touched."""
    design = generator.design(128, 6)
    plans = make_plans(design, 30, seed=1)
    touching = 0
    for row in range(30):
        contours = [*plans.contours[row], *plans.distractors[row]]
        dashes = [
            (number, place, _points(segment))
            for number, contour in enumerate(contours)
            if contour[0, 2] != generator.ABSENT
            for place, segment in enumerate(render.segments(design, contour))
        ]
        for (n, i, a), (m, j, b) in itertools.combinations(dashes, 2):
            near = torch.cdist(a, b).min() < 2 * min(design.margins) - 1
            if n == m:
                free = j == i + 1
            elif m == 1:
                free = i - j in (0, 1)
            else:
                free = n == 0 and i == design.dashes - 1
            assert free or not near, (row, n, i, m, j)
            touching += bool(near and (n, m) == (0, 1))
    assert 1 <= touching <= 6


def test_joined_discs_are_as_far_apart_as_in_published_images():
    for size, least, most in ((32, 14.6, 16.1), (128, 50, 53.2), (256, 55.5, 58)):
        design = generator.design(size, 6)
        ends = render.segments(design, make_plans(design, 120).contours)
        apart = (ends[:, :, 0, 0] - ends[:, :, -1, 1]).norm(dim=-1)
        assert least < apart.mean() < most


def _points(segment):
    """Points along a dash (2, 2), half a pixel apart."""
    share = torch.linspace(0, 1, 11)[:, None]
    return segment[0] + share * (segment[1] - segment[0])


def test_an_image_depends_on_its_seed_and_number_only():
    design = generator.design(32, 6)
    one, again = (generator.generate(design, 5, 3) for _ in range(2))
    assert np.array_equal(one.contours, again.contours)
    assert np.array_equal(one.distractors, again.distractors)
    for other in (generator.generate(design, 5, 4), generator.generate(design, 6, 3)):
        assert not np.array_equal(one.contours, other.contours)


def test_bad_designs_are_refused(monkeypatch):
    monkeypatch.setattr(generator, "PAIR_TRIALS", 20)
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
        assert torch.equal(second, (own if batch.labels[row] else other)[-1, :2].float())
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
    # strokes are drawn up to half a pixel further in one direction than in the other
    apart = [
        F.avg_pool2d(images, 3, 1, 1) - F.avg_pool2d(expected, 3, 1, 1) for images in (found, image)
    ]
    assert apart[0].abs().mean() < 0.01
    assert not any(choices) or apart[1].abs().mean() > 0.03


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


def test_plans_of_different_designs_are_kept_apart():
    """Only the radius of discs changes no plan."""
    design = generator.design(128, 6)
    for name, value in dataclasses.asdict(design).items():
        other = (9,) if name == "margins" else value + 1
        same = dataclasses.replace(design, **{name: other}).key == design.key
        assert same == (name == "radius"), name


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
    monkeypatch.setattr(data, "get_context", lambda method: CONTEXT)
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
    train, test = make_plans(design, 300), make_plans(design, 200, seed=1)
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
    with pytest.raises(DataError, match="table of strings"):
        arena.list_arena(folder)


@pytest.mark.parametrize("ragged", [False, True])
def test_metadata_with_missing_settings(tmp_path, ragged):
    """A margin of None makes an array of objects; older NumPy made one of lists of any length."""
    folder, batch = write_arena(tmp_path)
    for path in (folder / "metadata").glob("*.npy"):
        rows = []
        for number, line in enumerate(path.read_text().splitlines()):
            inside, name, place, label, *_ = line.split()
            settings = [None] * (1 + number % 3 if ragged else 2)
            rows.append([inside.encode(), name, np.int64(place), int(label), 1.8, *settings])
        table = np.empty(len(rows), dtype=object) if ragged else np.array(rows, dtype=object)
        table[:] = rows
        np.save(path, table, allow_pickle=True)
    listed = arena.list_arena(folder)
    assert [label for _, label in listed] == batch.labels.tolist()
    assert len(arena.read_pictures(listed, 32)) == 30


def test_metadata_never_run_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    folder, _ = write_arena(tmp_path)
    np.save(folder / "metadata" / "0.npy", np.array([[Evil()]], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"can't be read.*it holds posix\.mkdir"):
        arena.list_arena(folder)
    assert not (tmp_path / "made").exists()


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
