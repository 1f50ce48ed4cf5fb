"""Numbers with derivatives: a value, and its gradient with respect to the entries of the inputs.

Values may be complex. An input entry that is x + i·h·v for a tiny h carries the direction v along,
and the imaginary part of a gradient, divided by h, is then the derivative of that gradient along v:
the second derivatives come for free.

Values may also be numbers of `DIGITS` digits, for programs in which doubles round too much.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Hashable, Iterable
from typing import Any

import mpmath

TIE = 1e-6  # values closer than this are taken as equal: there the gradient is a convention
STEP = 1e-40  # the imaginary part of an input that has a direction
DIGITS = 60

Number = Any  # float, complex, or mpmath's


class Jet:
    """A number and its gradient; `smooth` is False where the gradient is a convention."""

    __slots__ = ("grad", "smooth", "value")

    def __init__(
        self, value: Number, grad: dict[Hashable, Number] | None = None, smooth: bool = True
    ):
        self.value = value
        self.grad = {} if grad is None else grad
        self.smooth = smooth

    @property
    def real(self) -> float:
        return self.value.real

    @property
    def imag(self) -> float:
        return self.value.imag

    def __repr__(self) -> str:
        return f"Jet({self.real:.6g}{'' if self.smooth else ', corner'})"

    def __add__(self, other: Jet | Number) -> Jet:
        if not isinstance(other, Jet):
            return Jet(self.value + other, self.grad, self.smooth)
        grad = dict(self.grad)
        for key, part in other.grad.items():
            grad[key] = grad.get(key, 0.0) + part
        return Jet(self.value + other.value, grad, self.smooth and other.smooth)

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return self * -1.0

    def __sub__(self, other: Jet | Number) -> Jet:
        return self + -other

    def __rsub__(self, other: Number) -> Jet:
        return -self + other

    def __mul__(self, other: Jet | Number) -> Jet:
        if not isinstance(other, Jet):
            return Jet(
                self.value * other, {k: g * other for k, g in self.grad.items()}, self.smooth
            )
        grad = {key: part * other.value for key, part in self.grad.items()}
        for key, part in other.grad.items():
            grad[key] = grad.get(key, 0.0) + part * self.value
        return Jet(self.value * other.value, grad, self.smooth and other.smooth)

    __rmul__ = __mul__

    def __truediv__(self, other: Jet) -> Jet:
        inverse = other.through(1.0 / other.value, -1.0 / other.value**2)
        quotient = self * inverse
        # x / x is 1, which x * (1 / x) is not always.
        return Jet(self.value / other.value, quotient.grad, quotient.smooth)

    def through(self, value: Number, slope: Number) -> Jet:
        """A function of this number, given its value and its slope here."""
        return Jet(value, {key: part * slope for key, part in self.grad.items()}, self.smooth)

    def exp(self) -> Jet:
        value = _functions(self.value).exp(self.value)
        return self.through(value, value)

    def log(self) -> Jet:
        return self.through(_functions(self.value).log(self.value), 1.0 / self.value)

    def expm1(self) -> Jet:
        """exp(x) - 1, without the rounding of a small x; an imaginary part is infinitesimal."""
        slope = _functions(self.value).exp(self.value)
        if is_precise(self.value):
            return self.through(slope - 1.0, slope)
        value = math.expm1(self.real) + 1j * self.imag * math.exp(self.real)
        return self.through(value, slope)

    def log1p(self) -> Jet:
        if is_precise(self.value):
            return (self + 1.0).log()
        value = math.log1p(self.real) + 1j * self.imag / (1.0 + self.real)
        return self.through(value, 1.0 / (1.0 + self.value))

    def sqrt(self) -> Jet:
        value = _functions(self.value).sqrt(self.value)
        return self.through(value, 0.5 / value)

    def cornered(self, corner: bool = True) -> Jet:
        """The same, where the gradient is a convention if `corner`."""
        return Jet(self.value, self.grad, self.smooth and not corner)


def is_precise(value: Number) -> bool:
    """Whether a number has `DIGITS` digits."""
    return isinstance(value, (mpmath.mpf, mpmath.mpc))


def _functions(value: Number) -> Any:
    return mpmath if is_precise(value) else cmath


def total(numbers: Iterable[Jet]) -> Jet:
    result = Jet(0.0)
    for number in numbers:
        result = result + number
    return result


def product(numbers: Iterable[Jet]) -> Jet:
    result = Jet(1.0)
    for number in numbers:
        result = result * number
    return result


def largest(numbers: list[Jet]) -> Jet:
    """The largest of several. Equal numbers that are not one and the same make a corner."""
    best = max(numbers, key=lambda number: number.real)
    rivals = [n for n in numbers if n is not best and abs(n.real - best.real) < TIE]
    return best.cornered(any(not rival.smooth or rival.grad != best.grad for rival in rivals))


def smallest(numbers: list[Jet]) -> Jet:
    return -largest([-number for number in numbers])


def softmax(logits: list[Jet]) -> list[Jet]:
    """Probabilities of one choice; a logit of -inf is probability 0 without gradient."""
    highest = max(logit.real for logit in logits)
    weights = [
        Jet(0.0) if logit.real == float("-inf") else (logit - highest).exp() for logit in logits
    ]
    below = total(weights)
    return [weight / below for weight in weights]


def sigmoid(logit: Jet) -> Jet:
    if logit.real == float("-inf"):
        return Jet(0.0)
    if logit.real < 0:
        raised = logit.exp()
        return raised / (raised + 1.0)
    return Jet(1.0) / ((-logit).exp() + 1.0)
