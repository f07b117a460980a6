"""Random well-typed TIR programs with one meaning.

``generate(choices)`` draws a module, the function to call, and its arguments. Programs are verified
before they are returned. A program is a function of ``VERSION`` and of the decisions drawn, so that
a failure is stored as its seed.

The meaning is unique because integers wrap, indices stay in bounds, divisors are not zero, memory
is written before it is read, iterations of parallel and vectorised loops use elements of their own,
and results that engines may round differently are stored but never read again.
"""

from __future__ import annotations

import math
from dataclasses import replace

from fuzz.choices import Choices, SeedChoices
from fuzz.tir.blocks import Blocks
from fuzz.tir.expressions import Context, Expressions, Helper, Policy, UsableBuffer
from fuzz.tir.functions import EVERY, FLOATS, INTS
from fuzz.tir.program import ArraySpec, Program, ScalarSpec
from fuzz.tir.statements import Statements
from loomir.check.tir.verify import verify
from loomir.interp.builtins import TOLERANCE
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    TRUE,
    VOID_TYPE,
    Block,
    BlockRealize,
    Buffer,
    Call,
    Evaluate,
    FloorMod,
    IfThenElse,
    IntImm,
    LetStmt,
    PrimExpr,
    PrimFunc,
    PrimType,
    Stmt,
    Sub,
    Var,
    call_builtin,
    const,
    decl_buffer,
    seq,
)

__all__ = ["VERSION", "generate", "program_of_seed"]

VERSION = 4
BUDGETS = (1_500, 5_000, 20_000)
"""Scalar operations that the interpreter may spend on a program, about, by the program's size."""

INT32, INT64 = DataType("int32"), DataType("int64")
EXTENTS = [*range(1, 18), 4, 4, 8, 8, 16, 19, 23, 29, 31, 37]
TINY = [0, 1, 1, 1, 2]
FAVOURS = [
    "",
    "",
    "divide",
    "minmax",
    "blocks",
    "parallel",
    "vectors",
    "constants",
    "shared",
    "stencil",
    "loops",
    "tiny",
]
"""What programs may be full of, or of which there is little: constants, extents."""


def program_of_seed(seed: int) -> Program:
    """Return the program of a seed."""
    return generate(SeedChoices(f"tirgen {VERSION} {seed}"))


def generate(choices: Choices) -> Program:
    """Draw a program."""
    return _Generator(choices).program()


def _policy(c: Choices) -> Policy:
    kind = c.integer(0, 9)
    if kind <= 2:
        dtypes = [c.pick(EVERY)]
    elif kind <= 4:
        dtypes = [INT32, c.pick(FLOATS)]
    elif kind <= 6:
        dtypes = [c.pick(INTS), c.pick(FLOATS), BOOL]
    elif kind == 7:
        dtypes = [c.pick(INTS), c.pick(INTS), c.pick(INTS)]
    else:
        dtypes = list(EVERY)
    size = c.weighted([(10, 0), (5, 1), (1, 2)])
    depths = [[(2.0, 2), (1.0, 1)], [(3.0, 2), (2.0, 3)], [(3.0, 3), (1.0, 4), (1.0, 2)]]
    return Policy(dtypes, c.weighted(depths[size]), c.pick(FAVOURS), size)


class _Generator:
    def __init__(self, choices: Choices) -> None:
        self.c = choices
        self.may_fail = choices.chance(0.06)
        self.policy = _policy(choices)
        self.exprs = Expressions(choices, self.policy, self.may_fail)
        self.statements = Statements(self.exprs, BUDGETS[self.policy.size])
        self.statements.makers += Blocks(self.statements).makers()
        self.functions: list[PrimFunc] = []
        self.arguments: list[ArraySpec | ScalarSpec] = []
        self.bindings: list[tuple[Var, int]] = []

    def program(self) -> Program:
        """Draw helpers, then the main function."""
        c = self.c
        most = [[(6.0, 0), (1.0, 1)], [(5.0, 0), (2.0, 1)], [(3.0, 0), (2.0, 1), (2.0, 2)]]
        for _ in range(c.weighted(most[self.policy.size])):
            self.helper()
        main = self.main()
        functions: dict[GlobalVar, BaseFunc] = {
            GlobalVar(f.name): f for f in [*self.functions, main]
        }
        module = IRModule(functions)
        mistakes = verify(module)
        if mistakes:
            raise InternalError("the generator made a wrong program: " + str(mistakes[0]))
        return Program(module, "main", self.arguments, self.may_fail)

    # -- helpers -------------------------------------------------------------------------------
    def helper(self) -> None:
        """Add a function for others to call."""
        name = f"helper{len(self.functions)}"
        before = self.exprs.cost
        kind = self.c.weighted(
            [(3, self._scalar_helper), (2, self._buffer_helper), (1, self._recursion)]
        )
        made = kind(name)
        made.cost = self.exprs.cost - before + 5
        if made.returns is not None and name.endswith(("0", "1")) and kind == self._recursion:
            made.cost *= 8
        self.exprs.helpers.append(made)
        self.functions.append(made.func)

    def _scalars(self) -> list[Var]:
        count = self.c.integer(1, 3)
        return [Var(self.exprs.name("a"), self.exprs.dtype()) for _ in range(count)]

    def _scalar_helper(self, name: str) -> Helper:
        params, returns = self._scalars(), self.exprs.dtype()
        ctx = Context(scalars=tuple(params))
        parts: list[Stmt] = []
        if self.c.chance(0.4):
            early = Evaluate(call_builtin("ret", self.exprs.expr(ctx, returns)))
            parts.append(IfThenElse(self.exprs.expr(ctx, BOOL), early))
        parts.append(Evaluate(call_builtin("ret", self.exprs.expr(ctx, returns))))
        func = PrimFunc(tuple(params), seq(parts), PrimType(returns), {}, {"global_symbol": name})
        return Helper(func, [p.dtype for p in params], [], returns)

    def _recursion(self, name: str) -> Helper:
        """Count down from a small number, and combine on the way back."""
        count, x = Var(self.exprs.name("n"), INT32), Var(self.exprs.name("a"), self.exprs.dtype())
        left = Var(self.exprs.name("m"), INT32)
        ctx = Context(scalars=(x,)).with_index(left, 0, 6)
        dtype = x.dtype
        inner = self.exprs.expr(ctx, dtype, 2)
        smaller: PrimExpr = Sub(left, const(1, INT32))
        again = Call(dtype, GlobalVar(name), (smaller, inner))
        back = Var(self.exprs.name("r"), dtype)
        after = replace(ctx, scalars=(x, back))
        result = Evaluate(call_builtin("ret", self.exprs.expr(after, dtype, 2)))
        stop = Evaluate(call_builtin("ret", self.exprs.expr(ctx, dtype, 1)))
        from_here = LetStmt(back, again, result)
        body = LetStmt(
            left,
            FloorMod(count, const(7, INT32)),
            IfThenElse(left.equal(0), stop, from_here),
        )
        func = PrimFunc((count, x), body, PrimType(dtype), {}, {"global_symbol": name})
        return Helper(func, [INT32, dtype], [], dtype)

    def _buffer_helper(self, name: str) -> Helper:
        params = self._scalars()
        buffers: list[Buffer] = []
        knowns: list[UsableBuffer] = []
        wanted: list[tuple[DataType, tuple[int, ...] | None]] = []
        for _ in range(self.c.integer(1, 2)):
            shape = tuple(self.c.pick([2, 3, 4, 8]) for _ in range(self.c.integer(1, 2)))
            buffer = decl_buffer(shape, self.exprs.dtype(), self.exprs.name("H"))
            buffers.append(buffer)
            knowns.append(UsableBuffer(buffer, shape, root=id(buffer)))
            wanted.append((buffer.dtype, shape))
        ctx = Context(scalars=tuple(params), buffers=tuple(knowns))
        returns = self.exprs.dtype() if self.c.chance(0.3) else None
        parts = [self.statements.block_of(ctx, 2)]
        if returns is not None:
            parts.append(Evaluate(call_builtin("ret", self.exprs.expr(ctx, returns))))
        handles = [Var(b.name, "handle") for b in buffers]
        func = PrimFunc(
            (*handles, *params),
            seq(parts),
            VOID_TYPE if returns is None else PrimType(returns),
            dict(zip(handles, buffers, strict=True)),
            {"global_symbol": name},
        )
        return Helper(func, [p.dtype for p in params], wanted, returns)

    # -- the main function ---------------------------------------------------------------------
    def main(self) -> PrimFunc:
        """Draw the function that is called, and its arguments."""
        c = self.c
        params: list[Var] = []
        buffer_map: dict[Var, Buffer] = {}
        knowns: list[UsableBuffer] = []
        for _ in range(c.integer(1, [2, 3, 4][self.policy.size])):
            known = self._array()
            handle = Var(known.buffer.name, "handle")
            params.append(handle)
            buffer_map[handle] = known.buffer
            knowns.append(known)
        maths = self._math_output(params, buffer_map) if c.chance(0.3) else None
        scalars = [Var(self.exprs.name("x"), self.exprs.dtype()) for _ in range(c.integer(0, 2))]
        ctx = Context(scalars=tuple(scalars), buffers=tuple(knowns))
        for scalar in scalars:
            self.arguments.append(ScalarSpec(scalar.name_hint, scalar.dtype))
        for var, value in self.bindings:
            ctx = ctx.with_index(var, value, value)
            if c.chance(0.2):
                scalars.append(var)
                self.arguments.append(ScalarSpec(var.name_hint, var.dtype, value, value))
        returns = self.exprs.dtype() if c.chance(0.3) else None
        ctx = replace(ctx, returns=returns)
        self.statements.maths = maths
        self.exprs.cost = 0
        parts = self.statements.several(ctx, 2 + (self.policy.size > 0))
        if maths is not None:
            made = [self.statements.math_store(ctx, 0) for _ in range(c.integer(3, 8))]
            parts += [m for m in made if m is not None]
        if returns is not None:
            last = self.exprs.expr(replace(ctx, returns=None), returns)
            parts.append(Evaluate(call_builtin("ret", last)))
        body = seq(parts)
        if self.statements.has_blocks:
            body = BlockRealize((), TRUE, Block((), (), (), "root", body))
        return PrimFunc(
            (*params, *scalars),
            body,
            VOID_TYPE if returns is None else PrimType(returns),
            buffer_map,
            {"global_symbol": "main"},
        )

    def _array(self) -> UsableBuffer:
        """Draw an array parameter and its argument."""
        c, name, dtype = self.c, self.exprs.name("A"), self.exprs.dtype()
        tiny = self.policy.favours == "tiny"
        extents_here = TINY if tiny else EXTENTS
        rank = c.weighted([(3 if tiny else 1, 0), (4, 1), (4, 2), (2, 3), (1, 4)])
        extents: list[int] = []
        shape: list[PrimExpr] = []
        for _ in range(rank):
            extent = 0 if c.chance(0.01) else c.pick(extents_here)
            if math.prod(extents) * extent > 1024:
                extent = 1
            extent, written = self._extent(extent, 1024 // max(1, math.prod(extents)))
            extents.append(extent)
            shape.append(written)
        steps: tuple[int, ...] = ()
        strides: tuple[PrimExpr, ...] = ()
        if rank and c.chance(0.2):
            steps = tuple(c.pick([1, 1, 2, -1, 3]) for _ in range(rank))
            strides = tuple(Var(self.exprs.name("s"), INT64) for _ in range(rank))
        offset = c.integer(1, 3) if c.chance(0.1) else 0
        self.arguments.append(ArraySpec(name, dtype, tuple(extents), steps, offset))
        buffer = decl_buffer(shape, dtype, name, strides=strides)
        return UsableBuffer(buffer, tuple(extents), root=id(buffer), passable=not strides)

    def _extent(self, extent: int, most: int) -> tuple[int, PrimExpr]:
        """Write an extent as a constant, a name, or an expression of names, up to ``most``."""
        c = self.c
        if extent and c.chance(0.3):
            known = [(var, value) for var, value in self.bindings if value <= most]
            if known and c.chance(0.5):
                var, value = c.pick(known)
                if c.chance(0.3) and value <= 8 and value * 2 <= most:
                    return value * 2, var * 2
                return value, var
            var = Var(self.exprs.name("n"), c.pick([INT64, INT64, INT32]))
            self.bindings.append((var, extent))
            return extent, var
        return extent, IntImm(extent, INT32)

    def _math_output(self, params: list[Var], buffer_map: dict[Var, Buffer]) -> UsableBuffer | None:
        """Add an array for results that engines may round differently; nothing reads it."""
        floats = [d for d in self.policy.dtypes if d.is_float]
        if not floats:
            return None
        extent, name = self.c.pick([4, 8]), self.exprs.name("R")
        buffer = decl_buffer((extent,), self.c.pick(floats), name)
        handle = Var(name, "handle")
        params.append(handle)
        buffer_map[handle] = buffer
        tolerance = max(TOLERANCE.values())
        self.arguments.append(ArraySpec(name, buffer.dtype, (extent,), tolerance=tolerance))
        return UsableBuffer(buffer, (extent,), root=id(buffer))
