"""Shrink a failing program, as long as it fails in the same way.

    python -m fuzz.tir.reduce SEED --engine native

Statements are removed, loops run once, expressions become an operand or a constant. Each candidate
is checked in a process of its own, since it may kill it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.tir.engines import ENGINES
from fuzz.tir.generate import program_of_seed
from fuzz.tir.program import Program
from fuzz.tir.replacing import replaced
from fuzz.tir.worker import check
from loomir.check.tir.verify import verify
from loomir.ir.module import BaseFunc, IRModule
from loomir.ir.node import Node
from loomir.ir.visit import children, pre_order, rebuild
from loomir.support.diagnostics import LoomirError
from loomir.support.dtype import DataType
from loomir.tir import (
    Broadcast,
    Evaluate,
    FloatImm,
    For,
    IfThenElse,
    IntImm,
    PrimExpr,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    const,
    seq,
)

__all__ = ["isolated", "reduced", "reduction_of_seed"]

Test = Callable[[IRModule], bool]
NOTHING = Evaluate(IntImm(0, DataType("int32")))


def isolated(test: Callable[[], bool]) -> bool:
    """Run a test in a copy of this process; dying counts as true."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = 1 if test() else 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) != 0


def reduced(module: IRModule, fails: Test, *, rounds: int = 6) -> IRModule:
    """Return the smallest module found that is well-formed and still fails."""
    for _ in range(rounds):
        before = module
        for name in list(module):
            module = _reduce_function(module, name, fails)
        if module is before:
            break
    return module


def _reduce_function(module: IRModule, name: str, fails: Test) -> IRModule:
    func = module[name]
    if not isinstance(func, PrimFunc):
        return module
    number = 0
    while True:
        nodes = [n for n in pre_order(func.body) if isinstance(n, (Stmt, PrimExpr))]
        if number >= len(nodes):
            return module
        for candidate in _smaller(nodes[number]):
            made = _with(module, name, func, nodes[number], candidate)
            if made is not None and fails(made):
                module, func = made, made[name]
                assert isinstance(func, PrimFunc)
                break
        else:
            number += 1


def _with(module: IRModule, name: str, func: PrimFunc, old: Node, new: Node) -> IRModule | None:
    """Put a node into the place of another, where the program stays well-formed."""
    try:
        body = replaced(func.body, old, new)
        made: BaseFunc = rebuild(func, {"body": body})
        changed = module.with_function(name, made)
        return None if verify(changed) else changed
    except (LoomirError, AttributeError, TypeError):
        return None  # that part must be of another class


def _smaller(node: Node) -> Iterator[Node]:
    """List what may stand for a node, the smallest first."""
    if isinstance(node, PrimExpr):
        yield from _smaller_expr(node)
        return
    if node is not NOTHING and not _is_nothing(node):
        yield NOTHING
    if isinstance(node, SeqStmt):
        for i in range(len(node.seq)):
            yield seq([*node.seq[:i], *node.seq[i + 1 :]])
    if isinstance(node, IfThenElse):
        yield node.then_case
        if node.else_case is not None:
            yield node.else_case
            yield IfThenElse(node.condition, node.then_case)
    if isinstance(node, For) and not (isinstance(node.extent, IntImm) and node.extent.value <= 1):
        yield rebuild(node, {"extent": const(1, node.loop_var.dtype)})
    for part in children(node):
        if isinstance(part, Stmt):
            yield part


def _is_nothing(node: Node) -> bool:
    return isinstance(node, Evaluate) and isinstance(node.value, IntImm)


def _smaller_expr(node: PrimExpr) -> Iterator[Node]:
    if isinstance(node, (IntImm, FloatImm, Var)):
        return
    if isinstance(node, Broadcast) and isinstance(node.value, (IntImm, FloatImm)):
        return
    if not node.dtype.is_handle and not node.dtype.is_void:
        yield const(0, node.dtype)
        yield const(1, node.dtype)
    for part in children(node):
        if isinstance(part, PrimExpr) and part.dtype is node.dtype:
            yield part


def reduction_of_seed(seed: int, engine: str, module: IRModule | None = None) -> IRModule:
    """Reduce the program of a seed while one engine disagrees with the interpreter."""
    program = program_of_seed(seed)

    def fails(candidate: IRModule) -> bool:
        tried: Program = replace(program, module=candidate)

        def test() -> bool:
            found = check(tried, candidate, seed, [engine])
            return engine in found

        return isolated(test)

    return reduced(module or program.module, fails)


def main() -> int:
    """Reduce from the command line, and write the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--engine", choices=sorted(ENGINES), default="native")
    options = parser.parse_args()
    program = program_of_seed(options.seed)
    small = reduction_of_seed(options.seed, options.engine)
    tried, engines = replace(program, module=small), [options.engine]

    def survives() -> bool:
        check(tried, small, options.seed, engines)
        return False

    if isolated(survives):
        what = "it ends the process"
    else:
        what = check(tried, small, options.seed, engines).get(options.engine, "it agrees")
    sys.stdout.write(f"# seed {options.seed}, {options.engine}: {what}\n{small.script()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
