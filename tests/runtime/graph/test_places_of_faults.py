"""Faults of kernels that operators become say in which call of the program they happen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source

HEAD = "@R.function\ndef f({arguments}):\n    y = {value}\n    return y\n"
TWO = 'x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("k", "l"), "float32")'
ONE = 'x: R.Tensor(("n", "m"), "float32")'
AT = 'x: R.Tensor(("n",), "float32"), i: R.Tensor((2,), "int64")'


def ones(*shape: int) -> Any:
    return np.ones(shape, "float32")


@pytest.mark.parametrize(
    ("arguments", "value", "given", "code"),
    [
        (TWO, "R.add(x, w)", (ones(2, 3), ones(2, 4)), "RUN0212"),
        (TWO, "R.concat((x, w), axis=0)", (ones(2, 3), ones(2, 4)), "RUN0212"),
        (TWO, "R.matmul(x, w)", (ones(2, 3), ones(4, 4)), "RUN0212"),
        (ONE, "R.reshape(x, (5, 5))", (ones(2, 3),), "RUN0212"),
        (AT, "R.take(x, i)", (ones(4), np.array([0, 9])), "RUN0203"),
    ],
)
def test_the_call_is_shown(arguments: str, value: str, given: tuple[Any, ...], code: str):
    func = from_source(HEAD.format(arguments=arguments, value=value))
    with pytest.raises(loomir.RunError) as caught:
        loomir.compile(func)(*given)
    (only,) = caught.value.diagnostics
    assert only.code == code
    assert only.span is not None
    line = only.span.source.line(only.span.line)
    assert line is not None
    assert line[only.span.column - 1 : only.span.end_column - 1] == value


def test_kernels_of_several_calls_name_none():
    text = (
        f"@R.function\ndef f({TWO}):\n    y = R.add(x, w)\n    z = R.add(x, w)\n    return (y, z)\n"
    )
    func = from_source(text)
    with pytest.raises(loomir.RunError, match="an extent of w is 4, not 3"):
        loomir.compile(func)(ones(2, 3), ones(2, 4))
