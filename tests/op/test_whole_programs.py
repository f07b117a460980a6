"""Operators in functions of symbolic extents: interpreted, and compiled down to machine code."""

from __future__ import annotations

from typing import Any

import pytest

import loomir
from fuzz.native import quick_codegen
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.operator.definition import OpDef, find_op, op_names
from tests.op.running import Made, Symbolic, assert_same, call_of, flat

COMPUTED = [
    o
    for o in map(find_op, op_names())
    if o is not None and o.reference is not None and o.samples and o.is_pure
]


def named(o: OpDef) -> str:
    return o.name.removeprefix("relax.")


@pytest.mark.parametrize("definition", COMPUTED, ids=named)
def test_a_function_of_one_call_gives_the_reference(definition: OpDef):
    b = BlockBuilder()
    calls: dict[str, tuple[Made, Any]] = {}
    for number, sample in enumerate(definition.samples):
        made = call_of(definition, sample, Symbolic(shared=False))
        name = f"sample_{number}"
        with b.function(name, list(made.values)):
            b.emit_func_output(b.emit(made.call))
        calls[name] = made, sample
    module = b.get()
    compiled = loomir.compile(module, opt_level=0, cache=False)
    for name, (made, sample) in calls.items():
        expected = flat(made.reference())
        for way in ("compiled", "interpreted"):
            arrays = [v.copy() for v in made.values.values()]
            if way == "compiled":
                with quick_codegen():
                    result = compiled[name](*arrays)
            else:
                result = loomir.interpret(module, name, *arrays)
            for actual, wanted in zip(flat(result), expected, strict=True):
                what = f"{named(definition)}, {sample}, {way}"
                assert_same(actual, wanted, what, sample.ulps, sample.absolute)
