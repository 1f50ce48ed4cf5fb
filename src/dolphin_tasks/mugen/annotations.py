"""The annotation format of the real data set, and frames from files.

    mugen/train.json, val.json, test.json    {"data": [{"video": {...}, "annotations": [...]}]}
    mugen/frames/NAME.npy                    (frames, height, width, 3) uint8, or
    mugen/frames/NAME/*.png                  one picture per frame, in the order of their names

NAME is the name of `video_file` or `json_file` of an entry without folder and ending, or its `id`.
Annotation 0 of an entry is the generated caption, the others are written by people, unless an
annotation has a `type` that says so. `video.actions`, where there is one, names the action of each
frame or each frame pair; it is used to measure perception only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin_tasks.fetch import BROKEN_ARRAYS, BROKEN_PICTURE, DataError, parse_json
from dolphin_tasks.mugen.captions import read_caption
from dolphin_tasks.mugen.drawing import SIZE
from dolphin_tasks.mugen.program import ACTIONS
from dolphin_tasks.mugen.world import FRAMES, PAIRS

Kind = Literal["auto", "manual"]
FILES = {"train": "train.json", "validation": "val.json", "test": "test.json"}
UNKNOWN = -1


@dataclass(frozen=True)
class AnnotatedClip:
    """A caption that can be read, where the frames are, and the action of each pair or -1."""

    caption: str
    frames: Path
    actions: list[int]


@dataclass(frozen=True)
class Split:
    """Usable clips, and how many were left out before there were enough."""

    clips: list[AnnotatedClip]
    skipped: int


def find_folder(data_dir: Path | None) -> Path | None:
    """The folder with annotations, or None."""
    if data_dir is not None:
        for folder in (data_dir / "mugen", data_dir):
            if (folder / FILES["train"]).is_file():
                return folder
        raise DataError(f"{data_dir} holds no {FILES['train']}, the annotations of Mugen.")
    shared = os.environ.get("DOLPHIN_DATA")
    if shared and (Path(shared) / "mugen" / FILES["train"]).is_file():
        return Path(shared) / "mugen"
    return None


def read_split(folder: Path, split: str, size: int, kind: Kind = "auto") -> Split:
    """The first `size` usable clips of a split.

    A clip is left out, and counted, if none of its captions of this kind can be read as actions or
    if its frames are not there. What is malformed is an error.
    """
    path = folder / FILES[split]
    clips: list[AnnotatedClip] = []
    skipped, reason = 0, "it is empty"
    for place, entry in enumerate(_entries(path)):
        if len(clips) == size:
            break
        try:
            clips.append(_usable(folder, entry, kind))
        except _Unusable as error:
            skipped, reason = skipped + 1, str(error)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DataError(f"{path}, entry {place}: {_told(error)}") from None
    if not clips:
        raise DataError(f"{path} has no usable clip: {reason}")
    return Split(clips, skipped)


class _Unusable(Exception):  # noqa: N818 (nothing is wrong with the file)
    """This clip can't be used."""


def _told(error: Exception) -> str:
    return f"{error} is missing." if isinstance(error, KeyError) else f"{error}."


def _entries(path: Path) -> Iterator[Any]:
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON, or truncated ({error}).") from None
    entries = content.get("data") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        raise DataError(f'{path} holds neither {{"data": [...]}} nor a list of entries.')
    yield from entries


def _usable(folder: Path, entry: Any, kind: Kind) -> AnnotatedClip:
    """One entry; frames are looked for only where a caption can be read."""
    video = _object(_object(entry)["video"])
    caption = _caption(entry["annotations"], kind)
    name = _name(entry, video)
    for frames in (folder / "frames" / f"{name}.npy", folder / "frames" / name):
        if frames.exists():
            return AnnotatedClip(caption, frames, _actions(video.get("actions")))
    raise _Unusable(f"there are no frames {folder / 'frames' / name}.npy, nor a folder of pictures")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {value!r:.60}")
    return value


def _caption(annotations: Any, kind: Kind) -> str:
    """The first caption of this kind that can be read as actions."""
    problem = f"an entry has no {kind} caption"
    for place, annotation in enumerate(annotations):
        default = "auto" if place == 0 else "manual"
        if _object(annotation).get("type", default) != kind:
            continue
        text = annotation["text"]
        try:
            deeds = read_caption(text)
        except DataError as error:
            problem = str(error)
            continue
        if len(deeds) <= PAIRS:
            return text
        problem = f"{PAIRS} frame pairs can't show the {len(deeds)} actions of {text!r}."
    raise _Unusable(problem)


def _name(entry: dict[str, Any], video: dict[str, Any]) -> str:
    for key in ("video_file", "json_file", "id"):
        value = video.get(key, entry.get(key))
        if value is not None:
            return PurePosixPath(str(value)).stem
    raise KeyError("video.video_file")


def _actions(names: Any) -> list[int]:
    """The action of each pair, from one name per pair or per frame."""
    if names is None:
        return [UNKNOWN] * PAIRS
    unknown = sorted(set(names) - set(ACTIONS))
    if unknown or len(names) < PAIRS:
        raise ValueError(
            f"video.actions must be at least {PAIRS} of {', '.join(ACTIONS)}, got "
            f"{unknown[0] if unknown else len(names)}"
        )
    return [ACTIONS.index(names[place]) for place in spread(len(names), PAIRS)]


def spread(count: int, wanted: int) -> list[int]:
    """This many places, evenly spread over `count`.

    >>> spread(96, 4), spread(4, 4)
    ([0, 24, 48, 72], [0, 1, 2, 3])
    """
    return [place * count // wanted for place in range(wanted)]


# -- frames ----------------------------------------------------------------------------------------


class Recorded:
    """Footage in files, read when needed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def frames(self, index: Tensor) -> Tensor:
        """The clips with these numbers."""
        return torch.stack([read_clip(self.paths[clip]) for clip in index.tolist()])


def read_clip(path: Path) -> Tensor:
    """32 frames, evenly spread over the file or folder, as (32, 3, 64, 64) uint8."""
    frames = _read_pictures(path) if path.is_dir() else _read_array(path)
    small = F.interpolate(
        torch.from_numpy(frames).movedim(-1, 1).float(),
        (SIZE, SIZE),
        mode="bilinear",
        antialias=True,
        align_corners=False,
    )
    return small.round().clamp(0, 255).to(torch.uint8)


def _read_array(path: Path) -> np.ndarray:
    try:
        frames = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None
    except BROKEN_ARRAYS:
        raise DataError(f"{path} is not a .npy file with frames, or is truncated.") from None
    if not isinstance(frames, np.ndarray):
        raise DataError(f"{path} is an archive of arrays; give frames as one .npy file.")
    if frames.ndim != 4 or frames.shape[3] != 3 or frames.dtype != np.uint8:
        raise DataError(
            f"{path} must hold frames (n, height, width, 3) of uint8, got {frames.shape} of "
            f"{frames.dtype}."
        )
    _check_count(path, len(frames))
    return np.array(frames[spread(len(frames), FRAMES)])


def _read_pictures(folder: Path) -> np.ndarray:
    from PIL import Image

    paths = sorted(folder.glob("*.png"))
    _check_count(folder, len(paths))
    pictures: list[np.ndarray] = []
    for path in (paths[place] for place in spread(len(paths), FRAMES)):
        try:
            with Image.open(path) as picture:
                pictures.append(np.array(picture.convert("RGB")))
        except (*BROKEN_PICTURE, Image.DecompressionBombError) as error:
            raise DataError(f"{path} can't be read as a picture: {error}.") from None
        if pictures[-1].shape != pictures[0].shape:
            raise DataError(f"{path} is not of the same size as {paths[0].name}.")
    return np.stack(pictures)


def _check_count(path: Path, count: int) -> None:
    if count < FRAMES:
        raise DataError(f"{path} has {count} frames; a clip needs at least {FRAMES}.")
