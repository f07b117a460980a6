"""Batch heads that share a matrix into one product with it, instead of copying the matrix."""

from __future__ import annotations

import math
from typing import Final

from loomir.ir.module import IRModule
from loomir.ir.passes import register
from loomir.relax.expr import Call, Constant, Function, Var, VarBinding
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.tir.expr import IntImm, PrimExpr
from loomir.transform.relax.bindings.eliminate_common_subexpr import find_escaping
from loomir.transform.relax.graph_reading import (
    dataflow_blocks,
    make_call,
    operator_of,
    operators_in,
    tensor_info,
    values_in,
)

__all__ = ["group_shared_heads"]

_REPEATS: Final = frozenset({"broadcast_to", "repeat", "tile"})
_FEW: Final = 8
"""The most rows of a head for which heads are grouped: more rows fill the registers already."""


@register("relax.GroupSharedHeads", requires={"relax_normal_form"})
def group_shared_heads(mod: IRModule) -> IRModule:
    """Compute heads that share keys or values as rows of one product, if each has few rows.

    This applies in dataflow blocks to ``matmul`` with axes (batch, head, row, feature) whose right
    operand repeats each head of another tensor, maybe scaled and transposed. Rows of neighbouring
    heads are adjacent in memory already. Results are bit-identical.
    """
    group = _Group(mod)
    for func in mod.functions.values():
        if isinstance(func, Function) and _REPEATS & operators_in(func):
            for number, block in enumerate(dataflow_blocks(func)):
                escaping = find_escaping(block)
                for var, value in values_in(block).items():
                    if id(var) not in escaping and isinstance(value, Call):
                        group.made[var] = value
                        group.home[var] = (id(func), number)
    return group.rewrite_module() if group.made else mod


class _Group(Rewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.made: dict[RelaxExpr, Call] = {}
        """The calls whose results nothing keeps or writes."""
        self.home: dict[RelaxExpr, tuple[int, int]] = {}

    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Replace a product by one for groups of heads."""
        if operator_of(value) == "matmul" and isinstance(value, Call) and binding.var in self.home:
            made = self._product(binding.var, value)
            value = value if made is None else made
        self.emit_binding(binding, value)

    def _product(self, var: Var, call: Call) -> Call | None:
        left, right = call.args
        rows, result = _dims(left), _dims(var)
        if rows is None or result is None or len(rows) != 4 or not _is_few(rows[2]):
            return None
        found = self._find_shared(right)
        if found is None or self.home.get(found[0]) != self.home[var]:
            return None
        shared, ways = found
        dims = _dims(shared)
        assert dims is not None
        heads, groups = rows[1], dims[1]
        if not isinstance(heads, IntImm) or not isinstance(groups, IntImm):
            return None
        repeated = _dims(right)
        if repeated is None or len(repeated) != 4 or not _is_equal([*repeated[:2]], [*rows[:2]]):
            return None
        if groups.value == 0 or heads.value % groups.value:
            return None
        assert isinstance(rows[2], IntImm)
        many = heads.value // groups.value * rows[2].value
        emit = self.builder.emit
        other: RelaxExpr = shared
        for way in reversed(ways):
            args = [other if arg in self.made else arg for arg in way.args]
            other = emit(Call(way.op, tuple(args), attrs=way.attrs, span=way.span))
        wide = emit(make_call("reshape", left, [rows[0], groups, many, rows[3]]))
        whole = emit(Call(call.op, (wide, other), attrs=call.attrs, span=call.span))
        return make_call("reshape", whole, list(result))

    def _find_shared(self, right: RelaxExpr) -> tuple[Var, list[Call]] | None:
        """Return the tensor whose heads an operand repeats, and later operations, last first."""
        ways: list[Call] = []
        call = self.made.get(right)
        while call is not None and len(ways) < 3:
            source = _find_repeated(call, self.made)
            if source is not None:
                return source, ways
            if not _keeps_heads(call):
                return None
            ways.append(call)
            call = next((self.made[arg] for arg in call.args if arg in self.made), None)
        return None


def _keeps_heads(call: Call) -> bool:
    """Tell whether a call transposes matrices, or scales them by a number."""
    name = operator_of(call)
    if name == "permute_dims":
        return call.attrs["axes"] is not None and tuple(call.attrs["axes"]) == (0, 1, 3, 2)
    if name not in ("multiply", "divide") or not isinstance(call.args[0], Var):
        return False
    by = call.args[1]
    return isinstance(by, Constant) and math.prod(by.data.shape) == 1 and len(by.data.shape) <= 4


def _find_repeated(call: Call, made: dict[RelaxExpr, Call]) -> Var | None:
    """Return the tensor of which a call repeats each head equally often, copies side by side."""
    if operator_of(call) == "repeat":
        source, axis = call.args[0], call.attrs.get("axis")
        fits = axis == 1 and isinstance(source, Var) and len(_dims(source) or ()) == 4
        return source if fits and isinstance(source, Var) and source in made else None
    if operator_of(call) != "reshape" or call.args[0] not in made:
        return None
    wide = made[call.args[0]]
    if operator_of(wide) not in ("broadcast_to", "tile") or wide.args[0] not in made:
        return None
    narrow = made[wide.args[0]]
    source = narrow.args[0]
    if operator_of(narrow) not in ("reshape", "expand_dims") or not isinstance(source, Var):
        return None
    first, second, third = [list(_dims(x) or ()) for x in (source, wide.args[0], call.args[0])]
    if source not in made or (len(first), len(second), len(third)) != (4, 5, 5):
        return None
    one = isinstance(second[2], IntImm) and second[2].value == 1
    before = [*first], [*second[:2], *second[3:]], [*third[:2], *third[3:]]
    fits = one and _is_equal(before[0], before[1]) and _is_equal(before[1], before[2])
    return source if fits else None


def _is_equal(a: list[PrimExpr], b: list[PrimExpr]) -> bool:
    """Tell whether extents are structurally equal, without a proof."""
    return all(
        x is y or (isinstance(x, IntImm) and isinstance(y, IntImm) and x.value == y.value)
        for x, y in zip(a, b, strict=True)
    )


def _dims(leaf: object) -> tuple[PrimExpr, ...] | None:
    info = tensor_info(leaf)
    return None if info is None or info.dims is None else tuple(info.dims)


def _is_few(rows: PrimExpr) -> bool:
    return isinstance(rows, IntImm) and 1 <= rows.value <= _FEW
