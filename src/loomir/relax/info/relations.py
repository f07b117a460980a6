"""Relations between structural information: subtypes, compatibility, upper bounds, scopes.

All are three-valued and conservative: ``YES`` and ``NO`` are proved, everything else is ``MAYBE``.
A shape variable in a function's parameters stands for any extent, unless it is in ``bound``: then
the function has captured it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import VDevice
from loomir.ir.visit import Step, pre_order, rewrite, trampoline
from loomir.relax.expr import Var
from loomir.relax.info.proof import (
    Match,
    ShapeVars,
    analyzer_for,
    dims_equal,
    equal,
    shape_vars_in,
    shapes_equal,
)
from loomir.relax.node import StructInfo
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    EMPTY_DERIVE,
    OBJECT,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.dtype import VOID
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import Var as ShapeVar

__all__ = [
    "Match",
    "check_compatibility",
    "drop_binders",
    "erase_to_well_defined",
    "forget_variables",
    "get_shape_var_mapping",
    "is_same_device",
    "is_subtype",
    "join",
    "substitute_shape_vars",
    "unify_struct_info",
]

_Info = TypeVar("_Info", bound=StructInfo)

NOTHING: Final[frozenset[Any]] = frozenset()
"""No variable is in scope."""

Pair: TypeAlias = tuple[StructInfo, StructInfo]


class _Comparison(NamedTuple):
    """The options of a comparison, and the pairs that must match for its answer to be yes."""

    analyzer: Analyzer
    bound: ShapeVars
    strict: bool
    """Whether the first must be proven to fit, as for subtypes; otherwise an unknown may fit."""
    pending: list[Pair]

    @property
    def unknown(self) -> Match:
        return Match.NO if self.strict else Match.MAYBE


# -- subtypes and compatibility --------------------------------------------------------------------
def is_subtype(
    a: StructInfo,
    b: StructInfo,
    analyzer: Analyzer | None = None,
    *,
    bound: ShapeVars = NOTHING,
) -> Match:
    """Tell whether every value that ``a`` describes is one that ``b`` describes.

    ``NO`` also if ``a`` leaves open what ``b`` demands; ``MAYBE`` if both specify it and only
    the equality of extents or values is open.
    Source: relax.md, Subtyping for StructInfo.
    """
    return _match(a, b, analyzer, bound, strict=True)


def check_compatibility(
    given: StructInfo,
    wanted: StructInfo,
    analyzer: Analyzer | None = None,
    *,
    bound: ShapeVars = NOTHING,
) -> Match:
    """Tell whether a value described as ``given`` is accepted where ``wanted`` is expected.

    ``MAYBE`` is for a check at run time. An object, of which nothing is known, is not accepted
    where something is demanded: that takes a ``MatchCast``.
    Source: relax.md, Checking Compatibility; decisions R28 to R30.
    """
    return _match(given, wanted, analyzer, bound, strict=False)


def _match(
    a: StructInfo, b: StructInfo, analyzer: Analyzer | None, bound: ShapeVars, *, strict: bool
) -> Match:
    if a is b or isinstance(b, ObjectStructInfo):
        return Match.YES
    asked = _Comparison(analyzer or analyzer_for(a, b), bound, strict, [(a, b)])
    result = Match.YES
    # The pairs are kept alive, so that no other objects get their ids.
    seen: dict[tuple[int, int], Pair] = {}
    while asked.pending:
        pair = first, second = asked.pending.pop()
        key = (id(first), id(second))
        if first is second or key in seen or isinstance(second, ObjectStructInfo):
            continue
        seen[key] = pair
        rule = _RULES.get(first.__class__)
        if rule is None or first.__class__ is not second.__class__:
            return Match.NO
        result &= rule(first, second, asked)
        if result is Match.NO:
            return result
    return result


def _tensors(a: TensorStructInfo, b: TensorStructInfo, asked: _Comparison) -> Match:
    result = Match.YES
    if b.dtype is not VOID and a.dtype is not b.dtype:
        result &= asked.unknown if a.dtype is VOID else Match.NO
    if b.ndim >= 0 and a.ndim != b.ndim:
        result &= asked.unknown if a.ndim < 0 else Match.NO
    if b.vdevice is not None and not is_same_device(a.vdevice, b.vdevice):
        result &= asked.unknown if a.vdevice is None else Match.NO
    if b.shape is None or result is Match.NO:
        return result
    return result & (
        asked.unknown if a.shape is None else shapes_equal(a.shape, b.shape, asked.analyzer)
    )


def _shapes(a: ShapeStructInfo, b: ShapeStructInfo, asked: _Comparison) -> Match:
    if b.ndim < 0:
        return Match.YES
    if a.ndim != b.ndim:
        return asked.unknown if a.ndim < 0 else Match.NO
    if b.values is None:
        return Match.YES
    return asked.unknown if a.values is None else dims_equal(a.values, b.values, asked.analyzer)


def _scalars(a: PrimStructInfo, b: PrimStructInfo, asked: _Comparison) -> Match:
    if a.dtype is not b.dtype:
        return Match.NO
    if b.value is None:
        return Match.YES
    return asked.unknown if a.value is None else equal(a.value, b.value, asked.analyzer)


def _tuples(a: TupleStructInfo, b: TupleStructInfo, asked: _Comparison) -> Match:
    if len(a.fields) != len(b.fields):
        return Match.NO
    asked.pending.extend(zip(a.fields, b.fields))
    return Match.YES


def _functions(a: FuncStructInfo, b: FuncStructInfo, asked: _Comparison) -> Match:
    if a.params is None or b.params is None:
        if a.params is not None or b.params is not None:
            return Match.NO
        same = a.derive_func == b.derive_func or b.derive_func == EMPTY_DERIVE
        return Match.YES if same else asked.unknown
    if len(a.params) != len(b.params) or (b.purity and not a.purity):
        return Match.NO
    own = substitute_shape_vars(a, _find_mapping(a.params, b.params, asked.bound))
    asked.pending.append((own.ret, b.ret))
    asked.pending.extend(zip(b.params, own.params or ()))
    return Match.YES


_RULES: Final[dict[type, Callable[[Any, Any, _Comparison], Match]]] = {
    TensorStructInfo: _tensors,
    ShapeStructInfo: _shapes,
    PrimStructInfo: _scalars,
    TupleStructInfo: _tuples,
    FuncStructInfo: _functions,
}


def is_same_device(a: VDevice | None, b: VDevice | None) -> bool:
    """Tell whether two devices are the same, or both unknown."""
    if a is b:
        return True
    if a is None or b is None:
        return False
    return (a.target, a.dev_id, a.mem_scope) == (b.target, b.dev_id, b.mem_scope)


# -- upper bounds ----------------------------------------------------------------------------------
def join(
    a: StructInfo,
    b: StructInfo,
    analyzer: Analyzer | None = None,
    *,
    bound: ShapeVars = NOTHING,
) -> StructInfo:
    """Return what is true of every value that ``a`` or ``b`` describes.

    This is the most specific description, except that functions with different parameters become
    objects.
    Source: relax.md, ``unify_struct_info``; decisions R1 to R6.
    """
    if a is b:
        return a
    asked = _Comparison(analyzer or analyzer_for(a, b), bound, True, [])
    return trampoline(_join(a, b, asked, {}))


unify_struct_info = join


def _join(
    a: StructInfo, b: StructInfo, asked: _Comparison, done: dict[tuple[int, int], StructInfo]
) -> Step[StructInfo]:
    if a is b:
        return a
    if a.__class__ is not b.__class__ or isinstance(a, ObjectStructInfo):
        return OBJECT
    key = (id(a), id(b))
    made = done.get(key)
    if made is None:
        if isinstance(a, TupleStructInfo):
            made = yield _join_tuples(a, cast("TupleStructInfo", b), asked, done)
        elif isinstance(a, FuncStructInfo):
            made = yield _join_functions(a, cast("FuncStructInfo", b), asked, done)
        else:
            made = _JOINS[a.__class__](a, b, asked.analyzer)
        done[key] = made
    return made


def _join_tuples(
    a: TupleStructInfo,
    b: TupleStructInfo,
    asked: _Comparison,
    done: dict[tuple[int, int], StructInfo],
) -> Step[StructInfo]:
    if len(a.fields) != len(b.fields):
        return OBJECT
    fields: list[StructInfo] = []
    for x, y in zip(a.fields, b.fields):
        fields.append((yield _join(x, y, asked, done)))
    return TupleStructInfo(tuple(fields))


def _join_functions(
    a: FuncStructInfo,
    b: FuncStructInfo,
    asked: _Comparison,
    done: dict[tuple[int, int], StructInfo],
) -> Step[StructInfo]:
    if a.params is None or b.params is None:
        if a.params is not None or b.params is not None:
            return OBJECT
        same = a.derive_func == b.derive_func
        return a if same else FuncStructInfo(None, OBJECT, a.purity and b.purity, EMPTY_DERIVE)
    if len(a.params) != len(b.params):
        return OBJECT
    renaming = _find_mapping(b.params, a.params, asked.bound)
    others = list(renaming.values())
    # Only another choice of names makes parameters equal; a more special one does not.
    if len(set(map(id, others))) < len(others) or not all(
        isinstance(v, ShapeVar) and v not in asked.bound for v in others
    ):
        return OBJECT
    renamed = substitute_shape_vars(b, renaming)
    # The objects below are temporary, so their ids may be reused later.
    for x, y in zip(a.params, renamed.params or ()):
        for first, second in ((x, y), (y, x)):
            fits = is_subtype(first, second, asked.analyzer, bound=asked.bound)
            if fits is not Match.YES:
                return OBJECT
    ret = yield _join(a.ret, renamed.ret, asked, {})
    return FuncStructInfo(a.params, ret, a.purity and b.purity)


def _join_scalars(a: PrimStructInfo, b: PrimStructInfo, analyzer: Analyzer) -> StructInfo:
    if a.dtype is not b.dtype:
        return OBJECT
    if a.value is None or b.value is None:
        return a if a.value is None else b
    return a if equal(a.value, b.value, analyzer) is Match.YES else PrimStructInfo(a.dtype)


def _join_shapes(a: ShapeStructInfo, b: ShapeStructInfo, analyzer: Analyzer) -> StructInfo:
    if a.ndim != b.ndim or a.ndim < 0:
        return ShapeStructInfo()
    if a.values is None or b.values is None:
        return a if a.values is None else b
    if dims_equal(a.values, b.values, analyzer) is Match.YES:
        return a
    return ShapeStructInfo(ndim=a.ndim)


def _join_tensors(a: TensorStructInfo, b: TensorStructInfo, analyzer: Analyzer) -> StructInfo:
    ndim = a.ndim if a.ndim == b.ndim else -1
    dtype = a.dtype if a.dtype is b.dtype else VOID
    device = a.vdevice if is_same_device(a.vdevice, b.vdevice) else None
    shape = a.shape
    if ndim < 0 or a.shape is None or b.shape is None:
        shape = None
    if shape and b.shape and shapes_equal(shape, b.shape, analyzer) is not Match.YES:
        shape = None
    if (shape, ndim, dtype, device) == (a.shape, a.ndim, a.dtype, a.vdevice):
        return a
    return TensorStructInfo(shape, dtype, device, ndim)


_JOINS: Final[dict[type, Callable[[Any, Any, Analyzer], StructInfo]]] = {
    PrimStructInfo: _join_scalars,
    ShapeStructInfo: _join_shapes,
    TensorStructInfo: _join_tensors,
}


# -- shape variables -------------------------------------------------------------------------------
def get_shape_var_mapping(
    s1: StructInfo, s2: StructInfo, bound: ShapeVars = NOTHING
) -> dict[ShapeVar, PrimExpr]:
    """Map shape variables that are extents by themselves in ``s1`` to what ``s2`` has there.

    Bound variables are left out. The first that is found for a variable stays;
    ``check_compatibility`` compares the others.
    Source: relax.md; decisions R7 to R9.
    """
    return _find_mapping((s1,), (s2,), bound)


def _find_mapping(
    first: tuple[StructInfo, ...], second: tuple[StructInfo, ...], bound: ShapeVars
) -> dict[ShapeVar, PrimExpr]:
    found: dict[ShapeVar, PrimExpr] = {}
    pending: list[Pair] = list(zip(first, second))[::-1]
    while pending:
        a, b = pending.pop()
        if a.__class__ is not b.__class__:
            continue
        for dim, value in _align(a, b):
            if isinstance(dim, ShapeVar) and dim not in bound:
                found.setdefault(dim, value)
        pending.extend(reversed(_inner(a, b)))
    return found


def _inner(a: StructInfo, b: StructInfo) -> list[Pair]:
    """Pair the parts that can bind variables: fields, and parameters of functions."""
    if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo):
        return _zip(a.fields, b.fields)
    if isinstance(a, FuncStructInfo) and isinstance(b, FuncStructInfo):
        return _zip(a.params, b.params)
    return []


def _align(a: StructInfo, b: StructInfo) -> list[tuple[PrimExpr, PrimExpr]]:
    """Pair the scalars at the same places."""
    if isinstance(a, PrimStructInfo) and isinstance(b, PrimStructInfo):
        if a.dtype is b.dtype and a.value is not None and b.value is not None:
            return [(a.value, b.value)]
    elif isinstance(a, ShapeStructInfo) and isinstance(b, ShapeStructInfo):
        return _zip(a.values, b.values)
    elif isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo):
        own = a.shape.values if isinstance(a.shape, ShapeExpr) else None
        return _zip(own, b.dims)
    return []


_T = TypeVar("_T")


def _zip(a: tuple[_T, ...] | None, b: tuple[_T, ...] | None) -> list[tuple[_T, _T]]:
    return list(zip(a, b)) if a is not None and b is not None and len(a) == len(b) else []


def substitute_shape_vars(info: _Info, mapping: Mapping[ShapeVar, PrimExpr]) -> _Info:
    """Substitute expressions for shape variables, also in the parameters of functions."""
    if not mapping:
        return info
    return cast("_Info", rewrite(info, {ShapeVar: lambda var: mapping.get(var, var)}))


def drop_binders(
    func: FuncStructInfo, mapping: Mapping[ShapeVar, PrimExpr], bound: ShapeVars
) -> FuncStructInfo:
    """Drop shapes from parameters that only bind variables, and so only require a rank."""
    params = func.params or ()
    free = [v for v in shape_vars_in(func) if v not in mapping and v not in bound]
    if not free:
        return func
    uses = Counter(v for p in params for v in pre_order(p) if isinstance(v, ShapeVar))
    once = {v for v in free if uses[v] == 1}

    def tensor(info: TensorStructInfo) -> TensorStructInfo:
        if not isinstance(info.shape, ShapeExpr) or not once.issuperset(info.shape.values):
            return info
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim, span=info.span)

    def shape(info: ShapeStructInfo) -> ShapeStructInfo:
        if info.values is None or not once.issuperset(info.values):
            return info
        return ShapeStructInfo(ndim=info.ndim, span=info.span)

    def scalar(info: PrimStructInfo) -> PrimStructInfo:
        return PrimStructInfo(info.dtype, span=info.span) if info.value in once else info

    table = {TensorStructInfo: tensor, ShapeStructInfo: shape, PrimStructInfo: scalar}
    made = tuple([rewrite(p, table) for p in params])
    return FuncStructInfo(made, func.ret, func.purity, func.derive_func, span=func.span)


# -- scopes ----------------------------------------------------------------------------------------
def erase_to_well_defined(
    info: StructInfo, relax_vars: AbstractSet[Var], shape_vars: ShapeVars
) -> StructInfo:
    """Drop the extents and values that use variables that are not in scope.

    The shape variables of a function's parameters are in scope in it.
    Source: relax.md, Erasing Out-of-Scope Information; decision R27.
    """
    rule = _ERASE.get(info.__class__)
    if rule is not None:
        return rule(info, relax_vars, shape_vars, NOTHING)
    return trampoline(_erase(info, relax_vars, shape_vars, NOTHING))


def forget_variables(info: StructInfo, ends: Callable[[Var], bool]) -> StructInfo:
    """Drop the extents and values that use variables for which ``ends`` is true."""
    used = [part for part in pre_order(info) if isinstance(part, Var)]
    if not any(map(ends, used)):
        return info
    kept = {var for var in used if not ends(var)}
    return erase_to_well_defined(info, kept, frozenset(shape_vars_in(info)))


def _erase(
    info: StructInfo, relax_vars: AbstractSet[Var], shape_vars: ShapeVars, own: ShapeVars
) -> Step[StructInfo]:
    if isinstance(info, TupleStructInfo):
        fields = yield _erase_all(info.fields, relax_vars, shape_vars, own)
        return info if fields is info.fields else TupleStructInfo(fields, span=info.span)
    if not isinstance(info, FuncStructInfo):
        return _ERASE[info.__class__](info, relax_vars, shape_vars, own)
    params = info.params
    if params is not None:
        own = frozenset(own).union(*map(shape_vars_in, params))
        params = yield _erase_all(params, relax_vars, shape_vars, own)
    ret = yield _erase(info.ret, relax_vars, shape_vars, own)
    if params is info.params and ret is info.ret:
        return info
    return FuncStructInfo(params, ret, info.purity, info.derive_func, span=info.span)


def _erase_all(
    infos: tuple[StructInfo, ...],
    relax_vars: AbstractSet[Var],
    shape_vars: ShapeVars,
    own: ShapeVars,
) -> Step[tuple[StructInfo, ...]]:
    made: list[StructInfo] = []
    for info in infos:
        made.append((yield _erase(info, relax_vars, shape_vars, own)))
    return infos if all(a is b for a, b in zip(made, infos)) else tuple(made)


def _is_in_scope(root: PrimExpr | ShapeExpr, shape_vars: ShapeVars, own: ShapeVars) -> bool:
    return all(var in shape_vars or var in own for var in shape_vars_in(root))


def _erase_tensor(
    info: TensorStructInfo, relax_vars: AbstractSet[Var], shape_vars: ShapeVars, own: ShapeVars
) -> StructInfo:
    shape = info.shape
    if isinstance(shape, ShapeExpr):
        known = _is_in_scope(shape, shape_vars, own)
    else:
        known = shape is None or shape in relax_vars
    return info if known else TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)


def _erase_shape(
    info: ShapeStructInfo, relax_vars: AbstractSet[Var], shape_vars: ShapeVars, own: ShapeVars
) -> StructInfo:
    if all(_is_in_scope(value, shape_vars, own) for value in info.values or ()):
        return info
    return ShapeStructInfo(ndim=info.ndim)


def _erase_scalar(
    info: PrimStructInfo, relax_vars: AbstractSet[Var], shape_vars: ShapeVars, own: ShapeVars
) -> StructInfo:
    known = info.value is None or _is_in_scope(info.value, shape_vars, own)
    return info if known else PrimStructInfo(info.dtype)


def _keep(
    info: StructInfo, relax_vars: AbstractSet[Var], shape_vars: ShapeVars, own: ShapeVars
) -> StructInfo:
    return info


_ERASE: Final[dict[type, Callable[[Any, AbstractSet[Var], ShapeVars, ShapeVars], StructInfo]]] = {
    TensorStructInfo: _erase_tensor,
    ShapeStructInfo: _erase_shape,
    PrimStructInfo: _erase_scalar,
    ObjectStructInfo: _keep,
}
