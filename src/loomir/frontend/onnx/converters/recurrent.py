"""Recurrent layers: RNN, GRU and LSTM, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.converters.sequence import item
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Row, row
from loomir.frontend.onnx.scanning import MOST_UNROLLED, ScanInputs, emit_scan
from loomir.relax.expr import Constant, PrimValue
from loomir.relax.node import RelaxExpr
from loomir.tir.expr import PrimExpr

_Function = Callable[[RelaxExpr], RelaxExpr]


class _Layer:
    """One direction of a layer: its weights, and what a step makes of its states."""

    def __init__(self, node: Node, direction: int, gates: int) -> None:
        self.node = node
        self.gates = gates
        self.hidden = int(node.dims(2)[2])
        self.direction = direction
        self.w = self._select_own(1)
        self.r = self._select_own(2)
        both = self._select_own(3) if node.has(3) else None
        size = gates * self.hidden
        self.wb = None if both is None else _part(node, both, 0, 0, size)
        self.rb = None if both is None else _part(node, both, 0, size, 2 * size)
        self.clip = node.get("clip")

    def _select_own(self, index: int) -> RelaxExpr:
        """Return what an input has for this direction; a constant stays one, in loops too."""
        whole = self.node.constant(index)
        if whole is not None:
            return constant(whole[self.direction], self.node.dtype(index))
        return item(self.node, self.node[index], 0, self.direction)

    def start(self, index: int, batch: Any) -> RelaxExpr:
        """Return the state before the first step."""
        node = self.node
        if node.has(index):
            return item(node, node[index], 1 if node.get("layout", 0) else 0, self.direction)
        return node.emit(op.zeros((batch, self.hidden), node.dtype(0)))

    def project(self, x: RelaxExpr) -> RelaxExpr:
        """Return what all inputs add to the gates, in one product."""
        made = self.node.emit(op.matmul(x, self.node.emit(op.permute_dims(self.w))))
        return made if self.wb is None else self.node.emit(op.add(made, self.wb))

    def recur(self, h: RelaxExpr, first: int = 0, last: int | None = None) -> RelaxExpr:
        """Return what a state adds to gates, the bias with it."""
        node, end = self.node, (self.gates if last is None else last) * self.hidden
        start = first * self.hidden
        whole = start == 0 and end == self.gates * self.hidden
        weights = self.r if whole else _part(node, self.r, 0, start, end)
        made = node.emit(op.matmul(h, node.emit(op.permute_dims(weights))))
        if self.rb is None:
            return made
        bias = self.rb if whole else _part(node, self.rb, 0, start, end)
        return node.emit(op.add(made, bias))

    def gate(self, x: RelaxExpr, k: int) -> RelaxExpr:
        """Return one gate of several that lie beside one another."""
        return _part(self.node, x, 1, k * self.hidden, (k + 1) * self.hidden)

    def bound(self, x: RelaxExpr) -> RelaxExpr:
        """Bring what goes into an activation between the bounds that the layer has."""
        if self.clip is None:
            return x
        return self.node.emit(op.clip(x, -float(self.clip), float(self.clip)))

    def activations(self, default: Sequence[str]) -> list[_Function]:
        """Return the functions that gates and states go through."""
        names = [str(n) for n in self.node.get("activations", ())]
        count = len(default)
        own = names[self.direction * count : (self.direction + 1) * count] or list(default)
        alphas = list(self.node.get("activation_alpha", ()))
        betas = list(self.node.get("activation_beta", ()))
        made: list[_Function] = []
        for name in own:
            if name.lower() not in _ACTIVATIONS:
                raise self.node.refuse(f"its activation {name} is not supported")
            uses = name.lower() in _WITH_ALPHA
            alpha = alphas.pop(0) if alphas and uses else None
            beta = betas.pop(0) if betas and uses else None
            made.append(_activation(self.node, name.lower(), alpha, beta))
        return made


def _activation(node: Node, name: str, alpha: Any, beta: Any) -> _Function:
    operator = _ACTIVATIONS[name]

    def apply(x: RelaxExpr) -> RelaxExpr:
        if name in _WITH_ALPHA:
            given = {k: v for k, v in (("alpha", alpha), ("beta", beta)) if v is not None}
            return node.one(operator, x, **given)
        return node.one(operator, x)

    return apply


_WITH_ALPHA: Final = ("leakyrelu", "thresholdedrelu", "hardsigmoid", "elu")
_ACTIVATIONS: Final = {
    "relu": "Relu",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "leakyrelu": "LeakyRelu",
    "thresholdedrelu": "ThresholdedRelu",
    "hardsigmoid": "HardSigmoid",
    "elu": "Elu",
    "softsign": "Softsign",
    "softplus": "Softplus",
}


def _part(node: Node, x: RelaxExpr, axis: int, start: int, end: int) -> RelaxExpr:
    if isinstance(x, Constant) and axis == 0:
        return Constant(x.data.data[start:end])
    return node.emit(op.strided_slice(x, [axis], [start], [end]))


def _run(node: Node, gates: int, states: int, step: Callable[[_Layer], Any]) -> list[Any]:
    layout = bool(node.get("layout", 0))
    x = node[0]
    if layout:
        x = node.emit(op.permute_dims(x, [1, 0, 2]))
    length, batch, _ = node.dims_of(x)
    named = node.get("direction", "forward")
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[named]
    if node.has(4) and any(directions):
        lengths = node.emit(op.astype(node[4], "int32"))
    else:
        lengths = None
    outputs: list[RelaxExpr] = []
    finals: list[list[RelaxExpr]] = []
    for number, backwards in enumerate(directions):
        layer = _Layer(node, number, gates)
        own = _reverse(node, x, lengths, backwards)
        every, last = _steps(node, layer, own, length, batch, states, step(layer))
        outputs.append(_reverse(node, every, lengths, backwards))
        finals.append(last)
    y = node.emit(op.stack(outputs, 1))
    ends = [node.emit(op.stack([f[i] for f in finals], 0)) for i in range(states)]
    if layout:
        y = node.emit(op.permute_dims(y, [2, 0, 1, 3]))
        ends = [node.emit(op.permute_dims(e, [1, 0, 2])) for e in ends]
    return [y, *ends][: max(node.wanted, 1)]


def _reverse(node: Node, x: RelaxExpr, lengths: RelaxExpr | None, backwards: bool) -> RelaxExpr:
    """Turn sequences round, each within its length."""
    if not backwards:
        return x
    if lengths is None:
        return node.emit(op.flip(x, 0))
    return node.emit(op.reverse_sequence(x, lengths, 0, 1))


def _steps(
    node: Node,
    layer: _Layer,
    x: RelaxExpr,
    length: Any,
    batch: Any,
    states: int,
    step: Callable[[RelaxExpr, list[RelaxExpr]], list[RelaxExpr]],
) -> tuple[RelaxExpr, list[RelaxExpr]]:
    projected = layer.project(x)
    now: list[RelaxExpr] = [layer.start(5 + i, batch) for i in range(states)]
    lengths = node.emit(op.reshape(node[4], (batch, 1))) if node.has(4) else None
    every: list[RelaxExpr] = []
    zero = node.constant_like(0)

    def make(part: RelaxExpr, at: RelaxExpr | None, old: list[RelaxExpr]) -> list[RelaxExpr]:
        """Return what a step shows, and the states after it."""
        made = step(part, old)
        if lengths is None or at is None:
            return [made[0], *made]
        # What is after the end of a sequence changes nothing, and is 0.
        there = node.emit(op.greater(lengths, at))
        kept = [_select(node, there, m, n) for m, n in zip(made, old)]
        return [node.emit(op.where(there, made[0], zero)), *kept]

    if isinstance(length, int) and length <= MOST_UNROLLED:
        for k in range(length):
            at = None if lengths is None else node.constant_like(k, 4)
            shown, *now = make(item(node, projected, 0, k), at, now)
            every.append(shown)
        return node.emit(op.stack(every, 0)), now

    def body(old: list[RelaxExpr], parts: list[RelaxExpr]) -> tuple[list[RelaxExpr], int]:
        at = None if lengths is None else node.emit(op.reshape(parts[1], (1, 1)))
        shown, *new = make(parts[0], at, old)
        return [*new, shown], states

    scanned: list[tuple[RelaxExpr, int, Any]] = [(projected, 0, False)]
    if lengths is not None:
        scanned.append((node.emit(op.arange(_limit(length), dtype=node.dtype(4))), 0, False))
    ends, rows = emit_scan(node, ScanInputs(length, scanned), now, body)
    return rows[0], ends


def _limit(length: Any) -> Any:
    return PrimValue(length) if isinstance(length, PrimExpr) else length


def _select(node: Node, there: RelaxExpr, new: RelaxExpr, old: RelaxExpr) -> RelaxExpr:
    return node.emit(op.where(there, new, old))


def _rnn(node: Node) -> list[Any]:
    def make_step(layer: _Layer) -> Any:
        (f,) = layer.activations(["Tanh"])

        def step(x: RelaxExpr, states: list[RelaxExpr]) -> list[RelaxExpr]:
            return [f(layer.bound(node.emit(op.add(x, layer.recur(states[0])))))]

        return step

    return _run(node, 1, 1, make_step)


def _gru(node: Node) -> list[Any]:
    after = bool(node.get("linear_before_reset", 0))

    def make_step(layer: _Layer) -> Any:
        f, g = layer.activations(["Sigmoid", "Tanh"])

        def step(x: RelaxExpr, states: list[RelaxExpr]) -> list[RelaxExpr]:
            (h,) = states
            inner = layer.recur(h, 0, 2)
            z, r = [
                f(layer.bound(node.emit(op.add(layer.gate(x, k), layer.gate(inner, k)))))
                for k in range(2)
            ]
            if after:
                rest = node.emit(op.multiply(r, layer.recur(h, 2, 3)))
            else:
                rest = layer.recur(node.emit(op.multiply(r, h)), 2, 3)
            new = g(layer.bound(node.emit(op.add(layer.gate(x, 2), rest))))
            kept = node.emit(op.multiply(z, h))
            share = node.emit(op.subtract(node.constant_like(1), z))
            return [node.emit(op.add(node.emit(op.multiply(share, new)), kept))]

        return step

    return _run(node, 3, 1, make_step)


def _lstm(node: Node) -> list[Any]:
    couples = bool(node.get("input_forget", 0))

    def make_step(layer: _Layer) -> Any:
        f, g, h = layer.activations(["Sigmoid", "Tanh", "Tanh"])
        peepholes = _peepholes(node, layer)

        def step(x: RelaxExpr, states: list[RelaxExpr]) -> list[RelaxExpr]:
            state, cell = states
            total = node.emit(op.add(x, layer.recur(state)))
            into, out, forget, new = [layer.gate(total, k) for k in range(4)]
            if peepholes:
                into = node.emit(op.add(into, node.emit(op.multiply(peepholes[0], cell))))
                forget = node.emit(op.add(forget, node.emit(op.multiply(peepholes[2], cell))))
            into = f(layer.bound(into))
            if couples:
                forget = node.emit(op.subtract(node.constant_like(1), into))
            else:
                forget = f(layer.bound(forget))
            kept = node.emit(op.multiply(forget, cell))
            cell = node.emit(op.add(kept, node.emit(op.multiply(into, g(layer.bound(new))))))
            if peepholes:
                out = node.emit(op.add(out, node.emit(op.multiply(peepholes[1], cell))))
            out = f(layer.bound(out))
            return [node.emit(op.multiply(out, h(cell))), cell]

        return step

    return _run(node, 4, 2, make_step)


def _peepholes(node: Node, layer: _Layer) -> list[RelaxExpr]:
    """Return what of the cell goes into the gates: in, out and forget."""
    if not node.has(7):
        return []
    own = item(node, node[7], 0, layer.direction)
    size = layer.hidden
    return [_part(node, own, 0, k * size, (k + 1) * size) for k in range(3)]


ROWS: Final[tuple[Row, ...]] = (
    row("GRU", _gru),
    row("LSTM", _lstm),
    row("RNN", _rnn),
)
