"""Move rare arguments, such as huge angles, out of the common path: branch to a slow function.

A math function that is fast for nearly all arguments passes ``rarely`` its result, a test for the
other arguments, and slow code for one of them, which may loop and branch. The slow code becomes a
function of the module, together with vector versions that test a whole vector, and go on lane by
lane only if some lane needs it. LLVM's loop vectoriser knows these versions, so that it can still
vectorise scalar loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Function, Metadata, Module
from loomir.codegen.llvm.assembler.types import I64, Type
from loomir.codegen.llvm.assembler.values import Value, const

__all__ = ["Scalar", "rarely"]

Scalar = Callable[[Builder, Sequence[Value]], Value]
"""Emits code for the arguments of a kernel."""

_BITS: Final = (128, 256, 512)
_PURE: Final = {"noinline": None, "willreturn": None, "memory(none)": None}


def rarely(
    b: Builder, name: str, args: Sequence[Value], fast: Value, hard: Scalar, slow: Scalar
) -> Value:
    """Emit ``fast``, and a call of ``slow`` for each lane for which ``hard(args)`` holds.

    ``name`` and the types of the arguments distinguish this use from others in the module. ``slow``
    may open blocks; for scalars, the builder stays in its block.
    """
    t = fast.type
    scalar = f"loomir.{name}.{t.element.code}"
    one = b.module.find(scalar) or _define_scalar(b.module, scalar, args, t.element, hard, slow)
    if t.lanes == 1:
        known = ",".join(
            f"_ZGV_LLVM_N{n}{'v' * (len(args) + 1)}_{scalar}({scalar}.v{n})"
            for n in _versions(t.element)
        )
        text = f'"vector-function-abi-variant"="{known}"'
        return b.call(one, [*args, fast], attributes=text)
    # The test is inlined, so that the common path has no call, for which registers would be saved.
    far, near = b.append("rare"), b.append("common")
    before, version = b.block, _version(b.module, one, args, t, hard)
    b.condbr(_any(b, hard(b, args)), far, near, meta=_seldom(b.module))
    b.position_at_end(far)
    found = b.call(version, [*args, fast])
    b.br(near)
    b.position_at_end(near)
    result = b.phi(t)
    result.add(fast, before)
    result.add(found, far)
    return result


def _any(b: Builder, wanted: Value) -> Value:
    return b.intrinsic("llvm.vector.reduce.or", [wanted], result=wanted.type.element)


def _seldom(module: Module) -> dict[str, Metadata]:
    return {"prof": module.metadata('!{!"branch_weights", i32 1, i32 1048576}')}


def _versions(element: Type) -> tuple[int, ...]:
    return tuple(bits // element.bits for bits in _BITS)


def _define_scalar(
    module: Module, name: str, args: Sequence[Value], result: Type, hard: Scalar, slow: Scalar
) -> Function:
    kinds = [a.type.element for a in args]
    params = [*((f"x{i}", kind) for i, kind in enumerate(kinds)), ("fast", result)]
    made = module.define(name, result, params, linkage="internal", attributes=_PURE)
    b = Builder(made)
    given = made.params[:-1]
    far, near = b.append("slow"), b.append("fast")
    b.condbr(hard(b, given), far, near)
    b.position_at_end(far)
    b.ret(slow(b, given))
    b.position_at_end(near)
    b.ret(made.params[-1])
    for lanes in _versions(result):
        vectors = [Value(kind.with_lanes(lanes), "poison") for kind in kinds]
        module.keep(_version(module, made, vectors, result.with_lanes(lanes), hard))
    return made


def _version(
    module: Module, one: Function, args: Sequence[Value], result: Type, hard: Scalar
) -> Function:
    """Return the vector function for arguments of the types of ``args``."""
    name = f"{one.name}.v{result.lanes}"
    known = module.find(name)
    if known is not None:
        return known
    params = [*((f"x{i}", a.type) for i, a in enumerate(args)), ("fast", result)]
    made = module.define(name, result, params, linkage="internal", attributes=_PURE)
    b = Builder(made)
    far, near = b.append("slow"), b.append("fast")
    b.condbr(_any(b, hard(b, made.params[:-1])), far, near)
    b.position_at_end(near)
    b.ret(made.params[-1])
    b.position_at_end(far)
    _call_for_each_lane(b, one, made)
    return made


def _call_for_each_lane(b: Builder, one: Function, made: Function) -> None:
    """Call the scalar function in a loop over lanes; vectors are indexed in memory."""
    result = one.signature.result
    slots = [b.alloca(p.type) for p in made.params]
    for p, slot in zip(made.params, slots, strict=True):
        b.store(p, slot)
    before, body, done = b.block, b.append("lane"), b.append("done")
    b.br(body)
    b.position_at_end(body)
    i = b.phi(I64)
    i.add(const(I64, 0), before)
    kinds = [p.type.element for p in made.params]
    places = [b.gep(kind, slot, i) for kind, slot in zip(kinds, slots, strict=True)]
    values = [b.load(kind, place) for kind, place in zip(kinds, places, strict=True)]
    b.store(b.call(one, values), places[-1])
    following = b.add(i, const(I64, 1))
    i.add(following, body)
    lanes = made.params[-1].type.lanes
    b.condbr(b.icmp("ult", following, const(I64, lanes)), body, done)
    b.position_at_end(done)
    b.ret(b.load(result.with_lanes(lanes), slots[-1]))
