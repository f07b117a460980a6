"""Passes on graphs, in folders by what they change."""

from loomir.transform.relax.algebra.adjust_matmul_order import adjust_matmul_order
from loomir.transform.relax.algebra.combine_parallel_matmul import (
    CombineParallelMatmulOptions,
    combine_parallel_matmul,
)
from loomir.transform.relax.algebra.expand_matmul_of_sum import expand_matmul_of_sum
from loomir.transform.relax.algebra.fast_math_transform import fast_math_transform
from loomir.transform.relax.algebra.fold_affine_to_conv import fold_affine_to_conv
from loomir.transform.relax.algebra.fold_batchnorm_to_conv2d import fold_batchnorm_to_conv2d
from loomir.transform.relax.algebra.fuse_transpose_matmul import fuse_transpose_matmul
from loomir.transform.relax.algebra.reorder_permute_dims_after_concat import (
    reorder_permute_dims_after_concat,
)
from loomir.transform.relax.algebra.reorder_take_after_matmul import reorder_take_after_matmul
from loomir.transform.relax.bindings.canonicalize_bindings import canonicalize_bindings
from loomir.transform.relax.bindings.dead_code_elimination import dead_code_elimination
from loomir.transform.relax.bindings.eliminate_common_subexpr import eliminate_common_subexpr
from loomir.transform.relax.bindings.normalize import normalize
from loomir.transform.relax.bindings.to_non_dataflow import to_non_dataflow
from loomir.transform.relax.bindings.topological_sort import (
    TopologicalSortOptions,
    topological_sort,
)
from loomir.transform.relax.constants.bind_params import BindParamsOptions, bind_params
from loomir.transform.relax.constants.bind_symbolic_vars import (
    BindSymbolicVarsOptions,
    bind_symbolic_vars,
)
from loomir.transform.relax.constants.bundle_model_params import (
    BundleModelParamsOptions,
    bundle_model_params,
)
from loomir.transform.relax.constants.fold_constant import fold_constant
from loomir.transform.relax.constants.lazy_transform_params import (
    LazyTransformParamsOptions,
    lazy_transform_params,
)
from loomir.transform.relax.constants.lift_transform_params import lift_transform_params
from loomir.transform.relax.constants.pack_constants import PackConstantsOptions, pack_constants
from loomir.transform.relax.devices.realize_vdevice import realize_vdevice
from loomir.transform.relax.functions.attach_global_symbol import attach_global_symbol
from loomir.transform.relax.functions.expand_tuple_arguments import expand_tuple_arguments
from loomir.transform.relax.functions.function_pass import (
    DataflowBlockPass,
    FunctionPass,
    dataflowblock_pass,
    function_pass,
)
from loomir.transform.relax.functions.inline_private_functions import inline_private_functions
from loomir.transform.relax.functions.lambda_lift import lambda_lift
from loomir.transform.relax.functions.normalize_global_var import normalize_global_var
from loomir.transform.relax.functions.remove_purity_checking import remove_purity_checking
from loomir.transform.relax.functions.remove_unused_outputs import remove_unused_outputs
from loomir.transform.relax.functions.remove_unused_parameters import remove_unused_parameters
from loomir.transform.relax.fusion.annotate_tir_op_pattern import annotate_tir_op_pattern
from loomir.transform.relax.fusion.fuse_ops import fuse_ops
from loomir.transform.relax.fusion.fuse_tir import fuse_tir
from loomir.transform.relax.kernels.decompose_ops_for_inference import decompose_ops_for_inference
from loomir.transform.relax.kernels.legalize_ops import legalize_ops
from loomir.transform.relax.kernels.specialize_prim_func_based_on_call_site import (
    specialize_prim_func_based_on_call_site,
)
from loomir.transform.relax.kernels.winograd_conv2d import WinogradConv2DOptions, winograd_conv2d
from loomir.transform.relax.layout.convert_layout import ConvertLayoutOptions, convert_layout
from loomir.transform.relax.layout.group_shared_heads import group_shared_heads
from loomir.transform.relax.layout.optimize_layout_transform import optimize_layout_transform
from loomir.transform.relax.layout.remove_redundant_reshape import remove_redundant_reshape
from loomir.transform.relax.layout.rewrite_dataflow_reshape import rewrite_dataflow_reshape
from loomir.transform.relax.layout.sink_reshape import sink_reshape
from loomir.transform.relax.layout.slice_constant_take import slice_constant_take
from loomir.transform.relax.memory.call_tir_rewrite import call_tir_rewrite
from loomir.transform.relax.memory.dataflow_use_inplace_calls import dataflow_use_inplace_calls
from loomir.transform.relax.memory.kill_after_last_use import kill_after_last_use
from loomir.transform.relax.memory.lower_alloc_tensor import lower_alloc_tensor
from loomir.transform.relax.memory.static_plan_block_memory import static_plan_block_memory
from loomir.transform.relax.precision.to_mixed_precision import (
    ToMixedPrecisionOptions,
    to_mixed_precision,
)
from loomir.transform.relax.quantization.fake_quantization_to_integer import (
    fake_quantization_to_integer,
)
from loomir.transform.relax.quantization.fuse_zero_points import fuse_zero_points

__all__ = [
    "BindParamsOptions",
    "BindSymbolicVarsOptions",
    "BundleModelParamsOptions",
    "CombineParallelMatmulOptions",
    "ConvertLayoutOptions",
    "DataflowBlockPass",
    "FunctionPass",
    "LazyTransformParamsOptions",
    "PackConstantsOptions",
    "ToMixedPrecisionOptions",
    "TopologicalSortOptions",
    "WinogradConv2DOptions",
    "adjust_matmul_order",
    "annotate_tir_op_pattern",
    "attach_global_symbol",
    "bind_params",
    "bind_symbolic_vars",
    "bundle_model_params",
    "call_tir_rewrite",
    "canonicalize_bindings",
    "combine_parallel_matmul",
    "convert_layout",
    "dataflow_use_inplace_calls",
    "dataflowblock_pass",
    "dead_code_elimination",
    "decompose_ops_for_inference",
    "eliminate_common_subexpr",
    "expand_matmul_of_sum",
    "expand_tuple_arguments",
    "fake_quantization_to_integer",
    "fast_math_transform",
    "fold_affine_to_conv",
    "fold_batchnorm_to_conv2d",
    "fold_constant",
    "function_pass",
    "fuse_ops",
    "fuse_tir",
    "fuse_transpose_matmul",
    "fuse_zero_points",
    "group_shared_heads",
    "inline_private_functions",
    "kill_after_last_use",
    "lambda_lift",
    "lazy_transform_params",
    "legalize_ops",
    "lift_transform_params",
    "lower_alloc_tensor",
    "normalize",
    "normalize_global_var",
    "optimize_layout_transform",
    "pack_constants",
    "realize_vdevice",
    "remove_purity_checking",
    "remove_redundant_reshape",
    "remove_unused_outputs",
    "remove_unused_parameters",
    "reorder_permute_dims_after_concat",
    "reorder_take_after_matmul",
    "rewrite_dataflow_reshape",
    "sink_reshape",
    "slice_constant_take",
    "specialize_prim_func_based_on_call_site",
    "static_plan_block_memory",
    "to_mixed_precision",
    "to_non_dataflow",
    "topological_sort",
    "winograd_conv2d",
]
