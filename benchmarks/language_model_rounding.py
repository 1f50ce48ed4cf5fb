"""How far single precision is from double: `LanguageModel.options` beside a plain pass per option.

    python benchmarks/language_model_rounding.py

Prints the largest and the mean difference of log-probabilities, absolute and relative, over
prompts and options of several domains. The reference is a plain pass in double precision.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dolphin.lm import LanguageModel

CASES = [
    (
        ["The patient was given 5 mg of", "A common symptom of influenza is"],
        [" aspirin", " morphine", " a fever and a sore throat", " insulin twice a day", ""],
    ),
    (
        ["SELECT name FROM users WHERE", "SELECT count(*) FROM"],
        [" id = 1", " id = 10", " orders;", " age > 30 ORDER BY name"],
    ),
    (["1. e4 e5 2. Nf3"], [" Nc6", " Nc6 3. Bb5", " d6", " Nf6"]),
    (["שלום עולם, מה", "The word for dolphin is"], [" שלומך", " קורה", " דולפין 🐬", "é"]),
    (["Count:  one  two ", "x"], [" three", "three", "  three", "\n"]),
    (["The answer is"], [f" {number}" for number in range(500)]),
    (
        ["Is the sky blue? Answer yes or no:", "No context.\nQuestion: is water wet? Answer:"],
        [" yes", " no"],
    ),
]
MOST = 20
"""Options of a case that are compared, of those that are scored together."""


def plain(lm: LanguageModel, prompt: str, option: str, dtype: torch.dtype) -> Tensor:
    """One pass over the prompt and the option; `dtype` is that of the softmax and the sum."""
    before = lm.tokenizer(prompt)["input_ids"]
    after = [*lm.tokenizer(option, add_special_tokens=False)["input_ids"]]
    after.append(lm.tokenizer.eos_token_id)
    logits = lm.model(torch.tensor([before + after])).logits[0, len(before) - 1 : -1]
    return logits.to(dtype).log_softmax(1)[range(len(after)), after].sum().double()


@torch.no_grad()
def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    single = LanguageModel.from_package()
    double = LanguageModel.from_package(dtype=torch.float64)
    found: dict[str, list[Tensor]] = {
        "plain pass": [], "plain pass, softmax in double": [], "trie": [], "trie, in double": [],
    }  # fmt: skip
    expected = []
    for prompts, options in CASES:
        columns = list(range(0, len(options), -(-len(options) // MOST)))
        for row, prompt in enumerate(prompts):
            some = [options[column] for column in columns]

            def each(lm: LanguageModel, dtype: torch.dtype, prompt=prompt, some=some) -> Tensor:  # noqa: ANN001
                return torch.stack([plain(lm, prompt, option, dtype) for option in some])

            expected.append(each(double, torch.float64))
            found["plain pass"].append(each(single, torch.float32))
            found["plain pass, softmax in double"].append(each(single, torch.float64))
            for name, lm in (("trie", single), ("trie, in double", double)):
                logs = lm.log_probs(prompts, options)[row, columns]
                found[name].append(logs.double())
    want = torch.cat(expected)
    print(f"{len(want)} log-probabilities, {want.min():.0f} to {want.max():.0f}")
    for name, parts in found.items():
        off = (torch.cat(parts) - want).abs()
        print(
            f"{name:30} largest {off.max():.1e}, mean {off.mean():.1e}, "
            f"largest relative {(off / want.abs()).max():.1e}"
        )


if __name__ == "__main__":
    main()
