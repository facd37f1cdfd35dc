"""A large program and a small one of what has changed since: the large one is neither rebuilt nor sent again.

Law: the result is that of one program over the subscriptions that are left of the base, followed by those of the delta.
A subscription that was changed is gone from the base and there again in the delta. Gone positions stay, and match
nothing, so that positions keep their meaning until the whole is compiled anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from udfs.jit import compiled
from udfs.program import Ids, Program


@dataclass(frozen=True, eq=False)
class Patched:
    """The base without the positions in `gone`, and the delta behind it; it is used as a Program is."""

    base: Program
    delta: Program
    gone: NDArray[np.bool_]

    @property
    def subscription_ids(self) -> Sequence[str]:
        """The ids of the base, those that are gone too, and then those of the delta."""
        return Ids(pa.concat_arrays([self.base.ids, self.delta.ids]))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that either of them reads."""
        return tuple(dict.fromkeys((*self.base.columns, *self.delta.columns)))

    def match(self, batch: pa.RecordBatch, tokens: pa.ListArray | None = None) -> pa.ListArray:
        """For each row the ascending positions in `subscription_ids` of the subscriptions that match it."""
        old, new = self.base.match(batch, tokens), self.delta.match(batch, tokens)
        items = np.empty(len(old.values) + len(new.values), np.int32)
        starts = np.zeros(batch.num_rows + 1, np.int32)
        total = _merge(*_flat(old), *_flat(new), self.gone, len(self.base.ids), starts, items)
        return pa.ListArray.from_arrays(pa.array(starts), pa.array(items[:total]))


def patched(base: Program, delta: Program, gone: Collection[str]) -> Patched:
    """The base without the subscriptions of these ids, and with those of the delta.

    An id that is in the delta too is gone from the base, named or not.
    """
    without = pa.concat_arrays([pa.array(list(gone), pa.string()), delta.ids.cast(pa.string())])
    found = pc.is_in(base.ids, value_set=without)
    return Patched(base, delta, found.to_numpy(zero_copy_only=False))


def _flat(lists: pa.ListArray) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return lists.offsets.to_numpy(), lists.values.to_numpy()


@compiled
def _merge(old_starts: Any, old: Any, new_starts: Any, new: Any, gone: Any, shift: int, starts: Any, items: Any) -> Any:
    """Each row's list: what is left of the old, then the new; returns the length of all."""
    total = 0
    for row in range(len(starts) - 1):
        for place in range(old_starts[row], old_starts[row + 1]):
            items[total] = old[place]
            total += not gone[old[place]]
        for place in range(new_starts[row], new_starts[row + 1]):
            items[total] = shift + new[place]
            total += 1
        starts[row + 1] = total
    return total
