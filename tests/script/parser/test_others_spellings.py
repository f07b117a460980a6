"""Spellings of programs that others wrote: read as the form of ours that means the same."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.ir import assert_structural_equal
from loomir.script import from_source
from tests.script.parser.programs import read_module, refused, refused_body


@pytest.mark.parametrize(
    ("others", "ours"),
    [
        (
            'T.call_llvm_intrin(T.llvm_lookup_intrinsic_id("llvm.fabs"), B[i], dtype="float32")',
            'T.call_llvm_intrin("float32", "llvm.fabs", B[i])',
        ),
        (
            'T.call_llvm_intrin("float32", T.llvm_lookup_intrinsic_id("llvm.sqrt"), B[i])',
            'T.call_llvm_intrin("float32", "llvm.sqrt", B[i])',
        ),
    ],
)
def test_intrinsics_of_llvm(others: str, ours: str) -> None:
    text = (
        '@T.prim_func\ndef f(B: T.{}((8,), "float32")):\n    for i in range(8):\n        B[i] = {}'
    )
    assert_structural_equal(
        from_source(text.format("buffer", others)), from_source(text.format("Buffer", ours))
    )


@pytest.mark.parametrize("call", ["()", '("float32")', '(dtype="float32")'])
def test_an_intrinsic_without_its_name(call: str) -> None:
    (found,) = refused_body(f"A[0, 0] = T.call_llvm_intrin{call}")
    assert found.code == "SCR0005"
    assert "T.call_llvm_pure_intrin(" in found.help


def test_an_extern_call_without_a_result() -> None:
    text = '@T.prim_func\ndef f(p: T.handle):\n    T.evaluate(T.call_extern("g", p, dtype="{}"))'
    assert_structural_equal(from_source(text.format("")), from_source(text.format("void")))


def test_vectors_of_which_lanes_are_left_out() -> None:
    mask = "predicate=T.Broadcast(T.bool(True), 4)"
    for line in (
        f"y = A.vload([0, T.Ramp(0, 1, 4)], {mask})",
        f"A.vstore([0, T.Ramp(0, 1, 4)], T.Broadcast(T.float32(0), 4), {mask})",
    ):
        (found,) = refused_body(line)
        assert found.code == "SCR0005"
        assert "T.vectorized" in found.help


@pytest.mark.parametrize("native", [False, True])
def test_offsets_of_views_without_a_name(native: bool) -> None:
    program = from_source(
        """
@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), out: T.Buffer((2, 4), "int64")):
    D = T.decl_buffer((8,), "float32", data=A.data, elem_offset=16)
    for i in range(2):
        with T.sblock("outer"):
            vi = T.axis.spatial(2, i)
            B = T.match_buffer(A[vi:vi + 2, 2:6], (2, 4), strides=["s", 1])
            E = T.match_buffer(D[vi:vi + 4], (4,))
            with T.sblock("inner"):
                C = T.match_buffer(B[1, 1:3], (2,))
                N = T.match_buffer(B[1, 1:3], (2,), elem_offset="named")
                out[vi, 0] = T.int64(B.elem_offset)
                out[vi, 1] = T.int64(C.elem_offset)
                out[vi, 2] = T.int64(N.elem_offset)
                out[vi, 3] = T.int64(E.elem_offset)
"""
    )
    data, out = np.zeros((4, 8), "float32"), np.zeros((2, 4), "int64")
    if native:
        loomir.compile(program, cache=False)["f"](data, out)
    else:
        loomir.interpret(program, "f", data, out)
    assert out.tolist() == [[2, 11, 11, 16], [10, 19, 19, 17]]


def test_what_is_known_of_a_tensor_describes_another() -> None:
    text = """
@R.function
def f(x: R.Tensor(("n", 4), "float32")):
    n = T.int64()
    return R.call_pure_packed("g", x, sinfo_args=[{}])
"""
    wanted = from_source(text.format('R.Tensor((n, 4), "float32")'))
    assert_structural_equal(from_source(text.format("x.struct_info")), wanted)
    assert_structural_equal(from_source(text.format("x.ty")), wanted)


MODULE = """
@I.ir_module
class M:
    {}
    @R.function(pure=False)
    def f(x: R.Tensor((4,), "float32")):
        cls = M
        y = R.call_dps_packed({}, (x,), out_sinfo=R.Tensor((4,), "float32"))
        z = R.call_packed({}, y, sinfo_args=R.Tensor((4,), "float32"))
        return z
"""


def test_packed_functions_that_the_module_names() -> None:
    named = MODULE.format('g = R.ExternFunc("out.g")', "cls.g", "M.g")
    outside = 'R.ExternFunc("out.g")'
    assert_structural_equal(read_module(named), read_module(MODULE.format("", outside, outside)))


def test_a_module_that_names_a_packed_function_twice() -> None:
    twice = 'f = R.ExternFunc("f")'
    (found,) = refused(MODULE.format(twice, '"g"', 'R.ExternFunc("g")'))
    assert found.code == "SCR0026"


def test_views_whose_options_are_left_out_by_an_empty_tuple() -> None:
    text = """
@R.function
def f(x: R.Tensor((4, 2), "float32")):
    return R.memory.view({})
"""
    for others, ours in (
        ("x, R.shape([8]), R.tuple(), R.tuple()", "x, R.shape([8])"),
        ("x, R.shape([8]), R.dtype('int32'), R.tuple()", "x, R.shape([8]), 'int32'"),
    ):
        assert_structural_equal(from_source(text.format(others)), from_source(text.format(ours)))


def test_integers_behind_the_results_of_a_kernel() -> None:
    (found,) = refused("""
@I.ir_module
class M:
    @T.prim_func
    def copy(a: T.handle, b: T.handle, n: T.int64):
        A = T.match_buffer(a, (n,))
        B = T.match_buffer(b, (n,))
        for i in range(n):
            B[i] = A[i]

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        return R.call_tir(M.copy, x, R.Tensor((n,), "float32"), tir_vars=(n,))
""")
    assert found.code == "RLX0234"
    assert "write the integers of 'copy' before its results" in found.help


def test_numbers_among_the_arguments_of_an_intrinsic_come_back() -> None:
    program = from_source("""
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    A[0:4] = T.call_llvm_pure_intrin("float32x4", "llvm.amdgcn.mfma", A[0:4], T.int32(0))
""")
    assert_structural_equal(from_source(program.script()), program)
