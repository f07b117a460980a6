"""Importing the language costs little: what only some programs need is loaded when they need it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LISTED = "import sys; from loomir.script import tir as T; print(*sorted(sys.modules))"


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Return the modules that a new process holds after the import."""
    done = subprocess.run(
        [sys.executable, "-c", LISTED], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module", ["numpy", "ml_dtypes", "rich", "llvmlite", "loomir.script.printer", "torch"]
)
def test_the_import_does_not_load(module: str, loaded: set[str]):
    assert "loomir.script.parser.entry" in loaded
    assert module not in loaded


def test_what_is_left_out_is_loaded_on_demand():
    code = (
        "from loomir.script import from_source\n"
        "f = from_source('@T.prim_func\\ndef f(x: T.int32):\\n    T.evaluate(x)\\n')\n"
        "assert 'T.prim_func' in str(f), str(f)\n"
        "import loomir.script as s\n"
        "assert s.printer.script(f) == str(f)\n"
        "from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of\n"
        "assert dtype_of_numpy(numpy_of(DataType('bfloat16'))) is DataType('bfloat16')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_numbers_of_numpy_around_a_program_are_numbers():
    code = (
        "import numpy as np\n"
        "from loomir.script import from_source\n"
        "values = dict(n=np.int64(3), d=np.dtype('float16'))\n"
        "text = '@T.prim_func\\ndef f(A: T.Buffer((n,), d)):\\n    A[0] = 1\\n'\n"
        "print(from_source(text, values=values))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert 'T.Buffer((3,), "float16")' in done.stdout


def test_extents_that_are_strings_are_read_without_the_names_of_relax():
    code = (
        "from loomir.script import from_source\n"
        'text = \'@R.function\\ndef f(x: R.Prim("int64")):\\n    return R.prim_value("2 * 3")\\n\'\n'
        "print(from_source(text))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "R.prim_value(T.int32(6))" in done.stdout
