"""Builtins: their effects, and the return from a function."""

from __future__ import annotations

import math

import pytest

import loomir
from loomir.ir.op import Effect, Op
from loomir.tir import BUILTINS, Call, Evaluate, IfThenElse, SeqStmt, Var, call_builtin, convert
from tests.conformance.compare_engines import (
    both,
    both_ways,
    each,
    f32,
    fails,
    i32,
    mistakes,
    refused,
    zeros,
)
from tests.tir.programs import func, ret, use


def with_effect(effect: Effect) -> set[str]:
    """Name the builtins of an effect."""
    return {name for name, row in BUILTINS.items() if row.op.effect is effect}


def test_TIR_BLTN_01_effects():
    """A builtin is called by a Call, and its row says what a call may do."""
    assert [e.value for e in Effect] == [
        "kExprAnnotation",
        "kPure",
        "kReadState",
        "kUpdateState",
        "kSpecialCallArg",
        "kEmbedInfo",
        "kControlJump",
        "kOpaque",
    ]
    for name, row in BUILTINS.items():
        assert Op.get(f"tir.{name}") is row.op
        assert isinstance(row.op.effect, Effect)
    made = call_builtin("exp", Var("x", "float32"))
    assert isinstance(made, Call)
    assert made.op is BUILTINS["exp"].op


def test_TIR_BLTN_02_annotations():
    """An annotation gives back what it is put around."""
    assert "likely" in with_effect(Effect.EXPR_ANNOTATION)
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in range(4):
                if T.likely(i < 3):
                    A[i] = i + 5
    """
    assert both(source, zeros(4)).tolist() == [5, 6, 7, 0]


PURE = {
    "sqrt": (math.sqrt, [4.0, 0.25]),
    "floor": (math.floor, [-1.5, 2.5]),
    "trunc": (math.trunc, [-1.5, 2.5]),
    "round": (round, [0.5, 2.5]),
    "abs": (abs, [-1.5, 2.0]),
}


@pytest.mark.parametrize("name", PURE)
def test_TIR_BLTN_03_pure(name: str):
    """A pure builtin evaluates what it is given and gives a value; it does nothing else."""
    assert name in with_effect(Effect.PURE)
    rule, numbers = PURE[name]
    assert each(f"T.{name}(a)", a=f32(*numbers)).tolist() == [rule(x) for x in numbers]
    source = f"""
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((2,), "float32")):
            T.evaluate(T.{name}(A[0]))
            T.evaluate(T.{name}(T.cast(1 // x, "float32")))  # <--
    """
    assert both(source, 1, f32(4, 5)).tolist() == [4, 5]
    fails("RUN0201", source, 0, f32(4, 5))


def test_TIR_BLTN_04_read():
    """A builtin that reads state gives something other than its arguments say, wherever it stands."""
    assert with_effect(Effect.READ_STATE) == {"undef"}
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((2,), "int32")):
            y = T.undef("int32")
            A[0] = T.if_then_else(x > 0, x, y)
            A[1] = y - y
    """
    assert both(source, 3, zeros(2)).tolist() == [3, 0]


def test_TIR_BLTN_05_update():
    """A builtin that updates state does so each time: a check of an index is never dropped."""
    assert with_effect(Effect.UPDATE_STATE) >= {"checked_index"}
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4,), "int32")):
            T.evaluate(A[x])  # <--
    """
    fails("RUN0203", source, 4, zeros(4), check_bounds=True)


def test_TIR_BLTN_06_opaque():
    """Of an opaque call nothing is assumed: it happens each time, in its place, used or not."""
    assert call_out_effect("tir.tvm_call_packed") is Effect.OPAQUE
    assert call_out_effect("tir.call_extern") is Effect.OPAQUE
    seen: list[int] = []

    @loomir.register_func("conformance.note", override=True)
    def note(i: int) -> int:
        seen.append(i)
        return 0

    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in T.vectorized(3):
                T.call_packed("conformance.note", i)
            for i in T.unroll(2):
                A[i] = T.call_packed("conformance.note", 10 + i) * 0
            x = T.call_packed("conformance.note", 20)
            T.call_packed("conformance.note", 20)
            if A[0] == 1 and T.call_packed("conformance.note", 30) == 0:
                A[1] = 1
    """
    for run in both_ways(source):
        seen.clear()
        run(zeros(4))
        assert seen == [0, 1, 2, 10, 11, 20, 20]


def call_out_effect(name: str) -> Effect:
    op = Op.get(name)
    assert op is not None
    return op.effect


def test_TIR_BLTN_07_arguments_of_certain_calls():
    """Some builtins make what only certain calls take; no program writes them elsewhere."""
    special = with_effect(Effect.SPECIAL_CALL_ARG)
    assert special >= {"tvm_stack_make_array", "tvm_stack_make_shape"}
    inside = """
        @I.ir_module
        class Module:
            @T.prim_func(private=True)
            def put(A: T.Buffer((4,), "int32")):
                A[1] = 5

            @T.prim_func
            def main(A: T.Buffer((4,), "int32")):
                cls.put(
                    T.tvm_stack_make_array(
                        A.data,
                        T.tvm_stack_make_shape(T.int64(4)),
                        T.tvm_stack_make_shape(T.int64(1)),
                        1,
                        T.int32(0),
                        T.int64(0),
                    )
                )
    """
    assert both(inside, zeros(4)).tolist() == [0, 5, 0, 0]
    outside = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            T.evaluate(T.type_annotation("int32"))  # <--
    """
    refused("TIR0430", outside)


def test_TIR_BLTN_08_embedded_information():
    """What only informs the compiler leaves no code: its argument is never evaluated."""
    assert "assume" in with_effect(Effect.EMBED_INFO)
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4,), "int32")):
            for i in range(4):
                T.assume(1 // x == A[i * 1000])
                A[i] = i + x
    """
    assert both(source, 0, zeros(4), check_bounds=True).tolist() == [0, 1, 2, 3]


def test_TIR_BLTN_09_jumps():
    """A jump changes what runs next: break leaves the innermost loop, continue its iteration."""
    assert with_effect(Effect.CONTROL_JUMP) >= {"ret", "break_loop", "continue_loop"}
    source = """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((4, 4), "int32")):
            for i in range(4):
                for j in T.unroll(4):
                    if j > i:
                        break
                    if j == n:
                        continue
                    A[i, j] = 1
    """
    assert both(source, 1, zeros(4, 4)).tolist() == [
        [1, 0, 0, 0],
        [1, 0, 0, 0],
        [1, 0, 1, 0],
        [1, 0, 1, 1],
    ]
    assert mistakes(func(Evaluate(call_builtin("break_loop")))) == ["TIR0414"]
    for kind in ("parallel", "vectorized"):
        refused(
            "SCR0021",
            f"""
            @T.prim_func
            def main(A: T.Buffer((4,), "int32")):
                for i in T.{kind}(4):
                    A[i] = i
                    continue  # <--
            """,
        )


def test_TIR_BLTN_10_ret():
    """Ret evaluates its argument, ends the function from any depth, and gives the value."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4,), "int32")) -> T.int32:
            for i in range(4):
                j = 0
                while j < 4:
                    if A[i] == x:
                        T.ret(i * 10 + j)
                    j = j + 1
                    A[i] = A[i] + 1
                A[i] = -1
            return 1 // x  # <--
    """
    assert both(source, 9, i32(0, 7, 9, 0)) == 12
    assert both(source, 1, i32(4, 4, 4, 4)) == 1
    fails("RUN0201", source, 0, i32(4, 4, 4, 4))
    x = Var("x", "int32")
    inside = SeqStmt((IfThenElse(x > 3, ret(x * 2)), use(x), ret(convert(1) // x)))
    assert both(func(inside, x), 4) == 8
    fails("RUN0201", func(inside, x), 0)
