"""Decisions where the text is silent or contradicts itself, and where documents differ."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir.ir.visit import pre_order
from loomir.relax import (
    Call,
    Constant,
    ExternFunc,
    FuncStructInfo,
    Function,
    MatchCast,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    TensorStructInfo,
    Var,
)
from loomir.relax.info.devices import update_struct_info
from loomir.relax.info.relations import (
    check_compatibility,
    erase_to_well_defined,
    get_shape_var_mapping,
    is_subtype,
    join,
)
from loomir.relax.normal.derive import func_struct_info, struct_info_of
from loomir.relax.normal.normalize import normal_form_violations, normalize
from loomir.relax.struct_info import DEFAULT_DERIVE, EMPTY_DERIVE, OBJECT, UNIT
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import VOID
from loomir.tc import define
from loomir.tir.stmt import Block
from loomir.transform.relax.devices.realize_vdevice import realize_vdevice
from tests.conformance.graphs import (
    COUNT,
    F32,
    ONES,
    bindings,
    both,
    fails,
    graph,
    known,
    mistakes,
    module,
    packed,
    read,
    refused,
    warnings,
    ways,
    zeros,
)
from tests.conformance.relax.infos import (
    MAYBE,
    NO,
    V0,
    V1,
    YES,
    equal,
    func,
    k,
    m,
    n,
    opaque,
    prim,
    rank,
    shape,
    some,
    tensor,
)
from tests.relax.kernels import ADD, BOTH, SPLIT

X = f"x: {F32}"
LISTED = 'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})'


def test_R4_bounds_keep_the_device():
    """The bound of tensors without a common shape keeps the device that both have."""
    equal(join(tensor(2, vdevice=V0), some("float32", 1, V0)), some("float32", 1, V0))


def test_R6_bounds_are_above_and_commute():
    """A bound is above both and the same in either order; it need not be the least."""
    infos = [
        OBJECT,
        tensor(2),
        tensor(3),
        some(),
        shape(2),
        rank(),
        prim(),
        func(tensor(2)),
        opaque(len),
    ]
    for a, b in itertools.product(infos, repeat=2):
        equal(join(a, b), join(b, a))
        assert is_subtype(a, join(a, b)) is YES


def test_R8_values_of_scalars_are_mapped():
    """A variable that is the value of a parameter stands for the argument's value."""
    assert get_shape_var_mapping(prim("int64", n), prim("int64", k)) == {n: k}
    f = "f: R.Callable((R.Prim(value=a),), R.Shape([a + 1]))"
    assert known(graph(f, "return f(R.prim_value(3))")) == "R.Shape([4])"


def test_R9_the_first_place_counts():
    """A variable that stands twice is what it is first; another second extent does not fit."""
    assert get_shape_var_mapping(tensor(n, n), tensor(2, 3))[n].value == 2
    given = func(tensor(n, n))
    found = [check_compatibility(given, func(tensor(*d))) for d in ((k, k), (2, 3), (k, m))]
    assert found == [YES, NO, MAYBE]


def test_R11_a_check_may_overlap():
    """A check is odd only where it cannot hold in either direction."""
    cast = "y = R.match_cast(x, R.Tensor((k, 3)))"
    assert warnings(graph("x: R.Tensor((2, n))", cast, "return ()")) == []
    assert warnings(graph("x: R.Tensor((2, 4))", cast, "return ()")) == ["RLX0203"]


def test_R12_void_has_no_bits():
    """The unknown dtype has no bits, and its lanes do not matter."""
    assert VOID.bits == 0
    assert TensorStructInfo().dtype is VOID


def test_R13_scalars_hold_expressions():
    """A scalar is any expression of one lane of variables that are bound."""
    assert both(graph("x: R.Tensor((n,))", "return R.prim_value(n * 2 - 1)"), zeros(3)) == 5


def test_R14_scalars_are_known_by_value():
    """What is known of a scalar is its dtype and its expression."""
    equal(struct_info_of(PrimValue(n * 2)), PrimStructInfo("int64", n * 2))


def test_R15_parameters_of_kernels_are_scalars():
    """A parameter of a kernel that is not a buffer is a scalar of its dtype."""
    kernel = from_source("@T.prim_func\ndef f(c: T.float16):\n    T.evaluate(0)\n")
    equal(func_struct_info(kernel), FuncStructInfo((prim("float16"),), UNIT, False))


def test_R16_scalars_are_evaluated():
    """A scalar evaluates to a number of its dtype."""
    found = both(graph("", "return R.prim_value(T.float32(0.5))"))
    assert (type(found), found) == (np.float32, 0.5)


def test_R17_recursive_functions_say_what_they_return():
    """A function that calls itself without an annotation is refused."""
    refused("SCR0035", graph(X, "y = main(x)", "return y").replace(":\n", ":  # <--\n", 1))


def test_R18_no_recursion_in_dataflow_blocks():
    """A call that may come back is refused in a dataflow block."""
    lines = ("with R.dataflow():", "    y = main(x)  # <--", "    R.output(y)", "return y")
    refused("RLX0107", graph(X, *lines, pure=True, ret=F32))


def test_R19_annotations_are_checked():
    """An annotation that may not hold becomes a check of the run."""
    text = graph("x: R.Tensor(ndim=1)", "y: R.Tensor((4,)) = x  # <--", "return y")
    assert any(isinstance(b, MatchCast) for b in bindings(text))
    assert both(text, ONES).shape == (4,)
    fails("RUN0404", text, zeros(5))
    refused("RLX0201", graph("x: R.Tensor((5,))", "y: R.Tensor((4,)) = x  # <--", "return y"))


# -- R21: what is returned is checked ---------------------------------------------------------------
CLAIM = graph("", f'y = R.call_packed("test.made", sinfo_args={F32})  # <--', "return y", ret=F32)


def test_R21_example_a_claim_is_no_proof():
    """A packed function that gives seven elements for four is found out."""
    with packed(made=lambda: zeros(7)):
        fails("RUN0404", CLAIM)


@pytest.mark.parametrize("rows", range(6))
def test_R21_property_only_what_is_annotated_is_returned(rows: int):
    """A result comes out only where it is what is annotated."""
    text = graph("x: R.Tensor(ndim=1)", "return x", ret="R.Tensor((4,))")
    if rows == 4:
        assert both(text, zeros(rows)).shape == (4,)
    else:
        fails("RUN0404", text, zeros(rows))


def test_R21_negative_dtype_and_kind():
    """A result of another dtype or kind is refused."""
    with packed(made=lambda: zeros(4, dtype="int32")):
        fails("RUN0402", CLAIM)
    with packed(made=lambda: "text"):
        fails("RUN0401", CLAIM)


def test_R22_claims_are_checked():
    """What a packed function returns is checked against what its call claims."""
    text = graph("", 'y = R.call_packed("test.f", sinfo_args=R.Shape([2]))  # <--', "return ()")
    with packed(f=lambda: loomir.Shape([2])):
        assert both(text) == ()
    with packed(f=lambda: loomir.Shape([3])):
        fails("RUN0404", text)


# -- R24: names after branches ----------------------------------------------------------------------
REBOUND = ("if c:", "    x = x + x", "else:", "    x = x * x", "return x")
CHOICE = f'c: R.Tensor((), "bool"), {X}'


@pytest.mark.parametrize("taken", [True, False])
def test_R24_example_a_name_that_both_cases_bind(taken: bool):
    """After a branch the name that both cases bind last is the value of the branch."""
    found = both(graph(CHOICE, *REBOUND), np.array(taken), COUNT)
    assert found.tolist() == ([0, 2, 4, 6] if taken else [0, 1, 4, 9])


@pytest.mark.parametrize(("depth", "taken"), [(d, t) for d in range(4) for t in (True, False)])
def test_R24_property_bindings_within_end(depth: int, taken: bool):
    """Whatever else a case binds, the names around it mean what they meant."""
    inner = [f"    x = x + {i}" for i in range(depth)]
    lines = ("if c:", *inner, "    y = x", "else:", *inner[::-1], "    y = x", "return (x, y)")
    x, y = both(graph(CHOICE, *lines), np.array(taken), COUNT)
    assert x.tolist() == [0, 1, 2, 3]
    assert y.tolist() == (COUNT + sum(range(depth))).tolist()


def test_R24_negative_other_names_are_local():
    """A name that only one case binds is not known after it."""
    lines = ("if c:", "    z = x", "    y = x", "else:", "    y = x", "return z  # <--")
    refused("SCR0003", graph(CHOICE, *lines))
    refused("SCR0032", graph(CHOICE, "if c:  # <--", "    y = x", "else:", "    z = x", "return x"))


def test_R25_operators_and_packed_functions_are_callees():
    """Operators and packed functions are leaves where they are called; a function is a value."""
    lines = (
        "@R.function",
        "def f(a: R.Object):",
        "    return a",
        'y = R.call_packed("g", sinfo_args=R.Object)',
        "return f(y)",
    )
    made = read(graph("", *lines))
    assert normal_form_violations(made) == ()
    assert isinstance(bindings(made)[1].value.op, ExternFunc)


def test_R26_bodies_are_leaves():
    """What a sequence gives is a leaf."""
    x = Var("x", tensor(2))
    given = Function((x,), SeqExpr((), Call(ExternFunc("f"), (x,))), is_pure=False)
    assert "RLX0313" in {d.code for d in normal_form_violations(given)}
    assert isinstance(normalize(given).body.body, Var)


def test_R27_what_is_erased():
    """Shapes come back where nothing changes; device and purity stay; values are dropped."""

    def erase(info: object) -> object:
        return erase_to_well_defined(info, frozenset(), frozenset())

    assert erase(shape(2)).values is not None
    assert erase(tensor(n, vdevice=V0)).vdevice is V0
    assert not erase(func(tensor(n), ret=tensor(m), purity=False)).purity
    assert erase(prim("int64", n)).value is None


def test_R29_an_unknown_rank_may_fit():
    """A shape of unknown rank possibly fits one of a known rank."""
    assert check_compatibility(rank(), rank(2)) is MAYBE


def test_R30_any_packed_function_may_be_the_least_known():
    """A packed function fits where nothing is derived, however it derives itself."""
    assert is_subtype(opaque(len), opaque(EMPTY_DERIVE)) is YES
    assert is_subtype(opaque(len), opaque(DEFAULT_DERIVE)) is NO


def test_R31_packed_functions_have_effects():
    """Calls of packed functions are impure, and keep their order."""
    seen: list[int] = []
    call = 'R.call_packed("test.note", R.prim_value({}), sinfo_args=R.Object)'
    with packed(note=lambda i: seen.append(int(i))):
        both(graph("", *[f"a{i} = {call.format(i)}" for i in (3, 1, 2)], "return ()"))
    assert seen == [3, 1, 2] * 2
    refused("RLX0212", graph("", f"y = {call.format(1)}  # <--", "return ()", pure=True))


def test_R32_parts_of_checks_have_names():
    """A check is made of variable, value and structural information, by place or by name."""
    x, y, info = Var("x", OBJECT), Var("y"), tensor(2)
    equal(MatchCast(y, x, info), MatchCast(struct_info=info, value=x, var=y))


@pytest.mark.parametrize("args", ["(x,)", "t", "x"])
def test_R33_arguments_of_kernels(args: str):
    """A call of a kernel takes a tuple, a variable that holds one, or one tensor."""
    info = '[R.Tensor((4,), "float32"), R.Tensor((4, 2), "float32")]'
    text = module(BOTH, graph(X, "t = (x,)", f"return R.call_tir(cls.pair, {args}, {info})"))
    assert both(text, COUNT)[0].tolist() == [0, 1, 4, 9]


def test_R34_kernels_write_their_results_only():
    """A kernel that writes to an argument is not called as a pure one."""
    refused(
        "RLX0235",
        module(SPLIT, graph(X, f"y = R.call_tir(cls.split, (x,), {F32})  # <--", "return y")),
    )


# -- R35: constants never change --------------------------------------------------------------------
GROWN = module(
    "@T.prim_func\ndef grow(x: T.Buffer((4,), 'float32')):\n    for i in range(4):\n        x[i] = x[i] + T.float32(1)\n",
    graph(
        "",
        "c = R.const([1, 1, 1, 1], 'float32')",
        f"y = R.call_tir_inplace(cls.grow, (c,), [0], {F32})",
        "return y",
    ),
)


def test_R35_example_in_place_on_a_constant():
    """What is written over a constant is a copy: every call gives the same."""
    for run in ways(GROWN):
        assert [run().tolist() for _ in range(3)] == [[2, 2, 2, 2]] * 3


@pytest.mark.parametrize("dtype", ["int8", "float32", "bool", "bfloat16"])
def test_R35_property_results_are_the_callers_own(dtype: str):
    """Each value of a constant can be written to without changing another."""
    for run in ways(graph("", f"c = R.const([1, 0], '{dtype}')", "return c")):
        first = run()
        first[:] = 1
        assert run().astype("float32").tolist() == [1, 0]


def test_R35_negative_constants_are_not_written():
    """A function that writes to a constant it was given fails."""
    with pytest.raises(ValueError, match="read-only"):
        Constant(np.ones(2)).data.data[0] = 3
    text = module(
        "@T.prim_func\ndef grow(x: T.Buffer((4,), 'float32')):\n    x[0] = T.float32(1)\n",
        graph(
            "",
            "c = R.const([1, 1, 1, 1], 'float32')",
            "u = R.Call(cls.grow, [c])  # <--",
            "return c",
        ),
    )
    fails("RUN0413", text)


def test_R36_results_put_bodies_on_devices():
    """The device of a result is that of the value that is returned."""
    text = module(
        LISTED, graph(X, "y = R.exp(x)", "return y", ret='R.Tensor((4,), "float32", "llvm:1")')
    )
    made = realize_vdevice(read(text))["main"]
    assert bindings(made)[0].var.struct_info.vdevice.dev_id == 1


def test_R37_moves_do_not_put_arguments_elsewhere():
    """The argument of a move stays where it is."""
    text = module(
        LISTED,
        graph(
            'x: R.Tensor((4,), "float32", "llvm:0")', 'y = R.to_vdevice(x, "llvm:1")', "return y"
        ),
    )
    made = realize_vdevice(read(text))["main"]
    assert made.params[0].struct_info.vdevice.dev_id == 0
    with pytest.raises(CompileError):
        update_struct_info(tensor(4, vdevice=V0), V1)


def test_R38_something_is_called_from_outside():
    """A module without a function to call is a warning, and no program is made of it."""
    private = "@R.function(private=True)\ndef f(x: R.Object):\n    return x\n"
    assert warnings(module(private)) == ["RLX0112"]
    assert mistakes(module(private)) == []
    refused("RLX0112", module(private))


def test_R39_captured_variables_need_no_place():
    """A function in a function may use shape variables of the one around in its signature."""
    lines = (
        "@R.function",
        "def f(a: R.Tensor((n * 2,))) -> R.Tensor((n * 2,)):",
        "    return a",
        "return f(y)",
    )
    text = graph("x: R.Tensor((n,)), y: R.Tensor(ndim=1)", *lines)
    assert both(text, zeros(2), zeros(4)).shape == (4,)
    fails("RUN0404", text, zeros(2), zeros(3))


# -- R40: sizes are integers that do not wrap -------------------------------------------------------
def sized(expr: str) -> str:
    return graph('k: R.Prim(value="n")', "n = T.int64()", f"return R.shape([{expr}])")


def test_R40_example_sizes_that_are_too_large():
    """A tensor of 2**62 rows of 4 is refused before anything is allocated."""
    text = graph(
        'k: R.Prim(value="n")', "n = T.int64()", "y = R.zeros((n, 4), 'float32')", "return y"
    )
    for value in (2**62, -1):
        for run in ways(text):
            with pytest.raises(ValueError, match="RUN04"):
                run(value)


SIZES = {
    "n + n": lambda n: n + n,
    "n * n": lambda n: n * n,
    "n - 7": lambda n: n - 7,
    "n // 3": lambda n: n // 3,
    "n % 5": lambda n: n % 5,
    "T.max(n, 2) * 3": lambda n: max(n, 2) * 3,
}


@pytest.mark.parametrize("expr", SIZES)
@pytest.mark.parametrize("value", [0, 5, -3, 2**31, 2**62, -(2**63)])
def test_R40_property_sizes_are_those_of_the_integers(expr: str, value: int):
    """An extent is the integer that arithmetic gives, or an error where int64 does not hold it."""
    wanted = SIZES[expr](value)
    if -(2**63) <= wanted < 2**63:
        assert both(sized(expr), value) == (wanted,)
    else:
        fails("RUN0410", sized(expr), value)


def test_R40_negative_division_by_zero():
    """A size that is divided by zero is an error."""
    fails("RUN0201", sized("6 // n"), 0)
    fails("RUN0201", sized("6 % n"), 0)


def test_R41_bfloat16_is_a_dtype():
    """Tensors may hold bfloat16."""
    x = np.array([1, 2], ml_dtypes.bfloat16)
    assert both(graph('x: R.Tensor((2,), "bfloat16")', "return x + x"), x).tolist() == [2, 4]


@pytest.mark.parametrize("word", ["out_ty", "out_sinfo", "sinfo_args", "ty_args"])
def test_R42_results_are_described_by_any_name(word: str):
    """All names of what describes a result are read; one is printed."""
    made = read(module(ADD, graph(X, f"y = R.call_tir(cls.add, (x, x), {word}={F32})", "return y")))
    assert "out_ty=R.Tensor" in str(made)


@pytest.mark.parametrize("name", ["RuntimeDepShape", "DynTensorType"])
def test_R43_old_names_are_not_read(name: str):
    """Names of earlier versions are unknown."""
    refused_name = f"@R.function\ndef main(\n    x: R.{name},  # <--\n):\n    return x\n"
    refused("SCR0004", refused_name)


def test_R44_failures_outside_of_dataflow_blocks_stay():
    """Outside of dataflow blocks what fails is neither removed nor moved."""
    note = 'R.call_packed("test.note", sinfo_args=R.Object)'
    lines = (f"a = {note}", "y = R.match_cast(x, R.Shape)", f"b = {note}", "return ()")
    seen: list[int] = []
    with packed(note=lambda: seen.append(1)):
        fails("RUN0401", graph("x: R.Object", *lines), "text")
    assert seen == [1, 1]


# -- between documents ------------------------------------------------------------------------------
def test_X1_names_of_both_documents():
    """Structural information has the names of both documents."""
    for line in ("R.func_ret_ty", "R.func_ret_struct_info"):
        assert getattr(loomir.script.relax, line.removeprefix("R."))


@pytest.mark.parametrize("word", ["block", "sblock"])
def test_X2_blocks_have_two_names(word: str):
    """A block is written T.block or T.sblock, and printed T.sblock."""
    text = ADD.replace(
        "        z[i] = x[i] + y[i]", f'        with T.{word}("b"):\n            z[i] = x[i] + y[i]'
    )
    mod = read(module(text, graph(X, f"return R.call_tir(cls.add, (x, x), {F32})")))
    assert "T.sblock" in str(mod)
    assert both(mod, COUNT).tolist() == [0, 2, 4, 6]


def test_X3_functions_return_their_last_statement():
    """The return of a function of Relax is its last statement."""
    refused("SCR0030", graph(X, "return x", "return x  # <--"))


def test_X4_branches_bind_a_name():
    """Cases of a branch are scopes; the name that both bind last is the branch's value."""
    assert both(graph(CHOICE, *REBOUND), np.array(True), ONES).tolist() == [2, 2, 2, 2]


def test_X5_void_and_bfloat16():
    """Void has no bits, bfloat16 is a dtype, in both dialects."""
    assert TensorStructInfo(None, "bfloat16").dtype.bits == 16
    assert VOID.bits == 0


def test_X6_extents_are_int64():
    """Extents of kernels of int32 meet extents of int64, which they are widened to."""
    kernel = BOTH.replace("n = T.int64()", "n = T.int32()").replace("range(n)", "range(n)")
    info = '[R.Tensor((n,), "float32"), R.Tensor((n, 2), "float32")]'
    text = module(
        kernel, graph('x: R.Tensor((n,), "float32")', f"return R.call_tir(cls.pair, (x,), {info})")
    )
    assert both(text, COUNT)[0].tolist() == [0, 1, 4, 9]


def test_X7_choices_evaluate_both_values():
    """A Select in an extent evaluates both of its values."""
    text = sized("T.Select(n == 0, 1, 6 // n)")
    assert both(text, 2) == (3,)
    fails("RUN0201", text, 0)


def test_X10_packed_integers_have_two_names():
    """The integers of a kernel are tir_vars or packed_ints."""
    fill = """
        @T.prim_func
        def fill(k: T.int64, y: T.Buffer((4,), "float32")):
            for i in range(4):
                y[i] = T.Cast("float32", k)
    """
    for word in ("tir_vars", "packed_ints"):
        text = module(fill, graph("", f"return R.call_tir(cls.fill, (), {F32}, {word}=[5])"))
        assert both(text).tolist() == [5, 5, 5, 5]


def test_X8_reductions_begin_with_their_first_step():
    """A reduction with ! in Tensor Comprehensions is a block with an init."""
    functions = define("def f(float(N, M) A) -> (s) { s(i) +=! A(i, k) }").to_tir().functions
    (block,) = [
        b
        for f in functions.values()
        for b in pre_order(f.body)
        if isinstance(b, Block) and b.name_hint == "s"
    ]
    assert block.init is not None


def test_X9_integers_are_divided_downward():
    """The / of Tensor Comprehensions on integers is floor division."""
    made = define("def f(int32(N) A) -> (B) { B(i) = A(i) / 2 }")
    assert made.f(np.array([-3, 3], np.int32)).tolist() == [-2, 1]
