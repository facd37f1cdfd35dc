"""Compilation of the kernels to machine code, and the instructions that Python has no word for.

Law: a compiled function is a plain function of arrays; it holds no lock of the interpreter, and its machine code is
kept on disk, so that a worker compiles nothing that another one has. It is kept under a hash of all kernels' sources:
a function that changes takes the code of those that call it with it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numba.extending
from llvmlite import ir

_intrinsic: Any = numba.extending.intrinsic
_KEPT = 3


def _sources() -> str:
    """A hash of everything that may hold compiled functions."""
    here = Path(__file__).parent
    files = sorted([*here.glob("*.py"), *(here.parent / "routing" / "matching").glob("*.py")])
    return hashlib.blake2b(b"".join(file.read_bytes() for file in files), digest_size=8).hexdigest()


def _cache() -> Path:
    """Where machine code is kept: the user's cache, or a temporary directory if that cannot be written."""
    home = os.environ.get("XDG_CACHE_HOME")
    kept = (Path(home) if home else Path.home() / ".cache") / "sluice" / "kernels"
    try:
        kept.mkdir(parents=True, exist_ok=True)
        if not os.access(kept, os.W_OK):
            raise PermissionError(kept)
    except OSError:
        kept = Path(tempfile.gettempdir()) / f"sluice-kernels-{os.getuid()}"
        kept.mkdir(mode=0o700, exist_ok=True)
        if kept.stat().st_uid != os.getuid():  # somebody else's code is not run
            kept = Path(tempfile.mkdtemp(prefix="sluice-kernels-"))
    return kept


def _keep_code() -> None:
    """Tell numba where to keep machine code; that of sources long gone makes room."""
    own = _cache() / _sources()
    if not own.exists():
        own.mkdir(parents=True, exist_ok=True)
        by_age = sorted(own.parent.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in by_age[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    numba.config.CACHE_DIR = str(own)  # type: ignore[attr-defined]


_keep_code()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, compiled when it is first called."""
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
def popcount(typing_context: Any, word: Any) -> Any:
    """How many bits are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return numba.types.uint64(numba.types.uint64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def folded(typing_context: Any, left: Any, right: Any) -> Any:
    """The two halves of the 128-bit product, one xor the other."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, half = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(one, wide) for one in arguments))
        return builder.xor(builder.trunc(product, half), builder.trunc(builder.lshr(product, wide(64)), half))

    return numba.types.uint64(numba.types.uint64, numba.types.uint64), generate


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
