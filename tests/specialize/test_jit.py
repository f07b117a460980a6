"""``loomir.jit``: which types make which code, what is allocated, how often it compiles."""

# ruff: noqa: F821, UP037 - strings are programs

from __future__ import annotations

import copy
import ctypes
import doctest
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.support import pool
from loomir.script import relax as R
from loomir.script import tir as T

FACTOR = 3
DTYPES = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
]


@loomir.jit
def double(x, y: "T.Buffer(x.shape, x.dtype)"):
    for i in range(x.shape[0]):
        y[i] = x[i] + x[i]


@loomir.jit
def scale(x, c, y: "T.Buffer(x.shape, x.dtype)"):
    for i in range(x.shape[0]):
        y[i] = x[i] * T.cast(c, x.dtype)


@loomir.jit
def product(a: "T.Buffer((n, k), ...)", b: "T.Buffer((k, m), ...)", c: "T.Buffer((n, m), a.dtype)"):
    for i, j in T.grid(n, m):
        c[i, j] = T.cast(0, c.dtype)
        for r in range(k):
            c[i, j] += a[i, r] * b[r, j]


@loomir.jit
def constant(x, y: "T.Buffer(x.shape, x.dtype)"):
    for i in range(x.shape[0]):
        y[i] = x[i] * T.cast(FACTOR, x.dtype)


@R.function
def total_of(x: R.Tensor(("n",), "float32")):
    return R.sum(x)


def fresh(**options: Any) -> loomir.JitFunction:
    @loomir.jit(**options)
    def add_one(x, y: "T.Buffer(x.shape, x.dtype)"):
        for i in range(x.shape[0]):
            y[i] = x[i] + T.cast(1, x.dtype)

    return add_one


def numpy_dtype(name: str) -> Any:
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_dtype_has_its_own_code(dtype: str):
    given = np.arange(5).astype(numpy_dtype(dtype))
    found: Any = double(given)
    assert found.dtype == given.dtype
    np.testing.assert_array_equal(found, given + given)
    assert f"double(x: {dtype}[:], y: {dtype}[:])" in double.signatures


def test_booleans_are_a_dtype():
    @loomir.jit
    def negate(x, y: "T.Buffer(x.shape, x.dtype)"):
        for i in range(x.shape[0]):
            y[i] = not x[i]

    np.testing.assert_array_equal(negate(np.array([True, False])), [False, True])


def test_each_rank_has_its_own_code():
    @loomir.jit
    def ranks(x, y):
        for i in T.grid(*x.shape):
            y[i] = x[i]

    out = np.zeros(3, "float32")
    ranks(np.arange(3, dtype="float32"), out)
    np.testing.assert_array_equal(out, [0, 1, 2])

    @loomir.jit
    def count(x, y: T.Buffer((1,), "int64")):
        y[0] = len(x.shape)

    assert [int(count(np.zeros((1,) * rank))[0]) for rank in range(4)] == [0, 1, 2, 3]
    assert len(count.signatures) == 4


def test_sizes_are_symbolic_and_may_be_zero():
    before = set(double.signatures)
    for size in (0, 1, 7, 1000):
        given = np.ones(size, "float32")
        np.testing.assert_array_equal(double(given), given + given)
    assert len(set(double.signatures) - before) <= 1


def test_names_in_shapes_are_shared_and_dtypes_open():
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        a, b = rng.random((3, 4)).astype(dtype), rng.random((4, 5)).astype(dtype)
        found: Any = product(a, b)
        np.testing.assert_allclose(found, a @ b, rtol=1e-5)
        assert found.dtype == dtype
    with pytest.raises(loomir.RunError, match="the extent of axis 0 of b is 3"):
        product(np.zeros((3, 4)), np.zeros((3, 5)), np.zeros((3, 5)))


@pytest.mark.parametrize(
    ("number", "array", "dtype"),
    [
        (2.0, "float32", "float32"),
        (2.0, "float64", "float64"),
        (2.0, "float16", "float16"),
        (2.0, "int32", "float64"),
        (2, "float32", "int64"),
        (True, "float32", "bool"),
        (np.float64(2), "float32", "float64"),
        (np.int8(2), "float32", "int8"),
        (np.uint64(2), "float32", "uint64"),
    ],
)
def test_numbers_take_these_dtypes(number: Any, array: str, dtype: str):
    given = np.array([1, 2], array)
    np.testing.assert_array_equal(scale(given, number), given * number)
    assert f"scale(x: {array}[:], c: {dtype}, y: {array}[:])" in scale.signatures


def test_tensors_of_pytorch_are_returned_where_they_are_given():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        found: Any = double(torch.ones(3, dtype=dtype))
        assert found.dtype is dtype
        assert found.tolist() == [2, 2, 2]


def test_other_libraries_are_asked_by_dlpack():
    class Exporter:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> object:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    np.testing.assert_array_equal(double(Exporter(np.ones(2, "int16"))), [2, 2])


def test_declared_buffers_leave_open_what_they_lack():
    @loomir.jit
    def store(x: T.Buffer, y: T.Buffer(dtype="float32"), n: T.int32):
        for i in range(n):
            y[i] = T.cast(x[i], "float32")

    out = np.zeros(3, "float32")
    store(np.arange(3), out, 2)
    np.testing.assert_array_equal(out, [0, 1, 0])
    assert store.signatures == ("store(x: int64[:], y: float32[:], n: int32)",)
    with pytest.raises(loomir.RunError, match="x must be an array, not an int"):
        store(3, out, 2)


def test_arguments_go_by_name():
    given = np.ones(2, "float32")
    np.testing.assert_array_equal(scale(c=2.0, x=given), [2, 2])
    out = np.zeros(2, "float32")
    scale(given, y=out, c=4.0)
    np.testing.assert_array_equal(out, [4, 4])


def test_each_set_of_types_is_compiled_once_whoever_calls(monkeypatch: pytest.MonkeyPatch):
    from loomir.specialize import function

    compiled: list[object] = []
    original = function.compile_program

    def counted(*args: Any, **options: Any) -> Any:
        compiled.append(args)
        return original(*args, **options)

    monkeypatch.setattr(function, "compile_program", counted)
    add_one = fresh()
    start = threading.Barrier(4)
    results: list[Any] = []

    def call() -> None:
        start.wait()
        results.append(add_one(np.zeros(3, "float32")))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.tolist() for r in results] == [[1, 1, 1]] * 4
    assert len(compiled) == 1
    add_one(np.zeros(9, "float32"))
    assert len(compiled) == 1
    add_one(np.zeros(9, "int32"))
    assert len(compiled) == 2


def test_executables_can_be_had_without_a_call():
    add_one = fresh()
    assert add_one.signatures == ()
    exe = add_one.compile(np.zeros(3, "float32"))
    assert add_one.executables == {"add_one(x: float32[:], y: float32[:])": exe}
    assert "float32" in exe.script()
    assert repr(add_one) == "<add_one, compiled at its first call; so far 1 signature>"
    assert add_one.compile(np.zeros(8, "float32")) is exe


def test_programs_are_compiled_as_they_are():
    @loomir.jit
    @T.prim_func
    def half(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i] / T.float32(2)

    @loomir.jit(opt_level=1)
    @R.function
    def total(x: R.Tensor(("n",), "float32")):
        return R.sum(x)

    np.testing.assert_array_equal(half(np.ones(4, "float32")), np.full(4, 0.5))
    assert half.signatures == ("half(x: float32[:], y: float32[:])",)
    assert float(total(np.ones(4, "float32"))) == 4
    assert total.compile() is total.compile()
    assert loomir.jit(half) is half


def test_options_reach_the_compiler():
    checked = fresh(check_bounds=True, cache=False, schedule=False, opt_level=0)
    np.testing.assert_array_equal(checked(np.zeros(3, "int32")), [1, 1, 1])

    @loomir.jit
    def beyond(x, y):
        for i in range(x.shape[0]):
            y[i] = x[i]

    with pytest.raises(loomir.RunError, match="index 4 is outside of axis 0 of y"):
        beyond(np.zeros(8, "float32"), np.zeros(4, "float32"))


def test_threads_are_capped_for_the_call():
    asked = ctypes.CFUNCTYPE(ctypes.c_int32)(pool.pool_symbols()["loomir_get_threads"])
    before = asked()
    with pool.cap_threads(1):
        assert asked() == 1
        with pool.cap_threads(2):
            assert asked() == 1
        assert asked() == 1
    assert asked() == before
    seen: list[int] = []
    loomir.register_func("tests.jit_threads", lambda: seen.append(asked()), override=True)

    @loomir.jit(threads=1)
    def look(x):
        T.evaluate(T.call_packed("tests.jit_threads"))
        x[0] = 1

    look(np.zeros(1, "int32"))
    assert (seen, asked()) == ([1], before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads is 0"),
        ({"threads": "all"}, "threads is 'all'"),
        ({"opt_level": 9}, "opt_level is 9"),
        ({"cache": 1}, "cache is 1"),
        ({"target": "pentium"}, "no target 'pentium'"),
    ],
)
def test_options_that_are_none_are_refused_at_once(options: dict[str, Any], message: str):
    with pytest.raises(loomir.CompileError, match=message):
        fresh(**options)


def test_pickles_carry_the_source_and_its_values(tmp_path: Path):
    path = tmp_path / "constant.pickle"
    path.write_bytes(pickle.dumps(constant))
    code = (
        "import pickle, sys; import numpy as np\n"
        f"f = pickle.load(open({str(path)!r}, 'rb'))\n"
        "print(f(np.arange(3)).tolist(), f.signatures)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    wanted = "[0, 3, 6] ('constant(x: int64[:], y: int64[:])',)\n"
    assert done.stdout == wanted, done.stderr
    again = copy.deepcopy(pickle.loads(pickle.dumps(constant)))
    np.testing.assert_array_equal(again(np.ones(2, "float32")), [3, 3])
    whole = pickle.loads(pickle.dumps(loomir.jit(total_of)))
    assert float(whole(np.ones(2, "float32"))) == 2


def test_values_that_cannot_be_pickled_are_named():
    @T.macro
    def body(x):
        x[0] = 1

    @loomir.jit
    def uses_macro(x):
        body(x)

    uses_macro(np.zeros(1, "int32"))
    with pytest.raises(loomir.RunError, match="it uses body") as caught:
        pickle.dumps(uses_macro)
    assert caught.value.diagnostics[0].code == "RUN0468"


def test_names_mean_what_they_mean_where_the_function_is_written():
    size = 2

    @loomir.jit
    def fill(x):
        for i in range(size):
            x[i] = 1

    size = 4
    out = np.zeros(size, "int32")
    fill(out)
    assert out.tolist() == [1, 1, 0, 0]


def test_names_that_a_module_defines_later_are_found_at_the_first_call():
    @loomir.jit
    def fill(x):
        for i in range(DEFINED_BELOW):
            x[i] = 1

    out = np.zeros(3, "int32")
    fill(out)
    assert out.tolist() == [1, 1, 0]


DEFINED_BELOW = 2


def test_doctests_and_sources_without_files_work():
    text = """
    >>> import numpy as np, loomir
    >>> from loomir.script import tir as T
    >>> @loomir.jit
    ... def add(a, b, c: "T.Buffer(a.shape, a.dtype)"):
    ...     for i in range(a.shape[0]):
    ...         c[i] = a[i] + b[i]
    >>> print(add(np.arange(3), np.arange(3)))
    [0 2 4]
    """
    test = doctest.DocTestParser().get_doctest(text, {}, "jit", None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    assert runner.run(test).failed == 0


def message(error: loomir.LoomirError) -> str:
    (only,) = error.diagnostics
    return f"{only.code}: {only.message} | {only.help}"


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (
            lambda: scale([1], 2.0),
            "RUN0103: x must be an array or a number, not a list | make it an array first: numpy.array(x, dtype='float32')",
        ),
        (
            lambda: scale(np.zeros(1), "a"),
            "RUN0103: c must be an array or a number, not the string 'a' | pass a NumPy array, a PyTorch tensor, or anything that has __dlpack__",
        ),
        (
            lambda: scale(np.zeros(1), None),
            "RUN0103: c must be an array or a number, not None | pass a NumPy array, a PyTorch tensor, or anything that has __dlpack__",
        ),
        (
            lambda: scale(np.zeros(1, "complex64"), 1.0),
            "RUN0105: x has elements of dtype complex64, for which there is no dtype in TIR | convert it: pass x.astype('float32'), or another number's dtype",
        ),
        (
            lambda: scale(np.zeros(1, ">f4"), 1.0),
            "RUN0105: x has elements in the byte order of other machines (>f4) | pass x.astype('float32')",
        ),
        (
            lambda: scale(np.zeros(1)),
            "RUN0101: scale takes 3 arguments, 1 was given; missing: c | pass c",
        ),
        (
            lambda: scale(np.zeros(1), 1.0, np.zeros(1), 3),
            "RUN0101: scale takes 3 arguments, 4 were given | leave one out",
        ),
        (
            lambda: scale(np.zeros(1), 1.0, z=np.zeros(1)),
            "RUN0102: scale has no parameter 'z' | it has x, c, y",
        ),
        (
            lambda: scale(np.zeros(1), 1.0, x=np.zeros(1)),
            "RUN0102: scale got 'x' both by position and by name | pass it once",
        ),
        (
            lambda: scale(np.zeros(1), 2**70),
            "RUN0111: c is 1180591620717411303424, which does not fit int64 | pass a number of at most 64 bits",
        ),
    ],
)
def test_calls_that_are_wrong_name_the_argument(call: Any, wanted: str):
    with pytest.raises(loomir.RunError) as caught:
        call()
    assert message(caught.value) == wanted


def test_an_output_that_nothing_declares_cannot_be_left_out():
    @loomir.jit
    def bare(x, y):
        for i in range(x.shape[0]):
            y[i] = x[i]

    with pytest.raises(loomir.RunError) as caught:
        bare(np.zeros(1))
    assert message(caught.value) == (
        "RUN0101: bare takes 2 arguments, 1 was given; missing: y | pass y, or declare what it is, "
        'so that it is allocated, as in y: "T.Buffer(x.shape, x.dtype)"'
    )


def test_mistakes_in_the_body_say_for_which_types_it_was_read():
    @loomir.jit
    def mixed(x, c, y: "T.Buffer(x.shape, x.dtype)"):
        for i in range(x.shape[0]):
            y[i] = x[i] * c

    with pytest.raises(loomir.CompileError) as caught:
        mixed(np.zeros(1, "float32"), np.float64(2))
    (only,) = caught.value.diagnostics
    assert only.code == "TIR0203"
    assert only.notes == ("read for x: float32[:], c: float64",)
    np.testing.assert_array_equal(mixed(np.ones(1, "float32"), 2.0), [2])


def test_mistakes_are_told_at_once_where_no_type_is_open():
    with pytest.raises(loomir.CompileError, match="'z' is not defined"):

        @loomir.jit
        def closed(x: T.Buffer((4,), "float32")):
            x[0] = z


@pytest.mark.parametrize("given", [3, np.sum, lambda x: x, int])
def test_what_is_no_program_is_refused(given: Any):
    with pytest.raises(loomir.CompileError) as caught:
        loomir.jit(given)
    assert caught.value.diagnostics[0].code == "SCR0014"
