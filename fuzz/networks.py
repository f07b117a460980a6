"""Networks as users write them: convolutions, attention, gates, and what stands around them."""

from __future__ import annotations

import numpy as np

from fuzz.cases import Case
from fuzz.choices import Choices, SeedChoices
from fuzz.network_graph import Net, Value, annotated
from fuzz.network_images import Images
from fuzz.network_sequences import Sequences, recurrent
from fuzz.network_steps import Steps
from loomir.ir.module import IRModule
from loomir.script import from_source

__all__ = ["draw"]


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    c = SeedChoices(f"networks {seed}")
    net = Net(c)
    results = _layers(c, net)
    text = _text(c, net, results)
    with np.errstate(all="ignore"):
        module = from_source(text, values=net.constants)
    assert isinstance(module, IRModule)
    expected = tuple(r.array for r in results)
    return Case("networks", seed, module, "main", tuple(net.inputs), expected)


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
