"""Sink reshapes and transpositions below operators that commute with them, until they cancel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.relax.expr import (
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.definition import find_op
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.tir.expr import IntImm, PrimExpr
from loomir.transform.relax.bindings.eliminate_common_subexpr import find_escaping
from loomir.transform.relax.graph_reading import (
    count_uses,
    dataflow_blocks,
    make_call,
    operator_of,
    operators_in,
    tensor_info,
)

__all__ = ["sink_reshape"]

_RESHAPES: Final = frozenset({"reshape", "expand_dims", "squeeze", "flatten"})
_MOVES: Final = frozenset({*_RESHAPES, "permute_dims", "broadcast_to"})
_CHANGE_DTYPE: Final = frozenset({"astype"})
_HIGHEST: Final = 4
"""The most axes of a tensor in whose shape operators are computed."""
_FARTHEST: Final = 8
"""The most consecutive reshapes that are traced back."""


@register("relax.SinkReshape", requires={"relax_normal_form"})
def sink_reshape(mod: IRModule) -> IRModule:
    """Move reshapes behind matrix products and element-wise operators.

    This applies in dataflow blocks. Consecutive reshapes become one, and so do consecutive
    transpositions; those that change nothing are removed, and so is a broadcast to the same shape.
    A transposition that only moves axes of extent 1 becomes a reshape. A product of flattened rows
    is computed on the original shape, so that no reshape separates it from bias, activation and
    residual. Results are bit-identical. Unused values are left to ``DeadCodeElimination``.
    """
    sink = _Sink(mod)
    for func in mod.functions.values():
        if isinstance(func, Function) and _MOVES & operators_in(func):
            sink.uses.update(count_uses(func))
            for block in dataflow_blocks(func):
                sink.plan(func, block)
    return sink.rewrite_module() if sink.home else mod


class _Sink(Rewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.analyzer = Analyzer()
        self.blocks = 0
        self.home: dict[RelaxExpr, int] = {}
        """Variables that nothing keeps or writes, with the numbers of their blocks."""
        self.given: set[tuple[RelaxExpr, int]] = set()
        """Parameters, with the numbers of blocks that do not keep or write them."""
        self.uses: Counter[Node] = Counter()
        self.flat: dict[RelaxExpr, Var] = {}
        """The source of each reshaped tensor."""
        self.moved: dict[RelaxExpr, tuple[Var, tuple[int, ...]]] = {}
        """The source of each transposed tensor, and the permutation."""

    def plan(self, func: Function, block: DataflowBlock) -> None:
        """Record the variables of a block that nothing keeps or writes."""
        escaping = find_escaping(block)
        for binding in block.bindings:
            var = getattr(binding, "var", None)
            if isinstance(var, DataflowVar) and id(var) not in escaping:
                self.home[var] = self.blocks
        self.given |= {(p, self.blocks) for p in func.params if id(p) not in escaping}
        self.blocks += 1

    def _is_free(self, var: RelaxExpr, number: int) -> bool:
        return self.home.get(var) == number or (var, number) in self.given

    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Rewrite a call for the sources of its reshaped arguments."""
        var = binding.var
        number = self.home.get(var)
        if number is None or not isinstance(value, Call):
            return self.emit_binding(binding, value)
        name = operator_of(value)
        if name in _MOVES:
            return self._move(binding, value, name, number)
        if name == "matmul":
            made, axes = self._product(value, number), None
        else:
            made, axes = self._elements(value, number)
        if made is None:
            return self.emit_binding(binding, value)
        source = self.builder.emit(made)
        assert isinstance(source, Var)
        self.home[source] = number
        if axes is None:
            return self._reshape(binding, value, source)
        moved = _copy_span(make_call("permute_dims", source, list(axes)), value)
        return self._transpose(binding, moved, source, True)

    # -- moves -----------------------------------------------------------------------------------
    def _move(self, binding: VarBinding, value: Call, name: str, number: int) -> None:
        source, info = value.args[0], _find_known(binding.var)
        if not isinstance(source, Var) or info is None or _find_known(source) is None:
            return self.emit_binding(binding, value)
        own = self._is_free(source, number)
        if name == "permute_dims":
            return self._transpose(binding, value, source, own)
        if name == "broadcast_to" and not (own and self._is_same(source, binding.var)):
            return self.emit_binding(binding, value)
        return self._reshape(binding, value, source)

    def _transpose(self, binding: VarBinding, value: Call, source: Var, own: bool) -> None:
        given = value.attrs["axes"]
        info = _find_known(source)
        assert info is not None
        rank = info.ndim
        axes = tuple([a % rank for a in given]) if given is not None else tuple(range(rank))[::-1]
        if not own:
            return self._emit_transposed(binding, value, source, axes)
        if source in self.moved:
            source, before = self.moved[source]
            axes = tuple([before[a] for a in axes])
            info = _find_known(source)
            assert info is not None
            value = _copy_span(make_call("permute_dims", source, list(axes)), value)
        dims = info.dims
        assert dims is not None
        wide = [a for a in axes if not _is_one(dims[a])]
        if wide == sorted(wide):
            return self._reshape(binding, value, source)
        return self._emit_transposed(binding, value, source, axes)

    def _emit_transposed(
        self, binding: VarBinding, value: Call, source: Var, axes: tuple[int, ...]
    ) -> None:
        self.emit_binding(binding, value)
        if self._is_free(source, self.home[binding.var]):
            self.moved[binding.var] = (source, axes)

    def _reshape(self, binding: VarBinding, value: Call, source: Var) -> None:
        """Bind a reshape of ``source``."""
        var = binding.var
        info = _find_known(var)
        assert info is not None
        if not self._is_free(source, self.home[var]):
            return self.emit_binding(binding, value)
        ways = [source, *self._ways(source)]
        for before in ways:
            if self._is_same(before, var):
                return self.replace(var, before)
        last = ways[-1]
        if operator_of(value) != "reshape" or value.args[0] is not last:
            assert info.dims is not None
            value = _copy_span(make_call("reshape", last, ShapeExpr(info.dims)), value)
        self.emit_binding(binding, value)
        # Also to the intermediate shape: a product may need its last axis.
        self.flat[var] = source
        return None

    def _ways(self, var: RelaxExpr) -> Iterator[Var]:
        """List the sources of a reshaped tensor, the latest first."""
        for _ in range(_FARTHEST):
            before = self.flat.get(var)
            if before is None:
                return
            yield before
            var = before

    def _is_same(self, a: RelaxExpr, b: RelaxExpr) -> bool:
        first, second = _find_known(a), _find_known(b)
        if first is None or second is None or first.dtype is not second.dtype:
            return False
        return first.vdevice == second.vdevice and self._is_equal(first.dims, second.dims)

    def _is_equal(self, a: Sequence[PrimExpr] | None, b: Sequence[PrimExpr] | None) -> bool:
        if a is None or b is None or len(a) != len(b):
            return False
        return all(x is y or self.analyzer.can_prove_equal(x, y) for x, y in zip(a, b))

    # -- products --------------------------------------------------------------------------------
    def _product(self, call: Call, number: int) -> Call | None:
        """Multiply in the original shape of a flattened tensor; None if that is not equivalent."""
        left, right = call.args
        mine, other = _find_known(left), _find_known(right)
        if mine is None or other is None or mine.dims is None or other.dims is None:
            return None
        if other.ndim == 2 and mine.ndim >= 2:
            for before in self._farthest(left, number):
                dims = _find_known(before)
                assert dims is not None
                assert dims.dims is not None
                if self._is_equal(dims.dims[-1:], mine.dims[-1:]) and dims.ndim >= 2:
                    return Call(call.op, (before, right), attrs=call.attrs, span=call.span)
            return None
        if (
            other.ndim != mine.ndim
            or mine.ndim < 3
            or not self._is_equal(mine.dims[:-2], other.dims[:-2])
        ):
            return None
        for a in self._farthest(left, number):
            for b in self._farthest(right, number):
                if self._is_batch(a, left, b, right):
                    return Call(call.op, (a, b), attrs=call.attrs, span=call.span)
        return None

    def _farthest(self, var: RelaxExpr, number: int) -> list[Var]:
        """List the sources of a tensor that are suitable for computing, the earliest first."""
        found = [v for v in self._ways(var) if self._is_free(v, number)]
        return [v for v in found[::-1] if (info := _find_known(v)) and info.ndim <= _HIGHEST]

    def _is_batch(self, a: Var, left: RelaxExpr, b: Var, right: RelaxExpr) -> bool:
        """Tell whether two tensors have the matrices of two others, batches in the same order."""
        shapes = [info.dims if (info := _find_known(v)) else None for v in (a, left, b, right)]
        first, one, second, two = [() if s is None else s for s in shapes]
        matrices = self._is_equal(first[-2:], one[-2:]) and self._is_equal(second[-2:], two[-2:])
        return matrices and len(first) > 2 and self._is_equal(first[:-2], second[:-2])

    # -- elements --------------------------------------------------------------------------------
    def _elements(self, call: Call, number: int) -> tuple[Call | None, tuple[int, ...] | None]:
        """Apply an element-wise operator before a reshape or transposition.

        Return the call, None if its arguments do not allow it, and the permutation to apply after
        it.
        """
        definition = find_op(f"relax.{operator_of(call)}")
        is_cast = operator_of(call) in _CHANGE_DTYPE
        if definition is None or not (definition.elementwise or is_cast):
            return None, None
        wide = [arg for arg in call.args if arg in self.flat]
        if not wide:
            return self._apply_before_transpose(call, number)
        if any(not self._has_same_shape(arg, wide[0]) for arg in wide[1:]):
            return None, None
        return self._apply_before_reshape(call, wide, number), None

    def _apply_before_transpose(
        self, call: Call, number: int
    ) -> tuple[Call | None, tuple[int, ...] | None]:
        found = [(arg, *self.moved[arg]) for arg in call.args if arg in self.moved]
        if not found:
            return None, None
        _, first, axes = found[0]
        for arg, source, order in found:
            single = self.uses[arg] == 1 and self._is_free(source, number)
            if not single or order != axes or not self._has_same_shape(source, first):
                return None, None
        args: list[RelaxExpr] = []
        for arg in call.args:
            info = _find_known(arg)
            if arg not in self.moved and not (info and self._is_number(info, first)):
                return None, None
            args.append(self.moved[arg][0] if arg in self.moved else arg)
        return Call(call.op, tuple(args), call.sinfo_args, call.attrs, span=call.span), axes

    @staticmethod
    def _is_number(info: TensorStructInfo, beside: Var) -> bool:
        """Tell whether a tensor is a single element, which broadcasts in any order of axes."""
        other = _find_known(beside)
        few = other is not None and info.ndim <= other.ndim
        return few and all(_is_one(d) for d in info.dims or ())

    def _apply_before_reshape(
        self, call: Call, wide: Sequence[RelaxExpr], number: int
    ) -> Call | None:
        for before in self._farthest(wide[0], number):
            args = [self._argument(arg, wide[0], before, number) for arg in call.args]
            given = [arg for arg in args if arg is not None]
            if len(given) == len(args):
                return Call(call.op, tuple(given), call.sinfo_args, call.attrs, span=call.span)
        return None

    def _has_same_shape(self, a: RelaxExpr, b: RelaxExpr) -> bool:
        first, second = _find_known(a), _find_known(b)
        return first is not None and second is not None and self._is_equal(first.dims, second.dims)

    def _argument(
        self, arg: RelaxExpr, whole: RelaxExpr, before: Var, number: int
    ) -> RelaxExpr | None:
        """Return an argument in the form that matches the source tensor, or None."""
        if arg is whole:
            return before
        if arg in self.flat:
            ways = self._farthest(arg, number)
            return next((v for v in ways if self._has_same_shape(v, before)), None)
        info = _find_known(arg)
        if info is None or info.dims is None:
            return arg if not isinstance(arg, (Var, Constant)) else None
        last, own = _find_known(whole), _find_known(before)
        assert last is not None
        assert own is not None
        if all(_is_one(d) for d in info.dims) and info.ndim <= min(last.ndim, own.ndim):
            return arg
        assert last.dims is not None
        assert own.dims is not None
        one = info.ndim == 1 and len(last.dims) > 0 and len(own.dims) > 0
        fits = one and self._is_equal(info.dims, last.dims[-1:])
        return arg if fits and self._is_equal(info.dims, own.dims[-1:]) else None


def _find_known(leaf: object) -> TensorStructInfo | None:
    """Return the information of a tensor whose extents are all known, as numbers or symbols."""
    info = tensor_info(leaf)
    return None if info is None or info.dims is None else info


def _is_one(dim: PrimExpr) -> bool:
    return isinstance(dim, IntImm) and dim.value == 1


def _copy_span(made: Call, call: Call) -> Call:
    return Call(made.op, made.args, made.sinfo_args, made.attrs, span=call.span)
