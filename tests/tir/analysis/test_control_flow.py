from __future__ import annotations

from loomir.support.dtype import BOOL
from loomir.tir import IfThenElse, IntImm, SeqStmt, Var, While
from loomir.tir.analysis.control_flow import can_leave, may_return
from tests.tir.programs import NOTHING, block, call, loop, ret, var

YES, NO = IntImm(1, BOOL), IntImm(0, BOOL)
MAYBE = Var("c", "bool")
BREAK = call("break_loop")


def test_a_return_counts_where_constants_do_not_exclude_it():
    assert may_return(SeqStmt((NOTHING, ret(1))))
    assert may_return(IfThenElse(MAYBE, NOTHING, ret(1)))
    assert may_return(block([], ret(1)))
    assert may_return(loop(var("i"), 4, While(MAYBE, ret(1))))
    assert may_return(IfThenElse(NO, NOTHING, ret(1)))
    assert not may_return(IfThenElse(NO, ret(1)))
    assert not may_return(IfThenElse(YES, NOTHING, ret(1)))
    assert not may_return(loop(var("i"), 0, ret(1)))
    assert not may_return(NOTHING)


def test_a_loop_is_left_by_its_own_break_or_a_return():
    assert can_leave(IfThenElse(MAYBE, BREAK))
    assert can_leave(block([], BREAK))
    assert can_leave(loop(var("i"), 4, ret(1)))
    assert not can_leave(loop(var("i"), 4, BREAK))
    assert not can_leave(While(MAYBE, BREAK))
    assert not can_leave(call("continue_loop"))
