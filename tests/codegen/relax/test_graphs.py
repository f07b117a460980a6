"""Compiled graphs against interpreted ones, construct by construct."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.support.objects import count_objects, live_objects
from loomir.ir.module import GlobalVar, VDevice
from loomir.relax import (
    BindingBlock,
    Call,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
)
from loomir.relax.struct_info import OBJECT, FuncStructInfo, ShapeStructInfo, TensorStructInfo
from loomir.runtime.shape import Shape
from loomir.script import from_source
from loomir.support.diagnostics import RunError
from loomir.support.dtype import DataType
from tests.clause import clauses
from tests.codegen.relax.compare_engines import agree, compiled, fails
from tests.interp.relax.build import (
    bind,
    call_tir,
    cast,
    const,
    func,
    module,
    op,
    packed,
    prim,
    prim_func,
    seq,
    shape,
    size,
    tensor,
    tuple_of,
    var,
)
from tests.interp.relax.conftest import Register, register

__all__ = ["register"]

ADD = prim_func("""
@T.prim_func
def add(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        with T.block("add"):
            vi = T.axis.remap("S", [i])
            C[vi] = A[vi] + B[vi]
""")
DOUBLE = prim_func("""
@T.prim_func
def double(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        with T.block("double"):
            vi = T.axis.remap("S", [i])
            A[vi] = A[vi] * T.float32(2)
""")
FILL = prim_func("""
@T.prim_func
def fill(k: T.int64, c: T.handle):
    n = T.int64()
    C = T.match_buffer(c, (n,), "int32")
    for i in range(n):
        with T.block("fill"):
            vi = T.axis.remap("S", [i])
            C[vi] = T.cast(vi + k, "int32")
""")
X = np.arange(4, dtype="float32")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Count objects: after a test, all of them are gone."""
    count_objects(True)
    yield
    left = live_objects()
    count_objects(False)
    assert left == 0


def chain(count: int) -> Any:
    n = size("n")
    info = tensor(n)
    x = last = var("x", info)
    bindings: list[Any] = []
    for i in range(count):
        made = var(f"y{i}", info)
        bindings.append(bind(made, call_tir("add", [last, x], info)))
        last = made
    return module(main=func([x], seq(last, *bindings, dataflow=False), info), add=ADD)


# -- kernels -----------------------------------------------------------------------------------
@clauses("RX-OPS-01e")
@pytest.mark.parametrize("count", [0, 1, 2, 10, 200])
def test_kernels_in_a_chain(count: int) -> None:
    agree(chain(count), X)
    agree(chain(count), np.zeros(0, "float32"))


def test_several_results_come_as_a_tuple() -> None:
    two = prim_func("""
@T.prim_func
def two(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((2,), "int8")):
    for i in range(4):
        b[i] = -a[i]
    for i in range(2):
        c[i] = T.int8(i + 5)
""")
    x, y = var("x", tensor(4)), var("y", tuple_of(tensor(4), tensor(2, dtype="int8")))
    z = var("z", tensor(2, dtype="int8"))
    infos = (tensor(4), tensor(2, dtype="int8"))
    made = call_tir("two", [x], *infos)
    agree(module(main=func([x], seq(y, bind(y, made))), two=two), X)
    program = module(main=func([x], seq(z, bind(y, made), bind(z, TupleGetItem(y, 1)))), two=two)
    agree(program, X)


def test_numbers_come_behind_tensors() -> None:
    n = size("n")
    s, y = var("s", shape(n)), var("y", tensor(n * 2, dtype="int32"))
    call = call_tir("fill", [], tensor(n * 2, dtype="int32"), ints=ShapeExpr((n + 1,)))
    agree(module(main=func([s], seq(y, bind(y, call))), fill=FILL), Shape([3]))


def test_in_place_calls_write_their_inputs_and_copy_constants() -> None:
    x, y = var("x", tensor(4)), var("y", tensor(4))
    call = op(
        "call_tir_inplace",
        GlobalVar("double"),
        Tuple((x,)),
        sinfo=(tensor(4),),
        inplace_indices=(0,),
    )
    agree(module(main=func([x], seq(y, bind(y, call))), double=DOUBLE), X)
    c = const([1, 2, 3, 4])
    call = op(
        "call_tir_inplace",
        GlobalVar("double"),
        Tuple((c,)),
        sinfo=(tensor(4),),
        inplace_indices=(0,),
    )
    program = module(main=func([x], seq(y, bind(y, call))), double=DOUBLE)
    function = compiled(program)
    for _ in range(3):
        assert function(X).tolist() == [2, 4, 6, 8]


def test_kernels_are_called_directly_too() -> None:
    x, u = var("x", tensor(4)), var("u")
    program = module(
        main=func([x], seq(x, bind(u, Call(GlobalVar("double"), (x,))))), double=DOUBLE
    )
    agree(program, X)
    bad = module(
        main=func([x], seq(x, bind(u, Call(GlobalVar("double"), (const([1.0]),))))), double=DOUBLE
    )
    assert fails(bad, X) == "RUN0413"


# -- sizes -------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 5])
def test_sizes_are_computed(n: int) -> None:
    k = size("k")
    x = var("x", tensor(k))
    s = ShapeExpr((k + 1, k * 3, k // 2, k % 3, k - 7, (k + 9) // (k + 1)))
    agree(func([x], seq(s)), np.zeros(n, "float32"))
    agree(func([x], seq(PrimValue(k * k))), np.zeros(n, "float32"))


@pytest.mark.parametrize(
    ("value", "code"),
    [(2**62, "RUN0410"), (2**61, "RUN0411"), (-1, "RUN0409"), (0, "RUN0201")],
)
def test_sizes_that_cannot_be_are_errors(value: int, code: str) -> None:
    k = size("k")
    s, y = var("s", shape(k)), var("y", tensor(k * 2, dtype="int32"))
    dims = {"RUN0410": k * 2, "RUN0411": k, "RUN0409": k, "RUN0201": k + 5 // k}[code]
    info = tensor(dims, dtype="int32")
    y = var("y", info)
    call = call_tir("fill", [], info, ints=ShapeExpr((k,)))
    assert fails(module(main=func([s], seq(y, bind(y, call))), fill=FILL), Shape([value])) == code


# -- values ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "value",
    [X, (X, (X, 3)), (), Shape([]), Shape([2, -3]), np.int8(-3), np.float16(0.5), True, 5, 0.25]
    + ["", "text é", None, DataType("bfloat16"), np.uint64(2**64 - 1), object, [1]],
)
def test_values_pass_through(value: Any) -> None:
    x = var("x", OBJECT)
    agree(func([x], seq(x)), value)
    agree(
        func([x], seq(Tuple((x, Tuple((x, StringImm("s"), DataTypeImm(DataType("int8")))))))), value
    )


def test_what_comes_in_goes_out_itself() -> None:
    x = var("x", OBJECT)
    function = compiled(func([x], seq(Tuple((x, x)))))
    thing = object()
    assert function(X)[0] is X
    assert function(thing)[1] is thing


def test_results_own_their_memory() -> None:
    function = compiled(chain(3))
    made = [function(np.full(1000, i, "float32")) for i in range(50)]
    assert all((m == 4 * i).all() for i, m in enumerate(made))
    made[0][:] = 7
    view = made[1][10:20]
    del made
    assert (view == 4).all()


def test_a_deep_tuple_goes_through() -> None:
    x = var("x", OBJECT)
    function = compiled(func([x], seq(Tuple((x,)))))
    deep: Any = ()
    for _ in range(100_000):
        deep = (deep,)
    result = function(deep)
    count = 0
    while result:
        (result,) = result
        count += 1
    assert count == 100_001


# -- branches ----------------------------------------------------------------------------------
@pytest.mark.parametrize("value", [True, False])
def test_branches(value: bool) -> None:
    c, x = var("c", tensor(dtype="bool")), var("x", tensor(4))
    t, f, y, z = (var(n, tensor(4)) for n in "tfyz")
    body = seq(
        z,
        bind(
            y,
            If(
                c,
                seq(t, bind(t, call_tir("add", [x, x], tensor(4)))),
                seq(f, bind(f, x)),
            ),
        ),
        bind(z, call_tir("add", [y, x], tensor(4))),
    )
    agree(module(main=func([c, x], body), add=ADD), np.array(value), X)


@pytest.mark.parametrize(
    "value", [True, np.bool_(False), np.array(True), 1, X, "x", (), np.ones(1, bool)]
)
def test_conditions_of_unknown_kind(value: Any) -> None:
    c, y = var("c", OBJECT), var("y")
    program = func([c], seq(y, bind(y, If(c, seq(StringImm("yes")), seq(StringImm("no"))))))
    fits = isinstance(value, (bool, np.bool_)) or (
        isinstance(value, np.ndarray) and value.dtype == bool and value.ndim == 0
    )
    if fits:
        agree(program, value)
    else:
        assert fails(program, value) == "RUN0408"


# -- checks ------------------------------------------------------------------------------------
N, M = size("n"), size("m")


@pytest.mark.parametrize(
    ("info", "value"),
    [
        (tensor(4), X),
        (TensorStructInfo(None, DataType("float32"), None, -1), X),
        (TensorStructInfo(None, DataType("float32"), None, 1), X),
        (TensorStructInfo(), np.zeros((2, 2), "int8")),
        (tuple_of(tensor(4), prim("int64")), (X, 3)),
        (tuple_of(tuple_of(OBJECT)), ((X,),)),
        (shape(1, 2), Shape([1, 2])),
        (ShapeStructInfo(None, 2), Shape([1, 2])),
        (prim("float32"), 0.5),
        (prim("uint8"), 255),
        (prim("bool"), True),
    ],
)
def test_values_that_match(info: Any, value: Any) -> None:
    x, y = var("x", OBJECT), var("y", info)
    agree(func([x], seq(y, cast(y, x, info))), value)
    agree(func([y], seq(y)), value)


@pytest.mark.parametrize(
    ("info", "value"),
    [
        (tensor(4), X[:3].copy()),
        (tensor(4), X.astype("float64")),
        (tensor(4), X.reshape(2, 2)),
        (tensor(4), "text"),
        (tensor(4), (X,)),
        (tuple_of(tensor(4), prim("int64")), (X,)),
        (tuple_of(tensor(4), prim("int64")), (X, np.int32(3))),
        (tuple_of(tensor(4), prim("int64")), (X, "x")),
        (tuple_of(tuple_of(tensor(4))), ((X[:2].copy(),),)),
        (shape(1, 2), Shape([1, 3])),
        (shape(1, 2), Shape([1])),
        (shape(1, 2), (1, 2)),
        (prim("uint8"), 256),
        (prim("uint8"), "x"),
        (prim("uint8"), 0.5),
        (FuncStructInfo((), OBJECT), 3),
    ],
)
def test_values_that_do_not_match(info: Any, value: Any) -> None:
    x, y = var("x", OBJECT), var("y", info)
    fails(func([x], seq(y, cast(y, x, info))), value)
    fails(func([y], seq(y)), value)


@clauses("RX-ENTRY-01", "RX-ENTRY-04", "RX-ENTRY-06")
def test_variables_are_bound_over_all_parameters() -> None:
    x, y = var("x", tensor(N * M)), var("y", tensor(M, N))
    program = func([x, y], seq(ShapeExpr((N, M))), shape(N, M))
    agree(program, np.zeros(6, "float32"), np.zeros((2, 3), "float32"))
    fails(program, np.zeros(5, "float32"), np.zeros((2, 3), "float32"))


def test_match_cast_binds_sizes() -> None:
    x, y, z = var("x", OBJECT), var("y", tensor(N, N)), var("z", tensor(N * N))
    program = func([x], seq(ShapeExpr((N, N * 2)), cast(y, x, tensor(N, N))))
    agree(program, np.zeros((3, 3), "float32"))
    fails(program, np.zeros((3, 4), "float32"))
    del z


# -- functions ---------------------------------------------------------------------------------
def test_functions_call_one_another() -> None:
    x, y, z = var("x", tensor(N)), var("y", tensor(M)), var("z", tensor(M))
    inner = Function((y,), seq(z, bind(z, call_tir("add", [y, y], tensor(M)))), tensor(M))
    r = var("r", tensor(N))
    program = module(
        main=func([x], seq(r, bind(r, Call(GlobalVar("inner"), (x,)))), tensor(N)),
        inner=inner,
        add=ADD,
    )
    agree(program, X)


def test_recursion_ends_or_is_an_error() -> None:
    s, c = var("s", shape(N)), var("c", prim("bool"))
    again = var("r", OBJECT)
    down = seq(again, bind(again, Call(GlobalVar("main"), (ShapeExpr((N - 1,)),))))
    y = var("y", OBJECT)
    program = module(
        main=func(
            [s],
            seq(
                y,
                bind(c, PrimValue(N > 0)),
                bind(y, If(c, down, seq(StringImm("done")))),
            ),
            OBJECT,
        )
    )
    agree(program, Shape([10]))
    agree(program, Shape([1000]))
    assert fails(program, Shape([1001])) == "RUN0204"


def test_closures_capture_values_and_sizes(register: Register) -> None:
    x, y, f, g = var("x", tensor(N)), var("y", tensor(N)), var("f"), var("g")
    made, r = var("made", tensor(N)), var("r")
    inner = Function(
        (y,),
        seq(Tuple((made, ShapeExpr((N, N + 1)))), bind(made, call_tir("add", [x, y], tensor(N)))),
        None,
    )
    program = module(
        main=func([x], seq(r, bind(f, inner), bind(g, f), bind(r, Call(g, (x,))))), add=ADD
    )
    agree(program, X)
    maker = module(main=func([x], seq(f, bind(f, inner))), add=ADD)
    closure = compiled(maker)(X)
    total, sizes = closure(np.ones(4, "float32"))
    assert total.tolist() == [1, 2, 3, 4]
    assert sizes == (4, 5)
    with pytest.raises(ValueError, match="RUN0404"):
        closure(np.ones(3, "float32"))
    with pytest.raises(TypeError, match="RUN0101"):
        closure()


def test_a_closure_calls_itself() -> None:
    x, s, c = var("x", shape(N)), var("s", shape(M)), var("c", prim("bool"))
    y, r, w = var("y", OBJECT), var("r", OBJECT), var("w", OBJECT)
    f = var("f", FuncStructInfo((shape(M),), OBJECT, False))
    again = seq(w, bind(w, Call(f, (ShapeExpr((M - 1,)),))))
    body = seq(y, bind(c, PrimValue(M > 0)), bind(y, If(c, again, seq(ShapeExpr((M, N))))))
    inner = Function((s,), body, OBJECT, False)
    agree(func([x], seq(r, bind(f, inner), bind(r, Call(f, (x,))))), Shape([7]))


def test_functions_go_through_another_program() -> None:
    x, f, r = (
        var("x", tensor(N)),
        var("f", FuncStructInfo((tensor(N),), OBJECT, False)),
        var("r", OBJECT),
    )
    maker = compiled(chain(1))
    user = compiled(func([x, f], seq(r, bind(r, Call(f, (x,))))))
    for _ in range(3):
        assert user(X, maker).tolist() == (2 * X).tolist()
    with pytest.raises(TypeError, match="RUN0401"):
        user(X, lambda a: a)


# -- packed functions --------------------------------------------------------------------------
def test_packed_functions_get_and_give_values(register: Register) -> None:
    seen: list[Any] = []

    def note(*args: Any) -> Any:
        seen.append(args)
        return args

    register("test.note", note)
    x, y = var("x", tensor(N)), var("y", OBJECT)
    args = (
        x,
        ShapeExpr((N,)),
        PrimValue(N),
        StringImm("s"),
        DataTypeImm(DataType("int8")),
        const([1.0]),
    )
    agree(func([x], seq(y, bind(y, packed("test.note", *args)))), X)
    assert len(seen) == 2


def test_what_a_packed_function_raises_comes_out(register: Register) -> None:
    class OddError(Exception):
        pass

    def fail(*args: Any) -> Any:
        raise OddError("odd")

    register("test.fail", fail)
    x, y = var("x", tensor(N)), var("y", OBJECT)
    function = compiled(func([x], seq(y, bind(y, packed("test.fail", x)))))
    for _ in range(3):
        with pytest.raises(OddError, match="odd"):
            function(X)
    unknown = func([x], seq(y, bind(y, packed("test.nobody", x))))
    assert fails(unknown, X) == "RUN0304"


def test_claims_are_checked(register: Register) -> None:
    register("test.give", lambda x: x[:2].copy())
    x, y = var("x", tensor(4)), var("y", tensor(4))
    program = func([x], seq(y, bind(y, packed("test.give", x, sinfo=(tensor(4),)))))
    assert fails(program, X) == "RUN0404"
    register("test.number", lambda: 3)
    y = var("y", prim("int32"))
    agree(func([], seq(y, bind(y, packed("test.number", sinfo=(prim("int32"),))))))


def test_packed_functions_write_outputs(register: Register) -> None:
    def put(x: Any, out: Any) -> None:
        out[:] = x + 1

    register("test.put", put)
    x, y = var("x", tensor(N)), var("y", tensor(N))
    call = op("call_dps_packed", ExternFunc("test.put"), Tuple((x,)), sinfo=(tensor(N),))
    agree(func([x], seq(y, bind(y, call))), X)


def test_packed_functions_keep_what_they_get(register: Register) -> None:
    kept: list[Any] = []
    register("test.keep", lambda *a: kept.append(a))
    x, y, z = var("x", tensor(N)), var("y", tensor(N)), var("z", OBJECT)
    program = module(
        main=func(
            [x],
            seq(
                z,
                bind(y, call_tir("add", [x, x], tensor(N))),
                bind(z, packed("test.keep", y, x, const([5.0]))),
            ),
        ),
        add=ADD,
    )
    function = compiled(program)
    for i in range(20):
        function(np.full(100, i, "float32"))
    del function
    assert all((a == 2 * i).all() and (b == i).all() for i, (a, b, _) in enumerate(kept))
    assert all(c.tolist() == [5] and not c.flags.writeable for _, _, c in kept)
    kept.clear()


def test_print_and_assert(register: Register, capsys: pytest.CaptureFixture[str]) -> None:
    x, u = var("x", tensor(N)), var("u")
    agree(func([x], seq(x, bind(u, op("print", PrimValue(N), x, format="{} of {}")))), X)
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 2
    assert out[0] == out[1]
    c = var("c", prim("bool"))
    program = func([c], seq(c, bind(u, op("assert_op", c, PrimValue(3), format="bad {}"))))
    agree(program, True)
    assert fails(program, False) == "RUN0202"


# -- operators on values -----------------------------------------------------------------------
def test_shapes_and_tensors() -> None:
    x, s, t, r, k = var("x", OBJECT), var("s"), var("t"), var("r"), var("k")
    y = var("y", TensorStructInfo())
    program = func(
        [x],
        seq(
            Tuple((s, t, r)),
            cast(y, x, TensorStructInfo()),
            bind(s, op("shape_of", y)),
            bind(t, op("shape_to_tensor", s)),
            bind(r, op("tensor_to_shape", t)),
        ),
    )
    for dims in ((), (3,), (2, 0, 4)):
        agree(program, np.zeros(dims, "int8"))
    z = var("z", tensor(N, dtype="int64"))
    program = func([z], seq(k, bind(k, op("tensor_to_shape", z))))
    agree(program, np.array([3, 0, 5]))
    assert fails(program, np.array([3, -4, 5])) == "RUN0409"


def test_copies_to_devices() -> None:
    x, y = var("x", tuple_of(tensor(4), OBJECT)), var("y")
    program = func([x], seq(y, bind(y, op("to_vdevice", x, dst_vdevice=VDevice("llvm")))))
    agree(program, (X, (X, "s")))
    result = compiled(program)((X, X))
    assert result[0] is not X
    assert result[1] is not X


def test_partial_functions() -> None:
    x, f, r = var("x", tensor(4)), var("f"), var("r")
    a, b, c = var("a", tensor(4)), var("b", tensor(4)), var("c", tensor(4))
    inner = Function((a, b), seq(c, bind(c, call_tir("add", [a, b], tensor(4)))), tensor(4))
    program = module(
        main=func(
            [x],
            seq(
                r,
                bind(f, op("make_closure", GlobalVar("inner"), Tuple((const([1, 2, 3, 4]),)))),
                bind(r, op("invoke_pure_closure", f, Tuple((x,)), sinfo=(tensor(4),))),
            ),
        ),
        inner=inner,
        add=ADD,
    )
    agree(program, X)


def test_null() -> None:
    y = var("y", OBJECT)
    assert agree(func([], seq(y, bind(y, op("null_value"))))) is None


# -- the blocks of a program -------------------------------------------------------------------
def test_blocks_in_a_row() -> None:
    x, y, z = (var(n, tensor(4)) for n in "xyz")
    blocks = (
        BindingBlock((bind(y, call_tir("add", [x, x], tensor(4))),)),
        BindingBlock((bind(z, call_tir("add", [y, x], tensor(4))),)),
    )
    agree(module(main=func([x], SeqExpr(blocks, z)), add=ADD), X)


# -- memory ------------------------------------------------------------------------------------
def in_storage(bytes_: int, offset: int, *dims: int, dtype: str = "float32") -> Any:
    """Return a program that makes a tensor in storage, has a kernel write it, and gives it."""
    x, s, y, u = (
        var("x", tensor(4)),
        var("s", OBJECT),
        var("y", tensor(*dims, dtype=dtype)),
        var("u"),
    )
    storage = op(
        "memory.alloc_storage",
        ShapeExpr((bytes_,)),
        virtual_device_index=0,
        storage_scope="global",
        dtype=DataType("uint8"),
    )
    place = op(
        "memory.alloc_tensor",
        s,
        PrimValue(offset),
        ShapeExpr(dims),
        dtype=DataType(dtype),
        runtime_device_ind=0,
    )
    call = Call(GlobalVar("add"), (x, x, y))
    return func([x], seq(y, bind(s, storage), bind(y, place), bind(u, call)))


@pytest.mark.parametrize("offset", [0, 16, 48])
def test_tensors_in_storage(offset: int) -> None:
    function = compiled(module(main=in_storage(64, offset, 4), add=ADD))
    first, second = function(X), function(X + 1)
    assert first.tolist() == [0, 2, 4, 6]
    assert second.tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("size", "offset", "dims", "code"),
    [
        (63, 48, (4,), "RUN0450"),
        (16, 20, (4,), "RUN0450"),
        (16, -4, (4,), "RUN0450"),
        (64, 2, (4,), "RUN0451"),
        (64, 0, (2**62, 8), "RUN0411"),
        (-1, 0, (4,), "RUN0409"),
        (2**62, 0, (4,), "RUN0207"),
    ],
)
def test_tensors_that_no_storage_has(
    size: int, offset: int, dims: tuple[int, ...], code: str
) -> None:
    program = in_storage(size, offset, *dims)
    function = compiled(module(main=program, add=ADD)) if len(dims) == 1 else None
    if function is None:
        s, y = var("s", OBJECT), var("y", tensor(*dims))
        storage, place = (b.value for b in program.body.blocks[0].bindings[:2])
        place = Call(place.op, (s, *place.args[1:]), attrs=place.attrs)
        function = compiled(func([], seq(y, bind(s, storage), bind(y, place))))
        with pytest.raises(Exception, match=code):
            function()
        return
    with pytest.raises(Exception, match=code):
        function(X)


def test_views_share_memory() -> None:
    x, y = var("x", tensor(4)), var("y", tensor(2, dtype="int32"))
    view = op(
        "memory.view",
        x,
        ShapeExpr((2,)),
        dtype=DataType("int32"),
        relative_byte_offset=8,
    )
    function = compiled(func([x], seq(y, bind(y, view))))
    given = X.copy()
    seen = function(given)
    assert seen.tolist() == X.view("int32")[2:].tolist()
    given[2] = -1
    assert seen[0] == given.view("int32")[2]


PLACES = """
from loomir.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add(
        A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")
    ):
        for i in range(4):
            with T.sblock("add"):
                vi = T.axis.spatial(4, i)
                C[vi] = A[vi] + B[vi]

    @R.function(pure=False)
    def main(
        x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")
    ) -> R.Tensor((4,), "float32"):
        cls = Module
        r = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
        s = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
        o = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
        one = R.memory.alloc_tensor(r, 0, R.shape([4]), "float32")
        _1 = cls.add(x, x, one)
        two = R.memory.alloc_tensor(s, 0, R.shape([4]), "float32")
        _2 = cls.add(x, w, two)
        again = R.memory.alloc_tensor(s, 0, R.shape([4]), "float32")
        out = R.memory.alloc_tensor(o, 0, R.shape([4]), "float32")
        _3 = cls.add(x, again, out)
        if c:
            other = R.memory.alloc_tensor(r, 0, R.shape([4]), "float32")
            _4 = cls.add(w, w, other)
            y = out
        else:
            y = out
        last = R.memory.alloc_tensor(r, 0, R.shape([4]), "float32")
        p = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
        z = R.memory.alloc_tensor(p, 0, R.shape([4]), "float32")
        _5 = cls.add(last, y, z)
        return z
"""


def test_tensors_in_storage_are_placed_again_after_branches() -> None:
    program = from_source(PLACES)
    exe = loomir.compile(program, opt_level=0)
    w = np.float32([10, 20, 30, 40])
    for c in (True, False):
        args = X.copy(), w, np.array(c)
        wanted = loomir.interpret(program, "main", *args)
        assert wanted.tolist() == (w + X * 2 + (w * 2 if c else X * 2)).tolist()
        assert exe["main"](*args).tolist() == wanted.tolist()
    # That of `again` is there already.
    assert exe.llvm_ir().count("call i32 @loomir_tensor_place(") == 4


WAYS = """
from loomir.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("add"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] + T.float32(1)

    @R.function(pure=False)
    def main(x: R.Tensor((EXTENT,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        s = R.memory.alloc_storage(R.shape([64]), 0, "global", "uint8")
        o = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
        y = R.memory.alloc_tensor(s, 0, R.shape([4]), "float32")
        z = R.memory.alloc_tensor(s, OFFSET, R.shape([4]), "float32")
        out = R.memory.alloc_tensor(o, 0, R.shape([4]), "float32")
        _1 = cls.add(x, y)
        _2 = cls.add(y, z)
        _3 = cls.add(z, out)
        return out
"""


@pytest.mark.parametrize(
    ("extent", "given", "offset", "checked", "code"),
    [
        ("4", 4, 16, False, ""),
        ("4", 4, 12, True, "RUN0008"),
        ('"n"', 4, 16, True, ""),
        ('"n"', 5, 16, True, "RUN0005"),
    ],
    ids=["proved", "overlap", "unknown", "extent"],
)
def test_kernels_check_what_is_not_proved(
    extent: str, given: int, offset: int, checked: bool, code: str
) -> None:
    text = WAYS.replace("EXTENT", extent).replace("OFFSET", str(offset))
    exe = loomir.compile(from_source(text), opt_level=0)
    assert ("@add.kernel(" in exe.llvm_ir()) is checked
    x = np.zeros(given, "float32")
    if code:
        with pytest.raises(RunError, match=code):
            exe["main"](x)
    else:
        assert exe["main"](x).tolist() == [3, 3, 3, 3]
