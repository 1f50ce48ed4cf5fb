"""`LanguageModel.options` against sums of token log-probabilities, option by option."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

import dolphin as dl
import tiny_models
from dolphin.lm import LanguageModel, codec, reading
from tiny_models import Blind, brute_force, brute_force_tokens

PROMPTS = ["is it a cat or a dog?", "the colour of the mat is", "x"]
OPTIONS = [
    "cat", "catfish", "", " cat", "yes no maybe one two three four five six seven", "é🐬 ∀x", "7",
]  # fmt: skip
TOKENIZERS = {
    "bytes": tiny_models.byte_level_tokenizer(),
    "pieces": tiny_models.sentencepiece_tokenizer(),
}
MODELS = {
    "llama": tiny_models.tiny_llama,
    "llama-eager": lambda size: tiny_models.tiny_llama(size, attention="eager"),
    "gpt2": tiny_models.tiny_gpt2,
}


def make(tokenizer="bytes", model="llama", dtype=torch.float64) -> Any:
    tokens = TOKENIZERS[tokenizer]
    return LanguageModel(MODELS[model](len(tokens)).to(dtype), tokens)


def expected(lm, prompts, rows):
    return [
        [brute_force(lm.model, lm.tokenizer, prompt, option) for option in own]
        for prompt, own in zip(prompts, rows, strict=True)
    ]


def listed(tokenizer):
    """Options that the tokenizer can tell apart: ▁ before a text is the same as a space there."""
    return OPTIONS if tokenizer == "bytes" else [o for o in OPTIONS if o != " cat"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_equals_brute_force(tokenizer, model):
    lm, options = make(tokenizer, model), listed(tokenizer)
    assert lm._reads_tries
    result = lm.options(PROMPTS, options)
    want = torch.stack([torch.stack(row) for row in expected(lm, PROMPTS, [options] * 3)])
    torch.testing.assert_close(result.log_probs(), want, atol=1e-5, rtol=0)
    assert result.symbols == tuple(options)
    assert result.probs().sum(1).max().item() <= 1


def test_single_precision_keeps_five_digits():
    lm = make(dtype=torch.float32)
    with torch.no_grad():
        want = torch.tensor(expected(make(), PROMPTS, [OPTIONS] * 3))
    assert ((lm.log_probs(PROMPTS, OPTIONS) - want).abs() / want.abs()).max() < 1e-5


def test_gradients_equal_brute_force():
    lm = make()
    weights = torch.rand(3, len(OPTIONS), dtype=torch.float64)
    (lm.options(PROMPTS, OPTIONS).log_probs() * weights).sum().backward()
    found = {name: p.grad.clone() for name, p in lm.model.named_parameters()}
    lm.model.zero_grad()
    each = torch.stack([torch.stack(row) for row in expected(lm, PROMPTS, [OPTIONS] * 3)])
    (each * weights).sum().backward()
    for name, parameter in lm.model.named_parameters():
        # Llama computes its norms in single precision, whatever the rest is in.
        torch.testing.assert_close(found[name], parameter.grad, atol=1e-4, rtol=1e-4)


def test_five_hundred_options_in_many_passes(monkeypatch):
    lm = make()
    options = [str(number) for number in range(500)]
    whole = lm.log_probs(PROMPTS[:1], options)
    some = [0, 7, 42, 123, 499]
    want = [brute_force(lm.model, lm.tokenizer, PROMPTS[0], options[n]) for n in some]
    torch.testing.assert_close(whole[0, some], torch.stack(want), atol=1e-9, rtol=1e-9)
    monkeypatch.setattr(reading, "ELEMENTS", 400 * 600)  # about a hundred nodes per pass
    torch.testing.assert_close(lm.log_probs(PROMPTS[:1], options), whole, atol=1e-9, rtol=1e-9)


def test_each_trie_node_is_read_once():
    lm = make()
    assert lm._reads_tries
    read = []
    hook = lm.model.register_forward_pre_hook(
        lambda _, __, given: read.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    lm.log_probs(["cat", "dog"], ["abc", "abd", "ab", "xyz"])
    hook.remove()
    tokens = [lm.tokenizer(o)["input_ids"] for o in ("abc", "abd", "ab", "xyz")]
    nodes = {tuple(own[: n + 1]) for own in tokens for n in range(len(own))}
    longest = max(len(lm.tokenizer(prompt)["input_ids"]) for prompt in ("cat", "dog"))
    assert read == [(2, longest), (2, len(nodes))]


def test_options_per_row():
    lm = make()
    rows = [["cat", "dog"], ["red", "green", "blue", ""], ["x"]]
    result = lm.options(PROMPTS, rows)
    for row, own in enumerate(expected(lm, PROMPTS, rows)):
        assert [symbol for symbol, _ in result.row(row)] == rows[row]
        found = result[row].log_probs(symbols=rows[row])[0]
        torch.testing.assert_close(found, torch.stack(own), atol=1e-8, rtol=1e-8)


def test_very_unlikely_options_of_rows_keep_their_logarithm():
    lm = make(dtype=torch.float32)
    far = "nine eleven ∀∀∀∀ 🐬🐬🐬🐬"
    rows = lm.options(PROMPTS, [[far], [far, "a"], ["b"]])
    same = lm.log_probs(PROMPTS, [far])
    assert same[0, 0].item() < -120
    torch.testing.assert_close(rows.log_probs(symbols=[far])[:2, 0], same[:2, 0].detach())


@pytest.mark.parametrize("rows", [1, 32])
def test_batches(rows):
    lm = make()
    prompts = [f"{'the ' * (n % 5)}number {n}" for n in range(rows)]
    together = lm.log_probs(prompts, OPTIONS)
    alone = torch.cat([lm.log_probs(prompt, OPTIONS) for prompt in prompts])
    torch.testing.assert_close(together, alone, atol=1e-9, rtol=1e-9)


def test_normalise_conditions_on_the_list():
    lm = make()
    plain = lm.options(PROMPTS, OPTIONS).probs()
    given = lm.options(PROMPTS, OPTIONS, normalise=True).probs()
    torch.testing.assert_close(given, plain / plain.sum(1, keepdim=True))
    rows = lm.options(PROMPTS, [["cat", "dog"], ["a", "b", "c"], ["x"]], normalise=True)
    torch.testing.assert_close(rows.probs().sum(1), torch.ones(3, dtype=torch.float64))


def test_half_precision():
    lm = make(dtype=torch.bfloat16)
    assert lm._reads_tries
    with torch.no_grad():
        result = lm.log_probs(PROMPTS, ["cat", "catfish", "7"])
    assert result.dtype == torch.float32
    reference = LanguageModel(copy.deepcopy(lm.model).double(), lm.tokenizer)
    want = reference.log_probs(PROMPTS, ["cat", "catfish", "7"])
    assert ((result - want).abs() / want.abs()).max() < 0.1
    assert not result.requires_grad


def test_training_mode_and_frozen_parts_stay_as_they_are():
    lm = make()
    lm.model.train()
    lm.model.model.layers[0].eval()
    lm.options("x", ["a", "b"])
    assert lm.model.training
    assert not lm.model.model.layers[0].training


def test_chats_are_rendered_once():
    lm = make("pieces")
    chat = [{"role": "user", "content": "is it a cat?"}]
    text = lm.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    before = lm.tokenizer(text, add_special_tokens=False)["input_ids"]
    yes = lm.tokenizer("yes", add_special_tokens=False)["input_ids"]
    want = brute_force_tokens(lm.model, before, [*yes, lm.tokenizer.eos_token_id])
    for prompts in (chat, [chat], text, [text]):  # no second <s> before the rendered text
        torch.testing.assert_close(lm.log_probs(prompts, ["yes"])[0, 0], want)
    assert lm.options([chat, text, "plain"], ["yes"]).batch_size == 3


def test_other_ends():
    lm = make()
    ended = LanguageModel(lm.model, lm.tokenizer, end=["</s>", "."])
    before, cat = lm.tokenizer("x")["input_ids"], lm.tokenizer("cat")["input_ids"]
    dot = lm.tokenizer(".")["input_ids"]
    each = [brute_force_tokens(lm.model, before, cat + end) for end in ([2], dot)]
    torch.testing.assert_close(ended.log_probs("x", ["cat"])[0, 0], torch.stack(each).logsumexp(0))


def test_a_tokenizer_that_ends_prompts_does_not_end_ours():
    from tokenizers import processors

    tokenizer = tiny_models.byte_level_tokenizer()
    model = tiny_models.tiny_llama(len(tokenizer)).double()
    want = LanguageModel(model, tokenizer).log_probs("x", ["cat"])
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    assert tokenizer("x")["input_ids"][-1] == 2
    torch.testing.assert_close(LanguageModel(model, tokenizer).log_probs("x", ["cat"]), want)


def test_an_empty_prompt_starts_a_text():
    lm = make()
    want = brute_force_tokens(
        lm.model, [lm.tokenizer.bos_token_id], lm.tokenizer("a")["input_ids"] + [2]
    )
    torch.testing.assert_close(lm.log_probs("", ["a"])[0, 0], want)


@pytest.mark.parametrize("elements", [1 << 26, 400 * 12 * 5])
def test_models_that_ignore_masks_are_read_plainly(monkeypatch, elements):
    lm = make()
    blind = LanguageModel(Blind(lm.model), lm.tokenizer)
    monkeypatch.setattr(reading, "ELEMENTS", elements)
    assert not blind._reads_tries
    torch.testing.assert_close(
        blind.log_probs(PROMPTS, OPTIONS), lm.log_probs(PROMPTS, OPTIONS), atol=1e-9, rtol=1e-9
    )


@pytest.mark.parametrize("architecture", ["Mistral", "Gemma3Text"])
def test_models_with_an_attention_window(architecture):
    tokens = TOKENIZERS["bytes"]
    model = tiny_models.tiny_windowed(architecture, len(tokens), window=20).double()
    lm = LanguageModel(model, tokens)
    assert lm._reads_tries
    prompts = ["is it a cat or a dog? " * 3, "the cat"]
    with torch.no_grad():
        for own in ([prompts[1]], prompts):  # on the cache, and past what it keeps
            want = torch.tensor(expected(lm, own, [["cat", "catfish"]] * len(own)))
            result = lm.log_probs(own, ["cat", "catfish"])
            torch.testing.assert_close(result, want.double(), atol=1e-5, rtol=0)
        answers = lm.answers(prompts[0], k=3, max_new_tokens=4).top(1)[0]
        assert answers[0][1] <= 1


def test_a_program_learns_from_results_alone():
    lm = make(dtype=torch.float32)
    optimizer = torch.optim.Adam(lm.model.parameters(), lr=1e-2)
    for _ in range(15):
        first = lm.options(["a", "b"], ["1", "2", "3"]).map(int)
        second = lm.options(["c", "d"], ["1", "2", "3"]).map(int)
        loss = dl.nll_loss(first + second, [6, 2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        assert lm.options(["a", "b"], ["1", "2", "3"]).argmax() == ["3", "1"]
        assert loss.item() < 0.5


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ("x", [], "no options"),
        ("x", "yes", "give a list of strings"),
        ("x", ["a", "b", "a"], "'a' is listed twice"),
        ("x", [["a", "a"]], "options of row 0: 'a' is listed twice"),
        ("x", [1, 2], r"\.map\(int\)"),
        ("x", [["a"], ["b"]], "2 lists of options for 1 prompts"),
        ("x", ["a</s>b"], "ends an answer"),
        ([], ["a"], "got no prompts"),
        ([3], ["a"], "A prompt is text, or a chat"),
        ("x " * 300, ["a"], "the model reads 256"),
    ],
)
def test_what_cannot_be_meant_is_refused(prompts, options, message):
    with pytest.raises(dl.InputError, match=message):
        make().options(prompts, options)


def test_options_that_are_the_same_tokens_are_refused():
    with pytest.raises(dl.InputError, match="' cat' and 'cat' are the same tokens"):
        make("pieces").options("x", [" cat", "cat"])


def test_tokenizers_without_an_end_or_a_chat():
    tokenizer = tiny_models.byte_level_tokenizer()
    tokenizer.eos_token = tokenizer.bos_token = None
    tokenizer.chat_template = None
    model = tiny_models.tiny_llama(len(tokenizer))
    with pytest.raises(dl.InputError, match="no eos_token"):
        LanguageModel(model, tokenizer)
    with pytest.raises(dl.InputError, match="is 3 tokens"):
        LanguageModel(model, tokenizer, end="qqq")
    lm = LanguageModel(model, tokenizer, end=".")
    with pytest.raises(dl.InputError, match="no chat template"):
        lm.options([{"role": "user", "content": "hi"}], ["a"])
    with pytest.raises(dl.InputError, match="has no tokens"):
        lm.options("", ["a"])
    assert codec.Codec(tokenizer, ".").end_text == "."


def test_swapped_arguments_are_refused():
    lm = make()
    with pytest.raises(dl.InputError, match="LanguageModel\\(model, tokenizer\\)"):
        LanguageModel(lm.tokenizer, lm.model)
