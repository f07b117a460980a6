"""Groups as functions of their own: one after the other they do what the function does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loomir
from fuzz.schedule.meaning import arguments_of
from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.outline_group import outline_group
from loomir.target import Target
from loomir.te import topi
from loomir.tir.expr import IntImm
from loomir.tir.function import PrimFunc

EXTENT = 19


def products() -> PrimFunc:
    n = te.size_var("n", "int64")
    a, b = te.placeholder((n, 33), name="A"), te.placeholder((33, 33), name="B")
    first = topi.matmul(a, b)
    return te.create_prim_func([a, b, topi.transpose(first), topi.matmul(first, b)])


def columns() -> PrimFunc:
    """Arrays of one column, for which loops have other names."""
    a, x = te.placeholder((40, 30), name="A"), te.placeholder((30, 1), name="x")
    y = topi.matmul(a, x)
    return te.create_prim_func([a, x, topi.transpose(a), topi.softmax(topi.transpose(y))])


def scaled() -> PrimFunc:
    by = te.var("by", "float32")
    a = te.placeholder((17, 50), name="A")
    b = te.compute((17, 50), lambda i, j: a[i, j] * by, name="B")
    return te.create_prim_func([a, by, topi.sum(b, 0), topi.transpose(b)])


@pytest.mark.parametrize("make", [products, columns, scaled])
@pytest.mark.parametrize("target", ["native", "haswell"])
def test_groups_do_what_the_function_does(make: Callable[[], PrimFunc], target: str) -> None:
    func = make()
    scheduled = schedule_function(func, Target(target))
    assert len(scheduled.plans) > 1
    arrays = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
    plain = PrimFunc(
        tuple(p for p in func.params if p in func.buffer_map), func.body, func.ret_type,
        func.buffer_map,
    )  # fmt: skip
    values = dict(zip(map(id, arrays), arguments_of(plain, extent=EXTENT), strict=True))
    number = np.float32(3)
    wanted = {key: value.copy() for key, value in values.items()}
    given = [
        wanted[id(func.buffer_map[p])] if p in func.buffer_map else number for p in func.params
    ]
    loomir.interpret(func, func.name, *given)
    for buffer in scheduled.between:
        shape = [e.value if isinstance(e, IntImm) else EXTENT for e in buffer.shape]
        values[id(buffer)] = np.zeros(shape, str(buffer.dtype))
    for plan in scheduled.plans:
        outlined = outline_group(scheduled, plan)
        assert outlined is not None
        taken = [
            values[id(outlined.buffer_map[p])] if p in outlined.buffer_map else number
            for p in outlined.params
        ]
        loomir.interpret(outlined, "group", *taken)
    for key, value in wanted.items():
        np.testing.assert_allclose(values[key], value, 1e-5, 1e-6)
