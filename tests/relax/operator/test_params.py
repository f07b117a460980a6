"""Options of calls that were made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from loomir.relax import BlockBuilder, Call
from loomir.relax.operator.definition import OpDef, find_op, op_names
from loomir.relax.operator.params import Kind, Param
from loomir.support.diagnostics import CompileError
from tests.op.running import call_of

OTHER: dict[Kind, Any] = {
    Kind.AXES: 0,
    Kind.INTS: 0,
    Kind.DTYPE: "float32",
    Kind.DEVICE: "llvm",
    Kind.FLAG: 1,
}
"""What users write for an option, and a call does not hold."""

CONVERTED = [
    (op, option)
    for op in map(find_op, op_names())
    if op is not None and op.samples
    for option in op.options
    if option.kind in OTHER
]


def named(value: OpDef | Param) -> str:
    return value.name.removeprefix("relax.")


@pytest.mark.parametrize(("op", "option"), CONVERTED, ids=named)
def test_option_that_is_not_converted_is_refused(op: OpDef, option: Param):
    made = call_of(op, op.samples[0])
    params = list(made.values)
    given = OTHER[option.kind]
    call = Call(op.op, made.call.args, attrs={**made.call.attrs, option.name: given})
    builder = BlockBuilder()
    builder.begin_scope(params)
    builder.begin_binding_block()
    with pytest.raises(CompileError) as caught:
        builder.emit(call)
    assert caught.value.diagnostic.code == "OPS0002"
    assert caught.value.diagnostic.help
