"""Schedules, their random variables, and the references that survive edits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.ir.module import GlobalVar, IRModule
from loomir.script import from_source
from loomir.support.dtype import DataType
from loomir.tir import (
    TRUE,
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    IntImm,
    IterVar,
    IterVarType,
    PrimFunc,
    Range,
    Stmt,
    Var,
    decl_buffer,
)
from tests.growth import assert_grows
from tests.schedule.programs import copy, matmul, row_sum


def test_references_survive_edits_of_other_parts():
    sch = Schedule(matmul())
    block, other = sch.get_sblock("C"), sch.get_sblock("D")
    loops = sch.get_loops(other)
    i, _, _ = sch.get_loops(block)
    sch.split(i, [2, 4])
    sch.annotate(block, "key", 1)
    assert sch.get(block).name_hint == "C"
    assert [sch.get(loop).loop_var.name_hint for loop in loops] == ["i", "j"]
    assert sch.get(loops[0]).body is sch.get(loops[1])
    assert len(sch.get_loops(block)) == 4


def test_what_is_gone_is_told():
    sch = Schedule(copy())
    (i,) = sch.get_loops("B")
    sch.split(i, [3, 4])
    other = Schedule(copy())
    (foreign,) = other.get_loops("B")
    for loop in (i, foreign):
        with pytest.raises(ScheduleError) as caught:
            sch.parallel(loop)
        assert caught.value.diagnostic.code == "SCH0002"


def test_arguments_of_other_kinds_are_told():
    sch = Schedule(copy())
    block = sch.get_sblock("B")
    for call in (
        lambda: sch.parallel(block),  # type: ignore[arg-type]
        lambda: sch.split(sch.get_loops(block)[0], 4),  # type: ignore[arg-type]
        lambda: sch.split(sch.get_loops(block)[0], ["4"]),  # type: ignore[list-item]
        lambda: sch.perform("split", {}),
    ):
        with pytest.raises(ScheduleError) as caught:
            call()
        assert caught.value.diagnostic.code == "SCH0003"


def test_a_copy_goes_its_own_way():
    sch = Schedule(matmul())
    i, j, _ = sch.get_loops("C")
    other = sch.copy()
    sch.split(i, [2, 4])
    fused = other.fuse(i, j)
    assert len(sch.get_loops("C")) == 4
    assert other.get(fused).extent.value == 48
    assert len(sch.trace.insts) != len(other.trace.insts)


def test_functions_are_worked_on_one_at_a_time():
    functions = {GlobalVar("f"): copy(), GlobalVar("g"): row_sum()}
    sch = Schedule(IRModule(functions))
    assert sch.func_working_on is None
    with pytest.raises(ScheduleError, match="no function is selected"):
        sch.get_sblock("S")
    with pytest.raises(ScheduleError, match="there is no loop-level function 'h'"):
        sch.work_on("h")
    sch.work_on("g")
    before = sch.mod["f"]
    sch.parallel(sch.get_loops("S")[0])
    assert sch.mod["f"] is before
    assert sch.get(sch.get_sblock("B", func_name="f")).name_hint == "B"


def test_a_function_without_a_block_around_gets_one():
    text = """
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = i
"""
    func = from_source(text)
    sch = Schedule(func)
    assert sch.get(sch.get_sblock("root")).name_hint == "root"


def wide(n: int) -> PrimFunc:
    a = te.placeholder((4,), name="A")
    made = a
    for number in range(n):
        made = te.compute((4,), lambda i, t=made: t[i] + 1.0, name=f"B{number}")
    return te.create_prim_func([a, made])


def test_an_edit_costs_no_more_in_a_long_program():
    """Splitting each of many loops takes about as long for each, however many there are."""

    def edits(n: int) -> Callable[[], None]:
        sch = Schedule(wide(n))
        loops = [sch.get_loops(f"B{k}")[0] for k in range(0, n, n // 50)]

        def run() -> None:
            for loop in loops:
                sch.split(loop, [2, 2])

        return run

    assert_grows(4, edits, 50, 400)


def deep(n: int) -> PrimFunc:
    int32 = DataType("int32")
    a, out, v = Var("a", "handle"), decl_buffer((4,), "int32", "A"), Var("v", int32)
    loops = [Var(f"i{k}", int32) for k in range(n)]
    it = IterVar(Range(IntImm(0, int32), IntImm(4, int32)), v, IterVarType.DATA_PAR)
    block = Block((it,), (), (), "B", BufferStore(out, IntImm(1, int32), (v,)))
    body: Stmt = BlockRealize((loops[-1],), TRUE, block)
    for var in reversed(loops):
        extent = IntImm(4 if var is loops[-1] else 1, int32)
        body = For(var, IntImm(0, int32), extent, ForKind.SERIAL, body)
    return PrimFunc((a,), body, None, {a: out})


def test_a_nest_may_be_deeper_than_python_s_stack():
    sch = Schedule(deep(1500))
    loops = sch.get_loops("B")
    sch.reorder(loops[5], loops[3])
    sch.fuse(loops[10], loops[11])
    sch.parallel(sch.split(loops[-1], [2, 2])[0])
    assert len(sch.get_loops("B")) == 1500
    with pytest.raises(ScheduleError, match="loop 'i25' is not the whole body of loop 'i20'"):
        sch.fuse(loops[20], loops[25])
