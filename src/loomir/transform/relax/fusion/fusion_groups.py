"""Group the nodes of a graph of kernels by post-dominators.

If the patterns of the kernels allow it, a node is merged with its immediate post-dominator and with
all nodes between them. No path then leaves a group and returns to it, so the fused graph has no
cycles. This is the rule of TVM (Chen et al., OSDI 2018, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loomir.transform.relax.fusion.op_pattern import OpPattern

__all__ = ["GraphNode", "find_groups"]

_LARGEST: Final = 64
"""The most kernels in a group: larger code is not faster."""

Allows = Callable[[OpPattern, bool], bool]


class GraphNode:
    """A binding: its kind, and its users with how each takes the value."""

    __slots__ = ("is_kept", "kind", "users")

    def __init__(self, kind: OpPattern) -> None:
        self.kind = kind
        self.users: list[tuple[int, OpPattern]] = []
        self.is_kept = False
        """Whether something outside the graph uses the value."""


def find_groups(nodes: Sequence[GraphNode]) -> list[list[int]]:
    """Group nodes, passed in topological order; the last of each group has its result."""
    return _Fusion(nodes).run()


class _Tree:
    """The tree of post-dominators, with shortcuts towards its root."""

    def __init__(self, nodes: Sequence[GraphNode]) -> None:
        count = len(nodes)
        self.parent = [-1] * count
        self.kind = [OpPattern.OPAQUE] * count
        """The most general kind on the paths to the parent."""
        self.depth = [0] * count
        self.jump = [-1] * count
        self.jump_kind = [OpPattern.OPAQUE] * count
        for i in reversed(range(count)):
            if not nodes[i].is_kept and nodes[i].users:
                self._join(i, nodes[i].users)
            self._shorten(i)

    def _join(self, i: int, users: Sequence[tuple[int, OpPattern]]) -> None:
        found, kind = users[0]
        for user, edge in users[1:]:
            kind = max(kind, edge)
            found, between = self._meet(found, user)
            kind = max(kind, between)
            if found < 0:
                return
        self.parent[i], self.kind[i] = found, kind

    def _shorten(self, i: int) -> None:
        up = self.parent[i]
        if up < 0:
            self.jump[i] = i
            return
        self.depth[i] = self.depth[up] + 1
        far = self.jump[up]
        if self.depth[up] - self.depth[far] == self.depth[far] - self.depth[self.jump[far]]:
            self.jump[i] = self.jump[far]
            kinds = [self.kind[i]]
            kinds += [self.jump_kind[n] for n in (up, far) if self.jump[n] != n]
            self.jump_kind[i] = max(kinds)
        else:
            self.jump[i], self.jump_kind[i] = up, self.kind[i]

    def _meet(self, a: int, b: int) -> tuple[int, OpPattern]:
        """Return the nearest common post-dominator, or -1, and the kind of the paths to it."""
        kind = OpPattern.ELEMENT_WISE
        if self.depth[a] < self.depth[b]:
            a, b = b, a
        while self.depth[a] > self.depth[b]:
            far = self.depth[self.jump[a]] >= self.depth[b]
            kind = max(kind, self.jump_kind[a] if far else self.kind[a])
            a = self.jump[a] if far else self.parent[a]
        while a != b:
            if self.parent[a] < 0:
                return -1, OpPattern.OPAQUE
            far = self.jump[a] != self.jump[b]
            table = self.jump_kind if far else self.kind
            kind = max(kind, table[a], table[b])
            a, b = (self.jump[a], self.jump[b]) if far else (self.parent[a], self.parent[b])
        return a, kind


class _Fusion:
    def __init__(self, nodes: Sequence[GraphNode]) -> None:
        self.nodes = nodes
        self.tree = _Tree(nodes)
        self.group = list(range(len(nodes)))
        self.kind = [node.kind for node in nodes]
        self.size = [1] * len(nodes)

    def run(self) -> list[list[int]]:
        for phase in (0, 1):
            for i in range(len(self.nodes)):
                self._try(i, phase)
        found: dict[int, list[int]] = {}
        for i in range(len(self.nodes)):
            found.setdefault(self._root(i), []).append(i)
        return list(found.values())

    def _root(self, i: int) -> int:
        while self.group[i] != i:
            self.group[i] = self.group[self.group[i]]
            i = self.group[i]
        return i

    def _try(self, i: int, phase: int) -> None:
        sink = self.tree.parent[i]
        kind, way = self.kind[i], self.tree.kind[i]
        if sink < 0 or self._root(i) == self._root(sink):
            return
        if kind is OpPattern.OUTPUT_FUSABLE:
            if phase == 0 and way is OpPattern.ELEMENT_WISE:
                self._join(i, sink, _is_element_wise)
        elif kind <= OpPattern.BROADCAST:
            if way <= OpPattern.REDUCTION:
                self._join(i, sink, _has_sink)
        elif kind is OpPattern.INJECTIVE and phase == 1:
            self._join(i, sink, _is_injective)

    def _join(self, start: int, sink: int, allows: Allows) -> None:
        """Merge all nodes on the paths from one to another, if their kinds allow it."""
        if not allows(self.kind[self._root(sink)], True):
            return
        seen = {start}
        stack = [start]
        while stack:
            for user, _ in self.nodes[stack.pop()].users:
                if user == sink or user in seen:
                    continue
                if len(seen) > _LARGEST or not allows(self.kind[self._root(user)], False):
                    return
                seen.add(user)
                stack.append(user)
        target = self._root(sink)
        roots = {self._root(i) for i in seen} - {target}
        if self.size[target] + sum(self.size[r] for r in roots) > _LARGEST:
            return
        for root in roots:
            self.group[root] = target
            self.size[target] += self.size[root]
            self.kind[target] = max(self.kind[target], self.kind[root])


def _is_element_wise(kind: OpPattern, is_sink: bool) -> bool:
    del is_sink
    return kind <= OpPattern.BROADCAST


def _has_sink(kind: OpPattern, is_sink: bool) -> bool:
    return kind <= OpPattern.INJECTIVE or (is_sink and kind <= OpPattern.OUTPUT_FUSABLE)


def _is_injective(kind: OpPattern, is_sink: bool) -> bool:
    del is_sink
    return kind <= OpPattern.INJECTIVE
