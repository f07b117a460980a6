"""All operators of Relax, by what their definitions say of them.

Adding an operator adds it here: its samples are inferred, lowered, compiled, interpreted and
compared with its reference.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir import structural_equal
from loomir.ir.module import VDevice
from loomir.relax.node import StructInfo
from loomir.relax.operator.definition import OpDef, Sample, TensorSample, find_op, op_names
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType, numpy_of
from tests.clause import clauses
from tests.op.running import (
    VAGUE,
    LoweredModule,
    Symbolic,
    assert_describes,
    assert_same,
    call_of,
    concrete,
    flat,
    legalized,
    made_of,
    precise,
)

# Operators whose meaning the machine itself has: no tensor expression and no reference says it.
SPECIAL = frozenset(
    f"relax.{name}"
    for name in (
        "assert_op",
        "builtin.alloc_tensor",
        "builtin.require_order",
        "builtin.stop_lift_params",
        "call_builtin_with_ctx",
        "call_dps_packed",
        "call_inplace_packed",
        "call_pure_packed",
        "call_py_func",
        "call_tir",
        "call_tir_inplace",
        "call_tir_with_grad",
        "hint_on_device",
        "invoke_closure",
        "invoke_pure_closure",
        "make_closure",
        "memory.alloc_storage",
        "memory.alloc_tensor",
        "memory.ensure_zero_offset",
        "memory.kill_storage",
        "memory.kill_tensor",
        "memory.view",
        "null_value",
        "print",
        "render_object",
        "shape_of",
        "shape_to_tensor",
        "tensor_to_shape",
        "to_vdevice",
        "vm.alloc_storage",
        "vm.alloc_tensor",
        "vm.call_tir_dyn",
        "vm.kill_object",
    )
)

OPERATORS = [op for op in map(find_op, op_names()) if op is not None]
SAMPLED = [op for op in OPERATORS if op.samples]
LEGALIZED = [op for op in OPERATORS if op.legalize is not None and op.samples]
COMPUTED = [op for op in OPERATORS if op.lower is not None]
ELEMENTWISE = [op for op in OPERATORS if op.elementwise]


def named(op: Any) -> str:
    return op.name.removeprefix("relax.") if isinstance(op, OpDef) else str(op)


def shown(op: OpDef, number: int) -> str:
    return f"{named(op)}, sample {number}: {op.samples[number]}"


@pytest.mark.parametrize("op", OPERATORS, ids=named)
def test_definition_is_complete(op: OpDef):
    line, _, rest = op.doc.partition("\n")
    assert line.endswith("."), "the description starts with one line"
    assert len(line) <= 100
    assert not rest or rest.startswith("\n"), "a line is empty after the first"
    assert op.family
    if op.name in SPECIAL:
        return
    assert op.samples
    assert op.reference is not None
    assert op.lower is not None or op.legalize is not None or op.name in INTERPRETED
    assert op.mistakes or not op.params


# A reference, but neither a lowering nor a rule of legalisation: only the interpreter runs them.
INTERPRETED: frozenset[str] = frozenset()


def test_all_but_the_special_have_samples_and_a_reference():
    assert {op.name for op in OPERATORS if op.reference is None or not op.samples} == SPECIAL


@clauses("RX-DER-14")
@pytest.mark.parametrize("op", SAMPLED, ids=named)
def test_result_is_as_inferred(op: OpDef):
    """Compare the rule with the reference, for known, symbolic and hardly known shapes."""
    for number, sample in enumerate(op.samples):
        made = call_of(op, sample)
        with np.errstate(all="raise"):
            value = made.reference()
        info = made.infer()
        assert_describes(info, value, {})
        assert precise(info) or op.legalize is not None or op.lower is None, shown(op, number)
        for array in flat(value):
            assert array.dtype.isnative
        for shared in (True, False):
            symbols = Symbolic(shared)
            assert_describes(call_of(op, sample, symbols).infer(), value, symbols.values)
        for describe in VAGUE.values():
            assert_describes(call_of(op, sample, describe).infer(), value, {})


@pytest.mark.parametrize("op", SAMPLED, ids=named)
def test_results_are_on_the_device_of_the_tensors(op: OpDef):
    device = VDevice("llvm", 1)

    def there(shape: tuple[int, ...], dtype: str) -> StructInfo:
        return TensorStructInfo(shape, DataType(dtype), device)

    for number, sample in enumerate(op.samples):
        made = call_of(op, sample, there)
        info = made.infer()
        for result in info.fields if isinstance(info, TupleStructInfo) else [info]:
            if made.values and isinstance(result, TensorStructInfo):
                assert structural_equal(result.vdevice, device), shown(op, number)


@pytest.mark.parametrize("op", COMPUTED, ids=named)
def test_lowering_computes_the_reference(op: OpDef):
    lowered = LoweredModule()
    for number, sample in enumerate(op.samples):
        lowered.add(call_of(op, sample), shown(op, number), sample.ulps, sample.absolute)
    lowered.check()


@pytest.mark.parametrize("op", COMPUTED, ids=named)
def test_lowering_computes_the_reference_of_symbolic_shapes(op: OpDef):
    """Share a variable between equal extents; in ``test_whole_programs`` each has its own."""
    symbols = Symbolic(shared=True)
    lowered = LoweredModule(symbols)
    for number, sample in enumerate(op.samples):
        made = call_of(op, sample, symbols)
        if precise(made.infer()):
            lowered.add(made, shown(op, number), sample.ulps, sample.absolute)
    lowered.check()


@pytest.mark.parametrize("op", LEGALIZED, ids=named)
@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "symbolic"])
def test_what_a_call_is_replaced_by_computes_the_reference(op: OpDef, symbolic: bool):
    for number, sample in enumerate(op.samples):
        made = call_of(op, sample, Symbolic(shared=True) if symbolic else concrete)
        mod = legalized(made)
        assert loomir.verify(mod) == ()
        found = loomir.interpret(mod, "main", *[v.copy() for v in made.values.values()])
        for actual, wanted in zip(flat(found), flat(made.reference()), strict=True):
            assert_same(actual, wanted, shown(op, number), sample.ulps, sample.absolute)


@pytest.mark.parametrize("op", OPERATORS, ids=named)
def test_mistakes_are_refused(op: OpDef):
    for mistake in op.mistakes:
        with pytest.raises(CompileError) as caught:
            made_of(op, mistake.args, mistake.attrs).infer()
        diagnostic = caught.value.diagnostic
        assert diagnostic.code == mistake.code, str(caught.value)
        assert diagnostic.help
        assert "R." in diagnostic.message


# -- special values ------------------------------------------------------------------------------
DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
]


def special_values(dtype: str) -> list[Any]:
    """List the values of a dtype at which operators go wrong."""
    kind = DataType(dtype)
    if kind.is_bool:
        return [False, True]
    if kind.is_integer:
        found = {kind.min_value, kind.min_value + 1, -1, 0, 1, 2, 7, kind.max_value - 1}
        return sorted(v for v in found | {kind.max_value} if kind.min_value <= v)
    most = kind.max_finite
    few = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, most, np.inf, 2.0**-14]
    return [np.nan, *few, *[-v for v in few]]


def special_sample(op: OpDef, dtype: str, like: Sample) -> Sample:
    """Return a sample's call with all combinations of special values in place of its tensors."""
    tensors = [i for i, a in enumerate(like.args) if isinstance(a, TensorSample)]
    values = special_values(dtype)
    if len(tensors) > 2:
        values = values[:: max(1, len(values) // 6)]
    grids = np.meshgrid(*[np.arange(len(values))] * len(tensors), indexing="ij")
    pool = np.array(values, dtype=numpy_of(DataType(dtype)))
    args = list(like.args)
    for grid, index in zip(grids, tensors, strict=True):
        chosen = pool[grid.ravel()]
        args[index] = TensorSample(chosen.shape, dtype, values=chosen)
    return Sample(tuple(args), like.attrs, like.ulps, like.absolute)


def without_divisions_by_zero(op: OpDef, sample: Sample) -> Sample:
    """Drop places at which an integer is divided by zero, which raises."""
    assert op.reference is not None
    columns = [a.values for a in sample.args]
    kept: list[int] = []
    for i in range(len(columns[0])):
        try:
            op.reference(*[c[i : i + 1] for c in columns])
        except ZeroDivisionError:
            continue
        kept.append(i)
    assert 2 * len(kept) > len(columns[0])
    args = [TensorSample((len(kept),), a.dtype, values=a.values[kept]) for a in sample.args]
    return Sample(tuple(args), sample.attrs, sample.ulps, sample.absolute)


@pytest.mark.parametrize("op", ELEMENTWISE, ids=named)
def test_special_values(op: OpDef):
    lowered = LoweredModule()
    taken: list[str] = []
    like = max(op.samples, key=lambda s: s.ulps)
    for dtype in DTYPES:
        sample = special_sample(op, dtype, like)
        made = call_of(op, sample)
        try:
            made.infer()
        except CompileError as refused:
            assert refused.diagnostic.code.startswith("OPS")
            continue
        taken.append(dtype)
        try:
            made.reference()
        except ZeroDivisionError:
            sample = without_divisions_by_zero(op, sample)
            made = call_of(op, sample)
        absolute = sample.absolute if "float" in dtype else 0.0
        lowered.add(made, f"{named(op)} of {dtype}", sample.ulps, absolute)
    assert taken
    lowered.check()


def test_operators_are_functions_of_the_package():
    import loomir.op
    import loomir.op.nn

    for op in OPERATORS:
        path = op.name.removeprefix("relax.").split(".")
        where: Any = loomir.op
        for part in path:
            where = getattr(where, part)
        assert inspect.isfunction(where), op.name


def test_the_comparison_sees_a_difference():
    one = np.array([1.0, -0.0, np.nan], "float32")
    up = np.nextafter(one, np.float32(2))
    assert_same(one, one.copy(), "equal")
    assert_same(up[:1], one[:1], "near", ulps=1)
    for other in (up, np.array([1.0, 0.0, np.nan], "float32"), one.astype("float64")):
        with pytest.raises(AssertionError):
            assert_same(other, one, "different")
    with pytest.raises(AssertionError):
        assert_same(one[:1], np.array([np.nan], "float32"), "lost", ulps=9)
