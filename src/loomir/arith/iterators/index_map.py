"""Index maps: functions from the indices of one layout to those of another."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from typing import cast as cast_type

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, mul, sub
from loomir.arith.iterators.expr import IterSumExpr, is_number
from loomir.arith.iterators.inverse import inverse_affine_iter_map, mark_values
from loomir.arith.iterators.map import CheckLevel, IterMapResult, detect_iter_map
from loomir.ir.substitution import substitute
from loomir.ir.visit import fold, map_children
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import BOOL, DataType
from loomir.tir.buffer import Range
from loomir.tir.expr import (
    BinaryOp,
    CmpOp,
    IntImm,
    Not,
    Or,
    PrimExpr,
    Var,
    cast,
    const,
    convert,
    match_dtypes,
)

__all__ = ["IndexMap", "is_bijective"]

_NEVER: Final = IntImm(0, BOOL)


@dataclass(frozen=True, eq=False)
class IndexMap:
    """The indices of a new layout as expressions of those of the old one.

    Errors: ARI0001 for an inverse that is not known to exist, and for a wrong number of indices.
    """

    initial_indices: tuple[Var, ...]
    final_indices: tuple[PrimExpr, ...]

    @classmethod
    def from_func(
        cls, function: Callable[..., Any], ndim: int | None = None, dtype: str = "int32"
    ) -> IndexMap:
        """Make a map from a Python function of indices, such as ``lambda i, j: (j, i)``.

        ``ndim`` is needed for a function of ``*indices``.
        """
        kind = DataType(dtype)
        names: list[str] = []
        rest = None
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            _refuse(f"{function!r} is not a function of indices", "give a lambda of indices")
        for name, parameter in parameters.items():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                rest = name
            else:
                names.append(name)
        if rest is not None:
            if ndim is None:
                _refuse(f"the function takes any number of indices, as *{rest}", "give ndim")
            names += [f"{rest}{place}" for place in range(ndim - len(names))]
        if ndim is not None and ndim != len(names):
            _refuse(f"the function takes {len(names)} indices, not {ndim}", "give it as many")
        initial = tuple(Var(name, kind) for name in names)
        made: Any = function(*initial)
        several = isinstance(made, (tuple, list))
        final: Iterable[Any] = cast_type("Iterable[Any]", made) if several else (made,)
        return cls(initial, tuple(_index(each, kind) for each in final))

    def __str__(self) -> str:
        names = ", ".join(var.name_hint for var in self.initial_indices)
        return f"lambda {names}: ({', '.join(str(index) for index in self.final_indices)})"

    def map_indices(
        self, indices: Sequence[PrimExpr | int], *, analyzer: Analyzer | None = None
    ) -> tuple[PrimExpr, ...]:
        """Return the new indices for given old ones."""
        self._count(indices)
        analyzer = Analyzer() if analyzer is None else analyzer
        given = {
            var: convert(index) if isinstance(index, PrimExpr) else const(index, var.dtype)
            for var, index in zip(self.initial_indices, indices)
        }
        same = all(var.dtype is index.dtype for var, index in given.items())
        return tuple(
            analyzer.simplify(substitute(final, given) if same else _substitute(final, given))
            for final in self.final_indices
        )

    def map_ranges(
        self, ranges: Sequence[Range], *, analyzer: Analyzer | None = None
    ) -> tuple[Range, ...]:
        """Return ranges that contain the new indices for given ranges of the old ones."""
        self._count(ranges)
        analyzer = Analyzer() if analyzer is None else analyzer
        iters = dict(zip(self.initial_indices, ranges))
        found = detect_iter_map(self.final_indices, iters, check_level="none", analyzer=analyzer)
        if found.ok:
            return tuple(
                Range(analyzer.simplify(index.base), analyzer.simplify(self._length(index.args)))
                if index.args
                else Range(index.base, IntImm(1, index.base.dtype))
                for index in found.indices
            )
        made: list[Range] = []
        for final in self.final_indices:
            ends = analyzer.int_set(final, iters)
            if ends.min_value is None or ends.max_value is None:
                _refuse(f"the values of {final} have no known bounds", "give smaller ranges")
            last = add(sub(ends.max_value, ends.min_value), IntImm(1, ends.min_value.dtype))
            made.append(Range(ends.min_value, analyzer.simplify(last)))
        return tuple(made)

    def _length(self, args: tuple[Any, ...]) -> PrimExpr:
        (split,) = args
        if is_number(split.scale, 1):
            return split.extent
        one = IntImm(1, split.extent.dtype)
        return add(mul(sub(split.extent, one), split.scale), one)

    def map_shape(
        self, shape: Sequence[PrimExpr | int], *, analyzer: Analyzer | None = None
    ) -> tuple[PrimExpr, ...]:
        """Return the shape in the new layout for a given shape in the old one."""
        analyzer = Analyzer() if analyzer is None else analyzer
        ranges = self.map_ranges(self._ranges(shape), analyzer=analyzer)
        made: list[PrimExpr] = []
        for each in ranges:
            assert each.extent is not None
            made.append(analyzer.simplify(add(*match_dtypes(each.extent, each.min))))
        return tuple(made)

    def _ranges(self, shape: Sequence[PrimExpr | int]) -> list[Range]:
        self._count(shape)
        return [
            Range(
                IntImm(0, var.dtype),
                extent if isinstance(extent, PrimExpr) else const(extent, var.dtype),
            )
            for var, extent in zip(self.initial_indices, shape)
        ]

    def _count(self, given: Sequence[object]) -> None:
        if len(given) != len(self.initial_indices):
            _refuse(
                f"the map is of {len(self.initial_indices)} indices, not of {len(given)}",
                "give as many as it has initial indices",
            )

    def detect(
        self,
        shape: Sequence[PrimExpr | int],
        check_level: CheckLevel = "bijective",
        *,
        analyzer: Analyzer | None = None,
    ) -> IterMapResult:
        """Detect the iterator map of all indices within a shape."""
        iters = dict(zip(self.initial_indices, self._ranges(shape)))
        return detect_iter_map(
            self.final_indices, iters, check_level=check_level, analyzer=analyzer
        )

    def inverse(
        self, shape: Sequence[PrimExpr | int], *, analyzer: Analyzer | None = None
    ) -> IndexMap:
        """Return the map from new indices back to those within a shape."""
        return self._inverse(shape, "bijective", analyzer)[0]

    def non_surjective_inverse(
        self, shape: Sequence[PrimExpr | int], *, analyzer: Analyzer | None = None
    ) -> tuple[IndexMap, PrimExpr]:
        """Return the map back, and the condition that new indices come from no old ones.

        Such indices belong to padding in the new shape.
        """
        return self._inverse(shape, "injective", analyzer)

    def _inverse(
        self, shape: Sequence[PrimExpr | int], level: CheckLevel, analyzer: Analyzer | None
    ) -> tuple[IndexMap, PrimExpr]:
        analyzer = Analyzer() if analyzer is None else analyzer
        found = self.detect(shape, level, analyzer=analyzer)
        if found.errors:
            _refuse(
                f"no inverse of {self} is known: {found.errors[0]}",
                "use an index map that splits, fuses and reorders indices, each digit once",
            )
        outputs = tuple(
            Var(f"axis{place}", index.dtype) for place, index in enumerate(self.final_indices)
        )
        extents = self.map_shape(shape, analyzer=analyzer)
        analyzer.enter()
        try:
            for var, extent in zip(outputs, extents):
                analyzer.bind(var, Range(IntImm(0, var.dtype), cast(extent, var.dtype)))
            values = inverse_affine_iter_map(found.indices, outputs, analyzer=analyzer)
            outside: PrimExpr = _NEVER
            for within in _conditions(found.indices, outputs) if level == "injective" else ():
                if not analyzer.can_prove(within):
                    test = analyzer.simplify(Not(within))
                    outside = test if outside is _NEVER else Or(outside, test)
            final = [
                values.get(var, range_.min)
                for var, range_ in zip(self.initial_indices, self._ranges(shape))
            ]
            return IndexMap(outputs, tuple(final)), outside
        finally:
            analyzer.exit()

    def is_equivalent_to(self, other: IndexMap, *, analyzer: Analyzer | None = None) -> bool:
        """Tell whether two maps certainly have the same new indices for all old ones."""
        if len(self.initial_indices) != len(other.initial_indices):
            return False
        if len(self.final_indices) != len(other.final_indices):
            return False
        analyzer = Analyzer() if analyzer is None else analyzer
        theirs = other.map_indices(self.initial_indices, analyzer=analyzer)
        return all(
            a.dtype.is_integer and b.dtype.is_integer and analyzer.can_prove_equal(a, b)
            for a, b in zip(self.final_indices, theirs)
        )


def is_bijective(
    index_map: IndexMap, shape: Sequence[PrimExpr | int], *, analyzer: Analyzer | None = None
) -> bool:
    """Tell whether a map from a shape to its new shape is certainly bijective."""
    found = index_map.detect(shape, analyzer=analyzer)
    return found.ok and all(
        is_number(index.base, 0) and all(is_number(split.scale, 1) for split in index.args)
        for index in found.indices
    )


def _conditions(indices: Sequence[IterSumExpr], outputs: Sequence[PrimExpr]) -> Iterator[PrimExpr]:
    """List conditions on values that hold exactly if an injective map reaches them."""
    for index, output in zip(indices, outputs):
        if not index.args:
            yield output.equal(index.base)
            continue
        if not is_number(index.base, 0):
            yield output >= index.base
        for split in index.args:
            if not is_number(split.scale, 1):
                yield ((output - index.base) % split.scale).equal(0)
    for mark, value in mark_values(indices, outputs):
        yield value < mark.extent


def _index(value: Any, dtype: DataType) -> PrimExpr:
    if isinstance(value, int) and not isinstance(value, bool):
        return const(value, dtype)
    if isinstance(value, PrimExpr):
        return value
    _refuse(f"an index map gives indices, not {value!r}", "return a tuple of expressions")


def _substitute(root: PrimExpr, given: Mapping[Var, PrimExpr]) -> PrimExpr:
    """Replace variables by values of other dtypes; operations are widened as needed."""

    def remake(node: Any, parts: list[Any]) -> Any:
        if isinstance(node, Var):
            return given.get(node, node)
        if isinstance(node, (BinaryOp, CmpOp)):
            kind: Any = type(node)
            return kind(*match_dtypes(parts[0], parts[1]))
        left = iter(parts)
        return map_children(node, lambda _: next(left))

    return fold(root, remake)


def _refuse(message: str, help: str) -> NoReturn:  # named after the diagnostic's field
    raise CompileError(Diagnostic("ARI0001", message, None, "", (), (), help))
