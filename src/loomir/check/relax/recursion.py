"""Find functions of a module that call themselves, directly or through others."""

from __future__ import annotations

from collections.abc import Mapping

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import by_class
from loomir.relax.expr import Function

__all__ = ["recursive_groups"]


def recursive_groups(mod: IRModule) -> dict[str, frozenset[str]]:
    """Map each function that calls itself to all functions through which it does so."""
    edges: dict[str, list[str]] = {}
    for var, func in mod.functions.items():
        if isinstance(func, Function):
            named: dict[str, None] = {}
            for used in by_class(func).get(GlobalVar, ()):
                named.setdefault(used.name_hint)
            edges[var.name_hint] = list(named)
    found: dict[str, frozenset[str]] = {}
    for group in _components(edges):
        only = group[0]
        if len(group) > 1 or only in edges[only]:
            found.update(dict.fromkeys(group, frozenset(group)))
    return found


def _components(edges: Mapping[str, list[str]]) -> list[list[str]]:
    """List strongly connected components (Tarjan's algorithm with an explicit stack)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    found: list[list[str]] = []
    for root in edges:
        if root in order:
            continue
        work: list[tuple[str, int]] = [(root, 0)]
        while work:
            name, at = work.pop()
            if at == 0:
                order[name] = low[name] = len(order)
                path.append(name)
                on_path.add(name)
            targets = edges[name]
            while at < len(targets):
                target = targets[at]
                at += 1
                if target not in edges:
                    continue
                if target not in order:
                    work += ((name, at), (target, 0))
                    break
                if target in on_path:
                    low[name] = min(low[name], order[target])
            else:
                if low[name] == order[name]:
                    found.append(_pop(path, on_path, name))
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[name])
    return found


def _pop(path: list[str], on_path: set[str], name: str) -> list[str]:
    group: list[str] = []
    while True:
        member = path.pop()
        on_path.discard(member)
        group.append(member)
        if member == name:
            return group
