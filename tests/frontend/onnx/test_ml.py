"""Operators of ai.onnx.ml agree with the reference of the standard."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import loomir

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(operator: str, outputs: dict[str, Any], **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x"], list(outputs), domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, ["n", 4])],
        [helper.make_tensor_value_info(o, t, ["n", *d]) for o, (t, *d) in outputs.items()],
    )
    versions = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def agree(made: onnx.ModelProto, x: np.ndarray[Any, Any]) -> None:
    judge: Any = ReferenceEvaluator(made)
    run = loomir.compile(loomir.onnx.load(made))
    for items in (x, x[:1]):
        got: Any = run(items)
        parts: list[Any] = [*got] if isinstance(got, (tuple, list)) else [got]
        for one, want in zip(parts, judge.run(None, {"x": items}), strict=True):
            assert one.shape == want.shape
            assert one.dtype == want.dtype
            np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-5)


def items(count: int = 50) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((count, 4)).astype("float32")


def forest(
    trees: int, targets: int, prefix: str, *, modes: Any = ("BRANCH_LEQ",), low: float = -1.0
) -> dict[str, Any]:
    """Make trees of random splits, with leaves at depths from 1 to 4."""
    rng = np.random.default_rng(3)
    rows: dict[str, list[Any]] = {
        n: []
        for n in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                  "falsenodeids", "missing_value_tracks_true")
    }  # fmt: skip
    leaves: dict[str, list[Any]] = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        depths, k = [0], 0
        while k < len(depths):
            split = depths[k] == 0 or (depths[k] < 4 and rng.random() < 0.6)
            following = (len(depths), len(depths) + 1) if split else (0, 0)
            depths += [depths[k] + 1] * 2 if split else []
            rows["treeids"].append(tree)
            rows["nodeids"].append(k)
            rows["featureids"].append(int(rng.integers(4)) if split else 0)
            rows["values"].append(float(rng.standard_normal()) if split else 0.0)
            rows["modes"].append(str(rng.choice(modes)) if split else "LEAF")
            rows["truenodeids"].append(following[0])
            rows["falsenodeids"].append(following[1])
            rows["missing_value_tracks_true"].append(int(rng.integers(2)) if split else 0)
            if not split:
                for target in range(targets):
                    leaves["treeids"].append(tree)
                    leaves["nodeids"].append(k)
                    leaves["ids"].append(target)
                    leaves["weights"].append(float(rng.uniform(low, 1.0)) / trees)
            k += 1
    made = {f"nodes_{n}": v for n, v in rows.items()}
    return {**made, **{f"{prefix}_{n}": v for n, v in leaves.items()}}


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MAX"])
def test_regression_by_trees(how: str):
    attributes = forest(7, 2, "target")
    made = model(
        "TreeEnsembleRegressor", {"y": (FLOAT, 2)}, n_targets=2, aggregate_function=how,
        base_values=[0.5, -1.0], **attributes,
    )  # fmt: skip
    agree(made, items())


def test_trees_of_all_modes_and_missing_values():
    modes = [f"BRANCH_{m}" for m in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")]
    attributes = forest(5, 1, "target", modes=modes)
    x = items()
    x[::3, 1] = np.nan
    x[::4, 2] = attributes["nodes_values"][0]
    agree(model("TreeEnsembleRegressor", {"y": (FLOAT, 1)}, n_targets=1, **attributes), x)


BOTH = {"label": (INT64,), "scores": (FLOAT, 3)}


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_classification_by_trees(transform: str):
    made = model(
        "TreeEnsembleClassifier", BOTH, classlabels_int64s=[4, 1, 7],
        post_transform=transform, **forest(7, 3, "class"),
    )  # fmt: skip
    agree(made, items())


@pytest.mark.parametrize(("low", "transform"), [(0.0, "NONE"), (-1.0, "NONE"), (-1.0, "LOGISTIC")])
def test_trees_for_two_classes(low: float, transform: str):
    attributes = forest(7, 1, "class", low=low)
    made = model(
        "TreeEnsembleClassifier", {"label": (INT64,), "scores": (FLOAT, 2)},
        classlabels_int64s=[0, 1], post_transform=transform, **attributes,
    )  # fmt: skip
    x = items()
    label, scores = loomir.compile(loomir.onnx.load(made))(x)
    judge: Any = ReferenceEvaluator(made)
    want = judge.run(None, {"x": x})[1]
    least = 0.5
    if low < 0 and transform == "NONE":
        # The reference takes any sum for a probability. ONNX Runtime, as here, takes one of weights
        # below 0 for what speaks for the second class and against the first.
        want[:, 0], least = -want[:, 1], 0.0
    np.testing.assert_allclose(scores, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(label, scores[:, 1] > least)


def test_linear_models():
    rng = np.random.default_rng(1)
    weights, biases = rng.standard_normal(12).tolist(), rng.standard_normal(3).tolist()
    given: dict[str, Any] = {"coefficients": weights, "intercepts": biases}
    agree(model("LinearRegressor", {"y": (FLOAT, 3)}, targets=3, **given), items())
    for transform in ("NONE", "SOFTMAX"):
        made = model(
            "LinearClassifier", BOTH, classlabels_ints=[0, 1, 2], post_transform=transform, **given
        )
        agree(made, items())


@pytest.mark.parametrize("kind", ["LINEAR", "RBF", "POLY", "SIGMOID"])
def test_support_vectors(kind: str):
    rng = np.random.default_rng(1)
    made = model(
        "SVMRegressor", {"y": (FLOAT, 1)}, kernel_type=kind, kernel_params=[0.2, 0.3, 2.0],
        n_supports=5, coefficients=rng.standard_normal(5).tolist(), rho=[0.4],
        support_vectors=rng.standard_normal(20).tolist(),
    )  # fmt: skip
    agree(made, items())


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Scaler", {"offset": [0.1, 0.2, 0.3, 0.4], "scale": [1.0, 2.0, 3.0, 4.0]}),
        ("Normalizer", {"norm": "L1"}),
        ("Normalizer", {"norm": "L2"}),
        ("Normalizer", {"norm": "MAX"}),
        ("Binarizer", {"threshold": 0.25}),
        ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": 0.0}),
    ],
)
def test_features(operator: str, attributes: dict[str, Any]):
    x = abs(items())
    x[::5, 2] = 0
    agree(model(operator, {"y": (FLOAT, 4)}, **attributes), x)


def mapped(operator: str, kind: int, x: np.ndarray[Any, Any], **attributes: Any) -> None:
    """Compare an operator on numbers, as version 4 has it, with the reference."""
    node = helper.make_node(operator, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    given = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", given, ["n", 4])],
        [helper.make_tensor_value_info("y", kind, ["n", 4])],
    )
    versions = [helper.make_opsetid("ai.onnx.ml", 4), helper.make_opsetid("", 17)]
    agree(helper.make_model(graph, opset_imports=versions, ir_version=8), x)


KEYS = np.random.default_rng(5).integers(0, 5, (20, 4))


def test_labels_of_numbers():
    mapped(
        "LabelEncoder", FLOAT, KEYS, keys_int64s=[3, 0, 2], values_floats=[0.5, 1.5, -1.0],
        default_float=9.0,
    )  # fmt: skip
    mapped("LabelEncoder", INT64, KEYS, keys_int64s=[1, 2], values_int64s=[7, 8])


def test_a_nan_is_a_key_and_the_last_of_equal_keys_counts():
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_floats=[np.nan, 0.5, 1.0, 0.5],
        values_int64s=[1, 2, 3, 4], default_int64=-7,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [4])],
        [helper.make_tensor_value_info("y", INT64, [4])],
    )
    versions = [helper.make_opsetid("ai.onnx.ml", 4), helper.make_opsetid("", 17)]
    made = helper.make_model(graph, opset_imports=versions, ir_version=8)
    x = np.array([np.nan, 0.5, 1.0, 2.0], "float32")
    assert loomir.compile(loomir.onnx.load(made))(x).tolist() == [1, 4, 3, -7]


def test_labels_in_tensors():
    keys, values = np.array([4, 1], "int64"), np.array([0.25, 4.0], "float32")
    mapped(
        "LabelEncoder",
        FLOAT,
        KEYS,
        keys_tensor=onnx.numpy_helper.from_array(keys),
        values_tensor=onnx.numpy_helper.from_array(values),
        default_tensor=onnx.numpy_helper.from_array(np.array([1], "float32")),
    )


def test_categories_become_rows_of_one_and_zeros():
    x = np.random.default_rng(2).integers(0, 4, (20, 4))
    node = helper.make_node(
        "OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", cats_int64s=[3, 1, 0]
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", INT64, ["n", 4])],
        [helper.make_tensor_value_info("y", FLOAT, ["n", 4, 3])],
    )
    versions = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    made = helper.make_model(graph, opset_imports=versions, ir_version=8)
    got = loomir.compile(loomir.onnx.load(made))(x)
    np.testing.assert_array_equal(got, (x[..., None] == [3, 1, 0]).astype("float32"))


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_trees_with_leaves_of_their_own(aggregate: int, dtype: str):
    """Two trees; one asks whether a feature is one of several numbers."""

    def tensor(values: Any, kind: str) -> Any:
        return onnx.numpy_helper.from_array(np.array(values, kind))

    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=2,
        aggregate_function=aggregate, post_transform=0, tree_roots=[0, 2],
        nodes_featureids=[0, 1, 2, 3], nodes_modes=tensor([0, 6, 3, 5], "uint8"),
        nodes_splits=tensor([2.5, 0, 1, 4], dtype),
        nodes_truenodeids=[1, 0, 3, 3], nodes_trueleafs=[0, 1, 0, 1],
        nodes_falsenodeids=[2, 1, 4, 5], nodes_falseleafs=[1, 1, 1, 1],
        leaf_targetids=[0, 1, 0, 1, 0, 1],
        leaf_weights=tensor([1.5, -2, 3.25, 4, -5.5, 6], dtype),
        membership_values=tensor([1, 3, 4, np.nan], dtype),
    )  # fmt: skip
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, ["n", 4])],
        [helper.make_tensor_value_info("y", kind, ["n", 2])],
    )
    versions = [helper.make_opsetid("ai.onnx.ml", 5), helper.make_opsetid("", 21)]
    made = helper.make_model(graph, opset_imports=versions, ir_version=10)
    x = KEYS.astype(dtype)
    got: Any = loomir.compile(loomir.onnx.load(made))(x)
    first = np.where(x[:, 0] <= 2.5, np.where(np.isin(x[:, 1], [1, 3, 4]), 1.5, -2), 3.25)
    second = np.where(x[:, 2] > 1, np.where(x[:, 3] != 4, 4, 6), -5.5)
    ones = [np.where((x[:, 0] <= 2.5) & ~np.isin(x[:, 1], [1, 3, 4]), 1, 0)]
    ones.append(np.where(x[:, 2] > 1, 1, 0))
    empty = [0.0, 0.0, np.inf, -np.inf][aggregate]
    want = np.full((len(x), 2), empty)
    for value, target in zip((first, second), ones, strict=True):
        for row, (v, t) in enumerate(zip(value, target, strict=True)):
            how = [np.add, np.add, np.minimum, np.maximum][aggregate]
            want[row, t] = how(want[row, t], v / 2 if aggregate == 0 else v)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_labels_that_are_strings_are_refused_with_advice():
    made = model(
        "TreeEnsembleClassifier", {"label": (TensorProto.STRING,), "scores": (FLOAT, 3)},
        classlabels_strings=["a", "b", "c"], **forest(2, 3, "class"),
    )  # fmt: skip
    with pytest.raises(loomir.CompileError, match="number the classes"):
        loomir.onnx.load(made)
