"""Steps of optimisers, as models that train have them: Adagrad, Adam and momentum."""

from __future__ import annotations

from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.node import RelaxExpr

_TRAINING: Final = "ai.onnx.preview.training"


class _Step:
    """Arithmetic on the tensors of a step, and its rate and count."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.rate, self.count = node[0], node[1]

    def number(self, value: float, index: int = 2) -> RelaxExpr:
        return self.node.constant_like(value, index)

    def mul(self, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
        return self.node.emit(op.multiply(a, b))

    def add(self, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
        return self.node.emit(op.add(a, b))

    def sub(self, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
        return self.node.emit(op.subtract(a, b))

    def div(self, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
        return self.node.emit(op.divide(a, b))

    def root(self, a: RelaxExpr) -> RelaxExpr:
        return self.node.emit(op.sqrt(a))

    def cast(self, a: RelaxExpr) -> RelaxExpr:
        """Return a number in the dtype of the tensors."""
        dtype = self.node.dtype(2)
        same = str(self.node.info_of(a).dtype) == dtype
        return a if same else self.node.emit(op.astype(a, dtype))

    def later(self, then: RelaxExpr, first: RelaxExpr) -> RelaxExpr:
        """Choose by whether a step was made before."""
        began = self.node.emit(op.greater(self.count, self.number(0, 1)))
        return self.node.emit(op.where(began, then, first))

    def groups(self, kinds: int) -> list[list[RelaxExpr]]:
        """Return the tensors, those of each weight together: they lie kind by kind."""
        given = self.node.all(2)
        if len(given) % kinds:
            raise self.node.refuse(f"{len(given)} tensors cannot be divided into groups of {kinds}")
        return [given[k :: len(given) // kinds] for k in range(len(given) // kinds)]

    def gradient(self, weight: RelaxExpr, gradient: RelaxExpr) -> RelaxExpr:
        """Return the gradient with that of the weights' norm."""
        norm = self.number(float(self.node.get("norm_coefficient", 0.0)))
        return self.add(self.mul(norm, weight), gradient)


def _outputs(made: list[list[RelaxExpr]]) -> list[Any]:
    return [tensor for kind in zip(*made) for tensor in kind]


def _adagrad(node: Node) -> list[Any]:
    step = _Step(node)
    decay = step.number(float(node.get("decay_factor", 0.0)))
    slowed = step.add(step.number(1.0), step.mul(step.cast(step.count), decay))
    rate = step.div(step.cast(step.rate), slowed)
    least = step.number(float(node.get("epsilon", 1e-6)))
    made: list[list[RelaxExpr]] = []
    for weight, gradient, squares in step.groups(3):
        slope = step.gradient(weight, gradient)
        total = step.add(squares, step.mul(slope, slope))
        change = step.div(step.mul(rate, slope), step.add(step.root(total), least))
        made.append([step.sub(weight, change), total])
    return _outputs(made)


def _adam(node: Node) -> list[Any]:
    step = _Step(node)
    alpha, beta = float(node.get("alpha", 0.9)), float(node.get("beta", 0.999))
    a, b, one = step.number(alpha), step.number(beta), step.number(1.0)
    count = step.cast(step.count)
    unbiased = [step.sub(one, node.emit(op.power(v, count))) for v in (a, b)]
    rate = step.cast(step.rate)
    adjusted = step.div(step.mul(rate, step.root(unbiased[1])), unbiased[0])
    rate = step.later(adjusted, rate)
    least = step.number(float(node.get("epsilon", 1e-6)))
    kept = step.number(1.0 - float(node.get("norm_coefficient_post", 0.0)))
    made: list[list[RelaxExpr]] = []
    for weight, gradient, mean, squares in step.groups(4):
        slope = step.gradient(weight, gradient)
        first = step.add(step.mul(a, mean), step.mul(step.number(1 - alpha), slope))
        square = step.mul(slope, slope)
        second = step.add(step.mul(b, squares), step.mul(step.number(1 - beta), square))
        change = step.div(step.mul(rate, first), step.add(step.root(second), least))
        made.append([step.mul(kept, step.sub(weight, change)), first, second])
    return _outputs(made)


def _momentum(node: Node) -> list[Any]:
    step = _Step(node)
    mode = str(node.get("mode", "standard"))
    if mode not in ("standard", "nesterov"):
        raise node.refuse(f"its mode {mode} is not supported")
    alpha, rate = step.number(float(node.get("alpha", 0.9))), step.cast(step.rate)
    share = step.later(step.number(float(node.get("beta", 1.0))), step.number(1.0))
    made: list[list[RelaxExpr]] = []
    for weight, gradient, velocity in step.groups(3):
        slope = step.gradient(weight, gradient)
        new = step.add(step.mul(alpha, velocity), step.mul(share, slope))
        change = step.add(slope, step.mul(alpha, new)) if mode == "nesterov" else new
        made.append([step.sub(weight, step.mul(rate, change)), new])
    return _outputs(made)


ROWS: Final[tuple[Row, ...]] = (
    row("Adagrad", _adagrad, domain=_TRAINING),
    row("Adam", _adam, domain=_TRAINING),
    row("Momentum", _momentum, domain=_TRAINING),
)
