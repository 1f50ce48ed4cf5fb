"""Captions: written from what happens in a clip, and read back as a sequence of actions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dolphin_tasks.fetch import DataError
from dolphin_tasks.mugen.program import Deeds, collapse

# -- writing ---------------------------------------------------------------------------------------

WORDINGS: dict[str, tuple[str, ...]] = {
    "walk": ("walks to the {}", "walks {}", "runs to the {}", "moves to the {}"),
    "jump up": ("jumps up to a platform", "jumps onto a platform", "leaps up to a platform"),
    "jump down": ("jumps down to a platform", "jumps down", "hops down from the platform"),
    "jump along": ("jumps to the {}", "hops to the {}", "leaps to the {}"),
    "jump": ("jumps up and down", "jumps in place", "hops"),
    "climb up": ("climbs up a ladder", "climbs the ladder up", "goes up a ladder"),
    "climb down": ("climbs down a ladder", "climbs the ladder down", "goes down a ladder"),
    "collect": ("collects a {}", "picks up a {}", "grabs a {}", "gets a {}"),
    "kill": ("kills a {}", "stomps on a {}", "squashes a {}", "jumps on and kills a {}"),
    "die": ("killed by a {}", "is killed by a {}", "gets killed by a {}", "dies because of a {}"),
    "stand": ("stands still", "waits", "pauses for a moment", "stays in place"),
    "crouch": ("crouches", "ducks", "crouches down"),
}
JOINTS = (" and ", ", and ", ", then ", ", and then ", ". Then it ")


@dataclass(frozen=True)
class Event:
    """One action of a clip: how many frame pairs it lasts, and what a caption may say about it."""

    action: str
    pairs: int
    manner: str = ""
    """How: "up", "down", "along", or nothing."""
    thing: str = ""
    """What with, or which way: "coin", "snail", "left"."""


def write_caption(events: Sequence[Event], rng: np.random.Generator) -> str:
    """A caption of these events, worded at random.

    >>> events = [Event("jump", 3, "up"), Event("collect", 2, thing="coin")]
    >>> write_caption(events, np.random.default_rng(1))
    'Mugen jumps onto a platform, then gets a coin'
    """
    text = "Mugen "
    for place, event in enumerate(events):
        wordings = WORDINGS[f"{event.action} {event.manner}".strip()]
        if event.action == "kill" and not _after_jump(events, place):
            wordings = wordings[:-1]  # "jumps on and kills" would name a separate jump
        text += "" if place == 0 else str(rng.choice(JOINTS))
        text += str(rng.choice(wordings)).format(event.thing)
    return text


def _after_jump(events: Sequence[Event], place: int) -> bool:
    return place > 0 and events[place - 1].action == "jump"


# -- reading ---------------------------------------------------------------------------------------

VERBS = {
    "die": r"(?:is|was|gets?|got|getting|being|been)\s+(?:killed|eaten|bitten|hit)"
    r"|(?:killed|eaten|bitten)\s+by|dies|died|die|dying",
    "kill": r"kill(?:s|ed|ing)?|stomp(?:s|ed|ing)?|squash(?:es|ed|ing)?|defeat(?:s|ed|ing)?",
    "collect": r"collect(?:s|ed|ing)?|pick(?:s|ed|ing)?\s+up|grab(?:s|bed|bing)?"
    r"|(?:gets?|got|getting|takes?|took|taking)\s+(?:\w+\s+){1,2}?(?:coins?|gems?)",
    "climb": r"climb(?:s|ed|ing)?"
    r"|(?:go|goes|going|went|moves?|moved|moving)\s+(?:up|down)\s+(?:\w+\s+)?ladders?",
    "jump": r"jump(?:s|ed|ing)?|hop(?:s|ped|ping)?|leap(?:s|ed|t|ing)?|bounc(?:e|es|ed|ing)",
    "crouch": r"crouch(?:es|ed|ing)?|duck(?:s|ed|ing)?",
    "stand": r"stands?|stood|standing|wait(?:s|ed|ing)?|paus(?:e|es|ed|ing)|stay(?:s|ed|ing)?"
    r"|stop(?:s|ped|ping)?|idl(?:e|es|ed|ing)",
    "walk": r"walk(?:s|ed|ing)?|runs?|ran|running|mov(?:e|es|ed|ing)|go|goes|going|went"
    r"|heads|headed|heading",
}
VERB = re.compile(r"\b(?:" + "|".join(f"(?P<{a}>{words})" for a, words in VERBS.items()) + r")\b")
BREAK = re.compile(r"[,.;!]|\b(?:and|then)\b", re.IGNORECASE)
SUBJECT = re.compile(r"(?:mugen|it|he|she)?$")
"""A piece without an action: "it, then"."""
CONTINUED = re.compile(
    r"(?:an?|the|another|one|two|three|some|more|up|down|left|right|back|forth|again|to|onto|over"
    r"|on|off|from)\b"
)
"""What a phrase without a verb may start with to belong to the one before: "coins and a gem"."""


@dataclass(frozen=True)
class Phrase:
    """A piece of a caption, and the actions that it names."""

    text: str
    actions: Deeds


def read_phrases(caption: str) -> list[Phrase]:
    """The phrases of a caption in order, each with at least one action.

    Raises:
        DataError: a phrase names no action that is known.

    >>> [p.actions for p in read_phrases("Mugen walks left and right, then is killed by a worm.")]
    [('walk',), ('die',)]
    """
    phrases: list[Phrase] = []
    for piece in BREAK.split(caption):
        text = " ".join(piece.split())
        lower = text.lower()
        actions = tuple(str(match.lastgroup) for match in VERB.finditer(lower))
        if actions:
            phrases.append(Phrase(text, actions))
        elif not SUBJECT.match(lower) and not (phrases and CONTINUED.match(lower)):
            raise DataError(
                f"the caption {caption!r} has a phrase without a known action: {text!r}. Known "
                f"actions: {', '.join(VERBS)}."
            )
    if not phrases:
        raise DataError(f"the caption {caption!r} says nothing.")
    return phrases


def read_caption(caption: str) -> Deeds:
    """The sequence of actions in a caption.

    >>> read_caption("Mugen jumps up to a platform and collects a coin, and killed by a snail")
    ('jump', 'collect', 'die')
    """
    return collapse(action for phrase in read_phrases(caption) for action in phrase.actions)
