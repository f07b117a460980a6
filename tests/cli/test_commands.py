"""The commands as a user types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import loomir
from loomir.cli import app
from loomir.cli.lazy_group import COMMANDS
from loomir.profiling import roof
from loomir.runtime.report.profile import Roof
from loomir.support.config import SETTINGS

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))

MISTAKES = """\
from loomir.script import tir as T

N = 8

@T.prim_func
def f(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32")):
    for i in T.seriel(N):
        B[i] = A[i]
    for i in range(N):
        B[i] = C[i]
"""


def invoke(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "loomir", "check", str(EXAMPLES / "matmul.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "no mistakes" in done.stdout


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_example_agrees_with_its_judges(path: Path):
    status, output = invoke("run", str(path))
    assert status == 0, output
    assert "agrees with NumPy" in output
    assert "agrees with the interpreter" in output


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_example_is_read_without_being_run(path: Path):
    status, output = invoke("check", str(path))
    assert status == 0, output
    assert "no mistakes" in output


def test_run_takes_constants_sizes_and_a_seed():
    status, output = invoke(
        "run", f"{EXAMPLES / 'matmul.py'}:matmul", "--size", "N=16", "--seed", "3"
    )
    assert (status, "agrees with NumPy" in output) == (0, True), output
    status, output = invoke("run", str(EXAMPLES / "vector_add.py"), "--size", "n=0")
    assert (status, "agrees with NumPy" in output) == (0, True), output


def test_run_can_use_only_the_interpreter():
    status, output = invoke("run", str(EXAMPLES / "matmul.py"), "--size", "N=8", "--interpret")
    assert status == 0
    assert "agrees with NumPy" in output
    assert "interpreter" not in output


@pytest.mark.parametrize(
    ("form", "sign"), [("script", "@T.prim_func"), ("llvm", "define"), ("asm", "ret")]
)
def test_run_shows_each_form(form: str, sign: str):
    status, output = invoke("run", str(EXAMPLES / "dot_int8.py"), "--show", form)
    assert status == 0
    assert sign in output


def test_run_speaks_json():
    status, output = invoke("run", str(EXAMPLES / "first_module.py"), "--json")
    facts = json.loads(output)
    assert (status, facts["ok"]) == (0, True)
    assert facts["MyModule"]["numpy"] == "agrees"


def test_run_measures_beside_numpy():
    status, output = invoke(
        "run", str(EXAMPLES / "matmul_scheduled.py"), "--size", "N=512", "--time"
    )
    assert status == 0
    assert "GFLOP/s" in output
    assert "times NumPy's speed" in output


@pytest.mark.parametrize(
    ("words", "code", "remedy"),
    [
        (("run", "nowhere.py"), "CLI0001", "path of a Python file"),
        (("run", f"{EXAMPLES / 'matmul.py'}:matmull"), "CLI0002", "did you mean 'matmul'?"),
        (("run", str(EXAMPLES / "vector_add.py"), "--size", "n=-5"), "CLI0003", "other sizes"),
        (
            ("run", str(EXAMPLES / "matmul.py"), "--size", "N=512", "--interpret"),
            "CLI0004",
            "smaller sizes",
        ),
        (("run", str(EXAMPLES / "matmul.py"), "--size", "N"), "CLI0005", "--size N=1024"),
        (("run", str(EXAMPLES / "matmul.py"), "--size", "M=4"), "CLI0006", "top-level constant"),
        (("run", str(EXAMPLES / "matmul.py"), "--show", "ptx"), "CLI0007", "--show llvm"),
    ],
)
def test_a_mistake_on_the_command_line_is_explained(words: tuple[str, ...], code: str, remedy: str):
    status, output = invoke(*words)
    assert status == 1
    assert f"error[{code}]" in output
    assert remedy in output


def test_check_lists_all_mistakes_of_a_file(tmp_path: Path):
    path = tmp_path / "mistakes.py"
    path.write_text(MISTAKES, encoding="utf-8")
    status, output = invoke("check", str(path))
    assert status == 1
    assert "mistakes.py:7:16" in output
    assert "mistakes.py:10:16" in output
    assert "2 mistakes" in output
    status, output = invoke("check", str(path), "--json")
    found = json.loads(output)["diagnostics"]
    assert [(d["line"], d["column"]) for d in found] == [(7, 16), (10, 16)]


def test_fmt_prints_what_parses_back(tmp_path: Path):
    status, text = invoke("fmt", "--canonical", str(EXAMPLES / "softmax.py"))
    assert status == 0
    again = tmp_path / "again.py"
    again.write_text(text, encoding="utf-8")
    assert invoke("fmt", "--canonical", str(again)) == (0, text)


def test_doctor_tells_versions_machine_and_cache():
    status, output = invoke("doctor")
    assert status == 0
    for word in ("loomir", "llvm", "cpu", "vectors", "cores", "caches", "cache"):
        assert word in output
    facts = json.loads(invoke("doctor", "--json")[1])
    assert facts["loomir"]
    assert facts["processor"]
    assert facts["compiles"].startswith("yes, in ")
    assert re.fullmatch(r"\d+ threads?, [\d.]+ times as fast as one", facts["threads"])
    assert facts["cached"] == "written and read"
    assert facts["amx"].endswith("products of int8 and bfloat16 are right")


@pytest.mark.parametrize(
    ("cache_dir", "said", "status"),
    [(None, "off, since LOOMIR_CACHE_DIR is empty", 0), ("file", "cannot be written", 1)],
)
@pytest.mark.filterwarnings("ignore::loomir.runtime.errors.CacheWarning")
def test_doctor_tests_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_dir: str | None, said: str, status: int
):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(SETTINGS, "cache_dir", None if cache_dir is None else tmp_path / cache_dir)
    found, output = invoke("doctor", "--json")
    assert said in json.loads(output)["cached"]
    assert found == status


def test_doctor_measures_the_machine_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SETTINGS, "cache_dir", tmp_path)
    monkeypatch.setattr(roof, "_known", {})
    made = iter([Roof(1e9, 2e9), Roof(3e9, 4e9)])
    monkeypatch.setattr(roof, "measure_roof", lambda compile: next(made))
    assert roof.find_roof(loomir.compile) == Roof(1e9, 2e9)
    assert json.loads(invoke("doctor", "--measure", "--json")[1])["roof"] == "4.0 GFLOP/s, 3.0 GB/s"
    assert roof.find_roof(loomir.compile) == Roof(3e9, 4e9)


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (lambda *arrays: arrays[-1].fill(1), "yes, and the results are wrong"),
        (lambda *arrays: loomir.load("/nowhere/at/all.loom"), "no: error["),
    ],
)
def test_doctor_leaves_with_1_where_compiled_code_fails(
    monkeypatch: pytest.MonkeyPatch, kernel: object, said: str
):
    monkeypatch.setattr(loomir, "compile", lambda *args, **options: kernel)
    status, output = invoke("doctor")
    assert status == 1
    assert said in output


def test_help_names_every_command():
    status, output = invoke("--help")
    assert status == 0
    for command in ("run", "check", "fmt", "doctor"):
        assert command in output


def test_run_checks_where_the_program_runs(tmp_path: Path):
    path = tmp_path / "races.py"
    path.write_text(
        "from loomir.script import tir as T\n\n\n"
        "@T.prim_func\n"
        'def total(x: T.Buffer((8,), "int32"), y: T.Buffer((1,), "int32")):\n'
        "    for i in T.parallel(8):\n"
        "        y[0] = y[0] + x[i]\n",
        encoding="utf-8",
    )
    status, output = invoke("run", str(path), "--checked")
    assert status == 1
    assert "RUN0210" in output
    assert "races.py:7" in output
    for option in ("--check-bounds", "--checked"):
        assert invoke("run", str(EXAMPLES / "vector_add.py"), option)[0] == 0


def test_run_names_the_option_that_explains_a_difference(tmp_path: Path):
    path = tmp_path / "unwritten.py"
    path.write_text(
        "from loomir.script import tir as T\n\n\n"
        "@T.prim_func\n"
        'def keep(x: T.Buffer((8,), "int32")):\n'
        '    t = T.alloc_buffer((8,), "int32")\n'
        "    for i in range(8):\n"
        "        x[i] = t[i]\n",
        encoding="utf-8",
    )
    status, output = invoke("run", str(path))
    assert status == 1
    assert "DIFFERS from the interpreter" in output
    assert "--checked tells of reads before a write" in output
    assert "--checked tells" not in invoke("run", str(path), "--checked")[1]


RAISES = """\
from loomir.script import tir as T

def broken(*given, **named):
    return {}[1]

@T.prim_func
def f(x: T.Buffer((4,), "float32")):
    x[0] = T.float32(1)

"""


@pytest.mark.parametrize(
    ("more", "words", "code", "line"),
    [
        ("if True:\npass\n", (), "SCR0001", 11),
        ("import json\njson.loads('{')\n", (), "CLI0011", 11),
        ("from nowhere import it\n", (), "CLI0011", 10),
        ("inputs = broken\n", (), "CLI0011", 4),
        ("reference = broken\n", (), "CLI0011", 4),
        ("baseline = broken\n", ("--time",), "CLI0011", 4),
        ("flops = broken\n", ("--time",), "CLI0011", 4),
        ("reference = lambda: 1\n", (), "CLI0011", None),
    ],
)
def test_what_a_file_raises_is_told_at_its_line(
    tmp_path: Path, more: str, words: tuple[str, ...], code: str, line: int | None
):
    path = tmp_path / "raises.py"
    path.write_text(RAISES + more)
    status, output = invoke("run", str(path), *words)
    assert status == 1
    assert f"error[{code}]" in output
    assert f"--> {path}:{line}:" in output or line is None
    assert ("json/decoder.py" in output) == ("json" in more)
    assert "Traceback" not in output
    if code == "CLI0011":
        called = "broken in Python" if line == 4 else "in Python" if line is None else "python "
        assert called in output.split("= help: ")[1]


HISTOGRAM = """\
from loomir.script import ir as I, relax as R, tir as T

@T.prim_func
def histogram(x: T.Buffer((1000,), "int32"), h: T.Buffer((256,), "int32")):
    for k in range(256):
        h[k] = 0
    for i in range(1000):
        h[x[i] * 1000000] += 1

@I.ir_module
class Graph:
    @T.prim_func
    def count(x: T.Buffer((1000,), "int32"), h: T.Buffer((256,), "int32")):
        for k in range(256):
            h[k] = 0
        for i in range(1000):
            h[x[i] * 1000000] += 1

    @R.function
    def main(x: R.Tensor((1000,), "int32")):
        h = R.call_tir(Graph.count, (x,), R.Tensor((256,), "int32"))
        return h
"""


@pytest.mark.parametrize("words", [("run",), ("run", "--time"), ("run", "--profile")])
@pytest.mark.parametrize("name", ["histogram", "Graph"])
def test_inputs_that_are_made_up_write_over_nothing(
    tmp_path: Path, words: tuple[str, ...], name: str
):
    path = tmp_path / "counts.py"
    path.write_text(HISTOGRAM)
    status, output = invoke(words[0], f"{path}:{name}", *words[1:])
    assert status == 1
    assert "RUN0203" in output


@pytest.mark.parametrize("name", ["histogram", "Graph"])
def test_indices_that_explain_makes_up_are_those_that_fit(tmp_path: Path, name: str):
    path = tmp_path / "counts.py"
    path.write_text(HISTOGRAM)  # of which only 0 is an index of the histogram
    status, output = invoke("explain", f"{path}:{name}")
    assert status == 0, output
    assert "count" in output or "histogram" in output


def test_loops_that_end_by_data_count_for_the_interpreter(tmp_path: Path):
    path = tmp_path / "long.py"
    path.write_text(
        """\
from loomir.script import tir as T

@T.prim_func
def f(x: T.Buffer((1000, 1000), "int32")):
    for i, j in T.grid(1000, 1000):
        x[i, j] = 0
        while x[i, j] < 10:
            x[i, j] = x[i, j] + 1
"""
    )
    status, output = invoke("run", str(path))
    assert status == 1
    assert "CLI0004" in output


def test_help_is_there_before_any_command_is_imported():
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from loomir.cli import app\n"
        "print(CliRunner().invoke(app, ['--help']).output)\n"
        "print(CliRunner().invoke(app, ['--version']).output)\n"
        "print(CliRunner().invoke(app, ['chek']).output)\n"
        "assert 'loomir.driver' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout
    assert f"loomir {loomir.__version__}\n" in done.stdout
    assert "Did you mean 'check'?" in done.stdout
    assert "Exit status:" in done.stdout
    assert "--install-completion" in done.stdout


def test_every_module_of_a_command_is_a_command():
    for name in COMMANDS:
        code, text = invoke(name, "--help")
        assert code == 0
        assert f"loomir {name} " in text.replace("root", "loomir")
