"""Compares whatever else can be read of a result: losses, answers, traces, the same in threads."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

import dolphin as dl
from fuzzing import again, tracing
from fuzzing.answers import expectation, uncertainty
from fuzzing.comparing import ABSENT, Comparison, WrongAnswerError
from fuzzing.generate import Program
from fuzzing.jets import Jet, total
from fuzzing.rows import Row, Value, key_of
from fuzzing.running import by_dolphin

BRANCHES = {"where", "program", "program keep", "batched", "weights learned", "detach"}
"""Statements that may leave an operand out altogether."""


def targets_of(program: Program, expected: Value) -> list[Any]:
    """One symbol per row; now and then one that isn't there."""
    options = [*expected.symbols, 99]
    return [options[(program.seed + 3 * r) % len(options)] for r in range(expected.batch_size)]


def others_of(expected: Value, targets: list[Any]) -> list[float]:
    """How likely it is in each row that a symbol other than the target holds."""
    semiring, probs = expected.reference.semiring, []
    for number, target in enumerate(targets):
        tags = [tag for s, tag in expected.row_of(number) if key_of(s) != key_of(target)]
        probs.append(semiring.probability(semiring.plus(tags)).real if tags else 0.0)
    return probs


def _choices(value: Value, row: int) -> list[tuple[Any, Any]]:
    """Every choice of an input's symbols in a row, and the tag of its being made."""
    semiring, entries = value.reference.semiring, list(value.row_of(row))
    options = []
    for holds in itertools.product((False, True), repeat=len(entries)):
        if value.exclusive and sum(holds) > 1:
            continue
        held = tuple(symbol for (symbol, _), h in zip(entries, holds, strict=True) if h)
        tags = [t if h else semiring.negate(t) for (_, t), h in zip(entries, holds, strict=True)]
        name = (held[0] if held else None) if value.exclusive else held
        options.append((name, semiring.times(tags)))
    return options


def _alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        (set(a) == set(b)) if isinstance(a, tuple) and isinstance(b, tuple) else a == b
        for a, b in zip(one, other, strict=True)
    )


class Readings(Comparison):
    """One result, read in every way that a program may ask for."""

    def _log_probs(self) -> None:
        found = self.result.log_probs(symbols=[*self.symbols, ABSENT])
        for row, parts in enumerate(self.values):
            for column, part in enumerate(parts):
                if part.real > (1e-3 if self.program.single else 1e-6):
                    self.close("log_probs", found[row, column], math.log(part.real))
                elif float(found[row, column]) > -6.0:
                    raise WrongAnswerError(
                        "log_probs", f"{float(found[row, column])} of {part.real}"
                    )
            self.close("log_probs", found[row, -1], -1e4)
        if self.learns:
            smooth = [
                [part.log() if part.real > 1e-3 else Jet(0.0, {}, smooth=False) for part in row]
                + [Jet(0.0)]
                for row in self.values
            ]
            self._gradients("gradients of log_probs", found, smooth)

    def _targets(self) -> list[Any]:
        return targets_of(self.program, self.expected)

    def _prob_of(self) -> None:
        targets = self._targets()
        wanted = [self.expected.probability(r, t).real for r, t in enumerate(targets)]
        self.close("prob_of", self.result.prob_of(targets), wanted)
        matched = self.result.prob_of(targets, match=lambda s, t: key_of(s) != key_of(t))
        self.close("prob_of matches", matched, others_of(self.expected, targets))

    def _argmax(self) -> None:
        found = self.result.argmax(default=ABSENT)
        for row, symbol in enumerate(found):
            own = self._row(row)
            if not own:
                if symbol != ABSENT:
                    raise WrongAnswerError("argmax", f"{symbol!r} of an empty row")
                continue
            if key_of(symbol) not in own:
                raise WrongAnswerError("argmax", f"{symbol!r} is not in row {row}")
            if own[key_of(symbol)] < max(own.values()) - self.tolerance:
                raise WrongAnswerError("argmax", f"{symbol!r} of {own}")

    def _row(self, row: int) -> dict[Any, float]:
        own: Row = self.expected.row_of(row)
        return {key_of(s): self.expected.probability(row, s).real for s in own.symbols}

    def _top(self) -> None:
        for row, pairs in enumerate(self.result.top(2)):
            own = self._row(row)
            wanted = sorted(own.values(), reverse=True)[:2]
            self.close("top", [p for _, p in pairs], wanted, slack=1e3)
            self.close("top", [own[key_of(s)] for s, _ in pairs], wanted, slack=1e3)

    def _rows(self) -> None:
        for row in range(self.batch):
            own, pairs = self._row(row), self.result.row(row)
            if not self._same((key_of(s) for s, _ in pairs), own):
                raise WrongAnswerError(
                    "symbols of a row", f"{[s for s, _ in pairs]}, not {list(own)}"
                )
            self.close("row", [p for _, p in pairs], [own[key_of(s)] for s, _ in pairs], slack=1e3)

    def _expected(self) -> None:
        numbers = (bool, int, float)
        if not all(isinstance(s, numbers) and s == s for s in self.symbols):
            return
        found = dl.expected(self.result)
        parts = [expectation(self.expected, row) for row in range(self.batch)]
        self.close("expected", found, [part.real for part in parts], slack=30.0)
        if self.learns:
            self._gradients("gradients of expected", found[:, None], [[part] for part in parts])

    def _entropy(self) -> None:
        if self.program.provenance == "counting":
            return
        found = dl.entropy(self.result)
        parts = [uncertainty(self.expected, row) for row in range(self.batch)]
        for row, part in enumerate(parts):
            if part is not None:
                self.close("entropy", found[row], part.real, slack=30.0)

    def _posterior(self) -> None:
        """Of every input, given the row's target; where a target can't be, nothing is likely."""
        inputs = self.program.inputs
        if not inputs or self.program.provenance != "exact":
            return
        if any(self.known[name].batch_size not in (1, self.batch) for name in inputs):
            return
        targets, semiring = self._targets(), self.expected.reference.semiring
        found = dl.posterior([self.names[name] for name in inputs], self.result, targets)
        tags = [self.expected.row_of(r).tag(t, semiring.zero) for r, t in enumerate(targets)]
        whole = [semiring.probability(tag) for tag in tags]
        for name, table in zip(inputs, found, strict=True):
            value = self.known[name]
            for row, symbol in itertools.product(range(self.batch), value.symbols):
                event = whole[row].real
                if 0.0 < event < 1e-3:
                    continue
                own = value.row_of(row).tag(symbol, semiring.zero)
                both = semiring.probability(semiring.times([own, tags[row]])).real
                part = table[row, self.names[name].symbols.index(symbol)]
                # An input may be a little below 0, by rounding: then nothing can be, as with 0.
                self.close("posterior", part, both / event if event > 0.0 else 0.0, slack=1e2)

    def _most_likely(self) -> None:
        """No other choice of the inputs' symbols under which the result is the target is likelier.

        Where the program has inputs that are not asked for, or a row depends on facts of another
        (after `stack`), there is more to choose.
        """
        inputs = self.program.inputs
        made = {s.feature for s in self.program.statements}
        other = made & {"input rows", "batched", "weights", "weights learned", "normalized",
                        "condition", "program", "misuse"}  # fmt: skip
        if not inputs or self.program.provenance != "exact" or other:
            return
        values = [self.known[name] for name in inputs]
        if any(value.batch_size not in (1, self.batch) for value in values):
            return
        targets, semiring = self._targets(), self.expected.reference.semiring
        found = dl.most_likely([self.names[name] for name in inputs], self.result, targets)
        for row, (target, choice) in enumerate(zip(targets, found, strict=True)):
            tag = self.expected.row_of(row).tag(target, semiring.zero)
            options = [_choices(value, row) for value in values]
            if math.prod(map(len, options)) > 300:
                continue
            best, own = 0.0, 0.0
            for worlds in itertools.product(*options):
                chosen = tuple(name for name, _ in worlds)
                world = semiring.times([w for _, w in worlds])
                event = semiring.times([tag, world])
                if event not in (semiring.zero, world):
                    break
                both = semiring.probability(event).real
                best = max(best, both)
                own = both if choice is not None and _alike(chosen, choice) else own
            else:
                if best > 1e-6 and own < best * (1.0 - 1e-4):
                    raise WrongAnswerError("most_likely", f"{choice} has {own}, another one {best}")

    def _nll(self) -> None:
        if self.program.provenance == "counting":  # counts are not probabilities
            return
        targets = self._targets()
        parts = [self.expected.probability(r, t) for r, t in enumerate(targets)]
        losses = dl.nll_loss(self.result, targets, reduction="none")
        self._losses("nll_loss", losses, parts, [Jet(0.0)] * self.batch)

    def _bce(self) -> None:
        if self.program.provenance == "counting":
            return
        targets = self._targets()
        parts = [self.expected.probability(r, t) for r, t in enumerate(targets)]
        rest = []
        for row, target in enumerate(targets):
            others = [s for s in self.expected.row_of(row).symbols if key_of(s) != key_of(target)]
            wrong = [1.0 - self.expected.probability(row, s) for s in others]
            sure = any(number.real < 1e-3 for number in wrong)
            rest.append(Jet(math.nan) if sure else total(-number.log() for number in wrong))
        losses = dl.bce_loss(self.result, targets, reduction="none")
        self._losses("bce_loss", losses, parts, rest)

    def _losses(self, kind: str, losses: torch.Tensor, parts: list[Jet], rest: list[Jet]) -> None:
        """-log p of each target, and what else a row costs; nan where rounding decides."""
        wanted = []
        for row, (part, more) in enumerate(zip(parts, rest, strict=True)):
            absent = key_of(self._targets()[row]) not in self.expected.row_of(row).entries
            cost = Jet(1e4) if absent else Jet(math.nan)
            if part.real > 1e-3:
                cost = -part.log()
            elif float(losses[row]) < 6.0:
                raise WrongAnswerError(
                    kind, f"{float(losses[row])} for a probability of {part.real}"
                )
            cost = cost + more
            wanted.append(cost.cornered(cost.real != cost.real))
        if not torch.isfinite(losses).all():
            raise WrongAnswerError(f"{kind} not finite", str(losses.tolist()))
        known = [row for row, cost in enumerate(wanted) if cost.real == cost.real]
        self.close(kind, losses[known], [wanted[row].real for row in known])
        if self.learns:
            self._gradients(f"gradients of {kind}", losses[:, None], [[cost] for cost in wanted])
            every = len(self.learned) == len(self.leaves)
            if every and not losses.requires_grad and not self.program.features & BRANCHES:
                raise WrongAnswerError(kind, "has no graph, so that .backward() fails")

    def _func(self) -> None:
        """Gradients of the program as a function."""
        function = again.as_function(self.program, self.names, self.k)
        if function is None or not self.learns or not self.symbols:
            return
        run, leaves = function
        parts = [[*row, Jet(0.0)] for row in self.values]
        tensors = [self.names[name].detach() for name in leaves]
        places = [at for at, name in enumerate(leaves) if self.names[name].requires_grad]

        def weighted(*given: torch.Tensor) -> torch.Tensor:
            return self._weighted(run(*given).probs([*self.symbols, ABSENT]), parts)[0]

        gradients = torch.func.grad(weighted, tuple(places))(*tensors)
        self.notes.append("torch.func")
        wanted = self._weighted(torch.zeros(len(parts), len(parts[0])), parts)[1]
        given = (self.names[leaves[at]] for at in places)
        found = {id(leaf): grad for leaf, grad in zip(given, gradients, strict=True)}
        self._compare_gradients(
            "gradients of torch.func",
            [found[id(leaf)] for leaf in self.learned],
            {key: part.real for key, part in wanted.grad.items()},
        )

    def _threads(self) -> None:
        """The same in two threads that begin at the same time."""
        body = self.program.body()
        if self.program.seed % 8 or "def shift" in body:  # which changes a module
            return
        if "class Card" in body and "pickle" in body:  # a module has one class of a name
            return

        def run() -> torch.Tensor:
            dl.cache_clear()
            names = by_dolphin(self.program, self.k)
            return names[self.program.result].probs([*self.symbols, ABSENT]).detach()

        wanted = [[*(p.real for p in row), 0.0] for row in self.values]
        for found in again.in_threads(run, 2):
            if isinstance(found, Exception):
                raise WrongAnswerError("error in a thread", repr(found)) from found
            self.close("values in threads", found, wanted)

    def _trace(self) -> None:
        program = tracing.traced(self.program, self.names, self.k)
        if program is None:
            return
        module, numbers = program
        if not self._same(map(key_of, module.symbols), map(key_of, self.symbols)):
            raise WrongAnswerError("trace symbols", f"{module.symbols}, not {self.symbols}")
        self.notes.append("traced")
        self._misused_trace(module, numbers)
        if not self.symbols:
            return
        places = {key_of(symbol): at for at, symbol in enumerate(module.symbols)}
        found = module.probs(*numbers)[:, [places[key_of(symbol)] for symbol in self.symbols]]
        eager = torch.tensor([[p.real for p in row] for row in self.values], dtype=torch.float64)
        self.close("trace values", found, eager.expand(found.shape[0], -1))
        if self.learns and found.shape[0] == self.batch:
            self._gradients("trace gradients", found, self.values)

    def _misused_trace(self, module: dl.Traced, numbers: list[torch.Tensor]) -> None:
        wide = [torch.zeros(1, tensor.shape[1] + 1) for tensor in numbers]
        try:
            module(*wide)
        except dl.DolphinError:
            return
        raise WrongAnswerError("trace accepted", "tensors with a column too many")
