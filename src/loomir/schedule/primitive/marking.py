"""Primitives that set the kind of loops, and annotate loops and blocks."""

from __future__ import annotations

from typing import Any

from loomir.ir.visit import pre_order, rebuild
from loomir.loops.accesses import nest_of
from loomir.loops.dependence import explain_dependence
from loomir.schedule.blocks import init_mistake
from loomir.schedule.nests import ranges_with_sizes
from loomir.schedule.refusal import Refusal, refuse
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Loop, Place, Value, primitive
from loomir.tir.buffer import IterVarType
from loomir.tir.expr import IntImm
from loomir.tir.stmt import Block, BlockRealize, For, ForKind

__all__ = [
    "annotate",
    "bind",
    "cannot_run",
    "parallel",
    "unannotate",
    "unroll",
    "vectorize",
]


def cannot_run(ref: Ref, kind: ForKind) -> Refusal | None:
    """Say why a loop cannot run that way."""
    loop = ref.loop
    name = loop.loop_var.name_hint
    fixed = isinstance(loop.extent, IntImm)
    if kind in (ForKind.VECTORIZED, ForKind.UNROLLED) and not fixed:
        return Refusal(
            "SCH0005",
            "the extent of loop {!r} is {}, which is no constant",
            (name, loop.extent),
            "split it by a constant factor, and take the inner loop",
            loop,
        )
    if kind is ForKind.UNROLLED:
        return None
    if kind is ForKind.VECTORIZED and not (isinstance(loop.min, IntImm) and loop.min.value == 0):
        return Refusal(
            "SCH0005",
            "loop {!r} starts at {}, and a vector loop starts at 0",
            (name, loop.min),
            "split it, and take the inner loop",
            loop,
        )
    # Lanes run statements together: a loop that ends by a condition does not fit in.
    nest = nest_of(loop) if kind is ForKind.VECTORIZED else None
    why = explain_dependence(loop, ranges_with_sizes(ref), nest) or init_mistake(
        ref, rebuild(loop, {"kind": kind})
    )
    if not why:
        return None
    return Refusal("SCH0006", "{}", (why,), _advice(loop), loop)


def _advice(loop: For) -> str:
    for node in pre_order(loop):
        if isinstance(node, BlockRealize):
            types = {it.var: it.iter_type for it in node.block.iter_vars}
            for it, value in zip(node.block.iter_vars, node.values):
                reduces = types[it.var] is IterVarType.COMM_REDUCE
                if reduces and any(n is loop.loop_var for n in pre_order(value)):
                    return (
                        "it reduces: take a spatial loop, or give each of its iterations an "
                        "element of its own with rfactor"
                    )
    return "choose a loop whose iterations access distinct elements"


def _run_as(ref: Ref, kind: ForKind) -> None:
    if why := cannot_run(ref, kind):
        refuse(why)
    ref.home.replace(ref, rebuild(ref.loop, {"kind": kind}))


@primitive
def parallel(context: Context, loop: Loop) -> None:
    """Run the iterations of a loop in parallel, on several threads.

    for i in range(8): f(i)
    -->
    for i in T.parallel(8): f(i)

    Errors: SCH0006 where iterations depend on one another.
    """
    _run_as(loop, ForKind.PARALLEL)


@primitive
def vectorize(context: Context, loop: Loop) -> None:
    """Vectorise a loop: run its iterations as the lanes of vectors.

    for i in range(8): f(i)
    -->
    for i in T.vectorized(8): f(i)

    Errors: SCH0005 for an extent that is not a constant, SCH0006 where iterations depend on one
    another.
    """
    _run_as(loop, ForKind.VECTORIZED)


@primitive
def unroll(context: Context, loop: Loop) -> None:
    """Unroll a loop: write out its iterations.

    for i in range(2): f(i)
    -->
    for i in T.unroll(2): f(i)             # compiled as f(0); f(1)

    Errors: SCH0005 for an extent that is not a constant.
    """
    _run_as(loop, ForKind.UNROLLED)


@primitive
def bind(context: Context, loop: Loop, thread_axis: str) -> None:
    """Bind a loop to a GPU thread axis, which no target here has.

    Errors: SCH0008, always.
    """
    refuse(
        Refusal(
            "SCH0008",
            "there is no thread axis {!r} on a CPU",
            (thread_axis,),
            "use parallel for threads, and vectorize for lanes",
            loop.stmt,
        )
    )


def _with_annotations(ref: Ref, made: dict[str, Any]) -> None:
    if isinstance(ref.stmt, For):
        ref.home.replace(ref, rebuild(ref.stmt, {"annotations": made}))
        return
    old = ref.block
    block: Block = rebuild(old, {"annotations": made})
    ref.home.replace(ref, rebuild(ref.realize, {"block": block}), {old: block})


def _annotations(ref: Ref) -> dict[str, Any]:
    return dict(ref.loop.annotations if ref.is_loop else ref.block.annotations)


@primitive
def annotate(context: Context, block_or_loop: Place, ann_key: str, ann_val: Value) -> None:
    """Annotate a block or loop, replacing any annotation with the same key.

    for i in range(8): f(i)
    -->
    for i in T.serial(8, annotations={"key": 1}): f(i)
    """
    _with_annotations(block_or_loop, {**_annotations(block_or_loop), ann_key: ann_val})


@primitive
def unannotate(context: Context, block_or_loop: Place, ann_key: str) -> None:
    """Remove an annotation from a block or loop.

    for i in T.serial(8, annotations={"key": 1}): f(i)
    -->
    for i in range(8): f(i)

    Errors: SCH0003 where there is no such note.
    """
    made = _annotations(block_or_loop)
    if ann_key not in made:
        refuse(
            Refusal(
                "SCH0003",
                "there is no annotation {!r}",
                (ann_key,),
                f"it has {', '.join(made) or 'none'}",
                block_or_loop.stmt,
            )
        )
    del made[ann_key]
    _with_annotations(block_or_loop, made)
