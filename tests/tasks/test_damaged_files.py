"""Every file that a command reads, damaged in every way: one line that names it, nothing lost."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")
pytest.importorskip("PIL")

from PIL import Image

from damage import encrypted
from dolphin_tasks import digits
from dolphin_tasks.cli import main
from dolphin_tasks.clutrr.data import read_archive
from dolphin_tasks.clutrr.task import ClutrrConfig, ClutrrTask
from dolphin_tasks.fetch import DataError, WriteError, atomic_write, parse_json
from dolphin_tasks.hwf.data import read_formulas, read_ink
from dolphin_tasks.mnist import CHECKSUMS, read_folder
from dolphin_tasks.mugen.annotations import read_clip, read_split
from dolphin_tasks.pathfinder.arena import list_arena, read_picture
from dolphin_tasks.scan import load_ink
from dolphin_tasks.training import plots
from dolphin_tasks.training.lock import FolderLock
from tiny_cli import blots

TINY = ["--n", "2", "--epochs", "1", "--batch", "20", "--validation", "40", "--threads", "1"]
TINY += ["--train-samples", "20", "--test-samples", "20", "--device", "cpu"]


def left_over(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.suffix == ".tmp"]


# -- what is done to files -------------------------------------------------------------------------


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere" / "at all")


def bytes_of(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def written(path: Path) -> None:
        content = change(path.read_bytes())
        path.unlink()  # the original may be another link to it
        path.write_bytes(content)

    return written


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": bytes_of(lambda content: b""),
    "half": bytes_of(lambda content: content[: len(content) // 2]),
    "garbage": bytes_of(lambda content: np.random.default_rng(0).bytes(400)),
    "zeros": bytes_of(lambda content: bytes(len(content))),
    "a folder": as_folder,
    "a dangling link": as_link,
}
OF_JSON: dict[str, Callable[[Path], None]] = {
    "a list": bytes_of(lambda content: b"[" + content.strip().replace(b"\n", b"") + b"]"),
    "a word": bytes_of(lambda content: b'"word"'),
    "null": bytes_of(lambda content: b"null"),
    "no keys": bytes_of(lambda content: b"{}"),
    "NaN": bytes_of(lambda content: content.replace(b"{", b'{"x": NaN,', 1)),
    "-Infinity": bytes_of(lambda content: content.replace(b"{", b'{"x": -Infinity,', 1)),
    "1e999": bytes_of(lambda content: content.replace(b"{", b'{"x": 1e999,', 1)),
    "a number of 400 digits": bytes_of(
        lambda content: content.replace(b"{", b'{"x": ' + b"9" * 400 + b",", 1)
    ),
}


# -- run folders -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "find_digits", blots)
        patch.setattr(plots, "draw_run", lambda *given: None)  # takes longer than the training
        assert main(["train", "sum", *TINY, "--out", str(out)]) == 0
    sheet = np.full((40, 90), 255, np.uint8)
    sheet[8:30, 10:25] = sheet[8:30, 50:70] = 0
    Image.fromarray(sheet).save(out.parent / "sheet.png")
    return out


def files_in(folder: Path) -> set[tuple[str, int, int]]:
    return {(p.name, p.lstat().st_size, p.lstat().st_mtime_ns) for p in folder.iterdir()}


READERS = {
    "config.json": ("eval", "RUN"),
    "best.pt": ("eval", "RUN"),
    "results.json": ("report", "RUN"),
    "metrics.jsonl": ("report", "RUN"),
    "checkpoint.pt": ("train", "sum", "--out", "RUN", "--resume"),
    "familiar.pt": ("predict", "RUN", "SHEET"),
}
HARMLESS = {
    ("metrics.jsonl", "empty"), ("metrics.jsonl", "a folder"), ("metrics.jsonl", "a dangling link"),
    ("familiar.pt", "a folder"), ("familiar.pt", "a dangling link"),
}  # fmt: skip
"""Then there is nothing to tell, which is no error."""


@pytest.mark.parametrize("name", READERS)
def test_damaged_runs(whole, tmp_path, capsys, monkeypatch, name):
    monkeypatch.setattr(digits, "find_digits", blots)
    damages = {**DAMAGES, **OF_JSON} if "json" in name else DAMAGES
    for damage, change in damages.items():
        if (name, damage) in HARMLESS:
            continue
        run = Path(shutil.copytree(whole, tmp_path / damage, copy_function=os.link))
        change(run / name)
        before = files_in(run)
        given = {"RUN": str(run), "SHEET": str(whole.parent / "sheet.png")}
        status = main([given.get(word, word) for word in READERS[name]])
        said = capsys.readouterr().err
        assert status == 2, damage
        assert said.startswith("dolphin: ") and said.count("\n") == 1, damage
        assert name in said, damage
        assert files_in(run) == before, damage


def of_another_type(content: dict) -> None:
    name = next(iter(content["network"]))
    content["network"][name] = content["network"][name].to(torch.int8)


def without_progress(content: dict) -> None:
    content["progress"] = {}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("best.pt", of_another_type, "is of type torch.int8, not torch.float32"),
        ("checkpoint.pt", of_another_type, "is of type torch.int8, not torch.float32"),
        ("checkpoint.pt", without_progress, "is missing"),
    ],
)
def test_checkpoints_that_would_be_converted(
    whole, tmp_path, capsys, monkeypatch, name, change, message
):
    """Nothing is rounded or begun again without a word."""
    monkeypatch.setattr(digits, "find_digits", blots)
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    content = torch.load(run / name, weights_only=True)
    change(content)
    torch.save(content, run / name)
    before = files_in(run)
    assert main([{"RUN": str(run)}.get(word, word) for word in READERS[name]]) == 2
    said = capsys.readouterr().err
    assert message in said and name in said and said.count("\n") == 1
    assert files_in(run) == before


def test_a_report_on_a_run_that_is_not_there(whole, tmp_path, capsys):
    gone = tmp_path / "misspelt"
    assert main(["report", str(whole), str(gone), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"dolphin: {gone}: there is no such run folder.\n"
    assert not list(tmp_path.iterdir())


# -- data ------------------------------------------------------------------------------------------


def arrays(**given: object) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **given)  # type: ignore[arg-type]
    return stream.getvalue()


def array(given: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, given)
    return stream.getvalue()


def promised(shape: str, kind: str = "|u1") -> bytes:
    """An array that has nothing of what its header promises."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(99)


def zipped(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def beside(path: Path) -> Path:
    """A folder of digits: the other three files are there."""
    for name in list(CHECKSUMS)[1:]:
        (path.parent / f"{name}.gz").touch()
    return path.parent


def picture(kind: str, size: int = 32) -> bytes:
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (size, size)).astype(np.uint8)
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def framed(path: Path) -> Path:
    """A clip as a folder of pictures: the others are there."""
    for number in set(range(32)) - {int(path.stem)}:
        (path.parent / f"{number:02}.png").write_bytes(picture("PNG"))
    return path.parent


def bomb() -> bytes:
    """A picture that is small as a file only: its header is that of 30,000 by 30,000 pixels."""
    content = bytearray(picture("PNG"))
    content[16:24] = struct.pack(">II", 30_000, 30_000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return bytes(content)


INK = np.zeros((4, 45, 45), np.uint8)
NUMBERS = np.arange(4)
STORY = (
    "story,query,target,genders,story_edges,edge_types,task_name\n"
    '"[Ann] has a son [Bob].","(\'Ann\', \'Bob\')",son,"Ann:female,Bob:male","[(0, 1)]",'
    "\"['son']\",task_1.2\n"
)
ENTRY = {"video": {"video_file": "v.mp4"}, "annotations": [{"text": "Mugen walks to the right"}]}
CLIP = np.zeros((32, 8, 8, 3), np.uint8)
IDX = next(iter(CHECKSUMS))

FILES: dict[str, tuple[str, bytes, Callable[[Path], object], dict[str, bytes]]] = {
    "ink of HWF": (
        "symbols.npz",
        arrays(images=INK, labels=NUMBERS, split=NUMBERS),
        lambda path: read_ink(path.parent),
        {
            "one array": array(INK),
            "no labels": arrays(images=INK, split=NUMBERS),
            "words": arrays(images=INK, labels=NUMBERS.astype(str), split=NUMBERS),
            "labels below 0": arrays(images=INK, labels=-1 - NUMBERS, split=NUMBERS),
            "one label": arrays(images=INK, labels=3, split=NUMBERS),
            "a short split": arrays(images=INK, labels=NUMBERS, split=NUMBERS[:2]),
            "images of floats": arrays(images=INK + 0.5, labels=NUMBERS, split=NUMBERS),
            "terabytes": zipped("images.npy", promised("(10000000, 1000000)")),
            "a header of words": zipped("images.npy", promised("(((")),
            "encrypted": encrypted(arrays(images=INK, labels=NUMBERS, split=NUMBERS)),
        },
    ),
    "formulas": (
        "expr_train.json",
        b'[{"images": [1, 2, 3]}]',
        lambda path: read_formulas(path.parent, "train", 4),
        {
            name: text.encode()
            for name, text in {
                "an object": '{"a": 1}',
                "a number": "[3]",
                "null": '[{"images": null}]',
                "below 0": '[{"images": [-1]}]',
                "Infinity": '[{"images": [Infinity]}]',
                "1e999": '[{"images": [1e999]}]',
                "words": '[{"images": ["x"]}]',
            }.items()
        },
    ),
    "a story of CLUTRR": (
        "a_test.csv",
        STORY.encode(),
        read_archive,
        {
            "an open quote": b'story,query\n"open',
            "deep": STORY.replace("[(0, 1)]", "(" * 3000).encode(),
            "nobody": STORY.replace("[(0, 1)]", "[(0, 9)]").encode(),
            "a field too long": b"story\n" + b"x" * 200_000,
        },
    ),
    "a story in a folder": (
        "a_test.csv",
        STORY.encode(),
        lambda path: read_archive(path.parent),
        {},
    ),
    "stories of CLUTRR": (
        "stories.zip",
        zipped("1.2_test.csv", STORY.encode()),
        read_archive,
        {"encrypted": encrypted(zipped("1.2_test.csv", STORY.encode()))},
    ),
    "digits": (
        f"{IDX}.gz",
        gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">III", 1, 28, 28) + bytes(784)),
        lambda path: read_folder(beside(path)),
        {
            "more than there is": gzip.compress(bytes([0, 0, 8, 3]) + b"\xff" * 12),
            "no dimension": gzip.compress(bytes([0, 0, 8, 0])),
            "a truncated gz": gzip.compress(bytes(2000))[:-12],
        },
    ),
    "captions of Mugen": (
        "train.json",
        json.dumps({"data": [ENTRY]}).encode(),
        lambda path: read_split(path.parent, "train", 10),
        {
            "a word": b'"x"',
            "no video": b'{"data": [{"annotations": []}]}',
            "NaN": b'{"data": [NaN]}',
        },
    ),
    "a clip of Mugen": (
        "v.npy",
        array(CLIP),
        read_clip,
        {
            "floats": array(CLIP + 0.5),
            "an archive": arrays(a=CLIP),
            "terabytes": promised("(1000000000, 64, 64, 3)"),
            "less than nothing": promised("(-5, 8, 8, 3)"),
        },
    ),
    "a picture of a clip": (
        "v/07.png",
        picture("PNG"),
        lambda path: read_clip(framed(path)),
        {"another size": picture("PNG", 16)},
    ),
    "a list of PathFinder": (
        "metadata/1.npy",
        array(np.array([["imgs", "s.png", "0", "1"]])),
        lambda path: list_arena(path.parent.parent),
        {
            "no strings": array(NUMBERS),
            "a row": array(np.array(["a"])),
            "no characters": promised("(1, 4)", "<U5").replace(bytes(99), b"\xff" * 99),
        },
    ),
    "a picture": ("s.png", picture("PNG"), lambda path: read_picture(path, 32), {"bomb": bomb()}),
    "a scan": ("s.png", picture("PNG"), load_ink, {"bomb": bomb()}),
    "a scan of another kind": ("s.tif", picture("TIFF"), load_ink, {}),
}


@pytest.mark.filterwarnings("ignore")  # what PIL says of the bomb
@pytest.mark.parametrize("kind", FILES)
def test_damaged_data(tmp_path, kind):
    name, content, read, others = FILES[kind]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    for damage, change in DAMAGES.items():
        path.write_bytes(content)
        change(path)
        with pytest.raises(DataError, match=path.stem.split(".")[0]):
            read(path)
        path.rmdir() if damage == "a folder" else path.unlink()
    for changed in others.values():
        path.write_bytes(changed)
        with pytest.raises(DataError, match=path.stem.split(".")[0]):
            read(path)


def test_a_file_that_is_no_story(tmp_path):
    path = tmp_path / "story.bin"
    path.write_bytes(b"\xff\xfe\x00")
    task = ClutrrTask(ClutrrConfig())
    with pytest.raises(DataError, match=r"story\.bin"):
        task.given([str(path), "Ann", "Bob"])
    with pytest.raises(DataError, match="names nobody"):
        task.given(["Ann called Bob. " * 99, "Ann", "Bob"])


def test_numbers_beyond_all_numbers():
    assert parse_json("[1e308, 99999999999999999999, -0.5]") == [1e308, 99999999999999999999, -0.5]
    for text in ("1e999", "-1e999", "9" * 400, "NaN"):
        with pytest.raises(ValueError, match="number"):
            parse_json(text)


# -- full disks ------------------------------------------------------------------------------------


class Full(io.FileIO):
    """A file on a disk that turns out to be full at one of the steps of writing."""

    step = "write"

    def write(self, content: object) -> int:
        if self.step == "write":
            super().write(bytes(content)[:10])  # type: ignore[call-overload]
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(content)  # type: ignore[arg-type]

    def close(self) -> None:
        closed = self.closed
        super().close()
        if self.step == "close" and not closed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", ["write", "close", "rename"])
def test_a_disk_that_is_full_at_any_step(tmp_path, monkeypatch, step):
    """What was there stays, nothing else is left, and the file is named."""
    path = tmp_path / "kept.json"
    path.write_text("old")

    def refuse(self: Path, target: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if step == "rename":
            patch.setattr(Path, "replace", refuse)
        else:
            kind = type("FullAtOneStep", (Full,), {"step": step})
            patch.setattr(Path, "open", lambda self, mode: kind(self, mode))
        message = r"kept\.json can't be written: No space left on device"
        with pytest.raises(WriteError, match=message), atomic_write(path) as stream:
            stream.write(b"new")
    assert path.read_text() == "old" and not left_over(tmp_path)


def test_a_full_disk_is_no_reason_for_a_lock_to_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "open", lambda self, mode, buffering=-1: Full(self, mode))
    lock = FolderLock(tmp_path)
    assert lock.take() and not FolderLock(tmp_path).take()
    lock.release()
    assert not list(tmp_path.iterdir())


def test_an_out_that_leads_nowhere(tmp_path, capsys):
    out = tmp_path / "link"
    out.symlink_to(tmp_path / "a file" / "below")
    (tmp_path / "a file").write_text("precious")
    assert main(["train", "sum", *TINY, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert str(out) in said and said.count("\n") == 1
    assert (tmp_path / "a file").read_text() == "precious" and out.is_symlink()
