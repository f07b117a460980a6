from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomir.check.tir.init_order import VOUCHED, check_init_order
from loomir.check.tir.verify import verify
from loomir.script import from_source
from loomir.tir import (
    GE,
    LE,
    LT,
    TRUE,
    Add,
    And,
    AttrStmt,
    BlockRealize,
    Eq,
    Evaluate,
    ExprLike,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    IterVarType,
    LetStmt,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    SeqStmt,
    Stmt,
    Sub,
    Var,
    While,
    const,
    convert,
    decl_buffer,
)
from tests.clause import clauses
from tests.tir.programs import block, call, func, iterator, loop, store, use, var

I, J, K, K0, K1, F = (  # noqa: E741, the loops of the examples
    var(name) for name in ("i", "j", "k", "k0", "k1", "f")
)
N = var("n")
INIT = Evaluate(convert(0))


def realize(
    spatial: ExprLike | None,
    reduce: ExprLike,
    where: PrimExpr = TRUE,
    *,
    extent: int = 8,
    start: ExprLike = 0,
    **fields: Any,
) -> BlockRealize:
    """A block with at most one spatial iterator and one that reduces."""
    iters: list[tuple[IterVar, ExprLike]] = []
    if spatial is not None:
        iters.append((iterator(var("vi"), 64), spatial))
    iters.append((iterator(var("vk"), extent, "R", start), reduce))
    return block(iters, use(1), where, init=INIT, **fields)


def nest(*loops: tuple[Var, ExprLike], body: Stmt) -> Stmt:
    for name, extent in reversed(loops):
        body = loop(name, extent, body)
    return body


def accepted(body: Stmt) -> bool:
    found = check_init_order(func(body, N))
    for diagnostic in found:
        assert diagnostic.code == "TIR0413"
        assert diagnostic.label
        assert VOUCHED in diagnostic.help
    return not found


def reason(body: Stmt) -> str:
    (diagnostic,) = check_init_order(func(body, N))
    return diagnostic.label


# -- what is accepted ------------------------------------------------------------------------------


@clauses("TIR-STMT-18h")
def test_loops_in_either_order_are_accepted():
    assert accepted(nest((I, 4), (K, 8), body=realize(I, K)))
    assert accepted(nest((K, 8), (I, 4), body=realize(I, K)))


@clauses("TIR-STMT-18h")
def test_a_split_reduction_is_accepted():
    split = K0 * 4 + K1
    assert accepted(nest((I, 4), (K0, 2), (K1, 4), body=realize(I, split)))
    assert accepted(nest((K1, 4), (I, 4), (K0, 2), body=realize(I, split)))


def test_a_split_reduction_with_a_guard_is_accepted():
    split = K0 * 4 + K1
    assert accepted(nest((I, 4), (K0, 3), (K1, 4), body=realize(I, split, split < 10, extent=10)))
    assert accepted(nest((I, 4), (K0, 3), (K1, 4), body=realize(I, split, split < N, extent=10)))
    guarded = IfThenElse(And(I < N, Not(split >= N)), realize(I, split, extent=10))
    assert accepted(nest((I, 4), (K0, 3), (K1, 4), body=guarded))


def test_a_fused_loop_is_accepted():
    assert accepted(nest((F, 32), body=realize(F // 8, F % 8)))
    assert accepted(nest((F, 24), body=realize(F % 3, F // 3)))
    # As wide as the extents of three loops: i, k and j.
    middle = FloorMod(FloorDiv(F, convert(4)), convert(8))
    spatial = FloorDiv(F, convert(32)) * 4 + FloorMod(F, convert(4))
    assert accepted(nest((F, 128), body=realize(spatial, middle)))


def test_loops_fused_and_split_again_are_accepted():
    fused = K0 * 16 + K1
    assert accepted(nest((K0, 4), (K1, 16), body=realize(fused // 8, fused % 8)))


def test_domains_and_loops_that_start_elsewhere_are_accepted():
    assert accepted(loop(K, 8, realize(None, K, start=3), start=3))
    assert accepted(loop(K, 8, realize(None, K + 3, start=3)))
    assert accepted(loop(K, N, realize(None, K + N, start=N)))


def test_a_loop_of_one_iteration_says_nothing():
    assert accepted(loop(K0, 1, loop(K, 8, realize(None, K0 * 8 + K)), ForKind.PARALLEL))


def test_loops_that_do_not_reduce_may_be_parallel():
    for kind in (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED):
        assert accepted(loop(I, 4, loop(K, 8, realize(I, K)), kind))
    assert accepted(loop(K, 8, loop(I, 4, realize(I, K), ForKind.PARALLEL)))
    threads = AttrStmt(I, "thread_extent", convert(4), loop(K, 8, realize(I, K)))
    assert accepted(threads)


def test_a_triangle_over_an_outer_loop_is_accepted():
    assert accepted(loop(I, 4, loop(K, I, realize(I, K))))


def test_a_tail_tile_is_accepted():
    size = Min(convert(4), 10 - K0 * 4)
    inner = loop(K1, size, realize(I, K0 * 4 + K1, extent=10))
    assert accepted(loop(I, 4, loop(K0, 3, inner)))


def test_a_constant_at_the_start_is_accepted():
    assert accepted(realize(None, 0))
    assert accepted(loop(I, 4, realize(I, 0)))


def test_values_bound_on_the_way_are_seen_through():
    x = var("x")
    assert accepted(loop(K0, 2, loop(K1, 4, LetStmt(x, K0 * 4 + K1, realize(None, x)))))
    assert not accepted(loop(K, 8, LetStmt(x, convert(7) - K, realize(None, x))))


def test_blocks_in_blocks_are_seen_through():
    def nested(value: PrimExpr, inner: Callable[[Var], PrimExpr]) -> Stmt:
        vo = var("vo")
        body = loop(K1, 4, realize(None, inner(vo)))
        return loop(K0, 2, block([(iterator(vo, 2, "R"), value)], body))

    assert accepted(nested(K0, lambda vo: vo * 4 + K1))
    assert not accepted(nested(convert(1) - K0, lambda vo: vo * 4 + K1))


def test_blocks_without_init_or_reduction_are_not_asked():
    assert accepted(loop(K, 8, block([(iterator(var("vk"), 8, "R"), 7 - K)], use(1))))
    assert accepted(loop(I, 8, block([(iterator(var("vi"), 8), 7 - I)], use(1), init=INIT)))


def test_a_vouched_block_is_not_asked():
    reversed_ = 7 - K
    assert accepted(loop(K, 8, realize(None, reversed_, annotations={VOUCHED: True})))
    assert not accepted(loop(K, 8, realize(None, reversed_, annotations={VOUCHED: False})))


# -- what is refused -------------------------------------------------------------------------------


@clauses("TIR-STMT-18h")
def test_a_reversed_reduction_is_refused():
    assert "falls" in reason(loop(K, 8, realize(None, 7 - K)))


@clauses("TIR-STMT-18h")
def test_a_constant_elsewhere_is_refused():
    assert "3" in reason(realize(None, 3))


def test_a_shifted_reduction_is_refused():
    assert reason(loop(K, 7, realize(None, K + 1)))
    assert reason(loop(K, 7, realize(None, K), start=1))


@pytest.mark.parametrize("kind", [ForKind.PARALLEL, ForKind.THREAD_BINDING])
def test_a_parallel_reduction_is_refused(kind: ForKind):
    assert "any order" in reason(loop(K, 8, realize(None, K), kind))


def test_a_reduction_over_threads_is_refused():
    assert "any order" in reason(AttrStmt(K, "thread_extent", convert(8), realize(None, K)))


def test_iterators_that_share_a_loop_are_refused():
    assert "both" in reason(loop(K, 8, realize(K, K)))
    assert reason(loop(I, 4, loop(K, 8, realize(I + K, K))))


def test_a_guard_that_skips_the_first_instance_is_refused():
    assert reason(loop(K, 8, realize(None, K, GE(K, convert(1)))))
    assert reason(loop(I, 4, loop(K, 8, realize(I, K, I <= K))))
    assert reason(loop(I, 4, loop(K, 8, IfThenElse(K < I, use(1), realize(I, K)))))
    assert accepted(loop(K, 8, realize(None, K, GE(K, convert(0)))))
    assert accepted(loop(K, 8, realize(None, K, Eq(K, convert(0)))))


def test_a_guard_that_reads_memory_inside_is_refused():
    buffer = decl_buffer((8,), "int32")
    inside = loop(K, 8, IfThenElse(LT(buffer[0], convert(1)), realize(None, K)))
    outside = IfThenElse(LT(buffer[0], convert(1)), loop(K, 8, realize(None, K)))
    assert not accepted(inside)
    assert accepted(outside)


def test_bounds_that_follow_a_reducing_loop_are_refused():
    assert "bounds" in reason(loop(K, 8, loop(I, K, realize(I, K))))
    assert "bounds" in reason(loop(K0, 2, loop(K1, K0, realize(None, K0 * 4 + K1))))


def test_a_value_from_memory_is_refused():
    buffer = decl_buffer((8,), "int32")
    assert "not understood" in reason(loop(K, 8, realize(None, buffer[K])))


def test_a_while_loop_inside_a_reduction_is_refused():
    buffer = decl_buffer((1,), "bool")
    test = buffer[0]
    assert "while" in reason(loop(K, 8, While(test, realize(None, K))))
    assert accepted(While(test, loop(K, 8, realize(None, K))))


def test_a_reduction_that_advances_by_a_while_loop_is_refused():
    buffer = decl_buffer((1,), "int32")
    body = SeqStmt((realize(None, buffer[0]), store(buffer, buffer[0] + 1, 0)))
    assert not accepted(While(buffer[0] < 8, body))


def test_jumps_that_may_skip_the_first_instance_are_refused():
    skip = IfThenElse(Eq(K, convert(0)), call("continue_loop"))
    assert "jump" in reason(loop(K, 8, SeqStmt((skip, realize(None, K)))))
    early = IfThenElse(Eq(K, convert(3)), call("break_loop"))
    assert accepted(loop(K, 8, SeqStmt((early, realize(None, K)))))
    buffer = decl_buffer((8,), "bool")
    some = IfThenElse(buffer[I], call("break_loop"))
    assert "jump" in reason(loop(K, 8, loop(I, 4, SeqStmt((some, realize(I, K))))))
    assert accepted(loop(I, 4, SeqStmt((some, loop(K, 8, realize(I, K))))))


def test_what_may_wrap_is_refused():
    small = var("s", "int8")
    vk = var("vk", "int8")
    wrapping = block([(iterator(vk, 100, "R"), small * const(2, "int8"))], use(1), init=INIT)
    assert not accepted(loop(small, 100, wrapping))


def test_verify_tells_of_the_order():
    (found,) = verify(func(loop(K, 8, realize(None, 7 - K))))
    assert found.code == "TIR0413"
    assert "'block'" in found.message
    both = SeqStmt((loop(K, 8, realize(None, 7 - K)), call("break_loop")))
    assert [d.code for d in verify(func(both))] == ["TIR0414", "TIR0413"]


# -- against enumeration ---------------------------------------------------------------------------


def value_of(expr: Any, at: Mapping[int, int]) -> int:
    """Compute an integer expression over loop variables."""
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return at[id(expr)]
    if isinstance(expr, Not):
        return int(not value_of(expr.a, at))
    a, b = value_of(expr.a, at), value_of(expr.b, at)
    table: dict[type, Callable[[int, int], int]] = {
        Add: lambda x, y: x + y,
        Sub: lambda x, y: x - y,
        Mul: lambda x, y: x * y,
        FloorDiv: lambda x, y: x // y,
        FloorMod: lambda x, y: x % y,
        LT: lambda x, y: int(x < y),
        LE: lambda x, y: int(x <= y),
        GE: lambda x, y: int(x >= y),
        Eq: lambda x, y: int(x == y),
        And: min,
        Or: max,
    }
    return table[type(expr)](a, b)


def instances(body: Stmt, at: dict[int, int]) -> Iterator[tuple[list[int], list[int]]]:
    """List the executed instances: values of spatial and of reducing iterators."""
    if isinstance(body, For):
        first, count = value_of(body.min, at), value_of(body.extent, at)
        for value in range(first, first + count):
            yield from instances(body.body, {**at, id(body.loop_var): value})
    elif isinstance(body, IfThenElse):
        taken = body.then_case if value_of(body.condition, at) else body.else_case
        if taken is not None:
            yield from instances(taken, at)
    else:
        assert isinstance(body, BlockRealize)
        if value_of(body.predicate, at):
            points: tuple[list[int], list[int]] = ([], [])
            for it, value in zip(body.block.iter_vars, body.values, strict=True):
                points[it.iter_type is IterVarType.COMM_REDUCE].append(value_of(value, at))
            yield points


def holds(body: Stmt) -> bool:
    """Tell by enumeration whether the first instance of each point has its reducers at 0."""
    seen: set[tuple[int, ...]] = set()
    for point, reducers in instances(body, {}):
        if tuple(point) not in seen and any(reducers):
            return False
        seen.add(tuple(point))
    return True


NAMES = (I, J, K)


@st.composite
def index(draw: st.DrawFn, depth: int = 2) -> PrimExpr:
    kind = draw(st.integers(0, 6)) if depth else draw(st.integers(0, 2))
    if kind <= 1:
        return draw(st.sampled_from(NAMES))
    if kind == 2:
        return convert(draw(st.integers(0, 3)))
    a = draw(index(depth - 1))
    if kind == 3:
        return Add(a, draw(index(depth - 1)))
    factor = convert(draw(st.sampled_from([1, 2, 3, 4])))
    if kind == 4:
        return Mul(a, factor)
    return (FloorDiv if kind == 5 else FloorMod)(a, factor)


@st.composite
def guard(draw: st.DrawFn) -> PrimExpr:
    op = draw(st.sampled_from([LT, LE, GE, Eq, None, None]))
    if op is None:
        return TRUE
    made: PrimExpr = op(draw(index(1)), draw(index(1)))
    return Not(made) if draw(st.booleans()) else made


@st.composite
def program(draw: st.DrawFn) -> Stmt:
    spatial = [draw(index()) for _ in range(draw(st.integers(0, 2)))]
    reducers = [draw(index()) for _ in range(draw(st.integers(1, 2)))]
    iters = [(iterator(var(f"s{n}"), 64), v) for n, v in enumerate(spatial)]
    iters += [(iterator(var(f"r{n}"), 64, "R"), v) for n, v in enumerate(reducers)]
    body: Stmt = block(iters, use(1), draw(guard()), init=INIT)
    if draw(st.booleans()):
        body = IfThenElse(draw(guard()), body)
    order = draw(st.permutations(NAMES))
    for at, name in enumerate(reversed(order)):
        outer = order[: len(order) - 1 - at]
        extent: ExprLike = draw(st.integers(0, 6))
        if outer and draw(st.integers(0, 4)) == 0:
            extent = draw(st.sampled_from(outer)) + draw(st.integers(0, 2))
        body = loop(name, extent, body)
    return body


@given(program())
def test_what_is_accepted_holds_for_every_point(body: Stmt):
    if accepted(body):
        assert holds(body)


def test_the_enumeration_can_fail():
    assert not holds(loop(K, 8, realize(None, 7 - K)))
    assert holds(loop(K, 8, realize(None, K)))


def test_a_call_of_a_function_may_guard_a_reduction():
    text = """
from loomir.script import ir as I
from loomir.script import tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), B: T.Buffer((1,), "int32")):
        for k in range(8):
            with T.sblock("sum"):
                v = T.axis.spatial(1, 0)
                vk = T.axis.reduce(8, k)
                with T.init():
                    B[v] = 0
                if cls.wanted(vk):
                    B[v] = B[v] + A[vk]
        for k in range(8):
            if cls.wanted(k):
                with T.sblock("guarded"):
                    v = T.axis.spatial(1, 0)
                    vk = T.axis.reduce(8, k)
                    with T.init():
                        B[v] = 0
                    B[v] = B[v] + A[vk]

    @T.prim_func(private=True)
    def wanted(k: T.int32) -> T.bool:
        return k > 2
"""
    assert {d.code for d in verify(from_source(text))} == {"TIR0413"}
