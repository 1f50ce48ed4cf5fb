"""A small platform world: what happens in a clip, frame by frame, from a seed.

The story comes first: which actions, for how long. Then the world is put around it, so that a
ladder stands where Mugen climbs and a snail where it is stomped on; other ladders, monsters, coins
and gems stand elsewhere. Coordinates are pixels, y grows downwards, feet stand on a floor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dolphin_tasks.mugen.captions import Event, write_caption
from dolphin_tasks.mugen.program import ACTIONS

PAIRS = 16
FRAMES = 2 * PAIRS
FLOORS = (56, 38, 20)
"""Where feet stand on the ground and on the two levels of platforms."""
MONSTERS = ("snail", "worm", "ladybug", "slime")
TREASURES = ("coin", "gem")
THEMES = 4
EVENTS = (3, 4, 5, 6)
SHORTEST = 2  # pairs
WEIGHTS = {
    "walk": 3.0, "jump": 2.5, "collect": 2.0, "climb": 1.6, "kill": 1.6, "stand": 1.2,
    "crouch": 1.2,
}  # fmt: skip
DEADLY = 0.35
"""Share of clips that end with a death."""


@dataclass(frozen=True)
class Thing:
    """Something that moves: its feet (x, y) and what it looks like in each frame ("": nothing)."""

    kind: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    looks: tuple[str, ...]
    facing: tuple[int, ...]


@dataclass(frozen=True)
class Ladder:
    """A ladder at x from one level up to the next."""

    x: float
    level: int


@dataclass(frozen=True)
class Platform:
    """A platform on a level above the ground."""

    left: float
    right: float
    level: int


@dataclass(frozen=True)
class Story:
    """Everything to draw and to tell about one clip."""

    events: tuple[Event, ...]
    caption: str
    mugen: Thing
    things: tuple[Thing, ...]
    ladders: tuple[Ladder, ...]
    platforms: tuple[Platform, ...]
    theme: int

    @property
    def actions(self) -> list[int]:
        """The number of the action of each frame pair."""
        return [ACTIONS.index(event.action) for event in self.events for _ in range(event.pairs)]


def tell(*seed: int) -> Story:
    """The story of a seed: any numbers, such as (world, split, clip).

    >>> tell(0, 1) == tell(0, 1), tell(0, 1) == tell(0, 2)
    (True, False)
    """
    rng = np.random.default_rng(seed)
    while True:  # until no coin or monster is met too early
        life = _Life(rng)
        for action, pairs in plan(rng):
            life.live(action, pairs)
        if life.consistent():
            return life.story()


def plan(rng: np.random.Generator) -> list[tuple[str, int]]:
    """Actions and how many frame pairs each lasts, 16 in all; a death comes last.

    >>> sum(pairs for _, pairs in plan(np.random.default_rng(0)))
    16
    """
    count = int(rng.choice(EVENTS))
    spare = rng.multinomial(PAIRS - SHORTEST * count, [1 / count] * count)
    actions: list[str] = []
    for _ in range(count):
        names = [name for name in WEIGHTS if not actions or name != actions[-1]]
        weights = np.array([WEIGHTS[name] for name in names])
        actions.append(str(rng.choice(names, p=weights / weights.sum())))
    if rng.random() < DEADLY:
        actions[-1] = "die"
    return [(action, SHORTEST + int(more)) for action, more in zip(actions, spare, strict=True)]


@dataclass
class _Meeting:
    """A coin or monster on the way: where, when Mugen meets it, and what happens to it then."""

    kind: str
    x: float
    floor: float
    begun: int
    """The frame in which the action that involves it begins."""
    met: int
    """The frame in which the two touch."""
    after: tuple[str, ...]
    """What it looks like from the meeting on; nothing when that has passed."""
    speed: float = 0.0
    """How fast it comes nearer before they meet, in pixels per frame."""
    hover: int = 0

    def thing(self) -> Thing:
        looks, xs, facing = [], [], 1 if self.speed < 0 else -1
        for frame in range(FRAMES):
            late = frame - self.met
            looks.append(_idle(self.kind, frame) if late < 0 else _nth(self.after, late))
            xs.append(self.x - self.speed * min(0, late))
        y = self.floor - self.hover
        return Thing(self.kind, tuple(xs), (y,) * FRAMES, tuple(looks), (facing,) * FRAMES)


def _idle(kind: str, frame: int) -> str:
    return f"{kind}{frame // 4 % 2}"


def _nth(looks: tuple[str, ...], place: int) -> str:
    return looks[place] if place < len(looks) else ""


@dataclass
class _Life:
    """A story while it is being made."""

    rng: np.random.Generator
    xs: list[float] = field(default_factory=list)
    ys: list[float] = field(default_factory=list)
    looks: list[str] = field(default_factory=list)
    facings: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    meetings: list[_Meeting] = field(default_factory=list)
    ladders: list[Ladder] = field(default_factory=list)
    ground: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.x, self.level = 0.0, int(self.rng.integers(3))
        self.facing = int(self.rng.choice([-1, 1]))

    @property
    def way(self) -> str:
        return "right" if self.facing > 0 else "left"

    # -- actions -----------------------------------------------------------------------------------

    def live(self, action: str, pairs: int) -> None:
        """Let an action happen."""
        moves: dict[str, Callable[[int], tuple[str, str]]] = {
            "walk": self._walk, "jump": self._jump, "climb": self._climb, "kill": self._kill,
            "collect": self._collect, "die": self._die,
        }  # fmt: skip
        self.ground.append((self.x, self.level))
        if action in moves:
            manner, thing = moves[action](2 * pairs)
        else:  # standing and crouching
            manner = thing = ""
            for _ in range(2 * pairs):
                self._show(self.x, FLOORS[self.level], action)
        self.ground.append((self.x, self.level))
        self.events.append(Event(action, pairs, manner, thing))

    def _show(self, x: float, y: float, look: str) -> None:
        self.xs.append(x)
        self.ys.append(float(y))
        self.looks.append(look)
        self.facings.append(self.facing)

    def _stroll(self, frames: int, look: str) -> None:
        for _ in range(frames):
            self.x += self.facing * 1.8
            self._show(self.x, FLOORS[self.level], f"{look}{len(self.xs) // 2 % 2}")

    def _walk(self, frames: int) -> tuple[str, str]:
        if self.rng.random() < 0.25:
            self.facing = -self.facing
        self._stroll(frames, "walk")
        return "", self.way

    def _fly(self, frames: int, to_x: float, to_level: int, height: float) -> None:
        x, y, to_y = self.x, FLOORS[self.level], FLOORS[to_level]
        for t in np.arange(1, frames + 1) / frames:
            arc = 4 * height * t * (1 - t)
            self._show(x + t * (to_x - x), y + t * (to_y - y) - arc, "jump")
        self.x, self.level = to_x, to_level

    def _jump(self, frames: int) -> tuple[str, str]:
        manners = ["along", "along", ""] + ["up", "up"] * (self.level < 2)
        manners += ["down"] * (self.level > 0)
        manner = str(self.rng.choice(manners))
        step = {"up": 1, "down": -1}.get(manner, 0)
        reach = 0.0 if manner == "" else self.facing * (8.0 + frames)
        self._fly(frames, self.x + reach, self.level + step, height=9.0)
        return manner, self.way if manner == "along" else ""

    def _climb(self, frames: int) -> tuple[str, str]:
        up = self.level == 0 or (self.level == 1 and self.rng.random() < 0.6)
        start, self.level = self.level, self.level + (1 if up else -1)
        self.ladders.append(Ladder(self.x, min(start, self.level)))
        for t in np.arange(1, frames + 1) / frames:
            y = FLOORS[start] + t * (FLOORS[self.level] - FLOORS[start])
            self._show(self.x, y, f"climb{len(self.xs) // 2 % 2}")
        return "up" if up else "down", ""

    def _collect(self, frames: int) -> tuple[str, str]:
        kind, start = str(self.rng.choice(TREASURES)), len(self.xs)
        place, floor = self.x + self.facing * 9.0, FLOORS[self.level]
        looks = tuple(f"sparkle{n // 2 % 2}" for n in range(frames - 2))
        self.meetings.append(_Meeting(kind, place, floor, start, start + 2, looks, hover=3))
        self._stroll(2, "walk")
        self._stroll(frames - 2, "cheer")
        return "", kind

    def _kill(self, frames: int) -> tuple[str, str]:
        kind, start, hop = str(self.rng.choice(MONSTERS)), len(self.xs), frames // 2
        place, floor = self.x + self.facing * 10.0, FLOORS[self.level]
        looks = tuple(f"{kind}flat" if n < 2 else f"puff{n // 2 % 2}" for n in range(frames - hop))
        self.meetings.append(_Meeting(kind, place, floor, start, start + hop, looks))
        self._fly(hop, place, self.level, height=8.0)
        for n in range(frames - hop):
            self._show(self.x, floor - (4.0, 5.0, 3.0)[n] if n < 3 else floor, "jump")
        return "", kind

    def _die(self, frames: int) -> tuple[str, str]:
        kind, start = str(self.rng.choice(MONSTERS)), len(self.xs)
        floor, speed = FLOORS[self.level], self.facing * 0.5
        looks = tuple(_idle(kind, n) for n in range(frames))
        place = self.x + self.facing * 9.0
        self.meetings.append(_Meeting(kind, place, floor, start, start, looks, speed))
        for n in range(frames):
            rise = (4.0, 6.0, 4.0)[n] if n < 3 else 0.0
            self._show(self.x - self.facing * min(n, 3), floor - rise, "hurt" if n < 3 else "dead")
        return "", kind

    # -- the world around --------------------------------------------------------------------------

    def consistent(self) -> bool:
        """Whether Mugen meets coins and monsters only when the story says so."""
        return not any(self._touches(m.thing(), before=m.begun) for m in self.meetings)

    def _touches(self, thing: Thing, before: int = FRAMES) -> bool:
        return any(
            abs(x - a) < 7.0 and abs(y - b) < 9.0
            for x, y, a, b in zip(
                self.xs[:before], self.ys[:before], thing.x[:before], thing.y[:before], strict=True
            )
        )

    def story(self) -> Story:
        """The story with all that stands around."""
        platforms = [
            Platform(min(x for x, _ in span) - 9, max(x for x, _ in span) + 9, span[0][1])
            for span in zip(self.ground[::2], self.ground[1::2], strict=True)
            if span[0][1] == span[1][1] > 0
        ]
        for x, level in self.ground:  # both ends of climbs and jumps
            if level > 0:
                platforms.append(Platform(x - 9, x + 9, level))
        ladders = list(self.ladders)
        for _ in range(int(self.rng.integers(1, 4))):  # platforms that play no part
            x, level = float(self.rng.uniform(-60, 60)), int(self.rng.integers(1, 3))
            platforms.append(Platform(x - 12, x + 12, level))
            if self.rng.random() < 0.4:
                ladders.append(Ladder(x, level - 1))
                platforms += [Platform(x - 10, x + 10, level - 1)] * (level > 1)
        things = [meeting.thing() for meeting in self.meetings]
        things += self._idlers(platforms)
        return Story(
            tuple(self.events),
            write_caption(self.events, self.rng),
            self._mugen(),
            tuple(things),
            tuple(ladders),
            tuple(platforms),
            int(self.rng.integers(THEMES)),
        )

    def _mugen(self) -> Thing:
        facing = tuple(self.facings)
        return Thing("mugen", tuple(self.xs), tuple(self.ys), tuple(self.looks), facing)

    def _idlers(self, platforms: list[Platform]) -> list[Thing]:
        """Coins, gems and monsters that Mugen doesn't meet."""
        things: list[Thing] = []
        places = [Platform(-60, 60, 0), Platform(-60, 60, 0), *platforms]
        for _ in range(int(self.rng.integers(2, 6))):
            place = places[int(self.rng.integers(len(places)))]
            x = float(self.rng.uniform(place.left + 4, place.right - 4))
            kind = str(self.rng.choice([*TREASURES, *MONSTERS]))
            hover = 3 if kind in TREASURES else 0
            thing = _Meeting(kind, x, FLOORS[place.level], FRAMES, FRAMES, (), hover=hover).thing()
            if not self._near(thing):
                things.append(thing)
        return things

    def _near(self, thing: Thing) -> bool:
        """Whether it is ever so near to Mugen that they seem to meet."""
        return any(
            abs(x - thing.x[0]) < 13.0 and abs(y - thing.y[0]) < 13.0
            for x, y in zip(self.xs, self.ys, strict=True)
        )
