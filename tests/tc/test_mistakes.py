"""Every mistake: its code, its character, and what to do. ``^`` in a text marks the place."""

from __future__ import annotations

import pytest

from loomir.support.diagnostics import CompileError, RunError
from loomir.tc import define
from tests.tc.compare_engines import f32, read, refused

V = "def f(float(N) A) -> (B) { "
"""The head of a function from one vector to another."""

REFUSED = [
    # -- text ------------------------------------------------------------------------------------
    ("TC0001", "", "write one, as in def"),
    ("TC0001", "^stray def f(float(N) A) -> (B) { B(i) = A(i) }", "start each function with def"),
    ("TC0001", "def f(float(N) A) -> (B) { B(i) ^A(i) }", "write =, or one of"),
    ("TC0001", V + "B(i) = A(i)^; }", "leave it out"),
    ("TC0001", V + "B(i) = A(i) ^= 2 }", "compare with =="),
    ("TC0001", V + "B(i) = A(i) + ^}", "write a number, a name, or name(indices)"),
    ("TC0001", V + "B(i) = A(i ^}", "write ')' or ',' here"),
    ("TC0001", V + "B(i) = A(i) ^$ 2 }", "write an operator, or close what is open"),
    ("TC0001", V + "B(i) = A(i)^", "write '}' after the last statement"),
    ("TC0001", V + "B(i) = A(i) } ^}", "leave it out"),
    ("TC0001", V + "B = ^3 }", "or B() = … for a single number"),
    ("TC0001", V + "B = A(i) ^+ 3 }", "or B() = … for a single number"),
    ("TC0001", "def f(float(N) A) ^{ B(i) = A(i) }", "write '->' here"),
    ("TC0001", "def f(float(N^+1) A) -> (B) { B(i) = A(i) }", "write"),
    ("TC0001", "def ^(float(N) A) -> (B) { B(i) = A(i) }", "write a name here"),
    ("TC0001", V + "B(i) = A(i) where i ^= 3 }", "write 'in' here"),
    ("TC0002", V + "B(i) = A(i) + ^1.5.2 }", "write it as in C"),
    ("TC0002", V + "B(i) = A(i) + ^1e99f }", "write it as in C"),
    ("TC0002", V + "B(i) = A(i) / A.^0x1 }", "count axes from 0"),
    ("TC0003", "def f(float(N) ^where) -> (B) { B(i) = 1 }", "use another name"),
    ("TC0003", "def f(float(N) ^float) -> (B) { B(i) = 1 }", "use another name"),
    ("TC0003", V + "B(i) = A(i) ^double(i) = A(i) }", "use another name"),
    ("TC0003", "def ^int32(float(N) A) -> (B) { B(i) = A(i) }", "use another name"),
    ("TC0004", "def f(^flaot(N) A) -> (B) { B(i) = A(i) }", "did you mean 'float'?"),
    # -- names -----------------------------------------------------------------------------------
    ("TC0101", V + "B(i) = A(i) + ^sqr(2.0) }", "did you mean 'sqrt'?"),
    ("TC0101", V + "B(i) = A(i) + ^C.0 }", "name a parameter"),
    ("TC0101", V + "B(i) = 1 where exists ^C(i) }", "exists takes"),
    ("TC0101", V + "B(i) = A(i) + ^B(i) }", "define it first"),
    ("TC0101", "def g(float(N) A) -> (B) { B(i) = A(i) } " + V + "B = g(^C) }", "pass a parameter"),
    ("TC0102", "def f(float(N) A, float(N) ^A) -> (B) { B(i) = A(i) }", "use another name"),
    ("TC0102", "def f(float(N) A) -> (B, ^B) { B(i) = A(i) }", "use another name"),
    ("TC0102", V + "B(i) = A(i) } def ^f(float(N) A) -> (B) { B(i) = A(i) }", "use another name"),
    ("TC0102", V + "B(i) = A(i) ^N(i) = A(i) }", "use another name"),
    ("TC0102", V + "B(^B) = A(B) }", "use another name for the index"),
    ("TC0102", "def f(float(A) B, float(^B) C) -> (D) { D(i) = C(i) }", "use another name"),
    (
        "TC0102",
        "def g(float(N) A) -> (B) { B(i) = A(i) } " + V + "B(i) = A(i) ^B = g(A) }",
        "use another name",
    ),
    ("TC0103", V + "B(^N) = A(N) }", "index with a name of its own"),
    ("TC0103", V + "B(i) = A(i) + ^N(i) }", "write N by itself"),
    ("TC0103", V + "B(i) = A(i) where ^N in 0:3 }", "where gives ranges to indices"),
    ("TC0104", "def f(float(N, M) A) -> (B) { B(i) = ^A(i) }", "one index for each axis"),
    ("TC0104", V + "B(i) = ^A }", "one index for each axis"),
    ("TC0104", V + "B(i) = A(i) + ^exp(1.0, 2.0) }", "exp: e to the power x"),
    ("TC0104", V + "B(i) = ^float(A(i), 2) }", "write float(x)"),
    ("TC0104", V + "B(i) = A(i) ^B(i, j) = A(i) + A(j) }", "one index for each axis"),
    ("TC0104", "def g(float(N) A) -> (B) { B(i) = A(i) } " + V + "^B = g(A, A) }", "1 argument"),
    ("TC0104", "def g(float(N) A) -> (B) { B(i) = A(i) } " + V + "^B, C = g(A) }", "1 result"),
    ("TC0105", V + "B(i) = A(i) / ^A.1 }", "count axes from 0"),
    ("TC0106", V + "B = ^g(A) }", "functions on numbers"),
    ("TC0107", V + "B = ^f(A) }", "write out the statements"),
    (
        "TC0107",
        "def g(float(N) A) -> (B) { B = f(A) } " + V + "B = ^g(A) }",
        "write out the statements",
    ),
    ("TC0108", "def f(float(N) A) -> (^C) { B(i) = A(i) }", "assign it"),
    ("TC0108", "def f(float(N) A) -> (^A) { B(i) = A(i) }", "assign it"),
    ("TC0109", V + "^A(i) = A(i) + 1 B(i) = A(i) }", "return A"),
    (
        "TC0109",
        "def g(float(N) A) -> (A) { A(i) = A(i) + 1 } " + V + "A = g(^A) B(i) = A(i) }",
        "return A too",
    ),
    ("TC0110", V + "B(i) = A(i) where i in 0:^A(0) }", "use a size variable"),
    ("TC0110", V + "B(i) = A(i) where i in 0:^n }", "did you mean"),
    ("TC0111", V + "B(i, ^j) = A(i) }", "add where j in 0:…"),
    ("TC0112", V + "B(i, ^i) = A(i) }", "one index per axis"),
    ("TC0113", V + "B(i) = A(i) where ^j in 0:3 }", "leave its range out"),
    ("TC0113", V + "B(i) = A(i) where i in 0:3, ^i in 0:4 }", "give each index one range"),
    ("TC0113", V + "B(i) = A(i) where exists A(^j) }", "or leave it out here"),
    ("TC0114", "def f(float(N) A) -> (A) { A(i) = ^A(N - 1 - i) }", "assign to another tensor"),
    ("TC0115", V + "B() ^= A(i) }", "write +=!"),
    ("TC0116", V + "B() ^+= A(i) }", "write +=! to start anew"),
    # -- types -----------------------------------------------------------------------------------
    ("TC0201", V + "B(i) = ^A(i) % 2 }", "use fmod(x, y)"),
    ("TC0201", V + "B(i) = A(^A(i)) }", "convert it with int64(…)"),
    ("TC0201", V + "B(i) = A(i) where i in 0:^2.0 }", "convert it with int64(…)"),
    ("TC0201", V + "B() ^+=! A(i) > 0 }", "convert the right side"),
    (
        "TC0201",
        "def f(half(N) A, bfloat16(N) C) -> (B) { B(i) = ^max(A(i), C(i)) }",
        "convert one of them",
    ),
    (
        "TC0201",
        "def f(half(N) A, bfloat16(N) C) -> (B) { B(i) = ^1 ? A(i) : C(i) }",
        "convert one of them",
    ),
    ("TC0202", "def g(int32(N) A) -> (B) { B(i) = A(i) } " + V + "B = g(^A) }", "assign it"),
    (
        "TC0202",
        "def g(float(N) A, float(N) C) -> (B) { B(i) = A(i) + C(i) } "
        + V
        + "C(i) = 1.0f where i in 0:N + 1 B = g(A, ^C) }",
        "equal sizes",
    ),
    (
        "TC0202",
        "def g(float(N) A) -> (A) { A(i) = A(i) + 1 } def f(float(N) A) -> (A, B) { A(i) = A(i) * 2 ^B = g(A) }",
        "name it A",
    ),
    # -- ranges ----------------------------------------------------------------------------------
    ("TC0301", V + "B(i, j) = A(^i + j) }", "add where i in 0:…"),
    ("TC0301", V + "B(i) = A(^i / 2) }", "add where i in 0:…"),
    ("TC0301", V + "B(i) = A(i) + ^k }".replace("B(i) =", "B(i) +=!"), "add where k in 0:…"),
    ("TC0302", V + "B(^i) = A(i - 2) }", "shift the index"),
    ("TC0302", V + "B(^i) = A(i) where i in 1:N }", "shift the index"),
    ("TC0303", V + "B(i) = ^A(i) where i in 0:N + 1 }", "make the range smaller"),
    ("TC0303", V + "B(i) = A(i) B(^i) = 0 where i in 0:N + 1 }", "make the range smaller"),
]


@pytest.mark.parametrize(("code", "text", "help"), REFUSED)
def test_mistake(code: str, text: str, help: str):
    assert help in refused(code, text).help


def test_all_mistakes_of_a_text_come_at_once():
    text = """
    def a(float(N) A) -> (B) { B(i) = A(i) + }
    def b(float(N) A) -> (B) { B(i) A(i) }
    """
    with pytest.raises(CompileError) as caught:
        define(text)
    assert [d.span.line for d in caught.value.diagnostics if d.span] == [2, 3]
    text = """
    def a(float(N) A) -> (B, C) {
      B(i) = A(i, j) + unknown(i) + A.7
      C(i) = B(i) % 2.0
      D(q) = 1
    }
    def b(flot(N) A) -> (B) { B(i) = A(i) }
    """
    with pytest.raises(CompileError) as caught:
        define(text)
    codes = [d.code for d in caught.value.diagnostics]
    assert codes == ["TC0104", "TC0101", "TC0105", "TC0111", "TC0004"]


def test_a_mistake_is_not_reported_again_where_its_name_is_used():
    text = V + "C(i) = A(i, i) D(i) = C(i) B(i) = C(i) + D(i) }"
    with pytest.raises(CompileError) as caught:
        define(text)
    assert [d.code for d in caught.value.diagnostics] == ["TC0104"]


def test_other_things_than_texts():
    for given in (None, 3, b"def"):
        with pytest.raises(CompileError) as caught:
            define(given)  # type: ignore[arg-type]
        assert caught.value.diagnostic.code == "TC0001"


def test_places_count_lines_as_editors_do():
    text = "def f(float(N) A) -> (B) {\r\n  # α\x0c β\u2028\r\n\tB(i) = A(i) $\r\n}"
    with pytest.raises(CompileError) as caught:
        define(text)
    span = caught.value.diagnostic.span
    assert span is not None
    assert (span.line, span.column) == (3, 14)
    assert "B(i) = A(i) $" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "help"),
    [
        (lambda tc: tc["adds"], "did you mean 'add'?"),
        (lambda tc: tc(f32(1), f32(2)), "name it, as in tc.add(…)"),
        (lambda tc: tc.add(f32(1)), "pass A, B"),
        (lambda tc: tc.add(f32(1), f32(2), out=(f32(1), f32(1))), "pass out=(C)"),
        (lambda tc: tc.add.output_shapes(f32(1), 3), "pass arrays"),
        (lambda tc: tc.specialize(Q=3), "its sizes are N"),
        (lambda tc: tc.specialize(N=-3), "a size is 0 or more"),
    ],
)
def test_mistakes_in_calls(call: object, help: str):
    tc = read(
        "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
        "def double_(float(N) A) -> (B) { B(i) = 2 * A(i) }"
    )
    with pytest.raises(RunError) as caught:
        call(tc)  # type: ignore[operator]
    assert caught.value.diagnostic.code == "TC0401"
    assert help in caught.value.diagnostic.help


def test_names_of_functions_are_attributes():
    tc = define("def add(float(N) A) -> (C) { C(i) = A(i) }")
    assert "add" in dir(tc)
    with pytest.raises(AttributeError):
        tc.sub  # noqa: B018 - what is asked for


def test_results_of_negative_size():
    tc = read("def f(float(N) A, float(K) W) -> (B) { B(i) +=! A(i + k) * W(k) }")
    with pytest.raises(RunError) as caught:
        tc(f32(1), f32(1, 2, 3))
    assert caught.value.diagnostic.code == "TC0402"
    assert "N=1, K=3" in caught.value.diagnostic.label


def test_too_many_statements():
    layers = ["def f0(float(N) A) -> (B) { B(i) = A(i) }"]
    layers += [
        f"def f{n}(float(N) A) -> (B) {{ C = f{n - 1}(A) B = f{n - 1}(C) }}" for n in range(1, 16)
    ]
    with pytest.raises(CompileError) as caught:
        define("\n".join(layers))
    assert {d.code for d in caught.value.diagnostics} == {"TC0117"}
