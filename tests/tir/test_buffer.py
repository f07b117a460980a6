from __future__ import annotations

from loomir.support.dtype import DataType
from loomir.tir import (
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferType,
    IterVar,
    IterVarType,
    MatchBufferRegion,
    PointerType,
    PrimExpr,
    PrimType,
    Ramp,
    Range,
    Var,
    const,
    convert,
    decl_buffer,
)
from tests.clause import clauses
from tests.tir.refusal import refused


def var(dtype: str, name: str = "x") -> Var:
    return Var(name, dtype)


def fields(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in cls.node_fields if f.name != "span")


@clauses("TIR-GRAM-20", "TIR-GRAM-21", "TIR-GRAM-22", "TIR-GRAM-29", "TIR-GRAM-30", "TIR-GRAM-31")
def test_the_parts_of_buffers_are_those_of_the_grammar():
    assert fields(Buffer) == (
        "data",
        "dtype",
        "shape",
        "axis_separators",
        "strides",
        "elem_offset",
        "name",
        "data_alignment",
        "offset_factor",
        "buffer_type",
    )
    assert {t.value for t in BufferType} == {"kDefault", "kAutoBroadcast"}
    assert fields(BufferRegion) == ("buffer", "region")
    assert fields(MatchBufferRegion) == ("buffer", "source")
    assert fields(Range) == ("min", "extent")
    assert fields(IterVar) == ("dom", "var", "iter_type", "thread_tag")
    assert {t.value for t in IterVarType} == {
        "kDataPar",
        "kThreadIndex",
        "kCommReduce",
        "kOrdered",
        "kOpaque",
        "kUnrolled",
        "kVectorized",
        "kParallelized",
        "kTensorized",
    }


@clauses("TIR-OTY-01")
def test_an_iterators_domain_has_the_variables_dtype():
    zero = const(0, "int64")
    for dtype in ("int64", "uint8"):
        extent = const(8, dtype)
        IterVar(Range(zero, extent), var(dtype), IterVarType.DATA_PAR)
    with refused("TIR0302"):
        IterVar(Range(zero, const(8, "int64")), var("int32"), IterVarType.DATA_PAR)
    with refused("TIR0302"):
        IterVar(Range(zero, const(8.0, "float32")), var("float32"), IterVarType.DATA_PAR)
    assert IterVar(None, var("int32"), IterVarType.THREAD_INDEX, "threadIdx.x").dom is None


@clauses("TIR-OTY-02")
def test_a_range_is_always_valid():
    assert Range(const(1.5, "float32"), var("handle")).min.dtype == "float32"
    assert Range(convert(0)).extent is None


@clauses("TIR-OTY-03")
def test_extents_are_scalar_integers():
    for dtype in ("int8", "uint64"):
        assert decl_buffer((var(dtype),)).shape[0].dtype == dtype
    for dtype in ("float32", "int32x4", "bool", "handle"):
        with refused("TIR0301"):
            decl_buffer((var(dtype),))
    with refused("TIR0301", "negative"):
        decl_buffer((-1,))


@clauses("TIR-OTY-03a")
def test_strides_are_scalar_integers_one_for_each_axis():
    assert len(decl_buffer((4, 4), strides=(var("int64"), var("int64"))).strides) == 2
    with refused("TIR0301"):
        decl_buffer((4,), strides=(var("float32"),))
    with refused("TIR0301", "stride"):
        decl_buffer((4, 4), strides=(1,))


@clauses("TIR-OTY-03b")
def test_an_offset_is_a_scalar_integer():
    assert decl_buffer((4,), elem_offset=var("int64")).elem_offset is not None
    with refused("TIR0301"):
        decl_buffer((4,), elem_offset=var("bool"))


@clauses("TIR-OTY-03c", "TIR-VAL-10")
def test_the_data_of_a_buffer_is_a_typed_pointer():
    data = Var("p", type_annotation=PointerType(PrimType(DataType("int8")), "shared"))
    assert decl_buffer((4,), "int8", data=data).scope == "shared"
    with refused("TIR0301"):
        decl_buffer((4,), data=var("handle"))
    with refused("TIR0301"):
        decl_buffer((4,), data=var("int64"))


@clauses("TIR-OTY-03d")
def test_a_broadcasting_buffer_gets_fresh_strides():
    made = decl_buffer((var("int64"), const(4, "int32")), buffer_type=BufferType.AUTO_BROADCAST)
    assert [s.dtype for s in made.strides] == ["int64", "int32"]
    assert all(isinstance(s, Var) for s in made.strides)
    assert decl_buffer((), buffer_type=BufferType.AUTO_BROADCAST).strides == ()


def test_a_buffer_holds_no_handles():
    pointer = Var("p", type_annotation=PointerType(PrimType(DataType("handle"))))
    with refused("TIR0301"):
        decl_buffer((4,), "handle", data=pointer)


# -- access --------------------------------------------------------------------------------------


@clauses("TIR-ETY-07", "TIR-STY-04")
def test_only_the_last_index_is_a_vector():
    buffer = decl_buffer((8, 8))
    ramp = Ramp(convert(0), convert(1), 4)
    assert BufferLoad(buffer, (convert(0), ramp)).dtype == "float32x4"
    with refused("TIR0107", "last"):
        BufferLoad(buffer, (ramp, convert(0)))


@clauses("TIR-ETY-07a", "TIR-STY-04b")
def test_indices_are_integers_of_any_width():
    buffer = decl_buffer((8, 8))
    assert BufferLoad(buffer, (var("int8"), var("uint64"))).dtype == "float32"
    for dtype in ("float32", "bool", "handle"):
        with refused("TIR0107"):
            BufferLoad(buffer, (var(dtype), convert(0)))


@clauses("TIR-ETY-07b", "TIR-STY-04a")
def test_lanes_of_index_and_buffer_multiply():
    assert BufferLoad(decl_buffer((), "int8x4"), ()).dtype == "int8x4"
    wide = decl_buffer((8,), "int8x4")
    assert BufferLoad(wide, (Ramp(convert(0), convert(1), 4),)).dtype == "int8x16"
    with refused("TIR0001"):
        BufferLoad(decl_buffer((8,), "int8x3"), (Ramp(convert(0), convert(1), 3),))


@clauses("TIR-EVAL-06")
def test_there_is_one_index_for_each_axis():
    with refused("TIR0107", "1 ind"):
        BufferLoad(decl_buffer((4,)), ())
    with refused("TIR0107"):
        BufferLoad(decl_buffer(()), (convert(0),))


@clauses("TIR-OTY-04")
def test_a_region_has_a_range_for_each_axis():
    buffer = decl_buffer((4, 8))
    made = buffer[1:3, 5]
    assert isinstance(made, BufferRegion)
    assert [(r.min.value, r.extent.value) for r in made.region] == [(1, 2), (5, 1)]
    with refused("TIR0303"):
        BufferRegion(buffer, (Range(convert(0), convert(1)),))


# -- match_buffer --------------------------------------------------------------------------------


def match(target: Buffer, source: Buffer, *ranges: tuple[int, int]) -> MatchBufferRegion:
    region = tuple(Range(convert(low), convert(extent)) for low, extent in ranges)
    return MatchBufferRegion(target, BufferRegion(source, region))


@clauses("TIR-OTY-05")
def test_a_view_has_its_sources_dtype():
    source = decl_buffer((4,))
    assert match(decl_buffer((2,)), source, (0, 2)).buffer.dtype == "float32"
    with refused("TIR0304"):
        match(decl_buffer((2,), "int32"), source, (0, 2))


@clauses("TIR-OTY-05a")
def test_a_view_asks_for_no_more_alignment():
    source = decl_buffer((4,), data_alignment=64)
    match(decl_buffer((2,), data_alignment=16), source, (0, 2))
    for alignment in (128, 48, 0):
        with refused("TIR0304", "alignment"):
            match(decl_buffer((2,), data_alignment=alignment), source, (0, 2))


@clauses("TIR-OTY-05b")
def test_a_view_at_offset_0_is_of_a_source_at_offset_0():
    view = decl_buffer((2,), elem_offset=0)
    match(view, decl_buffer((4,), elem_offset=0), (0, 2))
    offsets: tuple[PrimExpr, ...] = (convert(4), var("int32"))
    for offset in offsets:
        with refused("TIR0304", "offset"):
            match(view, decl_buffer((4,), elem_offset=offset), (0, 2))


@clauses("TIR-OTY-05c")
def test_a_view_is_in_its_sources_memory():
    with refused("TIR0304", "scope"):
        match(decl_buffer((2,), scope="local"), decl_buffer((4,)), (0, 2))


@clauses("TIR-OTY-05d")
def test_a_view_does_not_broadcast():
    broadcasting = decl_buffer((2,), buffer_type=BufferType.AUTO_BROADCAST)
    with refused("TIR0304", "default"):
        match(broadcasting, decl_buffer((4,)), (0, 2))
    with refused("TIR0304"):
        match(decl_buffer((2,)), broadcasting, (0, 2))


@clauses("TIR-OTY-05e")
def test_a_view_has_no_more_axes_than_the_region():
    match(decl_buffer((2,)), decl_buffer((4, 4)), (1, 1), (0, 2))
    with refused("TIR0304", "axes"):
        match(decl_buffer((1, 2)), decl_buffer((4,)), (0, 2))
