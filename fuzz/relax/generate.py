"""The generator of random graph programs, well-formed and with one meaning.

A program is a function of ``VERSION`` and a seed: functions that it may call, parameters with their
values, then bindings that use previous ones. Each binding is computed at once, which keeps sizes
small, indices in bounds, and values away from thresholds at which engines may differ.
"""

from __future__ import annotations

from typing import Any

from fuzz.choices import Choices, SeedChoices
from fuzz.relax.constructs import CONSTRUCT_STEPS, define_functions
from fuzz.relax.grow import DTYPES, Entry, Fails, Grower
from fuzz.relax.kernels import KERNEL_STEPS
from fuzz.relax.ops import OPERATOR_STEPS
from fuzz.relax.program import EXACT, RelaxProgram
from loomir.relax import BlockBuilder, TensorStructInfo, Tuple
from loomir.tir import Var as ShapeVar

__all__ = ["VERSION", "generate", "program_of_seed"]

VERSION = 4
"""Counts up when a seed comes to mean another program."""


def program_of_seed(seed: int) -> RelaxProgram:
    """Make the program of a seed."""
    return generate(SeedChoices(f"rx{VERSION} {seed}"))


def generate(choices: Choices) -> RelaxProgram:
    """Make a program of decisions."""
    builder = BlockBuilder()
    g = Grower(choices, builder)
    g.exact_only = choices.chance(0.4)
    functions = define_functions(g)
    params = _parameters(g)
    g.impure = choices.chance(0.15)
    closure_args: tuple[Any, ...] = ()
    with builder.function("main", params, pure=not g.impure):
        try:
            _grow(g, functions, choices.integer(2, 14))
            result, tolerances = _result(g)
            if g.closures and choices.chance(0.3):
                made, closure_args = choices.pick(g.closures)
                result = Entry(Tuple((result.leaf, made.leaf)), None)
                tolerances = [tolerances, EXACT]
                g.made.append("returned closure")
        except Fails:
            result, tolerances = _last(g), EXACT
            g.made.append("error")
        builder.emit_func_output(result.leaf)
    return RelaxProgram(
        builder.get(),
        [g.frame.values[p] for p in params],
        tolerances,
        g.records,
        closure_args,
        g.exact_only and not g.error,
        g.made,
        g.refused,
    )


def _last(g: Grower) -> Entry:
    if g.builder.in_dataflow:
        leaf = g.builder.emit_output(g.entries[-1].leaf)
        g.builder.end_block()
        return Entry(leaf, None)
    return g.entries[-1]


def _parameters(g: Grower) -> list[Any]:
    """Draw the parameters of ``main``, and their values."""
    choices = g.choices
    sizes = {ShapeVar(n, "int64"): choices.integer(0, 5) for n in "nmk"}
    params = []
    for number in range(choices.integer(1, 4)):
        shape: list[Any] = []
        extents: list[int] = []
        for _ in range(choices.weighted([(1, 2), (1, 1), (0.6, 3), (0.3, 0), (0.3, 4)])):
            if choices.chance(0.3):
                dim, extent = choices.pick(list(sizes.items()))
                shape.append(dim)
            else:
                extent = choices.weighted([(3, 2), (3, 3), (2, 4), (1, 1), (0.4, 7), (0.2, 0)])
                shape.append(extent)
            extents.append(extent)
            if _product(extents) > 100:
                shape.pop()
                extents.pop()
        dtype = choices.weighted(DTYPES)
        low = choices.pick([-4, 0, 1])
        value = g.array(extents, dtype, low, 4)
        params.append(g.parameter(f"x{number}", TensorStructInfo(tuple(shape), dtype), value)[0])
    return params


def _product(extents: list[int]) -> int:
    made = 1
    for extent in extents:
        made *= max(extent, 1)
    return made


def _grow(g: Grower, functions: list[Any], length: int) -> None:
    choices = g.choices
    flow = 0
    for _ in range(length):
        if not flow and choices.chance(0.35):
            g.builder.begin_dataflow_block()
            flow = choices.integer(1, 8)
        if not g.builder.in_dataflow and choices.chance(0.3):
            choices.weighted(CONSTRUCT_STEPS)(g, functions)
        elif choices.chance(0.15):
            choices.weighted(KERNEL_STEPS)(g, functions)
        else:
            choices.weighted(OPERATOR_STEPS)(g)
        if flow:
            flow -= 1
            if not flow:
                g.end_block()
    if g.builder.in_dataflow:
        g.end_block()


def _result(g: Grower) -> tuple[Entry, Any]:
    """Draw what is returned: one value, or tuples of them."""
    choices = g.choices
    listed = [e for e in g.entries[-8:] if choices.chance(0.7)] or [g.entries[-1]]
    if len(listed) == 1:
        return listed[0], listed[0].tolerance
    if len(listed) > 3 and choices.chance(0.3):
        inner = Tuple(tuple(e.leaf for e in listed[2:]))
        leaf = Tuple((listed[0].leaf, listed[1].leaf, inner))
        deep = [e.tolerance for e in listed]
        return Entry(leaf, None), [*deep[:2], deep[2:]]
    return Entry(Tuple(tuple(e.leaf for e in listed)), None), [e.tolerance for e in listed]
