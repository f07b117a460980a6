"""Each mistake is reported with its code, its place and what to do; all of a text at once."""

from __future__ import annotations

import pytest

from loomir.support.diagnostics import CompileError
from tests.clause import clauses
from tests.script.parser.programs import HEAD, marked, read, refused, refused_body

MODULE = "@I.ir_module\nclass M:\n"
_AXES = 'for i in range(8):\n        with T.sblock("b"):\n            '
_BLOCK = f"{_AXES}v = T.axis.spatial(8, i)\n            "

# What is wrong, the code, line and column, the underlined text, and how the help begins.
BODIES = [
    ("A[0, 0] = (1 +", "SCR0001", (3, 15), "(", "correct the syntax"),
    ("for i in range(8)", "SCR0001", (3, 22), "", "correct the syntax"),
    ("y = (lambda: 1)()", "SCR0002", (3, 10), "lambda: 1", "write the expression"),
    ("y = [i for i in range(3)]", "SCR0002", (3, 9), "[i for i in range(3)]", "write the elements"),
    ("y = {i: i for i in range(3)}", "SCR0002", (3, 9), "{i: i for i in range(3)}", "write a loop"),
    ("y = {1, 2}", "SCR0002", (3, 9), "{1, 2}", "write a tuple"),
    ("try:\n        pass\n    finally:\n        pass", "SCR0002", (3, 5), "try", "errors of a"),
    ("yield x", "SCR0002", (3, 5), "yield x", "write results to a buffer"),
    ("await x", "SCR0002", (3, 5), "await x", "remove it"),
    ("import os", "SCR0002", (3, 5), "import os", "import around"),
    ("from os import path", "SCR0002", (3, 5), "from os import path", "import around"),
    ("global q", "SCR0002", (3, 5), "global q", "names from around"),
    ("nonlocal q", "SCR0002", (3, 5), "nonlocal q", "names from around"),
    ("del x", "SCR0002", (3, 5), "del x", "remove it"),
    ("raise x", "SCR0002", (3, 5), "raise x", "end the program with `assert"),
    ("def g():\n        pass", "SCR0002", (3, 5), "def g", "write it beside this one"),
    ("class C:\n        pass", "SCR0002", (3, 5), "class C", "write it beside this one"),
    ("A[0, (y := 1)] = 1.0", "SCR0002", (3, 11), "y := 1", "assign in a statement"),
    ('assert x > 0, f"{x}"', "SCR0005", (3, 22), "x", "use numbers and strings"),
    ("y = T.grid(*A)", "SCR0005", (3, 16), "*A", "put * before a tuple"),
    ("y = *A.shape", "SCR0002", (3, 9), "*A.shape", "write it among"),
    ("y, *z = (1, 2)", "SCR0027", (3, 8), "*z", "write a name for each"),
    ("y = 1j", "SCR0002", (3, 9), "1j", "write a number or a string"),
    ('y = b"a"', "SCR0002", (3, 9), 'b"a"', "write a number or a string"),
    ("A[indx, 0] = 1.0", "SCR0003", (3, 7), "indx", "define it before"),
    ("print(x)", "SCR0003", (3, 5), "print", "write values to a buffer"),
    ("A[0, 0] = T.sqr(A[0, 1])", "SCR0004", (3, 17), "sqr", "did you mean T.sqrt?"),
    ("A[0, 0] = T.float31(1)", "SCR0004", (3, 17), "float31", "did you mean T.float32?"),
    ("vi = T.axis.spatail(8, x)", "SCR0004", (3, 17), "spatail", "did you mean T.axis.spatial?"),
    ("T.tvm_throw_last_error()", "SCR0004", (3, 7), "tvm_throw_last_error", "the errors of called"),
    ("T.tvm_check_return(0, -1, x)", "SCR0004", (3, 7), "tvm_check_return", "test what the call"),
    ("T.anylist_getitem(x, 0)", "SCR0004", (3, 7), "anylist_getitem", "programs have no lists"),
    ("y = T.cast(A[0, 1])", "SCR0005", (3, 9), "T.cast(A[0, 1])", "its arguments are T.cast(value"),
    ("y = T.exp(A[0, 1], z=1)", "SCR0005", (3, 9), "T.exp(A[0, 1], z=1)", "its arguments are"),
    ("y = T.cast(x, 5)", "SCR0005", (3, 19), "5", "name one, as in"),
    ("y = T.Broadcast(x, x)", "SCR0005", (3, 24), "x", "write a number that is known"),
    ("y = min(x, 1)", "SCR0005", (3, 9), "min(x, 1)", "use T.min"),
    ("y = int('a')", "SCR0005", (3, 9), "int('a')", "correct the arguments"),
    ("y = A.size", "SCR0006", (3, 11), "size", "write A.shape[0]"),
    ("y = A[0, 1].sum()", "SCR0006", (3, 17), "sum", "it has dtype, ty, astype"),
    ("y = 'a'.upper()", "SCR0006", (3, 13), "upper", "use the value itself"),
    ("y = A(0, 1)", "SCR0007", (3, 9), "A", "index it with square brackets, as in A[i]"),
    ("y = x(1)", "SCR0007", (3, 9), "x", "call T.* functions"),
    ("y = T(1)", "SCR0007", (3, 9), "T", "name what is in it"),
    ("y = x[0]", "SCR0008", (3, 9), "x[0]", "index buffers"),
    ("y = (1, 2)[2]", "SCR0008", (3, 9), "(1, 2)[2]", "it has 2 elements"),
    ("y = (1, 2)[x]", "SCR0008", (3, 9), "(1, 2)[x]", "use a constant"),
    ("A[0, 0:8:2] = 1.0", "SCR0008", (3, 10), "0:8:2", "use T.Ramp"),
    ("A[0, 0:x] = 1.0", "SCR0008", (3, 10), "0:x", "write A[i:i + n]"),
    ("x[0] = 1", "SCR0008", (3, 5), "x[0]", "index buffers"),
    ("y = x in (1, 2)", "SCR0009", (3, 9), "x in (1, 2)", "compare with =="),
    ("y = 1 in (x, 2)", "SCR0009", (3, 9), "1 in (x, 2)", "compare with =="),
    ("y = x is 1", "SCR0009", (3, 9), "x is 1", "compare with =="),
    ("y = 1 if x > 0 else 2", "SCR0009", (3, 14), "x > 0", "use T.if_then_else"),
    ('y = x + "a"', "SCR0009", (3, 13), '"a"', "use numbers"),
    ("y = A + 1.0", "SCR0009", (3, 9), "A", "read an element, as in A[i, j]"),
    ("y = -A", "SCR0009", (3, 10), "A", "use a number"),
    ("y = '%d' % 1", "SCR0009", (3, 9), "'%d'", "use numbers"),
    ("for i in 5:\n        pass", "SCR0012", (3, 14), "5", "use range(n)"),
    ("for i, j in T.grid(8):\n        pass", "SCR0012", (3, 9), "i, j", "write 1 name"),
    ("for i, j in range(8):\n        pass", "SCR0012", (3, 9), "i, j", "write 1 name"),
    ("for A[0] in range(8):\n        pass", "SCR0012", (3, 9), "A[0]", "write `for i in"),
    ("for i in range(0, 8, 0):\n        pass", "SCR0012", (3, 26), "0", "use a step other than 0"),
    ("for i in range(0, 8, x):\n        pass", "SCR0012", (3, 26), "x", "use a constant"),
    ("for i in range(8.0):\n        pass", "SCR0005", (3, 20), "8.0", "use a scalar integer"),
    ("with x:\n        pass", "SCR0013", (3, 10), "x", "use with for T.sblock"),
    ("with T.grid(8) as i:\n        pass", "SCR0013", (3, 10), "T.grid(8)", "write `for i in"),
    ('with T.sblock("b") as b:\n        pass', "SCR0013", (3, 27), "b", "leave out `as`"),
    ('T.sblock("b")', "SCR0013", (3, 5), 'T.sblock("b")', "write it after `with`"),
    ('b = T.sblock("b")', "SCR0013", (3, 5), 'b = T.sblock("b")', "write it after `with`"),
    ("y: T.int32", "SCR0015", (3, 5), "y: T.int32", "give it one"),
    ("y: 5 = 1", "SCR0015", (3, 8), "5", "write a dtype"),
    ("B = T.Buffer((8,))", "SCR0015", (3, 5), "B = T.Buffer((8,))", "allocate with"),
    ("x = 5", "SCR0016", (3, 5), "x", "use another name"),
    ("x += 5", "SCR0016", (3, 5), "x", "use another name"),
    ("for x in range(8):\n        pass", "SCR0016", (3, 9), "x", "use another name"),
    ("for i in range(8):\n        i = 1", "SCR0016", (4, 9), "i", "use another name"),
    ("for i, i in T.grid(8, 8):\n        pass", "SCR0016", (3, 12), "i", "give each loop"),
    (
        _BLOCK + "v = T.axis.spatial(8, i)\n            A[v, v] = 1.0",
        "SCR0016",
        (6, 13),
        "v",
        "use",
    ),
    (_BLOCK + "v = x\n            A[v, v] = 1.0", "SCR0016", (6, 13), "v", "use another name"),
    (_BLOCK + "for k in range(2):\n                v = k", "SCR0016", (7, 17), "v", "use another"),
    (_AXES + 'v, v = T.axis.remap("SS", [i, i])', "SCR0016", (5, 16), "v", "use another name"),
    ("y: T.let[T.int32] = 0\n    y = 1", "SCR0016", (4, 5), "y", "leave the type out at first"),
    ("vi = T.axis.spatial(8, 0)", "SCR0017", (3, 10), "T.axis.spatial(8, 0)", "write it directly"),
    ("B = T.match_buffer(x, (8,))", "SCR0018", (3, 24), "x", "annotate it as x: T.handle"),
    ("A[-1, 0] = 1.0", "SCR0019", (3, 7), "-1", "indices start at 0"),
    ("y = A[0, 8]", "SCR0019", (3, 14), "8", "use an index from 0 to 7"),
    ("A[0, 4:12] = 1.0", "SCR0019", (3, 10), "4:12", "use an index from 0 to 7"),
    ("A[0, 0:8] = A[0, 4:12]", "SCR0019", (3, 22), "4:12", "use an index from 0 to 7"),
    ("A[0, 0:8] += A[1, 4:12]", "SCR0019", (3, 23), "4:12", "use an index from 0 to 7"),
    ("A[0, 0:8] = -A[1, 4:12]", "SCR0019", (3, 23), "4:12", "use an index from 0 to 7"),
    ("A[0, 0:8] = T.exp(A[1, 4:12])", "SCR0019", (3, 28), "4:12", "use an index from 0 to 7"),
    ("A[0:2, 0] = 1.0", "SCR0008", (3, 7), "0:2", "slice the last axis only"),
    ("A[0, A] = 1.0", "SCR0025", (3, 10), "A", "read an element"),
    ("A[0, 'a'] = 1.0", "TIR0107", (3, 10), "'a'", "index with integers"),
    ("A[T.Ramp(0, 1, 4), 0] = 1.0", "TIR0107", (3, 7), "T.Ramp(0, 1, 4)", "only the last"),
    ("y = x > 0 and 1", "SCR0009", (3, 19), "1", "use conditions"),
    ("y = x > 0 and A", "SCR0009", (3, 19), "A", "use conditions"),
    ("y = A[0, 0:4] > 0.0 or A[0, 4:8]", "TIR0102", (3, 28), "A[0, 4:8]", "compare with zero"),
    ("y = A[0, T.Ramp(4, 2, 4)]", "SCR0019", (3, 14), "T.Ramp(4, 2, 4)", "use an index from 0"),
    ("y = 8 // 0", "SCR0020", (3, 9), "8 // 0", "use a divisor other than 0"),
    ("y = 10 ** 10 ** 10", "SCR0020", (3, 9), "10 ** 10 ** 10", "stay below 1024 bits"),
    ("y = 1 << 4000", "SCR0020", (3, 9), "1 << 4000", "stay below 1024 bits"),
    ("y = (0,) * 100000", "SCR0020", (3, 9), "(0,) * 100000", "stay below 65536 items"),
    ("y = (-8) ** 0.5", "SCR0020", (3, 9), "(-8) ** 0.5", "use other operands"),
    ("break", "SCR0021", (3, 5), "break", "write it in the body of a loop"),
    ("continue", "SCR0021", (3, 5), "continue", "write it in the body of a loop"),
    ("return", "SCR0021", (3, 5), "return", "a function without a result"),
    ("while True:\n        A[0, 0] = 1.0", "SCR0022", (3, 5), "while True", "write a condition"),
    ("5", "SCR0025", (3, 5), "5", "remove it, or assign it"),
    ('A[0, 0] = "a"', "SCR0025", (3, 15), '"a"', "give a number"),
    ("a, b = T.int32(), 1, 2", "SCR0027", (3, 5), "a, b", "write 3 names"),
    ("a, b = x", "SCR0027", (3, 5), "a, b", "assign it to one name"),
    ("A.data = x", "SCR0027", (3, 5), "A.data", "assign to a name, or to A[i]"),
    # what constructors of nodes refuse, at the smallest expression around it
    (
        'B = T.alloc_buffer((8,), "flot32")',
        "TIR0001",
        (3, 30),
        '"flot32"',
        "did you mean 'float32'",
    ),
    ("y = T.uint32(1) + x", "TIR0101", (3, 9), "T.uint32(1) + x", "cast one of them"),
    ("y = x and p", "TIR0102", (3, 9), "x", "compare with zero"),
    ("y = T.int8(300)", "TIR0103", (3, 9), "T.int8(300)", "use a wider dtype"),
    ("A[0] = 1.0", "TIR0107", (3, 5), "A[0]", "give 2 indices"),
    ("A[0.5, 0] = 1.0", "TIR0107", (3, 7), "0.5", "index with integers"),
    ("y = T.exp(x)", "TIR0114", (3, 9), "T.exp(x)", "convert the arguments"),
    ("y: T.int32 = A[0, 0]", "TIR0201", (3, 18), "A[0, 0]", "cast the value"),
    ("assert x > 0, 1.5", "TIR0202", (3, 19), "1.5", "use a string"),
    ("A[0, 0] = x", "TIR0203", (3, 15), "x", "cast the value"),
    ("if x:\n        pass", "TIR0205", (3, 8), "x", "compare with zero"),
    ('assert x, "m"', "TIR0205", (3, 12), "x", "compare with zero"),
    ("while A[0, 0]:\n        pass", "TIR0207", (3, 5), "while A[0, 0]", "use a bool"),
]


@clauses(
    *("TS-SYN-21", "TS-SYN-22", "TS-SYN-23", "TS-SYN-24", "TS-SYN-25", "TS-SYN-26", "TS-SYN-27"),
    "TS-SYN-28",
)
@pytest.mark.parametrize(("body", "code", "place", "under", "help"), BODIES, ids=str)
def test_mistake_in_a_body(body: str, code: str, place: tuple[int, int], under: str, help: str):
    text = f"{HEAD}    {body}\n"
    (found,) = refused(text)
    assert found.span is not None
    assert (found.code, found.span.line, found.span.column) == (code, *place)
    assert marked(text, found) == under
    assert found.help.startswith(help)
    assert found.span.source.name == "<string>"


IN_BLOCK = 'for i in range(8):\n        with T.sblock("b"):\n            '
BLOCKS = [
    ("T.reads(A[0, 0])\n            T.reads(A[0, 1])", 6, "a second T.reads", "list all regions"),
    ("T.writes(A)\n            T.writes(A)", 6, "a second T.writes", "list all regions"),
    ("T.where(i < 4)\n            T.where(i > 2)", 6, "a second T.where", "join the conditions"),
    (
        "A[0, 0] = 1.0\n            vi = T.axis.spatial(8, i)",
        6,
        "T.axis.spatial comes after a statement",
        "write it before the first statement",
    ),
    ("A[0, 0] = 1.0\n            T.reads(A)", 6, "T.reads comes after a", "write it before"),
    (
        "for j in range(8):\n                with T.init():\n                    A[0, 0] = 1.0",
        6,
        "T.init() is in a statement of a block",
        "write it directly in the body",
    ),
    (
        (
            "with T.init():\n                A[0, 0] = 1.0\n            with T.init():\n"
            "                A[0, 0] = 1.0"
        ),
        7,
        "a second T.init()",
        "write one T.init()",
    ),
]


@clauses("TS-BLD-07", "TS-BLD-08")
@pytest.mark.parametrize(("lines", "line", "message", "help"), BLOCKS)
def test_parts_of_a_block_out_of_place(lines: str, line: int, message: str, help: str):
    (found,) = refused_body(IN_BLOCK + lines)
    assert (found.code, found.span.line if found.span else 0) == ("SCR0017", line)
    assert message in found.message
    assert found.help.startswith(help)


JUMPS = [
    ("for i in T.parallel(8):", "return 1", "a parallel loop is around it"),
    ("for i in T.vectorized(8):", "return 1", "a vectorized loop is around it"),
    ('for i in T.thread_binding(8, thread="threadIdx.x"):', "return 1", "a thread binding loop"),
    ("for i in T.parallel(8):", "break", "a parallel loop is around it"),
    ("for i in T.vectorized(8):", "continue", "a vectorized loop is around it"),
    ("for i in T.parallel(8):", "T.evaluate(T.ret(1))", "a parallel loop is around it"),
]


@clauses("TS-SYN-14")
@pytest.mark.parametrize(("loop", "jump", "label"), JUMPS)
def test_jump_out_of_a_loop_without_order(loop: str, jump: str, label: str):
    (found,) = refused_body(loop, f"    {jump}")
    assert found.span is not None
    assert (found.code, found.span.line) == ("SCR0021", 4)
    assert found.label.startswith(label)


MODULES = [
    (
        ("    @T.prim_func\n    def f(x: cls.f(1)) -> T.int32:\n        return 1\n"),
        ("SCR0023", 4, 14),
        "write a type or a buffer there",
    ),
    (
        (
            "    @T.prim_func\n    def f(x: T.int32) -> T.int32:\n        return cls.hlper(x)\n"
            "    @T.prim_func\n    def helper(x: T.int32) -> T.int32:\n        return x\n"
        ),
        ("SCR0023", 5, 20),
        "did you mean 'helper'?",
    ),
    (
        "    @T.prim_func\n    def f(x: T.int32) -> T.int32:\n        return cls.f(x, x)\n",
        ("SCR0023", 5, 16),
        "its parameters: x",
    ),
    (
        (
            "    @T.prim_func\n    def f(x: T.float32) -> T.int32:\n        return cls.g(x)\n"
            "    @T.prim_func\n    def g(x: T.int32) -> T.int32:\n        return x\n"
        ),
        ("SCR0023", 5, 22),
        "convert it with T.cast(…, 'int32')",
    ),
    (
        (
            "    @T.prim_func\n    def f(x: T.int32):\n        cls.g(x)\n"
            '    @T.prim_func\n    def g(A: T.Buffer((8,), "int8")):\n        A[0] = T.int8(1)\n'
        ),
        ("SCR0023", 5, 15),
        "pass a buffer by its name",
    ),
    (
        (
            "    @T.prim_func\n    def f(x: T.int32) -> T.int32:\n        return cls.g(x)\n"
            "    @T.prim_func\n    def g(x: T.int32):\n        return x\n"
        ),
        ("SCR0023", 5, 16),
        "write the return type, as in `def g(…) -> T.int32:`",
    ),
    (
        (
            "    @T.prim_func\n    def f(x: T.int32):\n        cls.g(y=x)\n"
            "    @T.prim_func\n    def g(y: T.int32):\n        pass\n"
        ),
        ("SCR0023", 5, 15),
        "leave out the names",
    ),
    (
        (
            "    @T.prim_func\n    def f():\n        pass\n"
            "    @T.prim_func\n    def f():\n        pass\n"
        ),
        ("SCR0026", 7, 5),
        "give each function a name of its own",
    ),
    (
        "    def f():\n        pass\n",
        ("SCR0014", 3, 5),
        "write @T.prim_func or @R.function above it",
    ),
    ("    for i in range(3):\n        pass\n", ("SCR0002", 3, 5), "see the reference"),
    (
        "    @R.function\n    def f(x):\n        return x\n",
        ("SCR0015", 4, 11),
        'write x: R.Tensor((2, "n"), "float32"), or R.Object',
    ),
]


@clauses("TS-DEC-06")
@pytest.mark.parametrize(("text", "place", "help"), MODULES)
def test_mistake_in_a_module(text: str, place: tuple[str, int, int], help: str):
    (found,) = refused(MODULE + text)
    assert found.span is not None
    assert (found.code, found.span.line, found.span.column) == place
    assert found.help.startswith(help)


HEADS = [
    (
        "def f(A: T.Buffer((8,))):\n    pass\n",
        ("SCR0014", 1, 1),
        "write @T.prim_func or @R.function above it",
    ),
    ("class M:\n    pass\n", ("SCR0014", 1, 1), "write @I.ir_module above it"),
    ("@T.primfunc\ndef f():\n    pass\n", ("SCR0004", 1, 4), "did you mean T.prim_func?"),
    ("@T.exp\ndef f():\n    pass\n", ("SCR0014", 1, 2), "use @T.prim_func"),
    ("@T.prim_func(privat=True)\ndef f():\n    pass\n", ("SCR0005", 1, 14), "its options are"),
    ("@T.prim_func(private=1)\ndef f():\n    pass\n", ("SCR0005", 1, 22), "give a bool"),
    (
        "@T.prim_func(True)\ndef f():\n    pass\n",
        ("SCR0005", 1, 14),
        "write the name of the option",
    ),
    ("@T.prim_func\ndef f(A):\n    pass\n", ("SCR0015", 2, 7), "write A: T.Buffer"),
    ("@T.prim_func\ndef f(A: 5):\n    pass\n", ("SCR0015", 2, 10), "annotate with T.Buffer"),
    ("@T.prim_func\ndef f(A: T.Buffer):\n    pass\n", ("SCR0015", 2, 10), "write A: T.Buffer"),
    ("@T.prim_func\ndef f(A: T.Buffer[8]):\n    pass\n", ("SCR0008", 2, 10), "write T.Buffer("),
    ("@T.prim_func\ndef f(n: T.int32 = 5):\n    pass\n", ("SCR0015", 2, 20), "pass the value"),
    ("@T.prim_func\ndef f(*args):\n    pass\n", ("SCR0015", 2, 8), "write plain parameters"),
    ("@T.prim_func\ndef f(*, n: T.int32):\n    pass\n", ("SCR0015", 2, 10), "write plain"),
    (
        "@T.prim_func\ndef f(n: T.int32, n: T.int32):\n    pass\n",
        ("SCR0026", 2, 19),
        "give each parameter a name",
    ),
    ("@T.prim_func\ndef f(n: T.void):\n    pass\n", ("SCR0015", 2, 7), "annotate it with a dtype"),
    (
        '@T.prim_func\ndef f(A: T.Buffer((8,), "float31")):\n    pass\n',
        ("TIR0001", 2, 25),
        "float comes in",
    ),
    (
        "@T.prim_func\ndef f() -> T.Buffer((8,)):\n    pass\n",
        ("SCR0015", 2, 12),
        "write `-> T.int32`",
    ),
    (
        "@T.prim_func\ndef f(x: T.float32) -> T.int32:\n    return x\n",
        ("TIR0305", 3, 12),
        "cast the value",
    ),
    (
        (
            "@T.prim_func\ndef f(x: T.float32, y: T.int32):\n    if y > 0:\n        return x\n"
            "    return y\n"
        ),
        ("TIR0305", 5, 5),
        "cast the returned values",
    ),
    ("N = 4\n", ("SCR0014", 1, 1), "write a function under @T.prim_func"),
    (
        "@T.prim_func\ndef f():\n    pass\n@T.prim_func\ndef g():\n    pass\n",
        ("SCR0014", 2, 1),
        "put the functions into one class",
    ),
    ("import numpy as np\n", ("SCR0002", 1, 8), "`from loomir.script import ir as I"),
    ("from os import path\n", ("SCR0002", 1, 16), "`from loomir.script import ir as I"),
    ("if True:\n    pass\n", ("SCR0002", 1, 1), "see the reference"),
    ("N = T.exp(1.0)\n", ("SCR0025", 1, 1), "write NAME = value"),
    ("@R.function\ndef f(x):\n    return x\n", ("SCR0015", 2, 7), "write x: R.Tensor("),
    ("a\0b", ("SCR0001", 1, 2), "save the text as UTF-8"),
    ("x = '\ud800'", ("SCR0001", 1, 6), "save the text as UTF-8"),
]


@pytest.mark.parametrize(("text", "place", "help"), HEADS)
def test_mistake_around_a_function(text: str, place: tuple[str, int, int], help: str):
    found = refused(text)[0]
    assert found.span is not None
    assert (found.code, found.span.line, found.span.column) == place
    assert found.help.startswith(help)


def test_the_nearest_name_in_scope_is_proposed():
    (found,) = refused_body("for index in range(8):", "    A[indx, 0] = 1.0")
    assert (found.code, found.help) == ("SCR0003", "did you mean 'index'?")


@pytest.mark.parametrize("module", ["np", "math", "os", "torch"])
def test_a_module_of_python_is_not_read(module: str):
    text = (
        f'@T.prim_func\ndef f(A: T.Buffer((8,), "float32"), n: T.int32):\n    A[n] = {module}.pi\n'
    )
    (found,) = refused(text)
    assert (found.code, found.message) == ("SCR0003", f"{module!r} is not defined")
    remedy = "use what T has, or a value from around"
    if module != "os":
        remedy = f"write T.exp in place of {module}.exp"
    assert found.help == f"modules of Python are not read: {remedy}"


def test_exclusive_or_of_floats_proposes_a_power():
    (found,) = refused_body("A[0, 0] = A[0, 0] ^ 2")
    assert (found.code, found.help.startswith("a power is written x ** y")) == ("TIR0114", True)


@pytest.mark.parametrize("store", ["A[:] = 0.0", "A[0:8] = 1.0"])
def test_a_region_of_too_few_axes_says_how_many_there_are(store: str):
    (found,) = refused_body(store)
    assert (found.code, found.message) == (
        "TIR0303",
        "buffer 'A' has 2 axes, but this region has 1",
    )
    assert found.help.endswith("to write all elements, write a loop")


def test_a_name_whose_scope_has_ended_says_so():
    (found,) = refused_body("for i in range(8):", "    A[i, 0] = 1.0", "A[i, 0] = 2.0")
    assert (found.code, found.span.column if found.span else 0) == ("SCR0003", 7)
    assert found.label == "its scope, entered at line 3, has ended"


# -- several mistakes --------------------------------------------------------------------------
def test_all_mistakes_are_reported_in_order_of_place():
    found = refused_body(
        "A[0, 8] = 1.0",
        "for i in T.foo(8):",
        "    A[i, 9] = undefined_name",
        "A[0] = 1",
    )
    places = [(d.code, d.span.line) for d in found if d.span is not None]
    assert places == [("SCR0019", 3), ("SCR0004", 4), ("SCR0003", 5), ("TIR0107", 6)]


def test_what_a_refused_statement_would_have_bound_is_not_reported_again():
    found = refused_body(
        "y = T.foo(1)",
        "z = y + 1",
        "B = T.alloc_buffer((z,))",
        "for i in range(z):",
        "    B[i] = A[y, 0]",
        "    A[9, 0] = B[i]",
    )
    assert [d.code for d in found] == ["SCR0004", "SCR0019"]


def test_an_undefined_name_is_reported_once():
    found = refused_body("A[q, 0] = 1.0", "A[q, 1] = 1.0", "A[0, q] = 1.0")
    assert [d.code for d in found] == ["SCR0003"]


def test_what_stands_in_a_refused_block_is_not_judged_by_its_place():
    found = refused_body(
        'with T.sblok("b"):',
        "    vi = T.axis.spatial(8, 0)",
        "    T.reads(A[vi, 0])",
        "    A[vi, 9] = 1.0",
        "    A[0, 9] = 1.0",
    )
    assert [(d.code, d.span.line) for d in found if d.span] == [("SCR0004", 3), ("SCR0019", 7)]


def test_functions_of_a_module_are_judged_independently():
    text = MODULE + (
        "    @R.function\n    def main(x: R.Tensor((8,))):\n        return y\n"
        '    @T.prim_func\n    def g(A: T.Buffer((8,), "int8")):\n        A[9] = T.int8(1)\n'
        "    @T.prim_func\n    def h():\n        cls.main(1)\n        cls.g(1, 2)\n"
    )
    assert [d.code for d in refused(text)] == ["SCR0003", "SCR0019", "SCR0023", "SCR0023"]


def test_columns_count_characters_and_not_bytes():
    text = HEAD + '    assert "ééé" == "日本😀", "größe"; A[0, 0] = undefd\n'
    (found,) = refused(text)
    assert marked(text, found) == "undefd"


def test_tabs_are_one_column():
    text = HEAD.replace("\n", "\n", 1) + "\tA[0, 0] = undefd\n"
    (found,) = refused(text)
    assert found.span is not None
    assert found.span.column == 12


OLD_NAMES = {
    "load": "write A[i]",
    "store": "write A[i] = x",
    "realize": "write T.alloc_buffer",
    "preflattened_buffer": "write T.Buffer",
    "match_buffer_region": "write T.match_buffer",
    "buffer_decl": "write T.decl_buffer",
    "allocate_const": "pass the constant",
    "range": "write range(n)",
}


@pytest.mark.parametrize(("name", "help"), OLD_NAMES.items())
def test_a_name_of_another_generation_says_what_replaced_it(name: str, help: str):
    (found,) = refused_body(f"T.{name}(x)")
    assert found.code == "SCR0004"
    assert found.help.startswith(help)


# -- numbers beyond all bounds -------------------------------------------------------------------
@pytest.mark.parametrize(
    "line",
    [
        "A[0, 0] = K",
        "A[K, 0] = 1.0",
        "y = x + K",
        "y = T.float64(K)",
        "y = T.exp(A[0, 0] + K)",
        "y = T.Ramp(0, 1, K)",
        "y = (1, 2)[K]",
        "for i in range(K):\n        T.evaluate(i)",
        "C = T.alloc_buffer((K,))",
        'assert x < 0, f"{K}"[0:1] * K',
    ],
)
@pytest.mark.parametrize("bits", [1_100, 9_999, 16_700])
def test_a_number_far_too_large_is_refused_in_its_place(line: str, bits: int):
    for written in (line, line.replace("K", hex(1 << bits))):
        (found,) = refused(f"{HEAD}    {written}\n", K=1 << bits)
        assert found.span is not None
        assert (found.span.line, len(found.message) < 4_000) == (3, True)
    with pytest.raises(CompileError):
        read(f"{HEAD}    {line}\n", K=Number(1 << bits))


class Number(int):
    """An integer of another class."""
