"""GPU instructions: parsed, printed and compared, but refused by the compiler.

Their rows are not in ``BUILTINS``, since their types depend on machines for which nothing here
compiles. A row says why an instruction is refused, and what to write for a CPU.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from loomir.ir.op import Effect, Op
from loomir.support.diagnostics import Diagnostic
from loomir.support.dtype import HANDLE, VOID, DataType
from loomir.tir.expr import Call, PrimExpr

__all__ = ["COMM_REDUCER", "DEVICE", "Device", "dtype_given", "mistake_of_device"]


class _Reason(NamedTuple):
    """Why no CPU runs an instruction, and what to write instead."""

    why: str
    instead: str


class Device(NamedTuple):
    """A row of the table: ``name`` is that of ``T``, ``T.metal.simdgroup_load`` without the ``T.``.

    ``result_dtype`` is the dtype of a call that names none; an integer is the argument that has it.
    """

    op: Op
    name: str
    result_dtype: DataType | int
    why: str
    instead: str


_SYNC: Final = _Reason(
    "iterations of parallel loops cannot wait for each other",
    "end the loop and start another one, which begins when the first is done",
)
_THREADS: Final = _Reason(
    "there are no GPU threads; loops bound to threads run as parallel loops",
    "guard statements with `if`",
)
_WARPS: Final = _Reason(
    "a CPU has no warps",
    "write the reduction as a block with T.init, over its own loop",
)
_MATRICES: Final = _Reason(
    "a CPU has none of a GPU's matrix units",
    "write the product as loops; T.dp4a and vectorized loops use the CPU's instructions",
)
_COPIES: Final = _Reason("a CPU has no asynchronous copies", "write the copy as a loop")

_ROWS: Final[dict[_Reason, str]] = {
    _SYNC: "tvm_storage_sync tvm_global_barrier_kinit tvm_kernel_replace_point "
    "cuda.cta_sync cuda.cluster_sync cuda.warp_sync cuda.grid_sync cuda.thread_fence",
    _THREADS: "tvm_thread_invariant",
    _WARPS: "tvm_thread_allreduce comm_reducer tvm_warp_activemask tvm_warp_shuffle "
    "tvm_warp_shuffle_down tvm_warp_shuffle_up tvm_warp_shuffle_xor metal.simd_shuffle "
    "metal.simd_shuffle_down metal.simd_shuffle_up cuda.atomic_add",
    _MATRICES: "tvm_load_matrix_sync tvm_mma_sync tvm_bmma_sync tvm_fill_fragment "
    "tvm_store_matrix_sync cooperative_tensor_fill cooperative_tensor_load "
    "cooperative_tensor_store cooperative_tensor_multiply_accumulate mma_fill mma_store ptx_mma "
    "ptx_mma_sp ptx_ldmatrix ptx_wgmma make_filled_simdgroup_matrix simdgroup_load "
    "simdgroup_store simdgroup_multiply_accumulate metal.make_filled_simdgroup_matrix "
    "metal.simdgroup_load metal.simdgroup_store metal.simdgroup_multiply_accumulate "
    "ptx_legacy.mma ptx_legacy.ldmatrix cuda.mma_fill cuda.mma_fill_legacy cuda.mma_store "
    "cuda.mma_store_legacy",
    _COPIES: "ptx_cp_async ptx_cp_async_bulk ptx_cp_async_barrier ptx_commit_group "
    "ptx_wait_group ptx_init_barrier_thread_count ptx_arrive_barrier "
    "ptx_arrive_barrier_expect_tx ptx_wait_barrier create_barriers",
}
_GIVES: Final[dict[str, DataType | int]] = {
    "tvm_thread_invariant": 0,
    "tvm_warp_activemask": DataType("uint32"),
    **dict.fromkeys(("metal.simd_shuffle", "metal.simd_shuffle_down", "metal.simd_shuffle_up"), 0),
    **dict.fromkeys([f"tvm_warp_shuffle{kind}" for kind in ("", "_down", "_up", "_xor")], 1),
    "comm_reducer": HANDLE,
}

DEVICE: Final[dict[Op, Device]] = {
    op: Device(op, name, _GIVES.get(name, VOID), *reason)
    for reason, names in _ROWS.items()
    for name in names.split()
    for op in (Op.register(f"tir.{name}", Effect.OPAQUE),)
}
"""Every instruction of a GPU that programs may hold."""
_COMM_REDUCER: Final = Op.get("tir.comm_reducer")
assert _COMM_REDUCER is not None
COMM_REDUCER: Final = _COMM_REDUCER
"""The description of a reduction over threads: a function as text, then its identities."""


def dtype_given(row: Device, args: tuple[PrimExpr, ...]) -> DataType:
    """Return the dtype of a call that names none."""
    if isinstance(row.result_dtype, DataType):
        return row.result_dtype
    return args[row.result_dtype].dtype if row.result_dtype < len(args) else VOID


def mistake_of_device(call: Call) -> Diagnostic:
    """Return the error that no CPU runs a call."""
    assert isinstance(call.op, Op)
    row = DEVICE[call.op]
    return Diagnostic(
        "TIR0512", f"T.{row.name} does not run on a CPU: {row.why}", call.span, help=row.instead
    )
