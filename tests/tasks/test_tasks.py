"""Tasks: perfect perception gives perfect answers, every place gets a gradient, each one trains."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import dolphin as dl
from dolphin_tasks import digits, scan
from dolphin_tasks.add_n import program as addition
from dolphin_tasks.catalogue import find_task
from dolphin_tasks.cli import main
from dolphin_tasks.digits import DigitBatch
from dolphin_tasks.fetch import DataError
from dolphin_tasks.hwf import data as hwf_data
from dolphin_tasks.hwf import model as hwf_model
from dolphin_tasks.hwf import program as hwf
from dolphin_tasks.product_n.program import multiply
from dolphin_tasks.strokes import draw_symbols
from dolphin_tasks.sum_n.program import add_up
from dolphin_tasks.training import plots
from dolphin_tasks.training.noise import Noise
from tiny_cli import blots

CONFIGS = [
    ("sum", {"n": 5}),
    ("sum", {"n": 15}),
    ("sum", {"n": 3, "provenance": "dtkp-am", "k": 3}),
    ("product", {"n": 4}),
    ("product", {"n": 6}),
    ("add", {"n": 1}),
    ("add", {"n": 4}),
    ("add", {"n": 15}),
    ("hwf", {"length": 7}),
    ("hwf", {"length": 19}),
    ("hwf", {"length": 5, "provenance": "damp"}),
]


# The same blots and drawn operators for all: drawing thousands takes a third of a second.
make_ink = functools.cache(hwf_data.make_ink)


@pytest.fixture(autouse=True)
def sandbox(monkeypatch, tmp_path, request):
    """Blots instead of MNIST and no shared data; `real` tests are left alone."""
    if "real" in request.keywords:
        return
    monkeypatch.setattr(digits, "find_digits", blots)
    monkeypatch.setattr(hwf_data, "find_digits", blots)
    monkeypatch.setattr(hwf_data, "make_ink", make_ink)
    monkeypatch.delenv("DOLPHIN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def make(name, options):
    return find_task(name)(find_task(name).config_class(**options))


def example(task, rows=8):
    """A batch of a task, and the outputs of a perfect network for it."""
    if task.name == "hwf":
        rng = np.random.default_rng(0)
        formulas = hwf_data.make_classes(rows, task.config.length, rng)
        lengths = torch.tensor([len(f) for f in formulas])
        classes = torch.tensor([c for f in formulas for c in f])
        values = [hwf.value([hwf.SYMBOLS[c] for c in f]) for f in formulas]
        batch = hwf_data.FormulaBatch(
            torch.zeros(len(classes), 1, 45, 45), classes, lengths, values
        )
        present = torch.arange(int(lengths.max())) < lengths[:, None]
        right = torch.zeros(*present.shape, 14)
        right[present] = F.one_hot(classes, 14).float()
        return batch, right
    shown = torch.randint(0, 10, (rows, task.places()))
    batch = DigitBatch(torch.zeros(rows, task.places(), 1, 28, 28), shown)
    return batch, F.one_hot(shown, 10).float()


def ids(value):
    return value if isinstance(value, str) else "-".join(str(v) for v in value.values())


@pytest.mark.parametrize(("name", "options"), CONFIGS, ids=ids)
def test_perfect_perception_gives_perfect_answers(name, options):
    task = make(name, options)
    batch, right = example(task)
    outputs = (40 * right,)
    answers = task.answers(outputs, batch)
    assert all(task.right(answers, batch))
    assert all(task.right(task.guesses(outputs, batch), batch))
    assert task.losses(outputs, batch).max() < 1e-3
    read, true = task.perceived(outputs, batch)
    assert torch.equal(read, true)


@pytest.mark.parametrize(("name", "options"), CONFIGS, ids=ids)
def test_every_place_gets_a_gradient(name, options):
    """From a network that leans to the truth, and one that knows nothing."""
    task = make(name, options)
    batch, right = example(task)
    for lean in (2.0, 0.0):
        outputs = (lean * right + 0.1 * torch.randn_like(right)).requires_grad_()
        losses = task.losses((outputs,), batch)
        assert losses.shape == (8,)
        assert losses.isfinite().all()
        losses.sum().backward()
        gradient = outputs.grad
        assert gradient.isfinite().all()
        given = gradient.abs().sum(2) > 0
        if task.name == "hwf":
            lengths = batch.lengths
            wanted = torch.arange(given.shape[1]) < lengths[:, None]
            assert not given[~wanted].any()
        else:
            wanted = torch.ones_like(given)
        assert (given | ~wanted).all() if task.name != "product" else given.any(1).all()


@pytest.mark.parametrize(("name", "options"), CONFIGS, ids=ids)
def test_a_step_along_the_gradient_helps(name, options):
    task = make(name, options)
    batch, right = example(task)
    # without ties, so that a small step changes no choice of what is kept
    outputs = (2.0 * right + 0.1 * torch.randn_like(right)).requires_grad_()
    before = task.losses((outputs,), batch).sum()
    (gradient,) = torch.autograd.grad(before, outputs)
    after = task.losses(((outputs - 1e-3 * gradient).detach(),), batch).sum()
    assert after < before


# -- programs --------------------------------------------------------------------------------------


def certain(numbers):
    return [dl.Distribution.certain(number) for number in numbers]


def test_sums_and_products_of_certain_digits():
    shown = [random.Random(0).randrange(10) for _ in range(30)]
    assert add_up(certain(shown)).argmax() == [sum(shown)]
    assert multiply(certain([9] * 25)).argmax() == [9**25]


def test_addition_is_exact(float64):
    """P(x + y = s) against all pairs of two-digit numbers."""
    logits = torch.randn(1, 4, 10)
    x = [dl.Distribution.from_logits(logits[:, i], range(10)) for i in range(2)]
    y = [dl.Distribution.from_logits(logits[:, i], range(10)) for i in range(2, 4)]
    probs = logits[0].softmax(1).numpy()
    expected: dict[int, float] = {}
    for a, b, c, d in np.ndindex(10, 10, 10, 10):
        total = 10 * a + b + 10 * c + d
        expected[total] = (
            expected.get(total, 0.0) + probs[0, a] * probs[1, b] * probs[2, c] * probs[3, d]
        )
    for total in (0, 9, 57, 100, 198):
        found = addition.carry_on(x, y, [total]).prob_of([total // 100])
        assert found.item() == pytest.approx(expected[total], rel=1e-9)
    best = max(expected, key=expected.__getitem__)
    assert addition.add(x, y, keep=200).argmax() == [best]


def test_addition_of_a_hundred_digits():
    task = make("add", {"n": 100})
    batch, right = example(task, rows=2)
    outputs = (40 * right,)
    assert all(task.right(task.answers(outputs, batch), batch))
    # Not all zeros: between digits that are all equally likely, carries tell nothing of the others.
    unsure = torch.randn(right.shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    task.losses((unsure,), batch).sum().backward()
    assert (unsure.grad.abs().sum(2) > 0).all()


def by_python(symbols):
    """Python's own grammar, on text made here: an oracle for tests, never for symbols of users."""
    try:
        return float(eval(" ".join(map(str, symbols))))
    except ZeroDivisionError:
        return math.nan


def test_values_of_formulas_are_pythons():
    rng = random.Random(0)
    for _ in range(300):
        length = rng.choice([1, 3, 5, 7, 9, 15])
        symbols = [rng.choice(hwf.OPERATORS if i % 2 else hwf.DIGITS) for i in range(length)]
        found, expected = hwf.value(symbols), by_python(symbols)
        assert found == pytest.approx(expected, nan_ok=True), symbols


def test_division_by_zero_is_a_result():
    symbols = [dl.Distribution.certain(s) for s in (5, "/", 0, "+", 1)]
    result = hwf.calculate(symbols, torch.tensor([5]))
    assert math.isnan(result.argmax()[0])
    assert hwf.same(math.nan, math.nan)
    assert not hwf.same(math.nan, 1.0)
    assert hwf.same(0.33, 1 / 3)
    assert not hwf.same(0.3, 1 / 3)


def test_mixed_lengths_are_rows_on_their_own():
    """A batch of formulas of lengths 1, 3 and 5 gives what each gives alone."""
    lengths = torch.tensor([1, 3, 5])
    logits = torch.randn(3, 5, 14)

    def run(rows, places):
        with dl.using(dl.TopKProofs(k=3)):
            symbols = hwf.readings(logits[rows, :places])
        return hwf.calculate(symbols, lengths[rows], keep=7)

    together = run(slice(0, 3), 5)
    for row, length in enumerate([1, 3, 5]):
        alone = run(slice(row, row + 1), length)
        found, expected = dict(together.row(row)), dict(alone.row(0))
        assert found.keys() == expected.keys()
        for symbol, prob in expected.items():
            assert found[symbol] == pytest.approx(prob, rel=1e-4)


def test_formulas_cannot_be_made_unlikely_by_misreading_their_kind():
    """Rows that miss their label teach by pushing wrong results down: that must not be possible by
    taking operators for digits, which would lower all results at once.
    """
    task = make("hwf", {"length": 3})
    batch, right = example(task)
    missed = dataclasses.replace(batch, values=[1e6] * len(batch.values))
    outputs = (2 * right).requires_grad_()
    task.losses((outputs,), missed).sum().backward()
    gradient = outputs.grad
    assert gradient is not None
    assert gradient[:, ::2, :10].abs().sum() > 0
    assert (gradient[:, ::2, 10:] == 0).all()
    assert (gradient[:, 1::2, :10] == 0).all()


# -- data ------------------------------------------------------------------------------------------


def test_no_image_is_dealt_twice_and_splits_differ():
    config = find_task("sum").config_class(n=3, validation=90)
    data = digits.digit_data(config, 3)
    assert len(data.train) == 510 // 3
    assert len(data.validation) == 30
    used = data.train.order.flatten()
    assert len(used.unique()) == len(used)
    again = digits.digit_data(dataclasses.replace(config, seed=1), 3)
    assert not torch.equal(again.train.order, data.train.order)


def test_images_are_used_again_where_more_sums_are_asked_for():
    """Sums of many digits, after the published protocol: each image as often as any other."""
    task = find_task("sum")
    data = task(task.config_class(n=16, validation=90, sums=255)).data()
    assert [len(rows) for rows in (data.train, data.validation, data.test)] == [255, 42, 42]
    for rows, images in ((data.train, 510), (data.validation, 90), (data.test, 200)):
        counts = rows.order.flatten().bincount(minlength=images)
        assert len(counts) == images
        assert int(counts.max() - counts.min()) <= 1
    assert len(digits.DigitRows(torch.zeros(0, 28, 28), torch.zeros(0), 16, 0, rows=42)) == 0
    with pytest.raises(dl.DolphinError, match="--sums must be at least 6, got 5"):
        task.config_class(sums=5).check()


@pytest.mark.parametrize("length", [7, 15])
def test_generated_formulas(length, monkeypatch):
    monkeypatch.setattr(hwf_data, "SIZES", {7: (300, 60), 15: (300, 60)})
    data = hwf_data.load(length, "strict")
    assert (len(data.train), len(data.test)) == (300, 60)
    assert "NOT the real HWF" in data.source
    lengths = data.train.lengths
    assert (lengths % 2 == 1).all()
    assert int(lengths.max()) == length
    assert 0.5 < (lengths == length).float().mean() < 0.7
    ink = data.train.ink
    assert not ink.test[data.train.places].any()
    assert not ink.test[data.validation.places].any()
    assert ink.test[data.test.places].all()
    assert not set(data.train.places.tolist()) & set(data.validation.places.tolist())
    assert (ink.labels[data.train.places] > 0).all()


def test_batches_of_formulas_keep_their_order():
    ink = hwf_data.Ink(
        torch.arange(14, dtype=torch.uint8).view(-1, 1, 1).expand(-1, 45, 45),
        np.arange(14), np.zeros(14, dtype=bool), "test",
    )  # fmt: skip
    samples = hwf_data.Formulas(ink, [[3], [4, 10, 5], [9, 13, 3]])
    batch = samples.batch(torch.tensor([2, 0]))
    assert batch.classes.tolist() == [9, 13, 3, 3]
    assert batch.lengths.tolist() == [3, 1]
    assert batch.values == [3.0, 3.0]
    assert (batch.images[:, 0, 0, 0] * 255).round().int().tolist() == [9, 13, 3, 3]
    assert samples.reads(torch.tensor([2, 0])) == 4


def test_shaking_moves_ink_but_keeps_it():
    images = draw_symbols(torch.tensor([3, 12]), 45, seed=0)[:, None].float() / 255
    shaken = hwf_data.shake(images, Noise(0, 0, 2, 2).uniform(hwf_data.NOISE))
    assert not torch.equal(shaken, images)
    ratio = shaken.sum((1, 2, 3)) / images.sum((1, 2, 3))
    assert ((ratio > 0.6) & (ratio < 3)).all()


def test_shifted_digits_are_the_same_elsewhere():
    images = torch.randint(1, 256, (25, 28, 28), dtype=torch.uint8)
    steps = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    shifted = digits.shift(images, (steps + 0.5) / 5)
    for image, moved, (down, right) in zip(images, shifted, (steps - 2).tolist(), strict=True):
        expected = torch.zeros(32, 32, dtype=torch.uint8)
        expected[2 - down : 30 - down, 2 - right : 30 - right] = image
        assert torch.equal(moved, expected[2:30, 2:30])


def test_digits_are_shifted_in_training_only_and_if_asked():
    images, labels = torch.randint(0, 256, (12, 28, 28), dtype=torch.uint8), torch.arange(12) % 10
    index = torch.arange(4)
    plain, shaken = (digits.DigitRows(images, labels, 3, 0, augment) for augment in (False, True))
    kept = plain.batch(index).images
    assert torch.equal(plain.batch(index, Noise(0, 0, 12, 12)).images, kept)
    assert torch.equal(shaken.batch(index).images, kept)
    moved = shaken.batch(index, Noise(0, 0, 12, 12))
    assert (moved.images != kept).flatten(2).any(2).float().mean() > 0.8
    assert torch.equal(moved.digits, plain.batch(index).digits)
    # a process with half of the rows shifts them as one process with all of them does
    half = shaken.batch(index[2:], Noise(0, 6, 6, 12)).images
    assert torch.equal(half, moved.images[2:])


def test_outputs_stand_at_their_places():
    lengths = torch.tensor([1, 3])
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(45 * 45, 14))
    images = torch.rand(4, 1, 45, 45)
    found = hwf_model.read(network, images, lengths)
    expected = network(images)
    assert torch.equal(found[0, 0], expected[0])
    assert torch.equal(found[1], expected[1:])
    assert (found[0, 1:] == 0).all()


@pytest.mark.parametrize(("digits", "holds"), [("1-9", False), ("0-9", True)])
def test_zero_is_read_only_where_formulas_hold_it(monkeypatch, digits, holds):
    """However sure the network is of a 0, a program for formulas without it has no such digit."""
    monkeypatch.setattr(hwf_data, "SIZES", {3: (200, 60)})
    task = make("hwf", {"length": 3, "digits": digits})
    assert any(0 in part.ink.labels[part.places] for part in (task.data().train,)) == holds
    logits = torch.zeros(1, 3, 14)
    logits[0, 0, 0], logits[0, 1, 10], logits[0, 2, 4] = 40, 40, 40  # 0 + 4
    batch = hwf_data.FormulaBatch(
        torch.zeros(3, 1, 45, 45), torch.tensor([0, 10, 4]), torch.tensor([3]), [4.0]
    )
    assert (task.right(task.answers((logits,), batch), batch) == [True]) == holds
    assert (task.perceived((logits,), batch)[0][0] == 0) == holds
    assert any("never seen a 0" in line for line in task.describe((logits,), batch)) != holds


# -- pictures of users -----------------------------------------------------------------------------


def save_row(path, labels, size, dark):
    from PIL import Image

    parts = [np.pad(p, 6) for p in draw_symbols(torch.tensor(labels), size, seed=3).numpy()]
    ink = np.hstack(parts)
    Image.fromarray(255 - ink if dark else ink).save(path)


@pytest.mark.parametrize("dark", [True, False])
def test_pictures_are_cut_into_symbols(tmp_path, dark):
    save_row(tmp_path / "row.png", [1, 10, 7, 13, 4], 60, dark)
    images = scan.read_pictures([tmp_path / "row.png"], 45, 45)
    assert images.shape == (5, 1, 45, 45)
    assert images.amax((1, 2, 3)).tolist() == pytest.approx([1.0] * 5)
    assert (images.mean((1, 2, 3)) < 0.5).all()


def test_bad_pictures_are_refused(tmp_path):
    from PIL import Image

    with pytest.raises(DataError, match="no such file"):
        scan.load_ink(tmp_path / "none.png")
    (tmp_path / "text.png").write_text("hello")
    with pytest.raises(DataError, match="can't be read as a picture"):
        scan.load_ink(tmp_path / "text.png")
    Image.new("L", (20, 20), 255).save(tmp_path / "blank.png")
    with pytest.raises(DataError, match="blank"):
        scan.load_ink(tmp_path / "blank.png")


# -- smoke -----------------------------------------------------------------------------------------

SMOKE = {
    "sum": ["--n", "2", "--validation", "100"],
    "product": ["--n", "2", "--validation", "100"],
    "add": ["--n", "1", "--validation", "100"],
    "hwf": ["--length", "3"],
}


@pytest.mark.parametrize("name", list(SMOKE))
def test_smoke(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(hwf_data, "SIZES", {3: (200, 60)})
    monkeypatch.setattr(hwf_data, "VALIDATION", 30)
    if name in ("product", "add"):
        monkeypatch.setattr(plots, "draw_run", lambda *given: None)  # as of sums
    out = tmp_path / "run"
    common = ["--epochs", "1", "--train-samples", "64", "--batch", "32", "--device", "cpu"]
    common += ["--test-samples", "30", "--out", str(out)]
    assert main(["train", name, *SMOKE[name], *common]) == 0
    results = json.loads((out / "results.json").read_text())
    assert results["test_samples"] == 30
    assert main(["eval", str(out)]) == 0
    assert f"test: {results['test_accuracy']:.2%} of 30" in capsys.readouterr().out
    save_row(tmp_path / "row.png", [1, 10, 7] if name == "hwf" else [1, 2], 40, dark=True)
    assert main(["predict", str(out), str(tmp_path / "row.png")]) == 0
    printed = capsys.readouterr().out
    assert "result: " in printed
    assert ("proofs of" in printed) == (name == "hwf")
    assert "drawn in" in printed and (out / "prediction.png").is_file()
    assert (out / "familiar.pt").is_file()


def test_only_the_better_network_sees_shaken_ink(monkeypatch):
    """The paper's network is trained as in the paper, unless one asks for more."""
    monkeypatch.setattr(hwf_data, "SIZES", {1: (40, 20)})
    monkeypatch.setattr(hwf_data, "VALIDATION", 10)

    def augmented(**options):
        return make("hwf", {"length": 1, **options}).data().train.augment

    assert augmented() and augmented(network="paper", augment=True)
    assert not augmented(network="paper") and not augmented(augment=False)


def test_supervised_twin_and_paper_network(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "draw_run", lambda *given: None)
    monkeypatch.setattr(hwf_data, "SIZES", {1: (40, 20)})
    monkeypatch.setattr(hwf_data, "VALIDATION", 10)
    options = ["--length", "1", "--network", "paper", "--supervision", "symbols", "--epochs", "1"]
    options += ["--batch", "20", "--augment", "True", "--device", "cpu"]
    assert main(["train", "hwf", *options, "--out", str(tmp_path / "run")]) == 0


# -- real data -------------------------------------------------------------------------------------

ROOT = os.environ.get("DOLPHIN_DATA", "")
real_hwf = pytest.mark.skipif(
    not (Path(ROOT) / "hwf" / "symbols.npz").is_file() or not ROOT,
    reason="DOLPHIN_DATA does not point at a folder with hwf/symbols.npz",
)


@pytest.mark.real
@real_hwf
def test_official_formulas_have_their_official_values():
    data = hwf_data.load(7, "strict")
    assert (len(data.train), len(data.test)) == (10_000, 2_000)
    assert "real ink" in data.source
    official = json.loads((Path(ROOT) / "hwf" / "expr_test.json").read_text())
    expected = sorted(round(line["res"], 3) for line in official)
    assert sorted(round(value, 3) for value in data.test.values) == pytest.approx(
        expected, abs=2e-3
    )
    train, test = set(data.train.places.tolist()), set(data.test.places.tolist())
    assert not train & test
    assert not train & set(data.validation.places.tolist())
    assert len(set(data.train.lengths[:100].tolist())) > 1  # shuffled: the file is sorted by length


@pytest.mark.real
@real_hwf
def test_shared_split_shares_ink():
    data = hwf_data.load(7, "shared")
    assert set(data.train.places.tolist()) & set(data.test.places.tolist())


@pytest.mark.real
@real_hwf
def test_damaged_files_are_named(tmp_path):
    folder = tmp_path / "hwf"
    folder.mkdir()
    content = (Path(ROOT) / "hwf" / "symbols.npz").read_bytes()
    (folder / "symbols.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"symbols\.npz is truncated"):
        hwf_data.load(7, "strict", tmp_path)
    (folder / "symbols.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"expr_train\.json is missing"):
        hwf_data.load(7, "strict", tmp_path)
