"""The builder of programs in normal form: emit normalises, derives and binds expressions.

Every emitted value gets a variable of its own:

    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.negative(x))
            z = bb.emit_output(relax.op.negative(y))
        bb.emit_func_output(z)
    mod = bb.get()
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.relax.constants import const
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Function,
    MatchCast,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.functions import Functions
from loomir.relax.normal.normalizer import Normalizer
from loomir.relax.normal.tensor_calls import make_kernel
from loomir.relax.operator.definition import find_op
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import FuncStructInfo
from loomir.support.argument_errors import explain_methods, misfit, with_remedy
from loomir.support.diagnostics import Diagnostic
from loomir.support.span import Span
from loomir.tir.numpy_operands import is_numpy_value
from loomir.tir.rules import refuse

__all__ = ["BlockBuilder"]


class _Frame:
    """A function that is being built."""

    __slots__ = ("attrs", "depth", "name", "params", "private", "pure", "result")

    def __init__(
        self,
        name: str,
        params: tuple[Var, ...],
        attrs: Mapping[str, Any],
        pure: bool,
        private: bool,
        depth: int,
    ) -> None:
        self.name = name
        self.params = params
        self.attrs = attrs
        self.pure = pure
        self.private = private
        self.depth = depth
        self.result: GlobalVar | None = None


def _as_variables(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Write a variable for what was given as a parameter."""
    given = args[2] if len(args) > 2 else kwargs.get("params")
    items: Sequence[object] = given if type(given) in (list, tuple) and given else (given,)
    first = items[0]
    name = first if isinstance(first, str) else "x"
    return f'give variables: [relax.Var("{name}", relax.TensorStructInfo((4,), "float32"))]'


@explain_methods
class BlockBuilder:
    """Builds functions of a module, binding by binding.

    All that is emitted is brought to normal form and its structural information derived, so the
    result needs no further check. A builder keeps all state in itself; use one per thread.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.warnings: list[Diagnostic] = []
        """Warnings: checks that are made at run time, and casts that always fail."""
        self._functions = Functions(mod)
        self.normalizer = Normalizer(
            self._functions.info_of, self.warnings.append, self._functions.definition
        )
        """Does the work of the builder; passes also use it directly."""
        self._frames: list[_Frame] = []

    # -- functions -------------------------------------------------------------------------------
    def declare(self, name: str, struct_info: FuncStructInfo) -> GlobalVar:
        """Declare a function of the module before it is built, so that others may call it."""
        return self._functions.declare(name, struct_info)

    def add_func(self, func: BaseFunc, name: str) -> GlobalVar:
        """Add a function, with a number after the name if that is taken.

        A private function of TIR that the module has already is not added again.
        """
        return self._functions.add(func, name)

    def update_func(self, gv: GlobalVar, func: BaseFunc) -> None:
        """Replace a function, or define one that is only declared."""
        self._functions.update(gv, func)

    def get_unique_name(self, name: str) -> str:
        """Return a name that no function of the module has: the name, or a number after it."""
        return self._functions.free_name(name)

    @contextmanager
    @with_remedy(_as_variables)
    def function(
        self,
        name: str,
        params: Var | Sequence[Var] | None = None,
        attrs: Mapping[str, Any] | None = None,
        pure: bool = True,
        private: bool = False,
    ) -> Generator[None, None, None]:
        """Build a function in a ``with`` statement; ``emit_func_output`` ends it.

        Parameters may be passed there instead. A function that is not private is callable from
        outside by its name.
        Errors: RLX0306 where the statement ends without ``emit_func_output``.
        """
        given = self._parameters(() if params is None else params)
        options = dict(attrs or {})
        frame = _Frame(name, given, options, pure, private, len(self.normalizer.scopes))
        self._frames.append(frame)
        vouched = bool(options.get("relax.force_pure"))
        self.begin_scope(given, pure=pure and not vouched)
        try:
            yield
            if frame.result is None:
                refuse(
                    "RLX0306",
                    f"the function {name!r} has no result",
                    help="end it with bb.emit_func_output(value)",
                )
        finally:
            self._frames.remove(frame)
            self.normalizer.leave_to(frame.depth)

    def _parameters(self, params: Var | Sequence[Var]) -> tuple[Var, ...]:
        given = (params,) if isinstance(params, Var) else params
        return tuple([self.normalizer.parameter(p) for p in given])

    def emit_func_output(
        self, out: RelaxExpr | Sequence[RelaxExpr], params: Var | Sequence[Var] | None = None
    ) -> GlobalVar:
        """End the function with its result, and add it to the module.

        Errors: RLX0306 outside of a function, RLX0308 where its name is taken.
        """
        if not self._frames or self._frames[-1].result is not None:
            refuse(
                "RLX0306",
                "there is no function to end",
                help="begin one with `with bb.function(name, params):`",
            )
        if self.in_dataflow:
            refuse(
                "RLX0306",
                "the dataflow block of the function is not ended yet",
                help="write bb.emit_func_output after the block, one level further out",
            )
        frame = self._frames[-1]
        given = frame.params if params is None else self._parameters(params)
        body = self.end_scope(out)
        made = Function(given, body, None, frame.pure)
        info = self.normalizer.derive(made)
        assert isinstance(info, FuncStructInfo)
        attrs = dict(frame.attrs)
        if not frame.private:
            attrs.setdefault("global_symbol", frame.name)
        func = Function(given, body, info.ret, frame.pure, attrs)
        frame.result = self._functions.define(frame.name, func)
        return frame.result

    def get(self) -> IRModule:
        """Return the module of all functions that were added.

        Errors: RLX0307 for a function that was declared and never made.
        """
        return self._functions.module()

    def finalize(self) -> IRModule:
        """Return the module, as ``get`` does."""
        return self.get()

    # -- scopes and blocks -----------------------------------------------------------------------
    @contextmanager
    def dataflow(self) -> Generator[None, None, None]:
        """Put what is emitted in a ``with`` statement into a dataflow block."""
        self.begin_dataflow_block()
        yield
        self.end_block()

    def begin_scope(self, params: Sequence[Var] = (), *, pure: bool | None = None) -> None:
        """Begin a sequence of blocks: the body of a function, or a branch.

        ``params`` are the parameters of the function. ``pure``: whether calls must be pure; left
        out, as around.
        """
        scopes = self.normalizer.scopes
        inherited = bool(scopes and scopes[-1].pure)
        self.normalizer.enter(inherited if pure is None else pure, params)

    def end_scope(self, body: RelaxExpr | Sequence[RelaxExpr] | None = None) -> SeqExpr:
        """End a sequence, and return its blocks with a result (``()`` if none)."""
        normalizer = self.normalizer
        normalizer.open(False)
        leaf = normalizer.run(normalizer.leaf(_expression(() if body is None else body)))
        return normalizer.finish(leaf)

    def begin_binding_block(self) -> None:
        """Continue in an ordinary block."""
        self.normalizer.open(False)

    def begin_dataflow_block(self) -> None:
        """Continue in a dataflow block."""
        self.normalizer.open(True)

    def end_block(self) -> BindingBlock:
        """End the block that was begun last; what follows is in an ordinary one.

        Returns what was emitted since it began. The scope keeps it too, for ``end_scope``.
        """
        made = self.normalizer.scope.close()
        self.normalizer.open(False)
        return made

    @property
    def in_dataflow(self) -> bool:
        """Whether what is emitted goes to a dataflow block."""
        scopes = self.normalizer.scopes
        return bool(scopes) and scopes[-1].dataflow

    # -- bindings --------------------------------------------------------------------------------
    def normalize(self, expr: RelaxExpr | Sequence[RelaxExpr]) -> RelaxExpr:
        """Return a right-hand side in place of an expression; what was nested in it is emitted."""
        return self.normalizer.run(self.normalizer.value(_expression(expr)))

    def normalize_leaf(self, expr: RelaxExpr | Sequence[RelaxExpr]) -> RelaxExpr:
        """Return a leaf in place of an expression; if that is no leaf, it is emitted."""
        return self.normalizer.run(self.normalizer.leaf(_expression(expr)))

    def struct_info_of(self, expr: RelaxExpr) -> StructInfo:
        """Derive what is known of an expression in normal form."""
        return self.normalizer.derive(expr)

    def emit(self, expr: RelaxExpr | Sequence[RelaxExpr], name_hint: str = "") -> Var:
        """Bind an expression to a new variable.

        In a dataflow block the variable ends with the block.
        """
        value = self.normalize(expr)
        return self.normalizer.bind(value, name_hint)

    def emit_output(self, expr: RelaxExpr | Sequence[RelaxExpr], name_hint: str = "") -> Var:
        """Bind an expression to a new variable that is seen after the dataflow block as well."""
        value = self.normalize(expr)
        return self.normalizer.bind(value, name_hint, ordinary=True)

    def match_cast(
        self,
        value: RelaxExpr | Sequence[RelaxExpr],
        struct_info: StructInfo,
        name_hint: str = "",
        *,
        output: bool = False,
        span: Span | None = None,
    ) -> Var:
        """Check a value when the program runs, and bind it to a new variable.

        Shape variables that are extents by themselves in ``struct_info``, and not bound yet, are
        bound.
        """
        if not isinstance(struct_info, StructInfo):  # pyright: ignore[reportUnnecessaryIsInstance]
            misfit(BlockBuilder.match_cast, (self, value, struct_info), {})
        leaf = self.normalize_leaf(value)
        normalizer = self.normalizer
        var = normalizer.fresh(name_hint, struct_info, output, getattr(leaf, "span", None))
        made = normalizer.cast(MatchCast(var, leaf, struct_info, span=span or leaf.span), leaf)
        assert made is not None
        return made

    def emit_normalized(self, binding: Binding) -> None:
        """Add a binding whose value is in normal form, as it is."""
        self.normalizer.add(binding)
        if isinstance(binding, MatchCast):
            self.normalizer.known.bind_shape_vars(binding.struct_info)

    def emit_binding(self, binding: Binding) -> Var | None:
        """Add a binding, its value normalised and checked against its variable's annotation.

        Returns the variable, which is a new one if it had no annotation. What the annotation
        claims and is not certain is checked when the program runs, with a warning.
        """
        normalizer = self.normalizer
        normalizer.run(normalizer.add_binding(binding))
        var = binding.var if isinstance(binding, (VarBinding, MatchCast)) else None
        if var is None:
            return None
        renamed = normalizer.renamed.get(var, var)
        assert isinstance(renamed, Var)
        return renamed

    # -- kernels ---------------------------------------------------------------------------------
    def call_te(
        self,
        te_func: Callable[..., Any],
        *args: Any,
        primfunc_name_hint: str = "",
        primfunc_attrs: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Call:
        """Make a call of a kernel from a function of ``te.Tensor``, and add the kernel.

        The result is one tensor, or a tuple of several. Tensors among the arguments, in lists and
        tuples too, become ``te.Tensor``; shapes and scalars of known value expressions; everything
        else is passed on as it is. Errors: RLX0309 for a tensor of unknown extents, or a result
        that is not a tensor.
        """
        kernel = make_kernel(
            te_func,
            args,
            keywords,
            leaf=self.normalize_leaf,
            describe=self.normalizer.derive,
            attrs=primfunc_attrs or {},
        )
        name = primfunc_name_hint or getattr(te_func, "__name__", "kernel").strip("<>")
        gv = self.add_func(kernel.func, name)
        inputs: list[RelaxExpr] = [gv, Tuple(kernel.args)]
        if kernel.ints:
            inputs.append(ShapeExpr(kernel.ints))
        call_tir = find_op("relax.call_tir")
        assert call_tir is not None
        return Call(call_tir.op, tuple(inputs), kernel.results)

    def emit_te(self, te_func: Callable[..., Any], *args: Any, **keywords: Any) -> Var:
        """Bind the result of a kernel made by ``call_te``."""
        name = str(keywords.pop("name_hint", ""))
        return self.emit(self.call_te(te_func, *args, **keywords), name)

    def lookup_binding(self, var: Var) -> RelaxExpr | None:
        """Return the value that a variable was bound to here; None for a parameter."""
        found = self.normalizer.bound.get(var)
        return found.value if isinstance(found, (VarBinding, MatchCast)) else None


def _expression(given: RelaxExpr | Sequence[RelaxExpr]) -> RelaxExpr:
    """Return an expression; Python's tuples and lists are those of the program."""
    if isinstance(given, (tuple, list)):
        return Tuple(tuple([_expression(item) for item in given]))
    if is_numpy_value(given):
        return const(given)
    assert isinstance(given, Node)
    return given
