"""Whatever users give to primitives, they get a diagnostic, and the schedule is as before."""

from __future__ import annotations

import inspect
import random
from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.ir.module import IRModule
from loomir.schedule import Schedule
from loomir.schedule.table import PRIMITIVES
from loomir.support.diagnostics import CompileError
from loomir.te import topi
from loomir.tir import Var, const

METHODS = sorted({*PRIMITIVES, "perform", "get", "get_sref", "work_on", "remove_rv", "seed"})


def program() -> Any:
    x, y = te.placeholder((4, 6), name="x"), te.placeholder((6, 5), name="y")
    return te.create_prim_func([x, y, topi.relu(topi.matmul(x, y))])


PROGRAM = program()
DEEP: list[Any] = []
for _ in range(10_000):
    DEEP = [DEEP]
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    3,
    10**30,
    10**5000,
    DEEP,
    {"a": DEEP},
    2.5,
    float("nan"),
    "",
    "root",
    "local",
    "x" * 1000,
    b"x",
    [],
    [None],
    [-1, 2],
    [1, [2]],
    {},
    {"a": 1},
    lambda *a: a,
    lambda i, j: (j, i),
    lambda i: "no index",
    object(),
    np.int64(2),
    np.zeros(3),
    const(3, "int32"),
    Var("q", "int32"),
    int,
    Schedule(PROGRAM),
]


class Values:
    """What to give: often what is wanted, and often not."""

    def __init__(self, sch: Schedule, seed: int) -> None:
        self.chance = random.Random(seed)
        self.blocks: list[Any] = list(sch.get_child_blocks(sch.get_sblock("root")))
        self.loops: list[Any] = [loop for block in self.blocks for loop in sch.get_loops(block)]
        other = Schedule(PROGRAM)
        self.every = [*ODD, *self.blocks, *self.loops, other.get_sblock("relu")]

    def value(self, name: str) -> Any:
        usual = self.blocks if "block" in name else self.loops if "loop" in name else []
        if "index" in name:
            usual = [0, 0, 1]
        if name == "factors":
            usual = [[None, 2], [2, 2], [0, 1], [-2, "x"]]
        return self.chance.choice(usual if usual and self.chance.random() < 0.6 else self.every)

    def arguments(self, method: Any) -> tuple[list[Any], dict[str, Any]]:
        given: list[Any] = []
        named: dict[str, Any] = {}
        for param in inspect.signature(method).parameters.values():
            if param.kind is param.VAR_POSITIONAL:
                given += [self.value("loop") for _ in range(self.chance.randrange(4))]
            elif param.default is param.empty:
                given.append(self.value(param.name))
            elif self.chance.random() < 0.4:
                named[param.name] = self.value(param.name)
        return given, named


@pytest.mark.parametrize("name", METHODS)
def test_odd_arguments_are_refused(name: str):
    for seed in range(15):
        sch = Schedule(PROGRAM)
        given, named = Values(sch, seed).arguments(getattr(sch, name))
        try:
            getattr(sch, name)(*given, **named)
        except CompileError as error:
            assert error.diagnostics[0].help
            assert len(str(error)) < 2000
            assert isinstance(sch.mod, IRModule)
            assert sch.mod.script() == Schedule(PROGRAM).mod.script()
        else:
            assert sch.mod.script()
            assert name in ("seed", "perform") or str(sch.trace) is not None


def test_what_no_primitive_takes():
    sch = Schedule(PROGRAM)
    (loop, *_) = sch.get_loops("relu")
    refused = [
        ("split", {"loop": loop, "factors": [2, 2], "extra": 1}, "it takes no 'extra'"),
        ("split", {"loop": loop}, "factors is missing"),
        ("splitt", {}, "there is no primitive 'splitt'"),
        ("fuse", {"loops": loop}, "not a list"),
        ("split", {"loop": loop, "factors": [2, True]}, "factors is True, which is not an integer"),
        (
            "annotate",
            {"block_or_loop": loop, "ann_key": 3, "ann_val": 1},
            "ann_key is 3, no string",
        ),
    ]
    for name, arguments, why in refused:
        with pytest.raises(CompileError, match=why):
            sch.perform(name, arguments)
    with pytest.raises(CompileError, match="3 is not a program of loops"):
        Schedule(3)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers():
    sch = Schedule(PROGRAM)
    (loop, *_) = sch.get_loops("relu")
    outer, inner = sch.split(loop, [None, np.int64(2)])
    assert str(sch.get(inner).extent) == "2"
    assert sch.get(outer) is not None


def test_drawings_take_probabilities_only():
    sch = Schedule(PROGRAM)
    for probs in ([0.5, float("nan")], [-1.0, 2.0], [0.0, 0.0], ["a", 1.0]):
        with pytest.raises(CompileError, match="SCH0003"):
            sch.sample_categorical([1, 2], probs)  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="not a product"):
        sch.sample_perfect_tile(sch.get_loops("relu")[0], 2, decision=[-2, -2])
