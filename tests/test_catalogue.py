"""The catalogue of bad input and faults: each case ends in a typed error or a right result.

The number in a test's name is the row of the catalogue. What could end the process runs in a process
of its own. Row 4, a tensor of PyTorch, is in ``tests/runtime/test_torch_tensor.py``, rows of text in
``tests/script/test_catalogue.py``, graphs in ``tests/test_catalogue_graphs.py``, models of ONNX (rows 20,
23, 25, 29, 30 and 43) in ``tests/frontend/onnx/test_catalogue.py``, tuning (rows 31 to 34) in
``tests/tuning/test_catalogue.py``, row 28 in ``tests/runtime/storage/test_object_cache.py`` and
``test_save.py``, export (rows 38 and 39) there and in ``test_export_library.py``.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source
from tests.clause import clauses

Z = np.zeros
ROOT = Path(__file__).parents[1]


def program(text: str) -> Any:
    return from_source(textwrap.dedent(text))


COPY = """
@T.prim_func
def f(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = x[i]
"""
ENGINES: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "native": lambda module: loomir.compile(module, cache=False)["f"],
    "checked": lambda module: loomir.compile(module, checked=True, cache=False)["f"],
    "interpreter": lambda module: lambda *args: loomir.interpret(module, "f", *args),
}


@pytest.fixture(params=ENGINES)
def run(request: pytest.FixtureRequest) -> Any:
    return lambda text, *args: ENGINES[request.param](program(text))(*args)


def in_process(text: str, **environment: str) -> str:
    """Run Python in a process of its own; return what it prints."""
    preamble = "import sys, numpy as np, loomir\nfrom loomir.script import from_source\n"
    done = subprocess.run(
        [sys.executable, "-c", preamble + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- arguments -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("bad", "error", "code"),
    [
        (Z(4), TypeError, "RUN0003"),
        (Z((4, 1), "f4"), ValueError, "RUN0004"),
        (Z(5, "f4"), ValueError, "RUN0005"),
        (None, TypeError, "RUN0103"),
    ],
)
def test_01_wrong_dtype_rank_shape_or_none(run: Any, bad: Any, error: Any, code: str) -> None:
    with pytest.raises(error) as caught:
        run(COPY, bad, Z(4, "f4"))
    assert caught.value.diagnostic.code == code
    assert "x" in caught.value.diagnostic.message


def test_01_wrong_number_of_arguments(run: Any) -> None:
    for count in (0, 3):
        with pytest.raises(TypeError, match="RUN0101"):
            run(COPY, *[Z(4, "f4")] * count)


@pytest.mark.parametrize(
    "view", [Z(8, "f4")[::2], Z(4, "f4")[::-1], np.broadcast_to(np.float32(1), (4,))]
)
def test_02_strided_input(run: Any, view: Any) -> None:
    with pytest.raises(ValueError, match="x must be row-major"):
        run(COPY, view, Z(4, "f4"))


def test_03_byte_swapped_input(run: Any) -> None:
    with pytest.raises(TypeError, match="byte order"):
        run(COPY, Z(4, ">f4"), Z(4, "f4"))


def test_05_scalar_beyond_its_dtype(run: Any) -> None:
    text = """
    @T.prim_func
    def f(n: T.int32) -> T.int32:
        return n
    """
    with pytest.raises(OverflowError, match="1099511627776, which does not fit int32"):
        run(text, 2**40)
    assert run(text, 2**31 - 1) == 2**31 - 1


def test_06_input_and_output_overlap(run: Any) -> None:
    data = Z(6, "f4")
    with pytest.raises(ValueError, match="x and y overlap"):
        run(COPY, data[:4], data[2:])
    run(COPY, data[:2].repeat(2), data[2:])


def test_07_misaligned_memory(run: Any) -> None:
    raw = np.zeros(17, "i1")
    x = raw[1:].view("f4")
    x[:] = [1, 2, 3, 4]
    y = Z(4, "f4")
    run(COPY, x, y)
    assert y.tolist() == [1, 2, 3, 4]


# -- arithmetic ----------------------------------------------------------------------------------
DIVISIONS = {"T.div(a, b)": 8, "T.truncmod(a, b)": 9, "a // b": 8, "a % b": 9}


@pytest.mark.parametrize("operator", DIVISIONS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32"])
def test_08_division_by_zero(run: Any, operator: str, dtype: str) -> None:
    text = f"""
    @T.prim_func
    def f(a: T.{dtype}, b: T.{dtype}) -> T.{dtype}:
        return {operator}
    """
    with pytest.raises(ZeroDivisionError) as caught:
        run(text, 1, 0)
    assert caught.value.diagnostic.span.line == 4


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_09_the_least_integer_by_minus_one(run: Any, bits: int) -> None:
    for operator, wanted in DIVISIONS.items():
        text = f"""
        @T.prim_func
        def f(a: T.int{bits}, b: T.int{bits}) -> T.int{bits}:
            return {operator}
        """
        assert run(text, -(2 ** (bits - 1)), -1) == (-(2 ** (bits - 1)) if wanted == 8 else 0)


def test_10_what_does_not_matter_is_not_evaluated(run: Any) -> None:
    text = """
    @T.prim_func
    def f(a: T.int32, b: T.int32) -> T.int32:
        return T.if_then_else(b != 0 and a // b > 0, 1, 2)
    """
    assert run(text, 4, 0) == 2
    assert run(text, 4, 2) == 1


# -- memory --------------------------------------------------------------------------------------
@pytest.mark.parametrize("index", [4, 2**30, -1, -(2**31)])
@pytest.mark.parametrize("access", ["x[n] = T.float32(1)", "x[0] = x[n]"])
def test_11_index_out_of_bounds(access: str, index: int) -> None:
    text = f"""
    @T.prim_func
    def f(x: T.Buffer((4,), "float32"), n: T.int32):
        {access}
    """
    for engine in ("checked", "interpreter"):
        with pytest.raises(IndexError) as caught:
            ENGINES[engine](program(text))(Z(4, "f4"), index)
        found = caught.value.diagnostic
        assert found.message == f"index {index} is outside of axis 0 of x, whose extent is 4"
        assert found.span.line == 4


@pytest.mark.parametrize("option", ["checked", "check_bounds"])
def test_14_the_option_that_checks_bounds_finds_them(option: str) -> None:
    module = program("""
    @T.prim_func
    def f(x: T.Buffer((4,), "float32"), k: T.Buffer((4,), "int32"), y: T.Buffer((4,), "float32")):
        for i in T.parallel(4):
            y[i] = x[k[i]]
    """)
    options: dict[str, Any] = {option: True}
    run = loomir.compile(module, cache=False, **options)["f"]
    run(Z(4, "f4"), Z(4, "i4"), Z(4, "f4"))
    with pytest.raises(IndexError) as caught:
        run(Z(4, "f4"), np.full(4, 6, "i4"), Z(4, "f4"))
    assert isinstance(caught.value, loomir.LoomirError)


def test_15_negative_constant_index() -> None:
    with pytest.raises(loomir.CompileError, match="SCR0019"):
        program('@T.prim_func\ndef f(x: T.Buffer((4,), "float32")):\n    x[-1] = T.float32(1)\n')


@pytest.mark.parametrize("shape", ["(n, 4)", "(n, n)", "(n, n, n)"])
def test_16_size_beyond_64_bits(run: Any, shape: str) -> None:
    zeros = ", ".join("0" for _ in shape.split(","))
    text = f"""
    @T.prim_func
    def f(n: T.int64, y: T.Buffer((1,), "float32")):
        A = T.alloc_buffer({shape}, "float32")
        A[{zeros}] = T.float32(1)
        y[0] = A[{zeros}]
    """
    with pytest.raises(ValueError, match="A cannot be allocated"):
        run(text, 2**62, Z(1, "f4"))
    with pytest.raises(ValueError, match="A cannot be allocated"):
        run(text, -1, Z(1, "f4"))


def test_17_more_memory_than_there_is(run: Any) -> None:
    text = """
    @T.prim_func
    def f(n: T.int64, y: T.Buffer((1,), "float32")):
        A = T.alloc_buffer((n,), "float32")
        A[0] = T.float32(1)
        y[0] = A[0]
    """
    with pytest.raises(MemoryError, match="no memory for the"):
        run(text, 2**56, Z(1, "f4"))


# -- values --------------------------------------------------------------------------------------
def test_18_not_a_number(run: Any) -> None:
    text = """
    @T.prim_func
    def f(a: T.float32, b: T.float32, y: T.Buffer((4,), "float32")):
        y[0] = T.max(a, b)
        y[1] = T.min(b, a)
        y[2] = T.if_then_else(a < b, T.float32(1), T.float32(2))
        y[3] = T.if_then_else(a != a, T.float32(1), T.float32(2))
    """
    y = Z(4, "f4")
    run(text, float("nan"), 1.0, y)
    assert np.isnan(y[:2]).all()
    assert y[2:].tolist() == [2.0, 1.0]


def test_19_condition_of_several_lanes() -> None:
    with pytest.raises(loomir.CompileError, match="TIR0205"):
        program("""
        @T.prim_func
        def f(x: T.Buffer((4,), "int32")):
            if T.Broadcast(x[0] > 0, 2):
                x[0] = 1
        """)


@clauses("TIR-STMT-13d")
def test_22_error_inside_a_parallel_loop(run: Any) -> None:
    text = """
    @T.prim_func
    def f(x: T.Buffer((64,), "int32"), y: T.Buffer((64,), "int32")):
        for i in T.parallel(64):
            y[i] = 8 // x[i]
    """
    data = np.ones(64, "i4")
    run(text, data, Z(64, "i4"))
    data[37] = 0
    with pytest.raises(ZeroDivisionError):
        run(text, data, Z(64, "i4"))


# -- processes and threads -----------------------------------------------------------------------
PARALLEL = """
text = '''
@T.prim_func
def f(x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")):
    for i in T.parallel(64):
        for j in T.vectorized(64):
            y[i * 64 + j] = x[i * 64 + j] + T.float32(1)
'''
run = loomir.compile(from_source(text))["f"]
x, y = np.arange(4096, dtype="f4"), np.zeros(4096, "f4")
run(x, y)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_35_fork_after_a_parallel_call() -> None:
    text = PARALLEL + textwrap.dedent("""
        import os, warnings
        warnings.simplefilter("ignore")
        for _ in range(20):
            child = os.fork()
            if child == 0:
                z = np.zeros(4096, "f4")
                run(x, z)
                os._exit(0 if (z == x + 1).all() else 3)
            assert os.waitpid(child, 0)[1] == 0
        print("fine")
    """)
    assert in_process(text) == "fine"


def test_36_many_threads_run_and_compile() -> None:
    module = program(COPY)
    exe = loomir.compile(module)
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            own = loomir.compile(module, cache=False) if number % 2 else exe
            for value in range(100):
                x, y = np.full(4, value + number, "f4"), Z(4, "f4")
                own["f"](x, y)
                if (x != y).any():
                    wrong.append((number, value))
        except Exception as error:  # noqa: BLE001 - told below, by the main thread
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


MANY = """
text = '''
@I.ir_module
class Module:
    @T.prim_func
    def f(x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")):
        for i in T.parallel(64):
            for j in T.vectorized(64):
                y[i * 64 + j] = x[i * 64 + j] + T.float32(1)

    @T.prim_func
    def g(x: T.handle, w: T.Buffer((24, 40), "float32"), y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n, 24), "float32")
        Y = T.match_buffer(y, (n, 40), "float32")
        for i, j, k in T.grid(n, 40, 24):
            with T.block("sum"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * w[vk, vj]

    @R.function
    def main(x: R.Tensor(("batch", "time", 16), "float32")):
        with R.dataflow():
            y = R.nn.softmax(x)  # memory of several symbolic sizes is planned
            z = R.nn.softmax(y * x)
            R.output(z)
        return z
'''
import hashlib, pickle
head = "from loomir.script import ir as I, relax as R, tir as T\\n"
for turn in range(TURNS):
    exe = loomir.compile(from_source(head + text), cache=False)
    code = exe.assembly().encode(), pickle.dumps(exe)
    print(*[hashlib.sha256(part).hexdigest() for part in code])
checked = loomir.compile(from_source(head + text)["f"], cache=False, checked=True)
print(hashlib.sha256(checked.assembly().encode()).hexdigest())
"""


def test_37_code_is_the_same_in_processes_of_other_hash_seeds_and_again_in_one() -> None:
    found: list[list[str]] = []
    for seed, turns in (("0", 3), ("1", 1), ("4242", 1), ("random", 1)):
        made = in_process(MANY.replace("TURNS", str(turns)), PYTHONHASHSEED=seed).splitlines()
        assert len(made) == turns + 1
        found.append(made)
    assert len({line for lines in found for line in lines[:-1]}) == 1
    assert len({lines[-1] for lines in found}) == 1


@pytest.mark.parametrize("where", ["missing/deep", "file"])
def test_38_cache_that_cannot_be_used(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("no directory", encoding="utf-8")
    place = tmp_path / where
    assert in_process(PARALLEL + "print((y == x + 1).all())", XDG_CACHE_HOME=str(place)) == "True"


# -- what may be observed, and what not ------------------------------------------------------------
SCRATCH = """
@T.prim_func
def f(x: T.Buffer((4, 4), "int32"), y: T.Buffer((4, 4), "int32")):
    {declaration}
    for i, j in T.grid(4, 4):
        A[i, j] = x[j, i] * 2
    for i, j in T.grid(4, 4):
        y[i, j] = A[i, j] + 1
"""


@clauses("TIR-BUF-06", "TIR-STATE-07")
@pytest.mark.parametrize(
    "declaration",
    [
        'A = T.alloc_buffer((4, 4), "int32")',
        'A = T.alloc_buffer((4, 4), "int32", strides=(9, 2))',
        'A = T.alloc_buffer((4, 4), "int32", strides=(1, 4))',
        'A = T.alloc_buffer((4, 4), "int32", elem_offset=5)',
    ],
)
def test_where_internal_buffers_lie_cannot_be_seen(run: Any, declaration: str) -> None:
    x, y = np.arange(16, dtype="i4").reshape(4, 4), Z((4, 4), "i4")
    run(SCRATCH.format(declaration=declaration), x, y)
    np.testing.assert_array_equal(y, x.T * 2 + 1)


@clauses("TIR-STATE-06", "TIR-STATE-08")
@pytest.mark.parametrize("options", [{"opt_level": n} for n in range(4)] + [{"checked": True}])
def test_what_can_be_seen_is_kept(options: Any) -> None:
    said: list[int] = []

    def tell(number: int) -> int:
        said.append(number)
        return 0

    loomir.register_func("tests.catalogue_tell", tell, override=True)
    text = """
    @T.prim_func
    def f(x: T.Buffer((4,), "int32"), n: T.int32):
        x[0] = 1
        x[0] = 2
        T.call_packed("tests.catalogue_tell", x[0])
        T.call_packed("tests.catalogue_tell", x[0] + n)
        x[1] = x[0] + 3
        T.evaluate(8 // n)
        x[2] = 7
    """
    exe = loomir.compile(program(text), cache=False, **options)["f"]
    data = Z(4, "i4")
    exe(data, 1)
    assert (data.tolist(), said) == ([2, 5, 7, 0], [2, 3])
    data, said[:] = Z(4, "i4"), []
    with pytest.raises(ZeroDivisionError):
        exe(data, 0)
    assert (data.tolist(), said) == ([2, 5, 0, 0], [2, 2])


@clauses("TIR-STMT-14a")
def test_vector_loops_keep_the_order_of_errors(run: Any) -> None:
    text = """
    @T.prim_func
    def f(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
        for i in T.vectorized(8):
            y[i] = 8 // x[i]
            assert x[i] != 5, "five"
    """
    data, out = np.array([1, 2, 4, 5, 1, 0, 1, 1], "i4"), Z(8, "i4")
    with pytest.raises(AssertionError, match="five"):
        run(text, data, out)
    assert out.tolist() == [8, 4, 2, 1, 0, 0, 0, 0]
    data[2], out = 0, Z(8, "i4")
    with pytest.raises(ZeroDivisionError):
        run(text, data, out)
    assert out.tolist() == [8, 4, 0, 0, 0, 0, 0, 0]


def test_handles_of_nothing_are_taken(run: Any) -> None:
    text = """
    @T.prim_func
    def f(p: T.handle) -> T.int32:
        return 1
    """
    assert run(text, None) == 1
    assert run(text, ctypes.c_void_p(0)) == 1
