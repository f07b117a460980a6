"""Instructions of GPUs and of one processor: read, printed, and refused by all that would run them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import loomir
from loomir.ir import assert_structural_equal, structural_equal
from loomir.script import from_source
from loomir.script.builder.tir.device_calls import DEVICE_NAMES
from loomir.support.diagnostics import CompileError
from loomir.tir import PrimFunc
from loomir.tir.builtins.device import DEVICE
from tests.script.parser.programs import HEAD, refused_body

MMA = (
    'T.ptx_mma("m16n8k8", "row", "col", "fp16", "fp16", "fp32", A.data, 0, A.data, x, A.data, 0, '
    'False, dtype="float32")'
)
LINES = [
    *(f"T.{name}()" for name in DEVICE_NAMES if name != "comm_reducer"),
    MMA,
    'T.tvm_storage_sync("shared.dyn")',
    'T.ptx_wait_group(0, dtype="")',
    "A[0, 0] = T.tvm_warp_shuffle_down(T.tvm_warp_activemask(), A[0, 1], 16, 32, 32)",
    "A[x, 0] = T.metal.simd_shuffle(A[x, 1], 3)",
    (
        "T.tvm_load_matrix_sync(A.data, 16, 16, 16, A.elem_offset // 256, "
        'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 64, 1), 8, "row_major")'
    ),
    "T.metal.simdgroup_load(A.data, 0, A.access_ptr('r'), 8, 8, 8, False)",
    (
        "with T.attr(T.comm_reducer(lambda a, b: T.max(a, b), [T.float32(0)]), 'reduce_scope', 0):"
        "\n        T.tvm_thread_allreduce(T.uint32(1), A[0, 0], True, A.data, x, dtype='handle')"
    ),
]


def program(line: str) -> PrimFunc:
    made = from_source(HEAD + f"    {line}\n")
    assert isinstance(made, PrimFunc)
    return made


@pytest.mark.parametrize("line", LINES)
def test_instructions_are_read_and_printed(line: str) -> None:
    made = program(line)
    loomir.verify(made)
    assert_structural_equal(from_source(made.script()), made)


def test_every_instruction_is_a_name() -> None:
    assert set(DEVICE_NAMES) == {row.name for row in DEVICE.values()}


@pytest.mark.parametrize("run", [loomir.compile, lambda f: loomir.interpret(f, None, 1, None)])
@pytest.mark.parametrize("line", LINES[-7:])
def test_no_cpu_runs_them(line: str, run: Callable[[PrimFunc], object]) -> None:
    with pytest.raises(CompileError) as caught:
        run(program(line))
    assert {d.code for d in caught.value.diagnostics} == {"TIR0512"}
    assert all(d.help and d.span for d in caught.value.diagnostics)


def test_their_dtypes_are_part_of_them() -> None:
    assert "dtype" in program(MMA).script()
    assert not structural_equal(program(MMA), program(MMA.replace("float32", "float16")))


def test_intrinsics_of_one_processor() -> None:
    line = 'A[0, 0:8] = T.call_llvm_intrin("float32x8", "llvm.x86.avx.max.ps.256", A[0, 0:8], 2.0)'
    made = program(line)
    assert_structural_equal(from_source(made.script()), made)
    with pytest.raises(CompileError) as caught:
        loomir.compile(made)
    assert [d.code for d in caught.value.diagnostics] == ["TIR0512"]
    assert [d.code for d in refused_body(line.replace("llvm.x86.avx.max", "llvm.maxi"))] == [
        "TIR0123"
    ]


def test_a_function_of_gpus_that_every_machine_has() -> None:
    call = "B[0] = {}\n"
    text = (
        "@T.prim_func\ndef f(a: T.Buffer((4,), 'int8'), b: T.Buffer((4,), 'int8'), "
        "B: T.Buffer((1,), 'int32')):\n    "
    )
    written = 'T.call_pure_extern("int32", "__dp4a", a[0:4], b[0:4], B[0])'
    assert_structural_equal(
        from_source(text + call.format(written)),
        from_source(text + call.format("T.dp4a(a[0:4], b[0:4], B[0])")),
    )


def test_reducers_are_lambdas() -> None:
    assert [d.code for d in refused_body('T.evaluate(T.comm_reducer("x + y", [0]))')] == ["SCR0005"]
