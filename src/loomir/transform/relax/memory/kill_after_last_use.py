"""Mark the last use of each memory, after which it can be freed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.relax.expr import Binding, BindingBlock, Call, Function, SeqExpr, Var, VarBinding
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import UNIT
from loomir.support.diagnostics import InternalError
from loomir.tir.function import PrimFunc
from loomir.transform.relax.memory.aliases import find_aliases

__all__ = ["kill_after_last_use"]

_STORAGE: Final = frozenset({"relax.memory.alloc_storage", "relax.vm.alloc_storage"})
_TENSORS: Final = frozenset(
    {"relax.memory.alloc_tensor", "relax.vm.alloc_tensor", "relax.builtin.alloc_tensor"}
)
_KILLS: Final = frozenset({"relax.memory.kill_storage", "relax.memory.kill_tensor"})


@register("relax.KillAfterLastUse", requires={"relax_normal_form"})
def kill_after_last_use(mod: IRModule) -> IRModule:
    """Insert ``memory.kill_tensor`` and ``memory.kill_storage`` after the last use of allocations.

    This applies to results of allocating operators that nothing keeps; a storage is in use as long
    as a tensor in it. Dataflow blocks are left out: after memory planning there are none. Existing
    kills stay.
    """
    kernels = frozenset(v.name_hint for v, f in mod.functions.items() if isinstance(f, PrimFunc))

    def sequence(seq: SeqExpr) -> SeqExpr:
        return _sequence(seq, kernels)

    functions: dict[GlobalVar, BaseFunc] = {
        var: rewrite(func, {SeqExpr: sequence}) if isinstance(func, Function) else func
        for var, func in mod.functions.items()
    }
    same = all(functions[var] is func for var, func in mod.functions.items())
    return mod if same else mod.with_functions(functions)


def _sequence(seq: SeqExpr, kernels: frozenset[str]) -> SeqExpr:
    bindings = [binding for block in seq.blocks for binding in block.bindings]
    if any(type(block) is not BindingBlock for block in seq.blocks):
        return seq
    made: dict[int, tuple[str, Var]] = {}
    for number, binding in enumerate(bindings):
        name = _operator(binding)
        if isinstance(binding, VarBinding) and name in _STORAGE | _TENSORS:
            made[number] = ("storage" if name in _STORAGE else "tensor", binding.var)
    if not made:
        return seq
    aliases = find_aliases(bindings, seq.body, frozenset(made), kernels)
    killed = {v for b in bindings if _operator(b) in _KILLS for v in _arguments(b)}
    after: dict[int, list[Binding]] = {}
    for number, (kind, var) in reversed(made.items()):  # tensors before their storage
        if number not in aliases.escapes and var not in killed:
            after.setdefault(aliases.last_use[number], []).append(_kill(kind, var))
    if not after:
        return seq
    blocks: list[BindingBlock] = []
    number = 0
    for block in seq.blocks:
        listed: list[Binding] = []
        for binding in block.bindings:
            listed += [binding, *after.get(number, ())]
            number += 1
        blocks.append(BindingBlock(tuple(listed), span=block.span))
    return SeqExpr(tuple(blocks), seq.body, span=seq.span)


def _operator(binding: Binding) -> str:
    call = binding.value if isinstance(binding, VarBinding) else None
    return call.op.name if isinstance(call, Call) and isinstance(call.op, Op) else ""


def _arguments(binding: Binding) -> Iterable[Var]:
    call = binding.value if isinstance(binding, VarBinding) else None
    return (a for a in call.args if isinstance(a, Var)) if isinstance(call, Call) else ()


def _kill(kind: str, var: Var) -> VarBinding:
    found = find_op(f"relax.memory.kill_{kind}")
    if found is None:
        raise InternalError(f"there is no operator memory.kill_{kind}")
    return VarBinding(Var("_", UNIT), found.call(var))
