"""Options that every task has, as one typed dataclass; tasks add their own by inheriting."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import dolphin as dl
from dolphin.provenance import RegisteredName


class OptionError(dl.DolphinError, ValueError):
    """An option is wrong, or contradicts another one."""


_LARGEST = 10**9  # of any number but the seed


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train. Everything that changes the result is here, and is stored with the run."""

    epochs: int = 10
    """Passes over the training samples."""
    batch: int = 64
    """Samples per step, over all processes together."""
    lr: float = 1e-3
    """Learning rate of Adam; the maximum if a schedule changes it."""
    schedule: Literal["constant", "cosine", "onecycle"] = "onecycle"
    """Learning rate: constant; cosine decay to zero; or one cycle, rising from a tenth in the first
    30 % of the steps and decaying afterwards."""
    seed: int = 0
    """Seed of the initial weights, the order of samples and all other randomness."""
    provenance: str = "damp"
    """How uncertainty is combined: damp, dtkp-am, or another name of dolphin.get_provenance."""
    k: int | None = None
    """Proofs kept per symbol; only for provenances that keep proofs."""
    loss: Literal["nll", "bce"] = "nll"
    """Negative log-likelihood of the label, or binary cross-entropy over all results."""
    train_samples: int | None = None
    """Use at most this many training samples."""
    test_samples: int | None = None
    """Use at most this many test samples (and validation samples)."""
    data_dir: Path | None = None
    """Folder to read the data from (default: $DOLPHIN_DATA, the cache, then a download)."""
    download: bool = True
    """Whether data may be downloaded."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps; auto uses a GPU if there is one."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16 runs the network in mixed precision; programs always compute in fp32."""
    threads: int | None = None
    """CPU threads of each process (default: PyTorch's choice)."""
    out: Path | None = None
    """Run folder (default: a folder in runs/ named after the main options)."""
    resume: bool = False
    """Continue the run in the folder --out where it stopped."""

    def check(self) -> None:
        """Refuse invalid options, before anything is loaded."""
        for name in ("epochs", "batch", "lr", "k", "train_samples", "test_samples", "threads"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"{_flag(name)} must be greater than 0, got {value}.")
        for name, value in vars(self).items():
            if isinstance(value, (int, float)) and name != "seed" and value > _LARGEST:
                raise OptionError(f"{_flag(name)} must be at most {_LARGEST:,}, got {value:,}.")
        if not 0 <= self.seed < 2**63:
            raise OptionError(f"--seed must not be negative, got {self.seed}.")
        if self.resume and self.out is None:
            raise OptionError("--resume needs --out, the folder of the run to continue.")
        self.make_provenance()

    def at_least(self, least: int, *names: str) -> None:
        """Refuse options with these names that are less than that."""
        for name in names:
            if getattr(self, name) < least:
                given = getattr(self, name)
                raise OptionError(f"{_flag(name)} must be at least {least}, got {given}.")

    def make_provenance(self) -> dl.Provenance:
        """The provenance that the options name."""
        plain = dl.get_provenance(RegisteredName(self.provenance))  # refuses unknown names
        if self.k is None:
            return plain
        if not isinstance(plain, dl.TopKProofs):
            raise OptionError(
                f"--k counts proofs, and --provenance {self.provenance} keeps none. Leave out --k, "
                "or choose --provenance dtkp-am."
            )
        return dl.TopKProofs(self.k, plain.wmc)

    def make_loss(self) -> Any:
        """The loss function that the options name."""
        return {"nll": dl.nll_loss, "bce": dl.bce_loss}[self.loss]

    def label(self) -> str:
        """The main options in a few characters, to name a run folder."""
        return f"{self.provenance}-seed{self.seed}"

    def as_json(self) -> dict[str, Any]:
        """Every option as plain JSON values."""
        return {
            field.name: str(value) if isinstance(value, Path) else value
            for field in dataclasses.fields(self)
            for value in [getattr(self, field.name)]
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The options that `as_json` wrote; unknown or missing ones are refused."""
        types_ = typing.get_type_hints(cls)
        names = {field.name for field in dataclasses.fields(cls)}
        if set(values) != names:
            odd = ", ".join(sorted(set(values) ^ names))
            raise OptionError(f"the stored options don't fit this version of dolphin: {odd}.")
        options: dict[str, Any] = {}
        for name, value in values.items():
            if not _fits(value, types_[name]):
                raise OptionError(f"the stored option {_flag(name)} is damaged: {value!r:.60}.")
            holds_path = isinstance(value, str) and _holds_path(types_[name])
            options[name] = Path(value) if holds_path else value
        return cls(**options)

    def differences(self, other: TrainConfig) -> list[str]:
        """What in `other` would make it another run than this one."""
        free = {"resume", "out", "threads", "device", "data_dir", "download"}
        if self.schedule == "constant":
            free.add("epochs")
        mine, theirs = self.as_json(), other.as_json()
        return [
            f"{_flag(name)} {theirs.get(name)} (the run has {value})"
            for name, value in mine.items()
            if name not in free and theirs.get(name) != value
        ]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value of JSON can be the value of an option of this type.

    >>> _fits(3, int | None), _fits("3", int | None), _fits("a", Literal["a", "b"])
    (True, False, True)
    """
    if typing.get_origin(hint) is Literal:
        return value in typing.get_args(hint)
    if isinstance(hint, types.UnionType):
        return any(_fits(value, member) for member in typing.get_args(hint))
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str if hint is Path else hint)


def _holds_path(hint: Any) -> bool:
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return Path in members
