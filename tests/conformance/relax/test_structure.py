"""Which programs are right: well-formedness and normal form."""

from __future__ import annotations

from typing import Any

import pytest

import loomir
from loomir.check.relax.well_formed import well_formed
from loomir.ir.module import GlobalVar, IRModule, VDevice
from loomir.relax import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    FuncStructInfo,
    Function,
    If,
    MatchCast,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    StringImm,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
)
from loomir.relax.normal.normalize import normal_form_violations, normalize
from loomir.relax.struct_info import OBJECT
from loomir.support.diagnostics import CompileError
from tests.clause import clauses
from tests.conformance.graphs import (
    ONES,
    Trace,
    bindings,
    both,
    graph,
    module,
    read,
    refused,
    zeros,
)
from tests.conformance.relax.infos import equal, k, n, tensor
from tests.conformance.relax.rules import COND, PARAM, X, broken, main
from tests.relax.kernels import BOTH
from tests.relax.programs import block, flow, let, lv, neg, op, seq, var


def right(program: Any) -> None:
    assert well_formed(program) == ()


# -- well-formedness -----------------------------------------------------------------------------
@clauses("RX-SURV-03", "RX-SURV-12")
@pytest.mark.parametrize(
    "make",
    [
        lambda y: [block(let(y, neg(PARAM)))],
        lambda y: [flow(let(y, neg(PARAM))), block(let(var("z", 2), neg(y)))],
        lambda y: [flow(let(y, neg(PARAM))), block(), flow(let(lv("z", 2), neg(y)))],
    ],
    ids=["bound outside", "used outside", "used in another"],
)
def test_RX_WF_01_dataflow_variables_stay_in_their_block(make: Any):
    """A variable of a dataflow block is bound and used in its block only."""
    broken(1, main(*make(lv("y", 2))))


@clauses("RX-SURV-01", "RX-SCOPE-06")
def test_RX_WF_02_variables_are_bound_once():
    """A variable is a parameter, or is bound exactly once."""
    y = var("y", 2)
    broken(2, main(block(let(y, neg(PARAM)), let(y, neg(PARAM)))))
    broken(2, main(block(let(PARAM, neg(PARAM)))))
    broken(2, main(block(let(y, neg(var("z", 2))))))


def test_RX_WF_02a_only_functions_use_their_own_variable():
    """A variable occurs in its own value only where that is a function."""
    y = var("y", 2)
    broken(2, main(block(let(y, neg(y)))))
    f, a = Var("f"), var("a", 2)
    right(main(block(let(f, Function((a,), seq([], Call(f, (a,))), tensor(2))))))


def test_RX_WF_03_binding_before_use():
    """A variable is bound before it is used."""
    y = var("y", 2)
    broken(3, main(block(let(var("z", 2), neg(y)), let(y, neg(PARAM)))))


def test_RX_WF_04_return_annotations_use_parameters():
    """The return annotation uses shape variables of the parameters, or from outside."""
    broken(4, main(ret=tensor(k)))
    x = var("x", n)
    right(main(params=(x,), out=x, ret=tensor(n)))


@clauses("RX-DIM-05")
def test_RX_WF_05_shape_variables_are_bound_before_use():
    """A shape variable is bound before it is used, and only where it is an extent by itself."""
    broken(5, main(block(let(Var("s"), ShapeExpr((k,))))))
    broken(5, main(block(MatchCast(None, PARAM, tensor(k * 2)))))
    right(main(block(MatchCast(None, PARAM, tensor(k)), let(Var("s"), ShapeExpr((k * 2,))))))


def test_RX_WF_06_signatures_bind_in_any_order():
    """Each shape variable of a signature is an extent by itself somewhere; where does not matter."""
    x, y = var("x", k * 2), var("y", k)
    broken(6, main(params=(x,), out=x))
    right(main(params=(x, y), out=x))


def calling(callee: Any, *others: Any) -> IRModule:
    x, y, z = var("x", 2), lv("y", 2), var("z", 2)
    calls = flow(let(y, Call(callee, (x,))), let(z, y))
    start = main(calls, params=(x,), out=z, ret=tensor(2))
    return IRModule({GlobalVar("main"): start, **{GlobalVar(o.name): o for o in others}})


@clauses("RX-SURV-10")
def test_RX_WF_07_no_recursion_in_dataflow_blocks():
    """A function does not call itself in a dataflow block."""
    broken(7, calling(GlobalVar("main")))


def test_RX_WF_08_no_mutual_recursion_in_dataflow_blocks():
    """Nor does it call one that calls it."""
    q, r = var("q", 2), var("r", 2)
    back = Call(GlobalVar("main"), (q,))
    attrs = {"global_symbol": "other"}
    broken(
        7,
        calling(
            GlobalVar("other"),
            Function((q,), seq([block(let(r, back))], r), tensor(2), attrs=attrs),
        ),
    )
    right(calling(GlobalVar("other"), Function((q,), seq([], q), tensor(2), attrs=attrs)))


@clauses("RX-SURV-10")
def test_RX_WF_09_no_branches_in_dataflow_blocks():
    """There are no branches in a dataflow block."""
    choice = If(COND, seq([], PARAM), seq([], PARAM))
    broken(7, main(flow(let(var("y", 2), choice)), params=(PARAM, COND)))
    lines = (
        "with R.dataflow():",
        "    if c:  # <--",
        "        y = x",
        "    else:",
        "        y = x",
        "return x",
    )
    refused("SCR0032", graph(f"{X}, c: R.Tensor((), 'bool')", *lines))


@clauses("RX-SURV-10")
def test_RX_WF_10_no_impure_calls_in_dataflow_blocks():
    """An impure call in a dataflow block is refused when information is derived."""
    lines = ("with R.dataflow():", "    y = R.print(x)  # <--", "    R.output(y)", "return x")
    refused("RLX0213", graph(X, *lines))


def test_RX_WF_11_recursive_functions_are_annotated():
    """A function that calls itself says what it returns."""
    x, y = var("x", 2), var("y", 2)
    call = block(let(y, Call(GlobalVar("main"), (x,))))
    broken(8, IRModule({GlobalVar("main"): main(call, params=(x,), out=y)}))
    right(IRModule({GlobalVar("main"): main(call, params=(x,), out=y, ret=tensor(2))}))


def test_RX_WF_12_operators_are_only_called():
    """An operator stands only where it is called."""
    broken(9, main(block(let(Var("y"), Tuple((op("negative"), PARAM))))))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TensorStructInfo(ShapeExpr((2, 3)), "float32", ndim=1),
        lambda: TensorStructInfo(Var("s", ShapeStructInfo(ndim=2)), ndim=1),
        lambda: ShapeStructInfo((2, 3), ndim=1),
    ],
)
def test_RX_WF_13_ranks_are_those_of_the_shapes(make: Any):
    """The rank of an annotation is the number of its extents."""
    with pytest.raises(CompileError) as caught:
        make()
    assert caught.value.diagnostic.code in ("RLX0114", "RLX0115")


def test_RX_WF_14_closures_use_no_dataflow_variables():
    """A function in a function uses no variable of a dataflow block around it."""
    y = lv("y", 2)
    inner = Function((var("z", 2),), seq([], y))
    broken(11, main(flow(let(y, neg(PARAM)), let(DataflowVar("f"), inner))))


def test_RX_WF_15_something_can_be_called():
    """A module has a function that can be called from outside: else a warning, and no program."""
    single = IRModule({GlobalVar("main"): Function((PARAM,), seq([], PARAM))})
    assert [d.code for d in well_formed(single)] == ["RLX0112"]
    assert well_formed(single)[0].severity == "warning"


def test_RX_WF_16_symbols_are_the_names():
    """The symbol of a function is its name: else a warning."""
    odd = IRModule(
        {GlobalVar("main"): Function((PARAM,), seq([], PARAM), attrs={"global_symbol": "f"})}
    )
    assert [(d.code, d.severity) for d in well_formed(odd)] == [("RLX0113", "warning")]


@pytest.mark.parametrize(
    "info",
    [
        tensor(k),
        TensorStructInfo(Var("s", ShapeStructInfo((2,))), "float32"),
        FuncStructInfo((tensor(k * 2),), tensor(2)),
    ],
    ids=str,
)
def test_RX_WF_17_shapes_of_tensors_are_in_scope(info: Any):
    """The shape of a tensor is a variable in scope, or extents of variables in scope."""
    broken(14, main(block(let(Var("y", info), PARAM))))


def test_RX_WF_18_extents_of_shapes_are_in_scope():
    """The variables of a shape's extents are in scope, unless a check binds them."""
    broken(15, main(block(let(Var("y", ShapeStructInfo((k,))), ShapeExpr((2,))))))
    text = graph("x: R.Object", "y = R.match_cast(x, R.Shape([k]))", "return R.shape([k])")
    assert both(text, loomir.Shape([4])) == (4,)


def test_RX_WF_19_values_of_scalars_are_in_scope():
    """The variables of a scalar's value are in scope, unless a check binds them."""
    broken(16, main(block(let(Var("y", PrimStructInfo("int64", k)), PrimValue(1)))))
    text = graph("x: R.Object", "y = R.match_cast(x, R.Prim(value=k))", "return R.shape([k])")
    assert both(text, 4) == (4,)


def test_RX_WF_20_parameters_or_a_way_to_derive():
    """A function has parameters or a way to derive, and not both."""
    for make in (
        lambda: FuncStructInfo(None, OBJECT),
        lambda: FuncStructInfo((), OBJECT, derive_func="f"),
    ):
        with pytest.raises(CompileError) as caught:
            make()
        assert caught.value.diagnostic.code == "RLX0117"


def test_RX_WF_21_scalars_are_of_one_lane():
    """A scalar holds an expression of one lane, of variables in scope, as decided."""
    broken(18, main(block(let(Var("y"), PrimValue(k + 1)))))
    ramp = loomir.tir.Ramp(loomir.tir.const(0, "int32"), loomir.tir.const(1, "int32"), 4)
    broken(18, main(block(let(Var("y"), PrimValue(ramp)))))
    assert both(graph("x: R.Tensor((n,))", "return R.prim_value(n + 1)"), zeros(3)) == 4


@pytest.mark.parametrize("dtype", ["handle", "void", "int8x4"])
def test_RX_WF_22_scalars_are_numbers(dtype: str):
    """A scalar has a dtype of integers or floats."""
    with pytest.raises(CompileError) as caught:
        PrimStructInfo(dtype)
    assert caught.value.diagnostic.code in ("RLX0119", "TIR0001")


@pytest.mark.parametrize("dtype", ["float32x4", "int8x2", "handle"])
def test_RX_WF_23_dtypes_have_one_lane(dtype: str):
    """Elements have one lane, and the widths that there are."""
    with pytest.raises(CompileError) as caught:
        TensorStructInfo(None, dtype)
    assert caught.value.diagnostic.code == "RLX0120"
    for name in (
        "bool",
        *[f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)],
        "float16",
        "float64",
    ):
        assert TensorStructInfo(None, name).dtype.lanes == 1


def test_RX_WF_24_force_pure_is_of_pure_functions():
    """The attribute relax.force_pure stands on functions that say they are pure."""
    attrs = {"global_symbol": "main", "relax.force_pure": True}
    broken(21, Function((PARAM,), seq([], PARAM), is_pure=False, attrs=attrs))
    right(Function((PARAM,), seq([], PARAM), attrs=attrs))


def test_RX_WF_25_values_have_the_dtype():
    """The value of a scalar has its dtype."""
    with pytest.raises(CompileError) as caught:
        PrimStructInfo("int32", n)
    assert caught.value.diagnostic.code == "RLX0122"


def test_RX_WF_26_calls_are_as_operators_want_them():
    """A call of an operator that has a normal form of its own is in it."""
    broken(23, main(block(let(Var("y"), Call(op("reshape"), (PARAM, ShapeExpr((1, -1))))))))


def test_RX_WF_27_devices_are_listed():
    """A device of an annotation is listed by the module."""
    x = Var("x", TensorStructInfo((2,), "float32", VDevice("llvm", 1)))
    used = {GlobalVar("main"): main(params=(x,), out=x)}
    broken(24, IRModule(used))
    broken(24, IRModule(used, {}, {"vdevice": (VDevice("llvm"),)}))
    right(IRModule(used, {}, {"vdevice": (VDevice("llvm", 1),)}))


# -- normal form ---------------------------------------------------------------------------------
def codes(program: Any) -> set[str]:
    return {d.code for d in normal_form_violations(program)} - {"RLX0316", "RLX0003"}


def normal(program: Function) -> Function:
    made = normalize(program)
    assert normal_form_violations(made) == ()
    return made


def test_RX_NF_01_normal_form_comes_first():
    """What is derived holds for the normal form: normalising is done once, and is idempotent."""
    given = main(out=neg(neg(PARAM)))
    made = normal(given)
    assert normalize(made) is made
    assert len(bindings(made)) == 2


NESTED = [
    lambda: neg(neg(PARAM)),
    lambda: TupleGetItem(Tuple((neg(PARAM),)), 0),
    lambda: Call(Function((), seq([], PARAM)), ()),
]


@pytest.mark.parametrize("make", NESTED, ids=["call", "field", "closure"])
def test_RX_NF_02_values_are_flat(make: Any):
    """The parts of a value are leaves."""
    given = main(block(let(Var("y"), make())))
    assert codes(given) == {"RLX0311"}
    normal(given)


LEAVES = (
    PARAM,
    Constant(1.0),
    ShapeExpr((2,)),
    PrimValue(1),
    StringImm("s"),
    DataTypeImm("int8"),
    Tuple(()),
)


def test_RX_NF_02a_leaves():
    """Variables, constants, shapes, scalars, strings, dtypes and tuples are leaves."""
    d = lv("d", 2)
    everything = Tuple((*LEAVES, d, GlobalVar("main")))
    assert "RLX0311" not in codes(main(flow(let(d, PARAM), let(DataflowVar("t"), everything))))


def test_RX_NF_02b_tuples_hold_leaves():
    """What is not a leaf in a tuple is bound to a variable."""
    given = main(block(let(Var("y"), Tuple((PARAM, Tuple((neg(PARAM),)))))))
    assert codes(given) == {"RLX0311"}
    assert len(bindings(normal(given))) == 2


def test_RX_NF_03_sequences_are_bodies():
    """A sequence is the body of a function or a case of a branch, and nothing else."""
    z = var("z", 2)
    given = main(block(let(z, seq([], PARAM))), out=z)
    assert "RLX0312" in codes(given)
    normal(given)


def test_RX_NF_04_bodies_are_sequences():
    """The body of a function and the cases of a branch are sequences that give leaves."""
    given = Function((PARAM, COND), If(COND, PARAM, neg(PARAM)), attrs={"global_symbol": "main"})
    assert "RLX0313" in codes(given)
    made = normal(given)
    (choice,) = [b.value for b in bindings(made)]
    assert isinstance(made.body, SeqExpr)
    assert isinstance(choice.true_branch, SeqExpr)
    assert isinstance(choice.false_branch.body, Var)


def kinds(made: Function) -> list[tuple[type, int]]:
    return [(type(b), len(b.bindings)) for b in made.body.blocks]


@pytest.mark.parametrize("kind", [block, flow])
def test_RX_NF_05_adjacent_blocks_are_one(kind: Any):
    """Ordinary blocks that are beside one another are one."""
    a, b = var("a", 2), var("b", 2)
    given = main(kind(let(a, neg(PARAM))), kind(let(b, neg(a))), out=b)
    assert codes(given) == {"RLX0314"}
    assert [count for _, count in kinds(normal(given))] == [2]


def test_RX_NF_05a_adjacent_dataflow_blocks_are_one():
    """Dataflow blocks that are beside one another are one."""
    text = (
        "with R.dataflow():",
        "    a = R.exp(x)",
        "    R.output(a)",
        "with R.dataflow():",
        "    b = R.exp(a)",
        "    R.output(b)",
        "return b",
    )
    assert kinds(normalize(read(graph(X, *text)))) == [(DataflowBlock, 2)]


def test_RX_NF_05b_empty_blocks_vanish():
    """Empty blocks are dropped; there may be none left."""
    given = main(block(), flow(), block())
    assert codes(given) == {"RLX0314"}
    assert normal(given).body.blocks == ()


def test_RX_NF_05c_kinds_of_blocks_stay():
    """Ordinary and dataflow blocks are not made one."""
    a, b = var("a", 2), var("b", 2)
    given = main(flow(let(a, neg(PARAM))), block(let(b, neg(a))), out=b)
    assert kinds(normal(given)) == [(DataflowBlock, 1), (BindingBlock, 1)]


@clauses("RX-NF-10")
def test_RX_NF_06_operators_have_normal_forms():
    """An operator may want its calls in a form of its own, which normalising gives them."""
    given = main(block(let(Var("y"), Call(op("reshape"), (PARAM, ShapeExpr((1, -1)))))))
    assert codes(given) == {"RLX0315"}
    (made,) = [b.value for b in bindings(normal(given))]
    equal(made.args[1], ShapeExpr((1, 2)))


def test_RX_NF_06a_kernels_take_literal_tuples():
    """Calls of kernels take their arguments as a tuple that is written out."""
    text = module(
        BOTH,
        graph(
            't: R.Tuple(R.Tensor((2,), "float32"))',
            'return R.call_tir(cls.pair, t, [R.Tensor((2,), "float32"), R.Tensor((2, 2), "float32")])',
        ),
    )
    calls = [b.value for b in bindings(normalize(read(text))["main"]) if isinstance(b.value, Call)]
    assert isinstance(calls[0].args[1], Tuple)
    assert both(text, (zeros(2),))[0].shape == (2,)


@clauses("RX-NF-08")
def test_RX_NF_07_the_order_of_evaluation_is_kept():
    """Normalising binds from left to right, so effects keep their order."""
    note = 'R.call_packed("test.note", R.prim_value({}), {}, sinfo_args=R.Object)'
    inner = note.format(2, "x")
    text = graph(
        "x: R.Object",
        f"return ({note.format(1, 'x')}, ({note.format(3, inner)}, {note.format(4, 'x')}))",
    )
    assert Trace().of(text, ONES) == [1, 2, 3, 4]


def test_RX_NF_08_nested_sequences_are_flattened():
    """The blocks of a sequence that is a value become those of the sequence around."""
    y, z = var("y", 2), var("z", 2)
    made = normal(main(block(let(z, seq([flow(let(y, neg(PARAM)))], neg(y)))), out=z))
    assert kinds(made) == [(DataflowBlock, 1), (BindingBlock, 1)]
    assert [b.var.name_hint for b in bindings(made)] == ["y", "z"]


def test_RX_NF_09_no_ordinary_block_in_a_dataflow_block():
    """An ordinary block within a binding of a dataflow block is refused."""
    y, z = var("y", 2), var("z", 2)
    with pytest.raises(CompileError) as caught:
        normalize(main(flow(let(z, seq([block(let(y, neg(PARAM)))], y))), out=z))
    assert caught.value.diagnostic.code == "RLX0301"


def test_RX_NF_10_the_form_of_an_operator_is_applied_once():
    """A call that is in the form of its operator stays as it is."""
    made = normal(main(block(let(Var("y"), Call(op("reshape"), (PARAM, ShapeExpr((1, -1))))))))
    assert normalize(made) is made
