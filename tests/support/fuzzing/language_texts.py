"""What programs of the newer parts of the language are made of, as text."""

from __future__ import annotations

# Functions with chances: of one symbol and of two; {p} is a tensor of weights, or there is none.
CHANCES = [
    "lambda a: dl.weighted({{(a + 1) % 4: 0.25, a: 0.5}})",
    "lambda a: dl.weighted({{0: 0.5, 1: 0.5}})",
    "lambda a: dl.weighted({{a: 1.0}}) if a > 1 else a",
    "lambda a: dl.weighted({{}}) if a == 0 else dl.weighted({{a: 0.5, 9: 0.125}})",
]
CHANCES_OF_TWO = [
    "lambda a, b: dl.weighted({{a: 0.5, (a + b + 1) % 5: 0.25}})",
    "lambda a, b: dl.weighted({{max(a, b): 0.75}}) if a != b else 0",
]
LEARNED = [
    "lambda a: dl.weighted({{0: {p}[int(a) % 2, 0], 1: {p}[int(a) % 2, 1]}})",
    "lambda a: dl.weighted({{a: {p}[0, 0], (a + 1) % 5: 1 - {p}[0, 0]}})",
    "lambda a: dl.weighted({{(a + 1) % 5: {p}[1, 1]}}) if a > 1 else a",
]
LEARNED_OF_TWO = [
    "lambda a, b: dl.weighted({{(a + b) % 4: {p}[0, 1], 7: {p}[0, 0]}})",
    "lambda a, b: dl.weighted({{a: {p}[1, 0]}}) if a <= b else b",
]
# Programs of one distribution, of two and of three.
PROGRAMS = {
    1: [
        "    x = dl.choose(a)\n    return x if x > 1 else 0",
        "    x, y = dl.choose(a), dl.choose(a)\n    return x == y",
        "    x = dl.choose(a)\n    if x == 2:\n"
        "        return dl.choose(dl.weighted({0: 0.5, 1: 0.25}))\n    return x",
        "    x = dl.choose(a.map(lambda s: s % 2))\n    return (x, dl.choose(a) % 2)[1] + x",
        "    x = dl.choose(parity(a))\n    return x if x else dl.choose(parity(a)) + dl.choose(a)",
    ],
    2: [
        "    x = dl.choose(a)\n    if x > 1:\n        return x\n    return (x + dl.choose(b)) % 4",
        "    return max(dl.choose(a), dl.choose(b))",
        "    return dl.choose(parity(a)) + 2 * dl.choose(parity(b))",
        "    x, y = dl.choose(a), dl.choose(b)\n    while x > y:\n        x -= 1\n    return x",
        "    x = dl.choose(a)\n    chosen = b if x % 2 else a\n    return dl.choose(chosen)",
        "    both = dl.apply(a, b, lambda s, t: (s + t) % 3)\n    x = dl.choose(both)\n"
        "    return x if x else dl.choose(a)",
    ],
    3: [
        "    return dl.choose(b) if dl.choose(a) > 1 else dl.choose(c)",
        "    x = dl.choose(a)\n    for other in (b, c):\n        if x % 2 == 0:\n"
        "            x = (x + dl.choose(other)) % 5\n    return x",
    ],
}  # fmt: skip
# The same with questions, and the programs that others call.
ASKING_PROGRAMS = [
    "    some = dl.exists(a, lambda s: s > 1)\n    return dl.choose(a) if dl.choose(some) else 7",
    "    return dl.choose(dl.count(a, lambda s: s % 2 == 0))",
]
INNER = {"parity": "@dl.program\ndef parity(d): return dl.choose(d) % 2\n"}
# One sample at a time: what is done with a list of parts, and how it ends. {outer} is one row.
FOLDS = ["lambda s, t: (s + t) % 4", "max", "lambda s, t: s * t % 3", "lambda s, t: s if t else 0"]
ENDINGS = [
    "",
    "    d = dl.sample(d, 2)\n",
    "    d = d.map(lambda s: dl.weighted({s: 0.5, (s + 1) % 4: 0.25}))\n",
    "    d = dl.negate(d)\n",
    "    d = dl.union(d, {outer})\n",
    "    d = dl.apply(d, {outer}, lambda s, t: (s + t) % 4)\n",
    "    d = dl.where(d.map(lambda s: s > 1), {outer}, d)\n",
    "    if len(d) > 2:\n        return d.map(lambda s: s % 2)\n",
    "    d = d.normalized()\n",
    "    d = dl.fixpoint(lambda e: dl.union(d, dl.apply(e, lambda s: (s + 1) % 3)), d)\n",
    "    d = dl.filter(d, lambda s: s < 2)\n",
]
ASKING = [
    "    d = dl.exists(d, lambda s: s > 0).map(int)\n",
    "    d = dl.count(d, lambda s: s > 0)\n",
    "    d = dl.maximum(d)\n    d = d.map(lambda s: 5 if s is None else s)\n",
    "    d = dl.total(d, lambda s: s % 3)\n",
]
CONDITIONED = [
    "    d = dl.condition(d, d.map(lambda s: s > 0))\n",
]
