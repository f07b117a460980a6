"""Which function of a program the interpreter runs."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.runtime.errors import RunKeyError


def test_name_that_a_single_function_does_not_have_is_refused():
    x = te.placeholder((4,), name="x")
    double = te.create_prim_func([x, te.compute((4,), lambda i: x[i] * 2.0)])
    with pytest.raises(RunKeyError, match=rf"the function is named '{double.name}', not 'nope'"):
        loomir.interpret(double, "nope", np.ones(4, "float32"), np.ones(4, "float32"))
