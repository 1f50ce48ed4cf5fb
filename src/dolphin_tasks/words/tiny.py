"""A language model of Llama's architecture with random weights: nothing to download."""

from __future__ import annotations

from typing import Any

import torch

from dolphin.lm import LanguageModel

CHAT = (
    "{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n"
    "{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def tiny_language_model(seed: int = 0) -> LanguageModel:
    """Two small layers over bytes. It knows nothing, and shows that programs run."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = ["<unk>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {symbol: number for number, symbol in enumerate(alphabet)}
    tokenizer: Any = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = dict(zip(("unk_token", "bos_token", "eos_token"), alphabet, strict=False))
    tokens = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    tokens.chat_template = CHAT
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: Any = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(alphabet),
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=1024,
                initializer_range=0.3,
                bos_token_id=1,
                eos_token_id=2,
            )
        )
    return LanguageModel(model.eval(), tokens)
