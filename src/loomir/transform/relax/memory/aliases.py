"""Alias analysis: which tensors each variable may refer to, and which escape the function.

A tensor *escapes* if something outside may keep a reference to it: it is returned, captured by a
closure, or passed to a function that could keep or return it. All uses of other tensors are known,
through any alias.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.visit import pre_order
from loomir.relax.expr import (
    Binding,
    Call,
    Function,
    If,
    MatchCast,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr

__all__ = ["Aliases", "find_aliases"]

_KEEPS_NOTHING: Final = frozenset(
    {
        "relax.call_tir",
        "relax.shape_of",
        "relax.size",
        "relax.tensor_to_shape",
        "relax.print",
        "relax.assert_op",
        "relax.builtin.require_order",
        "relax.memory.kill_storage",
        "relax.memory.kill_tensor",
    }
)
"""Operators that only read their arguments, and return something else."""
_IN_PLACE: Final = "relax.call_tir_inplace"
_GIVES_ARGUMENT: Final = frozenset(
    {_IN_PLACE, "relax.memory.view", "relax.memory.alloc_tensor", "relax.vm.alloc_tensor"}
)
"""Operators that may return an argument, but do not keep it otherwise."""


@dataclass(slots=True)
class Aliases:
    """For each variable, the numbers of the tensors that it may refer to or contain.

    The number of a tensor is that of the binding that makes it. ``last_use`` is the number of the
    last binding that uses it; ``escapes`` are the tensors that may outlive the function. ``others``
    are the variables, by ``id``, that may also refer to arguments or constants.
    """

    of: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    last_use: dict[int, int] = field(default_factory=dict[int, int])
    escapes: set[int] = field(default_factory=set[int])
    others: set[int] = field(default_factory=set[int])
    kernels: frozenset[str] = frozenset()


def find_aliases(
    bindings: Iterable[Binding],
    result: RelaxExpr,
    made: frozenset[int],
    kernels: frozenset[str] = frozenset(),
) -> Aliases:
    """Find the aliases of the tensors that the bindings numbered ``made`` make.

    ``kernels`` are functions of the module that do not keep their arguments when called directly.
    """
    found = Aliases(kernels=kernels)
    for number, binding in enumerate(bindings):
        if not isinstance(binding, (VarBinding, MatchCast)):
            continue
        value = binding.value
        used = _find_used(value, found)
        for tensor in used:
            found.last_use[tensor] = number
        if number in made:
            found.last_use.setdefault(number, number)
        given = _find_results(value, used, found)
        if number in made:
            given = given | {number}
        if binding.var is not None:
            found.of[id(binding.var)] = given
            if number not in made and _may_be_another(value, found):
                found.others.add(id(binding.var))
    found.escapes |= _find_used(result, found)
    return found


def _find_used(value: Node, found: Aliases) -> frozenset[int]:
    sets = [found.of.get(id(p), _NONE) for p in pre_order(value) if isinstance(p, Var)]
    return frozenset[int]().union(*sets) if sets else _NONE


_NONE: Final = frozenset[int]()


def _find_results(value: RelaxExpr, used: frozenset[int], found: Aliases) -> frozenset[int]:
    """Return the tensors that a result may refer to, and record those that escape."""
    if isinstance(value, (Var, Tuple, TupleGetItem)):
        return used
    if isinstance(value, If):
        _branches(value, found)
        return used
    if isinstance(value, Call):
        name = value.op.name if isinstance(value.op, Op) else ""
        if name in _KEEPS_NOTHING or _is_kernel(value, found):
            return _NONE
        if name in _GIVES_ARGUMENT:
            return used if name != _IN_PLACE else _find_written(value, used, found)
        found.escapes |= used
        return used
    if isinstance(value, Function):
        found.escapes |= used
    return _NONE


def _may_be_another(value: RelaxExpr, found: Aliases) -> bool:
    """Tell whether a value may refer to, or contain, tensors that were not made here."""
    if not isinstance(value, (Var, Tuple, TupleGetItem)):
        return True
    leaves = [p for p in pre_order(value) if not isinstance(p, (Tuple, TupleGetItem))]
    return any(
        not isinstance(p, Var) or id(p) not in found.of or id(p) in found.others for p in leaves
    )


def _is_kernel(call: Call, found: Aliases) -> bool:
    return isinstance(call.op, GlobalVar) and call.op.name_hint in found.kernels


def _find_written(call: Call, used: frozenset[int], found: Aliases) -> frozenset[int]:
    """Return the tensors that a kernel returns: the arguments that it writes."""
    given = call.args[1]
    if not isinstance(given, Tuple):
        return used
    indices = call.attrs["inplace_indices"]
    places: tuple[int, ...] = (indices,) if isinstance(indices, int) else tuple(indices)
    sets = [_find_used(given.fields[place], found) for place in places if place >= 0]
    return _NONE.union(*sets)


def _branches(branch: If, found: Aliases) -> None:
    """Record the tensors that escape from a branch."""
    for part in pre_order(branch):
        if isinstance(part, Function) or (
            isinstance(part, Call)
            and not (isinstance(part.op, Op) and part.op.name in _KEEPS_NOTHING)
            and not _is_kernel(part, found)
        ):
            found.escapes |= _find_used(part, found)
