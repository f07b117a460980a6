from __future__ import annotations

import pytest

from loomir import relax as R
from loomir import tir
from loomir.relax.relations import (
    Match,
    check_compatibility,
    is_subtype,
)
from loomir.relax.struct_info import OBJECT
from tests.clause import clauses

NO, MAYBE, YES = Match.NO, Match.MAYBE, Match.YES
n, m, k = (tir.Var(name, "int64") for name in "nmk")
V0, V1 = R.VDevice("llvm", 0), R.VDevice("llvm", 1)
F32, F16 = "float32", "float16"


def tensor(*dims, dtype=F32, vdevice=None):
    return R.TensorStructInfo(dims, dtype, vdevice)


def tensor_like(dtype="void", ndim=-1, vdevice=None):
    return R.TensorStructInfo(None, dtype, vdevice, ndim)


def shape(*dims):
    return R.ShapeStructInfo(dims)


def prim(dtype="int64", value=None):
    return R.PrimStructInfo(dtype, value)


def tuple_of(*fields):
    return R.TupleStructInfo(fields)


def func(*params, ret=OBJECT, purity=True):
    return R.FuncStructInfo(params, ret, purity)


def packed(derive):
    return R.FuncStructInfo(None, OBJECT, derive_func=derive)


# -- equality of extents ---------------------------------------------------------------------------
@clauses("RX-SUB-02", "RX-PROV-01", "RX-PROV-02")
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (n, n, YES),
        (n * m, m * n, YES),
        (n * (m + 1), n * m + n, YES),
        ((n + 3) // 4 * 4, 4 * ((3 + n) // 4), YES),
        (n, m, MAYBE),
        (n, 4, MAYBE),
        (n * 2, 6, MAYBE),
        (n, n + 1, NO),
        (n * 2, 7, NO),
        (n * 2, m * 2 + 1, NO),
        (n + 1, 0, MAYBE),  # a scalar may be negative; an extent on its own is not
        ((n + 3) // 4 * 4 + 1, n, NO),
        (3, 4, NO),
    ],
)
def test_extents_are_certain_possible_or_certainly_not_equal(a, b, expected):
    for given, wanted in ((a, b), (b, a)):
        assert check_compatibility(tensor(given), tensor(wanted)) is expected
        assert is_subtype(shape(given), shape(wanted)) is expected
