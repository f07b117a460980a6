"""Names of values change nothing: nests are recognised as if they were not there."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from fuzz.native import quick_codegen
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.lift.resolve_names import resolve_names, resolve_outer_names
from loomir.ir.visit import by_class
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.expr import Let
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import LetStmt, SeqStmt
from tests.autoschedule.agreement import draw, interpret_kinds, read_function

RANDOM = np.random.default_rng(8)
ARRAYS = {
    "product": 'p: T.Buffer((19, 37), "float32"), q: T.Buffer((37, 23), "float32"), '
    'o: T.Buffer((19, 23), "float32")',
    "rows": 'x: T.Buffer((17, 40), "float32"), o: T.Buffer((17, 40), "float32")',
    "bytes": 'p: T.Buffer((19, 36), "int8"), q: T.Buffer((36, 32), "int8"), '
    's: T.Buffer((32,), "float32"), o: T.Buffer((19, 32), "int8")',
    "vector": 'x: T.Buffer((70,), "float32"), i: T.Buffer((70,), "int32"), '
    'o: T.Buffer((70,), "float32"), r: T.Buffer((70,), "float32")',
}


def read(arrays: str, body: str) -> PrimFunc:
    lines = "\n".join("    " + line for line in body.strip("\n").split("\n"))
    head = f"from loomir.script import tir as T\n@T.prim_func\ndef f({ARRAYS[arrays]}):\n"
    func = from_source(head + lines + "\n")
    assert isinstance(func, PrimFunc)
    return func


def means_the_same(func: PrimFunc, *, native: bool = False) -> list[str]:
    """Compare the scheduled function with the one as written, without any rounding."""
    given: list[np.ndarray] = []
    for buffer in func.buffer_map.values():
        shape = [int(extent.value) for extent in buffer.shape]
        if buffer.dtype.is_float:
            given.append(np.array(RANDOM.standard_normal(shape) * 4, str(buffer.dtype)))
        else:
            high = 70 if buffer.dtype.bits == 32 else 127
            given.append(RANDOM.integers(0, high, shape).astype(str(buffer.dtype)))
    made = schedule_function(func, Target("native"))
    assert not loomir.verify(made.func)
    wanted = [array.copy() for array in given]
    loomir.interpret(func, func.name, *wanted)
    found = [array.copy() for array in given]
    loomir.interpret(made.func, func.name, *found)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)
    if native:
        with quick_codegen():
            loomir.compile(made.func, schedule=False, opt_level=0, cache=False)(*given)
        for a, b in zip(found, given, strict=True):
            np.testing.assert_array_equal(a, b)
    return [plan.kind for plan in made.plans]


SUM = """
for i, j in T.grid(19, 23):
    acc = T.float32(0)
    for l in range(37):
        {}
        acc += {}
    {}
"""
PLAIN = "acc += p[i, l] * q[l, j]"
FACTORS = {
    "a name": ("u = p[i, l]", "u * q[l, j]"),
    "a typed name": ("u: T.float32 = p[i, l]", "u * q[l, j]"),
    "T.let": ("u: T.let[T.float32] = p[i, l]", "u * q[l, j]"),
    "T.bind": ("u = T.bind(p[i, l])", "u * q[l, j]"),
    "names of names": ("u = p[i, l]; w = q[l, j]; t = u * w", "t"),
    "a name assigned twice": ("t = p[i, l]; t = t * q[l, j]", "t"),
    "places": ("a = i; b = l", "p[a, b] * q[b, j]"),
}
ENDS = {
    "a name": "z = acc + T.float32(1); o[i, j] = T.max(z, T.float32(0))",
    "assigned again": "acc = acc + T.float32(1); acc = T.max(acc, T.float32(0)); o[i, j] = acc",
    "a condition": "z = acc\n    if z < T.float32(0):\n        z = T.float32(0)\n    o[i, j] = z",
    "both ways": (
        "z = acc\n    if z < T.float32(0):\n        z = z * T.float32(3)\n    else:\n"
        "        z = z + T.float32(1)\n    o[i, j] = z"
    ),
}


@pytest.mark.parametrize("factor", FACTORS)
def test_names_in_a_sum(factor: str):
    names, term = FACTORS[factor]
    body = SUM.format(names.replace("; ", "\n        "), term, "o[i, j] = acc")
    assert means_the_same(read("product", body), native=True) == ["matrix product"]


@pytest.mark.parametrize("end", ENDS)
def test_names_behind_a_sum(end: str):
    body = SUM.format("pass", "p[i, l] * q[l, j]", ENDS[end].replace("; ", "\n    "))
    assert means_the_same(read("product", body.replace("        pass\n", ""))) == ["matrix product"]


NESTS = {
    "around the sum": (
        "product",
        """
for i, j in T.grid(19, 23):
    o[i, j] = T.float32(0)
for i, l in T.grid(19, 37):
    u = p[i, l]
    for j in range(23):
        o[i, j] += u * q[l, j]
""",
        ["matrix product"],
    ),
    "in a block": (
        "product",
        """
for i, j in T.grid(19, 23):
    with T.block("o"):
        vi, vj = T.axis.remap("SS", [i, j])
        acc = T.float32(0)
        for l in range(37):
            u = p[vi, l]
            acc += u * q[l, vj]
        z = acc + T.float32(1)
        o[vi, vj] = T.max(z, T.float32(0))
""",
        ["matrix product"],
    ),
    "softmax": (
        "rows",
        """
for i in range(17):
    top = T.min_value("float32")
    for j in range(40):
        v = x[i, j]
        top = T.max(top, v)
    total = T.float32(0)
    for j in range(40):
        e = T.exp(x[i, j] - top)
        o[i, j] = e
        total += e
    r = T.float32(1) / total
    for j in range(40):
        o[i, j] = o[i, j] * r
""",
        ["rows"],
    ),
    "stored later than used": (
        "rows",
        """
for i in range(17):
    total = T.float32(0)
    for j in range(40):
        e = T.exp(x[i, j])
        total += e
        o[i, j] = e
    for j in range(40):
        o[i, j] = o[i, j] / total
""",
        ["rows"],
    ),
    "layer norm": (
        "rows",
        """
for i in range(17):
    mean = T.float32(0)
    for j in range(40):
        mean += x[i, j]
    mean = mean / T.float32(40)
    total = T.float32(0)
    for j in range(40):
        d = x[i, j] - mean
        total += d * d
    scale = T.rsqrt(total / T.float32(40) + T.float32(1e-5))
    for j in range(40):
        n = x[i, j] - mean
        o[i, j] = n * scale
""",
        ["rows"],
    ),
    "requantisation": (
        "bytes",
        """
for i, j in T.grid(19, 32):
    acc = T.int32(0)
    for l in range(36):
        u = T.cast(p[i, l], "int32")
        w = T.cast(q[l, j], "int32")
        acc += u * w
    v = T.round(T.cast(acc, "float32") * s[j])
    if v > T.float32(127):
        v = T.float32(127)
    low = T.max(v, T.float32(-128))
    o[i, j] = T.cast(low, "int8")
""",
        ["matrix product"],
    ),
    "before the loops": (
        "rows",
        """
scale = x[0, 0] * T.float32(2)
total = T.float32(0)
for i, j in T.grid(17, 40):
    total += x[i, j]
root = T.sqrt(T.abs(total))
for i, j in T.grid(17, 40):
    o[i, j] = x[i, j] * scale / root
""",
        ["rows"],
    ),
}


@pytest.mark.parametrize("name", NESTS)
def test_names_between_loops(name: str):
    arrays, body, kinds = NESTS[name]
    found = means_the_same(read(arrays, body))
    assert found[: len(kinds)] == kinds
    assert "loops as written" not in found


ORDERED = {
    "written after it was read": """
for a in range(70):
    u = o[a]
    o[a] = x[a]
    r[a] = u
""",
    "swapped": """
for a in range(70):
    u = o[a]
    o[a] = r[a]
    r[a] = u * x[a]
""",
    "written by the store itself": """
for a in range(70):
    u = o[a] * T.float32(2)
    o[a] = u + x[a]
""",
    "read twice, written between": """
for a in range(70):
    u = T.exp(o[a])
    r[a] = u
    o[a] = x[a]
    r[a] = r[a] + u
""",
    "stored where it is overwritten": """
for a in range(70):
    u = T.exp(x[a])
    o[a] = u
    o[a] = o[a] + T.float32(1)
    r[a] = u
""",
    "in the next iteration": """
for a in range(69):
    u = o[a]
    o[a + 1] = u + x[a]
""",
    "a place that memory holds": """
for a in range(70):
    k = i[a]
    u = x[k]
    o[a] = u * u
    r[k] = u
""",
    "under a condition": """
for a in range(70):
    u = x[a]
    if u > T.float32(0):
        t = u * T.float32(2)
        o[a] = t
    r[a] = u
""",
    "a local that keeps its value": """
for a in range(70):
    t = x[a]
    if t > T.float32(1):
        t = t + o[a]
        o[a] = t
    t = t * t
    r[a] = t
""",
    "a loop in between": """
for a in range(70):
    t = x[a]
    for k in range(5):
        s = t * T.float32(0.5)
        t = s + x[k]
    u = t
    t = u + T.float32(1)
    o[a] = t
    r[a] = u
""",
    "never used": """
for a in range(70):
    u = x[a]
    o[a] = T.float32(1)
""",
}


@pytest.mark.parametrize("name", ORDERED)
def test_order_is_kept(name: str):
    means_the_same(read("vector", ORDERED[name]))


@pytest.mark.parametrize("value", ["T.floordiv(a, i[a])", "i[i[a] // i[0]]"])
def test_what_may_fail_keeps_its_name(value: str):
    func = read("vector", f"for a in range(70):\n    u = {value}\n    o[a] = T.cast(u, 'float32')")
    assert resolve_names(func.body) is None
    arrays = [np.ones(70, "float32"), np.zeros(70, "int32")]
    outs = [np.ones(70, "float32"), np.ones(70, "float32")]
    with pytest.raises(loomir.RunError, match="zero"):
        loomir.compile(func)(*arrays, *outs)


def test_chains_of_names_grow_in_a_bounded_way():
    lines = ["u0 = x[a] + T.float32(1)"]
    lines += [f"u{k + 1} = u{k} * u{k} - u{k}" for k in range(40)]
    body = "for a in range(70):\n    " + "\n    ".join([*lines, "o[a] = u40"])
    func = read("vector", body)
    made = resolve_names(func.body)
    assert made is not None
    assert LetStmt not in by_class(made.stmt)
    assert by_class(made.stmt)[Let]
    assert sum(map(len, by_class(made.stmt).values())) < 4000
    assert means_the_same(func) == ["element-wise"]


def test_functions_that_do_nothing_have_no_names():
    assert resolve_outer_names(SeqStmt(())) is None
    assert not schedule_function(PrimFunc((), SeqStmt(())), Target("native")).plans


def test_a_local_that_holds_what_a_call_returns_may_be_assigned_to_itself():
    module = from_source("""
from loomir.script import ir as I, tir as T
@I.ir_module
class Module:
    @T.prim_func
    def twice(a: T.float32) -> T.float32:
        return a + a

    @T.prim_func
    def main(x: T.Buffer((9,), "float32"), o: T.Buffer((9,), "float32")):
        for i in range(9):
            r = cls.twice(x[i])
            r = r
            o[i] = r
""")
    x, o = np.arange(9, dtype="float32"), np.zeros(9, "float32")
    loomir.compile(module)(x, o)
    np.testing.assert_array_equal(o, x + x)


VECTORS = ", ".join(f'{name}: T.Buffer((24,), "float32")' for name in "xor")
INTEGERS = 'x: T.Buffer((24,), "int32"), o: T.Buffer((24,), "int32")'
LONG = " + ".join(f"(v + T.float32({k}))" for k in range(200))
KEPT = {
    "a condition that may fail": (
        INTEGERS,
        """
for i in range(24):
    t = x[i]
    if 12 // (x[i] * x[i] + 1) > 2:
        t = T.int32(7)
    o[i] = t * t
""",
    ),
    "a checked place": (
        VECTORS + ', p: T.Buffer((24,), "int32")',
        """
for i in range(24):
    v = T.exp(x[i])
    o[T.checked_index(p[i], 24, "o", 0)] = v
    r[i] = v * v
""",
    ),
    "memory that a function may write": (
        VECTORS,
        """
for i in range(24):
    v = x[i] * T.float32(3)
    T.evaluate(T.call_extern("handle", "memset", x.data, 0, 96))
    o[i] = v
""",
    ),
    "a local that a function may write": (
        VECTORS,
        """
for i in range(24):
    t = T.alloc_buffer((1,), "float32")
    t[0] = x[i]
    T.evaluate(T.call_extern("handle", "memset", t.data, 0, 4))
    o[i] = t[0] + x[i]
""",
    ),
    "more assignments than are followed": (
        VECTORS,
        "for i in range(24):\n    t = x[i]\n"
        + "    t = t * T.float32(0.5) + x[i]\n" * 70
        + "    o[i] = t",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_names_that_stay(name: str):
    func = read_function(*KEPT[name])
    assert interpret_kinds(func, draw(func, p=RANDOM.permutation(24).astype("int32"))) == []


def test_a_name_keeps_its_value_when_a_function_writes():
    func = read_function(
        VECTORS,
        """
v = x[0]
T.evaluate(T.call_extern("handle", "memset", x.data, 0, 96))
for i in range(24):
    o[i] = v + x[i]
""",
    )
    assert interpret_kinds(func, draw(func)) == ["element-wise"] * 2


def test_a_name_in_a_long_expression_stays():
    func = read_function(
        VECTORS,
        f"""
v = T.float32()
for i in range(24):
    o[i] = T.Let({LONG}, where={{v: x[i]}})
""",
    )
    assert resolve_names(func.body) is None
    assert interpret_kinds(func, draw(func)) == ["element-wise"]
