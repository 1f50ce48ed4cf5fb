"""From text to tokens and back: prompts, options, and the end of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dolphin.errors import InputError, shorten

Message = Mapping[str, str]
"""A turn of a chat: `{"role": "user", "content": "..."}`."""
Prompt = str | Sequence[Message]
"""Text to continue, or a chat to answer."""


class Codec:
    """A tokenizer, and the tokens that end an answer."""

    def __init__(self, tokenizer: Any, end: str | Sequence[str] | None) -> None:
        self.tokenizer = tokenizer
        self.ends = tuple(dict.fromkeys(_end_tokens(tokenizer, end)))

    # -- prompts -----------------------------------------------------------------------------------

    def prompts(self, operation: str, prompts: Prompt | Sequence[Prompt]) -> list[list[int]]:
        """The tokens of each prompt."""
        if isinstance(prompts, str) or _is_chat(prompts):
            prompts = [prompts]  # type: ignore[list-item]
        each = [self._prompt(operation, row, prompt) for row, prompt in enumerate(prompts)]
        if not each:
            raise InputError(f"{operation}: got no prompts; give one per row.")
        return each

    def _prompt(self, operation: str, row: int, prompt: Any) -> list[int]:
        if isinstance(prompt, str):
            tokens = self._plain_prompt(prompt)
        elif _is_chat(prompt):
            tokens = self._chat(operation, prompt)
        else:
            raise InputError(
                f"{operation}: prompt {row} is {shorten(prompt)}. A prompt is text, or a chat: "
                '[{"role": "user", "content": "..."}].'
            )
        if not tokens:
            start = getattr(self.tokenizer, "bos_token_id", None)
            if start is None:
                raise InputError(
                    f"{operation}: prompt {row} has no tokens, and the tokenizer has no token that "
                    "starts a text. Write a prompt of at least one token."
                )
            tokens = [int(start)]
        return tokens

    def _plain_prompt(self, prompt: str) -> list[int]:
        """The tokens of a text with the tokenizer's start token, and without its end token.

        A rendered chat has a start token already. A prompt is continued, so it has no end.
        """
        plain = self.tokens(prompt)
        start = getattr(self.tokenizer, "bos_token_id", None)
        if start is not None and plain[:1] == [start]:
            return plain
        tokens = list(self.tokenizer(prompt)["input_ids"])
        end = getattr(self.tokenizer, "eos_token_id", None)
        while end is not None and tokens[-1:] == [end] and plain[-1:] != [end]:
            tokens.pop()
        return tokens

    def _chat(self, operation: str, chat: Sequence[Message]) -> list[int]:
        if not getattr(self.tokenizer, "chat_template", None):
            raise InputError(
                f"{operation}: the tokenizer has no chat template, so a prompt must be text, or "
                "set tokenizer.chat_template."
            )
        text = self.tokenizer.apply_chat_template(
            [dict(message) for message in chat], tokenize=False, add_generation_prompt=True
        )
        return self.tokens(text)

    # -- options -----------------------------------------------------------------------------------

    def options(self, operation: str, options: Sequence[Any], place: str) -> list[list[int]]:
        """The tokens of each option, by itself and without its end; all must differ."""
        if not options:
            raise InputError(f"{operation}: {place}: no options. Give at least one string.")
        seen: dict[tuple[int, ...], str] = {}
        sequences = []
        for option in options:
            if not isinstance(option, str):
                raise InputError(
                    f"{operation}: {place}: {shorten(option)} is not a string. Options are what "
                    "the model says: write [str(n) for n in ...], and .map(int) on the result."
                )
            tokens = self.tokens(option)
            self._check(operation, place, option, tokens, seen)
            seen[tuple(tokens)] = option
            sequences.append(tokens)
        return sequences

    def _check(
        self,
        operation: str,
        place: str,
        option: str,
        tokens: list[int],
        seen: Mapping[tuple[int, ...], str],
    ) -> None:
        equal = seen.get(tuple(tokens))
        if equal == option:
            raise InputError(
                f"{operation}: {place}: {shorten(option)} is listed twice. Options must differ."
            )
        if equal is not None:
            raise InputError(
                f"{operation}: {place}: {shorten(equal)} and {shorten(option)} are the same tokens "
                f"to this tokenizer ({tokens}), so they can't be told apart. Keep one of them."
            )
        if any(token in self.ends for token in tokens):
            raise InputError(
                f"{operation}: {place}: {shorten(option)} contains {shorten(self.end_text)}, which "
                "ends an answer. Leave it out: the end is added to every option."
            )

    # -- text --------------------------------------------------------------------------------------

    @property
    def end_text(self) -> str:
        """The first of the tokens that end an answer, as text."""
        return self.text(self.ends[:1])

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens, special ones included, spaces as they are."""
        return self.tokenizer.decode(
            list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text by itself, without a start or an end."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def _is_chat(prompt: Any) -> bool:
    return (
        isinstance(prompt, (list, tuple))
        and bool(prompt)
        and all(isinstance(message, Mapping) for message in prompt)
    )


def _end_tokens(tokenizer: Any, end: str | Sequence[str] | None) -> list[int]:
    if end is None:
        token = getattr(tokenizer, "eos_token_id", None)
        if token is None:
            raise InputError(
                "LanguageModel: the tokenizer has no eos_token, so it is unclear where an answer "
                r'ends. Pass end="\n", or another text of one token.'
            )
        return [int(token)]
    texts = [end] if isinstance(end, str) else list(end)
    tokens = [list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
    for text, own in zip(texts, tokens, strict=True):
        if len(own) != 1:
            raise InputError(
                f"LanguageModel: end={text!r} is {len(own)} tokens. An end is one token, such as "
                "tokenizer.eos_token."
            )
    if not tokens:
        raise InputError("LanguageModel: end=[] says that no answer ends. Give at least one token.")
    return [own[0] for own in tokens]
