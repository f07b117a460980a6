"""Legalise operators: replace their calls by calls of kernels."""

from __future__ import annotations

from typing import Final

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import by_class, rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    MatchCast,
    PrimValue,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.normal.derive import func_struct_info, struct_info_of
from loomir.relax.operator.context import OpContext, RuntimeCondition
from loomir.relax.operator.definition import OpDef, find_op, op_def
from loomir.relax.shape import INT64, ShapeExpr
from loomir.relax.struct_info import UNIT, TensorStructInfo
from loomir.support.diagnostics import InternalError
from loomir.support.span import Span
from loomir.tir.builtins.table import CHECK, CHECKED_INDEX
from loomir.tir.expr import Call as PrimCall
from loomir.tir.expr import Var as PrimVar
from loomir.tir.expr import const
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Evaluate
from loomir.transform.relax.functions.field_uses import FieldUses, find_field_uses
from loomir.transform.relax.fusion.op_pattern import OpPattern, op_pattern
from loomir.transform.relax.kernels.op_kernel import Kernel, KernelMaker
from loomir.transform.relax.kernels.reference_call import reference_call

__all__ = ["legalize_ops"]

_MOST_RESULTS: Final = 16
"""A call of up to so many results may have one kernel for each."""


@register("relax.LegalizeOps", requires={"relax_normal_form"}, establishes={"operators_lowered"})
def legalize_ops(mod: IRModule) -> IRModule:
    """Write every call of an operator that has a kernel as ``call_tir`` of it.

    A ``MatchCast`` names the extents of a tensor if they are unknown. If no kernel can compute a
    call, the operator's reference does, which runs in Python.
    """
    return _Legalizer(mod).run()


class _Legalizer:
    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.kernels = KernelMaker()
        self.analyzer = Analyzer()
        self.assumed: set[PrimVar] = set()
        self.added: dict[GlobalVar, BaseFunc] = {}
        self.names = set(mod)
        self.of_func: dict[int, GlobalVar] = {}
        self.places: dict[GlobalVar, list[Span | None]] = {}
        self.infos: dict[str, StructInfo] = {}
        self.taken: dict[Var, FieldUses] = {}
        self.split: dict[Var, dict[int, Kernel]] = {}

    def run(self) -> IRModule:
        changed: dict[GlobalVar, BaseFunc] = {}
        for var, func in self.mod.functions.items():
            if isinstance(func, Function):
                self.taken = find_field_uses(func)
                rules = {
                    BindingBlock: self._block,
                    DataflowBlock: self._block,
                    SeqExpr: _drop_empty_blocks,
                }
                changed[var] = rewrite(func, rules)
            else:
                changed[var] = func
        if all(changed[var] is func for var, func in self.mod.functions.items()):
            return self.mod
        added = {var: self._note_place(var, func) for var, func in self.added.items()}
        return self.mod.with_functions({**changed, **added})

    def _note_place(self, var: GlobalVar, func: BaseFunc) -> BaseFunc:
        """Set the location of a kernel's checks to its call, if it has only one."""
        places = self.places.get(var, [])
        if len(places) != 1 or places[0] is None or not isinstance(func, PrimFunc):
            return func
        (span,) = places

        def check(call: PrimCall) -> PrimCall:
            if call.span is not None or call.op not in (CHECK, CHECKED_INDEX):
                return call
            return PrimCall(call.dtype, call.op, call.args, span=span)

        def evaluate(stmt: Evaluate) -> Evaluate:
            if stmt.span is not None or not isinstance(stmt.value, PrimCall):
                return stmt
            is_check = stmt.value.op in (CHECK, CHECKED_INDEX)
            return Evaluate(stmt.value, span=span) if is_check else stmt

        return rewrite(func, {PrimCall: check, Evaluate: evaluate})

    # -- bindings --------------------------------------------------------------------------------
    def _block(self, block: BindingBlock) -> BindingBlock:
        made: list[Binding] = []
        for binding in block.bindings:
            made += self._legalize_binding(binding, isinstance(block, DataflowBlock))
        if len(made) == len(block.bindings) and all(a is b for a, b in zip(made, block.bindings)):
            return block
        return type(block)(tuple(made), span=block.span)

    def _legalize_binding(self, binding: Binding, in_dataflow: bool) -> list[Binding]:
        if self.taken and isinstance(binding, VarBinding):
            one = self._compute_field(binding)
            if one is not None:
                return one
        if not isinstance(binding, VarBinding) or not isinstance(binding.value, Call):
            return [binding]
        call = binding.value
        if not isinstance(call.op, Op):
            return [binding]
        definition = op_def(call.op)
        if definition.lower is None and definition.legalize is None and not definition.reference:
            return [binding]
        made: list[Binding] = []
        kind = DataflowVar if in_dataflow else Var
        call = self._with_known_extents(definition, call, kind, made)
        if definition.legalize is not None:
            return [*made, *self._apply_own_rule(definition, call, binding, in_dataflow)]
        call = self._with_exponent(call)
        args = [self._info(arg) for arg in call.args]
        self._assume(args)
        required: list[RuntimeCondition] = []
        result = self._infer(definition, call, args, required=required)
        kernel = self.kernels.make(definition, call, args, result)
        if kernel is None:  # with a check that unknown extents fit, there may be a kernel
            assumed = self._infer(definition, call, args, assume=True)
            kernel = self.kernels.make(definition, call, args, assumed)
        if kernel is not None:
            made += [_require(each, kind, call.span) for each in required]
        if kernel is None:
            info = binding.var.struct_info
            value: Call = reference_call(definition, call, info)
        else:
            value = self._call_tir(kernel, call)
            if kernel.is_tuple and len(kernel.outputs) == 1:  # a single output is not in a tuple
                only = kind(binding.var.name_hint, kernel.outputs[0])
                made.append(VarBinding(only, value, span=binding.span))
                return [*made, VarBinding(binding.var, Tuple((only,)), span=binding.span)]
        return [*made, VarBinding(binding.var, value, span=binding.span)]

    def _compute_field(self, binding: VarBinding) -> list[Binding] | None:
        """Compute a field in place of taking it out; None if the whole tuple has to be computed."""
        value = binding.value
        if not isinstance(value, TupleGetItem):
            return [] if binding.var in self.taken and self._parts_of(binding.var) else None
        tuple_value = value.tuple_value
        if not isinstance(tuple_value, Var) or tuple_value not in self.taken:
            return None
        kernels = self._parts_of(tuple_value)
        if not kernels:
            return None
        kernel, call = kernels.get(value.index), self.taken[tuple_value].call
        if kernel is None:  # the field is not used
            return []
        return [VarBinding(binding.var, self._call_tir(kernel, call), span=binding.span)]

    def _parts_of(self, var: Var) -> dict[int, Kernel]:
        """Return a kernel for each result of a call; none if the results share computations.

        Each can be fused with its users, and unused results are not computed. So the parts of a
        split cost nothing, and the normalisation of an image is fused with what follows.
        """
        if var not in self.split:
            taken = self.taken[var]
            made = self._split(taken) if len(taken.fields) <= _MOST_RESULTS else {}
            # A kernel that may fail, or is costly, must run once, at its place in the program.
            local = taken.times == 1 and isinstance(var, DataflowVar)
            cheap = all(op_pattern(k.func) <= OpPattern.INJECTIVE for k in made.values())
            self.split[var] = made if local or cheap else {}
        return self.split[var]

    def _split(self, taken: FieldUses) -> dict[int, Kernel]:
        call = taken.call
        definition = op_def(call.op) if isinstance(call.op, Op) else None
        if definition is None or definition.lower is None or definition.legalize is not None:
            return {}
        if self._with_known_extents(definition, call, Var, []) is not call:
            return {}
        args = [self._info(arg) for arg in call.args]
        self._assume(args)
        result = self._infer(definition, call, args)
        made: dict[int, Kernel] = {}
        for field in taken.fields:
            kernel = self.kernels.make(definition, call, args, result, field)
            if kernel is None:
                return {}
            made[field] = kernel
        return made

    def _apply_own_rule(
        self, definition: OpDef, call: Call, binding: VarBinding, in_dataflow: bool
    ) -> list[Binding]:
        """Legalise a call by the operator's own rule."""
        builder = BlockBuilder(self.mod.with_functions({**self.mod.functions, **self.added}))
        known = {var.name_hint for var in builder.get().functions}
        builder.begin_scope()
        if in_dataflow:
            builder.begin_dataflow_block()
        else:
            builder.begin_binding_block()
        assert definition.legalize is not None
        value = definition.legalize(builder, call)
        if value is call and definition.reference is not None:  # too little is known for a kernel
            value = reference_call(definition, call, binding.var.struct_info)
        block = builder.end_block()
        builder.end_scope()
        for var, func in builder.get().functions.items():
            if var.name_hint not in known:
                self.added[var] = func
                self.names.add(var.name_hint)
        made: list[Binding] = []
        for part in block.bindings:
            made += self._legalize_binding(part, in_dataflow)
        return [*made, VarBinding(binding.var, value, span=binding.span)]

    # -- arguments -------------------------------------------------------------------------------
    def _info(self, arg: RelaxExpr) -> StructInfo:
        return struct_info_of(arg, self._function)

    def _function(self, var: GlobalVar) -> StructInfo:
        found = self.infos.get(var.name_hint)
        if found is None:
            func = self.mod[var]
            if not isinstance(func, (Function, PrimFunc)):
                raise InternalError(f"{var.name_hint} is not a function of a graph or of loops")
            found = self.infos[var.name_hint] = func_struct_info(func)
        return found

    def _assume(self, args: list[StructInfo]) -> None:
        """Let the analyzer assume that extents are not negative."""
        for info in args:
            for var in by_class(info).get(PrimVar, ()):
                if var not in self.assumed:
                    self.assumed.add(var)
                    self.analyzer.assume_size(var)

    def _with_known_extents(
        self, definition: OpDef, call: Call, kind: type[Var], made: list[Binding]
    ) -> Call:
        """Name the extents of tensors with known rank and dtype only."""
        names: dict[Var, Var] = {}
        casts: list[Binding] = []
        args = tuple([self._name_argument(arg, kind, casts, names) for arg in call.args])
        if all(a is b for a, b in zip(args, call.args)):
            return call
        named = Call(call.op, args, call.sinfo_args, call.attrs, span=call.span)
        if definition.normalize_call(named) is not named:
            return call  # for tensors with named extents it means something else
        made += casts
        return named

    def _name_argument(
        self, arg: RelaxExpr, kind: type[Var], made: list[Binding], names: dict[Var, Var]
    ) -> RelaxExpr:
        if isinstance(arg, Tuple):
            fields = tuple([self._name_argument(field, kind, made, names) for field in arg.fields])
            same = all(a is b for a, b in zip(fields, arg.fields))
            return arg if same else Tuple(fields, span=arg.span)
        if not isinstance(arg, Var):
            return arg
        if arg in names:
            return names[arg]
        info = arg.struct_info
        if not isinstance(info, TensorStructInfo) or info.dims is not None:
            return arg
        if info.ndim < 0 or info.dtype.is_void:
            return arg
        extents = tuple([PrimVar(f"{arg.name_hint}_{i}", INT64) for i in range(info.ndim)])
        shaped = TensorStructInfo(ShapeExpr(extents), info.dtype, info.vdevice)
        named = kind(arg.name_hint, shaped, span=arg.span)
        made.append(MatchCast(named, arg, shaped, span=arg.span))
        names[arg] = named
        return named

    def _with_exponent(self, call: Call) -> Call:
        """Pass a constant exponent to the kernel of a power, which may then be multiplied out."""
        by = call.args[-1] if call.args else None
        if getattr(call.op, "name", "") != "relax.power" or not isinstance(by, Constant):
            return call
        base, dtype = self._info(call.args[0]), by.data.dtype
        if by.data.shape or not dtype.is_float:
            return call
        if not isinstance(base, TensorStructInfo) or base.dtype is not dtype:
            return call
        exponent = PrimValue(const(by.data.data.astype("float64").item(), dtype), span=by.span)
        return Call(call.op, (call.args[0], exponent), (), call.attrs, span=call.span)

    def _infer(
        self,
        definition: OpDef,
        call: Call,
        args: list[StructInfo],
        assume: bool = False,
        required: list[RuntimeCondition] | None = None,
    ) -> StructInfo:
        context = OpContext(
            call, args, self.analyzer, lookup=self._info, warn=lambda _: None, assume=assume
        )
        made = definition.infer(context)
        if required is not None:
            required += context.required
        return made

    # -- kernels ---------------------------------------------------------------------------------
    def _call_tir(self, kernel: Kernel, call: Call) -> Call:
        var = self.of_func.get(id(kernel.func))
        if var is None:
            assert isinstance(call.op, Op)
            var = GlobalVar(self._free_name(call.op.name.rpartition(".")[2]))
            self.of_func[id(kernel.func)] = var
            self.added[var] = kernel.func
        self.places.setdefault(var, []).append(call.span)
        call_tir = find_op("relax.call_tir")
        if call_tir is None:
            raise InternalError("there is no operator call_tir")
        args: tuple[RelaxExpr, ...] = (var, Tuple(kernel.args))
        if kernel.ints:
            args = (*args, ShapeExpr(kernel.ints))
        return Call(call_tir.op, args, kernel.outputs, span=call.span)

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 0
        while name in self.names:
            number += 1
            name = f"{wanted}_{number}"
        self.names.add(name)
        return name


def _require(given: RuntimeCondition, kind: type[Var], span: Span | None) -> Binding:
    """Emit a check of sizes before the kernel, so that schedules do not see it."""
    numbers = ShapeExpr((given.low, given.high))
    attrs = {"message": given.message, "help": given.help}
    check = find_op("relax.builtin.require_order")
    assert check is not None
    return VarBinding(kind("fits", UNIT), Call(check.op, (numbers,), (), attrs, span=span))


def _drop_empty_blocks(seq: SeqExpr) -> SeqExpr:
    """Remove empty blocks."""
    blocks = tuple([block for block in seq.blocks if block.bindings])
    return seq if len(blocks) == len(seq.blocks) else SeqExpr(blocks, seq.body, span=seq.span)
