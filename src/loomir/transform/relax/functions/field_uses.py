"""Find which fields of tuples returned by calls are used."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from loomir.ir.visit import pre_order
from loomir.relax.expr import (
    Call,
    Function,
    If,
    MatchCast,
    SeqExpr,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.struct_info import TupleStructInfo

__all__ = ["FieldUses", "find_field_uses"]


class FieldUses(NamedTuple):
    """A call of which only these fields are used, and how often they are taken out."""

    call: Call
    fields: tuple[int, ...]
    times: int


def find_field_uses(func: Function) -> dict[Var, FieldUses]:
    """Find calls whose results are only taken out one by one, by the variable of the tuple."""
    calls: dict[Var, Call] = {}
    uses: list[RelaxExpr] = []
    taken: defaultdict[Var, list[tuple[Var, int]]] = defaultdict(list)
    for part in pre_order(func):
        if isinstance(part, SeqExpr):
            uses.append(part.body)
        elif isinstance(part, (VarBinding, MatchCast)):
            value = part.value
            if isinstance(part, VarBinding) and isinstance(value, TupleGetItem):
                if isinstance(value.tuple_value, Var):
                    taken[value.tuple_value].append((part.var, value.index))
                    continue
            elif isinstance(part, VarBinding) and isinstance(value, Call):
                if isinstance(part.var.struct_info, TupleStructInfo):
                    calls[part.var] = value
            elif isinstance(value, Function):
                continue  # its sequences are listed separately
            uses.append(value.cond if isinstance(value, If) else value)
    if not any(var in taken for var in calls):
        return {}
    used = Counter(var for use in uses for var in pre_order(use) if isinstance(var, Var))
    found: dict[Var, FieldUses] = {}
    for var, call in calls.items():
        fields = [k for name, k in taken[var] if used[name] or taken.get(name)]
        if fields and not used[var]:
            found[var] = FieldUses(call, tuple(sorted(set(fields))), len(fields))
    return found
