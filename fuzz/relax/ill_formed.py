"""Graphs with one mistake, which the broken rule or the operator concerned must report.

A *defect* breaks a rule of well-formedness, whose number is in its error code. A *mistake* changes
an argument or attribute of a call: the call may still be valid, or be refused when the program is
built or runs; any other exception is a bug, and so is a different answer of native code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import loomir
from fuzz.choices import Choices, SeedChoices
from fuzz.relax.program import RelaxProgram
from loomir.check.relax.well_formed import well_formed
from loomir.ir.module import GlobalVar, IRModule, VDevice
from loomir.ir.op import Op
from loomir.relax import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    FuncStructInfo,
    Function,
    If,
    MatchCast,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    TensorStructInfo,
    Tuple,
    Var,
    VarBinding,
)
from loomir.relax.normal.normalize import normalize
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.definition import find_op
from loomir.support.diagnostics import CompileError, RunError
from loomir.support.dtype import DataType
from loomir.tir import PrimExpr, const
from loomir.tir import Var as ShapeVar
from loomir.transform.relax.bindings.dead_code_elimination import dead_code_elimination

__all__ = ["DEFECTS", "accepted_defect", "accepted_mistake"]

Blocks = list[BindingBlock]


def _free() -> ShapeVar:
    return ShapeVar("free", "int64")


def _tensor(*shape: Any) -> TensorStructInfo:
    return TensorStructInfo(shape, "float32")


def _op(name: str) -> Op:
    found = find_op(f"relax.{name}")
    assert found is not None
    return found.op


def _let(var: Var, value: Any) -> VarBinding:
    return VarBinding(var, value)


def _added(main: Function, choices: Choices, *blocks: BindingBlock) -> Function:
    """Put blocks somewhere between those of a function."""
    body = main.body
    assert isinstance(body, SeqExpr)
    at = choices.integer(0, len(body.blocks))
    return replace(main, body=SeqExpr((*body.blocks[:at], *blocks, *body.blocks[at:]), body.body))


def _value() -> Constant:
    return Constant(np.zeros(2, "float32"))


def _plain(*bindings: Any) -> BindingBlock:
    return BindingBlock(bindings)


def _flow(*bindings: Any) -> DataflowBlock:
    return DataflowBlock(bindings)


def _bound_outside(main: Function, c: Choices) -> Any:
    return _added(main, c, _plain(_let(DataflowVar("w", _tensor(2)), _value())))


def _used_outside(main: Function, c: Choices) -> Any:
    inner = DataflowVar("w", _tensor(2))
    return _added(main, c, _flow(_let(inner, _value())), _plain(_let(Var("u", _tensor(2)), inner)))


def _twice(main: Function, c: Choices) -> Any:
    w = Var("w", _tensor(2))
    return _added(main, c, _plain(_let(w, _value())), _plain(_let(w, _value())))


def _nowhere(main: Function, c: Choices) -> Any:
    missing = Var("missing", _tensor(2))
    return _added(main, c, _plain(_let(Var("w", _tensor(2)), Call(_op("abs"), (missing,)))))


def _no_function(main: Function, c: Choices) -> Any:
    return _added(main, c, _plain(_let(Var("w", _tensor(2)), Call(GlobalVar("none"), ()))))


def _before(main: Function, c: Choices) -> Any:
    w = Var("w", _tensor(2))
    return _added(main, c, _plain(_let(Var("u", _tensor(2)), w)), _plain(_let(w, _value())))


def _return(main: Function, c: Choices) -> Any:
    del c
    return replace(main, ret_struct_info=_tensor(_free()))


def _extent(main: Function, c: Choices) -> Any:
    return _added(main, c, _plain(_let(Var("w", ObjectStructInfo()), ShapeExpr((_free(),)))))


def _cast(main: Function, c: Choices) -> Any:
    info = _tensor(_free() * 2)
    return _added(main, c, _plain(MatchCast(Var("w", info), _value(), info)))


def _parameter(main: Function, c: Choices) -> Any:
    del c
    return replace(main, params=(*main.params, Var("w", _tensor(_free() + 1))))


def _branch(main: Function, c: Choices) -> Any:
    yes = If(Constant(np.array(True)), SeqExpr((), _value()), SeqExpr((), _value()))
    return _added(main, c, _flow(_let(DataflowVar("w", _tensor(2)), yes)))


def _recursion(main: Function, c: Choices) -> Any:
    call = Call(GlobalVar("main"), main.params)
    made = main
    if made.ret_struct_info is None:
        made = replace(main, ret_struct_info=ObjectStructInfo())
    return _added(made, c, _flow(_let(DataflowVar("w", ObjectStructInfo()), call)))


def _unannotated(main: Function, c: Choices) -> Any:
    call = Call(GlobalVar("main"), main.params)
    made = replace(main, ret_struct_info=None)
    return _added(made, c, _plain(_let(Var("w", ObjectStructInfo()), call)))


def _operator(main: Function, c: Choices) -> Any:
    fields: Any = (_op("abs"),)
    return _added(main, c, _plain(_let(Var("w", ObjectStructInfo()), Tuple(fields))))


def _captured(main: Function, c: Choices) -> Any:
    inner, p = DataflowVar("w", _tensor(2)), Var("p", _tensor(2))
    closure = Function((p,), SeqExpr((), inner))
    known = FuncStructInfo((_tensor(2),), _tensor(2))
    return _added(main, c, _flow(_let(inner, _value()), _let(DataflowVar("f", known), closure)))


def _shape_info(info: Any) -> Callable[[Function, Choices], Any]:
    def make(main: Function, c: Choices) -> Any:
        return _added(main, c, _plain(_let(Var("w", info()), _value())))

    return make


def _scalar(main: Function, c: Choices) -> Any:
    return _added(main, c, _plain(_let(Var("w", ObjectStructInfo()), PrimValue(_free() + 1))))


def _impure(main: Function, c: Choices) -> Any:
    del c
    return replace(main, is_pure=False, attrs={**main.attrs, "relax.force_pure": True})


def _own_rule(main: Function, c: Choices) -> Any:
    call = Call(_op("reshape"), (_value(), ShapeExpr((1, -1))))
    return _added(main, c, _plain(_let(Var("w", ObjectStructInfo()), call)))


def _device(main: Function, c: Choices) -> Any:
    info = TensorStructInfo((2,), "float32", VDevice("llvm", c.integer(0, 3)))
    return _added(main, c, _plain(_let(Var("w", info), _value())))


def _refused(make: Callable[[], Any]) -> Callable[[Function, Choices], Any]:
    return lambda main, c: make()


DEFECTS: dict[str, tuple[int, Callable[[Function, Choices], Any]]] = {
    "bound outside": (1, _bound_outside),
    "used outside": (1, _used_outside),
    "bound twice": (2, _twice),
    "bound nowhere": (2, _nowhere),
    "no function": (2, _no_function),
    "used before": (3, _before),
    "returned size": (4, _return),
    "extent": (5, _extent),
    "cast": (5, _cast),
    "parameter": (6, _parameter),
    "branch in dataflow": (7, _branch),
    "recursion in dataflow": (7, _recursion),
    "no return annotation": (8, _unannotated),
    "operator as a value": (9, _operator),
    "captured in dataflow": (11, _captured),
    "tensor of an unknown size": (14, _shape_info(lambda: _tensor(_free()))),
    "rank and shape": (14, _refused(lambda: TensorStructInfo((2, 3), "float32", ndim=1))),
    "shape of an unknown size": (15, _shape_info(lambda: ShapeStructInfo((_free(),)))),
    "scalar of an unknown size": (16, _shape_info(lambda: PrimStructInfo("int64", _free()))),
    "two derivations": (17, _refused(lambda: FuncStructInfo((), _tensor(), derive_func="f"))),
    "scalar of an unknown variable": (18, _scalar),
    "scalar handle": (19, _refused(lambda: PrimStructInfo("handle"))),
    "lanes": (20, _refused(lambda: TensorStructInfo(None, "float32x4"))),
    "forced purity": (21, _impure),
    "dtype of a scalar": (22, _refused(lambda: PrimStructInfo("int32", const(1, "int64")))),
    "operator's own rule": (23, _own_rule),
    "device": (24, _device),
}
"""Ways to break a rule, and the rule's number. Rules 10, 12 and 13 are the constructors' and the
linker's."""


def accepted_defect(program: RelaxProgram, seed: int) -> str:
    """Break a rule; says what is wrong with the answer."""
    choices = SeedChoices(f"defect {seed}")
    name = choices.pick(list(DEFECTS))
    rule, make = DEFECTS[name]
    wanted = f"RLX01{rule:02d}"
    main = program.module["main"]
    assert isinstance(main, Function)
    try:
        made = make(main, choices)
    except CompileError as error:
        said = error.diagnostic.code
        return "" if said == wanted else f"{name}: {said} instead of {wanted}"
    broken = program.module.with_function("main", made)
    codes = [d.code for d in well_formed(broken) if d.severity == "error"]
    if not codes or set(codes) != {wanted}:
        return f"{name}: {codes} instead of {wanted}"
    try:
        loomir.compile(broken, cache=False)
    except CompileError:
        return ""
    return f"{name}: it is compiled"


# -- mistakes ----------------------------------------------------------------------------------
class _Mistaken(Rewriter):
    """Changes one call of an operator."""

    def __init__(self, mod: IRModule, at: int, choices: Choices) -> None:
        super().__init__(mod)
        self.at = at
        self.choices = choices

    def rewrite_call(self, call: Call) -> Any:
        """Change the call whose turn it is."""
        if not isinstance(call.op, Op) or "packed" in call.op.name:
            return call  # functions of Python raise what they like
        self.at -= 1
        return self.change(call) if self.at == 0 else call

    def change(self, call: Call) -> Call:
        """Return another argument, drop one, or give another option."""
        c, args, attrs = self.choices, list(call.args), dict(call.attrs)
        form = c.integer(0, 4)
        if form == 0 and args:
            args.pop()
        elif form == 1 and attrs:
            name = c.pick(sorted(attrs))
            attrs[name] = _other_option(c, attrs[name])
        elif args:
            place = c.integer(0, len(args) - 1)
            args[place] = _other_argument(c, args[place])
        return Call(call.op, tuple(args), call.sinfo_args, attrs)


def _other_option(c: Choices, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return c.pick([value + 1, value - 1, -value, 9, -9, 2**40])
    if isinstance(value, tuple):
        items = list(value)
        if items and c.chance(0.7):
            items[c.integer(0, len(items) - 1)] = c.integer(-5, 5)
            return tuple(items)
        return (*items, c.integer(-3, 3))
    if isinstance(value, DataType):
        return DataType(c.pick(["int32", "float16", "bool", "uint64", "float32"]))
    if isinstance(value, float):
        return c.pick([0.0, -value, float("inf"), float("nan")])
    return c.integer(-3, 3) if value is None else value


def _other_argument(c: Choices, value: Any) -> Any:
    if isinstance(value, ShapeExpr) and value.values:
        dims: list[PrimExpr | int] = list(value.values)
        dims[c.integer(0, len(dims) - 1)] = c.integer(0, 5)
        return ShapeExpr(tuple(dims))
    if isinstance(value, PrimValue):
        return PrimValue(const(c.integer(-4, 4), c.pick(["int64", "int32", "float32", "bool"])))
    if isinstance(value, Tuple) and value.fields:
        fields = list(value.fields)
        place = c.integer(0, len(fields) - 1)
        if c.chance(0.4):
            fields.pop(place)
        else:
            fields[place] = _other_argument(c, fields[place])
        return Tuple(tuple(fields))
    shape = [c.integer(0, 4) for _ in range(c.integer(0, 3))]
    dtype = c.pick(["float32", "int32", "int64", "bool", "float16", "uint8"])
    made = np.array([c.integer(0, 5) for _ in range(int(np.prod(shape)))], dtype)
    return Constant(made.reshape(shape))


def accepted_mistake(program: RelaxProgram, seed: int) -> str:
    """Change a call; says what is wrong with the answer."""
    choices = SeedChoices(f"mistake {seed}")
    count = max(1, sum(name != "Tuple" for name in program.made))
    try:
        changed = _Mistaken(program.module, choices.integer(1, count), choices).rewrite_module()
    except CompileError:
        return ""
    if changed is program.module or loomir.verify(changed):
        return ""
    try:
        exe = loomir.compile(changed, cache=False, opt_level=0)
    except CompileError as error:
        return f"compiling refuses what verifies: {error}"
    native = _ended(lambda: exe["main"](*program.fresh()))
    wanted = _ended(lambda: loomir.interpret(changed, "main", *program.fresh()))
    if native == wanted:
        return ""
    # What nothing uses in a dataflow block goes, even where it fails.
    used = dead_code_elimination(normalize(changed))
    if native == _ended(lambda: loomir.interpret(used, "main", *program.fresh())):
        return ""
    return f"native {native}, interpreter {wanted}\n{changed.script(constants='inline')}"


def _ended(run: Callable[[], Any]) -> str:
    """Return the code of the error of a run, if any."""
    try:
        with np.errstate(all="ignore"):
            run()
    except RunError as error:
        return error.diagnostic.code
    return "no error"
