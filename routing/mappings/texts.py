"""The functions of text on columns, where nothing raises and nothing grows without bound.

Law: the length of what CONCAT and REPLACE make is known before it is made; a text that is too long is NULL.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.mappings.limits import FAR
from routing.mappings.typed import Typed, bound

_TRIMS = {"TRIM": F.trim, "LTRIM": F.ltrim, "RTRIM": F.rtrim}
_CASES = {"UPPER": F.upper, "LOWER": F.lower}


def text_function(function: str, texts: list[Typed], longest: int) -> Typed:
    """The function of these texts."""

    def body(*columns: Column) -> Column:
        fits = reduce(lambda a, b: a & b, (F.char_length(column) <= longest for column in columns))
        return F.when(fits, _made(function, columns, longest))

    column, size = bound(texts, body, 16)
    return Typed(column, T.StringType(), size)


def _made(function: str, columns: tuple[Column, ...], longest: int) -> Column:
    if function in _TRIMS:
        return _TRIMS[function](columns[0])
    if function in _CASES:
        made = _CASES[function](columns[0])
        return F.when(F.char_length(made) <= longest, made)
    if function == "CONCAT":
        return F.when(reduce(add, map(F.char_length, columns)) <= longest, F.concat(*columns))
    return _replaced(columns[0], columns[1], columns[2], longest)


def _replaced(text: Column, old: Column, new: Column, longest: int) -> Column:
    """REPLACE; what is left without the old texts tells how often they occur."""
    rest = F.char_length(F.replace(text, old, F.lit("")))
    times = (F.char_length(text) - rest) / F.char_length(old)
    fits = rest + times * F.char_length(new) <= longest
    return F.when(F.char_length(old) == 0, F.when(new.isNotNull(), text)).when(fits, F.replace(text, old, new))


def substring(text: Typed, places: list[Typed]) -> Typed:
    """SUBSTRING from a place, of a length or to the end."""
    ends = [F.greatest(F.least(place.column, F.lit(FAR)), F.lit(-FAR)).cast(T.IntegerType()) for place in places]
    # GREATEST and LEAST skip NULL; a place without a value has none to clamp.
    ends = [F.when(place.column.isNotNull(), end) for place, end in zip(places, ends, strict=True)]
    length = ends[1] if len(ends) > 1 else F.lit(FAR)
    size = text.size + sum(2 * place.size + 6 for place in places)
    return Typed(F.substring(text.column, ends[0], length), T.StringType(), size + 1)
