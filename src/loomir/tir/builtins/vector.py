"""Builtins on vectors as a whole, and on the bits of values."""

from __future__ import annotations

from typing import Final

from loomir.support.dtype import BOOL, LANES, DataType
from loomir.tir.builtins.row import AcceptedDTypes, Args, Kind, Param, read_first_dtype, row
from loomir.tir.expr import PrimExpr

__all__ = ["FAMILY"]

FAMILY: Final = "vectors"


def _has_halves(arg: PrimExpr) -> bool:
    return arg.dtype.lanes % 2 == 0


def _has_double(arg: PrimExpr) -> bool:
    dtype = arg.dtype
    return not (dtype.is_handle or dtype.is_void) and dtype.lanes * 2 in LANES


_EVEN: Final = Kind("a vector of an even number of lanes", _has_halves)
_HALF: Final = Kind("a value of at most 32 lanes, but not 3", _has_double)


def _halve(args: Args) -> DataType:
    return args[0].dtype.with_lanes(args[0].dtype.lanes // 2)


def _double(args: Args) -> DataType:
    return args[0].dtype.with_lanes(args[0].dtype.lanes * 2)


def _is_half(args: Args, result: DataType) -> str | None:
    wanted = _halve(args)
    return None if result is wanted else f"of {args[0].dtype} gives {wanted}, not {result}"


def _is_double(args: Args, result: DataType) -> str | None:
    low, high = args
    if low.dtype is not high.dtype:
        return f"takes two vectors of one dtype, not {low.dtype} for low and {high.dtype} for high"
    wanted = _double(args)
    return None if result is wanted else f"of two {low.dtype} gives {wanted}, not {result}"


row(
    "vectorlow",
    (Param("vec", _EVEN),),
    AcceptedDTypes.EACH,
    _halve,
    "the first half of a vector's lanes",
    family=FAMILY,
    corners="a scalar if the vector has two lanes; the dtype may be left out",
    takes_dtype=True,
    check=_is_half,
)
row(
    "vectorhigh",
    (Param("vec", _EVEN),),
    AcceptedDTypes.EACH,
    _halve,
    "the second half of a vector's lanes",
    family=FAMILY,
    corners="a scalar if the vector has two lanes; the dtype may be left out",
    takes_dtype=True,
    check=_is_half,
)
row(
    "vectorcombine",
    (Param("low", _HALF), Param("high", _HALF)),
    AcceptedDTypes.EACH,
    _double,
    "the lanes of one vector, then those of another",
    family=FAMILY,
    corners="two scalars make a vector of two lanes; the dtype may be left out",
    takes_dtype=True,
    check=_is_double,
)


# -- dot products ------------------------------------------------------------------------------
def _is_four_bytes(arg: PrimExpr) -> bool:
    return arg.dtype.lanes % 4 == 0 and arg.dtype.is_integer and arg.dtype.bits == 8


def _is_word(arg: PrimExpr) -> bool:
    return arg.dtype.element in (DataType("int32"), DataType("uint32"))


def _is_two_halves(arg: PrimExpr) -> bool:
    return arg.dtype.lanes % 2 == 0 and arg.dtype.is_bfloat


def _is_single(arg: PrimExpr) -> bool:
    return arg.dtype.element is DataType("float32")


_BYTES: Final = Kind("int8 or uint8, four lanes for each of acc", _is_four_bytes)
_HALVES: Final = Kind("bfloat16, two lanes for each of acc", _is_two_halves)


def _lanes_fit(args: Args, group: int) -> str | None:
    for arg in args[:2]:
        if arg.dtype.lanes != group * args[2].dtype.lanes:
            return f"takes {group} lanes for each of {args[2].dtype}, not {arg.dtype}"
    return None


def _pairs_fit(args: Args, result: DataType) -> str | None:
    return _lanes_fit(args, 2)


def _sum_fits(args: Args, result: DataType) -> str | None:
    wrong = _lanes_fit(args, 4)
    if wrong is not None:
        return wrong
    if args[2].dtype.is_uint and (args[0].dtype.is_int or args[1].dtype.is_int):
        return "adds products of signed numbers to int32, not to uint32"
    return None


def _third(args: Args) -> DataType:
    return args[2].dtype


row(
    "dp4a",
    (
        Param("vec1", _BYTES),
        Param("vec2", _BYTES),
        Param("acc", Kind("int32 or uint32", _is_word)),
    ),
    AcceptedDTypes.EACH,
    _third,
    "acc plus the products of four pairs of bytes",
    family=FAMILY,
    corners="the products and their sum are exact; adding to acc wraps; acc may be left out for 0; "
    "with vectors, each lane of acc takes the next four lanes of both",
    check=_sum_fits,
)
row(
    "dp2a",
    (
        Param("vec1", _HALVES),
        Param("vec2", _HALVES),
        Param("acc", Kind("float32", _is_single)),
    ),
    AcceptedDTypes.EACH,
    _third,
    "acc plus the products of two pairs of bfloat16",
    family=FAMILY,
    corners="the second pair, then the first, each as fma; subnormals are zeros of their sign, "
    "before each step and after; with vectors, each lane of acc takes the next two lanes of both",
    check=_pairs_fit,
)


# -- lanes and bits ----------------------------------------------------------------------------
def _is_integer(arg: PrimExpr) -> bool:
    return arg.dtype.is_integer and arg.dtype.lanes == 1


def _truths(args: Args) -> DataType:
    return BOOL


def _is_mask(args: Args, result: DataType) -> str | None:
    if not result.is_bool:
        return f"gives bools, not {result}"
    if args[0].dtype is not args[1].dtype:
        return f"compares two integers of one dtype, not {args[0].dtype} and {args[1].dtype}"
    return None


_INDEX: Final = Kind("an integer", _is_integer)
row(
    "get_active_lane_mask",
    (Param("base", _INDEX), Param("limit", _INDEX)),
    AcceptedDTypes.EACH,
    _truths,
    "for each lane i, whether base + i is below limit",
    family=FAMILY,
    corners="base + i does not wrap; the dtype is a bool of the lanes, such as boolx8",
    takes_dtype=True,
    check=_is_mask,
)


def _have_same_width(args: Args, result: DataType) -> str | None:
    given = args[0].dtype
    if result.itemsize == given.itemsize and not result.is_bool and not given.is_bool:
        return None
    return f"cannot read a {given} as {result}: it takes a dtype of the same number of bits"


row(
    "reinterpret",
    "value",
    AcceptedDTypes.ANY,
    read_first_dtype,
    "the same bits read as another dtype of the same width",
    family=FAMILY,
    corners="lanes count as laid out in memory, the first at the lowest address; no bools",
    takes_dtype=True,
    check=_have_same_width,
)
