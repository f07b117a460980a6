"""Matrix products with blockwise quantised weights of few bits."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import MICROSOFT, Row, row
from loomir.relax.expr import Constant
from loomir.relax.node import RelaxExpr
from loomir.support.array import Array
from loomir.te.operation import compute
from loomir.te.reduction import reduce_axis
from loomir.te.reduction import sum as total
from loomir.te.tensor import Tensor
from loomir.tir.expr import PrimExpr, cast


def _matmul_n_bits(node: Node) -> RelaxExpr:
    """Multiply by a matrix of small integers, each block of a column with a scale of its own."""
    columns, rows = int(node.get("N", 0)), int(node.get("K", 0))
    bits, block = int(node.get("bits", 4)), int(node.get("block_size", 32))
    if bits not in (4, 8) or node.has(4):
        raise node.refuse(f"weights of {bits} bits, or with g_idx, are not supported")
    blocks = -(-rows // block)
    kept = node.dtype(0)
    compact = _compact_weights(node, (columns, blocks, block), rows) if kept == "float32" else None
    if compact is not None:
        made = node.compute(_multiply_blocks, node[0], *map(_constant, compact), block)
        return op.add(made, node[5]) if node.has(5) else made
    codes = _unpack(node, node[1], bits, (columns, blocks, block))
    if node.has(3):
        if node.dtype(3) != "uint8":
            raise node.refuse("float zero points are not supported")
        padded = blocks if bits == 8 else 2 * -(-blocks // 2)
        zero = _unpack(node, node[3], bits, (columns, padded))
        zero = node.emit(op.strided_slice(zero, [1], [0], [blocks]))
        zero = node.emit(op.reshape(zero, (columns, blocks, 1)))
    else:
        zero = constant(1 << (bits - 1), "int32")
    scale = node.emit(op.reshape(node[2], (columns, blocks, 1)))
    whole = node.emit(op.astype(node.emit(op.subtract(codes, zero)), kept))
    weights = node.emit(op.reshape(node.emit(op.multiply(whole, scale)), (columns, blocks * block)))
    if blocks * block != rows:
        weights = node.emit(op.strided_slice(weights, [1], [0], [rows]))
    made = node.emit(op.matmul(node[0], node.emit(op.permute_dims(weights))))
    return op.add(made, node[5]) if node.has(5) else made


def _compact_weights(node: Node, shape: tuple[int, int, int], rows: int) -> tuple[Any, Any] | None:
    """Return constant weights as a matrix of int8, and a scale for each block of a column.

    None if they are not constant, or do not fit into int8.
    """
    columns, blocks, block = shape
    bits = int(node.get("bits", 4))
    packed, scale = node.tensor(1).constant, node.tensor(2).constant
    zero: Any = node.tensor(3).constant if node.has(3) else np.full((columns, blocks), 8, "uint8")
    if packed is None or scale is None or zero is None or bits != 4 or zero.dtype != np.uint8:
        return None
    if node.has(3):
        zero = _nibbles(zero.reshape(columns, -1))[:, :blocks]
    codes = _nibbles(packed.reshape(columns, blocks, -1)).reshape(columns, blocks, block)
    codes = (codes.astype("int8") - zero.astype("int8")[..., None]).reshape(columns, -1)
    scales = scale.astype("float32").reshape(columns, blocks).T
    return codes.T[:rows].copy(), scales.copy()


def _nibbles(packed: Any) -> Any:
    """Return the halves of bytes, the lower one first."""
    pairs: Any = np.stack([packed & 15, packed >> 4], -1)
    return pairs.reshape(*packed.shape[:-1], -1)


def _constant(values: Any) -> RelaxExpr:
    return Constant(Array(values))


def _multiply_blocks(x: Tensor, codes: Tensor, scale: Tensor, block: int) -> Tensor:
    """Multiply by a matrix of small integers, each block of a column with a scale of its own."""
    k = reduce_axis((0, codes.shape[0]), "k")

    def element(*i: PrimExpr) -> PrimExpr:
        weight = cast(codes(k, i[-1]), "float32") * scale(k // block, i[-1])
        return total(x(*i[:-1], k) * weight, axis=k)

    return compute((*x.shape[:-1], codes.shape[1]), element, name="matmul_n_bits")


def _unpack(node: Node, x: RelaxExpr, bits: int, shape: tuple[int, ...]) -> RelaxExpr:
    """Return the integers that lie in bytes, the lower half of a byte first."""
    if bits == 4:
        low = node.emit(op.bitwise_and(x, constant(15, "uint8")))
        high = node.emit(op.right_shift(x, constant(4, "uint8")))
        x = node.emit(op.stack([low, high], len(node.dims_of(x))))
    return node.emit(op.astype(node.emit(op.reshape(x, shape)), "int32"))


ROWS: Final[tuple[Row, ...]] = (
    row("MatMulNBits", _matmul_n_bits, domain=MICROSOFT, note="`g_idx`; zero points of floats"),
)
