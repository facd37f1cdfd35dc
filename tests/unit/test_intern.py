"""Distinct strings by number: no room is too small, and nobody can write strings that meet in one place."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from udfs.intern import Interned, TooLarge

MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


def number(interned: Interned, texts: list[bytes], owner: int = 0, most: int = 1 << 40) -> list[int]:
    ends = np.cumsum([len(text) for text in texts])
    starts = ends - [len(text) for text in texts]
    data = np.frombuffer(b"".join(texts), np.uint8)
    return interned.number(data, starts, ends, owner=owner, most=most).tolist()


def crafted(count: int) -> list[bytes]:
    """Strings of two words that a multiplication by MIX alone sends to one place: the second undoes the first."""
    first = np.random.default_rng(0).integers(0, 1 << 63, count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = (np.uint64(16) * MIX ^ first) * MIX
    mixed ^= mixed >> np.uint64(32)
    return [row.tobytes() for row in np.stack([first, mixed ^ MIX], axis=1)]


def differing(count: int) -> list[bytes]:
    """Strings that differ in a few high bits, in both words alike: what a multiplication loses."""
    bits = np.arange(count, dtype=np.uint64) << np.uint64(50)
    return [row.tobytes() for row in np.stack([bits, bits], axis=1)]


def hashes(interned: Interned) -> NDArray[np.uint64]:
    return interned._hashes[: interned.count]


def longest(interned: Interned) -> int:
    """The most places of the table in a row that are taken."""
    free = np.flatnonzero(np.append(interned._table, -1) < 0)
    return int(np.diff(free, prepend=-1).max()) - 1


def test_equal_bytes_of_one_owner_have_one_number() -> None:
    interned = Interned()
    texts = [b"", b"a", b"ab", b"\0a", b"a\0", b"12345678", b"123456789", b"a", b""]
    assert number(interned, texts) == [0, 1, 2, 3, 4, 5, 6, 1, 0]
    assert number(interned, texts[:2], owner=1) == [7, 8]
    assert number(interned, texts[::-1]) == [0, 1, 6, 5, 4, 3, 2, 1, 0]
    assert interned.owners[:9].tolist() == [0] * 7 + [1, 1]


@pytest.mark.parametrize("texts", [crafted(4000), differing(4000)], ids=["crafted", "differing"])
def test_crafted_strings_do_not_collide(texts: list[bytes]) -> None:
    interned = Interned()
    number(interned, texts)
    assert len(np.unique(hashes(interned))) == interned.count == 4000
    assert longest(interned) < 100


def test_each_table_has_a_secret_of_its_own() -> None:
    one, other = Interned(), Interned()
    texts = crafted(100)
    assert number(one, texts) == number(other, texts)
    assert not np.isin(hashes(one), hashes(other)).any()


def test_strings_of_more_bytes_than_allowed_are_too_large() -> None:
    texts = [b"x" * length for length in range(1, 100)]
    interned = Interned()
    assert number(interned, texts, most=4950) == list(range(99))
    assert number(interned, texts, most=4950) == list(range(99))
    with pytest.raises(TooLarge):
        number(interned, [b"y"], most=4950)
    assert len(interned.data) <= 4950
