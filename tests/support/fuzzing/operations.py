"""The kinds of statements that programs are made of, beside their inputs."""

from __future__ import annotations

from fuzzing import texts
from fuzzing.generate import Info, Writer, kind


@kind(6)
def mapped(w: Writer) -> None:
    d = w.some("int", "any", "card")
    if d is None:
        return
    match w.known[d].kind:
        case "card":
            w.let("map", f"dl.apply({d}, lambda c: c.n)", Info(w.known[d].batch, w.known[d].width))
        case "any":
            f = w.pick(texts.OF_ANY)
            w.let("map", f"{d}.map({f})", Info(w.known[d].batch, w.known[d].width, "any"))
        case _:
            if w.rng.random() < 0.25:
                f = w.pick(texts.UNARY_ANY)
                w.let("map", f"{d}.map({f})", Info(w.known[d].batch, w.known[d].width, "any"))
                return
            option = w.options([d])
            w.let("map", f"dl.apply({d}, {w.pick(texts.UNARY)}{option})", w.result([d], option))


@kind(12)
def applied(w: Writer) -> None:
    number = w.rng.choice([2, 2, 2, 3, 3, 4, 5])
    names = w.several(number, "int")
    if len(names) < 2:
        return
    if w.rng.random() < 0.3:  # one row against many
        names.sort(key=lambda name: w.known[name].batch)
    pool = {2: texts.BINARY, 3: texts.TERNARY}.get(len(names), texts.MANY)
    option = w.options(names)
    expression = f"dl.apply({', '.join(names)}, {w.pick(pool)}{option})"
    w.let(f"apply {len(names)}", expression, w.result(names, option))


@kind(4)
def applied_if(w: Writer) -> None:
    names = w.several(2, "int")
    if len(names) < 2:
        return
    option = w.options(names)
    expression = (
        f"dl.apply_if({', '.join(names)}, {w.pick(texts.BINARY)}, {w.pick(texts.CONDITIONS)}"
        f"{option})"
    )
    w.let("apply_if", expression, w.result(names, option))


@kind(3)
def joined(w: Writer) -> None:
    names = w.several(2, "int")
    if len(names) < 2:
        return
    keys = f"({w.pick(texts.KEYS)}, {w.pick(texts.KEYS)})"
    also = f", {w.pick(texts.CONDITIONS)}" if w.rng.random() < 0.3 else ""
    option = w.options(names)
    expression = f"dl.apply_if({', '.join(names)}, {w.pick(texts.BINARY)}{also}, on={keys}{option})"
    w.let("join", expression, w.result(names, option))


@kind(3)
def filtered(w: Writer) -> None:
    d = w.some("int")
    if d is not None:
        w.let("filter", f"dl.filter({d}, {w.pick(texts.PREDICATES)})", w.known[d])


@kind(6)
def united(w: Writer) -> None:
    kinds = w.rng.choice([("int",), ("int",), ("int", "any")])
    names = w.several(w.rng.choice([2, 2, 3]), *kinds)
    if names:
        width = min(8, sum(w.known[name].width for name in names))
        mixed = "int" if all(w.known[name].kind == "int" for name in names) else "any"
        w.let("union", f"dl.union({', '.join(names)})", Info(w.batch(names), width, mixed))


@kind(5)
def negated(w: Writer) -> None:
    d = w.some("int", "any", "pair")
    if d is None:
        return
    info = w.known[d]
    if info.kind == "int" and w.rng.random() < 0.4:
        among = w.symbols(w.rng.randint(1, 4))
        w.let("negate among", f"dl.negate({d}, among={among})", Info(info.batch, len(among)))
    else:
        w.let("negate", f"dl.negate({d})", info)


@kind(3)
def sampled(w: Writer) -> None:
    d = w.some("int", "any")
    if d is not None:
        k = w.rng.randint(1, 3)
        info = w.known[d]
        w.let("sample", f"dl.sample({d}, {k})", Info(info.batch, min(k, info.width), info.kind))


@kind(3)
def reduced(w: Writer) -> None:
    names = w.several(w.rng.choice([2, 3, 4, 4, 5]), "int")  # from four on the order can differ
    if names:
        f = w.pick(texts.ASSOCIATIVE)
        w.let("reduce", f"dl.reduce({f}, [{', '.join(names)}])", w.result(names, ""))


@kind(3)
def recursed(w: Writer) -> None:
    d = w.some("pair", "int")
    if d is None:
        return
    step = texts.PATH if w.known[d].kind == "pair" else w.pick(texts.STEPS)
    name = f"step{len(w.known)}"
    before = f"def {name}(d): return {step.format(e=d)}\n"
    info, option = Info(w.known[d].batch, 6, w.known[d].kind), ""
    chance = w.rng.random()
    if chance < 0.3:
        goal = texts.GOALS[w.known[d].kind]
        asked = [w.rng.randint(0, 2) for _ in range(info.batch)]
        option = f", goal={w.pick(goal[0]) if w.rng.random() < 0.5 else f'({goal[1]}, {asked})'}"
    if w.rng.random() < (0.3 if w.repeats else 0.03):
        option += ", only_new=True"
    elif w.rng.random() < 0.2:
        option += f", rounds={w.rng.randint(0, 4)}"
    w.let("fixpoint", f"dl.fixpoint({name}, {d}{option})", info, before)


@kind(4)
def certain(w: Writer) -> None:
    chance, symbol = w.rng.random(), w.rng.randint(0, 4)
    if chance < 0.3:
        w.let("certain", f"dl.Distribution.certain({symbol})", Info(1, 1))
    elif chance < 0.5:
        expression = f"dl.Distribution.certain({symbol}, batch={w.rows})"
        w.let("certain", expression, Info(w.rows, 1))
    elif chance < 0.8:
        rows = [w.rng.randint(0, 4) for _ in range(w.rows)]
        w.let("certain_rows", f"dl.Distribution.certain_rows({rows})", Info(w.rows, 1))
    else:
        both = f"dl.Distribution.certain({symbol}), dl.Distribution.certain({(symbol + 1) % 5})"
        w.let("certain union", f"dl.union({both})", Info(1, 2))


@kind(5)
def stacked(w: Writer) -> None:
    """Parts that are used elsewhere, too, such that the rows fit to others again."""
    d = w.some("int")
    if d is None:
        return
    rows, info = w.rows, w.known[d]
    parts, width = [], 0
    for row in range(rows):
        other = w.some("int")
        assert other is not None
        batch = w.known[other].batch
        width = max(width, w.known[other].width)
        own = min(row, batch - 1) if w.rng.random() < 0.7 else w.rng.randrange(batch)
        parts.append(f"{other}[{own}]" if batch > 1 or w.rng.random() < 0.3 else other)
    if w.rng.random() < 0.2 and info.batch == rows:
        w.let("rows", f"dl.Distribution.stack({d}.rows())", info)
        return
    w.let("stack", f"dl.Distribution.stack([{', '.join(parts)}])", Info(rows, width))


@kind(3)
def indexed(w: Writer) -> None:
    d = w.some("int", "any", "pair")
    if d is None:
        return
    info, rng = w.known[d], w.rng
    if rng.random() < 0.3:
        w.let("index", f"{d}[{rng.randrange(info.batch)}]", Info(1, info.width, info.kind))
        return
    if rng.random() < 0.3:
        mask = [True] + [rng.random() < 0.5 for _ in range(info.batch - 1)]
        rows, batch = w.pick([(f"{mask}", sum(mask)), ("::-1", info.batch), ("-1:", 1)])
        if batch in (1, w.rows):
            w.let("index", f"{d}[{rows}]", Info(batch, info.width, info.kind))
        return
    rows = [rng.randrange(-info.batch, info.batch) for _ in range(w.rows)]
    w.let("index", f"{d}[{rows}]", Info(w.rows, info.width, info.kind))


@kind(2)
def operators(w: Writer) -> None:
    names = w.several(2, "int")
    if not names:
        return
    a, b = names[0], names[-1]
    shown = w.pick(["{a} + {b}", "{a} * {b}", "{a} == {b}", "{a} <= {b}", "{a} == 1", "1 - {a}"])
    w.let("operator", shown.format(a=a, b=b), w.result(names, ""))


@kind(2)
def variadic(w: Writer) -> None:
    """The same function with a varying number of operands."""
    names = w.several(3, "int")
    if not names:
        return
    name = w.pick(list(texts.VARIADIC))
    w.define(name, texts.VARIADIC[name])
    parts = [f"dl.apply({', '.join(names[:n])}, {name})" for n in range(1, len(names) + 1)]
    w.rng.shuffle(parts)
    width = min(6, w.product(names)) * len(parts)
    w.let("variadic", f"dl.union({', '.join(parts)})", Info(w.batch(names), min(6, width)))


@kind(2)
def stateful(w: Writer) -> None:
    """A function that reads what the program changes between two calls."""
    d = w.some("int")
    if d is None or "stateful" in w.defined:
        return
    w.defined.add("stateful")
    text, name, change = w.rng.choice(texts.STATEFUL)
    expression = f"dl.union(dl.apply({d}, {name}), {d})"
    before = f"{text}\nbefore = dl.apply({d}, {name})\n{change}\n"
    w.let("stateful", expression, Info(w.known[d].batch, 6), before)


@kind(1, focused=25)
def copied(w: Writer) -> None:
    d = w.some("int", "any", "pair")
    if d is not None and not w.grad:
        how = w.pick(["pickle.loads(pickle.dumps({d}))", "copy.deepcopy({d})"])
        w.let("copy", how.format(d=d), w.known[d])


@kind(1)
def detached(w: Writer) -> None:
    """The same numbers without gradient."""
    d = w.some("int", "any")
    if d is not None and w.numeric:
        w.let("detach", f"{d}.detach()", w.known[d])


@kind(1)
def scribbled(w: Writer) -> None:
    """What was given, and what was read, belongs to the user: writing to it changes nothing."""
    d = w.some("int")
    if d is None:
        return
    if w.grad or w.rng.random() < 0.5:
        w.let("scribble", d, w.known[d], f"{d}.probs([0, 1]).detach().zero_()\n")
    elif w.leaves:
        x = f"x{w.rng.randrange(w.leaves)}"
        w.let("scribble", d, w.known[d], f"{x}.zero_()\n")


@kind(1)
def misused(w: Writer) -> None:
    """What must be refused."""
    d = w.some("int")
    if d is not None and w.rng.random() < 0.5:
        w.let("misuse", w.pick(texts.MISUSE).format(d=d), Info(w.known[d].batch, 3))
