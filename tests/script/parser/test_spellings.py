"""Every name of the language, of both generations: each is read in a program, or refused by name."""

from __future__ import annotations

import pytest

from loomir.ir import assert_structural_equal
from loomir.script import from_source
from loomir.script.builder import dtype_names
from loomir.script.builder.tir.device_calls import DEVICE_NAMES
from loomir.script.parser.evaluate.namespaces import I, T
from loomir.support.diagnostics import CompileError
from loomir.tir import BUILTINS, PrimFunc
from tests.clause import clauses
from tests.script.parser.programs import refused

HEAD = """@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "int32"),
      x: T.int32, y: T.int32, z: T.float32, b: T.bool, p: T.handle):
"""
BLOCK = "for i in range(8):\n    with T.{}('name'):\n        {}\n        B[i] = 1"

FLOATS = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "nearbyint",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "abs",
]
TWO_FLOATS = ["atan2", "copysign", "fmod", "hypot", "nextafter", "pow", "power", "logaddexp"]
TWO_INTEGERS = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "Div",
    "FloorDiv",
    "FloorMod",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Sub",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "div",
    "floordiv",
    "floormod",
    "indexdiv",
    "indexmod",
    "max",
    "min",
    "shift_left",
    "shift_right",
    "truncdiv",
    "truncmod",
    "ceildiv",
]

USES: dict[str, str] = {
    **{name: f"T.evaluate(T.{name}(z))" for name in FLOATS},
    **{name: f"T.evaluate(T.{name}(z, A[0, 0]))" for name in TWO_FLOATS},
    **{name: f"T.evaluate(T.{name}(x, y))" for name in TWO_INTEGERS},
    "fabs": "T.evaluate(T.fabs(z))",
    "IntImm": 'T.evaluate(T.IntImm("int64", 3))',
    "FloatImm": 'T.evaluate(T.FloatImm("float16", 1.5))',
    "Var": 'v = T.Var("v", "int32")\nT.bind(x, var=v)\nT.evaluate(v)',
    **{
        name: f"T.evaluate(T.{name}(x, y))"
        for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LShift", "RShift")
    },
    "BitwiseNot": "T.evaluate(T.BitwiseNot(x))",
    **{name: f"T.evaluate(T.{name}(x))" for name in ("bitwise_not", "clz", "popcount")},
    **{name: f"T.evaluate(T.{name}(b, x > y))" for name in ("And", "Or", "all", "any")},
    **{
        name: f"T.evaluate(T.{name}(b))"
        for name in ("Not", "assume", "likely", "ignore_loop_partition")
    },
    **{
        name: f"T.evaluate(T.{name}('float32'))"
        for name in ("min_value", "max_value", "infinity", "undef")
    },
    **{
        name: f"for i in T.{name}(0, 8):\n    B[i] = i"
        for name in ("serial", "parallel", "vectorized", "unroll")
    },
    **{name: f"B[0] = T.{name}(B, [1])" for name in ("buffer_load", "BufferLoad")},
    **{name: f"C = T.{name}((8,), 'int32')\nC[0] = 1" for name in ("alloc_buffer", "decl_buffer")},
    **{name: f"C = T.{name}((8,), 'int32')\nC[0] = 1" for name in ("alloc_local", "alloc_shared")},
    **{name: f"v = T.{name}(x)\nB[0] = v" for name in ("bind", "Bind")},
    "let": "v: T.let[T.int32] = x\nB[0] = v",
    "env_thread": "t = T.env_thread('threadIdx.x')\nwith T.launch_thread(t, 8):\n    B[t] = 1",
    "index_map": "T.func_attr({'k': T.index_map(lambda i, j: (j, i))})\nB[0] = 1",
    "target": "T.func_attr({'k': T.target('llvm')})\nB[0] = 1",
    **{name: BLOCK.format(name, "pass") for name in ("sblock", "block")},
    **{
        name: BLOCK.format("sblock", f"T.{name}({{'k': 1}})")
        for name in ("sblock_attr", "block_attr")
    },
    **{
        name: f"T.{name}('a.name', x, dtype='int32')"
        for name in (
            "call_packed",
            "call_cpacked",
            "call_packed_lowered",
            "call_cpacked_lowered",
            "tvm_call_packed",
            "tvm_call_cpacked",
            "tvm_call_packed_lowered",
            "tvm_call_cpacked_lowered",
        )
    },
    **{name: f"B[0] = T.{name}('int32', 'abs', x)" for name in ("call_extern", "call_pure_extern")},
    **{
        name: f"B[0] = T.{name}('int32', 'llvm.ctpop', x)"
        for name in ("call_llvm_intrin", "call_llvm_pure_intrin")
    },
    **{name: f"T.evaluate(T.{name}(z, 4))" for name in ("Broadcast", "broadcast")},
    **{name: f"T.evaluate(T.{name}(x, 1, 4))" for name in ("Ramp", "ramp")},
    "sblock_alloc_buffer": BLOCK.format(
        "sblock", "C = T.sblock_alloc_buffer((8,))\n        C[0] = 1"
    ),
    "fma": "T.evaluate(T.fma(z, z, z))",
    "ldexp": "T.evaluate(T.ldexp(z, x))",
    "dot_tiles": "T.dot_tiles(A.data, p, p, x, 16, 32, 'int8', 'uint8', True)",
    "dp4a": "B[0] = T.dp4a(T.reinterpret('int8x4', x), T.reinterpret('int8x4', y), 1)",
    "dp2a": "T.evaluate(T.dp2a(T.reinterpret('bfloat16x2', x), T.reinterpret('bfloat16x2', y), z))",
    "get_active_lane_mask": "T.evaluate(T.get_active_lane_mask('boolx4', x, y))",
    "address_of": "T.evaluate(T.address_of(A[0, 1]))",
    "handle_add_byte_offset": "T.evaluate(T.handle_add_byte_offset(A.data, 4))",
    "ptr_byte_offset": "T.evaluate(T.ptr_byte_offset(A.data, 4, 'float32'))",
    "tvm_access_ptr": "T.evaluate(T.tvm_access_ptr(T.type_annotation('float32'), A.data, 0, 8, 1))",
    "type_annotation": "T.evaluate(T.tvm_access_ptr(T.type_annotation('float32'), A.data, 0, 8, 1))",
    "isnullptr": "T.evaluate(T.isnullptr(p))",
    "prefetch": "T.prefetch(A.data, 1)",
    "q_multiply_shift": "B[0] = T.q_multiply_shift(x, y, 31, 1)",
    "q_multiply_shift_per_axis": "B[0] = T.q_multiply_shift_per_axis(x, y, 1, 1, 31, b, b)",
    "tvm_tuple": "T.evaluate(T.tvm_tuple(x, y))",
    "vectorlow": "T.evaluate(T.vectorlow('int32x2', T.Ramp(x, 1, 4)))",
    "vectorhigh": "T.evaluate(T.vectorhigh('int32x2', T.Ramp(x, 1, 4)))",
    "vectorcombine": "T.evaluate(T.vectorcombine('int32x4', T.Ramp(x, 1, 2), T.Ramp(y, 1, 2)))",
    "call_intrin": "T.evaluate(T.call_intrin('float32', 'tir.exp', z))",
    "buffer": "C: T.buffer((8,), 'int32') = T.alloc_buffer((8,), 'int32')\nC[0] = 1",
    "llvm_lookup_intrinsic_id": "T.evaluate(T.call_llvm_pure_intrin('float32', "
    "T.llvm_lookup_intrinsic_id('llvm.fabs'), z))",
    "Buffer": "C: T.Buffer((8,), 'int32') = T.alloc_buffer((8,), 'int32')\nC[0] = 1",
    "match_buffer": "C = T.match_buffer(p, (8,), 'int32')\nC[0] = 1",
    "func_attr": "T.func_attr({'k': 1})\nB[0] = 1",
    "thread_binding": "for i in T.thread_binding(0, 8, thread='threadIdx.x'):\n    B[i] = i",
    "grid": "for i, j in T.grid(8, 8):\n    A[i, j] = 1.0",
    "break_loop": "for i in range(8):\n    T.break_loop()",
    "continue_loop": "for i in range(8):\n    T.continue_loop()",
    "ret": "T.ret(x)",
    "init": "for i in range(8):\n    with T.sblock():\n        v = T.axis.reduce(8, i)\n        with T.init():\n            B[0] = 0\n        B[0] = v",
    "where": BLOCK.format("sblock", "T.where(i < 3)"),
    "reads": BLOCK.format("sblock", "T.reads(A[0:2, i])"),
    "writes": BLOCK.format("sblock", "T.writes(B[i])"),
    "LetStmt": "with T.LetStmt(x) as v:\n    B[0] = v",
    "allocate": "with T.allocate([8], 'int32') as q:\n    T.evaluate(q)",
    "Assert": "with T.Assert(x > 0, 'text'):\n    B[0] = 1",
    "attr": "with T.attr(0, 'key', 1):\n    B[0] = 1",
    "launch_thread": "with T.launch_thread('threadIdx.x', 8) as t:\n    B[t] = 1",
    "iter_var": "with T.attr(T.iter_var(T.var('int32'), None, 'ThreadIndex', 'threadIdx.x'), 'thread_extent', 8):\n    B[0] = 1",
    "evaluate": "T.evaluate(x)",
    "buffer_store": "T.buffer_store(B, x, [1])",
    "meta_var": "v = T.meta_var(x)\nB[0] = v",
    "if_then_else": "B[0] = T.if_then_else(b, x, y)",
    "Select": "B[0] = T.Select(b, x, y)",
    "Cast": "T.evaluate(T.Cast('int8', x))",
    "cast": "T.evaluate(T.cast(x, 'int8'))",
    "Shuffle": "T.evaluate(T.Shuffle([x, y], [1, 0]))",
    "Let": "v = T.int32()\nB[0] = T.Let(v + 1, where={v: x})",
    "reinterpret": "T.evaluate(T.reinterpret('float32', x))",
    "Call": "T.evaluate(T.Call('float32', 'tir.exp', [z]))",
    "Range": "T.evaluate(x)\n" + BLOCK.format("sblock", "T.reads(A[T.Range(0, 2), i])"),
    "StringImm": "T.evaluate(T.StringImm('a'))",
    "var": "v = T.var('int64')\nC = T.match_buffer(p, (v,), 'int32')\nC[0] = 1",
    "dtype": "T.evaluate(T.cast(x, T.dtype('int8')))",
    "macro": "@T.macro\ndef g(v):\n    B[0] = v\ng(x)",
    "inline": "@T.inline\ndef g(v):\n    B[0] = v\ng(x)",
    "prim_func": "pass",
    "axis": BLOCK.format("sblock", "v = T.axis.spatial(8, i)"),
}

# Instructions of GPUs are tested in test_device_calls.py.
ON_DEVICES = frozenset(name.partition(".")[0] for name in DEVICE_NAMES)

# What passes put into programs; test_evaluator.py holds that each is a function of T.
INSERTED = frozenset(
    name for name in T.table if name.startswith(("watch_", "tvm_stack_make_", "check"))
)

# The names of other generations that users may have in their programs.
BUILTINS_ELSEWHERE = [
    "call_packed_lowered",
    "call_cpacked_lowered",
    "call_packed",
    "call_cpacked",
    "call_intrin",
    "call_pure_extern",
    "call_extern",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "tvm_stack_alloca",
    "tvm_stack_make_shape",
    "tvm_stack_make_array",
    "assume",
    "undef",
    "start_profile_intrinsic",
    "end_profile_intrinsic",
    "tvm_tuple",
    "handle_add_byte_offset",
    "tvm_struct_get",
    "tvm_struct_set",
    "address_of",
    "lookup_param",
    "tvm_thread_allreduce",
    "tvm_thread_invariant",
    "tvm_storage_sync",
    "tvm_kernel_replace_point",
    "tvm_global_barrier_kinit",
    "tvm_warp_shuffle",
    "tvm_warp_shuffle_up",
    "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_xor",
    "tvm_warp_activemask",
    "type_annotation",
    "tvm_access_ptr",
    "ptr_byte_offset",
    "tvm_throw_last_error",
    "print_buffer",
    "cooperative_tensor_fill",
    "cooperative_tensor_load",
    "cooperative_tensor_store",
    "cooperative_tensor_multiply_accumulate",
    "vectorlow",
    "vectorhigh",
    "vectorcombine",
    "dp2a",
    "dp4a",
    "any",
    "all",
    "trace",
    "min_value",
    "max_value",
    "infinity",
    "reinterpret",
    "exp",
    "exp2",
    "exp10",
    "fma",
    "erf",
    "tanh",
    "sigmoid",
    "log",
    "log2",
    "log10",
    "log1p",
    "tan",
    "cos",
    "cosh",
    "acos",
    "acosh",
    "sin",
    "sinh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "atan2",
    "sqrt",
    "rsqrt",
    "clz",
    "floor",
    "ceil",
    "trunc",
    "abs",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "round",
    "nearbyint",
    "nextafter",
    "hypot",
    "copysign",
    "ldexp",
    "likely",
    "filter",
    "selector",
    "isnan",
    "isnullptr",
    "isfinite",
    "isinf",
    "power",
    "pow",
    "popcount",
    "q_multiply_shift",
    "q_multiply_shift_per_axis",
    "shift_left",
    "shift_right",
    "fmod",
    "if_then_else",
    "div",
    "indexdiv",
    "indexmod",
    "truncdiv",
    "truncmod",
    "floordiv",
    "logaddexp",
    "floormod",
    "ceildiv",
    "comm_reducer",
    "TVMBackendAllocWorkspace",
    "TVMBackendFreeWorkspace",
    "anylist_getitem",
    "anylist_resetitem",
    "anylist_setitem_call_packed",
    "anylist_setitem_call_cpacked",
    "vscale",
    "get_active_lane_mask",
    "get_vscale_expr",
    "ignore_loop_partition",
    "tvm_load_matrix_sync",
    "tvm_mma_sync",
    "tvm_bmma_sync",
    "tvm_fill_fragment",
    "tvm_store_matrix_sync",
    "thread_return",
    "continue_loop",
    "break_loop",
]
STATEMENTS_ELSEWHERE = [
    "load",
    "store",
    "realize",
    "buffer_realize",
    "preflattened_buffer",
    "match_buffer_region",
    "buffer_decl",
    "allocate_const",
    "prefetch",
    "range",
    "tvm_check_return",
]


def program(use: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in use.split("\n"))


@clauses("TS-SYN-20", "TS-FLOW-03")
@pytest.mark.parametrize(
    "name", sorted(set(T.table) - INSERTED - ON_DEVICES - set(dtype_names.__all__))
)
def test_each_name_is_read_and_comes_back(name: str):
    assert f"T.{name}" in program(USES[name])
    made = from_source(program(USES[name]))
    assert isinstance(made, PrimFunc)
    assert_structural_equal(from_source(made.script()), made)


def test_no_use_is_of_a_name_that_is_gone():
    assert set(USES) <= set(T.table)
    assert {n for n in BUILTINS if n not in T.table and n not in BUILTINS_ELSEWHERE} == set()
    assert set(I.table) == {
        *("GlobalVar", "ir_module", "meta_var"),
        *("module_attrs", "module_global_infos", "vdevice"),
    }


@pytest.mark.parametrize("name", [n for n in dtype_names.__all__ if n in T.table])
def test_each_dtype_is_read(name: str):
    if name == "void":
        assert isinstance(from_source("@T.prim_func\ndef f() -> T.void:\n    pass\n"), PrimFunc)
        return
    made = from_source(f"@T.prim_func\ndef f(v: T.{name}, w: T.{name}()):\n    T.evaluate(v)\n")
    assert isinstance(made, PrimFunc)
    assert made.params[0].dtype == made.params[1].dtype
    assert_structural_equal(from_source(made.script()), made)


@clauses("TS-SYN-20")
@pytest.mark.parametrize("name", [*BUILTINS_ELSEWHERE, *STATEMENTS_ELSEWHERE])
@pytest.mark.parametrize(
    "use", ["T.evaluate(T.{}(x))", "for i in T.{}(8):\n    pass", "T.evaluate(T.{})"]
)
def test_names_of_other_generations_are_known_or_refused_by_name(name: str, use: str):
    if name in T.table:
        return
    (found,) = refused(program(use.format(name)))
    assert found.code == "SCR0004"
    assert f"T.{name}" in found.message
    assert not found.help.startswith(("did you mean", "see the reference"))


@pytest.mark.parametrize("name", ["spatial", "S", "reduce", "R", "scan", "opaque", "remap"])
def test_each_axis_is_read(name: str):
    arguments = "'S', [i]" if name == "remap" else "8, i"
    target = "v," if name == "remap" else "v"
    made = from_source(program(BLOCK.format("sblock", f"{target} = T.axis.{name}({arguments})")))
    assert_structural_equal(from_source(made.script()), made)


def test_a_name_of_no_generation_is_refused_with_the_nearest():
    with pytest.raises(CompileError) as caught:
        from_source(program("for i in T.seriel(8):\n    pass"))
    assert caught.value.diagnostic.help == "did you mean T.serial?"


@pytest.mark.parametrize("name", ["DTensor", "Placement", "device_mesh", "dist"])
def test_names_of_distributed_graphs_say_what_to_write(name: str):
    text = f"@R.function\ndef f(x: R.Tensor((4,), 'float32')):\n    y = R.{name}(x)\n    return y\n"
    (found,) = refused(text)
    assert found.code == "SCR0004"
    assert found.message == (
        f"there is no R.{name}: a program runs on one machine, and its tensors are whole"
    )
    assert found.help.startswith("write R.Tensor, without a mesh")
