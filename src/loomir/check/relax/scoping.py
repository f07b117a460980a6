"""Check scopes in one walk over a function: which names are visible, which nodes allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from loomir.check.relax.recursion import recursive_groups
from loomir.ir.module import GlobalVar, IRModule, VDevice
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.visit import children, pre_order
from loomir.relax.expr import (
    BindingBlock,
    Call,
    DataflowVar,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    Var,
    VarBinding,
)
from loomir.relax.free_vars import shape_vars_bound_by
from loomir.relax.info.relations import is_same_device
from loomir.relax.node import StructInfo
from loomir.relax.normal.blocks import is_dataflow
from loomir.relax.operator.definition import find_op
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.support.span import Span
from loomir.tir.analysis.effects import Effects, effects_of_node
from loomir.tir.expr import (
    BinaryOp,
    Cast,
    CmpOp,
    FloatImm,
    IntImm,
    LogicalOp,
    Not,
    PrimExpr,
    Select,
)
from loomir.tir.expr import Call as PrimCall
from loomir.tir.expr import Var as ShapeVar

__all__ = ["Program", "check_function"]

_ARITHMETIC: Final = (
    ShapeVar,
    IntImm,
    FloatImm,
    Cast,
    Select,
    BinaryOp,
    CmpOp,
    LogicalOp,
    Not,
    PrimCall,
)


_CODES: Final = {
    1: "RLX0101",
    2: "RLX0102",
    3: "RLX0103",
    4: "RLX0104",
    5: "RLX0105",
    6: "RLX0106",
    7: "RLX0107",
    8: "RLX0108",
    9: "RLX0109",
    11: "RLX0111",
    14: "RLX0114",
    15: "RLX0115",
    16: "RLX0116",
    18: "RLX0118",
    21: "RLX0121",
    23: "RLX0123",
    24: "RLX0124",
}
_UNBOUND: Final = frozenset({5, 14, 15, 16, 18})
"""Rules that state the same condition for different places in a program."""


class Program:
    """What the checks of all functions of a module share."""

    def __init__(self, mod: IRModule, *, is_single: bool = False) -> None:
        self.names = {var.name_hint for var in mod.functions}
        self.recursive = recursive_groups(mod)
        self.devices: list[VDevice] | None = None
        if not is_single:
            self.devices = [d for listed in mod.global_info.values() for d in listed]
        self.bound: dict[Var, Span | None] = {}
        """Every variable that was bound so far, and where."""
        self.binders: dict[Var, str] = {}
        """The function in which each variable is bound."""
        for gv, func in mod.functions.items():
            if isinstance(func, Function):
                for part in pre_order(func):
                    for var in _list_bound_by(part):
                        self.binders.setdefault(var, gv.name_hint)


def _list_bound_by(part: Node) -> Sequence[Var]:
    if isinstance(part, Function):
        return part.params
    if isinstance(part, (VarBinding, MatchCast)) and part.var is not None:
        return (part.var,)
    return ()


class _Scope(NamedTuple):
    """The variables whose scope ends with a sequence or a function."""

    names: list[Var]
    shapes: list[ShapeVar]


def check_function(var: GlobalVar, func: Function, program: Program) -> list[Diagnostic]:
    """List the violations of rules in a function."""
    walk = _Walk(var.name_hint, program)
    walk.span = func.span
    walk.run(func)
    return walk.found


class _Walk:
    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self.program = program
        self.found: list[Diagnostic] = []
        self.span: Span | None = None
        self.stack: list[Node | Callable[[], None]] = []
        self.live: set[Var] = set()
        self.shapes: set[ShapeVar] = set()
        self.scopes: list[_Scope] = [_Scope([], [])]
        # For each enclosing dataflow block or function, from the outermost: what the block bound,
        # or None.
        self.blocks: list[list[DataflowVar] | None] = []
        self.ended: set[Var] = set()
        # For each live DataflowVar, how many functions enclose its binding.
        self.depth_of: dict[Var, int] = {}
        self.depth = 0
        self.making: list[Var] = []
        self.aliases: dict[Var, GlobalVar | Var] = {}
        self.told: set[tuple[str, object]] = set()

    def run(self, func: Function) -> None:
        self.stack.append(func)
        while self.stack:
            item = self.stack.pop()
            if isinstance(item, Node):
                self._visit(item)
            else:
                item()

    # -- reporting -------------------------------------------------------------------------------
    def _report(
        self,
        rule: int,
        message: str,
        help: str,
        at: Node | None = None,
        before: Span | None = None,
        about: object = None,
    ) -> None:
        code = _CODES[rule]
        if about is not None:  # one mistake in scoping has many places
            group = "unbound" if rule in _UNBOUND else code
            if (group, about) in self.told:
                return
            self.told.add((group, about))
        span = getattr(at, "span", None) or self.span
        secondary = () if before is None else ((before, "bound here first"),)
        notes = (f"in the function {self.name!r}",)
        self.found.append(
            Diagnostic(code, f"{message} (rule {rule})", span, "", secondary, notes, help)
        )

    # -- expressions -----------------------------------------------------------------------------
    def _visit(self, part: Node) -> None:
        if isinstance(part, Var):
            self._use(part)
        elif isinstance(part, GlobalVar):
            self._use_global(part)
        elif isinstance(part, Op):
            self._report(
                9,
                f"the operator {part.name} is used where a value is expected",
                "call it; a function that calls it can be passed on",
            )
        elif isinstance(part, StructInfo):
            self._info(part)
        elif isinstance(part, ShapeExpr):
            for extent in part.values:
                self._extent(extent, 5, part)
        elif isinstance(part, PrimValue):
            self._prim_value(part)
        elif isinstance(part, Call):
            self._call(part)
        elif isinstance(part, Function):
            self._function(part)
        elif isinstance(part, SeqExpr):
            self._sequence(part)
        elif isinstance(part, BindingBlock):
            self._block(part)
        elif isinstance(part, (VarBinding, MatchCast)):
            self._check_binding(part)
        else:
            if isinstance(part, If) and self._is_in_dataflow():
                self._report(
                    7,
                    "a branch is inside of a dataflow block",
                    "end the dataflow block before it, or use R.where",
                    part,
                )
            self.stack.extend(reversed(children(part)))

    def _is_in_dataflow(self) -> bool:
        return bool(self.blocks) and self.blocks[-1] is not None

    def _prim_value(self, part: PrimValue) -> None:
        if part.value.dtype.lanes != 1:
            self._report(
                18,
                f"a scalar value is {part.value.dtype}",
                "give a value of one lane",
                part,
            )
        self._extent(part.value, 18, part)

    def _extent(self, value: PrimExpr, rule: int, at: Node | None, own: Iterable[Any] = ()) -> None:
        """Check that the shape variables of an expression are bound."""
        known = frozenset(own)
        for part in pre_order(value):
            if isinstance(part, ShapeVar):
                if part not in self.shapes and part not in known:
                    self._unbound(part, rule, at)
            elif not isinstance(part, _ARITHMETIC) or (
                isinstance(part, PrimCall)
                and effects_of_node(part) & (Effects.READS | Effects.ACTS)
            ):
                self._report(
                    rule,
                    f"a {part.__class__.__name__} is not arithmetic on shape variables",
                    "compute the value with operators, and name it with R.match_cast",
                    at,
                )

    def _unbound(self, var: ShapeVar, rule: int, at: Node | None) -> None:
        name = var.name_hint
        messages = {
            4: f"what the function returns is described by the shape variable {name!r}, which "
            "neither a parameter nor what is around binds",
            6: f"the shape variable {name!r} is an extent of no parameter",
        }
        self._report(
            rule,
            messages.get(rule, f"the shape variable {name!r} is not bound here"),
            f"bind {name!r} first: make it an extent of its own in a parameter's annotation or a "
            "R.match_cast",
            at,
            about=var,
        )

    def _call(self, call: Call) -> None:
        callee = call.op
        if self._is_in_dataflow():
            self._check_recursion(call)
        self.stack.extend(reversed(call.sinfo_args))
        self.stack.extend(reversed(call.args))
        if isinstance(callee, Op):
            self._check_own_rule(call, callee)
        else:
            self.stack.append(callee)

    def _check_recursion(self, call: Call) -> None:
        callee: Node = call.op
        while isinstance(callee, Var) and callee in self.aliases:
            callee = self.aliases[callee]
        group = self.program.recursive.get(self.name, frozenset())
        if isinstance(callee, GlobalVar) and callee.name_hint in group:
            own = callee.name_hint == self.name
        elif isinstance(callee, Var) and callee in self.making:
            own = True
        else:
            return
        name = callee.name_hint
        self._report(
            7,
            f"{name!r} calls itself in a dataflow block"
            if own
            else f"{name!r}, which calls {self.name!r}, is called in a dataflow block",
            "make the call in an ordinary block",
            call,
        )

    def _check_own_rule(self, call: Call, op: Op) -> None:
        found = find_op(op.name)
        if found is None or found.normalize is None:
            return
        try:
            same = found.normalize_call(call) is call
        except CompileError:  # told where the call is derived
            return
        if not same:
            self._report(
                23,
                f"the call is not as R.{op.name.removeprefix('relax.')} wants it",
                "normalize the program: relax.normalize(program)",
                call,
            )

    # -- variables -------------------------------------------------------------------------------
    def _use(self, var: Var) -> None:
        name = var.name_hint
        if var in self.live:
            depth = self.depth_of.get(var)
            if depth is not None and depth < self.depth:
                self._report(
                    11,
                    f"a function uses {name!r}, which ends with the dataflow block around it",
                    "make it an output of the block, and the function after it",
                    about=var,
                )
        elif isinstance(var, DataflowVar) and var in self.ended:
            self._report(
                1,
                f"{name!r} is used after the dataflow block that binds it",
                "make it an output of the block",
                about=var,
            )
        elif var in self.making:
            self._report(
                2,
                f"{name!r} is used in its own value, which is no function",
                "use a variable that is bound before",
                about=var,
            )
        elif var in self.ended:
            self._report(
                2,
                f"{name!r} is used after the scope that binds it",
                "give it as the result of the branch or the function that binds it",
                about=var,
            )
        elif self.program.binders.get(var) == self.name:
            self._report(3, f"{name!r} is used before it is bound", "bind it before", about=var)
        else:
            self._report(
                2,
                f"{name!r} is bound nowhere",
                "bind it, or make it a parameter",
                about=var,
            )

    def _use_global(self, var: GlobalVar) -> None:
        name = var.name_hint
        if name in self.program.names:
            return
        guess = nearest(name, self.program.names)
        self._report(
            2,
            f"the module has no function named {name!r}",
            f"did you mean {guess!r}?" if guess else "add it to the module",
            var,
            about=name,
        )

    def _define(self, var: Var, at: Node) -> None:
        bound = self.program.bound
        if var in bound:
            self._report(
                2,
                f"{var.name_hint!r} is bound a second time",
                "bind a variable of its own",
                at,
                before=bound[var],
                about=var,
            )
        else:
            bound[var] = getattr(at, "span", None) or var.span
        if var not in self.live:
            self.live.add(var)
            self.scopes[-1].names.append(var)

    def _define_shapes(self, info: StructInfo) -> None:
        for name in shape_vars_bound_by(info):
            if name not in self.shapes:
                self.shapes.add(name)
                self.scopes[-1].shapes.append(name)

    def _enter(self) -> None:
        self.scopes.append(_Scope([], []))

    def _leave(self) -> None:
        scope = self.scopes.pop()
        self.live.difference_update(scope.names)
        self.ended.update(scope.names)
        self.shapes.difference_update(scope.shapes)

    # -- functions and sequences -----------------------------------------------------------------
    def _function(self, func: Function) -> None:
        self._enter()
        self.depth += 1
        self.blocks.append(None)
        if func.attrs.get("relax.force_pure") and not func.is_pure:
            self._report(
                21,
                "a function with relax.force_pure is not pure",
                "make it pure, or leave relax.force_pure out",
                func,
            )
        infos = [p.struct_info_annotation for p in func.params]
        for info in infos:
            if info is not None:
                self._define_shapes(info)
        for param in func.params:
            if isinstance(param, DataflowVar):
                self._report(
                    1,
                    f"the parameter {param.name_hint!r} is a variable of a dataflow block",
                    "use a relax.Var",
                    param,
                )
            self._define(param, param)
        for param, info in zip(func.params, infos):
            if info is not None:
                self._info(info, 6, param)
        if func.ret_struct_info is not None:
            self._info(func.ret_struct_info, 4, func)
        self.stack += (self._end_function, func.body)

    def _end_function(self) -> None:
        self.blocks.pop()
        self.depth -= 1
        self._leave()

    def _sequence(self, expr: SeqExpr) -> None:
        self._enter()
        self.stack += (self._leave, expr.body)
        self.stack.extend(reversed(expr.blocks))

    def _block(self, block: BindingBlock) -> None:
        if is_dataflow(block):
            self.blocks.append([])
            self.stack.append(self._end_dataflow)
        self.stack.extend(reversed(block.bindings))

    def _end_dataflow(self) -> None:
        for var in self.blocks.pop() or ():
            self.live.discard(var)
            self.ended.add(var)
            self.depth_of.pop(var, None)

    # -- bindings --------------------------------------------------------------------------------
    def _check_binding(self, binding: VarBinding | MatchCast) -> None:
        value, var = binding.value, binding.var
        self.span = binding.span or getattr(value, "span", None) or self.span
        if var is not None:
            self.making.append(var)
            if isinstance(value, Function) and isinstance(binding, VarBinding):
                self._recursion_is_declared(value, var)
                self._define(var, binding)
            elif isinstance(value, (GlobalVar, Var)):
                self.aliases[var] = value

        def end() -> None:
            self._note_bound(binding)

        self.stack += (end, value)

    def _recursion_is_declared(self, func: Function, var: Var) -> None:
        if func.ret_struct_info is None and any(part is var for part in pre_order(func.body)):
            self._report(
                8,
                f"{var.name_hint!r} calls itself, and its result is not annotated",
                "annotate what it returns, as in -> R.Tensor((n,), 'float32')",
                func,
            )

    def _note_bound(self, binding: VarBinding | MatchCast) -> None:
        self.span = binding.span or getattr(binding.value, "span", None) or self.span
        var = binding.var
        if isinstance(binding, MatchCast):
            self._define_shapes(binding.struct_info)
            self._info(binding.struct_info, 5, binding)
        if var is None:
            return
        self.making.pop()
        if var.struct_info_annotation is not None:
            self._info(var.struct_info_annotation, None, var)
        if isinstance(binding, MatchCast) or not isinstance(binding.value, Function):
            self._define(var, binding)
        if isinstance(var, DataflowVar):
            if self._is_in_dataflow():
                self.depth_of[var] = self.depth
                block = self.blocks[-1]
                assert block is not None
                block.append(var)
            else:
                self._report(
                    1,
                    f"{var.name_hint!r} is a variable of dataflow blocks, and is bound outside",
                    "use a relax.Var, or bind it in a dataflow block",
                    binding,
                )

    # -- annotations -----------------------------------------------------------------------------
    def _info(self, info: StructInfo, rule: int | None = None, at: Node | None = None) -> None:
        """Check that structural information uses only variables in scope.

        ``rule`` is the rule that a shape variable breaks which is not, where it is not that of the
        kind of information (14 to 16).
        """
        stack: list[tuple[StructInfo, frozenset[ShapeVar]]] = [(info, frozenset())]
        while stack:
            part, own = stack.pop()
            if isinstance(part, TensorStructInfo):
                if part.vdevice is not None:
                    self._device(part.vdevice, at)
                if isinstance(part.shape, ShapeExpr):
                    for extent in part.shape.values:
                        self._extent(extent, rule or 14, at, own)
                elif isinstance(part.shape, Var) and part.shape not in self.live:
                    self._report(
                        14,
                        f"a shape is {part.shape.name_hint!r}, which is not in scope here",
                        "bind it before, or write the extents",
                        at,
                        about=part.shape,
                    )
            elif isinstance(part, ShapeStructInfo):
                for extent in part.values or ():
                    self._extent(extent, rule or 15, at, own)
            elif isinstance(part, PrimStructInfo):
                if part.value is not None:
                    self._extent(part.value, rule or 16, at, own)
            elif isinstance(part, TupleStructInfo):
                stack.extend((field, own) for field in reversed(part.fields))
            elif isinstance(part, FuncStructInfo):
                params = part.params or ()
                inner = own.union(*(shape_vars_bound_by(p) for p in params))
                stack.append((part.ret, inner))
                stack.extend((p, inner) for p in reversed(params))

    def _device(self, device: VDevice, at: Node | None) -> None:
        devices = self.program.devices
        if devices is None or any(is_same_device(device, d) for d in devices):
            return
        self._report(
            24,
            f"the device {device.target!r} {device.dev_id} is not among the global_info of the "
            "module",
            "list it, in a class under @I.ir_module: "
            f"I.module_global_infos({{'vdevice': [I.vdevice({device.target!r})]}})",
            at,
            about=(str(device.target), device.dev_id, device.mem_scope),
        )
