"""`answers(pattern=...)`: everything that matches is found, and nothing else."""

from __future__ import annotations

import itertools
import math
import re
import sys

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("llguidance")

import dolphin as dl
import tiny_models
from dolphin.lm import OTHER, LanguageModel

TOKENIZERS = {
    "bytes": tiny_models.byte_level_tokenizer(300),
    "pieces": tiny_models.sentencepiece_tokenizer(120),
}
PROMPTS = ["is it a cat?", "number:"]
PATTERNS = [r"[0-9]", r"[a-e ]h?[a-c]?", r"[0-9]?"]


@pytest.fixture(params=TOKENIZERS)
def lm(request):
    tokens = TOKENIZERS[request.param]
    return LanguageModel(tiny_models.tiny_llama(len(tokens), seed=3).double(), tokens)


def matching(lm, prompt, pattern):
    """The probability of every text of at most two tokens that matches, over all tokenisations."""
    tokens, model = lm.tokenizer, lm.model
    before = tokens(prompt)["input_ids"]
    end = tokens.eos_token_id
    singles = [t for t in range(len(tokens)) if tokens.decode([t]).isascii()]
    ways = [(), *((t,) for t in singles), *itertools.product(singles, repeat=2)]
    found: dict[str, list[tuple[int, ...]]] = {}
    for way in ways:
        text = tokens.decode(way, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if re.fullmatch(pattern, text) and not set(way) & set(tokens.all_special_ids):
            found.setdefault(text, []).append(way)
    with torch.no_grad():
        return {
            text: sum(
                math.exp(tiny_models.brute_force_tokens(model, before, [*way, end]).item())
                for way in ways
            )
            for text, ways in found.items()
        }


@pytest.mark.parametrize("pattern", PATTERNS)
def test_everything_that_matches_is_found(lm, pattern):
    with torch.no_grad():
        result = lm.answers(PROMPTS, k=200, max_new_tokens=2, pattern=pattern)
    for row, prompt in enumerate(PROMPTS):
        want = {t: p for t, p in matching(lm, prompt, pattern).items() if p > 1e-7}
        found = dict(result.row(row))
        assert want, "the pattern matches something"
        rest = found.pop(OTHER)
        assert all(re.fullmatch(pattern, text) for text in found)
        assert found.keys() >= want.keys()
        for text, probability in want.items():
            assert math.isclose(found[text], probability, rel_tol=1e-3)
        assert math.isclose(rest, 1 - sum(want.values()), rel_tol=1e-3)


@pytest.mark.parametrize("method", ["beam", "sample"])
def test_larger_k_only_adds(lm, method):
    with torch.no_grad():
        each = [
            lm.answers(PROMPTS, k=k, max_new_tokens=4, method=method, pattern=r"-?[0-9]+")
            for k in (1, 3, 6)
        ]
    for less, more in itertools.pairwise(each):
        for row in range(2):
            before, after = dict(less.row(row)), dict(more.row(row))
            assert all(re.fullmatch(r"-?[0-9]+", t) for t in after if t is not OTHER)
            assert all(after[t] >= p * (1 - 1e-6) for t, p in before.items() if t is not OTHER)
            assert after[OTHER] <= before[OTHER]


def test_samples_go_on_where_the_pattern_allows_no_end(lm):
    """Without a pattern a walker may stop at once; here it can't before the third digit."""
    with torch.no_grad():
        result = lm.answers(
            PROMPTS, k=3, max_new_tokens=4, method="sample", seed=1, pattern=r"[0-9]{3}"
        )
    assert all(len(result[row].symbols) > 1 for row in range(2))


def test_gradients_are_those_of_what_was_found():
    tokens = TOKENIZERS["bytes"]
    lm = LanguageModel(tiny_models.tiny_llama(len(tokens), seed=3).double(), tokens)
    lm.answers(PROMPTS, int, k=12, max_new_tokens=1, pattern="[0-9]").prob_of(
        [7, 7]
    ).sum().backward()
    found = lm.model.lm_head.weight.grad.clone()
    lm.model.zero_grad()
    lm.options(PROMPTS, ["7"]).probs().sum().backward()
    torch.testing.assert_close(found, lm.model.lm_head.weight.grad, atol=1e-6, rtol=1e-3)


def test_other_ends(lm):
    """An end that the pattern would allow as text still ends the answer."""
    dotted = LanguageModel(lm.model, lm.tokenizer, end="<s>")
    with torch.no_grad():
        result = dotted.answers("x", k=4, max_new_tokens=2, pattern="[a-z ]*")
    assert not any("<s>" in text for text in result.symbols if text is not OTHER)


@pytest.mark.parametrize(("pattern", "message"), [("[0-9", "can't be used"), (7, "as text")])
def test_what_is_no_pattern_is_refused(lm, pattern, message):
    with pytest.raises(dl.InputError, match=message):
        lm.answers("x", pattern=pattern)


def test_without_the_package(lm, monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(dl.InputError, match="pip install"):
        lm.answers("x", pattern="a")
