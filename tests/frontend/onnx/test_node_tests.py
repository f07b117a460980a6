"""The standard's own tests of operators: a selection, of all families; all of them by command.

``python -m tools.onnx_node_tests`` runs all.
"""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from typing import Any

import pytest

from tools.onnx_node_tests import run_case

MODULES = {
    "add": ["test_add_bcast"],
    "batch_normalization": ["test_batchnorm_example"],
    "conv": ["test_conv_with_autopad_same", "test_conv_with_strides_padding"],
    "einsum": ["test_einsum_batch_matmul", "test_einsum_batch_diagonal"],
    "gather": ["test_gather_negative_indices"],
    "maxpool": ["test_maxpool_2d_ceil"],
    "reducemax": ["test_reduce_max_empty_set", "test_reduce_max_empty_set_bool"],
    "argmax": ["test_argmax_keepdims_example_select_last_index"],
    "reducesum": ["test_reduce_sum_do_not_keepdims_random"],
    "reshape": ["test_reshape_zero_and_negative_dim"],
    "slice": ["test_slice_neg_steps"],
    "softmax": ["test_softmax_axis_1"],
    "topk": ["test_top_k"],
    "cast": ["test_cast_FLOAT_to_FLOAT8E4M3FN", "test_cast_INT4_to_FLOAT"],
    "resize": ["test_resize_downsample_sizes_linear_antialias"],
    "quantizelinear": ["test_quantizelinear_axis"],
    "if_": ["test_if"],
    "loop": ["test_loop11"],
    "scan": ["test_scan9_sum"],
    "nonmaxsuppression": ["test_nonmaxsuppression_two_classes"],
    "lstm": ["test_lstm_with_peepholes"],
    "pad": ["test_reflect_pad"],
    "affinegrid": ["test_affine_grid_2d", "test_affine_grid_3d_align_corners"],
    "col2im": ["test_col2im_pads", "test_col2im_5d"],
    "gridsample": [
        "test_gridsample_volumetric_nearest_align_corners_0",
        "test_gridsample_volumetric_bilinear_align_corners_1",
    ],
    "flexattention": ["test_flexattention_prob_mod", "test_flexattention_causal_mask"],
    "roialign": ["test_roialign_mode_max"],
    "convtranspose": ["test_convtranspose_output_shape"],
    "deformconv": ["test_deform_conv_with_mask_bias"],
    "det": ["test_det_nd"],
    "adam": ["test_adam_multiple"],
    "adagrad": ["test_adagrad"],
    "momentum": ["test_momentum", "test_nesterov_momentum"],
    "tfidfvectorizer": ["test_tfidfvectorizer_tf_batch_uniandbigrams_skip5"],
    "unique": ["test_unique_not_sorted_without_axis"],
}


@cache
def cases(module: str) -> dict[str, Any]:
    """Make the tests of one module of the standard's: those of all take half a minute."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the formulas by which it makes what it expects overflow
        node = importlib.import_module("onnx.backend.test.case.node")
        importlib.import_module(f"onnx.backend.test.case.node.{module}")  # which adds its tests
    return {c.name: c for c in node._NodeTestCases}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in MODULES.items() for name in names]
)
def test_node(module: str, name: str):
    outcome = run_case(cases(module)[name])
    assert (outcome.state, outcome.reason) == ("passed", "")
