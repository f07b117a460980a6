"""Pipelines: flat lists of passes, with the reason beside each step that is not obvious."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from loomir.ir.module import IRModule
from loomir.ir.passes import OnStage, Pipeline, Ran
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
from loomir.transform.tir.simplify.remove_assume import remove_assume
from loomir.transform.tir.simplify.remove_no_op import remove_no_op
from loomir.transform.tir.simplify.stmt_simplify import stmt_simplify
from loomir.transform.tir.simplify.widen_indices import widen_indices

__all__ = [
    "CHECK_NAN",
    "LOWER_CPU",
    "LOWER_RELAX",
    "OPTIMIZE_RELAX",
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
        # What may move last bits; what keeps all of them stands in the next pipeline. Results stay
        # within rounding of what operands are, not of what cancels: tests bound each pass by sums
        # of absolute products in float64.
        normalize,
        canonicalize_bindings,  # before the others, which compare names
        # Before folding, which would make floats, or integers of 32 bits, of constant bytes.
        fake_quantization_to_integer,
        fuse_zero_points,
        fold_constant,  # next: what is constant may be written as arithmetic on weights
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
        slice_constant_take,  # after folding: places may be computed from constants
        sink_reshape,  # before the next: what it moves may lie between transposition and product
        group_shared_heads,  # after it, which leaves batches as heads
        # Keeps all bits: each element sums the same products in the same order, and spares a copy.
        # Not here: CombineParallelMatmul keeps bits too, but copies operands and results.
        fuse_transpose_matmul,  # after folding: the transposed matrix may be a constant
        legalize_ops,
        dead_code_elimination,  # after it: what kernels do not take is not needed any more
        annotate_tir_op_pattern,
        fuse_ops,
        fuse_tir,
        dataflow_use_inplace_calls,  # after fusion, which takes kernels that write new tensors
        pack_constants,  # after all that reads the loops of kernels: these are scheduled
        dead_code_elimination,  # kernels that others contain now, or whose weights are packed
        static_plan_block_memory,  # last: it makes direct calls, which other passes do not know
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
        fold_constant,  # a kernel that is constant then is transformed once
        winograd_conv2d,
    ),
    assumes={"relax_derived", "relax_well_formed"},
)

WINOGRAD_UNASKED: Final = Pipeline(
    "relax.winograd_unasked",
    (winograd_conv2d,),  # of a graph whose constants are folded already
    assumes={"relax_derived", "relax_normal_form", "relax_well_formed"},
)

LOWER_CPU: Final = Pipeline(
    "tir.lower_cpu",
    (
        lower_cross_thread_reduction,  # while blocks still say which loops reduce
        lower_init_block,  # before the next: its condition is about iterators
        convert_blocks_to_opaque,
        legalize_calls,  # an alias that is passed on is still one: its strides are its source's
        instrument_memory_accesses,  # before any name is replaced: errors name it
        instrument_view_bounds,  # before the next, which hides what the program wrote
        lower_match_buffer,
        lower_opaque_block,
        lower_thread_binding,
        instrument_bound_checkers,  # before flattening, which hides the axes
        compact_buffer_allocation,  # so is this
        flatten_buffer,
        lower_tvm_builtin,  # before the next, which must see whose address is taken
        plan_and_update_buffer_allocation_location,  # what each iteration owns can become lanes
        stmt_simplify,  # constants first: they bound what the next step proves
        widen_indices,  # before vectors: an index that is affine in int64 becomes a ramp
        remove_assume,  # hints have no lanes
        loop_partition,  # before vectors too: no lane asks for itself
        vectorize_loop,  # before unrolling, which would hide the vector loops
        unroll_loop,
        stmt_simplify,  # unrolling leaves constants behind
        hoist_expression,  # after vectors and copies are made, which share what is computed once
        remove_no_op,  # last: what the others have emptied
    ),
    assumes={"well_formed", "within_extents"},
    ensures=LOWERED,
)


@dataclass(frozen=True, slots=True)
class LowerOptions:
    """How to lower: ``checked`` makes an index out of bounds an error, ``watched`` watches memory.

    Watched code finds reads of what nothing wrote, and races; its loops run in order.
    ``allow_alias``: arrays that a function is given may overlap.
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
    times: list[Ran] | None = None,
    verify: bool | None = None,
) -> IRModule:
    """Lower a module to the form that code generation takes.

    One int64 index per access, only serial and parallel loops, no blocks, arrays passed as
    descriptors.
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
    times: list[Ran] | None = None,
    verify: bool | None = None,
) -> IRModule:
    """Rewrite the graphs of a module to faster ones, whose results may differ by rounding.

    ``winograd`` says which convolutions are computed by Winograd's transforms; none without it.
    A module without graphs comes back as it is.
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
    times: list[Ran] | None = None,
    verify: bool | None = None,
) -> IRModule:
    """Lower the graphs of a module to calls of kernels, packed functions and closures.

    A module without graphs comes back as it is. Kernels are added as private PrimFuncs.
    ``packing`` says how constant weights are brought into the layouts of a machine; without it,
    kernels read them as they are.
    """
    if not any(isinstance(func, Function) for func in mod.functions.values()):
        return mod
    given: dict[str, object] = {} if packing is None else {"relax.PackConstants": packing}
    return LOWER_RELAX.run(mod, given, on_stage=on_stage, times=times, verify=verify)
