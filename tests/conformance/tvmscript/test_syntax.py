"""Which parts of Python's syntax a program may use, and what they mean in TIR."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.ir import assert_structural_equal
from loomir.script import from_source
from loomir.support.diagnostics import CompileError, RunError
from loomir.tir import BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc, While
from tests.conformance.compare_engines import (
    Array,
    both,
    both_ways,
    f32,
    fails,
    i32,
    read,
    refused,
    zeros,
)

HEAD = '@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), n: T.int32):\n'


def body(*lines: str) -> str:
    """Write a function of a buffer of four int32 and a number."""
    return HEAD + "".join(f"    {line}\n" for line in lines)


# -- statements ----------------------------------------------------------------------------------
def test_TS_SYN_01_for_over_range():
    """A for over range is a serial loop from its start, of which no iteration may be left out (S8)."""
    made = read(body("for i in range(n, 4):", "    A[i] = A[i - n] + 1"))
    assert isinstance(made, PrimFunc)
    assert isinstance(made.body, For)
    assert made.body.kind is ForKind.SERIAL
    assert both(made, i32(5, 0, 0, 0), 1).tolist() == [5, 6, 7, 8]
    for bounds, wanted in [("4, 4", []), ("5, 2", []), ("-1, 1", [-1, 0]), ("0, 4, 3", [0, 3])]:
        source = body("A[0] = 0", f"for i in range({bounds}):", "    A[0] = A[0] * 10 + i + 2")
        digits = int("".join(str(i + 2) for i in wanted) or "0")
        assert both(source, zeros(4), 0)[0] == digits


def test_TS_SYN_03_with_sblock():
    """With T.sblock is a block: its axes take the values that the loops give them."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4, 3), "int32")):
            for i, j in T.grid(3, 4):
                with T.sblock("mirrored"):
                    vi = T.axis.spatial(4, j)
                    vj = T.axis.spatial(3, 2 - i)
                    A[vi, vj] = vi * 10 + vj
    """
    assert both(source, zeros(4, 3)).tolist() == [[i * 10 + j for j in range(3)] for i in range(4)]


def test_TS_SYN_04_no_dataflow_in_tir():
    """With R.dataflow has no meaning in a TIR function."""
    refused("SCR0010", body("with R.dataflow():  # <--", "    A[0] = 1"))


def test_TS_SYN_05_if_on_an_expression():
    """If on an expression of the program branches when it runs; chains and missing elses too."""
    source = body(
        "for i in range(4):",
        "    if A[i] > n:",
        "        A[i] = 1",
        "    elif A[i] == n:",
        "        A[i] = 2",
        "    else:",
        "        if i == 3:",
        "            A[i] = 3",
    )
    made = read(source)
    assert isinstance(made, PrimFunc)
    assert isinstance(made.body, For)
    assert isinstance(made.body.body, IfThenElse)
    assert both(source, i32(9, 5, 0, -1), 5).tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize(
    ("flag", "taken"),
    [("True", 1), ("False", 2), ("K > 2", 1), ("not K", 2), ("len((1, 2)) == 3", 2), ("()", 2)],
)
def test_TS_SYN_06_if_on_a_known_value(flag: str, taken: int):
    """If on a value that is known while reading takes one branch, and only that one is read (S9)."""
    lines = (f"if {flag}:", "    A[0] = 1", "else:", "    A[0] = 2")
    made = from_source(body(*lines), values={"K": 3})
    assert isinstance(made, PrimFunc)
    assert isinstance(made.body, BufferStore)
    assert both(made, zeros(4), 0)[0] == taken
    dead = ("if K > 2:", "    A[0] = 1", "else:", "    A[99] = undefined_name")
    assert_structural_equal(from_source(body(*dead), values={"K": 3}), read(body("A[0] = 1")))


def test_TS_SYN_08_while():
    """While runs as long as its condition, which is evaluated again each time, is not zero."""
    source = body("while A[0] != n:", "    A[0] = A[0] + 1", "    A[1] = A[1] + A[0]")
    made = read(source)
    assert isinstance(made, PrimFunc)
    assert isinstance(made.body, While)
    assert both(source, zeros(4), 4).tolist() == [4, 10, 0, 0]
    assert both(source, i32(4, 7, 0, 0), 4).tolist() == [4, 7, 0, 0]


def test_TS_SYN_10_a_name_is_bound():
    """X = expr names a value: later stores to what it was read from do not change it (S11)."""
    source = body("x = A[0] + n", "A[0] = 100", "A[1] = x", "A[2] = x")
    made = read(source)
    assert isinstance(made, PrimFunc)
    assert isinstance(made.body, LetStmt)
    assert both(source, i32(5, 0, 0, 0), 2).tolist() == [100, 7, 7, 0]


def test_TS_SYN_12_buffer_annotations():
    """A: T.Buffer(…) makes a parameter an array of that shape and dtype, which calls must pass."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((2, 3), "int16"), B: T.Buffer((6,), "int32"), C: T.Buffer(())):
            for i, j in T.grid(2, 3):
                B[i * 3 + j] = T.int32(A[i, j])
            C[()] = T.float32(B[5])
    """
    a = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert both(source, a, zeros(6), np.zeros((), np.float32)) == 5.0
    for bad in (a.reshape(3, 2), a.astype(np.int32), a.reshape(6)):
        with pytest.raises(RunError):
            loomir.compile(read(source), cache=False)(bad, zeros(6), np.zeros((), np.float32))


def test_TS_SYN_14_return():
    """Return x leaves the function with a value, at once (S3)."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), n: T.int32) -> T.int32:
            for i in range(4):
                if A[i] == n:
                    return i
            return -1
    """
    assert both(source, i32(3, 5, 7, 5), 5) == 1
    assert both(source, i32(3, 5, 7, 5), 9) == -1
    assert_structural_equal(read(source), read(source.replace("return i", "T.evaluate(T.ret(i))")))


def test_TS_SYN_16_loads():
    """A[i, j] reads an element, one index per axis; fewer, more or constant ones outside are refused."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((2, 3), "int32"), B: T.Buffer((3, 2), "int32")):
            for i, j in T.grid(2, 3):
                B[j, i] = A[i, j] + A[A[0, 0], A[0, 1]]
    """
    a = i32(1, 2, 3, 4, 5, 6).reshape(2, 3)
    assert both(source, a, zeros(3, 2)).tolist() == (a.T + 6).tolist()
    for index in ("0", "0, 0, 0"):
        refused("TIR0107", f"{HEAD}    A[0] = A[{index}] + A[0, 0]  # <--".replace("A[0] +", "n +"))
    refused("SCR0019", body("A[0] = A[4]  # <--"))
    refused("SCR0019", body("A[0] = A[-1]  # <--"))


def test_TS_SYN_17_stores():
    """A[i, j] = e writes one element, after evaluating what stands on both sides."""
    source = body("A[A[0]] = A[0] + A[1]", "A[A[1] - A[1]] += n")
    assert both(source, i32(1, 10, 0, 0), 100).tolist() == [101, 11, 0, 0]
    refused("SCR0019", body("A[4] = 1  # <--"))
    refused("TIR0203", body("A[0] = T.float32(1)  # <--"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("n + 1 - 2 * 3", 1),
        ("-n // 4", -2),
        ("-n % 4", 2),
        ("(n << 3) ^ (n & 5) | 64", 116),
        ("~n >> 1", -4),
        ("n ** 2", None),
        ("n @ n", None),
        ("n in (1, 2)", None),
        ("n is n", None),
    ],
)
def test_TS_SYN_18_arithmetic(text: str, wanted: int | None):
    """Operators on expressions make expressions, with Python's precedence; others are refused (S9)."""
    source = body(f"A[0] = {text}")
    if wanted is None:
        with pytest.raises(loomir.CompileError):
            loomir.compile(read(source), cache=False)
        return
    assert both(source, zeros(4), 6)[0] == wanted
    assert wanted == eval(text, {"n": 6})  # noqa: S307, the table against Python itself


def test_TS_SYN_20_calls():
    """Calls are those of T; a Python function is refused, by name."""
    source = body("A[0] = T.max(T.abs(n), T.popcount(n))", "A[1] = T.if_then_else(n > 0, 1, 2)")
    assert both(source, zeros(4), -7).tolist() == [30, 2, 0, 0]
    for call in ("print(n)", "foo(n)", "T.foo(n)", "n()", "A()"):
        with pytest.raises(loomir.CompileError) as caught:
            read(body(f"A[0] = {call}"))
        assert caught.value.diagnostic.span is not None
        assert caught.value.diagnostic.span.line == 3


# -- what is refused -----------------------------------------------------------------------------
def test_TS_SYN_21_no_other_classes():
    """Class means nothing but a module: in a function, in a module or by itself it is refused."""
    refused("SCR0002", body("class B:  # <--", "    pass"))
    refused("SCR0014", 'class B:  # <--\n    """Nothing."""\n' + body("pass"))
    inner = HEAD.replace("\n", "\n    ")
    with pytest.raises(loomir.CompileError) as caught:
        from_source(f"@I.ir_module\nclass M:\n    class B:\n        x = 1\n    {inner}    pass\n")
    assert caught.value.diagnostic.span is not None
    assert caught.value.diagnostic.span.line == 3


@pytest.mark.parametrize(
    "lines",
    [
        ("try:  # <--", "    A[0] = 1", "except ValueError:", "    A[0] = 2"),
        ("try:  # <--", "    A[0] = 1", "finally:", "    A[0] = 2"),
        ("try:  # <--", "    A[0] = 1", "except* ValueError:", "    A[0] = 2"),
    ],
)
def test_TS_SYN_22_no_try(lines: tuple[str, ...]):
    """Try is refused, with except as with finally."""
    refused("SCR0002", body(*lines))


@pytest.mark.parametrize("line", ["yield", "yield n", "yield from (1, 2)", "x = yield n"])
def test_TS_SYN_23_no_yield(line: str):
    """Yield is refused, as a statement and in an expression (S4)."""
    refused("SCR0002", body(f"{line}  # <--"))


@pytest.mark.parametrize(
    "line", ["await n", "async with n:\n        pass", "async for i in range(4):\n        pass"]
)
def test_TS_SYN_24_no_async(line: str):
    """Await and async are refused, and so is an async function (S4)."""
    first, _, rest = line.partition("\n")
    text = body(f"{first}  # <--" + ("\n" + rest if rest else ""))
    for program in (text, text.replace("def", "async def").replace("# <--", "")):
        refused("SCR0002", program)


@pytest.mark.parametrize(
    "text",
    [
        "[i for i in (1, 2)][0]",
        "{i: 1 for i in (1, 2)}[1]",
        "sum(i for i in (1, 2))",
        "max({i for i in (1, 2)})",
    ],
)
def test_TS_SYN_25_no_comprehensions(text: str):
    """Comprehensions of every kind are refused, also over known values (S4)."""
    refused("SCR0002", body(f"A[0] = {text}  # <--"))


@pytest.mark.parametrize(
    "line", ["x = lambda: 1", "A[0] = (lambda i: i)(n)", "T.evaluate(T.min(n, lambda: 1))"]
)
def test_TS_SYN_26_no_lambda(line: str):
    """Lambda is refused wherever it stands (S4)."""
    refused("SCR0002", body(f"{line}  # <--"))


@pytest.mark.parametrize(
    "line", ["import math", "from math import pi", "import loomir.script.tir as X"]
)
def test_TS_SYN_27_no_import(line: str):
    """Import is refused in a function; what it would bind is not reported again (S4)."""
    name = line.split()[-1].split(".")[0]
    refused("SCR0002", body(f"{line}  # <--"))
    with pytest.raises(loomir.CompileError) as caught:
        read(body(line, f"A[0] = {name}"))
    assert len(caught.value.diagnostics) == 1


@pytest.mark.parametrize("word", ["global", "nonlocal"])
def test_TS_SYN_28_no_global(word: str):
    """Global and nonlocal are refused (S4)."""
    refused("SCR0002", body(f"{word} K  # <--", "A[0] = 1"))


# -- the reference -------------------------------------------------------------------------------
def test_TS_TREF_01_handles():
    """A handle gets its shape by T.match_buffer in the body; a call must pass such an array (S10)."""
    source = """
        @T.prim_func
        def main(a: T.handle, b: T.handle):
            A = T.match_buffer(a, (2, 3), "float32")
            B = T.match_buffer(b, (3,), "float32")
            for j in range(3):
                B[j] = A[0, j] - A[1, j]
    """
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert both(source, a, zeros(3, dtype="float32")).tolist() == [-3, -3, -3]
    fails("RUN0005", source, a.T.copy(), zeros(3, dtype="float32"))


@pytest.mark.parametrize("quote", ["", '"'])
def test_TS_TREF_02_symbolic_shapes(quote: str):
    """Names in shapes take their values from the arrays, and must agree between them (S10)."""
    m, n = f"{quote}m{quote}", f"{quote}n{quote}"
    source = f"""
        @T.prim_func
        def main(a: T.handle, b: T.handle):
            A = T.match_buffer(a, ({m}, {n}), "float32")
            B = T.match_buffer(b, ({m},), "float32")
            for i in range(A.shape[0]):
                B[i] = 0.0
                for j in range(A.shape[1]):
                    B[i] += A[i, j]
    """
    for rows in (1, 4):
        a = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        assert both(source, a, zeros(rows, dtype="float32")).tolist() == a.sum(1).tolist()
    fails("RUN0010", source, np.ones((2, 3), np.float32), zeros(3, dtype="float32"))


def test_TS_TREF_03_buffers_in_signatures():
    """A buffer in the signature is the same program as a handle with match_buffer."""
    short = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            A[1] = A[0] + 1
    """
    long = """
        @T.prim_func
        def main(A_handle: T.handle):
            A = T.match_buffer(A_handle, (4,), "int32")
            A[1] = A[0] + 1
    """
    assert_structural_equal(read(short), read(long))
    assert both(short, i32(1, 0, 0, 0)).tolist() == both(long, i32(1, 0, 0, 0)).tolist()


BLOCK = """
    @T.prim_func
    def main(A: T.Buffer((4, 5), "float32"), B: T.Buffer((4,), "float32")):
        for i, j in T.grid(4, 5):
            with T.sblock("block_name"):
                {axes}
                T.reads(A[vi, vj])
                T.writes(B[vi])
                with T.init():
                    B[vi] = 1.0
                B[vi] = B[vi] + A[vi, vj]
"""
AXES = "vi = T.axis.spatial(4, i)\n                vj = T.axis.reduce(5, j)"


def test_TS_TREF_04_grid_block_and_regions():
    """The example of the text, with sizes: a block in T.grid with axes, reads and writes."""
    a = np.arange(20, dtype=np.float32).reshape(4, 5)
    out: Array = both(BLOCK.format(axes=AXES), a, zeros(4, dtype="float32"))
    assert out.tolist() == (a.sum(1) + 1).tolist()


def test_TS_TREF_05_scan():
    """T.axis.scan is an axis of a kind of its own, and comes back when printed."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((5,), "int32")):
            for i in range(1, 5):
                with T.sblock("running"):
                    vi = T.axis.scan((1, 5), i)
                    A[vi] = A[vi] + A[vi - 1]
    """
    assert both(source, i32(1, 2, 3, 4, 5)).tolist() == [1, 3, 6, 10, 15]
    made = read(source)
    assert "T.axis.scan(" in made.script()
    assert_structural_equal(from_source(made.script()), made)


def test_TS_TREF_06_remap():
    """remap("SR", …) is S for spatial and R for reduce, over each loop's whole range."""
    short = read(BLOCK.format(axes='vi, vj = T.axis.remap("SR", [i, j])'))
    assert_structural_equal(short, read(BLOCK.format(axes=AXES)))
    for kinds, binds in [
        ("SX", "[i, j]"),
        ("S", "[i, j]"),
        ("SRR", "[i, j]"),
        ("SR", "[i, i + j]"),
    ]:
        with pytest.raises(loomir.CompileError):
            read(BLOCK.format(axes=f'vi, vj = T.axis.remap("{kinds}", {binds})'))


def test_TS_TREF_07_serial():
    """T.serial(a, b) runs from a to below b, one after another, each seeing the last."""
    source = body("for i in T.serial(1, 4):", "    A[i] = A[i - 1] * 2 + i")
    assert both(source, i32(1, 0, 0, 0), 0).tolist() == [1, 3, 8, 19]
    assert_structural_equal(read(source), read(source.replace("T.serial", "range")))


@pytest.mark.parametrize(
    ("loop", "kind"),
    [
        ("T.parallel(0, 128)", ForKind.PARALLEL),
        ("T.vectorized(0, 128)", ForKind.VECTORIZED),
        ("T.unroll(0, 128)", ForKind.UNROLLED),
        ('T.thread_binding(0, 128, thread="threadIdx.x")', ForKind.THREAD_BINDING),
    ],
)
def test_TS_TREF_08_kinds_of_loops(loop: str, kind: ForKind):
    """The other kinds of loops compute what a serial one does, and keep their kind."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((128,), "int32"), B: T.Buffer((128,), "int32")):
            for i in {loop}:
                B[127 - i] = A[i] * i
    """
    made = read(source)
    assert isinstance(made, PrimFunc)
    assert isinstance(made.body, For)
    assert made.body.kind is kind
    a = np.arange(128, dtype=np.int32)
    assert both(source, a, zeros(128)).tolist() == (a * a)[::-1].tolist()


def test_TS_TREF_09_alloc_buffer():
    """T.alloc_buffer gives memory of the function's own, distinct from every argument."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((8, 8), "float32")):
            C = T.alloc_buffer((8, 8), "float32")
            for i, j in T.grid(8, 8):
                C[i, j] = A[j, i]
            for i, j in T.grid(8, 8):
                A[i, j] = C[i, j] + 1.0
    """
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    assert both(source, a).tolist() == (a.T + 1).tolist()


def test_TS_TREF_10_load_and_store():
    """Val = A[i, j] loads once; B[i] = val + 1.0 stores, with 1.0 of B's dtype."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((2, 2), "float16"), B: T.Buffer((2,), "float16")):
            for i, j in T.grid(2, 2):
                val = A[i, j]
                A[i, j] = val * val
                B[i] = val + 1.0
    """
    a = np.array([[1, 2], [3, 4]], np.float16)
    made = read(source)
    assert both(source, a, zeros(2, dtype="float16")).tolist() == [3, 5]
    assert isinstance(made, PrimFunc)
    (added,) = [line for line in made.script().splitlines() if "1.0" in line]
    assert "T.float16(1.0)" in added


@pytest.mark.parametrize(
    "name", ["exp", "log", "sqrt", "tanh", "sin", "cos", "floor", "ceil", "exp2"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_TS_TREF_11_math(name: str, dtype: str):
    """Mathematical functions keep the dtype and are near what NumPy gives."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((5,), "{dtype}"), B: T.Buffer((5,), "{dtype}")):
            for i in range(5):
                B[i] = T.{name}(A[i])
    """
    a = np.array([0.25, 1.0, 1.5, 2.75, 10.0], dtype)
    for run in both_ways(source):
        out = zeros(5, dtype=dtype)
        run(a, out)
        np.testing.assert_allclose(
            out, getattr(np, name)(a), rtol=1e-6 if dtype == "float32" else 1e-14
        )


def test_TS_TREF_12_cast():
    """T.cast(x, dtype) rounds to float16; so does the dtype's own name."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float16")):
            for i in range(3):
                B[i] = T.cast(A[i], "float16")
    """
    a = f32(1 / 3, 2049.0, 65520.0)
    assert both(source, a, zeros(3, dtype="float16")).tolist() == [0.333251953125, 2048, np.inf]
    assert_structural_equal(
        read(source), read(source.replace('T.cast(A[i], "float16")', "T.float16(A[i])"))
    )


def test_TS_TREF_13_if_then_else():
    """T.if_then_else evaluates only what it gives: the other may divide by zero or read outside."""
    source = body("for i in range(4):", "    A[i] = T.if_then_else(A[i] != 0, n // A[i], -1)")
    assert both(source, i32(0, 2, -2, 5), 7).tolist() == [-1, 3, -4, 1]
    fails("RUN0201", source.replace("T.if_then_else", "T.Select"), i32(0, 2, -2, 5), 7)


def test_TS_TREF_14_min_max():
    """T.min and T.max give the smaller and the larger, by sign and by dtype."""
    source = """
        @T.prim_func
        def main(a: T.int8, u: T.uint8, B: T.Buffer((2,), "int8"), C: T.Buffer((2,), "uint8")):
            B[0] = T.min(a, -1)
            B[1] = T.max(a, T.int8(-1))
            C[0] = T.min(u, T.uint8(200))
            C[1] = T.max(u, 3)
    """
    b, c = zeros(2, dtype="int8"), zeros(2, dtype="uint8")
    made = loomir.compile(read(source), cache=False)
    made(-5, 250, b, c)
    assert (b.tolist(), c.tolist()) == ([-5, -1], [200, 250])
    assert both(source, -5, 250, b, c).tolist() == [200, 250]


@pytest.mark.parametrize(
    "call", ['T.call_extern("float64", "hypot", {})', 'T.call_extern("hypot", {}, dtype="float64")']
)
def test_TS_TREF_15_call_extern(call: str):
    """T.call_extern calls a function of the system by name, in both orders of arguments (S2)."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((3,), "float64")):
            A[2] = {call.format("A[0], A[1]")}
    """
    assert both(source, np.array([3.0, 4.0, 0.0])).tolist() == [3, 4, 5]


def test_TS_TREF_16_call_packed():
    """T.call_packed calls a registered Python function, with arrays and numbers."""
    calls: list[object] = []

    def add(array: Array, number: int) -> None:
        calls.append(number)
        array += number

    loomir.register_func("conformance.add", add, override=True)
    source = body('T.call_packed("conformance.add", A, n * 2)')
    made = loomir.compile(read(source), cache=False)
    a = i32(1, 2, 3, 4)
    made(a, 5)
    assert a.tolist() == [11, 12, 13, 14]
    assert calls == [10]


def test_TS_TREF_17_storage_sync():
    """A fence of GPU memory is read and printed; on a CPU it is refused, with what to do."""
    made = read(body('T.tvm_storage_sync("shared")'))
    assert 'T.tvm_storage_sync("shared")' in made.script()
    with pytest.raises(CompileError) as caught:
        loomir.compile(made)
    found = caught.value.diagnostic
    assert found.code == "TIR0512"
    assert "T.tvm_storage_sync" in found.message
    assert "loop" in (found.help or "")
