"""`LanguageModel.answers`: what is found, what it means, and the rest."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

pytest.importorskip("transformers")

import dolphin as dl
import tiny_models
from dolphin.lm import OTHER, LanguageModel

PROMPTS = ["is it a cat?", "number:"]
TOKENS = tiny_models.byte_level_tokenizer()
METHODS = ["beam", "sample"]


@pytest.fixture(scope="module")
def lm():
    model = tiny_models.tiny_llama(len(TOKENS), seed=3).double()
    with torch.no_grad():  # answers that are short, and often digits
        head = model.lm_head.weight
        centre = head.mean(0)
        for token in [TOKENS.eos_token_id, *TOKENS("0123456789")["input_ids"]]:
            head[token] += 1.5 * centre
    return LanguageModel(model, TOKENS)


def number(text: str) -> int:
    return len(text) % 3


def rows(result, row):
    return dict(result.row(row))


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_add_up_to_one(lm, method):
    for parse in (None, number, int):
        result = lm.answers(PROMPTS, parse, k=4, max_new_tokens=3, method=method)
        torch.testing.assert_close(result.probs().sum(1), torch.ones(2), check_dtype=False)
        assert all(OTHER in rows(result, row) for row in range(2))


@pytest.mark.parametrize("method", METHODS)
def test_every_answer_has_its_exact_probability(lm, method):
    """The answers found are scored as options are; texts that have no other tokens are equal."""
    with torch.no_grad():
        result = lm.answers(PROMPTS, k=5, max_new_tokens=2, method=method)
        for row, prompt in enumerate(PROMPTS):
            before = TOKENS(prompt)["input_ids"]
            texts = rows(result, row)
            unique = [text for text in texts if text is not OTHER and _is_own_tokenisation(text)]
            assert len(unique) > 2
            for text in unique:
                after = [*TOKENS(text)["input_ids"], TOKENS.eos_token_id]
                want = tiny_models.brute_force_tokens(lm.model, before, after).exp()
                assert math.isclose(texts[text], float(want), rel_tol=1e-3)


def _tokenisations(text: str) -> list[list[int]]:
    """All ways to write a text with at most two tokens."""
    singles = {TOKENS.decode([token]): token for token in range(3, len(TOKENS))}
    ways = [[]] if text == "" else []
    if text in singles:
        ways.append([singles[text]])
    ways += [
        [singles[text[:cut]], singles[text[cut:]]]
        for cut in range(1, len(text))
        if text[:cut] in singles and text[cut:] in singles
    ]
    return ways


def test_the_beam_finds_the_likeliest_first_tokens(lm):
    with torch.no_grad():
        result = lm.answers(PROMPTS[0], k=3, max_new_tokens=1)
        logits = lm.model(torch.tensor([TOKENS(PROMPTS[0])["input_ids"]])).logits[0, -1]
        logits[TOKENS.eos_token_id] = -torch.inf
        want = {str(TOKENS.decode([token])) for token in logits.topk(3).indices.tolist()}
    assert set(rows(result, 0)) == {*want, "", OTHER}


@pytest.mark.parametrize("method", METHODS)
def test_a_larger_k_only_adds(lm, method):
    with torch.no_grad():
        narrow = [
            lm.answers(PROMPTS, number, k=k, max_new_tokens=4, method=method) for k in range(1, 9)
        ]
    for less, more in itertools.pairwise(narrow):
        for row in range(2):
            before, after = rows(less, row), rows(more, row)
            assert all(after[s] >= p * (1 - 1e-5) for s, p in before.items() if s is not OTHER)
            assert after[OTHER] <= before[OTHER] * (1 + 1e-5)


def test_everything_is_found_when_there_is_little(lm):
    """One token at most: k as large as the vocabulary leaves only longer answers."""
    with torch.no_grad():
        result = lm.answers(PROMPTS[0], len, k=len(TOKENS), max_new_tokens=1)
        before = TOKENS(PROMPTS[0])["input_ids"]
        going_on = [t for t in range(len(TOKENS)) if t != TOKENS.eos_token_id]
        logs = lm.model(torch.tensor([[*before, t] for t in going_on])).logits.log_softmax(2)
        ended = logs[:, -1, TOKENS.eos_token_id]
        want = {0: logs[0, -2, TOKENS.eos_token_id].exp().item()}
        for row, token in enumerate(going_on):
            size = len(TOKENS.decode([token]))
            want[size] = want.get(size, 0.0) + (logs[row, -2, token] + ended[row]).exp().item()
    found = rows(result, 0)
    for size, probability in want.items():
        assert math.isclose(found.get(size, 0.0), probability, rel_tol=1e-3, abs_tol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_are_those_of_the_options(lm, method):
    result = lm.answers(PROMPTS, k=3, max_new_tokens=2, method=method)
    texts = [
        next(t for t, _ in row if t is not OTHER and t and _is_own_tokenisation(t))
        for row in result.top(20)
    ]
    result.prob_of(texts).sum().backward()
    found = lm.model.lm_head.weight.grad.clone()
    lm.model.zero_grad()
    options = [
        lm.options(prompt, [text]).probs() for prompt, text in zip(PROMPTS, texts, strict=True)
    ]
    torch.cat(options).sum().backward()
    torch.testing.assert_close(found, lm.model.lm_head.weight.grad, atol=1e-6, rtol=1e-3)
    lm.model.zero_grad()


def _is_own_tokenisation(text: str) -> bool:
    return len(_tokenisations(text)) == 1 and TOKENS(text)["input_ids"] == _tokenisations(text)[0]


def test_other_has_a_gradient(lm):
    lm.answers(PROMPTS[0], k=2, max_new_tokens=1).prob_of([OTHER]).sum().backward()
    assert float(lm.model.lm_head.weight.grad.abs().sum()) > 0
    lm.model.zero_grad()


def test_seeds(lm):
    with torch.no_grad():
        first, again, other = (
            lm.answers(PROMPTS, k=4, max_new_tokens=3, method="sample", seed=seed)
            for seed in (1, 1, 2)
        )
    assert first.top(99) == again.top(99)
    assert set(first.symbols) != set(other.symbols)


def test_samples_are_drawn_from_the_model(lm):
    with torch.no_grad():
        counts = torch.zeros(len(TOKENS) + 1)
        for seed in range(60):
            result = lm.answers(PROMPTS[0], k=1, max_new_tokens=1, method="sample", seed=seed)
            drawn = [s for s in rows(result, 0) if s not in (OTHER, "")]
            counts[TOKENS(drawn[0])["input_ids"][0] if drawn else -1] += 1
        logits = lm.model(torch.tensor([TOKENS(PROMPTS[0])["input_ids"]])).logits[0, -1]
        likeliest = int(logits.argmax())
        share = float(logits.softmax(0)[likeliest])
        place = -1 if likeliest == TOKENS.eos_token_id else likeliest
    assert abs(float(counts[place]) / 60 - share) < 0.25


def test_what_does_not_parse_is_other(lm):
    def never(text: str) -> int:
        raise ValueError(text)

    with torch.no_grad():
        assert lm.answers(PROMPTS, never, k=2, max_new_tokens=1).argmax() == [OTHER, OTHER]
        assert lm.answers("x", lambda _: OTHER, k=2, max_new_tokens=1).symbols == (OTHER,)
        merged = lm.answers("x", lambda _: math.nan, k=3, max_new_tokens=1)
    assert len(merged.symbols) == 2
    trained = lm.answers(PROMPTS, never, k=2, max_new_tokens=1)
    assert trained.probs().tolist() == [[1.0], [1.0]]


def test_mistakes_in_parse_are_shown(lm):
    with pytest.raises(dl.FunctionError, match=r"parse failed on .*Raise a ValueError"):
        lm.answers("x", lambda text: text.no_such_thing)
    with pytest.raises(dl.FunctionError, match="hashable"):
        lm.answers("x", lambda text: [text])


def test_programs_over_answers(lm):
    digit = lm.answers(PROMPTS, number, k=3, max_new_tokens=2)
    total = dl.apply(digit, digit, lambda x, y: OTHER if OTHER in (x, y) else x + y)
    assert total.batch_size == 2
    assert digit.map(lambda x: x is OTHER).prob_of([True, True]).shape == (2,)


def test_models_without_tries(lm):
    blind = LanguageModel(tiny_models.Blind(lm.model), TOKENS)
    with torch.no_grad():
        plain = blind.answers(PROMPTS, k=3, max_new_tokens=3)
        quick = lm.answers(PROMPTS, k=3, max_new_tokens=3)
    assert set(plain.symbols) == set(quick.symbols)
    torch.testing.assert_close(
        plain.probs(symbols=quick.symbols), quick.probs(), atol=1e-6, rtol=1e-3
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be a positive integer"),
        ({"max_new_tokens": True}, "max_new_tokens must be a positive integer"),
        ({"method": "greedy"}, '"beam" or "sample"'),
        ({"max_new_tokens": 300}, "the model reads 256"),
    ],
)
def test_what_cannot_be_meant_is_refused(lm, options, message):
    with pytest.raises(dl.InputError, match=message):
        lm.answers("x", **options)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_answers_without_gradients_have_the_precision_of_those_with(dtype):
    model = tiny_models.tiny_llama(len(TOKENS), seed=3).to(dtype).eval()
    own = LanguageModel(model, TOKENS)
    result = own.answers(PROMPTS, k=5, max_new_tokens=4)
    with torch.no_grad():
        same = own.answers(PROMPTS, k=5, max_new_tokens=4)
    assert result.dtype == same.dtype == own.options(PROMPTS, ["yes", "no"]).dtype
    if dtype != torch.bfloat16:  # there two passes differ in the second digit
        tolerance = 1e-12 if dtype == torch.float64 else 1e-5
        torch.testing.assert_close(same.log_probs(), result.log_probs(), atol=tolerance, rtol=0)
