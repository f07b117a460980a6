"""Every name of ``T`` that a program may use, with its function: one explicit table.

The parser looks names up only here; ``loomir.script.tir`` exports the same objects.
"""

from __future__ import annotations

from typing import Final

from loomir.script.builder import attribute_values, dtype_names, dtypes, function
from loomir.script.builder import expressions as ex
from loomir.script.builder.arguments import as_dtype
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.tir import (
    blocks,
    buffers,
    builtin_calls,
    calls_out,
    loops,
    named_expressions,
    scopes,
)
from loomir.support.dtype import DataType

__all__ = [
    "AXIS",
    "BUILDER_NAMES",
    "DTYPE_FIRST",
    "MODULE_NAMES",
    "NAMES",
    "makes_expression",
]

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


def dtype_named(name: str) -> DataType:
    """Name a dtype as a value."""
    return as_dtype(name)


NAMES: Final[dict[str, object]] = {
    **{name: getattr(named_expressions, name) for name in named_expressions.__all__},
    **{name: getattr(builtin_calls, name) for name in builtin_calls.__all__},
    **{name: getattr(dtype_names, name) for name in dtype_names.__all__},
    **{name: getattr(calls_out, name) for name in calls_out.__all__},
    # functions and buffers
    "Buffer": BufferSpec,
    "buffer": BufferSpec,
    "match_buffer": buffers.match_buffer,
    "alloc_buffer": buffers.alloc_buffer,
    "sblock_alloc_buffer": buffers.alloc_buffer,
    "alloc_local": buffers.alloc_local,
    "alloc_shared": buffers.alloc_shared,
    "decl_buffer": buffers.decl_buffer,
    "func_attr": function.func_attr,
    # loops
    "serial": loops.serial,
    "parallel": loops.parallel,
    "vectorized": loops.vectorized,
    "unroll": loops.unroll,
    "thread_binding": loops.thread_binding,
    "grid": loops.grid,
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
    "env_thread": scopes.env_thread,
    "let": scopes.LET,
    "bind": scopes.bind,
    "Bind": scopes.bind,
    "index_map": attribute_values.index_map,
    "target": attribute_values.target,
    "iter_var": scopes.iter_var,
    "evaluate": scopes.evaluate,
    "buffer_load": scopes.buffer_load,
    "BufferLoad": scopes.buffer_load,
    "buffer_store": scopes.buffer_store,
    "meta_var": scopes.MetaVar,
    # expressions
    "ceildiv": ex.ceildiv,
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
    "Call": loops.call,
    "Range": ex.span_range,
    "StringImm": ex.string,
    "var": ex.var,
    "Var": ex.declare_var,
    "IntImm": ex.int_imm,
    "FloatImm": ex.float_imm,
    "dtype": dtype_named,
    "min_value": dtypes.min_value,
    "max_value": dtypes.max_value,
    "infinity": dtypes.infinity,
}
"""The names of ``T``, ``T.axis`` and ``T.prim_func`` aside."""

DTYPE_FIRST: Final = frozenset(
    (builtin_calls.vectorlow, builtin_calls.vectorhigh, builtin_calls.vectorcombine)
)
"""Functions of any arguments whose first one may be a dtype."""

_EXPRESSIONS: Final[frozenset[object]] = frozenset(
    [NAMES[name] for name in (*named_expressions.__all__, *builtin_calls.__all__)]
    + [NAMES[name] for name in ("ceildiv", "ldexp", "if_then_else", "Select", "ret", "Let")]
    + [NAMES[name] for name in ("break_loop", "continue_loop")]
)


def makes_expression(function: object) -> bool:
    """Whether a function of ``T`` makes an expression, of which a call may say the dtype."""
    return function in _EXPRESSIONS


BUILDER_NAMES: Final[dict[str, object]] = {
    "func_name": function.func_name,
    "func_ret": function.func_ret,
    "arg": function.arg,
    "If": scopes.IfFrame,
    "Then": scopes.ThenFrame,
    "Else": scopes.ElseFrame,
    "While": loops.WhileFrame,
}
"""The names of ``T`` for building a program in Python, where a text has syntax of its own."""

MODULE_NAMES: Final[dict[str, object]] = {
    "module_attrs": function.module_attrs,
    "module_global_infos": function.module_global_infos,
    "vdevice": function.vdevice,
    "meta_var": scopes.MetaVar,
    "GlobalVar": ex.global_var,
}
"""The names of ``I`` that may stand in a program."""
