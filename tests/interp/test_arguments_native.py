"""Calls that native code and the interpreter accept, and that both refuse with the same words."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir.interp import interpret
from loomir.runtime.executable import Executable
from loomir.support.diagnostics import RunError
from loomir.tir import Evaluate, PrimFunc, Var, call_builtin, decl_buffer
from tests.interp.build import func, i32, load, ret, store

N, M, S, T = (Var(n, "int64") for n in "nmst")
K = Var("k", "int8")
X, U, F, H, B = (Var("x", d) for d in ("int32", "uint64", "float32", "float16", "bool"))
P = Var("p", "handle")
ZERO = Evaluate(i32(0))


def buffer(name: str, shape: tuple[Any, ...], dtype: str = "float32", **options: Any) -> Any:
    return decl_buffer(shape, dtype, name, **options)


FUNCTIONS: dict[str, PrimFunc] = {
    "fixed": func([buffer("A", (4, 3))], ZERO),
    "symbolic": func([buffer("A", (N,)), buffer("B", (N, M))], ret(N * 100 + M)),
    "expressions": func([buffer("A", (N * 2, N * M)), buffer("B", (M, N))], ret(N * 100 + M)),
    "listed": func([buffer("A", (N,)), N], ret(N)),
    "narrow": func([buffer("A", (K,), "int8")], ZERO),
    "strided": func([buffer("A", (4, 3), "int32", strides=(S, T))], ret(S * 100 + T)),
    "constant strides": func([buffer("A", (4, 3), strides=(6, 2))], ZERO),
    "thin": func([buffer("A", (1, 3))], ZERO),
    "empty": func([buffer("A", (N, 3))], ZERO),
    "scalar array": func([buffer("A", ())], ZERO),
    "offset": func([buffer("A", (3,), "int32", elem_offset=3)], ZERO),
    "written": func([a := buffer("A", (2,), "int32")], store(a, i32(1), 0)),
    "read": func([b := buffer("A", (2,), "int32")], ret(load(b, 0))),
    "two": func([buffer("A", (N,), "int32"), buffer("B", (M,), "int32")], ZERO),
    "int32": func([X], ret(X)),
    "uint64": func([U], ret(U)),
    "float32": func([F], ret(F)),
    "float16": func([H], ret(H)),
    "bool": func([B], ret(B)),
    "handle": func([P], ZERO),
    "bools": func([c := buffer("A", (3,), "bool")], ret(call_builtin("likely", load(c, 1)))),
    "bfloat": func([buffer("A", (2,), "bfloat16")], ZERO),
    "nothing": func([], ZERO),
}

Z = np.zeros
D = np.arange(10, dtype=np.int32)
F4 = Z((4, 3), np.float32)


def locked() -> Any:
    data = Z(2, np.int32)
    data.flags.writeable = False
    return data


CASES: list[tuple[str, Callable[[], tuple[Any, ...]]]] = [
    ("fixed", lambda: (F4,)),
    ("fixed", lambda: (F4.astype(np.float64),)),
    ("fixed", lambda: (F4.astype(np.int32),)),
    ("fixed", lambda: (F4.astype(ml_dtypes.bfloat16),)),
    ("fixed", lambda: (F4.astype(">f4"),)),
    ("fixed", lambda: (F4.astype(complex),)),
    ("fixed", lambda: (F4.astype(object),)),
    ("fixed", lambda: (F4.ravel(),)),
    ("fixed", lambda: (F4[None],)),
    ("fixed", lambda: (Z((4, 2), np.float32),)),
    ("fixed", lambda: (Z((5, 2), np.float32),)),
    ("fixed", lambda: (Z((3, 4), np.float32).T,)),
    ("fixed", lambda: (Z((4, 6), np.float32)[:, ::2],)),
    ("fixed", lambda: (F4[::-1],)),
    ("fixed", lambda: (np.broadcast_to(np.float32(1), (4, 3)),)),
    ("fixed", lambda: ([[1.0] * 3] * 4,)),
    ("fixed", lambda: (None,)),
    ("fixed", lambda: (1.5,)),
    ("fixed", lambda: ()),
    ("fixed", lambda: (F4, F4)),
    ("symbolic", lambda: (Z(4, np.float32), Z((4, 7), np.float32))),
    ("symbolic", lambda: (Z(4, np.float32), Z((5, 7), np.float32))),
    ("symbolic", lambda: (Z(0, np.float32), Z((0, 7), np.float32))),
    ("symbolic", lambda: (Z(4, np.float32), Z(4, np.float32))),
    ("expressions", lambda: (Z((6, 12), np.float32), Z((4, 3), np.float32))),
    ("expressions", lambda: (Z((7, 12), np.float32), Z((4, 3), np.float32))),
    ("expressions", lambda: (Z((6, 11), np.float32), Z((4, 3), np.float32))),
    ("listed", lambda: (Z(4, np.float32), 4)),
    ("listed", lambda: (Z(4, np.float32), 5)),
    ("listed", lambda: (Z(4, np.float32), 4.0)),
    ("listed", lambda: (Z(4, np.float32), 2**70)),
    ("narrow", lambda: (Z(127, np.int8),)),
    ("narrow", lambda: (Z(128, np.int8),)),
    ("strided", lambda: (Z((3, 8), np.int32)[:, ::2].T,)),
    ("strided", lambda: (Z((4, 3), np.int32)[::-1, ::-1],)),
    ("constant strides", lambda: (Z((4, 6), np.float32)[:, ::2],)),
    ("constant strides", lambda: (F4,)),
    ("thin", lambda: (Z((4, 3), np.float32)[::4],)),
    ("empty", lambda: (Z((3, 0), np.float32).T,)),
    ("empty", lambda: (Z((3, 2), np.float32).T,)),
    ("scalar array", lambda: (np.array(1, np.float32),)),
    ("scalar array", lambda: (np.float32(1),)),
    ("scalar array", lambda: (Z(1, np.float32),)),
    ("offset", lambda: (D[3:6],)),
    ("written", lambda: (Z(2, np.int32),)),
    ("written", lambda: (locked(),)),
    ("read", lambda: (locked(),)),
    ("two", lambda: (D, D)),
    ("two", lambda: (D[:6], D[5:])),
    ("two", lambda: (D[:5], D[5:])),
    ("two", lambda: (D[:0], D)),
    ("two", lambda: (D, D[3:3])),
    *(("int32", lambda v=v: (v,)) for v in (0, -(2**31), 2**31 - 1, 2**31, -(2**31) - 1, 2**70)),
    *(("int32", lambda v=v: (v,)) for v in (True, np.int64(5), np.float32(2), 1.5, "1", None)),
    *(("uint64", lambda v=v: (v,)) for v in (0, 2**63, 2**64 - 1, 2**64, -1, np.uint64(2**63))),
    *(("float32", lambda v=v: (v,)) for v in (1, True, 0.1, 1e300, -1e300, float("nan"), 2**60)),
    *(("float16", lambda v=v: (v,)) for v in (2049.0, 70000, 1 + 2**-11 + 2**-40, "x", 2**70)),
    *(("bool", lambda v=v: (v,)) for v in (True, False, 0, 1, 2, -1, 1.0, np.bool_(True))),
    *(("handle", lambda v=v: (v,)) for v in (None, ctypes.c_void_p(8), 3)),
    ("bools", lambda: (np.array([0, 7, 255], np.uint8).view(bool),)),
    ("bools", lambda: (Z(3, np.uint8),)),
    ("bfloat", lambda: (Z(2, ml_dtypes.bfloat16),)),
    ("bfloat", lambda: (Z(2, np.uint16),)),
    ("nothing", lambda: ()),
    ("nothing", lambda: (1,)),
]


@pytest.fixture(scope="module")
def compiled() -> Callable[[str], Executable]:
    made: dict[str, Executable] = {}

    def get(name: str) -> Executable:
        if name not in made:
            made[name] = loomir.compile(FUNCTIONS[name], cache=False)
        return made[name]

    return get


def outcome(run: Callable[[], object]) -> tuple[str, object]:
    try:
        result = run()
    except RunError as error:
        return "refused", [type(error), [(d.code, d.message) for d in error.diagnostics]]
    return "accepted", repr(result)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_both_ways_agree(compiled: Callable[[str], Executable], case: int) -> None:
    name, make = CASES[case]
    exe, args = compiled(name), make()
    wanted = outcome(lambda: interpret(FUNCTIONS[name], "main", *args))
    got = outcome(lambda: exe["main"](*args))
    if wanted[0] == got[0] == "refused":
        # The boundary stops at the first mistake of its own; then that is among those listed.
        kind, listed = wanted[1]
        got_kind, said = got[1]
        assert all(entry[0] in [x[0] for x in listed] for entry in said), (listed, said)
        assert got_kind is kind
        return
    assert got == wanted
