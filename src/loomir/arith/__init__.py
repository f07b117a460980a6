"""Proofs over index expressions: bounds, residue classes, canonical forms, iterator maps."""

from loomir.arith.analyzer import Analyzer, ConstIntBound
from loomir.arith.bounds.int_set import IntSet
from loomir.arith.bounds.interval import Interval
from loomir.arith.bounds.modular import ModularSet
from loomir.arith.iterators.expr import (
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
)
from loomir.arith.iterators.index_map import IndexMap, is_bijective
from loomir.arith.iterators.inverse import inverse_affine_iter_map
from loomir.arith.iterators.map import (
    IterMapResult,
    detect_iter_map,
    iter_map_simplify,
    normalize_to_iter_sum,
)
from loomir.arith.iterators.size import IterMapError
from loomir.arith.iterators.subspace import DividedIter, SubspaceDivision, subspace_divide

__all__ = [
    "Analyzer",
    "ConstIntBound",
    "DividedIter",
    "IndexMap",
    "IntSet",
    "Interval",
    "IterMapError",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "ModularSet",
    "SubspaceDivision",
    "detect_iter_map",
    "inverse_affine_iter_map",
    "is_bijective",
    "iter_map_simplify",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "subspace_divide",
]
