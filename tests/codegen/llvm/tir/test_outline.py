"""Large functions come out in pieces, and mean what they meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source

HEAD = """
from loomir.script import tir as T

@T.prim_func
def main(A: T.Buffer((64,), "int32"), n: T.int32) -> T.int32:
    S = T.alloc_buffer((64,), "int32")
    for i in range(64):
        S[i] = i
    for k in range(3):
        x = T.int32(5) + k
"""

BODIES = {
    "loops": [
        "        for i in range(64):\n            A[i] = A[i] * 3 + S[i] + x + {k}\n",
    ],
    "stores": ["        A[{m}] = A[{m}] * 3 + S[{k} % 64] + x\n        S[{m}] = A[{m}] ^ {k}\n"],
    "breaks": [
        (
            "        for i in range(64):\n            if A[i] == n:\n                break\n"
            "            A[i] = A[i] + {k}\n"
        ),
        "        A[{m}] = A[{m}] * 7\n",
    ],
    "leaves": [
        "        for i in range(64):\n            A[i] = A[i] * 3 + {k}\n",
        "        if A[{m}] == n:\n            break\n",
        "        if A[{m}] == n + 1 and {k} == 77:\n            return {k}\n",
    ],
    "scopes": [
        (
            "        with T.allocate((8,), 'int32') as p{k}:\n"
            "            q{k} = T.decl_buffer((8,), 'int32', data=p{k})\n"
            "            for i in range(8):\n                q{k}[i] = A[i + {k} % 8] * x\n"
            "            for i in range(8):\n                A[i] = q{k}[7 - i]\n"
        ),
    ],
    "views": [
        (
            "        v{k} = T.decl_buffer((8,), 'int32', data=A.data, elem_offset={m})\n"
            "        for i in range(8):\n            v{k}[i] = v{k}[i] * x + {k}\n"
        )
    ],
    "parallel": [
        (
            "        for i in T.parallel(64):\n            A[i] = A[i] * 3 + S[i] + x + {k}\n"
            "        for i in range(64):\n            S[i] = A[63 - i] + {k}\n"
        ),
    ],
    "faults": [
        "        for i in range(64):\n            A[i] = A[i] * 3 + {k}\n",
        "        A[{m}] = A[{m}] // (n + 5 - {k} // 100)\n",
    ],
}


def program(kind: str, count: int) -> str:
    lines = BODIES[kind]
    made = [lines[k % len(lines)].format(k=k, m=k * 7 % 56) for k in range(count)]
    return HEAD + "".join(made) + "    return A[0]\n"


@pytest.mark.parametrize("kind", BODIES)
def test_a_large_function_means_what_it_meant(kind: Any):
    count = {"stores": 900, "leaves": 240}.get(kind, 120)
    func = from_source(program(kind, count))
    exe = loomir.compile(func, opt_level=1)
    assert "main.body.piece2" in exe.llvm_ir()
    for n in (2**30, -4, 77):
        mine = np.arange(64, dtype="int32") * 0x01010101
        theirs = mine.copy()
        assert outcome(exe, mine, n) == outcome(interpreted(func), theirs, n)
        np.testing.assert_array_equal(mine, theirs)


def interpreted(func: Any):
    return lambda a, n: loomir.interpret(func, a, n)


def outcome(run: Any, a: Any, n: Any):
    try:
        return int(run(a, n))
    except (loomir.RunError, ZeroDivisionError) as error:
        return type(error).__name__


def test_a_small_function_stays_whole():
    exe = loomir.compile(from_source(program("loops", 12)), opt_level=1)
    assert "piece" not in exe.llvm_ir()
