"""Ensembles of decision trees: all trees descend one level per step, up to the greatest depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.converters.ml.scores import (
    ML,
    array_of,
    labels_of,
    matrix_of,
    scores_of,
    two_columns,
)
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.constants import const
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, compute, select
from loomir.tir.expr import And, Or, PrimExpr
from loomir.tir.expr import const as number

_MOST_LEVELS: Final = 128
_Compare = Callable[[PrimExpr, PrimExpr], PrimExpr]
_MODES: Final[dict[str, _Compare]] = {
    "BRANCH_LEQ": lambda a, b: a <= b,
    "BRANCH_LT": lambda a, b: a < b,
    "BRANCH_GTE": lambda a, b: a >= b,
    "BRANCH_GT": lambda a, b: a > b,
    "BRANCH_EQ": lambda a, b: a == b,
    "BRANCH_NEQ": lambda a, b: a != b,
}


@dataclass(slots=True)
class _Forest:
    """Nodes of all trees, each by its number; a leaf is followed by itself."""

    numbers: dict[tuple[int, int], int]
    roots: Any
    features: Any
    values: Any
    modes: Any
    used: list[str]
    missing: Any
    if_true: Any
    if_false: Any
    depth: int


def _forest(node: Node) -> _Forest:
    trees, ids = array_of(node, "nodes_treeids", "int64"), array_of(node, "nodes_nodeids", "int64")
    named = [str(m) for m in node.get("nodes_modes", ())]
    numbers = {(int(t), int(i)): k for k, (t, i) in enumerate(zip(trees, ids))}
    used = sorted({m for m in named if m != "LEAF"})
    if any(m not in _MODES for m in used):
        raise node.refuse(f"its modes {', '.join(used)} are not all supported")
    leaf = np.array([m == "LEAF" for m in named], bool)
    own = np.arange(len(ids))
    followed: list[Any] = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        to = array_of(node, name, "int64")
        steps = zip(trees, to, leaf, own)
        followed.append(
            np.array([k if end else numbers[int(t), int(i)] for t, i, end, k in steps], "int32")
        )
    reached = {int(v) for f in followed for v, end in zip(f, leaf) if not end}
    missing = array_of(node, "nodes_missing_value_tracks_true", "int64")
    made = _Forest(
        numbers,
        np.array([k for k in own if k not in reached], "int32"),
        np.where(leaf, 0, array_of(node, "nodes_featureids", "int64")).astype("int32"),
        array_of(node, "nodes_values", "float64"),
        np.array([0 if m == "LEAF" else used.index(m) for m in named], "int32"),
        used,
        missing.astype(bool) if missing.any() else None,
        followed[0],
        followed[1],
        0,
    )
    made.depth = _depth(node, made, leaf)
    return made


def _tensor(node: Node, name: str) -> Any:
    """Return the elements of an attribute that is a tensor: its type, and they."""
    given = node.get(name)
    found: Any = np.zeros(0, "float32") if given is None else np.asarray(given[1])
    return found.reshape(-1)


_MEMBER: Final = 6
_NAMES: Final = (*_MODES,)
_SUMS: Final = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def _ensemble(node: Node) -> RelaxExpr:
    """Import trees whose leaves are numbered by themselves, as from version 5 on."""
    forest = _numbered_forest(node)
    leaves = _leaves(node, matrix_of(node), forest)
    targets = array_of(node, "leaf_targetids", "int64")
    weights = _tensor(node, "leaf_weights")
    how = _SUMS[int(node.get("aggregate_function", 1))]
    first = len(array_of(node, "nodes_featureids"))
    places = zip(range(first, first + len(targets)), targets, weights)
    count = int(node.get("n_targets", 1))
    made = _reduced(node, forest, leaves, how, count, [(int(k), int(t), w) for k, t, w in places])
    return scores_of(node, made, _TRANSFORMS[int(node.get("post_transform", 0))])


def _numbered_forest(node: Node) -> _Forest:
    """Return the nodes, the leaves behind them, and last those that ask for further members."""
    modes = [int(m) for m in _tensor(node, "nodes_modes")]
    features = [int(f) for f in array_of(node, "nodes_featureids", "int64")]
    values = [float(v) for v in _tensor(node, "nodes_splits")]
    tracks = array_of(node, "nodes_missing_value_tracks_true", "int64")
    missing = [bool(m) for m in tracks] or [False] * len(modes)
    count, leaves = len(modes), len(array_of(node, "leaf_targetids"))
    ways: list[list[int]] = []
    for kind in ("true", "false"):
        ids = array_of(node, f"nodes_{kind}nodeids", "int64")
        ends = array_of(node, f"nodes_{kind}leafs", "int64")
        ways.append([int(i) + (count if end else 0) for i, end in zip(ids, ends)])
    modes += [0] * leaves
    features += [0] * leaves
    values += [0.0] * leaves
    missing += [False] * leaves
    for way in ways:
        way.extend(range(count, count + leaves))
    members = iter(_tensor(node, "membership_values").tolist())
    for k in [k for k in range(count) if modes[k] == _MEMBER]:
        last, otherwise = k, ways[1][k]
        modes[k] = _NAMES.index("BRANCH_EQ")
        values[k] = next(members, np.nan)
        for value in members:
            if np.isnan(value):
                break
            ways[1][last] = last = len(modes)
            modes.append(modes[k])
            features.append(features[k])
            values.append(value)
            missing.append(missing[k])
            ways[0].append(ways[0][k])
            ways[1].append(otherwise)
    total = len(modes)
    if any(not 0 <= m < len(_NAMES) for m in modes) or len(values) != total:
        raise node.refuse("a node refers to another node or a tensor element that does not exist")
    if any(not 0 <= k < total for way in ways for k in way) or len(ways[0]) != total:
        raise node.refuse("a branch leads to a node that does not exist")
    used = sorted(set(modes))
    leaf = np.zeros(total, bool)
    leaf[count : count + leaves] = True
    roots = array_of(node, "tree_roots", "int64").astype("int32")
    made = _Forest(
        {},
        # A tree of one leaf has a node that leads to it both ways.
        roots,
        np.array(features, "int32"),
        np.array(values, "float64"),
        np.array([used.index(m) for m in modes], "int32"),
        [_NAMES[m] for m in used],
        np.array(missing, bool) if any(missing) else None,
        np.array(ways[0], "int32"),
        np.array(ways[1], "int32"),
        0,
    )
    made.depth = _depth(node, made, leaf)
    return made


def _depth(node: Node, forest: _Forest, leaf: Any) -> int:
    """Return how many steps the longest way from a root to a leaf has."""
    now, depth = np.unique(forest.roots), 0
    while not leaf[now].all():
        now = np.unique(np.concatenate([forest.if_true[now], forest.if_false[now]]))
        depth += 1
        if depth > _MOST_LEVELS:
            raise node.refuse(f"a tree has more than {_MOST_LEVELS} levels, or a cycle")
    return depth


def _leaves(node: Node, x: RelaxExpr, forest: _Forest) -> RelaxExpr:
    """Return the number of the leaf that each item comes to in each tree."""
    dtype = str(node.info_of(x).dtype)
    tables = [forest.roots, forest.features, forest.values.astype(dtype), forest.modes]
    tables += [forest.if_true, forest.if_false]
    given: list[RelaxExpr] = [x, *[const(t) for t in tables]]
    if forest.missing is not None:
        given += [const(forest.missing), node.emit(op.isnan(x))]

    def leaves(*args: Tensor) -> Tensor:
        items, roots, features, values, modes, if_true, if_false, *nans = args
        shape = (items.shape[0], roots.shape[0])

        def goes_true(n: PrimExpr, k: PrimExpr) -> PrimExpr:
            feature = features[k].astype("int64")
            value = items[n, feature]
            made = _MODES[forest.used[0]](value, values[k])
            for i, mode in enumerate(forest.used[1:], 1):
                own = _MODES[mode](value, values[k])
                made = select(_MODES["BRANCH_EQ"](modes[k], number(i, "int32")), own, made)
            if nans:
                made = Or(made, And(nans[0][k], nans[1][n, feature]))
            return made

        def step(before: Tensor) -> Tensor:
            def follow(n: PrimExpr, t: PrimExpr) -> PrimExpr:
                k = before[n, t].astype("int64")
                return select(goes_true(n, k), if_true[k], if_false[k])

            return compute(shape, follow, name="follow")

        def root(n: PrimExpr, t: PrimExpr) -> PrimExpr:
            return roots[t]

        now = compute(shape, root, name="roots")
        for _ in range(forest.depth):
            now = step(now)
        return now

    return node.compute(leaves, *given)


def _sums(node: Node, forest: _Forest, leaves: RelaxExpr, prefix: str, columns: int) -> RelaxExpr:
    """Return what the weights of the leaves make for each target."""
    targets = array_of(node, f"{prefix}_ids", "int64")
    weights = array_of(node, f"{prefix}_weights", "float64")
    trees = array_of(node, f"{prefix}_treeids", "int64")
    ids = array_of(node, f"{prefix}_nodeids", "int64")
    how = str(node.get("aggregate_function", "SUM"))
    if how not in _SUMS:
        raise node.refuse(f"its aggregate_function {how} is not supported")
    places = zip(targets, weights, trees, ids)
    rows = [(forest.numbers[int(tree), int(own)], int(t), w) for t, w, tree, own in places]
    return _reduced(node, forest, leaves, how, columns, rows)


def _reduced(
    node: Node,
    forest: _Forest,
    leaves: RelaxExpr,
    how: str,
    columns: int,
    weights: Sequence[tuple[int, int, Any]],
) -> RelaxExpr:
    """Combine the weights of all trees: each is that of a node for a target."""
    dtype = (
        "float64" if node.dtype(0) == "float64" and node.operator == "TreeEnsemble" else "float32"
    )
    empty = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
    table = np.full((len(forest.features), columns), empty, dtype)
    for row_at, target, weight in weights:
        place = row_at, target
        table[place] = weight if how in ("MIN", "MAX") else table[place] + weight
    taken = node.emit(op.take(const(table), leaves, 0))
    reduce = {"MIN": op.min, "MAX": op.max, "AVERAGE": op.mean}.get(how, op.sum)
    return node.emit(reduce(taken, [1]))


def _with_base(node: Node, x: RelaxExpr, base: Any) -> RelaxExpr:
    return node.emit(op.add(x, const(base.astype("float32")))) if base.size else x


def _regressor(node: Node) -> RelaxExpr:
    forest = _forest(node)
    leaves = _leaves(node, matrix_of(node), forest)
    made = _sums(node, forest, leaves, "target", int(node.get("n_targets", 1)))
    return scores_of(node, _with_base(node, made, array_of(node, "base_values")))


def _classifier(node: Node) -> list[Any]:
    forest = _forest(node)
    count = max(
        len(node.get("classlabels_int64s") or ()), len(node.get("classlabels_strings") or ())
    )
    leaves = _leaves(node, matrix_of(node), forest)
    used = np.unique(array_of(node, "class_ids", "int64"))
    base = array_of(node, "base_values")
    if count == 2 and len(used) == 1:
        return _two_classes(node, forest, leaves, int(used[0]), base)
    made = _with_base(node, _sums(node, forest, leaves, "class", count), base)
    places = node.emit(op.argmax(made, -1))
    return [labels_of(node, places, "classlabels_int64s"), scores_of(node, made)]


def _two_classes(node: Node, forest: _Forest, leaves: RelaxExpr, used: int, base: Any) -> list[Any]:
    """Make both scores of a sum for one class: a probability where no weight is negative."""
    made = _sums(node, forest, leaves, "class", used + 1)
    made = node.emit(op.strided_slice(made, [1], [used], [used + 1]))
    made = _with_base(node, made, base[-1:])
    one = const(np.array(1, "float32"))
    if (array_of(node, "class_weights") >= 0).all():
        least = 0.5
        scores = two_columns(node, made, node.emit(op.subtract(one, made)))
    else:
        least = 0.0
        pair = two_columns(node, made, node.emit(op.negative(made)))
        named = str(node.get("post_transform", "NONE"))
        scores = node.emit(op.sigmoid(pair)) if named == "LOGISTIC" else pair
    above = node.emit(op.greater(made, const(np.array(least, "float32"))))
    places = node.emit(op.squeeze(node.emit(op.astype(above, "int64")), [1]))
    return [labels_of(node, places, "classlabels_int64s"), scores]


ROWS: Final[tuple[Row, ...]] = (
    row("TreeEnsemble", _ensemble, domain=ML, note="PROBIT"),
    row("TreeEnsembleClassifier", _classifier, domain=ML, note="labels that are strings, PROBIT"),
    row("TreeEnsembleRegressor", _regressor, domain=ML, note="PROBIT"),
)
