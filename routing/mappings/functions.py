"""The functions of the language: how many arguments each takes.

Law: a name that is not here does not parse.
"""

from __future__ import annotations

MANY = 10**9

FUNCTIONS: dict[str, tuple[int, int]] = {
    "UPPER": (1, 1),
    "LOWER": (1, 1),
    "TRIM": (1, 1),
    "LTRIM": (1, 1),
    "RTRIM": (1, 1),
    "CONCAT": (1, MANY),
    "SUBSTRING": (2, 3),
    "REPLACE": (3, 3),
    "LENGTH": (1, 1),
    "ABS": (1, 1),
    "ROUND": (1, 2),
    "FLOOR": (1, 1),
    "CEIL": (1, 1),
    "COALESCE": (1, MANY),
    "NULLIF": (2, 2),
    "GREATEST": (2, MANY),
    "LEAST": (2, MANY),
}
"""The least and the greatest number of arguments; CAST and CASE have a grammar of their own."""

MOST_DIGITS = 18
"""ROUND's second argument is a whole number from 0 to this, written out."""
