"""An Arrow column as the kernel sees it: plain numbers of one native domain, or bytes, and which rows hold a value.

Law: a slot is one way to read an attribute's values, and reading keeps order and equality exactly: integers stay 64
bit, decimals become their unscaled integers, booleans 0 and 1, dates days, timestamps ticks of the column's own unit,
strings their UTF-8 bytes. Nothing is rounded, and buffers are read in place where Arrow's layout allows it. What stands
in the place of a null is arbitrary.

An any-typed attribute (a field of a VARIANT) is a struct with one child per type: one attribute, several slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Bools: TypeAlias = NDArray[np.bool_]

ANY = {b"sluice": b"any"}
"""The field metadata that marks a struct column as any-typed."""

SIGN = np.uint64(1 << 63)
"""Flipped in the most significant word of a wide decimal, it makes unsigned order the order of signed numbers."""

_ANY_CHILDREN = ("integer", "double", "decimal", "string", "boolean", "date", "timestamp")
_ANY_DECIMAL = pa.decimal256(76, 38)  # holds every VARIANT decimal (38 digits, scale 0 to 38) exactly
_TICKS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DAY_MS = 86_400_000
_ALL = np.empty(0, np.bool_)
_NARROW = 18  # digits of a decimal whose unscaled value always fits 64 bits


class Domain(Enum):
    """What a slot's numbers stand for."""

    INTEGER = "integer"
    UNSIGNED = "unsigned"
    DOUBLE = "double"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Slot:
    """One way to read the column at position `column` of a program.

    A constant v meets the slot's numbers as v·10^scale. `words` is the number of 64-bit words of one of them. `child`
    names the alternative of an any-typed column.
    """

    column: int
    child: str
    domain: Domain
    scale: int = 0
    words: int = 1


@dataclass(frozen=True, slots=True)
class Numbers:
    """The rows of a slot of numbers; `valid` is empty where every row is.

    `values` are int64 or float64, except for wide decimals: there it holds a row of numbers per word, the most
    significant first, all unsigned.
    """

    values: NDArray[Any]
    valid: Bools


@dataclass(frozen=True, slots=True)
class Texts:
    """The rows of a slot of strings: row r has the bytes from `firsts[r]` to `lasts[r]`."""

    data: NDArray[np.uint8]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]
    valid: Bools


def slots(position: int, field: pa.Field) -> tuple[Slot, ...]:
    """The ways to compare the values of a field: none for a list or a map, several for an any-typed one.

    >>> slots(0, pa.field("price", pa.decimal128(10, 2)))
    (Slot(column=0, child='', domain=<Domain.DECIMAL: 'decimal'>, scale=2, words=1),)
    >>> slots(0, pa.field("tags", pa.list_(pa.string())))
    ()
    """
    if not is_any(field):
        found = _slot(position, "", field.type)
        return (found,) if found else ()
    children = {child.name: child.type for child in field.type}
    return tuple(
        slot
        for name in _ANY_CHILDREN
        if name in children and (slot := _slot(position, name, _any_type(name, children[name])))
    )


def is_any(field: pa.Field) -> bool:
    """Is the field an any-typed attribute?"""
    return pa.types.is_struct(field.type) and (field.metadata or {}).get(b"sluice") == ANY[b"sluice"]


def present(array: pa.Array, children: bool) -> Bools:
    """The rows that are not null; of an any-typed column, those with a child that is not.

    >>> present(pa.array([1, None]), False)
    array([ True, False])
    """
    if not children:
        return _valid(_bare(array))
    if not pa.types.is_struct(array.type):
        raise TypeError(f"expected an any-typed column, found {array.type}")
    found = np.zeros(len(array), np.bool_)
    for child in array.flatten():
        found |= _valid(_bare(child))
    return found


def read(array: pa.Array, slot: Slot) -> Numbers | Texts:
    """The array through the slot. Raises TypeError if it is not of the type that the slot was made for.

    >>> read(pa.array([True, None]), Slot(0, "", Domain.BOOLEAN))
    Numbers(values=array([1, 0]), valid=array([ True, False]))
    """
    if slot.child:
        array = _child(array, slot.child)
    array = _bare(array)
    if slot.child and slot.domain is Domain.DECIMAL and _is_text(_bare_type(array.type)):
        array = array.cast(pa.string()).cast(_ANY_DECIMAL)
    if _slot(slot.column, slot.child, array.type) != slot:
        raise TypeError(f"expected a column of {slot.domain.value} values (scale {slot.scale}), found {array.type}")
    valid = frozen(_valid(array) if array.null_count or pa.types.is_dictionary(array.type) else _ALL)
    if slot.domain is Domain.TEXT:
        return _texts(array, valid)
    return Numbers(frozen(_numbers(array, slot)), valid)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array, read-only: so is one from Arrow or a file, and machine code is made for one sort, not for both."""
    array.flags.writeable = False
    return array


def _slot(position: int, child: str, type: pa.DataType) -> Slot | None:
    """The slot for a plain type, or None if its values have no comparable kind."""
    type = _bare_type(type)
    if pa.types.is_uint64(type):
        return Slot(position, child, Domain.UNSIGNED)
    if pa.types.is_integer(type):
        return Slot(position, child, Domain.INTEGER)
    if pa.types.is_floating(type):
        return Slot(position, child, Domain.DOUBLE)
    if pa.types.is_decimal(type):
        words = 1 if type.precision <= _NARROW else type.bit_width // 64
        return Slot(position, child, Domain.DECIMAL, type.scale, words)
    if pa.types.is_boolean(type):
        return Slot(position, child, Domain.BOOLEAN)
    if pa.types.is_date(type):
        return Slot(position, child, Domain.DATE)
    if pa.types.is_timestamp(type):
        return Slot(position, child, Domain.TIMESTAMP, _TICKS[type.unit])
    return Slot(position, child, Domain.TEXT) if _is_text(type) else None


def _is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def _bare_type(type: pa.DataType) -> pa.DataType:
    """The type of the values, without the layers that only say how they are stored."""
    while True:
        if isinstance(type, pa.BaseExtensionType):
            type = type.storage_type
        elif pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
            type = type.value_type
        else:
            return type


def _any_type(name: str, type: pa.DataType) -> pa.DataType:
    return _ANY_DECIMAL if name == "decimal" and _is_text(_bare_type(type)) else type


def _bare(array: pa.Array) -> pa.Array:
    """The array without those layers; but strings stay in their dictionary, where each lies once."""
    while array.type != _bare_type(array.type):
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        elif _is_text(array.type.value_type) and len(array.dictionary):
            return array
        else:
            array = array.dictionary_decode()
    return array


def _valid(array: pa.Array) -> Bools:
    """The rows that are not null. A dictionary may hold a null, which the array's own bitmap does not show."""
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        rows = array.dictionary.is_valid().take(array.indices).fill_null(False)
    else:
        rows = array.is_valid()
    found: Bools = rows.to_numpy(zero_copy_only=False)
    return found


def _child(array: pa.Array, name: str) -> pa.Array:
    """A child of a struct, null where the struct is."""
    position = array.type.get_field_index(name) if pa.types.is_struct(array.type) else -1
    if position < 0:
        raise TypeError(f"expected an any-typed column with a child {name!r}, found {array.type}")
    return array.flatten()[position]  # `field` would ignore the struct's own nulls and its offset


def _texts(array: pa.Array, valid: Bools) -> Texts:
    """The strings where they lie: the rows of a dictionary point into it, however long it would be row by row."""
    rows: Any = slice(None)
    if pa.types.is_dictionary(array.type):
        array, rows = array.dictionary, array.indices.fill_null(0).to_numpy()
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    _, offsets, data = array.buffers()
    starts = _raw(offsets, width, array.offset, len(array) + 1)
    return Texts(
        frozen(np.frombuffer(data or b"", np.uint8)),
        frozen(starts[:-1][rows].astype(np.int64, copy=False)),
        frozen(starts[1:][rows].astype(np.int64, copy=False)),
        valid,
    )


def _numbers(array: pa.Array, slot: Slot) -> NDArray[Any]:
    """The array's numbers, as int64 or float64 or words."""
    if slot.domain is Domain.DECIMAL:
        return _unscaled(array, slot.words)
    if slot.domain is Domain.DOUBLE:
        array = array.cast(pa.float64())
        return _raw(array.buffers()[1], np.float64, array.offset, len(array))
    if slot.domain is Domain.BOOLEAN:
        array = array.cast(pa.int8())
    width: Any = np.dtype(f"{'u' if str(array.type).startswith('u') else 'i'}{array.type.bit_width // 8}")
    numbers = _raw(array.buffers()[1], width, array.offset, len(array))
    if slot.domain is Domain.UNSIGNED:
        return (numbers ^ SIGN).view(np.int64)
    numbers = numbers.astype(np.int64, copy=False)
    return numbers // _DAY_MS if pa.types.is_date64(array.type) else numbers


def _raw(buffer: pa.Buffer | None, type: Any, offset: int, count: int) -> NDArray[Any]:
    """Numbers straight from a buffer; a column of length 0 may have none."""
    if buffer is None or count == 0 or buffer.size == 0:
        return np.zeros(count, type)
    return np.frombuffer(buffer, type, count, offset * np.dtype(type).itemsize)


def _unscaled(array: pa.Array, words: int) -> NDArray[Any]:
    """The unscaled integers of a decimal array, read from its buffer: Arrow holds them as little-endian words."""
    if array.type.bit_width < 128:
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    stored = array.type.bit_width // 64
    grid = _raw(array.buffers()[1], np.uint64, array.offset * stored, len(array) * stored).reshape(-1, stored)
    if words == 1:
        return np.ascontiguousarray(grid[:, 0]).view(np.int64)
    most_significant_first = np.ascontiguousarray(grid[:, ::-1].T)
    most_significant_first[0] ^= SIGN
    return most_significant_first
