"""Calls of all operators as TVMScript: written, read back, and the same."""

from __future__ import annotations

import pytest

import loomir
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.operator.definition import OpDef, find_op, op_names
from tests.op.running import Symbolic, call_of, concrete

SAMPLED = [o for o in map(find_op, op_names()) if o is not None and o.samples]


def named(o: OpDef) -> str:
    return o.name.removeprefix("relax.")


@pytest.mark.parametrize("definition", SAMPLED, ids=named)
def test_calls_are_read_back_as_they_are_written(definition: OpDef):
    b = BlockBuilder()
    for number, sample in enumerate(definition.samples):
        for kind, describe in (("known", concrete), ("symbolic", Symbolic(shared=True))):
            made = call_of(definition, sample, describe)
            with b.function(f"{kind}_{number}", list(made.values), pure=definition.is_pure):
                b.emit_func_output(b.emit(made.call))
    module = b.get()
    assert loomir.verify(module) == ()
    text = module.script()
    assert "R.Call(" not in text
    again = loomir.script.from_source(text)
    loomir.ir.assert_structural_equal(module, again)
