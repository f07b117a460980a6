"""Every name of ``T`` that a program may use, with its function: one explicit table.

The parser looks names up here and nowhere else; ``loomir.script.tir`` offers the same objects.
"""

from __future__ import annotations

from typing import Final

from loomir.script.builder import blocks, buffers, dtypes, function, loops, scopes
from loomir.script.builder import expressions as ex
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.support.dtype import DataType
from loomir.tir import expr as nodes
from loomir.tir.op import BUILTINS

__all__ = ["AXIS", "FRAME_ONLY", "MODULE_NAMES", "NAMES"]

_DTYPES: Final[dict[str, object]] = {
    name: value for name, value in vars(dtypes).items() if isinstance(value, dtypes.DTypeFunction)
}

AXIS: Final[dict[str, object]] = {
    "spatial": blocks.axis.spatial,
    "S": blocks.axis.spatial,
    "reduce": blocks.axis.reduce,
    "R": blocks.axis.reduce,
    "scan": blocks.axis.scan,
    "opaque": blocks.axis.opaque,
    "remap": blocks.axis.remap,
}
"""The names of ``T.axis``."""


def meta_var(value: object) -> object:
    """Give the value as it is: a name assigned to it stands for it while the program is read."""
    return value


def dtype_named(name: str) -> DataType:
    """Name a dtype as a value."""
    return DataType(name)


_OPERATORS: Final[dict[str, object]] = {
    name: ex.operator(node, f"Make a ``{node.__name__}`` of two operands.")
    for name, node in {
        "Add": nodes.Add,
        "Sub": nodes.Sub,
        "Mul": nodes.Mul,
        "Div": nodes.Div,
        "Mod": nodes.Mod,
        "FloorDiv": nodes.FloorDiv,
        "FloorMod": nodes.FloorMod,
        "Min": nodes.Min,
        "Max": nodes.Max,
        "EQ": nodes.Eq,
        "NE": nodes.NE,
        "LT": nodes.LT,
        "LE": nodes.LE,
        "GT": nodes.GT,
        "GE": nodes.GE,
    }.items()
}

NAMES: Final[dict[str, object]] = {
    **{name: ex.builtin(name) for name in BUILTINS},
    **_DTYPES,
    "bool": dtypes.boolean,
    "uint1": dtypes.boolean,
    **_OPERATORS,
    "And": ex.logical(nodes.And, "Make an ``And``."),
    "Or": ex.logical(nodes.Or, "Make an ``Or``."),
    "Not": ex.truth_not,
    # functions and buffers
    "Buffer": BufferSpec,
    "match_buffer": buffers.match_buffer,
    "alloc_buffer": buffers.alloc_buffer,
    "sblock_alloc_buffer": buffers.alloc_buffer,
    "decl_buffer": buffers.decl_buffer,
    "func_attr": function.func_attr,
    "func_name": function.func_name,
    "func_ret": function.func_ret,
    "arg": function.arg,
    # loops
    "serial": loops.serial,
    "parallel": loops.parallel,
    "vectorized": loops.vectorized,
    "unroll": loops.unroll,
    "thread_binding": loops.thread_binding,
    "grid": loops.grid,
    "While": loops.WhileFrame,
    "break_loop": loops.break_loop,
    "continue_loop": loops.continue_loop,
    "ret": loops.ret,
    # blocks
    "sblock": blocks.sblock,
    "block": blocks.sblock,
    "init": blocks.init,
    "where": blocks.where,
    "reads": blocks.reads,
    "writes": blocks.writes,
    "sblock_attr": blocks.block_attr,
    "block_attr": blocks.block_attr,
    # other statements
    "LetStmt": scopes.let_stmt,
    "allocate": scopes.allocate,
    "Assert": scopes.check,
    "attr": scopes.attr,
    "launch_thread": scopes.launch_thread,
    "If": scopes.IfFrame,
    "Then": scopes.ThenFrame,
    "Else": scopes.ElseFrame,
    "evaluate": scopes.evaluate,
    "buffer_load": scopes.buffer_load,
    "BufferLoad": scopes.buffer_load,
    "buffer_store": scopes.buffer_store,
    "meta_var": meta_var,
    # expressions
    "min": _OPERATORS["Min"],
    "max": _OPERATORS["Max"],
    "div": _OPERATORS["Div"],
    "truncdiv": _OPERATORS["Div"],
    "truncmod": _OPERATORS["Mod"],
    "floordiv": _OPERATORS["FloorDiv"],
    "floormod": _OPERATORS["FloorMod"],
    "indexdiv": _OPERATORS["FloorDiv"],
    "indexmod": _OPERATORS["FloorMod"],
    "ceildiv": ex.ceildiv,
    "pow": ex.power,
    "power": ex.power,
    "ldexp": ex.ldexp,
    "if_then_else": ex.if_then_else,
    "Select": ex.select,
    "Cast": ex.cast_node,
    "cast": ex.cast,
    "Broadcast": ex.broadcast,
    "broadcast": ex.broadcast,
    "Ramp": ex.ramp,
    "ramp": ex.ramp,
    "Shuffle": ex.shuffle,
    "Let": ex.let,
    "reinterpret": ex.reinterpret,
    "Call": ex.call,
    "Range": ex.span_range,
    "StringImm": ex.string,
    "var": ex.var,
    "dtype": dtype_named,
    "min_value": dtypes.min_value,
    "max_value": dtypes.max_value,
    "infinity": dtypes.infinity,
}
"""The names of ``T``, ``T.axis`` and ``T.prim_func`` aside."""

FRAME_ONLY: Final = frozenset({"prim_func"})
"""Names of ``T`` that have a meaning as a decorator only."""

MODULE_NAMES: Final[dict[str, object]] = {
    "module_attrs": function.module_attrs,
    "GlobalVar": ex.global_var,
}
"""The names of ``I`` that may stand in a program."""
