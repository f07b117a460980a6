"""How operators compute on tensors in another layout.

A rule gets a call and the current layouts of its arguments. It returns the layouts that it wants,
the attributes with which the operator then computes the same result, and the layout of that result;
or None, if the operator needs its arguments in the original layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from loomir.relax.expr import Call, Constant, Tuple, Var
from loomir.relax.node import RelaxExpr
from loomir.relax.operator.definition import OpDef
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.transform.relax.layout.arrangement import Arrangement

__all__ = ["CurrentArrangement", "LayoutPlan", "conv_in", "layout_rule", "pool_in"]

CurrentArrangement: TypeAlias = Callable[[RelaxExpr], "Arrangement | None"]
"""Returns the arrangement of an argument; None for other than tensors of known rank."""
WantedArrangement: TypeAlias = "Arrangement | tuple[Arrangement | None, ...] | None"


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """How to convert a call.

    ``args`` has the arrangement of each argument, or of each field of a tuple; None if it stays as
    it is. ``made`` has that of the result, or of each field of a tuple.
    """

    args: tuple[WantedArrangement, ...]
    attrs: Mapping[str, Any]
    made: Arrangement | tuple[Arrangement, ...]


Rule: TypeAlias = Callable[[Call, CurrentArrangement, Var], "LayoutPlan | None"]


def layout_rule(definition: OpDef) -> Rule | None:
    """Return the rule of an operator; None if it needs its arguments in their original layout."""
    found = _RULES.get(definition.name.removeprefix("relax."))
    if found is None and definition.elementwise:
        return _elementwise
    return found


# -- element by element --------------------------------------------------------------------------
def _rank(var: Var) -> int:
    info = var.struct_info
    return info.ndim if isinstance(info, TensorStructInfo) else -1


def _elementwise(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
    """Arrange all arguments like the first one that is not plain."""
    rank = _rank(result)
    known = [now(arg) for arg in call.args]
    led = [a for a in known if a is not None and a.rank == rank and not a.is_plain]
    if rank < 0 or not led:
        return None
    chosen = led[0]
    args: list[WantedArrangement] = []
    for arg, own in zip(call.args, known):
        if own is None and isinstance(arg, (Var, Constant)):
            return None
        # Missing axes are added as in broadcasting; a number needs none.
        args.append(None if own is None or not own.rank else chosen)
    return LayoutPlan(tuple(args), call.attrs, chosen)


def _find_arrangement(call: Call, now: CurrentArrangement) -> Arrangement | None:
    """Return the arrangement of the first argument if it is not plain."""
    own = now(call.args[0])
    return None if own is None or own.is_plain else own


def _rest(call: Call, now: CurrentArrangement, count: int = 1) -> tuple[WantedArrangement, ...]:
    """Leave the arguments after the first ones unchanged."""
    plain: list[WantedArrangement] = []
    for arg in call.args[count:]:
        own = now(arg)
        plain.append(None if own is None else Arrangement.plain(own.rank))
    return tuple(plain)


def _make_axis_rule(name: str) -> Rule:
    """Make the rule of an operator along an axis that keeps all axes."""

    def rule(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
        own = _find_arrangement(call, now)
        axis = call.attrs[name]
        place = None if own is None or axis is None else own.place(axis)
        if own is None or place is None:
            return None
        attrs = {**call.attrs, name: place}
        info = result.struct_info
        count = len(info.fields) if isinstance(info, TupleStructInfo) else 0
        made = (own,) * count if count else own
        return LayoutPlan((own, *_rest(call, now)), attrs, made)

    return rule


def _reduce(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
    """Reduce the same axes at their new positions."""
    own = _find_arrangement(call, now)
    if own is None:
        return None
    given = call.attrs["axis"]
    axes = range(own.rank) if given is None else [axis % own.rank for axis in given]
    if call.attrs["keepdims"]:
        places = own.places(axes)
        if places is None:
            return None
        made = own
    else:
        places = [at for at, (axis, _) in enumerate(own.parts) if axis in axes]
        made = own.drop_axes(axes)
    attrs = {**call.attrs, "axis": tuple(places)}
    return LayoutPlan((own,), attrs, made)


def _normalize(*names: str) -> Rule:
    """Make the rule of a normalisation, whose options ``names`` are axes."""

    def rule(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
        own = _find_arrangement(call, now)
        if own is None:
            return None
        attrs = dict(call.attrs)
        for name in names:
            given = attrs[name]
            places = own.places((given,) if isinstance(given, int) else given)
            if places is None:
                return None
            attrs[name] = places[0] if isinstance(given, int) else tuple(places)
        made: Arrangement | tuple[Arrangement, ...] = own
        if isinstance(result.struct_info, TupleStructInfo):
            others = len(result.struct_info.fields) - 1
            made = (own, *[Arrangement.plain(1)] * others)
        return LayoutPlan((own, *_rest(call, now)), attrs, made)

    return rule


def _concat(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
    """Arrange all tensors like the first one that is not plain."""
    if not isinstance(call.args[0], Tuple):
        return None
    known = [now(field) for field in call.args[0].fields]
    led = [a for a in known if a is not None and not a.is_plain]
    if not led or any(a is None or a.rank != led[0].rank for a in known):
        return None
    place = led[0].place(call.attrs["axis"])
    if place is None:
        return None
    return LayoutPlan(((led[0],) * len(known),), {**call.attrs, "axis": place}, led[0])


def _pad(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
    """Pad the same axes at their new positions; axes in blocks must not be padded."""
    own = _find_arrangement(call, now)
    width = call.attrs["pad_width"]
    if own is None or len(width) != 2 * own.rank:
        return None
    if any(width[2 * axis] or width[2 * axis + 1] for axis in own.blocks):
        return None
    moved: list[int] = []
    for axis, size in own.parts:
        moved += (0, 0) if size else width[2 * axis : 2 * axis + 2]
    return LayoutPlan((own, *_rest(call, now)), {**call.attrs, "pad_width": tuple(moved)}, own)


def _keep_both(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
    """Arrange both results like the argument."""
    own = _find_arrangement(call, now)
    return None if own is None else LayoutPlan((own,), call.attrs, (own, own))


def _permute(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
    """Permute axes without moving elements: see ``convert_layout``."""
    own = _find_arrangement(call, now)
    if own is None:
        return None
    axes = call.attrs["axes"]
    order = range(own.rank)[::-1] if axes is None else axes
    return LayoutPlan((own,), call.attrs, own.permute(order))


def _squeeze(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
    """Drop the same axes at their new positions."""
    own = _find_arrangement(call, now)
    axes = call.attrs["axis"]
    if own is None or axes is None:
        return None
    places = own.places(axes)
    if places is None:
        return None
    return LayoutPlan((own,), {**call.attrs, "axis": tuple(places)}, own.drop_axes(axes))


# -- images --------------------------------------------------------------------------------------
def _pool(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
    """Set the operator's layout to that of its images; its result has the same."""
    own = _find_arrangement(call, now)
    text = None if own is None else own.text(call.attrs["layout"])
    if own is None or text is None:
        return None
    return pool_in(call, text)


def pool_in(call: Call, layout: str, out_layout: str | None = None) -> LayoutPlan | None:
    """Pool images in a given layout."""
    taken = Arrangement.from_layouts(call.attrs["layout"], layout)
    wanted = layout if out_layout is None else out_layout
    made = Arrangement.from_layouts(call.attrs["out_layout"], wanted)
    if taken is None or made is None:
        return None
    return LayoutPlan((taken,), {**call.attrs, "layout": layout, "out_layout": wanted}, made)


def conv_in(call: Call, layout: str, kernel: str, out_layout: str) -> LayoutPlan | None:
    """Convolve images in a given layout with kernels in another."""
    attrs = call.attrs
    data = Arrangement.from_layouts(attrs["data_layout"], layout)
    weight = Arrangement.from_layouts(attrs["kernel_layout"], kernel)
    made = Arrangement.from_layouts(attrs["out_layout"], out_layout)
    if data is None or weight is None or made is None:
        return None
    told = {"data_layout": layout, "kernel_layout": kernel, "out_layout": out_layout}
    return LayoutPlan((data, weight), {**attrs, **told}, made)


def _resize(call: Call, now: CurrentArrangement, result: Var) -> LayoutPlan | None:
    """Resize images in their layout; height must come before width, as in the sizes."""
    own = _find_arrangement(call, now)
    text = None if own is None else own.text(call.attrs["layout"])
    if own is None or text is None or own.blocks:
        return None
    letters = call.attrs["layout"]
    if (text.index("H") < text.index("W")) != (letters.index("H") < letters.index("W")):
        return None
    return LayoutPlan((own, *_rest(call, now)), {**call.attrs, "layout": text}, own)


_RULES: Final[dict[str, Rule]] = {
    "where": _elementwise,
    "masked_fill": _elementwise,
    "astype": _elementwise,
    "wrap_param": _elementwise,
    "nn.dropout": _keep_both,
    "nn.prelu": _make_axis_rule("axis"),
    "nn.softmax": _make_axis_rule("axis"),
    "nn.log_softmax": _make_axis_rule("axis"),
    "cumsum": _make_axis_rule("axis"),
    "cumprod": _make_axis_rule("axis"),
    "split": _make_axis_rule("axis"),
    **dict.fromkeys(("sum", "prod", "max", "min", "mean", "variance", "std"), _reduce),
    "nn.batch_norm": _normalize("axis"),
    "nn.layer_norm": _normalize("axes"),
    "nn.rms_norm": _normalize("axes"),
    "nn.group_norm": _normalize("channel_axis", "axes"),
    "nn.instance_norm": _normalize("channel_axis", "axes"),
    "concat": _concat,
    "nn.pad": _pad,
    "permute_dims": _permute,
    "squeeze": _squeeze,
    **{
        f"nn.{kind}_pool{count}d": _pool
        for kind in ("max", "avg", "adaptive_avg")
        for count in (1, 2, 3)
    },
    "image.resize2d": _resize,
}
