"""The rules of well-formedness: for each, the smallest program that breaks it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.check.relax.well_formed import well_formed
from loomir.ir.module import IRModule
from loomir.relax import (
    Call,
    DataflowVar,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    MatchCast,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VarBinding,
    VDevice,
)
from loomir.relax.normal.normalize import normalize
from loomir.relax.struct_info import FuncStructInfo
from loomir.support.diagnostics import CompileError
from loomir.support.span import Source, Span
from loomir.tir import Ramp, const
from tests.clause import clauses
from tests.relax.programs import (
    block,
    callable_of,
    dim,
    flow,
    func,
    let,
    lv,
    module,
    neg,
    op,
    seq,
    tensor,
    var,
)

N = dim("n")
X = var("x", 2)
SOURCE = Source("f.py", "here\n")
HERE = Span(SOURCE, 1, 1, 1, 5)


def codes(program: Any) -> list[str]:
    found = well_formed(program)
    for mistake in found:
        assert mistake.help
        assert mistake.message
    return [d.code for d in found]


def here(name: Var, value: Any) -> VarBinding:
    """Bind at a place."""
    return VarBinding(name, value, span=HERE)


def body(*blocks: Any, out: Any = None, params: Any = None):
    x = params[0] if params else X
    return func(params or [x], seq(blocks, x if out is None else out))


def on_device(device: Any) -> TensorStructInfo:
    return TensorStructInfo(ShapeExpr((2,)), "float32", device)


def a_module() -> IRModule:
    """Make a module that is right and has a bit of everything."""
    n, m = dim("n"), dim("m")
    x, s, o = var("x", n, m), Var("s", ShapeStructInfo((m,))), Var("o", ObjectStructInfo())
    c, p = var("c", dtype="bool"), Var("p", PrimStructInfo("int64", n))
    a, b = lv("a", n, m), var("b", n, m)
    k = dim("k")
    cast = MatchCast(var("w", k, n), o, tensor(k, n))
    y = var("y", n)
    closure = Function((y,), seq([], Tuple((y, b, ShapeExpr((k * 2,))))))
    g = Var("g")
    d, e = var("d", n, m), var("e", n, m)
    main = func(
        [x, s, o, c, p],
        seq(
            [
                flow(let(a, neg(x)), let(b, neg(a))),
                block(
                    cast,
                    let(g, closure),
                    let(
                        var("r", n, m),
                        If(c, seq([block(let(d, neg(b)))], d), seq([block(let(e, b))], e)),
                    ),
                    let(Var("sh", ShapeStructInfo((k + 1, n))), ShapeExpr((k + 1, n))),
                    let(Var("v"), PrimValue(n * 2)),
                ),
            ],
            b,
        ),
        tensor(n, m),
    )
    q = var("q", 2)
    once = func([q], Call(GlobalVar("again"), (q,)), tensor(2), attrs={})
    t = var("t", 2)
    again = func([t], Call(GlobalVar("once"), (t,)), tensor(2), attrs={})
    return module(main=main, once=once, again=again)


@clauses("RX-SCOPE-01", "RX-SCOPE-02", "RX-SCOPE-04", "RX-SCOPE-05", "RX-SURV-02", "RX-SURV-13")
def test_a_program_that_is_right_breaks_no_rule():
    assert codes(a_module()) == []


def recursive(dataflow: bool, ret: Any = None) -> IRModule:
    x, y = var("x", 2), lv("y", 2) if dataflow else var("y", 2)
    z = var("z", 2)
    kind = flow if dataflow else block
    call = Call(GlobalVar("main"), (x,))
    return module(main=func([x], seq([kind(here(y, call), let(z, y))], z), ret))


def mutual(ret: Any) -> IRModule:
    x, y, z, q = var("x", 2), lv("y", 2), var("z", 2), var("q", 2)
    call = flow(here(y, Call(GlobalVar("other"), (x,))), let(z, y))
    return module(
        main=func([x], seq([call], z), ret),
        other=func([q], Call(GlobalVar("main"), (q,)), tensor(2), attrs={}),
    )


def in_closure(dataflow: bool):
    y, z, f = lv("y", 2), var("z", 2), Var("f")
    inner = Function((z,), seq([], y))
    blocks = [flow(let(y, neg(X)), here(DataflowVar("f"), inner))]
    if not dataflow:
        blocks = [flow(let(y, neg(X))), block(here(f, inner))]
    return body(*blocks)


def aliased() -> IRModule:
    x, g, y = var("x", 2), DataflowVar("g"), lv("y", 2)
    call = flow(let(g, GlobalVar("main")), here(y, Call(g, (x,))))
    return module(main=func([x], seq([call], x), tensor(2)))


def local(dataflow: bool, ret: Any):
    f, y, z, r = Var("f"), var("y", 2), var("z", 2), lv("r", 2)
    call = Call(f, (y,))
    inside = seq([flow(here(r, call), let(z, r))], z) if dataflow else seq([], call)
    return body(block(here(f, Function((y,), inside, ret))))


def annotated(info: Any, value: Any = None):
    return body(block(here(Var("y", info), X if value is None else value)))


def cast_to(info: Any):
    return body(block(MatchCast(Var("y", info), X, info, span=HERE)))


def branch_leak():
    c, y = var("c", dtype="bool"), var("y", 2)
    r = var("r", 2)
    branch = If(c, seq([block(let(y, neg(X)))], y), seq([], X))
    return body(block(let(r, branch), here(var("s", 2), neg(y))), params=[X, c])


def device_module(listed: Any, used: Any) -> IRModule:
    x = Var("x", on_device(used), span=HERE)
    return IRModule(
        {GlobalVar("main"): func([x], seq([], x))}, {}, {"vdevice": listed} if listed else {}
    )


TWICE = var("y", 2)
CPU, OTHER = VDevice("llvm"), VDevice("llvm", 1)
K = dim("k")

BROKEN = {
    "1 bound outside": lambda: body(block(here(lv("y", 2), neg(X)))),
    "1 used outside": lambda: body(
        flow(let(y := lv("y", 2), neg(X))), block(here(var("z", 2), neg(y)))
    ),
    "1 used in a later block": lambda: body(
        flow(let(y := lv("y", 2), neg(X))), block(), flow(here(lv("z", 2), neg(y)))
    ),
    "1 parameter": lambda: func([y := DataflowVar("y", tensor(2), span=HERE)], seq([], y)),
    "1 used in a closure outside": lambda: in_closure(False),
    "2 bound twice": lambda: body(block(let(TWICE, neg(X)), here(TWICE, neg(X)))),
    "2 bound nowhere": lambda: body(block(here(var("z", 2), neg(var("y", 2))))),
    "2 in its own value": lambda: body(block(here(y := var("y", 2), neg(y)))),
    "2 after its branch": branch_leak,
    "2 no such function": lambda: body(block(here(var("y", 2), Call(GlobalVar("f"), (X,))))),
    "3 before": lambda: body(
        block(here(var("z", 2), neg(y := var("y", 2))), let(y, neg(X))),
    ),
    "4 return": lambda: func([X], seq([], X), tensor(K)),
    "5 shape": lambda: body(block(here(Var("s"), ShapeExpr((K,))))),
    "5 composite in a cast": lambda: cast_to(tensor(K * 2)),
    "5 composite shape in a cast": lambda: cast_to(ShapeStructInfo((K + 1,))),
    "6 no binding position": lambda: func([x := Var("x", tensor(K * 2), span=HERE)], seq([], x)),
    "7 branch": lambda: body(
        flow(here(var("y", 2), If(c := var("c", dtype="bool"), X, X))), params=[X, c]
    ),
    "7 direct": lambda: recursive(True, tensor(2)),
    "7 mutual": lambda: mutual(tensor(2)),
    "7 by another name": aliased,
    "7 closure": lambda: local(True, tensor(2)),
    "8 no return annotation": lambda: recursive(False),
    "8 closure": lambda: local(False, None),
    "9 argument": lambda: body(block(here(Var("y"), Tuple((op("negative"), X))))),
    "11 closure in a dataflow block": lambda: in_closure(True),
    "12 nothing to call": lambda: module(main=func([X], seq([], X), attrs={})),
    "13 another name": lambda: module(main=func([X], seq([], X), attrs={"global_symbol": "f"})),
    "14 extent": lambda: annotated(tensor(K)),
    "14 variable": lambda: annotated(TensorStructInfo(Var("s", ShapeStructInfo((2,))), "float32")),
    "14 in a call": lambda: body(block(here(Var("y"), Call(op("negative"), (X,), (tensor(K),))))),
    "14 in a function": lambda: annotated(FuncStructInfo((tensor(K * 2),), tensor(2))),
    "15 shape": lambda: annotated(ShapeStructInfo((K,))),
    "16 scalar": lambda: annotated(PrimStructInfo("int64", K)),
    "18 scalar": lambda: body(block(here(Var("y"), PrimValue(K + 1)))),
    "18 vector": lambda: body(
        block(here(Var("y"), PrimValue(Ramp(const(0, "int32"), const(1, "int32"), 4))))
    ),
    "21 force_pure": lambda: func(
        [X], seq([], X), is_pure=False, attrs={"global_symbol": "main", "relax.force_pure": True}
    ),
    "23 own rule": lambda: body(
        block(here(Var("y"), Call(op("reshape"), (X, ShapeExpr((1, -1))))))
    ),
    "24 not listed": lambda: device_module([CPU], OTHER),
    "24 none listed": lambda: device_module([], CPU),
}
PLACED = {name for name in BROKEN if name.split()[0] not in {"4", "8", "12", "13", "21"}}


@clauses(
    "RX-WF-01",
    "RX-WF-02",
    "RX-WF-02a",
    "RX-WF-03",
    "RX-WF-04",
    "RX-WF-05",
    "RX-WF-06",
    "RX-WF-07",
    "RX-WF-08",
    "RX-WF-09",
    "RX-WF-11",
    "RX-WF-12",
    "RX-WF-14",
    "RX-WF-15",
    "RX-WF-16",
    "RX-WF-17",
    "RX-WF-18",
    "RX-WF-19",
    "RX-WF-21",
    "RX-WF-24",
    "RX-WF-26",
    "RX-WF-27",
    "RX-SURV-01",
    "RX-SURV-03",
    "RX-SURV-12",
    "RX-SCOPE-06",
    "RX-DIM-05",
)
@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_is_told_by_its_number(name: Any):
    rule = int(name.split()[0])
    program = BROKEN[name]()
    found = well_formed(program)
    assert {d.code for d in found} == {f"RLX01{rule:02d}"}, found
    assert found[0].help
    assert found[0].severity == ("warning" if rule in (12, 13) else "error")
    if name in PLACED:
        assert found[0].span is HERE


@clauses("RX-WF-13", "RX-WF-20", "RX-WF-22", "RX-WF-23", "RX-WF-25", "RX-INV-01", "RX-INV-02")
@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: TensorStructInfo(ShapeExpr((2, 3)), "float32", ndim=1), "RLX0114"),
        (lambda: TensorStructInfo(Var("s", ShapeStructInfo(ndim=2)), ndim=1), "RLX0114"),
        (lambda: TensorStructInfo(Var("s", ObjectStructInfo())), "RLX0114"),
        (lambda: ShapeStructInfo((2, 3), ndim=1), "RLX0115"),
        (lambda: FuncStructInfo(None, ObjectStructInfo()), "RLX0117"),
        (lambda: FuncStructInfo((), ObjectStructInfo(), derive_func="f"), "RLX0117"),
        (lambda: PrimStructInfo("handle"), "RLX0119"),
        (lambda: TensorStructInfo(None, "float32x4"), "RLX0120"),
        (lambda: PrimStructInfo("int32", dim()), "RLX0122"),
    ],
)
def test_constructors_refuse_what_a_node_shows_by_itself(make: Any, code: str):
    with pytest.raises(CompileError) as caught:
        make()
    assert caught.value.diagnostic.code == code


def test_all_mistakes_are_told_at_once():
    y, z = var("y", 2), var("z", 2)
    first = func([X], seq([block(let(y, neg(z)), let(y, neg(X)))], z), tensor(K))
    second = func([X], seq([block(let(Var("w"), ShapeExpr((K,))))], X), attrs={})
    assert codes(module(main=first, other=second)) == [
        "RLX0104",
        "RLX0102",
        "RLX0102",
        "RLX0102",
        "RLX0105",
    ]


def test_one_mistake_is_told_once():
    y = var("y", 2)
    names = [var(f"v{k}", 2) for k in range(5)]
    assert codes(body(block(*[let(v, neg(y)) for v in names]))) == ["RLX0102"]


def test_a_second_binding_shows_the_first():
    y = var("y", 2)
    (found,) = well_formed(body(block(here(y, neg(X)), let(y, neg(X)))))
    assert found.secondary[0][0] is HERE


@clauses("RX-WF-06", "RX-ENTRY-06", "RX-DIM-02")
def test_parameters_bind_shape_variables_in_any_order():
    n, m = dim("n"), dim("m")
    x, y = var("x", n * m), Var("y", ShapeStructInfo((n, m)))
    assert codes(func([x, y], seq([], x), tensor(n * m))) == []


@clauses("RX-WF-05", "RX-DIM-03", "RX-DIM-04")
def test_a_cast_binds_until_its_sequence_ends():
    k, c, x = dim("k"), var("c", dtype="bool"), Var("x", ObjectStructInfo())
    cast = MatchCast(var("y", k, k * 2), x, tensor(k, k * 2))
    branch = If(c, seq([block(cast)], ShapeExpr((k,))), seq([], ShapeExpr((2,))))
    r, s = Var("r"), Var("s")
    assert codes(func([c, x], seq([block(let(r, branch))], x))) == []
    c, x = var("c", dtype="bool"), Var("x", ObjectStructInfo())
    cast = MatchCast(None, x, tensor(k))
    branch = If(c, seq([block(cast)], x), seq([], x))
    late = func([c, x], seq([block(let(r, branch), let(s, ShapeExpr((k,))))], x))
    assert codes(late) == ["RLX0105"]


@clauses("RX-WF-04", "RX-WF-06", "RX-DIM-06")
def test_functions_in_functions_use_the_shape_variables_around():
    n = dim()
    x, y = var("x", n), var("y", n * 2)
    inner = Function((y,), seq([], y), tensor(n * 2))
    assert codes(func([x], seq([block(let(Var("f"), inner))], x))) == []
    free = Function((var("y", K * 2),), seq([], X), tensor(2))
    assert codes(body(block(let(Var("f"), free)))) == ["RLX0106"]


@clauses("RX-WF-02a", "RX-SURV-20", "RX-SCOPE-03")
def test_a_function_may_use_its_own_variable():
    assert codes(local(False, tensor(2))) == []


def test_calls_between_functions_outside_of_dataflow_blocks_are_fine():
    assert codes(recursive(False, tensor(2))) == []


def test_devices_that_are_listed_are_fine():
    assert codes(device_module([CPU, OTHER], VDevice("llvm", 1))) == []
    x = Var("x", on_device(CPU))
    assert codes(func([x], seq([], x))) == []


def test_variables_are_bound_once_in_the_whole_module():
    same = func([X], seq([], X))
    other = func([X], seq([], X), attrs={})
    assert codes(module(main=same, other=other)) == ["RLX0102"]


def test_deep_and_long_programs_are_checked():
    x = nested = var("x", 2)
    for _ in range(5_000):
        nested = neg(nested)
    assert codes(func([x], nested)) == []
    c = var("c", dtype="bool")
    branch = x
    for _ in range(3_000):
        branch = If(c, branch, x)
    assert codes(func([c, x], branch)) == []


# -- breaking what is right -----------------------------------------------------------------------
def _bindings(mod: Any) -> list:
    main = mod["main"]
    assert isinstance(main, Function)
    assert isinstance(main.body, SeqExpr)
    return [b for part in main.body.blocks for b in part.bindings]


def _with_body(mod: Any, blocks: Any, out: Any = None) -> IRModule:
    main = mod["main"]
    made = Function(
        main.params,
        seq(blocks, main.body.body if out is None else out),
        main.ret_struct_info,
        main.is_pure,
        main.attrs,
    )
    return mod.with_function("main", made)


def swap_two(mod: Any, rng: Any):
    """Swap a binding with the one that uses its variable."""
    at = mod["main"].body.blocks[0]
    first, second, *rest = at.bindings
    del rng
    return _with_body(mod, [flow(second, first, *rest), *mod["main"].body.blocks[1:]])


def repeat_one(mod: Any, rng: Any):
    blocks = list(mod["main"].body.blocks)
    k = rng.randrange(len(blocks))
    chosen = rng.choice(blocks[k].bindings)
    blocks[k] = type(blocks[k])((*blocks[k].bindings, chosen))
    return _with_body(mod, blocks)


def drop_one(mod: Any, rng: Any):
    """Drop a binding whose variable is used."""
    del rng
    first, *rest = mod["main"].body.blocks
    return _with_body(mod, [flow(*first.bindings[1:]), *rest])


def open_dataflow(mod: Any, rng: Any):
    del rng
    first, *rest = mod["main"].body.blocks
    return _with_body(mod, [block(*first.bindings), *rest])


def branch_in_dataflow(mod: Any, rng: Any):
    del rng
    first, second = mod["main"].body.blocks
    chosen = [b for b in second.bindings if isinstance(b.value, If)]
    rest = [b for b in second.bindings if not isinstance(b.value, If)]
    return _with_body(mod, [first, flow(*chosen), block(*rest)])


def name_an_operator(mod: Any, rng: Any):
    blocks = list(mod["main"].body.blocks)
    k = rng.randrange(len(blocks))
    at = rng.randrange(len(blocks[k].bindings) + 1)
    wrong = let(Var("wrong"), Tuple((op("negative"),)))
    given = blocks[k].bindings
    blocks[k] = type(blocks[k])((*given[:at], wrong, *given[at:]))
    return _with_body(mod, blocks)


def unbound_extent(mod: Any, rng: Any):
    blocks = list(mod["main"].body.blocks)
    k = rng.randrange(len(blocks))
    given = blocks[k].bindings
    at = rng.randrange(len(given) + 1)
    wrong = let(Var("wrong"), ShapeExpr((dim("free") * 2,)))
    blocks[k] = type(blocks[k])((*given[:at], wrong, *given[at:]))
    return _with_body(mod, blocks)


def forget_return(mod: Any, rng: Any):
    name = rng.choice(["once", "again"])
    f = mod[name]
    return mod.with_function(name, Function(f.params, f.body, None, f.is_pure, f.attrs))


def take_device(mod: Any, rng: Any):
    f = mod["once"]
    place = VDevice("llvm", rng.randrange(4))
    q = Var("q", on_device(place))
    return mod.with_function("once", Function((q,), f.body, f.ret_struct_info, True, f.attrs))


BREAKING = {
    swap_two: {"RLX0103"},
    repeat_one: {"RLX0102"},
    drop_one: {"RLX0102"},
    open_dataflow: {"RLX0101"},
    branch_in_dataflow: {"RLX0107"},
    name_an_operator: {"RLX0109"},
    unbound_extent: {"RLX0105"},
    forget_return: {"RLX0108"},
    take_device: {"RLX0124", "RLX0102"},
}


@pytest.mark.parametrize("seed", range(40))
def test_breaking_one_rule_of_a_right_program_is_told(seed: int):
    rng = random.Random(seed)
    mod = a_module()
    breaking, wanted = rng.choice(list(BREAKING.items()))
    found = set(codes(breaking(mod, rng)))
    assert found
    assert found <= wanted | {"RLX0102"}
    assert found & wanted


@pytest.mark.parametrize("breaking", BREAKING, ids=lambda f: f.__name__)
def test_each_way_of_breaking_is_told(breaking: Any):
    for seed in range(5):
        found = set(codes(breaking(a_module(), random.Random(seed))))
        assert found & BREAKING[breaking]


def test_normalising_keeps_well_formedness():
    made = normalize(a_module())
    assert codes(made) == []
    assert normalize(made) is made


# -- the survey of expressions --------------------------------------------------------------------
@clauses("RX-SCOPE-07")
def test_a_variable_of_the_same_name_is_another_variable():
    c, x = var("c", dtype="bool"), var("x", 2)
    inner, again = var("x", 2), var("x", 2)
    branch = If(c, seq([block(let(inner, neg(x)))], inner), seq([], x))
    given = func([c, x], seq([block(let(again, branch))], Tuple((x, again))), TWO)
    assert codes(given) == []
    made = normalize(given)
    assert made is given
    args = (np.array(True), np.ones(2, np.float32))
    first, second = loomir.interpret(given, *args)
    assert (first == 1).all()
    assert (second == -1).all()


TWO = TupleStructInfo((tensor(2), tensor(2)))


@clauses("RX-MOD-01", "RX-SURV-24")
def test_any_function_with_a_global_symbol_may_be_called_from_outside():
    x, y = var("x", 2), var("y", 2)
    mod = module(
        start=func([x], seq([], neg(x)), tensor(2), attrs={"global_symbol": "start"}),
        other=func([y], seq([], y), tensor(2), attrs={}),
    )
    assert codes(mod) == []
    made = loomir.interpret(normalize(mod), "start", np.ones(2, np.float32))
    assert (made == -1).all()


@clauses("RX-SURV-05", "RX-SURV-07")
@pytest.mark.parametrize("kind", ["operator", "packed", "global", "variable", "literal"])
def test_operators_functions_and_values_are_called(kind: str):
    x, y, f = var("x", 2), var("y", 2), Var("f", callable_of([tensor(2)], tensor(2)))
    callee = {
        "operator": op("negative"),
        "packed": ExternFunc("f"),
        "global": GlobalVar("main"),
        "variable": f,
        "literal": Function((y,), seq([], y), tensor(2)),
    }[kind]
    args = (x, f) if kind == "global" else (x,)
    given = func([x, f], Call(callee, args), ObjectStructInfo(), is_pure=False)
    assert loomir.verify(given) == ()


@clauses("RX-SURV-09")
def test_fields_are_those_that_a_tuple_has():
    x = var("x", 2)
    given = func([x], TupleGetItem(Tuple((x, x)), 2))
    assert [d.code for d in loomir.verify(given)] == ["RLX0207"]


@clauses("RX-SURV-16", "RX-SURV-17")
def test_a_check_without_a_variable_binds_shape_variables():
    n, x = dim(), Var("x", TensorStructInfo(None, "float32", ndim=1))
    given = func([x], seq([block(MatchCast(None, x, tensor(n)))], ShapeExpr((n * 2,))))
    assert codes(given) == []
    assert tuple(loomir.interpret(normalize(given), np.ones(3, np.float32))) == (6,)


@clauses("RX-SURV-23")
def test_functions_are_pure_where_nothing_is_said():
    x = var("x", 2)
    given = Function((x,), seq([], Call(ExternFunc("f"), (x,))))
    assert given.is_pure
    assert [d.code for d in loomir.verify(given)] == ["RLX0212"]


@clauses("RX-SURV-11")
def test_a_value_is_computed_before_its_variable_is_bound():
    x, y = var("x", 2), var("y", 2)
    given = normalize(func([x], seq([block(let(x2 := var("x", 2), neg(x)), let(y, x2))], y)))
    assert (loomir.interpret(given, np.ones(2, np.float32)) == -1).all()


@clauses("RX-NF-06a", "RX-WF-26")
def test_kernels_take_literal_tuples():
    t = Var("t", TupleStructInfo((tensor(2),)))
    a = te.placeholder((2,), name="A")
    kernel = te.create_prim_func([a, te.compute((2,), lambda i: -a[i], name="B")], name="k")
    call = Call(op("call_tir"), (GlobalVar("k"), t), (tensor(2),))
    mod = module(main=func([t], seq([block(let(Var("y"), call))], t)), k=kernel)
    assert codes(mod) == ["RLX0123"]
    made = normalize(mod)
    assert codes(made) == []
    assert loomir.verify(made) == ()
