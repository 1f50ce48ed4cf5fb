"""The program of AddN: addition as it is taught at school, from the right, with a carry.

While training, the label is known. Each column then only has to say whether the two digits and the
carry end in the label's digit, and what they carry. That is exact and takes two carries per column
instead of 10ᴺ sums.
"""

from collections.abc import Sequence

import dolphin as dl

Number = Sequence[dl.Distribution]
"""A number: one distribution over digits per place, the most significant first."""


def carry_on(x: Number, y: Number, sums: Sequence[int]) -> dl.Distribution:
    """The last carry, where all other digits are those of each row's own sum.

    P(carry = s) is the probability that x + y is the number with s before the other digits.

    >>> two, nine = dl.Distribution.certain(2), dl.Distribution.certain(9)
    >>> carry_on([two, nine], [nine, two], [121]).row(0)
    [(1, 1.0)]
    """
    carry = dl.Distribution.certain(0, batch=len(sums))
    for place, (a, b) in enumerate(zip(reversed(x), reversed(y), strict=True)):
        digit = dl.Distribution.certain_rows([s // 10**place % 10 for s in sums])
        carry = dl.apply_if(
            dl.apply(a, b, lambda a, b: a + b), carry, digit,
            lambda column, carry, digit: (column + carry) // 10,
            lambda column, carry, digit: (column + carry) % 10 == digit,
        )  # fmt: skip
    return carry


def add(x: Number, y: Number, keep: int = 8) -> dl.Distribution:
    """The likeliest sums, for prediction: each column keeps the likeliest few partial sums.

    >>> two, nine = dl.Distribution.certain(2), dl.Distribution.certain(9)
    >>> add([two, nine], [nine, two]).argmax()
    [121]
    """
    total = dl.Distribution.certain(0, batch=x[0].batch_size)
    for place, (a, b) in enumerate(zip(reversed(x), reversed(y), strict=True)):
        column = dl.sample(dl.apply(a, b, lambda a, b: a + b), keep)
        total = dl.sample(total + column * 10**place, keep)
    return total
