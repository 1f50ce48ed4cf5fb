"""What a notebook shows, as one page: `docs/images/notebook.png` is a browser's picture of it.

python docs/images/notebook_page.py notebook.html
chromium --headless --window-size=930,830 --screenshot=docs/images/notebook.png notebook.html
"""

from __future__ import annotations

import html
import sys
from pathlib import Path

import torch

import dolphin as dl

STYLE = """body { font: 14px sans-serif; margin: 16px; width: 898px; background: white }
pre.cell { background: #f6f8fa; border-left: 3px solid #9fa8da; padding: 8px 10px; margin: 14px 0 }
"""


def join(p: str, q: str) -> str:
    """From the start of one road to the end of the next."""
    return p[0] + q[1]


def cells() -> list[tuple[str, object]]:
    """Code, and the value of its last line."""
    probs = [[0.05, 0.7, 0.25], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]]
    weather = dl.Distribution(torch.tensor(probs), ["sun", "rain", "snow"])

    def ways(roads: dl.Distribution[str]) -> dl.Distribution[str]:
        onward = dl.apply_if(roads, roads, join, lambda p, q: p[1] == q[0])
        return dl.union(roads, onward)

    with dl.using("dtkp-am", k=3):
        roads = dl.Distribution([0.9, 0.8, 0.3], ["ab", "bc", "ac"], exclusive=False)
    left, right = (
        dl.Distribution.from_logits(torch.randn(8, 10).requires_grad_(), range(10))
        for _ in range(2)
    )
    targets = ["7", 40, 3, 4, 5, 9, 9, 9]
    return [
        ('weather = dl.Distribution(probs, ["sun", "rain", "snow"])\nweather', weather),
        ('ways(roads).explain("ac")', ways(roads).explain("ac")),
        ('dl.draw(ways, roads).explain("ac")', dl.draw(ways, roads).explain("ac")),
        (
            "dl.diagnose(dl.sample(left + right, 5), targets)",
            dl.diagnose(dl.sample(left + right, 5), targets),
        ),
    ]


def main(path: Path) -> None:
    """Write the page."""
    torch.manual_seed(0)
    parts = [f"<style>{STYLE}</style>"]
    for code, value in cells():
        parts.append(f'<pre class="cell">{html.escape(code)}</pre>')
        parts.append(value._repr_html_())  # type: ignore[attr-defined]
    path.write_text("\n".join(["<!doctype html><meta charset=utf-8>", *parts]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
