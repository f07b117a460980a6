"""Compare two programs for structural equality, by functions generated for each node class.

Each definition must correspond to one definition of the other side throughout, and what neither
side defines must be the same on both. So the order of comparisons does not matter: two lists hold
pairs of nodes, and one loop takes the pairs and appends their parts. Programs of any depth can be
compared, and a part that a program shares many times is compared only a few times.

Parts that both sides share need no comparison, unless the sides give names in them different
meanings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from loomir.ir.comparison_code import COMPARERS, ComparisonState, Nodes, comparer
from loomir.ir.node import DECLARED, Node
from loomir.ir.visit import plan_of

__all__ = ["structural_equal"]

_CHUNK: Final = 400
"""How many pairs are compared together, for locality of memory."""


def structural_equal(left: Node, right: Node) -> bool:
    """Tell whether two programs are the same up to names."""
    if left is right:
        return True
    names: dict[Any, Any] = {}
    bound: list[Any] = []
    lefts: Nodes = [left]
    rights: Nodes = [right]
    made_left: Nodes = []
    made_right: Nodes = []
    shared: Nodes = []
    made: Nodes = []
    found = lefts, rights, made_left, made_right, names.setdefault, bound.append, shared, made
    compare = COMPARERS.get(len(DECLARED)) or comparer()
    if not compare(found):
        return False
    if (lefts or made_left) and not _rest_holds(found):
        return False
    if not (shared or made) and len({*bound}) == len(names):
        # Every used name is defined on both sides.
        return len({*names.values()}) == len(names)
    return _names_hold(names, bound, shared, made)


def _rest_holds(found: ComparisonState) -> bool:
    """Compare the remaining pairs in chunks."""
    compare = comparer()
    used, made = _PostponedPairs(*found[:2]), _PostponedPairs(*found[2:4])
    while True:
        used.put_off()
        made.put_off()
        if not (used.take() or made.take()):
            return True
        if not compare(found):
            return False


def _names_hold(
    names: dict[Any, Any], bound: list[Any], shared: list[Any], made: list[Any]
) -> bool:
    """Tell whether the correspondence of definitions is one-to-one."""
    if any(names[a] is not a for a in bound):
        # A shared name may correspond to different definitions on the two sides.
        if not (_stay(shared, False, names, bound) and _stay(made, True, names, bound)):
            return False
        if len(set(names.values())) < len(names):
            return False
    known = set(bound)
    return all(a is b for a, b in names.items() if a not in known)


def _stay(shared: list[Any], makes: bool, names: dict[Any, Any], bound: list[Any]) -> bool:
    """Tell whether names in shared parts correspond to themselves."""
    pairs = names.setdefault
    distinct = {id(part): part for part in shared}
    stack: list[tuple[Any, bool]] = [(part, makes) for part in distinct.values()]
    seen: set[tuple[int, bool]] = set()
    while stack:
        value, makes = stack.pop()
        if isinstance(value, Node):
            if (id(value), makes) in seen:
                continue
            seen.add((id(value), makes))
            if value.is_definition:
                if pairs(value, value) is not value:
                    return False
                if not makes:
                    continue
                bound.append(value)
            plan = plan_of(value.__class__)
            stack += [(part, False) for part in plan.get_attrs(value)]
            stack += [(get(value), makes or binds) for get, binds in plan.scan_columns]
        elif isinstance(value, tuple):
            stack += [(part, makes) for part in cast("tuple[Any, ...]", value)]
        elif isinstance(value, Mapping):
            table = cast("Mapping[Any, Any]", value)
            stack += [(key, False) for key in table]
            stack += [(part, makes) for part in table.values()]
    return True


class _PostponedPairs:
    """The pairs whose comparison is postponed."""

    def __init__(self, left: Nodes, right: Nodes) -> None:
        self._now = left, right
        self._left: Nodes = []
        self._right: Nodes = []
        self._met: set[Any] = set()
        """The postponed nodes of the left side."""
        self._done: set[tuple[Any, Any]] = set()
        """The postponed pairs whose left node was met before."""

    def put_off(self) -> None:
        """Postpone all present pairs, except those postponed before."""
        left, right = self._now
        if not left:
            return
        if self._repeats(left):
            pairs = list(zip(left, right))
            new = [p for p in pairs if not (isinstance(p[0], Node) and p in self._done)]
            new = list({(id(x), id(y)): (x, y) for x, y in new}.values())
            self._done.update(p for p in new if isinstance(p[0], Node))
            left[:], right[:] = [x for x, _ in new], [y for _, y in new]
        self._left += left
        self._right += right
        del left[:], right[:]

    def _repeats(self, left: Nodes) -> bool:
        """Tell whether some nodes may have been postponed before."""
        before = len(self._met)
        try:
            self._met.update(left)
        except TypeError:  # a mapping
            return True
        return len(self._met) - before < len(left)

    def take(self) -> bool:
        """Take some postponed pairs; tell whether there were any."""
        left, right = self._now
        left += self._left[-_CHUNK:]
        right += self._right[-_CHUNK:]
        del self._left[-_CHUNK:], self._right[-_CHUNK:]
        return bool(left)
