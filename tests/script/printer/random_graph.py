"""Random programs of Relax: every kind of binding, names that collide, values of every kind."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np

import loomir
from loomir.ir import GlobalVar, IRModule
from loomir.relax import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
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
    StringImm,
    StructInfo,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VarBinding,
    VDevice,
)
from loomir.tir import IntImm, Max, Min, Select
from loomir.tir import Var as ShapeVar

HINTS = [
    "x",
    "x",
    "lv",
    "gv",
    "n",
    "m",
    "T",
    "R",
    "I",
    "cls",
    "_",
    "class",
    "2x",
    "é",
    "a b",
    "main",
]
DTYPES = ["float32", "float16", "bfloat16", "int8", "int64", "uint64", "float64"]
DEVICES = (VDevice("llvm"), VDevice({"kind": "llvm", "keys": ("cpu", 1)}, 1, "shared"))


class Maker:
    """Makes one program from a seed; what it makes is in normal form and well-formed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.shape_vars: list[ShapeVar] = []
        self.scopes: list[list[Var]] = [[]]
        self.impure = False

    # -- parts -----------------------------------------------------------------------------------
    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def hint(self) -> str:
        return self.random.choice(HINTS)

    def extent(self, depth: int = 2) -> Any:
        if not self.shape_vars or self.chance(40) or not depth:
            if self.shape_vars and self.chance(50):
                return self.random.choice(self.shape_vars)
            return IntImm(self.random.choice([0, 1, 2, 7, 2**40]), ShapeVar("n", "int64").dtype)
        a, b = self.extent(depth - 1), self.extent(depth - 1)
        n = self.random.choice(self.shape_vars)
        two = IntImm(2, n.dtype)
        makers: list[Any] = [
            lambda: n + a,
            lambda: n * 2,
            lambda: Min(a, b),
            lambda: Max(n, two),
            lambda: n // two,
            lambda: Select(n < a, a, b),
        ]
        return self.random.choice(makers)()

    def tensor(self) -> TensorStructInfo:
        if self.chance(10):
            return TensorStructInfo(
                None, self.random.choice(DTYPES), None, self.random.randrange(3)
            )
        shape = tuple(self.extent() for _ in range(self.random.randrange(3)))
        device = self.random.choice(DEVICES) if self.chance(10) else None
        return TensorStructInfo(shape, self.random.choice(DTYPES), device)

    def info(self, depth: int = 2) -> StructInfo:
        pick = self.random.randrange(8)
        if pick == 0:
            return ObjectStructInfo()
        if pick == 1:
            return ShapeStructInfo(tuple(self.extent() for _ in range(2)))
        if pick == 2:
            return ShapeStructInfo(ndim=self.random.choice([-1, 0, 3]))
        if pick == 3:
            return PrimStructInfo(ShapeVar("n", "int64").dtype)
        if pick == 4 and depth:
            fields = [self.info(depth - 1) for _ in range(self.random.randrange(3))]
            return TupleStructInfo(tuple(fields))
        if pick == 5 and depth:
            purity = self.chance(50)
            return FuncStructInfo((self.tensor(),), self.tensor(), purity)
        return self.tensor()

    # -- values ----------------------------------------------------------------------------------
    def visible(self) -> list[Var]:
        return [var for scope in self.scopes for var in scope]

    def tensors(self) -> list[Var]:
        return [v for v in self.visible() if isinstance(v.struct_info, TensorStructInfo)]

    def numbers(self) -> list[Var]:
        """List the tensors that can be negated."""
        return [v for v in self.tensors() if not _has_dtype(v, "bool")]

    def constant(self) -> Constant:
        dtype = self.random.choice([*DTYPES, "bool"])
        shape = self.random.choice([(), (2,), (2, 2), (0,), (0, 2), (40,)])
        count = int(np.prod(shape))
        if dtype == "bfloat16":
            kind: Any = ml_dtypes.bfloat16
        else:
            kind = np.dtype(dtype)
        size = np.dtype(kind).itemsize
        raw = bytes(self.random.randrange(256) for _ in range(count * size))
        if dtype == "bool":
            raw = bytes(b % 2 for b in raw)
        return Constant(np.frombuffer(raw, kind).reshape(shape))

    def value(self) -> tuple[Any, StructInfo]:
        """Make a right-hand side and what is derived for it."""
        pick = self.random.randrange(11)
        tensors = self.tensors()
        if pick <= 2 and self.numbers():
            x = self.random.choice(self.numbers())
            return loomir.op.negative(x), x.struct_info
        if pick == 3:
            made = self.constant()
            return made, made.struct_info
        if pick == 4:
            items = self.random.choices(self.visible() or [Var("v")], k=self.random.randrange(3))
            items = [v for v in items if v.struct_info_annotation is not None]
            return Tuple(tuple(items)), TupleStructInfo(tuple(v.struct_info for v in items))
        if pick == 5:
            extents = tuple(self.extent() for _ in range(self.random.randrange(3)))
            return ShapeExpr(extents), ShapeStructInfo(extents)
        if pick == 6:
            value = self.extent()
            return PrimValue(value), PrimStructInfo(value.dtype, value)
        if pick == 7:
            tuples = [v for v in self.visible() if isinstance(v.struct_info, TupleStructInfo)]
            full = [v for v in tuples if v.struct_info.fields]  # type: ignore[attr-defined]
            if full:
                whole = self.random.choice(full)
                fields: Any = whole.struct_info.fields  # type: ignore[attr-defined]
                index = self.random.randrange(len(fields))
                return TupleGetItem(whole, index), fields[index]
        if pick == 8:
            return StringImm(self.random.choice(['a"b', "\\n\n", "é"])), ObjectStructInfo()
        if pick == 9:
            return DataTypeImm("int8"), ObjectStructInfo()
        if pick == 10 and self.impure:
            info = self.info()
            args = (*self.random.choices([*tensors, PrimValue(1)], k=2), StringImm("s"))
            return Call(ExternFunc("pkg.f"), args, (info,)), info
        made = self.constant()
        return made, made.struct_info

    # -- bindings --------------------------------------------------------------------------------
    def binding(self, depth: int) -> list[Any]:
        if self.chance(10) and self.tensors():
            return [self.match_cast()]
        if depth and self.chance(12):
            return self.branch(depth)
        if depth and self.chance(8):
            return [self.closure(depth)]
        value, info = self.value()
        return [self.bind(value, info)]

    def bind(self, value: Any, info: StructInfo, kind: type[Var] = Var) -> VarBinding:
        var = kind(self.hint(), info)
        self.scopes[-1].append(var)
        return VarBinding(var, value)

    def match_cast(self) -> MatchCast:
        value = self.random.choice(self.tensors())
        n = ShapeVar(self.hint(), "int64")
        info = TensorStructInfo((n,), value.struct_info.dtype)  # type: ignore[attr-defined, arg-type]
        self.shape_vars.append(n)
        if self.chance(30):
            return MatchCast(None, value, info)
        var = Var(self.hint(), info)
        self.scopes[-1].append(var)
        return MatchCast(var, value, info)

    def branch(self, depth: int) -> list[Any]:
        """Make a branch between tensors of one kind: bound last, a leaf, or a block's output."""
        conds = [v for v in self.tensors() if _is_condition(v)]
        start = self.numbers()
        if not conds or not start:
            return [self.bind(*self.value())]
        x = self.random.choice(start)
        cases = [self.case(x, depth - 1) for _ in range(2)]
        return [self.bind(If(self.random.choice(conds), *cases), x.struct_info)]

    def case(self, x: Var, depth: int) -> SeqExpr:
        before = list(self.shape_vars)
        self.scopes.append([])
        blocks = self.blocks(self.random.randrange(3), depth)
        pick = self.random.randrange(3)
        body: Any = x
        if pick == 1:
            last = self.bind(loomir.op.negative(x), x.struct_info)
            body = last.var
            blocks = _merge([*blocks, BindingBlock((last,))])
        self.scopes.pop()
        self.shape_vars[:] = before
        return SeqExpr(tuple(blocks), body)

    def closure(self, depth: int) -> VarBinding:
        func = self.function(depth - 1, None)
        params = tuple(p.struct_info for p in func.params)
        ret = func.ret_struct_info
        assert ret is not None
        return self.bind(func, FuncStructInfo(params, ret, func.is_pure))

    def flow(self) -> DataflowBlock:
        self.scopes.append([])
        impure, self.impure = self.impure, False
        bindings: list[Any] = []
        kept: list[Var] = []
        for _ in range(self.random.randrange(1, 4)):
            value, info = self.value()
            kind = self.random.choice([Var, DataflowVar])
            bindings.append(self.bind(value, info, kind))
            if kind is Var:
                kept.append(bindings[-1].var)
        self.scopes.pop()
        self.impure = impure
        self.scopes[-1] += kept
        return DataflowBlock(tuple(bindings))

    def blocks(self, count: int, depth: int) -> list[BindingBlock]:
        made: list[BindingBlock] = []
        for _ in range(count):
            if self.chance(30):
                made.append(self.flow())
            else:
                made.append(BindingBlock(tuple(self.binding(depth))))
        return _merge(made)

    # -- functions -------------------------------------------------------------------------------
    def function(self, depth: int, name: str | None) -> Function:
        before, impure = list(self.shape_vars), self.impure
        self.impure = self.chance(50)
        self.scopes.append([])
        own = [ShapeVar(self.hint(), "int64") for _ in range(self.random.randrange(1, 3))]
        sizes = tuple(own)
        params = [Var(self.hint(), TensorStructInfo(sizes, "float32"))]
        if self.chance(50):
            params.append(Var("c", TensorStructInfo((), "bool")))
        self.shape_vars += own
        if name is not None and self.chance(50):
            params.append(Var(self.hint(), self.info()))
        self.scopes[-1] += params
        blocks = self.blocks(self.random.randrange(1, 7), depth)
        body = params[0]
        attrs: dict[str, Any] = {}
        if name is not None and self.chance(80):
            attrs["global_symbol"] = self.random.choice([name, name, "other"])
        if name is not None and self.chance(20):
            attrs["level"] = (1, 2.5, "x\n", None, True)
        made = Function(
            tuple(params),
            SeqExpr(tuple(blocks), body),
            params[0].struct_info,
            not self.impure,
            attrs,
        )
        self.scopes.pop()
        self.shape_vars[:], self.impure = before, impure
        return made

    def module(self) -> IRModule:
        names = self.random.sample(["main", "f", "my.helper", "class", "é"], 2)
        functions: dict[GlobalVar, Any] = {}
        for name in names:
            self.shape_vars.clear()
            self.scopes[:] = [[]]
            functions[GlobalVar(name)] = self.function(2, name)
        return IRModule(functions, {}, {"vdevice": DEVICES})


def _has_dtype(var: Var, dtype: str) -> bool:
    info = var.struct_info
    return isinstance(info, TensorStructInfo) and str(info.dtype) == dtype


def _is_condition(var: Var) -> bool:
    info = var.struct_info
    return _has_dtype(var, "bool") and isinstance(info, TensorStructInfo) and info.ndim == 0


def _merge(blocks: list[BindingBlock]) -> list[BindingBlock]:
    """Merge blocks of one kind that follow one another, as normal form has them."""
    made: list[BindingBlock] = []
    for block in blocks:
        if made and type(made[-1]) is type(block):
            made[-1] = type(block)((*made[-1].bindings, *block.bindings))
        else:
            made.append(block)
    return made
