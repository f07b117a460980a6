"""Operations on tensors: placeholders, computations, and calls of other code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from typing_extensions import override

from loomir.ir.equality import structural_equal
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import children, post_order
from loomir.support.caller_span import located, user_span
from loomir.support.diagnostics import with_count
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.te.reduction import Reduce, ReduceAxis, as_tuple
from loomir.te.shape_and_dtype import read_dtype, read_shape
from loomir.te.tensor import Operation, Tensor, TensorLoad
from loomir.tir.analysis.control_flow import may_return
from loomir.tir.buffer import Buffer, decl_buffer
from loomir.tir.equality_op import Equality
from loomir.tir.expr import ExprLike, IntImm, PrimExpr, Var, convert
from loomir.tir.function import PrimFunc
from loomir.tir.rules import refuse
from loomir.tir.signature import Parameter, signature_of
from loomir.tir.stmt import Evaluate, Stmt

__all__ = [
    "ComputeOp",
    "ExternOp",
    "Operation",
    "PlaceholderOp",
    "PrimFuncOp",
    "ScanOp",
    "compute",
    "extern",
    "extern_primfunc",
    "placeholder",
    "scan",
    "size_var",
    "var",
]

Shape: TypeAlias = ExprLike | Sequence[ExprLike]


# -- what there is -----------------------------------------------------------------------------
@dataclass(eq=False, kw_only=True, repr=False)
class PlaceholderOp(Operation):
    """A tensor that the caller gives."""


@dataclass(eq=False, kw_only=True, repr=False)
class ComputeOp(Operation):
    """Elements by formula: ``body`` gives one expression for each output, over ``axis``."""

    axis: tuple[Var, ...]
    body: tuple[PrimExpr, ...]

    @property
    def reduce_axis(self) -> tuple[ReduceAxis, ...]:
        """The axes that the bodies reduce over."""
        first = self.body[0]
        return first.axis if isinstance(first, Reduce) else ()

    @override
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(load.tensor for e in self.body for load in loads_in(e)))


@dataclass(eq=False, kw_only=True, repr=False)
class ExternOp(Operation):
    """Elements by a statement on buffers that stand for the inputs and outputs."""

    sources: tuple[Tensor, ...]
    input_buffers: tuple[Buffer, ...]
    output_buffers: tuple[Buffer, ...]
    body: Stmt

    @override
    def inputs(self) -> tuple[Tensor, ...]:
        return self.sources


@dataclass(eq=False, kw_only=True, repr=False)
class PrimFuncOp(Operation):
    """Elements by a function of TIR."""

    sources: tuple[Tensor, ...]
    func: PrimFunc
    input_buffers: tuple[Buffer, ...]
    output_buffers: tuple[Buffer, ...]
    sizes: Mapping[Var, PrimExpr]

    @override
    def inputs(self) -> tuple[Tensor, ...]:
        return self.sources


@dataclass(eq=False, kw_only=True, repr=False)
class ScanOp(Operation):
    """Elements by recurrence along the first axis: ``init``, then ``update`` of the states."""

    init: tuple[Tensor, ...]
    update: tuple[Tensor, ...]
    state: tuple[Tensor, ...]
    sources: tuple[Tensor, ...]

    @override
    def inputs(self) -> tuple[Tensor, ...]:
        return (*self.init, *self.sources)


def loads_in(expr: PrimExpr) -> Iterator[TensorLoad]:
    """List the elements that an expression reads."""
    for part in post_order(expr):
        if isinstance(part, TensorLoad):
            yield part


# -- sizes -------------------------------------------------------------------------------------
def var(name: str = "n", dtype: str | DataType = "int32") -> Var:
    """Make a variable, such as a symbolic size or a scalar argument."""
    return Var(name, DataType(str(dtype)), span=user_span())


def size_var(name: str = "n", dtype: str | DataType = "int32") -> Var:
    """Make a symbolic size; sizes are 0 or more."""
    return var(name, dtype)


# -- operations --------------------------------------------------------------------------------
def placeholder(
    shape: Shape, dtype: str | DataType = "float32", name: str = "placeholder"
) -> Tensor:
    """Declare a tensor that the caller passes. Errors: TE0006."""
    span = user_span()
    op = PlaceholderOp(name=name, span=span)
    made = Tensor(
        name, read_dtype(shape, dtype, span), read_shape(shape, name, span), op, span=span
    )
    op.outputs = (made,)
    return made


_MANY_NAMES: Final = "i"
_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def compute(
    shape: Shape,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Compute a tensor by formula: ``fcompute(i, j, ...)`` gives the element at ``[i, j, ...]``.

    A tuple of expressions gives as many tensors.
    Errors: TE0005 for a reduction inside of another expression, TE0006 for a shape of other than
    integers, TE0007 for a formula of another number of indices or that gives no expression.
    """
    span = user_span()
    extents = read_shape(shape, name, span)
    names = _index_names(fcompute, len(extents), name, span)
    axis = tuple(Var(n, e.dtype) for n, e in zip(names, extents, strict=True))
    with located():
        value: Any = fcompute(*axis)
        body = tuple(_expression(v, name) for v in as_tuple(value))
    _check_reductions(body, name, span)
    options = dict(attrs or {})
    if tag:
        options["tag"] = tag
    op = ComputeOp(name=name, attrs=options, span=span, axis=axis, body=body)
    outputs = _outputs(op, [(extents, e.dtype) for e in body], span)
    op.outputs = outputs
    return outputs if isinstance(value, (tuple, list)) else outputs[0]


def _outputs(
    op: Operation, kinds: Sequence[tuple[tuple[PrimExpr, ...], DataType]], span: Span | None
) -> tuple[Tensor, ...]:
    several = len(kinds) > 1
    return tuple(
        Tensor(f"{op.name}_v{i}" if several else op.name, dtype, shape, op, i, span=span)
        for i, (shape, dtype) in enumerate(kinds)
    )


def _index_names(
    fcompute: Callable[..., Any], ndim: int, name: str, span: Span | None
) -> list[str]:
    """Take the names of indices from the formula's parameters; ``*indices`` takes any number."""
    names: list[str] = []
    rest = False
    for parameter in inspect.signature(fcompute).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            rest = True
        elif parameter.kind in _POSITIONAL and (
            # What has a default beyond the axes is the formula's own business.
            parameter.default is inspect.Parameter.empty or len(names) < ndim
        ):
            names.append(parameter.name)
    if rest:
        names += [f"{_MANY_NAMES}{k}" for k in range(len(names), ndim)]
    if len(names) != ndim:
        refuse(
            "TE0007",
            f"the formula of {name!r} takes {with_count(len(names), 'index', 'indices')}, its "
            f"shape has {with_count(ndim, 'axis', 'axes')}",
            help="take one index per axis, or *indices",
            span=span,
        )
    return names


def _expression(value: Any, name: str) -> PrimExpr:
    if isinstance(value, (PrimExpr, Equality, int, float)):
        return convert(value)
    what = "a whole tensor" if isinstance(value, Tensor) else f"a {type(value).__name__}"
    refuse(
        "TE0007",
        f"the formula of {name!r} gives {what}, not an expression",
        help="give the element at the indices, as in A[i, j] + 1"
        if isinstance(value, Tensor)
        else "give an expression, a number, or a tuple of them",
    )


def _check_reductions(body: tuple[PrimExpr, ...], name: str, span: Span | None) -> None:
    first = body[0]
    over: tuple[ReduceAxis, ...] = first.axis if isinstance(first, Reduce) else ()
    parts = [p for e in body for p in (children(e) if isinstance(e, Reduce) else [e])]
    inside = [n for part in parts for n in post_order(part)]
    for found in inside:
        if isinstance(found, Reduce):
            refuse(
                "TE0005",
                f"{name!r} has a reduction inside of another expression",
                help="compute the reduction as a tensor of its own, and use its elements: "
                "s = te.compute(...), and s[i] here",
                span=found.span or span,
            )
    for found in inside:
        if isinstance(found, ReduceAxis) and found not in over:
            refuse(
                "TE0003",
                f"{name!r} uses axis {found.name_hint!r}, over which it does not reduce",
                help=f"reduce over it, as in te.sum(..., axis={found.name_hint})",
                span=span,
            )
    if any(isinstance(e, Reduce) for e in body) and not _are_one_reduction(body):
        refuse(
            "TE0005",
            f"the outputs of {name!r} are not those of one reduction",
            help="give what one comm_reducer made, whole and in order, or compute them separately",
            span=span,
        )


def _are_one_reduction(body: tuple[PrimExpr, ...]) -> bool:
    first = body[0]
    if not isinstance(first, Reduce) or len(first.source) != len(body):
        return False
    return all(
        isinstance(e, Reduce) and e.combiner is first.combiner and e.value_index == number
        for number, e in enumerate(body)
    )


def extern(
    shape: Shape | Sequence[Shape],
    inputs: Sequence[Tensor],
    fcompute: Callable[[Sequence[Buffer], Sequence[Buffer]], Stmt | PrimExpr],
    name: str = "extern",
    dtype: str | DataType | Sequence[str | DataType] | None = None,
    in_buffers: Sequence[Buffer] | None = None,
    out_buffers: Sequence[Buffer] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Compute tensors by a statement: ``fcompute(ins, outs)`` on buffers gives it, or a call.

    ``shape``: one, or a list of shapes for several outputs. ``dtype``: that of the first input
    where it is left out. Errors: TE0006, TE0008 for what fits neither.
    """
    span = user_span()
    shapes = _shapes(shape, name, span)
    dtypes = _dtypes(dtype, len(shapes), inputs, name, span)
    for tensor in inputs:
        if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            refuse(
                "TE0008",
                f"an input of {name!r} is a {type(tensor).__name__}",
                help="give tensors of te.placeholder or te.compute",
                span=span,
            )
    kinds = [(t.shape, t.dtype) for t in inputs]
    ins = _stand_ins(in_buffers, kinds, [t.name for t in inputs], name, span)
    kinds = list(zip(shapes, dtypes, strict=True))
    outs = _stand_ins(out_buffers, kinds, [name] * len(kinds), name, span)
    with located():
        body = fcompute(ins, outs)
    if isinstance(body, PrimExpr):
        body = Evaluate(body)
    if not isinstance(body, Stmt):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse(
            "TE0008",
            f"the body of {name!r} is a {type(body).__name__}",
            help="give a statement of TIR, or a call such as T.call_packed(...)",
            span=span,
        )
    options = {**(attrs or {}), **({"tag": tag} if tag else {})}
    op = ExternOp(
        name=name,
        attrs=options,
        span=span,
        sources=tuple(inputs),
        input_buffers=ins,
        output_buffers=outs,
        body=body,
    )
    outputs = _outputs(op, list(zip(shapes, dtypes, strict=True)), span)
    op.outputs = outputs
    return outputs[0] if len(outputs) == 1 else outputs


Kind: TypeAlias = tuple[tuple[PrimExpr, ...], DataType]


def _stand_ins(
    given: Sequence[Buffer] | None,
    kinds: Sequence[Kind],
    names: Sequence[str],
    name: str,
    span: Span | None,
) -> tuple[Buffer, ...]:
    """Return the buffers that stand for tensors in the statement of an extern."""
    if given is None:
        return tuple(decl_buffer(s, d, n) for (s, d), n in zip(kinds, names, strict=True))
    fits = len(given) == len(kinds) and all(
        b.dtype is d and len(b.shape) == len(s) and not b.strides and b.elem_offset is None
        for b, (s, d) in zip(given, kinds, strict=True)
    )
    if not fits:
        wanted = ", ".join(
            f"{n}: {d} of {with_count(len(s), 'axis', 'axes')}" for n, (s, d) in zip(names, kinds)
        )
        refuse(
            "TE0008",
            f"the buffers given to {name!r} do not stand for its tensors",
            notes=(f"the tensors are {wanted}",),
            help="declare one compact buffer for each, with its dtype and number of axes",
            span=span,
        )
    bound: dict[Var, PrimExpr] = {}
    for buffer, (shape, _) in zip(given, kinds, strict=True):
        _unify(buffer, shape, bound, name, span)
    return tuple(given)


def _unify(
    buffer: Buffer,
    shape: tuple[PrimExpr, ...],
    bound: dict[Var, PrimExpr],
    name: str,
    span: Span | None,
) -> None:
    """Bind symbolic sizes of a buffer to those of the tensor that it stands for."""
    for inner, outer in zip(buffer.shape, shape, strict=True):
        if isinstance(inner, Var):
            bound.setdefault(inner, outer)
    for axis, (inner, outer) in enumerate(zip(buffer.shape, shape, strict=True)):
        made = substitute(inner, bound)
        if is_same_size(made, outer):
            continue
        refuse(
            "TE0008",
            f"axis {axis} of {buffer.name!r} in {name!r} has extent {made}, but the tensor {outer}",
            help="give tensors of the shapes that it takes",
            span=span,
        )


def is_same_size(a: PrimExpr, b: PrimExpr) -> bool:
    """Tell whether two extents are the same number or formula."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return structural_equal(a, b)


def _shapes(shape: Any, name: str, span: Span | None) -> list[tuple[PrimExpr, ...]]:
    given = as_tuple(shape)
    several = isinstance(shape, (tuple, list)) and given and isinstance(given[0], (tuple, list))
    shapes: list[Any] = list(given) if several else [cast("Any", shape)]
    return [read_shape(s, name, span) for s in shapes]


def _dtypes(
    dtype: Any, count: int, inputs: Sequence[Tensor], name: str, span: Span | None
) -> list[DataType]:
    if dtype is None and inputs:
        return [inputs[0].dtype] * count
    given = as_tuple(dtype) if isinstance(dtype, (tuple, list)) else [dtype] * count
    if dtype is None or len(given) != count:
        refuse(
            "TE0008",
            f"{name!r} has {with_count(count, 'output')}, but "
            + ("no dtype" if dtype is None else with_count(len(given), "dtype")),
            help="give dtype=, one for each output",
            span=span,
        )
    return [DataType(str(d)) for d in given]


def extern_primfunc(
    input_tensors: Sequence[Tensor], primfunc: PrimFunc, name: str | None = None
) -> Any:
    """Compute tensors by a function: the arrays that it writes are outputs, the others inputs.

    Errors: TE0008 where the inputs are not those that it takes.
    """
    span = user_span()
    label = name or primfunc.name
    parameters = signature_of(primfunc).parameters
    _check_function(primfunc, parameters, label, span)
    ins = tuple(p.buffer for p in parameters if not p.written and p.buffer is not None)
    outs = tuple(p.buffer for p in parameters if p.written and p.buffer is not None)
    given = [(t.dtype, t.ndim) for t in input_tensors]
    if given != [(b.dtype, len(b.shape)) for b in ins]:
        takes = ", ".join(
            f"{b.name}: {b.dtype} of {with_count(len(b.shape), 'axis', 'axes')}" for b in ins
        )
        refuse(
            "TE0008",
            f"{label!r} does not take these inputs",
            notes=(f"it takes {takes or 'none'}",),
            help="give one tensor for each array that it only reads, in order",
            span=span,
        )
    bound: dict[Var, PrimExpr] = {}
    for buffer, tensor in zip(ins, input_tensors, strict=True):
        _unify(buffer, tensor.shape, bound, label, span)
    shapes = [tuple(substitute(e, bound) for e in b.shape) for b in outs]
    unknown = [v for b in outs for e in b.shape for v in free_definitions(e) if v not in bound]
    if unknown:
        refuse(
            "TE0008",
            f"no input of {label!r} tells its size {unknown[0]}",
            help="use a function whose output sizes are sizes of inputs",
            span=span,
        )
    op = PrimFuncOp(
        name=label,
        span=span,
        sources=tuple(input_tensors),
        func=primfunc,
        input_buffers=ins,
        output_buffers=outs,
        sizes=bound,
    )
    op.outputs = _outputs(op, [(s, b.dtype) for s, b in zip(shapes, outs, strict=True)], span)
    return op.outputs[0] if len(outs) == 1 else op.outputs


def _check_function(
    func: PrimFunc, parameters: Sequence[Parameter], label: str, span: Span | None
) -> None:
    arrays = [p.buffer for p in parameters if p.buffer is not None]
    what = ""
    if len(arrays) != len(parameters):
        what = "takes arguments that are no arrays"
    elif any(b.strides or b.elem_offset is not None for b in arrays):
        what = "takes arrays with strides or an offset of their own"
    elif may_return(func.body):
        what = "returns before its end, or a value"
    elif not any(p.written for p in parameters):
        what = "writes no array"
    if what:
        refuse(
            "TE0008",
            f"{label!r} {what}",
            help="use a function that reads compact arrays and writes others",
            span=span,
        )


def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor] = (),
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Compute states along the first axis: ``init`` gives the first, ``update`` each of the others.

    ``update`` is a compute over the whole shape that reads ``state_placeholder`` at earlier steps.
    Errors: TE0009 where the parts do not fit each other.
    """
    span = user_span()
    first, then, state = (as_tuple(p) for p in (init, update, state_placeholder))
    if not len(first) == len(then) == len(state):
        refuse(
            "TE0009",
            f"{name!r} has {with_count(len(first), 'init')}, {with_count(len(then), 'update')} and "
            f"{with_count(len(state), 'state')}",
            help="give one of each per state",
            span=span,
        )
    for i, u, s in zip(first, then, state, strict=True):
        same = i.dtype is u.dtype is s.dtype and i.ndim == u.ndim == s.ndim and s.ndim >= 1
        if not same or not isinstance(u.op, ComputeOp) or not isinstance(s.op, PlaceholderOp):
            refuse(
                "TE0009",
                f"state {s.name!r} of {name!r} is {s.dtype} of {s.ndim} axes, its init "
                f"{i.dtype} of {i.ndim}, its update {u.dtype} of {u.ndim}",
                help="compute init and update with the dtype and the axes of the state, which is "
                "a te.placeholder",
                span=span,
            )
        _check_steps(i, u, s, name, span)
    options = {**(attrs or {}), **({"tag": tag} if tag else {})}
    op = ScanOp(
        name=name,
        attrs=options,
        span=span,
        init=first,
        update=then,
        state=state,
        sources=tuple(inputs),
    )
    outputs = _outputs(op, [(s.shape, s.dtype) for s in state], span)
    op.outputs = outputs
    return outputs[0] if len(outputs) == 1 else outputs


def _check_steps(
    first: Tensor, update: Tensor, state: Tensor, name: str, span: Span | None
) -> None:
    """Refuse a scan whose parts have other extents than the state, beside the steps of ``init``."""
    pairs = [*zip(update.shape, state.shape, strict=True)]
    pairs += zip(first.shape[1:], state.shape[1:], strict=True)
    steps, total = first.shape[0], state.shape[0]
    known = isinstance(steps, IntImm) and isinstance(total, IntImm)
    if all(is_same_size(a, b) for a, b in pairs) and not (
        known and cast("IntImm", steps).value > cast("IntImm", total).value
    ):
        return
    refuse(
        "TE0009",
        f"init and update of {name!r} do not have the extents of state {state.name!r}",
        help="give the update the shape of the state, and init fewer steps of the same",
        span=span,
    )
