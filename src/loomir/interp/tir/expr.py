"""Semantics of expressions: a table of node classes, each of which becomes a closure.

Operands are evaluated from left to right. Every index is checked against its buffer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from loomir.interp.arithmetic import (
    exact_function,
    exact_shift,
    needs_guard,
    wrapper,
)
from loomir.interp.exact_memory import load
from loomir.interp.integers import integer_code
from loomir.interp.lanes import lanewise
from loomir.interp.machine import (
    RESULT,
    Code,
    EarlyReturn,
    Environment,
    call_function,
    choose_branch,
    read_then,
    strict,
)
from loomir.interp.memory import View, finder, view_at
from loomir.interp.scope import Scope, refuse
from loomir.interp.tir.calls_out import call_out
from loomir.interp.tir.vector_builtins import SPECIAL
from loomir.interp.values import Pointer, Value, decoder
from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Effect, Op
from loomir.ir.visit import children
from loomir.runtime.fault import Fault
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.calls import OUTSIDE, PACKED
from loomir.tir.builtins.table import ADDRESS_OF, TVM_ACCESS_PTR
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    Eq,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from loomir.tir.faults import fault

__all__ = ["compile_expr", "compile_outside", "find_view"]

Maker: TypeAlias = Callable[[Any, list[Code], Scope], Code]


def compile_expr(root: PrimExpr, scope: Scope) -> Code:
    """Compile an expression; ``scope`` has its names.

    Errors: TIR0401 for a name that is not bound here.
    """
    done: dict[int, Code] = {}
    stack: list[tuple[Any, list[Node] | None]] = [(root, None)]
    while stack:
        node, parts = stack.pop()
        if parts is not None:
            if node.__class__ is _Binding:
                scope.bind(node.var)
                continue
            codes = [done[id(part)] for part in parts]
            done[id(node)] = _MAKERS[node.__class__](node, codes, scope)
            if node.__class__ is Let:
                scope.unbind(node.var)
        elif node.__class__ is Var:  # again, since it may have been bound in between
            done[id(node)] = _var(node, [], scope)
        elif id(node) not in done:
            parts = _parts(node)
            stack.append((node, parts))
            if node.__class__ is Let:
                stack += [(node.body, None), (_Binding(node.var), []), (node.value, None)]
            else:
                stack += [(part, None) for part in reversed(parts)]
    return done[id(root)]


class _Binding(NamedTuple):
    """The binding of a name, which takes place between its value and its body."""

    var: Var


def _parts(node: Node) -> list[Node]:
    """List the parts that are evaluated before a node."""
    if isinstance(node, Call) and isinstance(node.op, Op):
        if node.op.effect is Effect.EMBED_INFO:
            return []
        if node.op is ADDRESS_OF:
            return children(node.args[0])
        if node.op is TVM_ACCESS_PTR:
            return list(node.args[1:3])
    return children(node)


def _constant(value: Value) -> Code:
    return Code(lambda env: value)


def _lanes(function: Callable[..., Any], dtype: DataType) -> Callable[..., Any]:
    """Apply a function of scalars to each lane."""
    if not dtype.is_vector:
        return function

    def apply_to_lanes(*operands: Any) -> Value:
        return tuple(map(function, *operands))

    return apply_to_lanes


# -- names, constants, operators -----------------------------------------------------------------
def _var(node: Var, parts: list[Code], scope: Scope) -> Code:
    slot = scope.slot(node)
    return Code(operator.itemgetter(slot), slot=slot)


def _int(node: IntImm, parts: list[Code], scope: Scope) -> Code:
    value = node.value
    return _constant(bool(value)) if node.dtype.is_bool else Code(lambda env: value, constant=value)


def _float(node: FloatImm, parts: list[Code], scope: Scope) -> Code:
    return _constant(scope.numbers.constant(node.value, node.dtype))


def _string(node: StringImm, parts: list[Code], scope: Scope) -> Code:
    return _constant(node.value)


def _binary(node: Any, parts: list[Code], scope: Scope) -> Code:
    dtype: DataType = node.a.dtype
    kind: type = node.__class__
    code = integer_code(kind, dtype, *parts, exact=scope.exact)
    if code is not None:
        return code
    if scope.exact:
        function = _lanes(exact_function(kind, dtype), dtype)
    else:
        function = scope.numbers.binary(kind, dtype)
        if dtype.is_vector:
            function = lanewise(kind, dtype, function, exact=scope.numbers.exact)
    if needs_guard(kind, dtype):
        function = _guard(function, fault("zero_division", node.span, operator=kind.__name__))
    return strict(parts, function)


def _guard(function: Callable[..., Value], by_zero: Fault) -> Callable[..., Value]:
    def guard(a: Value, b: Value) -> Value:
        try:
            return function(a, b)
        except ZeroDivisionError:
            raise by_zero.error() from None

    return guard


def _cast(node: Cast, parts: list[Code], scope: Scope) -> Code:
    if node.dtype.is_handle:
        return parts[0]
    convert = scope.numbers.conversion(node.value.dtype, node.dtype)
    return strict(parts, _lanes(convert, node.dtype))


def _not(node: Not, parts: list[Code], scope: Scope) -> Code:
    return strict(parts, _lanes(operator.not_, node.dtype))


def _evaluate_both(a: bool, b: bool) -> bool:
    return a and b


def _evaluate_either(a: bool, b: bool) -> bool:
    return a or b


def _and(node: And, parts: list[Code], scope: Scope) -> Code:
    if node.dtype.is_vector:
        return strict(parts, _lanes(_evaluate_both, node.dtype))
    other, decided = parts[1], _constant(False)
    return choose_branch(parts[0], lambda env, a: other if a else decided, parts[1:])


def _or(node: Or, parts: list[Code], scope: Scope) -> Code:
    if node.dtype.is_vector:
        return strict(parts, _lanes(_evaluate_either, node.dtype))
    other, decided = parts[1], _constant(True)
    return choose_branch(parts[0], lambda env, a: decided if a else other, parts[1:])


def _pick(c: bool, t: Value, f: Value) -> Value:
    return t if c else f


def _select(node: Select, parts: list[Code], scope: Scope) -> Code:
    if node.condition.dtype.is_vector:
        return strict(parts, _lanes(_pick, node.dtype))
    return strict(parts, _pick)


def _let(node: Let, parts: list[Code], scope: Scope) -> Code:
    value, body = parts
    slot = scope.slot(node.var)

    def bind(env: Environment, v: Value) -> Code:
        env[slot] = v
        return body

    return choose_branch(value, bind, [body])


# -- vectors -----------------------------------------------------------------------------------
def _ramp(node: Ramp, parts: list[Code], scope: Scope) -> Code:
    wrap, count = wrapper(node.base.dtype), node.lanes

    def ramp(base: int, step: int) -> Value:
        end = base + (count - 1) * step
        # Then all in between do not wrap either.
        if step and wrap(base) == base and wrap(end) == end:
            return range(base, end + (1 if step > 0 else -1), step)
        return tuple([wrap(base + i * step) for i in range(count)])

    return strict(parts, ramp)


def _broadcast(node: Broadcast, parts: list[Code], scope: Scope) -> Code:
    lanes = node.lanes

    def repeat(value: Value) -> Value:
        return (value,) * lanes

    return strict(parts, repeat)


def _shuffle(node: Shuffle, parts: list[Code], scope: Scope) -> Code:
    picks = [i.value for i in node.indices if isinstance(i, IntImm)]
    vectors = node.vectors

    def pick(*values: Value) -> Value:
        lanes: list[Any] = []
        for vector, value in zip(vectors, values, strict=True):
            lanes += value if vector.dtype.is_vector else (value,)
        return tuple(lanes[i] for i in picks) if len(picks) > 1 else lanes[picks[0]]

    return strict(parts[: len(vectors)], pick)


# -- memory ------------------------------------------------------------------------------------
def find_view(buffer: Buffer, scope: Scope, span: Span | None) -> Callable[[Environment], View]:
    """Return the function that finds a buffer's view, or makes one if only its data is in scope."""
    slot = scope.buffer_slot(buffer)
    if slot is not None:
        return operator.itemgetter(slot)
    if not scope.knows(buffer.data):
        refuse(
            f"buffer {buffer.name!r} is used where nothing declares it",
            "declare it with T.alloc_buffer or T.decl_buffer around this place",
            span,
        )
    pointer = scope.slot(buffer.data)
    numbers = [*buffer.shape, *buffer.strides]
    if buffer.elem_offset is not None:
        numbers.append(buffer.elem_offset)
    runs = [compile_expr(e, scope).run for e in numbers]
    rank, trackers = len(buffer.shape), scope.trackers

    def make(env: Environment) -> View:
        values = [r(env) for r in runs]
        offset = values[-1] if buffer.elem_offset is not None else 0
        strides = values[rank : rank + len(buffer.strides)]
        return view_at(
            env[pointer], buffer.dtype, values[:rank], strides, offset, buffer.name, trackers
        )

    return make


def _load(node: BufferLoad, parts: list[Code], scope: Scope) -> Code:
    view_in, span = find_view(node.buffer, scope, node.span), node.span
    many = bool(node.indices) and node.indices[-1].dtype.is_vector
    if scope.numbers.exact:
        return read_then(parts, load(view_in, span, node.buffer.dtype, len(parts), lanes=many))
    if many:
        return read_then(parts, _load_lanes(view_in, span, node.buffer.dtype))
    decode, find = decoder(node.buffer.dtype), finder(len(parts))

    def load_element(env: Environment, i: int) -> Value:
        view = view_in(env)
        if view.direct:
            low, high, stride = view.bounds
            if low <= i < high:
                cell = view.cells[view.start + i * stride]
                return cell if decode is None else decode(cell)
        return view.read((i,), span)

    def two(env: Environment, i: int, j: int) -> Value:
        view = view_in(env)
        if view.direct:
            low, high, stride, floor, top, step = view.bounds
            if low <= i < high and floor <= j < top:
                cell = view.cells[view.start + i * stride + j * step]
                return cell if decode is None else decode(cell)
        return view.read((i, j), span)

    def any_rank(env: Environment, *indices: int) -> Value:
        view = view_in(env)
        if view.direct:
            at = find(view, *indices)
            if at >= 0:
                cell = view.cells[at]
                return cell if decode is None else decode(cell)
        return view.read(indices, span)

    return read_then(parts, {1: load_element, 2: two}.get(len(parts), any_rank))


def _load_lanes(
    view_in: Callable[[Environment], View], span: Span | None, dtype: DataType
) -> Callable[..., Value]:
    decode = decoder(dtype)

    def load(env: Environment, *indices: Any) -> Value:
        view = view_in(env)
        places = view.places(indices) if view.direct else None
        if places is not None:
            cells = view.gather(places)
            return tuple(cells) if decode is None else tuple(map(decode, cells))
        lanes: list[Any] = []
        for last in indices[-1]:
            view.locate((*indices[:-1], last), span)
        for last in indices[-1]:
            value = view.read((*indices[:-1], last), span)
            lanes += value if view.dtype.is_vector else (value,)
        return tuple(lanes)

    return load


# -- calls -------------------------------------------------------------------------------------
def _call(node: Call, parts: list[Code], scope: Scope) -> Code:
    if isinstance(node.op, GlobalVar):
        operands = [_argument(arg, code, scope) for arg, code in zip(node.args, parts, strict=True)]
        return call_function(operands, node.op.name_hint, node.span)
    assert isinstance(node.op, Op)
    if node.op in OUTSIDE:
        return compile_outside(node, parts, scope, node.dtype)
    name = node.op.name.removeprefix("tir.")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(node, parts, scope)
    dtype = node.args[0].dtype
    function = scope.numbers.builtin(name, dtype)
    if scope.exact and name == "shift_left" and dtype.is_int and dtype.bits == 64:
        function = exact_shift(function, dtype.bits)
    return strict(parts, _lanes(function, dtype))


def compile_outside(node: Call, parts: list[Code], scope: Scope, returns: DataType | None) -> Code:
    """Compile a call of a function outside the program; None drops its result."""
    if node.op in PACKED:
        parts = [_argument(arg, code, scope) for arg, code in zip(node.args, parts, strict=True)]
    return call_out(node, parts, returns, exact=scope.numbers.exact)


def _argument(arg: PrimExpr, code: Code, scope: Scope) -> Code:
    """Pass the data of a buffer as the whole buffer, with its shape."""
    if isinstance(arg, Var) and arg.dtype.is_handle:
        buffer = scope.buffer_of(arg)
        if buffer is not None:
            return Code(find_view(buffer, scope, arg.span))
    return code


def _if_then_else(node: Call, parts: list[Code], scope: Scope) -> Code:
    _, yes, no = parts
    return choose_branch(parts[0], lambda env, c: yes if c else no, parts[1:])


def _address_of(node: Call, parts: list[Code], scope: Scope) -> Code:
    element = node.args[0]
    assert isinstance(element, BufferLoad)
    view_in, span = find_view(element.buffer, scope, node.span), node.span

    def address(env: Environment, *indices: int) -> Pointer:
        return view_in(env).address(indices, span)

    return read_then(parts, address)


def _check_index(node: Call, parts: list[Code], scope: Scope) -> Code:
    name, axis = node.args[2], node.args[3]
    outside = fault(
        "index",
        node.span,
        buffer=name.value if isinstance(name, StringImm) else "a buffer",
        axis=axis.value if isinstance(axis, IntImm) else 0,
    )

    def check(index: Any, extent: Any) -> Value:
        many = node.args[0].dtype.is_vector
        extents = extent if node.args[1].dtype.is_vector else (extent,) * node.args[0].dtype.lanes
        for i, limit in zip(index if many else (index,), extents, strict=True):
            if not 0 <= i < limit:
                raise outside.error((i, limit))
        return index

    return strict(parts[:2], check)


def _check(node: Call, parts: list[Code], scope: Scope) -> Code:
    row, buffer, what = [a.value if isinstance(a, StringImm) else "" for a in node.args[1:4]]
    broken = fault(row, node.span, buffer=buffer, what=what)

    def check(holds: bool, *values: int) -> Value:
        if not holds:
            raise broken.error(values)
        return holds

    return strict([parts[0], *parts[4:]], check)


def _compile_watched(node: Call, parts: list[Code], scope: Scope) -> Code:
    """Compile only the value: the interpreter watches memory itself."""
    return parts[0]


def _compile_unwatched(node: Call, parts: list[Code], scope: Scope) -> Code:
    return _constant(0)


def _return(node: Call, parts: list[Code], scope: Scope) -> Code:
    def leave(env: Environment, value: Value) -> Value:
        env[RESULT] = value
        raise EarlyReturn

    return read_then(parts, leave)


def _loop_jump(node: Call, parts: list[Code], scope: Scope) -> Code:
    refuse(
        "break or continue stands inside an expression",
        "make it a statement of its own",
        node.span,
    )


def _make_shape(node: Call, parts: list[Code], scope: Scope) -> Code:
    return strict(parts, lambda *extents: extents)


def _make_array(node: Call, parts: list[Code], scope: Scope) -> Code:
    dtype, trackers = node.args[4].dtype, scope.trackers

    def make(
        data: Pointer,
        shape: Sequence[int],
        strides: Sequence[int],
        rank: int,
        element: Value,
        offset: int,
    ) -> View:
        return view_at(data, dtype, shape, strides, offset, "an array", trackers)

    return strict(parts, make)


_SPECIAL: Final[dict[str, Callable[[Call, list[Code], Scope], Code]]] = {
    **SPECIAL,
    "if_then_else": _if_then_else,
    "check": _check,
    "address_of": _address_of,
    "checked_index": _check_index,
    "watch_read": _compile_watched,
    **dict.fromkeys(
        (
            "watch_escape",
            "watch_start",
            "watch_loop",
            "watch_iteration",
            "watch_memory",
            "watch_write",
        ),
        _compile_unwatched,
    ),
    "ret": _return,
    "break_loop": _loop_jump,
    "continue_loop": _loop_jump,
    "tvm_stack_make_shape": _make_shape,
    "tvm_stack_make_array": _make_array,
}

_MAKERS: Final[dict[type, Maker]] = {
    Var: _var,
    IntImm: _int,
    FloatImm: _float,
    StringImm: _string,
    Cast: _cast,
    Select: _select,
    BufferLoad: _load,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Let: _let,
    Call: _call,
    Shuffle: _shuffle,
    And: _and,
    Or: _or,
    Not: _not,
    **dict.fromkeys(
        (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, Eq, NE, LT, LE, GT, GE), _binary
    ),
}
