"""Pixel art of the platform world: one letter per pixel, and the colours of letters."""

from __future__ import annotations

import numpy as np

Colour = tuple[int, int, int]

COLOURS: dict[str, Colour] = {
    ".": (0, 0, 0),  # clear
    "k": (34, 32, 46),
    "w": (255, 255, 255),
    "c": (64, 190, 200),
    "C": (36, 128, 150),
    "u": (66, 82, 190),
    "r": (222, 58, 60),
    "o": (240, 150, 50),
    "y": (252, 214, 70),
    "Y": (206, 150, 30),
    "p": (240, 140, 170),
    "P": (190, 80, 120),
    "v": (150, 90, 200),
    "V": (104, 56, 150),
    "g": (110, 190, 80),
    "n": (150, 96, 56),
    "t": (232, 196, 140),
    "e": (150, 156, 168),
    "b": (120, 230, 255),
}
SCENERY = ("sky", "far hills", "near hills", "grass", "earth", "stone", "wood", "rung")
THEMES: tuple[tuple[Colour, ...], ...] = (
    ((160, 214, 244), (150, 196, 206), (124, 176, 140), (92, 168, 66), (150, 110, 72),
     (118, 84, 54), (128, 78, 40), (176, 120, 64)),
    ((250, 214, 170), (228, 180, 148), (206, 146, 112), (222, 180, 92), (188, 136, 84),
     (150, 102, 62), (112, 72, 44), (160, 110, 70)),
    ((44, 50, 92), (58, 66, 112), (70, 84, 128), (96, 120, 150), (84, 84, 112),
     (64, 62, 88), (140, 104, 74), (184, 144, 104)),
    ((214, 234, 246), (190, 212, 232), (168, 194, 218), (246, 250, 255), (132, 160, 190),
     (104, 130, 164), (120, 86, 60), (166, 124, 88)),
)  # fmt: skip
"""The colours of the scenery: meadow, desert, night, snow."""


def number(name: str) -> int:
    """The colour number of a letter, or of a part of the scenery."""
    if name in SCENERY:
        return len(COLOURS) + SCENERY.index(name)
    return list(COLOURS).index(name)


def _sprite(drawing: str) -> np.ndarray:
    rows = drawing.split()
    return np.array([[number(letter) for letter in row] for row in rows], dtype=np.uint8)


HEAD = """
...k..k...
...c..c...
..cccccc..
.cccccccc.
.cccwwcww.
.cccwkcwk.
.cccccccc.
"""
BACK = """
...k..k...
...c..c...
..cccccc..
.cccccccc.
.cccccccc.
.ccCCCCcc.
.cccccccc.
"""
TREASURE = {
    "coin0": """
..kkkk..
.kyyyyk.
kyywyyYk
kyywyyYk
kyywyyYk
kyyyyyYk
.kyyYYk.
..kkkk..
""",
    "coin1": """
...kk...
..kyyk..
..kywk..
..kywk..
..kywk..
..kyYk..
..kyYk..
...kk...
""",
    "gem0": """
.kkkkkk.
kbwbbppk
kbwbpppk
.kbbppk.
.kbbppk.
..kbpk..
...kk...
""",
    "gem1": """
.kkkkkk.
kwbbbppk
kbbwpppk
.kbbppk.
.kbwppk.
..kbpk..
...kk...
""",
}
MONSTERS = {
    "snail0": """
...kkkk....
..knnnnk.k.
.knnttnkktk
.kntnntkttk
.knttntkttk
.knnnnnttk.
kttttttttk.
.kkkkkkkk..
""",
    "snail1": """
...kkkk...k
..knnnnkktk
.knnttnkktk
.kntnntkttk
.knttntkttk
.knnnnnttk.
.ktttttttk.
..kkkkkkk..
""",
    "snailflat": """
..kkkkkkk..
.knntnntttk
kttttttttkk
""",
    "worm0": """
.........kk.
..kk....kppk
.kppkkkkpwkk
kpPppPppPppk
kkkkkkkkkkk.
""",
    "worm1": """
.........kk.
...kkkk.kppk
..kpPppkpwkk
.kpPkkpPPppk
kkkk..kkkkk.
""",
    "wormflat": """
.kkkkkkkkkk.
kpPppPppPwkk
""",
    "ladybug0": """
...kkkk...
..krrkrrk.
.krkrkrrkk
.krrrkrkkw
.krkrkrrkk
..kkkkkkk.
..k..k..k.
""",
    "ladybug1": """
...kkkk...
..krrkrrk.
.krkrkrrkk
.krrrkrkkw
.krkrkrrkk
..kkkkkkk.
.k..k..k..
""",
    "ladybugflat": """
..kkkkkkk.
.krkrkrkkw
""",
    "slime0": """
....kkk...
..kkvvvkk.
.kvvvvvvvk
.kvwkvwkvk
kvvvvvvvvk
kVvvvvvvVk
kkkkkkkkkk
""",
    "slime1": """
..kkkkkk..
.kvvvvvvk.
kvvwkvwkvk
kvvvvvvvvk
kVVvvvvVVk
kkkkkkkkkk
""",
    "slimeflat": """
.kkkkkkkk.
kvVwkvwkVk
""",
}
EFFECTS = {
    "sparkle0": """
.....y.....
..k..w..k..
..yk...ky..
...y...y...
...........
yw.......wy
...........
...y...y...
..yk...ky..
..k..w..k..
.....y.....
...........
""",
    "sparkle1": """
k....w....k
.y.......y.
..w.....w..
...........
.....y.....
w...ywy...w
.....y.....
...........
..w.....w..
.y.......y.
k....w....k
...........
""",
    "puff0": """
..w...w..
....w....
.ww...ww.
.........
.ww...ww.
....w....
""",
    "puff1": """
w...w...w
..e...e..
.........
we.....ew
.........
..e...e..
""",
}
MUGEN = {
    "stand": HEAD + "..uuuuuu..\n.cuuuuuuc.\n.cuuuuuuc.\n..uu..uu..\n..kk..kk..",
    "walk0": HEAD + "..uuuuuu..\n.cuuuuuuc.\nc.uuuuuu.c\n.uu...uu..\nkk.....kk.",
    "walk1": HEAD + "..uuuuuu..\n..uuucuu..\n..uuucuu..\n...uuuu...\n...kkkk...",
    "cheer0": "c........c\n" + HEAD.replace(".cccwkcwk.", "ccccwkcwkc") + "..uuuuuu..\n..uuuuuu..\n"
    "..uuuuuu..\n.uu...uu..\nkk.....kk.",
    "cheer1": "c........c\n" + HEAD.replace(".cccwkcwk.", "ccccwkcwkc") + "..uuuuuu..\n..uuuuuu..\n"
    "..uuuuuu..\n...uuuu...\n...kkkk...",
    "jump": "c........c\n" + HEAD.replace(".cccwkcwk.", "ccccwkcwkc") + ".cuuuuuuc.\n..uuuuuu..\n"
    ".kuu..uuk.\n.k......k.",
    "crouch": """
...k..k...
..cccccc..
.cccccccc.
.cccwwcww.
.cccwkcwk.
ccuuuuuucc
.kuuuuuuk.
.kk....kk.
""",
    "climb0": "........cc\n" + BACK + ".cuuuuuucc\nc.uuuuuu..\nc.uu.uuk..\n..kk......",
    "climb1": "cc........\n" + BACK + "ccuuuuuuc.\n..uuuuuu.c\n..kuu.uu.c\n......kk..",
    "hurt": """
..k....k..
..cccccc..
.cccccccc.
ccrcrcrcrc
ccyrccyrcc
ccrcrcrcrc
.cccccccc.
.cuuuuuuc.
c.uuuuuu.c
.uu....uu.
kk......kk
""",
    "dead": """
....eeee.......
...eeeeeee.eee.
.keeekekeeCCCek
..eeeekeeeCCCe.
.keeekekeeCCCek
...eeeeeee.eee.
....eeee.......
""",
}
SPRITES = {
    name: _sprite(drawing) for name, drawing in {**MUGEN, **MONSTERS, **TREASURE, **EFFECTS}.items()
}
