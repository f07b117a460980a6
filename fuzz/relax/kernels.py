"""Calls of kernels and of packed functions, shapes and scalars as values."""

from __future__ import annotations

from typing import Any

import numpy as np

import loomir
import loomir.script
from fuzz.relax.grow import Entry, Grower, op
from fuzz.relax.ops import field_of, partner
from loomir import te
from loomir.relax import Constant, PrimValue, ShapeExpr, TensorStructInfo
from loomir.runtime.packed.registry import list_funcs
from loomir.runtime.shape import Shape
from loomir.tir import PrimFunc

__all__ = ["KERNEL_STEPS"]


# -- kernels by hand ---------------------------------------------------------------------------
def _kernel(name: str, dtype: str, rank: int) -> PrimFunc:
    """Write a kernel for tensors of a dtype and a rank, whose extents are its parameters' own."""
    dims = [f"d{i}" for i in range(rank)]
    loops = [f"i{i}" for i in range(rank)]
    shape = f"({', '.join(dims)}{',' if rank == 1 else ''})"
    at = ", ".join(loops)
    one = f"T.{dtype}(1)"
    outputs, statements = {
        "twice": (["B"], [f"B[{at}] = A[{at}] + A[{at}]"]),
        "pair": (["B", "C"], [f"B[{at}] = A[{at}] * A[{at}]", f"C[{at}] = T.max(A[{at}], {one})"]),
        "plus": (["B"], [f"B[{at}] = A[{at}] + T.Cast({dtype!r}, s)"]),
        "inplace": ([], [f"A[{at}] = A[{at}] + {one}"]),
        "both": (["B"], [f"B[{at}] = A[{at}]", f"A[{at}] = A[{at}] * A[{at}]"]),
    }[name]
    scalar = ["s: T.int64"] if name == "plus" else []
    heads = ["a: T.handle", *scalar, *(f"{o.lower()}: T.handle" for o in outputs)]
    lines = ["@T.prim_func(private=True)", f"def {name}({', '.join(heads)}):"]
    lines += [f"    {d} = T.int64()" for d in dims]
    for buffer in ["A", *outputs]:
        lines.append(f"    {buffer} = T.match_buffer({buffer.lower()}, {shape}, {dtype!r})")
    pad = "    "
    for number, (loop, dim) in enumerate(zip(loops, dims)):
        kind = "T.parallel" if number == 0 and name != "plus" else "T.serial"
        lines.append(f"{pad}for {loop} in {kind}({dim}):")
        pad += "    "
    lines += [pad + statement for statement in statements]
    made = loomir.script.from_source("\n".join(lines) + "\n")
    assert isinstance(made, PrimFunc)
    return made


def _source(g: Grower) -> Entry | None:
    def fits(e: Entry) -> bool:
        known = e.is_tensor and getattr(e.info, "dims", None) is not None
        return known and 0 < e.value.ndim < 4 and str(e.dtype) in KERNEL_DTYPES

    return g.tensor(fits)


KERNEL_DTYPES = {"float32", "float64", "int32", "int64", "int8", "uint8", "int16", "uint32"}


def call_tir(g: Grower, functions: list[Any]) -> Entry | None:
    """Call a kernel that writes new tensors."""
    del functions
    x = _source(g)
    if x is None:
        return None
    name = g.choices.pick(["twice", "pair", "plus"])
    var = g.builder.add_func(_kernel(name, str(x.dtype), x.value.ndim), name)
    g.refresh()
    info = TensorStructInfo(x.info.dims, x.dtype)
    infos = [info, info] if name == "pair" else [info]
    options: dict[str, Any] = {"out_sinfo": infos if len(infos) > 1 else info}
    if name == "plus":
        size: Any = g.choices.integer(0, 3)
        if g.dims and g.choices.chance(0.5):
            size = g.choices.pick(g.dims)
        options["tir_vars"] = (size,)
    made = g.bind(op("call_tir").call(var, [x.leaf], **options), what="call_tir")
    return field_of(g, made) if made is not None and name == "pair" else made


def call_tir_inplace(g: Grower, functions: list[Any]) -> Entry | None:
    """Let a kernel write over a tensor that nothing else uses; another equal one stays."""
    del functions
    x = _source(g)
    if x is None:
        return None
    if g.choices.chance(0.5):
        g.call("add", x, x)  # what is computed twice may be computed once, unless it is changed
    fresh = g.call("add", x, x)
    if fresh is None:
        return None
    g.entries.remove(fresh)
    name = g.choices.pick(["inplace", "both"])
    var = g.builder.add_func(_kernel(name, str(x.dtype), x.value.ndim), name)
    g.refresh()
    info = TensorStructInfo(x.info.dims, x.dtype)
    places, infos = ([0], info) if name == "inplace" else ([0, -1], [info, info])
    made = g.bind(
        op("call_tir_inplace").call(var, [fresh.leaf], places, out_sinfo=infos),
        what="call_tir_inplace",
    )
    return field_of(g, made) if made is not None and name == "both" else made


def call_te(g: Grower, functions: list[Any]) -> Entry | None:
    """Call a kernel of a tensor expression."""
    del functions
    x = _source(g)
    if x is None:
        return None
    y = partner(g, x, str(x.dtype))
    if y.value.shape != x.value.shape or getattr(y.info, "dims", None) is None:
        y = x
    form = g.choices.integer(0, 2)

    def compute(a: Any, b: Any) -> Any:
        if form == 0:
            return te.compute(a.shape, lambda *i: a(*i) * b(*i) + a(*i))
        if form == 1:
            return te.compute(a.shape, lambda *i: te.if_then_else(i[0] < 1, a(*i), b(*i)))
        return te.compute((a.shape[-1], *a.shape[:-1]), lambda j, *i: a(*i, j))  # noqa: PLW0108

    if form < 2 and not _same_dims(x, y):
        y = x
    try:
        call = g.builder.call_te(compute, x.leaf, y.leaf)
    except loomir.CompileError as error:
        g.refused.append(f"call_te {error.diagnostic.code}")
        return None
    g.refresh()
    return g.bind(call, what="call_te")


def _same_dims(x: Entry, y: Entry) -> bool:
    return [str(d) for d in x.info.dims] == [str(d) for d in y.info.dims]


# -- packed functions --------------------------------------------------------------------------
def _register() -> None:
    if "fuzz.twice" in list_funcs():
        return
    loomir.register_func("fuzz.twice", lambda a: np.asarray(a + a, a.dtype))
    loomir.register_func("fuzz.pair", lambda a, b: (a.copy(), b.copy()))

    def fill(a: Any, out: Any) -> None:
        out[...] = a

    loomir.register_func("fuzz.copy", fill)


def call_packed(g: Grower, functions: list[Any]) -> Entry | None:
    """Call a function of Python."""
    del functions
    _register()
    x = _source(g)
    if x is None:
        return None
    info = TensorStructInfo(x.info.dims, x.dtype)
    form = g.choices.integer(0, 3)
    if form == 0:
        call = op("call_dps_packed").call("fuzz.copy", [x.leaf], out_sinfo=info)
        return g.bind(call, what="call_dps_packed")
    if form == 1:
        y = _source(g)
        assert y is not None
        infos = [info, TensorStructInfo(y.info.dims, y.dtype)]
        call = op("call_pure_packed").call("fuzz.pair", x.leaf, y.leaf, sinfo_args=infos)
        made = g.bind(call, what="call_pure_packed")
        return field_of(g, made) if made is not None else None
    vague = TensorStructInfo(None, x.dtype, ndim=x.value.ndim) if form == 2 else info
    call = op("call_pure_packed").call("fuzz.twice", x.leaf, sinfo_args=vague)
    return g.bind(call, what="call_pure_packed")


# -- shapes and scalars ------------------------------------------------------------------------
def shapes(g: Grower, functions: list[Any]) -> Entry | None:
    """Make shapes of tensors and tensors of shapes."""
    del functions
    choices = g.choices
    form = choices.integer(0, 4)
    if form == 0:
        x = g.tensor()
        made = g.call("shape_of", x) if x is not None else None
        return _filled(g, made)
    if form == 1:
        extents = g.constant([choices.integer(0, 3)], "int64", 0, 3)
        made = g.call("tensor_to_shape", extents)
        return _filled(g, made)
    if form == 2:
        known = [e for e in g.entries if isinstance(e.value, Shape)]
        if known:
            return g.call("shape_to_tensor", choices.pick(known))
        return g.call("shape_to_tensor", dims_of(g))
    if form == 3:
        made = g.bind(ShapeExpr(dims_of(g)), what="ShapeExpr")
        return _filled(g, made)
    number = choices.integer(0, 5) + (choices.pick(g.dims) if g.dims else 0)
    made = g.bind(PrimValue(number), what="PrimValue")
    if made is None:
        return None
    return g.call("full", dims_of(g), made, dtype=choices.pick(["int64", "float32"]))


def dims_of(g: Grower) -> Any:
    """Draw extents, some of them sizes of the program."""
    return tuple(
        g.choices.pick(g.dims) if g.dims and g.choices.chance(0.5) else g.choices.integer(0, 3)
        for _ in range(g.choices.integer(0, 2))
    )


def _filled(g: Grower, shape: Entry | None) -> Entry | None:
    if shape is None or int(np.prod(tuple(shape.value), dtype=np.int64)) > 100:
        return shape
    value = g.constant((), g.choices.pick(["float32", "int32", "bool"]))
    return g.call("full", shape, value)


def new_sizes(g: Grower, functions: list[Any]) -> Entry | None:
    """Return names to extents by a cast that must hold."""
    del functions
    x = g.tensor(lambda e: e.value.ndim > 0)
    return g.renamed_sizes(x) if x is not None else None


def assertion(g: Grower, functions: list[Any]) -> Entry | None:
    """Assert what holds."""
    del functions
    if not g.impure or g.builder.in_dataflow:
        return None
    return g.bind(op("assert_op").call(Constant(np.array(True)), format="fine"), what="assert_op")


KERNEL_STEPS = [
    (1.0, call_tir),
    (0.7, call_tir_inplace),
    (0.7, call_te),
    (1.0, call_packed),
    (1.2, shapes),
    (0.7, new_sizes),
    (0.3, assertion),
]
"""Ways to go on with a kernel, a packed function, a shape or a scalar, by weight."""
