# ruff: noqa: N805  (programs have no self)
"""Spellings that other implementations read: each means what the plain form means, and prints so."""

from __future__ import annotations

from typing import TypeVar

import pytest

from loomir.ir import assert_structural_equal
from loomir.script import from_source
from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T
from tests.script.parser.programs import HEAD, refused, refused_body


def lines(*body: str) -> str:
    """Return the text of a function with a body."""
    return HEAD + "".join(f"    {line}\n" for part in body for line in part.split("\n"))


def check_same(written: str, plain: str) -> None:
    """Check that two texts are one program, which prints as a text that reads back."""
    found, wanted = from_source(written), from_source(plain)
    assert_structural_equal(found, wanted)
    assert_structural_equal(from_source(found.script()), found)


LOOPS: dict[str, tuple[str, str]] = {
    "serial by step": (
        "for i in T.serial(1, 8, step=3):\n    A[i, 0] = 1.0",
        "for i in range(1, 8, 3):\n    A[i, 0] = 1.0",
    ),
    "range with keywords": (
        'for i in range(8, annotations={"pragma": 1}):\n    A[i, 0] = 1.0',
        'for i in T.serial(0, 8, annotations={"pragma": 1}):\n    A[i, 0] = 1.0',
    ),
    "range by step=": (
        "for i in range(0, 8, step=2):\n    A[i, 0] = 1.0",
        "for i in range(0, 8, 2):\n    A[i, 0] = 1.0",
    ),
    "unroll by step": (
        "for i in T.unroll(0, 8, step=4):\n    A[i, 0] = 1.0",
        "for k in T.unroll(2):\n    A[0 + k * 4, 0] = 1.0",
    ),
    "a loop variable of a dtype": (
        'for i in T.parallel(8, dtype="int64"):\n    A[i, 0] = 1.0',
        "for i in T.parallel(T.int64(8)):\n    A[i, 0] = 1.0",
    ),
    "a bound is converted": (
        'for i in T.serial(x, dtype="int64"):\n    A[i, 0] = 1.0',
        'for i in T.serial(T.cast(x, "int64")):\n    A[i, 0] = 1.0',
    ),
    "a grid of a dtype": (
        'for i, j in T.grid(8, 4, dtype="int64"):\n    A[i, j] = 1.0',
        "for i, j in T.grid(T.int64(8), T.int64(4)):\n    A[i, j] = 1.0",
    ),
    "a grid of ranges": (
        "for i, j in T.grid(8, (2, 8)):\n    A[i, j] = 1.0",
        "for i in range(8):\n    for j in range(2, 8):\n        A[i, j] = 1.0",
    ),
    "one name for several loops": (
        "for idx in T.grid(8, 4):\n    A[idx] = A[idx] + 1.0",
        "for i, j in T.grid(8, 4):\n    A[i, j] = A[i, j] + 1.0",
    ),
    "indices of a grid in a block": (
        (
            'for idx in T.grid(8, 4):\n    with T.sblock("b"):\n'
            '        v = T.axis.remap("SS", idx)\n        A[v] = 1.0'
        ),
        (
            'for i, j in T.grid(8, 4):\n    with T.sblock("b"):\n'
            '        vi, vj = T.axis.remap("SS", [i, j])\n        A[vi, vj] = 1.0'
        ),
    ),
    "a thread without its keyword": (
        'for i in T.thread_binding(8, "threadIdx.x"):\n    A[i, 0] = 1.0',
        'for i in T.thread_binding(0, 8, thread="threadIdx.x"):\n    A[i, 0] = 1.0',
    ),
    "unroll": (
        "for i in T.serial(8, unroll=True):\n    A[i, 0] = 1.0",
        'for i in T.serial(8, annotations={"pragma_unroll": True}):\n    A[i, 0] = 1.0',
    ),
    "no unroll": (
        "for i in T.serial(8, unroll=False):\n    A[i, 0] = 1.0",
        'for i in T.serial(8, annotations={"disable_unroll": True}):\n    A[i, 0] = 1.0',
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    written, plain = LOOPS[name]
    check_same(lines(written), lines(plain))


@pytest.mark.parametrize(
    ("loop", "code"),
    [
        ("T.serial(0, 8, step=0)", "SCR0012"),
        ("T.serial(0, 8, step=x)", "SCR0012"),
        ('T.serial(8, dtype="float32")', "SCR0005"),
        ("T.serial(8, unroll=0)", "SCR0005"),
        ("T.grid((1, 2, 3))", "SCR0005"),
        ("T.thread_binding(0, 8)", "SCR0005"),
        ("range(0, 8, 2, step=2)", "SCR0005"),
        ("range(0, 8, thread='a')", "SCR0005"),
    ],
)
def test_loops_that_are_refused(loop: str, code: str) -> None:
    assert [d.code for d in refused_body(f"for i in {loop}:", "    A[i, 0] = 1.0")] == [code]


@pytest.mark.parametrize(
    "options", ["s_tir=True", "check_well_formed=False", "s_tir=True, check_well_formed=False"]
)
def test_options_that_mean_nothing_here(options: str) -> None:
    program = (
        '@I.ir_module{0}\nclass Module:\n    @T.prim_func{0}\n    def f(x: T.Buffer((4,), "int32")):'
        "\n        x[0] = 1\n\n    @R.function{0}\n    def g(x: R.Tensor((4,), 'int32')):\n"
        "        return x\n"
    )
    check_same(program.format(f"({options})"), program.format(""))


def test_the_attributes_of_a_decorated_class() -> None:
    # Python runs the body of the class before it is read.
    @I.ir_module(s_tir=True, check_well_formed=False)
    class Module:
        I.module_attrs({"answer": 42})
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @T.prim_func(s_tir=True)
        def f(x: T.Buffer((4,), "int32")):
            x[0] = 1

    assert Module.attrs["answer"] == 42
    assert len(Module.global_info["vdevice"]) == 1


op, nn, relu = R.add, R.nn, R.nn.relu


def test_captured_operators_are_called() -> None:
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        y = op(x, x)
        z = nn.relu(y)
        return relu(z)

    text = (
        '@R.function\ndef f(x: R.Tensor((4,), "float32")):\n    y = R.add(x, x)\n'
        "    z = R.nn.relu(y)\n    return R.nn.relu(z)\n"
    )
    assert_structural_equal(f, from_source(text))


def test_a_captured_operator_is_no_value_of_a_kernel() -> None:
    values = {"op": op}
    text = "@T.prim_func\ndef f(x: T.Buffer((4,), 'float32')):\n    op(x)\n"
    assert [d.code for d in refused(text, **values)] == ["SCR0010"]


BODIES: dict[str, tuple[str, str]] = {
    "let with a dtype": ("y: T.let[T.int32] = x + 1\nA[y, 0] = 1.0", "y = x + 1\nA[y, 0] = 1.0"),
    "let": ("y: T.let = x + 1\nA[y, 0] = 1.0", "y = x + 1\nA[y, 0] = 1.0"),
    "let of a pointer": (
        'q: T.let[T.handle("float32")] = A.data\nB = T.decl_buffer((64,), data=q)\nB[0] = 1.0',
        'q: T.handle("float32") = A.data\nB = T.decl_buffer((64,), data=q)\nB[0] = 1.0',
    ),
    "bind": ("y = T.bind(x + 1)\nA[y, 0] = 1.0", "y = x + 1\nA[y, 0] = 1.0"),
    "bind a variable": (
        "y = T.int32()\nT.bind(x + 1, var=y)\nA[y, 0] = 1.0",
        "y = x + 1\nA[y, 0] = 1.0",
    ),
    "a type of what is assigned again": (
        "y: T.int32 = 0\ny = y + x\nA[y, 0] = 1.0",
        "y = T.int32(0)\ny = y + x\nA[y, 0] = 1.0",
    ),
    "a type of what is assigned later": (
        "y: T.int32\nif x > 0:\n    y = 1\nelse:\n    y = 2\nA[y, 0] = 1.0",
        (
            'y = T.decl_buffer((1,), "int32", scope="local")\nif x > 0:\n    y[0] = 1\n'
            "else:\n    y[0] = 2\nA[y[0], 0] = 1.0"
        ),
    ),
    "a thread by a name": (
        't = T.env_thread("threadIdx.x")\nT.launch_thread(t, 8)\nA[t, 0] = 1.0',
        'with T.launch_thread("threadIdx.x", 8) as t:\n    A[t, 0] = 1.0',
    ),
    "a thread launched twice": (
        (
            't = T.env_thread("threadIdx.x")\nwith T.launch_thread(t, 8):\n    A[t, 0] = 1.0\n'
            "with T.launch_thread(t, 4):\n    A[t, 1] = 1.0"
        ),
        (
            'with T.launch_thread("threadIdx.x", 8) as t:\n    A[t, 0] = 1.0\n'
            'with T.launch_thread("threadIdx.x", 4) as u:\n    A[u, 1] = 1.0'
        ),
    ),
    "kinds of errors": (
        'assert x > 0, ("ValueError", ["x is ", "small"])\nA[x, 0] = 1.0',
        'assert x > 0, "ValueError: x is small"\nA[x, 0] = 1.0',
    ),
    "parts of a message": (
        'assert x > 0, ["small: ", x + 1]\nA[x, 0] = 1.0',
        'assert x > 0, "small: x + 1"\nA[x, 0] = 1.0',
    ),
    "dtype= of builtins": (
        (
            'A[0, 0] = T.exp(A[0, 1], dtype="float32")\n'
            'A[T.shift_left(x, 1, dtype="int32"), 0] = T.reinterpret(x, dtype="float32")\n'
            'A[0, T.if_then_else(T.likely(x > 1, dtype="bool"), 1, x, dtype="int32")] = 1.0\n'
            'T.evaluate(T.vectorlow(A[0, 0:4], dtype="float32x2"))'
        ),
        (
            "A[0, 0] = T.exp(A[0, 1])\n"
            'A[T.shift_left(x, 1), 0] = T.reinterpret("float32", x)\n'
            "A[0, T.if_then_else(T.likely(x > 1), 1, x)] = 1.0\n"
            'T.evaluate(T.vectorlow("float32x2", A[0, 0:4]))'
        ),
    ),
    "short names of dtypes": (
        'A[T.cast(A[0, 0], "int"), 0] = T.cast(x, "float")',
        'A[T.cast(A[0, 0], "int32"), 0] = T.cast(x, "float32")',
    ),
    "targets": (
        (
            'T.func_attr({"target": T.target({"kind": "llvm"}, host="c"), "t": T.target("llvm")})\n'
            "A[0, 0] = 1.0"
        ),
        'T.func_attr({"target": {"kind": "llvm", "host": "c"}, "t": "llvm"})\nA[0, 0] = 1.0',
    ),
    "index maps": (
        (
            'T.func_attr({"m": T.index_map(lambda i, j: (j, i // 4), index_dtype="int32")})\n'
            "A[0, 0] = 1.0"
        ),
        'T.func_attr({"m": "lambda i0, i1: (i1, i0 // 4)"})\nA[0, 0] = 1.0',
    ),
    "scopes of buffers": (
        'B = T.alloc_shared((4,), "int32")\nC = T.alloc_local((4,))\nB[0] = x\nC[0] = A[B[0], 0]',
        (
            'B = T.alloc_buffer((4,), "int32", scope="shared")\n'
            'C = T.alloc_buffer((4,), "float32", scope="local")\nB[0] = x\nC[0] = A[B[0], 0]'
        ),
    ),
    "notes of allocations": (
        'B = T.alloc_buffer((4,), "int32", annotations={"k": 1})\nB[0] = x',
        (
            'b = T.allocate([4], "int32", "global", annotations={"k": 1})\n'
            'B = T.decl_buffer((4,), "int32", data=b)\nB[0] = x'
        ),
    ),
    "offsets in bytes": (
        "B = T.decl_buffer((4,), data=A.data, byte_offset=16)\nB[0] = 1.0",
        "B = T.decl_buffer((4,), data=A.data, elem_offset=4)\nB[0] = 1.0",
    ),
    "extents of a buffer": (
        "m, n = A.shape\nfor i in range(m):\n    A[i, 0] = T.cast(n, A.dtype)",
        "m = T.int32(8)\nn = T.int32(8)\nfor i in range(m):\n    A[i, 0] = T.cast(n, 'float32')",
    ),
    "the type of a buffer": (
        "for i in range(A.ty.shape[0]):\n    A[i, 0] = T.cast(x, A.ty.dtype)",
        "for i in range(8):\n    A[i, 0] = T.cast(x, 'float32')",
    ),
    "pointers to elements": (
        (
            'T.evaluate(A.access_ptr("w"))\nT.evaluate(A.access_ptr("rw", offset=x))\n'
            'T.evaluate(A.access_ptr(1, "handle", 4, 8, 2))\nT.evaluate(A.ptr_to([1, 2]))'
        ),
        (
            "T.evaluate(T.tvm_access_ptr('float32', A.data, 0, 64, 2))\n"
            "T.evaluate(T.tvm_access_ptr('float32', A.data, x, 64 - x, 3))\n"
            "T.evaluate(T.tvm_access_ptr('float32x4', A.data, 2, 2, 1))\n"
            "T.evaluate(T.address_of(A[1, 2]))"
        ),
    ),
    "several notes": (
        'with T.attr({"k": 1, "l": "m"}):\n    A[0, 0] = 1.0',
        'with T.attr(0, "k", 1):\n    with T.attr(0, "l", "m"):\n        A[0, 0] = 1.0',
    ),
    "views of buffers": (
        (
            "B = A.view(64)\nB[0] = 1.0\nC = A.view(2, -1, 8)\nC[1, 3, 7] = 2.0\n"
            'D = A.view("int64")\nD[7, 3] = T.int64(1)\nE = A.view(x, x)\nE[0, 0] = 1.0'
        ),
        (
            "B = T.decl_buffer((64,), data=A.data)\nB[0] = 1.0\n"
            "C = T.decl_buffer((2, 4, 8), data=A.data)\nC[1, 3, 7] = 2.0\n"
            'D = T.decl_buffer((8, 4), "int64", data=A.data)\nD[7, 3] = T.int64(1)\n'
            "E = T.decl_buffer((x, x), data=A.data)\nE[0, 0] = 1.0"
        ),
    ),
    "types of variables": (
        (
            "q: T.handle = T.reinterpret(T.handle().ty, T.uint64(0))\ny = T.cast(A[0, 0], x.ty)\n"
            "A[y, 0] = 1.0\nT.evaluate(T.isnullptr(q))"
        ),
        (
            'q: T.handle = T.reinterpret("handle", T.uint64(0))\ny = T.cast(A[0, 0], "int32")\n'
            "A[y, 0] = 1.0\nT.evaluate(T.isnullptr(q))"
        ),
    ),
    "offsets of buffers": (
        "T.evaluate(T.tvm_access_ptr('float32', A.data, A.elem_offset + x, 4, 1))",
        "T.evaluate(T.tvm_access_ptr('float32', A.data, 0 + x, 4, 1))",
    ),
    "other names of builtins": (
        "A[0, 0] = T.fabs(A[0, 1])\nA[0, 1] = T.truncmod(A[0, 0], 3.0)",
        "A[0, 0] = T.abs(A[0, 1])\nA[0, 1] = T.fmod(A[0, 0], T.float32(3))",
    ),
    "a value for the reader": (
        "pair = I.meta_var((1, 2))\nA[pair[0], pair[1]] = 1.0",
        "A[1, 2] = 1.0",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_statements(name: str) -> None:
    written, plain = BODIES[name]
    check_same(lines(written), lines(plain))


@pytest.mark.parametrize(
    ("line", "code", "help_"),
    [
        ('A[0, 0] = T.floor(A[0, 0], dtype="float64")', "TIR0114", "T.cast"),
        ("y: T.let = x\n    y = 2", "SCR0016", "leave the type out"),
        ("y: T.let = x\n    y += 2", "SCR0016", "leave the type out"),
        ("y: T.let[A] = x", "SCR0015", "write a dtype"),
        ("T.let(x)", "SCR0007", "T.Let(body"),
        ('y: T.handle("int8") = A.data\n    y = A.data', "SCR0015", "a name for each pointer"),
        ('assert x > 0, ("ValueError", "a", "b")', "TIR0202", "ValueError"),
        ("assert x > 0, [A]", "TIR0202", "strings and numbers"),
        ("y = T.cast(x, 'float8_e4m3fn')", "TIR0001", "uint8"),
        ("y = T.float8_e5m2(1.0)", "SCR0004", "uint8"),
        ("y = T.index_map(lambda i: i * x)", "SCR0005", "lambda i, j"),
        ("y = T.index_map(lambda i: print(i))", "SCR0005", "lambda i, j"),
        ("y = T.exp(lambda i: i)", "SCR0002", "write the expression"),
        ("B = T.decl_buffer((4,), data=A.data, byte_offset=3)", "SCR0005", "give a multiple"),
        ("B = T.alloc_local((4,), scope='shared')", "SCR0005", "T.alloc_buffer"),
        ("B = T.alloc_buffer((4,), layout=1)", "SCR0005", "strides="),
        ('T.evaluate(T.target("a", host=1))', "SCR0005", "quote it"),
        ("T.bind(x, var=3)", "SCR0005", "declare one first"),
        ('T.evaluate(A.access_ptr("x"))', "SCR0005", 'write "r"'),
        ("B = A.view(63)", "SCR0005", "whose product"),
        ("A = 1.0", "SCR0016", "write A[…] = value"),
        ("B = A.view(-1, -1)", "SCR0005", "whose product"),
        ("B = A.view(0, -1)", "SCR0005", "whose product"),
        ("B = A.view(x, -1)", "SCR0005", "write the extent"),
        ("B = A.view('int8x3')", "SCR0005", "a narrower dtype"),
        (
            "B = T.decl_buffer((8,), data=A.data, strides=(2,))\n    C = B.view(8)",
            "SCR0005",
            "T.decl_buffer",
        ),
        ('T.evaluate(A.access_ptr("r", "int8"))', "SCR0005", '"handle"'),
    ],
)
def test_statements_that_are_refused(line: str, code: str, help_: str) -> None:
    found = refused_body(line)
    assert [d.code for d in found] == [code]
    assert help_ in (found[0].help or "")


def test_names_of_extents() -> None:
    declared = 'from typing import TypeVar\nn = TypeVar("n")\n'
    text = (
        "@T.prim_func\ndef f(x: T.Buffer((n, 4), 'int32')):\n    for i in range(n):\n"
        "        x[i, 0] = 1\n"
    )
    check_same(declared + text, text)
    graph = (
        "@R.function\ndef f(x: R.Tensor((n, 4), 'int32')):\n    y = R.zeros((n,), 'int32')\n"
        "    return (x, y)\n"
    )
    check_same(declared + graph, graph)


@pytest.mark.parametrize(
    "declared", ["n, m = T.int32(), T.int32()", "m = T.int32()\n    n = T.int32()"]
)
def test_names_that_are_declared_after_parameters(declared: str) -> None:
    text = (
        "@T.prim_func\ndef f({}):\n    {}\n    for i, j in T.grid(n, m - 1):\n"
        "        y[i, j + 1] = x[i, j]\n"
    )
    check_same(
        text.format('x: T.Buffer(("n", "m"), "int32"), y: T.Buffer((n, m), "int32")', declared),
        text.format(
            "a: T.handle, b: T.handle",
            "n = T.int32()\n    m = T.int32()\n    x = T.match_buffer(a, (n, m), 'int32')\n"
            "    y = T.match_buffer(b, (n, m), 'int32')",
        ),
    )


def test_a_name_of_an_extent_has_one_dtype() -> None:
    text = (
        "@T.prim_func\ndef f(x: T.Buffer(('n',), 'int32')):\n    for i in range(n):\n"
        "        n = T.int32()\n        x[i] = 1\n"
    )
    (found,) = refused(text)
    assert (found.code, found.help) == ("SCR0026", "write T.int64(), or choose another name")


def test_names_of_extents_after_the_name_of_a_function() -> None:
    text = (
        "from __future__ import annotations\n\n\n@I.ir_module\nclass Module:\n"
        "    @T.prim_func\n    def k{0}(x: T.Buffer((n, 4), 'int32')):\n"
        "        for i in range(n):\n            x[i, 0] = 1\n\n"
        "    @R.function\n    def main{1}(x: R.Tensor((n, m), 'int32')):\n"
        "        return R.add(x, R.zeros((n, m), 'int32'))\n"
    )
    check_same(text.format("[n]", "[n, m]"), text.format("", ""))


def test_places_behind_names_of_extents_stay() -> None:
    (found,) = refused("@T.prim_func\ndef f[n, m](x: T.Buffer((n, m), 'int99')):\n    pass\n")
    assert found.span is not None
    assert (found.span.line, found.span.column) == (2, 33)


@pytest.mark.parametrize("head", ["f[]", "f[1]", "f[n", "f[n](x)"])
def test_heads_that_are_no_python(head: str) -> None:
    assert [d.code for d in refused(f"@T.prim_func\ndef {head}(x: T.int32):\n    pass\n")] == [
        "SCR0001"
    ]


m = TypeVar("m")


def test_names_of_extents_around_a_function() -> None:
    @R.function
    def f(x: R.Tensor((m, 4), "float32")) -> R.Tensor((m, 4), "float32"):
        return R.add(x, x)

    text = (
        '@R.function\ndef f(x: R.Tensor((m, 4), "float32")) -> R.Tensor((m, 4), "float32"):\n'
        "    return R.add(x, x)\n"
    )
    assert_structural_equal(f, from_source(text))


def test_index_maps_of_operators() -> None:
    text = (
        "@R.function\ndef f(x: R.Tensor((8, 8), 'float32')):\n"
        "    size = I.meta_var((8, 8))\n"
        "    y = R.layout_transform(x, index_map={})\n    return R.reshape(y, size)\n"
    )
    plain = text.format('"lambda i, j: (j, i)"')
    check_same(text.format("lambda i, j: (j, i)"), plain)
    check_same(text.format("T.index_map(lambda i, j: (j, i))"), plain)
