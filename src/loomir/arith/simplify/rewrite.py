"""Apply the rewrite rules, looked up by the classes of a node and of its operands."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, Protocol

from loomir.arith.bounds.interval import TRANSFER, Interval, fits
from loomir.arith.fold import fold_node, imm
from loomir.arith.simplify.rule import Pattern, Rule
from loomir.arith.simplify.rules import RULES
from loomir.ir.node import Node
from loomir.ir.visit import children, rewrite
from loomir.support.dtype import BOOL, DataType
from loomir.tir.analysis.effects import Effects
from loomir.tir.expr import And, FloatImm, IntImm, Not, Or, PrimExpr, Var

__all__ = ["OperandFacts", "apply", "apply_rule", "rewrite_expr"]

_FUEL: Final = 32
"""The most rules that apply to one node; never reached, since each makes it smaller."""
_MOST_COMPARED: Final = 64
"""The most nodes that are compared to find two operands equal."""

Names = dict[str, Any]


class OperandFacts(Protocol):
    """The facts about operands that conditions of rules need."""

    def interval_of(self, expr: PrimExpr) -> Interval:
        """Return the bounds of a scalar integer."""
        ...

    def does(self, expr: PrimExpr) -> Effects:
        """Return the effects of evaluating an expression."""
        ...


# -- matching ------------------------------------------------------------------------------------
def is_same(a: Node, b: Node) -> bool:
    """Tell whether two small expressions are equal, by their structure."""
    budget = _MOST_COMPARED
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        budget -= 1
        if budget < 0 or x.__class__ is not y.__class__ or isinstance(x, (Var, FloatImm)):
            return False
        if isinstance(x, IntImm):
            if x.value != y.value or x.dtype is not y.dtype:  # type: ignore[attr-defined]
                return False
            continue
        if x.__class__ not in TRANSFER and not _is_plain(x):
            return False
        stack += zip(children(x), children(y), strict=True)
    return True


def _is_plain(x: Node) -> bool:
    """Tell whether a node consists of its class and its parts only."""
    return all(
        f.name in ("a", "b", "condition", "true_value", "false_value", "span")
        for f in x.node_fields
    )


def matches(pattern: Pattern, e: Any, names: Names) -> bool:
    """Match a pattern; ``names`` receives the operands of its names."""
    kind = pattern.kind
    if kind.__class__ is not str:
        if e.__class__ is not kind:
            return False
        args = pattern.args
        if len(args) == 2:
            return matches(args[0], e.a, names) and matches(args[1], e.b, names)
        return all(matches(p, part, names) for p, part in zip(args, children(e)))
    if kind in ("number", "truth"):
        return e.__class__ is IntImm and e.value == pattern.value
    if kind == "real":
        return e.__class__ is FloatImm and repr(e.value) == repr(pattern.value)
    name = pattern.name
    known = names.get(name)
    if known is not None:
        return known is e or is_same(known, e)
    if kind == "const" and e.__class__ is not IntImm:
        return False
    names[name] = e
    return True


def _holds(condition: ast.expr | None, names: Names, known: OperandFacts) -> bool:
    return condition is None or bool(_evaluate(condition, names, known))


def _evaluate(e: Any, names: Names, known: OperandFacts) -> Any:
    """Evaluate a condition: constants are numbers, other names have bounds."""
    if isinstance(e, ast.BoolOp):
        return all(_evaluate(part, names, known) for part in e.values)
    if isinstance(e, ast.Constant):
        return e.value
    if isinstance(e, ast.Name):
        found = names[e.id]
        return found.value if e.id[0] == "c" else known.interval_of(found)
    if isinstance(e, ast.BinOp):
        a, b = (_evaluate(part, names, known) for part in (e.left, e.right))
        return 0 if b == 0 else a % b
    a, b = _evaluate(e.left, names, known), _evaluate(e.comparators[0], names, known)
    if isinstance(a, Interval):
        kind: type = e.ops[0].__class__
        if kind is ast.NotEq:
            return a.low > b or a.high < b
        return a.low > b if kind is ast.Gt else a.low >= b
    return _COMPARE[type(e.ops[0])](a, b)


_COMPARE: Final[dict[type, Callable[[Any, Any], bool]]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}


def _find_bound_without_wrap(
    pattern: Pattern, names: Names, dtype: DataType, known: OperandFacts
) -> Interval | None:
    """Bound a side of a rule over unbounded integers; None if some part may wrap."""
    kind = pattern.kind
    if kind == "number":
        value = int(pattern.value)
        made = Interval(value, value)
    elif kind in ("int", "const"):
        return known.interval_of(names[pattern.name])
    elif kind in TRANSFER:
        a = _find_bound_without_wrap(pattern.args[0], names, dtype, known)
        b = _find_bound_without_wrap(pattern.args[1], names, dtype, known)
        if a is None or b is None:
            return None
        made = TRANSFER[kind](a, b)
    else:
        parts = [_find_bound_without_wrap(part, names, dtype, known) for part in pattern.args]
        return None if None in parts else Interval(0, 1)
    return made if fits(made, dtype) else None


# -- making --------------------------------------------------------------------------------------
def _instantiate(
    pattern: Pattern, names: Names, like: DataType, truth: DataType, known: OperandFacts
) -> Any:
    """Make the right side; new nodes are simplified themselves."""
    kind = pattern.kind
    if kind.__class__ is str:
        if kind == "number":
            return imm(int(pattern.value), like)
        if kind == "truth":
            return imm(int(pattern.value), truth)
        return names[pattern.name]
    parts = [_instantiate(part, names, like, truth, known) for part in pattern.args]
    return _simplify(kind(*parts), known, 4)


def _element(e: Any) -> DataType:
    """Return the dtype of the integers below a node."""
    while e.dtype.is_bool:
        parts = children(e)
        if not parts:
            return BOOL
        e = parts[-1]
    return e.dtype


def apply_rule(rule: Rule, e: Any, known: OperandFacts) -> PrimExpr | None:
    """Return the result of a rule on a node, or None if it does not apply."""
    names: Names = {}
    if not matches(rule.left, e, names):
        return None
    for name, part in names.items():
        dtype: DataType = part.dtype
        kind = _KINDS[name[0]]
        if dtype.lanes != 1 or not getattr(dtype, kind):
            return None
    dtype = _element(e)
    if rule.when and not _holds(rule.condition, names, known):
        return None
    if rule.cls == "N" and (
        _find_bound_without_wrap(rule.left, names, dtype, known) is None
        or _find_bound_without_wrap(rule.right, names, dtype, known) is None
    ):
        return None
    for name in rule.dropped:
        part = names[name]
        if _is_large(part) and known.does(part) & (Effects.FAILS | Effects.ACTS):
            return None
    if any(known.does(part) & Effects.ACTS for part in names.values() if _is_large(part)):
        return None
    return _instantiate(rule.right, names, dtype, BOOL, known)


def _is_large(e: PrimExpr) -> bool:
    return not isinstance(e, (Var, IntImm, FloatImm))


_KINDS: Final = {
    **dict.fromkeys("xyzwc", "is_integer"),
    **dict.fromkeys("pqr", "is_bool"),
    **dict.fromkeys("fgh", "is_float"),
}


def _could(pattern: Pattern, cls: type) -> bool:
    """Tell whether a pattern could match nodes of a class."""
    kind = pattern.kind
    if not isinstance(kind, str):
        return kind is cls
    if kind in ("const", "number", "truth"):
        return cls is IntImm
    return cls is FloatImm if kind == "real" else True


_BY_CLASS: Final[dict[type, tuple[Rule, ...]]] = {}
for _rule in RULES:
    _BY_CLASS[_rule.left.kind] = (*_BY_CLASS.get(_rule.left.kind, ()), _rule)
_CANDIDATES: Final[dict[tuple[type, ...], tuple[Rule, ...]]] = {}


def _candidates(e: Any) -> tuple[Rule, ...]:
    kind = e.__class__
    if kind not in _BY_CLASS:
        return ()
    key = (kind, *[part.__class__ for part in children(e)])
    found = _CANDIDATES.get(key)
    if found is None:
        found = _CANDIDATES[key] = tuple(
            rule for rule in _BY_CLASS[kind] if all(map(_could, rule.left.args, key[1:]))
        )
    return found


def _simplify(e: PrimExpr, known: OperandFacts, depth: int) -> PrimExpr:
    for _ in range(_FUEL):
        made = fold_node(e)
        if made is e:
            if depth <= 0:
                return e
            for rule in _candidates(e):
                result = apply_rule(rule, e, known)
                if result is not None:
                    made = result
                    break
            else:
                return e
        e = made
    return e


def apply(e: PrimExpr, known: OperandFacts) -> PrimExpr:
    """Fold a node with simplified parts and apply rules to it, until none applies."""
    return _simplify(e, known, 8)


def rewrite_expr(expr: PrimExpr, known: OperandFacts) -> PrimExpr:
    """Fold and apply rules in an expression, innermost first; return the same if none applies."""

    def rule(e: Any) -> PrimExpr:
        return _simplify(e, known, 8)

    return rewrite(expr, dict.fromkeys((*_BY_CLASS, *FOLDED), rule))


FOLDED: Final[tuple[type, ...]] = (And, Or, Not)
