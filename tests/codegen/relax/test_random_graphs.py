"""Random graphs run both ways: the same values, or the same mistake; and nothing is left."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import loomir
from loomir.codegen.llvm.support.objects import count_objects, live_objects
from loomir.runtime.packed.registry import register_func, remove_func
from loomir.script import from_source
from loomir.support.diagnostics import RunError
from tests.codegen.relax.compare_engines import same
from tests.codegen.relax.random_graphs import random_case


def _put(x: Any, out: Any) -> None:
    out[:] = x * 2


def _odd(x: Any) -> Any:
    if x.size % 2:
        raise KeyError("odd")
    return x + 1


@pytest.fixture(autouse=True)
def packed() -> Iterator[None]:
    functions = {
        "random.same": lambda x: x,
        "random.twice": lambda x: x + x,
        "random.put": _put,
        "random.odd": _odd,
    }
    for name, function in functions.items():
        register_func(name, function)
    yield
    for name in functions:
        remove_func(name)


def outcome(run: Any) -> Any:
    """Return a result, or what was raised: its class, and its code if it has one."""
    try:
        return run()
    except RunError as error:
        return type(error), {d.code for d in error.diagnostics}
    except KeyError as error:
        return type(error), {str(error)}


def check(seed: int) -> bool:
    """Run a program both ways; tell whether it gave a result.

    One of five is compiled as a user's is; the others lack schedules and LLVM's passes.
    """
    case = random_case(seed)
    program = from_source(case.text)
    count_objects(True)
    level = 2 if seed % 5 == 0 else 0
    given = outcome(lambda: loomir.compile(program, opt_level=level)["main"](*case.args))
    wanted = outcome(lambda: loomir.interpret(program, "main", *case.args))
    failed = isinstance(wanted, tuple) and len(wanted) == 2 and isinstance(wanted[0], type)
    if failed:
        assert given[0] is wanted[0], case.text
        assert given[1] <= wanted[1], case.text
    else:
        assert same(given, wanted), case.text
    del given
    gc.collect()
    left = live_objects()
    count_objects(False)
    assert left == 0, case.text
    return not failed


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_random_graphs_agree(start: int) -> None:
    results = [check(seed) for seed in range(start, start + 10)]
    assert any(results)
