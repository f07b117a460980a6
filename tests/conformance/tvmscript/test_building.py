# ruff: noqa: N806  (names as in programs)
"""Programs built in Python, frame by frame, and programs printed as text."""

# To pyright a call of a decorator is a decorator, and never a frame: see docs/editors.md.
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import ast
import threading

import numpy as np
import pytest

from loomir.ir import IRModule, assert_structural_equal
from loomir.script import from_source
from loomir.script import ir as I
from loomir.script import tir as T
from loomir.script.builder import function
from loomir.script.builder.frame import IRBuilder
from loomir.script.builder.tir import blocks, loops
from loomir.script.printer import doc as docs
from loomir.script.printer import docsifier, docsify
from loomir.script.printer.docsifier import Docsifier, expr_handler
from loomir.script.printer.python_printer import to_python
from loomir.support.diagnostics import CompileError
from loomir.tir import Block, For, ForKind, IntImm, PrimFunc, Var
from tests.conformance.compare_engines import both, read, zeros


def built(ib: IRBuilder) -> PrimFunc:
    made = ib.get()
    assert isinstance(made, PrimFunc)
    return made


def row_sums(*, declare: bool = True) -> PrimFunc:
    """Build a program with a block, its regions and its init."""
    with IRBuilder() as ib, T.prim_func():
        T.func_name("main")
        a = T.arg("a", T.handle)
        A = T.match_buffer(a, (4, 5), "int32")
        B = T.arg("B", T.Buffer((4,), "int32"))
        with T.grid(4, 5) as (i, j), T.sblock("sum"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.reduce(5, j)
            if declare:
                T.reads(A[vi, vj])
                T.writes(B[vi])
            with T.init():
                T.buffer_store(B, 0, [vi])
            T.buffer_store(B, B[vi] + A[vi, vj], [vi])
    return built(ib)


TEXT = """
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((4,), "int32")):
        A = T.match_buffer(a, (4, 5), "int32")
        for i, j in T.grid(4, 5):
            with T.sblock("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.reads(A[vi, vj])
                T.writes(B[vi])
                with T.init():
                    B[vi] = 0
                B[vi] = B[vi] + A[vi, vj]
"""


def matrix() -> np.ndarray:
    return np.arange(20, dtype=np.int32).reshape(4, 5)


# -- the builder ---------------------------------------------------------------------------------
def test_TS_BLD_01_frames_are_entered_and_left():
    """A frame stands on the stack from __enter__ to __exit__, also where the body raises."""
    with IRBuilder() as ib:
        with T.prim_func():
            T.func_name("f")
            frame = T.serial(0, 4)
            assert frame not in ib.frames
            frame.__enter__()
            assert ib.frames[-1] is frame
            T.evaluate(0)
            frame.__exit__(None, None, None)
            assert frame not in ib.frames
            with pytest.raises(RuntimeError), T.serial(0, 4):
                raise RuntimeError
            assert len(ib.frames) == 1
        assert ib.frames == []
    made = built(ib)
    assert isinstance(made.body, For)


def test_TS_BLD_02_what_is_made_goes_to_the_parent():
    """A frame's statement becomes part of the frame around it, in order, when it is left."""
    with IRBuilder() as ib, T.prim_func():
        T.func_name("main")
        A = T.arg("A", T.Buffer((4,), "int32"))
        for k in range(2):
            with T.serial(0, 4) as i, T.If(T.EQ(i, k)):
                with T.Then():
                    T.buffer_store(A, k + 1, [i])
                with T.Else():
                    T.buffer_store(A, A[i] * 10, [i])
    assert both(built(ib), np.array([1, 2, 3, 4], np.int32)).tolist() == [10, 2, 300, 400]


def test_TS_BLD_03_each_thread_has_a_builder_of_its_own():
    """Two threads build at once without seeing each other's frames."""
    gate = threading.Barrier(2, timeout=10)
    made: dict[str, PrimFunc] = {}

    def build(name: str, count: int) -> None:
        with IRBuilder() as ib, T.prim_func():
            T.func_name(name)
            gate.wait()
            with T.serial(0, count):
                gate.wait()
                assert IRBuilder.current() is ib
                T.evaluate(count)
            gate.wait()
        made[name] = built(ib)

    threads = [threading.Thread(target=build, args=(n, c)) for n, c in (("f", 3), ("g", 5))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, count in (("f", 3), ("g", 5)):
        body = made[name].body
        assert isinstance(body, For)
        assert isinstance(body.extent, IntImm)
        assert body.extent.value == count
    with pytest.raises(CompileError):
        T.evaluate(0)


def test_TS_BLD_04_the_kinds_of_frames():
    """Modules, functions, loops and blocks each have a frame; leaving them makes nodes of those."""
    with IRBuilder() as ib, I.ir_module() as _, T.prim_func():
        T.func_name("f")
        with T.serial(0, 4) as i, T.sblock("b"):
            T.axis.spatial(4, i)
            T.evaluate(0)
            kinds = list(ib.frames)
    wanted = [
        function.IRModuleFrame,
        function.PrimFuncFrame,
        loops.ForFrame,
        blocks.SBlockFrame,
    ]
    assert all(isinstance(k, w) for k, w in zip(kinds, wanted, strict=True))
    assert isinstance(ib.get(), IRModule)


def test_TS_BLD_05_prim_func():
    """T.prim_func() is the frame of a function; what is built is what the text says."""
    frame = T.prim_func()
    assert isinstance(frame, function.PrimFuncFrame)
    assert_structural_equal(row_sums(), read(TEXT))
    assert both(row_sums(), matrix(), zeros(4)).tolist() == matrix().sum(1).tolist()


def test_TS_BLD_06_sblock():
    """T.sblock(name) is the frame of a schedulable block (S13)."""
    assert isinstance(T.sblock("x"), blocks.SBlockFrame)
    assert '"sum"' in row_sums().script()
    with pytest.raises(CompileError), IRBuilder(), T.sblock("x"):
        T.evaluate(0)


def test_TS_BLD_07_init():
    """T.init() holds what runs first for a point: without it the sum starts from what is there."""
    start = np.array([100, 100, 100, 100], np.int32)
    assert both(row_sums(), matrix(), start).tolist() == matrix().sum(1).tolist()
    bare = read(TEXT.replace("with T.init():", "if False:"))
    assert both(bare, matrix(), start).tolist() == (matrix().sum(1) + 100).tolist()


def test_TS_BLD_08_reads_and_writes():
    """T.reads and T.writes say a block's regions; left out they are derived, to the same here."""
    assert_structural_equal(row_sums(declare=False), row_sums())
    wide = read(TEXT.replace("A[vi, vj])", "A[vi, 0:5])", 1))
    with pytest.raises(CompileError, match="reads"):
        assert_structural_equal(wide, row_sums())
    assert both(wide, matrix(), zeros(4)).tolist() == matrix().sum(1).tolist()


def test_TS_BLD_09_grid():
    """T.grid(…) gives a loop variable for each extent, the last innermost."""
    with IRBuilder() as ib, T.prim_func():
        T.func_name("main")
        A = T.arg("A", T.Buffer((24,), "int32"))
        n = T.arg("n", T.int32)
        with T.grid(2, 3, 4) as (i, j, k):
            assert all(isinstance(v, Var) for v in (i, j, k))
            T.buffer_store(A, n, [i * 12 + j * 4 + k])
            T.buffer_store(A, A[i * 12 + j * 4 + k] + i * 100 + j * 10 + k, [i * 12 + j * 4 + k])
    wanted = [7 + i * 100 + j * 10 + k for i in range(2) for j in range(3) for k in range(4)]
    made = built(ib)
    assert_structural_equal(made, read(made.script()))
    loop = made.body
    for extent in (2, 3, 4):
        assert isinstance(loop, For)
        assert isinstance(loop.extent, IntImm)
        assert loop.extent.value == extent
        loop = loop.body
    array = zeros(24)
    run = both(made, array, 7)
    assert run.tolist() == wanted


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("serial", ForKind.SERIAL),
        ("parallel", ForKind.PARALLEL),
        ("vectorized", ForKind.VECTORIZED),
        ("unroll", ForKind.UNROLLED),
        ("thread_binding", ForKind.THREAD_BINDING),
    ],
)
def test_TS_BLD_10_loops(name: str, kind: ForKind):
    """Each kind of loop takes a start and a stop, and makes a loop of that kind."""
    more = {"thread": "threadIdx.x"} if name == "thread_binding" else {}
    with IRBuilder() as ib, T.prim_func():
        T.func_name("main")
        A = T.arg("A", T.Buffer((8,), "int32"))
        with getattr(T, name)(2, 6, **more) as i:
            T.buffer_store(A, i * i, [i])
    made = built(ib)
    assert isinstance(made.body, For)
    assert made.body.kind is kind
    assert both(made, zeros(8)).tolist() == [0, 0, 4, 9, 16, 25, 0, 0]
    with IRBuilder(), T.prim_func(), pytest.raises(CompileError):
        getattr(T, name)("x")


def axes_of(program: PrimFunc) -> list[tuple[str, str]]:
    """List the kinds and the domains of the axes of a program's one block."""
    node = program.body
    found: list[Block] = []
    stack: list[object] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, Block) and part.iter_vars:
            found.append(part)
        stack += [getattr(part, f) for f in ("body", "block") if hasattr(part, f)]
    (block,) = found
    return [(v.iter_type.name, str(v.dom and v.dom.extent)) for v in block.iter_vars]


def test_TS_BLD_11_spatial():
    """T.axis.spatial(extent, value) declares a spatial axis with that domain."""
    assert axes_of(row_sums())[0][1] == "4"
    assert "T.axis.spatial(4, i)" in row_sums().script() or '"SR"' in row_sums().script()
    shifted = read(TEXT.replace('vi, vj = T.axis.remap("SR", [i, j])', AXES))
    assert both(shifted, matrix(), zeros(4)).tolist() == matrix().sum(1).tolist()
    assert axes_of(shifted)[0] == axes_of(row_sums())[0]


AXES = "vi = T.axis.spatial(4, 3 - i)\n                vj = T.axis.reduce(5, j)"


def test_TS_BLD_12_reduce():
    """T.axis.reduce declares a reduction axis: init runs at its start only."""
    spatial = read(TEXT.replace('"SR"', '"SS"'))
    assert axes_of(spatial)[1][0] != axes_of(row_sums())[1][0]
    assert axes_of(row_sums())[1][1] == "5"
    assert both(row_sums(), matrix(), zeros(4)).tolist() == matrix().sum(1).tolist()


def test_TS_BLD_13_remap():
    """T.axis.remap(kinds, loops) declares all axes at once."""
    with IRBuilder() as ib, T.prim_func():
        T.func_name("main")
        a = T.arg("a", T.handle)
        A = T.match_buffer(a, (4, 5), "int32")
        B = T.arg("B", T.Buffer((4,), "int32"))
        with T.grid(4, 5) as (i, j), T.sblock("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                T.buffer_store(B, 0, [vi])
            T.buffer_store(B, B[vi] + A[vi, vj], [vi])
    assert_structural_equal(built(ib), row_sums())


def test_TS_BLD_14_match_buffer():
    """T.match_buffer gives a parameter a shape once; again, or for another thing, is refused."""
    with IRBuilder(), T.prim_func():
        T.func_name("f")
        a = T.arg("a", T.handle)
        A = T.match_buffer(a, (2, 3), "int8")
        assert ([int(e) for e in (x.value for x in A.shape)], str(A.dtype)) == ([2, 3], "int8")
        for bad in (a, T.arg("n", T.int32), 3):
            with pytest.raises(CompileError):
                T.match_buffer(bad, (2, 3), "int8")
        T.evaluate(0)


def test_TS_BLD_15_alloc_buffer():
    """T.alloc_buffer(shape, dtype) is memory of the function; two do not overlap."""
    with IRBuilder() as ib, T.prim_func():
        T.func_name("main")
        A = T.arg("A", T.Buffer((4,), "int32"))
        B = T.alloc_buffer((4,), "int32")
        C = T.alloc_buffer((4,), "int32")
        with T.serial(0, 4) as i:
            T.buffer_store(B, i, [i])
            T.buffer_store(C, i * 10, [i])
        with T.serial(0, 4) as i:
            T.buffer_store(A, B[i] + C[3 - i], [i])
    assert both(built(ib), zeros(4)).tolist() == [30, 21, 12, 3]


def test_TS_BLD_16_buffers_in_signatures():
    """T.Buffer(shape, dtype) describes a parameter, in a text as with T.arg."""
    with IRBuilder() as ib, T.prim_func():
        T.func_name("main")
        A = T.arg("A", T.Buffer((4, "n"), "float64"))
        T.buffer_store(A, 1.0, [0, 0])
    text = '@T.prim_func\ndef main(A: T.Buffer((4, "n"), "float64")):\n    A[0, 0] = 1.0\n'
    assert_structural_equal(built(ib), from_source(text))


# -- the printer ---------------------------------------------------------------------------------
X, Y = docs.IdDoc("x"), docs.IdDoc("y")
EXPRESSIONS = [
    (X, "x"),
    (docs.AttrAccessDoc(X, "y"), "x.y"),
    (docs.CallDoc(X, (Y,), (("k", X),)), "x(y, k=x)"),
    (docs.IndexDoc(X, (Y, docs.LiteralDoc(1))), "x[y, 1]"),
    (docs.LiteralDoc("a\n\"'"), None),
    (docs.TupleDoc((X,)), "(x,)"),
    (docs.TupleDoc(()), "()"),
    (docs.ListDoc((X, Y)), "[x, y]"),
    (docs.OperationDoc("*", (docs.OperationDoc("+", (X, Y)), Y)), "(x + y) * y"),
    (docs.OperationDoc("-", (X, docs.OperationDoc("-", (Y, X)))), "x - (y - x)"),
]


@pytest.mark.parametrize(
    ("made", "text"), EXPRESSIONS, ids=[type(d).__name__ for d, _ in EXPRESSIONS]
)
def test_TS_PRN_01_documents_of_expressions(made: docs.ExprDoc, text: str | None):
    """Each document of an expression prints as Python's own syntax for it."""
    printed = to_python(docs.ExprStmtDoc(made)).rstrip("\n")
    if text is None:
        assert isinstance(made, docs.LiteralDoc)
        assert ast.literal_eval(printed) == made.value
        return
    assert printed == text
    assert ast.unparse(ast.parse(printed)) == ast.unparse(ast.parse(text))


BODY: list[docs.StmtDoc] = [docs.ExprStmtDoc(X)]
STATEMENTS = [
    (docs.AssignDoc(X, Y), ast.Assign),
    (docs.AssignDoc(X, Y, X), ast.AnnAssign),
    (docs.LineDoc("x = y"), ast.Assign),
    (docs.ForDoc((X, Y), Y, BODY), ast.For),
    (docs.WhileDoc(X, BODY), ast.While),
    (docs.IfDoc([(X, BODY), (Y, BODY)], BODY), ast.If),
    (docs.ScopeDoc(X, BODY, Y), ast.With),
    (docs.FunctionDoc("f", [docs.AssignDoc(X, None, Y)], BODY, (Y,), X), ast.FunctionDef),
    (docs.ClassDoc("c", BODY, (Y,)), ast.ClassDef),
    (docs.ReturnDoc(X), ast.Return),
    (docs.AssertDoc(X, Y), ast.Assert),
]


@pytest.mark.parametrize(
    ("made", "kind"), STATEMENTS, ids=[type(d).__name__ for d, _ in STATEMENTS]
)
def test_TS_PRN_02_documents_of_statements(made: docs.StmtDoc, kind: type[ast.stmt]):
    """Each document of a statement prints as that statement of Python; a comment as a comment."""
    text = to_python(docs.StmtBlockDoc([docs.CommentDoc("one\ntwo"), made]))
    (parsed,) = ast.parse(text).body
    assert type(parsed) is kind
    assert [line for line in text.splitlines() if line.startswith("#")] == ["# one", "# two"]


def test_TS_PRN_03_the_form_of_an_axis():
    """T.axis.spatial(128, i) is a call of an attribute of an attribute, with two arguments."""
    text = """
        @T.prim_func
        def main(A: T.Buffer((200,), "int32")):
            for i in range(100):
                with T.sblock("b"):
                    vi = T.axis.spatial(128, i)
                    A[vi] = 1
    """
    axis: docs.Doc | None = None
    stack: list[object] = [docsify(read(text))]
    while stack:
        part = stack.pop()
        if isinstance(part, docs.AssignDoc) and isinstance(part.value, docs.CallDoc):
            axis = part.value if "axis" in to_python(part) else axis
        if isinstance(part, docs.Doc):
            stack += [getattr(part, f) for f in part.__dataclass_fields__]
        elif isinstance(part, (tuple, list)):
            stack += part
    assert isinstance(axis, docs.CallDoc)
    outer = axis.callee
    assert isinstance(outer, docs.AttrAccessDoc)
    inner = outer.value
    assert isinstance(inner, docs.AttrAccessDoc)
    assert isinstance(inner.value, docs.IdDoc)
    assert (inner.value.name, inner.name, outer.name) == ("T", "axis", "spatial")
    extent, value = axis.args
    assert isinstance(extent, docs.LiteralDoc)
    assert isinstance(value, docs.IdDoc)
    assert (extent.value, value.name) == (128, "i")


def test_TS_PRN_04_handlers_by_token_and_class(monkeypatch: pytest.MonkeyPatch):
    """The docsifier finds a handler by the token on top and the class; another token's is not used."""
    monkeypatch.setattr(docsifier, "_EXPRS", dict(docsifier._EXPRS))

    @expr_handler("mine", IntImm)
    def write(d: Docsifier, node: IntImm):
        return docs.IdDoc(f"mine_{node.value}")
        yield

    d = Docsifier()
    seven = T.int64(7)
    usual = to_python(docs.ExprStmtDoc(d.run(d.expr(seven))))
    with d.token("mine"):
        assert to_python(docs.ExprStmtDoc(d.run(d.expr(seven)))).strip() == "mine_7"
        with d.token("yours"):
            assert to_python(docs.ExprStmtDoc(d.run(d.expr(seven)))) == usual
    assert to_python(docs.ExprStmtDoc(d.run(d.expr(seven)))) == usual


def test_TS_PRN_05_frames_of_the_docsifier():
    """Statements go to the innermost frame; names of a frame are free again after it."""
    d = Docsifier()
    x = Var("x", "int32")
    with d.frame("outer") as outer:
        first = d.define(x, "x")
        with d.frame("inner") as inner:
            second = d.define(Var("x", "int32"), "x")
            d.emit(docs.ExprStmtDoc(second))
        assert first.name != second.name
        assert d.define(Var("x", "int32"), "x").name == second.name
    assert (len(outer.statements), len(inner.statements)) == (0, 1)
    assert d.find_known(x) is None


def test_TS_PRN_06_readable_names():
    """Variables print by their names; equal names are made different, unfit ones are mended."""
    with IRBuilder() as ib, T.prim_func():
        T.func_name("f")
        params = [T.arg(name, T.int32) for name in ("x", "x", "for", "2b", "T")]
        T.evaluate(params[0] - params[1] * params[2] + params[3] - params[4])
    made = built(ib)
    tree = ast.parse(made.script())
    (written,) = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    names = [a.arg for a in written.args.args]
    assert names[0] == "x"
    assert len(set(names)) == 5
    assert "T" not in names
    assert_structural_equal(from_source(made.script()), made)


def test_TS_PRN_07_indented_python():
    """Documents print as Python that parses, with four spaces for each level."""
    nested: docs.StmtDoc = docs.ExprStmtDoc(X)
    for _ in range(30):
        nested = docs.ForDoc((X,), Y, [nested])
    text = to_python(nested)
    assert [len(line) - len(line.lstrip()) for line in text.splitlines()] == [
        4 * k for k in range(31)
    ]
    ast.parse(text)
    assert to_python(docs.ForDoc((X,), Y, [])).split() == ["for", "x", "in", "y:", "pass"]


# -- round trip ----------------------------------------------------------------------------------
def test_TS_RT_01_what_is_printed_is_read_as_the_same():
    """from_source(script(m)) equals m, and prints the same (S5)."""
    for made in (row_sums(), read(TEXT), row_sums(declare=False)):
        again = from_source(made.script())
        assert_structural_equal(again, made)
        assert again.script() == made.script()


def test_TS_RT_02_the_printed_form_may_differ():
    """Programs that are written in two ways print in one, which need not be either."""
    one = "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    for i in T.serial(0, 4): A[i] = A[i] + 1\n"
    two = '@T.prim_func\ndef f(A: T.Buffer(4, "float32")):\n    for i in range(4):\n        A[i] += 1.0\n'
    assert from_source(one).script() == from_source(two).script()
    assert from_source(one).script() not in (one, two)
