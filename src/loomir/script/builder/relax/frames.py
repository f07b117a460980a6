"""Frames of Relax: functions, dataflow blocks, branches.

Bindings go through a ``BlockBuilder``, which normalises them and derives their structural
information. Frames delimit blocks and scopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loomir.ir.module import GlobalVar
from loomir.ir.node import Node, reset
from loomir.ir.op import Op
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order
from loomir.relax.expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    Var,
    VarBinding,
)
from loomir.relax.free_vars import shape_vars_bound_by
from loomir.relax.info.relations import erase_to_well_defined, forget_variables
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.normal.derive import func_struct_info
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import FuncStructInfo
from loomir.script.builder.arguments import describe
from loomir.script.builder.frame import Frame, IRBuilder
from loomir.script.builder.function import IRModuleFrame
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.support.span import Span
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.function import PrimFunc

__all__ = [
    "DataflowFrame",
    "ElseFrame",
    "FunctionFrame",
    "IfFrame",
    "SequenceFrame",
    "Signatures",
    "ThenFrame",
    "sequence",
]


class Signatures:
    """What functions of Relax know of the functions of the module that is being built."""

    def __init__(self, module: IRModuleFrame) -> None:
        self.module = module
        self.builder = BlockBuilder()
        self.declared: set[str] = set()

    @staticmethod
    def of(module: IRModuleFrame) -> Signatures:
        """Return those of a module, up to date."""
        found = module.signatures
        if not isinstance(found, Signatures):
            module.signatures = found = Signatures(module)
        # The last ones are those that are new.
        for var, func in reversed(module.functions.items()):
            if var.name_hint in found.declared:
                break
            if isinstance(func, (Function, PrimFunc)):
                found.declare(var.name_hint, func_struct_info(func))
        return found

    def declare(self, name: str, info: FuncStructInfo) -> None:
        """Say what a function takes and gives, before it is made."""
        if name not in self.declared:
            self.declared.add(name)
            self.builder.declare(name, info)


class SequenceFrame(Frame[None]):
    """Bindings in their order, in blocks: the body of a function or of a branch."""

    what = "a function of Relax"

    def __init__(self) -> None:
        self.builder: BlockBuilder | None = None
        self.flow: DataflowFrame | None = None
        self.last: tuple[Var, str] | None = None
        self.said: dict[str, tuple[StructInfo, Span | None]] = {}
        """What the program says of a branch's value before the branch."""
        self.is_alias = False
        """Whether what was bound last is a simple value under another name, and no more is said."""
        self.local: list[Var] = []
        """What ends with its dataflow block."""

    def enter(self) -> None:
        """Bind nothing."""

    def begin(self) -> BlockBuilder:
        """Begin the scope in the builder of the function around."""
        made = sequence_around(self).scope()
        made.begin_scope()
        return made

    def scope(self) -> BlockBuilder:
        """Return the builder of the scope, which begins with the first use."""
        if self.builder is None:
            self.builder = self.begin()
        return self.builder

    def leave(self, result: RelaxExpr) -> SeqExpr:
        """End the scope with its result."""
        for name, (_, span) in self.said.items():
            raise mistake(
                "SCR0015",
                f"{name!r} has an annotation but no value",
                help="give it one",
                span=span,
            )
        made = self.scope().end_scope(result)
        local: dict[Any, Node] = {}
        for var in self.local:
            info = var.struct_info_annotation
            if info is not None and any(part in local for part in pre_order(info)):
                info = substitute(info, local)
            local[var] = DataflowVar(var.name_hint, info, span=var.span)
        return substitute(made, local)

    def abandon(self) -> None:
        """Leave the scope without making anything."""
        if self.builder is not None:
            self.builder.end_scope()

    # -- bindings ----------------------------------------------------------------------------
    def emit(
        self, value: RelaxExpr, name: str, info: StructInfo | None = None, span: Span | None = None
    ) -> Var:
        """Bind a value; ``info`` is what the program says of it (R19).

        Errors: SCR0031 after ``R.output``, and what derivation refuses.
        """
        builder = self._ready()
        if info is None:
            hint = name or ("lv" if self.flow is not None else "")
            var = builder.emit_output(value, hint)
        else:
            found = builder.emit_binding(VarBinding(Var(name, info, span=span), value, span=span))
            assert found is not None
            var = found
        self._bind(var, name, span)
        if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == _NULL:
            IRBuilder.current().nulls[id(var)] = var
        self.is_alias = info is None and isinstance(value, _SIMPLE)
        return var

    def match_cast(
        self, value: RelaxExpr, info: StructInfo, name: str, span: Span | None = None
    ) -> Var:
        """Bind a value that is checked to be what ``info`` says while the program runs."""
        var = self._ready().match_cast(value, info, name, output=True, span=span)
        return self._bind(var, name, span)

    def check(self, value: RelaxExpr, info: StructInfo, span: Span | None = None) -> None:
        """Check a value while the program runs, and bind shape variables only."""
        self._ready().emit_binding(MatchCast(None, value, info, span=span))

    def bind(self, var: Var, value: RelaxExpr) -> Var:
        """Bind a value in normal form to a variable that exists: a function that calls itself."""
        self._ready().emit_normalized(VarBinding(var, value, span=value.span))
        return self._bind(var, var.name_hint, var.span)

    def leaf(self, value: RelaxExpr, name: str = "", span: Span | None = None) -> RelaxExpr:
        """Return a value as what can stand anywhere: bound to a variable unless it is simple."""
        if isinstance(value, _SIMPLE):
            return value
        return self.emit(value, name, span=span)

    def _bind(self, var: Var, name: str, span: Span | None) -> Var:
        if span is not None:
            reset(var, "span", span)
        self.last, self.is_alias = (var, name or var.name_hint), False
        if self.flow is not None:
            self.flow.bound[id(var)] = var
        return var

    def _ready(self) -> BlockBuilder:
        if self.flow is not None and self.flow.outputs is not None:
            raise mistake(
                "SCR0031",
                "a binding comes after R.output",
                help="write R.output as the last statement of the dataflow block",
            )
        return self.scope()


_NULL: Final = "relax.null_value"
_SIMPLE = (Var, Constant, Tuple, ShapeExpr, PrimValue, StringImm, DataTypeImm, GlobalVar)


def sequence_around(frame: Frame[Any]) -> SequenceFrame:
    """Return the scope of bindings around a frame."""
    frames = IRBuilder.current().frames
    # A frame that ends is in the list no more.
    before = frames[: frames.index(frame)] if frame in frames else frames
    return next(f for f in reversed(before) if isinstance(f, SequenceFrame))


def sequence(what: str) -> SequenceFrame:
    """Return the innermost scope of bindings; ``what`` says in the error what needs it."""
    return IRBuilder.current().need(SequenceFrame, what, "write it in `with R.function():`")


class FunctionFrame(SequenceFrame):
    """A function: parameters, what it returns, attributes, bindings."""

    def __init__(self, private: bool = False, pure: bool = True, name: str | None = None) -> None:
        super().__init__()
        self.name, self.private, self.pure = name or "", private, pure
        self.params: list[Var] = []
        self.attrs: dict[str, Any] = {}
        self.ret_info: StructInfo | None = None
        self.result: RelaxExpr | None = None
        self.shape_names: dict[str, ShapeVar] = {}
        self.is_inner = False
        self.var: Var | None = None
        """What a function in a function is bound to."""

    def enter(self) -> None:
        """Bind nothing."""
        frames = IRBuilder.current().frames
        self.is_inner = any(isinstance(f, SequenceFrame) for f in frames[: frames.index(self)])

    def begin(self) -> BlockBuilder:
        """Begin the scope in the builder of the function around, or in a new one."""
        if self.is_inner:
            made = sequence_around(self).scope()
            if self.var is not None:  # it may call itself; its shape variables are others then
                made.normalizer.known.declare(self.var)
        else:
            module = IRBuilder.current().find(IRModuleFrame)
            made = BlockBuilder() if module is None else Signatures.of(module).builder
        vouched = bool(self.attrs.get("relax.force_pure"))
        made.begin_scope(self.params, pure=self.pure and not vouched)
        return made

    def _ready(self) -> BlockBuilder:
        if self.result is not None:
            raise mistake(
                "SCR0030",
                "a statement comes after the return",
                help="write the return as the last statement",
            )
        return super()._ready()

    def returns(self, value: RelaxExpr, span: Span | None = None) -> None:
        """Set what the function returns.

        Errors: SCR0030 where something was returned already, and in a dataflow block.
        """
        if self.result is not None:
            raise mistake(
                "SCR0030",
                "the function returns a second time",
                help="write one return, as the last statement",
                span=span,
            )
        if self.flow is not None:
            raise mistake(
                "SCR0030",
                "a return is inside of a dataflow block",
                help="end the block with R.output, and return after it",
                span=span,
            )
        self.result = self.leaf(value, span=span)

    def finish(self, builder: IRBuilder) -> None:
        """Make the function and give it to what stands around."""
        if self.result is None:
            self.abandon()
            raise mistake(
                "SCR0030",
                f"the function {self.name!r} returns nothing",
                help="end it with `return value`; `return ()` gives the empty tuple",
                span=self.span,
            )
        scope = self.scope()
        found = scope.struct_info_of(self.result)
        body = self.leave(self.result)
        attrs: dict[str, Any] = {}
        if not (self.is_inner or self.private) and self.name:
            attrs["global_symbol"] = self.name
        attrs.update(self.attrs)
        shapes = [n for p in self.params for n in shape_vars_bound_by(p.struct_info)]
        ret = self.ret_info or erase_to_well_defined(found, set(self.params), set(shapes))
        func = Function(tuple(self.params), body, ret, self.pure, attrs, span=self.span)
        info = scope.struct_info_of(func)
        if self.is_inner:
            around = sequence("a function")
            self.var = around.bind(self.var or Var(self.name, info, span=self.span), func)
            return
        builder.warnings += scope.warnings
        scope.warnings.clear()
        module = builder.find(IRModuleFrame)
        if module is None:
            builder.result = func
        else:
            module.add(self.name or func.name, func, self.span)
            Signatures.of(module)


class DataflowFrame(Frame["DataflowFrame"]):
    """A dataflow block: what is bound in it ends with it, but for what ``R.output`` names."""

    what = "a dataflow block"

    def __init__(self) -> None:
        self.bound: dict[int, Var] = {}
        self.outputs: dict[int, Var] | None = None
        self.owner: SequenceFrame | None = None

    def enter(self) -> DataflowFrame:
        """Open the block. Errors: SCR0031 in another dataflow block."""
        owner = sequence("R.dataflow")
        if owner.flow is not None:
            raise mistake(
                "SCR0031",
                "a dataflow block is inside of another",
                help="write one block: all its bindings are one graph",
            )
        owner.scope().begin_dataflow_block()
        owner.flow = self
        self.owner = owner
        return self

    @property
    def output_vars(self) -> tuple[Var, ...]:
        """What is seen after the block."""
        return tuple((self.outputs or {}).values())

    def output(self, given: Sequence[object]) -> None:
        """Say what is seen after the block.

        Errors: SCR0031 for what is not bound in it, or where it is said twice.
        """
        if self.outputs is not None:
            raise mistake(
                "SCR0031",
                "a dataflow block has one R.output",
                help="name all variables in one R.output(x, y)",
            )
        found: dict[int, Var] = {}
        for value in given:
            if not isinstance(value, Var) or id(value) not in self.bound:
                raise wrong_argument(
                    value,
                    f"{value.name_hint!r} is not bound in this dataflow block"
                    if isinstance(value, Var)
                    else f"R.output names variables of the block, not {describe(value)}",
                    code="SCR0031",
                    help="bind the value to a name in the block first",
                )
            found[id(value)] = value
        self.outputs = found

    def finish(self, builder: IRBuilder) -> None:
        """Close the block; what it does not give ends with it."""
        self.abandon()
        owner = self.owner
        if owner is not None:
            outputs = self.outputs or {}
            local = [var for key, var in self.bound.items() if key not in outputs]
            owner.local += local
            for var in outputs.values():
                info = var.struct_info_annotation
                if info is not None:  # what it says is said after the block too
                    known = forget_variables(info, set(local).__contains__)
                    reset(var, "struct_info_annotation", known)

    def abandon(self) -> None:
        """Close the block."""
        owner = self.owner
        if owner is not None and owner.builder is not None and owner.flow is self:
            owner.flow = None
            owner.builder.end_block()


class IfFrame(Frame["IfFrame"]):
    """A branch: ``with R.If(cond): with R.Then(): … with R.Else(): …``; ``var`` is its value."""

    what = "`with R.If(condition):`"

    def __init__(self, condition: RelaxExpr) -> None:
        self.condition = condition
        self.cases: dict[bool, tuple[SeqExpr, str]] = {}
        self.var: Var | None = None

    def enter(self) -> IfFrame:
        """Return the frame. Errors: SCR0032 in a dataflow block."""
        if sequence("R.If").flow is not None:
            raise mistake(
                "SCR0032",
                "a branch is inside of a dataflow block",
                help="end the block before it, and begin another one after it",
            )
        return self

    def finish(self, builder: IRBuilder) -> None:
        """Bind the value of the branch. Errors: SCR0032."""
        for which, word in ((True, "then"), (False, "else")):
            if which not in self.cases:
                raise mistake(
                    "SCR0032",
                    f"a branch has no {word} case",
                    help="write both cases: each ends by binding the same name",
                    span=self.span,
                )
        (yes, first), (no, second) = self.cases[True], self.cases[False]
        if first != second:
            raise mistake(
                "SCR0032",
                f"the cases of a branch end by binding {first!r} and {second!r}",
                help="bind the same name last in both: it becomes the value of the branch",
                span=self.span,
            )
        owner = sequence("R.If")
        made = If(self.condition, yes, no, span=self.span)
        said, _ = owner.said.pop(first, (None, None))
        if said is not None:
            self.var = owner.emit(made, first, said)
        else:  # its cases are in normal form
            self.var = owner.bind(Var(first, owner.scope().struct_info_of(made)), made)


class _CaseFrame(SequenceFrame):
    """One case of a branch."""

    which: bool

    def enter(self) -> None:
        """Bind nothing."""
        word = "R.Then" if self.which else "R.Else"
        IRBuilder.current().need(IfFrame, word, "write it in `with R.If(condition):`")
        self.scope()

    def finish(self, builder: IRBuilder) -> None:
        """Add the case to the branch. Errors: SCR0032 where it binds nothing."""
        owner = builder.need(IfFrame, "a case", "write it in R.If")
        if self.last is None:
            self.abandon()
            raise mistake(
                "SCR0032",
                "a case of a branch binds nothing",
                help="bind the same name last in both cases",
                span=self.span,
            )
        var, name = self.last
        made = self.leave(var)
        owner.cases[self.which] = (_drop_alias(made) if self.is_alias else made, name)


def _drop_alias(case: SeqExpr) -> SeqExpr:
    """Let a case whose last binding only names its value be that value."""
    last = case.blocks[-1]
    binding = last.bindings[-1]
    if isinstance(last, DataflowBlock) or not isinstance(binding, VarBinding):
        return case
    kept = last.bindings[:-1]
    blocks = case.blocks[:-1]
    if kept:
        blocks = (*blocks, BindingBlock(kept, span=last.span))
    return SeqExpr(blocks, binding.value, span=case.span)


class ThenFrame(_CaseFrame):
    """What is computed where the condition holds."""

    which = True


class ElseFrame(_CaseFrame):
    """What is computed where the condition does not hold."""

    which = False
