"""The paper's definition of DTKP-AM, evaluated literally: dense, slow, batched, differentiable.

A tag has shape (k, facts): a row is a proof, an entry the probability of a fact in it. An absent
fact is +inf, an absent proof a row of -inf, so that the element-wise minimum of two rows is the
union of two proofs and an absent proof annihilates. Tags of a distribution: (batch, symbols, k,
facts).

    0 = all -inf                     t ⊕ t' = top_k(cat(t, t'))
    1 = one row of +inf, rest -inf   t ⊗ t' = top_k({min(t_i, t'_j)})
    Pr(t) = min(1, Σ_i Π_j norm(t_ij)), norm(+inf) = 1, norm(-inf) = 0

Facts are told apart by their position, never by their probability. On top of the table, proofs
that take two facts of one exclusive group, repeat another proof or contain one are dropped before
the k likeliest are chosen; `strict_paper=True` leaves that out.

It is an oracle for `dtkp-am` and the baseline of speed comparisons: nothing is remembered, the
user's function runs for every combination at every step, and sampling keeps the union of what all
rows sampled. Only one liberty is taken, so that formulas of fifteen symbols fit into memory: the
proofs to keep are chosen in chunks and without autograd, then computed again with it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

INF = math.inf
CHUNK = 1_000_000  # elements of candidate proofs that are looked at together


def _key(symbol: Hashable) -> Hashable:
    return ("nan",) if isinstance(symbol, float) and math.isnan(symbol) else symbol


def _norm(tags: Tensor) -> Tensor:
    """Entries as factors of a product: 1 where a fact is absent, 0 where a proof is.

    The gradient of `clamp` is 1 up to and including its bounds, so probabilities 0 and 1 learn."""
    return tags.clamp(0.0, 1.0)


class Dense:
    """Symbols and their tags, (batch, symbols, k, facts known when it was made)."""

    def __init__(self, symbols: Sequence[Hashable], tags: Tensor):
        self.symbols = list(symbols)
        self.tags = tags


class Literal:
    """The operations, under dense top-k proofs. One object is one run of one program."""

    def __init__(self, k: int, strict_paper: bool = False):
        self.k = k
        self.strict_paper = strict_paper
        self.facts = 0
        self.groups: list[list[int]] = []

    # ------------------------------------------------------------------------------- inputs

    def distribution(
        self, probs: Tensor, symbols: Sequence[Hashable], exclusive: Any = True
    ) -> Dense:
        """Tag of column c: one proof, which holds the fact c of this input and nothing else."""
        probs = probs if probs.dim() == 2 else probs.unsqueeze(0)
        batch, columns = probs.shape
        symbols = list(symbols)
        assert len(symbols) == columns
        first, self.facts = self.facts, self.facts + columns
        if exclusive is True:
            self.groups.append(list(range(first, self.facts)))
        elif exclusive is not False:
            self.groups += [[first + c for c in group] for group in exclusive]
        here = torch.eye(columns, dtype=torch.bool, device=probs.device)
        proof = torch.where(here, probs.unsqueeze(1), probs.new_tensor(INF))
        before = probs.new_full((batch, columns, first), INF)
        proof = torch.cat([before, proof], dim=-1).unsqueeze(2)
        absent = probs.new_full((batch, columns, self.k - 1, self.facts), -INF)
        return Dense(symbols, torch.cat([proof, absent], dim=2))

    def _widen(self, tags: Tensor) -> Tensor:
        """Tags made before the newest inputs: their facts are absent from every proof."""
        missing = self.facts - tags.shape[-1]
        if not missing:
            return tags
        absent_proof = (tags[..., :1] == -INF).expand(*tags.shape[:-1], missing)
        absent_fact = tags.new_full(absent_proof.shape, INF)
        return torch.cat([tags, absent_fact.masked_fill(absent_proof, -INF)], dim=-1)

    def _align(self, distributions: Sequence[Dense]) -> list[Tensor]:
        batch = max(d.tags.shape[0] for d in distributions)
        return [self._widen(d.tags).expand(batch, -1, -1, -1) for d in distributions]

    # ------------------------------------------------------------------------------ algebra

    def _scores(self, proofs: Tensor) -> Tensor:
        """Probabilities of candidate proofs (..., candidates, facts), -1 for those to drop."""
        scores = _norm(proofs).prod(dim=-1)
        drop = proofs[..., 0] == -INF
        if not self.strict_paper:
            has = torch.isfinite(proofs).to(torch.float32)
            for group in self.groups:
                drop = drop | (has[..., group].sum(dim=-1) > 1)
            size = has.sum(dim=-1)
            common = has @ has.transpose(-1, -2)  # facts that candidates i and j share
            contains = common == size.unsqueeze(-2)  # [i, j]: i contains j
            equal = contains & contains.transpose(-1, -2)
            m = proofs.shape[-2]
            earlier = torch.ones(m, m, dtype=torch.bool, device=proofs.device).tril(-1)
            absorbed = contains & (~equal | earlier) & ~drop.unsqueeze(-2)
            drop = drop | absorbed.any(dim=-1)
        return scores.masked_fill(drop, -1.0)

    def _choose(self, proofs: Tensor) -> tuple[Tensor, Tensor]:
        """Which candidates are the k likeliest, and which of those exist at all."""
        missing = self.k - proofs.shape[-2]
        if missing > 0:
            shape = (*proofs.shape[:-2], missing, proofs.shape[-1])
            proofs = torch.cat([proofs, proofs.new_full(shape, -INF)], dim=-2)
        scores, chosen = self._scores(proofs).topk(self.k, dim=-1)
        return chosen, scores >= 0

    def _choose_in_chunks(self, number: int, candidates: Callable) -> tuple[Tensor, Tensor]:
        """`candidates(start, stop)` makes the candidates of some symbols, (batch, symbols, ...)."""
        with torch.no_grad():
            probe = candidates(0, 1)
            width = max(1, CHUNK // max(1, probe.numel()))
            parts = [
                self._choose(candidates(start, min(number, start + width)))
                for start in range(0, number, width)
            ]
        chosen, exists = zip(*parts, strict=True)
        return torch.cat(chosen, dim=1), torch.cat(exists, dim=1)

    def times(self, a: Tensor, b: Tensor, rows_a: Sequence[int], rows_b: Sequence[int]) -> Tensor:
        """⊗ of symbol rows_a[p] of a with symbol rows_b[p] of b, for every p."""
        index_a = torch.tensor(rows_a, device=a.device)
        index_b = torch.tensor(rows_b, device=a.device)

        def candidates(start, stop):
            left = a[:, index_a[start:stop]].unsqueeze(3)
            right = b[:, index_b[start:stop]].unsqueeze(2)
            return torch.minimum(left, right).flatten(2, 3)

        def unions(a, b, chosen, exists):
            left = _pick_proofs(a, index_a, chosen // self.k)
            right = _pick_proofs(b, index_b, chosen % self.k)
            proofs = torch.minimum(left, right)
            return torch.where(exists.unsqueeze(-1), proofs, proofs.new_tensor(-INF))

        chosen, exists = self._choose_in_chunks(len(rows_a), candidates)
        return checkpoint(unions, a, b, chosen, exists, use_reentrant=False)

    def plus(self, tags: Tensor, groups: Sequence[Sequence[int]]) -> Tensor:
        """⊕ over each group of symbols. Groups of one size are treated together."""
        if all(group == [g] for g, group in enumerate(groups)):
            return tags
        results: list[Tensor] = []
        order: list[int] = []
        by_size: dict[int, list[int]] = {}
        for g, group in enumerate(groups):
            by_size.setdefault(len(group), []).append(g)
        for members in by_size.values():
            index = torch.tensor([groups[g] for g in members], device=tags.device)
            results.append(self._plus_of_one_size(tags, index))
            order += members
        position = torch.empty(len(order), dtype=torch.long, device=tags.device)
        position[torch.tensor(order, device=tags.device)] = torch.arange(
            len(order), device=tags.device
        )
        return torch.cat(results, dim=1)[:, position]

    def _plus_of_one_size(self, tags: Tensor, index: Tensor) -> Tensor:
        if index.shape[1] == 1:
            return tags[:, index[:, 0]]

        def candidates(start, stop):
            return tags[:, index[start:stop]].flatten(2, 3)

        chosen, exists = self._choose_in_chunks(len(index), candidates)
        member = torch.gather(
            index.unsqueeze(0).expand(chosen.shape[0], -1, -1), 2, chosen // self.k
        )
        flat = tags.flatten(1, 2)
        where = (member * self.k + chosen % self.k).flatten(1)
        proofs = flat.gather(1, where.unsqueeze(-1).expand(-1, -1, flat.shape[-1]))
        proofs = proofs.unflatten(1, chosen.shape[1:])
        return torch.where(exists.unsqueeze(-1), proofs, proofs.new_tensor(-INF))

    # --------------------------------------------------------------------------- operations

    def apply(self, *arguments: Any) -> Dense:
        *distributions, f = arguments
        return self._combine(distributions, f, lambda *symbols: True)

    def apply_if(self, *arguments: Any, on: Any = None) -> Dense:
        if on is None:
            *distributions, f, condition = arguments
            return self._combine(distributions, f, condition)
        *distributions, f = arguments
        first, second = on
        return self._combine(distributions, f, lambda x, y: _key(first(x)) == _key(second(y)))

    def _combine(self, distributions: Sequence[Dense], f: Callable, condition: Callable) -> Dense:
        positions: list[tuple[int, ...]] = []
        results: dict[Hashable, tuple[Hashable, list[int]]] = {}
        for position in itertools.product(*(range(len(d.symbols)) for d in distributions)):
            symbols = [d.symbols[i] for d, i in zip(distributions, position, strict=True)]
            if condition(*symbols):
                result = f(*symbols)
                results.setdefault(_key(result), (result, []))[1].append(len(positions))
                positions.append(position)
        tags, *others = self._align(distributions)
        if not positions:
            return Dense([], tags[:, :0])
        columns = list(zip(*positions, strict=True))
        product, rows = tags, columns[0]
        for other, column in zip(others, columns[1:], strict=True):
            product = self.times(product, other, rows, column)
            rows = range(len(positions))
        if not others:
            product = product[:, list(rows)]
        return Dense(
            [symbol for symbol, _ in results.values()],
            self.plus(product, [group for _, group in results.values()]),
        )

    def filter(self, d: Dense, predicate: Callable[[Any], bool]) -> Dense:
        keep = [i for i, symbol in enumerate(d.symbols) if predicate(symbol)]
        return Dense([d.symbols[i] for i in keep], d.tags[:, keep])

    def union(self, *distributions: Dense) -> Dense:
        tags = torch.cat(self._align(distributions), dim=1)
        results: dict[Hashable, tuple[Hashable, list[int]]] = {}
        everything = itertools.chain.from_iterable(d.symbols for d in distributions)
        for position, symbol in enumerate(everything):
            results.setdefault(_key(symbol), (symbol, []))[1].append(position)
        groups = [group for _, group in results.values()]
        return Dense([symbol for symbol, _ in results.values()], self.plus(tags, groups))

    def fixpoint(self, step: Callable[[Dense], Dense], start: Dense, max_iterations: int = 100):
        for _ in range(max_iterations):
            following = step(start)
            if start.symbols == following.symbols and self._proofs(start) == self._proofs(
                following
            ):
                return following
            start = following
        raise RuntimeError("no fixpoint")

    def _proofs(self, d: Dense) -> list[list[frozenset[bytes]]]:
        tags = self._widen(d.tags.detach())
        has = torch.isfinite(tags).cpu().numpy()
        exists = (tags[..., 0] > -INF).cpu().numpy()
        return [
            [
                frozenset(p.tobytes() for p, e in zip(proofs, there, strict=True) if e)
                for proofs, there in zip(row, row_there, strict=True)
            ]
            for row, row_there in zip(has, exists, strict=True)
        ]

    def sample(self, d: Dense, k: int, per_row: bool = False) -> Dense:
        """The k likeliest symbols of each row; every row keeps what any row sampled.

        With `per_row` the tags of symbols that a row did not sample become 0 in that row.
        """
        if len(d.symbols) <= k:
            return d
        with torch.no_grad():
            chosen = self.get_probs(d).topk(k, dim=1).indices
        sampled = torch.zeros(d.tags.shape[:2], dtype=torch.bool, device=d.tags.device)
        sampled.scatter_(1, chosen, True)
        keep = sampled.any(dim=0).nonzero().squeeze(1)
        tags = d.tags[:, keep]
        if per_row:
            absent = tags.new_tensor(-INF)
            tags = torch.where(sampled[:, keep, None, None], tags, absent)
        return Dense([d.symbols[i] for i in keep.tolist()], tags)

    def get_probs(self, d: Dense, symbols: Sequence[Hashable] | None = None) -> Tensor:
        probs = _norm(d.tags).prod(dim=-1).sum(dim=-1).clamp(max=1.0)
        if symbols is None:
            return probs
        column = {_key(symbol): i for i, symbol in enumerate(d.symbols)}
        nothing = probs.new_zeros(probs.shape[0])
        picked = [probs[:, column[_key(s)]] if _key(s) in column else nothing for s in symbols]
        return torch.stack(picked, dim=1)


def _pick_proofs(tags: Tensor, symbols: Tensor, proofs: Tensor) -> Tensor:
    """tags[b, symbols[p], proofs[b, p, i]] for all b, p, i."""
    flat = tags.flatten(1, 2)
    where = (symbols.view(1, -1, 1) * tags.shape[2] + proofs).flatten(1)
    picked = flat.gather(1, where.unsqueeze(-1).expand(-1, -1, flat.shape[-1]))
    return picked.unflatten(1, proofs.shape[1:])
