"""All numeric constants of a program, in exact order, and as cut points of a slot's own numbers.

Law: a constant v cuts a slot at the first of the slot's numbers that is at least v, and at the first that is more.
Nothing is rounded. The constants that people write fit the fast way, arrays of mantissa·10^-scale: integers of 64
bit, and decimals of up to 15 digits, which are in the same order as the doubles nearest to them and print as they do
(IEEE 754 doubles keep 15 digits). The others take the slow way, one by one, by exact fractions (`cuts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.matching.cuts import Number, above, bounds, least, nearest_double
from udfs.columns import SIGN, Domain, Slot
from udfs.ranks import ordered

_DIGITS = 15
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_EXACT = 1 << 53  # integers up to here are doubles
_POWERS = np.array([float(f"1e{scale}") for scale in range(_DIGITS + 1)])
_WORD = (1 << 64) - 1
_NEAR = 1 << 31  # seconds: doubles up to here tell microseconds apart


@dataclass(frozen=True, slots=True)
class NumberTable:
    """Numbers: `mantissas[i]`·10^-`scales[i]`, or `slow[i]`; equal ones in equal form."""

    mantissas: NDArray[np.int64]
    scales: NDArray[np.int16]
    slow: Mapping[int, Number]

    def ranks(self) -> NDArray[np.int64]:
        """The place of each in their exact order; equal ones share it.

        >>> table([Decimal("0.5"), 2**53 + 1, 2**53, -1, 2**53]).ranks()
        array([1, 3, 2, 0, 2])
        """
        near, ties = self._doubles(), np.where(self.scales == 0, self.mantissas, 0)
        places = np.array(list(self.slow), np.int64)
        if len(places):
            near[places] = [nearest_double(number) for number in self.slow.values()]
            close = np.flatnonzero(np.isin(near, near[places]))  # only here can two numbers share a double
            exact = {number: self.exactly(number) for number in close.tolist()}
            place = {value: place for place, value in enumerate(sorted(set(exact.values())))}
            ties[close] = [place[exact[number]] for number in close.tolist()]
        order = np.lexsort((ties, near))
        differ = np.ones(len(order), np.int64)
        differ[1:] = (near[order][1:] != near[order][:-1]) | (ties[order][1:] != ties[order][:-1])
        ranks = np.empty(len(near), np.int64)
        ranks[order] = np.cumsum(differ) - 1
        return ranks

    def cut(self, slot: Slot, numbers: NDArray[Any], strictly: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Where these numbers, which ascend, cut the slot: their words. Cuts that nothing reaches are left out."""
        if slot.words > 1:
            return self._slow_cuts(slot, numbers, strictly)
        if slot.domain is Domain.DOUBLE:
            cuts, simple = self._double_cuts(numbers, strictly)
        else:
            cuts, simple = self._integer_cuts(slot, numbers, strictly)
        hard = np.flatnonzero(~simple | np.isin(numbers, np.array(list(self.slow), np.int64)))
        beyond = np.zeros(len(cuts), np.bool_)
        for place in hard.tolist():
            cut = self._slow_cut(slot, int(numbers[place]), bool(strictly[place]))
            beyond[place], cuts[place] = cut is None, cut or 0
        kept: NDArray[np.int64] = cuts[~beyond]
        return kept

    def exactly(self, number: int) -> Any:
        """The number itself."""
        found = self.slow.get(number)
        return Fraction(int(self.mantissas[number]), 10 ** int(self.scales[number])) if found is None else found

    def _doubles(self) -> NDArray[np.float64]:
        near: NDArray[np.float64] = self.mantissas / _POWERS[self.scales]
        return near

    def _double_cuts(self, numbers: NDArray[Any], strictly: NDArray[np.bool_]) -> tuple[Any, Any]:
        mantissas, scales = self.mantissas[numbers], self.scales[numbers]
        near = mantissas / _POWERS[scales]
        cuts = ordered(np.where(strictly, np.nextafter(near, np.inf), near))
        return cuts, np.abs(mantissas) <= _EXACT

    def _integer_cuts(self, slot: Slot, numbers: NDArray[Any], strictly: NDArray[np.bool_]) -> tuple[Any, Any]:
        """ceil(v·10^scale), or strictly floor + 1; unless 64 bit may be too few."""
        mantissas, shift = self.mantissas[numbers], slot.scale - self.scales[numbers].astype(np.int64)
        factor = 10 ** np.clip(np.abs(shift), 0, 18)
        room = _LARGEST // factor
        larger = shift >= 0
        simple = (np.abs(shift) <= 18) & ~(larger & ((mantissas >= room) | (mantissas <= -room)))
        with np.errstate(over="ignore"):
            floor = np.where(larger, mantissas * factor, mantissas // factor)
            whole = larger | (floor * factor == mantissas)
            cuts = np.where(strictly | ~whole, floor + 1, floor)
        if slot.domain is Domain.UNSIGNED:
            simple &= cuts >= 0
            cuts = (cuts.view(np.uint64) ^ SIGN).view(np.int64)
        return cuts, simple & (mantissas < _LARGEST)

    def _slow_cuts(self, slot: Slot, numbers: NDArray[Any], strictly: NDArray[np.bool_]) -> NDArray[np.int64]:
        words: list[int] = []
        for number, strict in zip(numbers.tolist(), strictly.tolist(), strict=True):
            cut = (above if strict else least)(slot, self.exactly(number))
            lowest, highest = bounds(slot)
            if cut <= highest:
                shifted = max(int(cut), lowest) - lowest
                words += [shifted >> 64 * word & _WORD for word in reversed(range(slot.words))]
        return np.array(words, np.uint64).view(np.int64)

    def _slow_cut(self, slot: Slot, number: int, strictly: bool) -> int | None:
        cut = (above if strictly else least)(slot, self.exactly(number))
        if slot.domain is Domain.DOUBLE:
            return int(ordered(np.array([cut], np.float64))[0])
        lowest, highest = bounds(slot)
        return None if cut > highest else max(int(cut), lowest) - (lowest - _SMALLEST)


def table(values: Sequence[Number]) -> NumberTable:
    """The table of these numbers."""
    mantissas, scales = np.zeros(len(values), np.int64), np.zeros(len(values), np.int16)
    slow: dict[int, Number] = {}
    for place, value in enumerate(values):
        split = _split(value)
        if split is None:
            slow[place] = value
        else:
            mantissas[place], scales[place] = split
    return NumberTable(mantissas, scales, slow)


def _split(value: Number) -> tuple[int, int] | None:
    """Mantissa and scale, if the fast way is exact; equal numbers give equal ones."""
    if isinstance(value, int):
        return (value, 0) if _SMALLEST < value < _LARGEST else None
    if isinstance(value, Fraction):
        if abs(value) > _NEAR or 10**6 % value.denominator:
            return None
        value = Decimal(value.numerator * (10**6 // value.denominator)).scaleb(-6)
    digits = f"{value:f}".rstrip("0")
    mantissa, scale = int(digits.replace(".", "")), len(digits) - digits.find(".") - 1
    if "." not in digits or scale > _DIGITS or abs(mantissa) >= _EXACT:
        return None
    microseconds = scale <= 6 and abs(value) <= _NEAR
    return (mantissa, scale) if microseconds or abs(mantissa) < 10**_DIGITS else None
