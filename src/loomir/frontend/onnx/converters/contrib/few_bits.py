"""Products with weights of few bits, a scale to each block of them."""

from __future__ import annotations

from typing import Final

from loomir import op
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import MICROSOFT, Row, row
from loomir.relax.node import RelaxExpr


def _matmul_n_bits(node: Node) -> RelaxExpr:
    """Multiply by a matrix of small integers, each block of a column with a scale of its own."""
    columns, rows = int(node.get("N", 0)), int(node.get("K", 0))
    bits, block = int(node.get("bits", 4)), int(node.get("block_size", 32))
    if bits not in (4, 8) or node.has(4):
        raise node.unsupported(f"its weights have {bits} bits, or an order of their own")
    blocks = -(-rows // block)
    kept = node.dtype(0)
    codes = _unpacked(node, node[1], bits, (columns, blocks, block))
    if node.has(3):
        if node.dtype(3) != "uint8":
            raise node.unsupported("its zero points are floats")
        padded = blocks if bits == 8 else 2 * -(-blocks // 2)
        zero = _unpacked(node, node[3], bits, (columns, padded))
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


def _unpacked(node: Node, x: RelaxExpr, bits: int, shape: tuple[int, ...]) -> RelaxExpr:
    """Return the integers that lie in bytes, the lower half of a byte first."""
    if bits == 4:
        low = node.emit(op.bitwise_and(x, constant(15, "uint8")))
        high = node.emit(op.right_shift(x, constant(4, "uint8")))
        x = node.emit(op.stack([low, high], len(node.dims_of(x))))
    return node.emit(op.astype(node.emit(op.reshape(x, shape)), "int32"))


ROWS: Final[tuple[Row, ...]] = (
    row("MatMulNBits", _matmul_n_bits, domain=MICROSOFT, note="`g_idx`; zero points of floats"),
)
