"""Expressions: what each means, how deep they may be, and that nothing is run to find out."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

import pytest

import loomir.script
from loomir.ir import assert_structural_equal
from loomir.script import from_source
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType
from loomir.tir import (
    BUILTINS,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Cast,
    Div,
    Eq,
    Evaluate,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    LetStmt,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
    call_builtin,
)
from tests.clause import clauses
from tests.script.parser.programs import HEAD, read, refused

DTYPES = {
    "x": "int32",
    "y": "int32",
    "l": "int64",
    "u": "uint8",
    "s": "float32",
    "h": "float16",
    "b": "bool",
    "c": "bool",
    "q": "float32",
}
VARS = {name: Var(name, DataType(dtype)) for name, dtype in DTYPES.items()}
x, y, long, u, s, h, b, c, q = (VARS[n] for n in DTYPES)


def read_body(*lines: str, **values: object) -> Any:
    """Read the body of a function that knows the variables above."""
    head = '@T.prim_func\ndef f(A: T.Buffer((8, 8), "float32")):\n'
    text = head + "".join(f"    {line}\n" for line in lines)
    return read(text, **{**VARS, **values}).body


def value_of(text: str) -> PrimExpr:
    """Read an expression of the variables above."""
    body = read_body(f"T.evaluate({text})")
    assert isinstance(body, Evaluate)
    return body.value


def i32(value: int) -> IntImm:
    return IntImm(value, DataType("int32"))


def f32(value: float) -> FloatImm:
    return FloatImm(value, DataType("float32"))


def call(name: str, *args: PrimExpr) -> PrimExpr:
    return call_builtin(name, *args)


INT8, INT64, F32, F16 = (DataType(n) for n in ("int8", "int64", "float32", "float16"))

MEANINGS: list[tuple[str, PrimExpr]] = [
    ("x + y", Add(x, y)),
    ("x - 1", Sub(x, i32(1))),
    ("2 * x", Mul(i32(2), x)),
    ("x / y", Div(x, y)),
    ("s / 2", Div(s, f32(2))),
    ("x // y", FloorDiv(x, y)),
    ("x % 3", FloorMod(x, i32(3))),
    ("x + l", Add(Cast(x, INT64), long)),
    ("x + s", Add(Cast(x, F32), s)),
    ("h + s", Add(Cast(h, F32), s)),
    ("u + 1", Add(u, IntImm(1, DataType("uint8")))),
    ("-x", Sub(i32(0), x)),
    ("+x", x),
    ("-s", Mul(s, f32(-1.0))),
    ("~x", call("bitwise_not", x)),
    ("not b", Not(b)),
    (
        "x & y | 3 ^ x",
        call("bitwise_or", call("bitwise_and", x, y), call("bitwise_xor", i32(3), x)),
    ),
    ("x << 2", call("shift_left", x, i32(2))),
    ("x >> y", call("shift_right", x, y)),
    ("s ** 2", call("pow", s, f32(2))),
    ("x < y", LT(x, y)),
    ("x <= 3", LE(x, i32(3))),
    ("3 > x", GT(i32(3), x)),
    ("x >= y", GE(x, y)),
    ("x == y", Eq(x, y)),
    ("x != 0", NE(x, i32(0))),
    ("0 <= x < 8", And(LE(i32(0), x), LT(x, i32(8)))),
    ("0 <= x < y <= 8", And(And(LE(i32(0), x), LT(x, y)), LE(y, i32(8)))),
    ("b and c", And(b, c)),
    ("b and c and x > 0", And(And(b, c), GT(x, i32(0)))),
    ("b and (c and b)", And(b, And(c, b))),
    ("b or c and b", Or(b, And(c, b))),
    ("True and b", b),
    ("b and True", b),
    ("b or False", b),
    ("False or b or c", Or(b, c)),
    ("T.bool(True) and b", And(IntImm(1, DataType("bool")), b)),
    ("s if 1 < 2 else x", s),
    # plain values are computed as Python does
    ("7 // 2 + 1", i32(4)),
    ("-7 // 2", i32(-4)),
    ("1 + 0.5", f32(1.5)),
    ("min(3, 2) + len((1, 2))", i32(4)),
    ("[x, y][1]", y),
    ("(x, y)[0]", x),
    ("{'a': x}['a']", x),
    ("[1, 2, 3][-1]", i32(3)),
    ("(1, 2, 3)[1:][0]", i32(2)),
    ("2**40", IntImm(2**40, INT64)),
    ("float('inf')", f32(math.inf)),
    ("abs(-3)", i32(3)),
    ("0x10", i32(16)),
    ("1 if 'a' == 'a' else 2", i32(1)),
    ("tuple([5])[0]", i32(5)),
    # functions
    ("T.min(x, 3)", Min(x, i32(3))),
    ("T.max(s, 0)", Max(s, f32(0))),
    ("T.truncdiv(x, y)", Div(x, y)),
    ("T.div(x, y)", Div(x, y)),
    ("T.truncmod(x, y)", Mod(x, y)),
    ("T.floordiv(x, 2)", FloorDiv(x, i32(2))),
    ("T.floormod(x, 2)", FloorMod(x, i32(2))),
    ("T.ceildiv(x, 4)", FloorDiv(Sub(Add(x, i32(4)), i32(1)), i32(4))),
    ("T.Add(1, 2)", Add(i32(1), i32(2))),
    ("T.EQ(x, 2)", Eq(x, i32(2))),
    ("T.And(b, c)", And(b, c)),
    ("T.Not(b)", Not(b)),
    ("T.Cast('int64', 5)", Cast(i32(5), INT64)),
    ("T.Cast('int32', x)", Cast(x, DataType("int32"))),
    ("T.cast(5, 'int64')", IntImm(5, INT64)),
    ("T.cast(x, 'int64')", Cast(x, INT64)),
    ("T.cast(x, 'int32')", x),
    ("T.cast(x, T.int64)", Cast(x, INT64)),
    ("x.astype('int64')", Cast(x, INT64)),
    ("T.int64(5)", IntImm(5, INT64)),
    ("T.int64(x)", Cast(x, INT64)),
    ("T.float16(2)", FloatImm(2.0, F16)),
    ("T.float32('inf')", f32(math.inf)),
    ("T.float32('-inf')", f32(-math.inf)),
    ("T.bool(True)", IntImm(1, DataType("bool"))),
    ("T.bool(x)", Cast(x, DataType("bool"))),
    ("T.float32x4(1.5)", Broadcast(f32(1.5), 4)),
    ("T.float32x4(s)", Broadcast(s, 4)),
    ("T.int32x4(T.Ramp(0, 1, 4))", Ramp(i32(0), i32(1), 4)),
    ("T.Broadcast(1, 8)", Broadcast(i32(1), 8)),
    ("T.Ramp(l, 2, 4)", Ramp(long, IntImm(2, INT64), 4)),
    ("T.Shuffle([T.Ramp(x, 1, 2), y], [2, 0])", Shuffle((Ramp(x, i32(1), 2), y), (i32(2), i32(0)))),
    ("T.Select(b, x, 1)", Select(b, x, i32(1))),
    ("T.if_then_else(b, 1.0, s)", call("if_then_else", b, f32(1), s)),
    ("T.if_then_else(x > 0, x, l)", call("if_then_else", GT(x, i32(0)), Cast(x, INT64), long)),
    ("T.reinterpret('int32', s)", call_builtin("reinterpret", s, dtype=DataType("int32"))),
    ("T.reinterpret(s, 'int32')", call_builtin("reinterpret", s, dtype=DataType("int32"))),
    ("T.min_value('int8')", IntImm(-128, INT8)),
    ("T.max_value('uint8')", IntImm(255, DataType("uint8"))),
    ("T.max_value('float16')", FloatImm(65504.0, F16)),
    ("T.min_value('float32')", f32(-3.4028234663852886e38)),
    ("T.infinity('float32')", f32(math.inf)),
    ("T.pow(s, 3)", call("pow", s, f32(3))),
    ("T.power(s, 3)", call("pow", s, f32(3))),
    ("T.fma(s, 2, 1.0)", call("fma", s, f32(2), f32(1))),
    ("T.ldexp(s, 3)", call("ldexp", s, i32(3))),
    ("T.bitwise_and(l, 3)", call("bitwise_and", long, IntImm(3, INT64))),
    ("T.shift_left(x, 1)", call("shift_left", x, i32(1))),
    ("T.abs(x)", call("abs", x)),
    ("T.likely(b)", call("likely", b)),
    ("T.StringImm('a')", StringImm("a")),
    ("T.Call('int32', 'tir.abs', [x])", call("abs", x)),
    ("T.tvm_stack_make_shape(1, l)", call("tvm_stack_make_shape", i32(1), long)),
    (
        "T.check(x > 0, 'match', 'A', 'the offset', x)",
        call("check", x > 0, StringImm("match"), StringImm("A"), StringImm("the offset"), x),
    ),
    ("T.checked_index(l, 8, 'A', 0)", call("checked_index", long, i32(8), StringImm("A"), i32(0))),
]


@clauses("TS-SYN-18", "TS-SYN-20", "TS-TREF-12", "TS-TREF-13", "TS-TREF-14", "TS-FLOW-03")
@pytest.mark.parametrize(("text", "wanted"), MEANINGS, ids=lambda v: str(v)[:40])
def test_meaning(text: str, wanted: PrimExpr):
    assert_structural_equal(value_of(text), wanted)


FLAGS = """
@T.prim_func
def f(v: T.Buffer((8,), "bool"), x: T.bool):
    v[0:4] = {}
"""


@clauses("TIR-ETY-14", "TIR-EVAL-19")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("v[0:4] or v[4:8]", "T.Or(v[T.Ramp(0, 1, 4)], v[T.Ramp(4, 1, 4)])"),
        ("v[0:4] and x", "T.And(v[T.Ramp(0, 1, 4)], T.Broadcast(x, 4))"),
        ("x or v[0:4]", "T.Or(T.Broadcast(x, 4), v[T.Ramp(0, 1, 4)])"),
        ("T.Or(x, v[0:4])", "T.Or(T.Broadcast(x, 4), v[T.Ramp(0, 1, 4)])"),
        ("not v[0:4]", "T.Not(v[T.Ramp(0, 1, 4)])"),
        ("v[0:4] and True", "v[T.Ramp(0, 1, 4)]"),
        ("v[0:4] and v[4:8] or x", "T.Or(T.And(v[0:4], v[4:8]), T.Broadcast(x, 4))"),
    ],
)
def test_logic_works_lane_by_lane(written: str, meant: str):
    made = read(FLAGS.format(written))
    assert_structural_equal(made, read(FLAGS.format(meant)))
    assert_structural_equal(made, from_source(made.script()))


UNARY = [n for n, row in BUILTINS.items() if row.arity == 1 and row.accepts.value == "floats"]


@clauses("TS-TREF-11")
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_float(name: str):
    assert_structural_equal(value_of(f"T.{name}(s)"), call(name, s))


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_every_builtin_has_a_function(name: str):
    assert name in loomir.script.tir.__all__
    assert callable(getattr(loomir.script.tir, name))


def test_let():
    body = read_body("v = T.int32()", "T.evaluate(T.Let(v + 1, where={v: x}))")
    v = Var("v", DataType("int32"))
    assert isinstance(body, Evaluate)
    assert_structural_equal(body.value, Let(v, x, Add(v, i32(1))))


def test_attributes_of_buffers():
    func = read(
        HEAD.replace("8, 8", "8, 4")
        + "    for i in range(A.shape[1]):\n        A[0, i] = T.cast(1, A.dtype)\n"
        + "    v = A.vload([0, 0], 'float32x4')\n    A.vstore([1, 0], v)\n"
        + "    if A.scope() == 'global' and A.dtype == 'float32' and len(A.shape) == 2:\n"
        + "        T.evaluate(A.data)\n"
    )
    loop, rest = func.body.seq  # type: ignore[attr-defined]
    assert loop.extent.value == 4
    assert isinstance(rest, LetStmt)
    assert isinstance(rest.value, BufferLoad)
    assert isinstance(rest.value.indices[1], Ramp)
    assert "T.evaluate" in func.script() or "A.data" in func.script()


def test_a_decision_leaves_out_what_does_not_matter():
    assert isinstance(value_of("x if True else undefined_name"), Var)
    body = read_body("if False and undefined_name:", "    A[0, 0] = 1.0", "x")
    assert isinstance(body, Evaluate)


# -- depth -------------------------------------------------------------------------------------
DEEP = {
    "sum": lambda n: " + ".join(["x"] * n),
    "minus": lambda n: "-" * n + "x",
    "not": lambda n: "not " * n + "b",
    "power": lambda n: " ** ".join(["s"] * n),
    "parentheses": lambda n: "(" * n + "x" + ")" * n,
    "calls": lambda n: "T.exp(" * n + "s" + ")" * n,
    "indices": lambda n: "A[0, 0]" if n < 0 else "x" + "[0]" * n,
    "attributes": lambda n: "x" + ".y" * n,
    "tuples": lambda n: "(" * n + "x" + ",)" * n,
    "choices": lambda n: "x if b else " * n + "x",
    "comparisons": lambda n: " < ".join(["x"] * n),
    "and": lambda n: " and ".join(["b"] * n),
}


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("depth", [90, 900, 2500, 20_000])
def test_a_deep_expression_gives_a_result_or_a_typed_error(name: str, depth: int):
    found: tuple[Diagnostic, ...] = ()
    try:
        read_body(f"T.evaluate({DEEP[name](depth)})")
    except CompileError as error:
        found = error.diagnostics
    assert all(d.code.startswith(("SCR", "TIR")) and d.span is not None for d in found)


@pytest.mark.parametrize("name", ["sum", "minus", "power", "and"])
def test_expressions_thousands_deep_are_read(name: str):
    value = value_of(DEEP[name](2000))
    assert isinstance(value, PrimExpr)


def test_long_chains_of_branches_and_bindings_are_read():
    read_body("if x < 0:", "    pass", *["elif x < 1:", "    A[0, 0] = 1.0"] * 1500)
    read_body(*[f"v{n} = x + {n}" for n in range(3000)])


@pytest.mark.parametrize("levels", [90, 200])
def test_nested_loops(levels: int):
    lines = [f"{'    ' * n}for i{n} in range(2):" for n in range(levels)]
    lines.append("    " * levels + "A[0, 0] = 1.0")
    if levels < 100:  # what Python allows
        assert read_body(*lines) is not None
    else:
        head = '@T.prim_func\ndef f(A: T.Buffer((8, 8), "float32")):\n'
        (found,) = refused(head + "".join(f"    {line}\n" for line in lines))
        assert found.code == "SCR0001"


# -- nothing is run ----------------------------------------------------------------------------
PROBES = [
    "__import__('os').system('touch {mark}')",
    'eval(\'open("{mark}", "w")\')',
    'exec(\'open("{mark}", "w")\')',
    "open('{mark}', 'w')",
    "compile('1', '', 'eval')",
    "(lambda: open('{mark}', 'w'))()",
    "[open('{mark}', 'w') for _ in range(1)]",
    "().__class__.__base__.__subclasses__()",
    "T.__dict__['exp']",
    "T.exp.__globals__['__builtins__']['open']('{mark}', 'w')",
    "T.axis.__class__.spatial.__globals__",
    "x.__class__.__init__.__globals__",
    "A.__getitem__((0, 0))",
    "A.data.__reduce__()",
    "'{{0.__class__}}'.format(x)",
    "'a'.__class__.__mro__",
    "getattr(T, 'exp')",
    "type(x)",
    "globals()['open']('{mark}', 'w')",
    "breakpoint()",
    "input()",
    "T.meta_var(open)('{mark}', 'w')",
    "I.ir_module(open)",
    "T.prim_func(open)",
    "len.__self__.open('{mark}', 'w')",
    "range.__init_subclass__",
    "cls.__dict__",
    "f.__globals__",
    "T.Buffer.__init__.__globals__",
    "(x := open('{mark}', 'w'))",
    'f\'{{open("{mark}", "w")}}\'',
]


@clauses("TS-OV-01", "TS-DEC-08")
@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("place", ["    T.evaluate({})\n", "    for i in {}:\n        pass\n"])
def test_a_text_cannot_run_anything(probe: str, place: str, tmp_path: Path):
    mark = tmp_path / "mark"
    text = HEAD + place.format(probe.format(mark=mark))
    found = refused(text)
    assert not mark.exists()
    assert all(d.code.startswith("SCR") for d in found)


@clauses("TS-OV-01")
@pytest.mark.parametrize("probe", PROBES[:12])
def test_nor_can_its_heads(probe: str, tmp_path: Path):
    mark = tmp_path / "mark"
    text = probe.format(mark=mark)
    refused(f"@T.prim_func\ndef f(A: {text}):\n    pass\n")
    refused(f"@T.prim_func\ndef f(A: T.Buffer(({text},))):\n    pass\n")
    refused(f"@T.prim_func\ndef f() -> {text}:\n    pass\n")
    refused(f"@({text})\ndef f():\n    pass\n")
    refused(f"N = {text}\n")
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    refused(f'@T.prim_func\ndef f(A: T.Buffer(("{quoted}",))):\n    pass\n')
    refused(f'@T.prim_func\ndef f(A: "{quoted}"):\n    pass\n')
    assert not mark.exists()


class Trap:
    """Tells when anything of it is run."""

    ran: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.ran.append(name)
        raise AttributeError(name)

    @property
    def prop(self) -> int:
        self.ran.append("prop")
        return 1

    def __call__(self) -> int:
        self.ran.append("call")
        return 1

    def __getitem__(self, key: object) -> int:
        self.ran.append("getitem")
        return 1

    def __add__(self, other: object) -> int:
        self.ran.append("add")
        return 1

    def __index__(self) -> int:
        self.ran.append("index")
        return 1

    def __bool__(self) -> bool:
        self.ran.append("bool")
        return True

    def __eq__(self, other: object) -> bool:
        self.ran.append("eq")
        return True

    def __hash__(self) -> int:
        return 1

    def __iter__(self) -> Any:
        self.ran.append("iter")
        return iter(())


class TrapInt(int):
    def __add__(self, other: object) -> int:
        Trap.ran.append("int add")
        return 99

    def __index__(self) -> int:
        Trap.ran.append("int index")
        return 99


TRAPS = ["t.prop", "t.other", "t()", "t[0]", "t + 1", "1 + t", "A[t, 0]", "t == 1", "not t"]
TRAPS += ["t and 1", "1 if t else 2", "T.exp(t)", "T.Broadcast(1, t)", "len(t)", "(1, 2)[t]"]


@pytest.mark.parametrize("text", TRAPS)
def test_values_around_a_function_are_not_run_either(text: str):
    Trap.ran.clear()
    refused(HEAD + f"    T.evaluate({text})\n", t=Trap())
    assert Trap.ran == []


def test_what_a_number_s_class_adds_is_left_out():
    Trap.ran.clear()
    body = read_body("T.evaluate(n + 1)", n=TrapInt(4))
    assert isinstance(body, Evaluate)
    assert_structural_equal(body.value, i32(5))
    assert Trap.ran == []


HEAVY = [
    "9**9**9",
    "1 << 10**9",
    "'a' * 10**9",
    "(0,) * 10**9",
    "[0] * 10**9",
    "list(range(10**12))",
    "tuple(range(10**9))",
    "0x" + "f" * 4000,
    "9" * 3000,
    "10**300 * 10**300 * 10**300",
    "'%1000000000d' % 1",
    "str(10**300) * 1000",
]


@pytest.mark.parametrize("text", HEAVY, ids=lambda t: t[:30])
def test_plain_values_cannot_grow_without_limit(text: str):
    found = refused(HEAD + f"    v = {text}\n")
    assert found[0].code in {"SCR0020", "SCR0009", "TIR0103"}


FORBIDDEN = {"eval", "exec", "compile", "__import__", "import_module", "globals", "setattr"}


@pytest.mark.parametrize("package", ["parser", "builder"])
def test_the_source_has_nothing_that_runs_text(package: str):
    folder = Path(loomir.script.__file__).parent / package
    files = sorted(folder.rglob("*.py"))
    assert files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if called == "setattr" and file.name == "convert.py":
                    continue  # fills the nodes that it has made
                if ast.unparse(node.func) == "re.compile":
                    continue  # a pattern
                assert called not in FORBIDDEN, f"{file.name}:{node.lineno}: {called}"


def test_a_value_of_another_program_cannot_be_called():
    other = from_source("@T.prim_func\ndef g():\n    pass\n")
    (found,) = refused(HEAD + "    g()\n", g=other)
    assert (found.code, found.message) == ("SCR0007", "this function belongs to another program")
