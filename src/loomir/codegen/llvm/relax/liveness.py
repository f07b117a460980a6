"""Find the last use of each variable of a graph function, where its reference is released."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from loomir.codegen.llvm.relax.leaves import facts
from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.visit import Step, children, trampoline
from loomir.relax.expr import Binding, Call, Function, If, MatchCast, SeqExpr, Var, VarBinding
from loomir.relax.node import RelaxExpr
from loomir.relax.struct_info import ShapeStructInfo

__all__ = ["find_dying", "local_tensors"]


def find_dying(body: RelaxExpr) -> Mapping[int, tuple[Var, ...]]:
    """List the variables to release after each binding, by the identity of the binding.

    These are the variables of the same sequence whose last use is in that binding or in a sequence
    inside it. The result of a sequence is not among them.
    """
    found = _Uses()
    trampoline(found.expr(body))
    table: dict[int, list[Var]] = {}
    for var, binding in found.last.items():
        if binding is not None:
            table.setdefault(id(binding), []).append(var)
    return {key: tuple(listed) for key, listed in table.items()}


_ALLOC: Final = frozenset({"relax.memory.alloc_tensor", "relax.vm.alloc_tensor"})


def local_tensors(body: RelaxExpr, is_kernel: Callable[[str], bool]) -> frozenset[Var]:
    """List the tensors in storage that are passed to kernels only.

    Nothing else sees them, so that their descriptors can be in the memory of the function.
    """
    made: set[Var] = set()
    seen: set[Var] = set()
    stack: list[tuple[Node, bool]] = [(body, False)]
    while stack:
        node, inner = stack.pop()
        if isinstance(node, Var):
            seen.add(node)
            continue
        if isinstance(node, VarBinding) and _allocates(node.value):
            made.add(node.var)
        inner = inner or isinstance(node, Function)
        direct = False
        if isinstance(node, Call) and isinstance(node.op, GlobalVar):
            direct = not inner and is_kernel(node.op.name_hint)
        for part in children(node):
            if not (direct and isinstance(part, Var)):
                stack.append((part, inner))
    return frozenset(made - seen)


def _allocates(value: Node) -> bool:
    if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.name not in _ALLOC:
        return False
    known = facts(value.args[2])
    return isinstance(known, ShapeStructInfo) and known.ndim >= 0


class _Uses:
    """Walks in program order; ``path`` are the bindings around the current place."""

    def __init__(self) -> None:
        self.path: list[Binding | None] = []
        self.level: dict[Var, int] = {}
        self.last: dict[Var, Binding | None] = {}

    def expr(self, e: RelaxExpr) -> Step[None]:
        """Record the uses in an expression."""
        if isinstance(e, SeqExpr):
            level = len(self.path)
            self.path.append(None)
            for block in e.blocks:
                for binding in block.bindings:
                    self.path[level] = binding
                    yield self.note_binding(binding, level)
            self.path[level] = None
            yield self.expr(e.body)
            self.path.pop()
        elif isinstance(e, If):
            yield self.expr(e.cond)
            yield self.expr(e.true_branch)
            yield self.expr(e.false_branch)
        else:
            self.leaves(e)

    def note_binding(self, binding: Binding, level: int) -> Step[None]:
        """Record the uses in a binding, then the variable that it binds."""
        if isinstance(binding, (VarBinding, MatchCast)):
            yield self.expr(binding.value)
            if isinstance(binding, MatchCast):
                self.leaves(binding.struct_info)
            if binding.var is not None:
                self.level[binding.var] = level
                self.last[binding.var] = binding

    def leaves(self, e: object) -> None:
        """Record all variables in an expression without sequences, or in a function."""
        stack = [e]
        while stack:
            node = stack.pop()
            if isinstance(node, Var):
                level = self.level.get(node)
                if level is not None:
                    self.last[node] = self.path[level]
            elif isinstance(node, Function) or hasattr(node, "child_names"):
                stack.extend(children(node))  # type: ignore[arg-type]
