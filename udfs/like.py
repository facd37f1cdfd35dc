r"""SQL LIKE over UTF-8 bytes.

Law: a pattern is a row of numbers: 0 to 255 is that byte, ONE any code point, MANY any run of them. It returns only to
the last MANY (what an earlier one could swallow more, the last one can too), so time is text × pattern at most.
"""

from __future__ import annotations

from typing import Any

from udfs.jit import compiled

ONE, MANY = 256, 257


@compiled
def like(data: Any, start: int, stop: int, pattern: Any, first: int, last: int) -> Any:
    """Whether the bytes from `start` to `stop` match the pattern from `first` to `last`.

    >>> import numpy as np
    >>> text, pattern = np.frombuffer("naïf".encode(), np.uint8), np.array([110, MANY, ONE, 102], np.int16)
    >>> like(text, 0, 5, pattern, 0, 4), like(text, 0, 1, pattern, 0, 4)
    (True, False)
    """
    at, piece = start, first
    retry, after_many = -1, -1
    while at < stop or piece < last:
        now = pattern[piece] if piece < last else -1
        if now == MANY:
            piece += 1
            retry, after_many = at, piece
        elif now == ONE and at < stop:
            piece += 1
            at = _next(data, at, stop)
        elif now >= 0 and now < ONE and at < stop and data[at] == now:
            piece += 1
            at += 1
        elif retry < 0 or retry >= stop:
            return False
        else:
            retry = _next(data, retry, stop)
            at, piece = retry, after_many
    return True


@compiled
def _next(data: Any, at: int, stop: int) -> Any:
    """The start of the next code point."""
    at += 1
    while at < stop and (data[at] & 0xC0) == 0x80:
        at += 1
    return at
