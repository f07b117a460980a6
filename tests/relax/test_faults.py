"""The words of run-time faults, and the exceptions that they are."""

from __future__ import annotations

import pytest

from loomir.relax import faults
from loomir.relax.faults import DTYPES, KINDS, argument, field_of, result_of
from loomir.runtime.fault import Fault
from loomir.support.diagnostics import RunError
from loomir.support.dtype import DataType

X = argument("x")
CASES: list[tuple[Fault, tuple[int, ...], type[Exception], str, str]] = [
    (
        faults.wrong_kind(None, X, "a tensor"),
        (KINDS.index("a shape"),),
        TypeError,
        "RUN0401",
        "argument x must be a tensor, not a shape",
    ),
    (
        faults.wrong_dtype(None, field_of(X, 1), "float32"),
        (DTYPES.index("bfloat16"),),
        TypeError,
        "RUN0402",
        "argument x[1] must hold float32, not bfloat16",
    ),
    (
        faults.wrong_dtype(None, X, "int64", scalar=True),
        (DTYPES.index("bool"),),
        TypeError,
        "RUN0402",
        "argument x must be int64, not bool",
    ),
    (
        faults.wrong_rank(None, X, 1),
        (2,),
        ValueError,
        "RUN0403",
        "argument x must have 1 axis, not 2",
    ),
    (
        faults.wrong_rank(None, X, 2, shape=True),
        (0,),
        ValueError,
        "RUN0403",
        "argument x must have 2 extents, not 0",
    ),
    (
        faults.wrong_extent(None, X, 1, "n * 2"),
        (8, 7),
        ValueError,
        "RUN0404",
        "argument x, axis 1: the extent must be 8 (n * 2), not 7",
    ),
    (
        faults.wrong_extent(None, result_of("main"), 0, "4", literal=True),
        (4, 7),
        ValueError,
        "RUN0404",
        "the result of main, axis 0: the extent must be 4, not 7",
    ),
    (
        faults.wrong_number(None, X, "n + 1"),
        (4, 3),
        ValueError,
        "RUN0405",
        "argument x must be 4 (n + 1), not 3",
    ),
    (
        faults.wrong_length(None, X, 1),
        (2,),
        ValueError,
        "RUN0406",
        "argument x must be a tuple of 1 field, not 2",
    ),
    (
        faults.wrong_function(None, X, "a pure function", "impure"),
        (),
        TypeError,
        "RUN0407",
        "argument x must be a pure function, and the function is impure",
    ),
    (
        faults.bad_condition(None),
        (KINDS.index("null"),),
        TypeError,
        "RUN0408",
        "the condition must be a tensor of bool without axes, or a bool scalar, not null",
    ),
    (
        faults.bad_condition_tensor(None),
        (DTYPES.index("int64"), 1),
        TypeError,
        "RUN0408",
        (
            "the condition must be a tensor of bool without axes, or a bool scalar, not a tensor of "
            "int64 whose rank is 1"
        ),
    ),
    (
        faults.bad_condition_tensor(None, scalar=True),
        (DTYPES.index("float32"),),
        TypeError,
        "RUN0408",
        (
            "the condition must be a tensor of bool without axes, or a bool scalar, not a scalar of "
            "float32"
        ),
    ),
    (
        faults.negative_extent(None, "R.zeros", "n - 4"),
        (-1,),
        ValueError,
        "RUN0409",
        "R.zeros: the extent n - 4 is -1, and extents are 0 or more",
    ),
    (
        faults.overflow(None, "n * m"),
        (),
        ValueError,
        "RUN0410",
        "n * m overflows: extents and sizes are int64",
    ),
    (
        faults.size_too_large(None, "R.zeros", "int8"),
        (),
        ValueError,
        "RUN0411",
        "R.zeros: the bytes of a tensor of int8 of this shape are 2**63 or more",
    ),
    (
        faults.no_such_field(None, 3),
        (2,),
        IndexError,
        "RUN0412",
        "field 3 is asked of a tuple whose length is 2",
    ),
    (
        faults.index_out_of_range(None, "a view"),
        (4, 4),
        IndexError,
        "RUN0412",
        "a view: index 4 is outside of an axis whose extent is 4",
    ),
    (
        faults.write_to_constant(None, "scale", X),
        (),
        ValueError,
        "RUN0413",
        "scale writes to argument x, which is a constant of the program",
    ),
    (
        faults.write_to_input(None, "scale", X),
        (),
        ValueError,
        "RUN0415",
        "scale writes to argument x, and the call gives it that only to read",
    ),
    (
        faults.overlapping(None, "f", X, argument("y")),
        (),
        ValueError,
        "RUN0008",
        "argument x and argument y of f overlap in memory, and one of them is written",
    ),
    (
        faults.wrong_float(None, X, "n * 0.5"),
        (),
        ValueError,
        "RUN0405",
        "argument x must be n * 0.5, and is another number",
    ),
    (
        faults.no_such_device(None, "cuda:0"),
        (),
        ValueError,
        "RUN0414",
        "there is no device cuda:0 here: programs run on the CPU",
    ),
    (
        faults.no_memory(None, "R.zeros"),
        (64,),
        MemoryError,
        "RUN0207",
        "there is no memory for the 64 bytes of R.zeros",
    ),
    (
        faults.division_by_zero(None, "FloorDiv"),
        (),
        ZeroDivisionError,
        "RUN0201",
        "FloorDiv divides by zero",
    ),
    (
        faults.failed_assertion(None, "n is 3"),
        (),
        AssertionError,
        "RUN0202",
        "n is 3",
    ),
    (
        faults.recursion(None, "f", 1000),
        (),
        RecursionError,
        "RUN0204",
        "f is called more than 1000 calls deep",
    ),
    (
        faults.wrong_count(None, "f", 2),
        (3,),
        TypeError,
        "RUN0101",
        "f takes 2 arguments, not 3",
    ),
]


@pytest.mark.parametrize(
    ("fault", "numbers", "kind", "code", "message"), CASES, ids=[c[3] + " " + c[4] for c in CASES]
)
def test_fault_is_an_exception_with_these_words(
    fault: Fault, numbers: tuple[int, ...], kind: type[Exception], code: str, message: str
):
    error = fault.error(numbers)
    assert isinstance(error, kind)
    assert isinstance(error, RunError)
    assert error.diagnostic.code == code
    assert error.diagnostic.message == message
    assert error.diagnostic.help or code == "RUN0202"


def test_dtypes_are_all_that_tensors_hold():
    assert {str(DataType(name)) for name in DTYPES} == set(DTYPES)
    assert len(DTYPES) == 13


def test_results_of_packed_functions_are_distinguished():
    mistake = faults.wrong_rank(None, result_of("f"), 1)
    d = faults.not_a_claim(mistake, None, "f").error((2,)).diagnostic
    assert d.message == "the result of f must have 1 axis, not 2"
    assert d.label == "the call says what it returns"
    assert "'f'" in d.help
