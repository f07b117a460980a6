"""Programs of Relax as texts: functions, blocks, branches, calls."""

from __future__ import annotations

import pytest

from loomir.ir.equality import assert_structural_equal
from loomir.ir.module import GlobalVar, IRModule, VDevice
from loomir.relax.expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.script import from_source
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir.function import PrimFunc
from tests.clause import clauses

HEAD = "from loomir.script import ir as I, tir as T, relax as R\n"
X = 'x: R.Tensor((n, 4), "float32")'


def read(text: str) -> Function:
    made = from_source(HEAD + text)
    assert isinstance(made, Function)
    return made


def body(*lines: str, params: str = X) -> Function:
    """Read a function of these statements."""
    return read(f"@R.function\ndef f({params}):\n" + "".join(f"    {line}\n" for line in lines))


def module(*parts: str) -> IRModule:
    """Read a module of these functions."""
    lines = [f"    {line}" for part in parts for line in part.splitlines()]
    made = from_source(HEAD + "@I.ir_module\nclass M:\n" + "\n".join(lines) + "\n")
    assert isinstance(made, IRModule)
    return made


def refused(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(CompileError) as caught:
        from_source(HEAD + text)
    return caught.value.diagnostics


def bindings(func: Function) -> list[VarBinding | MatchCast]:
    return [b for block in func.body.blocks for b in block.bindings]  # type: ignore[attr-defined]


def values(func: Function) -> list[object]:
    return [b.value for b in bindings(func)]


def names(func: Function) -> list[str]:
    return [b.var.name_hint if b.var else "" for b in bindings(func)]


def op_names(func: Function) -> list[str]:
    return [v.op.name for v in values(func) if isinstance(v, Call)]  # type: ignore[union-attr]


# -- functions -----------------------------------------------------------------------------------
@clauses("TS-DEC-04", "TS-RREF-01", "TS-SYN-15")
def test_a_function_with_parameters_and_a_result():
    func = read(
        '@R.function\ndef f(x: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):\n'
        "    return x\n"
    )
    assert func.attrs == {"global_symbol": "f"}
    assert func.is_pure
    (x,) = func.params
    assert func.body.body is x  # type: ignore[attr-defined]
    assert_structural_equal(x.struct_info, func.ret_struct_info)


@clauses("TS-RREF-02", "TS-RREF-03")
def test_options_of_the_decorator():
    func = read("@R.function(private=True, pure=False)\ndef f(x: R.Object):\n    return x\n")
    assert func.attrs == {}
    assert not func.is_pure


def test_attributes_and_purity_as_statements():
    func = body('R.func_attr({"k": 1})', "R.is_impure()", "return x")
    assert func.attrs == {"global_symbol": "f", "k": 1}
    assert not func.is_pure


@clauses("TS-BLD-22", "TS-SYN-13")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('R.Tensor((2, n), "float32")', TensorStructInfo),
        ('R.Tensor("float32", ndim=2)', TensorStructInfo),
        ("R.Tensor", TensorStructInfo),
        ('R.Tensor(("n", "n + 1"))', TensorStructInfo),
        ("R.Tensor([n, T.max(n, 4)])", TensorStructInfo),
        ("R.Shape([n, 2])", ShapeStructInfo),
        ("R.Shape(ndim=3)", ShapeStructInfo),
        ("R.Shape", ShapeStructInfo),
        ('R.Prim("int64")', PrimStructInfo),
        ('R.Prim(value="n")', PrimStructInfo),
        ("R.Object", ObjectStructInfo),
        ("R.Any()", ObjectStructInfo),
        ("R.Tuple(R.Tensor, R.Object)", TupleStructInfo),
        ("R.Tuple([R.Tensor, R.Object])", TupleStructInfo),
        ("R.Tuple()", TupleStructInfo),
        ('R.Callable((R.Tensor(("k",)),), R.Tensor(("k",)))', FuncStructInfo),
        ("R.Callable(ret=R.Object, purity=False)", FuncStructInfo),
        ('R.Callable(derive_func="default_derive")', FuncStructInfo),
    ],
)
def test_descriptions_of_values(text: str, kind: type):
    func = body("return a", params=f"a: {text}")
    assert isinstance(func.params[0].struct_info, kind)
    quoted = body("return a", params=f"a: {text!r}")
    assert_structural_equal(func, quoted)


def test_names_in_shapes_are_one_variable_each():
    func = body(
        "return x", params='x: R.Tensor((n, m)), y: R.Tensor(("m", n * 2)), s: R.Shape([n])'
    )
    x, y, s = [p.struct_info for p in func.params]
    assert isinstance(x, TensorStructInfo)
    assert isinstance(y, TensorStructInfo)
    assert isinstance(s, ShapeStructInfo)
    assert x.dims
    assert y.dims
    assert s.values
    assert x.dims[1] is y.dims[0]
    assert s.values[0] is x.dims[0]
    assert str(x.dims[0].dtype) == "int64"


def test_a_declared_shape_variable_is_the_one_of_the_parameters():
    func = body("n = T.int64(is_size_var=True)", "y: R.Tensor((n, 4)) = x", "return y")
    first, second = func.params[0].struct_info, bindings(func)[0].var
    assert second is not None
    assert_structural_equal(first.dims[0], second.struct_info.dims[0])  # type: ignore[attr-defined]
    assert first.dims[0] is second.struct_info.dims[0]  # type: ignore[attr-defined]


def test_the_shape_of_a_tensor_can_be_a_variable():
    func = body("return x", params="s: R.Shape(ndim=2), x: R.Tensor(s)")
    info = func.params[1].struct_info
    assert isinstance(info, TensorStructInfo)
    assert info.shape is func.params[0]
    assert info.ndim == 2


# -- bindings ------------------------------------------------------------------------------------
@clauses("TS-SYN-11", "TS-BLD-20")
def test_an_assignment_is_a_binding_and_shadows():
    func = body("y = R.negative(x)", "y = R.negative(y)", "z = R.emit(R.negative(y))", "return z")
    first, second, third = bindings(func)
    assert names(func) == ["y", "y", "z"]
    assert second.value.args[0] is first.var  # type: ignore[union-attr]
    assert third.value.args[0] is second.var  # type: ignore[union-attr]
    assert isinstance(first.var, Var)
    assert_structural_equal(first.var.struct_info, func.params[0].struct_info)


def test_nested_calls_are_bound_in_the_order_of_the_text():
    func = body("y = R.add(R.negative(x), R.exp(R.abs(x)))", "return R.tanh(y)")
    assert op_names(func) == [
        *("relax.negative", "relax.abs", "relax.exp", "relax.add", "relax.tanh"),
    ]


@clauses("TS-SYN-19")
@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("x + x", "add"),
        ("x - x", "subtract"),
        ("x * x", "multiply"),
        ("x / x", "divide"),
        ("x // x", "floor_divide"),
        ("x % x", "mod"),
        ("x ** x", "power"),
        ("-x", "negative"),
        ("x < x", "less"),
        ("x <= x", "less_equal"),
        ("x > x", "greater"),
        ("x >= x", "greater_equal"),
        ("x == x", "equal"),
        ("x != x", "not_equal"),
    ],
)
def test_operators_of_python_are_calls(text: str, op: str):
    assert op_names(body(f"y = {text}", "return y")) == [f"relax.{op}"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8"])
def test_a_number_beside_a_tensor_is_a_constant_like_it(dtype: str):
    func = body("y = x + 2", "z = 3 * y", "return z", params=f'x: R.Tensor((4,), "{dtype}")')
    found = [a for v in values(func) for a in v.args if isinstance(a, Constant)]  # type: ignore[attr-defined]
    assert [str(c.data.dtype) for c in found] == [dtype, dtype]
    assert [float(c.data.data) for c in found] == [2.0, 3.0]


def test_a_number_that_the_dtype_lacks_is_refused():
    text = '@R.function\ndef f(x: R.Tensor((4,), "int8")):\n    y = x + 1.5\n    return y\n'
    (found,) = refused(text)
    assert found.code == "SCR0009"
    assert found.span is not None
    assert (found.span.line, found.span.column) == (4, 13)


@clauses("TS-BLD-21")
@pytest.mark.parametrize("call", ["R.match_cast", "R.emit_match_cast"])
def test_match_cast_declares_shape_variables(call: str):
    func = body(f'y = {call}(x, R.Tensor((m,), "float32"))', "return y", params="x: R.Object")
    (cast,) = bindings(func)
    assert isinstance(cast, MatchCast)
    assert cast.var is not None
    assert cast.var.name_hint == "y"
    assert_structural_equal(cast.struct_info, cast.var.struct_info)


def test_match_cast_as_a_statement_binds_shape_variables_only():
    func = body("R.match_cast(x, R.Tensor((a, b)))", "y = R.shape([a * b])", "return y")
    first = bindings(func)[0]
    assert isinstance(first, MatchCast)
    assert first.var is None


def test_tuples_are_made_unpacked_and_indexed():
    func = body("t = (x, (x, x))", "a, b = t", "c, d = b", "e = t[1][0]", "return a, d, e")
    assert names(func)[:5] == ["t", "a", "b", "c", "d"]
    assert isinstance(values(func)[0], Tuple)
    assert all(isinstance(v, TupleGetItem) for v in values(func)[1:])
    assert isinstance(func.body.body, Tuple)  # type: ignore[attr-defined]


def test_a_call_for_its_effect_is_bound_to_no_name():
    func = read(
        "@R.function(pure=False)\ndef f(x: R.Object):\n"
        '    """Print."""\n    R.call_packed("show", x)\n    pass\n    return ()\n'
    )
    assert names(func) == ["_"]
    assert isinstance(func.body.body, Tuple)  # type: ignore[attr-defined]


def test_plain_values_are_known_while_the_program_is_read():
    func = from_source(
        HEAD
        + f"@R.function\ndef f({X}):\n    k = N * 2\n    y = R.const([k, 1], dt)\n    return y\n",
        values={"N": 3, "dt": "int16"},
    )
    assert isinstance(func, Function)
    (made,) = values(func)
    assert isinstance(made, Constant)
    assert made.data.data.tolist() == [6, 1]
    assert str(made.data.dtype) == "int16"


# -- blocks and branches -------------------------------------------------------------------------
@clauses("TS-SYN-04", "TS-RREF-04", "TS-BLD-18", "TS-BLD-19")
def test_a_dataflow_block_shows_what_it_puts_out():
    func = body(
        "with R.dataflow():",
        "    a = R.negative(x)",
        "    b = R.negative(a)",
        "    R.output(b)",
        "return b",
    )
    (block,) = func.body.blocks  # type: ignore[attr-defined]
    assert isinstance(block, DataflowBlock)
    first, second = block.bindings
    assert isinstance(first, VarBinding)
    assert isinstance(second, VarBinding)
    assert isinstance(first.var, DataflowVar)
    assert not isinstance(second.var, DataflowVar)
    assert second.value.args == (first.var,)  # type: ignore[union-attr]
    assert func.body.body is second.var  # type: ignore[attr-defined]


@clauses("TS-RREF-04")
def test_what_is_not_put_out_is_not_known_after_the_block():
    text = f"@R.function\ndef f({X}):\n    with R.dataflow():\n        a = R.negative(x)\n"
    (found,) = refused(text + "        R.output()\n    return a\n")
    assert (found.code, found.span and found.span.line) == ("SCR0003", 7)


@clauses("TS-SYN-07", "TS-RREF-07", "TS-RREF-09")
def test_a_branch_gives_the_name_that_both_cases_bind_last():
    func = body(
        "if c:",
        "    y = R.negative(x)",
        "    result = R.add(y, y)",
        "else:",
        "    result = x",
        "return result",
        params=f'c: R.Tensor((), "bool"), {X}',
    )
    (binding,) = bindings(func)
    assert isinstance(binding.value, If)
    assert binding.var is func.body.body  # type: ignore[attr-defined]
    assert isinstance(binding.var, Var)
    assert_structural_equal(binding.var.struct_info, func.params[1].struct_info)
    assert len(binding.value.true_branch.blocks[0].bindings) == 2  # type: ignore[attr-defined]


def test_a_chain_of_branches_and_a_condition_that_is_computed():
    func = body(
        "if R.less(a, b):",
        "    y = x",
        "elif R.less(b, a):",
        "    y = R.negative(x)",
        "else:",
        "    y = x",
        "return y",
        params=f'a: R.Tensor((), "float32"), b: R.Tensor((), "float32"), {X}',
    )
    assert isinstance(values(func)[1], If)


def test_a_plain_condition_decides_while_the_program_is_read():
    func = from_source(
        HEAD + f"@R.function\ndef f({X}):\n    if FAST:\n        y = x\n    else:\n        y = -x\n"
        "    return y\n",
        values={"FAST": True},
    )
    assert isinstance(func, Function)
    assert len(bindings(func)) == 1


def test_a_function_in_a_function_may_call_itself():
    func = body(
        "@R.function",
        'def inner(y: R.Tensor((k,), "float32")) -> R.Tensor((k,), "float32"):',
        "    z = inner(y)",
        "    return z",
        "w = inner(x)",
        "return w",
        params='x: R.Tensor((n,), "float32")',
    )
    inner, call = bindings(func)
    assert isinstance(inner.value, Function)
    assert inner.value.attrs == {}
    assert isinstance(inner.var, Var)
    assert isinstance(inner.var.struct_info, FuncStructInfo)
    assert call.value.op is inner.var  # type: ignore[union-attr]
    inside = inner.value.body.blocks[0].bindings[0]  # type: ignore[attr-defined]
    assert inside.value.op is inner.var


# -- modules -------------------------------------------------------------------------------------
KERNEL = """@T.prim_func
def add(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        C[i] = A[i] + B[i]"""
MAIN = """@R.function
def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    y = {}
    return y"""


@clauses("TS-OV-02", "TS-DEC-05", "TS-DEC-06", "TS-DEC-07", "TS-RREF-05", "TS-RREF-06", "TS-BLD-23")
@pytest.mark.parametrize("word", ["out_ty", "out_sinfo", "sinfo_args", "ty_args"])
@pytest.mark.parametrize("owner", ["cls", "M"])
def test_a_kernel_of_the_module_is_called(word: str, owner: str):
    call = f'R.call_tir({owner}.add, (x, x), {word}=R.Tensor((4,), "float32"))'
    mod = module(MAIN.format(call), KERNEL)
    assert list(mod) == ["main", "add"]
    assert isinstance(mod["add"], PrimFunc)
    main = mod["main"]
    assert isinstance(main, Function)
    (made,) = values(main)
    assert isinstance(made, Call)
    assert made.args[0] is mod.get_global_var("add")
    assert isinstance(made.args[0], GlobalVar)
    assert len(made.sinfo_args) == 1


def test_functions_call_one_another_in_any_order():
    even = MAIN.replace("main", "even").format("cls.odd(x)")
    odd = MAIN.replace("main", "odd").format("M.even(x)")
    mod = module(even, odd)
    for name, other in (("even", "odd"), ("odd", "even")):
        func = mod[name]
        assert isinstance(func, Function)
        (call,) = values(func)
        assert isinstance(call, Call)
        assert call.op is mod.get_global_var(other)


def test_what_a_function_does_not_say_of_its_result_is_derived_before_it_is_called():
    late = '@R.function\ndef late(x: R.Tensor((4,), "float32")):\n    return R.negative(x)'
    mod = module(MAIN.format("cls.late(x)"), late)
    assert list(mod) == ["main", "late"]
    func = mod["main"]
    assert isinstance(func, Function)
    var = bindings(func)[0].var
    assert var is not None
    assert_structural_equal(var.struct_info, func.params[0].struct_info)


def test_devices_are_those_of_the_module():
    infos = (
        'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global"), I.vdevice("llvm", 1)]})'
    )
    func = (
        '@R.function\ndef f(x: R.Tensor((4,), "float32", "llvm:1"), '
        'y: R.Tensor((4,), "float32", vdevice=I.vdevice("llvm"))):\n    return x'
    )
    mod = module(infos, 'I.module_attrs({"a": 1})', func)
    assert mod.global_info["vdevice"] == mod.global_info["vdevice"]
    first, second = mod.global_info["vdevice"]
    made = mod["f"]
    assert isinstance(made, Function)
    x, y = [p.struct_info for p in made.params]
    assert isinstance(x, TensorStructInfo)
    assert isinstance(y, TensorStructInfo)
    assert x.vdevice is second
    assert isinstance(y.vdevice, VDevice)
    assert_structural_equal(y.vdevice, first)
    assert mod.attrs == {"a": 1}


@clauses("TS-BLD-24")
def test_packed_functions_are_called_by_name():
    func = read(
        "@R.function(pure=False)\ndef f(x: R.Tensor((4,))):\n"
        '    y = R.call_packed("a.b", x, (x, 1), sinfo_args=R.Tensor((4,), "float32"))\n'
        '    g = R.ExternFunc("c")\n    z = g(y, sinfo_args=[R.Object])\n    return z\n'
    )
    assert isinstance(func.body, object)
    calls = [v for v in values(func) if isinstance(v, Call)]
    assert len(calls) == 2
    assert calls[0].op.global_symbol == "a.b"  # type: ignore[union-attr]


def test_blocks_are_of_the_kinds_that_the_text_has():
    func = body(
        "a = R.negative(x)",
        "with R.dataflow():",
        "    b = R.negative(a)",
        "    R.output(b)",
        "c = R.negative(b)",
        "return c",
    )
    kinds = [type(block) for block in func.body.blocks]  # type: ignore[attr-defined]
    assert kinds == [BindingBlock, DataflowBlock, BindingBlock]


def test_a_function_within_one_may_do_nothing_but_return():
    made = from_source(
        "@R.function\n"
        "def main(x: R.Tensor((3,), 'float32')):\n"
        "    @R.function\n"
        "    def same(y: R.Tensor((3,), 'float32')):\n"
        "        return y\n"
        "    z = same(x)\n"
        "    return z\n"
    )
    assert str(made.ret_struct_info) == 'R.Tensor((3,), dtype="float32")'


def test_a_long_chain_of_branches_is_read():
    cases = "".join(
        f"    {'el' if index else ''}if c:\n        y = R.negative(x)\n" for index in range(300)
    )
    func = read(
        '@R.function\ndef f(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):\n'
        f"{cases}    else:\n        y = x\n    return y\n"
    )
    depth, found = 0, values(func)[0]
    while isinstance(found, If):
        depth += 1
        branch = found.false_branch
        blocks = branch.blocks  # type: ignore[attr-defined]
        found = blocks[0].bindings[0].value if blocks else None
    assert depth == 300
