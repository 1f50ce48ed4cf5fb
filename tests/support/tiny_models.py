"""Tiny causal models and tokenizers from configuration, with random weights: no download."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

TEXT = [
    "the cat sat on the mat and the catfish swam", "is it a dog or a cat? yes no maybe",
    "one two three four five six seven eight nine ten eleven twelve", "0 1 2 3 4 5 6 7 8 9 10 42",
    "user assistant system question answer: the colour is red green blue",
]  # fmt: skip
CHAT = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def byte_level_tokenizer(size: int = 400) -> PreTrainedTokenizerFast:
    """As GPT-2, Llama 3 and SmolLM have it: every text has tokens, spaces belong to words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return _wrapped(tokenizer)


def sentencepiece_tokenizer(size: int = 200) -> PreTrainedTokenizerFast:
    """As Llama 2 and Gemma have it: ▁ for spaces, one before the text, <s> before everything."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=["<unk>", "<s>", "</s>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT * 20, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return _wrapped(tokenizer)


def _wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    wrapped.chat_template = CHAT
    return wrapped


def tiny_llama(vocabulary: int, *, attention: str = "sdpa", seed: int = 0, **options):
    """Two layers of Llama's architecture; weights large enough that every token matters."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.4,
        attn_implementation=attention,
        pad_token_id=None,
        **options,
    )
    return LlamaForCausalLM(config).eval()


def tiny_windowed(architecture: str, vocabulary: int, window: int, seed: int = 0):
    """Layers of Mistral or Gemma 3 that attend to the last tokens only."""
    torch.manual_seed(seed)
    config = getattr(transformers, f"{architecture}Config")(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=256,
        initializer_range=0.4, sliding_window=window, pad_token_id=None,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def tiny_gpt2(vocabulary: int, seed: int = 0):
    """Learnt positions instead of rotations."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=vocabulary, n_positions=256, n_embd=32, n_layer=2, n_head=4,
        initializer_range=0.4, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval()


def brute_force(model, tokenizer, prompt: str, option: str):
    """log P(option and end | prompt): the option's tokens one by one, in one plain pass."""
    before = tokenizer(prompt)["input_ids"]
    option_tokens = tokenizer(option, add_special_tokens=False)["input_ids"]
    return brute_force_tokens(model, before, [*option_tokens, tokenizer.eos_token_id])


def brute_force_tokens(model, before: list[int], after: list[int]):
    """The sum of the log-probabilities of the tokens `after`, each given all before it."""
    log_probs = model(input_ids=torch.tensor([before + after])).logits[0].log_softmax(-1)
    places = torch.arange(len(before) - 1, len(before) + len(after) - 1)
    return log_probs[places, torch.tensor(after)].sum()


class Blind(torch.nn.Module):
    """A causal model that knows neither masks nor positions nor caches."""

    def __init__(self, model):
        super().__init__()
        self.inner = model

    def forward(self, input_ids, attention_mask=None, position_ids=None, past_key_values=None,
                use_cache=False):  # fmt: skip
        return self.inner(input_ids=input_ids, use_cache=use_cache)
