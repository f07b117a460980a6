"""Facts of loop-level programs: properties on which passes rely, each with its checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from loomir.arith.fold import INT64
from loomir.check.tir.out_of_range import check_ranges
from loomir.check.tir.verify import verify_function
from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.passes import Subject, function_fact
from loomir.support.diagnostics import Diagnostic
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import ADDRESS_OF, PTR_BYTE_OFFSET, STACK_MAKE_ARRAY, TVM_ACCESS_PTR
from loomir.tir.expr import Call
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    For,
    ForKind,
)
from loomir.transform.tir.views import is_flat

__all__ = ["LOWERED", "VOLATILE"]

VOLATILE: Final = "volatile_scope"

LOWERED: Final = frozenset(
    {
        "calls_lowered",
        "flat_buffers",
        "no_attributes",
        "no_blocks",
        "no_thread_loops",
        "no_unroll_loops",
        "no_vector_loops",
        "plain_addresses",
        "well_formed",
    }
)
"""The facts that code generation relies on."""

_MADE_BY_PASSES: Final = frozenset({"TIR0415", "TIR0419"})


@function_fact("well_formed", PrimFunc)
def well_formed(subject: Subject) -> Iterator[Diagnostic]:
    """Every rule of the language holds.

    There are two exceptions: constant indices out of bounds, which unrolling may create under a
    condition that is false, and constant conditions of endless loops, which simplifying may create.
    """
    found = verify_function(subject.func, subject.mod)
    return (one for one in found if one.severity == "error" and one.code not in _MADE_BY_PASSES)


@function_fact("within_extents", PrimFunc)  # declared in the order of their names
def within_extents(subject: Subject) -> list[Diagnostic]:
    """No access is provably out of bounds along an axis."""
    return check_ranges(subject.func)


def _never(name: str, kinds: Sequence[type[Node]], test: Callable[[Any], bool], what: str) -> None:
    """Register a fact that holds if no part of a function passes ``test``."""

    def check(subject: Subject) -> Iterator[Diagnostic]:
        for kind in kinds:
            for part in subject.parts.get(kind, ()):
                if test(part):
                    place = getattr(part, "span", None)
                    yield Diagnostic("FACT", f"function {subject.func.name!r} has {what}", place)

    function_fact(name, PrimFunc)(check)


def _has_init(part: Block) -> bool:
    return part.init is not None


def _has_iterators(part: Block) -> bool:
    return bool(part.iter_vars)


def _has_matches(part: Block) -> bool:
    return bool(part.match_buffers)


def _is_any(part: Node) -> bool:
    return True


# `volatile_scope` stays to the end: code generation makes the accesses volatile.
def _is_attribute(part: AttrStmt) -> bool:
    return part.attr_key != VOLATILE


def _is_wide_access(part: BufferLoad | BufferStore) -> bool:
    return not (
        is_flat(part.buffer) and len(part.indices) == 1 and part.indices[0].dtype.element is INT64
    )


def _is_address(part: Call) -> bool:
    return part.op in (ADDRESS_OF, PTR_BYTE_OFFSET, TVM_ACCESS_PTR)


def _never_loops(name: str, kind: ForKind, what: str) -> None:
    _never(name, (For,), lambda part: part.kind is kind, what)


_never("no_init", (Block,), _has_init, "a block with an init that is not lowered")
_never("opaque_blocks", (Block,), _has_iterators, "a block with iterators")
_never("no_match_buffers", (Block,), _has_matches, "a match_buffer")
_never("no_blocks", (Block, BlockRealize, BufferRealize), _is_any, "a block")
_never("no_attributes", (AttrStmt,), _is_attribute, "an attribute statement")
_never("flat_buffers", (BufferLoad, BufferStore), _is_wide_access, "an access that is not flat")
_never_loops("no_vector_loops", ForKind.VECTORIZED, "a vectorised loop")
_never_loops("no_unroll_loops", ForKind.UNROLLED, "an unrolled loop")
_never_loops("no_thread_loops", ForKind.THREAD_BINDING, "a loop bound to threads")
_never(
    "plain_addresses",
    (Call,),
    _is_address,
    "an address that is not a pointer and a number of bytes",
)


@function_fact("calls_lowered", PrimFunc)
def calls_lowered(subject: Subject) -> Iterator[Diagnostic]:
    """Arrays are passed to functions of the module as descriptors."""
    calls = [part for part in subject.parts.get(Call, ()) if isinstance(part.op, GlobalVar)]
    if not calls:
        return
    functions = {var.name_hint: func for var, func in subject.mod.functions.items()}
    for call in calls:
        callee = functions.get(call.op.name_hint)
        if not isinstance(callee, PrimFunc):
            continue
        for param, arg in zip(callee.params, call.args):
            if param in callee.buffer_map and not (
                isinstance(arg, Call) and arg.op is STACK_MAKE_ARRAY
            ):
                name = subject.func.name
                yield Diagnostic("FACT", f"function {name!r} passes a bare array", call.span)
