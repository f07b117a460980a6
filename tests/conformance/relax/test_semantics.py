"""What programs do when they run: entry, values, expressions, calls, sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.support.diagnostics import RunError
from loomir.support.dtype import DataType
from tests.clause import clauses
from tests.conformance.graphs import (
    COUNT,
    F32,
    NO,
    ONES,
    Trace,
    both,
    copied,
    f32,
    fails,
    graph,
    module,
    packed,
    read,
    refused,
    ways,
)
from tests.relax.kernels import ADD, DOUBLE

X = f"x: {F32}"


# -- entry ---------------------------------------------------------------------------------------
def test_RX_SEM_01_globals_are_bound_first():
    """A function may call one that stands after it."""
    later = graph(X, "return x + x", name="later")
    mod = module(graph(X, "y = cls.later(x)", "return y"), later)
    assert both(mod, COUNT).tolist() == [0, 2, 4, 6]


def test_RX_SEM_02_only_functions_with_a_symbol_are_called_from_outside():
    """A private function is called within the module only."""
    private = graph(X, "return x + x", name="helper").replace("pure=False", "private=True")
    mod = module(graph(X, "return cls.helper(x)", pure=True), private)
    assert both(mod, ONES).tolist() == [2, 2, 2, 2]
    with pytest.raises(KeyError):
        loomir.interpret(read(mod), "helper", ONES)
    with pytest.raises(KeyError):
        loomir.compile(read(mod))["helper"]


def test_RX_SEM_03_globals_are_immutable():
    """The name of a function is bound once, and running leaves the function as it is."""
    mod = module(graph(X, "return x"), graph(X, "return x + x"))  # <-- main twice
    with pytest.raises(loomir.CompileError):
        read(mod)
    once = read(module(graph(X, "return x + x")))
    before = once["main"]
    for run in ways(once):
        run(ONES)
    assert once["main"] is before


def test_RX_SEM_04_the_host_is_the_only_device():
    """Devices of the host run; one that is not here is named."""
    here = 'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0)]})'
    text = graph('x: R.Tensor((4,), "float32", "llvm:0")', "return R.to_vdevice(x, 'llvm:0')")
    assert both(module(here, text), ONES).tolist() == [1, 1, 1, 1]
    assert both(graph(X, "return x + x"), ONES).tolist() == [2, 2, 2, 2]
    gone = module(here.replace("llvm", "cuda"), text.replace("llvm", "cuda"))
    with pytest.raises(loomir.LoomirError, match="cuda"):
        loomir.compile(read(gone))["main"](ONES)


# -- expressions ---------------------------------------------------------------------------------
def test_RX_SEM_05_results_are_references():
    """What is bound, put in a tuple and returned is the argument itself."""
    for run in ways(graph(X, "y = x", "t = (y, x)", "return t[0]")):
        x = ONES.copy()
        assert np.shares_memory(run(x), x)


def test_RX_SEM_06_a_constant_is_a_new_tensor():
    """Who writes to the value of a constant changes no other value of it."""
    for run in ways(graph("", "c = R.const([1, 2], 'float32')", "return c")):
        first, second = run(), run()
        first += 1
        assert first.tolist() == [2, 3]
        assert second.tolist() == [1, 2]
        assert run().tolist() == [1, 2]


def test_RX_SEM_07_a_variable_is_its_value():
    """A variable of any kind evaluates to what is stored in it."""
    lines = ("with R.dataflow():", "    d = x + x", "    e = d", "    R.output(e)", "return e")
    assert both(graph(X, *lines), COUNT).tolist() == [0, 2, 4, 6]


def test_RX_SEM_08_fields_of_a_tuple_are_evaluated_in_order():
    """The fields of a tuple are evaluated from left to right."""
    note = 'R.call_packed("test.note", R.prim_value({}), sinfo_args=R.Object)'
    fields = ", ".join(note.format(i) for i in (3, 1, 2))
    assert Trace().of(graph("", f"return ({fields})")) == [3, 1, 2]


@pytest.mark.parametrize(("expr", "value"), [("n", 3), ("n * n - 1", 8), ("T.max(n, 4)", 4)])
def test_RX_SEM_09_a_scalar_is_computed(expr: str, value: int):
    """A scalar evaluates its expression; it is an immutable number."""
    text = graph('x: R.Tensor(("n",), "int8")', "n = T.int64()", f"return R.prim_value({expr})")
    found = both(text, np.zeros(3, "int8"))
    assert (type(found), found) == (np.int64, value)


def test_RX_SEM_10_strings_and_dtypes_are_immutable_values():
    """A string and a dtype evaluate to themselves."""
    found = both(graph("", "return (R.str('a'), R.dtype('int8'))"))
    assert found == ("a", DataType("int8"))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_RX_SEM_11_fields_are_counted_from_zero(index: int):
    """Item i of a tuple is its field i."""
    text = graph("t: R.Tuple(R.Object, R.Object, R.Object)", f"return t[{index}]")
    assert both(text, ("a", "b", "c")) == "abc"[index]


def test_RX_SEM_12_extents_are_evaluated_in_order():
    """The extents of a shape are evaluated from left to right: the first mistake is told."""
    text = graph("k: R.Prim(value='n')", "n = T.int64()", "return R.shape([n, 6 // n, n - 9])")
    assert both(text, 2) == loomir.Shape([2, 3, -7])
    text = graph("k: R.Prim(value='n')", "n = T.int64()", "return R.shape([6 // n, n * {}])")
    fails("RUN0201", text.replace("{}", str(2**62)), 0)


CLOSURE = (
    "@R.function(pure=False)",
    f"def inner() -> {F32}:",
    "    return x",
)


def test_RX_SEM_13_closures_capture_by_reference():
    """A write to a captured tensor after the closure was made is seen by its call."""
    lines = (*CLOSURE, 'R.call_packed("test.fill", x)', "y = inner()", "return y")
    with packed(fill=lambda x: x.fill(7)):
        assert both(graph(X, *lines), ONES).tolist() == [7, 7, 7, 7]
    flow = ("with R.dataflow():", "    d = x", "    e = x", "    R.output(e)")
    late = ("@R.function", "def inner():", "    return d  # <--", "return inner()")
    refused("SCR0003", graph(X, *flow, *late))


COUNTDOWN = (
    "@R.function(pure=False)",
    "def down(k: R.Prim(value='n'), acc: R.Object) -> R.Object:",
    "    n = T.int64()",
    "    if R.prim_value(n > 0):",
    "        r = down(R.prim_value(n - 1), (acc,))",
    "    else:",
    "        r = acc",
    "    return r",
)


def test_RX_SEM_14_a_local_function_calls_itself():
    """The variable that a function is bound to is captured by the function."""
    text = graph("k: R.Prim('int64')", *COUNTDOWN, "return down(k, R.str('a'))")
    assert both(text, 3) == ((("a",),),)


@pytest.mark.parametrize("taken", [True, False])
def test_RX_SEM_15_one_branch_is_evaluated(taken: bool):
    """The condition is evaluated, then the branch that it chooses and no other."""
    note = 'R.call_packed("test.note", R.prim_value({}), c, sinfo_args=R.Tensor((), "bool"))'
    lines = (f"b = {note.format(0)}", "if b:", f"    y = {note.format(1)}", "else:")
    text = graph("c: R.Tensor((), 'bool')", *lines, f"    y = {note.format(2)}", "return y")
    assert Trace().of(text, np.array(taken)) == [0, 1 if taken else 2]


def test_RX_SEM_16_an_unknown_symbol_is_an_error():
    """A packed function that nobody registered cannot be evaluated."""
    text = graph("", "return R.call_packed('test.nobody', sinfo_args=R.Object)")
    for run in (lambda: loomir.interpret(read(text)), loomir.compile(read(text))["main"]):
        with pytest.raises(KeyError, match=r"test\.nobody") as caught:
            run()
        assert isinstance(caught.value, RunError)
        assert caught.value.diagnostic.code == "RUN0304"


def test_RX_SEM_17_kernels_are_found_by_their_symbols():
    """A kernel with a global symbol is called as a packed function of that name."""
    call = "R.call_packed('add', x, x, y, sinfo_args=R.Tuple())"
    mod = module(ADD, graph(f"{X}, y: {F32}", f"u = {call}", "return y"))
    assert both(mod, COUNT, ONES).tolist() == [0, 2, 4, 6]


# -- calls ---------------------------------------------------------------------------------------
def test_RX_SEM_18_arguments_of_operators_are_evaluated_in_order():
    """The arguments of an operator are evaluated from left to right."""
    note = 'R.call_packed("test.note", R.prim_value({}), x, sinfo_args=' + F32 + ")"
    text = graph(X, f"return R.add({note.format(2)}, {note.format(1)})")
    assert Trace().of(text, ONES) == [2, 1]


def test_RX_SEM_19_operators_may_write_to_arguments_and_give_them_back():
    """An operator in place mutates its argument, and its result is that argument."""
    call = f"R.call_tir_inplace(cls.double, (x,), [0], {F32})"
    for run in ways(module(DOUBLE, graph(X, f"y = {call}", "return y"))):
        x = COUNT.copy()
        assert np.shares_memory(run(x), x)
        assert x.tolist() == [0, 2, 4, 6]


def test_RX_SEM_20_logical_operators_are_of_tensors():
    """Both arguments of R.logical_and are evaluated: it is not an operator of control."""
    note = 'R.call_packed("test.note", R.prim_value({}), c, sinfo_args=R.Tensor((), "bool"))'
    text = graph(
        "c: R.Tensor((), 'bool')",
        f"return R.logical_and({note.format(1)}, {note.format(2)})",
    )
    assert Trace().of(text, NO) == [1, 2]


def test_RX_SEM_21_the_callee_is_evaluated_first():
    """The callee is evaluated, then the arguments in order, then the body in a new scope."""
    note = 'R.call_packed("test.note", R.prim_value({}), {}, sinfo_args={})'
    info = f"R.Callable(({F32},), {F32}, False)"
    lines = (
        "@R.function(pure=False)",
        f"def inner(a: {F32}) -> {F32}:",
        f"    x = {note.format(9, 'a', F32)}",
        "    return x",
        f"f = {note.format(1, 'inner', info)}",
        f"y = f({note.format(2, 'x', F32)})",
        "return (x, y)",
    )
    assert Trace().of(graph(X, *lines), ONES) == [1, 2, 9]


def test_RX_SEM_22_a_packed_function_is_just_called():
    """A packed function gets the values, and what it returns is the value of the call."""
    with packed(twice=lambda x: (x, x)):
        for run in ways(graph(X, "return R.call_packed('test.twice', x, sinfo_args=R.Object)")):
            x = ONES.copy()
            first, second = run(x)
            assert np.shares_memory(first, x)
            assert np.shares_memory(second, x)


def test_RX_SEM_23_a_kernel_is_called_with_its_arguments():
    """A direct call of a kernel passes the arguments themselves, which it may write."""
    mod = module(DOUBLE, graph(X, "u = R.Call(cls.double, [x])", "return (x, u)"))
    value, unit = both(mod, COUNT)
    assert (value.tolist(), unit) == ([0, 2, 4, 6], ())


# -- sequences -----------------------------------------------------------------------------------
def test_RX_SEM_24_bindings_are_evaluated_in_order():
    """Blocks and bindings are evaluated in order, then the body; names end with the sequence."""
    note = 'R.call_pure_packed("test.note", R.prim_value({}), x, sinfo_args=' + F32 + ")"
    lines = (
        f"a = {note.format(1)}",
        "with R.dataflow():",
        f"    b = {note.format(2)} + a",
        "    c = b",
        "    R.output(c)",
        f"d = {note.format(3)} + c",
        f"return {note.format(4)} + d",
    )
    assert [n for n in Trace().of(graph(X, *lines), ONES) if n in (1, 2, 3, 4)] == [1, 2, 3, 4]
    refused("SCR0003", graph(X, *lines[:5], "return b  # <--"))


@clauses("RX-SEM-26")
@pytest.mark.parametrize("value", ["x", f"R.match_cast(x, {F32})"])
def test_RX_SEM_25_bindings_alias(value: str):
    """A binding gives another name to the same value, with or without a check."""
    for run in ways(graph("x: R.Object", f"y = {value}", "return y")):
        x = ONES.copy()
        assert np.shares_memory(run(x), x)


def test_RX_SEM_26_a_check_copies_nothing():
    """A write through the name that a check binds is a write to the value."""
    lines = (f"y = R.match_cast(x, {F32})", 'R.call_packed("test.fill", y)', "return x")
    with packed(fill=lambda x: x.fill(7)):
        assert both(graph("x: R.Object", *lines), ONES).tolist() == [7, 7, 7, 7]


# -- what compilers may do -----------------------------------------------------------------------
@pytest.mark.parametrize("level", [0, 1, 2])
def test_RX_SEM_27_optimisations_keep_value_and_effects(level: int):
    """At every level the value and the order of effects are those of the interpreter."""
    note = 'R.call_packed("test.note", R.prim_value({}), {}, sinfo_args=' + F32 + ")"
    lines = ("a = x + x", f"b = {note.format(1, 'a')}", f"c = {note.format(1, 'a')}", "d = x + x")
    text = graph(X, *lines, f"e = {note.format(2, 'd')}", "return b * c + e")
    trace = Trace()
    with packed(note=trace):
        found = loomir.compile(read(text), cache=False, opt_level=level)["main"](COUNT)
    assert trace.seen == [1, 1, 2]
    assert found.tolist() == both_noted(text, COUNT)


def both_noted(text: str, *args: Any) -> Any:
    with packed(note=lambda number, x: x):
        return both(text, *args).tolist()


def test_RX_SEM_28_errors_outside_of_dataflow_blocks_stay():
    """A check whose result nobody uses still fails; in a dataflow block it may."""
    unused = ('y = R.match_cast(x, R.Tensor((5,), "float32"))  # <--', "return R.str('ok')")
    fails("RUN0404", graph("x: R.Object", *unused), ONES)
    inside = ("with R.dataflow():", "    " + unused[0], "    z = x", "    R.output(z)", "return z")
    for run in ways(graph("x: R.Object", *inside)):
        try:
            found = run(ONES)
        except RunError as error:
            assert error.diagnostic.code == "RUN0404"
        else:
            assert found.tolist() == [1, 1, 1, 1]


def test_RX_SEM_29_immutable_values_may_be_one():
    """Whether equal immutable values are one object changes nothing: they compare equal."""
    made = both(graph("", "return ((R.shape([1]), R.str('a')), (R.shape([1]), R.str('a')))"))
    assert made[0] == made[1] == (loomir.Shape([1]), "a")


def test_RX_SEM_30_tensors_are_new():
    """What an operator gives is a new tensor, also where the value is the argument's."""
    text = graph(X, "return (R.reshape(x, (4,)), R.add(x, R.const(0.0)), R.zeros((4,), 'int8'))")
    for run in ways(text):
        x = ONES.copy()
        first, second = run(x), run(x)
        everything = [x, *first, *second]
        for i, a in enumerate(everything):
            assert not any(np.shares_memory(a, b) for b in everything[i + 1 :])


def test_RX_SEM_31_allocation_is_not_seen():
    """Memory that is used again changes no value that can still be seen."""
    lines = ["a = x + x", "b = a + x", "c = b + x", "d = a + c"]
    assert both(graph(X, *lines, "return (a, d)"), COUNT)[1].tolist() == [0, 6, 12, 18]


def test_RX_SEM_32_one_thread_at_a_time():
    """Within one run effects come one after another, each ended before the next."""
    order: list[str] = []

    def slow(x: Any) -> Any:
        order.append("in")
        order.append("out")
        return x

    call = f"R.call_packed('test.slow', x, sinfo_args={F32})"
    with packed(slow=slow):
        for run in ways(graph(X, f"a = {call}", f"b = {call}", "return a + b")):
            order.clear()
            run(*copied((f32(1, 2, 3, 4),)))
            assert order == ["in", "out", "in", "out"]


GROW = "@T.prim_func\ndef grow(x: T.Buffer((4,), 'float32')):\n    for i in range(4):\n        x[i] = x[i] + T.float32(1)\n"
MAKE = graph("", "z = R.zeros((4,), 'float32')", "return z", name="make")


@pytest.mark.parametrize("value", ["R.zeros((4,), 'float32')", "cls.make()"])
def test_what_is_known_before_the_run_can_be_written(value: str):
    """A tensor that depends on nothing is a new one all the same: a kernel may write to it."""
    lines = (f"z = {value}", "u = R.Call(cls.grow, [z])", "w = z + R.const(1, 'float32')")
    z, w = both(module(GROW, MAKE, graph("", *lines, "return (z, w)")))
    assert (z.tolist(), w.tolist()) == ([1, 1, 1, 1], [2, 2, 2, 2])
