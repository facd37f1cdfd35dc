"""Oracles of the filter algebra, which share nothing with it but the tree and what a tree means for one event."""

from tests.oracles.arithmetic import Arithmetic
from tests.oracles.grid import Event, Grid, counterexample_to_cover, leaves, witness, witness_of_overlap

__all__ = ["Arithmetic", "Event", "Grid", "counterexample_to_cover", "leaves", "witness", "witness_of_overlap"]
