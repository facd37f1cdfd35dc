"""Which subscriptions match which events: filters compiled once, then run by the kernel in `udfs`."""

from routing.matching.compile import compile_program
from udfs.program import Program

__all__ = ["Program", "compile_program"]
