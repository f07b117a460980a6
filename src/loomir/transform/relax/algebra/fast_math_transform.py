"""Fast math: replace powers and quotients by faster operators, which round differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from loomir.ir.passes import register
from loomir.relax.expr import Call, Constant, Function
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.reference import xp
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.array import Array
from loomir.transform.relax.graph_reading import make_call, operator_of

__all__ = ["fast_math_transform"]


@register("relax.FastMathTransform", requires={"relax_normal_form"})
def fast_math_transform(func: Function) -> Function:
    """Write powers of floats with constant exponents, and quotients by constants, as products.

    - ``power`` by 2, 3 and 4 becomes products; by -1 and -2, quotients of 1; by 0.5 ``sqrt``, by
      -0.5 ``rsqrt``. Results are rounded up to three times. The root of -0.0 is -0.0, that of
      negative infinity NaN.
    - ``divide`` by constants becomes ``multiply`` by their reciprocals, if these are finite and not
      0; it rounds twice.

    No pipeline includes this pass. ``exp``, ``tanh`` and ``erf`` stay: their kernels are as fast as
    shorter formulas.
    """
    return _FastMath().rewrite_function(func)


class _FastMath(Rewriter):
    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Return a faster expression in place of a call."""
        name = operator_of(call)
        if name not in ("power", "divide"):
            return call
        x, by = call.args[0], self.lookup(call.args[1])
        info = self.builder.struct_info_of(x)
        if not isinstance(by, Constant) or not isinstance(info, TensorStructInfo):
            return call
        if not info.dtype.is_float or by.data.dtype is not info.dtype:
            return call
        value = self._power(x, by, info) if name == "power" else self._quotient(x, by)
        if value is None:
            return call
        return Call(value.op, value.args, value.sinfo_args, value.attrs, span=call.span)

    def _power(self, x: RelaxExpr, exponent: Constant, info: TensorStructInfo) -> Call | None:
        data = exponent.data.data
        if data.size != 1 or not data.ndim <= info.ndim:  # it must not add axes to the result
            return None
        rule = _POWERS.get(data.astype("float64").item())
        if rule is None:
            return None
        one = Constant(Array(np.ones((), data.dtype)))
        return rule(self.builder.emit, x, one)

    def _quotient(self, x: RelaxExpr, divisor: Constant) -> Call | None:
        data: Any = divisor.data.data
        with np.errstate(all="ignore"):
            inverse = xp.asarray(xp.divide(1, data.astype("float64")), data.dtype)
        shown = inverse.astype("float64")
        if not (np.isfinite(shown) & (shown != 0) & np.isfinite(data.astype("float64"))).all():
            return None
        return make_call("multiply", x, Constant(Array(inverse)))


Emit = Callable[[RelaxExpr], RelaxExpr]

_POWERS: Final[dict[float, Callable[[Emit, RelaxExpr, Constant], Call]]] = {
    2.0: lambda emit, x, one: make_call("square", x),
    3.0: lambda emit, x, one: make_call("multiply", emit(make_call("square", x)), x),
    4.0: lambda emit, x, one: make_call("square", emit(make_call("square", x))),
    -1.0: lambda emit, x, one: make_call("divide", one, x),
    -2.0: lambda emit, x, one: make_call("divide", one, emit(make_call("square", x))),
    0.5: lambda emit, x, one: make_call("sqrt", x),
    -0.5: lambda emit, x, one: make_call("rsqrt", x),
}
"""The replacement for each exponent."""
