"""Convert symbolic sizes: torch's SymPy expressions become expressions of extents."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Container, Mapping
from functools import reduce
from typing import Any, Final

from loomir.arith.analyzer import Analyzer
from loomir.frontend.torch.mistakes import CannotImport
from loomir.relax.shape import INT64
from loomir.support.dtype import DataType
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import (
    NE,
    And,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Not,
    Or,
    PrimExpr,
    Select,
    Var,
    cast,
    const,
)

__all__ = ["Sizes", "evaluate", "solve_linear"]

_FLOAT: Final = DataType("float64")


class Sizes:
    """The symbols of a program, each a shape variable, and expressions of them."""

    def __init__(self) -> None:
        self.variables: dict[str, Var] = {}
        self._analyzer = Analyzer()

    def variable(self, symbol: Any) -> Var:
        """Return the shape variable of a symbol."""
        name = str(symbol)
        if name not in self.variables:
            self.variables[name] = Var(name, INT64)
        return self.variables[name]

    def convert_size(self, value: Any) -> Any:
        """Return a size as a number or an expression; ``value`` is an int or a ``SymInt``."""
        if isinstance(value, (bool, int, float, PrimExpr)):
            return value
        node = getattr(value, "node", None)
        made = self.convert(value if node is None else node.expr)
        return self.simplify(made)

    def convert(self, expr: Any) -> Any:
        """Return an expression of SymPy as one of extents."""
        return evaluate(expr, self.variable)

    def simplify(self, expr: Any) -> Any:
        """Return an extent in its simplest form, if possible as a number."""
        if not isinstance(expr, PrimExpr):
            return expr
        found = self._analyzer.simplify(expr)
        return found.value if isinstance(found, IntImm) else found

    def is_equal(self, a: Any, b: Any) -> bool:
        """Tell whether two sizes are certainly equal."""
        if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
            found = self.simplify(a - b)
            return not isinstance(found, PrimExpr) and found == 0
        return bool(a == b)


def solve_linear(expr: Any, known: Container[str]) -> tuple[Any, int, Any] | None:
    """Return the only symbol of a size that is not known, its factor, and what is added to it.

    None for a size that is not linear in one unknown symbol with a positive whole factor.
    """
    unknown = [s for s in expr.free_symbols if str(s) not in known]
    if len(unknown) != 1 or type(expr).__name__ not in ("Add", "Mul"):
        return None
    symbol = unknown[0]
    terms = expr.args if type(expr).__name__ == "Add" else (expr,)
    own = [term for term in terms if symbol in term.free_symbols]
    factor = own[0] / symbol
    if len(own) != 1 or not factor.is_Integer or factor <= 0:
        return None
    return symbol, int(factor), expr - own[0]


def evaluate(expr: Any, symbol: Callable[[Any], Any]) -> Any:
    """Compute an expression of SymPy of what ``symbol`` gives; parts first, nothing recurses."""
    todo: list[tuple[Any, bool]] = [(expr, False)]
    made: list[Any] = []
    while todo:
        part, ready = todo.pop()
        if part.is_Symbol:
            made.append(symbol(part))
        elif part.is_Integer:
            made.append(int(part))
        elif part.is_Float:
            made.append(float(part))
        elif part.is_Rational:
            made.append(int(part.p) / int(part.q))
        elif ready:
            count = len(part.args)
            operands = made[len(made) - count :]
            del made[len(made) - count :]
            made.append(_apply(part, operands))
        else:
            todo.append((part, True))
            todo.extend((a, False) for a in reversed(part.args))
    return made[0]


def _apply(expr: Any, operands: list[Any]) -> Any:
    name = type(expr).__name__
    found = _FUNCTIONS.get(name)
    if found is None:
        raise CannotImport(f"a size is computed by {name}, which is not supported: {expr}")
    return found(*operands)


def _power(base: Any, exponent: Any) -> Any:
    if not isinstance(exponent, int) or exponent < 0:
        return _float_power(base, exponent)
    return reduce(lambda a, b: a * b, [base] * exponent, 1)


def _float_power(base: Any, exponent: Any) -> Any:
    base, exponent = _as_float(base), _as_float(exponent)
    if not isinstance(base, PrimExpr) and not isinstance(exponent, PrimExpr):
        return base**exponent
    return call_builtin("pow", _expression(base), _expression(exponent))


def _unary(name: str, plain: Callable[[float], float]) -> Callable[[Any], Any]:
    """Return a function of floats: a builtin by name, and what it is for numbers of Python."""

    def apply(value: Any) -> Any:
        value = _as_float(value)
        return call_builtin(name, value) if isinstance(value, PrimExpr) else plain(value)

    return apply


def _to_int(rounded: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(value: Any) -> Any:
        if isinstance(value, int) or (isinstance(value, PrimExpr) and value.dtype.is_integer):
            return value
        found = rounded(value)
        return cast(found, INT64) if isinstance(found, PrimExpr) else int(found)

    return apply


_CEIL: Final = _unary("ceil", math.ceil)
_FLOOR: Final = _unary("floor", math.floor)
_TRUNCATE: Final = _unary("trunc", math.trunc)
_ROUND: Final = _unary("nearbyint", round)


def _lesser(*operands: Any) -> Any:
    return reduce(lambda a, b: _pair(min, Min, a, b), operands)


def _greater(*operands: Any) -> Any:
    return reduce(lambda a, b: _pair(max, Max, a, b), operands)


def _pair(plain: Callable[[Any, Any], Any], symbolic: Any, a: Any, b: Any) -> Any:
    if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        return plain(a, b)
    return symbolic(_expression(a), _expression(b))


def _expression(value: Any) -> PrimExpr:
    if isinstance(value, PrimExpr):
        return value
    return const(value, INT64 if isinstance(value, int) else _FLOAT)


def _is_same(a: Any, b: Any) -> Any:
    return _pair(operator.eq, Eq, a, b)


def _differs(a: Any, b: Any) -> Any:
    return _pair(operator.ne, NE, a, b)


def _join(*parts: Any) -> Any:
    return parts


def _floor_divide(a: Any, b: Any) -> Any:
    return _pair(lambda x, y: x // y, FloorDiv, a, b)


def _bits(name: str, plain: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        return _pair(plain, functools.partial(call_builtin, name), a, b)

    return apply


def _ceil_divide(a: Any, b: Any) -> Any:
    return -_floor_divide(-a, b)


def _absolute(value: Any) -> Any:
    return _greater(value, -value)


def _where(condition: Any, value: Any, other: Any) -> Any:
    return _choose((value, condition), (other, True))


def _modulo(a: Any, b: Any) -> Any:
    return _pair(lambda x, y: x % y, FloorMod, a, b)


def _modular(base: Any, divisor: Any, modulus: Any) -> Any:
    return _modulo(_floor_divide(base, divisor), modulus)


def _divide(a: Any, b: Any) -> Any:
    return _as_float(a) / _as_float(b)


def _as_float(value: Any) -> Any:
    return cast(value, _FLOAT) if isinstance(value, PrimExpr) else float(value)


def _identity(value: Any) -> Any:
    return value


def _add(*operands: Any) -> Any:
    return reduce(lambda a, b: a + b, operands)


def _multiply(*operands: Any) -> Any:
    return reduce(lambda a, b: a * b, operands)


def _all(*operands: Any) -> Any:
    return reduce(lambda a, b: _combine(And, lambda x, y: x and y, a, b), operands)


def _any(*operands: Any) -> Any:
    return reduce(lambda a, b: _combine(Or, lambda x, y: x or y, a, b), operands)


def _combine(symbolic: Any, plain: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        return plain(a, b)
    truths = [v if isinstance(v, PrimExpr) else const(bool(v), DataType("bool")) for v in (a, b)]
    return symbolic(*truths)


def _choose(*pairs: Any) -> Any:
    """Return the value of the first pair whose condition holds; the last one always does."""
    chosen = pairs[-1][0]
    for value, condition in reversed(pairs[:-1]):
        if isinstance(condition, PrimExpr):
            chosen = Select(condition, _expression(value), _expression(chosen))
        elif condition:
            chosen = value
    return chosen


def _not(value: Any) -> Any:
    return Not(value) if isinstance(value, PrimExpr) else not value


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "Add": _add,
    "Mul": _multiply,
    "Pow": _power,
    "PowByNatural": _power,
    "FloatPow": _float_power,
    "CeilToInt": _to_int(_CEIL),
    "FloorToInt": _to_int(_FLOOR),
    "TruncToInt": _to_int(_TRUNCATE),
    "RoundToInt": _to_int(_ROUND),
    "TruncToFloat": _TRUNCATE,
    "ceiling": _to_int(_CEIL),
    "floor": _to_int(_FLOOR),
    "CeilDiv": _ceil_divide,
    "LShift": _bits("shift_left", lambda a, b: a << b),
    "RShift": _bits("shift_right", lambda a, b: a >> b),
    "BitwiseFn_bitwise_and": _bits("bitwise_and", lambda a, b: a & b),
    "BitwiseFn_bitwise_or": _bits("bitwise_or", lambda a, b: a | b),
    "BitwiseFn_bitwise_xor": _bits("bitwise_xor", lambda a, b: a ^ b),
    "Abs": _absolute,
    "Where": _where,
    "FloorDiv": _floor_divide,
    "CleanDiv": _floor_divide,
    "Mod": _modulo,
    "PythonMod": _modulo,
    "ModularIndexing": _modular,
    "Max": _greater,
    "Min": _lesser,
    "ToFloat": _as_float,
    "IntTrueDiv": _divide,
    "FloatTrueDiv": _divide,
    "Identity": _identity,
    "And": _all,
    "Or": _any,
    "Not": _not,
    "Piecewise": _choose,
    "ExprCondPair": _join,
    "BooleanTrue": lambda: True,
    "BooleanFalse": lambda: False,
    "Equality": _is_same,
    "Unequality": _differs,
    "StrictLessThan": operator.lt,
    "LessThan": operator.le,
    "StrictGreaterThan": operator.gt,
    "GreaterThan": operator.ge,
    **{
        f"OpaqueUnaryFn_{name}": _unary(name, getattr(math, name))
        for name in (
            "acos",
            "asin",
            "asinh",
            "atan",
            "cos",
            "cosh",
            "exp",
            "log",
            "log2",
            "sin",
            "sinh",
            "sqrt",
            "tan",
            "tanh",
        )
    },
}
"""By SymPy's names of functions, and those of torch.utils._sympy.functions."""
