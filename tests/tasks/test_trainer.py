"""The trainer: run folders, resuming bit for bit, and checkpoints that must be refused."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from dolphin_tasks import digits
from dolphin_tasks.cli import main
from dolphin_tasks.sum_n.task import SumTask
from dolphin_tasks.training import checkpoint, loop, plots
from dolphin_tasks.training.config import TrainConfig
from dolphin_tasks.training.evaluation import Evaluation, near_tie
from dolphin_tasks.training.loop import Trainer
from dolphin_tasks.training.noise import Noise, RowDropout, set_noise, use_row_dropout
from python_process import start
from tiny_cli import blots

CLI = str(Path(__file__).parents[1] / "support" / "tiny_cli.py")
TINY = ["--n", "2", "--epochs", "2", "--batch", "20", "--validation", "100", "--threads", "1"]
TINY += ["--train-samples", "120", "--device", "cpu"]
KEYS = {
    "test_accuracy", "perception_accuracy", "validation_accuracy", "epochs", "train_seconds",
    "symbolic_share", "data", "versions",
}  # fmt: skip


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Blots instead of MNIST; one thread, so that sums come out the same.

    No pictures, which take longer than the training: those of `whole` are enough.
    """
    monkeypatch.setattr(digits, "find_digits", blots)
    monkeypatch.setattr(plots, "draw_run", lambda *given: None)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def train(out: Path, *options: str) -> int:
    return main(["train", "sum", *TINY, "--out", str(out), *options])


def weights(out: Path) -> dict:
    return checkpoint.load(out / "checkpoint.pt", "sum")["network"]


def assert_same(a: dict, b: dict):
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    before = digits.find_digits
    digits.find_digits = blots
    try:
        assert train(out) == 0
    finally:
        digits.find_digits = before
    return out


def test_a_lesson_decides_which_samples_an_epoch_draws_from(tmp_path, monkeypatch):
    """In the first epoch samples 0..4 alone (and no more than there are), in the second all."""
    seen: list[list[int]] = []
    step = Trainer._step
    monkeypatch.setattr(
        SumTask,
        "lesson",
        lambda self, samples, epoch: torch.tensor([0, 3, 4, 10**6]) if epoch == 0 else None,
    )
    monkeypatch.setattr(
        Trainer, "_step", lambda self, index: (seen.append(index.tolist()), step(self, index))[1]
    )
    assert train(tmp_path / "run") == 0
    first, second = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert {n for batch in first for n in batch} == {0, 3, 4}
    assert sorted(n for batch in second for n in batch) == list(range(120))
    assert len(first) == len(second) == 6


def test_run_folder(whole):
    results = json.loads((whole / "results.json").read_text())
    assert results.keys() >= KEYS
    for name in ("test_accuracy", "perception_accuracy", "validation_accuracy", "symbolic_share"):
        assert 0 <= results[name] <= 1
    assert results["epochs"] == 2
    assert results["train_seconds"] > 0
    assert results["data"] == "MNIST from a generator"
    assert results["versions"].keys() >= {"dolphin", "torch", "python"}
    metrics = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in metrics] == [1, 2]
    assert json.loads((whole / "config.json").read_text())["config"]["n"] == 2
    for name in ("learning_curve.png", "confusion.png", "samples.png"):
        assert (whole / name).read_bytes().startswith(b"\x89PNG")


def test_same_seed_same_run_other_seed_another(whole, tmp_path):
    assert train(tmp_path / "again") == 0
    assert_same(weights(whole), weights(tmp_path / "again"))
    assert train(tmp_path / "other", "--seed", "1") == 0
    first = next(iter(weights(whole)))
    assert not torch.equal(weights(whole)[first], weights(tmp_path / "other")[first])


@pytest.mark.parametrize("steps", [1, 6, 8])
def test_resumed_run_is_the_same_bit_for_bit(whole, tmp_path, monkeypatch, steps):
    """Stopped by Ctrl-C in the middle of an epoch, at its end, and in the next one."""
    out, done, step = tmp_path / "run", [], Trainer._step

    def stopping(self, index):
        done.append(index)
        if len(done) == steps:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, index)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", stopping)
        assert train(out) == 130
    assert len(done) == steps
    assert not (out / "results.json").exists()
    assert main(["train", "sum", "--out", str(out), "--resume"]) == 0
    assert_same(weights(whole), weights(out))
    old, new = ((p / "results.json").read_text() for p in (whole, out))
    assert json.loads(old)["test_accuracy"] == json.loads(new)["test_accuracy"]
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 2


def test_killed_run_resumes_from_its_last_epoch(whole, tmp_path):
    out = tmp_path / "run"
    options = [*TINY, "--epochs", "40", "--schedule", "constant", "--out", str(out)]
    errors = tmp_path / "errors"
    process = start([CLI, "train", "sum", *options], tmp_path / "output", errors)
    deadline = time.monotonic() + 120
    try:
        while not (out / "checkpoint.pt").exists():
            assert process.is_alive(), errors.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.kill()
        process.join()
    reached = checkpoint.load(out / "checkpoint.pt", "sum")["progress"]["epoch"]
    assert 1 <= reached < 40
    epochs = ["--epochs", str(reached + 1)]
    assert main(["train", "sum", "--out", str(out), "--resume", *epochs]) == 0
    assert train(tmp_path / "straight", "--schedule", "constant", *epochs) == 0
    assert_same(weights(out), weights(tmp_path / "straight"))


def test_a_folder_with_a_run_is_not_overwritten(whole, capsys):
    assert train(whole) == 2
    assert "--resume" in capsys.readouterr().err


def test_resuming_with_other_options_is_refused(whole, capsys):
    options = ["--resume", "--lr", "0.5", "--n", "3"]
    assert main(["train", "sum", "--out", str(whole), *options]) == 2
    message = capsys.readouterr().err
    assert "--lr 0.5 (the run has 0.001)" in message
    assert "--n 3 (the run has 2)" in message


def broken(whole: Path, tmp_path: Path, change) -> Path:
    out = tmp_path / "run"
    out.mkdir()
    content = (whole / "checkpoint.pt").read_bytes()
    (out / "checkpoint.pt").write_bytes(change(content))
    return out


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content[: len(content) // 2], "truncated"),
        (lambda content: b"", "truncated"),
        (lambda content: b"hello", "not a checkpoint"),
        (
            lambda content: (
                content[: len(content) // 2] + b"x" * 64 + content[len(content) // 2 + 64 :]
            ),
            "checksum",
        ),
    ],
    ids=["half", "empty", "text", "flipped"],
)
def test_broken_checkpoints_are_refused(whole, tmp_path, capsys, change, reason):
    out = broken(whole, tmp_path, change)
    assert main(["train", "sum", "--out", str(out), "--resume"]) == 2
    assert reason in capsys.readouterr().err


def test_foreign_checkpoints_are_refused(whole, tmp_path, capsys):
    out = tmp_path / "run"
    out.mkdir()
    torch.save({"weights": torch.ones(2)}, out / "checkpoint.pt")
    assert main(["train", "sum", "--out", str(out), "--resume"]) == 2
    assert "not written by dolphin" in capsys.readouterr().err
    torch.save(TrainConfig(), out / "checkpoint.pt")  # an object: code would have to run
    assert main(["train", "sum", "--out", str(out), "--resume"]) == 2
    assert "can't be read as a checkpoint" in capsys.readouterr().err
    assert main(["train", "product", "--out", str(whole), "--resume"]) == 2
    assert "belongs to the task 'sum'" in capsys.readouterr().err
    assert main(["train", "sum", "--out", str(tmp_path / "none"), "--resume"]) == 2
    assert "there is no checkpoint" in capsys.readouterr().err


def test_the_best_epoch_is_chosen_by_validation(tmp_path, monkeypatch):
    """The second epoch ruins the weights; the results are those of the first."""
    validate, kept = Trainer._validate, {}

    def sabotage(self):
        if self.progress.epoch == 1:
            with torch.no_grad():
                for parameter in self.network.parameters():
                    parameter.zero_()
        validate(self)
        kept[self.progress.epoch] = self.progress.best_epoch

    monkeypatch.setattr(Trainer, "_validate", sabotage)
    assert train(tmp_path / "run", "--n", "1", "--train-samples", "400", "--batch", "10") == 0
    assert kept == {1: 1, 2: 1}
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["best_epoch"] == 1


def test_among_near_ties_the_later_epoch_is_taken(tmp_path, monkeypatch):
    """600 rows can't tell 95.7 from 96 %, but they can tell 90 %."""
    shares = iter([0.95, 0.96, 0.957, 0.90, 0.5])
    nothing = torch.zeros(0, 0, dtype=torch.int64)

    def scripted(*_, **__):
        return Evaluation(round(600 * next(shares)), 600, nothing, {})

    monkeypatch.setattr(loop, "evaluate", scripted)
    assert train(tmp_path / "run", "--epochs", "4", "--train-samples", "10") == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["best_epoch"] == 3
    assert results["validation_accuracy"] == pytest.approx(0.957, abs=1e-3)
    assert near_tie(0.99, 1.0, 600) is False
    assert near_tie(0.999, 1.0, 600) is True  # all rows right is no certainty either


def test_the_test_set_is_read_once(tmp_path, monkeypatch):
    read, evaluate = [], loop.evaluate

    def recording(task, network, samples, *rest, **options):
        read.append(len(samples))
        return evaluate(task, network, samples, *rest, **options)

    monkeypatch.setattr(loop, "evaluate", recording)
    assert train(tmp_path / "run") == 0
    assert read == [50, 50, 100]  # validation after each epoch, then the test set


def test_mixed_precision(tmp_path):
    assert train(tmp_path / "run", "--precision", "bf16") == 0
    weight = next(iter(weights(tmp_path / "run").values()))
    assert weight.dtype == torch.float32


def test_a_loss_that_is_not_a_number_stops_the_run(tmp_path, monkeypatch, capsys):
    losses = SumTask.losses
    monkeypatch.setattr(SumTask, "losses", lambda *a: losses(*a) * float("nan"))
    assert train(tmp_path / "run") == 2
    assert "loss became nan in epoch 1, step 1" in capsys.readouterr().err


def test_options_survive_the_folder():
    config = TrainConfig(out=Path("somewhere"), k=5, provenance="dtkp-am")
    assert TrainConfig.from_json(json.loads(json.dumps(config.as_json()))) == config


def test_noise_does_not_depend_on_who_draws_it():
    whole, first, second = Noise(7, 0, 6, 6), Noise(7, 0, 4, 6), Noise(7, 4, 2, 6)
    for draw in (lambda n: n.uniform(3), lambda n: n.coins(0.5, 2, 2)):
        assert torch.equal(draw(whole), torch.cat([draw(first), draw(second)]))


def test_row_dropout_is_dropout():
    layer = use_row_dropout(torch.nn.Sequential(torch.nn.Dropout(0.25)))
    assert [type(child) for child in layer.children()] == [RowDropout]
    x = torch.ones(200, 50)
    set_noise(layer, Noise(0, 0, 200, 200))
    dropped = layer(x)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.02)
    assert torch.equal(layer.eval()(x), x)
