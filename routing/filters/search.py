"""Does a region hold any event? A search through the alternatives of its clauses, within a budget of steps.

Law: the answer is True or False only if it is so, and None when the budget did not do. The budget is a count, never a
clock: the same question has the same answer everywhere. States wait on a list, so nothing recurses.
"""

from __future__ import annotations

from typing import TypeAlias

from routing.filters import line
from routing.filters.region import Region, box_inhabited, narrow
from routing.filters.values import Values
from routing.filters.words import BUDGET

Clause: TypeAlias = tuple[Region, ...]
State: TypeAlias = tuple[dict[str, Values], list[Clause]]


def any_event(whole: Region, budget: int = BUDGET) -> bool | None:
    """Whether the region holds an event.

    An event that is easy to find is found by going straight on; a proof that there is none, or an event that is well
    hidden, needs a look ahead before each choice. So a fifth of the budget is for the one, the rest for the other.

    >>> from routing.filters.parse import parse
    >>> from routing.filters.region import region
    >>> any_event(region(parse("(x = 1 OR y = 1) AND x = 2 AND y < 1")))
    False
    >>> any_event(region(parse("(x = 1 OR y = 1) AND x = 2")), budget=1) is None
    True
    """
    if not whole.clauses:
        return box_inhabited(whole.box, budget)
    straight = _Search(budget // 5, look_ahead=False).run(whole)
    return _Search(budget - budget // 5, look_ahead=True).run(whole) if straight is None else straight


class _Search:
    def __init__(self, budget: int, *, look_ahead: bool) -> None:
        self.left, self.look_ahead = budget, look_ahead

    def run(self, whole: Region) -> bool | None:
        waiting: list[State] = [(dict(whole.box), list(whole.clauses))]
        undecided = False
        while waiting:
            box, clauses = waiting.pop()
            clauses_left = self.propagate(box, clauses)
            if clauses_left is None:
                continue
            if self.left < 0:
                return None
            if clauses_left:
                waiting += self.branches(box, clauses_left)
                continue
            inhabited = self.inhabited(box)
            if inhabited:
                return True
            undecided |= inhabited is None
        return None if undecided else False

    def propagate(self, box: dict[str, Values], clauses: list[Clause]) -> list[Clause] | None:
        """Narrow the box by every clause that has one alternative left; what remains open, or None if nothing fits."""
        changed = True
        while changed:
            changed = False
            still_open: list[Clause] = []
            for clause in clauses:
                if self.left < 0:
                    return still_open
                possible = self.possible(box, clause)
                if possible is None:
                    continue
                if not possible:
                    return None
                if len(possible) > 1:
                    still_open.append(possible)
                    continue
                if not narrow(box, possible[0].box):
                    return None
                still_open += possible[0].clauses
                changed = True
            clauses = still_open
        return clauses

    def possible(self, box: dict[str, Values], clause: Clause) -> Clause | None:
        """The alternatives that the box allows; None if it lies within one of them: then the clause asks nothing."""
        kept = []
        for part in clause:
            within = not part.clauses
            for name, values in part.box.items():
                mine = box.get(name)
                self.left -= 1 + (len(mine.spans) >> 3 if mine is not None else 0)
                if mine is None:
                    within = False
                    continue
                if within and not (values.plain and line.within(mine.spans, values.spans)):
                    within = False
                if not within and not self.meet(mine, values):
                    break
            else:
                if within:
                    return None
                kept.append(part)
        return tuple(kept)

    def meet(self, mine: Values, other: Values) -> bool:
        """Whether the two may have a value in common."""
        both = mine & other
        self.left -= (len(mine.spans) + len(other.spans)) >> 4
        answer = both.any()
        self.left -= answer.steps
        return answer.found is not False

    def branches(self, box: dict[str, Values], clauses: list[Clause]) -> list[State]:
        """One state for each alternative of one clause, the last to be tried first.

        Where the alternatives are plain constraints on one attribute each, one also leaves out what those before it
        took, so that no event is looked at twice.
        """
        at, alternatives = self.choice(box, clauses)
        rest = clauses[:at] + clauses[at + 1 :]
        states = []
        without = dict(box)
        for part in alternatives:
            narrowed = dict(without)
            if narrow(narrowed, part.box):
                states.append((narrowed, [*rest, *part.clauses]))
            if not part.clauses and len(part.box) == 1:
                [(name, values)] = part.box.items()
                if values.plain and not narrow(without, {name: Values(line.complement(values.spans))}):
                    break
        return states

    def choice(self, box: dict[str, Values], clauses: list[Clause]) -> tuple[int, Clause]:
        """The clause with the fewest alternatives, which are its own or those that survive a look ahead."""
        shortest = sorted(range(len(clauses)), key=lambda number: len(clauses[number]))
        if not self.look_ahead:
            return shortest[0], clauses[shortest[0]]
        best, fewest = shortest[0], clauses[shortest[0]]
        for at in shortest:
            rest = clauses[:at] + clauses[at + 1 :]
            alive = tuple(part for part in clauses[at] if self.fits(box, part, rest))
            if len(alive) < len(fewest):
                best, fewest = at, alive
            if len(alive) < 2:
                break
        return best, fewest

    def fits(self, box: dict[str, Values], part: Region, rest: list[Clause]) -> bool:
        """Whether the part leaves every other clause an alternative."""
        narrowed = dict(box)
        return narrow(narrowed, part.box) and self.propagate(narrowed, [*rest, *part.clauses]) is not None

    def inhabited(self, box: dict[str, Values]) -> bool | None:
        """Whether each attribute has a value to take."""
        undecided = False
        for values in box.values():
            answer = values.any()
            self.left -= answer.steps
            if answer.found is False:
                return False
            undecided |= answer.found is None
        return None if undecided else True
