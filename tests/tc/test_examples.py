"""The examples run, and agree with NumPy and with the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from loomir.check.tir.verify import verify
from loomir.cli import app
from loomir.ir import assert_structural_equal
from loomir.script import from_source
from loomir.tc import define
from loomir.tc.fmt import fmt
from loomir.tc.parse import parse

FILES = sorted((Path(__file__).parents[2] / "examples" / "tc").glob("*.tc"))
NAMES = (
    *("matmul", "matvec", "batched", "transposed", "conv2d", "strided", "grouped", "padded"),
    *("max_pool", "mean_pool", "linear", "relu", "softmax", "mlp", "moments", "layer_norm"),
    *("batch_norm", "gather", "embedding", "kronecker", "heat"),
)


def test_all_examples_are_here():
    names = [n for path in FILES for n in define(path.read_text(encoding="utf-8")).names]
    assert sorted(names) == sorted(NAMES)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_example_agrees(path: Path):
    done = CliRunner().invoke(app, ["run", str(path)])
    assert done.exit_code == 0, done.output
    count = len(define(path.read_text(encoding="utf-8")).names)
    assert done.output.count("agrees with NumPy") == count
    assert done.output.count("agrees with the interpreter") == count
    assert "warning" not in done.output


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_example_with_checks_and_other_sizes(path: Path):
    sizes = {"N": 5, "M": 6, "K": 4, "B": 2, "A": 3, "H": 8, "W": 7, "C": 3, "D": 9}
    text = path.read_text(encoding="utf-8")
    known = {s.name for f in parse(text).functions for p in f.params for s in p.sizes or ()}
    if "KH" in known:
        sizes |= {"KH": 3, "KW": 2}
    args = [part for n, v in sizes.items() if n in known for part in ("--size", f"{n}={v}")]
    done = CliRunner().invoke(app, ["run", str(path), "--checked", *args])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_example_is_in_canonical_form_but_for_line_breaks(path: Path):
    text = path.read_text(encoding="utf-8")
    assert " ".join(fmt(parse(text)).split()) == " ".join(text.split())
    assert fmt(parse(fmt(parse(text)))) == fmt(parse(text))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_example_is_well_formed_tir_that_prints_and_parses(path: Path):
    module = define(path.read_text(encoding="utf-8")).to_tir()
    assert verify(module) == ()
    assert_structural_equal(from_source(module.script()), module)


def test_check_and_fmt_take_these_files(tmp_path: Path):
    path = tmp_path / "sum.tc"
    path.write_text("def f(float(N)A)->(B){B()+=!A(i)}", encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(path)])
    assert done.output.endswith("sum.tc: 1 program, no mistakes\n")
    done = CliRunner().invoke(app, ["fmt", str(path)])
    assert done.output == "def f(float(N) A) -> (B) {\n  B() +=! A(i)\n}\n"
    path.write_text("def f(float(N) A) -> (B) { B(i) = C(i) }", encoding="utf-8")
    for command in ("check", "run"):
        done = CliRunner().invoke(app, [command, str(path)])
        assert done.exit_code == 1
        assert "TC0101" in done.output
