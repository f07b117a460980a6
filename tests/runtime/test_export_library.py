# ruff: noqa: N805, N806  (programs of TVMScript, whose names are its own)
"""Libraries for C: a program in C that links with one gets what Python gets."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.codegen.llvm.jit.symbols import symbols_of
from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T
from loomir.support.diagnostics import RunError
from loomir.target import Target
from loomir.te import topi

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_cc = pytest.mark.skipif(CC is None, reason="needs a C compiler on the PATH")

BIAS = np.linspace(-1, 1, 4, dtype="float32")
WEIGHTS = np.sin(np.arange(4 * 6000, dtype="float32")).reshape(4, 6000)


@I.ir_module
class Model:
    @T.prim_func
    def scale(x: T.handle, y: T.handle, by: T.float32, negate: T.bool) -> T.int64:
        n = T.int64()
        A = T.match_buffer(x, (n,), "float32")
        B = T.match_buffer(y, (n,), "float32")
        for i in T.parallel(n):
            B[i] = T.if_then_else(negate, -A[i], A[i]) * by
        return n

    @T.prim_func
    def divide(a: T.int32, b: T.int32) -> T.int32:
        return T.truncdiv(a, b)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), k: R.Prim("int64")):
        y = R.nn.softmax(R.nn.relu(R.add(x, R.const(BIAS))))
        total = R.sum(R.matmul(y, R.const(WEIGHTS)), axis=[1])
        return (y, total, R.shape_of(x), k)


MAIN = r"""
#include "model.h"
#include <stdio.h>
#include <stdlib.h>

static DLTensor tensor(void *data, int ndim, int64_t *shape) {
  DLTensor t = {data, {1, 0}, ndim, {2, 32, 1}, shape, NULL, 0};
  return t;
}

static void show(const char *name, const DLTensor *t) {
  int64_t count = 1;
  printf("%s", name);
  for (int i = 0; i < t->ndim; i++) { printf(" %lld", (long long)t->shape[i]); count *= t->shape[i]; }
  for (int64_t i = 0; i < count; i++) printf(" %.9g", ((float *)t->data)[i]);
  printf("\n");
}

int main(void) {
  float x[3 * 4], y[12];
  int64_t flat[1] = {12}, wide[2] = {3, 4}, bad[2] = {4, 3}, result;
  int32_t q;
  for (int i = 0; i < 12; i++) x[i] = 0.25f * (float)i - 1;
  DLTensor a = tensor(x, 1, flat), b = tensor(y, 1, flat);
  printf("status %d\n", loomir_scale(&a, &b, 3.0f, 1, &result));
  printf("result %lld\n", (long long)result);
  show("scaled", &b);
  printf("misfit %d\n", loomir_scale(&a, NULL, 3.0f, 1, &result));
  b.dtype.bits = 64;
  printf("misfit %d %s\n", loomir_scale(&a, &b, 3.0f, 1, &result), loomir_last_error());
  printf("divide %d", loomir_divide(7, 2, &q));
  printf(" %d\n", q);
  printf("fault %d %s\n", loomir_divide(7, 0, &q), loomir_last_error());

  DLTensor in = tensor(x, 2, wide);
  loomir_value *given = loomir_borrow(&in), *got = NULL;
  int64_t k = 41, back = 0;
  loomir_value *number = loomir_scalar(0, 64, &k);
  printf("main %d\n", loomir_main(given, number, &got));
  printf("kind %d of %lld\n", loomir_kind(got), (long long)loomir_count(got));
  for (int i = 0; i < 2; i++) {
    loomir_value *field = loomir_field(got, i);
    show(i ? "total" : "softmax", loomir_tensor(field));
    loomir_release(field);
  }
  loomir_value *shape = loomir_field(got, 2), *echo = loomir_field(got, 3);
  printf("shape %lld %lld\n", (long long)loomir_extents(shape)[0], (long long)loomir_extents(shape)[1]);
  printf("number %d", loomir_number(echo, 0, 64, &back));
  printf(" %lld\n", (long long)back);
  printf("number %d %s\n", loomir_number(echo, 2, 32, &back), loomir_last_error());
  loomir_release(shape); loomir_release(echo); loomir_release(got); loomir_release(given);

  DLTensor off = tensor(x, 2, bad);
  given = loomir_borrow(&off);
  printf("wrong %d %s\n", loomir_main(given, number, &got), loomir_last_error());
  printf("null %d %s\n", loomir_main(NULL, number, &got), loomir_last_error());
  loomir_release(number);
  float third = 3;
  number = loomir_scalar(2, 32, &third);
  in = tensor(x, 2, wide);
  loomir_release(given);
  given = loomir_borrow(&in);
  printf("dtype %d %s\n", loomir_main(given, number, &got), loomir_last_error());
  loomir_release(given);
  loomir_release(number);
  int64_t columns[2] = {1, 3};
  off.strides = columns;
  printf("strided %d %s\n", loomir_borrow(&off) == NULL, loomir_last_error());
  printf("outside %d\n", loomir_field(NULL, 0) == NULL);

  loomir_value *parts[2] = {loomir_string("two"), loomir_null()};
  loomir_value *pair = loomir_tuple(2, parts);
  loomir_release(parts[0]); loomir_release(parts[1]);
  parts[0] = loomir_field(pair, 0);
  printf("text %s %lld kind %d\n", loomir_text(parts[0]), (long long)loomir_count(parts[0]),
         loomir_kind(parts[0]));
  loomir_release(parts[0]); loomir_release(pair);
  return 0;
}
"""


def built(folder: Path, library: str, *flags: str) -> list[str]:
    """Compile the program in C with a library, run it, and give its lines."""
    (folder / "main.c").write_text(MAIN)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1"]
    command = [CC, *strict, "main.c", library, "-lpthread", "-o", "main", *flags]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    env = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
    done = subprocess.run(
        [str(folder / "main")], capture_output=True, text=True, check=True, timeout=120, env=env
    )
    return done.stdout.splitlines()


def numbers(line: str) -> np.ndarray:
    return np.array(line.split()[1:], "float32")


@needs_cc
@pytest.mark.parametrize("kind", ["o", "so"])
def test_a_program_in_c_gets_what_python_gets(tmp_path: Path, kind: str):
    exe = loomir.compile(Model)
    exe.export_library(tmp_path / f"model.{kind}")
    if kind == "o":
        lines = built(tmp_path, "model.o")
    else:
        lines = built(tmp_path, "./model.so", f"-Wl,-rpath,{tmp_path}")
    text = "\n".join(lines)
    x = (0.25 * np.arange(12) - 1).astype("float32")
    y = np.empty(12, "float32")
    exe["scale"](x, y, 3.0, True)
    assert lines[:2] == ["status 0", "result 12"]
    assert np.array_equal(numbers(lines[2])[1:], y)
    assert lines[3] == "misfit 2"
    assert lines[4] == (
        "misfit 2 the arguments do not fit scale(A: float32[n], only read, B: float32[n], "
        "by: float32, negate: bool)"
    )
    assert lines[5] == "divide 0 3"
    assert lines[6].startswith("fault 1 RUN0201: ")
    softmax, total, shape, k = exe["main"](x.reshape(3, 4), 41)
    said = {line.split(" ", 1)[0]: line for line in lines}
    assert said["main"] == "main 0"
    assert said["kind"] == f"kind 1 of {4}"
    assert np.array_equal(numbers(said["softmax"]), [3, 4, *softmax.reshape(-1)])
    assert np.array_equal(numbers(said["total"]), [3, *total])
    assert said["shape"] == f"shape {shape[0]} {shape[1]}"
    assert f"number 0 {k}" in lines
    assert "number 1 the value is of another kind" in lines
    assert said["wrong"].startswith(
        "wrong 1 RUN0404: argument x, axis 1: the extent must be 4, not 3"
    )
    assert f"{Path(__file__).name}:" in text  # where the program says so
    assert said["null"].startswith("null 2 the arguments do not fit main(x: ")
    assert said["dtype"].startswith("dtype 1 RUN0402: argument k must be int64, not float32")
    assert said["strided"].startswith("strided 1 the tensor cannot be borrowed: ")
    assert said["outside"] == "outside 1"
    assert said["text"] == "text two 3 kind 6"


LIBC = {
    "__tls_get_addr",
    "aligned_alloc",
    "clock_gettime",
    "close",
    "free",
    "getauxval",
    "getenv",
    "getpid",
    "getrlimit",
    "malloc",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "open",
    "pthread_atfork",
    "pthread_attr_destroy",
    "pthread_attr_getguardsize",
    "pthread_attr_getstack",
    "pthread_create",
    "pthread_getaffinity_np",
    "pthread_getattr_np",
    "pthread_getspecific",
    "pthread_key_create",
    "pthread_key_delete",
    "pthread_self",
    "pthread_setaffinity_np",
    "pthread_setspecific",
    "pthread_sigmask",
    "read",
    "sched_getaffinity",
    "sched_getcpu",
    "snprintf",
    "strlen",
    "strtol",
    "syscall",
}


def test_an_object_needs_the_c_library_and_threads_only(tmp_path: Path):
    loomir.compile(Model).export_library(tmp_path / "model.o")
    found = symbols_of((tmp_path / "model.o").read_bytes())
    assert set(found.undefined) <= LIBC
    # What it shows is what the header declares, and what several libraries share.
    header = (tmp_path / "model.h").read_text()
    shared = {"loomir_error_text", "loomir_parallel_for", "loomir_pool_after_fork"}
    shared |= {"loomir_take_scratch", "loomir_give_scratch"}
    assert {name for name in found.defined if f"{name}(" not in header} <= shared
    assert {"loomir_scale", "loomir_divide", "loomir_main"} <= set(found.defined)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm on the PATH")
def test_no_state_is_kept_but_the_pools_and_memory(tmp_path: Path):
    loomir.compile(Model).export_library(tmp_path / "model.o")
    listed = subprocess.run(
        ["nm", "model.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split()[-2:] for line in listed.splitlines()]
    writable = {name.partition(".")[0] for kind, name in rows if kind in "bBdDC"}
    writable -= {"$d"}  # where data begins, on AArch64
    pool = {"busy", "epoch", "join", "scratch", "settings", "sleepers", "slots", "tasks"}
    # A key for what each thread has found out of its stack, and where that of the first one begins.
    stacks = {"stack"}
    assert writable <= pool | stacks | {"kept", "usable", "given", "caller"}
    assert "epoch" in writable


THREADS = r"""
#include "model.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *work(void *number) {
  long id = (long)number, wrong = 0;
  for (int round = 0; round < 200; round++) {
    float x[12], y[12];
    int64_t flat[1] = {12}, wide[2] = {3, 4}, k = id, back = -1, result;
    int32_t q;
    for (int i = 0; i < 12; i++) x[i] = (float)(id + i);
    DLTensor a = {x, {1, 0}, 1, {2, 32, 1}, flat, NULL, 0}, b = a;
    b.data = y;
    wrong += loomir_scale(&a, &b, 2.0f, 0, &result) != 0 || y[11] != 2 * x[11];
    DLTensor in = {x, {1, 0}, 2, {2, 32, 1}, wide, NULL, 0};
    loomir_value *given = loomir_borrow(&in), *n = loomir_scalar(0, 64, &k), *got = NULL;
    wrong += loomir_main(given, n, &got) != 0;
    loomir_value *echo = loomir_field(got, 3);
    wrong += loomir_number(echo, 0, 64, &back) != 0 || back != id;
    /* Each thread has the words of its own last error. */
    if (id % 2) loomir_divide(1, 0, &q); else loomir_field(got, 99);
    wrong += (strstr(loomir_last_error(), "RUN0201") != NULL) != (id % 2);
    loomir_release(echo); loomir_release(got); loomir_release(n); loomir_release(given);
  }
  return (void *)wrong;
}

int main(void) {
  pthread_t threads[6];
  long wrong = 0;
  for (long i = 0; i < 6; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < 6; i++) { void *one; pthread_join(threads[i], &one); wrong += (long)one; }
  printf("%ld\n", wrong);
  return 0;
}
"""


@needs_cc
def test_several_threads_call_at_once(tmp_path: Path):
    loomir.compile(Model).export_library(tmp_path / "model.o")
    (tmp_path / "main.c").write_text(THREADS)
    command = [CC, "-Wall", "-O1", "main.c", "model.o", "-lpthread", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    done = subprocess.run(
        [tmp_path / "main"], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "0\n"


@needs_cc
def test_two_libraries_go_into_one_program(tmp_path: Path):
    @T.prim_func
    def one(x: T.Buffer((1000,), "float32")):
        for i in T.parallel(1000):
            x[i] = T.float32(1)

    @T.prim_func
    def two(x: T.Buffer((1000,), "float32")):
        for i in T.parallel(1000):
            x[i] = x[i] + T.float32(2)

    for name, program in (("one", one), ("two", two)):
        loomir.compile(program).export_library(tmp_path / f"{name}.o")
    (tmp_path / "main.c").write_text(
        '#include "one.h"\n#include "two.h"\n#include <stdio.h>\n#include <sys/wait.h>\n'
        "#include <unistd.h>\n"
        "int main(void) {\n"
        "  float x[1000]; int64_t n = 1000; int status;\n"
        "  DLTensor t = {x, {1, 0}, 1, {2, 32, 1}, &n, NULL, 0};\n"
        '  printf("%d ", loomir_one(&t)); printf("%d ", loomir_two(&t));\n'
        '  printf("%g %g\\n", x[0], x[999]); fflush(stdout);\n'
        # A forked child has no threads, and makes its own.
        "  if (!fork()) return loomir_two(&t) || x[500] != 5;\n"
        '  wait(&status); printf("%d\\n", status); return 0; }\n'
    )
    command = [CC, "-Wall", "main.c", "one.o", "two.o", "-lpthread", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    done = subprocess.run(
        [tmp_path / "main"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0 0 3 3\n0\n"


@needs_cc
def test_a_c_function_of_the_program_is_linked(tmp_path: Path):
    @T.prim_func
    def asks(x: T.Buffer((4,), "int32")):
        for i in range(4):
            x[i] = T.call_extern("int32", "abs", i - 2)

    loomir.compile(asks).export_library(tmp_path / "asks.o")
    assert "The program must define, or link with: abs." in (tmp_path / "asks.h").read_text()
    (tmp_path / "main.c").write_text(
        '#include "asks.h"\n#include <stdio.h>\n'
        "int main(void) { int32_t x[4]; int64_t n = 4;\n"
        "  DLTensor t = {x, {1, 0}, 1, {0, 32, 1}, &n, NULL, 0};\n"
        '  printf("%d: ", loomir_asks(&t)); printf("%d %d %d %d\\n", x[0], x[1], x[2], x[3]); }\n'
    )
    subprocess.run(
        [CC, "main.c", "asks.o", "-lpthread", "-o", "main"], cwd=tmp_path, check=True, timeout=120
    )
    done = subprocess.run(
        [tmp_path / "main"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0: 2 1 0 1\n"


@needs_cc
def test_names_become_identifiers(tmp_path: Path):
    lines = (
        "@I.ir_module\nclass M:\n"
        "    @T.prim_func\n    def tensor(int_: T.Buffer((2,), 'float32'), größe: T.int32):\n"
        "        T.func_attr({'global_symbol': 'tensor'})\n"
        "        int_[0] = T.Cast('float32', größe)\n"
    )
    loomir.compile(loomir.script.from_source(lines)).export_library(tmp_path / "a b-c*.o")
    header = (tmp_path / "a b-c*.h").read_text()
    assert header.isascii()
    assert "#ifndef LOOMIR_A_B_C__H" in header
    assert "int32_t loomir_tensor_2(const DLTensor *int_, int32_t gr__e);" in header
    (tmp_path / "main.c").write_text('#include "a b-c*.h"\nint main(void) { return 0; }\n')
    command = [CC, "-std=c99", "-pedantic", "-Wall", "-Werror", "-c", "main.c", "-o", "main.o"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)


# -- what is refused ---------------------------------------------------------------------------
def refused(exe: Any, path: Path) -> str:
    with pytest.raises(RunError) as caught:
        exe.export_library(path)
    assert caught.value.diagnostic.help
    assert not path.exists()
    return f"{caught.value.diagnostic.code} {caught.value.diagnostic.message}"


@T.prim_func
def nothing(x: T.Buffer((4,), "int32")):
    x[0] = 1


def test_a_program_that_calls_python_is_refused(tmp_path: Path):
    @T.prim_func
    def asks(x: T.Buffer((4,), "int32")):
        x[0] = T.call_packed("my.answer", 1, dtype="int32")

    found = refused(loomir.compile(asks), tmp_path / "x.o")
    assert found.startswith("RUN0471")
    assert "'my.answer'" in found

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        y = R.call_packed("my.graph", x, sinfo_args=R.Tensor((4,), "float32"))
        _ = R.print(y)
        return y

    @R.function
    def calls(
        f: R.Callable((R.Tensor((4,), "float32"),), R.Tensor((4,), "float32")),
        x: R.Tensor((4,), "float32"),
    ):
        return f(x)

    assert "'R.Callable'" in refused(loomir.compile(calls), tmp_path / "x.o")
    found = refused(loomir.compile(main), tmp_path / "x.o")
    assert "'my.graph'" in found
    assert "'R.print'" in found


def test_without_a_linker_there_is_the_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    exe = loomir.compile(nothing)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refused(exe, tmp_path / "x.so").startswith("RUN0472")
    exe.export_library(tmp_path / "x.o")
    assert (tmp_path / "x.h").exists()


@pytest.mark.skipif(os.name == "nt", reason="needs /bin/sh")
def test_a_linker_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = tmp_path / "mycc"
    script.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    with pytest.raises(RunError, match="no such thing") as caught:
        loomir.compile(nothing).export_library(tmp_path / "x.so")
    assert caught.value.diagnostic.code == "RUN0473"
    assert list(tmp_path.iterdir()) == [script]


def test_other_endings_and_places_are_refused(tmp_path: Path):
    exe = loomir.compile(nothing)
    assert refused(exe, tmp_path / "x.dll").startswith("RUN0470")
    assert refused(exe, tmp_path / "no" / "x.o").startswith("RUN0467")
    exe.save(tmp_path / "x.loom")
    loaded = loomir.load(tmp_path / "x.loom", trusted=True)
    assert refused(loaded, tmp_path / "x.o").startswith("RUN0474")


def test_another_machine_gets_its_object(tmp_path: Path):
    loomir.compile(nothing, target="neoverse-n1").export_library(tmp_path / "x.o")
    assert symbols_of((tmp_path / "x.o").read_bytes()).machine == 183


TILES = r"""
#define _GNU_SOURCE
#include "tiles.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

static signed char x[128 * 128], y[128 * 128];
static int z[128 * 128];

#ifdef REFUSE
/* In the place of the C library's: Linux that refuses the unit. */
long syscall(long number, ...) { return number == 158 ? REFUSE : 0; }
#endif

int main(int argc, char **argv) {
  int64_t shape[2] = {128, 128};
  DLTensor a = {x, {1, 0}, 2, {0, 8, 1}, shape, NULL, 0}, b = a, c = a;
  memset(x, 3, sizeof x); memset(y, -5, sizeof y);
  b.data = y; c.data = z; c.dtype.bits = 32;
  static char small[2048];
  stack_t stack = {small, 0, sizeof small}, none = {NULL, SS_DISABLE, 0};
  if (argc > 1) sigaltstack(&stack, NULL);
  for (int i = 1; i < argc; i++) {
    printf("status %d", loomir_main(&a, &b, &c));
    printf(" %d %.44s\n", z[0], loomir_last_error());
  }
  sigaltstack(&none, NULL);
  printf("status %d\n", loomir_main(&a, &b, &c));
  printf("%d %d\n", z[0], z[128 * 128 - 1]);
  return argv == NULL;
}
"""
REFUSED = "the program multiplies matrices by a unit of"
"""The first 44 letters of what a library says where it may not use the unit."""


def product() -> object:
    """Make a product of matrices that the unit is taken for."""
    a, b = te.placeholder((128, 128), "int8"), te.placeholder((128, 128), "int8")
    return te.create_prim_func([a, b, topi.matmul(a, b, out_dtype="int32")])


def run_tiles(folder: Path, target: str, calls: int, *flags: str) -> list[str]:
    """Compile the program in C with a library for a target, run it, and give its lines."""
    loomir.compile(product(), target=target).export_library(folder / "tiles.o")
    (folder / "main.c").write_text(TILES)
    command = [CC, *flags, "main.c", "tiles.o", "-o", "main", "-lm", "-pthread"]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    command = ["./main", *["again"] * calls]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0
    return done.stdout.splitlines()


def test_a_program_in_c_asks_for_the_unit_for_matrices(tmp_path: Path):
    for target, asks in (("sapphirerapids", True), ("icelake-server", False)):
        loomir.compile(product(), target=target).export_library(tmp_path / "x.o")
        assert (b"(AMX)" in (tmp_path / "x.o").read_bytes()) == asks
    if CC is not None:
        assert run_tiles(tmp_path, "native", 0) == ["status 0", "-1920 -1920"]


@needs_cc
@pytest.mark.skipif(platform.machine() != "x86_64", reason="links code for x86-64")
def test_a_unit_for_matrices_that_is_refused_is_an_error(tmp_path: Path):
    """Nothing of the product is run: this holds on machines without the unit, too."""
    lines = run_tiles(tmp_path, "sapphirerapids", 2, "-DREFUSE=-1")
    assert lines == [*[f"status 3 0 {REFUSED}"] * 2, "status 3", "0 0"]


@needs_cc
@pytest.mark.skipif(not Target().has("amx_int8"), reason="needs AMX")
def test_a_unit_for_matrices_is_asked_for_again(tmp_path: Path):
    # Linux gives no room for tiles while a thread's stack for signals has none.
    lines = run_tiles(tmp_path, "native", 2)
    assert lines == [*[f"status 3 0 {REFUSED}"] * 2, "status 0", "-1920 -1920"]


def test_another_system_gets_its_assembly(tmp_path: Path):
    exe = loomir.compile(nothing, target="apple-m1", cache=False)
    assert ".build_version macos" in exe.assembly()
    assert refused(exe, tmp_path / "x.o").startswith("RUN0475")
    with pytest.raises(RunError) as caught:
        exe(np.zeros(4, "int32"))
    assert caught.value.diagnostic.code == "RUN0464"
