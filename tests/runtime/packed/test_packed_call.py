"""Calls of packed functions: the same in the interpreter and in native code."""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
import threading
import traceback
import tracemalloc
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import loomir
from loomir.codegen.llvm.support.pool import pool_symbols
from loomir.ir.equality import structural_equal
from loomir.ir.module import IRModule
from loomir.runtime import layout, list_funcs, register_func, remove_func
from loomir.runtime.packed import callback
from loomir.runtime.packed.externs import register_extern
from loomir.script import from_source
from loomir.script import tir as T
from loomir.support.diagnostics import RunError
from loomir.tir import PrimFunc
from tests.clause import clauses

Engine = Callable[..., Any]


def interpreted(program: Any, *args: object) -> Any:
    return loomir.interpret(program, *args)


def compiled(program: Any, *args: object) -> Any:
    exe = loomir.compile(program)
    if args and isinstance(args[0], str):
        return exe[args[0]](*args[1:])
    return exe(*args)


@pytest.fixture(params=[interpreted, compiled])
def run(request: pytest.FixtureRequest) -> Engine:
    return request.param


@pytest.fixture(autouse=True)
def _clean() -> Generator[None]:
    before = list_funcs()
    yield
    for name in set(list_funcs()) - set(before):
        remove_func(name)
    assert not callback._pending


def program(body: str, params: str = "", returns: str = "") -> PrimFunc:
    """Make a function of a text."""
    arrow = f" -> {returns}" if returns else ""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    made = from_source(f"@T.prim_func\ndef main({params}){arrow}:\n{lines}\n")
    assert isinstance(made, PrimFunc)
    return made


# -- values ---------------------------------------------------------------------------------------
ARGUMENTS = [
    ("T.bool(True)", True),
    ("T.int8(-128)", -128),
    ("T.uint8(255)", 255),
    ("T.int16(-5)", -5),
    ("T.uint16(65535)", 65535),
    ("7", 7),
    ("T.uint32(4294967295)", 2**32 - 1),
    ("T.int64(-9223372036854775808)", -(2**63)),
    ("T.uint64(18446744073709551615)", 2**64 - 1),
    ("T.float16(1.5)", 1.5),
    ("T.bfloat16(-2.5)", -2.5),
    ("T.float32(0.1)", float(np.float32(0.1))),
    ("T.float64(0.1)", 0.1),
    ('T.float32("inf")', float("inf")),
    ('"text"', "text"),
    ('""', ""),
    (r'"a|b%s\n\t\"\\ äß 漢字 🙂 \ud800"', 'a|b%s\n\t"\\ äß 漢字 🙂 \ud800'),
    ("None", None),
]


@clauses("TS-TREF-16")
@pytest.mark.parametrize(("text", "value"), ARGUMENTS)
def test_arguments_of_every_kind(run: Engine, text: str, value: object):
    seen: list[object] = []
    register_func("test.see", lambda *a: seen.extend(a))
    run(program(f'T.call_packed("test.see", {text}, 1, {text})'))
    assert seen == [value, 1, value]
    assert [type(s) for s in seen] == [type(value), int, type(value)]


def test_nan_and_the_sign_of_zero(run: Engine):
    seen: list[float] = []
    register_func("test.see", lambda *a: seen.extend(a))
    run(program('T.call_packed("test.see", T.float32("nan"), T.float64(-0.0))'))
    assert seen[0] != seen[0]
    assert str(seen[1]) == "-0.0"


RESULTS = [
    ("bool", True, True),
    ("bool", np.bool_(False), False),
    ("int8", -128, -128),
    ("uint8", np.uint8(200), 200),
    ("int32", True, 1),
    ("int64", -(2**63), -(2**63)),
    ("uint64", 2**64 - 1, 2**64 - 1),
    ("float16", 1e-8, 0.0),
    ("float16", 1e9, float("inf")),
    ("bfloat16", 1.00390625, 1.0),
    ("float32", 0.1, float(np.float32(0.1))),
    ("float64", 0.1, 0.1),
    ("float64", 3, 3.0),
    ("float32", np.float64(2.5), 2.5),
]


@pytest.mark.parametrize(("dtype", "given", "value"), RESULTS)
def test_results_of_every_kind(run: Engine, dtype: str, given: object, value: object):
    register_func("test.give", lambda: given)
    main = program(f'T.ret(T.call_packed("test.give", dtype="{dtype}"))', returns=f"T.{dtype}")
    result = run(main)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("dtype", "given", "code", "kind"),
    [
        ("int32", None, "RUN0305", TypeError),
        ("int32", "1", "RUN0305", TypeError),
        ("int32", 1.0, "RUN0305", TypeError),
        ("int32", np.float32(1), "RUN0305", TypeError),
        ("int32", [1], "RUN0305", TypeError),
        ("float32", "x", "RUN0305", TypeError),
        ("handle", "x", "RUN0305", TypeError),
        ("handle", -1, "RUN0305", TypeError),
        ("bool", 2, "RUN0306", OverflowError),
        ("int8", 128, "RUN0306", OverflowError),
        ("uint8", -1, "RUN0306", OverflowError),
        ("int64", 2**63, "RUN0306", OverflowError),
        ("uint64", 2**64, "RUN0306", OverflowError),
        ("int32", 10**100, "RUN0306", OverflowError),
        ("float64", 10**400, "RUN0306", OverflowError),
    ],
)
def test_results_that_do_not_fit(
    run: Engine, dtype: str, given: object, code: str, kind: type[Exception]
):
    register_func("test.give", lambda: given)
    main = program(
        f'x = T.call_packed("test.give", dtype="{dtype}")\nT.call_packed("test.give", x)'
    )
    with pytest.raises(RunError) as caught:
        run(main)
    assert isinstance(caught.value, kind)
    assert caught.value.diagnostic.code == code
    assert caught.value.diagnostic.span is not None
    assert caught.value.diagnostic.span.line == 3
    assert "test.give" in str(caught.value)


def test_as_a_statement_it_may_return_anything(run: Engine):
    register_func("test.give", lambda: "text")
    run(program('T.call_packed("test.give")'))


def test_results_of_calls_are_arguments(run: Engine):
    seen: list[object] = []

    @register_func("test.next")
    def following(x: int) -> int:
        seen.append(x)
        return x + 1

    main = program(
        'T.ret(T.call_packed("test.next", T.call_packed("test.next", 5)) + '
        'T.call_packed("test.next", 10))',
        returns="T.int32",
    )
    assert run(main) == 18
    assert seen == [5, 6, 10]


def test_handles_are_addresses(run: Engine):
    cell = ctypes.c_int64(42)
    address = ctypes.addressof(cell)
    register_func("test.where", lambda: ctypes.c_void_p(address))
    register_func("test.read", lambda p: ctypes.c_int64.from_address(p.value).value)
    main = program(
        'T.ret(T.call_packed("test.read", T.call_packed("test.where", dtype="handle"), '
        'dtype="int64"))',
        returns="T.int64",
    )
    assert run(main) == 42


# -- arrays ---------------------------------------------------------------------------------------
@clauses("TIR-STATE-04")
def test_arrays_are_the_memory_of_the_program(run: Engine):
    @register_func("test.twice")
    def twice(x: np.ndarray, y: np.ndarray) -> None:
        assert isinstance(x, np.ndarray)
        assert x.shape == (2, 3)
        assert x.flags.writeable
        y[...] = 2 * x

    main = program(
        'B = T.alloc_buffer((2, 3), "float32")\n'
        'T.call_packed("test.twice", A, B.data)\n'
        "for i, j in T.grid(2, 3):\n"
        "    A[i, j] = B[i, j] + T.float32(1)",
        'A: T.Buffer((2, 3), "float32")',
    )
    a = np.arange(6, dtype="float32").reshape(2, 3)
    run(main, a)
    assert (a == 2 * np.arange(6).reshape(2, 3) + 1).all()


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint16", "int64", "uint64", "float16", "bfloat16", "float32", "float64"],
)
def test_arrays_of_every_dtype(run: Engine, dtype: str):
    seen: list[Any] = []
    register_func("test.see", lambda x: seen.append((x.dtype.name, x.tolist())))
    main = program('T.call_packed("test.see", A)', f'A: T.Buffer((3,), "{dtype}")')
    array = np.array([1, 0, 1]).astype(loomir.support.dtype.numpy_of(T.dtype(dtype)))
    run(main, array)
    assert seen == [(array.dtype.name, array.tolist())]


def test_arrays_of_vectors_have_the_lanes_as_last_axis(run: Engine):
    seen: list[Any] = []
    register_func("test.see", lambda x: seen.append(x.tolist()))
    main = program(
        'A = T.alloc_buffer((2,), "int32x4")\n'
        "for i in range(2):\n"
        "    A[i] = T.Ramp(4 * i, 1, 4)\n"
        'T.call_packed("test.see", A)'
    )
    run(main)
    assert seen == [[[0, 1, 2, 3], [4, 5, 6, 7]]]


def test_strides_and_offsets_are_kept(run: Engine):
    seen: list[Any] = []
    register_func("test.see", lambda x: seen.append((x.strides, x.tolist())))
    whole = np.arange(24, dtype="int32").reshape(4, 6)
    main = from_source(
        "@T.prim_func\ndef main(a: T.handle):\n"
        "    s0, s1 = T.int32(), T.int32()\n"
        '    A = T.match_buffer(a, (2, 3), "int32", strides=[s0, s1])\n'
        '    T.call_packed("test.see", A)\n'
    )
    part = whole[1::2, ::-2]
    run(main, part)
    assert seen == [(part.strides, part.tolist())]


def test_a_region_is_passed_with_the_strides_of_its_source(run: Engine):
    @register_func("test.fill")
    def fill(x: np.ndarray) -> None:
        assert x.shape == (2, 2)
        assert x.strides == (24, 4)
        x[...] = [[1, 2], [3, 4]]

    main = from_source(
        "@T.prim_func\n"
        'def main(A: T.Buffer((4, 6), "int32")):\n'
        "    for i, j in T.grid(2, 3):\n"
        '        with T.sblock("b"):\n'
        '            vi, vj = T.axis.remap("SS", [i, j])\n'
        "            B = T.match_buffer(A[vi * 2:vi * 2 + 2, vj * 2:vj * 2 + 2], (2, 2), "
        '"int32", strides=[6, 1], offset_factor=1)\n'
        '            T.call_packed("test.fill", B)\n'
    )
    a = np.zeros((4, 6), "int32")
    run(main, a)
    assert (a == np.tile([[1, 2], [3, 4]], (2, 3))).all()


def test_arrays_without_elements_and_without_axes(run: Engine):
    seen: list[Any] = []
    register_func("test.see", lambda *a: seen.extend(x.shape for x in a))
    main = program(
        'T.call_packed("test.see", A, B)',
        'A: T.Buffer((0, 3), "float32"), B: T.Buffer((), "float32")',
    )
    run(main, np.zeros((0, 3), "float32"), np.zeros((), "float32"))
    assert seen == [(0, 3), ()]


def test_an_array_that_is_kept_is_refused(run: Engine):
    kept: list[Any] = []
    register_func("test.keep", lambda x: kept.append(x[1:]))
    main = program('T.call_packed("test.keep", A)', 'A: T.Buffer((4,), "float32")')
    with pytest.raises(RunError) as caught:
        run(main, np.zeros(4, "float32"))
    assert caught.value.diagnostic.code == "RUN0307"
    kept.clear()
    register_func("test.keep", lambda x: kept.append(x[1:].copy()), override=True)
    run(main, np.zeros(4, "float32"))


def test_an_array_in_a_cycle_is_not_kept(run: Engine):
    @register_func("test.cycle")
    def cycle(x: np.ndarray) -> None:
        loop: list[Any] = [x]
        loop.append(loop)

    main = program('T.call_packed("test.cycle", A)', 'A: T.Buffer((4,), "float32")')
    run(main, np.zeros(4, "float32"))


def test_an_exception_keeps_no_array(run: Engine):
    @register_func("test.fail")
    def fail(x: np.ndarray) -> None:
        y = x[1:]
        raise ValueError(y.shape)

    main = program('T.call_packed("test.fail", A)', 'A: T.Buffer((4,), "float32")')
    with pytest.raises(ValueError, match=r"\(3,\)") as caught:
        run(main, np.zeros(4, "float32"))
    (frame,) = [
        f for f, _ in traceback.walk_tb(caught.value.__traceback__) if f.f_code.co_name == "fail"
    ]
    assert "y" not in frame.f_locals


@clauses("TIR-STATE-04")
def test_memory_that_is_not_passed_may_change_too(run: Engine):
    a = np.zeros(2, "int32")

    @register_func("test.poke")
    def poke() -> None:
        a[0] += 1

    main = program(
        'for i in range(3):\n    T.call_packed("test.poke")\n    A[1] = A[1] * 10 + A[0]',
        'A: T.Buffer((2,), "int32")',
    )
    run(main, a)
    assert a.tolist() == [3, 123]


def test_a_read_only_array_is_not_passed_on(run: Engine):
    register_func("test.see", lambda x: None)
    main = program('T.call_packed("test.see", A)', 'A: T.Buffer((4,), "float32")')
    array = np.zeros(4, "float32")
    array.flags.writeable = False
    with pytest.raises(RunError) as caught:
        run(main, array)
    assert caught.value.diagnostic.code == "RUN0108"


# -- names ----------------------------------------------------------------------------------------
def test_a_function_that_is_not_registered(run: Engine):
    register_func("test.spelling", lambda: 0)
    with pytest.raises(KeyError) as caught:
        run(program('T.call_packed("test.speling")'))
    error = caught.value
    assert isinstance(error, RunError)
    assert error.diagnostic.code == "RUN0304"
    assert error.diagnostic.help == "did you mean 'test.spelling'?"
    assert error.diagnostic.span is not None


def test_the_function_is_looked_up_at_each_call():
    exe = loomir.compile(program('T.ret(T.call_packed("test.late"))', returns="T.int32"))
    for value in (1, 2):
        register_func("test.late", lambda value=value: value, override=True)
        assert exe() == value
    remove_func("test.late")
    with pytest.raises(KeyError):
        exe()


def test_functions_known_to_tvm_ffi_are_found(run: Engine):
    tvm_ffi.register_global_func("test.of_tvm_ffi", lambda x: x + 1, override=True)
    main = program('T.ret(T.call_packed("test.of_tvm_ffi", 4))', returns="T.int32")
    assert run(main) == 5
    tvm_ffi.registry.remove_global_func("test.of_tvm_ffi")


def test_a_wrong_number_of_arguments_is_the_functions_own_error(run: Engine):
    register_func("test.one", lambda x: x)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        run(program('T.call_packed("test.one")'))


@pytest.mark.parametrize(
    "name",
    [
        "tvm_call_packed",
        "call_packed_lowered",
        "tvm_call_packed_lowered",
    ],
)
def test_other_spellings_are_the_same(name: str):
    a = program('T.call_packed("f", 1)')
    assert structural_equal(program(f'T.{name}("f", 1)'), a)


@pytest.mark.parametrize(
    "call",
    [
        'T.call_packed("f")',
        'T.call_packed("f", A.data, 1, "x", T.reinterpret("handle", T.uint64(0)))',
        'T.call_cpacked("f", 1.5, dtype="float64")',
        'x: T.float32 = T.call_packed("f", dtype="float32")\nT.call_packed("f", x)',
    ],
)
def test_calls_print_as_they_are_read(call: str):
    made = program(call, 'A: T.Buffer((4,), "float32")')
    again = from_source(made.script())
    assert structural_equal(made, again)
    assert "tvm_" not in made.script()


PACKED_IN_C = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
)


def test_packed_functions_of_c(run: Engine):
    @PACKED_IN_C
    def add(this: int, args: int, count: int, ret: int) -> int:
        numbers = (ctypes.c_int64 * (2 * count)).from_address(args)
        answer = (ctypes.c_int64 * 2).from_address(ret)
        answer[0], answer[1] = layout.TYPE_INT, sum(numbers[1::2])
        return 0

    register_extern("__tvm_ffi_test_add", add)
    main = program('T.ret(T.call_cpacked("test_add", 40, T.int64(2)))', returns="T.int32")
    assert run(main) == 42
    with pytest.raises(KeyError, match="no C function 'test_ad' is known"):
        run(program('T.call_cpacked("test_ad", 40)'))


# -- exceptions -----------------------------------------------------------------------------------
class OwnError(Exception):
    def __init__(self, code: int, note: str) -> None:
        super().__init__(code, note)
        self.code = code


ERRORS: list[BaseException] = [
    OwnError(7, "seven"),
    ValueError("value"),
    OverflowError("over"),
    BufferError("buffer"),
    RuntimeError("run"),
    StopIteration(3),
    GeneratorExit(),
    KeyboardInterrupt(),
    SystemExit(3),
    ZeroDivisionError("zero"),
    IndexError("index"),
    MemoryError(),
    KeyError("k"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_an_exception_comes_out_as_it_is(run: Engine, error: BaseException):
    error.__traceback__ = error.__context__ = None

    @register_func("test.fail")
    def fail(x: int) -> int:
        raise error

    main = program('T.ret(T.call_packed("test.fail", 1) // 2)', returns="T.int32")
    with pytest.raises(type(error)) as caught:
        run(main)
    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None
    names = [f.name for f in traceback.extract_tb(error.__traceback__)]
    assert names[-1] == "fail"
    assert names[0] == "test_an_exception_comes_out_as_it_is"


def test_an_exception_comes_through_functions_and_depths():
    module = from_source(
        "@I.ir_module\n"
        "class Module:\n"
        "    @T.prim_func\n"
        '    def inner(A: T.Buffer((4,), "int32"), n: T.int32) -> T.int32:\n'
        '        B = T.alloc_buffer((1000,), "int32")\n'
        "        for i in range(4):\n"
        '            B[i] = T.call_packed("test.down", A, n)\n'
        "        T.ret(B[0])\n"
        "    @T.prim_func\n"
        '    def main(A: T.Buffer((4,), "int32"), n: T.int32) -> T.int32:\n'
        "        T.ret(Module.inner(A.data, n))\n"
    )
    assert isinstance(module, IRModule)
    exe = loomir.compile(module)
    error = OwnError(1, "deep")
    depths: list[int] = []

    @register_func("test.down")
    def down(a: np.ndarray, n: int) -> int:
        depths.append(n)
        if n == 0:
            raise error
        if n % 2:
            return exe["main"](a, n - 1)
        return loomir.interpret(module, "main", np.zeros(4, "int32"), n - 1)

    with pytest.raises(OwnError) as caught:
        exe["main"](np.zeros(4, "int32"), 20)
    assert caught.value is error
    assert depths == list(range(20, -1, -1))
    names = [f.name for f in traceback.extract_tb(error.__traceback__)]
    assert names.count("down") == 21


def test_recursion_through_python_without_end_is_an_error(
    run: Engine, monkeypatch: pytest.MonkeyPatch
):
    # Python collects garbage at any depth, and pytest has no room there to say what that met.
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda met: ignored.append(met.exc_type))
    main = program('T.call_packed("test.again")')
    exe = loomir.compile(main)
    call = exe if run is compiled else lambda: loomir.interpret(main)
    register_func("test.again", call)
    for limit in range(300, 320):
        before = sys.getrecursionlimit()
        try:
            sys.setrecursionlimit(limit)
            with pytest.raises(RecursionError):
                call()
        finally:
            sys.setrecursionlimit(before)
    assert set(ignored) <= {RecursionError}


def test_the_first_exception_ends_the_program(run: Engine):
    seen: list[int] = []

    @register_func("test.fail")
    def fail(x: int) -> None:
        seen.append(x)
        if x == 2:
            raise OwnError(x, "two")

    main = program(
        'for i in range(5):\n    T.call_packed("test.fail", i)\n    A[i] = 1',
        'A: T.Buffer((5,), "int32")',
    )
    a = np.zeros(5, "int32")
    with pytest.raises(OwnError):
        run(main, a)
    assert seen == [0, 1, 2]
    assert a.tolist() == [1, 1, 0, 0, 0]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that send signals")
# Python speaks of an ignored exception where the signal comes before the first line of `_answer`.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_ends_a_program_that_is_in_python(run: Engine):
    register_func("test.tick", lambda: None)
    main = program('for i in range(n):\n    T.call_packed("test.tick")', "n: T.int32")
    exe = loomir.compile(main)
    call = exe if run is compiled else lambda n: loomir.interpret(main, n)
    call(1)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(20):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                call(10**9)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -- threads --------------------------------------------------------------------------------------
PARALLEL = 'for i in T.parallel(64):\n    A[i] = T.call_packed("test.work", i)'


@pytest.fixture
def four_threads() -> Generator[None]:
    cap = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(pool_symbols()["loomir_set_threads"])
    before = cap(4)
    yield
    cap(before)


def test_threads_of_a_loop_call_python(four_threads: None):
    threads: set[int] = set()
    gate = threading.Barrier(4)
    exe = loomir.compile(program(PARALLEL, 'A: T.Buffer((64,), "int32")'))

    @register_func("test.work")
    def work(i: int) -> int:
        if i % 16 == 0:
            gate.wait(timeout=20)  # four threads are in Python at the same time
        threads.add(threading.get_ident())
        return i * i

    for _ in range(20):
        a = np.zeros(64, "int32")
        exe(a)
        assert a.tolist() == [i * i for i in range(64)]
    assert len(threads) >= 4


@clauses("TIR-STMT-03c")
def test_one_exception_of_many_threads_comes_out(four_threads: None):
    exe = loomir.compile(program(PARALLEL, 'A: T.Buffer((64,), "int32")'))
    made: list[OwnError] = []

    @register_func("test.work")
    def work(i: int) -> int:
        if i % 8 == 5:
            made.append(OwnError(i, "thread"))
            raise made[-1]
        return i

    for _ in range(50):
        made.clear()
        with pytest.raises(OwnError) as caught:
            exe(np.zeros(64, "int32"))
        assert any(caught.value is e for e in made)
        assert caught.value.code == 5  # what a serial run gives
        assert not callback._pending


def test_an_own_fault_that_wins_lets_the_exceptions_go(four_threads: None):
    main = program(
        'for i in T.parallel(64):\n    A[i] = T.call_packed("test.work", i) // (i - 3)',
        'A: T.Buffer((64,), "int32")',
    )
    exe = loomir.compile(main)

    @register_func("test.work")
    def work(i: int) -> int:
        if i > 20:
            raise OwnError(i, "thread")
        return i

    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            exe(np.zeros(64, "int32"))


def test_a_parallel_loop_inside_of_a_parallel_loop(four_threads: None):
    inner = loomir.compile(
        program(
            "for i in T.parallel(64):\n    A[i] = i",
            'A: T.Buffer((64,), "int32")',
        )
    )
    exe = loomir.compile(program(PARALLEL, 'A: T.Buffer((64,), "int32")'))

    @register_func("test.work")
    def work(i: int) -> int:
        a = np.zeros(64, "int32")
        inner(a)
        return int(a.sum()) + i

    a = np.zeros(64, "int32")
    exe(a)
    assert a.tolist() == [2016 + i for i in range(64)]


def test_python_threads_call_at_the_same_time(four_threads: None):
    exe = loomir.compile(program(PARALLEL, 'A: T.Buffer((64,), "int32")'))
    register_func("test.work", lambda i: i + 1)
    wrong: list[object] = []

    def many() -> None:
        for _ in range(30):
            a = np.zeros(64, "int32")
            exe(a)
            if a.tolist() != list(range(1, 65)):
                wrong.append(a)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=60)
    assert not any(t.is_alive() for t in threads)
    assert wrong == []


# -- no leaks -------------------------------------------------------------------------------------
def test_nothing_grows():
    def fail(x: np.ndarray, n: int) -> int:
        if n % 2:
            raise OwnError(n, "odd")
        return n

    register_func("test.fail", fail)
    exe = loomir.compile(
        program(
            'T.ret(T.call_packed("test.fail", A, n, "text"))',
            'A: T.Buffer((4,), "int32"), n: T.int32',
            "T.int32",
        )
    )
    register_func("test.fail", lambda x, n, s: fail(x, n), override=True)
    a = np.zeros(4, "int32")

    def rounds(count: int) -> None:
        for n in range(count):
            try:
                assert exe(a, n) == n
            except OwnError:
                assert n % 2

    rounds(200)
    references = sys.getrefcount(a), sys.getrefcount(fail)
    gc.collect()
    objects = len(gc.get_objects())
    tracemalloc.start()
    try:
        rounds(1000)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        rounds(10_000)
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    gc.collect()
    assert after - before < 20_000
    assert len(gc.get_objects()) - objects < 100
    assert (sys.getrefcount(a), sys.getrefcount(fail)) == references


# -- mistakes -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "code"),
    [
        ('T.call_packed("")', "TIR0121"),
        (r'T.call_packed("a\0b")', "TIR0121"),
        (r'T.call_packed("f", "a\0b")', "TIR0122"),
        ('T.call_packed("f", T.Broadcast(1, 4))', "TIR0122"),
        ('T.call_packed("f", dtype="int32x4")', "TIR0122"),
        ('T.evaluate(T.Call("int32", "tir.tvm_call_packed", []))', "TIR0121"),
        ('T.evaluate(T.Call("int32", "tir.tvm_call_packed", [1]))', "TIR0121"),
    ],
)
def test_mistakes_are_found_before_anything_runs(call: str, code: str):
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(program(call))
    assert caught.value.diagnostic.code == code
    assert caught.value.diagnostic.span is not None
    assert caught.value.diagnostic.help
