"""What a script prints of an error that it does not catch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HEAD = """
import threading
import numpy as np
import loomir
from loomir.script import tir as T

@T.prim_func
def scale(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for i in range(8):
        y[i] = x[i] * 2.0

def work(f):
    return f(np.ones(7, "float32"), np.ones(8, "float32"))

exe = loomir.compile(scale)
"""
WRONG = """
import loomir
from loomir.script import tir as T

@T.prim_func
def scale(x: T.Buffer((8,), "float32")):
    x[0] = z
"""


def run(folder: Path, text: str, **variables: str) -> tuple[int, str]:
    file = folder / "script.py"
    file.write_text(text, encoding="utf-8")
    env = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, str(file)], env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr.replace(str(file), "script.py")


def test_a_script_ends_with_the_diagnostic_and_the_calls_that_led_there(tmp_path: Path):
    status, shown = run(tmp_path, HEAD + "work(exe)\n")
    assert status == 1
    assert shown.startswith("error[RUN0005]: the extent of axis 0 of x must be 8, not 7\n")
    assert "script.py:13:12" in shown
    assert "in this call" in shown
    assert shown.endswith("called from:\n  script.py:16, in module\n")
    assert "loomir/" not in shown


def test_a_mistake_in_a_program_is_shown_once_without_frames(tmp_path: Path):
    status, shown = run(tmp_path, WRONG)
    assert status == 1
    assert shown.startswith("error[SCR0003]: 'z' is not defined\n")
    assert shown.count("script.py") == 1
    assert "Traceback" not in shown


def test_an_error_without_a_place_has_that_of_the_call(tmp_path: Path):
    _, shown = run(tmp_path, HEAD + 'exe["scal"]\n')
    assert shown.startswith("error[RUN0121]")
    assert '16 | exe["scal"]' in shown


def test_a_thread_says_which_it_is(tmp_path: Path):
    text = (
        HEAD + "t = threading.Thread(target=work, args=(exe,), name='mine')\nt.start()\nt.join()\n"
    )
    _, shown = run(tmp_path, text)
    assert shown.startswith("in thread mine:\nerror[RUN0005]")
    assert "threading.py" not in shown


def test_frames_are_there_for_those_who_ask(tmp_path: Path):
    _, shown = run(tmp_path, WRONG, LOOMIR_TRACEBACK="full")
    assert shown.startswith("Traceback")
    assert "entry.py" in shown
    assert "error[SCR0003]" in shown


def test_other_errors_and_other_hooks_are_not_touched(tmp_path: Path):
    _, shown = run(tmp_path, "import loomir\nraise ValueError('mine')\n")
    assert shown.startswith("Traceback")
    hook = "import sys\nsys.excepthook = lambda *a: print('theirs', file=sys.stderr)\n"
    _, shown = run(tmp_path, hook + WRONG)
    assert shown == "theirs\n"


def test_what_the_users_own_code_raised_before_is_shown(tmp_path: Path):
    text = HEAD + "try:\n    {}['key']\nexcept KeyError:\n    work(exe)\n"
    _, shown = run(tmp_path, text)
    assert shown.startswith("Traceback")
    assert "KeyError: 'key'\n\nwhich led to:\n\nerror[RUN0005]" in shown
    assert "loomir/" not in shown


def test_text_that_the_output_cannot_hold_is_escaped(tmp_path: Path):
    _, shown = run(tmp_path, WRONG.replace("z", "größe"), PYTHONIOENCODING="ascii")
    assert "'gr\\xf6\\xdfe' is not defined" in shown


def test_deep_calls_are_cut(tmp_path: Path):
    text = HEAD + "def deep(n):\n    return work(exe) if n == 0 else deep(n - 1)\n\ndeep(100)\n"
    _, shown = run(tmp_path, text)
    assert "… 94 more calls" in shown
    assert len(shown.splitlines()) < 30


OWN = """
import numpy as np
import loomir
from loomir import te
from loomir.script import relax as R

def helper(i):
    return 1 / 0

def formula(i):
    return helper(i)

@loomir.register_func("mine.first")
def first(x):
    return [][3]

@R.function
def graph(x: R.Tensor((2,), "float32")):
    return R.call_pure_packed("mine.first", x, sinfo_args=R.Tensor((2,), "float32"))
"""


def test_an_error_of_the_users_own_formula_has_his_frames_only(tmp_path: Path):
    _, shown = run(tmp_path, OWN + "te.compute((8,), formula)\n")
    assert "loomir/" not in shown
    assert [line.strip() for line in shown.splitlines() if "in " in line] == [
        'File "script.py", line 20, in <module>',
        'File "script.py", line 11, in formula',
        'File "script.py", line 8, in helper',
    ]
    assert shown.endswith("ZeroDivisionError: division by zero\n")
    _, full = run(tmp_path, OWN + "te.compute((8,), formula)\n", LOOMIR_TRACEBACK="full")
    assert "loomir/te/" in full


def test_an_error_of_a_packed_function_says_where_it_was_raised(tmp_path: Path):
    _, shown = run(tmp_path, OWN + 'loomir.compile(graph)(np.ones(2, "float32"))\n')
    assert "loomir/" not in shown
    assert "return [][3]" in shown
    assert shown.endswith("IndexError: list index out of range\n")


def test_threads_show_the_users_frames_only(tmp_path: Path):
    text = (
        OWN + "import threading\nt = threading.Thread(target=lambda: te.compute((8,), formula))\n"
    )
    _, shown = run(tmp_path, text + "t.start()\nt.join()\n")
    assert "in helper" in shown
    assert "loomir/" not in shown


def test_an_error_that_loomir_raised_keeps_all_frames(tmp_path: Path):
    text = HEAD + "from loomir.ir.passes import verify_facts\nverify_facts(None, {'x'}, '')\n"
    _, shown = run(tmp_path, text)
    assert "loomir/ir/passes.py" in shown


def test_a_bug_is_told_in_a_few_lines_and_its_traceback_kept(tmp_path: Path):
    text = HEAD + (
        "from loomir.support.diagnostics import InternalError\n"
        "def broken():\n    raise InternalError('two and two are five')\nbroken()\n"
    )
    status, shown = run(tmp_path, text, TMPDIR=str(tmp_path))
    assert status == 1
    first, second, place, where = shown.splitlines()
    assert first == "internal error: two and two are five"
    assert second == "This is a bug in Loomir, not in your program: please report it."
    assert place == " --> script.py:18, in broken"
    (file,) = tmp_path.glob("loomir-error-*.txt")
    assert where == f"The traceback is in {file}, which belongs in the report."
    kept = file.read_text(encoding="utf-8")
    assert kept.startswith("Loomir 0.1.0, Python ")
    assert "in broken" in kept
    _, full = run(tmp_path, text, LOOMIR_TRACEBACK="full")
    assert full.startswith("Traceback (most recent call last):")
