"""The world of Mugen: stories, captions, and the annotations of the real data set."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from dolphin_tasks.fetch import DataError
from dolphin_tasks.mugen import annotations, captions, data, drawing, program
from dolphin_tasks.mugen.program import ACTIONS
from dolphin_tasks.mugen.task import MugenConfig, MugenTask
from dolphin_tasks.mugen.world import FRAMES, PAIRS, tell

pytestmark = pytest.mark.usefixtures("alone")


# -- the world -------------------------------------------------------------------------------------


def test_stories_depend_on_their_seed_alone():
    assert tell(3, 1, 4) == tell(3, 1, 4)
    assert len({tell(3, split, clip).caption for split in range(3) for clip in range(10)}) > 25
    few, many = data.generate(0, 0, 4), data.generate(0, 0, 9)
    assert many.captions[:4] == few.captions
    index = torch.arange(4)
    assert torch.equal(few.footage.frames(index), many.footage.frames(index))
    assert data.generate(1, 0, 4).captions != few.captions


def test_every_action_happens_and_fills_the_clip():
    stories = [tell(7, clip) for clip in range(150)]
    counts = np.bincount([a for s in stories for a in s.actions], minlength=len(ACTIONS))
    assert (counts > 50).all()
    for story in stories:
        assert len(story.actions) == PAIRS
        assert len(story.mugen.x) == len(story.mugen.looks) == FRAMES
        names = [event.action for event in story.events]
        assert "die" not in names[:-1]
        assert all(a != b for a, b in itertools.pairwise(names))
        assert all(event.pairs >= 2 for event in story.events)
    assert len({program.collapse(e.action for e in s.events) for s in stories}) > 100


@pytest.mark.parametrize("seed", range(40))
def test_mugen_stands_on_something(seed):
    """Whoever walks, stands or crouches has a platform, or the ground, under the feet."""
    story = tell(11, seed)
    for look, x, y in zip(story.mugen.looks, story.mugen.x, story.mugen.y, strict=True):
        if re.match("walk|cheer|stand|crouch", look) and y < drawing.FLOORS[0]:
            level = drawing.FLOORS.index(int(y))
            assert any(p.level == level and p.left <= x <= p.right for p in story.platforms)
        if look.startswith("climb"):
            assert any(ladder.x == x for ladder in story.ladders)


@pytest.mark.parametrize("seed", range(10))
def test_mugen_moves_where_the_story_says_so(seed):
    """Still actions leave Mugen where it is, others move it."""
    story = tell(19, seed)
    ends = list(itertools.accumulate(2 * event.pairs for event in story.events))
    for event, start, end in zip(story.events, [0, *ends], ends, strict=False):
        places = set(zip(story.mugen.x[start:end], story.mugen.y[start:end], strict=True))
        assert (len(places) == 1) == (event.action in ("stand", "crouch"))


def test_frames_show_the_story():
    """Things are seen to move; colours are those of the theme."""
    story = tell(2)
    frames = drawing.draw(story)
    assert frames.shape == (FRAMES, 64, 64)
    assert frames.max() < len(drawing.colours(story.theme))
    painted = drawing.colours(story.theme)[frames]
    shown = data.Drawn([story]).frames(torch.tensor([0]))[0]
    assert torch.equal(shown.movedim(1, -1), torch.from_numpy(painted))
    assert len(np.unique(frames)) > 12
    moved = [bool((a != b).any()) for a, b in itertools.pairwise(frames)]
    assert sum(moved) > 10


# -- captions --------------------------------------------------------------------------------------


def test_captions_can_be_read_back():
    for clip in range(300):
        story = tell(13, clip)
        expected = program.collapse(event.action for event in story.events)
        assert captions.read_caption(story.caption) == expected, story.caption


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        (
            "Mugen jumps up to a platform and collects a coin, and walks to the right, and killed "
            "by a snail",
            "jump collect walk die",
        ),
        ("Mugen is killed by a worm", "die"),
        ("Mugen killed a worm", "kill"),
        ("Mugen walks left and right", "walk"),
        ("mugen RUNS to the right. it then goes up the ladder", "walk climb"),
        ("Mugen jumps to collect a coin and a gem", "jump collect"),
        ("Mugen walks, and walks on, then walks", "walk"),
        ("Mugen gets a blue gem, then gets killed by a bee", "collect die"),
        ("Mugen, then, WALKS. AND Jumps", "walk jump"),
        ("Mugen ducks, waits and hops", "crouch stand jump"),
        ("Mugen jumps on the head of a snail, ducks, then heads right", "jump crouch walk"),
    ],
)
def test_captions_of_people(caption, expected):
    assert captions.read_caption(caption) == tuple(expected.split())


@pytest.mark.parametrize(
    ("caption", "phrase"),
    [
        ("Mugen walks left and sings a song", "sings a song"),
        ("Mugen is happy", "Mugen is happy"),
        ("a coin, then walks", "a coin"),
    ],
)
def test_unknown_actions_are_named(caption, phrase):
    with pytest.raises(DataError, match=re.escape(repr(caption))) as error:
        captions.read_caption(caption)
    assert repr(phrase) in str(error.value)


@pytest.mark.parametrize("caption", ["", " ,. ", "and then", "Mugen."])
def test_empty_captions_are_refused(caption):
    with pytest.raises(DataError, match="says nothing"):
        captions.read_caption(caption)


# -- annotations -----------------------------------------------------------------------------------


def entry(name, *texts, **video):
    notes = [{"text": text} for text in texts]
    return {"video": {"json_file": f"release/{name}.json", **video}, "annotations": notes}


@pytest.fixture
def folder(tmp_path):
    """Annotations with six usable clips a split, a caption of nonsense, and one without frames."""
    rng = np.random.default_rng(0)
    (tmp_path / "frames").mkdir()
    verbs = ["walks", "jumps", "climbs", "ducks", "waits", "dies"]
    for split in ("train", "val", "test"):
        entries = [entry(f"{split}x", "Mugen sings"), entry("nowhere", "Mugen walks")]
        for n, verb in enumerate(verbs):
            name = f"{split}{n}"
            entries.append(entry(name, f"Mugen {verb}", "Mugen hops, then " + verb))
            frames = rng.integers(0, 256, (96, 32, 48, 3), dtype=np.uint8)
            np.save(tmp_path / "frames" / f"{name}.npy", frames)
        (tmp_path / f"{split}.json").write_text(json.dumps({"data": entries}))
    return tmp_path


def test_annotations_are_read(folder):
    found = data.load((6, 6, 6), data_dir=folder)
    assert "6 clips left out" in found.source
    assert len(found.train) == 2
    assert found.train.captions[0] == "Mugen walks"
    batch = found.train.batch(torch.arange(2))
    assert batch.clips.shape == (2, 3, FRAMES, 3, 64, 64)
    assert (batch.actions == annotations.UNKNOWN).all()
    one = MugenTask(MugenConfig())
    read, true = one.perceived((torch.zeros(2, 3, PAIRS, 8),), batch)
    assert len(read) == len(true) == 0
    people = data.load((6, 6, 6), data_dir=folder, captions="manual")
    assert people.train.captions[0] == "Mugen hops, then walks"
    assert len(data.load((3, 3, 3), data_dir=folder).train) == 1


def test_actions_of_annotations():
    names = ["walk"] * 48 + ["jump"] * 48
    clip = annotations._actions(names)
    assert clip == [ACTIONS.index("walk")] * 8 + [ACTIONS.index("jump")] * 8
    with pytest.raises(ValueError, match="swim"):
        annotations._actions(["swim"] * 16)


def test_captions_too_long_for_a_clip_are_left_out(folder):
    """They have probability zero, and their loss would be infinite."""
    content = json.loads((folder / "train.json").read_text())
    content["data"].insert(0, entry("train0", "Mugen hops, walks, " * 9))
    (folder / "train.json").write_text(json.dumps(content))
    found = data.load((6, 6, 6), data_dir=folder)
    assert "7 clips left out" in found.source
    assert found.train.captions[0] == "Mugen walks"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"train\.json is not JSON"),
        ('{"clips": []}', "holds neither"),
        ('{"data": []}', "no usable clip: it is empty"),
        ('{"data": [{"video": {"id": 3}}]}', "entry 0: 'annotations' is missing"),
        ('{"data": [{"annotations": [{"text": "walks"}], "video": {}}]}', "video_file"),
        ('{"data": [7]}', "entry 0: expected an object, got 7"),
        ('{"data": [{"video": "a.mp4", "annotations": []}]}', r"an object, got 'a\.mp4'"),
        ('{"data": [{"video": {}, "annotations": ["walks"]}]}', "an object, got 'walks'"),
        ('{"data": [{"video": {"id": 3}, "annotations": [{"text": "sings"}]}]}', "'sings'"),
        ('{"data": [{"video": {"id": 3}, "annotations": [{"text": "walks"}]}]}', "no frames"),
    ],
)
def test_bad_annotations_are_named(folder, content, message):
    (folder / "train.json").write_text(content)
    with pytest.raises(DataError, match=message):
        data.load((6, 6, 6), data_dir=folder)


def test_missing_annotations_are_named(folder, tmp_path):
    (folder / "test.json").unlink()
    with pytest.raises(DataError, match=r"test\.json can't be read"):
        data.load((6, 6, 6), data_dir=folder)
    with pytest.raises(DataError, match=r"holds no train\.json"):
        data.load((6, 6, 6), data_dir=tmp_path / "frames")


def test_clips_from_files(tmp_path):
    from PIL import Image

    frames = drawing.colours(0)[drawing.draw(tell(1))]
    np.save(tmp_path / "clip.npy", frames)
    (tmp_path / "clip").mkdir()
    for number, frame in enumerate(frames):
        Image.fromarray(frame).save(tmp_path / "clip" / f"{number:03}.png")
    expected = torch.from_numpy(frames).movedim(-1, 1)
    assert torch.equal(annotations.read_clip(tmp_path / "clip.npy"), expected)
    assert torch.equal(annotations.read_clip(tmp_path / "clip"), expected)
    for bad in (frames[:20], frames[..., 0], frames.astype(np.float32)):
        np.save(tmp_path / "bad.npy", bad)
        with pytest.raises(DataError, match=r"bad\.npy"):
            annotations.read_clip(tmp_path / "bad.npy")
    np.savez(tmp_path / "bad.npz", frames)
    with pytest.raises(DataError, match="an archive of arrays"):
        annotations.read_clip(tmp_path / "bad.npz")
    (tmp_path / "bad.mp4").write_text("no array")
    with pytest.raises(DataError, match=r"bad\.mp4 is not a \.npy file"):
        annotations.read_clip(tmp_path / "bad.mp4")
    (tmp_path / "clip" / "005.png").write_text("no picture")
    with pytest.raises(DataError, match=r"005\.png can't be read"):
        annotations.read_clip(tmp_path / "clip")
