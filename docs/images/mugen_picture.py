"""Draws docs/images/mugen.png: generated clips with what happens in them and their captions.

    python docs/images/mugen_picture.py

These are the first test clips of the default world, not picked ones.
"""

from pathlib import Path

import torch

from dolphin_tasks.mugen.data import generate
from dolphin_tasks.mugen.pictures import ClipRow, draw_clips
from dolphin_tasks.mugen.program import ACTIONS

CLIPS = 6


def main() -> None:
    """Draw the first test clips of world 0."""
    groups = generate(world=0, split=2, count=CLIPS)
    frames = groups.footage.frames(torch.arange(CLIPS))
    rows = [
        ClipRow(frames[clip], groups.captions[clip], [("actions", [ACTIONS[a] for a in actions])])
        for clip, actions in enumerate(groups.actions.tolist())
    ]
    draw_clips(rows, Path(__file__).parent / "mugen.png")


if __name__ == "__main__":
    main()
