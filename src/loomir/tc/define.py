"""Callable functions of a text, compiled at their first call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np

from loomir import te
from loomir.ir.module import IRModule
from loomir.ir.visit import fold
from loomir.runtime.errors import RunAttributeError
from loomir.runtime.executable import Executable
from loomir.support.argument_errors import explain_methods
from loomir.support.compiling import to_executable
from loomir.support.diagnostics import Diagnostic, RunError, nearest, with_count
from loomir.support.dtype import DataType, numpy_of
from loomir.tc.fmt import fmt
from loomir.tc.lower import LoweredText, Unit, lower
from loomir.tc.parse import parse
from loomir.tc.scope import Tensor
from loomir.tc.syntax import Program
from loomir.tc.to_te import to_te
from loomir.tir.expr import IntImm, PrimExpr, Var

__all__ = ["Comprehension", "Operator", "define"]

Array: TypeAlias = Any


def define(text: str, *, name: str = "<string>", **options: Any) -> Comprehension:
    """Read a text in Tensor Comprehensions and return its functions.

    ``name`` is what errors call the text; ``options`` are those of ``loomir.compile``.
    Errors: every mistake of the text (TC0001 to TC0303), in one ``CompileError``.
    """
    return Comprehension(parse(text, name), options, {})


@explain_methods
class Comprehension:
    """The functions of a text: ``tc.matmul(A, B)``, ``tc["matmul"]``, or ``tc(A, B)`` of one.

    They are compiled, together, when one is called first.
    """

    def __init__(
        self, program: Program, options: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> None:
        self._program, self._options, self._sizes = program, dict(options), dict(sizes)
        self._lowered: LoweredText = lower(program, sizes)
        self._executable: Executable | None = None
        self._operators = {u.name: Operator(u, self.compile) for u in self._lowered.units}

    @property
    def names(self) -> tuple[str, ...]:
        """The functions' names, in the order of the text."""
        return tuple(self._operators)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is legal and may surprise: accesses that are checked before the loops run."""
        return self._lowered.warnings

    def __getitem__(self, name: str) -> Operator:
        """Return the function of that name. Errors: TC0401 where there is none."""
        found = self._operators.get(name)
        if found is None:
            raise self._unknown(name, RunError)
        return found

    def _unknown(self, name: str, kind: type[RunError]) -> RunError:
        close = nearest(name, self._operators)
        return kind(
            Diagnostic(
                "TC0401",
                f"the text has no function {name!r}",
                notes=(f"it has {', '.join(self._operators)}",),
                help=f"did you mean {close!r}?" if close else "use one of its names",
            )
        )

    def __getattr__(self, name: str) -> Operator:
        if name.startswith("_"):
            raise AttributeError(f"the text has no function {name!r}")
        if name not in self._operators:
            raise self._unknown(name, RunAttributeError)
        return self._operators[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._operators]

    def __call__(self, *args: Array, out: Array | Sequence[Array] | None = None) -> Any:
        """Call the only function. Errors: TC0401 where there are several."""
        if len(self._operators) != 1:
            raise RunError(
                Diagnostic(
                    "TC0401",
                    "which function is meant? the text has several",
                    notes=(f"it has {', '.join(self._operators)}",),
                    help=f"name it, as in tc.{next(iter(self._operators))}(…)",
                )
            )
        return next(iter(self._operators.values()))(*args, out=out)

    def to_tir(self) -> IRModule:
        """Return the functions as a module of TIR."""
        return self._lowered.module()

    def to_te(self) -> dict[str, tuple[tuple[te.Tensor, ...], tuple[te.Tensor, ...]]]:
        """Return inputs and outputs of each function as tensors. Errors: TC0203."""
        return {name: operator.to_te() for name, operator in self._operators.items()}

    def fmt(self) -> str:
        """Write the text in one form."""
        return fmt(self._program)

    def specialize(self, **sizes: int) -> Comprehension:
        """Return the same functions with numbers for some of their size variables."""
        known = {s.name for f in self._program.functions for p in f.params for s in p.sizes or ()}
        for name, value in sizes.items():
            if name not in known:
                raise _wrong(
                    f"no function has a size {name!r}", f"its sizes are {', '.join(sorted(known))}"
                )
            if not 0 <= value < 1 << 40:
                raise _wrong(f"{value} cannot be the size {name!r}", "a size is 0 or more")
        return Comprehension(self._program, self._options, {**self._sizes, **sizes})

    def compile(self) -> Executable:
        """Compile all functions, once."""
        if self._executable is None:
            self._executable = cast("Executable", to_executable(self.to_tir(), **self._options))
        return self._executable

    def __repr__(self) -> str:
        return f"<tensor comprehensions {', '.join(self._operators)}>"


@explain_methods
class Operator:
    """A function of a text: takes arrays, returns new ones or fills those passed as ``out``.

    What it changes in place is both taken and returned. Numbers do for tensors of rank 0.
    """

    def __init__(self, unit: Unit, compiled: Callable[[], Executable]) -> None:
        self._unit, self._compiled = unit, compiled
        self.__name__ = unit.name

    def __call__(
        self, *args: Array, out: Array | Sequence[Array] | None = None, **named: Array
    ) -> Any:
        """Run the function, and return its result, or a tuple of several.

        Errors: TC0401, TC0402, and those of compiled functions for arrays that do not fit.
        """
        unit = self._unit
        taken = ", ".join(t.name for t in unit.taken)
        if named:
            raise _wrong(
                f"{unit.name} takes its arrays by position, not by name ({next(iter(named))})",
                f"write {unit.name}({taken}); out= is where results go",
            )
        if len(args) != len(unit.taken):
            raise _wrong(
                f"{unit.name} takes {with_count(len(unit.taken), 'array')}, not {len(args)}",
                f"pass {taken or 'nothing'}; results go to out=",
            )
        inputs = [
            np.asarray(arg, numpy_of(t.buffer.dtype)) if _is_number(arg) and not t.dims else arg
            for arg, t in zip(args, unit.taken, strict=True)
        ]
        outputs = self._outputs(inputs, out)
        self._compiled()[unit.name](*inputs, *outputs)
        arrays = dict(zip(map(id, (*unit.taken, *unit.made)), (*inputs, *outputs), strict=True))
        results = tuple(arrays[id(t)] for t in unit.returned)
        return results[0] if len(results) == 1 else results

    def to_te(self) -> tuple[tuple[te.Tensor, ...], tuple[te.Tensor, ...]]:
        """Return inputs and outputs as tensors of ``loomir.te``, for further formulas.

        Errors: TC0203 for changes in place, writes of parts, and checks before the loops.
        """
        unit = self._unit
        return to_te(unit.name, unit.taken, unit.made, unit.steps, unit.unchecked)

    def output_shapes(self, *args: Array) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the arrays that a call would make. Errors: TC0401, TC0402."""
        sizes = _sizes_of(self._unit, args)
        if sizes is None:
            raise _wrong(
                f"the arrays do not fit {self._unit.name}", "pass arrays of the ranks it takes"
            )
        return tuple(_shape(t, sizes) for t in self._unit.made)

    def _outputs(self, inputs: Sequence[Array], out: Array | Sequence[Array] | None) -> list[Array]:
        made = self._unit.made
        if out is not None:
            given = list(cast("Sequence[Array]", out)) if isinstance(out, (list, tuple)) else [out]
            if len(given) != len(made):
                names = ", ".join(t.name for t in made)
                raise _wrong(
                    f"{self._unit.name} makes {with_count(len(made), 'array')}, not {len(given)}",
                    f"pass out=({names})" if made else "leave out= away",
                )
            return given
        sizes = _sizes_of(self._unit, inputs)
        if sizes is None:  # the compiled function says which array does not fit
            return [np.empty([0] * len(t.dims), numpy_of(t.buffer.dtype)) for t in made]
        like = next((a for a in inputs if not isinstance(a, np.ndarray)), None)
        return [_empty(_shape(t, sizes), t.buffer.dtype, like) for t in made]

    def __repr__(self) -> str:
        taken = ", ".join(t.name for t in self._unit.taken)
        returned = ", ".join(t.name for t in self._unit.returned)
        return f"<tensor comprehension {self._unit.name}({taken}) -> ({returned})>"


def _wrong(message: str, help: str) -> RunError:
    return RunError(Diagnostic("TC0401", message, help=help))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.generic))


def _sizes_of(unit: Unit, args: Sequence[Array]) -> dict[Var, int] | None:
    """Read the size variables from the arrays; None if an array has another rank."""
    sizes: dict[Var, int] = {}
    for tensor, arg in zip(unit.taken, args, strict=False):
        shape = tuple(getattr(arg, "shape", ()))
        if len(shape) != len(tensor.dims):
            return None
        for dim, extent in zip(tensor.dims, shape, strict=True):
            if isinstance(dim, Var):
                sizes.setdefault(dim, int(extent))
    return sizes if all(v in sizes for v in unit.sizes) else None


def _shape(tensor: Tensor, sizes: Mapping[Var, int]) -> tuple[int, ...]:
    shape = tuple(_value(dim, sizes) for dim in tensor.dims)
    for axis, extent in enumerate(shape):
        if extent < 0:
            given = ", ".join(f"{v.name_hint}={n}" for v, n in sizes.items())
            raise RunError(
                Diagnostic(
                    "TC0402",
                    f"axis {axis} of {tensor.name!r} would have the size {extent}",
                    tensor.span,
                    f"with {given}",
                    help="pass arrays whose sizes leave room",
                )
            )
    return shape


def _empty(shape: tuple[int, ...], dtype: DataType, like: Array) -> Array:
    """Make an array, of PyTorch's kind where the inputs are."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=getattr(torch, str(dtype)))
    return np.empty(shape, numpy_of(dtype))


# -- the value of a size -----------------------------------------------------------------------
def _choose(values: list[int]) -> int:
    return values[1] if values[0] else values[2]


_COMPUTE: Final[dict[str, Callable[[list[int]], int]]] = {
    "Add": lambda v: v[0] + v[1],
    "Sub": lambda v: v[0] - v[1],
    "Mul": lambda v: v[0] * v[1],
    "FloorDiv": lambda v: v[0] // v[1] if v[1] else 0,
    "FloorMod": lambda v: v[0] % v[1] if v[1] else 0,
    "Min": min,
    "Max": max,
    "Eq": lambda v: int(v[0] == v[1]),
    "NE": lambda v: int(v[0] != v[1]),
    "LT": lambda v: int(v[0] < v[1]),
    "LE": lambda v: int(v[0] <= v[1]),
    "GT": lambda v: int(v[0] > v[1]),
    "GE": lambda v: int(v[0] >= v[1]),
    "And": lambda v: int(bool(v[0] and v[1])),
    "Or": lambda v: int(bool(v[0] or v[1])),
    "Not": lambda v: int(not v[0]),
    "Cast": lambda v: v[0],
    "Select": _choose,
    "Call": _choose,
}


def _value(size: PrimExpr, sizes: Mapping[Var, int]) -> int:
    def join(node: Any, parts: list[int]) -> int:
        if isinstance(node, IntImm):
            return node.value
        if isinstance(node, Var):
            return sizes[node]
        value = _COMPUTE[type(node).__name__](parts)
        dtype: DataType = node.dtype
        if dtype.is_integer:
            value &= (1 << dtype.bits) - 1
            value -= (value > dtype.max_value) << dtype.bits
        return value

    return fold(size, join)
