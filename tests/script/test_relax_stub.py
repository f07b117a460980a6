"""What editors and type checkers know of ``R``: a stub that is written from the operators."""

from __future__ import annotations

import ast
import difflib
import inspect
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import loomir
from loomir.relax.expr import Call
from loomir.relax.operator.definition import find_op, op_names
from loomir.script import relax as R
from loomir.script.builder.relax.table import Operators
from tools.operator_stubs import PATH, names_of_language, stub_text

SETTINGS = {
    "typeCheckingMode": "standard",
    "reportInvalidTypeForm": "none",  # annotations of the language are calls
}

PROGRAM = """
import loomir
import loomir.ir.module
from loomir.script import ir as I
from loomir.script import relax as R

double = loomir.ir.module.GlobalVar("double")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor(("n", 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            a = R.add(x, y)
            b = R.add(a, 1.0)
            c = R.call_tir(double, (b,), out_sinfo=R.Tensor((2, 3), "float32"))
            d = R.sum(c, axis=[0, 1], keepdims=True)
            R.output(d)
        R.print(d, format="{}")
        return d


@R.function(private=True)
def image(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
    return R.nn.conv2d(x, w, strides=2, padding=(1, 1), out_dtype="float32")


info: loomir.relax.StructInfo = R.Tensor((2, 3), "float32")
given = loomir.relax.Var("x", R.Tensor((2, 3), "float32"))
call: loomir.relax.Call = R.add(given, given)
function: loomir.relax.Function = image
module: loomir.IRModule = Module
R.add(given)  # wrong: lacks x2
R.add(given, given, given)  # wrong: takes two
R.add(given, other=given)  # wrong: no such parameter
R.add([given], given)  # wrong: no tensor
R.nn.conv2d(given, given, stride=2)  # wrong: the option is strides
R.nn.conv2d(given, given, groups="two")  # wrong: no integer
R.nn.conv3(given, given)  # wrong: no such operator
R.nn.relu(given).shade  # wrong: a call has no such field
R.call_tir()  # wrong: lacks all
R.call_tir(Module, (given,), R.Tensor((2, 3), "float32"))  # wrong: no kernel
R.argmax(given, axis=[0.5])  # wrong: no axis
R.no_such_operator(given)  # wrong: no such operator
R.function(private="yes")  # wrong: no flag
"""


def test_the_stub_is_current(request: pytest.FixtureRequest):
    actual = stub_text()
    if request.config.getoption("--update-golden"):
        PATH.write_text(actual, encoding="utf-8")
        return
    rows = difflib.unified_diff(
        PATH.read_text(encoding="utf-8").splitlines(),
        actual.splitlines(),
        "stub",
        "now",
        lineterm="",
    )
    shown = "\n".join(rows)
    if shown:
        pytest.fail(f"run pytest --update-golden\n{shown}", pytrace=False)


def test_every_name_is_in_the_stub():
    defined: set[str] = set()
    for node in ast.walk(ast.parse(PATH.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            defined.add(node.targets[0].id)
        elif isinstance(node, ast.ImportFrom):
            defined |= {
                alias.asname
                for alias in node.names
                if alias.asname in (alias.name, "function", "inline", "macro")
            }
    assert sorted(set(names_of_language()) - defined) == []
    assert sorted(set(Operators("", {})) - defined) == []


@pytest.mark.skipif(not find_spec("pyright"), reason="Pyright is not installed")
def test_a_type_checker_finds_what_is_wrong_and_nothing_else(tmp_path: Path):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    paths = {"extraPaths": [str(Path(loomir.__file__).parents[1])]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**SETTINGS, **paths}))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"],
        cwd=tmp_path,
        env={**os.environ, "NODE_OPTIONS": "--max-semi-space-size=128"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = PROGRAM.splitlines()
    wanted = {number for number, line in enumerate(lines) if "# wrong" in line}
    told = {d["range"]["start"]["line"]: d["message"] for d in found if d["severity"] == "error"}
    assert [lines[n] for n in sorted(wanted - set(told))] == []
    assert {lines[n]: told[n] for n in set(told) - wanted} == {}


def test_python_knows_signatures_too():
    shown = str(inspect.signature(R.nn.conv2d)).partition(" -> ")[0]
    assert shown == (
        "(data, weight, strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1, "
        "data_layout='NCHW', kernel_layout='OIHW', out_layout=None, out_dtype=None)"
    )
    assert inspect.signature(R.nn.conv2d) == inspect.signature(loomir.op.nn.conv2d)
    assert inspect.signature(R.add).return_annotation is Call
    assert [*inspect.signature(R.print).parameters] == ["values", "format"]


@pytest.mark.parametrize("name", [n for n in op_names() if re.fullmatch(r"relax\.\w+", n)])
def test_signatures_take_what_samples_give(name: str):
    found = find_op(name)
    assert found is not None
    for sample in found.samples:
        found.signature.bind(*sample.args, **sample.attrs)
