"""The semantics of graphs: a rule for each kind of node, in the words of the specification.

- Arguments, fields and bindings are evaluated from left to right; all results are passed by
  reference.
- A constant is a read-only tensor. An operator that writes to one works on a copy.
- On entry to a function its sizes are bound and its arguments checked, on exit its result is
  checked, whatever was proved before.
- Rules are generators that request the values of parts, so that programs may be deep; calls of
  functions may nest up to ``RECURSION_LIMIT``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from loomir.interp.machine import RECURSION_LIMIT
from loomir.interp.relax.boundary import (
    arrange_by_position,
    from_packed_result,
    from_python,
    to_python,
)
from loomir.interp.relax.match import (
    Matcher,
    ValueLabel,
    bind_sizes,
    concrete,
    raise_all,
    read_truth,
    require_parameter,
)
from loomir.interp.relax.sizes import Sizes
from loomir.interp.relax.values import (
    Closure,
    Environment,
    PartialApplication,
    PrimFunction,
    ProgramFunction,
    Value,
    is_packed,
    is_tensor,
    is_tuple,
    kind_number,
    scalar_of,
)
from loomir.interp.scope import refuse
from loomir.interp.tir.calls import Interpreter
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.op import Op
from loomir.ir.substitution import free_definitions
from loomir.ir.visit import Step, trampoline
from loomir.relax import faults
from loomir.relax.expr import (
    Binding,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import StructInfo
from loomir.relax.normal.signature import func_struct_info
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import OBJECT, FuncStructInfo, TupleStructInfo
from loomir.runtime.packed.packed_call import CalleeError, find_function, with_place
from loomir.runtime.shape import Shape
from loomir.support.diagnostics import RunError
from loomir.support.span import Span
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of

__all__ = ["Machine"]


class Machine:
    """Runs the functions of one program. ``operators`` implements operators.

    ``watch`` is called with each binding and its value.
    """

    def __init__(
        self,
        program: IRModule,
        operators: Callable[[Machine, Call, Sequence[Value], Environment], Step[Value]],
        *,
        track: bool = False,
        watch: Callable[[Binding, Value], None] | None = None,
    ) -> None:
        self.program = program
        self._watch = watch
        self.sizes = Sizes()
        self._operators = operators
        prims = {v: f for v, f in program.functions.items() if isinstance(f, PrimFunc)}
        self._prims = IRModule(prims)
        self._tir = Interpreter(self._prims, allow_alias=True, track=track)
        self._symbols = {
            str(f.attrs["global_symbol"]): v.name_hint
            for v, f in prims.items()
            if "global_symbol" in f.attrs
        }
        self._globals: dict[str, ProgramFunction] = {}
        self._free: dict[int, tuple[Function, tuple[Var, ...]]] = {}
        self._constants: dict[int, object] = {}
        self._depth = 0

    # -- calls from outside --------------------------------------------------------------------
    def run(self, function: ProgramFunction, args: Sequence[Value]) -> Value:
        """Call a function with values."""
        try:
            with np.errstate(all="ignore"):
                return trampoline(self.apply(function, args, None))
        except CalleeError as carrier:
            error = carrier.error
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def call_from_python(
        self, function: Any, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Value:
        """Call a function with Python values, and return a Python value.

        Errors: RUN0101, RUN0102, RUN0105 to RUN0110, and those of the call.
        """
        names = parameter_names(function)
        given = arrange_by_position(function.name, names, args, kwargs)
        taken = [from_python(value, name) for value, name in zip(given, names, strict=True)]
        returned = self.run(function, [t.value for t in taken])
        return to_python(returned, taken, self.is_constant)

    # -- values --------------------------------------------------------------------------------
    def global_value(self, name: str) -> ProgramFunction:
        """Return a function of the module as a value; the same one each time."""
        found = self._globals.get(name)
        if found is None:
            func = self.program[name]
            if isinstance(func, Function):
                found = Closure(name, func_struct_info(func), self, func, {}, {})
            elif isinstance(func, PrimFunc):
                found = PrimFunction(name, func_struct_info(func), self, func)
            else:
                refuse(f"{name!r} is not a function that graphs can call", "call another", None)
            self._globals[name] = found
        return found

    def extern(self, name: str, span: Span | None) -> Value:
        """Return a packed function: one of the module's own by its symbol, or one registered.

        Errors: RUN0304.
        """
        if name in self._symbols:
            return self.global_value(self._symbols[name])
        try:
            return find_function(name)
        except RunError as error:
            raise _at(error, span) from None

    def closure(self, node: Function, frame: Environment, own: Var | None = None) -> Closure:
        """Make a closure of a function, which may refer to itself as ``own``.

        It captures values: a variable never changes its value, so that this equals capturing by
        reference.
        """
        known = self._free.get(id(node))
        if known is None:
            free = tuple(v for v in free_definitions(node) if isinstance(v, Var))
            known = self._free[id(node)] = node, free
        values = {
            v: frame.values[v]
            for v in known[1]
            if v in frame.values and not isinstance(v, DataflowVar)
        }
        name = (
            own.name_hint if own is not None else str(node.attrs.get("global_symbol", "function"))
        )
        info = cast("FuncStructInfo", concrete(func_struct_info(node), frame))
        made = Closure(name, info, self, node, values, dict(frame.sizes))
        if own is not None:
            made.values[own] = made
        return made

    def is_constant(self, value: object) -> bool:
        """Tell whether a value is a tensor in memory of a constant."""
        while isinstance(value, np.ndarray):
            if id(cast("object", value)) in self._constants:
                return True
            value = value.base
        return False

    # -- evaluation ----------------------------------------------------------------------------
    def evaluate(self, node: Any, frame: Environment) -> Step[Value]:
        """Evaluate an expression."""
        rule = _RULES.get(node.__class__)
        if rule is None:
            refuse(
                f"{node} is not a value", "use it as what is called", getattr(node, "span", None)
            )
        return rule(self, node, frame)

    def evaluate_all(self, nodes: Sequence[Any], frame: Environment) -> Step[list[Value]]:
        """Evaluate expressions from left to right."""
        values: list[Value] = []
        for node in nodes:
            values.append((yield self.evaluate(node, frame)))
        return values

    def variable(self, node: Var, frame: Environment) -> Step[Value]:
        """Return the value of a variable."""
        yield from ()
        if node not in frame.values:
            refuse(
                f"variable {node.name_hint!r} is used where nothing binds it",
                "bind it before this place, or use another variable",
                node.span,
            )
        return frame.values[node]

    def constant(self, node: Constant, frame: Environment) -> Step[Value]:
        """Return a tensor that must not be written."""
        yield from ()
        array: Any = node.data.data
        self._constants[id(array)] = array
        return array.view()

    def tuple(self, node: Tuple, frame: Environment) -> Step[Value]:
        """Make a tuple of the fields, evaluated in order."""
        return tuple((yield self.evaluate_all(node.fields, frame)))

    def field(self, node: TupleGetItem, frame: Environment) -> Step[Value]:
        """Return the field of a tuple. Errors: RUN0401, RUN0412."""
        value = yield self.evaluate(node.tuple_value, frame)
        if not is_tuple(value):
            fault = faults.wrong_kind(node.span, "the value that a field is taken of", "a tuple")
            raise fault.error((kind_number(value),))
        if node.index >= len(value):
            raise faults.no_such_field(node.span, node.index).error((len(value),))
        return value[node.index]

    def prim_value(self, node: PrimValue, frame: Environment) -> Step[Value]:
        """Make a scalar."""
        yield from ()
        number = self.sizes.value(node.value, frame.sizes, node.span)
        return scalar_of(number, node.value.dtype)

    def shape(self, node: ShapeExpr, frame: Environment) -> Step[Value]:
        """Make a shape of extents, evaluated in order."""
        yield from ()
        sizes = frame.sizes
        return Shape([int(self.sizes.value(e, sizes, node.span)) for e in node.values])

    def immediate(self, node: StringImm | DataTypeImm, frame: Environment) -> Step[Value]:
        """Return a string or a dtype."""
        yield from ()
        return node.value

    def global_var(self, node: GlobalVar, frame: Environment) -> Step[Value]:
        """Return a function of the module."""
        yield from ()
        return self.global_value(node.name_hint)

    def extern_func(self, node: ExternFunc, frame: Environment) -> Step[Value]:
        """Return a packed function. Errors: RUN0304."""
        yield from ()
        return self.extern(node.global_symbol, node.span)

    def function(self, node: Function, frame: Environment) -> Step[Value]:
        """Make a closure."""
        yield from ()
        return self.closure(node, frame)

    def branch(self, node: If, frame: Environment) -> Step[Value]:
        """Evaluate the condition, then one branch. Errors: RUN0408."""
        value = yield self.evaluate(node.cond, frame)
        span = getattr(node.cond, "span", None) or node.span
        chosen = node.true_branch if read_truth(value, span) else node.false_branch
        return (yield self.evaluate(chosen, frame))

    def sequence(self, node: SeqExpr, frame: Environment) -> Step[Value]:
        """Evaluate bindings in order, then the body; the bindings' scope ends with it."""
        names: list[Var] = []
        sizes: list[Any] = []
        for block in node.blocks:
            inner: list[Var] = []
            for binding in block.bindings:
                if isinstance(binding, MatchCast):
                    value = yield self.evaluate(binding.value, frame)
                    value = self._cast(binding, value, frame, sizes)
                else:
                    assert isinstance(binding, VarBinding)
                    value = yield self._evaluate_bound(binding, frame)
                if binding.var is not None:
                    frame.values[binding.var] = value
                    ends = isinstance(binding.var, DataflowVar) and isinstance(block, DataflowBlock)
                    (inner if ends else names).append(binding.var)
                if self._watch is not None:
                    self._watch(binding, value)
            for var in inner:
                frame.values.pop(var, None)
        result = yield self.evaluate(node.body, frame)
        for var in names:
            frame.values.pop(var, None)
        for size in sizes:
            frame.sizes.pop(size, None)
        return result

    def _evaluate_bound(self, binding: VarBinding, frame: Environment) -> Step[Value]:
        """Evaluate the value of a binding, and check it against the variable's annotation."""
        var, node = binding.var, binding.value
        if isinstance(node, Function):
            value: Value = self.closure(node, frame, var)
        else:
            value = yield self.evaluate(node, frame)
        known = var.struct_info_annotation
        if known is not None:
            span = var.span or binding.span or getattr(node, "span", None)
            value = self.match_claim(
                value, known, ValueLabel(f"the value of {var.name_hint}", span), frame
            )
        return value

    def _cast(
        self, binding: MatchCast, value: Value, frame: Environment, bound: list[Any]
    ) -> Value:
        what = (
            "the matched value" if binding.var is None else f"the value of {binding.var.name_hint}"
        )
        matcher = Matcher(self.sizes, frame, bind=True)
        span = getattr(binding.struct_info, "span", None) or binding.span
        value = matcher.match(value, binding.struct_info, ValueLabel(what, span))
        bound += matcher.bound
        raise_all(matcher.errors)
        return value

    def match_claim(
        self,
        value: Value,
        info: StructInfo,
        place: ValueLabel,
        frame: Environment,
        claim: str | None = None,
    ) -> Value:
        """Check a value against structural information that binds nothing, claimed by ``claim``.

        Errors: RUN0401 to RUN0407.
        """
        matcher = Matcher(self.sizes, frame, lenient=claim is None, claim=claim)
        value = matcher.match(value, info, place)
        raise_all(matcher.errors)
        return value

    # -- calls ---------------------------------------------------------------------------------
    def call(self, node: Call, frame: Environment) -> Step[Value]:
        """Evaluate the callee, unless it is an operator, then the arguments; then call."""
        if isinstance(node.op, Op):
            args = yield self.evaluate_all(node.args, frame)
            return (yield self._operators(self, node, args, frame))
        function = yield self.evaluate(node.op, frame)
        args = yield self.evaluate_all(node.args, frame)
        value = yield self.apply(function, args, node.span)
        return self.check_claim(value, node, function, frame)

    def check_claim(self, value: Value, node: Call, function: Value, frame: Environment) -> Value:
        """Check the result of a call against the claim of ``sinfo_args``."""
        claims = node.sinfo_args
        if not claims:
            return value
        info = claims[0] if len(claims) == 1 else TupleStructInfo(claims)
        name = name_packed(node, function)
        place = ValueLabel(faults.result_of(name), node.span)
        return self.match_claim(value, info, place, frame, claim=name)

    def apply(self, function: Value, args: Sequence[Value], span: Span | None) -> Step[Value]:
        """Call any function. Errors: RUN0401 for a value that is no function, RUN0204."""
        if isinstance(function, Closure):
            return (yield self._enter(function, args, span))
        if isinstance(function, PartialApplication):
            return (yield self.apply(function.func, [*args, *function.bound], span))
        if isinstance(function, PrimFunction):
            self.call_prim(function, args, span)
            return ()
        if is_packed(function):
            return self.call_packed(function, args, span)
        fault = faults.wrong_kind(span, "what is called", "a function")
        raise fault.error((kind_number(function),))

    def _enter(self, closure: Closure, args: Sequence[Value], span: Span | None) -> Step[Value]:
        func, name = closure.func, closure.name
        if len(args) != len(func.params):
            raise faults.wrong_count(span, name, len(func.params)).error((len(args),))
        if self._depth > RECURSION_LIMIT:
            raise faults.recursion(span, name, RECURSION_LIMIT).error()
        frame = Environment(name, closure.values, closure.sizes)
        self._bind(func, args, frame, span)
        self._depth += 1
        try:
            result = yield self.evaluate(func.body, frame)
        finally:
            self._depth -= 1
        wanted = func.ret_struct_info
        if wanted is None:
            return result
        place = ValueLabel(
            faults.result_of(name), getattr(wanted, "span", None) or func.span or span
        )
        return self.match_claim(result, wanted, place, frame)

    def _bind(
        self, func: Function, args: Sequence[Value], frame: Environment, span: Span | None
    ) -> None:
        """Bind sizes from all parameters, then check each argument, and bind the parameters."""
        infos = [p.struct_info_annotation or OBJECT for p in func.params]
        names = [p.name_hint for p in func.params]
        for param, value in zip(func.params, args, strict=True):
            frame.values[param] = value  # a parameter may be a tensor's shape
        bind_sizes(self.sizes, frame, args, infos, names)
        matcher = Matcher(self.sizes, frame, lenient=True)
        for param, value, info in zip(func.params, args, infos, strict=True):
            place = ValueLabel(faults.argument(param.name_hint), span or param.span)
            frame.values[param] = matcher.match(value, info, place)
        raise_all(matcher.errors)

    def call_prim(
        self,
        function: PrimFunction,
        args: Sequence[Value],
        span: Span | None,
        outputs: frozenset[int] | None = None,
    ) -> None:
        """Call a loop-level function; ``outputs``: the arguments that it may write, None for all.

        Errors: RUN0008, RUN0401, RUN0402, RUN0413, RUN0415, and those of the function.
        """
        signature = signature_of(function.func, self._prims)
        if len(signature.parameters) == len(args):
            for p, value in zip(signature.parameters, args):
                require_parameter(value, p, span)
        for p, value in zip(signature.parameters, args):
            if not p.written:
                continue
            where = faults.argument(p.name)
            if outputs is not None and p.position not in outputs:
                raise faults.write_to_input(span, function.name, where).error()
            if self.is_constant(value):
                raise faults.write_to_constant(span, function.name, where).error()
            for other, second in zip(signature.parameters, args):
                if other is not p and _overlap(value, second):
                    shared = faults.argument(other.name)
                    raise faults.overlapping(span, function.name, where, shared).error()
        try:
            self._tir.call(function.name, args, {})
        except RunError as error:
            raise _at(error, span) from None
        except StopIteration as error:
            raise CalleeError(error) from None

    def call_packed(self, function: Value, args: Sequence[Value], span: Span | None) -> Value:
        """Call a packed function; its exceptions are those of the program."""
        try:
            return from_packed_result(function(*args))
        except BaseException as error:
            own = with_place(error, span)
            if own is not error:
                raise own from None
            if isinstance(error, StopIteration):
                # In a generator, as rules are, it would be misinterpreted.
                raise CalleeError(error) from None
            raise


_RULES: Final[dict[type, Callable[[Machine, Any, Environment], Step[Value]]]] = {
    Var: Machine.variable,
    DataflowVar: Machine.variable,
    Constant: Machine.constant,
    Tuple: Machine.tuple,
    TupleGetItem: Machine.field,
    PrimValue: Machine.prim_value,
    ShapeExpr: Machine.shape,
    StringImm: Machine.immediate,
    DataTypeImm: Machine.immediate,
    GlobalVar: Machine.global_var,
    ExternFunc: Machine.extern_func,
    Function: Machine.function,
    If: Machine.branch,
    SeqExpr: Machine.sequence,
    Call: Machine.call,
}


def name_packed(node: Call, function: Value) -> str:
    """Return the name of the callee for messages."""
    named = next((a for a in (node.op, *node.args[:1]) if isinstance(a, ExternFunc)), None)
    if named is not None:
        return repr(named.global_symbol)
    return str(getattr(function, "name", "") or getattr(function, "__name__", "the function"))


def parameter_names(function: ProgramFunction) -> list[str]:
    """List the names of a function's parameters."""
    if isinstance(function, Closure):
        return [p.name_hint for p in function.func.params]
    if isinstance(function, PrimFunction):
        return [p.name_hint for p in function.func.params]
    assert isinstance(function, PartialApplication)
    names = parameter_names(function.func)
    return names[: len(names) - len(function.bound)]


def _overlap(first: Value, second: Value) -> bool:
    if not is_tensor(first) or not is_tensor(second):
        return False
    return bool(first.size and second.size and np.may_share_memory(first, second))


def _at(error: RunError, span: Span | None) -> RunError:
    return type(error)(*(d.at(span) for d in error.diagnostics))
