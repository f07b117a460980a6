"""Products of short numbers by the unit for matrices: chosen, exact, and the same bits without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.interp import interpret
from loomir.script import tir as T
from loomir.target import Target
from loomir.target.host import features_here
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.rules.matmul.test_blocked_product import (
    SIGNS,
    arrays_for,
    bytes_of,
    scheduled,
    short,
)
from tests.autoschedule.test_prepack_constants import numbers, prepared, product, run

CPU = "sapphirerapids"
"""A CPU that has the unit: its schedules run everywhere, the unit only where there is one."""

MACHINES = ["haswell", *["native"] * Target().has("amx_int8")]


def results_of(func: PrimFunc, inputs: list[np.ndarray], out: np.ndarray) -> list[np.ndarray]:
    """Run the schedule by plain vectors, and by the unit where this machine has one."""
    made = scheduled(func, CPU)
    assert "T.dot_tiles" in made.script()
    results = [np.full_like(out, 7) for _ in MACHINES]
    for machine, result in zip(MACHINES, results):
        loomir.compile(made, machine, opt_level=1)(*inputs, result)
    return results


@pytest.mark.parametrize(
    ("dtypes", "m", "n", "k", "left", "right"),
    [
        (SIGNS[0], 16, 16, 529, "mk", "kn"),
        (SIGNS[0], 33, 37, 4421, "mk", "kn"),  # several panels, the last one not whole
        (SIGNS[1], 19, 70, 130, "km", "kn"),
        (SIGNS[1], 33, 34, 132, "mk", "kn"),  # whole words, but no whole step
        (SIGNS[2], 24, 40, 140, "mk", "nk"),
        (SIGNS[2], 64, 17, 131, "mk", "nk"),
        (SIGNS[3], 65, 64, 193, "km", "nk"),
        (SIGNS[3], 300, 290, 128, "mk", "kn"),  # several blocks
    ],
)
def test_bytes_are_summed_exactly(
    dtypes: tuple[str, str], m: int, n: int, k: int, left: str, right: str
) -> None:
    func = short(m, n, k, dtypes, right, left)
    a, b = bytes_of(func)
    wide = (a if left == "mk" else a.T).astype("int64"), (b if right == "kn" else b.T)
    wanted = (wide[0] @ wide[1].astype("int64")).astype("int32")
    for result in results_of(func, [a, b], wanted):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    ("m", "n", "k", "left", "right"),
    [(16, 16, 17, "mk", "kn"), (33, 47, 2501, "mk", "nk"), (40, 64, 66, "km", "kn")],
)
def test_pairs_of_bfloat16(m: int, n: int, k: int, left: str, right: str) -> None:
    func = short(m, n, k, ("bfloat16", "bfloat16"), right, left)
    a, b, out = arrays_for(func, {})
    x, y = (v.astype("float64") for v in (a, b))
    x, y = x if left == "mk" else x.T, y if right == "kn" else y.T
    results = results_of(func, [a, b], out)
    # Each of k roundings is at most half a unit in the last place of the sum so far.
    bound = k * 2.0**-24 * (abs(x) @ abs(y)) + k * 2.0**-126
    for result in results:
        np.testing.assert_array_equal(result.view("int32"), results[0].view("int32"))
        assert (abs(result - x @ y) <= bound).all()


def test_the_interpreter_agrees() -> None:
    for dtype in ("int8", "bfloat16"):
        func = short(33, 34, 129, (dtype, dtype))
        a, b, out = arrays_for(func, {})
        again = np.zeros_like(out)
        interpret(scheduled(func, CPU), a, b, again)
        for result in results_of(func, [a, b], out):
            np.testing.assert_array_equal(result.view("int32"), again.view("int32"))


def test_what_is_no_number_stays_in_its_row_and_column() -> None:
    func = short(33, 34, 35, ("bfloat16", "bfloat16"))
    a, b, out = arrays_for(func, {})
    a[3, 34], b[0, 5], b[7, 8] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        wanted = a.astype("float32") @ b.astype("float32")
    for result in results_of(func, [a, b], out):
        assert np.isnan(result[3]).all()
        np.testing.assert_allclose(result, wanted, atol=1e-5)


def test_sizes_known_at_run_time_batches_and_what_follows() -> None:
    m, k = te.var("m", "int64"), te.var("k", "int64")
    a = te.placeholder((2, m, k), "int8", name="a")
    b = te.placeholder((2, k, 40), "int8", name="b")
    scale = te.placeholder((40,), name="scale")
    sums = topi.matmul(a, b, out_dtype="int32")
    scaled = te.compute((2, m, 40), lambda p, i, j: sums[p, i, j].astype("float32") * scale[j])
    func = te.create_prim_func([a, b, scale, topi.relu(scaled)])
    made = schedule_function(func, Target(CPU)).func
    assert made.script().count("T.dot_tiles") == 2  # a panel that starts from 0, and later ones
    rng = np.random.default_rng(3)
    runs = [loomir.compile(made, machine, opt_level=1) for machine in MACHINES]
    for rows, depth in ((0, 5), (1, 1), (31, 64), (70, 4400), (5, 0)):
        x = rng.integers(-128, 128, (2, rows, depth)).astype("int8")
        y = rng.integers(-128, 128, (2, depth, 40)).astype("int8")
        factors = rng.standard_normal(40).astype("float32")
        total = x.astype("int64") @ y.astype("int64")
        wanted = np.maximum(total.astype("float32") * factors, 0)
        for call in runs:
            out = np.full((2, rows, 40), 7, "float32")
            call(x, y, factors, out)
            np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("dtype", "k"), [("int8", 1500), ("bfloat16", 70)])
def test_few_rows_meet_weights_that_are_packed_ahead(dtype: str, k: int) -> None:
    out = "int32" if dtype == "int8" else "float32"
    func = product(3, k, 37, dtype=dtype, out=out)
    made = prepared(func, {1}, CPU)
    assert "T.dot_tiles" in made.func.script()
    x, w, b = numbers((3, k), dtype), numbers((k, 37), dtype), numbers((37,), out)
    wanted = np.maximum(x.astype("int64") @ w.astype("int64") + b.astype("int64"), 0)
    for machine in MACHINES:
        result = np.zeros((3, 37), out)
        run(made, [x, w, b, result], machine)
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    ("dtypes", "step"),
    [
        *[(s, f"tdpb{s[0][0].replace('i', 's')}{s[1][0].replace('i', 's')}d") for s in SIGNS],
        (("bfloat16", "bfloat16"), "tdpbf16ps"),
    ],
)
def test_sums_stay_in_tiles(dtypes: tuple[str, str], step: str) -> None:
    program = scheduled(short(96, 256, 1200, dtypes), CPU)
    text = loomir.compile(program, CPU).assembly()
    assert text.count("ldtilecfg") == 1
    assert "tilerelease" in text
    used = Counter(line.split()[0] for line in text.splitlines() if "%tmm" in line)
    # Two tiles of each factor give four products; sums are stored as often as begun.
    assert used[step] == used["tileloadd"] > 0
    assert used["tilezero"] == used["tilestored"]


def test_small_products_and_other_cpus_do_without() -> None:
    for m, n, k in ((15, 64, 999), (999, 15, 64), (99, 99, 127), (50, 50, 50)):
        assert "dot_tiles" not in scheduled(short(m, n, k, SIGNS[0]), CPU).script()
    for target in ("znver5", "icelake-server", "haswell", "neoverse-n1"):
        assert "dot_tiles" not in scheduled(short(64, 64, 128, SIGNS[0]), target).script()
    for pair in (("int8", "int8"), ("bfloat16", "bfloat16")):
        assert not Target("znver5").has("amx_bf16")
        assert "dot_tiles" in scheduled(short(64, 64, 128, pair), "graniterapids").script()


ON_THREADS = """
import os, threading
import numpy as np
import loomir
from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.te import topi

a, b = te.placeholder((320, 256), "int8"), te.placeholder((256, 320), "int8")
run = loomir.compile(te.create_prim_func([a, b, topi.matmul(a, b, out_dtype="int32")]), opt_level=1)
rng = np.random.default_rng(0)
x, y = (rng.integers(-128, 128, s).astype("int8") for s in ((320, 256), (256, 320)))
wanted = x.astype("int32") @ y.astype("int32")

def check():
    for _ in range(20):
        out = np.zeros((320, 320), "int32")
        run(x, y, out)
        if not (out == wanted).all():
            os._exit(1)

threads = [threading.Thread(target=check) for _ in range(3)]
[t.start() for t in threads]
check()
[t.join() for t in threads]
child = os.fork()
if child == 0:
    check()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
check()
print("same")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_threads_and_children_have_tiles_of_their_own() -> None:
    env = {**os.environ, "LOOMIR_NUM_THREADS": "3"}
    made = subprocess.run(
        [sys.executable, "-c", ON_THREADS], env=env, capture_output=True, text=True, check=False
    )
    assert made.stdout == "same\n", made.stderr


def test_a_process_that_may_not_use_tiles_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = {"amx-int8": True, "amx-bf16": True, "amx-tile": True, "amx-fp16": True, "fma": True}
    refused: dict[bool, dict[str, bool]] = {}
    for may in (False, True):
        monkeypatch.setattr("loomir.target.host.llvm.get_host_cpu_features", lambda: dict(flags))
        monkeypatch.setattr("loomir.target.host._may_use_tiles", lambda may=may: may)
        refused[may] = features_here.__wrapped__()
    assert refused[True] == flags
    assert refused[False] == {name: name == "fma" for name in flags}


@T.prim_func
def by_hand(
    c: T.Buffer((256,), "int32"), a: T.Buffer((1024,), "int8"), b: T.Buffer((1024,), "uint8")
) -> None:
    d = T.alloc_buffer((256,), "int32")
    T.dot_tiles(d, a, b, 1, 16, 16, "int8", "uint8", True)
    for i in range(256):
        c[i] = d[i]


def test_programs_may_use_tiles_themselves_and_be_watched() -> None:
    a, b = bytes_of(short(16, 16, 64, ("int8", "uint8"), "nk"))
    packed = b.reshape(16, 16, 4).transpose(1, 0, 2)  # four steps of each column side by side
    wanted = a.astype("int32") @ b.T.astype("int32")
    ways: list[dict[str, Any]] = [{}, {"checked": True}, {"target": "x86-64"}]
    for options in ways:
        out = np.zeros(256, "int32")
        loomir.compile(by_hand, **options)(
            out,
            a.ravel(),
            packed.ravel(),
        )
        np.testing.assert_array_equal(out.reshape(16, 16), wanted)


@T.prim_func
def beyond(c: T.Buffer((256,), "int32"), a: T.Buffer((1023,), "int8")) -> None:
    T.dot_tiles(c, a, a, 1, 16, 16, "int8", "int8", True)


def test_the_interpreter_knows_the_end_of_memory() -> None:
    arrays: list[Any] = [np.zeros(256, "int32"), np.zeros(1023, "int8")]
    with pytest.raises(loomir.RunError) as caught:
        interpret(beyond, *arrays)
    assert "extent" in str(caught.value)
