"""The definition of an operator: one row that answers every question about it.

Parsing, printing, checking, legalisation, interpretation, documentation and tests read these rows.
The rows are in ``loomir.op``, one file for each family; ``find_op`` loads them on first use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from loomir.ir.op import Effect, Op
from loomir.relax.expr import Call
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.params import Param, bind, check_bound, signature_of
from loomir.support.diagnostics import InternalError
from loomir.support.loading import load_operators

__all__ = [
    "Infer",
    "Mistake",
    "OpDef",
    "Sample",
    "TensorSample",
    "define_op",
    "find_op",
    "op_def",
    "op_names",
]

Infer: TypeAlias = Callable[[OpContext], StructInfo]


@dataclass(frozen=True, slots=True)
class TensorSample:
    """A tensor among the inputs of a sample: its extents and dtype, or its contents.

    ``low`` and ``high`` bound random contents; ``values`` gives them.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -2.0
    high: float = 2.0
    values: Any = None


@dataclass(frozen=True, slots=True)
class Sample:
    """A call that is right: positional arguments as in a program, tensors as ``TensorSample``.

    ``ulps`` is how far the compiled result may be from the reference's, counted in units in the
    last place of the result's dtype; ``absolute`` is allowed besides.
    """

    args: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ulps: float = 0
    absolute: float = 0.0


@dataclass(frozen=True, slots=True)
class Mistake:
    """A call that is wrong, and the code of the error that says so."""

    args: tuple[Any, ...]
    attrs: Mapping[str, Any]
    code: str


@dataclass(frozen=True, slots=True)
class OpDef:
    """An operator.

    - ``infer`` gives the structural information of a call's result from that of its arguments.
    - ``lower`` makes the result of tensor expressions: ``lower(*inputs, **options)``, where a
      tensor is a ``te.Tensor``, a tuple of tensors a list, a shape a tuple of extents, a scalar an
      expression; it gives a tensor or a list of them. With a parameter ``out`` it is also told the
      inferred result.
    - ``reference`` computes the result with NumPy: ``reference(*arrays, **options)``; a tuple where
      the result is one. Integers wrap, 16-bit floats are computed as float32 and rounded once.
    - ``legalize`` writes a call that no one kernel computes as other calls:
      ``legalize(builder, call)`` gives an expression.
    - ``normalize`` is the operator's own rule of normal form: it gives the call to use in place of
      one.
    - ``elementwise``: each element of the result is computed from one element of each input; then
      it is also tried on all values that are special, of all dtypes it takes.
    - ``adapt`` turns what users give, by name, into what they mean, where a default depends on
      other arguments.
    """

    op: Op
    params: tuple[Param, ...]
    infer: Infer
    doc: str
    family: str
    lower: Callable[..., Any] | None
    reference: Callable[..., Any] | None
    legalize: Callable[[Any, Call], Any] | None
    normalize: Callable[[Call], Call] | None
    samples: tuple[Sample, ...]
    mistakes: tuple[Mistake, ...]
    elementwise: bool
    adapt: Callable[[dict[str, Any]], dict[str, Any]] | None

    @property
    def name(self) -> str:
        """The qualified name, such as ``relax.nn.relu``."""
        return self.op.name

    @property
    def is_pure(self) -> bool:
        """Whether a call does nothing but give its result (``FPurity``)."""
        return self.op.effect is Effect.PURE

    @property
    def inputs(self) -> tuple[Param, ...]:
        """The parameters that are arguments of the call."""
        return tuple(p for p in self.params if p.is_input)

    @property
    def options(self) -> tuple[Param, ...]:
        """The parameters that are attributes of the call."""
        return tuple(p for p in self.params if p.is_option)

    @property
    def signature(self) -> inspect.Signature:
        """The signature of the Python function that makes calls of it."""
        return signature_of(self.params).replace(return_annotation=Call)

    def call(self, *args: Any, **keywords: Any) -> Call:
        """Make a call from the arguments that users write. Errors: OPS0001 to OPS0003."""
        shown = "R." + self.name.removeprefix("relax.")
        bound = bind(shown, self.params, args, keywords, self.adapt)
        return Call(self.op, tuple(bound.inputs), bound.infos, bound.options)

    def check(self, call: Call) -> None:
        """Refuse a call that was built directly and is incomplete. Errors: OPS0001, OPS0002."""
        check_bound("R." + self.name.removeprefix("relax."), self.params, call)

    def normalize_call(self, call: Call) -> Call:
        """Return the call in the operator's normal form. Errors: OPS0001, OPS0002, its rule's."""
        if self.normalize is None:
            return call
        self.check(call)
        return self.normalize(call)


_TABLE: Final[dict[str, OpDef]] = {}


def define_op(
    name: str,
    *params: Param,
    infer: Infer,
    doc: str,
    family: str,
    lower: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    legalize: Callable[[Any, Call], Any] | None = None,
    normalize: Callable[[Call], Call] | None = None,
    samples: Sequence[Sample] = (),
    mistakes: Sequence[Mistake] = (),
    pure: bool = True,
    elementwise: bool = False,
    adapt: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Callable[..., Call]:
    """Define the operator ``relax.<name>`` and return the function that makes calls of it.

    See ``OpDef`` for what the keywords mean. ``doc`` is its description: one imperative line, then
    shapes, types and errors.
    """
    qualified = f"relax.{name}"
    if qualified in _TABLE:
        raise InternalError(f"operator {qualified} is defined twice")
    made = OpDef(
        Op.register(qualified, Effect.PURE if pure else Effect.OPAQUE),
        params,
        infer,
        doc,
        family,
        lower,
        reference,
        legalize,
        normalize,
        tuple(samples),
        tuple(mistakes),
        elementwise,
        adapt,
    )
    _TABLE[qualified] = made

    def call(*args: Any, **keywords: Any) -> Call:
        return made.call(*args, **keywords)

    call.__name__ = name.rpartition(".")[2]
    call.__qualname__ = name
    call.__doc__ = _describe(made)
    call.__signature__ = made.signature
    return call


def _describe(op: OpDef) -> str:
    shown = ", ".join(map(str, op.params))
    return f"{op.doc}\n\nCall: ``{op.name.removeprefix('relax.')}({shown})``."


def op_def(op: Op) -> OpDef:
    """Return the definition of an operator of Relax."""
    found = find_op(op.name)
    if found is None:
        raise InternalError(f"operator {op.name} has no definition")
    return found


def find_op(name: str) -> OpDef | None:
    """Find an operator by its qualified name, such as ``relax.add``; None if there is none."""
    load_operators()
    return _TABLE.get(name)


def op_names() -> Iterator[str]:
    """List the qualified names of all operators of Relax."""
    load_operators()
    return iter(tuple(_TABLE))
