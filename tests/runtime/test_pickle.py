"""Executables are pickled as the bytes of their files; single functions say what to pickle."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.runtime import Executable
from loomir.script import relax as R
from loomir.support.diagnostics import RunError
from tests.runtime.native import NOTHING, function

X = te.placeholder((4,), name="x")
PROGRAM = te.create_prim_func([X, te.compute((4,), lambda i: X[i] * 2.0)], name="double")
READ = """
import pickle, sys
import numpy as np
exe = pickle.load(open(sys.argv[1], "rb"))
y = np.zeros(4, "float32")
exe(np.ones(4, "float32"), y)
print(y.tolist())
"""


@R.function
def twice(x: R.Tensor((4,), "float32")):
    return R.add(x, x)


def test_another_process_runs_what_was_pickled(tmp_path: Path):
    path = tmp_path / "exe.pickle"
    path.write_bytes(pickle.dumps(loomir.compile(PROGRAM)))
    command = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "[2.0, 2.0, 2.0, 2.0]\n", done.stderr


def test_what_was_unpickled_is_pickled_again():
    exe = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(loomir.compile(twice)))))
    np.testing.assert_array_equal(exe(np.ones(4, "float32")), np.full(4, 2, "float32"))
    again = copy.deepcopy(exe)
    np.testing.assert_array_equal(again(np.ones(4, "float32")), np.full(4, 2, "float32"))


@pytest.mark.parametrize("program", [PROGRAM, twice])
def test_functions_say_what_to_pickle(program: loomir.ir.BaseFunc):
    (compiled,) = loomir.compile(program).functions.values()
    with pytest.raises(TypeError) as caught:
        pickle.dumps(compiled)
    assert isinstance(caught.value, RunError)
    assert caught.value.diagnostic.code == "RUN0468"
    assert "exe.save(path)" in caught.value.diagnostic.help


def test_an_executable_that_cannot_be_saved_says_so():
    exe = Executable(
        {"f": function(NOTHING)}, script=lambda: "", llvm_ir=lambda: "", assembly=lambda: ""
    )
    with pytest.raises(RunError) as caught:
        pickle.dumps(exe)
    assert caught.value.diagnostic.code == "RUN0468"


def test_damaged_bytes_in_a_pickle_are_refused():
    load, (data,) = loomir.compile(PROGRAM).__reduce__()
    with pytest.raises(RunError) as caught:
        load(data[:-1])
    assert caught.value.diagnostic.code == "RUN0462"
    assert "the pickled executable" in caught.value.diagnostic.message
