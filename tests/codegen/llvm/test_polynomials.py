"""The coefficients of the kernels: how far each polynomial is from its function."""

from typing import Any

import mpmath
import pytest

from loomir.codegen.llvm.assembler.types import DOUBLE, FLOAT
from loomir.codegen.llvm.math import error, hyperbolic, inverse, power, trigonometry
from loomir.codegen.llvm.math import exponential as exps
from loomir.codegen.llvm.math import logarithm as logs
from tests.codegen.llvm.minimax import POLYNOMIALS, best, worst

KERNELS = {
    "exp single": exps.EXP_SINGLE,
    "exp double": exps.EXP_DOUBLE,
    "expm1 single": exps.EXPM1_SINGLE,
    "exp2 single": exps.EXP2_SINGLE,
    "exp2 double": exps.EXP2_DOUBLE,
    "exp10 single": exps.EXP10_SINGLE,
    "exp10 double": exps.EXP10_DOUBLE,
    "tanh single": hyperbolic.TANH[FLOAT],
    "tanh double": hyperbolic.TANH[DOUBLE],
    "sinh single": hyperbolic.SINH_SINGLE,
    "sinh double": hyperbolic.SINH,
    "log single": logs.LOG_SINGLE,
    "log double": logs.LOG_DOUBLE,
    "log power single": power.LOG_POWER_SINGLE,
    "log power double": power.LOG_POWER,
    "sin single": trigonometry.SIN_SINGLE,
    "cos single": trigonometry.COS_SINGLE,
    "tan single": trigonometry.TAN_SINGLE,
    "sin lite": trigonometry.SIN_LITE,
    "sin double": trigonometry.SIN,
    "cos lite": trigonometry.COS_LITE,
    "cos double": trigonometry.COS,
    "atan single": inverse.ATAN_SINGLE,
    "asin single": inverse.ASIN_SINGLE,
    "erf single": error.ERF[FLOAT],
    "atan double": inverse.ATAN,
    "asin double": inverse.ASIN,
    "erf double": error.ERF[DOUBLE],
}


def test_every_polynomial_is_known():
    assert set(KERNELS) == set(POLYNOMIALS)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_coefficients_are_as_near_as_the_table_says(name: Any):
    fit, coefficients = POLYNOMIALS[name], KERNELS[name]
    assert len(coefficients) == fit.count
    with mpmath.workdps(50):
        found = -mpmath.log(worst(fit.function, fit.low, fit.high, coefficients, fit.weight), 2)
        assert fit.bits <= found <= fit.bits + 1


@pytest.mark.parametrize("name", ["sinh double", "atan double", "asin double", "erf double"])
def test_no_term_is_in_vain(name: str):
    """The best polynomial of one term less is worse than what is in use."""
    fit = POLYNOMIALS[name]
    with mpmath.workdps(50):
        fewer = best(fit, fit.count - 1)
        needed = best(fit, fit.count)
        errors = [worst(fit.function, fit.low, fit.high, c, fit.weight) for c in (fewer, needed)]
        assert errors[0] > 2 * errors[1]
        # What is in use is the best one, rounded.
        assert [float(c) for c in needed] == pytest.approx(KERNELS[name], rel=1e-3)
