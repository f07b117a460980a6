"""Networks as users write them: convolutions, attention, gates, and surrounding layers."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any, Final

import numpy as np

from fuzz.choices import Choices, SeedChoices
from fuzz.families.cases import Case
from fuzz.families.networks.graph import Net, Value, annotated
from fuzz.families.networks.images import Images
from fuzz.families.networks.sequences import Sequences, recurrent
from fuzz.families.networks.steps import Steps
from loomir.ir.module import IRModule
from loomir.relax import BlockBuilder, TensorStructInfo, Tuple, TupleGetItem, Var
from loomir.script import from_source
from loomir.script import relax as R
from loomir.script import tir as T
from loomir.tir import Var as ShapeVar
from loomir.transform.relax.constants.bind_constants import bind_constants

__all__ = ["draw"]

_FIELD: Final = re.compile(r"\b([gst]\d+)\[(\d)\]")
"""A field of a tuple in a line."""


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    c = SeedChoices(f"networks {seed}")
    net = Net(c)
    with np.errstate(all="ignore"):
        results = _layers(c, net)
    expected = tuple(r.array for r in results)
    if not net.branches and not net.functions and c.chance(0.2):
        module = _built(c, net, results)
    else:
        text = _text(c, net, results)
        read = from_source(text, values=net.constants)
        assert isinstance(read, IRModule)
        module = read
    inputs = dict(zip(_names(net), net.inputs, strict=True))
    bound = {name: array for name, array in net.weights.items() if c.chance(0.6)}
    if bound and c.chance(0.4):
        module = bind_constants(module, bound)
        inputs = {name: given for name, given in inputs.items() if name not in bound}
    return Case("networks", seed, module, "main", tuple(inputs.values()), expected)


def _names(net: Net) -> list[str]:
    return [p.name if isinstance(p, Value) else p[0] for p in net.frame.params]


def _built(c: Choices, net: Net, results: list[Value]) -> IRModule:
    """Build a graph in Python, call by call."""
    sizes = {name: ShapeVar(name, "int64") for name in net.sizes}
    known: dict[str, Any] = {"R": R, "T": T, "TupleGetItem": TupleGetItem, **sizes, **net.constants}
    params: list[Var] = []
    for p in net.frame.params:
        assert isinstance(p, Value)
        dims = [sizes[d] if d in sizes else int(d) for d in p.dims]
        params.append(Var(p.name, TensorStructInfo(dims, p.dtype)))
        known[p.name] = params[-1]
    outs = [r.name for r in results]
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow() if c.chance(0.7) else nullcontext():
            for line in net.frame.lines:
                name, _, text = line.partition(" = ")
                whole, index = (text[:-3], 0) if text.endswith(")[0]") else (text, None)
                value = eval(_FIELD.sub(r"TupleGetItem(\1, \2)", whole), {}, known)  # noqa: S307
                value = value if index is None else TupleGetItem(builder.emit(value), index)
                emit = builder.emit_output if name in outs and builder.in_dataflow else builder.emit
                known[name] = emit(value, name)
        found = [known[name] for name in outs]
        builder.emit_func_output(found[0] if len(found) == 1 else Tuple(tuple(found)))
    return builder.finalize()


def _layers(c: Choices, net: Net) -> list[Value]:
    dtype = c.weighted(
        [
            (10, "float32"),
            (2, "float64"),
            (2, "float16"),
            (2, "bfloat16"),
            (6, "int8"),
            (1, "uint8"),
        ]
    )
    total = (
        "int32" if "int" in dtype else c.pick(["float32", dtype]) if dtype[-2:] == "16" else dtype
    )
    kind = c.weighted([(5, "images"), (5, "sequences"), (2, "recurrent"), (3, "steps")])
    floats = dtype if "float" in dtype else "float32"
    if kind == "images":
        made = Images(net, dtype, total).run()
    elif kind == "steps":
        made = [_tensor(c, net, dtype)]
    else:
        made = Sequences(net, floats).run() if kind == "sequences" else recurrent(net, floats)
    more = Steps(net).run(made[0], 6 if kind == "steps" else 2)
    return [*more, *made[1:]]


def _tensor(c: Choices, net: Net, dtype: str) -> Value:
    extents: list[tuple[str, int] | int] = [net.open_size("n")] if c.chance(0.5) else []
    extents += [c.pick([1, 2, 3, 4, 6, 8, 16, 17]) for _ in range(c.integer(1, 3))]
    return net.param(extents, dtype)


def _text(c: Choices, net: Net, results: list[Value]) -> str:
    params = ", ".join(
        f"{p.name}: {annotated(p.dims, p.dtype)}"
        if isinstance(p, Value)
        else f'{p[0]}: R.Prim("{p[1]}")'
        for p in net.frame.params
    )
    lines = ["from loomir.script import ir as I, tir as T, relax as R", "@I.ir_module"]
    lines += ["class Module:", *net.functions, "    @R.function", f"    def main({params}):"]
    lines += [f"        {name} = T.int64()" for name in net.names()]
    lines += ["        cls = Module"]
    body = list(net.frame.lines)
    outs = [r.name for r in results]
    made = [n for n in outs if any(line.startswith(f"{n} = ") for line in body)]
    if made and not net.branches and c.chance(0.7):
        body = [
            "with R.dataflow():",
            *(f"    {line}" for line in body),
            f"    R.output({', '.join(made)})",
        ]
    lines += [f"        {line}" for line in body]
    lines.append(f"        return {', '.join(outs)}")
    return "\n".join([*lines, ""])
