"""Full disks, damaged files, two runs in one folder: one line of error, and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from damage import encrypted
from dolphin_tasks import digits, fetch
from dolphin_tasks.cli import main
from dolphin_tasks.clutrr.data import read_archive
from dolphin_tasks.fetch import DataError, WriteError, atomic_write
from dolphin_tasks.hwf.data import read_formulas, read_ink
from dolphin_tasks.mnist import read_folder
from dolphin_tasks.mugen.annotations import read_split
from dolphin_tasks.training import checkpoint, plots
from dolphin_tasks.training.lock import LOCK_NAME, FolderLock
from python_process import SECONDS, start
from tiny_cli import blots

CLI = str(Path(__file__).parents[1] / "support" / "tiny_cli.py")
TINY = ["--n", "2", "--epochs", "2", "--batch", "20", "--validation", "100", "--threads", "1"]
TINY += ["--train-samples", "60", "--device", "cpu"]


draw_run = plots.draw_run


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(digits, "find_digits", blots)
    monkeypatch.setattr(plots, "draw_run", lambda *given: None)  # takes longer than the training
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    before = digits.find_digits
    digits.find_digits = blots
    try:
        assert train(out) == 0
    finally:
        digits.find_digits = before
    return out


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "run"))


def train(out: Path, *options: str) -> int:
    return main(["train", "sum", *TINY, "--out", str(out), *options])


def refused(capsys, *arguments: str) -> str:
    """What a command says that ends with status 2 and one line."""
    capsys.readouterr()
    assert main(list(arguments)) == 2
    message = capsys.readouterr().err
    assert message.startswith("dolphin: ") and message.count("\n") == 1
    return message


def left_over(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*") if path.suffix == ".tmp"]


# -- two runs in one folder ------------------------------------------------------------------------


def test_a_second_run_in_the_same_folder_is_refused(tmp_path, capsys):
    out = tmp_path / "run"
    out.mkdir()
    lock = FolderLock(out)
    assert lock.take()
    message = refused(capsys, "train", "sum", *TINY, "--out", str(out))
    assert "another run is using" in message and f"process {os.getpid()}" in message
    lock.release()
    assert train(out) == 0
    assert not (out / LOCK_NAME).exists()


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    """Another process holds the lock while it lives, and not a moment longer."""
    script = (
        "import sys, time; from pathlib import Path\n"
        "from dolphin_tasks.training.lock import FolderLock\n"
        "assert FolderLock(Path(sys.argv[1])).take()\n"
        "lock = FolderLock(Path(sys.argv[2])); assert lock.take()\n"
        "print('taken', flush=True); time.sleep(60)\n"
    )
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    command = [sys.executable, "-c", script, *map(str, folders)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"taken\n"
    assert not FolderLock(folders[1]).take()
    process.kill()
    process.wait()
    process.stdout.close()
    assert (folders[1] / LOCK_NAME).exists()
    lock = FolderLock(folders[1])
    assert lock.take()
    lock.release()


def test_a_run_that_never_began_leaves_no_folder(tmp_path, capsys):
    assert "no training samples" in refused(
        capsys, "train", "sum", "--n", "301", "--out", str(tmp_path / "run")
    )
    assert not (tmp_path / "run").exists()


def test_what_a_killed_run_left_half_written_goes(copy):
    (copy / ".checkpoint.pt.4711.tmp").write_bytes(b"half")
    assert main(["train", "sum", "--out", str(copy), "--resume"]) == 0
    assert not left_over(copy)


@pytest.mark.parametrize("kind", ["file", "below a file", "no permission"])
def test_an_out_that_cannot_be_a_folder(tmp_path, capsys, kind, monkeypatch):
    out = tmp_path / "thing"
    if kind == "no permission":  # root may write anywhere: pretend

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(out))

        monkeypatch.setattr(Path, "mkdir", refuse)
    else:
        out.write_text("precious")
    place = out / "below" if kind == "below a file" else out
    message = refused(capsys, "train", "sum", *TINY, "--out", str(place))
    assert "--out" in message and str(place) in message
    assert kind == "no permission" or out.read_text() == "precious"


def test_the_samples_in_force_are_told(tmp_path, capsys):
    assert train(tmp_path / "run", "--test-samples", "30") == 0
    assert "60 training, 30 validation and 30 test samples" in capsys.readouterr().out


# -- full disks ------------------------------------------------------------------------------------


class Full:
    """A stream on a disk that is full."""

    def __init__(self, stream, room: int = 100) -> None:
        self.stream, self.room = stream, room

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def write(self, content: bytes) -> None:
        self.stream.write(content[: self.room])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill_disk(monkeypatch, names: set[str]) -> None:
    """From now on there is no room for files with these names."""
    opened = Path.open

    def open_(self, mode="r", *rest, **options):
        stream = opened(self, mode, *rest, **options)
        full = "w" in mode and any(f".{name}." in self.name for name in names)
        return Full(stream) if full else stream

    monkeypatch.setattr(Path, "open", open_)


@pytest.mark.parametrize("name", ["config.json", "best.pt", "checkpoint.pt", "metrics.jsonl"])
def test_a_full_disk_ends_a_run_with_one_line(tmp_path, capsys, monkeypatch, name):
    fill_disk(monkeypatch, {name})
    out = tmp_path / "run"
    message = refused(capsys, "train", "sum", *TINY, "--out", str(out))
    assert name in message and "No space left on device" in message
    assert not left_over(out) and not (out / LOCK_NAME).exists()
    assert not (out / name).exists()


@pytest.mark.parametrize("name", ["results.json", "learning_curve.png", "samples.png"])
def test_a_disk_that_is_full_at_the_end_costs_nothing(tmp_path, capsys, monkeypatch, name):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(plots, "draw_run", draw_run)
        fill_disk(patch, {name})
        assert name in refused(capsys, "train", "sum", *TINY, "--out", str(out))
    assert not left_over(out) and not (out / name).exists()
    kept = checkpoint.load(out / "checkpoint.pt", "sum")
    assert kept["progress"]["epoch"] == 2
    assert main(["train", "sum", "--out", str(out), "--resume"]) == 0
    assert json.loads((out / "results.json").read_text())["epochs"] == 2


def test_the_last_good_checkpoint_survives(copy, capsys, monkeypatch):
    before = (copy / "checkpoint.pt").read_bytes()
    with monkeypatch.context() as patch:
        fill_disk(patch, {"checkpoint.pt"})
        with pytest.raises(WriteError, match="No space left"):
            checkpoint.save(copy / "checkpoint.pt", {"task": "sum"})
    assert (copy / "checkpoint.pt").read_bytes() == before
    assert not left_over(copy)


def test_errors_of_the_writer_are_not_renamed(tmp_path):
    with pytest.raises(DataError), atomic_write(tmp_path / "file"):
        raise DataError("something else")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_nobody_can_store(tmp_path):
    process = start([CLI, "tasks"], Path("/dev/full"), tmp_path / "errors")
    process.join(SECONDS)
    assert process.exitcode == 2
    assert (tmp_path / "errors").read_text() == "dolphin: No space left on device.\n"


# -- damaged run folders ---------------------------------------------------------------------------

CONFIGS = {
    "a list": lambda content: [],
    "no task": lambda content: {"config": content["config"]},
    "no options": lambda content: {"task": "sum"},
    "another task": lambda content: {**content, "task": "som"},
    "task is a list": lambda content: {**content, "task": ["sum"]},
    "an option missing": lambda content: {
        **content,
        "config": {k: v for k, v in content["config"].items() if k != "n"},
    },
    "a word for a number": lambda content: {**content, "config": {**content["config"], "n": "two"}},
    "a number below 1": lambda content: {**content, "config": {**content["config"], "n": 0}},
    "truth for a number": lambda content: {**content, "config": {**content["config"], "n": True}},
    "an unknown loss": lambda content: {**content, "config": {**content["config"], "loss": "mse"}},
}


@pytest.mark.parametrize("change", CONFIGS.values(), ids=list(CONFIGS))
def test_damaged_config(copy, capsys, change):
    path = copy / "config.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert "config.json" in refused(capsys, "eval", str(copy))
    assert "config.json" in refused(capsys, "predict", str(copy), "a.png")


@pytest.mark.parametrize("text", ["", "{", "[1", '{"task": Infinity}', "[" * 100_000, "\x80"])
def test_config_that_is_not_json(copy, capsys, text):
    (copy / "config.json").write_text(text, encoding="latin-1")
    assert "config.json" in refused(capsys, "eval", str(copy))


def test_infinity_is_never_read_nor_written(copy, capsys):
    results = json.loads((copy / "results.json").read_text())
    (copy / "results.json").write_text(json.dumps({**results, "test_accuracy": float("inf")}))
    assert "Infinity" in refused(capsys, "report", str(copy))
    (copy / "results.json").write_text(json.dumps(results))
    (copy / "metrics.jsonl").write_text('{"epoch": 1, "loss": NaN}\n')
    assert "NaN" in refused(capsys, "report", str(copy))


@pytest.mark.parametrize("name", ["task", "config", "test_accuracy", "train_seconds", "epochs"])
def test_results_that_miss_something(copy, capsys, name):
    results = json.loads((copy / "results.json").read_text())
    for broken in ({k: v for k, v in results.items() if k != name}, {**results, name: []}):
        (copy / "results.json").write_text(json.dumps(broken))
        assert name in refused(capsys, "report", str(copy))


def test_epochs_that_miss_something(copy, capsys):
    (copy / "metrics.jsonl").write_text('{"epoch": 1, "loss": 0.5}\n')
    assert "validation_accuracy" in refused(capsys, "report", str(copy))


# -- damaged checkpoints ---------------------------------------------------------------------------


def shrink_moments(content):
    for state in content["optimizer"]["state"].values():
        state["exp_avg"] = state["exp_avg"].flatten()[:1]


def shrink_weights(content):
    name = next(iter(content["network"]))
    content["network"][name] = torch.zeros(3)


DAMAGES = {
    **{
        f"no {name}": lambda content, name=name: content.pop(name)
        for name in ("config", "network", "optimizer", "generator", "count", "progress", "task")
    },
    **{
        f"{name} is a list": lambda content, name=name: content.update({name: [1]})
        for name in ("config", "network", "optimizer", "generator", "count", "progress")
    },
    "weights of another shape": shrink_weights,
    "a weight is missing": lambda content: content["network"].pop(next(iter(content["network"]))),
    "moments of another shape": shrink_moments,
    "no groups": lambda content: content["optimizer"].pop("param_groups"),
    "no moments": lambda content: content["optimizer"].pop("state"),
    "a short generator": lambda content: content.update(generator=torch.zeros(3).byte()),
    "a generator of floats": lambda content: content.update(generator=torch.zeros(5056)),
    "progress without epoch": lambda content: content["progress"].pop("history"),
    "progress with more": lambda content: content["progress"].update(pace=1),
    "progress of words": lambda content: content["progress"].update(epoch="two"),
    "a history of words": lambda content: content["progress"].update(history=["x", "y"]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_damaged_checkpoints(copy, capsys, damage):
    path = copy / "checkpoint.pt"
    content = torch.load(path, weights_only=True)
    damage(content)
    torch.save(content, path)
    before = path.read_bytes()
    assert "checkpoint.pt" in refused(capsys, "train", "sum", "--out", str(copy), "--resume")
    assert path.read_bytes() == before and not left_over(copy)


@pytest.mark.parametrize("damage", ["no network", "weights of another shape"])
def test_damaged_best_weights(copy, capsys, damage):
    content = torch.load(copy / "best.pt", weights_only=True)
    DAMAGES[damage](content)
    torch.save(content, copy / "best.pt")
    assert "best.pt" in refused(capsys, "eval", str(copy))


def test_truncated_files_at_any_length(copy, capsys):
    content = (copy / "best.pt").read_bytes()
    for length in (0, 1, 30, len(content) // 3, len(content) - 1):
        (copy / "best.pt").write_bytes(content[:length])
        assert "best.pt" in refused(capsys, "eval", str(copy))


# -- damaged data ----------------------------------------------------------------------------------


def flipped(content: bytes) -> bytes:
    """The same with other bytes in the middle of the first member."""
    start = 60
    return (
        content[:start] + bytes(255 - byte for byte in content[start : start + 40]) + content[100:]
    )


def unknown_packing(content: bytes) -> bytes:
    changed = bytearray(content)
    for signature, method in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = changed.find(signature)
        while place >= 0:
            changed[place + method] = 97
            place = changed.find(signature, place + 4)
    return bytes(changed)


CHANGES = [encrypted, flipped, unknown_packing, lambda content: content[: len(content) // 2]]
IDS = ["encrypted", "flipped", "packed otherwise", "half"]


@pytest.mark.parametrize("change", CHANGES, ids=IDS)
def test_damaged_ink(tmp_path, change):
    path = tmp_path / "symbols.npz"
    arrays = {"images": np.random.default_rng(0).integers(0, 255, (20, 45, 45)).astype(np.uint8)}
    np.savez_compressed(path, labels=np.zeros(20, int), split=np.zeros(20, int), **arrays)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=r"symbols.npz"):
        read_ink(tmp_path)


@pytest.mark.parametrize("change", CHANGES, ids=IDS)
def test_damaged_stories(tmp_path, change):
    path = tmp_path / "stories.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("1.2_test.csv", "id,story\n" + "".join(f"{n},x{n}\n" for n in range(99)))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=r"stories.zip"):
        read_archive(path)


def test_damaged_digits(tmp_path):
    for name in digits_files():
        (tmp_path / f"{name}.gz").write_bytes(b"\x1f\x8b\x08\x00" + bytes(20))
    with pytest.raises(DataError, match="damaged"):
        read_folder(tmp_path)


def digits_files() -> list[str]:
    from dolphin_tasks.mnist import CHECKSUMS

    return list(CHECKSUMS)


@pytest.mark.parametrize("text", ['[{"images": [Infinity]}]', '[{"images": [NaN]}]', "[" * 99_999])
def test_formulas_that_are_not_json(tmp_path, text):
    (tmp_path / "expr_train.json").write_text(text)
    with pytest.raises(DataError, match=r"expr_train.json"):
        read_formulas(tmp_path, "train", 10)


def test_annotations_with_infinity(tmp_path):
    (tmp_path / "train.json").write_text('{"data": [{"video": Infinity}]}')
    with pytest.raises(DataError, match="Infinity"):
        read_split(tmp_path, "train", 10)


def test_temporaries_are_named_after_their_file(tmp_path):
    """`remove_temporaries` removes nothing else."""
    kept = tmp_path / "notes.tmp"
    kept.write_text("mine")
    fetch.remove_temporaries(tmp_path)
    assert kept.exists()
