"""The number that a value stands for (SPEC §2): all numeric types are one ordered domain, compared exactly.

Law: the mapping keeps the order of each type, and equal numbers come out as Python values that are equal. A double
stands for the number it prints as: its exact value if it is integral, else the shortest decimal that reads back as it.
"""

from __future__ import annotations

import math
from decimal import Decimal


def exact(number: int | float | Decimal) -> int | Decimal:
    """The number as an int or a Decimal; infinities and NaN are Decimals too.

    >>> exact(0.1), exact(1e23), exact(-0.0), exact(float("inf"))
    (Decimal('0.1'), 99999999999999991611392, 0, Decimal('Infinity'))
    """
    if not isinstance(number, float):
        return number
    # float.__repr__, because a subclass (numpy's) may print otherwise.
    return int(number) if math.isfinite(number) and number.is_integer() else Decimal(float.__repr__(number))


def canonical(number: int | float | Decimal) -> int | Decimal:
    """One spelling for each finite number: an int if it is integral, else a Decimal without trailing zeros.

    >>> canonical(1e2), canonical(Decimal("2.50")), canonical(Decimal("-0.0")), canonical(1e-1)
    (100, Decimal('2.5'), 0, Decimal('0.1'))
    """
    value = exact(number)
    if value == int(value):
        return int(value)
    # Not Decimal.normalize(): it would round to the precision of the context.
    return Decimal(f"{value:f}".rstrip("0"))
