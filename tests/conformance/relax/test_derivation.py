"""What is derived of each expression, purity, and devices."""

from __future__ import annotations

import pytest

from loomir.relax import (
    BindingBlock,
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    FuncStructInfo,
    Function,
    ObjectStructInfo,
    PrimValue,
    SeqExpr,
    StringImm,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.info.devices import update_struct_info
from loomir.relax.normal.derive import func_struct_info, struct_info_of
from loomir.relax.normal.normalize import normalize
from loomir.relax.struct_info import DEFAULT_DERIVE, OBJECT, UNIT
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from loomir.transform.relax.devices.realize_vdevice import realize_vdevice
from tests.conformance.graphs import (
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
    zeros,
)
from tests.conformance.relax.infos import (
    V0,
    V1,
    equal,
    func,
    n,
    opaque,
    prim,
    shape,
    some,
    tensor,
    tuple_of,
)
from tests.relax.kernels import ADD

X = f"x: {F32}"
IMPURE = 'R.call_packed("f", x, sinfo_args=R.Object)'


# -- leaves --------------------------------------------------------------------------------------
def test_RX_DER_01_annotated_functions_are_known():
    """What a function of the module takes and gives is known before it is read."""
    later = graph("y: R.Tensor((k, 2))", "return R.shape([2])", ret="R.Shape([2])", name="later")
    mod = read(module(graph("x: R.Tensor((4, 2))", "y = cls.later(x)", "return y"), later))
    assert known(mod["main"]) == "R.Shape([2])"


def test_RX_DER_02_variables():
    """A variable is what it is known to be."""
    assert known(graph("x: R.Shape([3, 4])", "y = x", "return y")) == "R.Shape([3, 4])"


def test_RX_DER_03_constants():
    """A constant has the rank, dtype and shape of its value, and no device."""
    found = struct_info_of(Constant(zeros(2, 3, dtype="int8")))
    equal(found, tensor(2, 3, dtype="int8"))
    assert found.vdevice is None


def test_RX_DER_04_scalars():
    """A scalar has its dtype, and its expression as value, as decided."""
    equal(struct_info_of(PrimValue(n + 1)), prim("int64", n + 1))


def test_RX_DER_05_strings():
    """A string is an object."""
    assert isinstance(struct_info_of(StringImm("a")), ObjectStructInfo)


def test_RX_DER_06_dtypes():
    """A dtype is an object."""
    assert isinstance(struct_info_of(DataTypeImm("int8")), ObjectStructInfo)


def test_RX_DER_07_tuples():
    """A tuple is known field by field."""
    found = struct_info_of(Tuple((Var("x", tensor(n)), Tuple(()))))
    equal(found, tuple_of(tensor(n), tuple_of()))


def test_RX_DER_08_shapes():
    """A shape has its extents, and as many as its rank."""
    assert known(graph("x: R.Tensor((n,))", "return R.shape([n, n * 2])")) == "R.Shape([n, n * 2])"


CHOICE = ("if c:", "    y = x", "else:", "    y = z", "return y")


def test_RX_DER_09_branches():
    """A branch is what both cases are."""
    signature = 'c: R.Tensor((), "bool"), x: R.Tensor((n, 4)), z: R.Tensor((m, 4))'
    assert known(graph(signature, *CHOICE)) == "R.Tensor(ndim=2)"
    same = 'c: R.Tensor((), "bool"), x: R.Tensor((n, 4)), z: R.Tensor((n, 4))'
    assert known(graph(same, *CHOICE)) == "R.Tensor((n, 4))"


# -- sequences -----------------------------------------------------------------------------------
def test_RX_DER_10_bindings_in_order():
    """Bindings are derived in order, each from those before it."""
    lines = ("y = R.expand_dims(x, 0)", "z = R.expand_dims(y, 0)", "return z")
    assert known(graph("x: R.Tensor((n,), 'int8')", *lines)) == 'R.Tensor((1, 1, n), dtype="int8")'


def test_RX_DER_10a_dataflow_variables_end():
    """A variable of a dataflow block is not known after the block."""
    lines = (
        "with R.dataflow():",
        "    y = R.exp(x)",
        "    z = y",
        "    R.output(z)",
        "return y  # <--",
    )
    refused("SCR0003", graph(X, *lines))


def test_RX_DER_10b_what_ends_is_erased():
    """What a sequence gives says nothing in terms of what ended with it."""
    lines = (
        "if c:",
        '    y = R.match_cast(x, R.Tensor((k,), "int8"))',
        "else:",
        '    y = R.match_cast(x, R.Tensor("int8", ndim=1))',
    )
    text = graph('c: R.Tensor((), "bool"), x: R.Object', *lines, "return y")
    assert known(text) == 'R.Tensor(dtype="int8", ndim=1)'
    text = graph("x: R.Object", "y = R.match_cast(x, R.Shape([k, 2]))", "return y")
    assert known(text) == "R.Shape(ndim=2)"


# -- bindings ------------------------------------------------------------------------------------
def test_RX_DER_11_parameters_without_annotation():
    """A parameter of which nothing is said is an object."""
    x = Var("x")
    made = normalize(Function((x,), x))
    assert isinstance(made.params[0].struct_info, ObjectStructInfo)


def test_RX_DER_11a_functions_that_call_themselves():
    """A function that calls itself says what it returns, and is checked against it."""
    lines = ("@R.function", "def f(a: R.Object):  # <--", "    return f(a)", "return f(x)")
    refused("SCR0035", graph("x: R.Object", *lines))
    lines = (
        "@R.function",
        "def f(a: R.Object) -> R.Shape:",
        "    b = f(a)",
        "    return a  # <--",
        "return f(x)",
    )
    refused("RLX0214", graph("x: R.Object", *lines))


def test_RX_DER_11b_annotations():
    """An annotation that holds is what is known from there on; else it is refused."""
    assert (
        known(graph("x: R.Tensor((4,))", "y: R.Tensor(ndim=1) = x", "return y"))
        == "R.Tensor(ndim=1)"
    )
    refused("RLX0201", graph("x: R.Tensor((4,))", "y: R.Tensor((5,)) = x  # <--", "return y"))


def test_RX_DER_11c_annotations_that_say_more():
    """An annotation that says more is a warning, and is checked when the program runs."""
    x, y = Var("x", some("float32", 1)), Var("y", tensor(4))
    made = Function((x,), SeqExpr((BindingBlock((VarBinding(y, x),)),), y), tensor(4))
    assert warnings(made) == ["RLX0202"]
    text = graph("x: R.Tensor(ndim=1)", "y: R.Tensor((4,)) = x  # <--", "return y")
    assert both(text, ONES).shape == (4,)
    fails("RUN0404", text, zeros(5))


def test_RX_DER_11d_without_annotation():
    """Without annotation a variable is what its value is."""
    (binding,) = bindings(
        graph(
            "x: R.Tensor((n,), 'int8')",
            "y = R.negative(x)",
            "return y",
        )
    )
    assert str(binding.var.struct_info) == 'R.Tensor((n,), dtype="int8")'


def test_RX_DER_11e_checks_bind_shape_variables():
    """A new shape variable of a check is in scope from there on."""
    text = graph("x: R.Object", "y = R.match_cast(x, R.Tensor((k,)))", "return R.shape([k + 1])")
    assert both(text, zeros(3)) == (4,)


@pytest.mark.parametrize(
    ("given", "wanted", "found"),
    [
        ("R.Tensor((3,))", "R.Tensor((4,))", ["RLX0203"]),
        ("R.Tensor((3,))", "R.Shape", ["RLX0203"]),
        ("R.Tensor((2, n))", "R.Tensor((k, 3))", []),
        ("R.Object", "R.Shape", []),
    ],
)
def test_RX_DER_11f_checks_that_always_fail(given: str, wanted: str, found: list[str]):
    """A check that is certain to fail is a warning, as decided."""
    assert warnings(graph(f"x: {given}", f"y = R.match_cast(x, {wanted})", "return ()")) == found


def test_RX_DER_11g_annotations_of_checks():
    """An annotation beside a check follows from it, and is what is known."""
    lines = ("y: R.Tensor(ndim=2) = R.match_cast(x, R.Tensor((2, 3)))", "return y")
    assert known(graph("x: R.Object", *lines)) == "R.Tensor(ndim=2)"
    lines = ("y: R.Tensor(ndim=3) = R.match_cast(x, R.Tensor((2, 3)))  # <--", "return y")
    refused("RLX0201", graph("x: R.Object", *lines))


def test_RX_DER_11h_checks_without_annotation():
    """Without annotation the variable is what the check says."""
    (binding,) = bindings(graph("x: R.Object", "y = R.match_cast(x, R.Shape([2]))", "return y"))
    equal(binding.var.struct_info, shape(2))


# -- fields --------------------------------------------------------------------------------------
@pytest.mark.parametrize("info", ["R.Object", "R.Shape([1])"])
def test_RX_DER_12_only_tuples_have_fields(info: str):
    """Only what is known to be a tuple has fields."""
    with pytest.raises(CompileError):
        read(graph(f"x: {info}", "y = x[0]", "return y"))


def test_RX_DER_12a_fields_that_are_there():
    """The index is less than the number of fields."""
    refused("SCR0008", graph("x: R.Tuple(R.Object, R.Object)", "y = x[2]  # <--", "return y"))
    t = Var("t", tuple_of(OBJECT))
    refused("RLX0207", Function((t,), TupleGetItem(t, 1)))


def test_RX_DER_12b_a_field_is_known():
    """A field is what the tuple is known to hold there."""
    text = graph("x: R.Tuple(R.Object, R.Shape([7]))", "y = x[1]", "return y")
    assert known(text) == "R.Shape([7])"


# -- calls ---------------------------------------------------------------------------------------
def test_RX_DER_13_packed_functions():
    """A packed function is known by its calls, and is impure."""
    found = struct_info_of(ExternFunc("f"))
    assert (found.params, found.derive_func, found.purity) == (None, DEFAULT_DERIVE, False)


def test_RX_DER_14_operators():
    """A call of an operator is what the operator derives."""
    text = graph("x: R.Tensor((n, 2)), y: R.Tensor((2, m))", "return R.matmul(x, y)")
    assert known(text) == "R.Tensor((n, m))"


@pytest.mark.parametrize("pure", [True, False])
def test_RX_DER_14a_impure_operators(pure: bool):
    """An impure operator stands in no pure function and in no dataflow block."""
    call = "R.print(x)"
    if pure:
        refused("RLX0212", graph(X, call + "  # <--", "return x", pure=True))
        vouched = ('R.func_attr({"relax.force_pure": True})', call, "return x")
        read(graph(X, *vouched, pure=True))
    else:
        read(graph(X, call, "return x"))
        lines = ("with R.dataflow():", f"    y = {call}  # <--", "    R.output(y)", "return x")
        refused("RLX0213", graph(X, *lines))


@pytest.mark.parametrize("info", ["R.Object", "R.Tensor", "R.Tuple()"])
def test_RX_DER_15_only_functions_are_called(info: str):
    """What is called is known to be a function."""
    refused("RLX0208", graph(f"f: {info}", "y = f()  # <--", "return y"))


def test_RX_DER_15a_packed_functions_are_impure():
    """A packed function is not called where calls must be pure."""
    refused("RLX0212", graph(X, f"y = {IMPURE}  # <--", "return y", pure=True))


def test_RX_DER_15b_packed_functions_derive():
    """What a packed function gives is derived; what it is said to return is not looked at."""
    f = Var("f", FuncStructInfo(None, tensor(9), False, lambda call: tensor(len(call.args))))
    x = Var("x", OBJECT)
    made = normalize(Function((f, x), Call(f, (x, x)), is_pure=False))
    equal(made.ret_struct_info, tensor(2))


def test_RX_DER_15c_impure_functions():
    """An impure function is not called where calls must be pure."""
    impure = "f: R.Callable((), R.Object, False)"
    refused("RLX0212", graph(impure, "y = f()  # <--", "return y", pure=True))
    read(graph(impure, "y = f()", "return y"))


@pytest.mark.parametrize("args", ["", "x, x"])
def test_RX_DER_15d_arity(args: str):
    """A call gives as many arguments as there are parameters."""
    text = graph(f"f: R.Callable((R.Object,), R.Object), {X}", f"y = f({args})  # <--", "return y")
    refused("RLX0209", text)


def test_RX_DER_15e_shape_variables_are_substituted():
    """The shape variables of parameters stand for the extents of the arguments."""
    f = "f: R.Callable((R.Tensor((a, b)), R.Prim(value=c)), R.Tensor((a * b + c,)))"
    text = graph(f"{f}, x: R.Tensor((2, 3))", "return f(x, R.prim_value(4))")
    assert known(text) == "R.Tensor((10,))"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("R.Tensor((3,))", None),
        ("R.Tensor(ndim=1)", "RLX0211"),
        ("R.Tensor((4,))", "RLX0210"),
        ("R.Object", "RLX0210"),
    ],
)
def test_RX_DER_15f_arguments_fit(given: str, code: str | None):
    """Arguments are subtypes of the parameters, as decided; what may be is a warning."""
    text = graph(
        f"f: R.Callable((R.Tensor((3,)),), R.Object), x: {given}", "y = f(x)  # <--", "return y"
    )
    if code == "RLX0210":
        refused(code, text)
    else:
        assert warnings(text) == ([code] if code else [])


def test_RX_DER_15g_results_are_erased():
    """What a call gives says nothing in terms of variables that are not in scope."""
    f = "f: R.Callable((R.Tensor((a,)),), R.Tensor((a, 2)))"
    assert known(graph(f"{f}, x: R.Tensor(ndim=1)", "return f(x)")) == "R.Tensor(ndim=2)"


# -- functions -----------------------------------------------------------------------------------
def test_RX_DER_16_signatures():
    """A function is known by its annotations; what has none is an object."""
    x = Var("x")
    equal(func_struct_info(Function((x,), x)), func(OBJECT))
    y = Var("y", tensor(n))
    equal(func_struct_info(Function((y,), y, some())), func(tensor(n), ret=some()))


def test_RX_DER_16a_known_before_the_body():
    """A function is known before its body is checked, so it may call itself."""
    assert mistakes(graph(X, "y = main(x)", "return y", ret=F32)) == []


def test_RX_DER_16b_parameters_enter_scope():
    """Parameters and their shape variables are in scope in the body."""
    text = graph("x: R.Tensor((n, m))", "return (x, R.shape([n + m]))")
    assert known(text) == "R.Tuple(R.Tensor((n, m)), R.Shape([n + m]))"


def test_RX_DER_16c_bodies_fit_the_annotation():
    """A body that cannot be what is annotated is refused; one that may not be is a warning."""
    refused("RLX0214", graph("x: R.Tensor((2,))", "return x  # <--", ret="R.Tensor((3,))"))
    assert warnings(graph("x: R.Tensor(ndim=1)", "return x", ret="R.Tensor((3,))")) == ["RLX0215"]


def test_RX_DER_16d_what_a_function_gives():
    """A function gives what it is annotated to, else what is derived, erased."""
    assert known(graph("x: R.Tensor((2,))", "return x", ret="R.Tensor")) == "R.Tensor()"
    assert known(graph("x: R.Tensor((2,))", "return x")) == "R.Tensor((2,))"


def test_RX_DER_16e_scopes_end():
    """What a function binds is not in scope after it."""
    lines = (
        "@R.function",
        "def f(a: R.Tensor((k,))):",
        "    b = a",
        "    return b",
        "return {}  # <--",
    )
    for late in ("a", "b"):
        refused("SCR0003", graph(X, *lines).replace("{}", late))


KERNEL = """
@T.prim_func
def k(a: T.handle, c: T.float32, s: T.int64):
    n = T.int64()
    A = T.match_buffer(a, (n, n * 2), "float16")
    T.evaluate(0)
"""


def test_RX_DER_17_scalars_of_kernels():
    """A parameter of a kernel that is not a buffer is a scalar of its dtype."""
    found = func_struct_info(from_source(KERNEL))
    equal(found.params[1], prim("float32"))
    equal(found.params[2], prim("int64"))


def test_RX_DER_17a_buffers_of_kernels():
    """A buffer of a kernel is a tensor of its dtype and shape."""
    first = func_struct_info(from_source(KERNEL)).params[0]
    rows = first.dims[0]
    equal(first, TensorStructInfo((rows, rows * 2), "float16"))


def test_RX_DER_17b_kernels_return_nothing():
    """A kernel gives the empty tuple, and is impure."""
    found = func_struct_info(from_source(ADD))
    equal(found.ret, UNIT)
    assert not found.purity


# -- purity --------------------------------------------------------------------------------------
def test_RX_PUR_01_packed_functions_are_impure():
    """Calls of packed functions are impure, unless the call says otherwise."""
    refused("RLX0212", graph(X, f"y = {IMPURE}  # <--", "return y", pure=True))
    read(
        graph(X, f"y = {IMPURE.replace('call_packed', 'call_pure_packed')}", "return y", pure=True)
    )


@pytest.mark.parametrize(("call", "pure"), [("R.exp(x)", True), ("R.print(x)", False)])
def test_RX_PUR_02_operators_say_whether_they_are_pure(call: str, pure: bool):
    """Each operator is pure or impure."""
    text = graph(X, f"y = {call}  # <--", "return y", pure=True)
    assert read(text) if pure else refused("RLX0212", text)


def test_RX_PUR_03_functions_say_whether_they_are_pure():
    """A function is as pure as it is annotated."""
    for purity in (True, False):
        made = read(graph(X, "return x", pure=purity))
        assert func_struct_info(made).purity is purity


def test_RX_PUR_04_dataflow_blocks_are_pure():
    """An impure call in a dataflow block is refused, also in an impure function."""
    lines = ("with R.dataflow():", f"    y = {IMPURE}  # <--", "    R.output(y)", "return y")
    refused("RLX0213", graph(X, *lines))


def test_RX_PUR_05_pure_functions_are_pure():
    """An impure call in a pure function is refused."""
    other = graph(X, "return x", pure=False, name="other", ret=F32)
    refused("RLX0212", module(other, graph(X, "y = cls.other(x)  # <--", "return y", pure=True)))


def test_RX_PUR_06_force_pure_vouches():
    """The attribute relax.force_pure vouches for the calls of its function."""
    text = graph(
        X, 'R.func_attr({"relax.force_pure": True})', f"y = {IMPURE}", "return y", pure=True
    )
    assert mistakes(text) == []
    with packed(f=lambda x: x * 2):
        assert both(text.replace('"f"', '"test.f"'), ONES).tolist() == [2, 2, 2, 2]


# -- devices -------------------------------------------------------------------------------------
LISTED = 'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})'


def on(number: int) -> str:
    return f'R.Tensor((4,), "float32", "llvm:{number}")'


def realized(*functions: str) -> str:
    """Return a module with its devices filled in, as text."""
    return str(realize_vdevice(read(module(LISTED, *functions))))


def devices(signature: str, *lines: str, ret: str = "") -> list[str]:
    """Return what is known of each variable of a function after devices are filled in."""
    made = realize_vdevice(read(module(LISTED, graph(signature, *lines, ret=ret))))["main"]
    infos = [p.struct_info for p in made.params] + [b.var.struct_info for b in bindings(made)]
    return [
        str(getattr(i, "vdevice", None).dev_id) if getattr(i, "vdevice", None) else "-"
        for i in infos
    ]


def test_RX_VD_01_without_devices_nothing_is_done():
    """A module that lists no devices stays as it is."""
    made = read(module(graph(X, "y = R.exp(x)", "return y")))
    assert realize_vdevice(made) is made


def test_RX_VD_02_two_devices_are_an_error():
    """A tensor that is on a device is not put on another."""
    with pytest.raises(CompileError) as caught:
        update_struct_info(tensor(4, vdevice=V0), V1)
    assert caught.value.diagnostic.code == "RLX0320"


def test_RX_VD_02a_tensors():
    """A tensor is put on the device."""
    equal(update_struct_info(tensor(4), V0), tensor(4, vdevice=V0))
    equal(update_struct_info(some("int8", 2), V0), some("int8", 2, V0))


def test_RX_VD_02b_tuples():
    """A tuple is put there field by field."""
    equal(
        update_struct_info(tuple_of(tensor(4), shape(1)), V0),
        tuple_of(tensor(4, vdevice=V0), shape(1)),
    )


def test_RX_VD_02c_functions():
    """What a function gives is put there; a packed function stays."""
    equal(
        update_struct_info(func(tensor(4), ret=tensor(4)), V0),
        func(tensor(4), ret=tensor(4, vdevice=V0)),
    )
    f = opaque(DEFAULT_DERIVE)
    assert update_struct_info(f, V0) is f


@pytest.mark.parametrize("info", [OBJECT, shape(2), prim()], ids=str)
def test_RX_VD_02d_others(info: object):
    """Anything else stays."""
    assert update_struct_info(info, V0) is info


def test_RX_VD_03_results_of_functions():
    """What is returned is on the device that is annotated, as decided."""
    assert devices(X, "y = R.exp(x)", "return y", ret=on(1)) == ["1", "1"]


def test_RX_VD_04_calls():
    """The arguments of a call are on the device of its result, but for moves, as decided."""
    signature = f"{X}, z: {F32}"
    assert devices(signature, "y = R.add(x, z)", "return y", ret=on(1)) == ["1", "1", "1"]
    moved = ('y = R.to_vdevice(x, "llvm:1")', "return y")
    assert devices(f"x: {on(0)}", *moved) == ["0", "1"]


def test_RX_VD_05_sequences():
    """The body of a sequence is on its device, and its bindings are searched."""
    lines = ("y = R.exp(x)", "z = R.exp(y)", "return z")
    assert devices(X, *lines, ret=on(0)) == ["0", "0", "0"]


def test_RX_VD_05a_bindings():
    """A variable and its value are on one device, whichever is known."""
    assert devices(f"x: {on(1)}", "y = x", "z = R.exp(y)", "return z") == ["1", "1", "1"]
    assert devices(X, "y = x", f"z: {on(1)} = R.exp(y)", "return z") == ["1"] * 4


def test_RX_VD_05b_checks():
    """Variable, annotation and value of a check are on one device."""
    lines = ('y = R.match_cast(x, R.Tensor((k,), "float32"))', "z = R.exp(y)", "return z")
    assert devices(f"x: {on(1)}", *lines)[:2] == ["1", "1"]


def test_RX_VD_06_other_expressions():
    """Branches and closures are searched too."""
    lines = ("if c:", "    y = R.exp(x)", "else:", "    y = R.negative(x)", "return y")
    found = devices(f'c: R.Tensor((), "bool", "llvm:1"), {X}', *lines, ret=on(1))
    assert found == ["1", "1", "1"]


def test_RX_VD_07_devices_go_on_forward():
    """What is derived again holds the devices that were found."""
    assert devices(f"x: {on(1)}", "y = R.exp(x)", "z = R.exp(y)", "return z") == ["1", "1", "1"]


def test_RX_VD_08_tensors_that_are_nowhere():
    """An argument whose device nothing tells is an error."""
    text = module(LISTED, graph(X, "y = R.exp(x)", "return y"))
    with pytest.raises(CompileError) as caught:
        realize_vdevice(read(text))
    assert caught.value.diagnostic.code == "RLX0321"
