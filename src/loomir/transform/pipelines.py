"""Pipelines: flat lists of passes, with the reason beside each step that is not obvious."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from loomir.ir.module import IRModule
from loomir.ir.passes import OnStage, PassRun, Pipeline
from loomir.relax.expr import Function
from loomir.transform.relax.algebra.fold_affine_to_conv import fold_affine_to_conv
from loomir.transform.relax.algebra.fuse_transpose_matmul import fuse_transpose_matmul
from loomir.transform.relax.bindings.canonicalize_bindings import canonicalize_bindings
from loomir.transform.relax.bindings.check_nan import check_nan
from loomir.transform.relax.bindings.dead_code_elimination import dead_code_elimination
from loomir.transform.relax.bindings.eliminate_common_subexpr import eliminate_common_subexpr
from loomir.transform.relax.bindings.normalize import normalize
from loomir.transform.relax.constants.fold_constant import fold_constant
from loomir.transform.relax.constants.pack_constants import PackConstantsOptions, pack_constants
from loomir.transform.relax.facts import LOWERED_GRAPH
from loomir.transform.relax.fusion.annotate_tir_op_pattern import annotate_tir_op_pattern
from loomir.transform.relax.fusion.fuse_ops import fuse_ops
from loomir.transform.relax.fusion.fuse_tir import fuse_tir
from loomir.transform.relax.kernels.legalize_ops import legalize_ops
from loomir.transform.relax.kernels.winograd_conv2d import (
    WinogradConv2DOptions,
    winograd_conv2d,
)
from loomir.transform.relax.layout.group_shared_heads import group_shared_heads
from loomir.transform.relax.layout.sink_reshape import sink_reshape
from loomir.transform.relax.layout.slice_constant_take import slice_constant_take
from loomir.transform.relax.memory.dataflow_use_inplace_calls import dataflow_use_inplace_calls
from loomir.transform.relax.memory.static_plan_block_memory import static_plan_block_memory
from loomir.transform.relax.quantization.fake_quantization_to_integer import (
    fake_quantization_to_integer,
)
from loomir.transform.relax.quantization.fuse_zero_points import fuse_zero_points
from loomir.transform.tir.blocks.convert_blocks_to_opaque import convert_blocks_to_opaque
from loomir.transform.tir.blocks.lower_cross_thread_reduction import lower_cross_thread_reduction
from loomir.transform.tir.blocks.lower_init_block import lower_init_block
from loomir.transform.tir.blocks.lower_match_buffer import lower_match_buffer
from loomir.transform.tir.blocks.lower_opaque_block import lower_opaque_block
from loomir.transform.tir.blocks.lower_thread_binding import lower_thread_binding
from loomir.transform.tir.facts import LOWERED
from loomir.transform.tir.instrument.instrument_bound_checkers import (
    BoundOptions,
    instrument_bound_checkers,
)
from loomir.transform.tir.instrument.instrument_memory_accesses import (
    WatchOptions,
    instrument_memory_accesses,
)
from loomir.transform.tir.instrument.instrument_view_bounds import instrument_view_bounds
from loomir.transform.tir.legalize_calls import legalize_calls
from loomir.transform.tir.loops.hoist_expression import HoistOptions, hoist_expression
from loomir.transform.tir.loops.loop_partition import loop_partition
from loomir.transform.tir.loops.unroll_loop import UnrollOptions, unroll_loop
from loomir.transform.tir.loops.vectorize_loop import vectorize_loop
from loomir.transform.tir.lower_tvm_builtin import lower_tvm_builtin
from loomir.transform.tir.memory.compact_buffer_allocation import compact_buffer_allocation
from loomir.transform.tir.memory.flatten_buffer import flatten_buffer
from loomir.transform.tir.memory.plan_and_update_buffer_allocation_location import (
    plan_and_update_buffer_allocation_location,
)
from loomir.transform.tir.schedule import schedule
from loomir.transform.tir.simplify.remove_assume import remove_assume
from loomir.transform.tir.simplify.remove_no_op import remove_no_op
from loomir.transform.tir.simplify.stmt_simplify import stmt_simplify
from loomir.transform.tir.simplify.widen_indices import widen_indices

__all__ = [
    "CHECK_NAN",
    "LOWER_CPU",
    "LOWER_RELAX",
    "OPTIMIZE_RELAX",
    "SCHEDULE",
    "WINOGRAD",
    "WINOGRAD_UNASKED",
    "LowerOptions",
    "lower",
    "lower_relax",
    "optimize_relax",
]

OPTIMIZE_RELAX: Final = Pipeline(
    "relax.optimize",
    (
        # These passes may change last bits; those that change none are in the next pipeline. Errors
        # are bounded by the rounding of sums of absolute products, not of the sums themselves, in
        # which terms may cancel: tests check each pass against that bound in float64.
        normalize,
        canonicalize_bindings,  # before the others, which compare names
        # Before folding, which would convert constant bytes to floats or 32-bit integers.
        fake_quantization_to_integer,
        fuse_zero_points,
        fold_constant,  # next: constants may be written as arithmetic on weights
        fold_affine_to_conv,
    ),
    assumes={"relax_derived", "relax_well_formed"},
)

LOWER_RELAX: Final = Pipeline(
    "relax.lower",
    (
        normalize,
        canonicalize_bindings,  # before the next ones, which compare names
        fuse_zero_points,  # before folding, which would widen constant bytes
        fold_constant,
        eliminate_common_subexpr,
        slice_constant_take,  # after folding: indices may be computed from constants
        sink_reshape,  # before the next: a reshape may be between transposition and product
        group_shared_heads,  # after it, which leaves heads as a batch axis
        # Keeps all bits, since each element sums the same products in the same order, and saves a
        # copy. CombineParallelMatmul keeps all bits too, but copies operands and results.
        fuse_transpose_matmul,  # after folding: the transposed matrix may be a constant
        legalize_ops,
        dead_code_elimination,  # after it: operands that kernels no longer take
        annotate_tir_op_pattern,
        fuse_ops,
        fuse_tir,
        dataflow_use_inplace_calls,  # after fusion, which needs kernels that write new tensors
        pack_constants,  # after all passes that read the loops of kernels: it schedules them
        dead_code_elimination,  # kernels that were fused into others, or whose weights are packed
        static_plan_block_memory,  # last: it makes direct calls, which other passes do not handle
    ),
    assumes={"relax_derived", "relax_well_formed"},
    ensures=LOWERED_GRAPH,
)

CHECK_NAN: Final = Pipeline(
    "relax.check_nan", (normalize, check_nan), assumes={"relax_derived", "relax_well_formed"}
)

WINOGRAD: Final = Pipeline(
    "relax.winograd",
    (
        normalize,
        canonicalize_bindings,
        fold_constant,  # a kernel that becomes constant is transformed once
        winograd_conv2d,
    ),
    assumes={"relax_derived", "relax_well_formed"},
)

WINOGRAD_UNASKED: Final = Pipeline(
    "relax.winograd_unasked",
    (winograd_conv2d,),  # after folding of constants
    assumes={"relax_derived", "relax_normal_form", "relax_well_formed"},
)

SCHEDULE: Final = Pipeline("tir.schedule", (schedule,), assumes={"well_formed", "within_extents"})

LOWER_CPU: Final = Pipeline(
    "tir.lower_cpu",
    (
        lower_cross_thread_reduction,  # while blocks still say which loops reduce
        lower_init_block,  # before the next: its condition refers to iterators
        convert_blocks_to_opaque,
        legalize_calls,  # while aliases exist: a passed one has the strides of its source
        instrument_memory_accesses,  # before names are replaced, since errors mention them
        instrument_view_bounds,  # before the next, which hides what the program wrote
        lower_match_buffer,
        lower_opaque_block,
        lower_thread_binding,
        instrument_bound_checkers,  # before flattening, which hides the axes
        compact_buffer_allocation,  # before flattening, too
        flatten_buffer,
        lower_tvm_builtin,  # before the next, which must see which addresses are taken
        plan_and_update_buffer_allocation_location,  # memory of one iteration can become lanes
        stmt_simplify,  # constants first: they help the proofs of the next step
        widen_indices,  # before vectorisation: an index that is affine in int64 becomes a ramp
        remove_assume,  # hints have no lanes
        loop_partition,  # before vectorisation, too: lanes should not test a condition each
        vectorize_loop,  # before unrolling, which would hide the vector loops
        unroll_loop,
        stmt_simplify,  # unrolling leaves constants behind
        hoist_expression,  # after vectorising and unrolling, whose results share subexpressions
        remove_no_op,  # last: statements that the others have emptied
    ),
    assumes={"well_formed", "within_extents"},
    ensures=LOWERED,
)


@dataclass(frozen=True, slots=True)
class LowerOptions:
    """How to lower.

    ``checked``: an index out of bounds is an error. ``watched``: the memory sanitizer finds reads
    of uninitialised memory and races; loops then run in order. ``allow_alias``: array arguments may
    overlap.
    """

    checked: bool = False
    watched: bool = False
    allow_alias: bool = False
    unroll: UnrollOptions = field(default_factory=UnrollOptions)


def lower(
    mod: IRModule,
    options: LowerOptions = LowerOptions(),
    *,
    on_stage: OnStage | None = None,
    times: list[PassRun] | None = None,
    verify: bool | None = None,
) -> IRModule:
    """Lower a module to the form that code generation takes.

    That is one int64 index per access, only serial and parallel loops, no blocks, and arrays passed
    as descriptors.
    """
    given: dict[str, object] = {
        "tir.HoistExpression": HoistOptions(options.allow_alias),
        "tir.InstrumentBoundCheckers": BoundOptions(options.checked),
        "tir.InstrumentMemoryAccesses": WatchOptions(options.watched),
        "tir.InstrumentViewBounds": BoundOptions(options.checked),
        "tir.UnrollLoop": options.unroll,
    }
    return LOWER_CPU.run(mod, given, on_stage=on_stage, times=times, verify=verify)


def optimize_relax(
    mod: IRModule,
    winograd: WinogradConv2DOptions | None = None,
    *,
    on_stage: OnStage | None = None,
    times: list[PassRun] | None = None,
    verify: bool | None = None,
) -> IRModule:
    """Rewrite the graphs of a module to faster ones, whose results may differ by rounding.

    ``winograd`` says which convolutions are computed by Winograd's transforms; without it, none.
    A module without graphs is returned unchanged.
    """
    if not any(isinstance(func, Function) for func in mod.functions.values()):
        return mod
    mod = OPTIMIZE_RELAX.run(mod, on_stage=on_stage, times=times, verify=verify)
    if winograd is None:
        return mod
    given: dict[str, object] = {"relax.WinogradConv2D": winograd}
    return WINOGRAD_UNASKED.run(mod, given, on_stage=on_stage, times=times, verify=verify)


def lower_relax(
    mod: IRModule,
    packing: PackConstantsOptions | None = None,
    *,
    on_stage: OnStage | None = None,
    times: list[PassRun] | None = None,
    verify: bool | None = None,
) -> IRModule:
    """Lower the graphs of a module to calls of kernels, packed functions and closures.

    A module without graphs is returned unchanged. Kernels are added as private PrimFuncs.
    ``packing`` says how constant weights are prepacked for a machine; without it, kernels read them
    in their original layout.
    """
    if not any(isinstance(func, Function) for func in mod.functions.values()):
        return mod
    given: dict[str, object] = {} if packing is None else {"relax.PackConstants": packing}
    return LOWER_RELAX.run(mod, given, on_stage=on_stage, times=times, verify=verify)
