"""What some programs end with: cases that statements drawn at random hardly ever meet.

Each stands for a defect that was there once; few programs would notice it if it came back.
"""

from __future__ import annotations

from fuzzing import texts
from fuzzing.generate import Info, Writer

OFTEN = 20  # one of this many programs has an ending of each kind


def end(w: Writer, seed: int, provenance: str) -> None:
    """Write the ending of a seed, if it has one."""
    proofs = provenance.startswith("dtkp")
    if seed % OFTEN == OFTEN - 1:
        negated_rows(w)
    elif seed % OFTEN == 0 and (proofs or provenance == "exact"):
        w.rng.choice([one_row_first, rows_again] if proofs else [rows_again])(w)
    elif seed % OFTEN == 9:  # odd, so that recursions are traced
        endings = [equal_nans, _nothing]
        if provenance in ("exact", "dtkp-wmc"):
            endings += [above_one] * 4
        if provenance in ("min-max", "viterbi"):
            endings += [beside_zero] * 2
        if proofs or provenance in ("exact", "min-max", "viterbi"):
            endings += [long_ways]
        w.rng.choice(endings)(w)
    elif seed % OFTEN in (4, 14) and provenance in ("damp", "noisy-or", "min-max"):
        likely_choice(w)


def _nothing(w: Writer) -> None:
    pass


def negated_rows(w: Writer) -> None:
    """Rows of different lengths, negated: places without a symbol stay nothing.

    A sum over a row shows it, and what is drawn from it.
    """
    w.ragged_input(w.rows)
    d = list(w.known)[-1]
    k = w.rng.randint(1, 2)
    if w.rng.random() < 0.5:
        w.let("negate rows", f"dl.sample(dl.negate({d}), {k})", Info(w.rows, k))
    else:
        w.let("negate rows", f"dl.normalized(dl.negate({d}))", w.known[d])


def one_row_first(w: Writer) -> None:
    """Two operands of one row before one of many: what they give together has one row, too."""
    names = []
    for rows in (1, 1, max(2, w.rows)):
        columns = w.rng.randint(2, 3)
        x = w.leaf(rows, columns, [list(range(columns))], "probs")
        names.append(_input(w, x, rows, w.symbols(columns)))
    expression = f"dl.apply({', '.join(names)}, {w.pick(texts.TERNARY)})"
    w.let("one row first", expression, w.result(names, ""))


def rows_again(w: Writer) -> None:
    """Rows that are taken and stacked meet what they were taken from: they are the same facts."""
    symbols = w.symbols(2)
    a, b, d = (
        _input(w, w.leaf(rows, 2, [[0, 1]], "probs"), rows, w.rng.sample(symbols, 2))
        for rows in (1, 1, 2)
    )
    stack = "dl.Distribution.stack([{}, {}])".format
    taken = [f"{d}[[1, 1]]", f"{d}[[0, 1]]"]
    one = w.pick([stack(a, b), stack(f"{d}[1]", a), stack(f"{d}[0]", f"{d}[0]"), *taken])
    other = w.pick([a, d, stack(b, a), stack(f"{d}[0]", b)])
    w.let("rows again", f"dl.apply({one}, {other}, lambda a, b: a == b)", Info(2, 2))


def above_one(w: Writer) -> None:
    """Probabilities that rounding carries just above 1: gradients are those of any other sum."""
    columns, excess = w.rng.randint(1, 3), 3e-9 if w.dtype == "float64" else 6e-8
    values = []
    for _ in range(w.rows):
        shares = [round(w.rng.uniform(0.1, 0.4), 3) for _ in range(columns - 1)]
        values.append([*shares, 1.0 - sum(shares) + excess])
    x = w.leaf(w.rows, columns, [list(range(columns))], "probs", values)
    d = _input(w, x, w.rows, w.symbols(columns))
    same = f"dl.apply({d}, {d}, lambda a, b: a == b)"
    one = f"{d}.map(lambda a: 0)"
    again = f"dl.union({one}, {one})"  # proofs that may hold at the same time, as far as is known
    w.let("above one", w.pick([same, again, again, f"dl.negate({one})"]), w.known[d])


def likely_choice(w: Writer) -> None:
    """What is left of a likely symbol: all others, unless some are dropped or don't add up to 1."""
    values = [[w.rng.uniform(2.0, 4.0), 0.0, w.rng.uniform(-1.0, 0.5)] for _ in range(w.rows)]
    values = [[round(value, 3) for value in w.rng.sample(row, 3)] for row in values]
    x = w.leaf(w.rows, 3, [[0, 1, 2]], "logits", values)
    symbols = w.symbols(3)
    d = w.let("input logits", f"dl.Distribution.from_logits({x}, {symbols})", Info(w.rows, 3))
    y = w.leaf(1, 1, [[0]], "logits", [[round(w.rng.uniform(1.0, 3.0), 3)]])
    single = f"dl.Distribution.from_logits({y}, [0], exclusive=False)"
    e = w.let("input logits", single, Info(1, 1))
    w.inputs += [d, e]
    least = min(symbols)
    part = w.pick(
        [
            d,
            f"dl.filter({d}, lambda a: a > {least})",
            f"dl.apply({d}, {d}, lambda a, b: a)",
            f"dl.apply({d}, {e}, lambda a, b: a)",
            f"dl.apply_if({d}, {d}, lambda a, b: a, lambda a, b: b > {least})",
            f"dl.apply({d}, lambda a: dl.weighted({{a: 0.9}}))",
        ]
    )
    ask = w.pick(["dl.negate({})", "dl.negate({}, among=[0, 1, 2, 3])", "dl.exists({})"])
    w.let("likely choice", ask.format(part), Info(w.rows, 4, "any"))


def beside_zero(w: Writer) -> None:
    """An impossible fact beside a larger group: what fills the group up takes no gradient."""
    values = [[0.0, *(round(w.rng.uniform(0.1, 0.9), 3) for _ in range(3))] for _ in range(w.rows)]
    x = w.leaf(w.rows, 4, [[column] for column in range(4)], "probs", values)
    symbols = w.symbols(4)
    d = _input(w, x, w.rows, symbols, ", exclusive=False")
    w.let("beside zero", f"{d}.map(lambda a: a == {symbols[0]})", Info(w.rows, 2, "any"))


def long_ways(w: Writer) -> None:
    """A recursion that goes on after the last new symbol: longer ways between the same ends."""
    edges = [(0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3)]
    x = w.leaf(w.rows, len(edges), [[column] for column in range(len(edges))], "probs")
    d = _input(w, x, w.rows, edges, ", exclusive=False")
    before = f"def walk(d): return {texts.PATH.format(e=d)}\n"
    w.let("fixpoint", f"dl.fixpoint(walk, {d})", Info(w.rows, 6, "pair"), before)


def equal_nans(w: Writer) -> None:
    """Many nan of numpy are one symbol."""
    x = w.leaf(w.rows, 3, [[0, 1, 2]], "probs")
    d = _input(w, x, w.rows, w.symbols(3))
    kind = w.pick(["float16", "float32", "float64"])
    w.let("equal nans", f'{d}.map(lambda a: np.{kind}("nan"))', Info(w.rows, 1, "any"))


def _input(w: Writer, x: str, rows: int, symbols: list, option: str = "") -> str:
    d = w.let("input probs", f"dl.Distribution({x}, {symbols}{option})", Info(rows, len(symbols)))
    w.inputs.append(d)
    return d
