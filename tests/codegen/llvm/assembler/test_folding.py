"""Instructions that are written once, or not at all."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable

import pytest

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Module
from loomir.codegen.llvm.assembler.types import FLOAT, I1, I8, I32, I64, PTR, VOID, Type
from loomir.codegen.llvm.assembler.values import FALSE, TRUE, Value, const
from loomir.codegen.llvm.jit.engine import compile_ir, load

NUMBERS = (0, 1, 2, 127, -1, -128, 77)


def _function(result: Type, params: list[Type]) -> Builder:
    module = Module("m")
    return Builder(module.define("f", result, [(f"p{i}", t) for i, t in enumerate(params)]))


@pytest.mark.parametrize("op", ["add", "sub", "mul", "and_", "or_", "xor"])
def test_constants_are_computed_as_the_instruction_would(op: str) -> None:
    b = _function(VOID, [I8, I8, PTR])
    x, y, out = b.function.params
    numbers = [const(I8, n) for n in NUMBERS]
    given: list[tuple[Value, Value]] = [*itertools.product(numbers, numbers)]
    given += [(x, n) for n in numbers] + [(n, x) for n in numbers] + [(x, y), (x, x)]
    for i, (left, right) in enumerate(given):
        b.store(getattr(b, op)(left, right), b.gep(I8, out, const(I64, i)))
    b.ret()
    lines = b.function.entry.lines
    assert sum(f" = {op.rstrip('_')} " in line for line in lines) < 2 * len(NUMBERS) + 2
    compute = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "and_": lambda x, y: x & y,
        "or_": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
    }[op]
    library = load(compile_ir(b.module.render(), level=0))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int8, ctypes.c_int8, ctypes.c_void_p)(
        library.address("f")
    )
    for p, q in [(-77, 5), (1, -1), (0, -128)]:
        got = (ctypes.c_int8 * len(given))()
        run(p, q, ctypes.addressof(got))
        pairs = [*itertools.product(NUMBERS, NUMBERS)]
        pairs += [(p, n) for n in NUMBERS] + [(n, p) for n in NUMBERS] + [(p, q), (p, p)]
        assert list(got) == [ctypes.c_int8(compute(*pair)).value for pair in pairs]


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "sgt": lambda x, y: x > y,
    "sge": lambda x, y: x >= y,
    "slt": lambda x, y: x < y,
    "sle": lambda x, y: x <= y,
    "ugt": lambda x, y: x % 256 > y % 256,
    "uge": lambda x, y: x % 256 >= y % 256,
    "ult": lambda x, y: x % 256 < y % 256,
    "ule": lambda x, y: x % 256 <= y % 256,
}


@pytest.mark.parametrize("predicate", COMPARE)
def test_constants_are_compared(predicate: str) -> None:
    b = _function(VOID, [I8])
    for x, y in itertools.product(NUMBERS, NUMBERS):
        holds = TRUE if COMPARE[predicate](x, y) else FALSE
        assert b.icmp(predicate, const(I8, x), const(I8, y)) is holds
    assert b.function.entry.lines == []


def test_truth_values_are_folded() -> None:
    b = _function(I1, [I1])
    (x,) = b.function.params
    assert b.and_(TRUE, x) is x is b.or_(x, FALSE) is b.xor(FALSE, x)
    assert b.and_(FALSE, x).text == "false"
    assert b.xor(TRUE, TRUE).text == "false"
    assert b.select(TRUE, x, FALSE) is x
    assert b.function.entry.lines == []
    assert b.xor(x, TRUE).text.startswith("%")
    assert b.or_(x, TRUE).text.startswith("%")


def test_what_is_no_number_stays_as_it_is() -> None:
    b = _function(VOID, [I32])
    poison = Value(I32, "poison")
    for made in (b.add(poison, const(I32, 1)), b.mul(const(I32, 3), poison)):
        assert made.text.startswith("%")
    splat = b.add(b.splat(const(I32, 1), 4), b.splat(const(I32, 2), 4))
    assert splat.text.startswith("%")


def test_what_a_block_around_has_computed_is_not_computed_again() -> None:
    b = _function(VOID, [I64, I1, PTR])
    x, condition, p = b.function.params
    then, other, after = b.append("then"), b.append("else"), b.append("after")
    start = b.block
    outside = b.mul(x, x)
    for block in (then, other):
        block.inside(start)
    after.continues(start)
    b.condbr(condition, then, other)
    b.position_at_end(then)
    assert b.mul(x, x) is outside
    inside = b.add(x, outside)
    assert b.add(x, outside) is inside
    b.br(after)
    b.position_at_end(other)
    elsewhere = b.add(x, outside)
    assert elsewhere is not inside  # control does not come by there
    b.br(after)
    b.position_at_end(after)
    assert b.mul(x, x) is outside
    assert b.add(x, outside) not in (inside, elsewhere)
    unrelated = b.append("unrelated")
    b.br(unrelated)
    b.position_at_end(unrelated)
    assert b.mul(x, x) is not outside  # nothing was said of how control comes here
    assert b.load(FLOAT, p) is not b.load(FLOAT, p)  # memory may have changed
    assert b.freeze(x) is not b.freeze(x)


def test_deep_nests_are_not_searched_to_the_end() -> None:
    b = _function(VOID, [I64])
    (x,) = b.function.params
    made = b.mul(x, x)
    seen: list[bool] = []
    for _ in range(100):
        around, block = b.block, b.append("in")
        block.inside(around)
        b.br(block)
        b.position_at_end(block)
        seen.append(block.known.find("mul i64 %p0.0, %p0.0") is made)
    assert seen[:30] == [True] * 30
    assert seen[40:] == [False] * 60
