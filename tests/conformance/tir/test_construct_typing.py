"""Typing rules of axes, ranges, buffers, regions, views and functions."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.ir import structural_equal
from loomir.support.dtype import HANDLE
from loomir.tir import (
    Buffer,
    BufferRegion,
    BufferType,
    Cast,
    Evaluate,
    IterVar,
    IterVarType,
    MatchBufferRegion,
    PointerType,
    PrimFunc,
    PrimType,
    Range,
    SeqStmt,
    TupleType,
    Var,
    call_builtin,
    convert,
    decl_buffer,
)
from tests.conformance.compare_engines import both, dt, i32, mistakes, refused, zeros
from tests.tir.programs import block, func, store
from tests.tir.refusal import refused as refuses

NOTHING = Evaluate(convert(0))


def of(dtype: str) -> Var:
    return Var("x", dtype)


# -- axes, ranges, buffers -----------------------------------------------------------------------
def test_TIR_OTY_01_axes():
    """The extent of an axis is an integer of the axis's dtype, signed or unsigned (T51)."""
    for good in ("int32", "uint8", "int64"):
        IterVar(Range(of(good), of(good)), of(good), IterVarType.DATA_PAR)
    for variable, extent in [("int32", "int64"), ("int32", "uint32"), ("float32", "float32")]:
        with refuses("TIR0302"):
            IterVar(Range(of(extent), of(extent)), of(variable), IterVarType.DATA_PAR)


def test_TIR_OTY_02_ranges_are_valid():
    """A range is valid whatever it holds."""
    for low in ("int8", "uint64", "float32", "handle"):
        for extent in (None, of("int32"), of("float64")):
            assert Range(of(low), extent).extent is extent


@pytest.mark.parametrize("wrong", ["float32", "bool", "int32x4", "handle"])
def test_TIR_OTY_03_shapes(wrong: str):
    """The extents of a buffer are integer scalars."""
    assert len(decl_buffer((of("int8"), of("uint64"), 4)).shape) == 3
    with refuses("TIR0301"):
        decl_buffer((4, of(wrong)))


@pytest.mark.parametrize("wrong", ["float32", "bool", "int32x4"])
def test_TIR_OTY_03a_strides(wrong: str):
    """The strides of a buffer are integer scalars, one for each axis."""
    decl_buffer((4, 4), strides=(of("int64"), of("int64")))
    with refuses("TIR0301"):
        decl_buffer((4,), strides=(of(wrong),))
    with refuses("TIR0301"):
        decl_buffer((4, 4), strides=(1,))


@pytest.mark.parametrize("wrong", ["float32", "bool", "int32x4"])
def test_TIR_OTY_03b_offsets(wrong: str):
    """The offset of a buffer is an integer scalar."""
    for good in (of("int64"), of("uint32"), 3):
        decl_buffer((4,), elem_offset=good)
    with refuses("TIR0301"):
        decl_buffer((4,), elem_offset=of(wrong))


def test_TIR_OTY_03c_data():
    """A buffer's data is a pointer to elements of a plain type."""
    pointer = Var("p", type_annotation=PointerType(PrimType(dt("int32"))))
    assert decl_buffer((4,), "int32", data=pointer).data is pointer
    for wrong in (of("handle"), of("int64")):
        with refuses("TIR0301"):
            decl_buffer((4,), "int32", data=wrong)


def test_TIR_OTY_03d_auto_broadcast():
    """An auto-broadcast buffer without strides has a fresh variable for each, of the extent's dtype."""
    made = decl_buffer((of("int64"), of("uint8")), buffer_type=BufferType.AUTO_BROADCAST)
    assert [s.dtype for s in made.strides] == [dt("int64"), dt("uint8")]
    assert all(isinstance(s, Var) for s in made.strides)
    assert made.strides[0] is not made.strides[1]
    assert decl_buffer((), buffer_type=BufferType.AUTO_BROADCAST).strides == ()
    given = decl_buffer((4,), strides=(2,), buffer_type=BufferType.AUTO_BROADCAST)
    assert [s.value for s in given.strides] == [2]
    source = """
        @T.prim_func
        def main(a: T.handle, B: T.Buffer((2, 3), "int32")):
            A = T.match_buffer(a, (2, 3), "int32", buffer_type="auto")
            for i, j in T.grid(2, 3):
                B[i, j] = A[i, j]
    """
    column = i32(5, 6).reshape(2, 1)
    strided = np.lib.stride_tricks.as_strided(column, (2, 3), (4, 0))
    assert both(source, strided, zeros(2, 3)).tolist() == [[5] * 3, [6] * 3]


def test_TIR_OTY_04_regions():
    """A region has a range for each axis."""
    part = Range(convert(0), convert(1))
    assert BufferRegion(decl_buffer(()), ()).region == ()
    for count in (1, 3):
        with refuses("TIR0303"):
            BufferRegion(decl_buffer((4, 4)), (part,) * count)


# -- views ---------------------------------------------------------------------------------------
def match(source: Buffer, target: Buffer) -> MatchBufferRegion:
    return MatchBufferRegion(target, source.whole())


def test_TIR_OTY_05_dtypes_of_views():
    """A view holds what its source holds."""
    for other in ("uint32", "float32", "int64", "int32x2"):
        with refuses("TIR0304"):
            match(decl_buffer((4,), "int32"), decl_buffer((4,), other))


def test_TIR_OTY_05a_alignment_of_views():
    """The alignment of the source is a multiple of the view's."""
    match(decl_buffer((4,), data_alignment=64), decl_buffer((4,), data_alignment=16))
    for source, target in [(16, 64), (64, 48)]:
        with refuses("TIR0304"):
            match(
                decl_buffer((4,), data_alignment=source), decl_buffer((4,), data_alignment=target)
            )


def test_TIR_OTY_05b_offset_of_views():
    """A view that starts at 0 has a source that does."""
    match(decl_buffer((4,), elem_offset=0), decl_buffer((4,), elem_offset=0))
    match(decl_buffer((4,), elem_offset=of("int32")), decl_buffer((4,), elem_offset=of("int32")))
    for start in (4, of("int32")):
        with refuses("TIR0304"):
            match(decl_buffer((4,), elem_offset=start), decl_buffer((4,), elem_offset=0))


def test_TIR_OTY_05c_scopes_of_views():
    """A view is in its source's kind of memory."""
    match(decl_buffer((4,), scope="local"), decl_buffer((4,), scope="local"))
    with refuses("TIR0304"):
        match(decl_buffer((4,), scope="shared"), decl_buffer((4,), scope="global"))


def test_TIR_OTY_05d_types_of_views():
    """Neither a view nor its source broadcasts."""
    auto = BufferType.AUTO_BROADCAST
    for a, b in [(auto, BufferType.DEFAULT), (BufferType.DEFAULT, auto), (auto, auto)]:
        with refuses("TIR0304"):
            match(decl_buffer((4,), buffer_type=a), decl_buffer((4,), buffer_type=b))


def view(region: str, shape: str) -> str:
    """Write a program with a view of a region of a 4 by 8 array."""
    return f"""
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((4, 8), "int32")):
            with T.sblock("b"):
                V = T.match_buffer(A[{region}], {shape}, "int32")  # <--
                V[{", ".join("0" for extent in shape.split(",") if extent.strip(" )"))}] = 5
    """


def test_TIR_OTY_05e_axes_of_views():
    """A view has no more axes than its region (T6)."""
    assert both(view("1:2, 2:6", "(4,)"), 0, zeros(4, 8))[1, 2] == 5
    assert both(view("1:3, 2:6", "(2, 4)"), 0, zeros(4, 8))[1, 2] == 5
    refused("TIR0304", view("1:2, 2:6", "(1, 1, 4)"))


def test_TIR_OTY_05f_axes_left_out():
    """An axis that a view leaves out is known to have extent 1 (T6)."""
    assert both(view("n:n + 1, 2:6", "(4,)"), 3, zeros(4, 8))[3, 2] == 5
    refused("TIR0412", view("1:3, 2:6", "(4,)"))
    refused("TIR0412", view("0:n, 2:6", "(4,)"))


def test_TIR_OTY_05g_extents_of_views():
    """An extent of a view that is not a variable is known to be the region's (T6)."""
    assert both(view("1:3, n:n + 4", "(2, 4)"), 2, zeros(4, 8))[1, 2] == 5
    assert both(view("0:n, n:n + n", "(n, n * 2 - n)"), 2, zeros(4, 8))[0, 2] == 5
    refused("TIR0412", view("1:3, 2:6", "(2, 5)"))
    refused("TIR0412", view("1:3, 0:n", "(2, 4)"))


# -- results of functions ------------------------------------------------------------------------
def ret(value: object) -> Evaluate:
    return Evaluate(call_builtin("ret", convert(value)))  # type: ignore[arg-type]


def test_TIR_OTY_06_no_result_type():
    """A function without a result type has the empty one."""
    assert structural_equal(PrimFunc((), NOTHING).ret_type, TupleType(()))


def test_TIR_OTY_06a_no_return():
    """A function without a return has the empty result type (T42)."""
    assert mistakes(func(NOTHING, ret_type=PrimType(dt("int32")))) == ["TIR0406"]
    refused(
        "TIR0406",
        """
        @T.prim_func
        def main(x: T.int32) -> T.int32:  # <--
            T.evaluate(x)
        """,
    )


def test_TIR_OTY_06b_a_variable_is_returned():
    """A returned variable gives the result its own type."""
    pointer = Var("p", type_annotation=PointerType(PrimType(dt("int8")), "shared"))
    made = func(ret(pointer), pointer)
    assert structural_equal(made.ret_type, pointer.type_annotation)
    wrong = func(ret(pointer), pointer, ret_type=PointerType(PrimType(dt("int8"))))
    assert mistakes(wrong) == ["TIR0405"]


def test_TIR_OTY_06c_a_handle_is_returned():
    """A returned handle that is not a variable gives the result some pointer type."""
    value = Cast(convert(0), HANDLE)
    assert isinstance(func(ret(value)).ret_type, PointerType)
    assert mistakes(func(ret(value), ret_type=PointerType(PrimType(dt("int8"))))) == []
    assert mistakes(func(ret(value), ret_type=PrimType(dt("int64")))) == ["TIR0405"]


def test_TIR_OTY_06d_a_number_is_returned():
    """A returned number that is not a variable gives the result its dtype (T41)."""
    x = of("int32")
    made = func(ret(x + 1), x)
    assert structural_equal(made.ret_type, PrimType(dt("int32")))
    assert mistakes(func(ret(x + 1), x, ret_type=PrimType(dt("int64")))) == ["TIR0405"]
    refused(
        "TIR0305",
        """
        @T.prim_func
        def main(x: T.int32) -> T.int32:
            return T.cast(x, "float32")  # <--
        """,
    )


def test_TIR_OTY_06e_several_returns():
    """All returns of a function give one dtype, which is the result's (T41)."""
    x = of("int32")
    with refuses("TIR0305"):
        func(SeqStmt((ret(x), ret(x.astype("float32")))), x)
    same = func(SeqStmt((ret(x), ret(x + 1))), x)
    assert structural_equal(same.ret_type, PrimType(dt("int32")))
    source = """
        @T.prim_func
        def main(x: T.int32) -> T.int32:
            if x > 0:
                return x
            return -x
    """
    assert [both(source, x) for x in (3, -4)] == [3, 4]


def test_views_that_are_well_typed_run():
    """A view of all of an array, by nodes, writes the array."""
    source, target = decl_buffer((4,), "int32", "A"), decl_buffer((4,), "int32", "V")
    made = block([], store(target, 7, 2), match_buffers=(match(source, target),))
    assert both(func(made, source), zeros(4)).tolist() == [0, 0, 7, 0]
