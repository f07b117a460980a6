"""Convert convolutions and pooling to a desired layout, and propagate it through the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import IRModule
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import pre_order
from loomir.op.nn.layouts import read_layout
from loomir.relax.expr import (
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.definition import OpDef, find_op, op_def, op_names
from loomir.relax.shape import as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.diagnostics import CompileError, nearest
from loomir.tir.expr import FloorMod
from loomir.tir.rules import refuse
from loomir.transform.relax.graph_reading import (
    dataflow_blocks,
    make_call,
    operator_of,
    tensor_info,
)
from loomir.transform.relax.layout.arrangement import Arrangement
from loomir.transform.relax.layout.layout_rules import LayoutPlan, conv_in, layout_rule, pool_in

__all__ = ["ConvertLayoutOptions", "convert_layout"]


@dataclass(frozen=True, slots=True)
class ConvertLayoutOptions:
    """The desired layouts of operators: ``{"relax.nn.conv2d": ["NHWC", "OHWI"]}``.

    For convolutions, the layouts of images, of kernels, and of results, by default that of images.
    For poolings, the layouts of images and of results.
    """

    desired_layouts: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


@register("relax.ConvertLayout", requires={"relax_normal_form"})
def convert_layout(
    mod: IRModule, options: ConvertLayoutOptions = ConvertLayoutOptions()
) -> IRModule:
    """Compute convolutions and poolings in other layouts, and propagate these to their users.

    This applies in dataflow blocks. Element-wise operators, operators along axes and poolings are
    computed in the layout of their operands. For other operators, and for results of blocks, the
    original layout is restored by ``permute_dims``, or by ``layout_transform`` from layouts with
    blocks such as ``"NCHW16c"``. If an axis is not known to consist of whole blocks, the operator
    stays unchanged. Sums over several axes may be computed in another order.
    Errors: RLX0331 for an operator without layouts, and for an invalid layout.
    """
    wanted = {name: _read(name, given) for name, given in options.desired_layouts.items()}
    if not wanted:
        return mod
    converter = _Converter(mod, wanted)
    for func in mod.functions.values():
        if isinstance(func, Function):
            converter.plan(func)
    return converter.rewrite_module()


# -- options -------------------------------------------------------------------------------------
_LAYOUTS: Final = {
    "convolution": ("data_layout", "kernel_layout", "out_layout"),
    "pooling": ("layout", "out_layout"),
}
"""The options with layouts, for each family of operators that has them."""


def _read(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Check the layouts for an operator; return them, with that of results."""
    definition = find_op(name)
    options = None if definition is None else _LAYOUTS.get(definition.family)
    if definition is None or options is None:
        guess = nearest(name, _with_layouts())
        refuse(
            "RLX0331",
            f"{name!r} is not an operator that has a layout to convert",
            help=f"did you mean {guess!r}?" if guess else "name a convolution or a pooling",
        )
    if isinstance(given, str) or not len(options) - 1 <= len(given) <= len(options):
        shown = [given] if isinstance(given, str) else list(given)
        refuse(
            "RLX0331",
            f"{name} is given {shown} as layouts",
            help="give a list of " + ", ".join(options) + "; the last may be left out",
        )
    layouts = (*given, given[0])[: len(options)]
    for option, layout in zip(options, layouts):
        letters = _letters(definition, option)
        found = read_layout(layout)
        names = [] if found is None else [letter for letter, _ in found.parts]
        whole = sorted(n for n in names if n.isupper()) == sorted(letters)
        if (
            not whole
            or len(set(names)) < len(names)
            or not {n.upper() for n in names} <= {*letters}
        ):
            refuse(
                "RLX0331",
                f"{name} cannot have {layout!r} as {option}",
                help=f'order the letters of "{letters}"; blocks are written as in '
                f'"{letters}4{letters[1].lower()}"',
            )
    return layouts


def _with_layouts() -> list[str]:
    return [n for n in op_names() if cast("OpDef", find_op(n)).family in _LAYOUTS]


def _letters(definition: OpDef, option: str) -> str:
    """Return the letters of an operator's default layout."""
    defaults = {param.name: param.default for param in definition.options}
    first = "layout" if "layout" in defaults else "data_layout"
    return str(defaults[option] or defaults[first])


# -- graphs --------------------------------------------------------------------------------------
@dataclass(slots=True)
class _ArrangedValue:
    """A value and its arrangement; a tuple has one for each field."""

    value: RelaxExpr
    arrangement: Arrangement | tuple[Arrangement, ...]


@dataclass(slots=True)
class _Block:
    """The values of a dataflow block that exist in other arrangements so far."""

    captured: set[RelaxExpr]
    """The variables that are used by other than calls and tuples, in their original form."""
    laid: dict[RelaxExpr, _ArrangedValue] = field(default_factory=dict[RelaxExpr, _ArrangedValue])
    gone: set[RelaxExpr] = field(default_factory=set[RelaxExpr])
    """The variables that exist only in another arrangement."""
    made: dict[tuple[RelaxExpr, Arrangement], RelaxExpr] = field(
        default_factory=dict[tuple[RelaxExpr, Arrangement], RelaxExpr]
    )
    """The converted values, by original value and arrangement."""


class _Converter(Rewriter):
    def __init__(self, mod: IRModule, wanted: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__(mod)
        self.wanted = wanted
        self.blocks: dict[RelaxExpr, _Block] = {}
        """The block of each variable."""

    def plan(self, func: Function) -> None:
        """Record the block of each variable."""
        for block in dataflow_blocks(func):
            found = _Block(_find_captured(block))
            for binding in block.bindings:
                if isinstance(binding, VarBinding):
                    self.blocks[binding.var] = found

    # -- rewriting -------------------------------------------------------------------------------
    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Compute a value in the desired layout, or in that of its arguments."""
        block = self.blocks.get(binding.var)
        if block is None:
            return self.emit_binding(binding, value)
        if isinstance(binding.value, TupleGetItem) and self._convert_field(block, binding):
            return None
        if isinstance(binding.value, Call) and self._convert_call(block, binding):
            return None
        restored = False
        for part in pre_order(binding.value) if block.gone else ():
            if part in block.gone:
                self._restore(block, cast("Var", part), operator_of(binding.value) != "")
                restored = True
        return self.emit_binding(
            binding, self.builder.normalize(binding.value) if restored else value
        )

    def _convert_field(self, block: _Block, binding: VarBinding) -> bool:
        """Take a field of a tuple in its present arrangement."""
        value = cast("TupleGetItem", binding.value)
        laid = block.laid.get(value.tuple_value)
        if laid is None:
            return False
        assert isinstance(laid.arrangement, tuple)
        taken = TupleGetItem(laid.value, value.index, span=value.span)
        self._keep(block, binding, taken, laid.arrangement[value.index])
        return True

    def _convert_call(self, block: _Block, binding: VarBinding) -> bool:
        """Rewrite a call for arguments in other arrangements."""
        call = cast("Call", binding.value)
        plan = self._plan(block, call, binding.var)
        if plan is None:
            return False
        if operator_of(call) == "permute_dims":
            return self._permute(block, binding, plan)
        flat = list(_pairs(call.args, plan))
        if not all(self._can_bring(block, arg, wanted) for arg, wanted in flat):
            return False
        if all(wanted is None or wanted.is_plain for _, wanted in flat) and _is_plain(plan.made):
            return False
        args: list[RelaxExpr] = []
        for arg, wanted in zip(call.args, plan.args):
            if isinstance(wanted, tuple):
                fields = cast("Tuple", arg).fields
                args.append(Tuple(tuple(map(self._bring, [block] * len(fields), fields, wanted))))
            else:
                args.append(self._bring(block, arg, wanted))
        written = Call(call.op, tuple(args), call.sinfo_args, plan.attrs, span=call.span)
        info = self._derive(written, binding.var)
        if info is None:
            return False
        self._keep(block, binding, written, plan.made, info)
        return True

    def _derive(self, call: Call, var: Var) -> StructInfo | None:
        """Derive the information of a result; None if the call is invalid, or if less is known."""
        try:
            info = self.builder.struct_info_of(call)
        except CompileError:  # the channels do not form whole blocks
            return None
        own = var.struct_info
        if isinstance(info, TensorStructInfo) and isinstance(own, TensorStructInfo):
            return None if info.dims is None and own.dims is not None else info
        return info

    def _plan(self, block: _Block, call: Call, var: Var) -> LayoutPlan | None:
        if not isinstance(call.op, Op):
            return None

        def now(arg: RelaxExpr) -> Arrangement | None:
            laid = block.laid.get(arg)
            if laid is not None:
                return laid.arrangement if isinstance(laid.arrangement, Arrangement) else None
            info = tensor_info(arg)
            return None if info is None else Arrangement.plain(info.ndim)

        layouts = self.wanted.get(call.op.name)
        if layouts is None:
            rule = layout_rule(op_def(call.op))
            return None if rule is None else rule(call, now, var)
        plan = conv_in(call, *layouts) if len(layouts) == 3 else pool_in(call, *layouts)
        if plan is None or any(
            own is None or not isinstance(wanted, Arrangement) or own.rank != wanted.rank
            for own, wanted in zip(map(now, call.args), plan.args)
        ):
            return None
        return plan

    def _permute(self, block: _Block, binding: VarBinding, plan: LayoutPlan) -> bool:
        """Record a permutation instead of moving elements; a result of the block is moved."""
        call = cast("Call", binding.value)
        laid = block.laid[call.args[0]]
        assert isinstance(plan.made, Arrangement)
        if isinstance(binding.var, DataflowVar) and binding.var not in block.captured:
            block.laid[binding.var] = _ArrangedValue(laid.value, plan.made)
            block.gone.add(binding.var)
        else:
            self.emit_binding(binding, self._rearrange(laid.value, plan.made))
        return True

    def _keep(
        self,
        block: _Block,
        binding: VarBinding,
        value: RelaxExpr,
        arrangement: Arrangement | tuple[Arrangement, ...],
        info: StructInfo | None = None,
    ) -> None:
        """Record a value in an arrangement; also restore the original if that is needed."""
        if _is_plain(arrangement):
            return self.emit_binding(binding, value)
        var = binding.var
        if info is None:
            result = self.builder.emit(value, var.name_hint)
        else:  # derived already
            result = self.builder.normalizer.fresh(var.name_hint, info, False, value.span)
            self.builder.emit_normalized(VarBinding(result, value, span=value.span))
        block.laid[var] = _ArrangedValue(result, arrangement)
        if isinstance(var, DataflowVar) and var not in block.captured:
            block.gone.add(var)
            return None
        return self.emit_binding(binding, self._plain(block.laid[var]))

    # -- values ----------------------------------------------------------------------------------
    def _plain(self, laid: _ArrangedValue) -> RelaxExpr:
        """Return a value in its original arrangement."""
        if isinstance(laid.arrangement, Arrangement):
            return self._rearrange(laid.value, laid.arrangement)
        fields: list[RelaxExpr] = []
        for index, arrangement in enumerate(laid.arrangement):
            taken = self.builder.emit(TupleGetItem(laid.value, index))
            plain = arrangement.is_plain
            fields.append(
                taken if plain else self.builder.emit(self._rearrange(taken, arrangement))
            )
        return Tuple(tuple(fields))

    def _rearrange(self, value: RelaxExpr, arrangement: Arrangement) -> Call:
        return _move(value, arrangement, Arrangement.plain(arrangement.rank))

    def _restore(self, block: _Block, var: Var, only_read: bool) -> None:
        """Restore a variable's original layout for a user that needs it."""
        laid = block.laid[var]
        own = laid.arrangement
        if isinstance(own, Arrangement) and own.is_plain and only_read:
            return self.replace(var, laid.value)
        block.gone.discard(var)
        return self.replace(var, self.builder.emit(self._plain(laid), var.name_hint))

    def _can_bring(self, block: _Block, arg: RelaxExpr, wanted: Arrangement | None) -> bool:
        """Tell whether an argument can be converted: split axes must consist of whole blocks."""
        if wanted is None or not wanted.blocks:
            return True
        laid = block.laid.get(arg)
        if laid is not None and laid.arrangement == wanted:
            return True
        info = arg.struct_info if isinstance(arg, (Var, Constant)) else None
        if not isinstance(info, TensorStructInfo) or info.dims is None:
            return False
        missing = wanted.rank - info.ndim
        analyzer = Analyzer()
        return all(
            axis >= missing
            and analyzer.can_prove_equal(
                FloorMod(info.dims[axis - missing], as_dim(size)), as_dim(0)
            )
            for axis, size in wanted.blocks.items()
        )

    def _bring(self, block: _Block, arg: RelaxExpr, wanted: Arrangement | None) -> RelaxExpr:
        """Return an argument in an arrangement, with leading axes added if it has too few."""
        if wanted is None:
            return self.builder.normalize(arg)
        laid = block.laid.get(arg)
        if laid is None:
            info = tensor_info(arg)
            assert info is not None
            laid = _ArrangedValue(arg, Arrangement.plain(info.ndim))
        own = laid.arrangement
        assert isinstance(own, Arrangement)
        if own == wanted:
            return self.builder.normalize(laid.value)
        found = block.made.get((arg, wanted))
        if found is None:
            value = laid.value
            if own.rank < wanted.rank:
                if not own.is_plain:
                    value = self.builder.emit(self._rearrange(value, own))
                missing = wanted.rank - own.rank
                value = self.builder.emit(make_call("expand_dims", value, list(range(missing))))
                own = Arrangement.plain(wanted.rank)
            found = value if own == wanted else self.builder.emit(_move(value, own, wanted))
            block.made[arg, wanted] = found
        return found


def _find_captured(block: DataflowBlock) -> set[RelaxExpr]:
    """List the variables that are used by other values than calls and tuples."""
    found: set[RelaxExpr] = set()
    for binding in block.bindings:
        value = getattr(binding, "value", binding)
        known = isinstance(binding, VarBinding) and isinstance(value, (Call, Tuple, TupleGetItem))
        if not known:
            found |= {part for part in pre_order(value) if isinstance(part, Var)}
    return found


def _pairs(args: Sequence[RelaxExpr], plan: LayoutPlan) -> list[tuple[RelaxExpr, Any]]:
    """List arguments and fields of tuples with their desired arrangements."""
    found: list[tuple[RelaxExpr, Any]] = []
    for arg, wanted in zip(args, plan.args):
        if isinstance(wanted, tuple):
            found += zip(cast("Tuple", arg).fields, wanted)
        else:
            found.append((arg, wanted))
    return found


def _is_plain(arrangement: Arrangement | tuple[Arrangement, ...]) -> bool:
    """Tell whether axes are in their original order."""
    if isinstance(arrangement, Arrangement):
        return arrangement.is_plain
    return all(part.is_plain for part in arrangement)


def _move(value: RelaxExpr, own: Arrangement, wanted: Arrangement) -> Call:
    """Emit the conversion from one arrangement to another."""
    order = own.order_to(wanted)
    if order is not None:
        return make_call("permute_dims", value, order)
    return make_call("layout_transform", value, own.map_to(wanted))
