"""Images in the layout of the Long Range Arena: `<subset>/imgs/<batch>/sample_<i>.png`.

`<subset>/metadata/<batch>.npy` lists an image per row, with its folder, its file, its number and
its label first. The public generator writes these rows as a NumPy array of strings, or of objects
where a setting is missing; the published sets hold them as text, in spite of the name.
"""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin_tasks.fetch import BROKEN_ARRAYS, BROKEN_PICTURE, DataError
from dolphin_tasks.pathfinder.data import PathBatch
from dolphin_tasks.pathfinder.generator import SUBSETS
from dolphin_tasks.training.noise import Noise

Listed = list[tuple[Path, bool]]


class PictureSamples:
    """Images that were read from files; only their answers are known, not what is on them."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels  # (n, size, size) uint8, (n,) bool

    def __len__(self) -> int:
        return len(self.labels)

    def reads(self, index: Tensor) -> int:
        """One image per sample."""
        return len(index)

    def batch(self, index: Tensor, noise: Noise | None = None) -> PathBatch:
        """These samples, mirrored and turned while training."""
        images = self.images[index].float().div_(255)
        if noise is not None:
            upside, across, diagonal = (noise.uniform(3) < 0.5)[..., None, None].unbind(1)
            images = torch.where(upside, images.flip(1), images)
            images = torch.where(across, images.flip(2), images)
            images = torch.where(diagonal, images.transpose(1, 2), images)
        return PathBatch(images.unsqueeze(1), self.labels[index])


def find_arena(size: int, dashes: int, data_dir: Path | None) -> Path | None:
    """The folder of the subset with this many dashes, if there is one.

    `data_dir` may also be the folder that the generator wrote, with `imgs` and `metadata` in it.
    """
    if data_dir is not None and (data_dir / "metadata").is_dir() and (data_dir / "imgs").is_dir():
        return data_dir
    if dashes not in SUBSETS:
        return None
    shared = os.environ.get("DOLPHIN_DATA")
    roots = [data_dir] if data_dir is not None else [Path(shared)] if shared else []
    for root in roots:
        for inside in (f"pathfinder{size}", f"pathfinder/pathfinder{size}"):
            folder = root / inside / SUBSETS[dashes]
            if (folder / "metadata").is_dir():
                return folder
    return None


def list_arena(folder: Path) -> Listed:
    """The pictures of a subset and their labels, in the order of its metadata."""
    pictures: Listed = []
    lists = sorted((folder / "metadata").glob("*.npy"), key=lambda path: (len(path.stem), path))
    for path in lists:
        rows = _rows(path)
        if not rows:
            raise DataError(f"{path} lists no pictures.")
        for number, parts in enumerate(rows, 1):
            if len(parts) < 4 or parts[3] not in ("0", "1"):
                raise DataError(
                    f"{path}, line {number}: expected folder, file, number and label (0 or 1), got "
                    f"{' '.join(parts)[:60]!r}."
                )
            pictures.append((folder / parts[0] / parts[1], parts[3] == "1"))
    if not pictures:
        raise DataError(f"{folder / 'metadata'} holds no lists of pictures (*.npy).")
    return pictures


def _rows(path: Path) -> list[list[str]]:
    """The rows of a list of pictures, whichever of the two forms it has."""
    try:
        content = path.read_bytes()
        if not content.startswith(b"\x93NUMPY"):
            return [line.split() for line in content.decode(errors="replace").splitlines()]
        table = _load_table(content)
    except (*BROKEN_ARRAYS, pickle.UnpicklingError) as error:
        raise DataError(f"{path} can't be read as a list of pictures: {error}.") from None
    rows: list[Any] = table.tolist()
    if table.dtype.kind not in "SUO" or not all(isinstance(row, list) for row in rows):
        raise DataError(
            f"{path} must hold a table of strings, got {table.ndim} dimensions of {table.dtype}."
        )
    return [[_text(item) for item in row] for row in rows]


def _load_table(content: bytes) -> np.ndarray:
    """An array of strings or numbers, or one of objects that holds nothing else."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0
    if version != (1, 0):
        read = np.lib.format.read_array_header_2_0
    if not read(stream)[2].hasobject:
        return np.load(io.BytesIO(content), allow_pickle=False)
    return np.asarray(_PlainUnpickler(stream, encoding="latin1").load(), dtype=object)


class _PlainUnpickler(pickle.Unpickler):
    """Reads arrays, lists, strings and numbers; whatever could run code is refused."""

    _ALLOWED = frozenset(
        [("numpy", "ndarray"), ("numpy", "dtype")]
        + [
            (f"numpy.{core}.multiarray", name)
            for core in ("core", "_core")
            for name in ("_reconstruct", "scalar")
        ]
    )

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it holds {module_name}.{global_name}, not only strings")
        return super().find_class(module_name.replace(".core.", "._core."), global_name)


def _text(item: Any) -> str:
    return item.decode(errors="replace") if isinstance(item, bytes) else str(item)


def read_pictures(listed: Listed, size: int) -> PictureSamples:
    """Read pictures into memory."""
    images = torch.empty(len(listed), size, size, dtype=torch.uint8)
    for place, (path, _) in enumerate(listed):
        images[place] = read_picture(path, size)
    return PictureSamples(images, torch.tensor([label for _, label in listed], dtype=torch.bool))


def read_picture(path: Path, size: int) -> Tensor:
    """One picture (size, size) uint8; DataError where it is missing, damaged or of another size."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            pixels = np.array(picture.convert("L"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (*BROKEN_PICTURE, Image.DecompressionBombError) as error:
        raise DataError(f"{path} can't be read as a picture: {error}.") from None
    if pixels.shape != (size, size):
        height, width = pixels.shape
        raise DataError(f"{path} has {width}×{height} pixels; this needs {size}×{size}.")
    return torch.from_numpy(pixels)


def split_arena(folder: Path, size: int, counts: tuple[int, int, int]) -> list[PictureSamples]:
    """At most this many training, validation and test samples; a tenth each for the last two."""
    listed = list_arena(folder)
    order = torch.randperm(len(listed), generator=torch.Generator().manual_seed(0)).tolist()
    tenth = len(listed) // 10
    bounds = ((2 * tenth, len(listed)), (tenth, 2 * tenth), (0, tenth))
    parts = [order[a:b][:count] for (a, b), count in zip(bounds, counts, strict=True)]
    return [read_pictures([listed[place] for place in part], size) for part in parts]
