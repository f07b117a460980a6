"""The builder of programs in normal form."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.equality import structural_equal
from loomir.ir.hashing import structural_hash
from loomir.ir.module import BaseFunc
from loomir.ir.visit import pre_order
from loomir.relax import (
    BindingBlock,
    BlockBuilder,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    MatchCast,
    ObjectStructInfo,
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
)
from loomir.relax.normal import functions
from loomir.relax.normal.normalizer import Normalizer
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import OBJECT, FuncStructInfo
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from loomir.support.span import Source, Span
from loomir.tir import Var as ShapeVar
from loomir.tir.function import PrimFunc
from tests.clause import clauses
from tests.relax.programs import (
    bindings_of,
    block,
    callable_of,
    dim,
    flow,
    let,
    lv,
    neg,
    op,
    seq,
    tensor,
    values_of,
    var,
)


def op_call(name: Any, *args: Any) -> Call:
    """Call an operator with its options as they are left out."""
    found = find_op(f"relax.{name}")
    assert found is not None
    return found.call(*args)


def built(mod: Any, name: str = "main") -> Function:
    found = mod[name]
    assert isinstance(found, Function)
    return found


def refused(build: Any) -> str:
    with pytest.raises(CompileError) as caught:
        build()
    assert caught.value.diagnostic.help
    return caught.value.diagnostic.code


def main_of(*params: Var, body: Any, **options: Any) -> tuple[Function, BlockBuilder]:
    """Build a function whose result ``body(bb, *params)`` gives."""
    bb = BlockBuilder()
    with bb.function("main", params, **options):
        bb.emit_func_output(body(bb, *params))
    return built(bb.get()), bb


@clauses("RX-NF-02", "RX-NF-02a", "RX-NF-07")
def test_nested_calls_are_bound_left_to_right():
    x = var("x", 2)
    made, _ = main_of(x, body=lambda bb, x: (neg(neg(x)), neg(x)))
    first, second, third = values_of(made)
    names = [b.var for b in bindings_of(made)]
    assert first.args == (x,)
    assert second.args == (names[0],)
    assert third.args == (x,)
    assert isinstance(made.body, SeqExpr)
    assert isinstance(made.body.body, Tuple)
    assert made.body.body.fields == (names[1], names[2])


@clauses("RX-SIS-01")
def test_variables_are_annotated_with_what_is_derived():
    n = dim()
    x = var("x", n, 2)
    made, _ = main_of(x, body=lambda bb, x: bb.emit(neg(x), "y"))
    (binding,) = bindings_of(made)
    assert binding.var is not None
    assert binding.var.name_hint == "y"
    assert structural_equal(binding.var.struct_info, tensor(n, 2))
    assert made.ret_struct_info is not None
    assert structural_equal(made.ret_struct_info, tensor(n, 2))


def test_a_dataflow_block_binds_its_own_variables_and_ordinary_outputs():
    x = var("x", 2)
    bb = BlockBuilder()
    with bb.function("main", x):
        with bb.dataflow():
            assert bb.in_dataflow
            y = bb.emit(neg(x))
            z = bb.emit_output(neg(y))
        assert not bb.in_dataflow
        bb.emit_func_output(z)
    assert type(y) is DataflowVar
    assert type(z) is Var
    assert (y.name_hint, z.name_hint) == ("lv", "gv")
    body = built(bb.get()).body
    assert isinstance(body, SeqExpr)
    assert [type(b) for b in body.blocks] == [DataflowBlock]


@clauses("RX-NF-05", "RX-NF-05a", "RX-NF-05b", "RX-NF-05c")
def test_blocks_are_merged_and_empty_ones_vanish():
    x = var("x", 2)
    bb = BlockBuilder()
    with bb.function("main", x):
        with bb.dataflow():
            y = bb.emit_output(neg(x))
        with bb.dataflow():
            pass
        with bb.dataflow():
            y = bb.emit_output(neg(y))
        y = bb.emit(neg(y))
        bb.begin_binding_block()
        y = bb.emit(neg(y))
        bb.emit_func_output(y)
    body = built(bb.get()).body
    assert isinstance(body, SeqExpr)
    assert [(type(b), len(b.bindings)) for b in body.blocks] == [
        (DataflowBlock, 2),
        (BindingBlock, 2),
    ]


@clauses("RX-NF-05b")
def test_a_function_without_bindings_has_no_blocks():
    made, _ = main_of(var("x", 2), body=lambda bb, x: x)
    assert isinstance(made.body, SeqExpr)
    assert made.body.blocks == ()


@clauses("RX-NF-08")
def test_sequences_are_flattened():
    x, y, z = var("x", 2), var("y", 2), var("z", 2)
    inner = seq([block(let(y, neg(x))), flow(let(z, neg(y)))], neg(z))
    made, _ = main_of(x, body=lambda bb, x: bb.emit(neg(inner)))
    assert isinstance(made.body, SeqExpr)
    assert [type(b) for b in made.body.blocks] == [BindingBlock, DataflowBlock, BindingBlock]
    assert [b.var for b in bindings_of(made)][:2] == [y, z]
    assert [v.args[0] for v in values_of(made)][:3] == [x, y, z]


@clauses("RX-NF-08")
def test_a_dataflow_block_in_a_dataflow_block_is_flattened():
    x, y = var("x", 2), lv("y", 2)
    bb = BlockBuilder()
    with bb.function("main", x):
        with bb.dataflow():
            z = bb.emit_output(neg(seq([flow(let(y, neg(x)))], y)))
        bb.emit_func_output(z)
    body = built(bb.get()).body
    assert isinstance(body, SeqExpr)
    assert [len(b.bindings) for b in body.blocks] == [2]


@clauses("RX-NF-09")
def test_an_ordinary_block_in_a_dataflow_block_is_refused():
    x, y = var("x", 2), var("y", 2)

    def build():
        bb = BlockBuilder()
        with bb.function("main", x), bb.dataflow():
            bb.emit(seq([block(let(y, neg(x)))], y))

    assert refused(build) == "RLX0301"


@clauses("RX-NF-04")
def test_branches_become_sequences():
    c, x = var("c", dtype="bool"), var("x", 2)
    made, _ = main_of(c, x, body=lambda bb, c, x: bb.emit(If(c, neg(neg(x)), x)))
    (branch,) = values_of(made)
    assert isinstance(branch, If)
    assert isinstance(branch.true_branch, SeqExpr)
    assert isinstance(branch.false_branch, SeqExpr)
    assert len(branch.true_branch.blocks[0].bindings) == 2
    assert isinstance(branch.true_branch.body, Var)
    assert branch.false_branch.blocks == ()


@clauses("RX-WF-09", "RX-SURV-10")
def test_a_branch_in_a_dataflow_block_is_refused():
    c, x = var("c", dtype="bool"), var("x", 2)

    def build():
        bb = BlockBuilder()
        with bb.function("main", [c, x]), bb.dataflow():
            bb.emit(If(c, x, x))

    assert refused(build) == "RLX0107"


@clauses("RX-WF-12")
def test_an_operator_is_no_value():
    x = var("x", 2)
    assert refused(lambda: main_of(x, body=lambda bb, x: bb.emit((op("negative"), x)))) == "RLX0109"


@pytest.mark.parametrize("wrong", [None, 5, (3,), "float32"])
def test_a_cast_to_what_describes_nothing_is_refused(wrong: object):
    x = Var("x", tensor(3))
    cast = lambda bb, x: bb.match_cast(x, wrong)  # noqa: E731
    assert refused(lambda: main_of(x, body=cast)) == "TIR0006"


def test_what_is_no_expression_is_refused():
    x = var("x", 2)
    wrong = block(let(var("y", 2), x))
    assert refused(lambda: main_of(x, body=lambda bb, x: bb.emit(wrong))) == "RLX0302"


def test_function_literals_are_bound():
    x, y = var("x", 2), var("y", 2)
    inner = Function((y,), neg(y))
    made, _ = main_of(x, body=lambda bb, x: bb.emit(Call(inner, (x,))))
    first, second = values_of(made)
    assert isinstance(first, Function)
    assert isinstance(first.body, SeqExpr)
    assert isinstance(second, Call)
    assert second.op is bindings_of(made)[0].var


def test_packed_functions_stay_as_callees_and_are_bound_elsewhere():
    x = var("x", 2)

    def body(bb: Any, x: Any):
        claimed = Call(ExternFunc("f"), (x, ExternFunc("g")), (tensor(2),))
        return bb.emit(claimed)

    made, _ = main_of(x, body=body, pure=False)
    first, second = values_of(made)
    assert isinstance(first, ExternFunc)
    assert isinstance(second, Call)
    assert isinstance(second.op, ExternFunc)
    assert second.args[1] is bindings_of(made)[0].var


def test_leaves_are_not_bound_by_themselves():
    x = var("x", 2)
    leaves = (Constant(np.float32(1)), PrimValue(1), ShapeExpr((2, 3)), x)
    made, _ = main_of(x, body=lambda bb, x: leaves)
    assert bindings_of(made) == []


@clauses("RX-SURV-16", "RX-DIM-01")
def test_match_cast_binds_a_variable_of_what_is_claimed():
    x, n = Var("x", OBJECT), dim()
    made, bb = main_of(x, body=lambda bb, x: bb.match_cast(x, tensor(n), "y"))
    (binding,) = bindings_of(made)
    assert isinstance(binding, MatchCast)
    assert binding.var is not None
    assert binding.var.struct_info is binding.struct_info
    assert bb.warnings == []


def test_a_cast_that_always_fails_is_warned_of():
    x = var("x", 2)
    _, bb = main_of(x, body=lambda bb, x: bb.match_cast(x, ShapeStructInfo((2,))))
    assert [d.code for d in bb.warnings] == ["RLX0203"]
    assert bb.warnings[0].severity == "warning"


def test_an_annotation_that_may_not_fit_is_checked_when_it_runs():
    x, y = Var("x", TensorStructInfo(None, "float32", ndim=1)), var("y", 2)
    made, bb = main_of(x, body=lambda bb, x: bb.emit_binding(VarBinding(y, x)))
    (binding,) = bindings_of(made)
    assert isinstance(binding, MatchCast)
    assert (binding.var, binding.value) == (y, x)
    assert [d.code for d in bb.warnings] == ["RLX0202"]


def test_an_annotation_that_cannot_fit_is_refused():
    x, y = var("x", 2), var("y", 3)
    assert (
        refused(lambda: main_of(x, body=lambda bb, x: bb.emit_binding(VarBinding(y, neg(x)))))
        == "RLX0201"
    )


def test_a_wider_annotation_is_kept():
    x = var("x", 2)
    y = Var("y", TensorStructInfo(None, "float32", ndim=1))
    made, bb = main_of(x, body=lambda bb, x: bb.emit_binding(VarBinding(y, neg(x))))
    assert bindings_of(made)[0].var is y
    assert bb.warnings == []


def test_a_variable_without_annotation_is_replaced_by_one_that_has_it():
    x, y = var("x", 2), Var("y")

    def body(bb: Any, x: Any):
        got = bb.emit_binding(VarBinding(y, neg(x)))
        return got, bb.emit(neg(y))

    made, _ = main_of(x, body=body)
    first, second = bindings_of(made)
    assert first.var is not y
    assert second.value.args == (first.var,)


def test_bindings_are_found_by_their_variables():
    x = var("x", 2)
    bb = BlockBuilder()
    with bb.function("main", x):
        y = bb.emit(neg(x))
        found = bb.lookup_binding(y)
        assert isinstance(found, Call)
        assert found.args == (x,)
        assert bb.lookup_binding(x) is None
        bb.emit_func_output(y)


def test_python_tuples_are_tuples_of_the_program():
    x = var("x", 2)
    made, _ = main_of(x, body=lambda bb, x: bb.emit([x, (x, neg(x))]))
    first, second = bindings_of(made)
    assert isinstance(second.value, Tuple)
    assert isinstance(second.value.fields[1], Tuple)
    assert second.value.fields[1].fields == (x, first.var)
    assert second.var is not None
    assert isinstance(second.var.struct_info, TupleStructInfo)


# -- functions ------------------------------------------------------------------------------------
@clauses("RX-SURV-24")
def test_functions_are_callable_from_outside_unless_private():
    x = var("x", 2)
    assert main_of(x, body=lambda bb, x: x)[0].attrs == {"global_symbol": "main"}
    assert main_of(x, body=lambda bb, x: x, private=True)[0].attrs == {}


def test_functions_call_each_other_once_declared():
    x, y = var("x", 2), var("y", 2)
    bb = BlockBuilder()
    other = bb.declare("other", callable_of([tensor(2)], tensor(2)))
    with bb.function("main", x):
        z = bb.emit(Call(other, (x,)))
        bb.emit_func_output(z)
    assert structural_equal(z.struct_info, tensor(2))
    assert refused(bb.get) == "RLX0307"
    with bb.function("other", y):
        bb.emit_func_output(neg(y))
    assert list(bb.get()) == ["main", "other"]
    assert bb.get().get_global_var("other") is other


def test_an_unknown_function_is_refused():
    x = var("x", 2)
    assert (
        refused(lambda: main_of(x, body=lambda bb, x: bb.emit(Call(GlobalVar("f"), (x,)))))
        == "RLX0307"
    )


def test_a_name_is_taken_once():
    x = var("x", 2)
    bb = BlockBuilder()
    with bb.function("main", x):
        bb.emit_func_output(x)

    def again():
        with bb.function("main", x):
            bb.emit_func_output(x)

    assert refused(again) == "RLX0308"
    assert refused(lambda: bb.declare("main", callable_of([], OBJECT))) == "RLX0308"
    gv = bb.add_func(built(bb.get()), "main")
    assert gv.name_hint == "main1"


def test_an_equal_function_of_loops_is_added_once(monkeypatch: pytest.MonkeyPatch):
    hashed: list[str] = []

    def counted(func: BaseFunc) -> int:
        hashed.append(func.name)
        return structural_hash(func)

    monkeypatch.setattr(functions, "structural_hash", counted)

    def loops(name: str, size: int, rank: int, private: bool = True) -> PrimFunc:
        place = ", ".join("i" * rank)
        made = from_source(
            "from loomir.script import tir as T\n\n"
            f"@T.prim_func(private={private})\n"
            f"def {name}(A: T.Buffer(({size},) * {rank}, 'float32')):\n"
            f"    for i in range({size}):\n"
            f"        A[{place}] = T.float32(1)\n"
        )
        assert isinstance(made, PrimFunc)
        return made

    bb = BlockBuilder()
    first = bb.add_func(loops("f", 4, 1), "f")
    # Of other arrays, they are not looked at closely.
    assert bb.add_func(loops("f", 4, 2), "f") is not first
    assert not hashed
    assert bb.add_func(loops("g", 4, 1), "g") is first
    assert bb.add_func(loops("f", 5, 1), "f") is not first
    assert bb.add_func(loops("f", 4, 1, private=False), "f") is not first
    assert bb.add_func(loops("h", 5, 1), "h").name_hint == "f2"
    assert len(hashed) == 5  # each of one axis once: three that are added, two that are known
    bb.update_func(first, loops("f", 6, 1))
    assert bb.add_func(loops("i", 4, 1), "i") is not first
    assert bb.add_func(loops("j", 6, 1), "j") is first


def test_functions_are_replaced():
    x, y = var("x", 2), var("y", 2)
    bb = BlockBuilder()
    with bb.function("main", x):
        gv = bb.emit_func_output(x)
    other = Function((y,), seq([], y))
    bb.update_func(gv, other)
    assert bb.get()["main"] is other
    assert refused(lambda: bb.update_func(GlobalVar("f"), other)) == "RLX0307"


def test_a_function_needs_its_result():
    x = var("x", 2)

    def without():
        bb = BlockBuilder()
        with bb.function("main", x):
            bb.emit(neg(x))

    assert refused(without) == "RLX0306"
    assert refused(lambda: BlockBuilder().emit(x)) == "RLX0306"
    assert refused(lambda: BlockBuilder().emit_func_output(x)) == "RLX0306"


def test_a_refused_function_leaves_the_builder_as_it_was():
    x = var("x", 2)
    bb = BlockBuilder()
    with pytest.raises(CompileError), bb.function("main", x):
        bb.emit(Call(GlobalVar("f"), (x,)))
    with bb.function("main", x):
        bb.emit_func_output(x)
    assert list(bb.get()) == ["main"]


def test_a_module_is_gone_on_with():
    x = var("x", 2)
    bb = BlockBuilder()
    with bb.function("one", x):
        bb.emit_func_output(neg(x))
    more = BlockBuilder(bb.get())
    y = var("y", 2)
    with more.function("two", y):
        more.emit_func_output(Call(GlobalVar("one"), (y,)))
    assert list(more.get()) == ["one", "two"]
    assert list(bb.get()) == ["one"]


def test_scopes_give_sequences():
    x = var("x", 2)
    bb = BlockBuilder()
    bb.begin_scope([x])
    bb.begin_dataflow_block()
    y = bb.emit_output(neg(x))
    flowed = bb.end_block()
    bb.begin_binding_block()
    z = bb.emit(neg(y))
    plain = bb.end_block()
    made = bb.end_scope(neg(z))
    assert type(flowed) is DataflowBlock
    assert [b.var for b in flowed.bindings] == [y]
    assert type(plain) is BindingBlock
    assert [b.var for b in plain.bindings] == [z]
    assert [len(b.bindings) for b in made.blocks] == [1, 2]


def test_a_mistake_is_placed_at_the_expression():
    source = Source("f.py", "y = R.negative(x)\n")
    span = Span(source, 1, 5, 1, 18)
    x = Var("x", ObjectStructInfo())
    wrong = Call(op("negative"), (ShapeExpr((2,)),), span=span)
    bb = BlockBuilder()
    bb.begin_scope([x])
    with pytest.raises(CompileError) as caught:
        bb.emit(wrong)
    assert caught.value.diagnostic.span is span


# -- scale ----------------------------------------------------------------------------------------
def test_deep_and_long_programs_are_built():
    x = var("x", 2)
    nested = x
    for _ in range(5_000):
        nested = neg(nested)
    made, _ = main_of(x, body=lambda bb, x: nested)
    assert len(bindings_of(made)) == 5_000
    branch = x
    c = var("c", dtype="bool")
    for _ in range(1_000):
        branch = If(c, branch, x)
    made, _ = main_of(c, x, body=lambda bb, c, x: branch)
    assert len(bindings_of(made)) == 1


def test_builders_work_beside_one_another():
    results: dict[int, int] = {}

    def work(number: int) -> None:
        x = var("x", 2)
        made, _ = main_of(x, body=lambda bb, x: chain(x))
        results[number] = len(bindings_of(made))

    def chain(x: Any):
        for _ in range(200):
            x = neg(x)
        return x

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(4), 200)


def test_fields_of_tuples_are_derived():
    x, y = var("x", 2), var("y", 3)
    made, _ = main_of(x, y, body=lambda bb, x, y: bb.emit(TupleGetItem(Tuple((x, y)), 1)))
    assert structural_equal(bindings_of(made)[0].var.struct_info, tensor(3))


def test_what_leaves_a_dataflow_block_says_nothing_of_variables_in_it():
    bb, x = BlockBuilder(), Var("x", TensorStructInfo((3,), "int64"))
    with bb.function("main", [x]):
        with bb.dataflow():
            shape = bb.emit(Call(op("tensor_to_shape"), (x,)))
            inner = bb.emit(op_call("full", shape, Constant(np.array(1, "int8"))))
            outer = bb.emit_output(neg(inner))
        bb.emit_func_output(bb.emit(neg(outer)))
    assert isinstance(inner.struct_info, TensorStructInfo)
    assert inner.struct_info.shape is shape
    assert structural_equal(outer.struct_info, TensorStructInfo(None, "int8", ndim=3))
    assert loomir.verify(bb.get()) == ()


def test_a_function_as_a_value_has_shape_variables_of_its_own():
    bb, n = BlockBuilder(), dim()
    p, x = var("p", n), var("x", dim())
    with bb.function("f", [p], private=True):
        f = bb.emit_func_output(p)
    with bb.function("main", [x]):
        made = bb.emit(op_call("make_closure", f, Tuple(())))
        bb.emit_func_output(x)
    info = made.struct_info
    assert isinstance(info, FuncStructInfo)
    assert structural_equal(info, callable_of([tensor(k := dim())], tensor(k)))
    assert n not in {part for part in pre_order(info) if isinstance(part, ShapeVar)}
    again = from_source(bb.get().script())
    assert structural_equal(again, bb.get())
    assert again.script() == bb.get().script()


@pytest.mark.parametrize("annotation", ["", ": R.Tensor(s, dtype='bool')"])
def test_dataflow_blocks_in_text_say_nothing_of_variables_in_them(annotation: str):
    text = f"""
@R.function
def main(x: R.Tensor((3,), "int64")):
    with R.dataflow():
        s: R.Shape(ndim=3) = R.tensor_to_shape(x)
        y{annotation} = R.full(s, R.const(True, "bool"))
        z = R.logical_not(y)
        R.output(z)
    w = R.logical_not(z)
    return w
"""
    made = from_source(text)
    assert loomir.verify(made) == ()
    assert structural_equal(from_source(made.script()), made)
    assert (loomir.interpret(made, np.array([2, 1, 2])) == np.ones((2, 1, 2), bool)).all()


@pytest.mark.parametrize("depth", [10, 40])
def test_branches_that_a_builder_made_are_gone_through_once(
    depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[bool] = []
    enter = Normalizer.enter

    def counted(self: Normalizer, pure: bool, params: Sequence[Var] = ()) -> None:
        entered.append(pure)
        enter(self, pure, params)

    monkeypatch.setattr(Normalizer, "enter", counted)
    c, x = var("c", dtype="bool"), var("x", 4)
    builder = BlockBuilder()
    with builder.function("main", [c, x]):
        for _ in range(depth):
            builder.begin_scope()
        inner = builder.emit(neg(x))
        for _ in range(depth):
            yes = builder.end_scope(inner)
            builder.begin_scope()
            no = builder.end_scope(builder.emit(neg(x)))
            inner = builder.emit(If(c, yes, no))
            assert builder.lookup_binding(inner).true_branch is yes  # type: ignore[union-attr]
        builder.emit_func_output(inner)
    assert len(entered) == 1 + 2 * depth
    assert loomir.verify(builder.get()) == ()


def test_an_impure_branch_is_not_taken_into_a_pure_function() -> None:
    c, x = var("c", dtype="bool"), var("x", 4)
    builder = BlockBuilder()
    with builder.function("main", [c, x]):
        builder.begin_scope(pure=False)
        yes = builder.end_scope(builder.emit(Call(op("print"), (x,), (), {"format": ""})))
        builder.begin_scope()
        no = builder.end_scope(Tuple(()))
        with pytest.raises(CompileError):
            builder.emit(If(c, yes, no))
        builder.emit_func_output(x)
