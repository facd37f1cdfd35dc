"""The lanes as the encoder needs them: cut points in each slot's own numbers, words with their codes, patterns.

Law: whatever slot a value is read through, its code is that of the constants around it, for the slots of one kind cut
at the same constants, each in its own unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from routing.filters.like import Wildcard, compile_like
from routing.matching.clauses import KINDS, STRING, Clauses, Op
from routing.matching.cuts import KIND
from routing.matching.predicates import Lanes, by_rank, text_ranks
from udfs.automaton import Patterns, build
from udfs.columns import Slot, is_any
from udfs.encode import Encoding
from udfs.like import MANY, ONE
from udfs.strings import Words


@dataclass(frozen=True, slots=True)
class Encodings:
    """What turns the columns into codes and tokens; `text_slots` gives each lane's text slot, or -1."""

    slots: tuple[Slot, ...]
    encoding: Encoding
    words: Words
    patterns: Patterns
    text_slots: NDArray[np.int32]


def encodings(clauses: Clauses, lanes: Lanes, tokens: NDArray[np.int64], schema: pa.Schema) -> Encodings:
    """The slots that some predicate asks for, with their cuts; the words and the patterns of text."""
    slots: list[Slot] = []
    rows: list[tuple[int, int, int]] = []
    cuts: list[NDArray[np.int64]] = []
    texts = [segment for segment in range(len(lanes.segments)) if lanes.segments[segment] % len(KINDS) == STRING]
    text_slots = np.full(len(lanes.columns), -1, np.int32)
    of_rank = by_rank(clauses.numbers.ranks())
    length = 0
    for segment, (lane, kind) in enumerate(_lane_and_kind(lanes)):
        base, first, last = lanes.bases[segment], lanes.cut_starts[segment], lanes.cut_starts[segment + 1]
        for slot in lanes.slots[lane]:
            if KIND[slot.domain] is not KINDS[kind]:
                continue
            slots.append(slot)
            if kind == STRING:
                text_slots[lane] = texts.index(segment)
                rows.append((base, text_slots[lane], text_slots[lane]))
                continue
            numbers = of_rank[lanes.cut_ranks[first:last]]
            cuts.append(clauses.numbers.cut(slot, numbers, lanes.cut_above[first:last]))
            rows.append((base, length, length + len(cuts[-1])))
            length += len(cuts[-1])
    any_typed = [is_any(schema.field(name)) for name in lanes.columns]
    encoding = Encoding(
        np.array(rows, np.int64).reshape(-1, 3),
        np.concatenate([np.empty(0, np.int64), *cuts]),
        np.stack([lanes.tops, np.array(any_typed, np.int64)], axis=1).astype(np.int32),
    )
    patterns = _patterns(clauses, tokens, text_slots, len(texts))
    return Encodings(tuple(slots), encoding, _words(clauses, lanes, texts), patterns, text_slots)


def _lane_and_kind(lanes: Lanes) -> list[tuple[int, int]]:
    return [divmod(segment, len(KINDS)) for segment in lanes.segments.tolist()]


def _words(clauses: Clauses, lanes: Lanes, texts: list[int]) -> Words:
    """The words of each text segment: a string below one has counted the cuts of those before, the word its own too."""
    of_rank = by_rank(text_ranks(clauses))
    numbers, codes, slots, count = [], [], [], 0
    for segment in texts:
        first, last = lanes.cut_starts[segment], lanes.cut_starts[segment + 1]
        words, place = np.unique(lanes.cut_ranks[first:last], return_index=True)
        below = lanes.bases[segment] + place
        numbers.append(of_rank[words])
        codes.append(np.stack([below, below + ~lanes.cut_above[first:last][place]], axis=1))
        slots.append((count, count + len(words), lanes.bases[segment] + last - first))
        count += len(words)
    number = np.concatenate([np.empty(0, np.int64), *numbers])
    data, starts = _picked(clauses, number)
    flat = np.concatenate([np.empty((0, 2), np.int64), *codes]).astype(np.int32)
    return Words(data, starts, flat, np.array(slots, np.int64).reshape(-1, 3))


def _picked(clauses: Clauses, numbers: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """These texts, end to end."""
    starts = clauses.texts.starts
    lengths = starts[numbers + 1] - starts[numbers]
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts[numbers] - ends + lengths, lengths)
    return clauses.texts.data[places], np.append(0, ends).astype(np.int64)


def _patterns(clauses: Clauses, tokens: NDArray[np.int64], text_slots: NDArray[np.int32], slots: int) -> Patterns:
    roots, texts, likes = [], [], []
    for lane, op, number in tokens.tolist():
        text, codes = clauses.texts[number], list[int]()
        if op == Op.LIKE:
            text, codes = _like(text.decode())
        roots.append(2 * int(text_slots[lane]) + (op == Op.SUFFIX))
        texts.append(text)
        likes.append(codes)
    return build(slots, np.array(roots, np.int32), texts, likes)


def _like(pattern: str) -> tuple[bytes, list[int]]:
    """The longest plain piece of a pattern, and the pattern as the kernel reads it."""
    wild = {Wildcard.MANY: MANY, Wildcard.ONE: ONE}
    pieces = compile_like(pattern)
    plain = [piece.encode() for piece in pieces if isinstance(piece, str)]
    codes = [code for piece in pieces for code in (piece.encode() if isinstance(piece, str) else [wild[piece]])]
    return max(plain, key=len, default=b""), codes
