"""What is derived from field roles holds for every node class, and for programs of any depth."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest

import loomir.tir  # noqa: F401  (registers the node classes)
from loomir.ir import (
    Node,
    children,
    free_definitions,
    from_json,
    map_children,
    post_order,
    pre_order,
    rewrite,
    structural_equal,
    structural_hash,
    substitute,
    to_json,
)
from loomir.ir import node as declare
from loomir.ir.equality import first_difference
from loomir.ir.node import DECLARED, NODE_CLASSES, Role
from loomir.ir.visit import by_class, fold, rebuild, trampoline
from loomir.relax import BindingBlock, Function, MatchCast, SeqExpr, TensorStructInfo
from loomir.relax import Var as RelaxVar
from loomir.script import from_source
from loomir.support.dtype import BOOL
from loomir.tir import (
    Add,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Let,
    LetStmt,
    Mul,
    PrimExpr,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    const,
    decl_buffer,
)
from loomir.tir.types import VOID_TYPE, Type

PROGRAM = """
from loomir.script import ir as I
from loomir.script import tir as T

@I.ir_module
class Mod:
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((8, 8), "float32"), k: T.int32) -> T.int32:
        n = T.int64()
        A = T.match_buffer(a, (n, 8), "float32")
        for i, j in T.grid(8, 8):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.where(i < 7 or not (j > 3 and k >= 2))
                M = T.match_buffer(A[vi, 0:8], (8,), "float32")
                t = T.alloc_buffer((4,), "int32")
                with T.init():
                    B[vi, 0] = T.float32(0)
                t[1] = T.min(vi, 2) * 3 - T.max(vj, 1) + vi // 2 + vj % 3
                B[vi, 0] = B[vi, 0] + T.exp(M[vj]) * T.Cast("float32", T.truncdiv(t[1], 2))
        for i in T.vectorized(8):
            B[i, 1] = T.Select(k == 3, T.float32(1), B[i, 0])
        B[2, 0:8] = T.Shuffle([B[3, 0:4], B[4, 0:4]], [7, 6, 5, 4, 3, 2, 1, 0])
        B[5, T.Ramp(0, 2, 4)] = T.Broadcast(T.float32(2), 4)
        with T.attr(B.data, "volatile_scope", 1):
            p = T.allocate([4], "int32", "global")
            q = T.decl_buffer((2, 2), "int32", data=p)
            x: T.int32 = k * 2
            q[0, 0] = T.truncmod(x, 7)
            while q[0, 0] != 0:
                q[0, 0] = q[0, 0] - 1
            if k > 50:
                q[1, 1] = 0
            assert k <= 100, "large"
            y = T.int32()
            return cls.other(T.Let(y + y, where={y: x}))

    @T.prim_func(private=True)
    def other(k: T.int32) -> T.int32:
        return k
"""


def program() -> Any:
    return from_source(PROGRAM)


def deep(depth: int = 100_000) -> tuple[Var, Any]:
    x = Var("x", "int32")
    e: Any = x
    for _ in range(depth):
        e = Add(e, IntImm(1, x.dtype))
    return x, e


def test_the_program_has_most_node_classes():
    ours = {name for name, cls in NODE_CLASSES.items() if cls.__module__.startswith("loomir.")}
    missing = {name for name in ours if name.startswith("tir.")}
    missing -= {p.node_kind for p in pre_order(program())}
    missing -= {"tir.Buffer", "tir.PointerType"}  # definitions and types are referred to
    assert missing <= {"tir.BufferRealize", "tir.DeclBuffer", "tir.TupleType", "tir.SeqStmt"}


@pytest.mark.parametrize("name", sorted(NODE_CLASSES))
def test_every_class_declares_its_fields_once(name: str):
    cls = NODE_CLASSES[name]
    names = [f.name for f in cls.node_fields]
    assert len(set(names)) == len(names)
    assert list(cls.child_names) == [f.name for f in cls.node_fields if f.role is Role.CHILD]
    assert {f.name for f in cls.scan} == {
        f.name for f in cls.node_fields if f.role in (Role.CHILD, Role.BINDS, Role.USES)
    }


def test_a_copy_of_every_node_is_equal_and_hashes_alike():
    for node in pre_order(program()):
        if not node.is_definition:
            copy = rebuild(
                node, {node.node_fields[0].name: getattr(node, node.node_fields[0].name)}
            )
            assert copy is not node
            assert structural_equal(node, copy), node.node_kind
            assert structural_hash(node) == structural_hash(copy), node.node_kind


def test_visiting_and_idle_rewrites_give_back_the_program():
    mod = program()
    assert sorted(map(id, pre_order(mod))) == sorted(map(id, post_order(mod)))
    assert rewrite(mod, {}) is mod
    assert rewrite(mod, {Add: lambda e: e}) is mod
    assert substitute(mod, {Var("z", "int32"): const(1, "int32")}) is mod
    for node in pre_order(mod):
        assert map_children(node, lambda part: part) is node


@pytest.mark.parametrize("levels", range(14))
def test_definitions_are_compared_at_any_depth(levels: int):
    def made(extent: int) -> Stmt:
        buffer = decl_buffer((extent,), "int32", "B")
        i = Var("i", "int32")
        body: Stmt = DeclBuffer(buffer, BufferStore(buffer, i, (i,)))
        for _ in range(levels):
            body = IfThenElse(IntImm(1, BOOL), body)
        return For(i, IntImm(0, i.dtype), IntImm(4, i.dtype), ForKind.SERIAL, body)

    assert structural_equal(made(4), made(4))
    assert not structural_equal(made(4), made(5))


def test_two_readings_are_equal_up_to_names():
    assert structural_equal(program(), program())
    assert structural_hash(program()) == structural_hash(program())
    renamed = from_source(PROGRAM.replace("vi", "zz"))
    assert structural_equal(program(), renamed)
    assert structural_hash(program()) == structural_hash(renamed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i < 7", "i < 6"),
        ("vi // 2", "vi % 2"),
        ("T.float32(2)", "T.float32(-0.0)"),
        ("T.vectorized(8)", "T.unroll(8)"),
        ('"large"', '"small"'),
        ("B[i, 0])", "B[i, 2])"),
        ('remap("SR"', 'remap("SS"'),
    ],
)
def test_a_difference_is_seen(old: str, new: str):
    other = from_source(PROGRAM.replace(old, new))
    assert not structural_equal(program(), other)
    assert first_difference(program(), other) is not None
    assert structural_hash(program()) != structural_hash(other)


def test_an_explanation_is_found_wherever_there_is_a_difference():
    names, others = ([Var(n, "int64") for n in text] for text in ("abc", "xyz"))

    def graph(sizes: list[Var], places: tuple[int, ...]) -> Function:
        x, y, z = (TensorStructInfo((sizes[k],), "float32") for k in places)
        params = (RelaxVar("x", x), RelaxVar("y", y))
        cast = MatchCast(RelaxVar("z", z), params[0], z)
        return Function(params, SeqExpr((BindingBlock((cast,)),), cast.var))

    every = list(product(range(3), repeat=3))
    for one, other in product(every, every):
        left, right = graph(names, one), graph(others, other)
        assert structural_equal(left, right) == (first_difference(left, right) is None)


def test_names_are_matched_one_to_one():
    x, y, z = (Var(n, "int32") for n in "xyz")
    one = const(1, "int32")
    assert structural_equal(Let(x, one, x + x), Let(y, one, y + y))
    assert not structural_equal(Let(x, one, x + z), Let(y, one, y + y))
    assert not structural_equal(x + y, y + x)
    assert structural_equal(x + y, x + y)


def test_programs_of_many_parts_are_compared_to_the_last():
    def made(last: int) -> LetStmt:
        x = Var("x", "int32")
        part: PrimExpr = x
        for _ in range(50):  # a tree of 2**50 parts
            part = Add(part, part)
        body = [Evaluate(Add(part, const(k, "int32"))) for k in range(6_000)]
        return LetStmt(x, const(1, "int32"), SeqStmt((*body, Evaluate(const(last, "int32")))))

    assert structural_equal(made(1), made(1))
    assert not structural_equal(made(1), made(2))


@pytest.mark.parametrize("bound", [True, False])
def test_as_many_indices_in_all_are_not_as_many_in_each(bound: bool):
    i, j, k = (const(v, "int32") for v in (1, 2, 3))

    def made(first: int) -> PrimFunc:
        flat, square = decl_buffer((4,), "int32"), decl_buffer((4, 4), "int32")
        accesses = {1: (flat, (i,), square, (j, k)), 2: (square, (i, j), flat, (k,))}
        a, at_a, b, at_b = accesses[first]
        body = BufferStore(a, BufferLoad(b, at_b), at_a)
        handles = (Var("a", "handle"), Var("b", "handle")) if bound else ()
        return PrimFunc(handles, body, VOID_TYPE, dict(zip(handles, (a, b))))

    if bound:
        assert structural_equal(made(1), made(1))
    assert not structural_equal(made(1), made(2))


def test_attributes_are_compared_by_name_and_value():
    def made(**attrs: object) -> PrimFunc:
        return PrimFunc((), Evaluate(const(0, "int32")), VOID_TYPE, attrs=attrs)

    x = Var("x", "int32")
    equal = [
        ({"a": 1, "b": "two"}, {"b": "two", "a": 1}),
        ({"a": math.nan}, {"a": float("nan")}),
        ({"a": 10**9}, {"a": int("1000000000")}),
        ({"a": const(1, "int32")}, {"a": const(1, "int32")}),
        ({"a": [1, 2]}, {"a": [1, 2]}),
        ({"a": x}, {"a": x}),
    ]
    for one, other in equal:
        assert structural_equal(made(**one), made(**other))
    different = [
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": True}),
        ({"a": 0.0}, {"a": -0.0}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": "one"}, {"a": "two"}),
        ({"a": const(1, "int32")}, {"a": const(2, "int32")}),
        ({"a": x}, {"a": Var("x", "int32")}),
    ]
    for one, other in different:
        assert not structural_equal(made(**one), made(**other))


def test_names_in_what_both_sides_hold_keep_their_meaning():
    def made(size: Var, kind: Type) -> PrimFunc:
        return PrimFunc((size,), Evaluate(size), kind)

    x, y = Var("x", "int32"), Var("y", "int32")
    assert structural_equal(made(x, VOID_TYPE), made(y, VOID_TYPE))

    class Sized(Type):  # declared after the comparison of such functions was written
        extent: PrimExpr

    declared = declare(Sized)
    try:
        kind = declared(x)
        assert structural_equal(made(x, kind), made(y, declared(y)))
        assert not structural_equal(made(x, kind), made(y, kind))
        assert structural_equal(made(x, kind), made(x, kind))
    finally:
        del NODE_CLASSES[declared.node_kind]
        DECLARED.remove(declared)


def test_json_keeps_the_program():
    assert structural_equal(program(), from_json(to_json(program())))


def test_free_definitions_of_a_function_and_of_its_parts():
    for func in program().functions.values():
        assert free_definitions(func) == []
    x, y = Var("x", "int32"), Var("y", "int32")
    assert free_definitions(Let(x, y, x + y)) == [y]


def test_substitution_reaches_the_shapes_of_buffers():
    n, m = Var("n", "int32"), Var("m", "int32")
    buffer = decl_buffer((n, 4), "int32")
    made = substitute(BufferLoad(buffer, (n, const(0, "int32"))), {n: m})
    assert made.buffer is not buffer
    assert made.buffer.shape[0] is m
    assert made.buffer.data is buffer.data
    assert made.indices[0] is m


def test_substitution_of_definitions_renames_what_binds_them():
    x, y = Var("x", "int32"), Var("y", "int32")
    made = substitute(Let(x, const(1, "int32"), x * x), {x: y})
    assert made.var is y
    assert not free_definitions(made)


def test_a_shared_part_is_rewritten_once():
    x = Var("x", "int32")
    e: Any = x
    for _ in range(60):
        e = Mul(e, e)
    calls: list[Node] = []

    def count(node: Mul) -> Mul:
        calls.append(node)
        return node

    assert rewrite(e, {Mul: count}) is e
    assert len(calls) == 60
    assert fold(e, lambda node, parts: 1 + max(parts, default=0)) == 61
    assert substitute(e, {x: Var("y", "int32")}) is not e


def test_deep_programs_do_not_recurse():
    x, e = deep()
    _, other = deep()
    y = Var("y", "int32")
    made = substitute(e, {x: y})
    assert free_definitions(made) == [y]
    assert structural_equal(made, made)
    assert structural_equal(Let(x, y, e), Let(x, y, substitute(made, {y: x})))
    assert structural_hash(e) == structural_hash(made) == structural_hash(other)
    assert fold(e, lambda node, parts: 1 + sum(parts)) == 200_001
    assert rewrite(e, {IntImm: lambda i: IntImm(2, i.dtype)}).b.value == 2


def test_a_trampoline_hands_errors_to_who_asked():
    def part() -> Any:
        raise KeyError("x")
        yield

    def whole() -> Any:
        try:
            yield part()
        except KeyError:
            return "caught"

    assert trampoline(whole()) == "caught"


def test_children_come_in_field_order():
    x = Var("x", "int32")
    s = LetStmt(
        x,
        const(1, "int32"),
        from_source(
            "from loomir.script import tir as T\n@T.prim_func\ndef f(k: T.int32) -> T.int32:\n    return k\n"
        ).body,
    )
    assert children(s) == [s.value, s.body]
    assert For.child_names[:2] == ("min", "extent")


def test_by_class_lists_what_a_walk_lists():
    func = from_source(
        "@T.prim_func\ndef f(A: T.Buffer((8, 8), 'int32')):\n"
        "    for i, j in T.grid(8, 8):\n        with T.block('b'):\n"
        "            x, y = T.axis.remap('SS', [i, j])\n"
        "            A[x, y] = T.if_then_else(x < y, A[y, x], T.max(x, 3)) + 1\n"
        "    T.evaluate(0)\n"
    )
    walked: dict[type, list[int]] = {}
    for node in pre_order(func):
        walked.setdefault(type(node), []).append(id(node))
    grouped = by_class(func)
    assert {k: sorted(map(id, v)) for k, v in grouped.items()} == {
        k: sorted(v) for k, v in walked.items()
    }
