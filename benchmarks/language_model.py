"""What `LanguageModel.options` costs beside scoring each option on its own.

    python benchmarks/language_model.py [--out benchmarks/results/language_model.json]

Counts tokens that the model reads, which don't depend on the machine, and processor seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from dolphin.lm import LanguageModel

PROMPT = (
    "A farmer has three fields. On the first one grow apple trees, on the second one cherry trees, "
    "and the third one is for the sheep. Last year each apple tree gave forty kilograms of fruit, "
    "and each cherry tree twelve. How many kilograms did the farmer sell? Answer: "
)


def on_its_own(lm: LanguageModel, options: list[str]) -> torch.Tensor:
    """One pass per option over the prompt and the option."""
    before = lm.tokenizer(PROMPT)["input_ids"]
    scores = []
    for option in options:
        after = [*lm.tokenizer(option)["input_ids"], lm.tokenizer.eos_token_id]
        logits = lm.model(torch.tensor([before + after])).logits[0]
        logs = logits[len(before) - 1 : -1].log_softmax(1)
        scores.append(logs[range(len(after)), after].sum())
    return torch.stack(scores)


def measure(lm: LanguageModel, count: int) -> dict[str, Any]:
    """Both ways for the numbers below `count`."""
    options = [str(number) for number in range(count)]
    read = []
    hook = lm.model.register_forward_pre_hook(
        lambda _, args, given: read.append((args[0] if args else given["input_ids"]).numel()),
        with_kwargs=True,
    )
    result: dict[str, Any] = {"options": count}
    found = []
    for name, run in (
        ("trie", lambda: lm.log_probs(PROMPT, options)[0]),
        ("each_on_its_own", lambda: on_its_own(lm, options)),
    ):
        read.clear()
        start = time.process_time()
        found.append(run())
        seconds = round(time.process_time() - start, 3)
        result[name] = {"tokens": sum(read), "seconds": seconds}
    hook.remove()
    result["largest_difference"] = float((found[0] - found[1]).abs().max())
    return result


@torch.no_grad()
def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/language_model.json"))
    parser.add_argument("--counts", type=int, nargs="+", default=[2, 10, 100])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lm = LanguageModel.from_package()
    lm.log_probs("warm", ["up"])
    content = {
        "model": "SmolLM2-135M-Instruct, float32, one thread",
        "prompt_tokens": len(lm.tokenizer(PROMPT)["input_ids"]),
        "runs": [measure(lm, count) for count in arguments.counts],
    }
    arguments.out.write_text(json.dumps(content, indent=2) + "\n")
    print(json.dumps(content, indent=2))


if __name__ == "__main__":
    main()
