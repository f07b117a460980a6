"""Evaluate expressions, without Python's evaluator, over the names that a program may use.

Python runs nothing of a program. Names are those of the program, of ``T`` and ``I``, of the values
around a decorated function, and a few functions on plain values. Nested expressions do not recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, TypeAlias, cast

from loomir.ir.node import Node
from loomir.ir.visit import Step, trampoline
from loomir.script.builder.arguments import as_expr, check_index, region_of
from loomir.script.builder.dtypes import DTypeFunction
from loomir.script.builder.expressions import check_dtype
from loomir.script.builder.mistakes import mistake, with_span
from loomir.script.builder.tir.scopes import EnvThread
from loomir.script.parser import doc
from loomir.script.parser.convert import read_expression
from loomir.script.parser.evaluate.attributes import Method, attribute, item
from loomir.script.parser.evaluate.call_arguments import (
    DECLARING,
    SCOPED,
    SHAPE_PARAMETERS,
    SHAPED,
    SIZE,
    ShapeArgument,
    check_arguments,
    choose_declared_dtype,
    explain_in_kernel,
    explain_not_callable,
    is_data,
    place_dtype,
)
from loomir.script.parser.evaluate.captured_names import MISSING, literal
from loomir.script.parser.evaluate.dialect import Dialect, Expansion, Names, PoisonedValue
from loomir.script.parser.evaluate.namespaces import (
    Macro,
    ModuleFunction,
    R,
    is_exported,
    operator_of,
)
from loomir.script.parser.evaluate.operators import (
    binary,
    combine_conditions,
    format_value,
    is_expr,
    is_static,
    kind,
    refuse_too_large,
    unary,
)
from loomir.script.parser.evaluate.plain_functions import PlainFunction
from loomir.script.parser.evaluate.var_table import POISON, MutableLocal
from loomir.script.parser.places import blame, set_span
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.buffer import Buffer, BufferLoad, Range
from loomir.tir.expr import IntImm, PrimExpr

__all__ = ["ExprEvaluator"]

AnySlice: TypeAlias = "slice[Any, Any, Any]"


class ExprEvaluator:
    """Evaluates expressions of the Doc AST.

    Errors: SCR0003 to SCR0009, SCR0019 to SCR0025, and what constructors of nodes refuse, each
    placed at the smallest expression around it.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.in_shape = False
        self.may_declare = False
        self.declared_dtype: DataType = SIZE  # of the names that may be new
        self.in_data = False  # where numbers are only kept, they may be of any length
        self.statement: doc.ExprNode | None = None
        self.dialect: Dialect | None = None
        self.heads: set[doc.FunctionDef] = set()  # those that are being read for calls
        self.declares = False  # whether names in the shapes of descriptions may be new

    def evaluate_statement(self, node: doc.ExprNode) -> object:
        """Return the value of an expression that is a statement: it may be a macro's call."""
        self.statement = node
        try:
            return self.evaluate(node)
        finally:
            self.statement = None

    def evaluate(self, node: doc.ExprNode) -> object:
        """Return the value of an expression."""
        if isinstance(node, (doc.Name, doc.Constant)):
            return self._leaf(node)
        return trampoline(self._step(node))

    # -- leaves --------------------------------------------------------------------------------
    def _leaf(self, node: doc.Name | doc.Constant) -> object:
        if isinstance(node, doc.Constant):
            if isinstance(node.value, str) and self.in_shape:
                return self._read_named_shape(node)
            if type(node.value) is int and not self.in_data:
                return self._apply_at(node.span, literal, node.value)
            return node.value
        if not node.id:
            raise PoisonedValue
        value = (
            self.names.declare_shape_name(node, self.declared_dtype)
            if self.may_declare
            else self.names.lookup(node)
        )
        if value is POISON:
            raise PoisonedValue
        if isinstance(value, EnvThread) and value.var is not None:
            return value.var
        if isinstance(value, MutableLocal):
            buffer = value.buffer
            zero = IntImm(0, buffer.shape[0].dtype)
            return BufferLoad(buffer, (zero,), span=node.span)
        return value

    def _read_named_shape(self, node: doc.Constant) -> object:
        before, self.names.ignores_captured = self.names.ignores_captured, True
        try:
            return self.evaluate(read_expression(str(node.value), node.span))
        finally:
            self.names.ignores_captured = before

    # -- steps ---------------------------------------------------------------------------------
    def _step(self, node: doc.AST) -> Step[object]:
        return _STEPS[type(node)](self, node)

    def _parts(
        self, nodes: Sequence[doc.ExprNode]
    ) -> Step[tuple[list[object], list[doc.ExprNode]]]:
        """Return the values of elements, and the node of each: ``*items`` stands for several."""
        values: list[object] = []
        parts: list[doc.ExprNode] = []
        for node in nodes:
            if isinstance(node, (doc.Name, doc.Constant)):
                values.append(self._leaf(node))
            elif isinstance(node, doc.Starred):
                values += yield self._unpack_starred(node)
            else:
                values.append((yield self._step(node)))
            parts += [node] * (len(values) - len(parts))
        return values, parts

    def _unpack_starred(self, node: doc.Starred) -> Step[list[object]]:
        """Return the elements of ``*items``."""
        found = yield self.evaluate_node(node.value)
        if type(found) not in (tuple, list, range):
            raise mistake(
                "SCR0005",
                f"{kind(found)} has no elements to write out",
                help="put * before a tuple or a list, such as A.shape",
                span=node.span,
            )
        return list(cast("Sequence[object]", refuse_too_large(found)))

    def on_starred(self, node: doc.Starred) -> Step[object]:
        """Refuse ``*items`` where there is no list of elements around it."""
        raise mistake(
            "SCR0002",
            "a starred expression is not an argument or element here",
            help="write it among arguments or elements",
            span=node.span,
        )
        yield  # a step, as the others

    def on_f_string(self, node: doc.JoinedStr) -> Step[object]:
        """Evaluate an f-string of plain values."""
        words: list[str] = []
        for part in node.values:
            words.append((yield self.on_formatted(part)))
        return refuse_too_large("".join(words))

    def on_formatted(self, node: doc.Constant | doc.FormattedValue) -> Step[str]:
        """Evaluate a part of an f-string."""
        if isinstance(node, doc.Constant):
            return str(node.value)
        value = yield self.evaluate_node(node.value)
        spec = "" if node.format_spec is None else (yield self.on_f_string(node.format_spec))
        try:
            return format_value(value, node.conversion, spec)
        except CompileError as error:
            raise with_span(error, node.value.span) from error

    def evaluate_node(self, node: doc.ExprNode) -> Step[object]:
        """Evaluate a node, a leaf at once."""
        if isinstance(node, (doc.Name, doc.Constant)):
            return self._leaf(node)
        return (yield self._step(node))

    def _apply_at(self, span: Span, fn: Callable[..., object], *args: object) -> object:
        """Apply a function; its errors are placed, and so is the node that it makes."""
        try:
            made = fn(*args)
        except CompileError as error:
            raise with_span(error, span) from error
        return set_span(made, span, args)

    def on_attribute(self, node: doc.Attribute) -> Step[object]:
        """Evaluate ``value.attr``."""
        value = yield self.evaluate_node(node.value)
        if value is R and self.dialect is None and self.names.in_kernel:
            raise explain_in_kernel(f"R.{node.attr}", node.span)
        try:
            found = MISSING if self.dialect is None else self.dialect.attribute(value, node.attr)
            if found is MISSING:
                found = attribute(value, node.attr)
        except CompileError as error:
            s = node.span
            start = s.end_column - len(node.attr)  # the attribute's name ends the expression
            raise with_span(
                error, Span(s.source, s.end_line, start, s.end_line, s.end_column)
            ) from error
        if found is POISON:
            raise PoisonedValue
        return found

    def on_sequence(self, node: doc.Tuple | doc.List) -> Step[object]:
        """Evaluate a tuple or list."""
        values, _ = yield self._parts(node.elts)
        return tuple(values) if isinstance(node, doc.Tuple) else values

    def on_dict(self, node: doc.Dict) -> Step[object]:
        """Evaluate a dict."""
        made: dict[object, object] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            if key_node is None:
                raise mistake(
                    "SCR0002",
                    "** in a dict is not part of TVMScript",
                    help="write the keys and values",
                    span=value_node.span,
                )
            key = yield self.evaluate_node(key_node)
            if type(key) in (list, dict) or not (is_static(key) or isinstance(key, Node)):
                raise mistake(
                    "SCR0005",
                    f"{kind(key)} cannot be a key of a dict",
                    help="use a string, a number or a variable",
                    span=key_node.span,
                )
            was_data = self.in_data
            self.in_data = was_data or is_data(value_node)
            try:
                made[key] = yield self.evaluate_node(value_node)
            finally:
                self.in_data = was_data
        return made

    def on_slice(self, node: doc.Slice) -> Step[object]:
        """Evaluate a slice."""
        bounds: list[object] = []
        for part in (node.lower, node.upper, node.step):
            bounds.append(None if part is None else (yield self.evaluate_node(part)))
        return slice(*bounds)

    def on_subscript(self, node: doc.Subscript) -> Step[object]:
        """Evaluate an element or a region of a buffer, or an item of a plain value."""
        value = yield self.evaluate_node(node.value)
        index_nodes = node.slice.elts if isinstance(node.slice, doc.Tuple) else [node.slice]
        if not isinstance(value, Buffer):
            index = yield self.evaluate_node(node.slice)
            dialect = self.dialect
            if dialect is not None and dialect.holds(value):
                made = self._apply_at(node.span, dialect.item, value, cast("object", index))
                return dialect.make_value(made, node, (value,), (node.value,))
            if isinstance(index, slice):
                self._refuse_run_time_slice(cast("AnySlice", index), node.slice)
            return self._apply_at(node.span, item, value, cast("object", index))
        indices, index_nodes = yield self._parts(index_nodes)
        if len(indices) == 1 and type(indices[0]) in (tuple, list):  # the indices of a grid
            indices = list(cast("Sequence[object]", indices[0]))
            index_nodes = [node.slice] * len(indices)
        sliced = False
        for axis, (index, part) in enumerate(zip(indices, index_nodes, strict=True)):
            if isinstance(index, slice):
                sliced = True
                if cast("AnySlice", index).step not in (None, 1):
                    raise mistake(
                        "SCR0008",
                        "a slice of a buffer has a step",
                        help="use T.Ramp(base, stride, lanes) for elements with a stride",
                        span=part.span,
                    )
            elif isinstance(index, Range):
                sliced = True
            else:
                is_last = axis == len(indices) - 1
                self._apply_at(part.span, check_index, value, axis, index, is_last)
        return self._apply_at(node.span, region_of if sliced else _load, value, indices)

    def _refuse_run_time_slice(self, found: AnySlice, node: doc.AST) -> None:
        bounds: tuple[object, ...] = (found.start, found.stop, found.step)
        if any(is_expr(b) for b in bounds):
            raise mistake(
                "SCR0008",
                "the bounds of this slice are known only at run time",
                help="use constants; to slice at run time, use a buffer",
                span=node.span,
            )

    def on_unary(self, node: doc.UnaryOp) -> Step[object]:
        """Evaluate an operator on one operand."""
        operand = yield self.evaluate_node(node.operand)
        if self.dialect is not None and self.dialect.holds(operand):
            return self._operate(node, node.op, (operand,), (node.operand,))
        try:
            made = unary(node.op, operand)
        except CompileError as error:
            raise blame(error, node.span, (operand,), (node.operand,)) from error
        return set_span(made, node.span, (operand,))

    def _operate(
        self,
        node: doc.ExprNode,
        op: str,
        operands: tuple[object, ...],
        parts: tuple[doc.ExprNode, ...],
    ) -> object:
        """Apply an operator to values of a dialect."""
        dialect = self.dialect
        assert dialect is not None
        try:
            made = set_span(dialect.operator(op, operands), node.span, operands)
        except CompileError as error:
            raise blame(error, node.span, operands, parts) from error
        return dialect.make_value(made, node, operands, parts)

    def _is_dialect(self, *values: object) -> bool:
        return self.dialect is not None and any(map(self.dialect.holds, values))

    def on_binary(self, node: doc.BinOp) -> Step[object]:
        """Evaluate an operator on two operands."""
        left = yield self.evaluate_node(node.left)
        right = yield self.evaluate_node(node.right)
        if self._is_dialect(left, right):
            return self._operate(node, node.op, (left, right), (node.left, node.right))
        try:
            made = binary(node.op, left, right)
        except CompileError as error:
            raise blame(error, node.span, (left, right), (node.left, node.right)) from error
        return set_span(made, node.span, (left, right))

    def on_compare(self, node: doc.Compare) -> Step[object]:
        """Evaluate a comparison, or a chain of them."""
        left = yield self.evaluate_node(node.left)
        result: object = True
        for index, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = yield self.evaluate_node(right_node)
            if self._is_dialect(left, right):
                if len(node.ops) > 1:
                    raise mistake(
                        "SCR0009",
                        "a chain of comparisons has no meaning for tensors",
                        help="write two comparisons, and combine them with R.logical_and",
                        span=node.span,
                    )
                return self._operate(node, op, (left, right), (node.left, right_node))
            made = self._apply_at(node.span, binary, op, left, right)
            if index == 0:
                result = made
            elif isinstance(result, PrimExpr) or isinstance(made, PrimExpr):
                result = self._apply_at(node.span, combine_conditions, "and", result, made)
            else:
                result = result and made
            left = right
        return result

    def on_bool(self, node: doc.BoolOp) -> Step[object]:
        """Evaluate ``and`` or ``or``; a plain value that decides ends it."""
        stops = node.op == "or"  # the truth that decides
        result: object = None
        start = node
        for index, part in enumerate(node.values):
            value = yield self.evaluate_node(part)
            if self._is_dialect(value):
                raise mistake(
                    "SCR0009",
                    f"`{node.op}` has no meaning for {kind(value)}",
                    help=f"write R.logical_{node.op}(a, b)",
                    span=part.span,
                )
            if index == 0 or is_static(result):  # what stood before did not decide
                result, start = value, part
            elif not isinstance(value, bool) or value is stops:
                try:
                    made = combine_conditions(node.op, result, value)
                except CompileError as error:
                    raise blame(error, node.span, (result, value), (start, part)) from error
                result = set_span(made, node.span, (result, value))
            if is_static(result) and bool(result) is stops:
                return result
        return result

    def on_choice(self, node: doc.IfExp) -> Step[object]:
        """Evaluate ``a if c else b`` on a plain condition."""
        test = yield self.evaluate_node(node.test)
        if not is_static(test):
            raise mistake(
                "SCR0009",
                "`a if c else b` needs a condition that is known while the program is read",
                label=f"this is {kind(test)}",
                help="use T.if_then_else(c, a, b), or T.Select(c, a, b) to evaluate both"
                if self.dialect is None
                else "write `if c:` and `else:` as statements, or R.where(c, a, b)",
                span=node.test.span,
            )
        return (yield self.evaluate_node(node.body if test else node.orelse))

    # -- calls ---------------------------------------------------------------------------------
    def on_call(self, node: doc.Call) -> Step[object]:
        """Evaluate a call."""
        func = yield self.evaluate_node(node.func)
        before = self.declares
        if id(func) not in SCOPED:
            return (yield self._call_with_arguments(node, func))
        try:
            with self.names.shape_scope():
                self.declares = True
                return (yield self._call_with_arguments(node, func))
        finally:
            self.declares = before

    def _call_with_arguments(self, node: doc.Call, func: object) -> Step[object]:
        shaped = SHAPED.get(id(func))
        declaring = DECLARING.get(id(func))
        args: list[object] = []
        keywords: dict[str, object] = {}
        parts: list[doc.ExprNode] = []
        for part in node.args:
            in_shape = shaped is not None and len(args) == shaped.argument
            if isinstance(part, doc.Starred):
                args += yield self._unpack_starred(part)
            elif declaring is not None and len(args) >= declaring:
                args.append((yield self._evaluate_declaring(part)))
            else:
                dtype = choose_declared_dtype(shaped, args, keywords)
                args.append((yield self._argument(part, shaped if in_shape else None, dtype)))
            parts += [part] * (len(args) - len(parts))
        for word in node.keywords:
            if word.arg is None:
                raise mistake(
                    "SCR0002",
                    "** in a call is not part of TVMScript",
                    help="write the arguments by name",
                    span=word.span,
                )
            in_shape = shaped is not None and word.arg in SHAPE_PARAMETERS
            if declaring is None:
                dtype = choose_declared_dtype(shaped, args, keywords)
                value = yield self._argument(word.value, shaped if in_shape else None, dtype)
            else:
                value = yield self._evaluate_declaring(word.value)
            if word.arg in keywords:
                raise mistake(
                    "SCR0005",
                    f"the argument {word.arg!r} is given twice",
                    help="give it once",
                    span=word.span,
                )
            keywords[word.arg] = value
        return self._apply(node, func, args, parts, keywords)

    def _evaluate_declaring(self, node: doc.ExprNode) -> Step[object]:
        """Evaluate a description that may declare names in its shapes."""
        before, self.declares = self.declares, True
        try:
            return (yield self.evaluate_node(node))
        finally:
            self.declares = before

    def _argument(
        self, node: doc.ExprNode, shaped: ShapeArgument | None, dtype: DataType
    ) -> Step[object]:
        if shaped is None and isinstance(node, doc.Constant) and isinstance(node.value, str):
            return node.value  # what a call within a shape takes is text: a dtype, "nan"
        if shaped is None or (not shaped.texts and isinstance(node, doc.Constant)):
            return (yield self.evaluate_node(node))
        before = self.in_shape, self.may_declare, self.declared_dtype
        self.in_shape, self.declared_dtype = True, dtype
        self.may_declare = self.declares if shaped.declares is None else shaped.declares
        try:
            return (yield self.evaluate_node(node))
        finally:
            self.in_shape, self.may_declare, self.declared_dtype = before

    def _apply(
        self,
        node: doc.Call,
        func: object,
        args: list[object],
        parts: list[doc.ExprNode],
        keywords: dict[str, object],
    ) -> object:
        dialect = self.dialect
        ready = None if dialect is None else dialect.plain(func)
        if dialect is not None and (
            isinstance(func, ModuleFunction) or dialect.holds(func) or is_exported(func)
        ):
            return self._call(node, func, args, parts, keywords)
        if isinstance(func, ModuleFunction):
            if keywords:
                raise mistake(
                    "SCR0023",
                    "functions of a module take their arguments by position",
                    help="leave out the names",
                    span=node.keywords[0].span,
                )
            made = self.names.call_function(func, node, args, parts)
            return set_span(made, node.span, ())
        if isinstance(func, Macro):
            if node is not self.statement:
                raise mistake(
                    "SCR0028",
                    f"the macro {func.name!r} is called for a value",
                    label="a macro is statements, and has no value",
                    help="write the call as a statement of its own",
                    span=node.span,
                )
            return Expansion(func, node, args, keywords)
        if dialect is None and operator_of(func) is not None:
            raise explain_in_kernel(f"{func}", node.func.span)
        if ready is not None:
            target = ready
        elif isinstance(func, (PlainFunction, Method)):
            target = func.call
        elif is_exported(func) or isinstance(func, DTypeFunction):
            target = cast("Callable[..., object]", func)
        else:
            raise explain_not_callable(func, node.func.span)
        values = (*args, *keywords.values())
        given = (*parts, *(k.value for k in node.keywords))
        wanted: object = None
        if "dtype" in keywords and isinstance(target, FunctionType):
            args, keywords, wanted = place_dtype(target, args, keywords)
        if ready is None and not isinstance(func, PlainFunction):
            check_arguments(target, node, args, keywords)
        try:
            made: object = target(*args, **keywords)
            if wanted is not None:
                check_dtype(made, wanted)
        except CompileError as error:
            raise blame(error, node.span, values, given) from error
        return set_span(made, node.span, values)

    def _call(
        self,
        node: doc.Call,
        func: object,
        args: list[object],
        parts: list[doc.ExprNode],
        keywords: dict[str, object],
    ) -> object:
        """Call a function where a dialect has values of its own."""
        dialect = self.dialect
        assert dialect is not None
        values = (*args, *keywords.values())
        given = (*parts, *(k.value for k in node.keywords))
        if is_exported(func):
            check_arguments(cast("Callable[..., object]", func), node, args, keywords)
        try:
            made = set_span(dialect.call(func, args, keywords), node.span, values)
        except CompileError as error:
            raise blame(error, node.span, values, given) from error
        return dialect.make_value(made, node, (*values, func), (*given, node.func))


def _load(buffer: Buffer, indices: list[object]) -> BufferLoad:
    return BufferLoad(buffer, tuple([as_expr(index, "an index") for index in indices]))


_STEPS: Final[dict[type[Any], Callable[[ExprEvaluator, Any], Step[object]]]] = {
    doc.Name: ExprEvaluator.evaluate_node,
    doc.Constant: ExprEvaluator.evaluate_node,
    doc.Attribute: ExprEvaluator.on_attribute,
    doc.Tuple: ExprEvaluator.on_sequence,
    doc.List: ExprEvaluator.on_sequence,
    doc.Dict: ExprEvaluator.on_dict,
    doc.Slice: ExprEvaluator.on_slice,
    doc.Subscript: ExprEvaluator.on_subscript,
    doc.UnaryOp: ExprEvaluator.on_unary,
    doc.BinOp: ExprEvaluator.on_binary,
    doc.BoolOp: ExprEvaluator.on_bool,
    doc.Compare: ExprEvaluator.on_compare,
    doc.IfExp: ExprEvaluator.on_choice,
    doc.Call: ExprEvaluator.on_call,
    doc.Starred: ExprEvaluator.on_starred,
    doc.JoinedStr: ExprEvaluator.on_f_string,
}
