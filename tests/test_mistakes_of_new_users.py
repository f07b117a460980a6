"""More mistakes of a first day, by layer: each message says what is right for the user's own case."""

from __future__ import annotations

import importlib
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pytest
import torch

import loomir
from loomir import op, relax, te
from loomir.ir.passes import PASSES, Pipeline
from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T

UNTYPED: Final[Any] = loomir
OP: Final[Any] = op
RELAX: Final[Any] = relax
TE: Final[Any] = te
SCRIPTS: Final[Any] = {"I": I, "R": R, "T": T}
X: Final[Any] = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
PAIR: Final[Any] = relax.Var(
    "p", relax.TupleStructInfo((relax.TensorStructInfo((4,), "float32"),) * 2)
)
A: Final[Any] = te.placeholder((8, 8), name="A")


@T.prim_func
def product(
    a: T.Buffer((8, 8), "float32"), b: T.Buffer((8, 8), "float32"), c: T.Buffer((8, 8), "float32")
):
    for i, j, k in T.grid(8, 8, 8):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = 0.0
            c[vi, vj] += a[vi, vk] * b[vk, vj]


@R.function
def double(x: R.Tensor((8,), "float32")):
    return x + x


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def told(call: Callable[[], object]) -> str:
    with pytest.raises((loomir.CompileError, loomir.RunError)) as caught:
        call()
    assert caught.value.diagnostics[0].message
    return caught.value.diagnostics[0].help


def scheduled() -> tuple[Any, Any, Any]:
    sch: Any = loomir.Schedule(product)
    return sch, sch.get_sblock("C"), sch.get_loops("C")[0]


VALUES: Final[Mapping[str, tuple[Callable[[], object], str]]] = {
    "len": (lambda: len(X), "write x.shape[0]"),
    "sum": (lambda: sum(X), "write op.sum(x)"),
    "unpack": (lambda: [*X], "take its parts: x[0], x[1], or op.split(x, 2, axis=0)"),
    "float": (lambda: float(X), "compile the program, call it"),
    "max": (lambda: max(X, X * 2.0), "write op.maximum(X, X * 2.0)"),
    "items": (lambda: X.items, "it has x.shape and x.dtype"),
    "field": (lambda: PAIR.sum, "use its fields, p[0] to p[1]"),
    "ndim": (lambda: X.ndim, "write len(x.shape)"),
    "numpy": (lambda: X.numpy, "compile the program, call it"),
    "T": (lambda: X.T, "write op.permute_dims(x)"),
    "view": (lambda: X.view(2, 2), "write op.reshape(x, ...)"),
    "store": (lambda: X.__setitem__(0, 1.0), "op.scatter_elements"),
    "operator": (lambda: OP.relu(X), "write op.nn.relu"),
    "variable": (
        lambda: RELAX.Var("x", (4,), "float32"),
        'write relax.Var("x", relax.TensorStructInfo((4,), "float32"))',
    ),
    "by name": (lambda: RELAX.Var("x", shape=(2,), dtype="int8"), '((2,), "int8"))'),
    "dtype first": (
        lambda: RELAX.TensorStructInfo("float32", (4,)),
        'write relax.TensorStructInfo((4,), "float32")',
    ),
    "one extent": (lambda: RELAX.TensorStructInfo(4, "int8"), 'relax.TensorStructInfo((4,), "'),
    "no extent": (lambda: RELAX.TensorStructInfo((None, 4)), '("n", 4)'),
    "type": (lambda: RELAX.const([1], float), 'write "float32"'),
    "gradient": (lambda: relax.const(torch.ones(3, requires_grad=True)), ".detach().numpy()"),
    "build": (lambda: RELAX.build(1), "write loomir.compile(mod)"),
    "machine": (lambda: RELAX.VirtualMachine(1), "write loomir.compile(mod), and call"),
    "layers": (lambda: RELAX.nn, "op.nn.relu(op.linear(x, w, b))"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_the_builder(name: str):
    call, wanted = VALUES[name]
    assert wanted in told(call)


def test_tuples_have_a_length_and_tensors_round():
    assert len(PAIR) == 2
    assert str(round(X)).startswith("R.round")
    assert not hasattr(X, "numpy")
    assert not hasattr(X, "_no")


def test_the_builder_itself():
    bb: Any = relax.BlockBuilder()
    variable = 'relax.Var("y", relax.TensorStructInfo((4,), "float32"))'
    assert variable in told(lambda: bb.function("main", ["y"]))
    outer = "after the block, one level further out"
    with pytest.raises(loomir.CompileError, match=outer), bb.function("main", [X]), bb.dataflow():
        bb.emit_func_output(X)
    assert told(lambda: UNTYPED.compile(bb)) == "write loomir.compile(bb.get())"


TENSORS: Final[Mapping[str, tuple[Callable[[], object], str]]] = {
    "two tensors": (lambda: TE.create_prim_func(A, A), "write te.create_prim_func([A, A])"),
    "name": (lambda: TE.create_prim_func([A], "f"), "write te.create_prim_func([A], name='f')"),
    "dtype first": (
        lambda: TE.placeholder("float32", (8,)),
        'the shape comes first: te.placeholder((8,), "float32")',
    ),
    "name for dtype": (lambda: TE.placeholder((8,), "B"), 'te.placeholder((8,), name="B")'),
    "array": (lambda: TE.placeholder(np.ones(3)), "give the shape of the array here"),
    "no shape": (lambda: TE.placeholder(name="B"), "call it as placeholder(shape, dtype='float32'"),
    "formula first": (lambda: TE.compute(lambda i: i), "call it as compute(shape, fcompute"),
    "extent": (lambda: TE.reduce_axis(8, "k"), 'write te.reduce_axis((0, 8), name="k")'),
    "bounds": (lambda: TE.reduce_axis(2, 8), 'write te.reduce_axis((2, 8), name="k")'),
    "len": (lambda: len(A), "write A.shape[0]"),
    "float": (lambda: float(A), "A[i, j] is one, in a formula"),
    "attribute": (lambda: A.reshape(64), "write topi.reshape(A, ...)"),
    "axis": (lambda: A.axis, "write A.op.axis"),
    "other": (lambda: A.device, "it has name, shape, dtype, ndim and op"),
    "numpy's dtype": (lambda: TE.placeholder((8,), np.float32), 'write "float32"'),
    "torch's dtype": (lambda: TE.placeholder((8,), torch.float16), 'write "float16"'),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensor_expressions(name: str):
    call, wanted = TENSORS[name]
    assert wanted in told(call)


def test_schedules():
    sch, block, loop = scheduled()
    assert told(lambda: sch["C"]).startswith('write sch.get_sblock("C")')
    assert told(lambda: sch(1)) == "compile it, and call that: loomir.compile(sch.mod)(1)"
    assert told(lambda: sch.save("x.py")).endswith(".write(sch.mod.script())")
    assert told(lambda: loop.extent) == "ask the schedule for the loop itself: sch.get(rv).extent"
    swapped = "give the block first: sch.decompose_reduction(block, loop)"
    assert told(lambda: sch.decompose_reduction(loop, block)) == swapped
    made: Any = loomir.Schedule
    assert "R.call_tir" in told(lambda: made(double))
    assert "te.create_prim_func([A, B])" in told(lambda: made(A))
    assert "from_source(text)" in told(lambda: made("x.py"))
    assert "what it was compiled from" in told(lambda: made(loomir.compile(product)))
    assert told(lambda: UNTYPED.compile(sch)) == "write loomir.compile(sch.mod)"


PROGRAMS: Final[tuple[tuple[object, str], ...]] = (
    ([product, double], "one class under @I.ir_module"),
    ({"main": product}, "one class under @I.ir_module"),
    ({"weight": np.ones(2)}, "parameters are no program"),
    (Model, "write @I.ir_module above class Model"),
    ("model.onnx", "write loomir.compile(loomir.onnx.load('model.onnx'))"),
    (pathlib.Path("m.pt2"), "write loomir.compile(loomir.torch.load('m.pt2'))"),
    ("f.tc", "loomir.tc.define(pathlib.Path('f.tc').read_text())"),
    ("f.py", "loomir run f.py"),
)


@pytest.mark.parametrize(("given", "wanted"), PROGRAMS)
def test_what_is_no_program(given: Any, wanted: str):
    assert wanted in told(lambda: loomir.compile(given))


OPTIONS: Final[Mapping[str, tuple[Callable[[], object], str]]] = {
    "threads": (lambda: UNTYPED.compile(product, threads=4), "LOOMIR_NUM_THREADS=4"),
    "debug": (lambda: UNTYPED.compile(product, debug=True), "print(exe.script())"),
    "params": (lambda: UNTYPED.compile(double, params={}), "write constants={}"),
    "device": (lambda: UNTYPED.compile(product, device="cpu"), "leave it out"),
    "parallel": (lambda: UNTYPED.jit(parallel=True), "leave it out"),
    "n_trials": (lambda: UNTYPED.tune(product, n_trials=3), "write trials=3"),
    "of prim_func": (lambda: SCRIPTS["T"].prim_func(nmae="f"), "did you mean name?"),
    "of function": (lambda: SCRIPTS["R"].function(prviate=True), "did you mean private?"),
    "of ir_module": (lambda: SCRIPTS["I"].ir_module(s_tri=True), "did you mean s_tir?"),
    "of torch": (
        lambda: UNTYPED.torch.compile(Model(), optimise_graph=True),
        "did you mean optimize_graph?",
    ),
    "PyTorch's own": (
        lambda: UNTYPED.torch.compile(Model(), fullgraph=True),
        'torch.compile(model, backend="loomir", ...)',
    ),
    "inputs": (
        lambda: UNTYPED.torch.compile(Model(), X),
        "it takes inputs when it is called: loomir.torch.compile(Model())(X)",
    ),
    "tensor": (lambda: UNTYPED.torch.compile(torch.ones(3)), "loomir.torch.compile(model)(x)"),
    "not exported": (
        lambda: UNTYPED.torch.from_exported(Model(), (1,)),
        "export it first: torch.export.export(model.eval(), (x,))",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str):
    call, wanted = OPTIONS[name]
    assert wanted in told(call)


def test_names_of_modules():
    for space, name, wanted in (
        ("T", "primfunc", "did you mean T.prim_func?"),
        ("T", "function", "write @T.prim_func"),
        ("R", "func", "write @R.function"),
        ("R", "relu", "write R.nn.relu"),
        ("I", "module", "write @I.ir_module"),
    ):
        assert told(lambda space=space, name=name: getattr(SCRIPTS[space], name)) == wanted
    assert told(lambda: UNTYPED.complie) == "did you mean loomir.compile?"
    assert told(lambda: UNTYPED.run(product)) == "write loomir.compile(program)(x, y)"
    assert not hasattr(loomir, "_no_such")


def test_executables():
    exe: Any = loomir.compile(product)
    assert told(lambda: exe.run(1)) == "call it: exe(x, y)"
    assert told(lambda: exe.product(1)) == "call exe['product'](...)"
    assert told(lambda: exe.scripts) == "did you mean script?"
    meta = torch.ones((8, 8), device="meta")
    assert "no numbers" in told(lambda: exe(meta, meta, meta))


COMPREHENSIONS: Final = {
    "def f(float(N) A) -> (B) { B[i] = A[i] }": "write it as in B(i) = A(i)",
    "def f(float(N) A) -> (B) { B(i) = A(i) ** 2 }": "write pow(x, 2), or x * x",
    "def f(float(N) A) -> (B) { B(i) = relu(A(i)) }": "write max(x, 0)",
    "stencil.tc": "read the file: loomir.tc.define(pathlib.Path('stencil.tc').read_text())",
}


@pytest.mark.parametrize("text", COMPREHENSIONS)
def test_comprehensions(text: str):
    assert told(lambda: loomir.tc.define(text)) == COMPREHENSIONS[text]


def test_functions_of_comprehensions():
    made: Any = loomir.tc.define("def twice(float(N) A) -> (B) { B(i) = A(i) + A(i) }")
    assert told(lambda: made.twise(1)) == "did you mean 'twice'?"
    assert "write twice(A)" in told(lambda: made.twice(A=1))
    path: Any = pathlib.Path("f.tc")
    assert "read_text()" in told(lambda: loomir.tc.define(path))


def test_a_pipeline_says_what_belongs_before_a_pass():
    step = PASSES["relax.AdjustMatmulOrder"]
    assert told(lambda: Pipeline("mine", (step.function,))).startswith(
        "put relax.Normalize before it"
    )
    assert "@loomir.ir.passes.register" in told(lambda: Pipeline("mine", (lambda mod: mod,)))


KERNELS: Final = {
    "for i in range(8 / 2):\n        a[i] = 1.0": "write 8 // 2",
    "for i, j in T.grid((2, 4)):\n        a[i] = 1.0": "write for i, j in T.grid(2, 4)",
    "for i in T.grid(2, 4):\n        a[i, 0] = 1.0": "write for i, j in T.grid(2, 4)",
    "for i, j in T.parallel(2, 4):\n        a[i] = 1.0": (
        "write for i in T.parallel(2), and in it for j in range(4)"
    ),
    "with T.sblock:\n        a[0] = 1.0": 'write with T.sblock("name"):',
    "a[0] = T.max(a[0], a[1], a[2])": "write T.max(a[0], T.max(a[1], a[2]))",
    "a[0] == 1.0": "write one = to store",
    "s: float = 1.0\n    a[0] = s": "write s: T.float32 = 1.0",
    "l = [0.0] * 8\n    for i in range(8):\n        l[i] = a[i]": (
        'make it a buffer: l = T.alloc_buffer((8,), "float32"), and store its elements'
    ),
    "if not a[0]:\n        a[0] = 1.0": "compare with zero: a[0] == 0",
    "for i in range(a.shape[1]):\n        a[i] = 1.0": "it has 1 element",
}


@pytest.mark.parametrize("body", KERNELS)
def test_kernels(body: str):
    text = f'@T.prim_func\ndef f(a: T.Buffer((8,), "float32")):\n    {body}\n'
    assert told(lambda: loomir.script.from_source(text)) == KERNELS[body]


GRAPHS: Final = {
    ("x: R.Tensor(4, 'float32')", "return x"): "write (4,)",
    ("x: R.Tensor((-1, 4), 'float32')", "return x"): '("n", 4)',
    ("x: R.Tensor((None, 4), 'float32')", "return x"): '("n", 4)',
    ("x: R.Tensor((4,), 'float32'), n: int", "return x"): 'write n: R.Prim("int64")',
    ("x: R.Tensor((2,), 'float32')", "return x * [1.0, 2.0]"): (
        'write R.const([1.0, 2.0], "float32")'
    ),
    ("x: R.Tensor((2,), 'float32')", "y = [x]\n    y.append(x)\n    return y"): (
        "write y_1 = (*y, x)"
    ),
    ("x: R.Tensor((2,), 'float32')", "return R.nn.Linear(x, 4)"): "did you mean R.linear?",
}


@pytest.mark.parametrize("case", GRAPHS)
def test_graphs(case: tuple[str, str]):
    params, body = case
    text = f"@R.function\ndef f({params}):\n    {body}\n"
    assert GRAPHS[case] in told(lambda: loomir.script.from_source(text))


def test_programs_with_names_around_them():
    weight = np.ones(8, "float32")

    def reads() -> object:
        @T.prim_func
        def f(a: T.Buffer((8,), "float32")):
            a[0] = weight[0]

        return f

    def typed() -> object:
        @T.prim_func
        def f(a: T.Buffer((8,), torch.float32)):
            a[0] = 1.0

        return f

    def module() -> object:
        @I.ir_module
        class Module:
            N = 8

            @R.function
            def main(x: R.Tensor((8,), "float32")):  # noqa: N805
                return x

        return Module

    def calls() -> object:
        @R.function
        def f(x: R.Tensor((8,), "float32")):
            return double(x)

        return f

    def waits() -> object:
        @T.prim_func
        async def f(a: T.Buffer((8,), "float32")):
            a[0] = 1.0

        return f

    assert told(reads).endswith('pass it in the call: weight: T.Buffer((8,), "float32")')
    assert told(typed) == 'write "float32"'
    assert told(module) == "write N = 8 above the class"
    assert told(calls).startswith("put both into one class under @I.ir_module")
    assert told(waits) == "write def f, not async"
    made: Any = T.prim_func
    assert told(lambda: made(lambda a: a)) == "write the program with def"


def test_a_graph_value_is_not_compared_with_a_number():
    """It would silently be False, and choose nothing."""
    assert told(lambda: X == 1.0) == "write op.equal(x, 1.0)"
    assert told(lambda: X != 2) == "write op.not_equal(x, 2)"
    assert told(lambda: np.float32(3) == X) == "write op.equal(x, 3.0)"
    assert told(lambda: np.zeros(4) == X) == "write op.equal(x, the array)"
    assert op.equal(X, 1.0).op.name == "relax.equal"
    other = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    assert X == X
    assert other != X
    assert X in [other, X]
    assert len({X, other, X}) == 2


def test_build_is_called_compile():
    importlib.import_module("loomir.build")
    assert told(lambda: UNTYPED.build(product)) == "write loomir.compile(product)"
    assert told(lambda: UNTYPED.build(product, target="haswell")) == (
        "write loomir.compile(product, target='haswell')"
    )


def test_functions_of_math_take_no_expressions():
    assert told(lambda: TE.compute((8,), lambda i: math.exp(A[i, 0]))) == "write T.exp(A[i, 0])"
    assert told(lambda: TE.compute((8,), lambda i: math.fabs(A[i, 0]))) == "write T.abs(A[i, 0])"
    assert told(lambda: TE.compute((8,), lambda i: math.pow(A[i, 0], 2))) == (
        "write T.pow(A[i, 0], 2)"
    )
    assert told(lambda: TE.compute((8,), lambda i: float(A[i, 0]))) == (
        'write T.cast(A[i, 0], "float32")'
    )
    assert told(lambda: float(te.var("n"))).startswith("write T.cast(")
    with pytest.raises(TypeError):
        math.sqrt(te.var("n"))


def test_operators_of_topi_take_no_arrays():
    def expected(shape: str, dtype: str) -> str:
        return f'write te.placeholder({shape}, "{dtype}") here, and give the array to the compiled program'

    matrix: Any = np.zeros((4, 3), "float32")
    row: Any = np.zeros(3)
    topi: Any = importlib.import_module("loomir.te.topi")
    assert told(lambda: topi.relu(row)) == expected("(3,)", "float64")
    assert told(lambda: topi.matmul(A, matrix)) == expected("(4, 3)", "float32")
    assert told(lambda: topi.softmax(matrix, axis=1)) == expected("(4, 3)", "float32")
    assert told(lambda: topi.concatenate([row, row])) == expected("(3,)", "float64")
    assert told(lambda: topi.sum(A, axis=matrix)) != expected("(4, 3)", "float32")


def loops(head: str, body: str) -> str:
    text = f"""
@R.function
def main(x: R.Tensor((4, 3), "float32"), z: R.Tensor((4, 3, 2), "float32")):
    for {head}:
        y = {body}
    return x
"""
    return told(lambda: loomir.script.from_source(text))


def test_a_graph_has_no_loops_over_tensors():
    assert loops("row in x", "R.sum(row)") == (
        "write R.sum(x, axis=-1), which computes all rows of x"
    )
    assert loops("part in z", "R.mean(part)") == (
        "write R.mean(z, axis=(1, 2)), which computes all rows of z"
    )
    assert loops("row in x", "R.exp(row)") == "write R.exp(x), which computes all of x"
    assert loops("row in x", "row * 2.0").endswith("write operators of x, as in x * 2.0")
    assert "relax.BlockBuilder" in loops("i in range(4)", "x")
    assert "a function that calls itself" in loops("i in [1, 2]", "x")
