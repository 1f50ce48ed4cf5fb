"""Mugen: the alignment program against enumeration, retrieval, and the trainer."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from dolphin_tasks.cli import main
from dolphin_tasks.fetch import DataError
from dolphin_tasks.mugen import captions, data, model, program, retrieval
from dolphin_tasks.mugen.program import ACTIONS
from dolphin_tasks.mugen.task import MugenConfig, MugenTask
from dolphin_tasks.mugen.world import PAIRS, tell
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.training.noise import Noise

TINY = {"train_size": 24, "validation_size": 9, "test_size": 12}
pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture(scope="module")
def groups():
    return data.generate(world=5, split=2, count=30)


def task(**options):
    return MugenTask(MugenConfig(**{**TINY, **options}))


def perfect(actions, sure=40.0):
    return sure * F.one_hot(actions, len(ACTIONS)).float()


# -- the program -----------------------------------------------------------------------------------


def test_scores_are_exact(float64):
    """Against all action sequences of five pairs."""
    logits = torch.randn(2, 5, len(ACTIONS))
    wanted = [("walk", "jump", "walk"), ("die",), ("walk", "jump"), ("climb", "kill", "die")]
    expected = torch.zeros(2, len(wanted))
    probs = logits.softmax(2)
    for path in itertools.product(range(len(ACTIONS)), repeat=5):
        done = program.collapse(ACTIONS[a] for a in path)
        if done in wanted:
            chances = probs[:, range(5), list(path)].prod(1)
            expected[:, wanted.index(done)] += chances
    torch.testing.assert_close(program.scores(logits, wanted).exp(), expected)


def test_other_captions_change_nothing():
    """Pruning by the captions of a batch is exact: groups together are groups alone."""
    logits = torch.randn(3, 3, PAIRS, len(ACTIONS))
    stories = [tell(17, clip) for clip in range(9)]
    deeds = [captions.read_caption(story.caption) for story in stories]
    by_group = [deeds[:3], deeds[3:6], deeds[6:]]
    together = program.group_scores(logits, by_group)
    assert together.shape == (3, 3, 3)
    for group in range(3):
        alone = program.scores(logits[group], by_group[group])
        torch.testing.assert_close(together[group], alone)


def test_alignment_is_the_likeliest_path():
    logits = torch.randn(4, len(ACTIONS))
    caption = ("walk", "jump")
    best, chance = None, -1.0
    for path in itertools.product(range(len(ACTIONS)), repeat=4):
        if program.collapse(ACTIONS[a] for a in path) == caption:
            found = float(logits.softmax(1)[range(4), list(path)].prod())
            if found > chance:
                best, chance = [ACTIONS[a] for a in path], found
    aligned = program.alignment(logits, caption)
    assert aligned is not None
    assert [action for action, _ in aligned] == best
    assert program.alignment(logits, ("walk", "jump") * 3) is None


def test_perfect_perception_gives_perfect_answers(groups):
    one = task()
    batch = groups.batch(torch.arange(len(groups)))
    outputs = (perfect(batch.actions),)
    answers = one.answers(outputs, batch)
    assert all(one.right(answers, batch))
    assert one.losses(outputs, batch).max() < 1e-3
    read, true = one.perceived(outputs, batch)
    assert torch.equal(read, true)
    assert len(read) == batch.actions.numel()


def test_a_wrong_match_is_not_right(groups):
    one = task()
    batch = groups.batch(torch.arange(2))
    swapped = batch.actions.clone()
    swapped[0] = batch.actions[0, [1, 0, 2]]
    answers = one.answers((perfect(swapped, 8.0),), batch)
    assert answers[0] == ((1, 0, 2), (1, 0, 2))
    assert one.right(answers, batch) == [False, True]


def test_answers_are_captions_of_clips_and_clips_of_captions(groups):
    """Clip 1 looks like clip 0, only surer: caption 0 chooses it, and clip 0 still caption 0."""
    batch = groups.batch(torch.arange(1))
    outputs = perfect(batch.actions, 8.0)
    outputs[0, 1] = perfect(batch.actions[0, 0], 20.0)
    ((texts, videos),) = task().answers((outputs,), batch)
    assert texts == (0, 0, 2)
    assert (videos[0], videos[2]) == (1, 2)


@pytest.mark.parametrize("provenance", ["damp", "dtkp-am"])
@pytest.mark.parametrize("lean", [0.0, 2.0])
def test_every_pair_gets_a_gradient(groups, provenance, lean):
    one = task(provenance=provenance)
    batch = groups.batch(torch.arange(3))
    noise = 0.1 * torch.randn(*batch.actions.shape, len(ACTIONS))
    outputs = (perfect(batch.actions, lean) + noise).requires_grad_()
    losses = one.losses((outputs,), batch)
    assert losses.shape == (3,)
    assert losses.isfinite().all()
    losses.sum().backward()
    assert outputs.grad.isfinite().all()
    assert (outputs.grad.abs().sum(3) > 0).all()
    after = one.losses(((outputs - 1e-3 * outputs.grad).detach(),), batch)
    assert after.sum() < losses.sum()


def test_every_weight_gets_a_gradient(groups):
    one = task()
    network = one.network()
    batch = groups.batch(torch.arange(2))
    one.losses(one.read(network, batch), batch).sum().backward()
    for name, weight in network.named_parameters():
        assert weight.grad is not None and (weight.grad != 0).any(), name


def test_losses_are_finite_where_the_network_is_certain_and_wrong(groups):
    batch = groups.batch(torch.arange(2))
    outputs = perfect(batch.actions[:, [1, 2, 0]]).requires_grad_()
    losses = task().losses((outputs,), batch)
    losses.sum().backward()
    assert losses.isfinite().all()
    assert outputs.grad.isfinite().all()
    assert (outputs.grad != 0).any()


# -- groups and retrieval --------------------------------------------------------------------------


def test_groups_never_hold_two_of_a_kind():
    deeds = [("walk",)] * 5 + [("jump",)] * 3 + [("die",)] * 4 + [("kill",)] * 2
    found = data.make_groups(deeds)
    assert all(len({deeds[clip] for clip in group}) == 3 for group in found)
    members = [clip for group in found for clip in group]
    assert len(members) == len(set(members)) == 12
    assert data.make_groups([("walk",)] * 9) == []


def test_recalls():
    scores = torch.tensor([[3.0, 2.0, 1.0], [3.0, 3.0, 1.0], [3.0, 2.0, 1.0]])
    assert retrieval.recall(scores, 1) == pytest.approx((1 + 0.5 + 0) / 3)
    assert retrieval.recall(scores, 2) == pytest.approx((1 + 1 + 0) / 3)
    assert retrieval.recall(scores, 3) == 1
    same = retrieval.same_sequence([("walk",), ("walk",), ("jump",)])
    assert same.tolist() == [[True, True, False], [True, True, False], [False, False, True]]
    assert retrieval.recall_by_sequence(scores, same, 1) == pytest.approx(2 / 3)


def test_texts_look_for_videos_and_the_other_way_round():
    """Rows are clips: both clips like caption 0 best, but each caption likes its own clip best."""
    scores = torch.tensor([[0.9, 0.1], [0.8, 0.7]])
    found = retrieval.retrieval_results(scores, [("walk",), ("jump",)])
    assert found["vtr"]["recall@1"] == found["vtr_by_sequence"]["recall@1"] == 0.5
    assert found["tvr"]["recall@1"] == found["tvr_by_sequence"]["recall@1"] == 1.0


def test_perfect_perception_reaches_the_ceiling(groups):
    """Some sequences told twice: strict recall stops at the ceiling, by sequence all is found."""
    actions = groups.actions.clone()
    actions[1], actions[2] = actions[0], actions[0]
    deeds = [program.collapse(ACTIONS[a] for a in row) for row in actions.tolist()]
    scores = program.scores(perfect(actions), deeds)
    found = retrieval.retrieval_results(scores.round(decimals=3), deeds)
    assert found["tvr"] == pytest.approx(found["ceiling"])
    assert found["vtr"] == pytest.approx(found["ceiling"])
    assert found["ceiling"]["recall@1"] < 1
    for way in ("tvr", "vtr"):
        assert found[f"{way}_by_sequence"] == {"recall@1": 1.0, "recall@5": 1.0}


def test_mirrored_clips_keep_their_captions(groups):
    mirrored = data.Groups(groups.footage, groups.captions, groups.actions, mirror=True)
    index = torch.arange(4)
    plain = mirrored.batch(index)
    reads = mirrored.reads(index)
    batch = mirrored.batch(index, Noise(0, 0, reads, reads))
    flipped = (batch.clips == plain.clips.flip(-1)).flatten(2).all(2)
    same = (batch.clips == plain.clips).flatten(2).all(2)
    assert (flipped ^ same).all()
    assert 2 <= int(flipped.sum()) <= 10
    assert batch.captions == plain.captions
    half = mirrored.batch(index[2:], Noise(0, reads // 2, reads // 2, reads))
    assert torch.equal(half.clips, batch.clips[2:])


# -- the trainer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"train_size": 2}, {"world": -1}, {"loss": "bce"}])
def test_options_that_make_no_sense(options):
    with pytest.raises(OptionError):
        MugenConfig(**options).check()


@pytest.mark.usefixtures("own_pictures")
def test_smoke(tmp_path, capsys):
    """Train, test again and predict, from the command line."""
    out = tmp_path / "run"
    sizes = ["--train-size", "24", "--validation-size", "9", "--test-size", "13"]
    options = ["--epochs", "1", "--batch", "4", "--device", "cpu", "--out", str(out)]
    assert main(["train", "mugen", *sizes, *options]) == 0
    results = json.loads((out / "results.json").read_text())
    printed = capsys.readouterr().out
    assert "whole test set, vtr by sequence, recall@1: " in printed
    assert "reordered captions, vtr: " in printed
    assert 0 <= results["test_accuracy"] <= 1
    assert 0 < results["symbolic_share"] < 1
    assert "generated platform world" in results["data"]
    assert 0 <= results["tvr"] <= 1 and 0 <= results["vtr"] <= 1
    assert results["whole_test_set"]["clips"] == 13
    assert 0 < results["reordered_captions"]["vtr"]["total"] <= 13
    assert 0.1 <= results["reordered_captions"]["chance"] <= 0.5
    assert (out / "samples.png").stat().st_size > 10_000
    capsys.readouterr()
    assert main(["eval", str(out)]) == 0
    assert f"test: {results['test_accuracy']:.2%} of 4" in capsys.readouterr().out
    assert main(["predict", str(out), "generated:3", "Mugen walks, then dies"]) == 0
    printed = capsys.readouterr().out
    assert "result: Mugen walks, then dies" in printed
    assert "alignment:" in printed
    assert main(["predict", str(out), "generated:3", "Mugen sings"]) != 0
    assert "'Mugen sings'" in capsys.readouterr().err


def test_figures_of_the_first_test_samples(groups):
    """With --test-samples 2 both retrievals are among six clips."""
    one = task(test_samples=2)
    figures = one.more_results(one.network(), groups)
    assert figures["whole_test_set"]["clips"] == 6


def test_learning_starts():
    """A few steps on the same groups: the loss falls well below that of knowing nothing."""
    torch.manual_seed(0)
    one = task()
    network = model.PairNetwork()
    batch = data.generate(0, 0, 9).batch(torch.arange(2))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    losses = []
    for _ in range(12):
        loss = one.losses(one.read(network, batch), batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.6 * losses[0]


def test_predict_shows_clip_caption_and_alignment(tmp_path):
    one = task()
    batch = one.given(["generated:4"])
    lines = one.describe((perfect(batch.actions),), batch)
    assert lines[0] == "actions seen: " + ", ".join(batch.deeds[0][0])
    assert f"result: {batch.captions[0][0]}" in lines
    shown = lines[lines.index("alignment:") + 1 :]
    assert len(shown) == len(batch.deeds[0][0])
    assert shown[0].startswith("  pairs  1-")
    assert shown[-1].split()[1].endswith("16") or "-16" in shown[-1]
    assert one.portray((perfect(batch.actions),), batch, tmp_path / "clip.png")
    assert (tmp_path / "clip.png").stat().st_size > 5_000


def test_predict_chooses_among_captions():
    one = task()
    own = one.given(["generated:4"]).captions[0][0]
    batch = one.given(["generated:4", "Mugen waits", own, "Mugen climbs and jumps " * 9])
    lines = one.describe((perfect(batch.actions),), batch)
    assert f"result: {own}" in lines
    long = one.given(["generated:4", "Mugen climbs, jumps, " * 9])
    assert "none: 16 frame pairs" in one.describe((perfect(long.actions),), long)[-1]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "give a clip"),
        (["nowhere.npy", "Mugen walks"], r"nowhere\.npy: there is no such clip"),
        (["generated:x"], "must be a number"),
        (["generated:1", "Mugen sings"], "'Mugen sings'"),
    ],
)
def test_bad_inputs_of_predict(inputs, message):
    with pytest.raises(DataError, match=message):
        task().given(inputs)
