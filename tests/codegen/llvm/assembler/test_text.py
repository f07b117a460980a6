"""The text of modules and the checks of the builder; LLVM itself reads what is written."""

import ctypes
import math
import struct as packing
from typing import Any

import numpy as np
import pytest

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.names import global_name
from loomir.codegen.llvm.assembler.text import Module
from loomir.codegen.llvm.assembler.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    VOID,
    array,
    function,
    integer,
    struct,
    vector,
)
from loomir.codegen.llvm.assembler.values import (
    FALSE,
    NULL,
    TRUE,
    Value,
    aggregate,
    const,
    poison,
    vector_of,
    zero,
)
from loomir.codegen.llvm.jit.engine import compile_ir, load, optimise_ir
from loomir.support.diagnostics import InternalError


def function_of(result: Any, *params: Any):
    module = Module()
    f = module.define("f", result, [(f"p{i}", t) for i, t in enumerate(params)])
    return module, f, Builder(f)


def run(module: Any, result: Any, args: Any, *values: Any):
    library = load(compile_ir(module.render(), level=0))
    return ctypes.CFUNCTYPE(result, *args)(library.address("f"))(*values)


# -- types --------------------------------------------------------------------------------------
def test_types_are_interned_and_answer_for_their_elements():
    t = vector(FLOAT, 4)
    assert t is vector(FLOAT, 4) is FLOAT.with_lanes(4)
    assert (t.text, t.code, t.lanes, t.bits, t.align) == ("<4 x float>", "v4f32", 4, 32, 4)
    assert t.element is FLOAT
    assert t.with_lanes(8) is vector(FLOAT, 8)
    assert t.with_lanes(1) is FLOAT
    assert t.mask is vector(I1, 4)
    assert I32.mask is I1
    assert I1.with_lanes(4).mask is I1.with_lanes(4)
    assert integer(16) is I16
    assert struct([I32, PTR]) is struct([I32, PTR])
    assert array(I8, 3) is array(I8, 3)
    assert function(VOID, [PTR]) is function(VOID, [PTR])
    assert vector(FLOAT, 1) is not FLOAT
    assert (t.store_size, array(t, 3).store_size, I1.store_size) == (16, 48, 1)


def test_types_that_do_not_exist_are_refused():
    for make in (
        lambda: vector(VOID, 4),
        lambda: vector(FLOAT, 0),
        lambda: vector(vector(FLOAT, 2), 2),
        lambda: array(VOID, 1),
        lambda: array(I8, -1),
        lambda: struct([VOID]),
        lambda: function(VOID, [VOID]),
        lambda: integer(7),
        lambda: VOID.store_size,
    ):
        with pytest.raises(InternalError):
            make()


# -- constants ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        (I8, 255, "-1"),
        (I8, 128, "-128"),
        (I8, 256, "0"),
        (I64, -1, "-1"),
        (I64, 1 << 63, "-9223372036854775808"),
        (I1, 1, "true"),
        (I1, 2, "false"),
        (DOUBLE, 1.0, "0x3FF0000000000000"),
        (DOUBLE, -0.0, "0x8000000000000000"),
        (FLOAT, 0.1, "0x3FB99999A0000000"),
        (FLOAT, math.inf, "0x7FF0000000000000"),
        (FLOAT, 1e300, "0x7FF0000000000000"),
        (HALF, 1.5, "0xH3E00"),
        (HALF, -1e9, "0xHFC00"),
        (HALF, math.nan, "0xH7E00"),
        (vector(I32, 4), 7, "splat (i32 7)"),
        (vector(FLOAT, 2), 0.5, "splat (float 0x3FE0000000000000)"),
    ],
)
def test_constants_are_exact(type: Any, value: Any, text: str):
    assert const(type, value).text == text


@pytest.mark.parametrize(
    ("type", "form", "bits"), [(HALF, "<e", "H"), (FLOAT, "<f", "I"), (DOUBLE, "<d", "Q")]
)
def test_llvm_reads_float_constants_as_meant(type: Any, form: str, bits: str):
    values = [0.0, -0.0, 1.0, -1.5, 0.1, 65504.0, 6e-8, 6.1e-5, math.inf, -math.inf, 3.14159]
    values += [math.nan, 5e-324, 1e-40, 1.7e308]
    module, f, b = function_of(VOID, PTR)
    for i, value in enumerate(values):
        b.store(const(type, value), b.gep(type, f.params[0], const(I64, i)))
    b.ret()
    out = ctypes.create_string_buffer(8 * len(values))
    run(module, None, [ctypes.c_void_p], ctypes.addressof(out))
    dtype = {"H": np.float16, "I": np.float32, "Q": np.float64}[bits]
    got = np.frombuffer(out.raw[: len(values) * type.bits // 8], dtype)
    with np.errstate(over="ignore", under="ignore"):
        want = np.array(values, np.float64).astype(dtype)
    assert packing.calcsize(form) == type.bits // 8
    assert (np.isnan(got) == np.isnan(want)).all()
    keep = ~np.isnan(want)
    assert got[keep].tobytes() == want[keep].tobytes()


def test_constants_of_the_wrong_kind_are_refused():
    for make in (
        lambda: const(I32, 1.0),
        lambda: const(PTR, 0),
        lambda: const(struct([I32]), 0),
        lambda: zero(VOID),
        lambda: poison(VOID),
        lambda: vector_of([const(I32, 1), const(I64, 1)]),
        lambda: vector_of([]),
        lambda: vector_of([Value(I32, "%x")]),
        lambda: aggregate(array(I32, 2), [const(I32, 1)]),
        lambda: aggregate(I32, []),
    ):
        with pytest.raises(InternalError):
            make()


# -- names --------------------------------------------------------------------------------------
HOSTILE = [
    'f"(){ret void} define void @g',
    "f\\",
    "a\nb",
    "x) { unreachable } ; ",
    "é",
    "",
    "0",
    "%",
    '"',
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_hint_ends_its_token(hostile: str):
    module = Module(hostile)
    f = module.define("f", I32, [(hostile, I32), (hostile, I32)])
    b = Builder(f)
    block = b.append(hostile)
    b.br(block)
    b.position_at_end(block)
    phi = b.phi(I32, hostile)
    phi.add(f.params[1], f.entry)
    slot = b.alloca(I32, hint=hostile)
    b.store(phi, slot)
    text = module.string(hostile)
    module.data(hostile.replace("\n", ""), b"x")
    b.ret(b.add(b.load(I32, slot), b.zext(b.load(I8, text), I32)))
    first = (hostile.encode() + b"\0")[0]
    assert run(module, ctypes.c_int32, [ctypes.c_int32] * 2, 5, 7) == 7 + first
    assert sum(line.startswith("define ") for line in module.render().splitlines()) == 1


@pytest.mark.parametrize("name", ["", "a\0b", "\x01memcpy", "a\nb"])
def test_symbols_with_control_characters_are_refused(name: str):
    with pytest.raises(InternalError):
        global_name(name)


def test_attribute_text_is_escaped():
    module = Module(attributes={'target-cpu"="x': 'y" noreturn "', "nounwind": None})
    Builder(module.define("f", VOID, [])).ret()
    assert "noreturn" not in module.render().replace("\\22 noreturn \\22", "")
    compile_ir(module.render())


# -- modules ------------------------------------------------------------------------------------
def test_declarations_are_shared_and_must_agree():
    module = Module()
    a = module.declare("g", I32, [I32])
    assert module.declare("g", I32, [I32]) is a
    with pytest.raises(InternalError):
        module.declare("g", I64, [I32])
    with pytest.raises(InternalError):
        module.define("g", I64, [])
    defined = module.define("g", I32, [("x", I32)])
    Builder(defined).ret(const(I32, 1))
    assert module.declare("g", I32, [I32]) is defined
    assert module.find("g") is defined
    assert module.render().count("@g") == 1
    for again in (
        lambda: module.define("g", I32, [("x", I32)]),
        lambda: module.define_global("g", const(I32, 1)),
        lambda: module.define("llvm.fma.f32", FLOAT, []),
        lambda: module.define("h", VOID, [], linkage="odd"),
    ):
        with pytest.raises(InternalError):
            again()


def test_strings_and_globals():
    module = Module()
    assert module.string("x") is module.string(b"x")
    assert module.string("x") is not module.string("y")
    counter = module.define_global("counter", const(I64, 40))
    table = module.define_global(
        "table", aggregate(array(PTR, 2), [counter, module.string("é")]), constant=True
    )
    f = module.define("f", I64, [])
    b = Builder(f)
    first = b.load(PTR, table)
    b.store(b.add(b.load(I64, first), const(I64, 2)), counter)
    second = b.load(PTR, b.gep(PTR, table, const(I64, 1)))
    length = b.call(module.declare("strlen", I64, [PTR]), [second])
    b.ret(b.add(b.load(I64, counter), length))
    assert run(module, ctypes.c_int64, []) == 44


def test_structs_keep_one_meaning():
    module = Module()
    pair = module.struct("pair", [I32, I64])
    assert module.struct("pair", [I32, I64]) is pair
    with pytest.raises(InternalError):
        module.struct("pair", [I64])
    f = module.define("f", I64, [])
    b = Builder(f)
    slot = b.alloca(pair)
    b.store(const(I64, 9), b.field(pair, slot, 1))
    b.ret(b.load(I64, b.field(pair, slot, 1)))
    assert run(module, ctypes.c_int64, []) == 9
    with pytest.raises(InternalError):
        b.field(pair, slot, 2)


def test_metadata_is_shared_unless_distinct():
    module = Module()
    assert module.metadata("!{i32 1}") is module.metadata("!{i32 1}")
    loop = module.metadata("!{{self}}", distinct=True)
    assert module.metadata("!{{self}}", distinct=True) is not loop
    flags = module.metadata('!{i32 2, !"Debug Info Version", i32 3}')
    module.add_named_metadata("llvm.module.flags", flags)
    f = module.define("f", I32, [("n", I32)])
    b = Builder(f)
    head = b.append("head")
    done = b.append("done")
    b.br(head)
    b.position_at_end(head)
    i = b.phi(I32)
    i.add(const(I32, 0), f.entry)
    step = b.add(i, const(I32, 1))
    i.add(step, head)
    b.condbr(b.icmp("slt", step, f.params[0]), head, done, meta={"llvm.loop": loop})
    b.position_at_end(done)
    b.ret(step)
    assert run(module, ctypes.c_int32, [ctypes.c_int32], 17) == 17


def test_locations_follow_every_instruction():
    module = Module()
    file = module.metadata('!DIFile(filename: "a.py", directory: "/")')
    unit = module.metadata(
        f"!DICompileUnit(language: DW_LANG_C, file: {file}, emissionKind: LineTablesOnly)",
        distinct=True,
    )
    module.add_named_metadata("llvm.dbg.cu", unit)
    module.add_named_metadata(
        "llvm.module.flags", module.metadata('!{i32 2, !"Debug Info Version", i32 3}')
    )
    kind = module.metadata("!DISubroutineType(types: !{})")
    scope = module.metadata(
        f'!DISubprogram(name: "f", file: {file}, line: 1, type: {kind}, unit: {unit},'
        " spFlags: DISPFlagDefinition)",
        distinct=True,
    )
    f = module.define("f", I32, [("x", I32)], metadata={"dbg": scope})
    b = Builder(f)
    b.locate(module.metadata(f"!DILocation(line: 3, scope: {scope})"))
    y = b.add(f.params[0], f.params[0])
    b.locate(None)
    z = b.add(y, y)
    b.locate(module.metadata(f"!DILocation(line: 4, scope: {scope})"))
    b.ret(z)
    assert module.render().count("!dbg") == 3
    assert b".debug_line" in compile_ir(module.render())


# -- instructions -------------------------------------------------------------------------------
INTS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "udiv": lambda x, y: (x & 0xFFFFFFFF) // (y & 0xFFFFFFFF),
    "urem": lambda x, y: (x & 0xFFFFFFFF) % (y & 0xFFFFFFFF),
    "sdiv": lambda x, y: int(x / y),
    "srem": lambda x, y: x - y * int(x / y),
    "shl": lambda x, y: x << y,
    "lshr": lambda x, y: (x & 0xFFFFFFFF) >> y,
    "ashr": lambda x, y: x >> y,
    "and_": lambda x, y: x & y,
    "or_": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}


@pytest.mark.parametrize("op", sorted(INTS))
def test_integer_arithmetic(op: Any):
    module, f, b = function_of(I32, I32, I32)
    b.ret(getattr(b, op)(*f.params))
    code = run_many(module, ctypes.c_int32, [(-7, 3), (7, 3), (123456, 5), (-1, 31)])
    for (x, y), got in code:
        assert got & 0xFFFFFFFF == INTS[op](x, y) & 0xFFFFFFFF, (op, x, y)


def run_many(module: Any, kind: Any, pairs: Any):
    library = load(compile_ir(module.render(), level=0))
    f = ctypes.CFUNCTYPE(kind, kind, kind)(library.address("f"))
    return [(pair, f(*pair)) for pair in pairs]


@pytest.mark.parametrize(
    ("op", "python"),
    [
        ("fadd", lambda x, y: x + y),
        ("fsub", lambda x, y: x - y),
        ("fmul", lambda x, y: x * y),
        ("fdiv", lambda x, y: x / y),
    ],
)
def test_float_arithmetic(op: str, python: Any):
    module, f, b = function_of(DOUBLE, DOUBLE, DOUBLE)
    b.ret(getattr(b, op)(*f.params))
    for (x, y), got in run_many(module, ctypes.c_double, [(1.5, 0.1), (-3.0, 7.0)]):
        assert got == python(x, y)


def test_comparisons_and_select():
    module, f, b = function_of(I32, I32, I32)
    x, y = f.params
    out = const(I32, 0)
    predicates = ["eq", "ne", "ugt", "uge", "ult", "ule", "sgt", "sge", "slt", "sle"]
    for i, predicate in enumerate(predicates):
        bit = b.select(b.icmp(predicate, x, y), const(I32, 1 << i), const(I32, 0))
        out = b.or_(out, bit)
    b.ret(out)
    for (x, y), got in run_many(module, ctypes.c_int32, [(1, 2), (-1, 2), (3, 3)]):
        u, v = x & 0xFFFFFFFF, y & 0xFFFFFFFF
        want = [x == y, x != y, u > v, u >= v, u < v, u <= v, x > y, x >= y, x < y, x <= y]
        assert got == sum(w << i for i, w in enumerate(want))


def test_fcmp_orders_nan():
    module, f, b = function_of(I32, DOUBLE, DOUBLE)
    x, y = f.params
    out = const(I32, 0)
    predicates = ["oeq", "ogt", "oge", "olt", "ole", "one", "ord"]
    predicates += ["ueq", "ugt", "uge", "ult", "ule", "une", "uno"]
    for i, predicate in enumerate(predicates):
        out = b.or_(out, b.shl(b.zext(b.fcmp(predicate, x, y), I32), const(I32, i)))
    b.ret(out)
    library = load(compile_ir(module.render(), level=0))
    f = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_double, ctypes.c_double)(library.address("f"))
    for x, y in [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0), (math.nan, 1.0)]:
        nan = math.isnan(x)
        ordered = [x == y, x > y, x >= y, x < y, x <= y, not nan and x != y, not nan]
        unordered = [nan or w for w in (x == y, x > y, x >= y, x < y, x <= y, x != y)] + [nan]
        assert f(x, y) == sum(w << i for i, w in enumerate(ordered + unordered))


def test_casts():
    module, f, b = function_of(DOUBLE, I32, DOUBLE)
    x, d = f.params
    wide = b.sext(b.trunc(x, I8), I64)
    unsigned = b.zext(b.trunc(x, I16), I32)
    parts = [
        b.sitofp(wide, DOUBLE),
        b.uitofp(unsigned, DOUBLE),
        b.fpext(b.fptrunc(d, FLOAT), DOUBLE),
        b.sitofp(b.fptosi(d, I32), DOUBLE),
        b.uitofp(b.fptoui(d, I32), DOUBLE),
        b.sitofp(b.bitcast(b.fptrunc(d, FLOAT), I32), DOUBLE),
    ]
    total = parts[0]
    for part in parts[1:]:
        total = b.fadd(total, part)
    b.ret(total)
    got = run(module, ctypes.c_double, [ctypes.c_int32, ctypes.c_double], 0x1FFFE, 2.75)
    bits = packing.unpack("<i", packing.pack("<f", 2.75))[0]
    assert got == -2 + 0xFFFE + 2.75 + 2 + 2 + bits


def test_vectors():
    v4 = vector(I32, 4)
    module, f, b = function_of(I32, PTR, I32)
    v = b.load(v4, f.params[0])
    v = b.add(v, b.splat(f.params[1], 4))
    v = b.mul(v, vector_of([const(I32, i) for i in (1, 10, 100, 1000)]))
    v = b.shufflevector(v, poison(v4), [3, 2, 1, 0])
    v = b.insertelement(v, const(I32, 5), 1)
    assert b.splat(f.params[1], 1) is f.params[1]
    assert b.splat(const(I32, 3), 4).text == "splat (i32 3)"
    total = b.intrinsic("llvm.vector.reduce.add", [v], result=I32)
    b.ret(b.add(total, b.mul(b.extractelement(v, 0), const(I32, 0))))
    data = (ctypes.c_int32 * 4)(1, 2, 3, 4)
    address = ctypes.addressof(data)
    assert run(module, ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int32], address, 1) == 5037


def test_gather_addresses_are_vectors():
    module, f, b = function_of(FLOAT, PTR)
    indices = vector_of([const(I64, i) for i in (6, 0)])
    where = b.gep(FLOAT, f.params[0], indices)
    assert where.type is vector(PTR, 2)
    v = b.intrinsic(
        "llvm.masked.gather",
        [where, const(vector(I1, 2), 1), zero(vector(FLOAT, 2))],
        result=vector(FLOAT, 2),
        overloads=[vector(FLOAT, 2), vector(PTR, 2)],
    )
    b.ret(b.fsub(b.extractelement(v, 0), b.extractelement(v, 1)))
    data = (ctypes.c_float * 8)(*range(8))
    assert run(module, ctypes.c_float, [ctypes.c_void_p], ctypes.addressof(data)) == 6.0


def test_control_flow():
    module, f, b = function_of(I32, I32)
    cases = [b.append("case") for _ in range(3)]
    done = b.append("done")
    b.switch(f.params[0], cases[2], [(-1, cases[0]), (5, cases[1])])
    results = []
    for i, case in enumerate(cases):
        b.position_at_end(case)
        results.append((b.add(f.params[0], const(I32, 100 * i)), b.block))
        b.br(done)
    b.position_at_end(done)
    phi = b.phi(I32)
    for value, block in results:
        phi.add(value, block)
    assert b.is_open
    b.ret(phi)
    assert not b.is_open
    library = load(compile_ir(module.render(), level=0))
    f = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(library.address("f"))
    assert [f(-1), f(5), f(7)] == [-1, 105, 207]


def test_calls_direct_indirect_and_variadic():
    module = Module()
    inner = module.define("inner", I32, [("x", I32)], linkage="internal")
    b = Builder(inner)
    b.ret(b.mul(inner.params[0], const(I32, 3)))
    f = module.define("f", I32, [("p", PTR)])
    b = Builder(f)
    b.call_pointer(inner, inner.signature, [const(I32, 1)])
    printf = module.declare("snprintf", I32, [PTR, I64, PTR], varargs=True)
    n = b.call(
        printf, [f.params[0], const(I64, 8), module.string("%d-%d"), const(I32, 4), const(I32, 5)]
    )
    b.ret(b.add(n, b.call(inner, [const(I32, 7)], tail=True)))
    out = ctypes.create_string_buffer(8)
    assert run(module, ctypes.c_int32, [ctypes.c_void_p], ctypes.addressof(out)) == 24
    assert out.value == b"4-5"


def test_atomics():
    module, f, b = function_of(I64, PTR)
    p = f.params[0]
    old = b.atomicrmw("add", p, const(I64, 5))
    seen, swapped = b.cmpxchg(p, const(I64, 15), const(I64, 99), "acq_rel", "acquire")
    b.fence("acq_rel")
    now = b.load_atomic(I64, p, "acquire")
    b.store_atomic(const(I64, 1), p, "release")
    total = b.add(b.add(old, seen), b.add(now, b.zext(swapped, I64)))
    b.ret(total)
    cell = ctypes.c_int64(10)
    got = run(module, ctypes.c_int64, [ctypes.c_void_p], ctypes.addressof(cell))
    assert (got, cell.value) == (10 + 15 + 99 + 1, 1)


def test_aggregates():
    pair = struct([I32, array(I32, 2)])
    module, f, b = function_of(I32, I32)
    inner = b.insertvalue(zero(array(I32, 2)), f.params[0], 1)
    whole = b.insertvalue(zero(pair), inner, 1)
    b.ret(b.extractvalue(b.extractvalue(whole, 1), 1))
    assert run(module, ctypes.c_int32, [ctypes.c_int32], 6) == 6


MISUSES = {
    "add of two types": lambda b, x, d, p: b.add(x, d),
    "add of floats": lambda b, x, d, p: b.add(d, d),
    "fadd of ints": lambda b, x, d, p: b.fadd(x, x),
    "fadd of two types": lambda b, x, d, p: b.fadd(d, const(FLOAT, 1)),
    "fneg of int": lambda b, x, d, p: b.fneg(x),
    "flags": lambda b, x, d, p: b.emit_flagged("add", x, x, "fast"),
    "flagged op": lambda b, x, d, p: b.emit_flagged("sdiv", x, x, "nsw"),
    "icmp predicate": lambda b, x, d, p: b.icmp("oeq", x, x),
    "icmp of floats": lambda b, x, d, p: b.icmp("eq", d, d),
    "fcmp predicate": lambda b, x, d, p: b.fcmp("eq", d, d),
    "select condition": lambda b, x, d, p: b.select(x, x, x),
    "select lanes": lambda b, x, d, p: b.select(const(vector(I1, 2), 1), x, x),
    "select types": lambda b, x, d, p: b.select(TRUE, x, d),
    "trunc to wider": lambda b, x, d, p: b.trunc(x, I64),
    "trunc to same": lambda b, x, d, p: b.trunc(x, I32),
    "zext of float": lambda b, x, d, p: b.zext(d, I64),
    "sext across lanes": lambda b, x, d, p: b.sext(x, vector(I64, 2)),
    "fpext to narrower": lambda b, x, d, p: b.fpext(d, FLOAT),
    "bitcast of other size": lambda b, x, d, p: b.bitcast(x, I64),
    "bitcast of pointer": lambda b, x, d, p: b.bitcast(p, I64),
    "gep of int": lambda b, x, d, p: b.gep(I32, x, x),
    "gep without index": lambda b, x, d, p: b.gep(I32, p),
    "gep with float": lambda b, x, d, p: b.gep(I32, p, d),
    "load from int": lambda b, x, d, p: b.load(I32, x),
    "load of void": lambda b, x, d, p: b.load(VOID, p),
    "store to int": lambda b, x, d, p: b.store(x, x),
    "alloca of void": lambda b, x, d, p: b.alloca(VOID),
    "atomic vector": lambda b, x, d, p: b.load_atomic(vector(I32, 2), p, "acquire"),
    "ordering": lambda b, x, d, p: b.load_atomic(I32, p, "relaxed"),
    "fence": lambda b, x, d, p: b.fence("monotonic"),
    "rmw op": lambda b, x, d, p: b.atomicrmw("mul", p, x),
    "rmw kind": lambda b, x, d, p: b.atomicrmw("fadd", p, x),
    "cmpxchg of floats": lambda b, x, d, p: b.cmpxchg(p, d, d),
    "extract from scalar": lambda b, x, d, p: b.extractelement(x, 0),
    "insert of other type": lambda b, x, d, p: b.insertelement(poison(vector(I32, 2)), d, 0),
    "shuffle lane": lambda b, x, d, p: b.shufflevector(
        poison(vector(I32, 2)), poison(vector(I32, 2)), [4]
    ),
    "extractvalue of scalar": lambda b, x, d, p: b.extractvalue(x, 0),
    "insertvalue type": lambda b, x, d, p: b.insertvalue(zero(struct([I64])), x, 0),
    "call with too few": lambda b, x, d, p: b.call(b.function, [x]),
    "call with too many": lambda b, x, d, p: b.call(b.function, [x, d, p, p]),
    "call with other types": lambda b, x, d, p: b.call(b.function, [x, x, p]),
    "call of a non-pointer": lambda b, x, d, p: b.call_pointer(x, function(VOID, []), []),
    "condbr on int": lambda b, x, d, p: b.condbr(x, b.block, b.block),
    "switch on float": lambda b, x, d, p: b.switch(d, b.block, []),
    "ret of other type": lambda b, x, d, p: b.ret(d),
    "ret of nothing": lambda b, x, d, p: b.ret(),
    "phi of other type": lambda b, x, d, p: b.phi(I32).add(d, b.block),
    "inttoptr of float": lambda b, x, d, p: b.inttoptr(d, PTR),
}


@pytest.mark.parametrize("misuse", sorted(MISUSES))
def test_misuse_is_refused_where_it_happens(misuse: Any):
    _, f, b = function_of(I32, I32, DOUBLE, PTR)
    with pytest.raises(InternalError):
        MISUSES[misuse](b, *f.params)


def test_nothing_is_written_after_the_end_of_a_block():
    module, f, b = function_of(I32, I32)
    b.ret(f.params[0])
    with pytest.raises(InternalError, match="has ended"):
        b.add(f.params[0], f.params[0])
    with pytest.raises(InternalError, match="has ended"):
        b.ret(f.params[0])
    b.position_at_end(f.entry)
    with pytest.raises(InternalError, match="has ended"):
        b.unreachable()
    compile_ir(module.render())


def test_unfinished_functions_are_not_written():
    module, f, b = function_of(I32, I32)
    with pytest.raises(InternalError, match="does not end"):
        module.render()
    b.phi(I32)
    b.ret(f.params[0])
    with pytest.raises(InternalError, match="no incoming"):
        module.render()


def test_a_builder_stays_in_its_function():
    _, _, b = function_of(I32)
    _, other, _ = function_of(I32)
    with pytest.raises(InternalError):
        b.position_at_end(other.entry)


def test_two_builders_of_one_function_share_names():
    module, f, b = function_of(I32, I32)
    other = Builder(f, b.append("other"))
    x = other.add(f.params[0], f.params[0])
    y = b.add(f.params[0], f.params[0])
    assert x.text != y.text
    b.br(other.block)
    other.ret(x)
    compile_ir(module.render())


def test_constants_by_name():
    assert [v.typed for v in (TRUE, FALSE, NULL, zero(PTR))] == [
        "i1 true",
        "i1 false",
        "ptr null",
        "ptr null",
    ]
    assert TRUE.is_constant
    assert not Value(I1, "%x").is_constant


def test_a_kept_function_outlives_the_passes():
    module = Module()
    for name in ("kept", "dropped"):
        f = module.define(name, I32, [], linkage="internal")
        Builder(f).ret(const(I32, 7))
        if name == "kept":
            module.keep(f)
    symbols = optimise_ir(module.render())
    assert "@kept()" in symbols
    assert "@dropped()" not in symbols


def test_bytes_under_a_name_are_there_once():
    module, _, b = function_of(I8)
    places = [module.data_once("table", bytes([3, 5]), align=1) for _ in range(2)]
    assert places[0].text == places[1].text
    b.ret(b.load(I8, b.gep(I8, places[0], const(I64, 1))))
    assert module.render().count("@table = ") == 1
    compile_ir(module.render())
