"""Compilation of the kernels to machine code, and the two instructions that Python has no word for.

Law: a compiled function is a plain function of arrays; it holds no lock of the interpreter, and its machine code is
kept on disk, so that a worker compiles nothing that another one has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numba.extending
from llvmlite import ir

_intrinsic: Any = numba.extending.intrinsic


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, compiled when it is first called.

    What is kept on disk is renewed when the file of the function changes, not when that of one that it calls does.
    """
    njit: Any = numba.njit(cache=True, nogil=True, error_model="numpy")
    machine_code: Callable[..., Any] = njit(function)
    return machine_code


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, copied into its callers: a call would count references to every array that it hands over."""
    njit: Any = numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
    machine_code: Callable[..., Any] = njit(function)
    return machine_code


@_intrinsic  # type: ignore[untyped-decorator]
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """The place of the lowest bit that is set; the word must not be 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(numba.types.boolean, True))

    return numba.types.uint64(numba.types.uint64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def word_at(typing_context: Any, data: Any, at: Any) -> Any:
    """The eight bytes of a byte array that start at a place, as one number. All eight must be there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        word = context.get_value_type(numba.types.uint64)
        return builder.load(builder.bitcast(place, word.as_pointer()), align=1)

    return numba.types.uint64(data, numba.types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, data: Any, at: Any) -> Any:
    """Ask for a place of an array to be brought near; a place outside of it does no harm."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        type = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (place.type,), type)
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return numba.types.void(data, numba.types.int64), generate
