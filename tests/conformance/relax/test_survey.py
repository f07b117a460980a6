"""What holds of names, calls and effects: scopes, the survey of expressions, purity, extents."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import loomir
from loomir.ir.module import GlobalVar
from loomir.relax import (
    Call,
    DataflowVar,
    ExternFunc,
    FuncStructInfo,
    Function,
    If,
    MatchCast,
    ShapeExpr,
    Tuple,
    Var,
)
from loomir.relax.struct_info import OBJECT
from loomir.support.diagnostics import CompileError
from tests.clause import clauses
from tests.conformance.graphs import (
    COUNT,
    F32,
    NO,
    ONES,
    YES,
    bindings,
    both,
    fails,
    graph,
    mistakes,
    module,
    packed,
    read,
    refused,
    zeros,
)
from tests.conformance.relax.infos import k, tensor
from tests.conformance.relax.rules import COND, PARAM, X, broken, main
from tests.relax.kernels import ADD
from tests.relax.programs import block, let, neg, op, seq, var


# -- scopes --------------------------------------------------------------------------------------
def test_RX_SCOPE_01_global_functions_are_seen_everywhere():
    """All functions of a module see one another, so they may call one another in turn."""

    def parity(name: str, other: str, at_zero: bool) -> str:
        lines = (
            *("n = T.int64()", "if R.prim_value(n == 0):", f"    r = R.prim_value({at_zero})"),
            *("else:", f"    r = cls.{other}(R.prim_value(n - 1))", "return r"),
        )
        return graph('k: R.Prim(value="n")', *lines, ret='R.Prim("bool")', name=name)

    mod = module(parity("main", "odd", True), parity("odd", "main", False))
    assert [bool(both(mod, i)) for i in range(4)] == [True, False, True, False]


def test_RX_SCOPE_02_parameters_are_seen_throughout():
    """A parameter is in scope in the whole body, in branches and closures too."""
    lines = (
        "if c:",
        "    y = R.exp(x)",
        "else:",
        "    y = x",
        "@R.function",
        "def f():",
        "    return x",
        "return (y, f())",
    )
    assert both(graph(f'c: R.Tensor((), "bool"), {X}', *lines), NO, ONES)[1].tolist() == [
        1,
        1,
        1,
        1,
    ]


def test_RX_SCOPE_03_functions_see_themselves():
    """A variable that is bound to a function is in scope in it, where that is annotated."""
    lines = (
        "@R.function",
        "def f(a: R.Object) -> R.Object:",
        "    b = f(a)",
        "    return b",
        "return x",
    )
    assert mistakes(graph(X, *lines)) == []


@clauses("RX-SURV-18")
def test_RX_SCOPE_04_sequences_are_scopes():
    """What a case of a branch binds ends with it."""
    lines = ("if c:", "    y = x", "    z = y", "else:", "    z = x", "return y  # <--")
    refused("SCR0003", graph(f'c: R.Tensor((), "bool"), {X}', *lines))
    y, z = var("y", 2), var("z", 2)
    choice = If(COND, seq([block(let(y, neg(PARAM)))], y), seq([], PARAM))
    broken(2, main(block(let(z, choice), let(var("w", 2), neg(y))), params=(PARAM, COND)))


def test_RX_SCOPE_05_dataflow_blocks_are_scopes():
    """What a dataflow block binds ends with it, but for its outputs, which are ordinary."""
    lines = (
        "with R.dataflow():",
        "    a = R.exp(x)",
        "    b = a",
        "    R.output(b)",
        "return {}  # <--",
    )
    refused("SCR0003", graph(X, *lines).replace("{}", "a"))
    made = bindings(graph(X, *lines).replace("{}", "b"))
    assert [isinstance(b.var, DataflowVar) for b in made] == [True, False]


def test_RX_SCOPE_06_names_may_come_again_variables_may_not():
    """A name that is bound again is another variable."""
    first, second = bindings(graph(X, "y = R.exp(x)", "y = R.exp(y)", "return y"))
    assert first.var is not second.var
    assert second.value.args == (first.var,)


@pytest.mark.parametrize("taken", [YES, NO])
def test_RX_SCOPE_07_names_within_hide_names_around(taken: Any):
    """In an inner scope a name may hide one around it, which is seen again after it."""
    lines = ("if c:", "    x = x + x", "    y = x", "else:", "    y = x", "return (x, y)")
    found = both(graph(f'c: R.Tensor((), "bool"), {X}', *lines), taken, COUNT)
    assert found[0].tolist() == [0, 1, 2, 3]
    assert found[1].tolist() == ([0, 2, 4, 6] if taken else [0, 1, 2, 3])


@clauses("RX-SURV-24")
def test_RX_MOD_01_any_symbol_may_be_called():
    """Any function that has a symbol may be where a program starts."""
    mod = module(graph(X, "return x + x"), graph(X, "return x * x", name="other"))
    assert both(mod, COUNT).tolist() == [0, 2, 4, 6]
    assert both(mod, COUNT, name="other").tolist() == [0, 1, 4, 9]


# -- the survey ----------------------------------------------------------------------------------
def test_RX_SURV_01_variables_are_bound_once():
    """A variable of the program is bound in one place."""
    made = read(graph(X, "y = x", "y = R.exp(y)", "return y"))
    assert len({id(b.var) for b in bindings(made)}) == 2


def test_RX_SURV_02_global_variables_are_of_the_module():
    """A global variable is bound by the module: one that is not is refused."""
    broken(2, main(block(let(var("y", 2), Call(GlobalVar("f"), (PARAM,))))))
    mod = read(module(graph(X, "return x"), ADD))
    assert [v.name_hint for v in mod.functions] == ["main", "add"]


def test_RX_SURV_04_shape_variables_are_of_extents():
    """A shape variable stands in extents and scalars only, and ends with its scope."""
    text = graph("x: R.Tensor((n,))", "return R.shape([n, n + 1])")
    assert both(text, zeros(3)) == (3, 4)
    scalar = "lone: R.Tensor((), 'int64')"
    with pytest.raises(CompileError):
        read(graph(scalar, "return R.shape([lone])"))
    lines = ("if c:", "    y = R.match_cast(x, R.Tensor((k,)))", "    z = R.shape([k])", "else:")
    after = ("    z = R.shape([1])", "return R.shape([k])  # <--")
    refused("RLX0105", graph('c: R.Tensor((), "bool"), x: R.Object', *lines, *after))


def test_RX_SURV_05_packed_functions_are_looked_up():
    """A packed function is the one that is registered under its symbol."""
    text = graph("", 'return R.call_packed("test.seven", sinfo_args=R.Prim("int64"))')
    with packed(seven=lambda: 7):
        assert both(text) == 7


def test_RX_SURV_06_scalars_cannot_be_written():
    """A scalar is immutable; a tensor of rank 0 can be written to."""
    scalar, point = both(graph("", 'return (R.prim_value(3), R.const(3, "int64"))'))
    assert not scalar.flags.writeable
    point[()] = 4
    assert point == 4


@pytest.mark.parametrize("callee", ["operator", "packed", "global", "variable", "literal"])
def test_RX_SURV_07_anything_may_be_called(callee: str):
    """An operator, a packed function or any other expression is called."""
    x, y = var("x", 2), var("y", 2)
    f = Var("f", FuncStructInfo((tensor(2),), tensor(2)))
    op_ = {
        "operator": op("negative"),
        "packed": ExternFunc("f"),
        "global": GlobalVar("main"),
        "variable": f,
        "literal": Function((y,), seq([], y), tensor(2)),
    }[callee]
    args = (x, f) if callee == "global" else (x,)
    made = Function((x, f), Call(op_, args), OBJECT, False, {"global_symbol": "main"})
    assert loomir.verify(made) == ()


def test_RX_SURV_08_conditions_are_bools():
    """A condition is a bool scalar."""
    lines = ("if c:  # <--", "    y = c", "else:", "    y = c", "return y")
    refused("RLX0205", graph('c: R.Tensor((), "int64")', *lines))
    assert both(graph('c: R.Tensor((), "bool")', *lines), YES)


def test_RX_SURV_09_fields_are_there():
    """A field is one that the tuple has."""
    assert both(graph("t: R.Tuple(R.Object, R.Object)", "return t[1]"), (1, "b")) == "b"
    refused("SCR0008", graph("t: R.Tuple(R.Object)", "return t[1]  # <--"))


def test_RX_SURV_10_dataflow_blocks_are_straight():
    """A dataflow block has no branch, no recursion and no effect."""
    lines = (
        "with R.dataflow():",
        "    y = R.exp(x)",
        "    z = y + y",
        "    R.output(z)",
        "return z",
    )
    assert mistakes(graph(X, *lines, pure=True)) == []


def test_RX_SURV_11_values_before_variables():
    """The value is evaluated, then the variable is bound: it may have the name of one in it."""
    assert both(graph(X, "x = x + x", "x = x + x", "return x"), COUNT).tolist() == [0, 4, 8, 12]


def test_RX_SURV_13_variables_are_seen_to_the_end():
    """A variable is in scope in later bindings, later blocks and the body."""
    lines = (
        "a = x + x",
        "b = a + a",
        "with R.dataflow():",
        "    c = a + b",
        "    R.output(c)",
        "return (a, b, c)",
    )
    assert [v[3] for v in both(graph(X, *lines), COUNT)] == [6, 12, 18]


def test_RX_SURV_14_checks_are_recursive():
    """A check compares all parts of a value."""
    text = graph(
        "x: R.Object", "y = R.match_cast(x, R.Tuple(R.Tuple(R.Shape([2]))))  # <--", "return y"
    )
    assert both(text, ((loomir.Shape([2]),),)) == ((loomir.Shape([2]),),)
    fails("RUN0404", text, ((loomir.Shape([3]),),))


def test_RX_SURV_15_closures_are_checked():
    """A closure is compared by the signature that it was made with."""
    lines = ("@R.function", "def f(a: R.Shape) -> R.Shape:", "    return a", "u: R.Object = f")
    ok = graph(
        "",
        *lines,
        "g = R.match_cast(u, R.Callable((R.Shape,), R.Object))",
        "return g(R.shape([2]))",
    )
    assert both(ok) == (2,)
    fails(
        "RUN0407",
        graph("", *lines, "g = R.match_cast(u, R.Callable((), R.Object))  # <--", "return ()"),
    )


def test_RX_SURV_16_a_lone_new_variable_is_bound():
    """A new shape variable that is an extent takes its value."""
    text = graph("x: R.Object", "y = R.match_cast(x, R.Shape([k, 2]))", "return R.prim_value(k)")
    assert both(text, loomir.Shape([5, 2])) == 5


def test_RX_SURV_17_checks_without_a_variable():
    """A check without a variable checks and binds shape variables, and nothing else."""
    text = graph("x: R.Object", "R.match_cast(x, R.Shape([k, 2]))  # <--", "return R.prim_value(k)")
    (binding,) = [b for b in bindings(text) if isinstance(b, MatchCast)]
    assert binding.var is None
    assert both(text, loomir.Shape([5, 2])) == 5
    fails("RUN0404", text, loomir.Shape([5, 3]))


def test_RX_SURV_18_what_a_sequence_binds_ends():
    """Variables and shape variables of a sequence are out of scope after it."""
    y, z = Var("y", tensor(k)), var("z", 2)
    choice = If(COND, seq([block(MatchCast(y, PARAM, tensor(k)))], PARAM), seq([], PARAM))
    broken(5, main(block(let(z, choice), let(Var("s"), ShapeExpr((k,)))), params=(PARAM, COND)))


def test_RX_SURV_19_closures_capture():
    """A function in a function captures variables and shape variables."""
    lines = (
        "@R.function",
        "def f(a: R.Shape):",
        "    return (a, x, R.shape([n]))",
        "return f(R.shape([1]))",
    )
    a, x, sizes = both(graph('x: R.Tensor((n,), "float32")', *lines), zeros(3))
    assert (a, x.shape, sizes) == ((1,), (3,), (3,))


def test_RX_SURV_20_anonymous_functions_do_not_recur():
    """A function calls itself by the name it is bound to, and has no other."""
    a = var("a", 2)
    inner = Function(
        (a,), seq([], Call(Var("f", FuncStructInfo((tensor(2),), tensor(2))), (a,))), tensor(2)
    )
    broken(2, main(block(let(Var("y"), Tuple((PARAM,))), let(Var("g"), inner))))


@pytest.mark.parametrize("rows", [4, 5])
def test_RX_SURV_21_calls_check_arguments(rows: int):
    """A call checks its arguments as a check does, and binds shape variables."""
    inner = graph("a: R.Tensor((k,)), b: R.Tensor((k,))", "return R.shape([k])", name="inner")
    mod = module(inner, graph("x: R.Tensor(ndim=1), y: R.Tensor(ndim=1)", "return cls.inner(x, y)"))
    if rows == 4:
        assert both(mod, zeros(4), zeros(4)) == (4,)
    else:
        fails("RUN0404", mod, zeros(4), zeros(rows))


def test_RX_SURV_22_results_are_checked():
    """A result is checked against the annotation before the call returns."""
    text = graph("x: R.Tensor(ndim=1)", "return x", ret="R.Tensor((4,))")
    assert both(text, ONES).shape == (4,)
    fails("RUN0404", text, zeros(5))


def test_RX_SURV_23_functions_are_pure():
    """A function is pure where nothing else is said."""
    assert read("@R.function\ndef main(x: R.Object):\n    return x\n").is_pure
    refused(
        "RLX0212", "@R.function\ndef main(x: R.Object):\n    y = R.print(x)  # <--\n    return y\n"
    )


def test_RX_SURV_24_private_functions():
    """A function without a symbol is called from within only."""
    assert read(graph(X, "return x")).attrs["global_symbol"] == "main"
    private = read("@R.function(private=True)\ndef f(x: R.Object):\n    return x\n")
    assert private.attrs == {}


# -- purity --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "call", ["R.print(x)", 'R.call_packed("f", x, sinfo_args=R.Object)', "R.assert_op(c)"]
)
@clauses("RX-PURE-02", "RX-PURE-03")
def test_RX_PURE_01_what_has_effects_is_impure(call: str):
    """What writes, aborts or may do anything is not called in a pure function."""
    refused(
        "RLX0212",
        graph(f'c: R.Tensor((), "bool"), {X}', f"y = {call}  # <--", "return x", pure=True),
    )


def test_RX_PURE_02_effects_are_those_on_what_is_around():
    """To write to what the call itself made is no effect."""
    mod = module(ADD, graph(X, f"return R.call_tir(cls.add, (x, x), {F32})", pure=True))
    assert mistakes(mod) == []


def test_RX_PURE_03_state_from_elsewhere():
    """What reads state from elsewhere is a packed function, which is impure."""
    count = iter(range(10))
    text = graph("", 'a = R.call_packed("test.next", sinfo_args=R.Object)', "return a", pure=False)
    with packed(next=lambda: next(count)):
        first, second = (loomir.interpret(read(text)) for _ in range(2))
    assert (first, second) == (0, 1)
    refused("RLX0212", text.replace("pure=False", "pure=True"))


def test_RX_PURE_04_checks_are_pure():
    """A check may fail, and stands in pure functions and in dataflow blocks."""
    lines = (
        "with R.dataflow():",
        "    y = R.match_cast(x, R.Tensor((4,)))",
        "    R.output(y)",
        "return y",
    )
    text = graph("x: R.Object", *lines, pure=True)
    assert mistakes(text) == []
    fails("RUN0404", text, zeros(5))


def test_RX_PURE_05_pure_calls_may_fail():
    """A packed function that can only fail may be called as a pure one."""

    def fail(x: Any) -> Any:
        raise ValueError("no")

    with packed(fail=fail):
        text = graph(X, f'return R.call_pure_packed("test.fail", x, sinfo_args={F32})', pure=True)
        for run in (
            lambda: loomir.interpret(read(text), ONES),
            lambda: loomir.compile(read(text))["main"](ONES),
        ):
            with pytest.raises(ValueError, match="no"):
                run()


@pytest.mark.parametrize("level", [0, 2])
@clauses("RX-PURE-07", "RX-PURE-08")
def test_RX_PURE_06_unused_failures_may_go(level: int):
    """In a dataflow block a check that nobody needs may go; the value stays the same."""
    lines = (
        "with R.dataflow():",
        "    y = R.match_cast(x, R.Shape)",
        "    z = x",
        "    R.output(z)",
        "return z",
    )
    run = loomir.compile(
        read(graph("x: R.Object", *lines, pure=True)), cache=False, opt_level=level
    )["main"]
    try:
        assert run("text") == "text"
    except loomir.RunError as error:
        assert error.diagnostic.code == "RUN0401"
    assert run(loomir.Shape([1])) == (1,)


LOOP = ("@R.function", "def spin(a: R.Object) -> R.Object:", "    b = spin(a)", "    return b")


def test_RX_PURE_07_endless_calls_may_go():
    """A pure call that never ends may be removed where nobody needs it; else it is an error."""
    text = graph("x: R.Object", *LOOP, "y = spin(x)", "return x", pure=True)
    for run in (
        lambda: loomir.interpret(read(text), "v"),
        lambda: loomir.compile(read(text))["main"]("v"),
    ):
        with contextlib.suppress(RecursionError):
            assert run() == "v"


def test_RX_PURE_08_nothing_diverges_by_itself():
    """A program that ends is never made one that does not, or that fails."""
    text = graph("x: R.Object", *LOOP, "return x", pure=True)
    assert both(text, 3) == 3


# -- extents -------------------------------------------------------------------------------------
def test_RX_DIM_01_parameters_and_checks_bind():
    """Shape variables are bound by parameters and by checks, and by nothing else."""
    text = graph(
        "x: R.Tensor((n,)), o: R.Object",
        "y = R.match_cast(o, R.Tensor((k,)))",
        "return R.shape([n, k])",
    )
    assert both(text, zeros(2), zeros(3)) == (2, 3)
    refused("SCR0003", graph("x: R.Tensor", "y: R.Tensor((k,)) = x  # <--", "return y"))


def test_RX_DIM_02_shape_variables_of_signatures():
    """A shape variable of the signature is in scope in the function and in what it returns."""
    text = graph(
        "x: R.Tensor((n,))", "return R.zeros((n * 2,), 'int8')", ret='R.Tensor((n * 2,), "int8")'
    )
    assert both(text, zeros(3)).shape == (6,)


def test_RX_DIM_03_shape_variables_of_checks():
    """A shape variable of a check ends with its sequence."""
    lines = (
        "if c:",
        "    z = R.match_cast(x, R.Tensor((k,)))",
        "else:",
        "    z = R.match_cast(x, R.Tensor(ndim=1))",
        "return R.shape([k])  # <--",
    )
    refused("RLX0105", graph('c: R.Tensor((), "bool"), x: R.Object', *lines))


def test_RX_DIM_04_shape_variables_are_bound_once():
    """A shape variable that is bound means the same value from there on."""
    text = graph(
        "x: R.Tensor((n,)), o: R.Object", "y = R.match_cast(o, R.Tensor((n,)))  # <--", "return y"
    )
    assert both(text, zeros(2), zeros(2)).shape == (2,)
    fails("RUN0404", text, zeros(2), zeros(3))


def test_RX_DIM_05_unbound_shape_variables():
    """A shape variable that is not bound is an error before the program runs."""
    refused("SCR0003", graph("x: R.Tensor", "return R.shape([k + 1])  # <--"))
    refused("RLX0106", graph("x: R.Tensor((k + 1,)),  # <--\n", "return x"))


def test_RX_DIM_06_closures_capture_shape_variables():
    """A closure holds the values that shape variables had where it was made."""
    lines = ("@R.function", "def f(a: R.Tensor((n,))):", "    return R.shape([n])", "return f(y)")
    text = graph("x: R.Tensor((n,)), y: R.Tensor(ndim=1)", *lines)
    assert both(text, zeros(3), zeros(3)) == (3,)
    fails("RUN0404", text, zeros(3), zeros(4))


@pytest.mark.parametrize(
    ("expr", "value", "wanted"),
    [
        ("n // 2 * 3", 7, 9),
        ("n % 4", -1, 3),
        ("T.min(n, 3)", 5, 3),
        ("n * n", 2**32, "RUN0410"),
        ("6 // n", 0, "RUN0201"),
    ],
)
def test_RX_DIM_07_arithmetic_is_that_of_tir(expr: str, value: int, wanted: Any):
    """Extents are computed as in TIR, and checked, as decided."""
    text = graph('k: R.Prim(value="n")', "n = T.int64()", f"return R.prim_value({expr})")
    if isinstance(wanted, int):
        assert both(text, value) == wanted
    else:
        fails(wanted, text, value)
