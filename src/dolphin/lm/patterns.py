"""Answers of a given form: which tokens a regular expression still allows (llguidance)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import InputError, shorten
from dolphin.lm.codec import Codec


class Progress:
    """The state of a regular expression after a prefix of an answer."""

    def __init__(self, matcher: Any, ends: tuple[int, ...]) -> None:
        self._matcher, self._ends = matcher, ends

    @functools.cached_property
    def complete(self) -> bool:
        """Whether the prefix is a whole match."""
        return bool(self._matcher.is_accepting())

    def allowed(self, vocabulary: int) -> Tensor:
        """Which tokens can follow, so that the whole can still match, (vocabulary,) of bool."""
        bits = np.unpackbits(
            np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8), bitorder="little"
        )
        allowed = np.zeros(vocabulary, dtype=bool)
        size = min(vocabulary, len(bits))
        allowed[:size] = bits[:size]
        allowed[list(self._ends)] = False  # they end an answer and are not part of it
        return torch.from_numpy(allowed)

    def after(self, token: int) -> Progress:
        """The same with one more token, which is allowed."""
        matcher = self._matcher.deep_copy()
        if not matcher.consume_token(token):
            raise AssertionError(matcher.get_error())
        return Progress(matcher, self._ends)


class Vocabulary:
    """A tokenizer in llguidance's form. Building it takes about a second for a large one."""

    def __init__(self, operation: str, codec: Codec) -> None:
        try:
            from llguidance import LLTokenizer
            from llguidance.hf import from_tokenizer
        except ImportError:
            raise InputError(
                f"{operation}: pattern= needs the package llguidance: "
                "pip install 'dolphin-nesy[lm]'."
            ) from None
        self._ends = codec.ends
        self._tokens: Any
        try:
            self._tokens = from_tokenizer(codec.tokenizer, eos_token=list(codec.ends))
        except ValueError:  # a decoder that it doesn't know, or a slow tokenizer
            self._tokens = LLTokenizer(_Spelled(codec))  # type: ignore[arg-type]
        # Some tokenizers write a space before every text, which is not part of the text.
        first = codec.tokens("a")[:1]
        self._spaced = self._tokens.decode_bytes(first)[:1] == b" "

    def start(self, operation: str, pattern: str) -> Progress:
        """The state before the first token, for a pattern that whole answers match."""
        from llguidance import LLMatcher, regex_to_lark

        if not isinstance(pattern, str):
            raise InputError(
                f"{operation}: pattern is a regular expression as text, such as r'[0-9]+', got "
                f"{shorten(pattern)}."
            )
        expression = f"/{regex_to_lark(pattern)}/"
        if self._spaced:  # the first space doesn't count
            expression = rf'" " {expression} | ({expression} & /([^ ](.|\n)*)?/)'
        grammar = LLMatcher.grammar_from_lark(f"start: TEXT\nTEXT: {expression}\n")
        matcher: Any = LLMatcher(self._tokens, grammar, log_level=0)
        if matcher.is_error():
            reason = " ".join(matcher.get_error().split())
            raise InputError(f"{operation}: pattern={pattern!r} can't be used: {reason}")
        return Progress(matcher, self._ends)


class _Spelled:
    """A tokenizer as the texts of its tokens, for llguidance."""

    is_tokenizer_wrapper = True

    def __init__(self, codec: Codec) -> None:
        tokenizer = codec.tokenizer
        anchor = codec.tokens("a")
        before = codec.text(anchor)
        self.eos_token_id = codec.ends[0]
        self.bos_token_id = getattr(tokenizer, "bos_token_id", None)
        self.special_token_ids = sorted({*tokenizer.all_special_ids, *codec.ends})
        self.tokens = []
        for token in range(len(tokenizer)):
            text = codec.text([*anchor, token])[len(before) :]
            unreadable = "\ufffd" in text or token in self.special_token_ids
            self.tokens.append(b"\xff" if unreadable else text.encode())  # matches no pattern
        self._codec = codec

    def __call__(self, text: bytes | str) -> list[int]:
        return self._codec.tokens(text.decode() if isinstance(text, bytes) else text)
