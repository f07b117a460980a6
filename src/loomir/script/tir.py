"""``T``: the language of loops, for annotations, decorators, and building programs in Python.

``from loomir.script import tir as T`` is the usual import. In a function under ``@T.prim_func`` the
parser reads these names. Elsewhere they are ordinary functions; those that create statements need a
builder: ``with IRBuilder() as ib: with T.prim_func(): …``, then ``ib.get()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from loomir.script.builder import buffer_spec, dtype_names, expressions
from loomir.script.builder.attribute_values import index_map, target
from loomir.script.builder.dtype_names import *  # noqa: F403
from loomir.script.builder.dtypes import infinity, max_value, min_value
from loomir.script.builder.expressions import (
    broadcast,
    cast,
    ceildiv,
    if_then_else,
    ldexp,
    ramp,
    reinterpret,
    var,
)
from loomir.script.builder.frame import (
    IRBuilder,
)
from loomir.script.builder.function import (
    arg,
    func_attr,
    func_name,
    func_ret,
)
from loomir.script.builder.tir import (
    blocks,
    buffers,
    builtin_calls,
    calls_out,
    loops,
    named_expressions,
    scopes,
    table,
)
from loomir.script.builder.tir.blocks import (
    axis,
    block_attr,
    init,
    reads,
    sblock,
    where,
    writes,
)
from loomir.script.builder.tir.buffers import (
    alloc_buffer,
    alloc_local,
    alloc_shared,
    decl_buffer,
    match_buffer,
)
from loomir.script.builder.tir.builtin_calls import *  # noqa: F403
from loomir.script.builder.tir.calls_out import *  # noqa: F403
from loomir.script.builder.tir.device_calls import DEVICE_NAMES
from loomir.script.builder.tir.loops import (
    break_loop,
    continue_loop,
    grid,
    parallel,
    ret,
    serial,
    thread_binding,
    unroll,
    vectorized,
)
from loomir.script.builder.tir.named_expressions import *  # noqa: F403
from loomir.script.builder.tir.refused_names import REFUSED
from loomir.script.builder.tir.scopes import (
    allocate,
    attr,
    bind,
    buffer_load,
    buffer_store,
    env_thread,
    evaluate,
    iter_var,
    launch_thread,
)
from loomir.script.parser.entry import (
    inline,
    macro,
    prim_func,
)
from loomir.support.argument_errors import refuse_missing

# The families of names whose modules list them are taken whole.
__all__ = [
    "Assert",
    "Bind",
    "Broadcast",
    "Buffer",
    "BufferLoad",
    "Call",
    "Cast",
    "Else",
    "FloatImm",
    "IRBuilder",
    "If",
    "IntImm",
    "Let",
    "LetStmt",
    "Ramp",
    "Range",
    "Select",
    "Shuffle",
    "StringImm",
    "Then",
    "Var",
    "While",
    "alloc_buffer",
    "alloc_local",
    "alloc_shared",
    "allocate",
    "arg",
    "attr",
    "axis",
    "bind",
    "block",
    "block_attr",
    "break_loop",
    "broadcast",
    "buffer",
    "buffer_load",
    "buffer_store",
    "cast",
    "ceildiv",
    "continue_loop",
    "decl_buffer",
    "dtype",
    "env_thread",
    "evaluate",
    "func_attr",
    "func_name",
    "func_ret",
    "grid",
    "if_then_else",
    "index_map",
    "infinity",
    "init",
    "inline",
    "iter_var",
    "launch_thread",
    "ldexp",
    "let",
    "macro",
    "match_buffer",
    "max_value",
    "meta_var",
    "min_value",
    "parallel",
    "prim_func",
    "ramp",
    "reads",
    "reinterpret",
    "ret",
    "sblock",
    "sblock_alloc_buffer",
    "sblock_attr",
    "serial",
    "target",
    "thread_binding",
    "unroll",
    "var",
    "vectorized",
    "where",
    "writes",
]
__all__ += builtin_calls.__all__
__all__ += calls_out.__all__
__all__ += dtype_names.__all__
__all__ += named_expressions.__all__

_V = TypeVar("_V")

# Names of the language that Python writes otherwise, and other names of the same.
Assert = scopes.check
Broadcast = expressions.broadcast
Buffer = buffer_spec.BufferSpec
buffer = buffer_spec.BufferSpec
BufferLoad = scopes.buffer_load
Call = loops.call
Cast = expressions.cast_node
Else = scopes.ElseFrame
FloatImm = expressions.float_imm
If = scopes.IfFrame
IntImm = expressions.int_imm
Let = expressions.let
LetStmt = scopes.let_stmt
Ramp = expressions.ramp
Range = expressions.span_range
Select = expressions.select
Shuffle = expressions.shuffle
StringImm = expressions.string
Then = scopes.ThenFrame
Var = expressions.declare_var
While = loops.WhileFrame
Bind = scopes.bind
block = blocks.sblock
dtype = table.dtype_named
let = scopes.LET
sblock_alloc_buffer = buffers.alloc_buffer
sblock_attr = blocks.block_attr


def meta_var(value: _V) -> _V:
    """Return the value; in a program, name a value at parse time."""
    return value


_DECORATORS = {
    **dict.fromkeys(("func", "function", "kernel", "jit"), "@T.prim_func"),
    "ir_module": "@I.ir_module",
    "Tensor": 'T.Buffer((8,), "float32")',
}


if not TYPE_CHECKING:  # a checker of types must see that these names are missing

    def __getattr__(name: str) -> object:
        """Return an instruction of a GPU, or say what to use for a name that others have."""
        if name in DEVICE_NAMES:
            return DEVICE_NAMES[name]
        refused = REFUSED.get(name)
        instead = (
            {} if refused is None else {name: f"it otherwise: {refused.why}; {refused.instead}"}
        )
        return refuse_missing("T", __all__, {**_DECORATORS, **instead})(name)
