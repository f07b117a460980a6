"""The nodes of graphs: what they hold, what they refuse, and what is derived from their fields."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir import relax
from loomir.ir import (
    IRModule,
    Node,
    assert_structural_equal,
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
from loomir.ir.node import NODE_CLASSES, Role
from loomir.ir.visit import rebuild
from loomir.relax import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    FuncStructInfo,
    Function,
    GlobalVar,
    If,
    MatchCast,
    ObjectStructInfo,
    Op,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    StringImm,
    StructInfo,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VarBinding,
    VDevice,
)
from loomir.relax.shape import INT64
from loomir.support.array import Array
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import BOOL, VOID, DataType
from loomir.tir import Add, And, Div, IntImm, Max, Min, Mul, Not, Or, PrimFunc, Select, Sub
from loomir.tir import Var as ShapeVar
from tests.clause import clauses


def tensor(*shape: Any, dtype: str = "float32", device: VDevice | None = None) -> TensorStructInfo:
    return TensorStructInfo(shape, dtype, device)


def var(name: str, *shape: Any, **options: Any) -> Var:
    return Var(name, tensor(*shape, **options))


def negative(x: Any) -> Call:
    return loomir.op.negative(x)


def refused(code: str, make: Any, *args: Any, **keywords: Any) -> None:
    with pytest.raises(CompileError) as raised:
        make(*args, **keywords)
    (found,) = raised.value.diagnostics
    assert found.code == code
    assert found.help


def program(*, name: str = "", number: float = 1.5, extent: int = 128) -> IRModule:
    """Make a module with every class of node; names of variables end in ``name``."""
    n, m = ShapeVar(f"n{name}", "int64"), ShapeVar(f"m{name}", "int64")
    device = VDevice("llvm", 1)
    x, c = var(f"x{name}", n, extent), var(f"c{name}", dtype="bool")
    like = x.struct_info
    lv, gv = DataflowVar(f"lv{name}", like), Var(f"gv{name}", like)
    t, a, b, r = (Var(f"{v}{name}", tensor(n, m)) for v in "tabr")
    f = Var(f"f{name}", FuncStructInfo((tensor(n, m),), tensor(n, m), False))
    y = var(f"y{name}", n, m)
    data = np.array([[number, np.nan], [-0.0, np.inf]], "float32")
    k = Var(f"k{name}", tensor(2, 2))
    s, p, o = Var(f"s{name}", ShapeStructInfo((n, 3))), Var("p"), Var("o", ObjectStructInfo())
    q = Var("q", PrimStructInfo(INT64, n + 1))
    many = TupleStructInfo((tensor(2, 2, device=device), ObjectStructInfo()))
    inner = Function((y,), SeqExpr((), y), tensor(n, m), False)
    flow = DataflowBlock((VarBinding(lv, negative(x)), VarBinding(gv, negative(lv))))
    yes = SeqExpr((BindingBlock((VarBinding(a, negative(t)),)),), a)
    no = SeqExpr((BindingBlock((VarBinding(b, Call(f, (t,))),)),), b)
    args = (
        Tuple((k, PrimValue(3))),
        StringImm("text"),
        DataTypeImm("int8"),
        PrimValue(n * 2),
        s,
        GlobalVar("g"),
    )
    block = BindingBlock(
        (
            VarBinding(f, inner),
            MatchCast(t, gv, tensor(n, m)),
            MatchCast(None, x, TensorStructInfo(ndim=2)),
            VarBinding(r, If(c, yes, no)),
            VarBinding(k, Constant(data)),
            VarBinding(s, ShapeExpr((n, 3))),
            VarBinding(q, PrimValue(n + 1)),
            VarBinding(p, Call(ExternFunc("pkg"), args, (many, tensor(n)), {"k": (1, "a")})),
            VarBinding(o, TupleGetItem(p, 1)),
        )
    )
    attrs = {"global_symbol": "main", "level": 3}
    main = Function((x, c), SeqExpr((flow, block), r), tensor(n, m), False, attrs)
    z = Var(f"z{name}", FuncStructInfo(None, ObjectStructInfo(), False, "empty_derive"))
    g = Function((z,), SeqExpr((), Constant(np.arange(3).astype(ml_dtypes.bfloat16))))
    functions: dict[GlobalVar, Any] = {GlobalVar("main"): main, GlobalVar("g"): g}
    return IRModule(functions, {"a": 1}, {"vdevice": (VDevice({"kind": "llvm"}), device)})


def all_nodes(root: Node) -> list[Node]:
    """List what a program owns, and the variables and descriptions that it refers to."""
    found: dict[int, Node] = {}
    stack: list[Any] = [root]
    while stack:
        at = stack.pop()
        if isinstance(at, Node):
            if id(at) not in found:
                found[id(at)] = at
                stack += [getattr(at, f.name) for f in at.node_fields]
        elif isinstance(at, (tuple, list)):
            stack += at
        elif isinstance(at, dict):
            stack += [*at, *at.values()]
    return list(found.values())


# -- what is derived from the roles of fields ----------------------------------------------------
def test_the_program_has_every_class():
    ours = {name for name in NODE_CLASSES if name.startswith("relax.")}
    assert ours - {node.node_kind for node in all_nodes(program())} == set()


def test_a_copy_of_every_node_is_equal_and_hashes_alike():
    for node in all_nodes(program()):
        if not node.is_definition:
            first = node.node_fields[0].name
            copy = rebuild(node, {first: getattr(node, first)})
            assert copy is not node
            assert structural_equal(node, copy), node.node_kind
            assert structural_hash(node) == structural_hash(copy), node.node_kind


def test_visiting_and_idle_rewrites_give_back_the_program():
    mod = program()
    assert sorted(map(id, pre_order(mod))) == sorted(map(id, post_order(mod)))
    assert rewrite(mod, {Call: lambda e: e}) is mod
    assert substitute(mod, {Var("z"): Var("y")}) is mod
    for node in all_nodes(mod):
        assert map_children(node, lambda part: part) is node


@clauses("RX-GRAM-13")
def test_programs_are_equal_up_to_names():
    assert_structural_equal(program(), program(name="_2"))
    assert structural_hash(program()) == structural_hash(program(name="_2"))


def test_a_difference_is_seen():
    for other in (program(number=2.5), program(number=float("nan")), program(extent=64)):
        assert not structural_equal(program(), other)
        assert structural_hash(program()) != structural_hash(other)
        refused("TIR0002", assert_structural_equal, program(), other)


@pytest.mark.parametrize("kind", sorted(k for k in NODE_CLASSES if k.startswith("relax.")))
def test_every_compared_field_is_compared(kind: str):
    """Change each plain field and each optional part: the program is another one."""
    mod = program()
    nodes = [node for node in all_nodes(mod) if node.node_kind == kind]
    for node in nodes:
        for field in node.node_fields:
            value = getattr(node, field.name)
            for changed in _other_values(value):
                if field.role is Role.META:
                    continue
                try:
                    other = rebuild(node, {field.name: changed})
                except CompileError:
                    continue
                assert not structural_equal(node, other), (kind, field.name)


def _other_values(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, str):
        return [value + "x"]
    if isinstance(value, Array):
        return [Array(value.data + value.data.dtype.type(1))]
    if isinstance(value, dict):
        return [{**value, "another": 1}]
    if isinstance(value, tuple) and value:
        return [value[:-1]]
    if isinstance(value, StructInfo):
        return [ObjectStructInfo() if not isinstance(value, ObjectStructInfo) else tensor(77)]
    return []


def test_programs_come_back_from_json():
    mod = program()
    again = from_json(to_json(mod))
    assert_structural_equal(mod, again)
    assert structural_hash(mod) == structural_hash(again)
    assert to_json(again) == to_json(mod)
    assert str(again) == str(mod)
    for node in all_nodes(mod):
        part = from_json(to_json(node))
        if not free_definitions(node) and not node.is_definition:
            assert_structural_equal(node, part)


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((0, 3), "float16"),
        np.array([0x7FC00001, 0xFFFFFFFF, 0x80000000], "uint32").view("float32"),
        np.array([[2**64 - 1]], "uint64"),
        np.array(True),
        np.arange(5).astype(ml_dtypes.bfloat16),
    ],
    ids=["empty", "payload", "uint64", "scalar", "bfloat16"],
)
def test_arrays_come_back_from_json(data: Any):
    made = from_json(to_json(Constant(data)))
    assert isinstance(made, Constant)
    assert made.data.data.dtype == data.dtype
    assert made.data.shape == data.shape
    assert made.data.data.tobytes() == data.tobytes()


def test_a_python_function_cannot_be_written_as_json():
    info = FuncStructInfo(None, ObjectStructInfo(), True, lambda call, context: ObjectStructInfo())
    refused("TIR0003", to_json, info)


@pytest.mark.parametrize(
    "value",
    [
        '{"array": ["float32", [2], "AAAA"]}',
        '{"array": ["float99", [1], "AAAAAA=="]}',
        '{"array": ["float32", [1], "?"]}',
        '{"array": [1]}',
    ],
)
def test_arrays_that_are_none_are_refused(value: str):
    text = f'{{"loomir": 1, "root": 0, "nodes": [{{"": "relax.Constant", "data": {value}}}]}}'
    with pytest.raises(CompileError):
        from_json(text)


def test_the_hash_is_the_same_in_every_process():
    code = (
        "from tests.relax.test_nodes import program\n"
        "from loomir.ir import structural_hash\n"
        "print(structural_hash(program()))"
    )
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_root()
    )
    assert int(made.stdout) == structural_hash(program())


def _root() -> str:
    return __file__.rsplit("/tests/", 1)[0]


# -- the grammar ---------------------------------------------------------------------------------
@clauses("RX-GRAM-01", "RX-GRAM-20")
def test_extents_are_expressions_of_shape_variables():
    n, m = ShapeVar("n", "int64"), ShapeVar("m", "int64")
    one = IntImm(1, INT64)
    extents = (
        n,
        one,
        Add(n, one),
        Sub(n, m),
        Mul(n, m),
        Div(n, one),
        Min(n, m),
        Max(n, m),
        n // m,
        n % m,
        Select(Or(And(n < m, Not(n < one)), n < one), n, m),
    )
    made = ShapeExpr(extents)
    assert all(a is b for a, b in zip(made.values, extents, strict=True))
    assert ShapeExpr((2, True + 1)).values[1].dtype is INT64


@clauses("RX-GRAM-20")
def test_extents_of_other_dtypes_are_widened_or_refused():
    k = ShapeVar("k", "int32")
    (extent,) = ShapeExpr((k,)).values
    assert extent.dtype is INT64
    for wrong in (ShapeVar("f", "float32"), 1.5, True, "n + 1", None):
        refused("RLX0002", ShapeExpr, (wrong,))


@clauses("RX-GRAM-02", "RX-GRAM-14", "RX-GRAM-26")
def test_a_module_holds_functions_of_both_kinds_and_devices():
    kernel = loomir.script.from_source(
        "@T.prim_func\ndef k(A: T.Buffer((4,), 'float32')):\n    A[0] = 1.0\n"
    )
    assert isinstance(kernel, PrimFunc)
    func = Function((x := var("x", 4),), SeqExpr((), x))
    device = VDevice("llvm")
    functions: dict[GlobalVar, Any] = {GlobalVar("k"): kernel, GlobalVar("f"): func}
    mod = IRModule(functions, {}, {"vdevice": (device,)})
    assert mod["k"] is kernel
    assert mod[GlobalVar("f")] is func
    assert mod.with_function("g", func).global_info == {"vdevice": (device,)}
    assert not structural_equal(mod, IRModule(functions))


@clauses("RX-GRAM-03", "RX-GRAM-04")
def test_a_device_has_a_target_a_number_and_a_memory():
    assert VDevice().target == ""
    tagged = VDevice("llvm", 1, "shared")
    assert (tagged.target, tagged.dev_id, tagged.mem_scope) == ("llvm", 1, "shared")
    assert VDevice({"kind": "llvm"}).target == {"kind": "llvm"}
    assert structural_equal(tagged, VDevice("llvm", 1, "shared"))
    for other in (VDevice("llvm", 0, "shared"), VDevice("llvm", 1), VDevice("", 1, "shared")):
        assert not structural_equal(tagged, other)


@clauses("RX-GRAM-05", "RX-GRAM-27", "RX-GRAM-29")
@pytest.mark.parametrize("name", ["int8", "uint64", "float16", "float64", "bfloat16", "bool"])
def test_tensors_and_scalars_have_elements_of_one_lane(name: str):
    assert tensor(2, dtype=name).dtype is DataType(name)
    assert tensor(2, dtype=name).dtype.lanes == 1
    assert PrimStructInfo(DataType(name)).dtype is DataType(name)
    refused("RLX0120", tensor, 2, dtype=f"{name}x4")
    refused("RLX0119", PrimStructInfo, DataType(f"{name}x4"))


@clauses("RX-GRAM-28", "RX-GRAM-30")
def test_void_is_the_unknown_dtype_and_the_only_handle():
    assert TensorStructInfo().dtype is VOID
    assert TensorStructInfo(dtype=VOID).dtype is VOID
    refused("RLX0120", tensor, 2, dtype="handle")
    refused("RLX0119", PrimStructInfo, VOID)


@clauses("RX-GRAM-06")
def test_tensors_have_a_shape_or_a_rank():
    made = tensor(2, 3)
    assert isinstance(made.shape, ShapeExpr)
    assert made.ndim == 2
    s = Var("s", ShapeStructInfo(ndim=4))
    assert TensorStructInfo(s).ndim == 4
    assert TensorStructInfo(s).dims is None
    assert TensorStructInfo(ndim=3).shape is None
    assert TensorStructInfo().ndim == -1
    refused("RLX0114", TensorStructInfo, (2, 3), "float32", None, 3)
    refused("RLX0114", TensorStructInfo, s, "float32", None, 3)
    refused("RLX0114", TensorStructInfo, Tuple(()))
    refused("RLX0114", TensorStructInfo, var("x", 2))
    refused("RLX0114", TensorStructInfo, None, "float32", None, -2)


@clauses("RX-GRAM-07")
def test_shapes_have_extents_or_a_rank():
    assert ShapeStructInfo((2, 3)).ndim == 2
    assert ShapeStructInfo(()).ndim == 0
    assert ShapeStructInfo().ndim == -1
    assert ShapeStructInfo(ndim=3).values is None
    refused("RLX0115", ShapeStructInfo, (2, 3), 3)
    refused("RLX0115", ShapeStructInfo, None, -2)


@clauses("RX-GRAM-08")
def test_scalars_have_a_dtype_and_may_have_a_value():
    n = ShapeVar("n", "int64")
    assert PrimStructInfo(INT64).value is None
    assert PrimStructInfo(INT64, n).value is n
    refused("RLX0122", PrimStructInfo, BOOL, n)


@clauses("RX-GRAM-09", "RX-GRAM-10", "RX-VALS-03")
def test_tuples_nest_and_the_empty_one_is_unit():
    inner = TupleStructInfo([ObjectStructInfo()])  # type: ignore[arg-type]
    outer = TupleStructInfo((inner, tensor(2)))
    assert outer.fields[0] is inner
    assert isinstance(inner.fields, tuple)
    assert TupleStructInfo(()).fields == ()
    assert isinstance(Tuple([Tuple(())]).fields, tuple)  # type: ignore[arg-type]


@clauses("RX-GRAM-11")
def test_functions_have_parameters_or_a_way_to_derive_results():
    info = FuncStructInfo([tensor(2)], tensor(2), False)  # type: ignore[arg-type]
    assert isinstance(info.params, tuple)
    assert not info.purity
    assert FuncStructInfo((), ObjectStructInfo()).purity
    packed = FuncStructInfo(None, ObjectStructInfo(), False, "default_derive")
    assert packed.params is None
    refused("RLX0117", FuncStructInfo, None, ObjectStructInfo())
    refused("RLX0117", FuncStructInfo, (), ObjectStructInfo(), True, "empty_derive")


@clauses("RX-GRAM-12", "RX-VALS-01")
def test_constants_hold_their_own_read_only_copy():
    data = np.ones((2, 2), "float32")
    made = Constant(data)
    data[:] = 7
    assert made.data.data.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match="read-only"):
        made.data.data[0, 0] = 3
    assert structural_equal(made.struct_info, tensor(2, 2))
    assert Constant(np.float32(2)).struct_info.ndim == 0
    refused("RLX0001", Constant, np.array(["a"]))
    refused("RLX0001", Constant, np.array([1j]))


def test_constants_are_compared_by_their_bytes():
    def one(value: float, dtype: str = "float32") -> Constant:
        return Constant(np.array(value, dtype))

    assert structural_equal(one(np.nan), one(np.nan))
    assert not structural_equal(one(0.0), one(-0.0))
    assert not structural_equal(one(1), one(1, "float64"))
    assert not structural_equal(one(1), Constant(np.ones(1, "float32")))


@clauses("RX-GRAM-13", "RX-SIS-01")
def test_a_variable_is_an_object_and_may_know_its_structure():
    a, b = var("x", 2), var("x", 2)
    assert a is not b
    assert not structural_equal(Tuple((a, a)), Tuple((a, b)))
    assert structural_equal(a.struct_info, b.struct_info)
    assert isinstance(DataflowVar("x", tensor(2)), Var)
    refused("RLX0003", lambda: Var("x").struct_info)


@clauses("RX-GRAM-15", "RX-VALS-09", "RX-VALS-11")
def test_scalars_strings_and_dtypes_are_values():
    for value, dtype in ((3, "int64"), (True, "bool"), (0.5, "float32")):
        assert PrimValue(value).value.dtype is DataType(dtype)
    n = ShapeVar("n", "int64")
    assert PrimValue(n).value is n
    assert StringImm("a").value == "a"
    assert DataTypeImm("int8").value is DataType("int8")


@clauses("RX-GRAM-15", "RX-GRAM-23", "RX-GRAM-24")
def test_a_sequence_holds_blocks_of_bindings():
    v = var("v", 2)
    block = BindingBlock([VarBinding(v, var("x", 2))])  # type: ignore[arg-type]
    flow = DataflowBlock([])  # type: ignore[arg-type]
    made = SeqExpr([block, flow], v)  # type: ignore[arg-type]
    assert isinstance(made.blocks, tuple)
    assert isinstance(block.bindings, tuple)
    assert isinstance(flow, BindingBlock)
    assert not structural_equal(BindingBlock(()), flow)


@clauses("RX-GRAM-16")
def test_a_function_is_pure_and_private_unless_it_says_otherwise():
    x = var("x", 2)
    func = Function([x], SeqExpr((), x))  # type: ignore[arg-type]
    assert func.is_pure
    assert func.ret_struct_info is None
    assert func.attrs == {}
    assert func.params == (x,)
    assert func.name == "main"
    assert Function((), x, attrs={"global_symbol": "f"}).name == "f"
    assert not structural_equal(func, Function((x,), SeqExpr((), x), is_pure=False))
    assert list(free_definitions(func)) == []


@clauses("RX-GRAM-17", "RX-GRAM-18", "RX-GRAM-19", "RX-GRAM-22")
def test_calls_name_operators_functions_packed_functions_and_closures():
    x = var("x", 2)
    for callee in (loomir.op.negative(x).op, GlobalVar("f"), ExternFunc("f"), Var("f")):
        made = Call(callee, [x], [tensor(2)], {"axes": [1, 2]})  # type: ignore[arg-type]
        assert made.op is callee
        assert made.args == (x,)
        assert isinstance(made.sinfo_args, tuple)
        assert made.attrs == {"axes": (1, 2)}
    assert isinstance(loomir.op.negative(x).op, Op)
    made = If(x, SeqExpr((), x), SeqExpr((), x))
    assert list(made.child_names) == ["cond", "true_branch", "false_branch"]


@clauses("RX-GRAM-21")
def test_fields_of_tuples_are_counted_from_zero():
    assert TupleGetItem(Var("t"), 0).index == 0
    refused("RLX0004", TupleGetItem, Var("t"), -1)


@clauses("RX-GRAM-25")
def test_a_match_cast_may_bind_nothing():
    n = ShapeVar("n", "int64")
    x = var("x", 4)
    assert MatchCast(None, x, tensor(n)).var is None
    made = MatchCast(struct_info=tensor(n), value=x, var=var("y", n))
    # The shape variable is bound by it, so it is free in neither.
    assert list(free_definitions(BindingBlock((made,)))) == [x]


@clauses("RX-VALS-02")
def test_tensors_on_different_devices_are_different():
    assert not structural_equal(
        tensor(2, device=VDevice("llvm")), tensor(2, device=VDevice("llvm", 1))
    )
    assert not structural_equal(tensor(2, device=VDevice("llvm")), tensor(2))


def test_every_name_of_the_package_is_there():
    for name in relax.__all__:
        assert getattr(relax, name) is not None
