"""Write a module as several, which compile one by one and are loaded together.

Functions go to the part that they are named for; all others stay in the first part. An internal
function that parts use from there is in each of them, as its callers may inline it. What several
parts share by its address is seen from outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Final

from loomir.codegen.llvm.assembler.text import Module

__all__ = ["split_module"]

_SYMBOL: Final = re.compile(r'@(?:"[^"]*"|[-a-zA-Z$._0-9]+)')


def split_module(module: Module, parts: Sequence[Set[str]]) -> list[str] | None:
    """Split a module: a first part, and one with the functions of each set of ``parts``.

    None if the module has something that cannot be split.
    """
    return _Split(module, parts).texts()


class _Split:
    def __init__(self, module: Module, parts: Sequence[Set[str]]) -> None:
        self.module = module
        self.functions = {f.text: f for f in module.functions}
        self.texts_of: dict[str, str] = {}
        for text, function in self.functions.items():
            lines: list[str] = []
            function.render(lines)
            self.texts_of[text] = "\n".join(lines)
        self.refers = {t: _symbols(body) - {t} for t, body in self.texts_of.items()}
        self.variables = {variable.name: variable for variable in module.variables}
        for text, variable in self.variables.items():
            self.refers[text] = _symbols(variable.tail) if variable.is_defined else set()
        self.part_of = {
            text: next((i for i, part in enumerate(parts, 1) if function.name in part), 0)
            for text, function in self.functions.items()
        }
        self.count = len(parts) + 1
        self.inside: list[set[str]] = [
            {text for text, at in self.part_of.items() if at == part} for part in range(self.count)
        ]

    def texts(self) -> list[str] | None:
        if any("thread_local" in variable.kind for variable in self.variables.values()):
            return None
        for part in range(1, self.count):
            self._copy_helpers(part)
        owners = self._owners()
        shared = self._find_shared(owners)
        return [self._write(part, owners, shared) for part in range(self.count)]

    def _copy_helpers(self, part: int) -> None:
        """Copy into a part the internal functions that it uses and that belong to no part."""
        inside = self.inside[part]
        todo = list(inside)
        while todo:
            for text in self.refers[todo.pop()] | self._list_named(inside):
                function = self.functions.get(text)
                if function is None or text in inside or self.part_of[text]:
                    continue
                if function.is_internal:
                    inside.add(text)
                    todo.append(text)

    def _list_named(self, inside: Set[str]) -> set[str]:
        """Return the functions that attributes in a part name, as vector variants of others."""
        kept = self.module.kept
        if not kept:
            return set()
        texts = "\n".join(self.texts_of[text] for text in inside)
        return {name for name in kept if name not in inside and f"({name.strip('@')})" in texts}

    def _owners(self) -> dict[str, set[int]]:
        """Return the parts that use each variable."""
        users: dict[str, set[int]] = {text: set() for text in self.variables}
        for part, inside in enumerate(self.inside):
            for text in inside:
                for used in self.refers[text]:
                    if used in users:
                        users[used].add(part)
        changed = True
        while changed:
            changed = False
            for text, parts in users.items():
                for used in self.refers[text]:
                    if used in users and not parts <= users[used]:
                        users[used] |= parts
                        changed = True
        return users

    def _find_shared(self, owners: Mapping[str, Set[int]]) -> set[str]:
        """Return the symbols that other parts than their own refer to."""
        found: set[str] = set()
        for text, parts in owners.items():
            if len(parts) > 1 and not self._is_copied(text):
                found.add(text)
        for part in range(self.count):
            for text in self._find_used(part, owners):
                if text in self.functions and text not in self.inside[part]:
                    found.add(text)
        return found

    def _is_copied(self, text: str) -> bool:
        """Tell whether a variable is a constant that several parts may define."""
        variable = self.variables[text]
        return variable.is_constant and not self.refers[text]

    def _is_in(self, text: str, part: int, owners: Mapping[str, Set[int]]) -> bool:
        """Tell whether a part defines a variable."""
        parts = owners[text]
        if len(parts) > 1 and not self._is_copied(text):
            return part == 0
        return part in parts or (not parts and part == 0)

    def _find_used(self, part: int, owners: Mapping[str, Set[int]]) -> set[str]:
        """Return the symbols that a part mentions."""
        found: set[str] = set()
        for text in self.inside[part]:
            found |= self.refers[text]
        for text in self.variables:
            if self._is_in(text, part, owners):
                found.add(text)
                found |= self.refers[text]
        return found

    def _write(self, part: int, owners: Mapping[str, Set[int]], shared: Set[str]) -> str:
        used = self._find_used(part, owners)
        out = self.module.render_head()
        for text, variable in self.variables.items():
            if text not in used:
                continue
            if not variable.is_defined or not self._is_in(text, part, owners):
                out.append(variable.declaration)
            else:
                out.append(variable.exported if text in shared else variable.text)
        out += self.module.render_kept(self.inside[part])
        for text, function in self.functions.items():
            if text in self.inside[part]:
                body = self.texts_of[text]
                of_part = self.part_of[text] == part
                out.append(function.render_exported(body) if text in shared and of_part else body)
            elif text in used:
                out.append(function.declaration)
        out += [text for callee, text in self.module.declared.items() if callee in used]
        out += self.module.render_metadata()
        out.append("")
        return "\n".join(out)


def _symbols(text: str) -> set[str]:
    return set(_SYMBOL.findall(text))
