"""Statements with chance, branches, programs, questions and conditions, and samples one by one."""

from __future__ import annotations

from fuzzing import language_texts as texts
from fuzzing.generate import Info, Writer, kind
from fuzzing.texts import KEYS, PREDICATES


@kind(4)
def drawn(w: Writer) -> None:
    """A function with chances, whose weights are numbers or entries of a tensor."""
    names = w.several(w.rng.choice([1, 1, 2]), "int")
    if not names:
        return
    learned = w.rng.random() < 0.5
    if len(names) == 1:
        f = w.pick(texts.LEARNED if learned else texts.CHANCES)
    else:
        f = w.pick(texts.LEARNED_OF_TWO if learned else texts.CHANCES_OF_TWO)
    x = w.leaf(2, 2, [[0, 1]], "probs") if learned else ""
    feature = "weights learned" if learned else "weights"
    expression = f"dl.apply({', '.join(names)}, {f.format(p=x)})"
    w.let(feature, expression, Info(w.batch(names), min(6, 2 * w.product(names))))


@kind(3)
def branched(w: Writer) -> None:
    names = w.several(3, "int")
    if len(names) < 3:
        return
    cond, yes, no = names
    if w.rng.random() < 0.3:
        no = str(w.rng.randint(0, 4))
    batch = w.batch(names)
    if w.rng.random() < 0.3:
        mask = [w.rng.random() < 0.5 for _ in range(batch)]
        expression = f"dl.where({mask}, {yes}, {no})"
    else:
        predicate = w.pick(PREDICATES)
        expression = f"dl.where(dl.apply({cond}, {predicate}), {yes}, {no})"
    w.let("where", expression, Info(batch, sum(w.known[n].width for n in names[1:])))


@kind(4, focused=10)
def programmed(w: Writer) -> None:
    names = w.several(w.rng.choice([1, 2, 2, 3]), "int")
    if not names:
        return
    name, arguments = f"run{len(w.known)}", "abc"[: len(names)]
    body = w.pick(texts.PROGRAMS[len(names)] + (texts.ASKING_PROGRAMS if w.asks else []))
    kept = w.rng.random() < 0.1  # all of them, in another way
    before = "".join(texts.INNER[inner] for inner in texts.INNER if inner in body)
    before += "@dl.program(keep=1000)\n" if kept else "@dl.program\n"
    before += f"def {name}({', '.join(arguments)}):\n{body}\n"
    feature = "program keep" if kept else "program"
    w.let(feature, f"{name}({', '.join(names)})", Info(w.batch(names), 5), before)


@kind(5, focused=60)
def asked(w: Writer) -> None:
    d = w.some("int")
    if d is None or w.known[d].width > 5 or not w.asks:
        return
    question = w.pick(["exists", "forall", "count", "total", "maximum", "minimum"])
    arguments = [d]
    if question == "forall" or (question in ("exists", "count") and w.rng.random() < 0.5):
        arguments.append(w.pick(PREDICATES))
    elif question in ("total", "maximum", "minimum") and w.rng.random() < 0.5:
        arguments.append("lambda a: a % 3")
    by = w.rng.random() < 0.5
    if by:
        arguments.append(f"by={w.pick(KEYS)}")
    kind = "any" if by or question in ("maximum", "minimum") else "int"
    feature = f"{question} by" if by else question
    w.let(feature, f"dl.{question}({', '.join(arguments)})", Info(w.known[d].batch, 5, kind))


@kind(3, focused=25)
def conditioned(w: Writer) -> None:
    d, other = w.some("int", "any"), w.some("int")
    if d is None or other is None or not w.fits([d, other]):
        return
    if w.rng.random() < 0.5 or not w.counts:
        w.let("normalized", w.pick([f"dl.normalized({d})", f"{d}.normalized()"]), w.known[d])
        return
    info = Info(w.batch([d, other]), w.known[d].width, w.known[d].kind)
    predicate = w.pick(PREDICATES)
    w.let("condition", f"dl.condition({d}, dl.apply({other}, {predicate}))", info)


@kind(5, focused=15)
def one_by_one(w: Writer) -> None:
    """A program for one sample, over samples of different length."""
    rng = w.rng
    columns = rng.choice([1, 2, 3])
    exclusive = rng.random() < 0.7
    groups = [list(range(columns))] if exclusive else [[c] for c in range(columns)]
    x = w.leaf(3, columns, groups, "probs")
    outer = w.some("int", batch=1)
    if outer is not None and w.known[outer].batch > 1:
        outer = f"{outer}[0]"
    endings = [*texts.ENDINGS, *(texts.ASKING if w.asks else [])]
    endings += texts.CONDITIONED if w.counts else []
    endings = [e for e in endings if outer is not None or "{outer}" not in e]
    ending = "".join(
        e.replace("{outer}", str(outer)) for e in rng.sample(endings, rng.choice([1, 1, 2]))
    )
    option = "" if exclusive else ", exclusive=False"
    symbols = w.symbols(columns)
    name = f"one{len(w.known)}"
    before = (
        f"@dl.batched\ndef {name}(parts, shift):\n    d = dl.Distribution.certain(shift)\n"
        f"    for part in parts:\n        other = dl.Distribution(part, {symbols}{option})\n"
        f"        d = dl.apply(d, other, {w.pick(texts.FOLDS)})\n{ending}    return d\n"
    )
    samples = [
        "["
        + ", ".join(f"{x}[{rng.randrange(3)}]" for _ in range(rng.choice([0, 1, 1, 2, 3])))
        + "]"
        for _ in range(w.rows)
    ]
    shifts = [rng.randint(0, 2) for _ in range(w.rows)]
    w.let("batched", f"{name}([{', '.join(samples)}], {shifts})", Info(w.rows, 4), before)
