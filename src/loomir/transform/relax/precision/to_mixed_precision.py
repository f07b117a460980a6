"""Mixed precision: convert the costly operators to 16-bit floats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import pre_order
from loomir.relax.expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.definition import op_def
from loomir.relax.operator.reference import convert_array
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.support.array import Array
from loomir.support.diagnostics import CompileError, nearest
from loomir.support.dtype import DataType
from loomir.tir.rules import refuse
from loomir.transform.relax.graph_reading import count_uses, dataflow_blocks, make_call
from loomir.transform.relax.precision.precision_policy import Precision, precision_of

__all__ = ["ToMixedPrecisionOptions", "to_mixed_precision"]

_WIDE: Final = DataType("float32")
_NARROW: Final = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class ToMixedPrecisionOptions:
    """How to compute with 16 bits.

    ``out_dtype`` is the dtype of results of products and convolutions: float32, maybe followed by a
    cast, or ``low_dtype``. ``fp16_input_names`` are the parameters that callers will pass in
    ``low_dtype``.
    """

    out_dtype: str = "float32"
    fp16_input_names: Sequence[str] | None = None
    low_dtype: str = "float16"


@register("relax.ToMixedPrecision", requires={"relax_normal_form"})
def to_mixed_precision(
    mod: IRModule, options: ToMixedPrecisionOptions = ToMixedPrecisionOptions()
) -> IRModule:
    """Compute products and convolutions of float32, and operators between them, in 16 bits.

    This applies in dataflow blocks. Results of functions, and parameters that are not named, stay
    float32. ``precision_policy`` says whether an operator is computed in 16 bits always, never, or
    if all uses of its result want that. A constant that is too large for 16 bits stays. Results
    have the precision of 16 bits: 11 significant bits, or 8 in bfloat16.
    Errors: RLX0331 for another dtype, and for a name that no parameter of float32 has.
    """
    _check(options)
    mod, given = _with_narrow_inputs(mod, options)
    mixer = _Mixer(mod, options, given)
    for func in mod.functions.values():
        if isinstance(func, Function):
            mixer.plan(func)
    made = mixer.rewrite_module()
    return _drop_unused_casts(made, given) if given else made


def _check(options: ToMixedPrecisionOptions) -> None:
    if options.low_dtype not in _NARROW:
        refuse(
            "RLX0331",
            f"low_dtype is {options.low_dtype!r}",
            help="give one of " + " and ".join(map(repr, _NARROW)),
        )
    if options.out_dtype not in ("float32", options.low_dtype):
        refuse(
            "RLX0331",
            f"out_dtype is {options.out_dtype!r}, and low_dtype {options.low_dtype!r}",
            help=f"give 'float32' or {options.low_dtype!r} as out_dtype",
        )


# -- parameters ----------------------------------------------------------------------------------
def _with_narrow_inputs(
    mod: IRModule, options: ToMixedPrecisionOptions
) -> tuple[IRModule, dict[RelaxExpr, RelaxExpr]]:
    """Change the named parameters of functions to 16 bits.

    Each original parameter becomes a variable bound to a cast; also return the new parameters.
    """
    names = set(options.fp16_input_names or ())
    given: dict[RelaxExpr, RelaxExpr] = {}
    if not names:
        return mod, given
    called = {
        part
        for func in mod.functions.values()
        if isinstance(func, Function)
        for part in pre_order(func)
        if isinstance(part, GlobalVar)
    }
    functions: dict[GlobalVar, BaseFunc] = {}
    known: set[str] = set()
    for var, func in mod.functions.items():
        functions[var] = func
        if isinstance(func, Function) and var not in called:
            floats = [p for p in func.params if _is_wide(p)]
            known |= {p.name_hint for p in floats}
            chosen = [p for p in floats if p.name_hint in names]
            if chosen:
                functions[var] = _narrow_params(func, chosen, options, given)
    for name in sorted(names - known):
        guess = nearest(name, known)
        refuse(
            "RLX0331",
            f"no function has a parameter {name!r} of float32 that only callers outside give",
            help=f"did you mean {guess!r}?" if guess else "name a parameter of float32",
        )
    return mod.with_functions(functions), given


def _narrow_params(
    func: Function,
    params: Sequence[Var],
    options: ToMixedPrecisionOptions,
    given: dict[RelaxExpr, RelaxExpr],
) -> Function:
    casts: list[VarBinding] = []
    for param in params:
        info = param.struct_info
        assert isinstance(info, TensorStructInfo)
        low = TensorStructInfo(info.shape, DataType(options.low_dtype), info.vdevice, info.ndim)
        given[param] = Var(param.name_hint, low, span=param.span)
        casts.append(
            VarBinding(param, make_call("astype", given[param], "float32"), span=param.span)
        )
    body = cast("SeqExpr", func.body)
    blocks = (BindingBlock(tuple(casts)), *body.blocks)
    return Function(
        tuple([cast("Var", given.get(p, p)) for p in func.params]),
        SeqExpr(blocks, body.body, span=body.span),
        func.ret_struct_info,
        func.is_pure,
        func.attrs,
        span=func.span,
    )


def _drop_unused_casts(mod: IRModule, given: dict[RelaxExpr, RelaxExpr]) -> IRModule:
    """Remove unused casts of parameters to float32."""
    functions = dict(mod.functions)
    for var, func in mod.functions.items():
        if not isinstance(func, Function) or given.keys().isdisjoint(_list_first_variables(func)):
            continue
        uses = count_uses(func)
        body = cast("SeqExpr", func.body)
        first, *rest = body.blocks
        kept = tuple(
            b
            for b in first.bindings
            if not isinstance(b, VarBinding) or b.var not in given or uses[b.var]
        )
        blocks = (BindingBlock(kept, span=first.span), *rest) if kept else tuple(rest)
        seq = SeqExpr(blocks, body.body, span=body.span)
        functions[var] = Function(
            func.params, seq, func.ret_struct_info, func.is_pure, func.attrs, span=func.span
        )
    return mod.with_functions(functions)


def _list_first_variables(func: Function) -> list[RelaxExpr]:
    body = cast("SeqExpr", func.body)
    bindings = body.blocks[0].bindings if body.blocks else ()
    return [b.var for b in bindings if isinstance(b, VarBinding)]


# -- graphs --------------------------------------------------------------------------------------
def _is_wide(leaf: object) -> bool:
    info = leaf.struct_info if isinstance(leaf, (Var, Constant)) else None
    return isinstance(info, TensorStructInfo) and info.dtype is _WIDE


def _leaves(args: Iterable[RelaxExpr]) -> list[RelaxExpr]:
    """List arguments, also those in tuples."""
    found: list[RelaxExpr] = []
    stack = list(args)[::-1]
    while stack:
        arg = stack.pop()
        if isinstance(arg, Tuple):
            stack.extend(reversed(arg.fields))
        else:
            found.append(arg)
    return found


def _policy(binding: VarBinding) -> Precision:
    """Return the policy of a value; it is NEVER unless all float arguments are float32."""
    value, info = binding.value, binding.var.struct_info
    if isinstance(value, TupleGetItem):
        return Precision.FOLLOW if _is_wide(binding.var) else Precision.NEVER
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return Precision.NEVER
    results = info.fields if isinstance(info, TupleStructInfo) else (info,)
    if not all(isinstance(r, TensorStructInfo) and r.dtype is _WIDE for r in results):
        return Precision.NEVER
    if value.attrs.get("out_dtype") not in (None, _WIDE):
        return Precision.NEVER
    tensors = [a.struct_info for a in _leaves(value.args) if isinstance(a, (Var, Constant))]
    dtypes = [t.dtype for t in tensors if isinstance(t, TensorStructInfo)]
    floats = {dtype for dtype in dtypes if dtype.is_float or dtype.is_void}
    if len(dtypes) < len(tensors) or floats != {_WIDE}:
        return Precision.NEVER
    return precision_of(op_def(value.op))


@dataclass(slots=True)
class _Block:
    """The analysis of a dataflow block, and its variables of 16 bits so far."""

    policies: dict[RelaxExpr, Precision]
    narrow_uses: set[RelaxExpr]
    """Variables that some use wants in 16 bits."""
    wide_uses: set[RelaxExpr]
    """Variables that some use wants in float32."""
    narrow: dict[RelaxExpr, RelaxExpr] = field(default_factory=dict[RelaxExpr, RelaxExpr])
    """The 16-bit variable of each float32 variable that has one."""
    computed: set[RelaxExpr] = field(default_factory=set[RelaxExpr])
    """Variables computed in 16 bits, not cast for one use."""
    gone: set[RelaxExpr] = field(default_factory=set[RelaxExpr])
    """Variables that do not exist in float32."""

    def wants_narrow(self, var: Var) -> bool:
        """Tell whether all uses want a value in 16 bits."""
        return var in self.narrow_uses and var not in self.wide_uses


def _read(block: DataflowBlock) -> _Block:
    """Analyse how each variable is used, from the last binding to the first."""
    found = _Block({}, set(), set())
    for binding in reversed(block.bindings):
        uses = found.wide_uses
        if isinstance(binding, VarBinding):
            policy = found.policies[binding.var] = _policy(binding)
            if not isinstance(binding.var, DataflowVar):
                found.wide_uses.add(binding.var)
            low = policy is Precision.ALWAYS
            low = low or (policy is Precision.FOLLOW and found.wants_narrow(binding.var))
            uses = found.narrow_uses if low else found.wide_uses
        value = getattr(binding, "value", binding)
        uses.update(part for part in pre_order(value) if isinstance(part, Var))
    return found


class _Mixer(Rewriter):
    def __init__(
        self,
        mod: IRModule,
        options: ToMixedPrecisionOptions,
        given: dict[RelaxExpr, RelaxExpr],
    ) -> None:
        super().__init__(mod)
        self.low = DataType(options.low_dtype)
        self.out = DataType(options.out_dtype)
        self.given = given
        self.blocks: dict[RelaxExpr, _Block] = {}
        """The block of each variable."""

    def plan(self, func: Function) -> None:
        """Analyse all dataflow blocks of a function."""
        for block in dataflow_blocks(func):
            found = _read(block)
            found.narrow.update(self.given)
            found.computed.update(self.given)
            for binding in block.bindings:
                if isinstance(binding, VarBinding):
                    self.blocks[binding.var] = found

    # -- rewriting -------------------------------------------------------------------------------
    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Compute a value in the precision that its operator and its uses want."""
        block = self.blocks.get(binding.var)
        if block is None:
            return self.emit_binding(binding, value)
        policy = block.policies[binding.var]
        if policy is Precision.ALWAYS and self._always(block, binding):
            return None
        if policy is Precision.FOLLOW and self._follow(block, binding):
            return None
        made_wide = False
        for part in pre_order(binding.value) if block.gone else ():
            if part in block.gone:  # this use was expected to be in 16 bits
                self._widen(block, cast("Var", part))
                made_wide = True
        return self.emit_binding(
            binding, self.update_variables(binding.value) if made_wide else value
        )

    def _always(self, block: _Block, binding: VarBinding) -> bool:
        call = cast("Call", binding.value)
        attrs = dict(call.attrs)
        if "out_dtype" in attrs:
            attrs["out_dtype"] = self.out
        # Terms added to the product, such as a bias, have the dtype of its result.
        count = 2 if self.out is _WIDE else len(call.args)
        low_call = self._narrow_call(block, call, attrs, count)
        if low_call is None:
            return False
        if self.out is _WIDE and not block.wants_narrow(binding.var):
            self.emit_binding(binding, low_call[0])
            return True
        result: RelaxExpr = self._bind(*low_call, binding.var.name_hint)
        if self.out is _WIDE:
            result = self.builder.emit(make_call("astype", result, self.low))
        self._keep(block, binding, result)
        return True

    def _follow(self, block: _Block, binding: VarBinding) -> bool:
        if not block.wants_narrow(binding.var):
            return False
        value = binding.value
        if isinstance(value, TupleGetItem):
            of = block.narrow.get(value.tuple_value)
            if of is None:
                return False
            result = self.builder.emit(TupleGetItem(of, value.index), binding.var.name_hint)
            self._keep(block, binding, result)
            return True
        assert isinstance(value, Call)
        if not any(arg in block.computed for arg in _leaves(value.args)):
            return False  # every argument would be cast: casting the result is enough
        low_call = self._narrow_call(block, value, value.attrs, len(value.args))
        if low_call is None:
            return False
        self._keep(block, binding, self._bind(*low_call, binding.var.name_hint))
        return True

    def _keep(self, block: _Block, binding: VarBinding, result: RelaxExpr) -> None:
        """Record a 16-bit value, and also cast it to float32 if some use wants that."""
        block.narrow[binding.var] = result
        block.computed.add(binding.var)
        if binding.var in block.wide_uses:
            self.emit_binding(binding, make_call("astype", result, _WIDE))
        else:
            block.gone.add(binding.var)

    # -- values ----------------------------------------------------------------------------------
    def _narrow_call(
        self, block: _Block, call: Call, attrs: Mapping[str, Any], count: int
    ) -> tuple[Call, StructInfo] | None:
        """Return a call with its first ``count`` arguments in 16 bits, None if one does not fit.

        Also return the structural information of its result.
        """
        constants: dict[RelaxExpr, Constant] = {}
        for arg in _leaves(call.args[:count]):
            if isinstance(arg, Constant) and _is_wide(arg):
                rounded = self._round_constant(arg)
                if rounded is None:
                    return None
                constants[arg] = rounded

        def leaf(arg: RelaxExpr) -> RelaxExpr:
            if isinstance(arg, Tuple):
                return Tuple(tuple([self._narrow(block, f, constants) for f in arg.fields]))
            return self._narrow(block, arg, constants)

        args = [leaf(arg) for arg in call.args[:count]]
        for arg in call.args[count:]:
            if arg in block.gone:
                self._widen(block, cast("Var", arg))
            args.append(self.update_variables(arg))
        low_call = Call(call.op, tuple(args), call.sinfo_args, attrs, span=call.span)
        try:  # a number among the options may not fit
            return low_call, self.builder.struct_info_of(low_call)
        except CompileError:
            return None

    def _bind(self, call: Call, info: StructInfo, name: str) -> Var:
        """Bind a call whose structural information is derived already."""
        var = self.builder.normalizer.fresh(name, info, False, call.span)
        self.builder.emit_normalized(VarBinding(var, call, span=call.span))
        return var

    def _round_constant(self, constant: Constant) -> Constant | None:
        data = constant.data.data
        low = convert_array(data, self.low)
        if not np.isfinite(low.astype("float32"))[np.isfinite(data)].all():
            return None
        return Constant(Array(low), span=constant.span)

    def _narrow(
        self, block: _Block, arg: RelaxExpr, constants: Mapping[RelaxExpr, Constant]
    ) -> RelaxExpr:
        if arg in constants:
            return constants[arg]
        if not _is_wide(arg):
            return self.update_variables(arg)
        found = block.narrow.get(arg)
        if found is None:
            found = block.narrow[arg] = self.builder.emit(make_call("astype", arg, self.low))
        return found

    def _widen(self, block: _Block, var: Var) -> None:
        block.gone.discard(var)
        self.replace(var, self.builder.emit(make_call("astype", block.narrow[var], _WIDE)))

    def update_variables(self, value: RelaxExpr) -> RelaxExpr:
        """Return a value with replaced variables substituted."""
        return self.builder.normalize(value)
