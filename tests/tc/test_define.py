"""Calling functions of a text: arrays in and out, conversions, conditions, calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir import te
from loomir.ir import assert_structural_equal
from loomir.script import from_source
from loomir.support.diagnostics import CompileError, RunError
from loomir.tc import define
from tests.tc.compare_engines import counting, f32, fails, i32, read, run

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "tc").glob("*.tc"))
MATMUL = "def matmul(float(M, K) A, float(K, N) B) -> (C) { C(i, j) +=! A(i, k) * B(k, j) }"


def test_it_is_found_under_its_public_name_without_other_imports():
    code = (
        "import loomir.tc, numpy as np\n"
        "tc = loomir.tc.define('def f(float(N) A) -> (B) { B(i) = A(i) }', cache=False)\n"
        "print(tc(np.ones(2, 'f')), 'prim_func' in tc.to_tir().script())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[1. 1.] True\n"


def test_outputs_are_made_or_passed():
    tc = read(MATMUL)
    a, b = counting(2, 3), counting(3, 4)
    made = tc.matmul(a, b)
    assert (made == a @ b).all()
    out = np.full((2, 4), np.nan, np.float32)
    assert tc(a, b, out=out) is out
    assert (out == made).all()
    assert tc["matmul"].output_shapes(a, b) == ((2, 4),)
    assert repr(tc) == "<tensor comprehensions matmul>"


def test_what_is_changed_in_place_is_given_back():
    tc = read("def f(float(N) A, float(N) S) -> (S, B) { S(i) += A(i)  B(i) = 2 * S(i) }")
    a, s = f32(1, 2), f32(10, 20)
    changed, made = tc(a, s)
    assert changed is s
    assert s.tolist() == [11, 22]
    assert made.tolist() == [22, 44]


def test_matmul_is_what_a_person_would_write():
    wanted = from_source(
        """
@T.prim_func
def matmul(A: T.Buffer((T.int64(8), T.int64(8)), "float32"), B: T.Buffer((T.int64(8), T.int64(8)), "float32"), C: T.Buffer((T.int64(8), T.int64(8)), "float32")):
    for i, k, j in T.grid(T.int64(8), T.int64(8), T.int64(8)):
        with T.sblock("C"):
            vi, vk, vj = T.axis.remap("SRS", [i, k, j])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    )
    tc = define(MATMUL).specialize(M=8, K=8, N=8)
    assert_structural_equal(tc.to_tir()["matmul"], wanted)


def test_specialised_functions_refuse_other_sizes():
    tc = read(MATMUL).specialize(N=4)
    assert tc(counting(2, 3), counting(3, 4)).shape == (2, 4)
    with pytest.raises(RunError):
        tc(counting(2, 3), counting(3, 5))


def test_sums_over_nothing_are_the_identity():
    for sizes in ((2, 0, 3), (0, 2, 3), (2, 3, 0)):
        m, k, n = sizes
        got = run(MATMUL, np.ones((m, k), "f"), np.ones((k, n), "f"))
        assert (got == np.full((m, n), k)).all()


def test_arrays_that_do_not_fit():
    tc = read(MATMUL)
    for bad in (counting(3), counting(3, 4, dtype="float64"), counting(4, 4)):
        with pytest.raises(RunError):
            tc(counting(2, 3), bad)


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        *[("int8", "int8", "int32"), ("uint8", "int16", "int32"), ("bool", "bool", "int32")],
        *[("int32", "uint32", "uint32"), ("int64", "uint32", "int64")],
        *[("int64", "uint64", "uint64"), ("half", "half", "float16")],
        *[("half", "float", "float32"), ("bfloat16", "float", "float32")],
        *[("int64", "half", "float16"), ("float", "double", "float64")],
    ],
)
def test_conversions_of_two_operands(a: str, b: str, wanted: str):
    tc = define(f"def f({a}(N) A, {b}(N) B) -> (C) {{ C(i) = A(i) * B(i) }}")
    assert str(tc.f._unit.made[0].buffer.dtype) == wanted


def test_assignment_converts_to_what_is_there():
    text = "def f(float(N) A, int32(N) B) -> (B) { B(i) += A(i) }"
    assert run(text, f32(1.75, -2.5), i32(1, 1)).tolist() == [2, -1]
    text = "def f(byte(N) A) -> (B) { B(i) = A(i) B(i) += 255 + 0 * B(i) }"
    assert run(text, np.array([3], "uint8")).tolist() == [2]


def test_conversions_by_name():
    a = f32(-1.5, 2.5, 300)
    assert run("def f(float(N) A) -> (B) { B(i) = int32(A(i)) }", a).tolist() == [-1, 2, 300]
    assert run("def f(float(N) A) -> (B) { B(i) = bool(A(i)) }", f32(0, 2)).tolist() == [
        False,
        True,
    ]
    got = run("def f(float(N) A) -> (B) { B(i) = bfloat16(A(i)) }", a)
    assert got.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("dtype", ["byte", "uint16", "int8", "int16", "float16"])
@pytest.mark.parametrize(
    "statement",
    [
        "C(i) = A(i)",
        "C(i) = max(A(i), B(i))",
        "C(i) = min(A(i), B(i))",
        "C(i) = A(i) > B(i) ? A(i) : B(i)",
        "C(i) +=! A(i)",
        "C(i) max=! A(i)",
    ],
)
def test_values_that_only_move_keep_their_type(dtype: str, statement: str):
    a = np.arange(5).astype("uint8" if dtype == "byte" else dtype)
    found = run(f"def f({dtype}(N) A, {dtype}(N) B) -> (C) {{ {statement} }}", a, a[::-1].copy())
    assert found.dtype == a.dtype


def test_minimum_and_maximum_of_nan():
    a, b = f32(np.nan, 1, np.nan), f32(1, np.nan, np.nan)
    text = (
        "def f(float(N) A, float(N) B) -> (C, D) { C(i) = fmax(A(i), B(i)) D(i) = max(A(i), B(i)) }"
    )
    quiet, loud = run(text, a, b)
    assert np.isnan(quiet).tolist() == [False, False, True]
    assert np.isnan(loud).all()


def test_functions_compute_in_the_type_of_their_arguments():
    text = "def f(float(N) A, int32(N) B) -> (C, D, E) { C(i) = exp(A(i)) D(i) = exp(B(i)) E(i) = expf(B(i)) }"
    dtypes = [str(t.buffer.dtype) for t in define(text).f._unit.made]
    assert dtypes == ["float32", "float64", "float32"]


def test_conditions_read_only_what_they_choose():
    text = """
    def f(float(N) X) -> (Y) {
      Y(i) = i > 0 && X(i - 1) > 2 || i < N - 1 && X(i + 1) > 2 ? 1 : 0 where i in 0:N
    }
    """
    assert not define(text).warnings
    assert run(text, f32(1, 1, 3, 1)).tolist() == [0, 1, 0, 1]
    assert run(text, f32(3)).tolist() == [0]


def test_preconditions_that_are_no_formulas_are_checked_point_by_point():
    text = "def f(float(N) A, float(M) B) -> (C) { C(i) = A(i * i % 7) where exists B(i) }"
    assert [w.code for w in define(text).warnings] == ["TC0304"]
    assert run(text, counting(5), counting(4)).tolist() == [1, 2, 5, 3]
    fails("RUN0202", text, counting(4), counting(4))
    run(text, counting(1), counting(1))
    run(text, counting(0), counting(0))


def test_guards_that_depend_on_data_are_left_to_checks():
    text = "def f(float(N) A, float(M) B) -> (C) { C(i) = B(i) > 0 ? A(i) : 0 where i in 0:M }"
    (warning,) = define(text).warnings
    assert "check_bounds" in warning.notes[0]
    tc = define(text, check_bounds=True, cache=False)
    assert tc(f32(5), f32(1, -1)).tolist() == [5, 0]
    with pytest.raises(RunError):
        tc(f32(5), f32(-1, 1))


def test_writes_to_what_exists_stay_inside():
    text = "def f(float(N) A, float(M) B) -> (B) { B(i) = A(i) }"
    assert run(text, f32(1, 2), f32(7, 8, 9)).tolist() == [1, 2, 9]
    fails("RUN0202", text, f32(1, 2, 3), f32(7, 8))


def test_calls_are_put_in_place():
    text = """
    def scale(float(N) X, float s) -> (Y) { Y(i) = X(i) * s }
    def twice(float(N) X, float s) -> (Y) { A = scale(X, s)  Y = scale(A, s) }
    def bump(float(N) X) -> (X) { X(i) = X(i) + 1.0f }
    def f(float(M) V, float s) -> (W, V) {
      V = bump(V)
      U = twice(V, s)
      W(i) = U(i) + V(i) where i in 0:U.0
    }
    """
    w, v = run(text, f32(1, 2), np.float32(3))
    assert v.tolist() == [2, 3]
    assert w.tolist() == [20, 30]
    assert len(define(text).to_tir().functions) == 4


def test_sizes_of_arguments_are_checked_where_they_are_not_known():
    text = """
    def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }
    def f(float(P) X, float(Q) Y) -> (Z) { Z = add(X, Y) }
    """
    assert run(text, f32(1, 2), f32(3, 4)).tolist() == [4, 6]
    with pytest.raises(RunError):
        read(text).f(f32(1, 2), f32(1, 2, 3))


def test_temporaries_of_negative_size_are_refused_before_the_loops():
    text = """
    def f(float(N) A, float(K) W) -> (C) {
      B(i) +=! A(i + k) * W(k)
      C() +=! B(i)
    }
    """
    assert run(text, f32(1, 2, 3), f32(1, 1)) == 8
    fails("RUN0202", text, f32(1), f32(1, 2, 3))


def test_numbers_do_for_tensors_of_rank_0():
    tc = read("def f(float(N) A, float a, int32 b) -> (B) { B(i) = a * A(i) + b }")
    assert tc(f32(1, 2), 0.5, 3).tolist() == [3.5, 4]


def test_a_long_expression_and_a_deep_one():
    n = 3000
    a = np.zeros((), np.float64)
    assert run(f"def f(double A) -> (B) {{ B() = {'1 + ' * n}1 }}", a) == n + 1
    deep = "(" * n + "1" + ")" * n
    assert run(f"def f(double A) -> (B) {{ B() = {deep} + {'-' * n}1 }}", a) == 2


def test_a_long_chain_of_calls():
    n = 60
    parts = ["def f0(float(N) A) -> (B) { B(i) = A(i) }"]
    parts += [f"def f{k}(float(N) A) -> (B) {{ B = f{k - 1}(A) }}" for k in range(1, n)]
    assert define("\n".join(parts)).names[-1] == "f59"


def test_reading_does_not_need_the_compiler():
    assert loomir.tc.define is define


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(N) A) -> (B) { B() +=! A(2 * i) where i in 4611686018427387904:4611686018427387905 }",
        "def f(float(N) A) -> (B) { B() +=! A(4611686018427387904 * i) where i in 1:3 }",
        "def f(float(N) A) -> (B) { B() +=! A(i + 9223372036854775807) where i in 1:2 }",
    ],
)
def test_indices_that_leave_64_bits_are_never_outside(text: str):
    fails("RUN0202", text, counting(4))


# -- tensor expressions --------------------------------------------------------------------------
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_compute_the_same_as_tensor_expressions(path: Path):
    tc = define(path.read_text(encoding="utf-8"), cache=False, opt_level=0)
    rng = np.random.default_rng(0)
    for name in tc.names:
        operator = tc[name]
        try:
            inputs, outputs = operator.to_te()
        except CompileError as error:
            assert error.diagnostic.code == "TC0203"
            assert name in ("batch_norm", "heat")
            continue
        sizes: dict[str, int] = {}
        arrays = []
        for tensor in inputs:
            shape = [sizes.setdefault(d.name_hint, 3 + len(sizes) % 3) for d in tensor.shape]
            kind = str(tensor.dtype)
            made = rng.standard_normal(shape) if kind[0] == "f" else rng.integers(0, 3, shape)
            arrays.append(made.astype(kind))
        wanted = operator(*arrays)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        func = te.create_prim_func([*inputs, *outputs], name=name)
        given = [np.zeros_like(a) for a in wanted]
        loomir.compile(func, opt_level=0, cache=False)(*arrays, *given)
        for a, b in zip(given, wanted, strict=True):
            assert np.allclose(a, b, rtol=1e-6), name


def test_accumulation_is_a_new_tensor():
    text = "def f(float(N, M) A) -> (B) { B(i) +=! A(i, k) B(i) max= 2 * A(i, k) B(i) += B(i) }"
    tc = read(text)
    inputs, outputs = tc.f.to_te()
    a = counting(3, 4)
    out = np.zeros(3, "f")
    loomir.compile(te.create_prim_func([*inputs, *outputs]), cache=False)(a, out)
    assert out.tolist() == tc(a).tolist()
    assert list(tc.to_te()) == ["f"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def f(float(N) A) -> (A) { A(i) = A(i) + 1 }", "in place"),
        ("def f(float(N) A) -> (B) { B(i) = A(i) B(i) = 1 where i in 0:N / 2 }", "a part"),
        ("def f(float(N) A, float(M) B) -> (C) { C(i) = B(i) where i in 0:N }", "checked"),
        ("def f(int8(N) A) -> (B) { B(i) = A(i) B(i) += A(i) * A(k) }", "reduced into"),
    ],
)
def test_what_is_no_tensor_expression(text: str, why: str):
    with pytest.raises(CompileError) as caught:
        define(text).to_te()
    assert caught.value.diagnostic.code == "TC0203"
    assert why in caught.value.diagnostic.message
