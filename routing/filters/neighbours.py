"""Which boxes may lie around or inside another: a file of the least and greatest value of every attribute.

Law: an answer holds every box that does lie around (or inside), and a few that do not.

    around   a box lies around only boxes that meet its constraints, so it is found by any one of them: each box hangs
             under one, a single value that few others hang under if it has one, and is looked for there
    inside   a box lies inside only if it meets the asker's constraints, so the asker looks in the file of its own most
             telling constraint, where every box with that attribute is

Which attributes a box has is kept as bits, so that most of the others fall out at once.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.filters.line import Cut, Spans, is_point
from routing.filters.region import Box

Places = NDArray[np.int64]
_VALUE_BITS = 60


class Neighbours:
    """Boxes by their place; `around` and `inside` answer with places, never with the asker's own."""

    def __init__(self) -> None:
        self._boxes: dict[int, dict[str, Spans]] = {}
        self._hooks: dict[int, str] = {}
        self._bits: dict[str, np.uint64] = {}
        self._names = np.zeros(64, np.uint64)
        self._hung: dict[str, _File] = {}
        self._filed: dict[str, _File] = {}
        self._unbounded = _Bag()

    def add(self, place: int, box: Box) -> None:
        """File the box under its place."""
        spans = self._boxes[place] = {name: values.spans for name, values in box.items()}
        while place >= len(self._names):
            self._names = np.concatenate([self._names, np.zeros_like(self._names)])
        self._names[place] = self._names_of(spans)
        for name, some in spans.items():
            self._filed.setdefault(name, _File()).add(place, some)
        if spans:
            hook = self._hooks[place] = min(spans, key=lambda name: self._crowd(name, spans[name]))
            self._hung.setdefault(hook, _File()).add(place, spans[hook])
        else:
            self._unbounded.add(place)

    def remove(self, place: int) -> None:
        """Forget the box."""
        spans = self._boxes.pop(place)
        for name, some in spans.items():
            self._filed[name].remove(place, some)
        if spans:
            hook = self._hooks.pop(place)
            self._hung[hook].remove(place, spans[hook])
        else:
            self._unbounded.remove(place)

    def around(self, place: int) -> Places:
        """The boxes that may hold all of this one."""
        spans = self._boxes[place]
        hung = [self._hung[name].around(some) for name, some in spans.items() if name in self._hung]
        found = np.concatenate([*hung, self._unbounded.places])
        some: Places = found[(self._names[found] & ~self._names[place] == 0) & (found != place)]
        return some

    def inside(self, place: int) -> Places:
        """The boxes that may lie within this one."""
        spans = self._boxes[place]
        if not spans:
            found = np.fromiter(self._boxes, np.int64, len(self._boxes))
        else:
            name = min(spans, key=lambda name: self._filed[name].crowd(spans[name]))
            found = self._filed[name].inside(spans[name])
        some: Places = found[(~self._names[found] & self._names[place] == 0) & (found != place)]
        return some

    def _crowd(self, name: str, spans: Spans) -> int:
        return self._hung[name].crowd(spans) if name in self._hung else 0

    def _names_of(self, spans: dict[str, Spans]) -> np.uint64:
        bits = np.uint64(0)
        for name in spans:
            bits |= self._bits.setdefault(name, np.uint64(1 << len(self._bits) % 64))
        return bits


class _File:
    """The hulls of one attribute: single values by themselves, and the ends of all."""

    def __init__(self) -> None:
        self._single: dict[Spans, _Bag] = {}
        self._points, self._ranges = _Ends(), _Ends()

    def add(self, place: int, spans: Spans) -> None:
        if is_point(spans):
            self._single.setdefault(spans, _Bag()).add(place)
            self._points.add(place, spans)
        else:
            self._ranges.add(place, spans)

    def remove(self, place: int, spans: Spans) -> None:
        if not is_point(spans):
            self._ranges.remove(place)
            return
        self._points.remove(place)
        self._single[spans].remove(place)
        if not len(self._single[spans]):
            del self._single[spans]

    def around(self, spans: Spans) -> Places:
        ranges = self._ranges.around(spans)
        return np.concatenate([ranges, self._single[spans].places]) if spans in self._single else ranges

    def inside(self, spans: Spans) -> Places:
        if is_point(spans):
            return self._single[spans].places
        return np.concatenate([self._ranges.inside(spans), self._points.inside(spans)])

    def crowd(self, spans: Spans) -> int:
        """How many there are to look at, for one who comes with these spans."""
        if not is_point(spans):
            return len(self._points) + len(self._ranges)
        return len(self._single[spans]) if spans in self._single else 0


class _Bag:
    """Places in no order."""

    def __init__(self) -> None:
        self._room, self._size = np.empty(2, np.int64), 0

    def __len__(self) -> int:
        return self._size

    @property
    def places(self) -> Places:
        return self._room[: self._size]

    def add(self, place: int) -> None:
        if self._size == len(self._room):
            self._room = np.concatenate([self._room, np.empty_like(self._room)])
        self._room[self._size] = place
        self._size += 1

    def remove(self, place: int) -> None:
        [[at]] = np.nonzero(self.places == place)
        self._size -= 1
        self._room[at] = self._room[self._size]


class _Ends:
    """Rows of place and sketched ends; a row that is given up is used again, and till then fits nothing.

    A sketch is one unsigned number: the type's place on the line, then the leading bits of the value. It keeps the
    order but not every difference.
    """

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._free: list[int] = []
        self._places = np.empty(0, np.int64)
        self._low = np.empty(0, np.uint64)
        self._high = np.empty(0, np.uint64)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, place: int, spans: Spans) -> None:
        if not self._free:
            self._grow()
        row = self._rows[place] = self._free.pop()
        self._places[row], self._low[row], self._high[row] = place, _sketch(spans[0]), _sketch(spans[-1])

    def remove(self, place: int) -> None:
        row = self._rows.pop(place)
        self._low[row], self._high[row] = _NOWHERE
        self._free.append(row)

    def around(self, spans: Spans) -> Places:
        return self._places[(self._low <= _sketch(spans[0])) & (self._high >= _sketch(spans[-1]))]

    def inside(self, spans: Spans) -> Places:
        return self._places[
            (self._low >= _sketch(spans[0])) & (self._high <= _sketch(spans[-1])) & (self._low <= self._high)
        ]

    def _grow(self) -> None:
        old, new = len(self._places), max(8, 2 * len(self._places))
        self._places = np.concatenate([self._places, np.zeros(new - old, np.int64)])
        self._low = np.concatenate([self._low, np.full(new - old, _NOWHERE[0], np.uint64)])
        self._high = np.concatenate([self._high, np.full(new - old, _NOWHERE[1], np.uint64)])
        self._free = list(range(new - 1, old - 1, -1))


_NOWHERE = (np.uint64(2**64 - 1), np.uint64(0))


def _sketch(cut: Cut) -> np.uint64:
    """A number that is no greater than that of any later cut."""
    value: Any = cut[1] if len(cut) > 1 else None
    return np.uint64((cut[0] << _VALUE_BITS) + (0 if value is None else _bits(value)))


def _bits(value: Any) -> int:
    if isinstance(value, str):
        return int.from_bytes(value.encode()[:7].ljust(7, b"\0"), "big") << 4
    try:
        [bits] = struct.unpack(">q", struct.pack(">d", float(value)))
    except OverflowError:
        bits = -1 if value < 0 else 0x7FF0_0000_0000_0000
    ordered: int = bits + 2**63 if bits >= 0 else -bits - 1
    return ordered >> 4
