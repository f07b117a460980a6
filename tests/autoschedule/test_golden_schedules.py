"""The default schedule of one small kernel for each rule, as text: a change of schedules shows.

Each kernel is scheduled for a CPU of the table, with a fixed number of cores. What the rules are is
read from the code: every public function of ``autoschedule/rules/`` that gives plans gives one for
some kernel here, and every kind of plan is that of some kernel.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from loomir import autoschedule, te
from loomir.autoschedule import driver, rule_table, rules
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.prepack_constants import schedule_with_constants
from loomir.script import tir as T
from loomir.target import Target
from loomir.te import topi
from loomir.tir.function import PrimFunc

CORES = 4
MOST_LINES = 270

PLAIN = "haswell"
WIDE = "x86-64-v4"
BYTES = "cascadelake"
TILES = "sapphirerapids"


class Kernel(NamedTuple):
    """A function, the CPU it is scheduled for, and the places of arguments that never change."""

    func: Callable[[], PrimFunc]
    target: str = PLAIN
    constants: frozenset[int] = frozenset()


# -- kernels in tensor expressions ---------------------------------------------------------------
def tensor(*shape: Any, dtype: str = "float32", name: str = "x") -> Any:
    return te.placeholder(shape, dtype, name=name)


def of_one(shape: tuple[int, ...], operator: Callable[..., Any], *options: Any) -> PrimFunc:
    x = tensor(*shape)
    return te.create_prim_func([x, operator(x, *options)])


def looked_up() -> PrimFunc:
    x, i = tensor(40, 100), tensor(40, 72, dtype="int64", name="i")
    return te.create_prim_func([x, i, topi.gather_elements(x, i, 1)])


def product(m: Any, n: Any, k: Any, *, bias: bool = False, by_rows: bool = False) -> PrimFunc:
    """Multiply; ``by_rows``: the right factor lies along the sum."""
    a = tensor(m, k, name="a")
    b = tensor(*((n, k) if by_rows else (k, n)), name="b")
    out = topi.matmul(a, b, transpose_b=by_rows)
    if not bias:
        return te.create_prim_func([a, b, out])
    c = tensor(n, name="c")
    return te.create_prim_func([a, b, c, topi.relu(topi.add(out, c))])


def product_of_any_rows() -> PrimFunc:
    return product(te.size_var("m", "int64"), 8, 64, by_rows=True)


def short_product(m: int, n: int, k: int, left: str, right: str, out: str) -> PrimFunc:
    a, b = tensor(m, k, dtype=left, name="a"), tensor(k, n, dtype=right, name="b")
    step = te.reduce_axis((0, k), name="k")
    made = te.compute(
        (m, n), lambda i, j: te.sum(a[i, step].astype(out) * b[step, j].astype(out), axis=step)
    )
    return te.create_prim_func([a, b, made])


def product_with_zero_points() -> PrimFunc:
    a, b = tensor(48, 64, dtype="uint8", name="a"), tensor(64, 32, dtype="int8", name="b")
    zero, zeros = tensor(1, dtype="uint8", name="zero"), tensor(32, dtype="int8", name="zeros")
    step = te.reduce_axis((0, 64), name="k")

    def term(i: Any, j: Any) -> Any:
        left = a[i, step].astype("int32") - zero[0].astype("int32")
        return left * (b[step, j].astype("int32") - zeros[j].astype("int32"))

    out = te.compute((48, 32), lambda i, j: te.sum(term(i, j), axis=step))
    return te.create_prim_func([a, b, zero, zeros, out])


def convolution(
    size: tuple[int, ...], kernel: tuple[int, ...], *options: Any, dtype: str = "float32"
) -> PrimFunc:
    x, w = tensor(*size, dtype=dtype), tensor(*kernel, dtype=dtype, name="w")
    return te.create_prim_func([x, w, topi.conv(x, w, *options)])


def transposed_convolution() -> PrimFunc:
    x, w = tensor(1, 8, 8, 8), tensor(8, 4, 2, 2, name="w")
    return te.create_prim_func([x, w, topi.conv_transpose(x, w, stride=2)])


def attention(rows: int = 32, dtype: str = "float32") -> PrimFunc:
    q, k, v = (tensor(1, rows, 2, 8, dtype=dtype, name=name) for name in "qkv")
    return te.create_prim_func([q, k, v, topi.attention(q, k, v, layout="BSHD")])


def causal_attention() -> PrimFunc:
    q, k, v = (tensor(1, 2, 128, 8, name=name) for name in "qkv")
    return te.create_prim_func([q, k, v, topi.attention(q, k, v, causal="top_left")])


def flattened() -> PrimFunc:
    b, s, d = (te.var(name, "int64") for name in "bsd")
    x = tensor(b, s, d)
    out = te.compute((b * s * d,), lambda i: x[i // d // s, i // d % s, i % d])
    return te.create_prim_func([x, out])


def pooled() -> PrimFunc:
    x = tensor(1, 2, 12, 40)
    return te.create_prim_func([x, topi.max_pool(x, 2, 2)])


# -- kernels in loops ----------------------------------------------------------------------------
@T.prim_func
def bright(x: T.Buffer((30, 200), "uint8"), o: T.Buffer((30,), "int32")):
    for i in range(30):
        o[i] = 0
        for j in range(200):
            o[i] += T.cast(x[i, j] > T.uint8(128), "int32")


@T.prim_func
def least(x: T.Buffer((300,), "float32"), o: T.Buffer((1,), "float32")):
    best = x[0]
    for i in range(1, 300):
        if x[i] < best:
            best = x[i]
    o[0] = best


@T.prim_func
def running(A: T.Buffer((512, 512), "float32"), B: T.Buffer((512, 512), "float32")):
    for i in range(512):
        B[i, 0] = A[i, 0]
        for j in range(511):
            B[i, j + 1] = B[i, j] * T.float32(0.5) + A[i, j + 1]


@T.prim_func
def rows_in_threads(A: T.Buffer((64, 512), "float32"), B: T.Buffer((64, 512), "float32")):
    for i in T.parallel(64):
        B[i, 0] = A[i, 0]
        for j in range(511):
            B[i, j + 1] = B[i, j] * T.float32(0.5)
        for j in range(512):
            B[i, j] = B[i, j] + A[i, j]


@T.prim_func
def sums_in_order(A: T.Buffer((64, 100), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = T.float32(0)
        for j in range(100):
            B[i] += A[i, j]


@T.prim_func
def distances(
    A: T.Buffer((64, 5), "float32"),
    B: T.Buffer((48, 5), "float32"),
    C: T.Buffer((64, 48), "float32"),
):
    for i, j in T.grid(64, 48):
        C[i, j] = T.float32(0)
        for k in range(5):
            C[i, j] += T.abs(A[i, k] - B[j, k])


@T.prim_func
def bins(
    edges: T.Buffer((9,), "float32"), x: T.Buffer((200,), "float32"), out: T.Buffer((200,), "int32")
):
    for i in range(200):
        n = T.int32(0)
        for k in range(9):
            if x[i] >= edges[k]:
                n += 1
        out[i] = n


@T.prim_func
def wrapped(p: T.Buffer((40, 100), "float32"), out: T.Buffer((40, 100), "float32")):
    for y, x in T.grid(40, 100):
        acc = T.float32(0)
        for b in range(3):
            acc += p[y, (x + b + 99) % 100]
        out[y, x] = acc / T.float32(3)


@T.prim_func
def euclidean(
    A: T.Buffer((64, 5), "float32"),
    B: T.Buffer((48, 5), "float32"),
    C: T.Buffer((64, 48), "float32"),
):
    for i, j in T.grid(64, 48):
        acc = T.float32(0)
        for k in range(5):
            acc += (A[i, k] - B[j, k]) * (A[i, k] - B[j, k])
        C[i, j] = T.sqrt(acc)


@T.prim_func
def nothing(A: T.Buffer((0, 40), "float32"), B: T.Buffer((0, 40), "float32")):
    for i, j in T.grid(0, 40):
        B[i, j] = A[i, j] + T.float32(1)


@T.prim_func
def shortest_paths(d: T.Buffer((37, 37), "float32")):
    for k in range(37):
        for i in range(37):
            for j in range(37):
                d[i, j] = T.min(d[i, j], d[i, k] + d[k, j])


KERNELS: dict[str, Kernel] = {
    "attention": Kernel(attention),
    "attention under a mask": Kernel(causal_attention),
    "attention in half precision": Kernel(partial(attention, 17, "float16")),
    "transposed convolution": Kernel(transposed_convolution),
    "windows of pooling": Kernel(pooled),
    "windows of depthwise convolution": Kernel(
        partial(convolution, (1, 2, 8, 16), (2, 1, 3, 3), 1, 0, 1, 2)
    ),
    "windows over rows that are copied": Kernel(
        partial(convolution, (1, 1, 6, 8), (1, 1, 5, 5), 1, 2)
    ),
    "product in blocks": Kernel(partial(product, 48, 40, 64, bias=True)),
    "product in blocks on wide vectors": Kernel(partial(product, 48, 40, 64, bias=True), WIDE),
    "product packed ahead": Kernel(partial(product, 48, 64, 512), PLAIN, frozenset({1})),
    "product in strips": Kernel(partial(product, 64, 400, 136)),
    "product of few rows": Kernel(partial(product, 2, 48, 256, by_rows=True)),
    "product of any number of rows": Kernel(product_of_any_rows),
    "product of bytes": Kernel(
        partial(short_product, 48, 64, 128, "uint8", "int8", "int32"), PLAIN
    ),
    "product of bytes by VNNI": Kernel(
        partial(short_product, 48, 64, 128, "uint8", "int8", "int32"), BYTES
    ),
    "product of bytes with zero points": Kernel(product_with_zero_points, BYTES),
    "product of bytes by AMX": Kernel(
        partial(short_product, 64, 64, 256, "uint8", "int8", "int32"), TILES
    ),
    "product of bfloat16 by AMX": Kernel(
        partial(short_product, 64, 64, 64, "bfloat16", "bfloat16", "float32"), TILES
    ),
    "convolution in vectors of pixels": Kernel(
        partial(convolution, (1, 8, 9, 9), (16, 8, 3, 3), 1, 1)
    ),
    "product with a column that fills no vector": Kernel(
        partial(convolution, (1, 16, 3, 3), (48, 16, 1, 1))
    ),
    "convolution in vectors of channels": Kernel(
        partial(convolution, (1, 32, 7, 7), (32, 32, 3, 3), 1, 1), WIDE, frozenset({1})
    ),
    "rows": Kernel(partial(of_one, (64, 100), topi.softmax, -1)),
    "sum of all": Kernel(partial(of_one, (1024, 1024), topi.sum)),
    "columns": Kernel(partial(of_one, (90, 200), topi.sum, 0)),
    "columns in two steps": Kernel(partial(of_one, (4096, 512), topi.sum, 0)),
    "columns in registers": Kernel(partial(of_one, (90, 32), topi.sum, 0)),
    "sums in order": Kernel(lambda: sums_in_order),
    "distances": Kernel(lambda: distances),
    "roots of sums in registers": Kernel(lambda: euclidean),
    "windows that wrap around": Kernel(lambda: wrapped),
    "counts of few terms": Kernel(lambda: bins),
    "position of the greatest": Kernel(partial(of_one, (16, 300), topi.argmax, 1)),
    "position of the greatest of a column": Kernel(partial(of_one, (40, 64), topi.argmax, 0)),
    "least of all by comparison": Kernel(lambda: least),
    "counts of bytes": Kernel(lambda: bright),
    "running sums": Kernel(partial(of_one, (64, 300), topi.cumsum, 1)),
    "transpose": Kernel(partial(of_one, (40, 70), topi.transpose, (1, 0))),
    "planes become pixels": Kernel(partial(of_one, (3, 211), topi.transpose, (1, 0))),
    "element-wise": Kernel(partial(of_one, (100, 300), topi.exp)),
    "elements that are looked up": Kernel(looked_up),
    "division by sizes": Kernel(flattened),
    "loops in threads": Kernel(lambda: running),
    "loops that a program runs in threads": Kernel(lambda: rows_in_threads),
    "nothing to compute": Kernel(lambda: nothing),
    "loops but for one iteration": Kernel(lambda: shortest_paths),
}


class Made(NamedTuple):
    text: str
    kinds: frozenset[str]
    gave: frozenset[str]
    """The public functions of rules that gave something."""


def name_of(func: Callable[..., Any]) -> str:
    return f"{func.__module__.removeprefix(f'{rules.__name__}.')}.{func.__name__}"


@cache
def public_functions() -> dict[CodeType, Callable[..., Any]]:
    """Return the public functions of the modules of rules, by their code."""
    found: dict[CodeType, Callable[..., Any]] = {}
    for info in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}."):
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            func = getattr(module, name)
            if inspect.isfunction(func):
                found[func.__code__] = func
    return found


def planners() -> set[str]:
    """Name the public functions that give plans."""
    functions = public_functions().values()
    return {name_of(f) for f in functions if "Plan" in str(f.__annotations__.get("return"))}


def kinds_in_code() -> set[str]:
    """Read the kinds of plans from the places that make them."""
    found: set[str] = set()
    for path in Path(autoschedule.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                first = node.args[0] if node.func.id == "Plan" and node.args else None
                if isinstance(first, ast.Constant):
                    found.add(first.value)
    return found


def is_nothing(value: Any) -> bool:
    """Whether a rule does not apply: expressions are neither true nor false."""
    return value is None or (isinstance(value, (bool, int, list, tuple)) and not value)


@cache
def made(name: str) -> Made:
    """Schedule a kernel, and see which rules gave a plan."""
    kernel = KERNELS[name]
    func, target = kernel.func(), Target(kernel.target)
    target.cores = CORES
    known, gave = public_functions(), set[str]()

    def watch(frame: FrameType, event: str, value: Any) -> None:
        if event == "return" and frame.f_code in known and not is_nothing(value):
            gave.add(name_of(known[frame.f_code]))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        if kernel.constants:
            scheduled, prepared = schedule_with_constants(func, kernel.constants, target)
            assert prepared is not None
            functions = [prepared.func, *(p.func for p in prepared.preparations)]
        else:
            scheduled = schedule_function(func, target)
            functions = [scheduled.func]
    finally:
        sys.setprofile(before)
    head = [f"# for {kernel.target} with {CORES} cores"]
    for plan in scheduled.plans:
        head += [f"# {plan.kind}", *(f"# - {choice}" for choice in plan.choices)]
    text = "\n\n".join(["\n".join(head), *(f.script() for f in functions)])
    kinds = frozenset(plan.kind for plan in scheduled.plans)
    return Made(text, kinds, frozenset(gave))


@pytest.mark.parametrize("name", KERNELS)
def test_schedule(name: str, golden: Callable[[str], None]):
    text = made(name).text
    assert text.count("\n") < MOST_LINES
    golden(text)


def test_every_rule_gives_a_plan_for_some_kernel():
    shown = frozenset[str]().union(*(made(name).gave for name in KERNELS))
    assert sorted(planners() - shown) == []


def test_every_module_of_the_rules_is_used_by_some_kernel():
    shown = {gave.rpartition(".")[0] for name in KERNELS for gave in made(name).gave}
    modules = {name_of(func).rpartition(".")[0] for func in public_functions().values()}
    assert sorted(modules - shown) == []


def test_every_kind_of_plan_is_that_of_some_kernel():
    shown = frozenset[str]().union(*(made(name).kinds for name in KERNELS))
    assert sorted(kinds_in_code() - shown) == []


def test_the_rules_that_are_asked_are_public_functions_that_give_plans():
    """The driver and its table import them: a rule that says less of itself would be missed above."""
    known = {name.rpartition(".")[2] for name in planners()}
    names = {*vars(driver), *vars(rule_table)} - {"plan_group"}
    asked = {name for name in names if name.startswith("plan_")}
    assert asked
    assert asked <= known
